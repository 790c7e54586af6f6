#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Of two masters one leads.  When it is stopped, the other takes over, and the first ends with status 3 when it continues.  Tables of both
# terms exist.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
cluster_mounted --masters 2
leads() { awk -v a="$(listed | awk '$5 == "master" { print $1 }')" '$2 == a { print $1 }' "$C/members"; }
ok "a loop appends lines" begin_loop
for round in $(seq "${ROUNDS:-1}"); do
	name=$(leads) was=$(process "$(leads)")
	ok "a table, while $name leads" mkdir "$M/before$round"
	kill -STOP "$was"
	ok "  when it is stopped, another master leads" wait_for "the other master" eval "[ -n \"\$(leads)\" ] && [ \"\$(leads)\" != $name ]"
	ok "  a table can be made" t mkdir "$M/after$round"
	kill -CONT "$was"
	ok "  it ends when it continues" wait_for "its end" is_replaced "$name" "$was"
	is "$(grep -c "cluster: $name has ended (status 3)" "$W/cluster.err")" 1 "  with status 3"
	: >"$W/cluster.err"
	for table in before after; do ok "  the table $table$round exists" sh -c "mkdir -p '$M/$table$round/r/f' && echo x >'$M/$table$round/r/f/c'"; done
	ok "  the loop goes on" goes_on
done
end_loop
end_cluster
