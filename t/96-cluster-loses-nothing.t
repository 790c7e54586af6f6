#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A cluster of real programs on this host: ZooKeeper, a master, three servers.  While a shell appends lines, each
# server and the master is killed; no line that was acknowledged is lost or doubled, and the loop goes on.
# shellcheck source=t/lib/cluster.sh disable=SC2119
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900

for o in "--servers 0" "--servers x" "--masters -1" "--zookeeper 2"; do
	# shellcheck disable=SC2086
	fails "cluster start $o" "must be" ctl cluster start $o "$W/none"
done
ok "a cluster starts" start_cluster
like "$(cat "$W/cluster.out")" "^tabletfs -o keys=$C/keys tls://127.0.0.1:[0-9]+,127.0.0.1:[0-9]+,127.0.0.1:[0-9]+ MOUNTPOINT\$" "  it prints the command that mounts it"
is "$(stat -c %a "$C/keys" "$C/local.cluster.keys" | tr '\n' ' ')" "600 600 " "  the keys are private"
fails "  it runs once" "runs already" ctl cluster start "$C"
ok "it is mounted" mount_cluster
cd "$M" || exit 1
ok "a table" mkdir -p t/r/f
echo one >t/r/f/c
is "$(cat t/r/f/c)" one "  a cell"
is "$(grep -c 127.0.0.1 .tabletfs/servers)" 4 "/.tabletfs/servers has three servers and the master"
like "$(cat .tabletfs/servers)" "127.0.0.1:[0-9]+.*master" "  the master among them"
like "$(ctl cluster status "$C")" "server1 +127.0.0.1:[0-9]+ +process [0-9]+" "cluster status names the processes"
like "$(cat t/.tablets)" "	127.0.0.1:[0-9]+	serving" ".tablets names the tablet's server"
like "$(ctl status "$CLUSTER")" "^state +SERVING" "tabletctl status of the servers' addresses"
cd /

# ---- kills beside a loop of appends ----
ok "a loop appends lines" begin_loop
for name in server1 server2 server3 master1; do
	ok "$name is killed" ctl cluster kill "$name" "$C"
	ok "  the loop goes on" goes_on
	ok "  all servers serve again" all_serve
done
end_loop

# ---- growing, and a restart ----
like "$(ctl cluster add-server "$C")" "^server4 127.0.0.1:" "a server is added"
ok "  it can be killed by its name at once" ctl cluster kill server4 "$C"
ok "  it serves" all_serve 4
ok "a file" sh -c "seq 1000 >'$M/t/r/f/seq'"
unmount_second
t fusermount3 -u "$M"
wait_daemon
ok "the cluster is stopped" ctl cluster stop "$C"
wait "$server"
is $? 0 "  its exit status"
server=
fails "  it does not run" "no cluster runs" ctl cluster status "$C"
fails "  another number of servers is refused" "has its members already" ctl cluster start --servers 5 "$C"
ok "it starts again" start_cluster
ok "  and is mounted" mount_cluster
is "$(md5sum <"$M/t/r/f/seq")" "$(seq 1000 | md5sum)" "  the file is there"
end_cluster
