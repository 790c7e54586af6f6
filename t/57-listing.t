#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A listing between its answers: what comes to a place that a reader has not
# passed is listed, also when the answer before had met the end already.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
mkdir -p "$M/t/r/f"
echo 1 >"$M/t/r/f/a"
export M
py <<'EOF2'
from tap import *
import ctypes
import struct
import subprocess
libc = ctypes.CDLL(None, use_errno=True)

def entries(fd):
    buf = ctypes.create_string_buffer(32768)
    n = libc.getdents64(fd, buf, len(buf))
    assert n >= 0, os.strerror(ctypes.get_errno())
    names, at = [], 0
    while at < n:
        size = struct.unpack_from("H", buf, at + 16)[0]
        names.append(buf.raw[at + 19:at + size].split(b"\0")[0].decode())
        at += size
    return [n.split("@")[0] for n in names if n not in (".", "..")]

def listing(path, change=None):
    """The parts of a listing, with a change made by another process after the first."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    parts = [entries(fd)]
    if change:
        subprocess.run(["sh", "-c", change], check=True)
    while parts[-1] or len(parts) == 1:
        parts.append(entries(fd))
    os.close(fd)
    return parts

t = os.environ["M"] + "/t"
f = t + "/r/f"
same(listing(f, f"echo 2 >{f}/b"), [["a"], ["b"], []], "a cell comes behind the end")
same(listing(f, f"echo 0 >{f}/0"), [["a", "b"], []], "one comes before the place")
same(listing(f), [["0", "a", "b"], []], "  and is there next time")
same(listing(f, f"rm {f}/b"), [["0", "a", "b"], []], "one goes")
same(listing(f), [["0", "a"], []], "  and is gone next time")
same(listing(t, f"mkdir {t}/s"), [["r"], ["s"], []], "a row is made behind the end")
same(listing(t, f"rmdir {t}/s"), [["r", "s"], []], "  and goes")
same(listing(t, f"echo x >{t}/.x"), [["r"], []], "scratch comes before the keys")
same(listing(t), [[".x", "r"], []], "  and is listed next time")
same(listing(t + "/r", f"mkdir -p {t}/.families/g {t}/r/g"), [["f"], ["g"], []], "a family is made and used")
for again in ("", ", again"): # from here on the kernel may answer
    same(listing(f), [["0", "a"], []], "nothing changes" + again)
EOF2
# ---- cells that expire while the kernel holds the listing ----
mkdir "$M/t/.families/e"
echo 'maxage=2s' >"$M/t/.families/e/gc"
mkdir "$M/t/r/e"
echo 1 >"$M/t/r/e/x"
is "$(ls "$M/t/r/e" | wc -l) $(ls "$M/t/r/e" | wc -l)" "1 1" "maxage=2s: there at first"
sleep 3.2 # time itself: two seconds of age, and one in which a listing may be kept
is "$(ls "$M/t/r/e" | wc -l)" 0 "  gone three seconds later"
# ---- who goes back in a listing, while others add and remove ----
py <<'EOF2'
from tap import *
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
def some(fd, size):
    """A few entries, each with the offset behind it; [] at the end."""
    b = ctypes.create_string_buffer(size)
    n = libc.syscall(217, fd, b, size) # getdents64
    if n < 0:
        raise OSError(ctypes.get_errno(), "getdents64")
    at, out = 0, []
    while at < n:
        _, offset, length = struct.unpack_from("<QqH", b.raw, at)
        out.append((b.raw[at + 19:at + length].split(b"\0")[0].decode(), offset))
        at += length
    return out
def rest(fd):
    out = []
    while part := some(fd, 2048):
        out += [n for n, _ in part]
    return out
t = os.environ["M"] + "/seek"
d = t + "/r/f/"
os.makedirs(d)
names = ["q%03d@1" % i for i in range(700)]
for n in names:
    spill(d + n, b"x")
def gone_back(change):
    """What is listed from the 400th entry on by who has read 600, after a change."""
    fd = os.open(d, os.O_RDONLY | os.O_DIRECTORY)
    seen = []
    while len(seen) < 600:
        seen += some(fd, 2048)
    os.lseek(fd, seen[400][1], os.SEEK_SET)
    change(seen)
    got = rest(fd)
    os.close(fd)
    return seen[400][0], got
def remove(seen):
    for n, _ in seen[401:451]:
        os.unlink(d + n)
        names.remove(n)
back, got = gone_back(remove)
same(got, [n for n in names if n > back], "50 go behind the place gone back to: the others are listed, once each")
new = []
def add(seen):
    new.extend(seen[400][0][:-2] + "-%02d@1" % i for i in range(50))
    for n in new:
        spill(d + n, b"x")
back, got = gone_back(add)
same([n for n in got if n not in new], [n for n in names if n > back], "50 come: the others are listed, once each")

# More than one answer holds, each removed as it is met.
def emptied(where, count, size):
    for i in range(count):
        os.mkdir(where + "/n%03d" % i + "x" * 50)
    fd = os.open(where, os.O_RDONLY | os.O_DIRECTORY)
    while part := some(fd, size):
        for n, _ in part:
            if n not in (".", "..", "default"):
                os.rmdir(where + "/" + n)
    os.close(fd)
    return os.listdir(where)
same(emptied(t + "/.groups", 90, 1024), ["default"], "groups are removed while they are listed")
os.mkdir(t + "2")
same(emptied(t + "2/.families", 200, 1024), [], "  and families")
EOF2
unmount_store
mount_store -o ro
is "$(ls -U "$M/t/r/f" | wc -l) $(ls -U "$M/t/r/f" | wc -l)" "2 2" "read-only, listed twice"
done_testing
