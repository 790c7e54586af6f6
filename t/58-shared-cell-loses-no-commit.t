#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several descriptors of one cell, while others change its name: no committed
# content is hidden or lost, and no removed cell comes back.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
F=$M/t/r/f
L=$M/t/.latest/r/f
mkdir -p "$F" "$M/t/r/g" "$M/t/r2/f" "$M/t/.families/n" "$M/t/r/n"
echo counter >"$M/t/.families/n/type"
DAEMON=$daemon
export F L DAEMON

cat >"$W/cells.py" <<'PY'
from tap import *
F, L = os.environ["F"], os.environ["L"]
os.chdir(F)
C = os.O_WRONLY | os.O_CREAT
def versions(q):
    return sorted(int(n.rpartition("@")[2]) for n in os.listdir(".") if n.startswith(q + "@"))
PY
export PYTHONPATH="$PYTHONPATH:$W"

py <<'EOF2'
from cells import *
# ---- times: matched by node, meant for the newest version ----
fd = os.open("a", C)
os.write(fd, b"old")
os.fsync(fd)
spill("a", b"new")
os.utime("a")
same((slurp("a"), len(versions("a"))), (b"new", 2), "touch moves the newest version, not the one that a descriptor still open made")
os.close(fd)
same((slurp("a"), len(versions("a"))), (b"new", 2), "  also when that is closed")
fd = os.open(L + "/al", C)
os.write(fd, b"old")
os.fsync(fd)
spill(L + "/al", b"new")
set_us(L + "/al", 10 ** 15)
os.close(fd)
same((slurp(L + "/al"), versions("al")), (b"new", [10 ** 15]), "  in .latest, where it deletes what is newer, too")
fd = os.open(".a", C)
os.write(fd, b"old")
os.rename(".a", "as")
spill("as", b"new")
os.utime(fd, ns=(1, 2 * 10 ** 18))
os.close(fd)
same((slurp("as"), len(versions("as"))), (b"new", 2), "  and through a descriptor of what was scratch")

# ---- a truncation that nothing was written after ----
for q, before in (("c", None), ("c2", b"before")):
    if before:
        spill(q, before)
    fd = os.open(q, C | os.O_TRUNC)
    spill(q, b"written later")
    n = len(versions(q))
    os.close(fd)
    spill("tick", b"")
    same((slurp(q), len(versions(q))), (b"written later", n), "a bare truncation hides nothing that was written after it (%s)" % (before or "new"))
fd = os.open("c5", C | os.O_TRUNC)
spill("c5", b"written later")
r, w = os.pipe()
d = os.open("c5", os.O_RDONLY)
same((os.stat("c5").st_size, os.sendfile(w, d, 0, 99)), (13, 13), "  nor does it to stat and sendfile, while its descriptor is still open")
for f in (fd, r, w, d):
    os.close(f)
for q in ("c5", "c6@5"):
    spill(q, b"before")
    os.close(os.open(q, os.O_RDONLY | os.O_TRUNC))
    soon(lambda: slurp(q), b"", "O_TRUNC truncates %s, opened for reading only as it is" % q)
fd = os.open("c3", C | os.O_TRUNC)
os.fsync(fd)
same((slurp("c3"), len(versions("c3"))), (b"", 1), "fsync commits a file that was only created")
os.write(fd, b"more")
os.close(fd)
same((slurp("c3"), len(versions("c3"))), (b"more", 1), "  and what follows replaces it")
fd = os.open(".empty", C)
os.close(fd)
os.rename(".empty", "c4")
ok(us("c4") > 10 ** 15, "an empty scratch file becomes a cell of now")

