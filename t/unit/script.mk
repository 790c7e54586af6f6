# SPDX-License-Identifier: Apache-2.0
# Scripts.
check_PROGRAMS += t/unit/test_script
t_unit_test_script_SOURCES = t/unit/test_script.c t/unit/script_lib.h
t_unit_test_script_LDADD = libscript.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
