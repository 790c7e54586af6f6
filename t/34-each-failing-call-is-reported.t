#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# If any single I/O call or allocation of a fixed workload fails, the call
# reports it and no acknowledged mutation is lost.  Each line tries one call of so
# many; make check-faults (FAULT_STRIDE=1) tries all, TEST_SHARE=N (t/lib/share.h)
# one in N of them.
cd "${BUILD:-.}" || exit 1
n=0
# one STRIDE OPTION...
one() {
	n=$((n + 1))
	stride=$((${FAULT_STRIDE:-$1} * ${TEST_SHARE:-1}))
	shift
	set -- "$@" --stride "$stride" --first $((${first:-1} + ${TEST_SEED:-0} % stride))
	if out=$(t/engine/faults "$@" 2>&1); then
		echo "ok $n - $(echo "$out" | sed -n 's/^ok 1 - //p')"
	else
		echo "not ok $n - faults $*"
		echo "$out" | tail -n 60 | sed 's/^\(# \)*/# /'
	fi
}
# The default compression trains a dictionary in each major compaction, which takes four fifths of a round's time.
# The training makes no I/O call, so the first line tries calls of all of the engine.  It adds 40 allocations;
# t/unit/test_sstable_faults fails each of them.
one 5 --io --compression lz4
one 13 --io --errno ENOSPC --compression zstd
one 61 --io
one 97 --memory --compression lz4
first=12
one 401 --memory
echo "1..$n"
