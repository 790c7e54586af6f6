#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A descriptor refers to the same file after the file is renamed, replaced or
# removed, as in any file system.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
F=$M/t/r/f
L=$M/t/.latest/r/f
mkdir -p "$F" "$M/t/r/g"
echo x >"$F/stays"
echo x >"$M/t/r/g/stays"
export F L
cat >"$W/cells.py" <<'PY'
from tap import *
import mmap
F, L = os.environ["F"], os.environ["L"]
os.chdir(F)
C = os.O_WRONLY | os.O_CREAT
LONG = "l" * 400
def split(name):
    """The path of a name longer than 255 bytes; its directories are made."""
    path = ""
    while len(name) > 255:
        path, name = path + name[:254] + "%/", name[254:]
        os.makedirs(path, exist_ok=True)
    return path + name
def versions(q, d="."):
    return sorted(int(n.rpartition("@")[2]) for n in os.listdir(d) if n.startswith(q + "@"))
def clear():
    for d in (".", "../g"):
        for top, dirs, files in os.walk(d, topdown=False):
            for n in files:
                if not n.startswith("stays"):
                    os.unlink(os.path.join(top, n))
PY
export PYTHONPATH="$PYTHONPATH:$W"

# ---- the name that was opened, the new name, and further renames ----
py <<'EOF2'
from cells import *
names = ("q", "q@5", L + "/q", split(LONG + "@5"), split(LONG), ".s")
targets = ("p", "p@7", "../g/p", "../g/p@7", L + "/p", split("m" * 400 + "@7"), split("m" * 400), "q@9")
def short(p):
    return p.replace(L, "LATEST").replace("l" * 254 + "%/" + "l" * 146, "LONG").replace("m" * 254 + "%/" + "m" * 146, "MORE")
count = lost = 0
for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND):
    for name in names:
        for target in targets:
            for onto in (None, "closed", "open"):
                for sync in (False, True):
                    clear()
                    for n in (name, target):
                        split(os.path.basename(n))
                    what = "%s, flags %o, renamed to %s (%s)" % (short(name), flags, short(target), onto or "absent")
                    try:
                        if onto:
                            spill(target, b"what was there before, and is longer")
                        other = os.open(target, os.O_WRONLY) if onto == "open" else None
                        spill(name, b"first ")
                        fd = os.open(name, flags)
                        os.lseek(fd, 0, os.SEEK_END)
                        os.write(fd, b"before ")
                        if sync:
                            os.fsync(fd)
                        os.rename(name, target)
                        os.write(fd, b"after ")
                        if flags & os.O_RDWR:
                            want = b"first before after "
                            if os.pread(fd, 99, 0) != want:
                                lost += 1
                                note(what, "reads", os.pread(fd, 99, 0))
                        os.rename(target, target + "2" if target[-1] != "q" else "p2")
                        target2 = target + "2" if target[-1] != "q" else "p2"
                        os.write(fd, b"last")
                        if other is not None:
                            os.write(other, b"of the replaced one")
                            os.close(other)
                        os.close(fd)
                        got = slurp(target2)
                    except OSError as e:
                        got = str(e).encode()
                    count += 1
                    if got != b"first before after last":
                        lost += 1
                        note(what, "gives", got[:99])
