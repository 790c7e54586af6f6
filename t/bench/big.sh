#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Large stores and heavy loads: time, and memory beside what is configured.
#
#	t/bench/big.sh [-d DIR] [-o PARTS]
#
#	-d  where (a new directory under /var/tmp)
#	-o  only these parts, joined by commas:
#	    list     ls and find of a table of ROWS (1000000) rows, mounted ro and rw
#	    open     a store of SIZE MiB (10000) in cells of 1000 bytes: opening
#	             after a clean end and after kill -9
#	    cost     what a cell costs beyond its bytes: memtable, log, SSTable,
#	             and a listed cell in daemon and kernel
#	    bounded  heavy writers, many versions, many tables, tiny caches:
#	             resident memory beside the configuration
#	    reads    slowest cat of a small cell during heavy writes and compactions
#
# Environment: BUILD (build/ beside the sources) has tabletfs, tabletctl and,
# after `make t/bench/fill_big` there, fill_big.  Caches are dropped where the
# user may.  Printed are plain lines "part: what: numbers"; nothing is
# asserted (t/55-memory-and-waits-are-bounded.t has short versions that are).  rss is VmRSS of the
# process that has the store; fill_big's includes its 60 MiB of text where it
# says text.
set -u -o pipefail
src=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-$src/build}
TABLETFS=${TABLETFS:-$BUILD/tabletfs} TABLETCTL=${TABLETCTL:-$BUILD/tabletctl} FILL=${FILL:-$BUILD/t/bench/fill_big}
ROWS=${ROWS:-1000000} SIZE=${SIZE:-10000}
top='' parts=list,open,cost,bounded,reads
export LC_ALL=C

usage() { sed -n '3,24s/^# \{0,1\}//p' "$0"; exit "$1"; }
die() { echo "big.sh: $*" >&2; exit 2; }
while getopts d:o:h option; do
	case $option in
	d) top=$OPTARG ;;
	o) parts=$OPTARG ;;
	h) usage 0 ;;
	*) usage 2 >&2 ;;
	esac
done
for program in "$TABLETFS" "$TABLETCTL" "$FILL"; do [ -x "$program" ] || die "$program: not there; see BUILD"; done
if [ -z "$top" ]; then top=$(mktemp -d /var/tmp/tabletfs-big-XXXXXX); else mkdir -p "$top" || exit 2; fi
mkdir -p "$top/mnt"
daemon='' part=''
cleanup() {
	trap - EXIT
	mounted && { fusermount3 -u "$top/mnt" || umount -l "$top/mnt"; }
	# shellcheck disable=SC2046
	kill $(jobs -p) 2>/dev/null
	wait 2>/dev/null
	rm -rf "${top:?}"/{data,mnt,text,conf,log,out,names}*
	rmdir "$top" 2>/dev/null
}
trap cleanup EXIT
trap 'exit 1' INT TERM

