# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Functions for tests of a cluster of real programs (start_cluster of t/lib/mount.sh); each test sources this file.
#
#	ctl ARGUMENT...           tabletctl
#	mount_cluster [OPTION...] mounts the cluster at $M
#	own_cluster NAME DIR      runs a server and a master of the cluster NAME in $keys, at $b and $a
#	end_own                   unmounts it, and ends them and the other cluster
#	cluster_mounted [ARG...]  starts the cluster, with the arguments, and mounts it, with a table t and a cell r/f/c
#	end_cluster               unmounts it, stops it, and requires that each process ends well
#	process NAME              prints the number of a process: server1, master1, zookeeper1
#	signal NAME SIGNAL
#	hold SECONDS              waits; the subject of a test is time that passes
#	all_serve [COUNT]         waits until COUNT (3) servers serve
#	busiest                   prints the name of the server that has most tablets
#	free_port                 prints a port of this host that nothing uses
#	is_replaced NAME PID      the process of this name is another one
#	begin_loop                in the background, lines are appended to a cell; a second process reads them through a mount of its own
#	goes_on                   waits for 20 more acknowledged lines
#	end_loop                  requires that each acknowledged line is there once, and that no read was old
. "${SRC:-.}/t/lib/mount.sh" || exit 1
export TABLETFS_KEYS=$C/keys

ctl() { t "$TABLETCTL" "$@"; }
mount_cluster() {
	"$TABLETFS" -f "$CLUSTER" "$M" "$@" >"$W/daemon.out" 2>"$W/daemon.err" </dev/null &
	daemon=$!
	wait_for "the mount" mount_answers && [ -n "$daemon" ]
}
unmount_second() {
	[ -n "$second" ] || return 0
	t fusermount3 -u "$M2" && wait_for "the second mount's end" eval "! runs $second"
	second=
}
show_logs() { for log in "$C"/{server,master}*.log "$W/cluster.err"; do tail -n 8 "$log" | diag; done; }
cluster_mounted() {
	ok "a cluster starts" start_cluster "$@"
	[ -n "$server" ] && mount_cluster || { fail "it is mounted"; show_logs; exit 1; }
	ok "a table" mkdir -p "$M/t/r/f"
	echo one >"$M/t/r/f/c"
	ok "its servers serve" all_serve "${SERVERS:-3}"
}
end_cluster() {
	[ $test_failures = 0 ] || show_logs
	unmount_second
	t fusermount3 -u "$M"
	wait_daemon
	ok "the cluster is stopped" ctl cluster stop "$C"
	wait "$server"
	server=
	done_testing
}

own_cluster() {
	"$BUILD/tabletfs-master" -o "listen=$a,keys=$keys/$1.cluster.keys" "zk://$z/$1" "$2" >"$W/master.out" 2>&1 </dev/null &
	master=$!
	"$SERVER" -f -o "listen=$b,keys=$keys/$1.cluster.keys" "zk://$z/$1" "$2" >"$W/first.out" 2>&1 </dev/null &
	first=$!
	export TABLETFS_KEYS=$keys/$1.mount.keys
	wait_for "the cluster" eval "'$TABLETCTL' cluster status 'tls://$b' | grep -q ' master '"
	CLUSTER=tls://$b
}
end_own() {
	t fusermount3 -u "$M"
	wait_daemon
	kill "$first"
	wait "$first"
	is $? 0 "the server ends"
	kill "$master"
	wait "$master"
	is $? 0 "the master ends"
	ok "the other cluster is stopped" ctl cluster stop "$C"
	wait "$server"
	server=
	done_testing
}

process() { awk -v n="$1" '$1 == n { print $2 }' "$C/processes"; }
signal() { kill -s "$2" "$(process "$1")"; }
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
hold() { read -r -t "$1" <>"$W/.never" || :; }
listed() { t cat "$M/.tabletfs/servers"; }
serving() { listed | awk '$5 == "SERVING"' | wc -l; }
all_serve() { wait_for "${1:-3} servers" eval "[ \$(serving) -ge ${1:-3} ]"; }
busiest() {
	local address
	address=$(listed | awk '$5 == "SERVING" && $3 > most + 0 { most = $3; a = $1 } END { print a }')
	awk -v a="$address" '$2 == a { print $1 }' "$C/members"
}
is_replaced() { [ -n "$(process "$1")" ] && [ "$(process "$1")" != "$2" ]; }

# ---- the loop ----
begin_loop() {
	mkdir -p "$M/t/r/f"
	: >"$W/acknowledged"
	: >"$W/refused"
	: >"$W/old"
	: >"$M/t/r/f/q"
	rm -f "$W/enough"
	[ -n "$second" ] || mount_second || fail "a second mount"
	(
		n=0
		while [ ! -e "$W/enough" ]; do
			n=$((n + 1))
			# dd reports the error of a close, which echo ignores.
			if echo "$n" | dd of="$M/t/r/f/q" oflag=append conv=notrunc,fsync status=none; then echo "$n" >>"$W/acknowledged"; else echo "$n" >>"$W/refused"; fi
		done
	) 2>"$W/loop.err" &
	loop=$!
	( # each line that was acknowledged before a read is in what it finds
		while [ ! -e "$W/enough" ]; do
			before=$(tail -n 1 "$W/acknowledged")
			found=$(tail -n 1 "$M2/t/r/f/q") || continue
			[ "${found:-0}" -ge "${before:-0}" ] || echo "$before was acknowledged, $found was read" >>"$W/old"
			echo "$found" >>"$W/reads"
			read -r -t 0.05 <>"$W/.never"
		done
	) 2>"$W/reads.err" &
	reader=$!
	goes_on
}
goes_on() {
	local from
	from=$(wc -l <"$W/acknowledged")
	wait_for "the loop" eval "[ \$(wc -l <'$W/acknowledged') -ge $((from + ${1:-20})) ]"
}
end_loop() {
	: >"$W/enough"
	wait "$loop" "$reader"
	is "$(head -n 3 "$W/old")" "" "no read was old"
	py <<'PY'
import os
from tap import *
w, m = os.environ["W"], os.environ["M"]
lines = lambda name: open(os.path.join(w, name)).read().split()
acknowledged, refused = lines("acknowledged"), set(lines("refused"))
stored = open(os.path.join(m, "t/r/f/q")).read().split()
count = {}
for x in stored:
    count[x] = count.get(x, 0) + 1
lost = [x for x in acknowledged if x not in count]
doubled = [x for x in count if count[x] > 1]
strange = [x for x in count if x not in set(acknowledged) and x not in refused]
print("# %d lines acknowledged, %d refused, %d stored, %d reads" % (len(acknowledged), len(refused), len(stored), len(lines("reads"))))
ok(not lost, "no acknowledged line is lost: %s" % lost[:10])
ok(not doubled, "none is doubled: %s" % doubled[:10])
ok(not strange, "none is there that nobody wrote: %s" % strange[:10])
PY
}
