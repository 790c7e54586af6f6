#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# If any single allocation of the daemon fails during a fixed workload, the caller
# gets ENOMEM, EIO or success.  The daemon does not crash, hang, return wrong
# bytes or report a success that did not happen, and the tree is correct
# afterwards, before and after a remount.
# ALLOCATIONS_SECONDS (8) limits the rounds, whose order has a fixed seed;
# ALLOCATIONS=all tries each allocation (minutes).
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model does not look at what malloc gives"
[ -z "${SANITIZED:-}" ] || skip_all "sanitizers bring their own malloc"
[ "${ALLOCATIONS:-}" = all ] && LIMIT=3600 PY_LIMIT=3600 && export PY_LIMIT
read -ra cc <<<"${CC:-cc}" # "ccache gcc" is two words
has "${cc[0]}" || cannot_run "no C compiler"
ok "the library that lets allocations fail" "${cc[@]}" -shared -fPIC -O2 -o "$W/fail_alloc.so" "$SRC/t/lib/fail_alloc.c"
head -c 4096 /dev/zero >"$W/alloc"
export FAIL_ALLOC=$W/alloc TABLETFS
LD_PRELOAD=$W/fail_alloc.so mount_store || fail "mount"
py <<'EOF2'
from tap import *
import mmap
import pickle
import random
import shutil
import signal
import struct
import subprocess

fd = os.open(os.environ["FAIL_ALLOC"], os.O_RDWR)
control = mmap.mmap(fd, 4096)
ARMED, COUNT, FAIL_AT, FAILED, WHERE, PID = range(0, 48, 8)
def word(at):
    return struct.unpack_from("<Q", control, at)[0]
def set_word(at, v):
    struct.pack_into("<Q", control, at, v)
def arm(n):
    for at, v in ((COUNT, 0), (FAIL_AT, n), (FAILED, 0), (ARMED, 1)):
        set_word(at, v)
def disarm():
    set_word(ARMED, 0)
    return word(FAILED)
def site():
    r = subprocess.run(["addr2line", "-Cfipe", os.environ["TABLETFS"], hex(word(WHERE) - 1)], capture_output=True, text=True)
    return " ".join(r.stdout.split()) or hex(word(WHERE))

class Dead(Exception):
    pass

ALLOWED = {"ENOMEM", "EIO"}
bad = []

