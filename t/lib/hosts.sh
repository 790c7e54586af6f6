# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A cluster whose processes have a network namespace each, so that the connections between two of them can be cut.  A test sources this
# file.  The functions of t/lib/cluster.sh work, too, except those that need tabletctl cluster.
#
#	hosts_cluster         starts ZooKeeper, master1 and server1 to server3, and mounts the cluster, with a cell t/r/f/c
#	sever A B, heal A B   A, B: zookeeper1, master1, server1, ..., mount
#	start_on NAME         starts a server or master again
#	ends_with NAME STATUS the process has ended, with this status
#	tablets_are_exact
#	hosts_end             ends all; requires that they end well, and checks the directory
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
[ "$(id -u)" = 0 ] || cannot_run "needs root"
for program in ip nft nsenter java; do has $program || cannot_run "there is no $program"; done
# The names of the namespaces are the test's own.
space=tfs$$
declare -A host_number=([zookeeper1]=1 [master1]=2 [server1]=11 [server2]=12 [server3]=13 [mount]=31)
address_of() { echo "10.98.0.${host_number[$1]}"; }
on() { # NAME COMMAND...
	local name=$1
	shift
	nsenter --net="/run/netns/$space$name" -- "$@"
}
remove_spaces() {
	local name
	for name in wire "${!host_number[@]}"; do ip netns del "$space$name" 2>/dev/null; done
}
make_spaces() {
	local name
	ip netns add "${space}wire" && on wire ip link add bridge type bridge && on wire ip link set bridge up || return 1
	for name in "${!host_number[@]}"; do
		ip netns add "$space$name" && on wire ip link add "$name" type veth peer name eth0 netns "/run/netns/$space$name" &&
			on wire ip link set "$name" master bridge up && on "$name" ip addr add "$(address_of "$name")/24" dev eth0 &&
			on "$name" ip link set eth0 up && on "$name" ip link set lo up &&
			on "$name" nft add table inet cut && on "$name" nft 'add chain inet cut in { type filter hook input priority 0; }' || return 1
	done
}
cut_one() { on "$1" nft add rule inet cut in ip saddr "$(address_of "$2")" drop; }
sever() { cut_one "$1" "$2" && cut_one "$2" "$1"; }
heal() { on "$1" nft flush chain inet cut in && on "$2" nft flush chain inet cut in; }

zk=zk://10.98.0.1:2181/web
processes() { # writes the files of tabletctl cluster, for cluster.sh
	local name
	for name in "${!host_number[@]}"; do
		[ -z "${pid_of[$name]:-}" ] || echo "$name ${pid_of[$name]}"
	done >"$C/processes"
}
declare -A pid_of=()
start_on() {
	local name=$1 program=$SERVER
	[[ $name == server* ]] || program=$BUILD/tabletfs-master
	nsenter --net="/run/netns/$space$name" -- "$program" -f -o "listen=$(address_of "$name"):7000,keys=$C/web.cluster.keys" "$zk" "$C/data" </dev/null >>"$C/$name.log" 2>&1 &
	pid_of[$name]=$!
	processes
}
start_zookeeper() {
	mkdir -p "$C/zookeeper1/data"
	printf '%s\n' tickTime=500 "dataDir=$C/zookeeper1/data" clientPort=2181 clientPortAddress=10.98.0.1 admin.enableServer=false \
		4lw.commands.whitelist=srvr minSessionTimeout=1000 maxClientCnxns=0 >"$C/zookeeper1/conf"
	nsenter --net="/run/netns/${space}zookeeper1" -- java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dzookeeper.forceSync=no -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
		-cp /usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar org.apache.zookeeper.server.quorum.QuorumPeerMain "$C/zookeeper1/conf" \
		</dev/null >"$C/zookeeper1/log" 2>&1 &
	pid_of[zookeeper1]=$!
}
zookeeper_serves() { on mount timeout 1 bash -c 'exec 3<>/dev/tcp/10.98.0.1/2181 && echo srvr >&3 && cat <&3' 2>/dev/null | grep -q ^Mode:; }
servers_answer() { on mount "$TABLETCTL" cluster status "$CLUSTER" 2>/dev/null | grep -c "SERVING" | grep -qx 3; }
hosts_cluster() {
	local name
	trap 'kill -KILL "${pid_of[@]}" 2>/dev/null; remove_spaces; clean_up' EXIT
	make_spaces || cannot_run "network namespaces or nftables do not work"
	mkdir -p "$C"
	chmod 700 "$C"
	start_zookeeper
	wait_for "ZooKeeper" zookeeper_serves || exit 1
	ok "a cluster is made" on mount "$TABLETCTL" init "$zk" "$C/data" "$C"
	cp "$C/web.mount.keys" "$C/keys"
	for name in master1 server1 server2 server3; do
		echo "$name $(address_of $name):7000" >>"$C/members"
		start_on $name
	done
	CLUSTER=tls://10.98.0.11:7000,10.98.0.12:7000,10.98.0.13:7000
	ok "its servers answer" wait_for "the servers" servers_answer
	printf '#!/bin/sh\nexec nsenter --net=/run/netns/%smount -- %s "$@"\n' "$space" "$TABLETFS" >"$W/tabletfs"
	chmod +x "$W/tabletfs"
	TABLETFS=$W/tabletfs
	mount_cluster
	ok "a table" mkdir -p "$M/t/r/f"
	echo one >"$M/t/r/f/c"
	ok "its servers serve" all_serve
}
has_ended() { ! runs "${pid_of[$1]}"; }
ends_with() {
	wait_for "the end of $1" has_ended "$1" || return 1
	wait "${pid_of[$1]}"
	local status=$?
	[ $status = "$2" ] || { echo "its status is $status"; tail -n 3 "$C/$1.log"; return 1; }
}
# Each table's tablets follow each other and are served, and no tablet is served twice.  METADATA has one or two.
tablets_are_exact() {
	py <<'PY'
import glob, os, sys
m, served = os.environ["M"], 0
for name in glob.glob(m + "/*/.tablets"):
    lines = [l.split("\t") for l in open(name).read().splitlines()[1:]]
    served += len(lines)
    borders = ["-"] + [x for l in lines for x in l[:2]] + ["-"]
    if borders[0::2] != borders[1::2] or any(l[3] != "serving" for l in lines):
        print(name, lines)
        sys.exit(1)
lists = sum(int(l.split("\t")[2]) for l in open(m + "/.tabletfs/servers").read().splitlines()[1:] if "SERVING" in l)
print("%d tablets of tables, %d in the servers' lists" % (served, lists))
sys.exit(lists - served not in (1, 2))
PY
}
no_session() { ! listed | grep -q "$(address_of "$1"):"; }
hosts_end() {
	local name
	[ $test_failures = 0 ] || show_logs
	unmount_second
	t fusermount3 -u "$M"
	wait_daemon
	for name in server1 server2 server3 master1; do
		[ -z "${pid_of[$name]:-}" ] || kill "${pid_of[$name]}"
		ok "$name ends" ends_with $name 0
	done
	kill -KILL "${pid_of[zookeeper1]}"
	wait "${pid_of[zookeeper1]}" 2>/dev/null
	server=
	done_testing
}
