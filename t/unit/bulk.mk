# SPDX-License-Identifier: Apache-2.0
# Texts of cells, rows and mutations.
check_PROGRAMS += t/unit/test_bulk_escape
t_unit_test_bulk_escape_SOURCES = t/unit/test_bulk_escape.c
t_unit_test_bulk_escape_LDADD = libbulk.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_bulk_line
t_unit_test_bulk_line_SOURCES = t/unit/test_bulk_line.c
t_unit_test_bulk_line_LDADD = libbulk.a t/model/libmodel.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_bulk_mutation
t_unit_test_bulk_mutation_SOURCES = t/unit/test_bulk_mutation.c
t_unit_test_bulk_mutation_LDADD = libbulk.a t/model/libmodel.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_bulk_import
t_unit_test_bulk_import_SOURCES = t/unit/test_bulk_import.c
t_unit_test_bulk_import_LDADD = libbulk.a t/model/libmodel.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
