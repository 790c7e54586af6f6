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
fails "a name with the end of a line" "not one line" ctl keys add "$KEYS" "$(printf "x mount %064d\ny" 1)" mount
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
# A daemon in the foreground reads its settings again if a service manager listens.
python3 -c 'import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind(sys.argv[1])
while True: s.recv(4096)' "$W/notify" &
manager=$!
wait_for "the manager" test -S "$W/notify"
NOTIFY_SOCKET=$W/notify mount_store -o config="$W/conf"
mkdir -p "$M/t/r/f"
echo one >"$M/t/r/f/a"
cat >"$W/peer.py" <<'PY'
"""Peers that openssl s_client cannot be."""
import hashlib, hmac, os, socket, struct, subprocess
from wire import *
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


# ---- peers that do not keep to it ----
py <<'PY'
from tap import *
from peer import *
# More half-open connections than one address may have: the oldest ones leave, and honest clients enter.
half = [connect() for _ in range(300)]
out, err = s_client("-tls1_3")
ok(b"Reused, TLSv1.3" in out, "300 half-open connections keep nobody out") or note(err)
hello_bytes = client_hello(b"laptop", keys()["laptop"])
half += [connect() for _ in range(20)]
for s in half[300:]:
    try:
        s.sendall(hello_bytes[:40])
    except (BrokenPipeError, ConnectionResetError):
        pass # the oldest of them have left
out, err = s_client("-tls1_3")
ok(b"Reused, TLSv1.3" in out, "nor do 20 that stop in the middle of the handshake") or note(err)
def closed(s):
    try:
        return s.recv(65536) == b""
    except ConnectionResetError:
        return True
same(sum(closed(s) for s in half[:280]), 280, "the oldest ones were closed")
for s in half:
    s.close()
for text, what in (b"GET / HTTP/1.1\r\n\r\n", "HTTP"), (os.urandom(100000), "random bytes"), (b"\x16\3\1\xff\xff" + bytes(70000), "a record that is too long"):
    s = connect()
    try:
        s.sendall(text)
    except (BrokenPipeError, ConnectionResetError):
        pass
    ok(21 in answer(s) or closed(s), "%s: closed" % what)
    s.close()
slow = connect()
slow.sendall(hello_bytes[:100])
begun = time.monotonic()
ok(closed(slow), "a handshake that stops is closed")
PY
like "$(daemon_log)" "a client \(no key, address 127.0.0.1:[0-9]+\) was disconnected: " "the log has the address"
[ "$(daemon_log | grep -c 'no key.*disconnected')" -le 2 ]
is $? 0 "  once a minute"
like "$(daemon_log)" "a client \(key laptop, address .*\) was disconnected: it speaks version 99" "  and the key, if there was one"

# ---- a mount ----
M2=$W/mnt2
mkdir "$M2"
LAPTOP=$W/laptop
key_of() { (umask 077 && grep "^$1 " "$KEYS" >"$W/$1"); }
key_of laptop && key_of guest && key_of old
second=
# mount_net KEYFILE [ARGUMENT...]
mount_net() {
	local file=$1
	shift
	"$TABLETFS" -f -o keys="$file" "$@" "tls://127.0.0.1:$PORT" "$M2" >"$W/second.out" 2>"$W/second.err" </dev/null &
	second=$!
	wait_for "the mount over TLS" second_answers
}
second_answers() { mounted "$M2" && t stat -f "$M2"; }
end_net() {
	t fusermount3 -u "$M2"
	wait "$second"
	is $? 0 "$1"
}
tries() { timeout 60 "$TABLETFS" -f -o timeout=50s "$@" "$M2"; }
chmod 644 "$LAPTOP"
fails "a client's file of keys that others may read" "mode 0600" tries -o keys="$LAPTOP" "tls://127.0.0.1:$PORT"
chmod 600 "$LAPTOP"
fails "no key" "a key is needed" tries "tls://127.0.0.1:$PORT"
fails "the environment names a file of keys, too" "it has no key" env TABLETFS_KEYS="$W/empty" timeout 20 "$TABLETFS" "tls://127.0.0.1:$PORT" "$M2"
fails "an empty file of keys" "it has no key" tries -o keys="$W/empty" "tls://127.0.0.1:$PORT"
sed 's/^laptop/other/' "$LAPTOP" >"$W/other" && chmod 600 "$W/other"
fails "a key that the server does not have" "rejected|reset" tries -o keys="$W/other" "tls://127.0.0.1:$PORT"
sed 's/^old/laptop/' "$W/old" >"$W/wrong" && chmod 600 "$W/wrong"
fails "the secret of another key" "rejected|reset" tries -o keys="$W/wrong" "tls://127.0.0.1:$PORT"
fails "clear text" "reset|closed|rejected|lost|no answer|timed out" tries -o timeout=2s "tcp://127.0.0.1:$PORT"

