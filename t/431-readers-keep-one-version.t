#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# While others rewrite a file in place, a program that reads it gets one version:
# the bytes, and the size and times that the system states.  A follower continues
# at the end, and begins again if the file was truncated.  Every way of writing is
# seen alike, and no written byte is dropped without an error.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2016
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
F=$M/t/r/f
L=$M/t/.latest/r/f
mkdir -p "$F" "$M/t/r/g" "$M/t/.families/n" "$M/t/r/n"
echo counter >"$M/t/.families/n/type"
export F L

cat >"$W/versions.py" <<'PY'
from tap import *
import json
import subprocess
F, L = os.environ["F"], os.environ["L"]
T = M + "/t"
os.chdir(F)
C = os.O_WRONLY | os.O_CREAT
def size_of(q):
    return os.stat(q).st_size
def send_all(fd):
    """As many bytes as fstat says, through sendfile."""
    size = os.fstat(fd).st_size
    r, w = os.pipe()
    out = b""
    while len(out) < size:
        n = os.sendfile(w, fd, len(out), min(size - len(out), 60000))
        if n == 0:
            break
        out += os.read(r, n)
    os.close(r)
    os.close(w)
    return out
class Kept:
    """A descriptor that stays open in another process."""
def keep(q):
    Kept.fd = os.open(q, os.O_RDONLY)
def sent():
    return send_all(Kept.fd)
def leave():
    os.close(Kept.fd)
def made(n):
    """The content of version n.  Sizes differ, and each line names the version."""
    return b"%08d\n" % n * ((n * 7919) % 3000 + 1)
def whole(data):
    """Returns true if the bytes are all of one version."""
    return len(data) >= 9 and data == made(int(data[:8]))
