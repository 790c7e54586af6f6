#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The connections between two servers, between the mount and a server, and between the master and a server are cut for some seconds:
# requests wait or are repeated, no process ends, and no acknowledged line is lost.  Tables are made, split and dropped meanwhile, and
# METADATA has each tablet once.
# shellcheck source=t/lib/hosts.sh
. "${SRC:-.}/t/lib/hosts.sh" || exit 1
LIMIT=300
hosts_cluster
ok "a loop appends lines" begin_loop
before=$(cat "$C/processes")
changes=0
change_tables() { # in the background: rows, a split and a merge, a table that is dropped
	changes=$((changes + 1))
	(
		for i in 1 2 3 4 5 6; do
			mkdir -p "$M/s$changes/row$i/f" && echo "$i" >"$M/s$changes/row$i/f/c" || exit 1
		done
		echo "split row3" >"$M/s$changes/.ctl" && echo "split row5" >"$M/s$changes/.ctl" && mkdir "$M/d$changes" && rmdir "$M/d$changes"
	) 2>>"$W/changes.err" &
	changing=$!
}
part() { # A B SECONDS
	ok "$1 and $2 are cut off from each other" sever "$1" "$2"
	change_tables
	hold "$3"
	ok "  the cut heals" heal "$1" "$2"
	ok "  the loop goes on" goes_on
	wait $changing
	is $? 0 "  tables are changed"
	is "$(cat "$M/s$changes"/row*/f/c | tr -d '\n')" 123456 "  their rows are there"
}
part server1 server2 15
part server2 server3 15
name=$(busiest)
part mount "$name" 12
part mount server1 12
part master1 "$name" 12
is "$(cat "$C/processes")" "$before" "no process has ended"
for name in server1 server2 server3 master1; do runs "${pid_of[$name]}" || fail "$name runs"; done
ok "all servers serve" all_serve
end_loop
ok "each table's tablets follow each other, and none is served twice" wait_for "the tablets" tablets_are_exact
hosts_end
