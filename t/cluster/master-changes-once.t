#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The leading master is stopped and killed in the middle of mkdir, rmdir, snapshots and clones: each succeeds, and is carried out once.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
cluster_mounted --masters 2
leads() { awk -v a="$(listed | awk '$5 == "master" { print $1 }')" '$2 == a { print $1 }' "$C/members"; }
mkdir "$M/empty"
: >"$W/failed"
changed() { "$@" || echo "$*" >>"$W/failed"; }
present() { [ -d "$1" ] || echo "$1 is absent" >>"$W/failed"; }
absent() { [ ! -d "$1" ] || echo "$1 is present" >>"$W/failed"; }
change() { # several kinds at once, each with tables of its own
	local n=0
	while [ ! -e "$W/enough" ]; do
		n=$((n + 1))
		case $1 in
		table)
			changed mkdir "$M/made$n" && present "$M/made$n"
			changed rmdir "$M/made$n" && absent "$M/made$n"
			;;
		snapshot)
			changed mkdir "$M/t/.snap/s$n" && present "$M/t/.snap/s$n"
			changed rmdir "$M/t/.snap/s$n" && absent "$M/t/.snap/s$n"
			;;
		clone)
			echo "clone copy$n" >"$M/empty/.ctl" || echo "clone copy$n" >>"$W/failed"
			present "$M/copy$n"
			changed rmdir "$M/copy$n"
			;;
		family)
			changed mkdir -p "$M/t/r/g$n" && changed sh -c "echo x >'$M/t/r/g$n/c' && [ \"\$(cat '$M/t/r/g$n/c')\" = x ]"
			;;
		esac
		echo $n >>"$W/$1.done"
	done
}
kinds="table snapshot clone family"
for kind in $kinds; do
	: >"$W/$kind.done"
	change $kind 2>"$W/$kind.err" &
	loops+=($!)
done
all_go_on() {
	local kind from
	for kind in $kinds; do
		from=$(wc -l <"$W/$kind.done")
		wait_for "$kind" eval "[ \$(wc -l <'$W/$kind.done') -ge $((from + 3)) ]" || return 1
	done
}
ok "tables, snapshots, clones and families are made" all_go_on
for round in $(seq "${ROUNDS:-2}"); do
	name=$(leads) was=$(process "$(leads)")
	kill -STOP "$was"
	ok "$name is stopped: all go on" all_go_on
	kill -CONT "$was"
	ok "  it ends when it continues" wait_for "its end" is_replaced "$name" "$was"
	wait_for "a master" eval "[ -n \"\$(leads)\" ]"
	name=$(leads) was=$(process "$(leads)")
	ok "$name is killed" ctl cluster kill "$name" "$C"
	ok "  all go on" all_go_on
	ok "  it is started again" wait_for "its successor" is_replaced "$name" "$was"
	wait_for "a master" eval "[ -n \"\$(leads)\" ]"
done
: >"$W/enough"
wait "${loops[@]}"
is "$(cat "$W/failed")" "" "each change succeeded, and was carried out once"
cat "$W"/{table,snapshot,clone,family}.err | head -5 | diag
is "$(ls "$M" "$M/t/.snap" | grep -c '^made\|^copy\|^s[0-9]')" 0 "none is left"
end_cluster
