# SPDX-License-Identifier: Apache-2.0
# Benchmarks.  fill_big serves big.sh and t/55-memory-and-waits-are-bounded.t, tabletbench serves
# t/28-bench-prints-each-figure.t and compression.sh, wire compares connections.  None is installed.
check_PROGRAMS += t/bench/fill_big t/bench/tabletbench
t_bench_fill_big_SOURCES = t/bench/fill_big.c
t_bench_fill_big_LDADD = libengine.a -lpthread $(TFS_LDFLAGS)
t_bench_tabletbench_SOURCES = %D%/compare/bench.h %D%/compare/main.c %D%/compare/run.c %D%/compare/feed.c %D%/compare/paper.c %D%/compare/log.c \
	%D%/compare/writers.c %D%/compare/ycsb.c %D%/compare/amplify.c %D%/compare/recovery.c %D%/compare/compression.c \
	%D%/compare/pages.h %D%/compare/pages.c %D%/compare/ours.c %D%/compare/leveldb.c %D%/compare/sides.c
t_bench_tabletbench_LDADD = libengine.a -lm $(TFS_LDFLAGS)
if HAVE_ROCKSDB
t_bench_tabletbench_SOURCES += %D%/compare/rocksdb.c
t_bench_tabletbench_LDADD += -lrocksdb
bench_rocksdb = -DHAVE_ROCKSDB
endif
t_bench_tabletbench_CPPFLAGS = $(AM_CPPFLAGS) $(bench_rocksdb)
check_PROGRAMS += t/bench/wire
t_bench_wire_SOURCES = t/bench/wire.c
t_bench_wire_LDADD = libengine.a -lpthread $(TFS_LDFLAGS)
EXTRA_PROGRAMS += t/bench/writers
t_bench_writers_SOURCES = t/bench/writers.c
t_bench_writers_LDADD = libengine.a -lpthread $(TFS_LDFLAGS)
EXTRA_PROGRAMS += t/bench/recovered
t_bench_recovered_SOURCES = t/bench/recovered.c
t_bench_recovered_LDADD = libengine.a -lpthread $(TFS_LDFLAGS)
EXTRA_DIST += t/bench/cluster
