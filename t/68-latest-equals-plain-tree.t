#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same random calls on -o latest and on a plain directory return the same
# errors, bytes, listings and times, across flushes, compactions, remounts and
# SIGKILL.
#
#	SEED=n STEPS=n t/68-latest-equals-plain-tree.t
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
P=$W/plain
mkdir -p "$P/t"
ok "mount" mount_store -o latest
mkdir "$M/t"
export P
seed=${SEED:-1}
some() { # some SEED STEPS
	py "$@" <<'EOF2'
from tap import *
import random
seed, steps = int(sys.argv[1]), int(sys.argv[2])
P = os.environ["P"]
rnd = random.Random(seed)
text = rnd.randbytes(700_000)
ROWS, FAMILIES, NAMES = ["r1", "r2", "com.cnn.www%2F"], ["f", "g"], ["a", "b", "c@d", "\u00fc", "%2Edot", "n" * 254 + "%/" + "m" * 40, "@"]
base = 1_600_000_000_000_000
handles = {}  # number: (path, fd here, fd there)

def size():
    kind = rnd.random()
    if kind < 0.6:
        return rnd.randrange(200)
    if kind < 0.9:
        return rnd.randrange(20_000)
    return rnd.choice([262_143, 262_144, 262_145, 524_288, 600_000])

def piece():
    n = size()
    at = rnd.randrange(len(text) - n)
    return text[at:at + n]

def path():
    return "/t/%s/%s/%s" % (rnd.choice(ROWS), rnd.choice(FAMILIES), rnd.choice(NAMES))

def both(fn, *args):
    """fn on either side: the results, or the errno's names."""
    out = []
    for top in (os.environ["M"], P):
        try:
            out.append(fn(top, *args))
        except OSError as e:
            out.append(name_of(e.errno))
    return out

def made(top, p):
    os.makedirs(top + os.path.dirname(p), exist_ok=True)
    return top + p

def do_write(top, p, flags, parts):
    fd = os.open(made(top, p), flags, 0o644)
    try:
        for part in parts:
            os.write(fd, part)
    finally:
        os.close(fd)
    return os.stat(top + p).st_size

def do_patch(top, p, at, data):
    fd = os.open(top + p, os.O_RDWR)
    try:
        os.pwrite(fd, data, at)
        back = os.pread(fd, 100_000, max(0, at - 50))
    finally:
        os.close(fd)
    return back, slurp(top + p)

def do_truncate(top, p, n):
    os.truncate(top + p, n)
    return slurp(top + p)

def do_ftruncate(top, p, n, data):
    fd = os.open(top + p, os.O_RDWR)
    try:
        os.ftruncate(fd, n)
        os.write(fd, data)
        os.ftruncate(fd, n // 2)
        got = os.fstat(fd).st_size
    finally:
        os.close(fd)
    return got, slurp(top + p)

def do_unlink(top, p):
    os.unlink(top + p)

def do_rename(top, p, q, flags):
    renameat2(made(top, p), made(top, q), flags)
    return slurp(top + q)

def do_read(top, p):
    return slurp(top + p)

def do_time(top, p, t):
    set_us(top + p, t)
    return us(top + p)

def do_stat(top, p):
    s = os.stat(top + p)
    return s.st_size, s.st_mode, s.st_uid, s.st_nlink

def do_held(top, p, data):
    """A file replaced while it is open: what is written through the old descriptor is lost."""
    made(top, p)
    tmp = top + os.path.dirname(p) + "/.held"
    fd = os.open(top + p, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        spill(tmp, data)
        os.rename(tmp, top + p)
        os.write(fd, b"lost")
    finally:
        os.close(fd)
    return slurp(top + p)

def do_removed(top, p, data):
    """The same, of a file removed and made again."""
    fd = os.open(made(top, p), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(fd, data)
        os.unlink(top + p)
        gone = not os.path.exists(top + p)
        os.write(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    return gone, os.path.exists(top + p)

def do_two(top, p, one, two):
    """Two appenders, their writes alternating, neither sees its own file shrink."""
    made(top, p)
    a = os.open(top + p, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    b = os.open(top + p, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(a, one)
    os.close(a)
    os.write(b, two)
    os.close(b)
    return slurp(top + p)

def do_rmdir(top, p):
    os.rmdir(top + os.path.dirname(p))

def do_link(top, p):
    return len(os.listdir(top + os.path.dirname(p)))

WR = os.O_WRONLY
def step():
    p, k = path(), rnd.random()
    if k < 0.25:
        parts = [piece() for _ in range(rnd.randrange(3))]
        flags = WR | os.O_CREAT | rnd.choice([os.O_TRUNC, os.O_TRUNC, os.O_APPEND, 0, os.O_EXCL])
        return "write %o" % flags, p, both(do_write, p, flags, parts)
    if k < 0.33:
        return "patch", p, both(do_patch, p, rnd.choice([0, size(), 300_000]), piece())
    if k < 0.40:
        return "truncate", p, both(do_truncate, p, size())
    if k < 0.45:
        return "ftruncate", p, both(do_ftruncate, p, size(), piece())
    if k < 0.53:
        return "unlink", p, both(do_unlink, p)
    if k < 0.66:
        q = os.path.dirname(p)
        q = (q if rnd.random() < 0.7 else q[:-1] + rnd.choice(FAMILIES)) + "/" + rnd.choice(NAMES)
        if "%/" in p or "%/" in q:  # a split name's directory is another
            return None
        return "rename to " + q, p, both(do_rename, p, q, rnd.choice([0, 0, RENAME_NOREPLACE]))
    if k < 0.76:
        return "read", p, both(do_read, p)
    if k < 0.82:
        return "time", p, both(do_time, p, base + rnd.randrange(10**9))
    if k < 0.88:
        return "stat", p, both(do_stat, p)
    if k < 0.91:
        return "held", p, both(do_held, p, piece()) if "%/" not in p else [0, 0]
    if k < 0.94:
        return "removed", p, both(do_removed, p, piece())
    if k < 0.97:
        return "two", p, both(do_two, p, piece(), piece())
    return "rmdir", p, both(do_rmdir, p)

bad = 0
for n in range(steps):
    s = step()
    if s and s[2][0] != s[2][1] and bad < 5:
        bad += 1
        short = [x if not isinstance(x, (bytes, tuple)) else repr(x)[:60] + "... %s" % (
            [len(y) if isinstance(y, bytes) else y for y in (x if isinstance(x, tuple) else (x,))]) for x in s[2]]
        note("seed %d, step %d: %s %s: here %s, plain %s" % (seed, n, s[0], s[1][:60], short[0], short[1]))
ok(bad == 0, "seed %d: %d calls are answered alike" % (seed, steps))
EOF2
}
compare() { # compare WHAT
	# A file that was created and not written is committed at RELEASE, after close.
	soon "diff -r '$P/t' '$M/t' | head -c 2000" "" "$1: the same files and bytes"
	is "$(cd "$M/t" && find . -type f -printf '%p %s %m %U %G %n\n' | sort)" "$(cd "$P/t" && find . -type f -printf '%p %s %m %U %G %n\n' | sort)" "  the same attributes"
}
# Directories without a cell end with the mount.
prune() { find "$P/t" -mindepth 1 -type d -empty -delete; }
umask 022
for phase in calls flush remount compact kill calls remount; do
	case $phase in
	flush | compact) echo $phase >"$M/t/.ctl" ;;
	remount) prune; remount -o latest ;;
	kill) prune; kill_daemon; check_store; mount_store -o latest ;;
	esac
	compare "$phase"
	some "$seed" "${STEPS:-400}"
	compare "  then calls"
	seed=$((seed + 1))
done
unmount_store
done_testing
