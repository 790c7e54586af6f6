#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Values of up to 64 MiB, partial writes to a version, tables of 20,000 rows and
# rows of 5,000 cells work; a larger value is refused with EFBIG.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
F=$M/t/r/f
mkdir -p "$F"

# ---- 64 MiB, and a byte more ----
head -c 67108864 /dev/urandom >"$W/64M"
cp "$W/64M" "$W/64M+1"
echo -n x >>"$W/64M+1"
ok "cp of 64 MiB" t cp "$W/64M" "$F/big"
ok "  the same bytes" t cmp "$W/64M" "$F/big"
ok "  through the version's name" t cmp "$W/64M" "$F/big@$(ts "$F/big")"
is "$(stat -c '%s %b' "$F/big")" "67108864 131072" "  its size"
fails "cp of 64 MiB + 1" 'File too large' t cp "$W/64M+1" "$F/more"
fails "  stores nothing" 'No such file' stat "$F/more"
is "$(find "$F" -name 'more@*' | wc -l)" 0 "  indeed"
like "$(daemon_log)" 'more.*64 MiB|64 MiB' "  the log says why"
fails "rsync of it" 'File too large' t rsync "$W/64M+1" "$F/more"
is "$(ls -A "$F" | wc -l)" 1 "  leaves nothing, scratch neither"
fails ">> past 64 MiB" 'File too large' bash -c "cat /bin/ls >>'$F/big'"
fails "dd past 64 MiB" 'File too large' t dd if=/dev/zero of="$F/big" bs=1 count=1 seek=67108864 conv=notrunc
ok "  the old value stays" t cmp "$W/64M" "$F/big"
is "$(find "$F" -name 'big@*' | wc -l)" 1 "  in one version"
printf patched | t dd of="$F/big" bs=1 seek=33554432 conv=notrunc status=none
printf patched | t dd of="$W/64M" bs=1 seek=33554432 conv=notrunc status=none
ok "a patch in the middle" t cmp "$W/64M" "$F/big"
is "$(dd if="$F/big" bs=7 count=1 skip=33554432 iflag=skip_bytes status=none)" patched "  read at its offset"
remount
ok "after a remount" t cmp "$W/64M" "$F/big"
echo compact >"$M/t/.ctl"
ok "after a compaction" t cmp "$W/64M" "$F/big"
rm "$F/big"
rm "$W/64M" "$W/64M+1"

# ---- a version in place: partial writes, truncation, mmap ----
export F
py <<'EOF2'
from tap import *
import mmap
import random
os.chdir(os.environ["F"])
def only(q):
    return [n for n in os.listdir(".") if n.startswith(q + "@")]
rnd = random.Random(5)
want = bytearray(rnd.randbytes(1_000_000))
spill("v@5", want)
fd = os.open("v@5", os.O_RDWR)
for _ in range(200):
    at, n = rnd.randrange(1_000_000), rnd.randrange(1, 5000)
    data = rnd.randbytes(min(n, 1_000_000 - at))
    os.pwrite(fd, data, at)
    want[at:at + len(data)] = data
    if rnd.random() < 0.1:
        at = rnd.randrange(900_000)
        if os.pread(fd, 100_000, at) != want[at:at + 100_000]:
            ok(False, "a descriptor reads what it wrote")
os.close(fd)
ok(slurp("v@5") == want and only("v") == ["v@5"], "200 partial writes change the version in place")
ok(slurp("v") == want, "  the plain name reads it")
os.truncate("v@5", 300_000)
ok(slurp("v@5") == want[:300_000] and slurp("v") == want[:300_000], "truncate")
os.truncate("v@5", 300_010)
ok(slurp("v@5") == want[:300_000] + bytes(10), "  and extend")
fd = os.open("v@5", os.O_WRONLY | os.O_APPEND)
os.write(fd, b"end")
os.close(fd)
same(slurp("v@5")[-13:], bytes(10) + b"end", "O_APPEND to a version")
fd = os.open("v@5", os.O_RDWR)
m = mmap.mmap(fd, 0)
m[100:105] = b"MMAP!"
os.close(fd)
same(m[100:105], b"MMAP!", "a store through mmap, after the descriptor was closed")
m.flush()
m[200:205] = b"again"
m.close()
def stored():
    d = slurp("v")
    return d[100:105] + d[200:205]
