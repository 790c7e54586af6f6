#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# With many processes at once, each reader sees complete mutations only, no call
# hangs, and the tree is consistent at the end.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store

# ---- one row: readers see whole mutations only ----
py <<'EOF2'
from tap import *
import multiprocessing as mp
import random
F = M + "/row/r/f"
os.makedirs(F)
spill(M + "/row/.families/f/gc", b"maxversions=20\n")
ROUNDS = 100
stop = mp.Event()
def block(n):
    return (b"%08d" % n) * 4096
def writer(k):
    for n in range(ROUNDS):
        spill("%s/w%d" % (F, k), block(n))
def replacer():
    """sed's way: a temporary beside it, renamed over it."""
    for n in range(ROUNDS):
        spill(F + "/.tmp", block(n))
        os.rename(F + "/.tmp", F + "/w0")
def mover():
    names = [F + "/here", F + "/there"]
    for n in range(ROUNDS):
        os.rename(names[n % 2], names[(n + 1) % 2])
def reader(seed, q):
    rnd = random.Random(seed)
    reads = torn = back = 0
    last = {}
    while not stop.is_set():
        k = rnd.randrange(2)
        try:
            data = slurp("%s/w%d" % (F, k))
        except FileNotFoundError:
            torn += 1
            continue
        if len(data) != 32768 or data != data[:8] * 4096:
            torn += 1
        reads += 1
    q.put(("reads", reads))
    q.put(("torn", torn))
def lister(q):
    seen = wrong = 0
    while not stop.is_set():
        n = sum(1 for x in os.listdir(F) if x.startswith(("here@", "there@")))
        seen += 1
        wrong += n != 1
    q.put(("listings", seen))
    q.put(("wrong listings", wrong))
spill(F + "/w0", block(0))
spill(F + "/w1", block(0))
spill(F + "/here@5", b"x")
q = mp.Queue()
writers = [mp.Process(target=writer, args=(1,)), mp.Process(target=replacer), mp.Process(target=mover)]
readers = [mp.Process(target=lister, args=(q,)), mp.Process(target=reader, args=(1, q)), mp.Process(target=reader, args=(2, q))]
jobs = writers + readers
for j in jobs:
    j.start()
for j in writers:
    j.join(300)
stop.set()
for j in readers:
    j.join(60)
alive = [j for j in jobs if j.is_alive()]
for j in alive:
    j.kill()
same((len(alive), [j.exitcode for j in jobs]), (0, [0] * len(jobs)), "writers and readers of one row end")
total = {}
while not q.empty():
    k, v = q.get(timeout=5)
    total[k] = total.get(k, 0) + v
note(total)
ok(total.get("reads", 0) > 0 and total.get("listings", 0) > 0, "they have read beside %d rounds of each writer" % ROUNDS)
same(total.get("torn"), 0, "no reader saw a torn or missing value")
same(total.get("wrong listings"), 0, "no listing saw a rename half done")
EOF2

# ---- more closers than threads, against slow reads ----
py <<'EOF2'
from tap import *
import threading
F = M + "/close/r/f"
os.makedirs(F)
big = os.urandom(1 << 20) * 16
for i in range(6):
    spill("%s/big%d@1" % (F, i), big)
spill(M + "/close/.ctl", b"flush\n", os.O_WRONLY)
errors = []
lock = threading.Lock()
def closer(k):
    n = 0
    try:
        while time.time() < stop:
            spill("%s/c%d@%d" % (F, k, n % 5), b"%d " % n * 200)
            os.listdir(F)
            os.stat("%s/c%d@%d" % (F, k, n % 5))
            n += 1
    except OSError as e:
        errors.append(repr(e))
    with lock:
        counts["close"] += n