# ---- scratch that became a version ----
fd = os.open(".s", C)
os.write(fd, b"x")
os.rename(".s", "d@9")
os.unlink("d@9")
os.write(fd, b"y")
os.close(fd)
same(versions("d"), [], "scratch renamed onto a version, removed while open: it does not come back")
fd = os.open(".s", C)
os.write(fd, b"x")
os.rename(".s", "d@9")
spill(".t", b"other")
os.rename(".t", "d@9")
os.write(fd, b"y")
os.close(fd)
same(slurp("d@9"), b"other", "  replaced while open: it stays so")
fd = os.open(".s", C)
os.write(fd, b"x")
os.rename(".s", "d@8")
os.write(fd, b"y")
os.close(fd)
same(slurp("d@8"), b"xy", "  left alone: the descriptor is one of the version")
spill("d@7", b"first life")
r = os.open("d@7", os.O_RDONLY)
os.unlink("d@7")
same(os.pread(r, 99, 0), b"first life", "a reader of a removed version keeps it")
spill(".t", b"second life")
os.rename(".t", "d@7")
same(slurp("d@7"), b"second life", "  who opens it anew after a rename onto the name sees the new one")
os.unlink("d@7")
ok(os.pread(r, 99, 0) in (b"first life", b"second life"), "  and after another removal it still can be read")
os.close(r)
err("ENOENT", "  and is gone", os.stat, "d@7")

# ---- renames ----
spill("e", b"1")
spill("e", b"2")
v = versions("e")
fd = os.open("e", os.O_WRONLY | os.O_APPEND)
os.write(fd, b"+")
os.rename(L + "/e", "e")
os.close(fd)
same((slurp("e"), versions("e")[:2], len(versions("e"))), (b"2+", v, 3), "rename from one view of the table to the same name in the other: nothing happens")
err("EEXIST", "  NOREPLACE", renameat2, L + "/e", F + "/e", RENAME_NOREPLACE)
fd = os.open("../n/k", C)
os.write(fd, b"42")
spill("text", b"text")
err("EXDEV", "rename of bytes onto a counter", os.rename, "text", "../n/k")
err("EXDEV", "  and of a counter to bytes", os.rename, "../n/k", "text")
os.close(fd)
same(slurp("../n/k"), b"42\n", "  leaves a writer of the counter as he was")
spill("t1", b"1")
fd = os.open("t1", os.O_WRONLY | os.O_APPEND)
fl = os.open(L + "/t1", os.O_WRONLY | os.O_APPEND)
os.write(fl, b"L")
os.rename("t1", "t2")
os.write(fd, b"2")
os.rename("t2", "t3")
os.write(fd, b"3")
os.write(fl, b"l")
os.close(fd)
os.close(fl)
same((versions("t1"), versions("t2"), slurp("t3")), ([], [], b"1L23l"), "renamed twice while open, in both views: each descriptor goes along")
fd = os.open(".t", C)
os.write(fd, b"1")
os.rename(".t", "t4")
os.rename("t4", "t5")
os.write(fd, b"2")
os.close(fd)
same((versions("t4"), slurp("t5")), ([], b"12"), "  one that was scratch too")
fd = os.open("t6", C)
os.write(fd, b"1")
os.rename("t6", "t7@5")
os.write(fd, b"2")
os.fsync(fd)
same(slurp("t7@5"), b"12", "a plain name renamed onto a version while open writes to that")
os.unlink("t7@5")
os.write(fd, b"3")
os.close(fd)
same(versions("t7"), [], "  and does not bring it back")
os.makedirs("../../gone/f")
spill("../../gone/f/q", b"")
os.stat("../../gone/f")
os.unlink("../../.latest/gone/f/q")
os.rmdir("../../.latest/gone/f")
os.rmdir("../../.latest/gone")
soon(lambda: errno_of(os.stat, "../../gone"), "ENOENT", "a row whose last cell was removed in one view has gone in the other")
# A rename that the store refuses: the column is more than one mutation takes.
big = os.urandom(1 << 20) * 52
for i in range(5):
    spill("huge@%d" % i, big)
fd = os.open("huge@2", os.O_WRONLY)
os.pwrite(fd, b"mark", 0)
w = os.open("huge", os.O_WRONLY | os.O_APPEND)
os.write(w, b"tail")
err("E2BIG", "rename of a column of 260 MiB", os.rename, "huge", "huger")
os.pwrite(fd, b"MARK", 4)
os.close(fd)
os.close(w)
with open("huge@2", "rb") as f:
    same(f.read(8), b"markMARK", "  descriptors of its versions go on")
same(os.stat("huge").st_size, len(big) + 4, "  and of the plain name")
os.unlink("huge")

