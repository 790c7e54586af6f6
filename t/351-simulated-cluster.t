#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A cluster in one process, with faults: nothing acknowledged is lost or applied
# twice, and all rows can be read after the faults (t/sim).  A seed repeats exactly.
# TEST_SHARE=N runs one in N of the seeds (t/lib/share.h).
cd "${BUILD:-.}" || exit 1
echo 1..2
first=$(t/sim/sim 7 2>/dev/null | head -n 1)
again=$(t/sim/sim 7 2>/dev/null | head -n 1)
case $first in *hash*) ;; *) first="nothing printed" ;; esac
if [ "$first" = "$again" ]; then echo "ok 1 - a seed repeats exactly"; else
	echo "# $first"
	echo "# $again"
	echo "not ok 1 - a seed repeats exactly"
fi
seeds=$((${SIM_SEEDS:-80} / ${TEST_SHARE:-1}))
t/sim/sim -n "$seeds" "${SIM_FIRST:-$((1 + ${TEST_SEED:-0} % ${TEST_SHARE:-1} * seeds))}" >sim.out 2>&1
status=$?
grep -E '^FAIL|^seed|^[0-9]+ seeds|^per|^messages|^faults' sim.out | sed 's/^/# /'
[ $status -eq 0 ] || printf 'not '
echo "ok 2 - $seeds seeds"
exit $status
