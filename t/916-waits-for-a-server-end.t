#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A mount whose server is stopped or dead waits for it: a ^C ends a wait at once, one user has only so
# many waits (EAGAIN), the rest of the mount answers meanwhile, a wait ends after
# -o timeout (EIO), and the mount goes on by itself.  It keeps nothing meanwhile.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2120
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has one user"
# fails_within SECONDS COMMAND...: the command fails, and takes no longer.
fails_within() {
	local since=$SECONDS limit=$1
	shift
	! "$@" && [ $((SECONDS - since)) -le "$limit" ] && return 1
	echo "$((SECONDS - since)) s"
}
mount_store
mkdir -p "$M/t/r/f"
echo one >"$M/t/r/f/a"
mount_second
is "$(cat "$M2/t/r/f/a")" one "the second mount reads"
version=$(ls "$M2/t/r/f")
is "$(cat "$M2/t/r/f/$version")" one "  and a version, which it keeps"

# ---- the server is stopped ----
kill -STOP "$daemon"
t cat "$M2/t/r/f/a" >"$W/waits.out" 2>"$W/waits.err" &
waits=$!
py "$M2" <<'PY'
from tap import *
import signal
import subprocess
m = sys.argv[1]
def start(n, path, group=None):
    return [subprocess.Popen(["cat", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(n)]
# ^C: the process is in the call.
p = start(1, m + "/t/r/f/a")[0]
def in_call():
    with open("/proc/%d/stat" % p.pid) as f:
        return f.read().rpartition(")")[2].split()[0] in "SD" and "t/r/f/a" in open("/proc/%d/cmdline" % p.pid).read()
wait_until(in_call, True)
time.sleep(0.3)  # it may not have sent its request yet; then it ends even more easily
since = time.monotonic()
p.send_signal(signal.SIGINT)
same(p.wait(60), -signal.SIGINT, "^C ends a wait")
ok(time.monotonic() - since < 30, "  at once")
# More than one user may have.
many = start(40, m + "/t/r/f/a")
def refused():
    return sum(1 for x in many if x.poll() is not None)
ok(wait_until(lambda: refused() >= 20, True, 30), "most of 40 waits of one user are refused")
err = [x.stderr.read() for x in many if x.poll() is not None]
ok(all(b"Resource temporarily unavailable" in e for e in err), "  with EAGAIN")
note(len(err), "refused")
since = time.monotonic()
with open(m + "/.tabletfs/log") as f:
    ok(len(f.read()) > 0, "the mount answers what needs no server")
ok(time.monotonic() - since < 30, "  without a wait")
for x in many:
    if x.poll() is None:
        x.send_signal(signal.SIGINT)
same({x.wait(60) for x in many if x.returncode is None} | {0}, {0, -signal.SIGINT} if any(x.returncode == -2 for x in many) else {0},
     "the rest are interrupted")
PY
kill -CONT "$daemon"
wait $waits
is "$? $(cat "$W/waits.out")" "0 one" "a wait ends well when the server goes on"
echo two >"$M2/t/r/f/a"
is "$(cat "$M/t/r/f/a")" two "the mount writes"

# ---- nobody tells of changes ----
stat "$M2/t/r/f/$version" >/dev/null
kill -STOP "$daemon"
asks() { ! timeout 1 stat "$M2/t/r/f/$version"; }
ok "a mount that hears nothing of its server asks for what it had kept" wait_for "the bound" asks
kill -CONT "$daemon"
ok "  and keeps it again" wait_for "the answer" t stat "$M2/t/r/f/$version"

# ---- the server dies, and another one comes ----
kill_daemon
t cat "$M2/t/r/f/a" >"$W/waits.out" 2>"$W/waits.err" &
waits=$!
bash -c 'echo three >"$1"' - "$M2/t/r/f/b" 2>"$W/writes.err" &
writes=$!
mount_store
wait $waits
is "$? $(cat "$W/waits.out")" "0 two" "a read waits for the next server"
wait $writes
is "$?" 0 "  a write, too"
is "$(cat "$M/t/r/f/b") $(ls "$M/t/r/f" | grep -c '^b@')" "three 1" "  and is applied once"
fusermount3 -u "$M2"
wait $second

# ---- a shorter time ----
mount_second -o timeout=3s
is "$(cat "$M2/t/r/f/b")" three "a mount with timeout=3s"
kill_daemon
fails "  waits no longer for a dead server to read" "Input/output error" fails_within 20 t cat "$M2/t/r/f/b"
fails "  nor to write" "Input/output error" fails_within 20 t bash -c 'echo four >"$1"' - "$M2/t/r/f/b"
fails "  nor to make a table" "Input/output error" fails_within 20 t mkdir "$M2/u"
mount_store
back() { [ "$(t cat "$M2/t/r/f/b")" = three ]; }
ok "  and goes on when there is one" wait_for "the server" back
fusermount3 -u "$M2"
wait $second

# ---- a mount ends while its server is stopped: all its waits together have the time of one ----
mount_second -o timeout=5s
python3 - "$M2/t/r/f" "$W/staged" <<'PY' &
import os, sys, time
fds = [os.open("%s/open%d" % (sys.argv[1], i), os.O_WRONLY | os.O_CREAT) for i in range(8)]
for fd in fds:
    os.write(fd, b"staged")
os.mkdir(sys.argv[2])
time.sleep(600)
PY
holder=$!
ok "8 descriptors with staged bytes" wait_for "the descriptors" [ -d "$W/staged" ]
kill -STOP "$daemon"
kill "$second"
since=$SECONDS
wait "$second"
took=$((SECONDS - since))
ok "a mount with them ends while its server is stopped, in the time of one wait" [ $took -lt 20 ]
echo "# $took s"
is "$(grep -cE "/t/r/f/open[0-7]: .*: Input/output error" "$W/second.err")" 8 "  and names each file whose bytes are lost"
grep "/t/r/f/open" "$W/second.err" | diag
kill -CONT "$daemon"
kill $holder
fails "a wrong time" "coherence=1ms: must be from 500ms to 60s" "$TABLETFS" -o coherence=1ms "unix:$D" "$M2"
done_testing
