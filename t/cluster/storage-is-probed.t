#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each server but the first one has another server as the other side of its probe.  A server or a master whose host sees a wrong answer
# does not start, and says so in one line; the others go on.  A mount's key cannot ask for the steps of the probe.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
[ -z "${SANITIZED:-}" ] || skip_all "sanitizers want to be loaded first"
LIMIT=900
has openssl || cannot_run "there is no openssl"
"${CC:-cc}" -shared -fPIC -O2 -o "$W/flock.so" -x c - <<'C' || cannot_run "there is no C compiler"
int flock(int fd, int operation)
{
	return 0; /* as on a host whose mount does not see the locks of others */
}
C
cluster_mounted
ok "of three servers at least two have another one as the probe's other side" \
	wait_for "the probes" eval "[ \$(cat '$C'/server*.log | grep -c 'the other side of the probe was the server at') -ge 2 ]"
# A server that was alone probes again after it serves.
ok "  no file of the probe is left" wait_for "their end" eval "[ -z \"\$(find '$C/data' -name 'probe-*')\" ]"
ok "a loop appends lines" begin_loop
before=$(cat "$C/processes")
z=$(awk '/^zookeeper1/ { print $2 }' "$C/members")
further() { t env "${@:2}" "$1" -f -o "listen=127.0.0.1:$(free_port),keys=$C/local.cluster.keys" "zk://$z/local" "$C/data"; }
for program in "$SERVER" "$BUILD/tabletfs-master"; do
	name=$(basename "$program")
	further "$program" LD_PRELOAD="$W/flock.so" >"$W/further.out" 2>&1
	like $? '^[1-9][0-9]*$' "$name does not start where flock does not exclude the other side"
	like "$(cat "$W/further.out")" "$C/data: this storage is not safe: flock does not exclude the other side: .* tries, the first at [^ ]*$C/data/probe-" "  the line names the property and the directory"
	is "$(grep -c 'not safe' "$W/further.out")" 1 "  there is one line"
done
is "$(find "$C/data" -name 'probe-*')" "" "no file of the probe is left"
is "$(serving)" 3 "no further server was registered"

# SS_PROBE, with the mount's key and the cluster's: the first step of a probe that does not exist.
py <<'PY'
import os
from tap import *
from wire import *
c = os.environ["C"]
address = {l.split()[0]: l.split()[1] for l in open(c + "/members")}
step = message(field(1, 7), field(2, 1))
asked = request(STORE, 1, field(1, 16), varint(8 << 3 | 2) + step)
for keys, wanted, what in ("keys", field(1, 1), "a mount's key cannot ask for a step of the probe"), ("local.cluster.keys", field(11, 3), "the cluster's key can"):
    got = tls_session(address["server1"], c + "/" + keys, hello(), asked)
    ok(any(kind == STORE_ANSWER and wanted in body for kind, body in got), "%s: %r" % (what, got))
PY
is "$(cat "$C/processes")" "$before" "no process has ended"
ok "the loop goes on" goes_on
end_loop

# ---- a second cluster, whose master starts before its server ----
ok "a second cluster" ctl init "zk://$z/second" "$W/second" "$W"
begin() { # PROGRAM PORT
	"$1" -f -o "listen=127.0.0.1:$2,keys=$W/second.cluster.keys" "zk://$z/second" "$W/second" >"$W/$(basename "$1").out" 2>&1 </dev/null &
	begun+=($!)
}
begun=()
port=$(free_port)
begin "$BUILD/tabletfs-master" "$port"
listens() { (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
ok "  its master starts" wait_for "the master" listens
begin "$SERVER" "$(free_port)"
ok "  the master probes again when a server serves" \
	wait_for "the probe" grep -q "the other side of the probe was the server at" "$W/tabletfs-master.out"
kill "${begun[1]}"
wait "${begun[1]}"
kill "${begun[0]}"
wait "${begun[0]}"
is $? 0 "  it ends"
end_cluster