# ---- sizes and positions ----
spill("g", b"x" * 1000)
fd = os.open("g", os.O_WRONLY)
os.ftruncate(fd, 10)
os.fsync(fd)
os.pwrite(fd, b"y", 0)
same(os.fstat(fd).st_size, 10, "the size after a cut was committed")
os.close(fd)
same(slurp("g"), b"y" + b"x" * 9, "  and the bytes")
import fcntl
for at, data, want in ((8, b"wxyz", b"01234567wxyzC"), (10, b"abc", b"0123456789abc"), (12, b"cd", b"0123456789ABcd"),
                       (15, b"!", b"0123456789ABC\0\0!"), (0, b"zero", b"zero456789ABC")):
    spill("i", b"0123456789")
    fd = os.open("i", os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"ABC")
    fcntl.fcntl(fd, fcntl.F_SETFL, 0)
    os.pwrite(fd, data, at)
    os.close(fd)
    same(slurp("i"), want, "a write at %d after an append to 10 bytes" % at)
fd = os.open("i", os.O_WRONLY | os.O_APPEND)
os.write(fd, b"ABC")
fcntl.fcntl(fd, fcntl.F_SETFL, 0)
err("EFBIG", "  past 64 MiB", os.pwrite, fd, b"x", 64 << 20)
errno_of(os.close, fd)

# ---- scratch after an error ----
fd = os.open(".big", C)
os.write(fd, b"x")
err("EFBIG", "scratch past 64 MiB", os.pwrite, fd, b"x", 64 << 20)
err("EFBIG", "  is not made a cell of", os.rename, ".big", "big")
os.ftruncate(fd, 0)
os.pwrite(fd, b"small", 0)
os.close(fd)
os.rename(".big", "big")
same(slurp("big"), b"small", "  until it is truncated and written again")
EOF2
# ---- descriptors open for reading and writing show each other's bytes ----
py <<'EOF2'
from cells import *
a = os.open("share", os.O_RDWR | os.O_CREAT)
os.write(a, b"0123456789")
b = os.open("share", os.O_RDWR)
same(os.pread(b, 99, 0), b"0123456789", "a second one sees what the first has not committed")
os.pwrite(b, b"BB", 0)
same(os.pread(a, 99, 0), b"BB23456789", "  the first what the second wrote")
os.pwrite(a, b"AA", 4)
os.pwrite(b, b"CC", 8)
same((os.pread(a, 99, 0), os.pread(b, 99, 0)), (b"BB23AA67CC",) * 2, "  both what both wrote")
os.ftruncate(a, 6)
same(os.pread(b, 99, 0), b"BB23AA", "  a truncation")
r = os.open("share", os.O_RDONLY)
spill("share", b"!", os.O_WRONLY | os.O_APPEND)
same((os.pread(a, 99, 0), os.pread(b, 99, 0), os.pread(r, 99, 0)), (b"BB23AA!", b"BB23AA!", b"BB23AA"), "  what others commit; a reader keeps its version")
os.pwrite(a, b"a", 0)
os.fsync(a)
os.pwrite(b, b"b", 1)
os.fsync(b)
os.pwrite(a, b"a", 2)
for fd in (a, b, r):
    os.close(fd)
same(slurp("share"), b"ab" + b"a3AA!", "  the creator's later commits take nothing back")
a = os.open("share", os.O_RDWR)
os.pread(a, 9, 0)
os.unlink("share")
spill("share", b"another life")
os.pwrite(a, b"x", 0)
same(os.pread(a, 9, 0), b"xba3AA!"[:1] + b"ba3AA!", "one that was unlinked keeps its bytes")
os.close(a)
same(slurp("share"), b"another life", "  and gives none")
EOF2
# ---- descriptors that take turns make a version each, not one per turn ----
py <<'EOF2'
from cells import *
fds = [os.open("turns", os.O_RDWR | os.O_CREAT | os.O_APPEND) for i in range(3)]
for i in range(60):
    os.write(fds[i % 3], b"%02d" % i)
for fd in fds:
    os.close(fd)
