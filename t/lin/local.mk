# SPDX-License-Identifier: Apache-2.0
# The checker of linearizability.
check_LTLIBRARIES += %D%/liblin.la
%C%_liblin_la_SOURCES = %D%/check.c %D%/check.h %D%/client.c %D%/client.h %D%/explain.c %D%/lin.h %D%/record.c %D%/values.c %D%/values.h
%C%_liblin_la_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
if HAVE_CMOCKA
check_PROGRAMS += t/unit/test_lin
t_unit_test_lin_SOURCES = t/unit/test_lin.c
t_unit_test_lin_LDADD = t/lin/liblin.la $(CMOCKA_LIBS)
endif
