#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Directories of .latest have times that rise when entries are made or removed, as Python's
# imports, mailbox.Maildir and git's untracked cache require.  Each statement of tabletfs(7),
# "Locks, notices and times", holds.  t/620-one-cell-is-one-file.t tests "Identity of files".
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
cd "$M" || exit 1
mkdir -p t/r/f t/r/g
echo x >t/r/f/q
py <<'EOF2'
from tap import *
import subprocess
import mailbox
os.chdir(M)
L = "t/.latest"


def times(*dirs):
    return [os.stat(d).st_mtime_ns for d in dirs]


def eventually(fn, what):
    """The kernel's attributes of the other view's directory are dropped a moment later."""
    end = time.monotonic() + 20
    while not fn() and time.monotonic() < end:
        time.sleep(0.01)
    ok(fn(), what)


def rises(what, dirs, fn, *args, other=False):
    before = times(*dirs)
    fn(*args)
    if other:
        return eventually(lambda: all(a > b for a, b in zip(times(*dirs), before)), what)
    ok(all(a > b for a, b in zip(times(*dirs), before)), what)


F, G, R = L + "/r/f", L + "/r/g", L + "/r"
same(times("t", "t/r", "t/r/f"), [0, 0, 0], "directories of versions have time 0")
rises("a file that is made", [F], spill, F + "/a", b"1")
rises("  another one in the same microsecond or later", [F], spill, F + "/b", b"1")
rises("  and one that is removed", [F], os.unlink, F + "/a")
rises("a rename within a directory", [F], os.rename, F + "/b", F + "/c")
rises("a rename between directories", [F, G], os.rename, F + "/c", G + "/c")
rises("mkdir of a family", [R], os.mkdir, R + "/h")
rises("rmdir of a family", [R], os.rmdir, R + "/h")
rises("mkdir of a row", [L], os.mkdir, L + "/r2")
rises("rmdir of a row", [L], os.rmdir, L + "/r2")
rises("scratch that becomes a cell", [F], lambda: (spill(F + "/.s", b"1"), os.rename(F + "/.s", F + "/d")))
before = times(F)
spill(F + "/q", b"written again")
same(times(F), before, "a file that is written in place changes no directory")
rises("a file that is made through the table", [F], spill, "t/r/f/e", b"1", other=True)
rises("  and removed", [F], os.unlink, "t/r/f/e", other=True)
rises("mkdir of a row through the table", [L], os.mkdir, "t/r3", other=True)
os.rmdir("t/r3")
rises("a mutation", [F, R, L], spill, "t/r/.mutate", b"set f:m\t1\ncommit\n", other=True)
rises("  and one that deletes", [F], spill, "t/r/.mutate", b"delete f:m\ncommit\n", other=True)
if not os.environ.get("MODEL"):
    rises("an import", [F, G, R, L], spill, "t/.import", b"r\tf:i\t\t1\n", other=True)
    rises("truncate", [L], spill, "t/.ctl", b"truncate\n", other=True)
os.makedirs(F, exist_ok=True)
os.utime(F, (5, 5))
same(times(F), [5 * 10 ** 9], "a time that a user sets is kept")
rises("  until an entry is made", [F], spill, F + "/n", b"1")
os.utime(F, (4 * 10 ** 9, 4 * 10 ** 9))
rises("a time in the future rises, too", [F], spill, F + "/n2", b"1")
os.utime(F, None)
same(times("t", "t/r", "t/r/f"), [0, 0, 0], "directories of versions still have time 0")

