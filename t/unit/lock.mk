# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += t/unit/test_lock
t_unit_test_lock_SOURCES = t/unit/test_lock.c
t_unit_test_lock_LDADD = liblock.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
