# SPDX-License-Identifier: Apache-2.0
# Parts of the master that need no store.
check_PROGRAMS += t/unit/test_balance
t_unit_test_balance_SOURCES = t/unit/test_balance.c
t_unit_test_balance_LDADD = libmaster.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
