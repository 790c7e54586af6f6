#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Strangers at a cluster's addresses are closed, with a line each minute at most: garbage, half-open connections, wrong keys, another
# cluster's key, and a mount that asks for what only the master asks.  The cluster goes on.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
LIMIT=900
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
import os, socket, struct, subprocess
from tap import *
c = os.environ["C"]
address = {l.split()[0]: l.split()[1].split(":") for l in open(c + "/members")}
def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes((n & 127 | 128,)), n >> 7
    return out + bytes((n,))
def field(number, value):
    return varint(number << 3) + varint(value)
def frame(kind, number, body):
    return struct.pack(">IBQ", len(body), kind, number) + body
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
    ok(rss(name) < memory + 64 * 1024, "  its memory is bounded")
# A mount's key, and a request that is the master's.
identity, role, secret = open(c + "/keys").read().split()[:3]
hello = field(1, 1) + field(4, 1 << 63 | 12345)
unload = field(1, 17) + field(2, 0) # TS_UNLOAD
requests = frame(1, 0, varint(len(hello)) + hello) + frame(0x12, 1, varint(len(unload)) + unload)
for name in "server1", "server2", "server3":
    p = subprocess.Popen(["openssl", "s_client", "-quiet", "-connect", ":".join(address[name]), "-psk_identity", identity, "-psk", secret,
        "-ciphersuites", "TLS_AES_128_GCM_SHA256"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    p.stdin.write(requests)
    p.stdin.flush()
    try:
        p.wait(60)
        closed = True
    except subprocess.TimeoutExpired:
        p.kill()
        closed = False
    ok(closed, name + " closes the connection of a mount that asks for UNLOAD")
PY
for name in server1 master1; do
	ok "$name logs a line for each peer and minute" [ "$(grep -c 'connected\|refused\|key' "$C/$name.log")" -lt 40 ]
done
is "$(cat "$C/processes")" "$before" "no process has ended"
ok "the loop goes on" goes_on
ok "all servers serve" all_serve
end_loop
end_cluster
