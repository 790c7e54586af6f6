# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += t/unit/test_schema
t_unit_test_schema_SOURCES = t/unit/test_schema.c
t_unit_test_schema_LDADD = libschema.la libcompact.la libtablet.la liblog.la libcell.la libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
