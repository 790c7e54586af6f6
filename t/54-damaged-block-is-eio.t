#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A damaged block makes reads of its own cells fail with EIO and no other read.
# The log names the file and the offset, and tabletctl check finds the block.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2001,SC2010,SC2012,SC2016
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no files"
ok "mount" mount_store
py <<'EOF2'
from tap import *
import random
rnd = random.Random(3)
# Incompressible values, so that there are many blocks.
for r in range(40):
    F = "%s/t/row%02d/f" % (M, r)
    os.makedirs(F)
    for i in range(40):
        spill("%s/q%02d@5" % (F, i), rnd.randbytes(1000))
spill(M + "/t/.ctl", b"compact\n", os.O_WRONLY)
ok(True, "1,600 cells, compacted")
EOF2
(cd "$M/t" && find . -type f -exec md5sum {} + | sort -k 2) >"$W/sums"
unmount_store
sst=$(find "$D/sst" -name '*.sst' -size +1000k | head -n 1)
ok "an SSTable of more than a megabyte" test -n "$sst"
cp -p "$sst" "$W/good.sst"
size=$(stat -c %s "$sst")

# flip OFFSET [FILE]: one bit of the file.
flip() {
	python3 - "${2:-$sst}" "$1" <<'EOF2'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2]))
    b = f.read(1)[0] ^ 0x10
    f.seek(int(sys.argv[2]))
    f.write(bytes([b]))
EOF2
}
# Prints the names that cannot be read, and why; says WRONG where bytes are.
read_all() {
	t python3 - "$W/sums" <<'EOF2'
import hashlib, os, sys
for line in open(sys.argv[1]):
    want, name = line.split()
    try:
        with open(os.path.join(os.environ["M"], "t", name), "rb") as f:
            if hashlib.md5(f.read()).hexdigest() != want:
                print("WRONG", name)
    except OSError as e:
        print(name, e.strerror)
EOF2
}
for at in $((size / 2)) $((size / 5)); do
	flip "$at"
	t "$TABLETCTL" check "$D" >"$W/.c" 2>&1
	is $? 1 "a bit at $at: check ends with 1"
	like "$(cat "$W/.c")" "$(basename "$sst")" "  and names the file"
	like "$(cat "$W/.c")" '[0-9]{4,}' "  and where"
	mount_store || { fail "the store does not mount"; break; }
	bad=$(read_all)
	n=$(grep -c . <<<"$bad")
	echo "# $n of 1600 cells cannot be read"
	ok "  some cells cannot be read" test "$n" -gt 0
	ok "  few" test "$n" -lt 200
	is "$(sed 's/^[^ ]* //' <<<"$bad" | sort -u)" "Input/output error" "  with EIO, the others are right"
	like "$(daemon_log)" "$(basename "$sst").*[0-9]{3,}" "  file and offset are in the log"
	sed 's/^\.\/\(row[0-9]*\).*/\1/' <<<"$bad" | sort -u >"$W/rows"
	is "$(t ls -U "$M/t" 2>"$W/.ls" | grep -cvxFf "$W/rows")" $((40 - $(wc -l <"$W/rows"))) "  the other rows are listed"
	other=$(sed 's/.*\.\/\(row[0-9]*\)\/.*/\1/' "$W/sums" | sort -u | grep -vxFf "$W/rows" | tail -n 1)
	is "$(find "$M/t/$other" -type f 2>&1 | wc -l)" 40 "  other rows are listed"
	py <<'EOF2'
from tap import *
T = M + "/t"
def names(d):
    got, it = [], os.scandir(d)
    try:
        for e in it:
            got.append(e.name)
    except OSError as e:
        if e.errno != errno.EIO:
            raise
    return set(got)
readable = {}
for line in open(W + "/sums"):
    name = line.split()[1][2:]
    try:
        slurp(T + "/" + name)
        row, family, cell = name.split("/")
        readable.setdefault(row, set()).add(cell)
    except OSError:
        pass
same(set(readable) - names(T), set(), "  every row with a cell that can be read is listed")
missing = {}
for row, cells in readable.items():
    try:
        lost = cells - names("%s/%s/f" % (T, row))
    except OSError as e:
        lost = name_of(e.errno)
    if lost:
        missing[row] = lost
same(missing, {}, "  and in it every such cell")
EOF2
	echo new >"$M/t/$other/f/new"
	is "$(cat "$M/t/$other/f/new")" new "  other rows take writes"
	ok "  a flush goes on" bash -c "echo flush >'$M/t/.ctl'"
	like "$(grep ^tabletfs_request_failures "$M/.tabletfs/metrics")" ' [1-9]' "  they are counted"
	like "$(cat "$M/.tabletfs/status")" '^attention .*damaged places of files: [1-9]' "  the status calls attention"
	fails "  a compaction over it says EIO" 'Input/output error' bash -c "echo compact >'$M/t/.ctl'"
	rm "$M/t/$other/f/new"
	t fusermount3 -u "$M"
	wait_daemon
	is "$daemon_status" 0 "  the daemon ends as ever"
	cp -p "$W/good.sst" "$sst"
	check_store