class Work:
    """One round's work: what every file may hold is kept in `may`, a set of contents; None: absent."""
    def __init__(self, tag):
        self.row = "%s/t/row%s" % (M, tag)
        self.f = self.row + "/f"
        self.may = {}
        self.why = ""

    def call(self, what, fn, *args):
        """True: it succeeded."""
        try:
            self.got = fn(*args)
            return True
        except OSError as e:
            name = name_of(e.errno)
            if name in ("ENOTCONN", "ECONNABORTED"):
                raise Dead(what)
            if name not in ALLOWED:
                bad.append("%s: %s" % (what, name))
            return False

    def write(self, name, data, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC, into=None):
        path = "%s/%s" % (self.f, name)
        old = self.may.get(name, {None})
        new = {data} if into is None else {o + data for o in old if o is not None}
        if self.call("write " + name, spill, path, data, flags):
            self.may[name] = new
        else:
            # Nothing of it, or all of it, or (opened with O_TRUNC or O_CREAT, and no more) nothing at all.
            self.may[name] = old | new | ({b""} if flags & (os.O_TRUNC | os.O_CREAT) else set())

    def read(self, name):
        if self.call("read " + name, slurp, "%s/%s" % (self.f, name)):
            if self.got not in self.may[name]:
                bad.append("read %s: %r" % (name, self.got[:40]))

    def run(self):
        if not self.call("mkdir row", os.mkdir, self.row):
            if not os.path.isdir(self.row):
                return
        if not self.call("mkdir family", os.mkdir, self.f):
            if not os.path.isdir(self.f):
                return
        self.write("q", b"one\n")
        self.read_if("q")
        self.write("q", b"two\n", os.O_WRONLY | os.O_APPEND, into=True) if self.sure("q") else None
        self.read_if("q")
        self.write("v@5", b"five")
        self.read_if("v@5")
        self.write("v@5", b"five again", os.O_WRONLY | os.O_TRUNC) if self.sure("v@5") else None
        self.read_if("v@5")
        self.call("list", lambda: sorted(os.listdir(self.f)))
        self.call("scan", lambda: [e.stat().st_size for e in os.scandir(self.f)])
        if self.sure("q"):
            old = self.may["q"]
            if self.call("rename q p", os.rename, self.f + "/q", self.f + "/p"):
                self.may["q"], self.may["p"] = {None}, old
            else:
                self.may["q"], self.may["p"] = old | {None}, old | {None}
        self.read_if("p")
        # As rsync writes.
        scratch = self.f + "/.z.tmp"
        if self.call("scratch", spill, scratch, b"scratch", os.O_WRONLY | os.O_CREAT | os.O_EXCL):
            self.call("chmod", os.chmod, scratch, 0o600)
            self.call("utime", os.utime, scratch, (7, 7))
            if self.call("rename onto z", os.rename, scratch, self.f + "/z"):
                self.may["z"] = {b"scratch"}
            else:
                self.may["z"] = {None, b"scratch"}
        self.read_if("z")
        self.call("xattr", os.getxattr, self.f, "user.tabletfs.row")
        self.call("truncate", os.truncate, self.f + "/v@5", 4) if self.sure("v@5") else None
        if "v@5" in self.may:
            self.may["v@5"] = {b"five", b"five again", b"", None} if not self.sure("v@5") else self.may["v@5"] | {b"five"}
        self.read_if("v@5")
        if self.sure("p"):
            if self.call("rm p", os.unlink, self.f + "/p"):
                self.may["p"] = {None}
            else:
                self.may["p"] = self.may["p"] | {None}
        # The kernel's cached names, sizes and pages must follow.
        self.write("w@1", b"first")
        self.write("w@2", b"second, longer")
        self.call("scan", lambda: [e.stat().st_size for e in os.scandir(self.f)])
        self.read_if("w@1")
        self.read_if("w@2")
        if self.sure("w@1") and self.sure("w@2"):
            if self.call("rename w@1 w@2", os.rename, self.f + "/w@1", self.f + "/w@2"):
                self.may["w@1"], self.may["w@2"] = {None}, {b"first"}
            else:
                self.may["w@1"], self.may["w@2"] = {None, b"first"}, {b"first", b"second, longer"}
        self.read_if("w@2")
        self.write("y@1", b"gone soon")
        self.write("y@2", b"gone soon, too")
        self.call("list", lambda: os.listdir(self.f))
        self.read_if("y@1")
        self.read_if("y@2")
        if self.sure("y@1") and self.sure("y@2"):
            if self.call("rm y", os.unlink, self.f + "/y"):
                self.may["y@1"] = self.may["y@2"] = {None}
            else:
                self.may["y@1"], self.may["y@2"] = {None, b"gone soon"}, {None, b"gone soon, too"}
        self.call("list", lambda: os.listdir(self.f))
        self.write("large", LARGE)
        self.read_if("large")
        long = "%s/%s%%" % (self.f, "l" * 254)
        if self.call("mkdir of a part", os.mkdir, long):
            self.call("a long name", spill, long + "/rest@1", b"long")
            self.call("list of a part", os.listdir, long)
        self.call("statfs", os.statvfs, M)
        self.call("rows", os.listdir, M + "/t")
        self.call("tables", lambda: [e.stat().st_mode for e in os.scandir(M)])
        for name in ("t/.schema", "t/.tablets", "t/.families/f/usage", ".tabletfs/status", ".tabletfs/servers", ".tabletfs/metrics"):
            self.call("read " + name, slurp, "%s/%s" % (M, name))
        self.call("gc", spill, M + "/t/.families/f/gc", b"maxversions=%d\n" % 9, os.O_WRONLY | os.O_TRUNC)
        if self.call("table", os.mkdir, M + "/other"):
            if self.call("rename of a table", os.rename, M + "/other", M + "/another"):
                self.call("rmdir of a table", os.rmdir, M + "/another")

        # A change through the other view must be visible in this one.
        self.call("list", lambda: os.listdir(self.f))
        latest = "%s/t/.latest/%s/f/" % (M, os.path.basename(self.row))
        self.may["x"] = {b"in .latest"} if self.call("write in .latest", spill, latest + "x", b"in .latest") else {None, b"", b"in .latest"}
        if self.sure("v@5"):
            old = self.may["v@5"]
            self.may["v@5"] = {None} if self.call("rm in .latest", os.unlink, latest + "v") else old | {None}

    def sure(self, name):
        return name in self.may and None not in self.may[name] and len(self.may[name]) == 1

    def read_if(self, name):
        if self.sure(name):
            self.read(name)

    def verify(self, when):
        """Nothing fails now: everything must be one of what it may be, and settle there."""
        for name, may in self.may.items():
            try:
                got = slurp("%s/%s" % (self.f, name))
            except FileNotFoundError:
                got = None
            if got not in may:
                bad.append("%s, %s: %r, not %s" % (when, name, got if got is None else got[:40], [m if m is None else m[:40] for m in may]))
            if name == "v@5" and got is not None and os.stat("%s/%s" % (self.f, name)).st_size != len(got):
                bad.append("%s, %s: size %d, %d bytes read" % (when, name, os.stat("%s/%s" % (self.f, name)).st_size, len(got)))
            self.may[name] = {got}
            if name == "large" and got is not None:
                os.unlink(self.f + "/large")
                self.may[name] = {None}
        listed = os.listdir(self.f) if os.path.isdir(self.f) else []
        for name, (content,) in self.may.items():
            here = any(n == name or n.startswith(name + "@") for n in listed)
            if here != (content is not None):
                bad.append("%s: %s is %slisted, and %s" % (when, name, "" if here else "not ", "gone" if content is None else "there"))
        for name in os.listdir(M):
            if name in ("other", "another"):
                os.rmdir("%s/%s" % (M, name))
        # If a call failed after the change was made, the kernel is notified after the reply.
        if not wait_until(lambda: any(os.path.isdir(M + "/" + n) for n in ("other", "another")), False, 5):
            bad.append("%s: a table that is no more is still there for the kernel" % when)

