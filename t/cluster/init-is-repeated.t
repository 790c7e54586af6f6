#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletctl init that was killed at any time is finished by a second one.  Servers and masters refuse a directory or a service without a
# marker, the directory of another cluster, and an embedded store.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
ok "a cluster, for its ZooKeeper" start_cluster
z=$(awk '/^zookeeper1/ { print $2 }' "$C/members")
keys=$W/keys
mkdir "$keys"
a=127.0.0.1:$(free_port)
b=127.0.0.1:$(free_port)

# Each round kills one init later than the one before, and the last one ends.
kills=0
for delay in 0.005 0.01 0.015 0.02 0.03 0.04 0.06 0.08 0.1 0.15 0.2 0.3; do
	for name in one again; do # a new cluster in each round, and one that is killed in all
		at=$name
		[ $name = again ] || at=one$kills
		timeout -s KILL $delay "$TABLETCTL" init "zk://$z/$at" "$W/$at" "$keys" >/dev/null 2>&1
	done
	kills=$((kills + 1))
done
bad=
for ((i = 0; i < kills; i++)); do t "$TABLETCTL" init "zk://$z/one$i" "$W/one$i" "$keys" >>"$W/init.out" 2>&1 || bad="$bad $i"; done
is "$bad" "" "each init that was killed is finished by a second one"
diag <"$W/init.out"
ok "  also one that was killed again and again" ctl init "zk://$z/again" "$W/again" "$keys"
ok "  a further one changes nothing" ctl init "zk://$z/again" "$W/again" "$keys"
is "$(stat -c %a "$keys"/again.*.keys | sort -u)" 600 "  its keys are private"

# ---- refusals ----
server() { t "$SERVER" -f -o "listen=$a,keys=$keys/$1.cluster.keys" "zk://$z/$1" "$2"; }
master() { t "$BUILD/tabletfs-master" -o "listen=$a,keys=$keys/$1.cluster.keys" "zk://$z/$1" "$2"; }
mkdir "$W/empty"
cp "$keys/again.cluster.keys" "$keys/nowhere.cluster.keys"
mount_embedded() {
	"$TABLETFS" -f "$D" "$M" >"$W/daemon.out" 2>"$W/daemon.err" </dev/null &
	daemon=$!
	wait_for "the mount" mount_answers
}
mkdir -p "$D"
ok "an embedded store" mount_embedded
t fusermount3 -u "$M"
wait_daemon
for program in server master; do
	fails "a $program refuses a directory without a marker" "has no file 'cluster'" $program again "$W/empty"
	fails "  another cluster's" "belongs to the cluster" $program again "$W/one1"
	fails "  an embedded store" "cluster" $program again "$D"
	fails "  a service without a marker" "cluster" $program nowhere "$W/again"
done
fails "init refuses an embedded store" "has a store already" ctl init "zk://$z/taken" "$D" "$keys"
fails "  and another cluster's directory" "belongs to the cluster" ctl init "zk://$z/taken" "$W/again" "$keys"

# ---- what was finished serves ----
ok "the repeated cluster serves" own_cluster again "$W/again"
ok "  to a mount" mount_cluster
ok "  that writes" sh -c "mkdir -p '$M/t/r/f' && echo x >'$M/t/r/f/c'"
is "$(cat "$M/t/r/f/c")" x "  and reads"
end_own
