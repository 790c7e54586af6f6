#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two mounts and the library use the same rows of a cluster while servers, the master and ZooKeeper are killed and stopped, for
# KILL_SECONDS (40): each row's history has an order in which every answer is right (t/lin).
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=$((900 + ${KILL_SECONDS:-40}))
seconds=${KILL_SECONDS:-40} RANDOM=${TEST_SEED:-1}
echo "# seed ${TEST_SEED:-1}"
cluster_mounted
mkdir -p "$M/t/.families/f" "$M/t/.families/g"
ok "a second mount" mount_second
"$BUILD/t/lib/lin_files" "$M" "$M2" "$CLUSTER" "$seconds" "${TEST_SEED:-1}" >"$W/lin.out" 2>&1 &
writers=$!
kills=0 stops=0
names=(server1 server2 server3 server1 server2 server3 master1 zookeeper1)
while runs $writers; do
	hold "$((RANDOM % 3)).$((RANDOM % 9 + 1))"
	name=${names[RANDOM % 8]} pid=$(process "$name")
	[ -n "$pid" ] || continue
	case $((RANDOM % 3)) in
	0 | 1)
		kill -9 "$pid" && kills=$((kills + 1))
		wait_for "$name" is_replaced "$name" "$pid"
		;;
	2)
		kill -STOP "$pid" && stops=$((stops + 1))
		hold "$((RANDOM % 8)).$((RANDOM % 9 + 1))"
		kill -CONT "$pid"
		;;
	esac
done
histories_end
ok "all servers serve" all_serve
end_cluster
