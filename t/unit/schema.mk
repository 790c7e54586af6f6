# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += t/unit/test_schema
t_unit_test_schema_SOURCES = t/unit/test_schema.c
t_unit_test_schema_LDADD = libschema.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
