# SPDX-License-Identifier: Apache-2.0
# The commit log: units, crashes.
check_PROGRAMS += t/unit/test_log t/unit/test_log_faults t/unit/test_log_reuse t/unit/test_log_sort t/unit/test_log_fence t/unit/test_log_seal t/unit/test_log_sorted t/crash/crash_log t/crash/crash_seal
t_unit_test_log_SOURCES = t/unit/test_log.c t/unit/log_lib.h
t_unit_test_log_LDADD = t/lib/libfaults.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_log_faults_SOURCES = t/unit/test_log_faults.c t/unit/log_lib.h
t_unit_test_log_faults_LDADD = t/lib/libfaults.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_log_reuse_SOURCES = t/unit/test_log_reuse.c t/unit/log_lib.h
t_unit_test_log_reuse_LDADD = t/lib/libfaults.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_log_fence_SOURCES = t/unit/test_log_fence.c t/unit/log_lib.h
t_unit_test_log_fence_LDADD = t/lib/libfaults.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_log_seal_SOURCES = t/unit/test_log_seal.c t/unit/log_lib.h
t_unit_test_log_seal_LDADD = t/lib/libfaults.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_log_sorted_SOURCES = t/unit/test_log_sorted.c t/unit/log_lib.h
t_unit_test_log_sorted_LDADD = t/lib/libfaults.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_log_sort_SOURCES = t/unit/test_log_sort.c
t_unit_test_log_sort_LDADD = libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_crash_crash_log_SOURCES = t/crash/crash_log.c t/crash/places.h
t_crash_crash_log_LDADD = t/lib/libfaults.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(TFS_LDFLAGS)
t_crash_crash_seal_SOURCES = t/crash/crash_seal.c t/crash/places.h
t_crash_crash_seal_LDADD = t/lib/libfaults.a libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(TFS_LDFLAGS)
EXTRA_PROGRAMS += t/bench/bench_fence
t_bench_bench_fence_SOURCES = t/bench/bench_fence.c
t_bench_bench_fence_LDADD = libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(TFS_LDFLAGS)
