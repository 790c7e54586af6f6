#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The scripts of mount tests pass on a mount that reaches its store through the socket of
# tabletfs-server, as on one that has opened the store itself.
# WIRE=all runs all scripts (make check-wire), else a few.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
few="40 42 44 60 63 78"
# What a script is about is in the process that has the store, or it starts its daemons by itself.
not="41 45 48 481 482 483 49 51 53 54 55 59 61 64 65 66 71 72 73 75 76 79 80 81 83 85 86 87 88 89 90 91 911 912 915 916 917 918"
if [ "${WIRE:-}" = all ]; then
	few=
	for f in "$SRC"/t/[4-9]*.t; do
		n=${f##*/} n=${n%%-*}
		[[ " $not 92 93 94 941 95 " == *" $n "* ]] || few="$few $n"
	done
fi
for n in $few; do
	script=("$SRC/t/$n"-*.t)
	if OVER=unix TMPDIR=$W "${script[0]}" >"$W/$n.out" 2>&1; then
		pass "$(basename "${script[0]}" .t)"
	else
		fail "$(basename "${script[0]}" .t)"
		grep -A 6 '^not ok' "$W/$n.out" | diag
		tail -n 3 "$W/$n.out" | diag
	fi
done
done_testing