same((count, lost), (864, 0), "every open file goes where it is renamed to, twice running, and what it replaces gives nothing")
EOF2
# ---- descriptors that only read, mappings, sizes ----
py <<'EOF2'
from cells import *
spill("v@5", b"content")
r = os.open("v@5", os.O_RDONLY)
w = os.open("v@5", os.O_RDWR)
m = mmap.mmap(w, 7)
other = os.open("v@5", os.O_WRONLY)
os.rename("v@5", "u@6")
m[0:1] = b"C"
m.flush()
same((slurp("u@6"), us("u@6")), (b"Content", 6), "a store through a mapping goes to the version's new name")
os.pwrite(other, b"NTENT, longer", 2)
os.fsync(other)
same(os.pread(w, 99, 0), b"CoNTENT, longer", "  descriptors see each other's writes")
same(os.pread(r, 99, 0), b"CoNTENT, longer", "  those that only read, too")
same((os.fstat(r).st_size, os.fstat(w).st_size, os.fstat(w).st_nlink, us("u@6")), (15, 15, 1, 6), "  and their size")
os.ftruncate(other, 3)
os.close(os.open("u@6", os.O_RDONLY))
same((os.pread(r, 99, 0), os.fstat(r).st_size, slurp("u@6")), (b"CoN",) + (3,) + (b"CoN",), "  a truncation")
spill("u@6", b"by its new name", os.O_WRONLY)
same((os.pread(r, 99, 0), m[0:3]), (b"by its new name", b"by "), "  and what is written by the new name")
spill("v@5", b"another file of the old name")
same((os.pread(r, 99, 0), slurp("v@5")), (b"by its new name", b"another file of the old name"), "  but nothing of another file with the old name")
os.unlink("u@6")
os.pwrite(other, b"BY", 0)
same((os.pread(r, 99, 0), os.fstat(r).st_nlink), (b"BY its new name", 0), "  removed: it is theirs alone")
spill("u@6", b"second life")
same(os.pread(r, 99, 0), b"BY its new name", "  also when there is another of that name")
for fd in (r, w, other):
    os.close(fd)
m.close()
same(slurp("u@6"), b"second life", "  which it does not touch")
os.unlink("u@6")
same((versions("v"), versions("u")), ([5], []), "  and it is gone when they close")

# A version that the plain name's changes move is renamed, too.
spill("n", b"1")
t = versions("n")[0]
fd = os.open("n@%d" % t, os.O_RDWR)
os.utime("n", ns=(1, 10 ** 18))
os.pwrite(fd, b"23", 1)
os.close(fd)
same((slurp("n"), versions("n")), (b"123", [10 ** 15]), "touch -d moves the newest version, and its descriptors with it")
fd = os.open("k", C)
os.write(fd, b"1")
os.fsync(fd)
r = os.open("k@%d" % versions("k")[0], os.O_RDONLY)
os.write(fd, b"2")
os.utime(fd, ns=(1, 10 ** 18))
os.close(fd)
same((os.pread(r, 9, 0), versions("k")), (b"12", [10 ** 15]), "  so does its writer, when it sets a time")
os.close(r)
for i in (1, 2, 3):
    spill("c@%d" % i, b"%d" % i)
fds = [os.open("c@%d" % i, os.O_WRONLY | os.O_APPEND) for i in (1, 2, 3)]
os.rename("c", "d")
for fd in fds:
    os.write(fd, b"+")
    os.close(fd)
same(([slurp("d@%d" % i) for i in (1, 2, 3)], versions("c")), ([b"1+", b"2+", b"3+"], []), "a column that is renamed takes the descriptors of all its versions along")
fds = [os.open("d@%d" % i, os.O_RDWR) for i in (1, 2, 3)]
os.rename("d", "e@9")
for fd in fds:
    os.pwrite(fd, b"x", 0)
same([os.pread(fd, 9, 0) for fd in fds], [b"x+"] * 3, "  renamed onto a version: the newest's, and the others' files have no name")
for fd in fds:
    os.close(fd)
same((slurp("e@9"), versions("d"), versions("e")), (b"x+", [], [9]), "  nor do they get one")

spill("b@1", b"small")
fd = os.open("b@1", os.O_WRONLY)
err("EFBIG", "a write past 64 MiB", os.pwrite, fd, b"x", 64 << 20)
err("0", "  does not keep its version from being renamed", os.rename, "b@1", "b@2")
err("EFBIG", "  but stays an error of its descriptor", os.pwrite, fd, b"y", 0)
err("EFBIG", "  until it is closed", os.close, fd)
same(slurp("b@2"), b"small", "  and nothing of it is stored")