done
mount_store
is "$(read_all)" "" "with the block mended all is there"
unmount_store

# A column with so many versions that they fill several blocks: those outside the damaged one are listed and read.
mount_store
py <<'EOF2'
from tap import *
import random
rnd = random.Random(4)
F = M + "/v/r/f"
os.makedirs(F)
for i in range(1, 401):
    spill("%s/q@%d" % (F, i * 10), rnd.randbytes(1000))
spill(M + "/v/.ctl", b"compact\n", os.O_WRONLY)
EOF2
vsst=$(find "$D/sst" -name '*.sst' -size +300k -not -samefile "$sst" | head -n 1)
unmount_store
cp -p "$vsst" "$W/goodv.sst"
flip $(($(stat -c %s "$vsst") / 2)) "$vsst"
mount_store
py <<'EOF2'
from tap import *
F = M + "/v/r/f"
listed, ended, d = [], "0", os.scandir(F)
try:
    for e in d:
        listed.append(e.name)
except OSError as e:
    ended = name_of(e.errno)
def readable(i):
    try:
        return len(slurp("%s/q@%d" % (F, i * 10))) == 1000
    except OSError as e:
        if e.errno != errno.EIO:
            raise
        return False
good = ["q@%d" % (i * 10) for i in range(400, 0, -1) if readable(i)]
note("%d of 400 versions can be read, %d are listed" % (len(good), len(listed)))
ok(200 < len(good) < 400, "a column of several blocks: most versions can be read")
ok(good[-1] == "q@10" and good[0] == "q@4000", "  on both sides of the damage")
same([n for n in good if n not in listed], [], "  all of them are listed")
same(ended, "EIO", "  and the end of the listing is EIO")
EOF2
t fusermount3 -u "$M"
wait_daemon
cp -p "$W/goodv.sst" "$vsst"
# A row whose first block is the damaged one: whatever of it can be read is listed.
mount_store
py <<'EOF2'
from tap import *
import random
rnd = random.Random(5)
F = M + "/v/r/f"
for i in range(200):
    spill("%s/z%03d@1" % (F, i), rnd.randbytes(1000))
spill(M + "/v/.ctl", b"compact\n", os.O_WRONLY)
EOF2
vsst=$(find "$D/sst" -name '*.sst' -size +300k -not -samefile "$sst" | head -n 1)
unmount_store
cp -p "$vsst" "$W/goodv.sst"
flip 100 "$vsst"
mount_store
py <<'EOF2'
from tap import *
F = M + "/v/r/f"
def names(path):
    got, d = set(), os.scandir(path)
    try:
        for e in d:
            got.add(e.name)
    except OSError as e:
        return got, name_of(e.errno)
    return got, "0"
listed, ended = names(F)
good = set()
for i in range(200):
    try:
        slurp("%s/z%03d@1" % (F, i))
        good.add("z%03d@1" % i)
    except OSError:
        pass
same(len(good), 200, "a row that begins in a damaged block: the cells of other blocks can be read")
def state(name):
    try:
        return len(slurp(F + "/" + name))
    except OSError as e:
        return name_of(e.errno)
versions = [state("q@%d" % (i * 10)) for i in range(400, 0, -1)]
note("%d versions of the column that begins in it cannot be read" % versions.count("EIO"))
ok(0 < versions.count("EIO") < 100 and set(versions) == {1000, "EIO"}, "  so can older versions of the column that begins in it")
same(versions[-1], 1000, "  to the last")
same(good - listed, set(), "  and are listed")
ok(len([n for n in listed if n[0] == "q"]) > 200, "  and so are the versions, in other blocks, of the column that begins in it")
same(ended, "EIO", "  and the end of the listing is EIO")
same(names(M + "/v")[0], {"r"}, "  the row is listed")
ok(os.path.isdir(F), "  and is there")
EOF2
t fusermount3 -u "$M"
wait_daemon
flip 100 "$vsst"

# The same where the rules count versions.
mount_store
echo maxversions=1000 >"$M/v/.families/f/gc"
unmount_store
flip 100 "$vsst"
mount_store
is "$(wc -c <"$M/v/r/f/q@10")" 1000 "  and where the rules count versions"
fails "  the newest is in the block" 'Input/output error' cat "$M/v/r/f/q@4000"
t fusermount3 -u "$M"
wait_daemon
cp -p "$W/goodv.sst" "$vsst"