# ---- Python's imports ----
os.makedirs(L + "/code/pkg", exist_ok=True)
spill(L + "/code/pkg/first.py", b"x = 1\n")
got = subprocess.run([sys.executable, "-c", """
import sys
sys.dont_write_bytecode = True
d = sys.argv[1]
sys.path.insert(0, d)
import first
try:
    import later
    print("already")
except ImportError:
    print("absent")
open(d + "/later.py", "w").write("y = 2\\n")
import later
print(later.y)
""", os.path.abspath(L + "/code/pkg")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100).stdout
same(got, b"absent\n2\n", "Python imports a module that was added after the first listing")

# ---- mailbox.Maildir ----
for d in ("cur", "new", "tmp"):
    os.makedirs(L + "/mail/" + d, exist_ok=True)
box = mailbox.Maildir(L + "/mail", create=False)
box._skewfactor = 0
one = box.add("Subject: one\n\nfirst\n")
same(len(box), 1, "Maildir: one message")
other = mailbox.Maildir(L + "/mail", create=False)
two = other.add("Subject: two\n\nsecond\n")
box._last_read -= 10  # as if ten seconds had passed: Maildir looks at most every two
same(sorted(m["Subject"] for m in box), ["one", "two"], "  a message of another program is found")
other.remove(one)
box._last_read -= 10
same([m["Subject"] for m in box], ["two"], "  and one that it removes is not")
EOF2
if has git; then
	mkdir -p t/.latest/work/src
	echo a >t/.latest/work/src/a.c
	g() { git -c core.untrackedCache=true -c core.trustctime=true -c user.name=x -c user.email=x@y --git-dir="$W/repo.git" --work-tree="$M/t/.latest/work" "$@"; }
	ok "git init" t git init -q --bare "$W/repo.git"
	git --git-dir="$W/repo.git" config core.bare false
	ok "git add" g add src/a.c
	ok "git update-index" g update-index --force-untracked-cache
	is "$(g status --porcelain)" "A  src/a.c" "git status with an untracked cache"
	is "$(g status --porcelain)" "A  src/a.c" "  again"
	echo b >t/.latest/work/src/b.c
	is "$(g status --porcelain)" "$(printf 'A  src/a.c\n?? src/b.c')" "  finds a file that was made since"
	rm t/.latest/work/src/b.c
	is "$(g status --porcelain)" "A  src/a.c" "  and that one was removed"
	cd "$W" || exit 1
	ok "unmount" unmount_store
	ok "mount" mount_store
	cd "$M" || exit 1
	echo c >t/work/src/c.c
	is "$(g status --porcelain)" "$(printf 'A  src/a.c\n?? src/c.c')" "  and one that was made after a remount through the table"
fi
cd "$M" || exit 1
# ---- tabletfs(7), Locks, notices and times ----
mkdir -p rely/r/f rely/r/g
echo one >rely/r/f/q
py <<'EOF2'
from tap import *
import ctypes
import fcntl
import subprocess
os.chdir(M)
T, L = "rely/r/f", "rely/.latest/r/f"


def others_may_lock(path, how):
    """Whether another process gets the lock."""
    code = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.%s(f, fcntl.LOCK_EX | fcntl.LOCK_NB)" % how
    return subprocess.run([sys.executable, "-c", code, path], stderr=subprocess.DEVNULL, timeout=100).returncode == 0


for how in ("flock", "lockf"):
    held = open(T + "/q", "r+b")
    getattr(fcntl, how)(held, fcntl.LOCK_EX)
    same([others_may_lock(p, how) for p in (T + "/q", L + "/q")], [False, False], how + ": a lock holds under both names of a file")
    # By another process: a lock of fcntl(2) ends when its process closes any descriptor of the file.
    subprocess.run(["cp", "/dev/stdin", T + "/q"], input=b"written in place", timeout=100)
    ok(not others_may_lock(T + "/q", how), "  also after the file was written in place")
    spill(T + "/.new", b"replaced")
    os.rename(T + "/.new", T + "/q")
    same([others_may_lock(p, how) for p in (T + "/q", L + "/q")], [True, True], "  the file that replaces it is not locked")
    held.close()

# ---- tail ----
out = open(W + "/tail", "wb")
for flag in ("-f", "-F"):
    spill(T + "/log", b"first\n")
    out = open(W + "/tail", "wb")
    tail = subprocess.Popen(["tail", "-n", "+1", "-s", "0.1", flag, T + "/log"], stdout=out, stderr=subprocess.DEVNULL)
    soon(lambda: slurp(W + "/tail"), b"first\n", "tail %s shows the file" % flag)
    spill(T + "/log", b"second\n", os.O_WRONLY | os.O_APPEND)
    soon(lambda: slurp(W + "/tail"), b"first\nsecond\n", "  and text that is appended")
    if flag == "-F":
        spill(T + "/.log", b"third\n")
        os.rename(T + "/.log", T + "/log")
        soon(lambda: slurp(W + "/tail"), b"first\nsecond\nthird\n", "  and the file that replaces it")
        spill(T + "/log", b"fourth\n", os.O_WRONLY | os.O_APPEND)
        soon(lambda: slurp(W + "/tail"), b"first\nsecond\nthird\nfourth\n", "  and what is appended to that")
    tail.kill()
    tail.wait()

# ---- inotify ----
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(os.O_NONBLOCK)
MODIFY, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE = 2, 8, 0x40, 0x80, 0x100, 0x200
libc.inotify_add_watch(fd, L.encode(), MODIFY | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE)


def events():
    out = []
    try:
        got = os.read(fd, 65536)
    except BlockingIOError:
        return out
    while got:
        wd, mask, cookie, n = struct.unpack_from("iIII", got)
        out.append((mask, got[16:16 + n].rstrip(b"\0").decode()))
        got = got[16 + n:]
    return out


spill(L + "/w", b"x")
same(events(), [(CREATE, "w"), (MODIFY, "w"), (CLOSE_WRITE, "w")], "inotify: a file that is made and written")
os.rename(L + "/w", L + "/w2")
same(events(), [(MOVED_FROM, "w"), (MOVED_TO, "w2")], "  and renamed")
os.unlink(L + "/w2")
same(events(), [(DELETE, "w2")], "  and removed")
spill(T + "/other", b"x")
os.unlink(T + "/other")
spill("rely/r/.mutate", b"set f:m\t1\ncommit\n")
if not os.environ.get("MODEL"):
    spill("rely/.import", b"r\tf:i\t\t1\n")
same([e for e in events() if e[0] != DELETE], [], "  not what is made through the other view, .mutate or .import")

# ---- for the remount ----
import json
spill(T + "/keep", b"kept")
spill(T + "/.scratch", b"ends")
os.utime(L, (7, 7))
state = {p: (os.stat(p).st_ino, os.stat(p).st_mtime_ns, os.stat(p).st_ctime_ns) for p in ("rely/r/f/keep", "rely/.latest/r/f/keep")}
state["lock"] = os.stat("rely/r/f/q").st_mtime_ns
json.dump(state, open(W + "/state", "w"))
same((os.stat(L).st_mtime, os.path.exists(T + "/.scratch")), (7, True), "before a remount")
EOF2
cd "$W" || exit 1
ok "unmount" unmount_store
if [ -z "$MODEL" ]; then
	ok "mount" mount_store
	py <<'EOF2'
from tap import *
import json
os.chdir(M)
state = json.load(open(W + "/state"))
for p in ("rely/r/f/keep", "rely/.latest/r/f/keep"):
    st = os.stat(p)
    same([st.st_ino, st.st_mtime_ns, st.st_ctime_ns], state[p], "after a remount %s has its number and times" % p)
d = os.stat("rely/.latest/r/f")
ok(d.st_mtime == 0 and d.st_ctime_ns > state["lock"], "  a directory in .latest has the time 0, and the change time of the mount")
ok(not os.path.exists("rely/r/f/.scratch"), "  scratch has ended")
EOF2
fi
cd "$W" || exit 1
done_testing
