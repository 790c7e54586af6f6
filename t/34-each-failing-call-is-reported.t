#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# If any single I/O call or allocation of a fixed workload fails, the call
# reports it and no acknowledged mutation is lost.  Each line tries one call of so
# many; make check-faults (FAULT_STRIDE=1) tries all.
cd "${BUILD:-.}" || exit 1
n=0
one() {
	n=$((n + 1))
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
one --io --compression lz4 --stride "${FAULT_STRIDE:-5}"
one --io --errno ENOSPC --compression zstd --stride "${FAULT_STRIDE:-13}"
one --io --stride "${FAULT_STRIDE:-61}"
one --memory --compression lz4 --stride "${FAULT_STRIDE:-97}"
one --memory --first 12 --stride "${FAULT_STRIDE:-401}"
echo "1..$n"