# Each descriptor has its own way.
fds = []
for i in (1, 2):
    fds.append(os.open("w", C | os.O_TRUNC))
    os.write(fds[-1], b"%d" % i)
    os.rename("w", "w%d@1" % i)
os.unlink("w1@1")
for fd in fds:
    os.write(fd, b"+")
    os.close(fd)
same((versions("w1"), slurp("w2@1")), ([], b"2+"), "two descriptors of one name, renamed to two versions: the one that was removed stays so")
spill("x", b"1")
fd = os.open("x", os.O_WRONLY | os.O_APPEND)
for i in range(20):
    os.write(fd, b".")
    os.rename("x", "y@1")
    os.write(fd, b",")
    os.rename("y@1", "x")
os.close(fd)
same((slurp("x"), versions("y")), (b"1" + b".," * 20, []), "to and fro")
os.mkdir("../../../moved")
os.makedirs("../../../moved/r/f")
spill("../../../moved/r/f/q@1", b"1")
fd = os.open("../../../moved/r/f/q@1", os.O_WRONLY | os.O_APPEND)
fp = os.open("../../../moved/r/f/p", C)
err("EXDEV", "a row is not renamed", os.rename, "../../../moved/r", "../../../moved/s")
err("EXDEV", "  nor a family", os.rename, "../../../moved/r/f", "../../../moved/r/g")
os.rename("../../../moved", "../../../elsewhere")
for d, b in ((fd, b"2"), (fp, b"p")):
    os.write(d, b)
    os.close(d)
same((slurp("../../../elsewhere/r/f/q@1"), slurp("../../../elsewhere/r/f/p")), (b"12", b"p"), "a table is, and what is open below goes along")

# ---- .schema ----
T = "../../../elsewhere/"
fd = os.open(T + ".s", C)
os.write(fd, b'families = ({ name = "f"; });')
os.rename(T + ".s", T + ".schema")
os.pwrite(fd, b'families = ({ name = "f"; gc = "maxversions=7"; });', 0)
os.close(fd)
same(slurp(T + ".families/f/gc"), b"maxversions=7\n", "what was scratch and is .schema now, written again: it is a schema write")
fd = os.open(T + ".schema", os.O_WRONLY | os.O_TRUNC)
os.write(fd, b'families = ({ name = "f"; gc = "maxversions=8"; });')
spill(T + ".s", b'families = ({ name = "f"; gc = "maxversions=9"; });')
os.rename(T + ".s", T + ".schema")
os.close(fd)
same(slurp(T + ".families/f/gc"), b"maxversions=9\n", "  one that was replaced while open writes nothing")
EOF2

# ---- a life of a name is a file of its own, a version of it is not ----
py <<'EOF2'
from cells import *
import fcntl
PAGE = mmap.PAGESIZE
def opened(name):
    fd = os.open(name, os.O_RDONLY)
    return fd, mmap.mmap(fd, 2 * PAGE, mmap.MAP_PRIVATE, mmap.PROT_READ)
def pages(m):
    return bytes((m[0], m[PAGE]))
for name in ("life", L + "/life", "life@5"):
    spill(name, b"A" * 2 * PAGE)
    fd, m = opened(name)
    m[0]
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.unlink(name)
    spill(name, b"B" * 2 * PAGE)
    fd2, m2 = opened(name)
    what = name.replace(L, ".latest")
    same((pages(m), pages(m2), pages(m)), (b"AA", b"BB", b"AA"), "%s, removed and made again: mappings keep to their file" % what)
    same((os.pread(fd, 1, 0), os.pread(fd2, 1, 0), os.fstat(fd).st_nlink, os.fstat(fd2).st_nlink), (b"A", b"B", 0, 1), "  descriptors too")
    err("0", "  and locks", fcntl.flock, fd2, fcntl.LOCK_EX | fcntl.LOCK_NB)
    spill(".new", b"C" * 2 * PAGE)
    os.rename(".new", name)
    fd3, m3 = opened(name)
    same((pages(m), pages(m2), pages(m3), pages(m2)), (b"AA", b"BB", b"CC", b"BB"), "  replaced by rename: also")
    os.rename(name, name.replace("life", "after"))
    spill(name, b"D" * 2 * PAGE)
    same((pages(m3), os.fstat(fd3).st_nlink, slurp(name)[:1]), (b"CC", 1, b"D"), "  renamed away")
    for x in (m, m2, m3):
        x.close()
    for x in (fd, fd2, fd3):
        os.close(x)
    os.unlink(name)
