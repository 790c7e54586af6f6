#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A listing shows a name that is created at a place which the reader has not
# reached yet, even if the previous answer had reached the end.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
mkdir -p "$M/t/r/f"
echo 1 >"$M/t/r/f/a"
export M
py <<'EOF2'
from tap import *
import subprocess

def entries(fd):
    return [n.split("@")[0] for n, _ in getdents(fd, 32768) if n not in (".", "..")]

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
# ---- a row loses its last cell while it is listed ----
py <<'EOF2'
from tap import *
import threading
t = os.environ["M"] + "/emptied"
os.mkdir(t)
missing = 0
for i in range(100):
    cell = t + "/r/f/q"
    os.makedirs(t + "/r/f", exist_ok=True)
    spill(cell, b"x")
    remover = threading.Thread(target=os.unlink, args=(cell,))
    remover.start()
    while remover.is_alive():
        os.listdir(t)
    remover.join()
    missing += os.listdir(t) != ["r"]
same(missing, 0, "the last cell of a row is removed while the table is listed: the row stays in listings")
EOF2
# ---- cells that expire while the kernel holds the listing ----
mkdir "$M/t/.families/e"
echo 'maxage=2s' >"$M/t/.families/e/gc"
mkdir "$M/t/r/e"
# On a busy machine the listings may come two seconds after the write; then they show nothing.
for i in 1 2 3 4 5 6 7 8 9 10; do
	before=${EPOCHREALTIME/./}
	echo 1 >"$M/t/r/e/x"
	there="$(ls "$M/t/r/e" | wc -l) $(ls "$M/t/r/e" | wc -l)"
	[ $((${EPOCHREALTIME/./} - before)) -ge 2000000 ] || break
	rm -f "$M/t/r/e/"*
done
is "$there" "1 1" "maxage=2s: there at first"
# Real time is the subject: the cells expire after two seconds, and the kernel may cache a listing for one more.
sleep 3.2
is "$(ls "$M/t/r/e" | wc -l)" 0 "  gone three seconds later"
# ---- a reader seeks back in a listing while others add and remove ----
py <<'EOF2'
from tap import *
def rest(fd):
    out = []
    while part := getdents(fd, 2048):
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
        seen += getdents(fd, 2048)
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
    while part := getdents(fd, size):
        for n, _ in part:
            if n not in (".", "..", "default"):
                os.rmdir(where + "/" + n)
    os.close(fd)
    return os.listdir(where)
same(emptied(t + "/.groups", 90, 1024), ["default"], "groups are removed while they are listed")
os.mkdir(t + "2")
same(emptied(t + "2/.families", 200, 1024), [], "  and families")
EOF2
# ---- listings that are abandoned, others under way ----
py <<'EOF2'
from tap import *
import shutil, threading
def rest(fd, size=2048):
    out = []
    while part := getdents(fd, size):
        out += [n for n, _ in part if n not in (".", "..")]
    return out
t = os.environ["M"] + "/left"
def rows(count):
    for i in range(count):
        os.makedirs("%s/row%05d/f" % (t, i))
        spill("%s/row%05d/f/q" % (t, i), b"x")
