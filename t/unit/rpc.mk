# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += t/unit/test_rpc
t_unit_test_rpc_SOURCES = t/unit/test_rpc.c
t_unit_test_rpc_LDADD = librpc.la libschema.la libstore.la libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