say() { echo "$part: $*"; }
now() { echo "$EPOCHREALTIME"; }
since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f", b - a }'; }
drop() { sync; { echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null; }
mounted() { grep -qF " $top/mnt fuse" /proc/self/mounts; }
rss() { awk '/^VmRSS/ { printf "%.1f", $2 / 1024 }' "/proc/$1/status"; }
hwm() { awk '/^VmHWM/ { printf "%.1f", $2 / 1024 }' "/proc/$1/status"; }
# start DATA [OPTION...]: mounts and waits for the first answer of ls; sets $opened (seconds).
start() {
	local data=$1 from=$EPOCHREALTIME
	shift
	"$TABLETFS" -f "$data" "$top/mnt" "$@" </dev/null >"$top/log" 2>&1 &
	daemon=$!
	until mounted && ls "$top/mnt" >/dev/null 2>&1; do
		kill -0 "$daemon" 2>/dev/null || { cat "$top/log" >&2; die "the daemon ended"; }
		read -r -t 0.005 <> <(:)
	done
	opened=$(since "$from")
}
stop() { # stop [kill]
	[ -n "$daemon" ] || return 0
	if [ "${1:-}" = kill ]; then
		kill -9 "$daemon"
		wait "$daemon" 2>/dev/null
		umount -l "$top/mnt"
	else
		fusermount3 -u "$top/mnt" || die "cannot be unmounted"
		wait "$daemon" || die "the daemon failed: $(tail -1 "$top/log")"
	fi
	daemon=''
}
text() {
	[ -s "$top/text" ] && return
	find /usr/share/doc /usr/share/perl /usr/share/perl5 -type f ! -name '*.gz' -size -2M -print0 2>/dev/null |
		sort -z | xargs -0 cat 2>/dev/null | tr -d '\000' | head -c 60M >"$top/text"
	[ "$(stat -c %s "$top/text")" -gt $((1 << 20)) ] || die "not enough text under /usr/share/doc"
}
fill() { # fill DATA [OPTION...] VERB...: lines with the part's name before them
	"$FILL" "$@" | sed "s/^/$part: /" || die "fill_big failed"
}
# Samples the daemon's memory every 0.2 s until the command has ended; prints least and most.
with_rss() { # with_rss WHAT COMMAND...
	local what=$1 before from=$EPOCHREALTIME
	shift
	before=$(rss "$daemon")
	: >"$top/out.rss"
	while rss "$daemon" 2>/dev/null; do echo; read -r -t 0.2 <> <(:); done >"$top/out.rss" &
	local sampler=$!
	"$@"
	local took
	took=$(since "$from")
	kill "$sampler"
	wait "$sampler" 2>/dev/null
	say "$what: $took s; rss before $before MiB, during $(sort -n "$top/out.rss" | awk 'NF { if (!n++) a = $1; b = $1 } END { printf "%s to %s", a, b }'), after $(rss "$daemon") MiB"
}

# ---- a table of many rows, listed ----
# Time to the first line and to the last, and how many there were.
first_and_all() {
	perl -MTime::HiRes=time -e '
		my ($from, $n, $first) = (time, 0);
		open(my $ls, "-|", @ARGV) or die;
		while (<$ls>) { $first //= time - $from; $n++; }
		printf "%s: first line after %.3f s, %d lines in %.2f s\n", "@ARGV[0, 1]", $first, $n, time - $from' "$@" |
		sed "s/^/$part: /"
}
part_list() {
	local mode
	rm -rf "$top/data"
	# A small block cache, or the table itself would move into memory as it is read.
	echo 'block_cache = "4M";' >"$top/conf"
	fill "$top/data" cells t "$ROWS" 10 1 random 2 compact t usage t
	for mode in ro rw; do
		part="list $mode"
		drop
		start "$top/data" -o "$mode,config=$top/conf"
		with_rss "ls -U | head -5" sh -c "ls -U '$top/mnt/t' | head -5 >/dev/null"
		with_rss "ls -U, cold" first_and_all ls -U "$top/mnt/t"
		with_rss "ls -U, warm" first_and_all ls -U "$top/mnt/t"
		with_rss "ls -U, four at once" sh -c "for i in 1 2 3 4; do ls -U '$top/mnt/t' >/dev/null & done; wait"
		with_rss "find of 100000 rows | wc -l" sh -c "
			ls -U '$top/mnt/t' | head -100000 | sed 's|^|$top/mnt/t/|' | tr '\n' '\0' | find -files0-from - -type f 2>/dev/null | wc -l >'$top/out'"
		say "  found $(cat "$top/out")"
		stop
	done
	rm -rf "$top/data"
}

# ---- a large store, opened ----
part_open() {
	local i
	text
	rm -rf "$top/data"
	fill -t "$top/text" "$top/data" rss cells big "$((SIZE * 1000))" 1000 100 text 2 rss usage big \
		status 'compactions|stall|flushed|compacted' settle rss
	say "files: $(find "$top/data/sst" -name '*.sst' | wc -l) SSTables, $(du -sm "$top/data" | cut -f1) MiB"
	for i in cold warm; do
		[ $i = warm ] || drop
		start "$top/data"
		say "after a clean end, $i: ls answers after $opened s, rss $(rss "$daemon") MiB"
		from=$EPOCHREALTIME
		cat "$top/mnt/big/$(printf 'row%010d' $((SIZE * 5)))/f/q0007" >/dev/null || die "cat"
		say "  first cat after $(since "$from") s, rss $(rss "$daemon") MiB"
		stop
	done
	(fill -t "$top/text" "$top/data" cells big 100000 1000 100 text 2 status 'memtable_bytes|log_size' kill) 2>/dev/null || :
	for i in cold warm; do
		[ $i = warm ] || drop
		start "$top/data"
		say "after kill -9 with 100 MB in the log, $i: ls answers after $opened s, rss $(rss "$daemon") MiB"
		stop kill
	done
	"$TABLETCTL" check "$top/data" >"$top/out" 2>&1 || { cat "$top/out"; die "check"; }
	rm -rf "$top/data"
}

# ---- what a cell costs ----
memory_cost() { # memory_cost BYTES PER_ROW: of 100000 cells in the memtable
	"$FILL" -c "$top/conf" "$top/data" rss cells t 100000 "$1" "$2" random 1 usage t rss status 'log_(size|records|bytes)' >"$top/out" || die "fill"
	awk -v b="$1" -v r="$2" -v p="$part" '
		/^usage/ { m = $3 }
		/^status: log_bytes_appended/ { l = $3 }
		END { key = 13 / r + 5
		printf "%s: a cell of %d bytes, %d a row: memtable %.1f bytes beyond the value, log %.1f\n", p, b, r, m / 1e5 - b, l / 1e5 - b }' "$top/out"
	rm -rf "$top/data"
}
part_cost() {
	local bytes per before after kernel
	echo 'memtable = "512M"; log_segment = "1G";' >"$top/conf"
	for bytes in 10 1000; do for per in 1 100; do memory_cost $bytes $per; done; done
	for bytes in 10 1000; do
		"$FILL" "$top/data" cells t 300000 "$bytes" 10 random 1 compact t usage t >"$top/out" || die "fill"
		awk -v b="$bytes" -v p="$part" '/^usage/ { gsub(",", ""); printf "%s: a cell of %d bytes that nothing compresses, 10 a row: SSTable %.1f bytes beyond the value (raw key and value %.1f)\n", p, b, $6 / $10 - b, $9 / $10 }' "$top/out"
		rm -rf "$top/data"
	done
	"$FILL" "$top/data" cells t 200000 100 100 random 1 compact t >/dev/null || die "fill"
	echo 'block_cache = "1M";' >"$top/conf"
	for mode in ro rw; do
		start "$top/data" -o "$mode,config=$top/conf"
		tail -qc1 "$top"/mnt/t/row00000000*/f/q0000 >/dev/null
		drop
		before=$(rss "$daemon")
		kernel=$(awk '/^(Slab):/ { print $2 }' /proc/meminfo)
		find "$top/mnt/t" -type f -size +0 | wc -l >"$top/out"
		after=$(rss "$daemon")
		awk -v n="$(cat "$top/out")" -v a="$before" -v b="$after" -v k="$kernel" -v p="$part" -v m=$mode '
			/^Slab:/ { printf "%s: %s: a cell that find -size has seen (%d): daemon %.0f bytes, kernel %.0f\n", p, m, n, (b - a) * 1048576 / n, ($2 - k) * 1024 / n }' /proc/meminfo
		drop
		say "$mode: caches dropped: daemon $before MiB before find, $after after, $(rss "$daemon") now"
		stop
	done
	rm -rf "$top/data"
}

# ---- bounded memory ----
part_bounded() {
	text
	echo 'block_cache = "8M"; memtable = "8M"; table_cache = "4M"; log_segment = "4M";' >"$top/conf"
	rm -rf "$top/data"
	part='bounded (8+8+4 MiB)'
	say "small values, 4 writers"
	fill -c "$top/conf" "$top/data" rss cells s 3000000 10 10 random 4 rss settle rss status 'stall|compactions'
	rm -rf "$top/data"
	say "1000-byte values of text, 4 writers"
	fill -c "$top/conf" -t "$top/text" "$top/data" rss cells t 500000 1000 10 text 4 rss settle rss status 'stall|compactions'
	rm -rf "$top/data"
	say "1 MiB values, 4 writers"
	fill -c "$top/conf" "$top/data" rss cells l 1000 1048576 1 random 4 rss settle rss status 'stall|compactions'
	rm -rf "$top/data"
	say "500000 versions of one column, 4 writers"
	fill -c "$top/conf" "$top/data" rss versions v 500000 100 4 rss readv v 1000 rss compact v rss
	rm -rf "$top/data"
	say "300 tables with 10 cells each"
	fill -c "$top/conf" "$top/data" rss tables 300 10 100 rss
	fill -c "$top/conf" "$top/data" rss
	say "10,000 reads at random, 1,000,000 cells, caches of 1 MiB"
	echo 'block_cache = "1M"; memtable = "8M"; table_cache = "1M";' >"$top/conf"
	rm -rf "$top/data"
	fill -c "$top/conf" -t "$top/text" "$top/data" cells t 1000000 1000 1 text 2 settle rss
	fill -c "$top/conf" "$top/data" rss read t 10000 1000000 1 rss status 'blocks|cache|opens|tables_open'
	rm -rf "$top/data"
}

# ---- reads do not wait ----
part_reads() {
	local n=0 worst=0 t
	text
	rm -rf "$top/data"
	echo 'memtable = "16M";' >"$top/conf"
	start "$top/data" -o config="$top/conf"
	mkdir -p "$top/mnt/t/r/f" "$top/mnt/w/r/f"
	echo small >"$top/mnt/t/r/f/q"
	(
		while :; do
			split -b 20000 -a 5 "$top/text" "$top/mnt/w/r/f/s" 2>/dev/null
			echo compact >"$top/mnt/w/.ctl"
		done
	) &
	local writer=$! until=$((SECONDS + ${READ_SECONDS:-30}))
	while ((SECONDS < until)); do
		t=$EPOCHREALTIME
		cat "$top/mnt/t/r/f/q" >/dev/null || die "cat"
		t=$(since "$t")
		n=$((n + 1))
		worst=$(awk -v a="$worst" -v b="$t" 'BEGIN { print (b > a ? b : a) }')
	done
	say "$n cats during heavy writes and compactions: slowest $worst s; $(grep -E 'compactions_(minor|merging|major)|write_stalls' "$top/mnt/.tabletfs/metrics" | grep -v "^#" | tr '\n' ' ')"
	kill "$writer"
	wait "$writer" 2>/dev/null
	stop
	rm -rf "$top/data"
}

part=conditions
say "$("$TABLETFS" -V 2>&1 | grep -m1 tabletfs); $(nproc) CPUs, load $(cut -d' ' -f1 /proc/loadavg), $(df --output=fstype "$top" | tail -1)"
for name in ${parts//,/ }; do
	case $name in
	list | open | cost | bounded | reads)
		part=$name
		"part_$name"
		;;
	*) die "$name: no such part" ;;
	esac
done