ok "a mount over TLS" mount_net "$LAPTOP"
is "$(cat "$M2/t/r/f/a")" one "  reads"
echo two >"$M2/t/r/f/b"
is "$(cat "$M/t/r/f/b")" two "  writes"
head -c 20000000 /dev/urandom >"$W/large"
cp "$W/large" "$M2/t/r/f/large"
same "$M/t/r/f/large" "$W/large" "  also cells of 20 MB"
same "$M2/t/r/f/large" "$W/large" "  which it reads again"
mkdir "$M2/u" "$M2/t/.snap/s"
ok "  makes tables and snapshots" test -d "$M/u" -a -f "$M/t/.snap/s/r/f/a"
rmdir "$M2/t/.snap/s"
is "$(cd "$M" && find t | sort | md5sum)" "$(cd "$M2" && find t | sort | md5sum)" "  shows the same names"
like "$(cut -f 2-4,7 "$M/.tabletfs/clients")" "^key laptop	-	$M2	127.0.0.1:[0-9]+\$" "clients has the key and the address"

inode=$(stat -c %i "$M2/t/r/f/a")
end_net "the mount ends well"

# ---- users for whom a host vouches ----
cat >"$W/uses.c" <<'C'
/* uses SOURCE KEYS read|write|make|drop TABLE [FAMILY]: one operation on behalf of the user of this process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <tabletfs.h>
static int operate(struct tfs_store *s, char **v)
{
	struct tfs_table *t;
	struct tfs_mutation *m;
	char b[100];
	size_t n;
	int err;

	if (strcmp(v[3], "make") == 0)
		return tfs_table_create(s, v[4], geteuid(), getegid(), 0755);
	if (strcmp(v[3], "drop") == 0)
		return tfs_table_drop(s, v[4]);
	err = tfs_table_open(s, v[4], &t);
	if (err)
		return err;
	if (strcmp(v[3], "read") == 0) {
		err = tfs_read(t, TFS_S("r"), v[5], TFS_S("a"), TFS_AUTO, 0, b, sizeof(b), &n, NULL);
		if (!err)
			printf("%.*s", (int)n, b);
	} else {
		m = tfs_mutation_new(t, TFS_S("r"));
		err = tfs_mutation_put(m, v[5], TFS_S("w"), TFS_AUTO, TFS_S("written"));
		err = err ? err : tfs_apply(m, 0, NULL);
		tfs_mutation_free(m);
	}
	tfs_table_close(t);
	return err;
}
int main(int argc, char **argv)
{
	struct tfs_options o;
	struct tfs_store *s;
	char *why = NULL;
	int err;

	tfs_options_init(&o);
	o.timeout_us = 5000000;
	snprintf(o.keys, sizeof(o.keys), "%s", argv[2]);
	err = tfs_open(argv[1], &o, &s, &why);
	if (!err) {
		err = operate(s, argv);
		(void)!tfs_close(s);
	}
	if (err)
		printf("%s\n", why ? why : strerror(-err));
	return err ? 1 : 0;
}
C
ln -s "$BUILD/libtabletfs.so.0.0.0" "$W/libtabletfs.so.0"
ok "a program of the library compiles" "${CC:-cc}" -I"$SRC/engine" -o "$W/uses" "$W/uses.c" "$BUILD/libtabletfs.so.0.0.0"
# uses USER KEY OPERATION...
uses() {
	local key=$W/$2
	cp "$key" "$key.$1" && chmod 600 "$key.$1"
	[ "$1" = 0 ] || chown "$1" "$key.$1"
	T=60 t setpriv --reuid="$1" --regid="$1" --clear-groups -- env LD_LIBRARY_PATH="$W" "$W/uses" "tls://127.0.0.1:$PORT" "$key.$1" "${@:3}"
}
if [ "$(id -u)" = 0 ] && has setpriv; then
	mkdir "$M/t/r/mine" && echo private >"$M/t/r/mine/a"
	chown 4321:4321 "$M/t/.families/mine" && chmod 700 "$M/t/.families/mine"
	ctl keys add "$KEYS" noroot mount squash=root anon_uid=1234 anon_gid=1234 >"$W/noroot"
	kill -HUP "$daemon"
	ok "after SIGHUP a new key is valid" wait_for "the new key" uses 0 noroot read t f
	is "$(uses 4321 laptop read t mine)" private "a user reads what is its own"
	is "$(uses 4321 noroot read t mine)" private "  also by a key without root"
	fails "  not by a key that squashes all" "denied" uses 4321 guest read t mine
	fails "another user does not" "denied" uses 4322 laptop read t mine
	fails "  nor writes" "denied" uses 4322 laptop write t f
	is "$(uses 0 laptop read t mine)" private "root of the host reads everything"
	fails "  not by a key without root" "denied" uses 0 noroot read t mine
	ok "root of the host makes tables" uses 0 laptop make made
	ok "  and drops them" uses 0 laptop drop made
	fails "  not by a key without root" "denied|permitted" uses 0 noroot make made
	fails "another user makes none" "denied|permitted" uses 4321 laptop make made
	fails "  nor drops one" "denied|permitted" uses 4321 laptop drop u
	ok "the store has them" test -d "$M/u" -a ! -e "$M/made"

	# ---- a mount for many users, by a key without root ----
	as() {
		local u=$1
		shift
		t setpriv --reuid="$u" --regid="$u" --clear-groups -- "$@"
	}
	echo untouched >"$M/t/r/mine/c"
	mkdir -p "$M/t/s/f" "$M/t/s/mine"
	tee "$M/t/s/f/a" "$M/t/s/f/b" "$M/t/s/mine/a" <<<"one" >"$W/.out"
	chmod 600 "$W/noroot"
	mount_net "$W/noroot" -o allow_other,coherence=60s
	is "$(cat "$M2"/t/s/f/[ab]@*)" $'one\none' "a mount by a key without root reads for root what all may read"
	is "$(cd "$M2/t/s" && echo *)" "f mine" "  and the listing of that row has all families"
	is "$(ls "$M2/t/r")" "$(ls "$M/t/r")" "a mount by a key without root shows all names"
	is "$(cd "$M2/t" && find . | sort | md5sum)" "$(cd "$M/t" && find . | sort | md5sum)" "  of all users"
	is "$(stat -c '%s %U %a' "$M2/t/r/mine/a")" "$(stat -c '%s %U %a' "$M/t/r/mine/a")" "  and their attributes"
	ok "  the status" grep -q ^state "$M2/.tabletfs/status"
	fails "root of the host reads what all may read only" "denied" cat "$M2/t/r/mine/c"
	is "$(cat "$M2/t/r/f/a")" one "  and that"
	fails "  it writes nothing" "denied" cp "$W/conf" "$M2/t/r/f/a"
	is "$(cat "$M/t/r/f/a")" one "  as the store has it"
	fails "  and removes nothing" "denied|permitted" rm "$M2/t/r/f/a"
	fails "  it makes no table" "denied|permitted" mkdir "$M2/no"
	is "$(as 4321 cat "$M2/t/r/mine/a")" private "a user there reads what is its own"
	ok "  writes" as 4321 bash -c "echo written >'$M2/t/r/mine/b'"
	is "$(cat "$M/t/r/mine/b")" written "  as the store has it"
	ok "  makes an empty cell, which the kernel closes" as 4321 touch "$M2/t/r/mine/empty"
	wait_for "the empty cell" test -e "$M/t/r/mine/empty"
	ok "  renames" as 4321 mv "$M2/t/r/mine/b" "$M2/t/r/mine/d"
	ok "  removes" as 4321 rm "$M2/t/r/mine/d"
	is "$(cd "$M/t/.latest/r/mine" && echo *)" "a c empty" "  as the store has it"
	fails "another user reads nothing of it" "denied" as 4322 cat "$M2/t/r/mine/a"
	# The kernel has no pages of it, and a block that was read for its owner has all of it.
	head -c 1000000 /dev/urandom >"$M/t/s/mine/large"
	lists_large() { large=$(echo "$M2"/t/s/mine/large@*) && [[ $large != *'*' ]]; }
	wait_for "the name in the other mount" lists_large
	is "$(as 4321 head -c 300000 "$large" | wc -c)" 300000 "a user reads a large value of its own"
	as 4321 dd if="$large" iflag=nocache count=0 status=none
	fails "  of which root reads nothing" "denied" python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(fd, 262144, 524288, os.POSIX_FADV_WILLNEED) # large pieces
os.pread(fd, 4096, 300000)' "$large"
	end_net "the mount ends well"
fi

# ---- keys that change ----
mount_net "$W/old"
is "$(cat "$M2/t/r/f/b")" two "a second key is valid, too"
cp "$KEYS" "$W/all"
grep -v '^old' "$W/all" >"$KEYS"
kill -HUP "$daemon"
gone() { [ "$(wc -l <"$M/.tabletfs/clients")" = 1 ]; }
ok "after SIGHUP a key that was removed has no connection" wait_for "its end" gone
like "$(daemon_log)" "key old.*its key was changed or removed" "  as the log says"
t cat "$M2/t/r/f/large" >"$W/waits" &
waits=$!
ok "another key goes on" bash -c 'cd "$W" && python3 -c "from peer import *; import sys; sys.exit(b\"Reused, TLSv1.3\" not in s_client(\"-tls1_3\")[0])"'
cp "$W/all" "$KEYS"
kill -HUP "$daemon"
wait $waits
is $? 0 "when the key is valid again, the call that waited ends well"
same "$W/waits" "$W/large" "  with all bytes"
echo broken >"$KEYS"
kill -HUP "$daemon"
kept() { daemon_log | grep -q "the keys stay as they are: $KEYS:1:"; }
ok "a file that is wrong changes nothing" wait_for "the message" kept
is "$(cat "$M2/t/r/f/b")" two "  and connections stay"
cp "$W/all" "$KEYS"
end_net "the mount ends well"

# ---- a daemon that is killed ----
mount_net "$LAPTOP"
is "$(stat -c %i "$M2/t/r/f/a")" "$inode" "inode numbers are the same in the next mount with the same key"
cat >"$W/writer.py" <<'PY'
"""Writes numbered cells over TLS, and prints each after it has been acknowledged."""
import os
W = os.environ["W"]
os.makedirs(W + "/mnt2/t/k/f")
n = 0
while not os.path.exists(W + "/enough"):
    n += 1
    fd = os.open("%s/mnt2/t/k/f/q%06d" % (W, n), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(fd, b"v%d" % n)
    os.close(fd)
    print(n, flush=True)
PY
timeout 120 python3 "$W/writer.py" >"$W/acknowledged" 2>"$W/writer.err" &
writer=$!
more() { [ "$(wc -l <"$W/acknowledged")" -ge "$1" ]; }
wait_for "writes over TLS" more 20
kill_daemon
before=$(wc -l <"$W/acknowledged")
NOTIFY_SOCKET=$W/notify mount_store -o config="$W/conf"
ok "a writer over TLS goes on when the daemon was killed and started again" wait_for "more writes" more $((before + 20))
touch "$W/enough"
wait $writer
is "$? $(cat "$W/writer.err")" "0 " "  without an error"
is "$(find "$M/t/k/f" -name 'q*@*' | wc -l)" "$(wc -l <"$W/acknowledged")" "  and nothing that was acknowledged is lost"
end_net "the mount ends well"

# ---- a key of nobody ----
mount_net "$W/guest"
is "$(stat -c %i "$M/t/r/f/a" "$M2/t/r/f/a" | sort -u | grep -cvx "$inode")" 2 "each key and the owner have inode numbers of their own: none can choose names whose numbers collide for others"
is "$(cat "$M2/t/r/f/b")" two "a guest reads what all may read"
fails "  it writes nothing, though root mounts" "denied|permitted" cp "$W/conf" "$M2/t/r/f/b"
is "$(cat "$M/t/r/f/b")" two "  and nothing has changed"
fails "  it makes no table" "denied|permitted|known" mkdir "$M2/no"
chmod 777 "$M/t/.families/f"
echo guest >"$M2/t/r/f/g"
is "$(cat "$M/t/r/f/g")" guest "  with the mode of the family it writes"

# ---- a key that names its tables ----
mkdir -p "$M/u/r/f" "$M/t/.snap/st"
echo hidden >"$M/u/r/f/a"
mkdir "$M/u/.snap/su"
is "$(ls "$M2")" t "the guest's key has one table, and no other is listed"
fails "  another one is not there" "No such file" cat "$M2/u/r/f/a"
is "$(ls "$M2/t/.snap")" st "  snapshots of its table are listed"
is "$(cat "$M2/t/.snap/st/r/f/a")" one "  and read"
status=$(cat "$M2/.tabletfs/status")
like "$status" "^mount .*on $M2,.*
state        [a-z]+ since .*
tables       1, in 1 tablets and [0-9]+ SSTables; 1 snapshots
disk         .*
client       [0-9]+: $M2, user key guest" "  the status has its tables"
is "$(wc -l <<<"$status")" 5 "  and neither sums over all tables nor other clients"
is "$(cut -f 3 "$M2/.tabletfs/servers" | tail -n 1)" 1 "  servers counts the tablets of its tables"
is "$(cut -f 3 "$M/.tabletfs/servers" | tail -n 1)" "$(awk '$1 == "tabletfs_tablets" { print $2 }' "$M/.tabletfs/metrics")" "  for the owner all"
fails "  nor are metrics" "denied|permitted" cat "$M2/.tabletfs/metrics"
chmod 777 "$M/u/.families/f" "$M/u"
py <<'PY'
from tap import *
from peer import *
import subprocess
def answers(requests, identity="guest"):
    """The error of the answer to each request, by its number."""
    p = subprocess.Popen(["openssl", "s_client", "-connect", "127.0.0.1:%d" % PORT, "-psk_identity", identity, "-psk", keys()[identity].hex(),
        "-tls1_3", "-quiet", "-no_ign_eof", "-ciphersuites", "TLS_AES_128_GCM_SHA256"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    out, data = {}, b""
    for number, (service, body) in enumerate(requests):
        if number == 0:
            p.stdin.write(hello())
        p.stdin.write(frame(service << 4 | 2, number, b"\1" + body))
        p.stdin.flush()
        while number not in out:
            b = p.stdout.read1(65536)
            if not b:
                break
            data += b
            while len(data) >= 13 and len(data) >= 13 + struct.unpack(">I", data[:4])[0]:
                n, kind, got = struct.unpack(">IBQ", data[:13])
                if kind & 15 == 3:
                    body = data[13:13 + n]
                    at = 1
                    while body[at - 1] & 128:
                        at += 1
                    err = 0
                    if body[at:at + 1] == b"\x08":
                        zigzag, shift = 0, 0
                        for c in body[at + 1:]:
                            zigzag |= (c & 127) << shift
                            shift += 7
                            if c < 128:
                                break
                        err = zigzag >> 1 ^ -(zigzag & 1)
                    out[got] = err
                data = data[13 + n:]
    p.kill()
    p.wait()
    return [out.get(i) for i in range(len(requests))]
token = field(6, field(1, CLIENT))
IDS = range(16, 40)
user = field(16, field(1, 0))  # a user of the host: root
located = answers([(3, message(field(1, 3), field(3, i), field(4, b"r"))) for i in IDS])
mine = [i for i, err in zip(IDS, located) if err == 0]
all_ids = [i for i, err in zip(IDS, answers([(3, message(field(1, 3), field(3, i), field(4, b"r"))) for i in IDS], "laptop")) if err == 0]
same(len(mine), 2, "it finds the tablets of its table and of its snapshot")
same(len(all_ids), 4, "  a key without tables those of all")
same([err for i, err in zip(IDS, located) if i not in mine], [-13] * (len(IDS) - 2), "  all others are refused")
read = answers([(1, message(field(1, 2), field(2, i), field(4, b"r"), token, user)) for i in IDS])
same([i for i, err in zip(IDS, read) if err != -13], mine, "requests for the tablets of other tables are refused")
flush = answers([(1, message(field(1, 8), field(2, i), field(4, b"r"), token)) for i in IDS if i not in mine])
same(set(flush), {-13}, "  also to write memtables")
names = ["tables/u", "snapshots/%d.su" % all_ids[1], "snapshots/%d.su" % all_ids[0], "tables/t"]
got = answers([(3, message(field(1, 1), field(2, n.encode()))) for n in names])
same((got[0], got[1], got[3]), (-2, -2, 0), "schemas of other tables do not exist for it")
other = answers([(3, message(field(1, m))) for m in (5, 6, 7, 10, 11, 12)])
same(other, [0, -1, 0, -1, -1, 0], "metrics and settings are refused; it sees its status, its servers and its own clients")
master = answers([(2, message(field(1, m), field(2, b"u"), field(16, field(1, 0)))) for m in (1, 2, 3)])
same([e in (-1, -13) for e in master], [True] * 3, "so are the requests to the master")
master = answers([(2, message(field(1, 4), field(2, b"t"), field(4, i))) for i in all_ids if i not in mine])
same(set(master), {-13}, "  and those that name its table, and have the number of another one")

class Watcher:
    """A peer that is told what others change."""
    pings = 1000
    def __init__(self, identity):
        self.p = subprocess.Popen(["openssl", "s_client", "-connect", "127.0.0.1:%d" % PORT, "-psk_identity", identity, "-psk",
            keys()[identity].hex(), "-tls1_3", "-quiet", "-no_ign_eof", "-ciphersuites", "TLS_AES_128_GCM_SHA256"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.data = b""
        self.p.stdin.write(hello(client=CLIENT + len(identity)) + frame(6, 0, b""))
        self.p.stdin.flush()
        while not self.next().get(3):  # the first notice says: all
            pass
    def next(self):
        """The fields of the next notice: 1: a list of (table, has a row)."""
        while True:
            while len(self.data) >= 13 and len(self.data) >= 13 + struct.unpack(">I", self.data[:4])[0]:
                n, kind, _ = struct.unpack(">IBQ", self.data[:13])
                body, self.data = self.data[13:13 + n], self.data[13 + n:]
                if kind == 6:
                    return self.fields(body)
            b = self.p.stdout.read1(65536)
            if not b:
                raise SystemExit("the watcher's connection is closed")
            self.data += b
    @staticmethod
    def read(body, at):
        n = shift = 0
        while True:
            c, at = body[at], at + 1
            n |= (c & 127) << shift
            shift += 7
            if c < 128:
                return n, at
    def fields(self, body):
        out = {1: []}
        n, at = self.read(body, 0)
        while at < len(body):
            tag, at = self.read(body, at)
            n, at = self.read(body, at)
            if tag >> 3 == 1:
                row, body_at, found = body[at:at + n], 0, {}
                at += n
                while body_at < len(row):
                    inner, body_at = self.read(row, body_at)
                    value, body_at = self.read(row, body_at)
                    found[inner >> 3] = value
                    body_at += value if inner & 7 == 2 else 0
                out[1].append((found[1], bool(found.get(2))))
            else:
                out[tag >> 3] = n
        return out
    def alive(self):
        """Whether a PING is answered."""
        self.pings += 1
        try:
            self.p.stdin.write(frame(4, self.pings, b""))
            self.p.stdin.flush()
        except BrokenPipeError:
            return False
        while frame(5, self.pings, b"") not in self.data:
            b = self.p.stdout.read1(65536)
            if not b:
                return False
            self.data += b
        return True
    def ends(self):
        """Whether the connection is closed.  Until then a notice comes four times a second."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            if not self.p.stdout.read1(65536):
                return True
        return False
    def until(self, table):
        """All rows of the notices up to the first one that names the table."""
        rows = []
        while table not in [t for t, _ in rows]:
            rows += self.next()[1]
        return set(rows)
guest, laptop = Watcher("guest"), Watcher("laptop")
for table in "ut":
    with open("%s/%s/r/f/noticed" % (os.environ["M"], table), "w") as f:
        f.write("x")
theirs, own = [i for i in all_ids if i not in mine], mine[0]
same(guest.until(own), {(own, False)}, "its peer is told that its table has changed, without rows, and of no other table")
told = laptop.until(own)
ok((own, True) in told and set(theirs) & {t for t, row in told if row}, "  a host that vouches for its users is told the rows of all") or note(told)
# It never says that it has dropped what it keeps.
family = os.environ["M"] + "/t/.families/f"
ok(laptop.alive(), "a host that vouches for its users is connected")
os.chmod(family, 0o770)
same(laptop.ends(), True, "  a chmod waits for it, and disconnects it if it does not drop what it keeps")
again = Watcher("laptop")
os.chmod(family, 0o777)
ok(again.alive(), "  when it comes again, the next chmod does not wait for it")
PY
# ---- disconnect ----
number() { awk -F'\t' -v m="$M2" '$4 == m { print $1 }' "$M/.tabletfs/clients"; }
n=$(number)
ok "disconnect a peer with a key" bash -c "echo disconnect $n >'$M/.tabletfs/ctl'"
gone() { [ -z "$(number)" ]; }
ok "  it is not listed any more" wait_for "its end" gone
t cat "$M2/t/r/f/a" >"$W/waits" &
waits=$!
py <<'PY'
from tap import *
from peer import *
out, err = s_client("-tls1_3", "-quiet", identity="guest", send=hello())
ok(b"the owner of the store has disconnected it" in out, "  a new connection with this key is refused") or note(out, err)
out, err = s_client("-tls1_3", send=hello())
ok(b"Reused, TLSv1.3" in out, "  one of another key and the same address is not")
PY
ok "  while it waits" runs $waits
ok "allow" bash -c "echo allow $n >'$M/.tabletfs/ctl'"
wait $waits
is "$? $(cat "$W/waits")" "0 one" "  the call that waited ends well"
ok "a table that gets the name of its table is its table" mv "$M/t" "$M/old"
ok "  the other" mv "$M/u" "$M/t"
hidden() { [ "$(cat "$M2/t/r/f/a" 2>/dev/null)" = hidden ]; }
ok "  it reads it" wait_for "the other table" hidden
fails "  and the former one no more" "No such file" ls "$M2/old"
end_net "the mount ends well"
unmount_store
kill $manager

# ---- clear text ----
conf "listen = \"127.0.0.1:$PORT\"; insecure_tcp = true;"
mount_store -o config="$W/conf"
like "$(daemon_log)" "in clear text; everybody who reaches it is the user nobody" "a port for clear text is a warning"
"$TABLETFS" -f "tcp://127.0.0.1:$PORT" "$M2" >"$W/second.out" 2>"$W/second.err" </dev/null &
second=$!
ok "a mount in clear text" wait_for "the mount" second_answers
is "$(ls "$M2")" "$(ls "$M")" "  shows all tables"
is "$(cat "$M2/t/r/f/a")" hidden "  and what all may read"
chmod 700 "$M/old/.families/f"
fails "  nothing else, though root mounts" "denied|permitted|No such file" cat "$M2/old/r/f/a"
fails "  it makes no table" "denied|permitted" mkdir "$M2/no"
like "$(cut -f 2-4 "$M/.tabletfs/clients")" "^no key	-	$M2\$" "  clients says that it has no key"
end_net "the mount ends well"
fails "TLS does not talk to clear text" "rejected|reset|lost|timed out|malformed" tries -o keys="$LAPTOP" "tls://127.0.0.1:$PORT"
unmount_store
done_testing
