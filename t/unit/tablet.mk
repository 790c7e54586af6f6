# SPDX-License-Identifier: Apache-2.0
# The tablet: against the model; compactions, failures, concurrency; its benchmark.
check_PROGRAMS += t/unit/test_tablet
t_unit_test_tablet_SOURCES = t/unit/test_tablet.c t/unit/tablet_lib.h
t_unit_test_tablet_LDADD = libstore.la libsstable.la t/model/libmodel_ref.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
