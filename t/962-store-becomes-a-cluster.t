#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletctl adopt makes an embedded store a cluster's, with all cells, also after it was killed again and again; tabletctl init
# makes an empty cluster.  Embedded mounts, check and repair refuse the directory of a cluster, and programs of a cluster
# refuse what is none.
# shellcheck source=t/lib/cluster.sh disable=SC2119
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
OVER=
mount_store
ok "a store" mkdir -p "$M/t/r/f"
seq 20000 >"$M/t/r/f/seq"
for i in {1..30}; do echo "$i" >"$M/t/r/f/q$i"; done
ok "  with two versions of a cell" sh -c "echo again >'$M/t/r/f/q1'"
tree "$M/t" >"$W/before"
kill_daemon # adopt replays its log
ok "a cluster, for its ZooKeeper" start_cluster
z=$(awk '/^zookeeper1/ { print $2 }' "$C/members")
keys=$W/keys
mkdir "$keys"
fails "adopt refuses what is no store" "has no store" ctl adopt "$W" "zk://$z/nostore" "$keys"
mkdir -p "$W/nas/.snapshot" "$W/nas/lost+found"
ok "init takes a directory with names that storage adds" ctl init "zk://$z/nas" "$W/nas" "$keys"
fails "init refuses a store" "has a store already" ctl init "zk://$z/taken" "$D" "$keys"
for delay in 0.02 0.05 0.1 0.2 0.4; do timeout -s KILL $delay "$TABLETCTL" adopt "$D" "zk://$z/mine" "$keys" >/dev/null 2>&1; done
ok "adopt finishes after it was killed" ctl adopt "$D" "zk://$z/mine" "$keys"
ok "  and changes nothing more" ctl adopt "$D" "zk://$z/mine" "$keys"
fails "  no other cluster gets the directory" "belongs to the cluster" ctl adopt "$D" "zk://$z/other" "$keys"
fails "an embedded mount refuses it" "belongs to the cluster" t "$TABLETFS" "$D" "$M"
for verb in check repair "repair --write"; do
	# shellcheck disable=SC2086
	fails "$verb refuses it" "the directory of a cluster" ctl $verb "$D"
done
fails "a mount names servers" "a mount names the servers: tls://" t "$TABLETFS" "zk://$z/mine/$D" "$M"
a=127.0.0.1:$(free_port)
b=127.0.0.1:$(free_port)
o=keys=$keys/mine.cluster.keys
fails "a server refuses a directory without a marker" "has no file 'cluster'" t "$SERVER" -f -o "listen=$a,$o" "zk://$z/mine" "$keys"
fails "  or another cluster's" "belongs to the cluster" t "$SERVER" -f -o "listen=$a,keys=$C/local.cluster.keys" "zk://$z/local" "$D"
fails "  or a key of mounts" "not one of role cluster" t "$SERVER" -f -o "listen=$a,keys=$keys/mine.mount.keys" "zk://$z/mine" "$D"
fails "  or no address" "listen: must be" t "$SERVER" -f -o "$o" "zk://$z/mine" "$D"
fails "a master refuses them as well" "has no file 'cluster'" t "$BUILD/tabletfs-master" -o "listen=$a,$o" "zk://$z/mine" "$keys"
fails "another key is refused" "ZooKeeper refuses the key" t "$SERVER" -f -o "listen=$a,keys=$C/local.cluster.keys" "zk://$z/mine" "$D"
ok "its server and master serve it" own_cluster mine "$D"
ok "  to a mount" mount_cluster
tree "$M/t" >"$W/after"
same "$W/before" "$W/after" "  with all cells, times and modes"
is "$(md5sum <"$M/t/r/f/seq")" "$(seq 20000 | md5sum)" "  and contents"
ok "  it can be changed" sh -c "echo new >'$M/t/r/f/new'"
end_own
