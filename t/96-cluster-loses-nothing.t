#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A cluster of real programs on this host: ZooKeeper, a master, three servers.  While a shell appends lines, each
# server and the master is killed; no line that was acknowledged is lost or doubled, and the loop goes on.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
LIMIT=900
ctl() { t "$TABLETCTL" "$@"; }
mount_here() { # mount point, then options
	local at=$1
	shift
	"$TABLETFS" -f -o "keys=$C/keys" "$CLUSTER" "$at" "$@" >"$W/daemon.out" 2>"$W/daemon.err" </dev/null &
	daemon=$!
	wait_for "the mount" mount_answers && [ -n "$daemon" ]
}
# The servers that serve, by the mount's own words.
serving() { awk '$5 == "SERVING"' "$M/.tabletfs/servers" | wc -l; }

for o in "--servers 0" "--servers x" "--masters -1" "--zookeeper 2"; do
	# shellcheck disable=SC2086
	fails "cluster start $o" "must be" ctl cluster start $o "$W/none"
done
ok "a cluster starts" start_cluster
like "$(cat "$W/cluster.out")" "^tabletfs -o keys=$C/keys tls://127.0.0.1:[0-9]+,127.0.0.1:[0-9]+,127.0.0.1:[0-9]+ MOUNTPOINT\$" "  it prints the command that mounts it"
is "$(stat -c %a "$C/keys" "$C/local.cluster.keys" | tr '\n' ' ')" "600 600 " "  the keys are private"
fails "  it runs once" "runs already" ctl cluster start "$C"
ok "it is mounted" mount_here "$M"
cd "$M" || exit 1
ok "a table" mkdir -p t/r/f
echo one >t/r/f/c
is "$(cat t/r/f/c)" one "  a cell"
is "$(grep -c 127.0.0.1 .tabletfs/servers)" 4 "/.tabletfs/servers has three servers and the master"
like "$(cat .tabletfs/servers)" "127.0.0.1:[0-9]+.*master" "  the master among them"
like "$(ctl cluster status "$C")" "server1 +127.0.0.1:[0-9]+ +process [0-9]+" "cluster status names the processes"
like "$(cat t/.tablets)" "	127.0.0.1:[0-9]+	serving" ".tablets names the tablet's server"
like "$(TABLETFS_KEYS=$C/keys ctl status "$CLUSTER")" "^state +SERVING" "tabletctl status of the servers' addresses"
cd /

# ---- kills beside a loop of appends ----
cat >"$W/loop" <<'SH'
n=0
while [ ! -e "$W/enough" ]; do
	n=$((n + 1))
	if echo "$n" >>"$M/t/r/f/q"; then echo "$n" >>"$W/acknowledged"; else echo "$n" >>"$W/refused"; fi
done
SH
: >"$W/acknowledged"
: >"$W/refused"
bash "$W/loop" 2>"$W/loop.err" &
loop=$!
goes_on() { # the loop writes 20 more lines
	local from
	from=$(wc -l <"$W/acknowledged")
	wait_for "the loop" eval "[ \$(wc -l <'$W/acknowledged') -ge $((from + 20)) ]"
}
ok "a loop appends lines" goes_on
for name in server1 server2 server3 master1; do
	ok "$name is killed" ctl cluster kill "$name" "$C"
	ok "  the loop goes on" goes_on
	wait_for "all servers" eval "[ \$(serving) -ge 3 ]" || fail "  all servers serve again"
done
: >"$W/enough"
wait "$loop"
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
print("# %d lines acknowledged, %d refused, %d stored" % (len(acknowledged), len(refused), len(stored)))
ok(not lost, "no acknowledged line is lost: %s" % lost[:10])
ok(not doubled, "none is doubled: %s" % doubled[:10])
ok(not strange, "none is there that nobody wrote: %s" % strange[:10])
PY

# ---- growing, and a restart ----
like "$(ctl cluster add-server "$C")" "^server4 127.0.0.1:" "a server is added"
ok "  it serves" wait_for "four servers" eval "[ \$(serving) = 4 ]"
ok "a file" sh -c "seq 1000 >'$M/t/r/f/seq'"
t fusermount3 -u "$M"
wait_daemon
ok "the cluster is stopped" ctl cluster stop "$C"
wait "$server"
is $? 0 "  its exit status"
server=
fails "  it does not run" "no cluster runs" ctl cluster status "$C"
fails "  another number of servers is refused" "has its members already" ctl cluster start --servers 5 "$C"
ok "it starts again" start_cluster
ok "  and is mounted" mount_here "$M"
is "$(md5sum <"$M/t/r/f/seq")" "$(seq 1000 | md5sum)" "  the file is there"
t fusermount3 -u "$M"
wait_daemon
ok "it is stopped" ctl cluster stop "$C"
wait "$server"
server=
done_testing