want = b"".join(b"%02d" % i for i in range(60))
same((slurp("turns"), len(versions("turns")) <= 6), (want, True), "three that append in turn make a version at their first commits and at their closes")
a, b = (os.open("kept", os.O_RDWR | os.O_CREAT | os.O_APPEND) for i in range(2))
for fd, data in ((a, b"1"), (b, b"2"), (a, b"3")):
    os.write(fd, data)
os.fsync(a)
for fd, data in ((b, b"4"), (a, b"5"), (b, b"6")):
    os.write(fd, data)
os.close(os.dup(b))
for fd, data in ((a, b"7"), (b, b"8")):
    os.write(fd, data)
os.close(a)
os.close(b)
same([slurp("kept@%d" % t) for t in versions("kept")], [b"1", b"123", b"123456", b"1234567", b"12345678"],
     "  what one of them has synced or closed keeps its version")
a, b = (os.open("dated", os.O_RDWR | os.O_CREAT | os.O_APPEND) for i in range(2))
for fd, data in ((a, b"1"), (b, b"2")):
    os.write(fd, data)
os.utime(b, ns=(1, 2 * 10 ** 18))
for fd, data in ((a, b"3"), (b, b"4")):
    os.write(fd, data)
os.close(a)
os.close(b)
same((slurp("dated@%d" % (2 * 10 ** 15)), slurp("dated")), (b"12", b"1234"), "  so does one whose time was set")
EOF2
cat >"$W/sql.py" <<'PY'
import sqlite3, sys
path, me, n, sync = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
db = sqlite3.connect(path, timeout=100)
db.execute("pragma synchronous=" + sync)
for i in range(n):
    with db:
        db.execute("insert into k(who, i) values(?, ?)", (me, i))
        db.execute("update total set n = n + 1")
PY
for sync in full off; do
	q=$F/db.$sync
	python3 -c 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.executescript("create table k(a integer primary key, who, i); create table total(n); insert into total values(0);")' "$q"
	pids=()
	for p in 1 2 3; do
		t python3 "$W/sql.py" "$q" $p 20 $sync 2>"$W/sql.$p" &
		pids+=($!)
	done
	bad=0
	for p in "${pids[@]}"; do wait "$p" || bad=1; done
	is "$bad:$(cat "$W"/sql.?)" "0:" "three processes write one sqlite database, synchronous=$sync"
	is "$(t python3 -c 'import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); print(*d.execute("select (select count(*) from k), (select n from total)").fetchone(), *d.execute("pragma integrity_check").fetchone())' "$q")" \
		"60 60 ok" "  nothing is lost, and it is whole"
done