def reader(k):
    n = 0
    try:
        while time.time() < stop:
            fd = os.open("%s/big%d@1" % (F, (k + n) % 6), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            m = 0
            while True:
                piece = os.read(fd, 1 << 20)
                if not piece:
                    break
                m += len(piece)
            os.close(fd)
            if m != len(big):
                errors.append("read %d" % m)
            if n % 3 == 0:
                # Its pages are written in place while others read them.
                fd = os.open("%s/big%d@1" % (F, (k + n) % 6), os.O_WRONLY)
                os.pwrite(fd, big[:4096], 0)
                os.close(fd)
            n += 1
    except OSError as e:
        errors.append(repr(e))
    with lock:
        counts["read"] += n
# Usual are 20 to 60 closes for each read of 16 MiB; 1.5 if a creation waits for the commit of such a cell beside it.  A
# busy machine may need another try.
for _ in range(3):
    stop, counts = time.time() + 8, {"close": 0, "read": 0}
    threads = [threading.Thread(target=closer, args=(k,)) for k in range(40)] + [threading.Thread(target=reader, args=(k,)) for k in range(6)]
    for t in threads:
        t.daemon = True
        t.start()
    for t in threads:
        t.join(max(1, stop + 40 - time.time()))
    alive = sum(t.is_alive() for t in threads)
    note(counts)
    beside = counts["read"] > 5 and counts["close"] > 4 * counts["read"]
    if alive or errors or beside:
        break
same(alive, 0, "40 closers and 6 readers of 16 MiB end")
same(errors[:3], [], "without an error")
ok(beside, "small files are created and closed beside the commits of large ones")
sys.stdout.flush()
os._exit(0)
EOF2

# ---- mixed operations of 8 processes ----
mkdir -p "$M/mix/.families/f" "$M/mix/.families/g"
cat >"$W/mixed.py" <<'PY'
from tap import *
import mmap
import random
import signal
import subprocess
T = M + "/mix"
me, seconds = int(sys.argv[1]), float(sys.argv[2])
rnd = random.Random(me)
allowed = {errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ESTALE, errno.ENOTDIR, errno.EISDIR}
def path(versions=0.3):
    p = "%s/r%d/%s/q%d" % (T, rnd.randrange(4), rnd.choice("fg"), rnd.randrange(12))
    return p + "@%d" % rnd.randrange(1, 6) if rnd.random() < versions else p
def op_write():
    p = path()
    os.makedirs(os.path.dirname(p), exist_ok=True)
    spill(p, b"%d " % me * rnd.choice((0, 1, 10, 3000, 100000)))
def op_append():
    spill(path(0), b"+", os.O_WRONLY | os.O_APPEND)
def op_patch():
    fd = os.open(path(), os.O_RDWR)
    try:
        os.pwrite(fd, b"patch", rnd.randrange(5000))
        os.pread(fd, 100, 0)
        if rnd.random() < 0.2:
            os.fsync(fd)
        if rnd.random() < 0.2:
            os.ftruncate(fd, rnd.randrange(5000))
    finally:
        os.close(fd)
def op_mmap():
    fd = os.open(path(1), os.O_RDWR)
    try:
        size = os.fstat(fd).st_size
        if size >= 8:
            # In a process of its own: another one may cut the file under the map, and that is SIGBUS, as anywhere.
            child = os.fork()
            if child == 0:
                try:
                    m = mmap.mmap(fd, 8)
                    m[0:4] = b"mmap"
                    m.close()
                except (ValueError, mmap.error):
                    pass
                except BaseException:
                    os._exit(1)
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            if status and not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGBUS):
                raise RuntimeError("a store through a map ends with %d" % status)
    finally:
        os.close(fd)
def op_read():
    slurp(path())
def op_list():
    for d in (T, "%s/r%d" % (T, rnd.randrange(4)), os.path.dirname(path()), T + "/.latest/r1/f"):
        for n in os.listdir(d):
            os.lstat(d + "/" + n)
def op_unlink():
    os.unlink(path())
def op_rename():
    a = path()
    os.rename(a, os.path.dirname(a) + "/" + os.path.basename(path()))
def op_replace():
    p = path(0)
    tmp = "%s/.t%d" % (os.path.dirname(p), me)
    spill(tmp, b"replaced")
    os.rename(tmp, p)
def op_touch():
    os.utime(path(), ns=(1, rnd.randrange(1, 2 ** 50)))