LARGE = random.Random(2).randbytes(300_000)
class Maintenance(Work):
    """Minor and major compaction."""
    def run(self):
        self.call("mkdir", os.makedirs, self.f)
        if not os.path.isdir(self.f):
            return
        self.write("q", b"one\n")
        self.call("flush", spill, M + "/t/.ctl", b"flush\n", os.O_WRONLY)
        self.write("r", b"two\n")
        self.call("compact", spill, M + "/t/.ctl", b"compact\n", os.O_WRONLY)
        self.read_if("q")
        self.read_if("r")

class Tables(Work):
    """The first table and the last: rounds in an empty store."""
    def __init__(self, tag):
        super().__init__(tag)
        self.table = "%s/only%s" % (M, tag)
        self.row = self.table + "/r"
        self.f = self.row + "/f"
    def run(self):
        if self.call("mkdir", os.makedirs, self.f):
            self.write("q", b"one\n")
            self.read_if("q")
        self.call("tables", lambda: [e.stat().st_mode for e in os.scandir(M)])
    def verify(self, when):
        super().verify(when)
        if os.path.isdir(self.table):
            shutil.rmtree(self.table)
        self.may = {}

class Continued(Work):
    """A listing that goes on after a change of its directory."""
    def __init__(self, tag):
        super().__init__(tag)
        os.makedirs(self.f)
        for name in "abc":
            self.write(name, b"one\n")
    def list(self):
        fd = os.open(self.f, os.O_RDONLY | os.O_DIRECTORY)
        try:
            names = getdents(fd, 32768)
            self.write("d", b"two\n")
            while part := getdents(fd, 32768):
                names += part
        finally:
            os.close(fd)
        return {n.split("@")[0] for n, _ in names}
    def run(self):
        if self.call("a listing and a change", self.list) and not self.got >= {"a", "b", "c"}:
            bad.append("a listing and a change: %s" % self.got)

