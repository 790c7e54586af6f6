#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A server that is cut off from ZooKeeper pauses, and others take its tablets over.  When the cut heals it ends with status 3.  No
# acknowledged line is lost, no read is old.
# shellcheck source=t/lib/hosts.sh
. "${SRC:-.}/t/lib/hosts.sh" || exit 1
LIMIT=300
hosts_cluster
ok "a loop appends lines" begin_loop
name=$(busiest)
ok "$name is cut off from ZooKeeper" sever "$name" zookeeper1
ok "  it is taken for dead" wait_for "its end" no_session "$name"
ok "  the loop goes on without it" goes_on
runs "${pid_of[$name]}"
is $? 0 "  it has not ended: it waits for ZooKeeper"
ok "  the cut heals" heal "$name" zookeeper1
ok "  it ends with status 3" ends_with "$name" 3
like "$(cat "$C/$name.log")" "this process ends" "  with a line"
start_on "$name"
ok "  it starts again" all_serve
ok "  the loop goes on" goes_on
ok "the master is cut off from ZooKeeper" sever master1 zookeeper1
hold 8
ok "  the loop goes on" goes_on
heal master1 zookeeper1
ok "  it ends with status 3" ends_with master1 3
start_on master1
ok "  a table can be made by the next one" t mkdir "$M/t2"
end_loop
hosts_end
