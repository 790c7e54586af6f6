#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each errno that tabletfs(7) documents is returned in the documented case.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
cd "$M" || exit 1
mkdir -p t/r/f t/r/g t/r2/f u/r/f
echo one >t/r/f/q@1
echo two >t/r/f/q@2
echo x >t/r/f/p
echo x >t/r2/f/p
echo x >u/r/f/p

cat >"$W/refusal.py" <<'PY'
from tap import *


def log_size():
    return len(slurp(M + "/.tabletfs/log"))


def refused(want, what, fn, *args, **kw):
    """The errno, and a line of reason in the log (56-refusal-logs-one-line.t counts them)."""
    before = slurp(M + "/.tabletfs/log").count(b"\n")
    err(want, what, fn, *args, **kw)
    after = slurp(M + "/.tabletfs/log").count(b"\n")
    ok(after > before, "  with its reason in the log")
PY
export PYTHONPATH="$PYTHONPATH:$W"

py <<'EOF2'
from refusal import *
os.chdir(M)
new = os.O_WRONLY | os.O_CREAT
# ---- EPERM: files that a directory cannot contain ----
refused("EPERM", "a file in the root", os.open, "file", new)
refused("EPERM", "a file in a TABLE", os.open, "t/file", new)
refused("EPERM", "a file in a ROW", os.open, "t/r/file", new)
refused("EPERM", "a directory in a family", os.mkdir, "t/r/f/dir")
refused("EPERM", "a dot name in the root", os.open, ".x", new)
refused("EPERM", "a dot directory in the root", os.mkdir, ".x")
refused("EPERM", "a file in .families", os.open, "t/.families/x", new)
refused("EPERM", "a file in a family's settings", os.open, "t/.families/f/x", new)
refused("EPERM", "a directory there", os.mkdir, "t/.families/f/x")
refused("EPERM", "a file in /.tabletfs", os.open, ".tabletfs/x", new)
refused("EPERM", "rm of a setting", os.unlink, "t/.families/f/gc")
refused("EPERM", "rm of .ctl", os.unlink, "t/.ctl")
for what, fn in (("a symlink", lambda: os.symlink("x", "t/r/f/s")), ("a hard link", lambda: os.link("t/r/f/p", "t/r/f/l")),
                 ("a fifo", lambda: os.mkfifo("t/r/f/fifo")), ("a device", lambda: os.mknod("t/r/f/dev", 0o600 | 0o020000, 0x103)),
                 ("a symlink in a ROW", lambda: os.symlink("x", "t/r/s")), ("a symlink in the root", lambda: os.symlink("x", "s")),
                 ("a scratch symlink", lambda: os.symlink("x", "t/r/f/.s"))):
    refused("EPERM", what, fn)
same(sorted(os.listdir("t/r/f")), ["p@%d" % us("t/r/f/p"), "q@1", "q@2"], "none of them has been made")

# ---- EOPNOTSUPP: names that a later version will use ----
later = ["t/." + n for n in "export run".split()]
spill("t/.scratch", b"x")
spill("t/r/.scratch", b"x")
for path in later:
    refused("EOPNOTSUPP", "mkdir " + path, os.mkdir, path)
    refused("EOPNOTSUPP", "create of " + path, os.open, path, new)
    refused("EOPNOTSUPP", "stat of " + path, os.stat, path)
    refused("EOPNOTSUPP", "rename onto " + path, os.rename, "t/.scratch", path)
same((os.listdir("t/.latest"), sorted(os.listdir("t/r"))), (["r", "r2"], [".scratch", "f", "g"]), "none of them is listed")
for path in ("t/r/.scan", "t/.mutate", "t/r/f/.snap", "t/.scans"):
    refused("EOPNOTSUPP", path + " looks like a control name", os.open, path, new)
for path in ("t/r/.row.x.AbCdEf", "t/.scan~", "t/r/f/.scans"):
    spill(path, b"x")
    os.unlink(path)
    ok(True, path + " is scratch")
os.unlink("t/.scratch")
os.unlink("t/r/.scratch")

# ---- ENOENT ----
for path in ("no", "t/no", "t/r/no", "t/r/f/no", "t/r/f/q@3", "t/r/f/q@01", "t/r/f/q@+1", "t/r/f/%41", "t/r/f/a%2f", "t/%", "t/r/f/.no", "t/.no",
             "t/.families/no", "t/.groups/no", "t/.families/f/no", ".tabletfs/no", ".no", "t/r%2F%2f", "t/r/f/@", "t/r/f/a\udcff"):
    err("ENOENT", "stat " + ascii(path), os.stat, path)