soon(stored, b"MMAP!again", "  is committed when the mapping ends")
want = slurp("v@5")
fd = os.open("v@5", os.O_RDONLY)
ro = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
same(bytes(ro[:]) == want, True, "a read-only mapping")
spill("v@5", b"replaced")
same(slurp("v@5"), b"replaced", "written anew")
same(os.fstat(fd).st_size, 8, "  its size, for who has it open")
ro.close()
os.close(fd)
# Two descriptors of a version are one file.
a = os.open("w@1", os.O_RDWR | os.O_CREAT)
b = os.open("w@1", os.O_RDWR)
os.write(a, b"from a")
same(os.pread(b, 20, 0), b"from a", "two descriptors of a version share its content")
os.pwrite(b, b"B", 5)
same(os.pread(a, 20, 0), b"from B", "  both ways")
os.close(a)
os.close(b)
same(slurp("w"), b"from B", "  and in the store")
EOF2
before=$(cd "$F" && md5sum ./*)
remount
is "$(cd "$F" && md5sum ./*)" "$before" "the same after a remount"

# ---- many rows stream ----
py <<'EOF2'
from tap import *
import ctypes
T = M + "/rows"
os.mkdir(T)
N = 20000
t0 = time.time()
for i in range(N):
    os.mkdir("%s/row%05d" % (T, i))
    os.mkdir("%s/row%05d/f" % (T, i))
    spill("%s/row%05d/f/q@1" % (T, i), b"x")
note("%d rows made in %.1f s" % (N, time.time() - t0))
EOF2
is "$(t ls -U "$M/rows" | wc -l)" 20000 "ls -U of 20,000 rows"
is "$(t ls -U "$M/rows" | sort -u | wc -l)" 20000 "  each once"
is "$(t ls -U "$M/rows" | LC_ALL=C sort -c 2>&1)" "" "  in order"
# The daemon's memory while it lists, all nodes forgotten before.
remount
if [ -w /proc/sys/vm/drop_caches ]; then echo 2 >/proc/sys/vm/drop_caches; fi
rss() { awk '/^VmRSS/ { print $2 }' "/proc/$daemon/status"; }
t ls -U "$M/rows" | head -n 1 >/dev/null
low=$(rss)
t ls -U "$M/rows" >/dev/null
high=$(rss)
echo "# resident: $low KiB, after the listing $high KiB"
# 12,286 of these rows become nodes of at most 200 bytes (2.4 MiB in all).  The rest is memory of scans that malloc keeps.
[ -n "${SANITIZED:-}" ] || ok "the listing costs the daemon less than 8 MiB" test $((high - low)) -lt 8192
# Directory positions: a rewound and a resumed stream.
py <<'EOF2'
from tap import *
libc.opendir.restype = ctypes.c_void_p
libc.readdir.restype = ctypes.c_void_p
libc.telldir.restype = ctypes.c_long
for f in (libc.readdir, libc.telldir, libc.closedir, libc.rewinddir):
    f.argtypes = [ctypes.c_void_p]
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
d = libc.opendir(os.fsencode(M + "/rows"))
def name():
    e = libc.readdir(d)
    return ctypes.string_at(e + 19).decode() if e else None
first = [name() for _ in range(3000)]
at = libc.telldir(d)
rest = []
while True:
    n = name()
    if n is None:
        break
    rest.append(n)
libc.seekdir(d, at)
again = [name() for _ in range(100)]
same(again, rest[:100], "seekdir to a position goes on from there")
libc.rewinddir(d)
same([name() for _ in range(3000)], first, "rewinddir begins anew")
libc.closedir(d)
same(len(set(first + rest) - {".", ".."}), 20000, "a stream gives each row once")
EOF2
ok "find -name of a row" test "$(t find "$M/rows" -maxdepth 1 -name row17777)" = "$M/rows/row17777"

# ---- rm -r of 5,000 cells, and of rows ----
py <<'EOF2'
from tap import *
F = M + "/many/r/f"
os.makedirs(F)
for i in range(5000):
    spill("%s/q%d@%d" % (F, i, i), b"")
ok(len(os.listdir(F)) == 5000, "5,000 cells")
EOF2
ok "rm -r of 5,000 cells" t rm -r "$M/many"
fails "  they are gone" 'No such file' stat "$M/many"
ok "find -delete of 2,000 rows" t find "$M/rows" -mindepth 1 -path "$M/rows/row0[01]*" -delete
is "$(t ls -U "$M/rows" | wc -l)" 18000 "  and of no others"
ok "rm -r of the other rows" t rm -r "$M/rows"
is "$(ls -A "$M" | tr '\n' ' ')" "t " "  nothing is left"
done_testing
