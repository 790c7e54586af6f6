# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += t/unit/test_blockfile t/unit/test_sstable t/unit/test_sstable_faults
t_unit_test_blockfile_SOURCES = t/unit/test_blockfile.c
t_unit_test_blockfile_LDADD = libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_sstable_SOURCES = t/unit/test_sstable.c t/unit/sstable_lib.h t/unit/dir.h
t_unit_test_sstable_LDADD = libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_sstable_faults_SOURCES = t/unit/test_sstable_faults.c t/unit/sstable_lib.h t/unit/dir.h
t_unit_test_sstable_faults_LDADD = libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
t_unit_test_sstable_faults_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
EXTRA_PROGRAMS += t/bench/bench_sstable
t_bench_bench_sstable_SOURCES = t/bench/bench_sstable.c
t_bench_bench_sstable_LDADD = libsstable.la libbase.la $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_walk
t_unit_test_walk_SOURCES = t/unit/test_walk.c t/unit/sstable_lib.h
t_unit_test_walk_LDADD = libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_sstable_cache
t_unit_test_sstable_cache_SOURCES = t/unit/test_sstable_cache.c t/unit/sstable_lib.h t/unit/dir.h
t_unit_test_sstable_cache_LDADD = libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_table_cache
t_unit_test_table_cache_SOURCES = t/unit/test_table_cache.c t/unit/sstable_lib.h t/unit/dir.h
t_unit_test_table_cache_LDADD = libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
check_PROGRAMS += t/unit/test_versions
t_unit_test_versions_SOURCES = t/unit/test_versions.c t/unit/dir.h
t_unit_test_versions_LDADD = libsstable.la libbase.la $(CMOCKA_LIBS) $(TFS_LDFLAGS)
