# SPDX-License-Identifier: Apache-2.0
"""
two_views.py MOUNT MOUNT DATADIR SEED COUNT: random changes of the table `t` through one of two
mounts of a store, or through the library.  After each one both mounts must show the same:
contents and modes at once, all else within the bound of one second (five on a loaded machine).  Prints TAP lines without
numbers (tap.py), and the delays.
"""
import errno
import os
import random
import stat
import subprocess
import sys
import time

from tap import note, ok, wait_until

BOUND = 1.0  # the default of -o coherence
sides = sys.argv[1:3]
data = sys.argv[3]
seed, count = int(sys.argv[4]), int(sys.argv[5])
rnd = random.Random(seed)
ctl = os.environ["TABLETCTL"]
ROWS, FAMILIES, NAMES = 4, ["f", "g"], 3
LONG = "long-" + "x" * 300
PARTS = LONG[:254] + "%/" + LONG[254:]  # its name in the mount


def read(path):
    with open(path, "rb") as f:
        return f.read()


def read_if_there(path):
    """A version that another mount has removed can be opened until this mount has been told of it.  Its reads fail."""
    with open(path, "rb") as f:
        try:
            return f.read()
        except OSError as e:
            if e.errno != errno.ESTALE or "@" not in path:
                raise
            note("removed before it was read: %s" % path)
            return None


def opens(path):
    try:
        read(path)
        return True
    except FileNotFoundError:
        return False


