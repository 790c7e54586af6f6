#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Servers of ZooKeeper for tests, in a directory.
#
# A script sources this file:
#	zookeeper_missing            prints what is not installed; fails if nothing is missing
#	zookeeper_start DIR [COUNT]  starts 1 or 3 servers and waits until they serve; DIR/hosts is "HOST:PORT,..."
#	zookeeper_server DIR N       starts server N (1 to COUNT) again, and does not wait
#	zookeeper_signal DIR N SIG   sends a signal to server N
#	zookeeper_leader DIR         prints the number of the leader, or fails
#	zookeeper_stop DIR           ends all
# A program runs it with DIR COUNT and gets the line HOSTS, or "missing: ...".  Then it writes lines "server N", "signal N SIG" or
# "leader", and gets a line for each, the leader's number or an empty one.  The end of input ends the servers.
#
# Each process has loopback addresses of its own, from its number.  So no ports have to be found.
zookeeper_jars=/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar

zookeeper_missing() {
	command -v java >/dev/null || { echo "java"; return; }
	[ -e "${zookeeper_jars%%:*}" ] || { echo "ZooKeeper (Debian: libzookeeper-java)"; return; }
	return 1
}

zookeeper_server() {
	local dir=$1/$2
	setsid java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dzookeeper.forceSync=no -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
		-cp "$zookeeper_jars" org.apache.zookeeper.server.quorum.QuorumPeerMain "$dir/conf" </dev/null >>"$dir/log" 2>&1 &
	echo $! >"$dir/pid"
	disown
}

# A server's answer to a command of four letters; nothing within a second: it does not serve.
zookeeper_ask() {
	timeout 1 bash -c 'exec 3<>"/dev/tcp/$0/2181" && echo "$1" >&3 && cat <&3' "$(cat "$1/$2/address")" "$3" 2>/dev/null
}

zookeeper_start() {
	local dir=$1 count=${2:-1} n first
	first=$(((BASHPID & 63) * 4))
	for n in $(seq "$count"); do
		mkdir -p "$dir/$n/data"
		echo "$n" >"$dir/$n/data/myid"
		echo "127.$((BASHPID >> 14 & 255)).$((BASHPID >> 6 & 255)).$((first + n))" >"$dir/$n/address"
	done
	for n in $(seq "$count"); do
		{
			printf '%s\n' tickTime=250 initLimit=40 syncLimit=4 "dataDir=$dir/$n/data" clientPort=2181 "clientPortAddress=$(cat "$dir/$n/address")" \
				admin.enableServer=false 4lw.commands.whitelist=srvr minSessionTimeout=1000 maxSessionTimeout=60000 maxClientCnxns=0
			[ "$count" = 1 ] || for m in $(seq "$count"); do echo "server.$m=$(cat "$dir/$m/address"):2888:3888"; done
		} >"$dir/$n/conf"
		zookeeper_server "$dir" "$n"
	done
	for n in $(seq "$count"); do
		until zookeeper_ask "$dir" "$n" srvr | grep -q ^Mode:; do
			kill -0 "$(cat "$dir/$n/pid")" 2>/dev/null || { tail -5 "$dir/$n/log" >&2; return 1; }
			sleep 0.05
		done
	done
	for n in $(seq "$count"); do printf '%s:2181\n' "$(cat "$dir/$n/address")"; done | paste -sd, >"$dir/hosts"
}

zookeeper_signal() { kill -s "$3" "$(cat "$1/$2/pid")"; }

zookeeper_leader() {
	local n
	for n in 1 2 3; do
		if zookeeper_ask "$1" $n srvr 2>/dev/null | grep -q '^Mode: leader'; then echo $n; return; fi
	done
	return 1
}

zookeeper_stop() {
	local pid
	for pid in "$1"/*/pid; do
		pid=$(cat "$pid")
		# A server that a test has killed has ended, and another process may have its number.
		while grep -qs zookeeper "/proc/$pid/cmdline" && kill -s KILL "$pid" 2>/dev/null; do sleep 0.01; done
	done
}

zookeeper_serve() {
	local dir=$1 verb a b missing
	missing=$(zookeeper_missing) && { echo "missing: $missing"; return; }
	# shellcheck disable=SC2064
	trap "zookeeper_stop '$dir'" EXIT
	zookeeper_start "$dir" "$2" || { echo "missing: a server that starts"; return 1; }
	cat "$dir/hosts"
	while read -r verb a b; do
		case $verb in
		server) zookeeper_server "$dir" "$a"; echo ;;
		signal) zookeeper_signal "$dir" "$a" "$b"; echo ;;
		leader) zookeeper_leader "$dir" || echo ;;
		esac
	done
}

case $0 in */zookeeper.sh) zookeeper_serve "$@" ;; esac
