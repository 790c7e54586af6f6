#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Directories of .latest have times that rise when entries are made or removed, as Python's
# imports, mailbox.Maildir and git's untracked cache rely on.  tabletfs(7), WHAT PROGRAMS MAY
# RELY ON: each line holds.
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


def soon(fn, what):
    """The kernel's attributes of the other view's directory are dropped a moment later."""
    end = time.monotonic() + 20
    while not fn() and time.monotonic() < end:
        time.sleep(0.01)
    ok(fn(), what)


def rises(what, dirs, fn, *args, other=False):
    before = times(*dirs)
    fn(*args)
    if other:
        return soon(lambda: all(a > b for a, b in zip(times(*dirs), before)), what)
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
cd "$W" || exit 1
done_testing
