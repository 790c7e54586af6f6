#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# After a power cut or SIGKILL at any file operation of a random history, the
# next start finds every acknowledged mutation, and each other one completely or
# not at all.  CRASH_POINTS (400) power cuts; a fifth as many kills; a tenth as
# many power cuts in the process after a killed one; a fifth as many at each
# operation of changes of tables, schemas, snapshots and tablets, each kind of
# which must occur; and a kill and two power cuts at each named durable step of such a
# change.  A slice of at most 4,000 points has a TAP line and seeds of its own,
# so that a slice that failed can be run again alone.  make check-crash runs
# 100,000 points.  TEST_SHARE=N runs one in N of them (t/lib/share.h).
cd "${BUILD:-.}" || exit 1
points=$((${CRASH_POINTS:-400} / ${TEST_SHARE:-1}))
: "${CRASH_SEED:=$((1 + ${TEST_SEED:-0} % 1000))}"
jobs=1
if [ "$points" -gt 10000 ]; then
	jobs=$(nproc)
fi
n=0
# one PROGRAM [OPTION...]
one() {
	n=$((n + 1))
	if out=$("t/crash/$@" 2>&1); then
		echo "ok $n - $(echo "$out" | sed -n 's/^ok 1 - //p'), seed $seed"
		[ "$1" != crash_durable ] || echo "$out" | grep ' kills, '
	else
		echo "not ok $n - $*"
		echo "$out" | tail -n 100 | sed 's/^\(# \)*/# /'
	fi
}
# in_bytes POINTS [OPTION...]
in_bytes() {
	left=$1
	shift
	seed=${CRASH_SEED:-1}
	while [ "$left" -gt 0 ]; do
		slice=$left
		[ "$slice" -le 4000 ] || slice=4000
		one crash_store "$@" --points "$slice" --seed "$seed" --jobs "$jobs"
		left=$((left - slice))
		seed=$((seed + 1000))
	done
}
in_bytes "$points"
in_bytes $((points / 5)) --kill
in_bytes $((points / 10)) --twice
seed=1
one crash_durable
CRASH_SEED=1
in_bytes $((${CRASH_POINTS:-400} / 5)) --rare
echo "1..$n"