# A row with all its cells in the damaged block is still a place to write to.
mount_store
mkdir -p "$M/w/r/f"
echo lost >"$M/w/r/f/q@5"
echo compact >"$M/w/.ctl"
unmount_store
wsst=$(find "$D/sst/$(ls "$D/sst" | sort -n | tail -n 1)" -name "*.sst")
cp -p "$wsst" "$W/goodw.sst"
flip 3 "$wsst"
mount_store
fails "a row with nothing that can be read: its cell is EIO" 'Input/output error' cat "$M/w/r/f/q@5"
fails "  so is listing it" 'Input/output error' ls "$M/w/r/f"
ok "  a new cell can be written" bash -c "echo new >'$M/w/r/f/new'"
is "$(cat "$M/w/r/f/new")" new "  and read"
is "$(find "$M/w" -name '*@*' -printf '%P\n' 2>/dev/null | sed 's/@.*//')" r/f/new "  and is listed"
mkdir "$M/w/r2" && mkdir "$M/w/r2/f"
echo other >"$M/w/r2/f/q@5"
is "$(cat "$M/w/r2/f/q@5")" other "  a new row, too"
ok "  they can be removed" rm -r "$M/w/r2" "$M/w/r/f/new"
fails "  and are gone" 'No such file' cat "$M/w/r/f/new"
t fusermount3 -u "$M"
wait_daemon
cp -p "$W/goodw.sst" "$wsst"

# A salted table: the rows of the block lie scattered among those that are listed.
mount_store
mkdir "$M/s"
echo 'salt = 16; families = ( { name = "f"; } );' >"$M/s/.schema"
py <<'EOF2'
from tap import *
import random
rnd = random.Random(6)
for r in range(500):
    os.makedirs("%s/s/row%03d/f" % (M, r))
    for q in "ab":
        spill("%s/s/row%03d/f/%s@5" % (M, r, q), random.Random("%d%s" % (r, q)).randbytes(1000))
