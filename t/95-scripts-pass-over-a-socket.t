#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The scripts of mount tests pass on a mount that reaches its store through the socket of
# tabletfs-server, and README's session on the mount of a cluster, as on one that has opened the store itself.
# WIRE=all runs all scripts (make check-wire), else a few.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
few="40 42 44 60 63 78 781"
# What a script is about is in the process that has the store, or it starts its daemons by itself.
not="41 45 48 481 482 483 49 51 53 54 55 59 61 64 65 66 71 72 73 75 76 79 80 81 83 85 86 87 88 89 90 91 911 912 915 916 917 918 919"
if [ "${WIRE:-}" = all ]; then
	few=
	for f in "$SRC"/t/[4-9]*.t; do
		n=${f##*/} n=${n%%-*}
		[[ " $not 92 93 94 941 95 " == *" $n "* ]] || few="$few $n"
	done
fi
run() { # OVER NUMBER
	local script=("$SRC/t/$2"-*.t)
	if OVER=$1 TMPDIR=$W "${script[0]}" >"$W/$2.out" 2>&1; then
		pass "$(basename "${script[0]}" .t) over $1"
	else
		fail "$(basename "${script[0]}" .t) over $1"
		grep -A 6 '^not ok' "$W/$2.out" | diag
		tail -n 3 "$W/$2.out" | diag
	fi
}
for n in $few; do run unix "$n"; done
run cluster 40
done_testing
