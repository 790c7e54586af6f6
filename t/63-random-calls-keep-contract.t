#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Three processes make random calls on random names for RANDOM_SECONDS (4): the
# daemon survives, the store is undamaged, and each call returns only errors
# that tabletfs(7) lists for it.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
for t in t u; do mkdir -p "$M/$t/r/f" "$M/$t/s/g" "$M/$t/.groups/g1"; done
py <<'EOF2'
from tap import *
import collections
import mmap
import multiprocessing
import random

PARTS = "l" * 254 + "%/"
TABLES, ROWS, FAMILIES = ("t", "u", "w"), ("r", "s", PARTS + "x"), ("f", "g", "h")
CELLS = ("q", "q@5", "p", "p@-3", "@", "@7", PARTS + "y", PARTS + "y@9", ".s", ".d", ".d/x", "..bad", "%41", "a b", "x@01")
CONTROL = (".schema", ".families", ".groups", ".ctl", ".tablets", ".splits", ".latest", ".families/f", ".families/f/gc", ".families/n",
           ".groups/g1", ".groups/g1/level", ".families/f/usage", ".import", ".import.tar", ".export.tar", ".s", ".d", ".d/y")
ROOT = ("", ".tabletfs", ".tabletfs/log", ".tabletfs/ctl", ".tabletfs/config", ".x", "bad name")
STORE = "ENOENT ENAMETOOLONG ENOTDIR ESTALE "
# Python 3.11.2 maps a copy of the descriptor.  If that fails it reports the errno of closing the copy.
CLOSE = " EACCES EINVAL EBUSY EFBIG EOVERFLOW"
LISTED = {
    "open": STORE + "EACCES EEXIST EINVAL EPERM EISDIR EOVERFLOW",
    "write": STORE + "EBADF EFBIG EINVAL EACCES EBUSY", "read": STORE + "EBADF EFBIG EISDIR ESPIPE",
    "truncate": STORE + "EFBIG EINVAL EISDIR EACCES EOVERFLOW", "fsync": STORE + "EACCES EINVAL EBUSY EFBIG EOVERFLOW",
    "close": STORE + CLOSE, "mmap": STORE + "ENODEV EACCES EINVAL" + CLOSE, "utime": STORE + "EINVAL EOVERFLOW",
    "fstat": STORE, "stat": STORE, "mkdir": STORE + "EEXIST EINVAL EPERM", "rmdir": STORE + "ENOTEMPTY EBUSY EPERM",
    "unlink": STORE + "EISDIR EPERM", "rename": STORE + "EXDEV EEXIST ENOTEMPTY EISDIR EINVAL EPERM EFBIG EBUSY",
    "chmod": STORE + "EPERM", "chown": STORE + "EPERM", "listdir": STORE,
    "getxattr": STORE + "EOPNOTSUPP ENODATA", "setxattr": STORE + "EOPNOTSUPP EPERM", "link": STORE + "EPERM EEXIST EXDEV",
}

