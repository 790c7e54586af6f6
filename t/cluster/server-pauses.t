#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A server that is stopped for 2.5 s continues: no process ends, rows wait.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
cluster_mounted
ok "a loop appends lines" begin_loop
before=$(cat "$C/processes")
for name in server1 server2 server3; do
	signal $name STOP
	hold 2.5
	signal $name CONT
	ok "$name pauses: the loop goes on" goes_on
done
is "$(cat "$C/processes")" "$before" "no process ends"
ok "all servers serve" all_serve
end_loop
end_cluster
