#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every I/O call and every n-th allocation of a fixed workload fails in turn.
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
one --io --stride "${FAULT_STRIDE:-1}"
one --io --errno ENOSPC --stride "${FAULT_STRIDE:-3}"
one --memory --stride "${FAULT_STRIDE:-23}"
echo "1..$n"