class Caller:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.files = []
        self.seen = collections.Counter()

    def path(self):
        pick, at = self.random.choice, self.random.random()
        top = M + "/" + pick(TABLES)
        row = top + pick(("/", "/", "/.latest/")) + pick(ROWS)
        if at < 0.03:
            return M + "/" + pick(ROOT)
        if at < 0.08:
            return top
        if at < 0.16:
            return top + "/" + pick(CONTROL)
        if at < 0.24:
            return row
        if at < 0.27:
            return row + "/" + pick((".mutate", ".row.json", ".row.flat.json"))
        if at < 0.32:
            return row + "/" + pick(FAMILIES)
        return row + "/" + pick(FAMILIES) + "/" + pick(CELLS)

    def call(self, name, fn, *args, **kw):
        try:
            return fn(*args, **kw)
        except OSError as e:
            self.seen[name + " " + name_of(e.errno)] += 1
            return None

    def open(self):
        pick = self.random.choice
        flags = pick((os.O_RDONLY, os.O_WRONLY, os.O_RDWR)) | pick((0, os.O_CREAT, os.O_CREAT, os.O_CREAT | os.O_EXCL)) | pick((0, os.O_TRUNC, os.O_APPEND))
        path = self.path()
        fd = self.call("open", os.open, path, flags, 0o644)
        if fd is not None:
            self.files.append((fd, any(c in path for c in (".schema", ".ctl", "/ctl", ".families", ".groups", ".mutate", ".row.json", ".row.flat.json"))))
        if len(self.files) > 40:
            self.call("close", os.close, self.files.pop(0)[0])

    def use(self):
        pick = self.random.choice
        if not self.files:
            return
        fd, control = pick(self.files)
        what = self.random.randrange(8)
        if what < 3 and control:
            self.call("write", os.pwrite, fd, pick((b"flush\n", b"maxversions=2\n", b"3\n", b"\n", b"x", b"delete row\nset f:q\t1\ncommit\n", b'{"cells":[]}')), 0)
        elif what < 3:
            data = bytes([self.random.randrange(256)]) * pick((1, 10, 5000, 200000))
            self.call("write", os.pwrite, fd, data, pick((0, 3, 4096, 100000, (64 << 20) - 1)))
        elif what == 3:
            self.call("read", os.pread, fd, pick((1, 4096, 300000)), pick((0, 5, 100000)))
        elif what == 4:
            self.call("truncate", os.ftruncate, fd, pick((0, 5, 100000, 65 << 20)))
        elif what == 5:
            self.call("fsync", os.fsync, fd)
        elif what == 6:
            self.call("fstat", os.fstat, fd)
            self.call("utime", os.utime, fd, ns=(0, pick((0, 1000, 5 * 10 ** 9, 10 ** 18))))
        else:
            try:
                m = self.call("mmap", mmap.mmap, fd, 4096, pick((mmap.MAP_PRIVATE, mmap.MAP_SHARED)), mmap.PROT_READ)
            except ValueError:
                m = None # longer than the file
            if m:
                m.close()

    def name(self):
        pick, a, b = self.random.choice, self.path(), self.path()
        calls = (
            ("mkdir", os.mkdir, a), ("mkdir", os.mkdir, a), ("rmdir", os.rmdir, a), ("unlink", os.unlink, a), ("unlink", os.unlink, a),
            ("rename", renameat2, a, b, pick((0, 0, 0, 1, 2))), ("rename", os.rename, a, b), ("rename", os.rename, a, b), ("link", os.link, a, b),
            ("chmod", os.chmod, a, pick((0o755, 0o644, 0o600))), ("chown", os.chown, a, pick((-1, 0, 7)), -1),
            ("utime", set_us, a, pick((0, 1, 7, 10 ** 15, -10 ** 12))), ("truncate", os.truncate, a, pick((0, 3, 100000))),
            ("listdir", os.listdir, a), ("stat", os.stat, a),
            ("getxattr", os.getxattr, a, pick(("user.tabletfs.row", "user.tabletfs.timestamp", "user.x", "system.posix_acl_access"))),
            ("setxattr", os.setxattr, a, pick(("user.x", "user.tabletfs.row", "security.x")), b"1"),
        )
        self.call(*pick(calls))

def work(seed, end, out):
    c = Caller(seed)
    n = 0
    while time.monotonic() < end:
        c.random.choice((c.open, c.use, c.use, c.name, c.name, c.name))()
        n += 1
    for fd, _ in c.files:
        c.call("close", os.close, fd)
    out.put((n, c.seen))

out = multiprocessing.Queue()
end = time.monotonic() + float(os.environ.get("RANDOM_SECONDS", 4))
workers = [multiprocessing.Process(target=work, args=(seed, end, out)) for seed in (1, 2, 3)]
for w in workers:
    w.start()
calls, seen = 0, collections.Counter()
for w in workers:
    n, some = out.get()
    calls += n
    seen += some
for w in workers:
    w.join()
note(calls, "calls")
same({k: v for k, v in seen.items() if k.split()[1] not in LISTED[k.split()[0]].split()}, {}, "every errno is in tabletfs(7)")
ok(os.path.isdir(M), "the daemon lives")
EOF2
done_testing
