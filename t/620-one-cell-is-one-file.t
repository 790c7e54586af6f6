#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The identity of files: a cell is one file in TABLE and in .latest, a name that is
# replaced is another file, and a handle opens no other file.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
F=$M/t/r/f
L=$M/t/.latest/r/f
mkdir -p "$F"
ino() { stat -c %i "$@"; }
export F L

# ---- one cell, one file ----
echo one >"$F/q"
is "$(ino "$L/q")" "$(ino "$F/q")" "a cell has one inode number in TABLE and in .latest"
is "$(ls -i "$L" | awk '{print $1}')" "$(ino "$F/q")" "  which the listing shows"
is "$(find "$L" -samefile "$F/q")" "$L/q" "find -samefile finds it"
if has flock; then
	is "$(flock "$F/q" flock -n "$L/q" true; echo $?)" 1 "a flock through one path excludes one through the other"
	ok "  not after it has ended" flock -n "$L/q" true
fi
py <<'EOF'
from tap import *
import fcntl
F, L = os.environ["F"], os.environ["L"]
def other_process(path):
    pid = os.fork()
    if pid == 0:
        try:
            fcntl.lockf(os.open(path, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
a = os.open(F + "/q", os.O_RDWR)
fcntl.lockf(a, fcntl.LOCK_EX)
same(other_process(L + "/q"), 1, "a lock of fcntl, too")
os.write(a, b"two")
b = os.open(L + "/q", os.O_RDWR)
same((os.read(b, 9), os.fstat(b).st_ino), (b"two\n", os.fstat(a).st_ino), "what one descriptor writes, the other reads")
os.close(a), os.close(b)
EOF
if has sqlite3; then
	sqlite3 "$F/db" 'create table n (i)'
	py <<'EOF'
from tap import *
import sqlite3
F, L = os.environ["F"], os.environ["L"]
a, b = (sqlite3.connect(d + "/db", timeout=0, isolation_level=None) for d in (F, L))
a.execute("begin exclusive")
a.execute("insert into n values (1)")
try:
    b.execute("insert into n values (2)")
    same("written", "locked", "sqlite: a database that is locked through one path is locked through the other")
except sqlite3.OperationalError as e:
    same(str(e), "database is locked", "sqlite: a database that is locked through one path is locked through the other")
a.execute("commit")
b.execute("insert into n values (2)")
same(a.execute("select i from n").fetchall(), [(1,), (2,)], "  and has the rows of both")
EOF
	rm "$F/db"
fi
touch -d @1000000000 "$L/q"
echo three >"$F/q"
fails "a time set through TABLE passes no version" 'Invalid argument' touch -d @500000000 "$F/q"
ok "one set through .latest does" touch -d @500000000 "$L/q"
is "$(ls "$F")" "q@500000000000000" "  and removes newer versions"
rm "$L/q"
echo one >"$F/q"
echo two >"$F/q"
exec 3<>"$F/q"
stat "$L/q" >"$W/stat"
fails "a look-up in .latest by another process makes no time pass a version" 'Invalid argument' touch -d @5 /proc/self/fd/3
exec 3>&-
exec 3>>"$L/q"
echo three >&3
was=$(cells "$F" | wc -l)
touch -d @5 "$F/q" 2>"$W/touch"
is "$(cells "$F" | wc -l)" "$was" "  nor does a descriptor that another process has opened there"
exec 3>&-
py <<'EOF'
from tap import *
F, L = os.environ["F"], os.environ["L"]
def beside(path, fn):
    """Calls fn while another process looks the path up."""
    pid = os.fork()
    while pid == 0:
        os.stat(path)
    got = {fn() for i in range(300)}
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return got
def touch():
    fd = os.open(F + "/q", os.O_WRONLY)
    try:
        os.utime(fd, (5, 5))
        return "0"
    except OSError as e:
        return name_of(e.errno)
    finally:
        os.close(fd)
was = os.listdir(F)
same(beside(L + "/q", touch), {"EINVAL"}, "  nor do look-ups all the time")
same(os.listdir(F), was, "  no version is removed")
def rewrite():
    with open(L + "/q", "w") as f:
        f.write("text")
    os.utime(L + "/q", (5, 5))
    return os.stat(L + "/q").st_mtime
same(beside(F + "/q", rewrite), {5}, "a time set in .latest does, beside look-ups in TABLE")
EOF
rm "$L/q"
fails "a removal through one path is seen through the other" 'No such file' stat "$F/q"

# ---- a replaced name is another file ----
py <<'EOF'
from tap import *
F, L = os.environ["F"], os.environ["L"]
os.chdir(F)
def put(name, text):
    with open(name, "w") as f:
        f.write(text)
def number(name):
    n = os.stat(name).st_ino
    if "/" not in name:
        same((os.stat(L + "/" + name).st_ino, {e.name: e.inode() for e in os.scandir(L)}[name]), (n, n),
             "  .latest and its listing agree")
    return n
def rename_over():
    put(".new", "new")
    os.rename(".new", "q")
def move_away():
    os.rename("q", "q.1")
    put("q", "new")
def remove():
    os.unlink("q")
    put("q", "new")
def move_onto():
    put("other", "new")
    os.rename("other", "q")
def through_latest():
    put(L + "/.new", "new")
    os.rename(L + "/.new", L + "/q")
def at_the_same_time():
    put(L + "/.new", "new")
    os.utime(L + "/.new", ns=(0, os.stat("q").st_mtime_ns))
    os.rename(L + "/.new", L + "/q")
seen = set()
for how in (rename_over, move_away, remove, move_onto, through_latest, at_the_same_time, rename_over):
    put("q", "old text")
    before, old = number("q"), os.open("q", os.O_RDONLY)
    mtime = os.stat("q").st_mtime_ns
    seen.add(before)
    how()
    after = number("q")
    same(after in seen, False, "%s: the name has a number that it has not had" % how.__name__)
    s = os.fstat(old)
    same((s.st_ino, s.st_size, s.st_mtime_ns), (before, 8, mtime), "  a descriptor keeps number, size and time")
    same(os.lseek(old, 0, os.SEEK_END), 8, "  and its end of file")
    same(os.pread(old, 99, 0), b"old text", "  and its bytes")
    same(open("/proc/self/fd/%d" % old, "rb").read(), b"old text", "  also when it is opened again")
    os.close(old)
same(number("q.1") in seen, True, "a file that is renamed keeps its number")
n = number("q")
put("q", "in place")
with open("q", "r+") as f:
    f.write("IN")
os.truncate("q", 4)
same(number("q"), n, "a file that is rewritten in place keeps its number")
for name in os.listdir("."):
    if name.startswith("q@"):
        version = name
n = number("./" + version)
put(".new", "other bytes")
os.rename(".new", version)
ok(number("./" + version) != n, "a version that is replaced is another file")
n = number("./" + version)
os.unlink(version)
put(version, "again")
ok(number("./" + version) != n, "so is one that is removed and made again")
put("q", "old")
p = os.open("q", os.O_PATH)
os.unlink("q")
put("q", "new")
def by_descriptor(flags):
    try:
        os.close(os.open("/proc/self/fd/%d" % p, flags))
        return "opened"
    except OSError as e:
        return name_of(e.errno)
got = [by_descriptor(os.O_RDONLY)]
os.stat("q")
got += [by_descriptor(os.O_WRONLY | os.O_TRUNC), by_descriptor(os.O_RDONLY)]
same((got, open("q").read()), (["ESTALE"] * 3, "new"), "a descriptor of O_PATH opens no other file, also after a look-up of the name")
os.mkdir("../g")
n = number("../g")
os.rmdir("../g")
os.mkdir("../g")
ok(number("../g") != n, "and a directory")
EOF
numbers() { (cd "$F" && stat -c '%n %i' -- * q q.1 && ls -i "$L"); }
was=$(numbers)
if [ "$UID" = 0 ] && echo 2 2>/dev/null >/proc/sys/vm/drop_caches; then
	is "$(numbers)" "$was" "numbers stay when the kernel forgets the files"
else
	skip "numbers stay when the kernel forgets the files" "not root"
fi

if has tail; then
	echo first >"$F/log"
	tail -n +1 -s 0.1 -F "$F/log" >"$W/tail" 2>/dev/null &
	tail=$!
	wait_for "tail has begun" grep first "$W/tail"
	mv "$F/log" "$F/log.1"
	echo second >"$F/log"
	wait_for "tail -F follows the name" grep second "$W/tail"
	echo third >"$F/.log"
	mv "$F/.log" "$F/log"
	wait_for "tail -F follows the name" grep third "$W/tail"
	kill $tail
	wait $tail 2>/dev/null
	is "$(tr '\n' ' ' <"$W/tail")" "first second third " "tail -F follows a rotated and a replaced file"
fi

# ---- a replacement is atomic for every reader ----
py <<'EOF'
from tap import *
import mmap
F, L = os.environ["F"], os.environ["L"]
ROUNDS, READERS = 300, 4
def text(i):
    return (b"%d " % i) * (1 + i * 37 % 900)
def whole(b):
    return b != b"" and b == text(int(b.split(b" ", 1)[0]))
def read_once(path, how):
    fd = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        if how == 0:
            got = os.read(fd, size)
        elif how == 1:
            got = os.pread(fd, os.lseek(fd, 0, os.SEEK_END), 0)
            size = len(got)
        elif how == 2:
            r, w = os.pipe()
            n = os.sendfile(w, fd, 0, size)
            os.close(w)
            got = b"".join(iter(lambda: os.read(r, 65536), b""))
            os.close(r)
        else:
            with mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ) as m:
                got = m[:]
        last = os.fstat(fd).st_size
        same_size = len(got) == size == last
        os.read(fd, 1)
        return None if whole(got) and same_size else "%d: %d of %d and then %d bytes: %r" % (how, len(got), size, last, got[:20])
    finally:
        os.close(fd)
def reader(me, done):
    path, i = (F if me % 2 else L) + "/swapped", 0
    while i == 0 or not os.path.exists(done): # on a busy machine it may begin when all is replaced
        how = (i + me) % 4
        try:
            error = read_once(path, how)
            # If the name was replaced again while it was opened, and the version looked up is removed, the kernel opens the
            # newest one through the inode of another one, and sendfile and mmap use the size and pages of that inode.
            for _ in range(9 if how > 1 and one_version else 0):
                error = error and read_once(path, how)
        except Exception as e:
            error = repr(e)
        if error:
            note("reader", me, "round", i, error)
            sys.stdout.flush()
            os._exit(1)
        i += 1
    os._exit(0)
def loop(what, replace):
    replace(0)
    done = os.environ["W"] + "/done"
    pids = []
    for me in range(READERS):
        pid = os.fork()
        if pid == 0:
            reader(me, done)
        pids.append(pid)
    for i in range(ROUNDS):
        replace(i + 1)
    open(done, "w").close()
    same([os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in pids], [0] * READERS, what)
    os.unlink(done)
def by_rename(i):
    with open(F + "/.swap", "wb") as f:
        f.write(text(i))
    os.rename(F + "/.swap", F + "/swapped")
def by_move(i):
    with open(F + "/made", "wb") as f:
        f.write(text(i))
    os.rename(F + "/made", F + "/swapped")
one_version = False
loop("readers beside renames of scratch onto a name read whole files", by_rename)
loop("  beside renames of cells", by_move)
with open(F + "/../../.families/f/gc", "w") as f:
    f.write("maxversions=1\n")
one_version = True
loop("  in a family that keeps one version", by_rename)
EOF

# ---- handles ----
[ "$UID" = 0 ] || { skip "handles" "not root"; done_testing; }
cat >"$W/handles.py" <<'EOF'
from tap import *
F, L = os.environ["F"], os.environ["L"]
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [("n", ctypes.c_uint), ("type", ctypes.c_int), ("bytes", ctypes.c_ubyte * 128)]
def handle_of(path):
    h, mount = Handle(n=128), ctypes.c_int()
    if libc.name_to_handle_at(-100, path.encode(), ctypes.byref(h), ctypes.byref(mount), 0):
        raise OSError(ctypes.get_errno(), path)
    return h
def read_by(h):
    """The bytes of the file, or the name of the error."""
    top = os.open(F, os.O_RDONLY)
    fd = libc.open_by_handle_at(top, ctypes.byref(h), os.O_RDONLY)
    os.close(top)
    if fd < 0:
        return name_of(ctypes.get_errno())
    try:
        return os.read(fd, 999)
    finally:
        os.close(fd)
def forget():
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("2")
def put(path, text):
    with open(path, "w") as f:
        f.write(text)
EOF
export PYTHONPATH="$PYTHONPATH:$W"
py <<'EOF'
from handles import *
os.mkdir(F + "/../h")
H = os.path.dirname(F) + "/h/"
put(H + "q", "q")
a, b = handle_of(H + "q"), handle_of(os.path.dirname(L) + "/h/q")
same(bytes(a), bytes(b), "a cell has one handle in TABLE and in .latest")
same(read_by(a), b"q", "which opens it")
fd = os.open(H + "q", os.O_RDONLY)
put(H + ".new", "new")
os.rename(H + ".new", H + "q")
same(read_by(a), b"q", "the handle of a file that was replaced and is open opens that file")
os.close(fd)
os.unlink(H + "q")
put(H + "q", "third")
ok(read_by(a) in (b"q", "ESTALE"), "that of a file that was removed opens no other")
mine = {}
for i in range(300):
    put(H + "a%d" % i, "a%d" % i)
    mine["a%d" % i] = handle_of(H + "a%d" % i)
mine["dir"] = handle_of(H)
try:
    forget()
except OSError:
    note("the kernel's caches cannot be dropped")
for i in range(600):
    put(H + "b%d" % i, "b%d" % i)
held = [os.stat(H + "b%d" % i) for i in range(600)]
wrong = {n: r for n, r in ((n, read_by(h)) for n, h in mine.items() if n != "dir") if r not in (n.encode(), "ESTALE")}
same(wrong, {}, "handles of files that the kernel has forgotten open no other file")
with open(W + "/saved", "wb") as f:
    f.write(b"".join(bytes(h) for h in mine.values()))
EOF
unmount_store
ok "mount again" mount_store
py <<'EOF'
from handles import *
H = os.path.dirname(F) + "/h/"
held = [os.stat(H + "%s%d" % (k, i)) for k, n in (("b", 600), ("a", 300)) for i in range(n)]
saved = open(W + "/saved", "rb").read()
size = ctypes.sizeof(Handle)
got = {read_by(Handle.from_buffer_copy(saved[i:i + size])) for i in range(0, len(saved), size)}
same(got, {"ESTALE"}, "handles of an earlier mount are stale")
EOF
done_testing
