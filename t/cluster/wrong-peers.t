#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Strangers at a cluster's addresses are closed, with a line each minute at most: garbage, half-open connections, wrong keys, another
# cluster's key, another version, the incarnation of another process at this address, the id of a server, and a mount that asks for
# what only the master asks.  The cluster goes on.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=300
has openssl || cannot_run "there is no openssl"
cluster_mounted
ok "a loop appends lines" begin_loop
before=$(cat "$C/processes")
sed -E 's/[0-9a-f]{8}$/00000000/' "$C/keys" >"$W/wrong.keys"
chmod 600 "$W/wrong.keys"
z=$(awk '/^zookeeper1/ { print $2 }' "$C/members")
ok "another cluster" ctl init "zk://$z/other" "$W/other" "$W"
for name in server1 master1; do
	address=$(awk -v n=$name '$1 == n { print $2 }' "$C/members")
	for keys in wrong other.mount other.cluster; do
		fails "$name refuses the key $keys" "Key was rejected" env TABLETFS_KEYS="$W/$keys.keys" timeout 60 "$TABLETCTL" cluster status "tls://$address"
	done
done
fails "a server refuses a client without a key" "key" env -u TABLETFS_KEYS timeout 60 "$TABLETCTL" cluster status "$CLUSTER"
py <<'PY'
import os, socket
from tap import *
from wire import *
c = os.environ["C"]
address = {l.split()[0]: l.split()[1].split(":") for l in open(c + "/members")}
def is_closed(s):
    s.settimeout(60)
    try:
        while s.recv(65536):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True
def send(s, data):
    try:
        s.sendall(data)
    except (ConnectionResetError, BrokenPipeError):
        pass
def rss(name):
    pid = [l.split()[1] for l in open(c + "/processes") if l.split()[0] == name][0]
    return [int(l.split()[1]) for l in open("/proc/%s/status" % pid) if l.startswith("VmRSS")][0]
for name in "server1", "master1":
    at, memory = tuple(address[name]), rss(name)
    good = True
    for data in b"\xff" * 70000, b"GET / HTTP/1.0\r\n\r\n", frame(1, 0, b"\x00" * 100), os.urandom(5000):
        s = socket.create_connection(at)
        send(s, data)
        good = is_closed(s) and good
    ok(good, name + " closes connections without TLS")
    half = [socket.create_connection(at) for i in range(100)]
    for s in half[:50]:
        send(s, b"\x16\x03\x01")
    ok(all(is_closed(s) for s in half), "  and those that say nothing")
    ok(os.environ.get("SANITIZED") or rss(name) < memory + 64 * 1024, "  its memory is bounded")
# A mount's key, and requests that are the master's or another server's: without a term, and with one.
token = field(6, field(1, CLIENT))
for name in "server1", "server2", "server3":
    for method, what in (16, "LOAD"), (17, "UNLOAD"), (22, "BURY"), (12, "UNBLOCK_WRITES"):
        got = tls_session(":".join(address[name]), c + "/keys", hello(), request(TABLETS, 1, field(1, method), token))
        ok(any(k == TABLETS_ANSWER and field(1, 1) in body for k, body in got), "%s refuses %s of a mount: %r" % (name, what, got))
    got = tls_session(":".join(address[name]), c + "/keys", hello(), request(TABLETS, 1, field(1, 17), token, field(63, 1)))
    ok([k for k, _ in got] == [HELLO], "%s closes the connection of a mount that gives itself a term: %r" % (name, got))
    # A client that wants a former process at this address sends the incarnation that it knows.
    for wrong, why, what in ((hello(field(3, 999)), b"it wants server 999", "another process at its address"),
                             (hello(version=99), b"it speaks version 99", "another version"),
                             (hello(client=1), b"its id 1 is one of a server", "a mount with the id of a server")):
        got = tls_session(":".join(address[name]), c + "/keys", wrong, request(TABLETS, 1, field(1, 17), token))
        ok([k for k, _ in got] == [HELLO] and why in got[0][1], "%s closes the connection of %s: %r" % (name, what, got))
PY
for name in server1 master1; do
	ok "$name logs a line for each peer and minute" [ "$(grep -c 'connected\|refused\|key' "$C/$name.log")" -lt 40 ]
done
is "$(cat "$C/processes")" "$before" "no process has ended"
ok "the loop goes on" goes_on
ok "all servers serve" all_serve
end_loop
end_cluster