def write(path, bytes, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    fd = os.open(path, flags, 0o644)
    try:
        os.write(fd, bytes)
    finally:
        os.close(fd)


def acl_of(path):
    return os.getxattr(path, "system.posix_acl_access") if "system.posix_acl_access" in os.listxattr(path) else b""


def view(m):
    """All that the mount shows of the tables: names, attributes, contents."""
    out = {"": sorted(n for n in os.listdir(m) if not n.startswith("."))}
    for top in ["t", "t/.latest", "t/.families", "t/.snap"]:
        for d, dirs, files in os.walk(os.path.join(m, top)):
            name = d[len(m) + 1:]
            dirs[:] = [x for x in dirs if not x.startswith(".")]
            st = os.lstat(d)
            # The rows and families of mkdir are in the mount that made them until they have cells.
            out[name] = (st.st_mode, st.st_uid, st.st_gid, sorted(files))
            for f in files:
                p = os.path.join(d, f)
                try:
                    st = os.lstat(p)
                    out[p[len(m) + 1:]] = (st.st_mode, st.st_uid, st.st_size if "@" in f else 0,
                                           st.st_mtime_ns if "@" in f or ".latest" in p else 0,
                                           st.st_ctime_ns if "@" in f else 0, read_if_there(p))
                except FileNotFoundError:
                    out[p[len(m) + 1:]] = None
    # A directory without cells may be in one mount only.
    full = {d for k in out if k.startswith("t/") and out[k] is not None and isinstance(out[k][3], int)
            for d in ancestors(k)}
    return {k: v for k, v in out.items() if not k.startswith("t/") or k in full or not isinstance(v and v[3], list) or
            k.startswith(("t/.families", "t/.snap"))}


def ancestors(k):
    while k:
        k = os.path.dirname(k)
        yield k


def difference(a, b):
    for k in sorted(set(a) | set(b)):
        if a.get(k) != b.get(k):
            return "%r: %.200r, %.200r" % (k, a.get(k), b.get(k))
    return None


class Change:
    """One change through side w.  `at_once`: what the other side must show when it has returned."""

    def __init__(self, w):
        self.here, self.there = sides[w], sides[1 - w]
        self.key = LONG if rnd.random() < .1 else "r%d" % rnd.randrange(ROWS)
        self.row = PARTS if self.key == LONG else self.key
        self.family = rnd.choice(FAMILIES)
        self.dir = "t/%s/%s" % (self.row, self.family)
        self.name = "%s/q%d" % (self.dir, rnd.randrange(NAMES))
        self.bytes = b"%d " % rnd.randrange(10**9) * rnd.choice([1, 10, 1000])
        self.at_once = None

    def path(self, name):
        return os.path.join(self.here, name)

    def versions(self):
        try:
            names = sorted(n for n in os.listdir(self.path(self.dir)) if "@" in n)
        except FileNotFoundError:
            names = []
        return names

    def put(self):
        os.makedirs(self.path(self.dir), exist_ok=True)
        write(self.path(self.name), self.bytes)
        self.at_once = lambda: read(os.path.join(self.there, self.name)) == self.bytes

    def replace(self):
        os.makedirs(self.path(self.dir), exist_ok=True)
        write(self.path(self.dir + "/.new"), self.bytes)
        os.rename(self.path(self.dir + "/.new"), self.path(self.name))
        self.at_once = lambda: read(os.path.join(self.there, self.name)) == self.bytes

    def truncate(self):
        before = read(self.path(self.name))
        n = rnd.randrange(len(before) + 10)
        os.truncate(self.path(self.name), n)
        want = before[:n].ljust(n, b"\0")
        self.at_once = lambda: read(os.path.join(self.there, self.name)) == want

    def append(self):
        before = read(self.path(self.name))
        write(self.path(self.name), self.bytes, os.O_WRONLY | os.O_APPEND)
        self.at_once = lambda: read(os.path.join(self.there, self.name)) == before + self.bytes

    def in_version(self):
        """A version is changed in place."""
        v = self.versions()
        if v:
            write(self.path(self.dir + "/" + rnd.choice(v)), self.bytes, os.O_WRONLY)

    def remove(self):
        os.unlink(self.path(self.name))
        self.at_once = lambda: not opens(os.path.join(self.there, self.name))

    def remove_version(self):
        v = self.versions()
        if v:
            os.unlink(self.path(self.dir + "/" + rnd.choice(v)))

    def remove_row(self):
        subprocess.run(["rm", "-rf", self.path("t/" + self.row)], check=True)

    def rename(self):
        to = "%s/q%d" % (self.dir, rnd.randrange(NAMES))
        bytes = read(self.path(self.name))
        os.rename(self.path(self.name), self.path(to))
        self.at_once = lambda: read(os.path.join(self.there, to)) == bytes

    def chmod(self):
        mode = rnd.choice([0o644, 0o640, 0o600, 0o664])
        os.chmod(self.path("t/.families/" + self.family), mode)
        self.at_once = lambda: self.mode_there() == mode

    def acl(self):
        user = rnd.randrange(1000, 1003)
        subprocess.run(["setfacl"] + rnd.choice([["-m", "u:%d:r" % user], ["-b"]]) + [self.path("t/.families/" + self.family)],
                       check=True)
        want = acl_of(self.path("t/.families/" + self.family))
        self.at_once = lambda: acl_of(os.path.join(self.there, "t/.families/" + self.family)) == want

    def mode_there(self):
        for d, _, files in os.walk(os.path.join(self.there, "t")):
            if os.path.basename(d) == self.family:
                for f in files:
                    return stat.S_IMODE(os.lstat(os.path.join(d, f)).st_mode)
        return stat.S_IMODE(os.lstat(os.path.join(self.there, "t/.families/" + self.family)).st_mode) & 0o666

    def schema(self):
        write(self.path("t/.families/%s/gc" % self.family), b"maxversions=%d\n" % rnd.randrange(2, 5))

    def table(self):
        p = self.path("u%d" % rnd.randrange(3))
        if os.path.isdir(p):
            os.rmdir(p)
        else:
            os.mkdir(p)

    def family_dir(self):
        p = self.path("t/.families/h")
        if os.path.isdir(p):
            os.rmdir(p)
        else:
            os.mkdir(p)

    def snapshot(self):
        p = self.path("t/.snap/s%d" % rnd.randrange(2))
        if os.path.isdir(p):
            os.rmdir(p)
        else:
            os.mkdir(p)

    def counter(self):
        os.makedirs(self.path("t/%s/n" % self.row), exist_ok=True)
        name = "t/%s/n/c" % self.row
        before = int(read(self.path(name)) or 0) if os.path.exists(self.path(name)) else 0
        by = rnd.randrange(1, 100)
        write(self.path(name), b"+=%d\n" % by, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.at_once = lambda: int(read(os.path.join(self.there, name))) == before + by

    def library(self):
        """Neither mount."""
        subprocess.run([ctl, "put", data + "/t", self.key, ":".join(self.name.split("/")[-2:]), self.bytes.decode()], check=True, stdout=subprocess.DEVNULL)
        self.at_once = lambda: all(read(os.path.join(m, self.name)) == self.bytes for m in sides)


CHANGES = ([Change.put] * 6 + [Change.replace] * 3 + [Change.truncate, Change.append, Change.in_version] * 2 + [
    Change.remove, Change.remove_version, Change.remove_row, Change.rename, Change.chmod, Change.acl, Change.schema,
    Change.table, Change.family_dir, Change.snapshot, Change.counter, Change.library])


def scan():
    """The cells as the library has them."""
    out = subprocess.run([ctl, "scan", data + "/t"], check=True, capture_output=True).stdout.splitlines()
    return len(out)


def main():
    delays, wrong = [], 0
    for m in FAMILIES + ["n"]:
        os.makedirs("%s/t/.families/%s" % (sides[0], m), exist_ok=True)
    write(sides[0] + "/t/.families/n/type", b"counter\n")
    view(sides[0])
    view(sides[1])
    for i in range(count):
        c = Change(rnd.randrange(2))
        change = rnd.choice(CHANGES)
        try:
            change(c)
        except FileNotFoundError:
            pass
        except OSError as e:
            if change not in (Change.table, Change.family_dir, Change.snapshot):
                raise
            note("change %d, %s: %s" % (i, change.__name__, e))
        done = time.monotonic()
        if c.at_once and not c.at_once():
            wrong += 1
            note("change %d, %s: is not seen at once" % (i, change.__name__))
        while True:
            at = time.monotonic()
            d = difference(view(c.here), view(c.there))
            if not d or at - done > 5 * BOUND:
                break
        if d:
            wrong += 1
            note("change %d, %s: %s" % (i, change.__name__, d))
        delays.append(at - done)
        # A change by the library may be in neither mount yet.
        if i % 10 == 0 and not wait_until(lambda: scan() == sum(1 for k in view(c.here) if "@" in k and not k.startswith("t/.")), True, 5 * BOUND):
            wrong += 1
            note("change %d, %s: the library has other cells" % (i, change.__name__))
        if (i + 1) % 1000 == 0:
            note("%d changes" % (i + 1))
        if wrong > 5:
            break
    delays.sort()
    note("%d of them later than the bound" % sum(1 for x in delays if x > BOUND))
    note("%d changes, seed %d: median %.1f ms, most %.1f ms" % (count, seed, delays[len(delays) // 2] * 1e3, delays[-1] * 1e3))
    ok(not wrong, "%d changes by each side are shown by the other side" % count)


main()
