#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A server that is stopped for longer than its session is replaced.  When it continues, it ends with status 3.  No acknowledged line is
# lost, no read is old.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
cluster_mounted
ok "a loop appends lines" begin_loop
for _ in $(seq "${ROUNDS:-1}"); do
	name=$(busiest) was=$(process "$(busiest)")
	signal "$name" STOP
	ok "$name is stopped: the loop goes on" goes_on
	ok "  without it" wait_for "its successor" eval "! listed | grep -q \"$(awk -v n="$name" '$1 == n { print $2 }' "$C/members") \""
	kill -CONT "$was"
	ok "  it ends when it continues" wait_for "its end" is_replaced "$name" "$was"
	like "$(cat "$C/$name.log")" "this process ends" "  with a line in its log"
	is "$(grep -c "cluster: $name has ended (status 3)" "$W/cluster.err")" 1 "  and status 3"
	ok "  and is started again" all_serve
	ok "  the loop goes on" goes_on
	: >"$W/cluster.err"
done
end_loop
end_cluster
