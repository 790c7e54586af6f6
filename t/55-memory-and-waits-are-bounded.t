#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The daemon's memory stays within what is configured, writers are slowed down
# but not refused, listings are streamed, and reads do not wait for writes.
# These are short versions of t/bench/big.sh.  The limits are generous: they
# detect growth and hangs, not slowness.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "bounds are the engine's"
FILL=$BUILD/t/bench/fill_big
[ -x "$FILL" ] || { echo "Bail out! there is no $FILL"; exit 1; }

# at_most NUMBER LIMIT DESC: NUMBER may be a decimal fraction.  Skipped with sanitizers, which use memory themselves.
at_most() {
	echo "# $3: $1"
	if awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a <= b) }'; then pass "$3: at most $2"; else fail "$3: $1, more than $2"; fi
}
memory_at_most() {
	if [ -n "${SANITIZED:-}" ]; then skip "$3" "sanitizers keep memory"; else at_most "$1" "$2" "$3, MiB"; fi
}
# fill DATA VERB...: fill_big with small caches; sets $out.
fill() {
	t "$FILL" -c "$W/conf" "$@" >"$W/fill" 2>&1
	local status=$?
	out=$(cat "$W/fill")
	is "$status" 0 "  nothing is refused"
	[ $status = 0 ] || diag <<<"$out"
	grep slowest <<<"$out" | diag
}
slowest() { sed -n "s/^$1: .*slowest \([0-9.]*\) ms.*/\1/p" <<<"$out"; }
peak() { sed -n 's/^rss: .* \([0-9.]*\) MiB at most/\1/p' <<<"$out" | sort -n | tail -n 1; }
resident() { awk '/^VmRSS/ { printf "%.1f", $2 / 1024 }' "/proc/$1/status"; }

# 20 MiB are configured.  The log keeps up to 64 MiB of unsynced records, and METADATA has its own 4 MiB.
echo 'block_cache = "8M"; memtable = "8M"; table_cache = "4M"; log_segment = "4M";' >"$W/conf"
n=${SANITIZED:+10000}
echo "# four writers of 10-byte values"
fill "$D" cells s "${n:-200000}" 10 10 random 4 rss
at_most "$(slowest cells)" 20000 "  the slowest write, ms"
memory_at_most "$(peak)" 110 "  resident"
echo "# four writers of 1 MiB values"
fill "$D" cells l 60 1048576 1 random 4 rss
at_most "$(slowest cells)" 20000 "  the slowest write, ms"
memory_at_most "$(peak)" 180 "  resident"
echo "# versions of one column"
fill "$D" versions v "${n:-30000}" 100 4 flush v readv v 200 rss
at_most "$(slowest read)" 5000 "  the slowest read of the newest, ms"
memory_at_most "$(peak)" 110 "  resident"
echo "# tables"
fill "$D" rss tables 60 10 100 rss
memory_at_most "$(peak)" 60 "  resident with 60 tables"
echo 'block_cache = "1M"; memtable = "4M"; table_cache = "1M";' >"$W/conf"
echo "# reads at random through caches of 1 MiB"
fill "$D" cells r 20000 1000 1 random 2 compact r rss read r 3000 20000 1 rss
at_most "$(slowest read)" 5000 "  the slowest read, ms"
memory_at_most "$(peak)" 110 "  resident"

# ---- a listing of many rows streams ----
rows=30000
fill "$D" cells rows $rows 10 1 random 2 compact rows
for mode in ro rw; do
	ok "mount -o $mode" mount_store -o "$mode,config=$W/conf"
	is "$(t ls -U "$M/rows" | head -n 3 | wc -l)" 3 "  the first rows of a listing"
	before=$(resident "$daemon")
	is "$(t ls -U "$M/rows" | wc -l)" $rows "  ls -U of $rows rows"
	is "$(t ls -U "$M/rows" | LC_ALL=C sort -u | wc -l)" $rows "  each once"
	after=$(resident "$daemon")
	# An entry that the kernel caches costs at most 200 bytes.  A listing alone costs none.
	memory_at_most "$(awk -v a="$before" -v b="$after" 'BEGIN { print b - a }')" 16 "  the daemon grows by"
	if [ $mode = rw ]; then
		is "$(t cat "$M/rows/.scan/.keys" | wc -l)" $rows "  .keys has $rows rows"
		is "$(t cat "$M/rows/.scan/reverse=yes/.keys" | LC_ALL=C sort -cru && echo sorted)" sorted "  also in reverse"
		before=$(resident "$daemon")
		exec 7<"$M/r/.scan/.tsv"
		like "$(t cat <&7 | wc -c)" "[0-9]{8}" "  a stream of more than 10 MB"
		after=$(resident "$daemon")
		exec 7<&-
		memory_at_most "$(awk -v a="$before" -v b="$after" 'BEGIN { print b - a }')" 8 "  while it is open, the daemon grows by"
	fi
	unmount_store
