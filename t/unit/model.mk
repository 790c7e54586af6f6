# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += t/unit/test_model
t_unit_test_model_SOURCES = t/unit/test_model.c t/unit/test_model_rows.c t/unit/test_model_tables.c t/unit/test_model.h
t_unit_test_model_LDADD = t/model/libmodel.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