spill("map", b"A" * 2 * PAGE)
fd, m = opened("map")
m[0]
spill("map", b"B" * 2 * PAGE)
same((m[PAGE:PAGE + 1], os.pread(fd, 1, 0)), (b"A", b"A"), "a mapping of a plain name has the version that was opened")
fd2, m2 = opened("map")
same((pages(m2), pages(m)), (b"BB", b"BB"), "  until another version is mapped: mappings of one file share its pages")
spill("map", b"C" * 2 * PAGE)
same((pages(m2), pages(m)), (b"BB", b"BB"), "  a commit is in none of them")
same((os.pread(fd, 1, 0), os.pread(fd2, 1, 0)), (b"A", b"B"), "  reads do not")
for x in (m, m2):
    x.close()
w = os.open("map", os.O_RDWR)
m = mmap.mmap(w, 2 * PAGE, mmap.MAP_PRIVATE, mmap.PROT_READ)
os.pwrite(w, b"D" * PAGE, PAGE)
same(pages(m), b"CD", "who maps what he writes sees it")
fcntl.flock(w, fcntl.LOCK_EX)
spill("map", b"E" * 2 * PAGE)
err("EAGAIN", "a new version does not free a lock", fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
m.close()
for x in (fd, fd2, w):
    os.close(x)
EOF2

# ---- both views of the table are one file ----
py <<'EOF2'
from cells import *
a = os.open("both", os.O_RDWR | os.O_CREAT)
os.write(a, b"0123456789")
b = os.open(L + "/both", os.O_RDWR)
same(os.pread(b, 99, 0), b"0123456789", "what is staged through the table's tree is read through .latest")
os.pwrite(b, b"BB", 0)
same(os.pread(a, 99, 0), b"BB23456789", "  and the other way round")
os.ftruncate(b, 4)
same((os.pread(a, 99, 0), os.fstat(a).st_size), (b"BB23", 4), "  a truncation")
os.pwrite(a, b"AA", 2)
os.close(b)
os.close(a)
same((slurp("both"), slurp(L + "/both")), (b"BBAA", b"BBAA"), "  committed it is all there")
fd = os.open("soon", C)
same((errno_of(os.stat, L + "/soon"), errno_of(os.open, L + "/soon", C | os.O_EXCL)), ("0", "EEXIST"), "a file that was created is there in both")
os.unlink(L + "/soon")
os.write(fd, b"x")
os.close(fd)
same(versions("soon"), [], "  removed in one, it does not come back through the other")
fd = os.open(L + "/dated", C)
os.write(fd, b"1")
spill("dated", b"newer")
os.utime(fd, ns=(1, 10 ** 18))
os.close(fd)
same((versions("dated"), slurp("dated")), ([10 ** 15], b"1"), "a time set through .latest wins over newer versions")
EOF2

# ---- at once ----
py <<'EOF2'
from cells import *
import threading, time, collections
def beside(fn, *others):
    """Runs fn, and the others over and over until it has ended."""
    done = threading.Event()
    def again(f):
        while not done.is_set():
            f()
    threads = [threading.Thread(target=again, args=(f,)) for f in others]
    for t in threads:
        t.start()
    fn()
    done.set()
    for t in threads:
        t.join()
spill("r@1", b"")
fd = os.open("r@1", os.O_WRONLY)
wrote = bytearray()
def write():
    if len(wrote) == 40000: # the renamed file is copied
        return os.sched_yield()
    wrote.extend(b"%07d\n" % len(wrote))
    os.write(fd, wrote[-8:])
def to_and_fro():
    for i in range(300):
        os.rename("r@1", "s@2")
        os.rename("s@2", "r@1")
beside(to_and_fro, write)
os.close(fd)
same(slurp("r@1") == wrote, True, "a version that is written while it is renamed 600 times loses nothing")
note(len(wrote) // 8, "writes")
S = "../../.s"
spill(S, b"0" * 100000)
fd = os.open(S, os.O_RDWR)
def make_cells():
    for i in range(200):
        os.rename(S, "made")
        spill(S, b"1" * 100000)
beside(make_cells, lambda: os.pwrite(fd, b"2" * 4096, 0))
os.close(fd)
ok(os.path.isdir(F), "a scratch file of the table is written while it becomes a cell")
def late_write(name, target, text):
    """Writes while the file is renamed.  It was renamed before: the kernel locks an inode that it renames, but not the one opened."""
    spill(name + "0", text)
    w = os.open(name + "0", os.O_WRONLY | os.O_APPEND)
    os.rename(name + "0", name)
    def append():
        for c in b"abc":
            os.write(w, b"#%c\n" % c)
    t = threading.Thread(target=append)
    t.start()
    os.rename(name, target)
    t.join()
    os.close(w)
    return slurp(target) == text + b"#a\n#b\n#c\n"
same(sum(late_write(".late", "late", b"x" * 3000000) for i in range(60)), 60, "a write to scratch that is just becoming a cell is in the cell")
os.makedirs("../../../written")
text = b"families = (" + b", ".join(b'{ name = "f%d"; }' % i for i in range(300)) + b");\n"
same(sum(late_write("../../../written/.s", "../../../written/.schema", text) for i in range(60)), 60, "  or .schema, in the schema")

def open_beside_rename(by_new_name, calls):
    """The rename is made in .latest, because the kernel makes LOOKUP in the directory of a rename wait."""
    for i in range(300):
        spill(L + "/away", b"1" * 1000)
    name = "away@%d" % (os.stat(L + "/away").st_mtime_ns // 1000)
    if by_new_name:
        os.stat(name)
        name = name.replace("away", "there")
    t = threading.Thread(target=os.rename, args=(L + "/away", L + "/there"))
    t.start()
    for i in range(calls):
        os.getppid()
    fd = None
    while fd is None:
        try:
            fd = os.open(name, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            if not by_new_name:
                break
    if fd is not None:
        os.write(fd, b"2")
        os.close(fd)
    t.join()
    got = slurp("there")
    os.unlink("there")
    return got == b"1" * 1000 + b"2" * (fd is not None)
same(sum(open_beside_rename(False, i * 200) for i in range(30)), 30, "who opens a version while its column is renamed, and appends: it has the bytes")
same(sum(open_beside_rename(True, i) for i in range(30)), 30, "  by the new name, too")

seen = collections.Counter()
spill(".scratch", b"A" * 100)
def read(name=".scratch"):
    try:
        d = os.open(name, os.O_RDONLY)
        data = os.read(d, 200)
        os.close(d)
        seen["right" if len(data) == 100 and data == data[:1] * 100 else "torn"] += 1
    except OSError as x:
        seen[x.strerror] += 1
def replace_scratch():
    for i in range(1000):
        spill(".new", bytes([65 + i % 26]) * 100)
        os.rename(".new", ".scratch")
beside(replace_scratch, read, read)
note(dict(seen))
same(set(seen), {"right"}, "who opens a scratch file that is replaced finds one or the other")
seen.clear()
spill("seen@7", b"A" * 100)
def read_version():
    read("seen@7")
def replace():
    for i in range(600):
        name = (".t", "t@1", "t")[i % 3]
        spill(name, bytes([65 + i % 26]) * 100)
        os.rename(name, "seen@7")
beside(replace, read_version, read_version)
note(dict(seen))
same(set(seen), {"right"}, "who opens and reads a version that others replace finds one or the other, whole")
EOF2
# ---- a column with many versions that the kernel holds ----
mkdir "$M/t/wide" "$M/t/wide/f"
DAEMON=$daemon py <<'EOF2'
from tap import *
os.chdir(os.environ["M"] + "/t/wide/f")
N = 30000
for i in range(N):
    os.close(os.open("q@%d" % i, os.O_WRONLY | os.O_CREAT))
held = os.open("q@7", os.O_RDWR)
began = cpu_seconds(os.environ["DAEMON"])
os.rename("q", "p")
took = cpu_seconds(os.environ["DAEMON"]) - began
note("renamed in %.2f s of processor time" % took)
ok(took < 3, "30,000 versions that the kernel holds are renamed in one pass over them")
os.write(held, b"x")
os.close(held)
same(slurp("p@7"), b"x", "  and who has one of them open goes along")
EOF2
# ---- a directory of scratch and a row's name ----
mkdir -p "$M/t/.new/f" "$M/t/.new/empty"
echo 1 >"$M/t/.new/f/q"
echo 2 >"$M/t/.new/f/w@5"
head -c 700000 /dev/urandom >"$M/t/.new/f/large@7"
cp "$M/t/.new/f/large@7" "$W/large"
py <<'EOF2'
from tap import *
t = os.environ["M"] + "/t/"
fd = os.open(t + ".new/f/q", os.O_WRONLY | os.O_APPEND)
err("EXDEV", "a directory of scratch in which a file is open is not renamed to a row", os.rename, t + ".new", t + "new")
os.close(fd)
same(sorted(os.listdir(t + ".new/f")), ["large@7", "q", "w@5"], "  it is as it was")
os.mkdir(t + ".new/f/.deep")
err("EXDEV", "  nor with a directory where a cell must be", os.rename, t + ".new", t + "new")
os.rmdir(t + ".new/f/.deep")
err("0", "else it becomes the row", os.rename, t + ".new", t + "new")
same(sorted(os.listdir(t + "new")), ["empty", "f"], "  with its families, an empty one too")
same((slurp(t + "new/f/q"), slurp(t + "new/f/w@5"), os.stat(t + "new/f/w@5").st_mtime_ns), (b"1\n", b"2\n", 5000), "  and its cells")
same((sorted(os.listdir(t + ".latest/new/f")), os.path.exists(t + ".new")), (["large", "q", "w"], False), "  in both views")
os.makedirs(t + ".new/f")
err("ENOTEMPTY", "it does not replace a row", os.rename, t + ".new", t + "new")
os.mkdir(t + "new/.g")
spill(t + "new/.g/x@9", b"nine")
err("0", "in a row, it becomes a family", os.rename, t + "new/.g", t + "new/g")
same(slurp(t + "new/g/x"), b"nine", "  with its cells")
os.rmdir(t + ".new/f"), os.rmdir(t + ".new")
EOF2
same "$M/t/new/f/large@7" "$W/large" "  a large one is whole"
like "$(daemon_log)" '/t/new: something in this directory of scratch cannot be a cell' "  the log says why it was refused"
# ---- scratch has neither setuid nor setgid ----
cp /bin/true "$M/t/wide/.x"
chmod 6755 "$M/t/wide/.x" && mkdir -m 2775 "$M/t/wide/.y" && chmod g+s "$M/t/wide/.y"
install -m 4755 /bin/true "$M/t/wide/.z"
is "$(stat -c %a "$M/t/wide/".[xyz] | tr '\n' ' ')" "755 775 755 " "setuid and setgid bits of scratch are left out"
done_testing