for fn in (os.unlink, os.rmdir, lambda p: os.open(p, os.O_RDONLY), lambda p: os.open(p, os.O_WRONLY), lambda p: os.rename(p, "t/r/f/to"),
           lambda p: os.truncate(p, 0), lambda p: os.utime(p)):
    err("ENOENT", "of an absent cell", fn, "t/r/f/no")
err("ENOENT", "a TABLE below none", os.mkdir, "no/r")

# ---- EINVAL: names that are not canonical, and others ----
for name in ("a b", "\u00e9", "-x", "x" * 65, "a%2Fb", "a@b"):
    refused("EINVAL", "mkdir TABLE " + ascii(name), os.mkdir, name)
    refused("EINVAL", "mkdir ROW/FAMILY " + ascii(name), os.mkdir, "t/r/" + name)
    refused("EINVAL", "mkdir .families/" + ascii(name), os.mkdir, "t/.families/" + name)
for name in ("%41", "a%2f", "a%2", "q@01", "q@-0", "q@9223372036854775808", "q@", "a\x01", "\x7f", "x%2Ey", "@@5"):
    refused("EINVAL", "create of the cell " + ascii(name), os.open, "t/r/f/" + name, new)
for name in ("%41", "a%2f", "a\x01", "x%2Ey", "a%2"):
    refused("EINVAL", "mkdir of the row " + ascii(name), os.mkdir, "t/" + name)
refused("EPERM", "rename to no canonical name", os.rename, "t/r/f/p", "t/r/f/p%41")
refused("EINVAL", "rename with EXCHANGE", renameat2, "t/r/f/p", "t/r/f/q", RENAME_EXCHANGE)
refused("EINVAL", "touch past another version", set_us, "t/r/f/q", 1)
refused("EINVAL", "touch before another version", set_us, "t/r/f/q", -5)
same(us("t/r/f/q"), 2, "  and the version has not moved")

# ---- ENAMETOOLONG ----
long = "x" * 256
err("ENAMETOOLONG", "a component of 256 bytes", os.stat, long)
err("ENAMETOOLONG", "and of a row", os.mkdir, "t/" + long)
err("ENAMETOOLONG", "and of a cell", os.open, "t/r/f/" + long, new)

# ---- EEXIST, ENOTEMPTY, EISDIR, ENOTDIR ----
for path in ("t", "t/r", "t/r/f", "t/.families", "t/.families/f", "t/.groups/default", ".tabletfs", "t/.latest"):
    err("EEXIST", "mkdir " + path, os.mkdir, path)
for path in ("t/r/f/q", "t/r/f/q@1"):
    err("EEXIST", "O_EXCL of " + path, os.open, path, new | os.O_EXCL)
    err("EEXIST", "rename NOREPLACE onto " + path, renameat2, "t/r/f/p", path, RENAME_NOREPLACE)
err("EEXIST", "rename NOREPLACE of a TABLE onto another", renameat2, "t", "u", RENAME_NOREPLACE)
err("ENOTEMPTY", "rename of a TABLE onto one with cells", os.rename, "t", "u")
for path in ("t", "t/r", "t/r/f"):
    err("ENOTEMPTY", "rmdir " + path, os.rmdir, path)
    err("EISDIR", "rm " + path, os.unlink, path)
    err("EISDIR", "write to " + path, os.open, path, os.O_WRONLY)
err("ENOTDIR", "rmdir of a cell", os.rmdir, "t/r/f/p")
err("ENOTDIR", "a name below a cell", os.stat, "t/r/f/p/x")

# ---- EXDEV ----
err("EXDEV", "rename to another row", os.rename, "t/r/f/p", "t/r2/f/x")
err("EXDEV", "rename to another table", os.rename, "t/r/f/p", "u/r/f/x")
err("EXDEV", "rename of a ROW", os.rename, "t/r", "t/r9")

# ---- EBUSY ----
refused("EBUSY", "rmdir of a family that holds cells", os.rmdir, "t/.families/f")
refused("EBUSY", "rmdir of the default group", os.rmdir, "t/.groups/default")
os.mkdir("t/.groups/g1")
spill("t/.families/f/group", b"g1\n")
refused("EBUSY", "rmdir of a group in use", os.rmdir, "t/.groups/g1")
# A setting does not say which families there are; to make one in .families does.
err("0", "a family that a table with settings does not have", os.mkdir, "t/r/known")
os.mkdir("t/.families/strict")
refused("EPERM", "a family that the schema does not have", os.mkdir, "t/r/unknown")

