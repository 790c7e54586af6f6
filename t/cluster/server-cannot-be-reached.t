#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A server is cut off from the master and from the other servers for longer than 30 s, but not from ZooKeeper, the storage and the mounts.
# A master removes it: it ends with status 3, and others take its tablets over.  No acknowledged line is lost, no read is old.  A server
# that the other servers reach stays, although the master does not reach it.
# shellcheck source=t/lib/hosts.sh
. "${SRC:-.}/t/lib/hosts.sh" || exit 1
LIMIT=300
hosts_cluster
ok "a loop appends lines" begin_loop
before=$(cat "$C/processes")
ok "server1 is cut off from the master" sever server1 master1
hold 45
is "$(cat "$C/processes")" "$before" "  no process has ended"
runs "${pid_of[server1]}"
is $? 0 "  it has not ended"
ok "  the loop goes on" goes_on
ok "  the cut heals" heal server1 master1
ok "all servers serve" all_serve
name=$(busiest)
for other in master1 server1 server2 server3; do
	[ $other = "$name" ] || ok "$name is cut off from $other" sever "$name" $other
done
ok "  it ends with status 3" ends_with "$name" 3
like "$(cat "$C/$name.log")" "this process ends" "  with a line"
like "$(cat "$C/master1.log")" "have not reached it for 30 s" "  the master has removed it"
ok "  the loop goes on without it" goes_on
ok "  two servers serve" all_serve 2
for other in master1 server1 server2 server3; do
	[ $other = "$name" ] || heal "$name" $other
done
start_on "$name"
ok "  the cuts heal, and it starts again" all_serve
ok "  the loop goes on" goes_on
end_loop
ok "each table's tablets follow each other, and none is served twice" wait_for "the tablets" tablets_are_exact
hosts_end