def abandon(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    getdents(fd, 64)
    os.close(fd)
rows(1500)
with os.scandir(t) as it:
    for e in it:
        abandon(e.path)
        abandon(e.path + "/f")
        shutil.rmtree(e.path)
same(os.listdir(t), [], "rows are removed as they are listed, with two listings abandoned for each")
rows(700)
names = sorted(os.listdir(t))
fd = os.open(t, os.O_RDONLY | os.O_DIRECTORY)
seen = getdents(fd, 4096)
for i in range(3000):
    abandon(t)
same([n for n, _ in seen[2:]] + rest(fd), names, "3,000 listings of it are abandoned: a listing goes on")
for n in names[:350:2]:
    shutil.rmtree(t + "/" + n)
os.lseek(fd, seen[20][1], os.SEEK_SET)
left = [n for n in names if os.path.exists(t + "/" + n)]
same(rest(fd), [n for n in left if n > seen[20][0]], "  and one goes back in it, after half of the rows went")
other = os.open(t, os.O_RDONLY | os.O_DIRECTORY)
os.lseek(other, seen[20][1], os.SEEK_SET)
same(rest(other), [n for n in left if n > seen[20][0]], "an offset holds in a directory that is opened again, while the first is open")
os.close(fd)
os.close(other)
for i in range(1500):
    fd = os.open(t, os.O_RDONLY | os.O_DIRECTORY)
    getdents(fd, 32768)
    os.close(fd)
fd = os.open(t, os.O_RDONLY | os.O_DIRECTORY)
os.lseek(fd, seen[20][1], os.SEEK_SET)
err("ESTALE", "  long after it was closed it fails, and skips nothing in silence", rest, fd)
os.close(fd)
# Two readers; others remove names that neither has reached.
two = [os.open(t, os.O_RDONLY | os.O_DIRECTORY) for _ in range(2)]
got = [getdents(fd, 1024)[2:] for fd in two]
gone = left[200:400:3]
threads = [threading.Thread(target=lambda v: [shutil.rmtree(t + "/" + n) for n in v], args=(gone[i::2],)) for i in range(2)]
for x in threads:
    x.start()
for x in threads:
    x.join()
want = [n for n in left if n not in gone]
same([[n for n, _ in g] + rest(fd) for g, fd in zip(got, two)], [want, want], "two readers meet what others leave, once each")
for fd in two:
    os.close(fd)
# Further back than places are remembered.
os.mkdir(t + "/big")
os.mkdir(t + "/big/f")
fd = os.open(t + "/big/f", os.O_RDONLY | os.O_DIRECTORY)
for i in range(12000):
    os.close(os.open(t + "/big/f/%06d@1" % i, os.O_WRONLY | os.O_CREAT))
all, seen = ["%06d@1" % i for i in range(12000)], []
while part := getdents(fd, 32768):
    seen += part
same([n for n, _ in seen[2:]], all, "12,000 cells")
os.lseek(fd, seen[1502][1], os.SEEK_SET)
got = errno_of(rest, fd, 32768)
if got == "ESTALE" and os.environ.get("OVER"):
    note("the mount heard nothing of its server for a moment, so it does not count")
else:
    os.lseek(fd, seen[1502][1], os.SEEK_SET)
    same(rest(fd, 32768), all[1501:], "  and back to the 1,501st, which is counted")
for i in range(1300, 1400):
    os.unlink(t + "/big/f/%06d@1" % i)
os.lseek(fd, seen[1502][1], os.SEEK_SET)
err("ESTALE", "  which is refused once it has changed", rest, fd)
os.lseek(fd, seen[11900][1], os.SEEK_SET)
same(rest(fd, 32768), all[11899:], "  but not what is remembered")
os.close(fd)
EOF2
unmount_store
mount_store -o ro
is "$(ls -U "$M/t/r/f" | wc -l) $(ls -U "$M/t/r/f" | wc -l)" "2 2" "read-only, listed twice"
unmount_store
if [ "$(id -u)" != 0 ]; then
	skip "two users list one view" "needs root"
	done_testing
fi
ok "mount -o allow_other" mount_store -o allow_other
mkdir -p "$M/two/.families/f" "$M/two/.families/secret"
chmod 600 "$M/two/.families/secret"
for ((i = 1000; i < 1600; i++)); do
	printf 'r%d\t%s:q\t1\tv\n' $i $((i % 3)) | sed 's/\t0:/\tf:/; s/\t[12]:/\tsecret:/'
done >"$M/two/.import"
for options in allow_other allow_other,ro; do
	unmount_store
	ok "mount -o $options" mount_store -o $options
	py <<'EOF2'
from tap import *
import random

view = os.environ["M"] + "/two/.scan/from=r/to=s/.rows"
rows = {0: ["r%d" % i for i in range(1000, 1600)], 1001: ["r%d" % i for i in range(1000, 1600) if i % 3 == 0]}

class Listing:
    """A listing of the view by one user, a part at a time."""
    def __init__(self, uid):
        self.uid, self.names, self.ended = uid, [], False
        self.as_user(lambda: setattr(self, "fd", os.open(view, os.O_RDONLY | os.O_DIRECTORY)))
    def as_user(self, call):
        os.seteuid(self.uid)
        try:
            return call()
        finally:
            os.seteuid(0)
    def more(self, size):
        part = self.as_user(lambda: getdents(self.fd, size))
        self.names += [n for n, _ in part if n not in (".", "..")]
        self.ended = not part
        if self.ended:
            os.close(self.fd)

rng = random.Random(7)
wrong = []
for i in range(60):
    # Two listings of root's and two of the other user's, in a random order of their parts.
    all = [Listing(u) for u in (0, 1001, 0, 1001)]
    left = all[:]
    while left:
        l = rng.choice(left)
        l.more(rng.choice([512, 4096, 32768]))
        if l.ended:
            left.remove(l)
    wrong += [(i, l.uid, len(l.names)) for l in all if l.names != rows[l.uid]]
same(wrong, [], "two users list one view at once: each sees the rows that it may read, once")
EOF2
done
done_testing