# ---- only the writing process sees staged content: stat by others shows what they would read ----
py <<'EOF2'
from cells import *
import subprocess
import threading
# Started before any file is open: at exec the child closes inherited descriptors, which commits.
other = subprocess.Popen([sys.executable, "-c", '''
import os, sys
for q in sys.stdin:
    with open(q.strip(), "rb") as f:
        print(repr((os.stat(q.strip()).st_size, f.read())), flush=True)
'''], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def others(q):
    other.stdin.write(q + "\n")
    other.stdin.flush()
    return eval(other.stdout.readline())
spill("see", b"committed")
before = os.stat("see").st_mtime_ns
fd = os.open("see", os.O_WRONLY | os.O_TRUNC)
same((os.fstat(fd).st_size, others("see")), (0, (9, b"committed")), "truncated: to others it is what was committed")
os.write(fd, b"more than that")
same((os.fstat(fd).st_size, others("see")), (14, (9, b"committed")), "  written: too")
seen = []
t = threading.Thread(target=lambda: seen.append(os.fstat(fd).st_size))
t.start()
t.join()
same(seen, [14], "  another thread of the writer sees what it wrote")
os.close(fd)
same(others("see"), (14, b"more than that"), "  closed: so do all")
fd = os.open("fresh", C)
os.write(fd, b"abc")
same((os.fstat(fd).st_size, others("fresh")), (3, (0, b"")), "a file that was created is there for all, and empty for others")
err("EEXIST", "  O_EXCL", os.open, "fresh", C | os.O_EXCL)
os.close(fd)
same(others("fresh"), (3, b"abc"), "  closed: it is what was written")
fd = os.open("see", os.O_WRONLY | os.O_APPEND)
os.write(fd, b"!")
same((os.fstat(fd).st_size, os.lseek(fd, 0, os.SEEK_END), others("see")), (15, 15, (14, b"more than that")), "appended")
r = os.open("see", os.O_RDONLY)
os.close(fd)
same((os.lseek(r, 0, os.SEEK_END), os.fstat(r).st_size), (14, 14), "SEEK_END is the end of the version that a descriptor reads")
os.close(r)
a, b = os.open("see", os.O_RDWR), os.open("see", os.O_RDWR)
ends = [os.lseek(fd, 0, os.SEEK_END) for fd in (a, b)]
os.write(a, b" and more")
ends.append(os.lseek(b, 0, os.SEEK_END))
os.write(b, b", and the last")
ends += [os.lseek(fd, 0, os.SEEK_END) for fd in (a, b)]
same(ends, [15, 15, 24, 38, 38], "and of what all have written, where they are open for both")
os.close(a)
os.close(b)
same(others("see"), (38, b"more than that! and more, and the last"), "  so nobody writes over the other's end")
a, b = os.open("see", os.O_WRONLY), os.open("see", os.O_WRONLY)
os.lseek(a, 0, os.SEEK_END)
os.write(a, b"; one")
os.fsync(a)
os.lseek(b, 0, os.SEEK_END)
os.write(b, b"; two")
os.close(b)
os.lseek(a, 0, os.SEEK_END)
os.write(a, b"; three")
os.close(a)
same(others("see")[1][38:], b"; one; two; three", "nor where they only write")
other.stdin.close()
other.wait()
# A reader that trusts the reported size, beside a slow writer of other sizes.
writer = subprocess.Popen([sys.executable, "-c", '''
import os, sys, time
for n in range(60):
    fd = os.open("rewritten", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for i in range((1, 10, 5)[n % 3]):
        os.write(fd, b"%08d" % n * 1250)
    os.close(fd)
'''])
reads = torn = 0
while writer.poll() is None:
    try:
        fd = os.open("rewritten", os.O_RDONLY)
    except FileNotFoundError:
        continue
    size = os.lseek(fd, 0, os.SEEK_END)
    data = os.pread(fd, size, 0)
    os.close(fd)
    reads += 1
    torn += len(data) not in (0, 10000, 100000, 50000) or data != data[:8] * (len(data) // 8)
note(reads, "reads")
same(torn, 0, "who reads as much as it is told reads whole versions")
EOF2

# ---- the unlinked file that large stages are in ----
py <<'EOF2'
from cells import *
fd = os.open("spilled", os.O_RDWR | os.O_CREAT)
os.write(fd, os.urandom(1 << 20))
os.fsync(fd)
os.pwrite(fd, b"more", 0)
pid = int(os.environ["DAEMON"])
lost = 0
for n in os.listdir("/proc/%d/fd" % pid):
    path = "/proc/%d/fd/%s" % (pid, n)
    if "(deleted)" in os.readlink(path) and os.stat(path).st_size >= 64 << 20:
        os.truncate(path, 0)
        lost += 1
ok(lost > 0, "a disk that does not give back what was staged")
err("EIO", "  reading it", os.pread, fd, 10, 500000)
err("EIO", "  committing it", os.fsync, fd)
err("EIO", "  and closing", os.close, fd)
same(os.stat("spilled").st_size, 1 << 20, "  the last commit is there, the daemon too")
# Small pieces far apart: the memory for their places is bounded.
fd = os.open("pieces", C)
os.close(fd)
spill("pieces", bytes(200000))
fd = os.open("pieces", os.O_WRONLY)
got, n = "0", 0
while got == "0" and n < 70000:
    got = errno_of(os.pwrite, fd, b"x", n * 2)
    n += 1
same((got, n), ("EFBIG", 65537), "65,536 separate pieces are the most for one commit")
errno_of(os.close, fd)
same(slurp("pieces"), bytes(200000), "  nothing of them is stored")
fd = os.open("pieces", os.O_WRONLY | os.O_TRUNC)
for i in range(70000, 0, -1):
    os.pwrite(fd, b"x", i * 2)
os.close(fd)
same(slurp("pieces").count(b"x"), 70000, "  a truncated file has no such bound")
EOF2
done_testing
