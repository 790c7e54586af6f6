#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Power cuts and SIGKILL at the file operations of random histories, and each
# fsync of one left out in turn.  CRASH_POINTS (2000) power cuts and a fifth
# as many kills; make check-crash has 100,000.
cd "${BUILD:-.}" || exit 1
points=${CRASH_POINTS:-2000}
jobs=1
if [ "$points" -gt 10000 ]; then
	jobs=$(nproc)
fi
n=0
one() {
	n=$((n + 1))
	if out=$(t/crash/crash_store "$@" 2>&1); then
		echo "ok $n - $(echo "$out" | sed -n 's/^ok 1 - //p')"
		echo "$out" | grep '^# ' | tail -n 40
	else
		echo "not ok $n - crash_store $*"
		echo "$out" | tail -n 100 | sed 's/^\(# \)*/# /'
	fi
}
one --points "$points" --seed "${CRASH_SEED:-1}" --jobs "$jobs"
one --kill --points $((points / 5)) --seed "${CRASH_SEED:-1}" --jobs "$jobs"
one --skip-sync --seconds "${SKIP_SECONDS:-45}"
echo "1..$n"