def op_rmtree():
    subprocess.run(["rm", "-rf", "%s/r%d" % (T, rnd.randrange(4))], stderr=subprocess.DEVNULL, timeout=60)
def op_setting():
    spill(T + "/.families/%s/gc" % rnd.choice("fg"), rnd.choice((b"maxversions=3\n", b"maxversions=20\n", b"\n")), os.O_WRONLY | os.O_TRUNC)
    os.chmod(T + "/.families/f", rnd.choice((0o644, 0o640)))
def op_ctl():
    spill(T + "/.ctl", rnd.choice((b"flush\n", b"flush\n", b"compact\n")), os.O_WRONLY)
ops = [op_write] * 12 + [op_append] * 5 + [op_patch] * 4 + [op_mmap] + [op_read] * 8 + [op_list] * 3 + [op_unlink] * 3 + [op_rename] * 2 + [op_replace] * 2 + [op_touch] * 2
rare = [op_rmtree, op_setting, op_ctl]
end, n, bad = time.time() + seconds, 0, 0
while time.time() < end:
    n += 1
    op = rnd.choice(rare) if rnd.random() < 0.01 else rnd.choice(ops)
    try:
        op()
    except OSError as e:
        if e.errno in allowed or (e.errno == errno.EINVAL and op is op_touch):
            continue
        bad += 1
        if bad < 4:
            note(op.__name__, repr(e))
print("done", n, "bad", bad)
PY
seconds=20
[ -z "${SANITIZED:-}" ] || seconds=10
pids=()
for p in 1 2 3 4 5 6 7 8; do
	timeout -k 5 90 python3 "$W/mixed.py" $p $seconds >"$W/mixed.$p" 2>"$W/mixed.$p.err" &
	pids+=($!)
done
wait "${pids[@]}"
is "$(cat "$W"/mixed.? | grep -c '^done')" 8 "8 processes of mixed operations end"
is "$(cat "$W"/mixed.? | sed -n 's/^done [0-9]* bad //p' | sort -u)" 0 "they met only what may happen"
cat "$W"/mixed.? "$W"/mixed.?.err | grep -v ' bad 0$' | diag
echo "# $(cat "$W"/mixed.? | awk '/^done/ { n += $2 } END { print n }') operations"
py <<'EOF2'
from tap import *
# In both views, each listed name exists, and each existing name is listed.
T = M + "/mix"
wrong, columns, cells = [], {}, 0
for root, dirs, files in os.walk(T):
    for n in files:
        if n.startswith("."):
            continue
        cells += 1
        p = root + "/" + n
        try:
            st = os.stat(p)
            data = slurp(p)
        except OSError as e:
            wrong.append((p, repr(e)))
            continue
        q, _, ts = n.rpartition("@")
        if len(data) != st.st_size or st.st_mtime_ns // 1000 != int(ts):
            wrong.append((p, st.st_size, len(data), st.st_mtime_ns))
        key = os.path.relpath(root, T) + "/" + q
        columns[key] = max(columns.get(key, (int(ts), data)), (int(ts), data))
note(cells, "cells")
same(wrong[:5], [], "each cell's size, bytes and time are its name's")
same([k for k, v in columns.items() if slurp(T + "/" + k) != v[1]][:5], [], "plain names are the newest versions")
latest = sorted(os.path.relpath(os.path.join(r, n), T + "/.latest") for r, d, f in os.walk(T + "/.latest") for n in f)
same(latest, sorted(columns), ".latest has the same columns")
EOF2
rm -r "$M/row" "$M/close"
before=$(tree "$M/mix" | grep -av ' d ' | grep -v '/\.t[0-9]')
sums=$(cd "$M" && find . -type f ! -name '.t?' -exec md5sum {} + | sort | md5sum)
remount
is "$(tree "$M/mix" | grep -av ' d ')" "$before" "the same after a remount"
is "$(cd "$M" && find . -type f -exec md5sum {} + | sort | md5sum)" "$sums" "with the same bytes"
done_testing
