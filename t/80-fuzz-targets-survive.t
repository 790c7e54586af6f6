#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No fuzz target crashes or fails on a bounded number of seeded inputs.
cd "${BUILD:-.}" || exit 1
n=0
for src in "${SRC:-.}"/t/fuzz/fuzz_*.c; do
	name=$(basename "$src" .c)
	n=$((n + 1))
	if out=$("t/fuzz/$name" --seconds "${FUZZ_SECONDS:-2}" --seed "${FUZZ_SEED:-1}" 2>&1); then
		echo "ok $n - $(echo "$out" | sed -n 's/^ok 1 - //p')"
	else
		echo "not ok $n - $name"
		echo "$out" | tail -n 30 | sed 's/^/# /'
	fi
done
echo "1..$n"
[ "$n" -gt 0 ]