def hung(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, hung)
done = []
everything = os.environ.get("ALLOCATIONS") == "all"
SECONDS = float(os.environ.get("ALLOCATIONS_SECONDS", "8"))
def rounds(kind, tag, seconds):
    warm = kind(tag + "warm")
    warm.run()
    count = kind(tag + "count")
    if kind is Tables:
        warm.verify("warm")
    arm(0)
    count.run()
    disarm()
    if kind is Tables:
        count.verify("count")
    total = word(COUNT)
    same(bad, [], "%s without a failure, %d allocations" % (tag, total))
    order = list(range(1, total + 1))
    random.Random(11).shuffle(order)
    end, tripped, made = time.time() + seconds, 0, 0
    for n in order:
        if not everything and time.time() > end:
            break
        signal.alarm(30)
        before = len(bad)
        w = kind("%s%d" % (tag, n))
        try:
            arm(n)
            try:
                w.run()
            finally:
                tripped += disarm()
            w.verify("allocation %d" % n)
            done.append((w.f, w.may))
        except Dead as e:
            ok(False, "the daemon lives")
            note("it ended at %s, when allocation %d failed: %s" % (e, n, site()))
            sys.exit()
        except TimeoutError:
            ok(False, "the daemon answers")
            note("it hangs, after allocation %d failed: %s" % (n, site()))
            sys.exit()
        made += 1
        for i in range(before, len(bad)):
            bad[i] += " (allocation %d, failed in %s)" % (n, site())
    signal.alarm(0)
    note("%s: %d rounds of %d, %d failed" % (tag, made, total, tripped))
    # A busy machine makes few rounds, and in each one other threads decide if the allocation is reached.
    ok(tripped > 0 and (made < 50 or tripped > made * 0.8), "%s: rounds in which an allocation failed" % tag)
    same(bad[:8], [], "%s: ENOMEM or EIO or nothing, and what was stored is there" % tag)
    bad.clear()
rounds(Tables, "tables", SECONDS / 8)
os.makedirs(M + "/t/.families/f")
rounds(Maintenance, "upkeep", SECONDS / 4)
rounds(Continued, "listing", SECONDS / 4)
class Listed(Work):
    """Changes below a listed directory, of which the process that notifies the kernel learns."""
    def run(self):
        if not self.call("mkdir", os.makedirs, self.f):
            return
        for name in ("a", "b"):
            self.call("list", lambda: os.listdir(self.f))
            self.write(name, b"one\n")
            self.read_if(name)
def is_ours(pid):
    try:
        return b"FAIL_ALLOC=" + os.environ["FAIL_ALLOC"].encode() in slurp("/proc/%s/environ" % pid)
    except OSError:
        return False # of another user, or it has ended
senders = [p for p in subprocess.run(["pgrep", "-x", "tabletfs-notify"], capture_output=True, text=True).stdout.split() if is_ours(p)]
same(len(senders), 1, "a process notifies the kernel")
set_word(PID, int(senders[0]))
rounds(Listed, "sender", SECONDS)
set_word(PID, 0)
rounds(Work, "work", SECONDS * 5 / 8)
with open(W + "/done", "wb") as f:
    pickle.dump(done, f)
EOF2
remount
py <<'EOF2'
from tap import *
import pickle
with open(W + "/done", "rb") as f:
    done = pickle.load(f)
wrong = []
for where, may in done:
    for name, contents in may.items():
        try:
            got = slurp("%s/%s" % (where, name))
        except FileNotFoundError:
            got = None
        if got not in contents:
            wrong.append((where, name))
same(wrong[:5], [], "after a remount all is as it was, in %d rows" % len(done))
EOF2
done_testing
