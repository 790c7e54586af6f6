#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The figures of usage, .tablets, metrics, df and du agree with the files in the
# data directory.  Bloom filters avoid reads of absent cells.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "disk usage is the engine's"
printf 'block_cache = "1M";\n' >"$W/conf"
ok "mount" mount_store -o config="$W/conf"

usage() { awk -v n="$2" '$1 == n { print $2 }' "$M/t/.families/$1/usage"; }
metric() { awk -v n="tabletfs_$1" '$1 == n { print $2 }' "$M/.tabletfs/metrics"; }
tablets() { awk -F '\t' -v c="$1" '{ n += $c } END { print n + 0 }' "$M/t/.tablets"; }
used() { df --output=used -B1 "$1" | tail -n 1 | tr -d ' '; }
id() { awk -v n="$1" '$1 == n { print $2 }' <<<"a 1
b 2"; }
# The table's files and their contents.  The only table has the id 16.
sst_files() { find "$D/sst/16" -name '*.sst' 2>/dev/null; }
keys() { sst_files | while read -r f; do "$TABLETCTL" dump sst -k "$f"; done; }
count() { # FAMILY: "cells tombstones", counted; of no FAMILY, all
	keys | awk -v f="$1" '
		!/ seq [0-9]+ / { next }
		f != "" && !match($0, "^\"[^\"]*\" " f ":") { next }
		/ seq [0-9]+ (value|large) / { c++ }
		/ seq [0-9]+ delete/ { d++ }
		END { print c + 0, d + 0 }'
}
# pair GOT WANTED DESC: what `is` compares when the store is at rest.
pair() { printf '%s\t%s\t%s\n' "$@"; }
# at_rest FUNCTION: compares the pairs that it prints.  They are read one after the other, so a merge must not end between them.
at_rest() {
	local i was got want what
	for i in {1..50}; do
		was=$(sst_files | sort; tablets 5)
		"$1" >"$W/pairs"
		[ "$was" != "$(sst_files | sort; tablets 5)" ] || break
	done
	while IFS=$'\t' read -r got want what; do is "$got" "$want" "$what"; done <"$W/pairs"
}
# Every place that shows a number shows the same one.
agree_pairs() {
	local f n
	for f in a b; do
		for n in disk_bytes raw_bytes memory_bytes cells tombstones; do
			pair "$(metric "family_$n{table=\"t\",family=\"$f\"}")" "$(usage $f $n)" "  metric and usage of $f: $n"
		done
	done
	pair "$(metric 'table_cells{table="t"}') $(metric 'table_tombstones{table="t"}')" "$(tablets 9) $(tablets 10)" "  metrics and .tablets: cells, tombstones"
	pair "$(metric 'table_raw_bytes{table="t"}') $(metric 'table_memory_bytes{table="t"}')" "$(tablets 7) $(tablets 8)" "  raw bytes, memory"
	pair "$(($(metric 'table_disk_bytes{table="t"}') + $(tablets 8)))" "$(tablets 5)" "  bytes are those on disk and in memory"
}
on_disk_pairs() {
	local f
	for f in a b; do pair "$(usage $f cells) $(usage $f tombstones)" "$(count "$(id $f)")" "  $f: cells and tombstones are those in its files"; done
	pair "$(tablets 9) $(tablets 10)" "$(count '')" "  and the table's"
	pair "$(metric 'table_disk_bytes{table="t"}')" "$(sst_files | xargs stat -c %s | awk '{ n += $1 } END { print n }')" "  bytes on disk are the files'"
	agree_pairs
}
agree() { at_rest agree_pairs; }
on_disk() { at_rest on_disk_pairs; }

# ---- two families in two groups ----
mkdir "$M/t"
mkdir "$M/t/.families/a" "$M/t/.families/b" "$M/t/.groups/wide"
echo wide >"$M/t/.families/b/group"
py <<'EOF2'
from tap import *
for i in range(60):
    for f, n in (("a", 10), ("b", 5000)):
        d = "%s/t/r%03d/%s" % (M, i, f)
        os.makedirs(d)
        spill(d + "/q@5", os.urandom(n))
    if i < 20:
        spill("%s/t/r%03d/a/q@6" % (M, i), b"another")
    if 10 <= i < 15:
        spill("%s/t/r%03d/a/q@5" % (M, i), b"in its place")
EOF2
is "$(usage a cells) $(usage b cells)" "85 60" "in memory: each write is a cell"
is "$(usage a disk_bytes) $(usage b raw_bytes)" "0 0" "  nothing is on disk"
ok "  b takes up most" test "$(usage b memory_bytes)" -gt $((50 * $(usage a memory_bytes)))
ok "  of the memory there is" test $(($(usage a memory_bytes) + $(usage b memory_bytes))) -le "$(tablets 8)"
agree
before=$(used "$M/t")
ok "df of the table: what is in memory" test "$before" -ge 300000 -a "$before" -lt 2000000
echo flush >"$M/t/.ctl"
is "$(usage a cells) $(usage b cells)" "80 60" "flushed: what was replaced has gone"
is "$(usage a memory_bytes) $(usage b memory_bytes)" "0 0" "  nothing is in memory"
is "$(sst_files | wc -l)" 2 "  a file for each group"
is "$(usage b disk_bytes)" "$(sst_files | xargs stat -c %s | sort -n | tail -n 1)" "  of which one is b's alone"
on_disk
rm "$M/t/r000/a/q@6" "$M/t/r001/a/q"
rm -r "$M/t/r002/b"
py <<'EOF2'
from tap import *
for i in range(60, 64):
    os.makedirs("%s/t/x%03d/b" % (M, i))
    spill("%s/t/x%03d/b/q" % (M, i), b"x")
EOF2
echo drop-rows r03 >"$M/t/.ctl"
is "$(usage a tombstones) $(usage b tombstones) $(tablets 10)" "2 1 13" "deletes are tombstones; of rows, the table's"
echo flush >"$M/t/.ctl"
on_disk
ok "  the table has more tombstones than its families: those of rows" test "$(tablets 10)" -gt $(($(usage a tombstones) + $(usage b tombstones)))
echo compact >"$M/t/.ctl"
is "$(tablets 10)" 0 "compacted: no tombstone is left"
is "$(usage a cells) $(usage b cells)" "67 53" "  and what lives"
on_disk
before=$(cat "$M/t/.families/a/usage" "$M/t/.families/b/usage" | grep -v memory)

# ---- df and du ----
avail=$(df --output=avail -B1 "$D" | tail -n 1)
py "$avail" <<'EOF2'
from tap import *
def space(path):
    v = os.statvfs(path)
    return (v.f_blocks - v.f_bfree) * v.f_frsize, v.f_bavail * v.f_frsize, v
for path in ("t", "t/r000", "t/r000/a", "t/r000/a/q@5", "t/.latest", "t/.latest/r000", "t/.families"):
    same(space("%s/%s" % (M, path))[0], space(M + "/t")[0], "df in the table is the table's: " + path)
same(space(M + "/.tabletfs")[0], space(M)[0], "elsewhere the store's")
near = 1 << 30 # others use the disk
ok(abs(space(M)[1] - int(sys.argv[1])) < near and abs(space(M + "/t")[1] - int(sys.argv[1])) < near, "available is what the disk has")
stored = sum(os.stat(os.path.join(p, n)).st_size for p, d, names in os.walk(D) for n in names)
# All but the lock service's files and FORMAT; a segment may have grown since.
ok(abs(space(M)[0] - stored) < 100000, "the store takes up what is in its directory")
EOF2
bytes=$(tablets 5)
is "$(used "$M/t")" $(((bytes + 4095) / 4096 * 4096)) "df of a table is what .tablets counts, in blocks"
is "$(df --output=target "$M/t" | tail -n 1)" "$M" "  df knows where it is mounted"
du_facts() {
	is "$(t du -s --apparent-size -B1 "$M/$1" | cut -f 1)" "$(find "$M/$1" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')" "du --apparent-size of $1: the bytes of its files"
	is "$(t du -s -B1 "$M/$1" | cut -f 1)" "$(find "$M/$1" -type f -printf '%s\n' | awk '{ n += int(($1 + 511) / 512) * 512 } END { print n }')" "du of $1: these, in blocks"
}
for path in t t/r004 t/r004/a t/.latest t/.latest/r004; do du_facts $path; done
ok "  the newest versions are less than all" test "$(t du -s -B1 "$M/t/.latest" | cut -f 1)" -lt "$(t du -s -B1 "$M/t" | cut -f 1)"

# ---- two tablets share files and a memtable ----
totals() { echo "$(usage a cells) $(usage b cells) $(tablets 9) $(tablets 10)"; }
py <<'EOF2'
from tap import *
for i in range(10, 50):
    spill("%s/t/r%03d/b/more@%d" % (M, i, i), b"more" * i) if os.path.isdir("%s/t/r%03d/b" % (M, i)) else None
EOF2
before=$(totals)
memory=$(tablets 8)
echo 'split r040' >"$M/t/.ctl"
is "$("$TABLETCTL" du "$M/t" | awk -F '\t' -v p="$M/t" '$3 == p { print $2 }')" "$(tablets 9)" "tabletctl du has the cells of .tablets"
is "$("$TABLETCTL" du "$M" | tail -n 1 | cut -f 2)" "$("$TABLETCTL" du "$D" | awk -F '\t' -v p="$D" '$3 != p { n += $2 } END { print n + 0 }')" "  of the store, those of its tables"
is "$(sed 1d "$M/t/.tablets" | wc -l)" 2 "split: two tablets"
is "$(totals)" "$before" "  have together what the one had: cells, tombstones"
is "$(awk -F '\t' 'NR > 1 && ($5 <= 0 || $9 <= 0)' "$M/t/.tablets" | wc -l)" 0 "  each some of it"
ok "  memory: of the shared memtable each its part" test $(($(tablets 8) - memory)) -lt 12000
agree
echo 'split r020' >"$M/t/.ctl"
# A child may have flushed its part by now: bytes can be in another place.
is "$(sed 1d "$M/t/.tablets" | wc -l):$(totals)" "3:$before" "split again: as many cells"
echo flush >"$M/t/.ctl"
is "$(tablets 9)" "$(cut -d ' ' -f 3 <<<"$before")" "flushed: as many cells"
echo compact >"$M/t/.ctl"
is "$(tablets 9)" "$(cut -d ' ' -f 3 <<<"$before")" "compacted: as many"
on_disk
is "$(sst_files | wc -l)" 6 "  a file for each tablet and group, the shared ones have gone"
echo 'merge r000' >"$M/t/.ctl"
is "$(sed 1d "$M/t/.tablets" | wc -l):$(tablets 9)" "2:$(cut -d ' ' -f 3 <<<"$before")" "merged: as many"
on_disk
before=$(cat "$M/t/.families/a/usage" "$M/t/.families/b/usage" | grep -v memory)
unmount_store
ok "mount -o ro" mount_store -o ro,config="$W/conf"
for path in t t/r004 t/.latest; do du_facts $path; done
is "$(cat "$M/t/.families/a/usage" "$M/t/.families/b/usage" | grep -v memory)" "$before" "usage after a remount, read-only"
ok "  df" test "$(used "$M/t")" -ge "$(metric 'table_disk_bytes{table="t"}')"
py <<'EOF2'
from tap import *
def read_some(n):
    for row in sorted(os.listdir(M + "/t"))[10 * n:10 * n + 10]:
        for dir, _, files in os.walk("%s/t/%s" % (M, row)):
            for f in files:
                slurp(dir + "/" + f)
            # The caches of the mount may answer all of these, and then no number changes.  It asks the store for a new name.
            os.path.exists(dir + "/none%d" % n)
# There is no OPEN to keep a rendering by.
fd = os.open(M + "/.tabletfs/metrics", os.O_RDONLY)
size = os.fstat(fd).st_size
whole = b""
while piece := os.read(fd, 1000):
    whole += piece
    if len(whole) == 3000:
        read_some(0)
read_some(1)
same((os.fstat(fd).st_size, len(whole), whole[-1:]), (size, size, b"\n"), "a control file is read to its end, as long as it was when it was opened")
same(os.pread(fd, 1 << 20, 0), whole, "  and shows what it showed")
os.close(fd)
ok(slurp(M + "/.tabletfs/metrics") != whole, "  while its numbers have changed")
EOF2
unmount_store

# ---- absent cells are not searched for on disk ----
ok "mount" mount_store -o config="$W/conf"
py <<'EOF2'
from tap import *
import random
import re
def metric(name):
    return int(re.search(r"^tabletfs_%s (\d+)$" % name, slurp(M + "/.tabletfs/metrics").decode(), re.M).group(1))
def ctl(table, verb):
    spill("%s/%s/.ctl" % (M, table), verb, os.O_WRONLY)
def setting(path, text):
    spill("%s/%s" % (M, path), text, os.O_WRONLY)
ROWS = 800
def make(table, bits):
    os.mkdir("%s/%s" % (M, table))
    os.mkdir("%s/%s/.families/f" % (M, table))
    setting(table + "/.groups/default/block_size", b"4K\n")
    setting(table + "/.groups/default/compression", b"none\n")
    setting(table + "/.groups/default/bloom_bits", b"%d\n" % bits)
    for i in range(0, 2 * ROWS, 2):
        os.makedirs("%s/%s/row%05d/f" % (M, table, i))
        spill("%s/%s/row%05d/f/q" % (M, table, i), b"%05d" % i * 300)
    ctl(table, b"flush\n")
def searches():
    return metric("block_cache_hits_total") + metric("block_cache_misses_total")
def absent(table, path):
    """Searches for a block while as many absent names are asked for as there are rows, not in order."""
    before, found = searches(), 0
    names = list(range(1, 2 * ROWS, 2))
    random.Random(2).shuffle(names)
    for i in names:
        found += os.path.exists("%s/%s/row%05d%s" % (M, table, i, path))
    same(found, 0, "  none is there: " + path)
    return searches() - before
make("with", 10)
make("without", 0)
n = absent("with", "")
ok(n <= ROWS // 50, "%d absent rows with filters: %d searches for a block" % (ROWS, n))
n = absent("with", "x/f/q")
ok(n <= ROWS // 50, "of other names: %d" % n)
n = absent("without", "")
ok(n > ROWS // 4, "without filters: %d" % n)
for i in range(0, 200, 2):
    os.unlink("%s/with/row%05d/f/q" % (M, i))
ctl("with", b"drop-rows row001\n")
ctl("with", b"flush\n")
n = absent("with", "y")
ok(n <= ROWS // 25, "beside deletes of rows and columns, two files: %d" % n)
before = metric("cell_cache_hits_total")
for i in range(4):
    slurp("%s/with/row00400/f/q" % M)
ok(metric("cell_cache_hits_total") > before, "a cell that was read is remembered")
before = metric("block_cache_hits_total")
rows = list(range(500, 1500, 2))
random.Random(1).shuffle(rows)
for i in rows:
    slurp("%s/with/row%05d/f/q" % (M, i))
ok(metric("block_cache_hits_total") > before and metric("block_cache_misses_total") > 0, "blocks are found in the cache, or not")
ok(metric("block_cache_bytes") + metric("cell_cache_bytes") <= metric("cache_limit_bytes") == 1 << 20, "the bound holds")
EOF2

# A counter of a name never falls.
counters=(reads_total writes_total written_bytes_total scanned_cells_total)
of_table() { awk -v n="tabletfs_table_$1{table=\"$2\"}" '$1 == n { print $2 }' "$M/.tabletfs/metrics"; }
worked() { # TABLE
	local i
	mkdir -p "$M/$1/r/f"
	for i in $(seq 40); do
		echo "$i" >"$M/$1/r/f/q"
		cat "$M/$1/r/f/q"
	done >/dev/null
	cat "$M/$1/.scan/limit=5/.tsv" >/dev/null
}
remember() { before=(); for c in "${counters[@]}"; do before+=("$(of_table "$c" "$1")"); done; }
none_fell() { # TABLE DESC
	local i now fell=
	wait_for "metrics of $1" eval '[ -n "$(of_table writes_total '"$1"')" ]'
	for i in 0 1 2 3; do
		now=$(of_table "${counters[i]}" "$1")
		[ "${now:-0}" -ge "${before[i]}" ] || fell+=" ${counters[i]}: ${before[i]} ${now:-none}"
	done
	is "$fell" "" "$2"
}
worked count
remember count
ok "counters count" test "${before[1]}" -ge 40 -a "${before[3]}" -ge 5
echo truncate >"$M/count/.ctl"
none_fell count "  none falls when the table is truncated"
worked other
ok "  another table gets the name" mv -T "$M/other" "$M/count-2"
rm -r "$M/count"
mkdir -p "$M/count/r/f"
none_fell count "  nor when a table of that name is made again"
rm -r "$M/count"
ok "  another one gets it" mv -T "$M/count-2" "$M/count"
none_fell count "  nor then"
remember count
worked count
is "$(($(of_table writes_total count) > before[1]))" 1 "  and they go on"

# A scan does not pass expired cells each time: a file with expired cells only is not read, and scans that
# pass many cells of a file make a major compaction due.
mkdir -p "$M/first/.families/f" "$M/mixed/.families/f"
old=$(date -d '29 days ago' +%s)000000 now=$(date +%s)000000
seq -f "a%06.0f" 30000 | sed "s/\$/\tf:q\t$old\tv/" >"$W/old.tsv"
printf 'z\tf:q\t%s\tv\n' "$now" >"$W/new.tsv"
ok "old and new cells, in two files and in one" eval '
	"$TABLETCTL" import "$M/first" "$W/old.tsv" && echo flush >"$M/first/.ctl" && "$TABLETCTL" import "$M/first" "$W/new.tsv" &&
	cat "$W/old.tsv" "$W/new.tsv" >"$W/both.tsv" && "$TABLETCTL" import "$M/mixed" "$W/both.tsv" && echo compact >"$M/mixed/.ctl"'
for t in first mixed; do echo maxage=20d >"$M/$t/.families/f/gc"; done
looked() { echo $(($(metric block_cache_hits_total) + $(metric block_cache_misses_total))); }
before=$(looked)
for i in 1 2 3; do is "$(cut -f 1 "$M/first/.scan/limit=1/.tsv")" z "the first live row"; done
is "$(($(looked) - before < 20))" 1 "  the file with expired cells was not read"
is "$(of_table cells first)" 30001 "  it is still there"
for i in $(seq 6); do cat "$M/mixed/.scan/limit=1/.tsv"; done >"$W/.scanned"
is "$(sort -u "$W/.scanned" | cut -f 1)" z "the same of cells in one file"
ok "  they are removed soon" wait_for "the compaction" eval '[ "$(of_table cells mixed)" = 1 ]'

# ---- changes that are kept count beside the cells ----
py <<'EOF2'
from tap import *
import glob, re
os.chdir(M)
os.mkdir("kept")
spill("kept/.schema", b'changes = "7d"; quota = "40M"; families = ({name = "f";});')
spill("kept/.import", b"".join(b"row%05d\tf:q\t5\t%s\n" % (i, os.urandom(200).hex().encode()) for i in range(20000)))


def metric(name):
    return int(re.search(r'^tabletfs_%s(?:{table="kept"})? (\d+)$' % name, slurp(".tabletfs/metrics").decode(), re.M).group(1))


def tablets(column):
    return sum(int(line.split("\t")[column]) for line in slurp("kept/.tablets").decode().splitlines()[1:])


def files():
    """The newest table has the largest id."""
    newest = max(glob.glob(os.environ["D"] + "/sst/*"), key=lambda d: int(os.path.basename(d)))
    return sum(os.path.getsize(f) for f in glob.glob(newest + "/*.sst"))


def numbers():
    return (tablets(4), metric("table_disk_bytes") + metric("table_memory_bytes") + metric("table_changes_bytes"))


changes = metric("table_changes_bytes")
ok(changes > 20000 * 400, "changes in memory are counted")
soon(lambda: len(set(numbers())), 1, "  .tablets has their bytes") # a flush may end between two readings
cells = metric("table_cells")
spill("kept/.ctl", b"flush\n", os.O_WRONLY)
def beyond(tablets):
    """0 if the bytes are those of the files, and of so many empty skip lists; else the difference."""
    extra = metric("table_disk_bytes") + metric("table_changes_bytes") - files()
    return 0 if 0 <= extra <= tablets * 10000 else (extra, metric("table_disk_bytes"), metric("table_changes_bytes"), files())


soon(lambda: beyond(1), 0, "flushed: the bytes of cells and changes are those of the files")
ok(metric("table_changes_bytes") > metric("table_disk_bytes") // 3, "  of which changes are a part")
same(metric("table_cells"), cells, "  and no cells")
soon(lambda: len(set(numbers())), 1, "  .tablets has them")


def df():
    v = os.statvfs("kept")
    return (v.f_blocks - v.f_bfree) * 4096 == (tablets(4) + 4095) // 4096 * 4096


soon(df, True, "  so has df")
spill("kept/.ctl", b"split row10000\n", os.O_WRONLY)
spill("kept/.ctl", b"flush\ncompact\n", os.O_WRONLY)
soon(lambda: beyond(2), 0, "two tablets: the bytes of both are those of the files")
same(metric("snapshots_pinned_bytes") < metric("table_changes_bytes"), True, "  and they are no bytes of snapshots")
soon(lambda: metric("table_quota_used_bytes") >= tablets(4) * 9 // 10, True, "the quota counts them")
same(sum(int(line.split("\t")[8]) for line in slurp("kept/.tablets").decode().splitlines()[1:]), cells, "  .tablets has the cells as before")
spill("kept/.ctl", b"purge\n", os.O_WRONLY)
ok(metric("table_changes_bytes") < changes // 10, "purged: the changes count no more")
EOF2
out=$("$TABLETCTL" du "$M/kept" | tail -n 1 | cut -f 1)
is "$out" "$(awk -F '\t' 'NR > 1 { n += $5 } END { print n }' "$M/kept/.tablets")" "tabletctl du has the bytes of .tablets"
done_testing
