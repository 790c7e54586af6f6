# SPDX-License-Identifier: Apache-2.0
# Fills large stores and measures bounds: for t/bench/big.sh and t/55-memory-and-waits-are-bounded.t.
check_PROGRAMS += t/bench/fill_big
t_bench_fill_big_SOURCES = t/bench/fill_big.c
t_bench_fill_big_LDADD = libengine.la -lpthread $(TFS_LDFLAGS)
