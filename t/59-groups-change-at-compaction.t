#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each setting of a locality group takes effect at the next compaction.  A reader
# of one group reads no file of another group (by the metrics).  Families change
# groups and groups are removed while readers and writers run.  An in-memory
# group is read from disk once.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the reference model has no files"
ok "mount" mount_store
export M D
py <<'EOF2'
from tap import *
import glob
import random
import signal
import threading

T = M + "/t"
ROWS = 120

def spill(path, text):
    with open(path, "wb", 0) as f:
        f.write(text.encode() if isinstance(text, str) else text)

def slurp(path):
    with open(path, "rb") as f:
        return f.read()

def compact():
    spill(T + "/.ctl", "compact\n")

def metric(name):
    for line in slurp(M + "/.tabletfs/metrics").decode().splitlines():
        for full in ("tabletfs_" + name + " ", "tabletfs_" + name + "_total "):
            if line.startswith(full):
                return int(float(line.split()[-1]))
    raise KeyError(name)

def sizes():
    """Bytes of the table's SSTables, largest first."""
    return sorted((os.path.getsize(p) for p in glob.glob(D + "/sst/*/*.sst") if not p.startswith(D + "/sst/1/")), reverse=True)

words = [("%x" % (i * 2654435761 % 2**32)) for i in range(3000)]
def text(seed, n):
    r = random.Random(seed)
    out = " ".join(r.choice(words) for _ in range(n // 7 + 1))
    return out[:n].encode()

os.makedirs(T + "/.families/small")
os.mkdir(T + "/.families/large")
os.mkdir(T + "/.groups/big")
spill(T + "/.families/large/group", "big\n")
for i in range(ROWS):
    os.makedirs("%s/r%03d/small" % (T, i))
    os.mkdir("%s/r%03d/large" % (T, i))
    spill("%s/r%03d/small/q" % (T, i), text(i, 100))
    spill("%s/r%03d/large/q" % (T, i), text(1000 + i, 20000))
compact()
default = sizes()
same(len(default), 2, "a compaction writes a file for each group")

# ---- settings ----
def size_with(**settings):
    for k in ("compression", "level", "block_size", "bloom_bits"):
        if k in settings:
            spill(T + "/.groups/big/" + k, str(settings[k]) + "\n")
    before = sizes()
    same(sizes(), before, "  %s: files stay as they are until a compaction" % settings)
    compact()
    return sizes()[0]

none = size_with(compression="none", block_size="64K")
ok(none > ROWS * 20000, "compression none: %d bytes" % none)
snappy, lz4 = size_with(compression="snappy"), size_with(compression="lz4")
ok(snappy < none * 0.95 and lz4 < none * 0.95 and snappy != lz4, "snappy and lz4 make less: %d, %d" % (snappy, lz4))
weak, strong = size_with(compression="zstd", level=1), size_with(level=19)
ok(strong < weak < lz4, "zstd less, a higher level less again: %d, %d" % (weak, strong))
coarse = size_with(level=3, block_size="4M")
finest = size_with(block_size="1K")
fine = size_with(block_size="4K")
ok(coarse < fine <= finest, "larger blocks less: %d, %d, %d" % (coarse, fine, finest))
bare = size_with(bloom_bits=0)
ok(bare < fine, "a file without filters is smaller: %d, %d" % (fine, bare))
size_with(block_size="64K", bloom_bits=10)
dictionary = size_with(compression="zstd-dict", level=9)
ok(dictionary < lz4, "zstd-dict: %d" % dictionary)
same([slurp("%s/r%03d/large/q" % (T, i)) == text(1000 + i, 20000) for i in range(ROWS)], [True] * ROWS, "and all of it is read as it was written")

before = slurp(T + "/.schema")
for path, value, why in (("level", "0", "level"), ("level", "20", "level"), ("level", "x", "level"), ("block_size", "1023", "block_size"),
                         ("block_size", "5M", "block_size"), ("bloom_bits", "21", "bloom_bits"), ("compression", "zstd_dict", "compression"),
                         ("in_memory", "1", "in_memory")):
    fd = os.open(T + "/.groups/big/" + path, os.O_WRONLY)
    same(errno_of(os.write, fd, (value + "\n").encode()), "EINVAL", "%s < %s" % (path, value))
    os.close(fd)
    ok(why in slurp(M + "/.tabletfs/log").decode().splitlines()[-1], "  the log says why")
spill(T + "/.groups/default/compression", "lz4\n")
fd = os.open(T + "/.groups/default/level", os.O_WRONLY)
same(errno_of(os.write, fd, b"9\n"), "EINVAL", "a level for lz4")
os.close(fd)
ok("only zstd" in slurp(M + "/.tabletfs/log").decode().splitlines()[-1], "  the log says why")
spill(T + "/.groups/default/compression", "zstd-dict\n")
same(slurp(T + "/.schema"), before, "nothing has changed")

# ---- moving a family while it is read and written ----
# The writer is a process of its own: in his process a truncation is seen before its commit.
stop, wrong, counts = threading.Event(), [], [0, 0]
told, tell = os.pipe()
def writer():
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    os.write(tell, b"ready\n")
    n = 0
    while not ended:
        i = n % ROWS
        spill("%s/r%03d/large/w" % (T, i), "%d %d" % (i, n))
        n += 1
    os.write(tell, b"%d" % n)
def reader():
    r = random.Random(7)
    while not stop.is_set():
        i = r.randrange(ROWS)
        if slurp("%s/r%03d/large/q" % (T, i)) != text(1000 + i, 20000):
            wrong.append(i)
        try:
            if not slurp("%s/r%03d/large/w" % (T, i)).startswith(b"%d " % i):
                wrong.append(-i)
        except FileNotFoundError:
            pass
        counts[1] += 1
for i in range(ROWS): # or the first to read one might find it made and not written yet
    spill("%s/r%03d/large/w" % (T, i), "%d" % i + " first")
child = os.fork()
if child == 0:
    writer()
    os._exit(0)
os.read(told, 6) # it writes
threads = [threading.Thread(target=reader) for _ in range(2)]
for t in threads:
    t.start()
for turn in range(6):
    spill(T + "/.families/large/group", ("default", "big")[turn % 2] + "\n")
    spill(T + "/.ctl", "flush\n")
    if turn % 3 == 2:
        compact()
stop.set()
for t in threads:
    t.join()
os.kill(child, signal.SIGTERM)
counts[0] = int(os.read(told, 100))
os.waitpid(child, 0)
same(wrong, [], "a family moves between groups six times under a writer and two readers")
ok(counts[0] > 0 and counts[1] > 0, "  who went on meanwhile")
last = [slurp("%s/r%03d/large/w" % (T, i)) for i in range(min(ROWS, counts[0]))]

# ---- a group is removed while its files exist ----
same(errno_of(os.rmdir, T + "/.groups/big"), "EBUSY", "rmdir of a group in use")
spill(T + "/.families/large/group", "default\n")
os.rmdir(T + "/.groups/big")
same(sorted(os.listdir(T + "/.groups")), ["default"], "a group without families goes")
same([slurp("%s/r%03d/large/q" % (T, i)) == text(1000 + i, 20000) for i in range(ROWS)], [True] * ROWS, "  its files are still read")
compact()
same(len(sizes()), 1, "  until a compaction makes one file of all")
same([slurp("%s/r%03d/large/w" % (T, i)) for i in range(len(last))], last, "  with what was written last")
os.mkdir(T + "/.groups/big")
spill(T + "/.families/large/group", "big\n")
spill(T + "/.groups/default/in_memory", "true\n")
compact()
same(len(sizes()), 2, "apart again")
EOF2
remount
py <<'EOF2'
from tap import *
import glob
T = M + "/t"
ROWS = 120
def slurp(path):
    with open(path, "rb") as f:
        return f.read()
def metric(name):
    for line in slurp(M + "/.tabletfs/metrics").decode().splitlines():
        if line.split(" ")[0] in ("tabletfs_" + name, "tabletfs_" + name + "_total"):
            return int(float(line.split()[-1]))
    raise KeyError(name)
files = sorted(os.path.getsize(p) for p in glob.glob(D + "/sst/*/*.sst") if not p.startswith(D + "/sst/1/"))
def cost(fn):
    before = metric("bytes_read"), metric("blocks_read")
    fn()
    return metric("bytes_read") - before[0], metric("blocks_read") - before[1]

# A read of the large group's file would show in the metrics.
ok(files[1] > 8 * files[0], "one group's file is much larger: %s" % files)
def small():
    for i in range(ROWS):
        assert len(slurp("%s/r%03d/small/q" % (T, i))) == 100
def listed():
    for i in range(ROWS):
        assert [n.split("@")[0] for n in os.listdir("%s/r%03d/small" % (T, i))] == ["q"]
spent = cost(listed)
ok(spent[0] <= files[0] + 8192, "listings of one family in all rows read %d bytes: no more than its group's file has" % spent[0])
spent = cost(small)
ok(spent[0] <= files[0] + 8192, "point reads of it %d" % spent[0])
same(cost(small), (0, 0), "read again from memory, the group being in memory")
ok(metric("in_memory_cache_bytes") > ROWS * 100, "  which has a bound of its own: %d bytes" % metric("in_memory_cache_bytes"))
spent = cost(lambda: [slurp("%s/r%03d/large/q" % (T, i)) for i in range(ROWS)])
ok(spent[0] > files[1] // 2, "the other family is read from the other file: %d bytes" % spent[0])
EOF2
done_testing