done

# ---- listings of a large column beside a writer ----
# All threads allocate and free blocks.  With one heap for each thread the memory would be three times this.
echo 'block_cache = "16M"; memtable = "8M"; table_cache = "4M"; log_segment = "4M";' >"$W/conf"
fill "$D" versions wide 10000 4000 1
ok "mount" mount_store -o config="$W/conf"
wide=$(echo "$M"/wide/*/*)
users=()
for i in 1 2 3 4; do
	for _ in 1 2 3 4 5 6 7 8; do t find "$wide" -size +9 >/dev/null; done &
	users+=($!)
done
for i in $(seq 300); do echo "$i" >"$wide/w@$i"; done &
wait "${users[@]}" $!
is "$(t ls -U "$wide" | wc -l)" 10300 "a column of 40 MB and its writer"
memory_at_most "$(resident "$daemon")" 100 "  resident after 32 listings by four"
unmount_store

# ---- reads do not wait ----
echo 'block_cache = "4M"; memtable = "1M"; table_cache = "1M"; log_segment = "1M";' >"$W/conf"
ok "mount" mount_store -o config="$W/conf"
mkdir -p "$M/t/r/f" "$M/w/r/f"
echo small >"$M/t/r/f/q"
head -c 1000000 /dev/urandom >"$W/million"
(
	i=0
	while [ ! -e "$W/stop" ]; do
		split -b 20000 "$W/million" "$M/w/r/f/s$((i++ % 5))-" || echo "split failed" >>"$W/writer"
		echo compact >"$M/w/.ctl" || echo "compact failed" >>"$W/writer"
	done
) 2>>"$W/writer" &
writer=$!
export M
py <<'EOF2'
from tap import *
import time
path = os.environ["M"] + "/t/r/f/q"
end = time.monotonic() + 4
slowest, n, right = 0, 0, True
while time.monotonic() < end:
    start = time.monotonic()
    right = slurp(path) == b"small\n" and right
    slowest = max(slowest, time.monotonic() - start)
    n += 1
print(f"{n} reads of a small cell during writes and compactions: slowest {slowest * 1e3:.1f} ms")
ok(right, "reads during writes and compactions are right")
ok(slowest < 5, "none of them takes five seconds")
EOF2
touch "$W/stop"
wait $writer
is "$(cat "$W/writer")" "" "no write was refused"
grep compactions "$M/.tabletfs/status" | diag

# The disk: log segments and the reserve for full disks begin small and grow with use.
unmount_store
rm -r "$D"
disk_kib() { t du -sk "$D" | cut -f 1; }
mount_store
at_most "$(disk_kib)" 2047 "KiB of an empty store, mounted"
unmount_store
at_most "$(disk_kib)" 2047 "KiB of an empty store"
mount_store
py <<'EOF2'
from tap import *
import random
rnd = random.Random(5)
os.makedirs(M + "/t/r/large")
for i in range(8000):
    spill("%s/t/r/large/q%d" % (M, i), rnd.randbytes(1000))
EOF2
at_most "$(disk_kib)" 32767 "KiB with 8 MB in 8,000 cells, mounted"
unmount_store
at_most "$(disk_kib)" 32767 "KiB with 8 MB in 8,000 cells"
rm -r "$D"
fill "$D" cells s 80000 100 10 random 4
at_most "$(disk_kib)" 32767 "KiB with 8 MB in 80,000 cells"
done_testing
