# SPDX-License-Identifier: Apache-2.0
"""Functions for the Python snippets of mount tests.  They print TAP lines without numbers, which t/lib/mount.sh adds."""
import ctypes
import errno
import os
import struct
import sys
import time

M = os.environ.get("M", "")
D = os.environ.get("D", "")
W = os.environ.get("W", "")
sys.stdout.reconfigure(errors="backslashreplace")


def in_share(point):
    """Whether this run tries the point with this number (t/lib/share.h)."""
    share = int(os.environ.get("TEST_SHARE") or 1)
    return point % share == int(os.environ.get("TEST_SEED") or 0) % share


def ok(good, what):
    print("ok - " + what if good else "not ok - " + what)
    return good


def note(*text):
    for line in " ".join(str(t) for t in text).splitlines():
        print("# " + line)


def same(got, want, what):
    if not ok(got == want, what):
        note("got:   ", repr(got)[:600])
        note("wanted:", repr(want)[:600])


def wait_until(fn, want, seconds=60):
    """
    Calls fn until it returns want, for at most `seconds`.  The kernel sends RELEASE after close has returned, and the
    daemon's notifier runs in its own thread; neither reports to the caller when it is done.
    """
    deadline = time.monotonic() + seconds
    while not (reached := fn() == want) and time.monotonic() < deadline:
        time.sleep(0.002)  # a poll that does not take the processor from the daemon
    return reached


def cpu_seconds(pid):
    """The processor time of a process, which other processes hardly change."""
    with open("/proc/%s/stat" % pid) as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def soon(fn, want, what):
    """fn returns want once within a minute; a later call may return something else."""
    last = []

    def call():
        last[:] = [fn()]
        return last[0]
    wait_until(call, want)
    same(last[0], want, what)


def name_of(number):
    """ENOTSUP and EOPNOTSUPP are one number here."""
    return "EOPNOTSUPP" if number == errno.EOPNOTSUPP else errno.errorcode.get(number, str(number))


def errno_of(fn, *args, **kw):
    """Returns the name of the errno that the call fails with, "0" if it succeeds."""
    try:
        r = fn(*args, **kw)
    except OSError as e:
        return name_of(e.errno)
    if isinstance(r, int) and not isinstance(r, bool) and getattr(fn, "gives_fd", fn is os.open):
        os.close(r)
    return "0"


def err(want, what, fn, *args, **kw):
    got = errno_of(fn, *args, **kw)
    if not ok(got == want, "%s: %s" % (want, what)):
        note("got:", got)


def slurp(path):
    with open(path, "rb") as f:
        return f.read()


def spill(path, data, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    """Writes data through one open.  Raises the error of open, write or close."""
    fd = os.open(path, flags, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view):]
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)


libc = ctypes.CDLL(None, use_errno=True)
RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4


def renameat2(old, new, flags):
    if libc.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags) != 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))


def getdents(fd, size):
    """The next entries of a directory, each a name and the offset after it; [] at the end."""
    b = ctypes.create_string_buffer(size)
    n = libc.getdents64(fd, b, size)
    if n < 0:
        raise OSError(ctypes.get_errno(), "getdents64")
    at, out = 0, []
    while at < n:
        _, offset, length = struct.unpack_from("<QqH", b.raw, at)
        out.append((b.raw[at + 19:at + length].split(b"\0")[0].decode(), offset))
        at += length
    return out


def us(path):
    """mtime in microseconds."""
    return os.stat(path).st_mtime_ns // 1000


def set_us(path, t, **kw):
    os.utime(path, ns=(t * 1000, t * 1000), **kw)


def walk_open(root, parts, create_dirs=False):
    """Opens the directory of the last of parts, component by component."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for p in parts[:-1]:
        try:
            if create_dirs:
                try:
                    os.mkdir(p, dir_fd=fd)
                except FileExistsError:
                    pass
            nfd = os.open(p, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        finally:
            os.close(fd)
        fd = nfd
    return fd
