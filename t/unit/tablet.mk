# SPDX-License-Identifier: Apache-2.0
# The tablet: against the model; compactions, failures, concurrency.
check_PROGRAMS += t/unit/test_tablet
t_unit_test_tablet_SOURCES = t/unit/test_tablet.c t/unit/tablet_lib.h
t_unit_test_tablet_LDADD = libcompact.la libtablet.la liblog.la libcell.la libsstable.la t/model/libmodel_ref.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_compact
t_unit_test_compact_SOURCES = t/unit/test_compact.c t/unit/compact_lib.h t/unit/tablet_lib.h
t_unit_test_compact_LDADD = t/lib/libfaults.la libcompact.la libtablet.la liblog.la libcell.la libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_compact_faults
t_unit_test_compact_faults_SOURCES = t/unit/test_compact_faults.c t/unit/compact_lib.h t/unit/tablet_lib.h t/unit/wrap_alloc.h
t_unit_test_compact_faults_LDADD = t/lib/libfaults.la libcompact.la libtablet.la liblog.la libcell.la libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_compact_faults_LDFLAGS = $(wrap_alloc)
check_PROGRAMS += t/unit/test_damage
t_unit_test_damage_SOURCES = t/unit/test_damage.c t/unit/compact_lib.h t/unit/tablet_lib.h
t_unit_test_damage_LDADD = libcompact.la libtablet.la liblog.la libcell.la libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_usage
t_unit_test_usage_SOURCES = t/unit/test_usage.c t/unit/tablet_lib.h
t_unit_test_usage_LDADD = libcompact.la libtablet.la liblog.la libcell.la libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_absent
t_unit_test_absent_SOURCES = t/unit/test_absent.c t/unit/tablet_lib.h
t_unit_test_absent_LDADD = libcompact.la libtablet.la liblog.la libcell.la libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_policy
t_unit_test_policy_SOURCES = t/unit/test_policy.c t/unit/compact_lib.h t/unit/tablet_lib.h
t_unit_test_policy_LDADD = libcompact.la libtablet.la liblog.la libcell.la libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS) -lm
check_PROGRAMS += t/unit/test_samples
t_unit_test_samples_SOURCES = t/unit/test_samples.c t/unit/tablet_lib.h t/unit/wrap_alloc.h
t_unit_test_samples_LDADD = libcompact.la libtablet.la liblog.la libcell.la libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_samples_LDFLAGS = $(wrap_alloc)
