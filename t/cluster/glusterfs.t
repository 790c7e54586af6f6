#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# GlusterFS as the storage of a cluster.  Three servers have a mount of a replicated volume each.  With the safe options of
# tabletfs-cluster(7) they probe each other and serve; a server or a master with the default options of a mount does not start, and
# says what it sees.  Nothing acknowledged is lost when a server is killed, when a brick is, and when the volume is full.
# shellcheck source=t/lib/glusterfs.sh
. "${SRC:-.}/t/lib/glusterfs.sh" || exit 1
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
declare -A pids=()
end_all() {
	[ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null
	umount -l "$C/data" "$W/mount2" "$W/mount3" "$W/default" "$W/bricks" /var/lib/glusterd 2>/dev/null
	clean_up
}
trap end_all EXIT
begin_volume 250m
ok "a mount" mount_volume "$C/data" "${safe_mount[@]}"
for n in 2 3; do ok "  a further one" mount_volume "$W/mount$n" "${safe_mount[@]}"; done
ok "  one with the default options" mount_volume "$W/default"
ok "a cluster of one server starts" start_cluster --servers 1
[ -n "$server" ] || exit 1
z=$(awk '/^zookeeper1/ { print $2 }' "$C/members")
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
further_server() {
	address=127.0.0.1:$(free_port)
	"$SERVER" -f -o "listen=$address,keys=$C/local.cluster.keys" "zk://$z/local" "$W/mount$1" >"$C/server$1.log" 2>&1 </dev/null &
	pids[$1]=$!
	CLUSTER=$CLUSTER,$address
}
further_server 2
further_server 3
mount_cluster
ok "three servers serve" all_serve
for n in 2 3; do
	is "$(grep -c "$W/mount$n: safe; the other side of the probe was the server at" "$C/server$n.log")" 1 "server $n was probed with another one"
done
ok "the master, which began before any server, has probed with one" wait_for "its line" grep -q "safe; the other side of the probe was" "$C/master1.log"
is "$(find "$C/data" -maxdepth 1 -name 'probe-*')" "" "no file of a probe is left"
for name in "$SERVER" "$BUILD/tabletfs-master"; do
	t "$name" -f -o "listen=127.0.0.1:$(free_port),keys=$C/local.cluster.keys" "zk://$z/local" "$W/default" >"$W/default.out" 2>&1
	like $? '^[1-9][0-9]?$' "$(basename "$name") does not start with the default options of a mount"
	like "$(cat "$W/default.out")" "$W/default: this storage is not safe: [a-z ]+: .* tries, the first at .*--entry-timeout=0" "  it names the property, the directory and the options"
	grep 'not safe' "$W/default.out" | diag
done

# ---- failures ----
ok "a table" mkdir -p "$M/t/r/f"
echo one >"$M/t/r/f/c"
ok "a loop appends lines" begin_loop
for n in 2 3; do
	kill -9 "${pids[$n]}"
	wait "${pids[$n]}" 2>/dev/null
	ok "when server $n is killed, the loop goes on" goes_on
	further_server "$n"
	ok "  another one at its mount serves" all_serve
done
was=$(process server1)
ok "server 1 is killed" ctl cluster kill server1 "$C"
ok "  its successor serves" wait_for "its successor" eval "is_replaced server1 $was && [ \$(serving) -ge 3 ]"
ok "  the loop goes on" goes_on
kill -9 "$(brick 2)"
ok "when a brick is killed, the loop goes on" goes_on
ok "  it is started again" wait_for "the brick" eval "gluster --mode=script volume start V force; [ -n \"\$(brick 2)\" ]"
ok "  the loop goes on" goes_on
end_loop

# ---- a full volume ----
head -c 4000000 /dev/urandom >"$W/bytes"
n=0
while [ $n -lt 200 ] && cp "$W/bytes" "$M/t/r/f/big$n" 2>"$W/cp.err"; do n=$((n + 1)); done
like "$(cat "$W/cp.err")" "No space left on device" "a put fails with ENOSPC after $n files"
ok "a cell can be read" grep -q one "$M/t/r/f/c"
ok "a cell can be removed" rm "$M/t/r/f/big0"
kill -9 "${pids[2]}"
wait "${pids[2]}" 2>/dev/null
further_server 2
ok "a server that was killed starts, and all serve" all_serve
ok "  a cell can be read" cmp "$W/bytes" "$M/t/r/f/big1"
is "$(cat "$M/t/r/f/big0" 2>&1 | grep -c 'No such file')" 1 "  the removed cell is absent"
mount -o remount,size=2000m "$W/bricks"
ok "with space again, a put works" wait_for "a put" cp "$W/bytes" "$M/t/r/f/more"
ok "  and is there" cmp "$W/bytes" "$M/t/r/f/more"

unmount_second
t fusermount3 -u "$M"
wait_daemon
for n in 2 3; do
	kill "${pids[$n]}"
	wait "${pids[$n]}"
	is $? 0 "server $n ends well"
done
pids=()
[ $test_failures = 0 ] || show_logs
ok "the cluster is stopped" ctl cluster stop "$C"
wait "$server"
server=
done_testing
