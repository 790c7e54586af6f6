#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Servers are killed while tables are made and removed without a pause, by two mounts: no mkdir or rmdir fails, the loop of appends
# goes on after each kill, and afterwards each table that was made is there, with its row, and no other.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
cluster_mounted
ok "a loop appends lines" begin_loop
changes() { # MOUNT NAME: every fourth table stays
	local n=0 x
	while [ ! -e "$W/enough" ]; do
		n=$((n + 1))
		x=$1/$2$n
		mkdir -p "$x/r/f" && echo "$n" | dd of="$x/r/f/c" conv=fsync status=none || continue
		if [ $((n % 4)) = 0 ]; then echo "$2$n" >>"$W/kept"; else rm -r "$x/r" && rmdir "$x"; fi
		echo "$n" >>"$W/changed.$2"
	done 2>>"$W/changes.err"
}
changes "$M" a &
first=$!
changes "$M2" b &
other=$!
changed() { wc -l <"$W/changed.$1" 2>/dev/null || echo 0; }
change_goes_on() { # NAME
	local from
	from=$(changed "$1")
	wait_for "tables" eval "[ \$(changed $1) -ge $((from + 4)) ]"
}
ok "tables are made and removed" change_goes_on a
for name in server1 server2 server3; do
	was=$(process "$name")
	ok "$name is killed" ctl cluster kill "$name" "$C"
	ok "  it is started again" wait_for "$name" is_replaced "$name" "$was"
	ok "  the loop goes on" goes_on
	ok "  tables are made and removed through both mounts" eval "change_goes_on a && change_goes_on b"
done
: >"$W/enough"
wait $first $other
is "$(cat "$W/changes.err")" "" "no mkdir, write or rmdir has failed"
is "$(ls "$M" | grep -v '^t$' | sort)" "$(sort "$W/kept")" "the tables that were kept are there, and no others"
is "$(while read -r x; do [ "$(cat "$M/$x/r/f/c")" = "${x#?}" ] || echo "$x"; done <"$W/kept")" "" "  each with its row"
end_loop
end_cluster
