#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A store that listens on TCP lets in who has one of its keys, and nobody else: TLS 1.3 with
# pre-shared keys only.  Peers without a key, with garbage, with half a handshake, or slow
# ones are closed, and do not keep others out.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2120,SC2015
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has one user"
has openssl || cannot_run "needs openssl"
ctl() { t "$TABLETCTL" "$@"; }
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
KEYS=$W/keys
export PORT KEYS
conf() { printf '%s\n' "$1" >"$W/conf"; }

# ---- a file of keys ----
line=$(ctl keys add "$KEYS" laptop mount)
like "$line" '^laptop mount [0-9a-f]{64}$' "keys add prints the line of the new key"
is "$(cat "$KEYS")" "$line" "  and adds it to the file"
is "$(stat -c %a "$KEYS")" 600 "  which is its user's only"
fails "a name is used once" "there is a key laptop already" ctl keys add "$KEYS" laptop mount
fails "a role that does not exist" "mount or cluster" ctl keys add "$KEYS" x admin
fails "an option that does not exist" "an option is squash" ctl keys add "$KEYS" x mount squash=root color=red
fails "a key of a cluster has no options" "no options" ctl keys add "$KEYS" x cluster squash=all
is "$(cat "$KEYS")" "$line" "  after all of these the file is as it was"
printf 'old mount %064d' 7 >>"$KEYS"
ok "a last line without an end stays a line" ctl keys add "$KEYS" guest mount squash=all anon_uid=1234 anon_gid=1234 tables=t
is "$(wc -l <"$KEYS")" 3 "  of three"
chmod 640 "$KEYS"
fails "a file that others may read is refused" "mode 0600" ctl keys add "$KEYS" y mount
conf "listen = \"127.0.0.1:$PORT\"; keys = \"$KEYS\";"
fails "  by the server, too" "mode 0600" "$TABLETFS" -o config="$W/conf" "$D" "$M"
chmod 600 "$KEYS"
conf "listen = \"127.0.0.1:$PORT\";"
fails "without keys there is no port" "listen: without keys" "$TABLETFS" -o config="$W/conf" "$D" "$M"
: >"$W/empty" && chmod 600 "$W/empty"
conf "listen = \"127.0.0.1:$PORT\"; keys = \"$W/empty\";"
fails "  nor with an empty file of keys" "without keys" "$TABLETFS" -o config="$W/conf" "$D" "$M"
conf "listen = \"127.0.0.1:$PORT\"; keys = \"$KEYS\"; insecure_tcp = true;"
fails "keys in clear text" "insecure_tcp" "$TABLETFS" -o config="$W/conf" "$D" "$M"
echo 'laptop mount 12' >"$W/bad" && chmod 600 "$W/bad"
conf "listen = \"127.0.0.1:$PORT\"; keys = \"$W/bad\";"
fails "a line that is no key" "bad:1: the secret after the role" "$TABLETFS" -o config="$W/conf" "$D" "$M"

# ---- handshakes ----
conf "listen = \"127.0.0.1:$PORT\"; keys = \"$KEYS\";"
mount_store -o config="$W/conf"
mkdir -p "$M/t/r/f"
echo one >"$M/t/r/f/a"
cat >"$W/peer.py" <<'PY'
"""Peers that openssl s_client cannot be."""
import hashlib, hmac, os, socket, struct, subprocess
PORT = int(os.environ["PORT"])
def keys():
    return {l.split()[0]: bytes.fromhex(l.split()[2]) for l in open(os.environ["KEYS"])}
def connect():
    s = socket.create_connection(("127.0.0.1", PORT))
    s.settimeout(30)
    return s
def label(secret, name, context, n):
    name = b"tls13 " + name
    info = struct.pack(">HB", n, len(name)) + name + bytes((len(context),)) + context
    return hmac.new(secret, info + b"\1", hashlib.sha256).digest()[:n]
def extension(number, body):
    return struct.pack(">HH", number, len(body)) + body
