# SPDX-License-Identifier: Apache-2.0
# The checker of linearizability.
check_LIBRARIES += %D%/liblin.a
%C%_liblin_a_SOURCES = %D%/check.c %D%/check.h %D%/client.c %D%/client.h %D%/explain.c %D%/lin.h %D%/record.c %D%/values.c %D%/values.h
%C%_liblin_a_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
if HAVE_CMOCKA
check_PROGRAMS += t/unit/test_lin
t_unit_test_lin_SOURCES = t/unit/test_lin.c
t_unit_test_lin_LDADD = t/lin/liblin.a $(CMOCKA_LIBS)
endif