class Other:
    """Another process, which runs calls for the test."""
    def __init__(self):
        self.p = subprocess.Popen([sys.executable, "-c", '''
from versions import *
for line in sys.stdin:
    try:
        r = eval(line)
    except OSError as e:
        r = name_of(e.errno)
    print(repr(r), flush=True)
'''], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    def __call__(self, fn, *args):
        self.p.stdin.write("%s(%s)\n" % (fn, ", ".join(map(repr, args))))
        self.p.stdin.flush()
        return eval(self.p.stdout.readline())
PY
export PYTHONPATH="$PYTHONPATH:$W"

py <<'EOF2'
from versions import *
import mmap
import threading
a, b = Other(), Other()
def states(fd):
    s = os.fstat(fd)
    return s.st_size, s.st_mtime_ns

# ---- fstat and read ----
for where in (F, L):
    q = where + "/q"
    for old, new, how in ((b"old text, long", b"new", "shorter"), (b"old", b"new text, longer", "longer"), (b"", b"text", "longer than none")):
        a("spill", q, old)
        fd = os.open(q, os.O_RDONLY)
        before = states(fd)
        a("spill", q, new)
        same((states(fd), a("size_of", q)), (before, len(new)), "%s: fstat of a file that was opened before is the old version's" % how)
        seen = []
        t = threading.Thread(target=lambda: seen.append(states(fd)))
        t.start()
        t.join()
        same(seen, [before], "  in another thread, too")
        same((os.lseek(fd, 0, os.SEEK_END), os.pread(fd, before[0], 0)), (len(old), old), "  lseek and read agree")
        if old:
            same(os.fstat(fd).st_size, len(new), "  after the last byte fstat is the newest's")
        same((os.pread(fd, 99, len(old)), os.fstat(fd).st_size), (b"", len(new)), "  and after the end of file")
        os.close(fd)
fd = os.open("q", os.O_RDONLY)
a("spill", "q", b"newer and longer")
pid = os.fork()
if pid == 0:
    os.pread(fd, 1, 0)
    os._exit(os.fstat(fd).st_size)
same(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 4, "a process that has inherited the descriptor, and reads, is one of it")
os.close(fd)
one = os.open("q", os.O_RDONLY)
a("spill", "q", b"second")
two = os.open("q", os.O_RDONLY)
a("spill", "q", b"the third one")
same((os.fstat(one).st_size, os.fstat(two).st_size), (6, 6), "of two versions that a process has open, fstat shows the one opened last")
same((os.read(two, 99), os.fstat(one).st_size, os.read(one, 99)), (b"second", 16, b"newer and longer"), "  and when that is read, the other")
os.close(one)
os.close(two)
a("spill", "q", b"opened")
fd = os.open("q", os.O_RDONLY)
w = os.open("q", os.O_WRONLY | os.O_TRUNC)
os.write(w, b"staged by the reader's process")
same(os.fstat(fd).st_size, 30, "what the process has staged itself comes first")
os.close(w)
same((os.fstat(fd).st_size, os.read(fd, 99)), (6, b"opened"), "  committed, its reader is on the version that it opened")
os.close(fd)
r = os.open("q", os.O_RDONLY)
os.rename("q", "q2")
a("spill", "q2", b"by the new name")
same((os.fstat(r).st_size, os.read(r, 99)), (30, b"staged by the reader's process"), "renamed and rewritten: too")
os.close(r)
r = os.open("q2", os.O_RDONLY)
a("spill", "q2", b"x")
x = os.open("q2", os.O_RDONLY)
os.unlink("q2")
same((errno_of(os.stat, "q2"), os.read(x, 9), os.fstat(r).st_size), ("ENOENT", b"x", 1), "removed: the one opened last")
os.close(x)
same((os.fstat(r).st_size, os.read(r, 99)), (15, b"by the new name"), "  and the one that is left")
os.close(r)

# ---- pages: sendfile, mmap ----
for old, new in ((20, 7), (7, 20)):
    old, new = b"%d\n" % old * 9999 * old, b"%d\n" % new * 9999 * new
    spill("s", old)
    fd = os.open("s", os.O_RDONLY)
    a("spill", "s", new)
    ok(send_all(fd) == old, "fstat and sendfile: all of the version that was opened")
    b("keep", "s")
    ok(b("sent") == new, "  another process gets all of the newest")
    m = mmap.mmap(fd, len(old), mmap.MAP_PRIVATE, mmap.PROT_READ)
    ok(os.fstat(fd).st_size == len(old) and m[:] == old, "  a private mapping")
    m.close()
    b("leave")
    os.close(fd)
fd = os.open("s", os.O_RDONLY)
w = os.open("copied", C)
err("EINVAL", "copy_file_range from a plain name is refused: programs read and write instead", os.copy_file_range, fd, w, 99)
os.close(fd)
os.close(w)
subprocess.check_call(["cp", "s", "copied"])
ok(slurp("copied") == slurp("s"), "  as cp does")

# ---- a version is left at its end only ----
a("spill", "zip", b"parts of one, directory of one")
fd = os.open("zip", os.O_RDONLY)
same((os.pread(fd, 99, 14), os.pread(fd, 99, 30)), (b"directory of one", b""), "a reader that begins at the end")
a("spill", "zip", b"PARTS OF TWO, DIRECTORY OF TWO, MORE")
same((os.pread(fd, 9, 6), os.fstat(fd).st_size, os.pread(fd, 6, 0)), (b"of one, d", 30, b"parts "), "  and then goes to the middle keeps its version")
same((os.pread(fd, 99, 14), os.pread(fd, 99, 30)), (b"directory of one", b""), "  up to its end")
same(os.pread(fd, 99, 30), b", MORE", "  there it goes on in the newest")
a("spill", "zip", b"third")
same((os.pread(fd, 99, 36), os.fstat(fd).st_size, os.pread(fd, 99, 0)), (b"", 5, b"third"), "the newest is shorter: it begins again at the start")
a("spill", "zip", b"and the fourth")
same((os.pread(fd, 2, 1), os.fstat(fd).st_size), (b"hi", 5), "all was read, and no end of file: another offset keeps the version")
same((os.pread(fd, 9, 0), os.fstat(fd).st_size, os.pread(fd, 9, 0)), (b"third", 14, b"and the f"), "  the start, too, until fstat has shown the newest")
os.close(fd)
EOF2

# ---- every way of writing ----
py <<'EOF2'
from versions import *
a = Other()
def row_json(q, value):
    path = T + "/r/.row.json"
    d = json.loads(slurp(path))
    for c in d["cells"]:
        if c["family"] == "f" and c.get("qualifier") == q:
            c["value"] = value.decode()
            c.pop("timestamp")
            break
    spill(path, json.dumps(d).encode(), os.O_WRONLY | os.O_TRUNC)
def newest(q):
    return max(int(n.rpartition("@")[2]) for n in os.listdir(".") if n.startswith(q + "@"))
def snapshot(q, value):
    spill(q, value)
    os.mkdir(T + "/.snap/s")
    spill(q, b"!")
    subprocess.check_call(["cp", T + "/.snap/s/r/f/" + q, q])
    os.rmdir(T + "/.snap/s")
def tar(q, value):
    os.makedirs(W + "/tar/r/f", exist_ok=True)
    spill(W + "/tar/r/f/" + q, value)
    os.utime(W + "/tar/r/f/" + q, (newest(q) // 10 ** 6 + 10,) * 2)
    subprocess.check_call("tar cf %s/x.tar -C %s/tar . && cat %s/x.tar > %s/.import.tar" % (W, W, W, T), shell=True)
ways = {
    "the tree": lambda q, v: spill(q, v),
    ".latest": lambda q, v: spill(L + "/" + q, v),
    "a version's name": lambda q, v: spill("%s@%d" % (q, newest(q) + 1), v),
    "a version in place": lambda q, v: spill("%s@%d" % (q, newest(q)), v, os.O_WRONLY | os.O_TRUNC),
    "a rename of a version": lambda q, v: (spill("%s@%d" % (q, 5), v), os.rename("%s@5" % q, "%s@%d" % (q, newest(q) + 1))),
    ".mutate": lambda q, v: spill(T + "/r/.mutate", b"set f:%s\t%s\ncommit\n" % (q.encode(), v), os.O_WRONLY),
    ".mutate, removed and set": lambda q, v: spill(T + "/r/.mutate", b"delete f:%s\nset f:%s\t%s\ncommit\n" % (q.encode(), q.encode(), v), os.O_WRONLY),
    ".row.json": row_json,
    ".import": lambda q, v: spill(T + "/.import", b"r\tf:%s\t\t%s\n" % (q.encode(), v), os.O_WRONLY),
    ".import.jsonl": lambda q, v: spill(T + "/.import.jsonl", json.dumps({"row": "r", "family": "f", "qualifier": q, "value": v.decode()}).encode() + b"\n", os.O_WRONLY),
    ".import.tar": tar,
    "tabletctl": lambda q, v: subprocess.run([os.environ["TABLETCTL"], "put", T, "r", "f:" + q, v.decode()], check=True),
    "a copy from a snapshot": snapshot,
}
for number, (what, way) in enumerate(ways.items()):
    q = "way%d" % number
    spill(q, b"first text")
    within, ended, both, w = (os.open(q, f) for f in (os.O_RDONLY, os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND))
    pread = lambda fd: os.pread(fd, 99, 0)
    same((os.read(ended, 99), os.read(ended, 99), pread(both)), (b"first text", b"", b"first text"), "%s: before" % what)
    way(q, b"first text, and more")
    same((os.fstat(within).st_size, pread(within)), (10, b"first text"), "  a reader keeps its version and its size")
    same((os.fstat(ended).st_size, os.read(ended, 99)), (20, b", and more"), "  one at the end follows")
    same(pread(both), b"first text, and more", "  a descriptor for both has the newest")
    os.write(w, b"!")
    same((errno_of(os.fsync, w), slurp(q)), ("0", b"first text, and more!"), "  an appender appends to it")
    for fd in (within, ended, both, w):
        os.close(fd)
spill("../n/k", b"5")
within, ended = os.open("../n/k", os.O_RDONLY), os.open("../n/k", os.O_RDONLY)
same((os.read(ended, 9), os.read(ended, 9)), (b"5\n", b""), "a counter")
spill(T + "/r/.mutate", b"increment n:k\t1000\ncommit\n", os.O_WRONLY)
same((os.fstat(within).st_size, os.read(within, 9), os.fstat(ended).st_size, os.pread(ended, 9, 0)), (2, b"5\n", 5, b"1005\n"), "  that is incremented")
os.close(within)
os.close(ended)
EOF2

# ---- nothing is dropped without an error ----
py <<'EOF2'
from versions import *
R = T + "/r/.row.json"
def write_row(change):
    d = json.loads(slurp(R))
    d["cells"] = [c for c in (change(c) for c in d["cells"]) if c]
    spill(R, json.dumps(d).encode(), os.O_WRONLY | os.O_TRUNC)
def each(fd, data=b"late"):
    """The results of write, fsync and close."""
    return errno_of(lambda: os.write(fd, data) and None), errno_of(os.fsync, fd), errno_of(os.close, fd)
GOOD, STALE = ("0",) * 3, ("ESTALE",) * 3
for q in ("same", "changed", "removed", "old@5", "old2@5", "old3@5"):
    spill(q, b"before ")
def change(c):
    if c["qualifier"] in ("removed", "old3"):
        return None
    return dict(c, value="AFTER! ") if c["qualifier"] in ("changed", "old2") else c
names = ("same", "changed", "removed", "old@5", "old2@5", "old3@5")
writers = {q: os.open(q, os.O_WRONLY | os.O_APPEND) for q in names}
staged = {q: os.open(q, os.O_RDWR | os.O_APPEND) for q in names}
readers = {q: os.open(q, os.O_RDONLY) for q in names}
inos = {q: os.fstat(fd).st_ino for q, fd in readers.items()}
for q, fd in staged.items():
    if "@" not in q:
        os.write(fd, b"staged ")
write_row(change)
same({q: each(fd) for q, fd in writers.items()}, {q: STALE if q in ("removed", "old3@5") else GOOD for q in names},
     ".row.json: write, fsync and close through descriptors of removed cells are ESTALE, and others go on")
same({q: each(fd, b"late2") for q, fd in staged.items()}, {q: STALE if q in ("removed", "old3@5") else GOOD for q in names}, "  also with bytes that were staged before")
same((slurp("old@5"), slurp("old2@5")), (b"before latelate2", b"AFTER! latelate2"), "  what they write is stored")
for q in ("same", "changed"):
    for piece in (b"staged ", b"late"):
        ok(piece in slurp(q), "  %s has %r" % (q, piece))
ok(slurp("same").startswith(b"before ") and slurp("changed").startswith(b"AFTER! "), "  behind what was there")
same((os.fstat(readers["old@5"]).st_nlink, os.stat("old@5").st_ino, os.stat("same").st_ino), (1, inos["old@5"], inos["same"]), "  the cells are the same files")
same((os.pread(readers["removed"], 99, 0), os.pread(readers["old3@5"], 99, 0), os.path.exists("removed")), (b"before ", b"before ", False), "  readers of removed ones keep them")
for fd in readers.values():
    os.close(fd)

def ended(what, how, names, want, extra=lambda: None):
    for q in names:
        spill(q, b"x")
    fds = [os.open(q, f) for q in names for f in (os.O_WRONLY, os.O_RDWR | os.O_APPEND)]
    filled = [os.open(q, os.O_WRONLY) for q in names]
    for fd in filled:
        os.write(fd, b"staged")
    how()
    same([each(fd) for fd in fds], [want] * len(fds), what)
    same([each(fd) for fd in filled], [want] * len(filled), "  with staged bytes, too")
ended(".mutate removes a column", lambda: spill(T + "/r/.mutate", b"delete f:gone\ncommit\n", os.O_WRONLY), ["gone", "gone@7"], STALE)
ended(".mutate removes a version", lambda: spill(T + "/r/.mutate", b"delete f:gone@7\ncommit\n", os.O_WRONLY), ["gone@7"], STALE)
ended(".mutate removes the family's cells of the row", lambda: spill(T + "/r/.mutate", b"delete f:\ncommit\n", os.O_WRONLY), ["gone", "gone@7"], STALE)
ended(".mutate removes the row", lambda: spill(T + "/r/.mutate", b"delete row\ncommit\n", os.O_WRONLY), ["gone", "gone@7"], STALE)
os.makedirs(F, exist_ok=True)
ended(".mutate removes the row and writes it again", lambda: spill(T + "/r/.mutate", b"delete row\nset f:gone\tnew\ncommit\n", os.O_WRONLY), ["gone"], GOOD)
ended("unlink", lambda: os.unlink("gone"), ["gone", "gone@7"], GOOD)
ended("a rename over it", lambda: (spill(".new", b"new"), os.rename(".new", "gone")), ["gone"], GOOD)
ended("a rename over a version", lambda: (spill(".new", b"new"), os.rename(".new", "gone@7")), ["gone@7"], GOOD)
spill("dated@10", b"x")
fd = os.open("dated@10", os.O_WRONLY)
w = os.open(L + "/dated", os.O_WRONLY | os.O_TRUNC)
os.write(w, b"older")
os.utime(w, ns=(0, 9000))
os.close(w)
same((each(fd), slurp("dated")), (STALE, b"older"), "a version that a time set in .latest has removed")
spill("ahead", b"x")
fd = os.open("ahead@5000000", C)
os.write(fd, b"staged")
os.utime("ahead", (5, 5))
same((each(fd), slurp("ahead"), slurp("ahead@5000000")), (STALE, b"x", b"x"), "a version that is not stored, and onto which a set time moves another")
os.makedirs(T + "/.families/h")
os.makedirs(T + "/r/h")
fds = [os.open(T + "/r/h/" + q, C) for q in ("q", "q2", "q3@5")]
os.write(fds[0], b"staged")
os.rmdir(T + "/.families/h")
same([each(fd) for fd in fds], [STALE] * 3, "a family that was deleted")
EOF2

cd "$F" || exit 1
py <<'EOF2'
from versions import *
def each(fd, data=b"late"):
    return errno_of(lambda: os.write(fd, data) and None), errno_of(os.fsync, fd), errno_of(os.close, fd)
for q in ("cut", "cut@5"):
    spill(q, b"x")
fds = [os.open(q, f) for q in ("cut", "cut@5", L + "/cut") for f in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC)]
for fd in fds[1::3]:
    os.write(fd, b"staged")
fds.append(os.open(".moved", C))
os.write(fds[-1], b"x")
os.rename(".moved", "moved")
spill(T + "/.ctl", b"truncate\n", os.O_WRONLY)
same([each(fd) for fd in fds], [("ESTALE",) * 3] * len(fds), "the verb truncate ends descriptors with ESTALE")
err("ENOENT", "  and nothing comes back", os.stat, F + "/cut")
err("ENOENT", "  nor by a name that was not looked up", os.stat, F + "/moved")
EOF2
mkdir -p "$F"
cd "$F" || exit 1

# ---- tail ----
follow() { # follow OUT ARGUMENT...: starts tail, and waits for the first lines
	local out=$1
	shift
	timeout -k 5 180 tail -s 0.05 "$@" >"$out" 2>"$out.err" & # no function: kill must reach tail
	follower=$!
	wait_for "tail" test -s "$out"
}
printf 'one\ntwo\n' >log
follow "$W/tail" -n +1 -f log
echo three >>log
soon 'cat "$W/tail"' $'one\ntwo\nthree' "tail -f shows what is appended"
cp log log.1
truncate -s 0 log
soon 'grep -c truncated "$W/tail.err"' 1 "  a truncation (copytruncate)"
echo four >>log
soon 'cat "$W/tail"' $'one\ntwo\nthree\nfour' "  and then what is written from the new beginning"
cp log log.1
echo 5 >log
soon 'cat "$W/tail"' $'one\ntwo\nthree\nfour\n5' "  also if it is truncated and written in one step"
kill $follower
wait $follower 2>/dev/null
# ---- tools beside a writer ----
cat >"$W/writer.py" <<'PY'
from versions import *
path, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for n in range(first, first + count):
    data = made(n)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for i in range(0, len(data), 9000):
        os.write(fd, data[i:i + 9000])
    os.close(fd)
PY
cat >"$W/check.py" <<'PY'
from versions import *
for p in sys.argv[1:]:
    data = slurp(p)
    if not whole(data):
        print(p, len(data), sorted({x for x in data.split(b"\n")})[:5])
PY
python3 -c 'from versions import *; spill("live", made(0))'
(while [ ! -e "$W/stop" ]; do python3 "$W/writer.py" "$L/live" "$RANDOM" 200; done) &
writer=$!
mkdir -p "$W/copies"
for i in $(seq 8); do
	cat "$L/live" >"$W/copies/cat.$i"
	cp "$L/live" "$W/copies/cp.$i"
	tar cf - -C "$L" live 2>/dev/null | tar xOf - >"$W/copies/tar.$i"
	rsync -a "$L/live" "$W/copies/rsync.$i"
	dd if="$L/live" of="$W/copies/dd.$i" bs=1000 status=none
	cp "$L/live" "$F/live.copy" && cat "$F/live.copy" >"$W/copies/within.$i"
	python3 -c 'import sys; f = open(sys.argv[1], "rb"); sys.stdout.buffer.write(f.read())' "$L/live" >"$W/copies/python.$i"
done
: >"$W/stop"
wait $writer
is "$(find "$W/copies" -type f | wc -l):$(python3 "$W/check.py" "$W"/copies/*)" "56:" "cat, cp, tar, rsync, dd and Python copy whole versions of a file that is rewritten"

py <<'EOF2'
from versions import *
readers = [subprocess.Popen([sys.executable, "-c", '''
from versions import *
import select
rounds, bad = 0, []
piece = int(sys.argv[1])
while not select.select([sys.stdin], [], [], 0)[0]:
    fd = os.open(L + "/live", os.O_RDONLY)
    size = os.fstat(fd).st_size
    data = b""
    while len(data) < size:
        got = os.read(fd, min(piece, size - len(data)))
        if not got:
            break
        data += got
        if rounds % 3 == 0 and len(data) < size and os.fstat(fd).st_size != size:
            bad.append(("size", size, os.fstat(fd).st_size))
    if len(data) != size or not whole(data):
        bad.append((size, len(data), sorted(set(data.split(b"\\n")))[:4]))
    os.close(fd)
    rounds += 1
    if rounds == 1:
        print("reads", flush=True)
print(repr((rounds, len(bad), bad[:3])))
''', str(piece)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for piece in (900, 5000, 16384, 1 << 20)]
for r in readers: # each reads before the first write
    r.stdout.readline()
writers = [subprocess.Popen([sys.executable, W + "/writer.py", L + "/live", str(n), "400"]) for n in (0, 100000)]
for w in writers:
    same(w.wait(), 0, "a writer of 400 versions")
results = [eval(r.communicate("\n")[0]) for r in readers]
note(results)
ok(all(r[0] > 0 for r in results), "%d reads beside two writers" % sum(r[0] for r in results))
same([r[1:] for r in results], [(0, [])] * 4, "  each reader gets as many bytes as fstat says, of one version")
EOF2
cd / || exit 1
done_testing