spill(M + "/s/.ctl", b"compact\n", os.O_WRONLY)
EOF2
ssst=$(find "$D/sst/$(ls "$D/sst" | sort -n | tail -n 1)" -name '*.sst' -size +300k)
unmount_store
cp -p "$ssst" "$W/goods.sst"
for at in 100 $(($(stat -c %s "$ssst") / 2)); do
	flip "$at" "$ssst"
	mount_store
	AT=$at SST=${ssst##*/} py <<'EOF2'
from tap import *
import random
import re
T = M + "/s"
def names(d):
    got = []
    try:
        for e in os.scandir(d):
            got.append(e.name)
    except OSError as e:
        return got, name_of(e.errno)
    return got, "0"
def state(name, want):
    try:
        return slurp(name) == want
    except OSError as e:
        return name_of(e.errno)
rows, lost, wrong, missing = [], set(), [], []
for r in range(500):
    row = "row%03d" % r
    states = [state("%s/%s/f/%s@5" % (T, row, q), random.Random("%d%s" % (r, q)).randbytes(1000)) for q in "ab"]
    if not set(states) <= {True, "EIO"}:
        wrong.append((row, states))
    if "EIO" in states:
        lost.add(row)
    if True in states:
        rows.append(row)
        missing += [row + q for q, s in zip("ab", states) if s is True and q + "@5" not in names("%s/%s/f" % (T, row))[0]]
same(wrong, [], "a salted table, a bit at %s: cells are right or EIO" % os.environ["AT"])
ok(0 < len(lost) < 60, "  few cannot be read")
listed, ended = names(T)
same([r for r in rows if r not in listed], [], "  every row with a cell that can be read is listed")
same(listed, sorted(set(listed)), "  in order, each once")
same(ended, "0", "  and the listing ends well, because a damaged unit costs no name")
same(missing, [], "  in the rows every cell that can be read")
ok(re.search(os.environ["SST"] + ".*offset [0-9]", slurp(M + "/.tabletfs/log").decode()), "  file and block are in the log")
os.makedirs(T + "/new/f")
spill(T + "/new/f/q", b"fine")
same(slurp(T + "/new/f/q"), b"fine", "  a row can be written")
os.remove(T + "/new/f/q")
EOF2
	t fusermount3 -u "$M"
	wait_daemon
	is "$daemon_status" 0 "  the daemon ends as ever"
	cp -p "$W/goods.sst" "$ssst"
done

# A file that is truncated, has a damaged trailer or is missing: EIO, no crash and no wrong bytes.
for how in "truncate -s $((size / 2)) '$sst'" "flip $((size - 5))" "truncate -s 0 '$sst'" "rm '$sst'"; do
	eval "$how"
	t "$TABLETCTL" check "$D" >"$W/.c" 2>&1
	is $? 1 "${how%% *}: check ends with 1"
	if mount_store 2>/dev/null && mounted "$M"; then
		bad=$(read_all)
		is "$(grep -c WRONG <<<"$bad")" 0 "  no wrong byte is read"
		is "$(sed 's/^[^ ]* //' <<<"$bad" | grep -v '^$' | sort -u | head -n 3)" "Input/output error" "  but EIO"
		mkdir -p "$M/other/r/f"
		echo fine >"$M/other/r/f/q"
		is "$(cat "$M/other/r/f/q")" fine "  other tables work"
		rm -r "$M/other"
		t fusermount3 -u "$M"
			wait_daemon
		is "$daemon_status" 0 "  the daemon ends as ever"
	else
		like "$(cat "$W/daemon.err")" "$(basename "$sst")" "  or the mount is refused, with the file's name"
	fi
	cp -p "$W/good.sst" "$sst"
done
check_store
mount_store
is "$(read_all)" "" "with the file back all is there"
unmount_store

# One bit of the last synced part of the commit log: a mark behind it proves that this part had been synced.
rm -r "$D"
mount_store
py <<'EOF2'
from tap import *
F = M + "/l/r/f"
os.makedirs(F)
for i in range(200):
    spill("%s/q%03d@1" % (F, i), b"%d" % i)
os.sync()
EOF2
# log_end [cut]: waits for a mark that states the last record of the segment; prints the number of records and an offset in one
# that only the mark states.  cut: removes the mark.
log_end() {
	python3 - "$1" "$seg" <<'EOF2'
import struct, sys, time
name = sys.argv[-1]
until = time.time() + 30
while time.time() < until:
    b = open(name, "rb").read()
    at, kind, count, lsn, durable, place = 1024, 1, 0, 0, 0, {}
    while b[at + 4:at + 8] == b"TLR1" and kind != 3:
        before, stated = lsn, durable
        place[lsn] = at
        lsn, durable, size, _, kind = struct.unpack(">QQIII", b[at + 8:at + 36])
        last, at, count = at, at + (40 + size + 7) // 8 * 8, count + (kind == 1)
    if kind == 3 and durable == before:
        if sys.argv[1]:
            with open(name, "r+b") as f:
                f.seek(last)
                f.write(bytes(40))
        print(count, place[stated + 1] + 60) # in the second record that no other states
        sys.exit()
sys.exit("no mark")
EOF2
}
seg=$(ls "$D"/log/*/*.log | tail -n 1)
read -r records at < <(log_end "")
ok "200 synced cells are in the log, and a mark" test "$records" -ge 200
kill_daemon -9
cp -a "$D" "$W/copy"
flip "$at" "$seg"
t "$TABLETCTL" check "$D" >"$W/.c" 2>&1
is $? 1 "a bit in the log: check ends with 1"
like "$(cat "$W/.c")" "$(basename "$seg").*record [0-9]+ is missing.*synced" "  and names the segment"
ok "  the mount is refused" eval '! mount_store 2>"$W/.m"'
like "$(cat "$W/daemon.err")" "$(basename "$seg").*record [0-9]+ is missing.*synced; put.*or run tabletctl repair" "  with the segment's name and a way to go on"
t "$TABLETCTL" repair --write "$D" >"$W/.r" 2>&1
like "$(cat "$W/.r")" 'lost: .*log' "  repair names what is lost"
check_store
mount_store
is "$(find "$M/l/r/f" -name 'q*@1' | wc -l)" 199 "  and keeps the other 199 cells"
unmount_store
rm -r "$D"
cp -a "$W/copy" "$D"
log_end cut >"$W/.cut"
flip "$at" "$seg"
t "$TABLETCTL" check "$D" >"$W/.c" 2>&1
is $? 1 "the same without a mark: check ends with 1"
like "$(cat "$W/.c")" "$(basename "$seg").*and [0-9]+ whole records behind it are lost" "  and counts the records behind it"
ok "  it mounts" mount_store
like "$(daemon_log)" "$(basename "$seg").*whole records behind it are lost" "  the log counts them, too"
lost=$(sed -n 's/^tabletfs_log_records_lost //p' "$M/.tabletfs/metrics")
ok "  and so do the metrics: $lost of $records" test "$lost" -ge 1
like "$(cat "$M/.tabletfs/status")" "^attention +$lost records .*lost at the start" "  and status"
unmount_store
rm -r "$D"
mv "$W/copy" "$D"
mount_store
is "$(cat "$M"/l/r/f/q*@1 | wc -c)" 490 "the undamaged copy has all 200 cells"
done_testing