def client_hello(identity, secret, modes=b"\1", versions=b"\3\4"):
    """A ClientHello of TLS 1.3 with a pre-shared key (RFC 8446, 4.2.11)."""
    known = b"".join((
        extension(43, bytes((len(versions),)) + versions),
        extension(10, b"\0\2\0\x1d"),
        extension(13, b"\0\2\4\3"),
        extension(51, b"\0\x24\0\x1d\0\x20" + b"\x09" + bytes(31)),
        extension(45, bytes((len(modes),)) + modes)))
    identities = struct.pack(">H", len(identity)) + identity + bytes(4)
    identities = struct.pack(">H", len(identities)) + identities
    psk = struct.pack(">HH", 41, len(identities) + 35) + identities
    extensions = known + psk
    body = b"\3\3" + os.urandom(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + struct.pack(">H", len(extensions) + 35) + extensions
    hello = b"\1" + struct.pack(">I", len(body) + 35)[1:] + body
    early = hmac.new(bytes(32), secret, hashlib.sha256).digest()
    key = label(label(early, b"ext binder", hashlib.sha256(b"").digest(), 32), b"finished", b"", 32)
    hello += b"\0\x21\x20" + hmac.new(key, hashlib.sha256(hello).digest(), hashlib.sha256).digest()
    return b"\x16\3\1" + struct.pack(">H", len(hello)) + hello
def answer(s):
    """The types of the TLS records that come until the connection is closed or a whole flight is there; 22 handshake, 21 alert."""
    data, types = b"", []
    try:
        while True:
            b = s.recv(65536)
            if not b:
                break
            data += b
            while len(data) >= 5 and len(data) >= 5 + struct.unpack(">H", data[3:5])[0]:
                types.append(data[0])
                data = data[5 + struct.unpack(">H", data[3:5])[0]:]
            if 23 in types:
                break
    except ConnectionResetError:
        pass
    return types
def s_client(*args, identity="laptop", psk=None, send=b"", limit=60):
    """What openssl s_client prints."""
    p = subprocess.run(["openssl", "s_client", "-connect", "127.0.0.1:%d" % PORT, "-psk_identity", identity, "-psk",
        (psk or keys()[identity]).hex(), "-ciphersuites", "TLS_AES_128_GCM_SHA256", *args], input=send, capture_output=True, timeout=limit)
    return p.stdout, p.stderr.decode(errors="replace")
def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes((n & 127 | 128,)), n >> 7
    return out + bytes((n,))
def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value
def message(*fields):
    body = b"".join(fields)
    return varint(len(body)) + body
def frame(kind, number, body):
    return struct.pack(">IBQ", len(body), kind, number) + body
CLIENT = 1 << 63 | 12345
def hello(client=CLIENT, version=1):
    return frame(1, 0, message(field(1, version), field(4, client), field(7, b"a test")))
def frames(data):
    """Kinds and bodies."""
    out = []
    while len(data) >= 13:
        n, kind, number = struct.unpack(">IBQ", data[:13])
        out.append((kind, data[13:13 + n]))
        data = data[13 + n:]
    return out
PY
export PYTHONPATH=$PYTHONPATH:$W
py <<'PY'
from tap import *
from peer import *
out, err = s_client("-tls1_3")
out = out.decode(errors="replace")
ok("Reused, TLSv1.3" in out and "no peer certificate" in out, "a key lets a client in, without certificates") or note(out[-1500:], err)
def refused(*args, **more):
    out, err = s_client(*args, **more)
    return "alert" in err and b"Reused" not in out
ok(refused("-tls1_3", identity="nobody", psk=keys()["laptop"]), "an unknown name is refused")
ok(refused("-tls1_3", psk=keys()["old"]), "so is the secret of another key")
ok(refused("-tls1_2"), "TLS 1.2 is refused")
ok(refused("-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"), "a suite with another hash is refused")
ok(refused("-tls1_3", "-groups", "ffdhe8192"), "so is an exchange of keys that costs much")
secret = keys()["laptop"]
for modes, wanted, what in (b"\1", True, "psk_dhe_ke"), (b"\0", False, "psk_ke alone"), (b"\0\1", True, "both"):
    s = connect()
    s.sendall(client_hello(b"laptop", secret, modes))
    types = answer(s)
    same((22 in types, 21 in types), (wanted, not wanted), "%s is %s" % (what, "accepted" if wanted else "refused"))
    s.close()
s = connect()
hi = bytearray(client_hello(b"laptop", secret))
hi[-1] ^= 1
s.sendall(hi)
same(22 in answer(s), False, "a wrong proof of the secret is refused before the server says anything")
PY

# ---- frames behind the handshake ----
py <<'PY'
from tap import *
from peer import *
def session(*sent, identity="laptop"):
    """The frames that come until the connection is closed or the last PING is answered."""
    import subprocess
    p = subprocess.Popen(["openssl", "s_client", "-connect", "127.0.0.1:%d" % PORT, "-psk_identity", identity, "-psk", keys()[identity].hex(),
        "-tls1_3", "-quiet", "-no_ign_eof", "-ciphersuites", "TLS_AES_128_GCM_SHA256"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    p.stdin.write(b"".join(sent) + frame(4, 99, b""))
    p.stdin.flush()
    data = b""
    while True:
        b = p.stdout.read1(65536)
        data += b
        if not b or frame(5, 99, b"") in data:
            break
    p.kill()
    p.wait()
    return frames(data)
kinds = lambda got: [k for k, _ in got]
same(kinds(session(hello())), [1, 5], "HELLO is answered, and PING")
got = session(hello(version=99))
ok(kinds(got) == [1] and b"version 99" in got[0][1], "another version is refused, with both versions") or note(got)
got = session(hello(client=5))
ok(kinds(got) == [1] and b"one of a server" in got[0][1], "the id of a server is refused") or note(got)
same(kinds(session(hello(), b"\xff" * 4096)), [1], "what is no frame closes the connection")
same(kinds(session(frame(1, 0, b"x" * 20000))), [], "a HELLO that is too long")
same(kinds(session(frame(0x12, 1, b""))), [], "a request before HELLO")
same(kinds(session(hello(), frame(0x12, 1, b"\x08\xff"))), [1], "a request that cannot be decoded")
PY

unmount_store
done_testing
