#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A change that ends with EINTR may have happened.  The mount of a served store then
# asks the store, and does not go on with the names and sizes that it kept before.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model is not served"
cat >"$W/relay.py" <<'PY'
"""relay LISTEN TARGET HOLD LOG REQUESTS: passes frames.  While the pipe HOLD exists, answers to MUTATE wait."""
import os, socket, struct, sys, threading
listen, target, hold, log, requests = sys.argv[1:]
HEADER = struct.Struct(">IBQ")
def frame(s):
    def read(n):
        b = b""
        while len(b) < n:
            x = s.recv(n - len(b))
            if not x:
                raise EOFError
            b += x
        return b
    h = read(HEADER.size)
    n, kind, number = HEADER.unpack(h)
    return kind, number, h + read(n)
def passes(source, to, look):
    try:
        while True:
            kind, number, b = frame(source)
            look(kind, number, b)
            to.sendall(b)
    except (EOFError, OSError):
        pass
    for s in source, to:
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
def serve(c):
    t = socket.socket(socket.AF_UNIX)
    t.connect(target)
    held = set()
    def request(kind, number, b):
        if kind & 15 == 2:
            with open(requests, "a") as f:
                f.write("x")
            if b"\x08\x01\x10" in b[13:37] and os.path.exists(hold):  # MUTATE
                held.add(number)
    def answer(kind, number, b):
        if kind & 15 == 3 and number in held:
            with open(log, "a") as f:
                f.write("held\n")
            try:
                open(hold).read()  # until the test closes it
            except FileNotFoundError:
                pass
    threading.Thread(target=passes, args=(t, c, answer), daemon=True).start()
    passes(c, t, request)
s = socket.socket(socket.AF_UNIX)
s.bind(listen)
s.listen(10)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
PY
mount_store
mkdir -p "$M/t/r/f"
for c in a b c d; do echo "$c" >"$M/t/r/f/$c@5"; done
unmount_store
serve_store
mv "$D/socket" "$W/real"
: >"$W/held"
: >"$W/requests"
python3 "$W/relay.py" "$D/socket" "$W/real" "$W/hold" "$W/held" "$W/requests" &
relay=$!
wait_for "the relay" test -S "$D/socket"
"$TABLETFS" -f "unix:$D" "$M" -o coherence=60s >"$W/daemon.out" 2>"$W/daemon.err" </dev/null &
daemon=$!
wait_for "the mount" mount_answers
F=$M/t/r/f L=$M/t/.latest/r/f
look() { ls -l "$F" "$L"; }
# keeps: the mount answers for them without a request.
keeps() {
	local before
	look
	before=$(wc -c <"$W/requests")
	look
	[ "$before" = "$(wc -c <"$W/requests")" ]
}
# unknown COMMAND...: runs it, and ends it by a signal while the answer is under way.
unknown() {
	ok "$1: the mount keeps what it knows" wait_for "$1" keeps
	: >"$W/held"
	mkfifo "$W/hold"
	exec 7<>"$W/hold"
	"$@" >"$W/unknown.out" 2>&1 7>&- &
	local pid=$!
	wait_for "the answer" test -s "$W/held"
	kill -TERM $pid
	wait $pid 2>/dev/null
	rm "$W/hold"
	exec 7>&-
}
unknown rm "$F/a"
is "$(cd "$F" && echo *)" "b@5 c@5 d@5" "a removal: the listing has what the store has"
fails "  and stat" "No such file" stat "$F/a"
unknown rm "$L/c"
is "$(cd "$L" && echo *)" "b d" "a removal in .latest"
fails "  and stat" "No such file" stat "$L/c"
unknown mv "$F/d" "$F/z"
is "$(cd "$L" && echo *)" "b z" "a rename"
fails "  and stat" "No such file" stat "$L/d"
unknown dd if=/dev/zero of="$F/b" bs=7 count=1 conv=notrunc
is "$(stat -c %s "$F/b" "$L/b" | tr '\n' ' ')" "7 7 " "a write: the size is that of the store"
is "$("$TABLETCTL" get "$D/t" r f:b | tr '\0' 0)" 0000000 "  which has it"
t fusermount3 -u "$M"
wait_daemon
is "$daemon_status" 0 "the mount ends well"
kill $relay
wait $relay 2>/dev/null
end_server -TERM
check_store
done_testing
