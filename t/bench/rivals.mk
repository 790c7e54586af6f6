# SPDX-License-Identifier: Apache-2.0
# tabletctl with RocksDB among the rivals of its benches; for t/28-bench-prints-each-figure.t, too.
if HAVE_ROCKSDB
check_PROGRAMS += t/bench/rivals
t_bench_rivals_SOURCES = $(tabletctl_parts) t/bench/rocksdb.c
nodist_EXTRA_t_bench_rivals_SOURCES = t/bench/dummy_program.cc
t_bench_rivals_LDADD = libengine.la -lleveldb -lrocksdb -lm $(TFS_LDFLAGS)
endif
