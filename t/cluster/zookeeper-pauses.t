#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ZooKeeper that is silent for 3 s, and of an ensemble a leader that is killed, end no process: reads and writes wait and continue.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
cluster_mounted --zookeeper 3
leader() {
	local n
	for n in 1 2 3; do
		t bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0" && echo srvr >&3 && cat <&3' "$(awk -v n=zookeeper$n '$1 == n { sub(/.*:/, "", $2); print $2 }' "$C/members")" 2>/dev/null |
			grep -q '^Mode: leader' && echo zookeeper$n && return
	done
	return 1
}
ours() { grep -v zookeeper "$C/processes"; }
# A process ends if ZooKeeper has ended its session, which is longer than an election and the pause unless the machine is slow.
live_on() {
	[ "$(ours)" = "$before" ] || grep -q 'Expiring session' "$C"/zookeeper*.log || return 1
	before=$(ours)
}
ok "a loop appends lines" begin_loop
before=$(ours)
name=$(leader)
ok "the leader of ZooKeeper, $name, is killed" ctl cluster kill "$name" "$C"
ok "  the loop goes on" goes_on
ok "  there is another leader" wait_for "a leader" leader
hold 5
ok "  no process of ours ends whose session lives" live_on
for n in 1 2 3; do signal zookeeper$n STOP; done
hold 3
for n in 1 2 3; do signal zookeeper$n CONT; done
ok "all of ZooKeeper pauses for 3 s: the loop goes on" goes_on
hold 5
ok "  no process of ours ends whose session lives" live_on
ok "  the loop goes on" goes_on
ok "all servers serve" all_serve
end_loop
end_cluster