# ---- EFBIG ----
fd = os.open("t/r/f/big", new)
err("EFBIG", "a byte past 64 MiB", os.pwrite, fd, b"x", 64 << 20)
errno_of(os.close, fd)
err("ENOENT", "  nothing is stored", os.stat, "t/r/f/big")
err("EFBIG", "truncate past 64 MiB", os.truncate, "t/r/f/q", (64 << 20) + 1)
same(slurp("t/r/f/q"), b"two\n", "  nothing is changed")
err("EFBIG", "a version's byte past 64 MiB", os.truncate, "t/r/f/q@1", (64 << 20) + 1)
same(slurp("t/r/f/q@1"), b"one\n", "  nothing is changed")

# ---- EOVERFLOW ----
spill("t/r/f/last@9223372036854775807", b"end")
for flags in (os.O_WRONLY, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREAT):
    refused("EOVERFLOW", "write after the largest timestamp (flags %o)" % flags, os.open, "t/r/f/last", flags)
same(slurp("t/r/f/last"), b"end", "  it can be read")

# ---- ENODEV ----
import mmap
fd = os.open("t/r/f/p", os.O_RDWR)
err("ENODEV", "shared mmap of a plain name", mmap.mmap, fd, 1, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
os.close(fd)
fd = os.open("t/r/f/q@1", os.O_RDWR)
err("0", "shared mmap of a version", mmap.mmap, fd, 1, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
os.close(fd)

# ---- operations and file types that do not exist ----
import fcntl
for path in ("t/r/f/p", "t/r/f/q@1", "t/.schema"):
    if path == "t/.schema":
        spill("t/.families/f/gc", b"\n")
    fd = os.open(path, os.O_RDWR)
    for mode in (0, 1, 3, 0x10, 8, 0x20):
        def fallocate():
            if libc.fallocate(fd, mode, ctypes.c_long(0), ctypes.c_long(4)) != 0:
                raise OSError(ctypes.get_errno(), "")
        err("EOPNOTSUPP", "fallocate of %s, mode %d" % (path, mode), fallocate)
    err("ENOTTY", "ioctl of " + path, fcntl.ioctl, fd, 0x80086601, bytearray(8))
    err("EOPNOTSUPP", "FICLONE of " + path, fcntl.ioctl, fd, 0x40049409, fd)
    os.close(fd)
err("EOPNOTSUPP", "O_TMPFILE", os.open, "t/r/f", os.O_TMPFILE | os.O_RDWR)
spill("t/r/f/grown", b"x")
fd = os.open("t/r/f/grown", os.O_RDWR)
err("0", "posix_fallocate", os.posix_fallocate, fd, 0, 5)
os.close(fd)
same(slurp("t/r/f/grown"), b"x\0\0\0\0", "  writes zeros")
os.unlink("t/r/f/grown")

# ---- EOPNOTSUPP, ENODATA, and the attributes there are ----
for path in ("t/r/f/p", "t/r/f/q@1", "t/r/f", "t/r", "t"):
    err("EOPNOTSUPP", "getxattr security.selinux of " + path, os.getxattr, path, "security.selinux")
    err("EOPNOTSUPP", "setxattr security.x of " + path, os.setxattr, path, "security.x", b"x")
    err("EOPNOTSUPP", "getxattr of an ACL of " + path, os.getxattr, path, "system.posix_acl_access")
    err("ENODATA", "getxattr user.none of " + path, os.getxattr, path, "user.none")
    same(os.listxattr(path), [], "listxattr of %s is empty" % path)
same(os.getxattr("t/r/f/q@1", "user.tabletfs.row"), b"r", "user.tabletfs.row")
same(os.getxattr("t/r/f/q@1", "user.tabletfs.qualifier"), b"q", "user.tabletfs.qualifier")
same(os.getxattr("t/r/f/q@1", "user.tabletfs.timestamp"), b"1", "user.tabletfs.timestamp")
same(os.getxattr("t/r/f/q", "user.tabletfs.timestamp"), b"2", "  and of a plain name")
same(os.getxattr("t/r", "user.tabletfs.row"), b"r", "user.tabletfs.row of a ROW")

# ---- chmod, chown ----
st = os.stat("t/r/f/p")
for path in ("t/r/f/p", "t/r/f/q@1", "t/r", "t/r/f"):
    m = os.stat(path).st_mode & 0o7777
    err("0", "chmod of %s that changes nothing" % path, os.chmod, path, m)
    err("0", "chown of %s that changes nothing" % path, os.chown, path, st.st_uid, st.st_gid)
    refused("EPERM", "chmod of " + path, os.chmod, path, m ^ 0o040)
    refused("EPERM", "chown of " + path, os.chown, path, 12345, -1)
    same(os.stat(path).st_mode & 0o7777, m, "  the mode is as it was")
err("0", "utimensat of a directory", os.utime, "t/r", (1, 1))
same(os.stat("t/r").st_mtime, 0, "  is ignored")

# ---- ESTALE: the inode of a removed cell, opened again without its name ----
spill("t/r/f/gone@5", b"x")
fd = os.open("t/r/f/gone@5", os.O_RDONLY)
os.unlink("t/r/f/gone@5")
same(os.read(fd, 9), b"x", "an unlinked version can still be read")
err("ESTALE", "open of a removed cell's inode", os.open, "/proc/self/fd/%d" % fd, os.O_RDONLY)
os.close(fd)

# ---- control files ----
for path, bad in (("t/.families/f/gc", b"maxversions=\n"), ("t/.families/f/gc", b"nonsense\n"), ("t/.families/f/group", b"nogroup\n"),
                  ("t/.families/f/type", b"float\n"), ("t/.groups/g1/compression", b"gzip\n"), ("t/.groups/g1/block_size", b"many\n"),
                  ("t/.groups/g1/bloom_bits", b"-1\n"), ("t/.groups/g1/in_memory", b"maybe\n"), ("t/.ctl", b"explode\n"),
                  (".tabletfs/ctl", b"explode\n")):
    before = slurp(path)
    refused("EINVAL", "%s < %r" % (path, bad), spill, path, bad, os.O_WRONLY | os.O_TRUNC)
    same(slurp(path), before, "  nothing is changed")
refused("EINVAL", "a .schema that is no schema", spill, "t/.schema", b"families = (")
for path in (".tabletfs/version", ".tabletfs/status", ".tabletfs/log", ".tabletfs/servers", "t/.families/f/usage", "t/.tablets"):
    err("EACCES", "writing " + path, spill, path, b"x\n", os.O_WRONLY)

# ---- counters ----
os.mkdir("t/.families/n")
spill("t/.families/n/type", b"counter\n")
os.mkdir("t/r/n")
spill("t/r/n/hits", b"41\n")
same(slurp("t/r/n/hits"), b"41\n", "a counter is decimal text")
for bad in (b"x\n", b"1 2\n", b"1.5\n", b"--1\n", b"+3\n", b"+=\n", b"+=x\n", b"+=1\n2\n", b"=1\n"):
    refused("EINVAL", "a counter %r" % bad, spill, "t/r/n/hits", bad)
err("EINVAL", "a counter past 64 bits", spill, "t/r/n/hits", b"9223372036854775808\n")
same(slurp("t/r/n/hits"), b"41\n", "  nothing is changed")
for edge in (b"9223372036854775807\n", b"-9223372036854775808\n", b"0\n"):
    spill("t/r/n/hits", edge)
    same(slurp("t/r/n/hits"), edge, "a counter of %s" % edge.decode().strip())
EOF2

cd / || exit 1
remount -o ro
py <<'EOF2'
from tap import *
os.chdir(M)
same(slurp("t/r/f/q"), b"two\n", "-o ro: cells can be read")
same(slurp("t/r/f/q@1"), b"one\n", "  and versions")
same(slurp("t/.families/n/type"), b"counter\n", "  and settings")
ok(slurp(".tabletfs/version").startswith(b"tabletfs "), "  and /.tabletfs/version")
ok(len(slurp("t/.schema")) == os.stat("t/.schema").st_size > 0, "  .schema has its size")
before = sorted(os.listdir("t/r/f"))
for what, fn in (("create", lambda: spill("t/r/f/new", b"x")), ("write", lambda: spill("t/r/f/q", b"x")), ("write of a version", lambda: spill("t/r/f/q@1", b"x")),
                 ("append", lambda: os.open("t/r/f/q", os.O_WRONLY | os.O_APPEND)), ("rm", lambda: os.unlink("t/r/f/q")), ("mkdir", lambda: os.mkdir("t/new")),
                 ("mkdir TABLE", lambda: os.mkdir("new")), ("rmdir", lambda: os.rmdir("t/r/f")), ("rename", lambda: os.rename("t/r/f/q", "t/r/f/z")),
                 ("truncate", lambda: os.truncate("t/r/f/q", 0)), ("touch", lambda: os.utime("t/r/f/q")), ("chmod", lambda: os.chmod("t/r/f/q", 0o600)),
                 ("a setting", lambda: spill("t/.families/f/gc", b"\n")), (".schema", lambda: spill("t/.schema", b"")), ("scratch", lambda: spill("t/r/f/.s", b"")),
                 ("mkdir .families/F", lambda: os.mkdir("t/.families/x")), ("a verb", lambda: spill("t/.ctl", b"flush\n", os.O_WRONLY))):
    err("EROFS", what, fn)
same(sorted(os.listdir("t/r/f")), before, "nothing has changed")
err("ENOENT", "an absent cell", os.stat, "t/r/f/none")
EOF2
done_testing
