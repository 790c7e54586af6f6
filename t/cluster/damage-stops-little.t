#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A damaged schema, METADATA row or seal stops its table or its tablets, with a line that names it.  Other tables are read and written,
# tables are made, and servers and master go on.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=240
[ -x "$BUILD/t/lib/spoil" ] || cannot_run "t/lib/spoil is not built"
cluster_mounted
metadata=$(awk -v n="$(busiest)" '$1 == n { print $2 }' "$C/members")
server_of() { awk -F '\t' 'END { print $3 }' "$M/$1/.tablets"; } # the address of its only tablet's server
for t in schema row sealed more most; do
	mkdir -p "$M/$t/r/f"
	echo "$t" >"$M/$t/r/f/c"
done
# A server without METADATA has these two.
row= sealed=
for t in row sealed more most; do
	[ "$(server_of $t)" = "$metadata" ] || { row=$sealed; sealed=$t; }
done
diag <<<"METADATA: $metadata, $row: $(server_of "$row"), $sealed: $(server_of "$sealed")"
z=$(awk '/^zookeeper1/ { print $2 }' "$C/members")
spoil() { t "$BUILD/t/lib/spoil" "zk://$z/local$C/data" "$C/local.cluster.keys" "$@"; }
name_of() { awk -v a="$1" '$2 == a { print $1 }' "$C/members"; }
incarnation_of() { listed | awk -v a="$1" '$1 == a { print $2 }'; }
dies() { # ADDRESS: its process is killed, and another incarnation serves
	local name was
	name=$(name_of "$1")
	was=$(process "$name")
	kill -KILL "$was"
	wait_for "the next $name" is_replaced "$name" "$was" && all_serve
}
refused() { ! t cat "$M2/$1/r/f/c" 2>"$W/refused.err" && grep -qE "Input/output error|Protocol error" "$W/refused.err"; }
rest_works() { # SPOILED...: each other table is read and written, and a table is made
	local x
	made=$((${made:-0} + 1))
	x=$M/made$made
	t mkdir -p "$x/r/f" && t dd of="$x/r/f/c" conv=fsync status=none <<<1 || return 1
	for x in schema row sealed more most; do
		[[ " $* " != *" $x "* ]] || continue
		[ "$(t cat "$M2/$x/r/f/c")" = $x ] && t dd of="$M2/$x/r/f/d" conv=fsync status=none <<<"$x" || return 1
	done
}

# ---- a row of METADATA ----
ok "the METADATA row of a tablet is damaged" spoil row "$row"
ok "  its server dies" dies "$(server_of "$row")"
mount_second -o timeout=8s
ok "  the tablet is refused" wait_for "the refusal" refused "$row"
ok "  the rest works" wait_for "the rest" rest_works "$row"
like "$(cat "$C"/master1.log)" "METADATA row.*$row|METADATA.*damage" "  a line names it"

# ---- a seal ----
address=$(server_of "$sealed")
dead=$(incarnation_of "$address")
needed=()
for t in schema row more most sealed; do [ "$(server_of $t)" != "$address" ] || needed+=("$t"); done
was=$(process master1)
signal master1 STOP
kill -KILL "$(process "$(name_of "$address")")"
ok "a seal is damaged" spoil seal "$dead"
kill -CONT "$was"
ok "  its tablets are refused" wait_for "the refusal" refused "$sealed"
ok "  the rest works" wait_for "the rest" rest_works "$row" "${needed[@]}"
like "$(cat "$C"/master1.log "$C"/server*.log)" "seals/$dead" "  a line names it"

# ---- a schema ----
ok "a schema is damaged" spoil schema schema
unmount_second
mount_second -o timeout=8s
ok "  its table is refused" wait_for "the refusal" refused schema
ok "  the rest works" wait_for "the rest" rest_works "$row" "${needed[@]}" schema
like "$(cat "$C"/master1.log "$C"/server*.log "$W/second.err")" "tables/schema" "  a line names it"
end_cluster
