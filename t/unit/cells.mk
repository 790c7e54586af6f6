# SPDX-License-Identifier: Apache-2.0
# Cell keys, GC rules, memtable, live cells; their fuzz target and benchmark.
cells_test_libs = libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(CMOCKA_LIBS)
check_PROGRAMS += t/unit/test_cellkey t/unit/test_gc t/unit/test_memtable t/unit/test_merge t/unit/test_live_cells t/unit/test_scan_filter
t_unit_test_cellkey_SOURCES = t/unit/test_cellkey.c t/unit/wrap_alloc.h
t_unit_test_cellkey_LDADD = $(cells_test_libs) $(TFS_LDFLAGS)
t_unit_test_cellkey_LDFLAGS = $(wrap_alloc)
t_unit_test_gc_SOURCES = t/unit/test_gc.c
t_unit_test_gc_LDADD = $(cells_test_libs) $(TFS_LDFLAGS)
t_unit_test_gc_LDFLAGS = -Wl,--wrap=calloc
t_unit_test_memtable_SOURCES = t/unit/test_memtable.c t/unit/wrap_alloc.h
t_unit_test_memtable_LDADD = $(cells_test_libs) $(TFS_LDFLAGS)
t_unit_test_memtable_LDFLAGS = $(wrap_alloc)
t_unit_test_merge_SOURCES = t/unit/test_merge.c
t_unit_test_merge_LDADD = $(cells_test_libs) $(TFS_LDFLAGS)
t_unit_test_merge_LDFLAGS = -Wl,--wrap=calloc
t_unit_test_live_cells_SOURCES = t/unit/test_live_cells.c t/unit/cells_model.c t/unit/cells_model.h t/unit/wrap_alloc.h
t_unit_test_live_cells_LDADD = $(cells_test_libs) $(TFS_LDFLAGS)
t_unit_test_live_cells_LDFLAGS = $(wrap_alloc)

t_unit_test_scan_filter_SOURCES = t/unit/test_scan_filter.c
t_unit_test_scan_filter_LDADD = $(cells_test_libs) $(TFS_LDFLAGS)

EXTRA_PROGRAMS += t/bench/bench_memtable
t_bench_bench_memtable_SOURCES = t/bench/bench_memtable.c
t_bench_bench_memtable_LDADD = libcompact.a libtablet.a liblog.a libcell.a libsstable.a libbase.a $(TFS_LDFLAGS)
