#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The mount beside the same tree as plain files on this disk's file system.
#
#	t/bench/mount.sh [-n ROWS] [-c CELLS] [-b BYTES] [-d DIR] [-s STATES] [-P] [-U] [-o LINES]
#
#	-n, -c, -b  rows (10000), cells a row (10), bytes a cell (1000)
#	-d          where (a new directory under /var/tmp); must be on the file
#	            system to compare with
#	-s          states of the store to read: compacted,spread (both).  spread:
#	            several SSTables, and the last part of the cells in the log and
#	            memtable (the daemon is killed before each line)
#	-P, -U      only pinned to one CPU, only unpinned (both)
#	-o          only these lines, joined by commas: write stat tar randread
#	            rsync size streams
#
# Environment: TABLETFS, TABLETCTL the programs (build/ beside the sources).
# Root is needed to drop caches.  Printed: the plain tree's seconds divided by
# ours, so higher is better.  Cold: caches dropped and daemon started anew
# before the line; warm: a second run.  Nothing is asserted.
#
# All lines are also run against a daemon with nothing behind it (empty.c), which
# shows how much of the ratio is FUSE's own cost.  It keeps the tree in memory, so of
# its cold lines only the kernel's caches are cold.
#
# Values are real text, cut from the documentation on this machine.
set -u -o pipefail
src=$(cd "$(dirname "$0")/../.." && pwd)
TABLETFS=${TABLETFS:-$src/build/tabletfs}
rows=10000 cells=10 bytes=1000 top='' states=compacted,spread pins='pinned unpinned' only=write,stat,tar,randread,rsync,size,streams
export LC_ALL=C

usage() { sed -n '3,28s/^# \{0,1\}//p' "$0"; exit "$1"; }
die() { echo "mount.sh: $*" >&2; exit 2; }
while getopts n:c:b:d:s:PUo:h option; do
	case $option in
	n) rows=$OPTARG ;;
	c) cells=$OPTARG ;;
	b) bytes=$OPTARG ;;
	d) top=$OPTARG ;;
	s) states=$OPTARG ;;
	P) pins=pinned ;;
	U) pins=unpinned ;;
	o) only=$OPTARG ;;
	h) usage 0 ;;
	*) usage 2 >&2 ;;
	esac
done
[ -x "$TABLETFS" ] || die "$TABLETFS: not there; build first, or set TABLETFS"
[ -w /proc/sys/vm/drop_caches ] || die "dropping caches needs root"
if [ -z "$top" ]; then top=$(mktemp -d /var/tmp/tabletfs-mount-XXXXXX); else mkdir -p "$top" || exit 2; fi
daemon='' pin=()
cleanup() {
	mounted && fusermount3 -uz "$top/mnt"
	[ -z "$daemon" ] || { wait "$daemon" 2>/dev/null; }
	rm -rf "${top:?}"/{plain,out,in,data,mnt,walk,text,names,tar}*
	rmdir "$top" 2>/dev/null
}
trap cleanup EXIT
trap 'exit 1' INT TERM

wanted() { case ,$only, in *,$1,*) ;; *) return 1 ;; esac; }
mounted() { grep -qF " $top/mnt fuse" /proc/self/mounts; }
run_daemon() { # run_daemon COMMAND...: waits until the mount answers
	"${pin[@]}" "$@" </dev/null >"$top/data.log" 2>&1 &
	daemon=$!
	until mounted && stat -f "$top/mnt" >/dev/null 2>&1; do
		kill -0 "$daemon" 2>/dev/null || { cat "$top/data.log" >&2; die "the daemon ended"; }
		read -r -t 0.02 < <(sleep 1)
	done
}
start() { run_daemon "$TABLETFS" -f "$top/data" "$top/mnt" "$@"; } # start [OPTION...]
stop() { # stop [kill]
	[ -n "$daemon" ] || return 0
	if [ "${1:-}" = kill ]; then
		kill -9 "$daemon"
		wait "$daemon" 2>/dev/null
		umount -l "$top/mnt"
	else
		fusermount3 -u "$top/mnt" || die "cannot be unmounted"
		wait "$daemon" || die "the daemon failed: $(tail -1 "$top/data.log")"
	fi
	daemon=
}
drop() { sync; echo 3 >/proc/sys/vm/drop_caches; }
# seconds COMMAND...: sets $s; to "-" when the command fails
seconds() {
	local from=$EPOCHREALTIME
	"${pin[@]}" "$@" >/dev/null || { echo "mount.sh: failed: $*" >&2; s=-; return; }
	s=$(awk -v a="$from" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f", b - a }')
}
report() { # report LINE PLAIN OURS
	case $2$3 in *-*) printf '%-44s %10s %10s   failed\n' "$1" "$2" "$3"; return ;; esac
	awk -v l="$1" -v p="$2" -v o="$3" 'BEGIN { printf "%-44s %10.3f %10.3f %8.2f\n", l, p, o, (o > 0 ? p / o : 0) }'
}
heading() { printf '\n%s\n%-44s %10s %10s %8s\n' "$1" line 'ext4 s' 'ours s' ratio; }
tar_out() { tar cf - -C "$1" . | cat; }
randread() { "$top/walk" randread "$1" "$reads" 7 <"$2"; }
export -f tar_out
pin_name() { if [ "$1" = pinned ]; then pin=(taskset -c 0); else pin=(); fi; }

# ---- what both sides are made of ----
${CC:-cc} -O2 -D_GNU_SOURCE -o "$top/walk" "$src/t/bench/walk.c" || die "no C compiler"
find /usr/share/doc /usr/share/perl /usr/share/perl5 -type f ! -name '*.gz' -size -2M -print0 2>/dev/null |
	sort -z | xargs -0 cat 2>/dev/null | tr -d '\000' | head -c 64M >"$top/text"
[ "$(stat -c %s "$top/text")" -gt $((1 << 20)) ] || die "not enough text under /usr/share/doc"
# shellcheck disable=SC2046 # the flags are words
${CC:-cc} -O2 -D_GNU_SOURCE $(pkg-config --cflags fuse3) -o "$top/walk-empty" "$src/t/bench/empty.c" $(pkg-config --libs fuse3) ||
	die "libfuse3-dev is needed"
mkdir -p "$top/plain" "$top/mnt"
"$top/walk" create "$top/plain" "$rows" "$cells" "$bytes" "$top/text" 0 >/dev/null || exit 2
tar cf "$top/tar" -C "$top/plain" . || exit 2
reads=$((rows * cells / 2))
(cd "$top/plain" && find . -type f) >"$top/names"
sed "s|^\.|$top/plain|" "$top/names" >"$top/names.plain"
sed "s|^\.|$top/mnt/t|" "$top/names" >"$top/names.mnt"
echo "mount: $((rows * cells)) cells of $bytes bytes in $rows rows; $TABLETFS"

# ---- writing: each line into a fresh table, and a fresh directory ----
write_line() { # write_line NAME FUNCTION
	rm -rf "$top/in"
	mkdir "$top/in"
	drop
	"$2" "$top/in"
	plain=$s
	rm -rf "$top/in" "$top/data"
	run_daemon "$top/walk-empty" -f "$top/mnt"
	mkdir "$top/mnt/t"
	drop
	"$2" "$top/mnt/t"
	stop
	report "$1: an empty daemon" "$plain" "$s"
	start
	mkdir "$top/mnt/t" "$top/mnt/t/.families/f"
	drop
	"$2" "$top/mnt/t"
	stop
	report "$1" "$plain" "$s"
}
do_create() { seconds "$top/walk" create "$1" "$rows" "$cells" "$bytes" "$top/text" 0; }
do_untar() { seconds tar xf "$top/tar" -C "$1"; }
do_rsync_in() { seconds rsync -a "$top/plain/" "$1/"; }
write_lines() {
	write_line 'create and write' do_create
	write_line 'tar x' do_untar
	write_line 'rsync in' do_rsync_in
}

# ---- streams: a whole table through one file ----
stream_in() { # stream_in NAME SOURCE CONTROL: beside the last $plain
	rm -rf "$top/data"
	start
	mkdir "$top/mnt/t" "$top/mnt/t/.families/f"
	drop
	seconds cp "$2" "$top/mnt/t/$3"
	report "$1" "$plain" "$s"
}
stream_out() { cat "$1" | cat; }
export -f stream_out
streams() {
	local bytes
	rm -rf "$top/in"
	mkdir "$top/in"
	drop
	do_untar "$top/in"
	plain=$s
	stream_in '.import.tar, beside tar x' "$top/tar" .import.tar
	cat "$top/mnt/t/.scan/.tsv" >"$top/tar.tsv"
	bytes=$(stat -c %s "$top/tar.tsv")
	stop
	stream_in '.import, beside tar x' "$top/tar.tsv" .import
	echo compact >"$top/mnt/t/.ctl"
	seconds bash -c "tar_out $top/in"
	seconds bash -c "tar_out $top/in"
	plain=$s
	seconds bash -c "stream_out $top/mnt/t/.export.tar"
	seconds bash -c "stream_out $top/mnt/t/.export.tar"
	report '.export.tar, beside tar c, warm' "$plain" "$s"
	seconds bash -c "stream_out $top/mnt/t/.scan/.tsv"
	seconds bash -c "stream_out $top/mnt/t/.scan/.tsv"
	report '.scan/.tsv, beside tar c, warm' "$plain" "$s"
	awk -v b="$bytes" -v s="$s" 'BEGIN { printf "tsv: %.0f MB/s\n", b / s / 1e6 }'
	stop
}

# ---- a store in a state, made through the mount ----
make_state() {
	local third=$((rows / 3)) rest
	rest=$((rows - 2 * third))
	rm -rf "$top/data"
	start
	mkdir "$top/mnt/t" "$top/mnt/t/.families/f"
	if [ "$1" = compacted ]; then
		tar xf "$top/tar" -C "$top/mnt/t" || die "tar x"
		echo compact >"$top/mnt/t/.ctl" || die "compact"
		stop
	else
		"$top/walk" create "$top/mnt/t" "$third" "$cells" "$bytes" "$top/text" 0 >/dev/null || exit 2
		echo flush >"$top/mnt/t/.ctl" || die "flush"
		"$top/walk" create "$top/mnt/t" "$third" "$cells" "$bytes" "$top/text" "$third" >/dev/null || exit 2
		echo flush >"$top/mnt/t/.ctl" || die "flush"
		"$top/walk" create "$top/mnt/t" "$rest" "$cells" "$bytes" "$top/text" $((2 * third)) >/dev/null || exit 2
		sync -f "$top/mnt/t"
		stop kill
		rm -rf "$top/data.state"
		cp -a "$top/data" "$top/data.state"
	fi
}
again() { # again STATE OPTION...: the store in its state, mounted, all caches cold
	local state=$1
	shift
	if [ "$state" = spread ]; then
		stop kill
		rm -rf "$top/data"
		cp -a "$top/data.state" "$top/data"
	else
		stop
	fi
	drop
	start "$@"
}

# ---- reading ----
plain_reads() { # once for each pinning: sets p_*
	if wanted stat; then
		drop; seconds "$top/walk" stat "$top/plain"; p_stat_cold=$s
		seconds "$top/walk" stat "$top/plain"; p_stat_warm=$s
	fi
	if wanted tar; then
		drop; seconds bash -c "tar_out $top/plain"; p_tar_cold=$s
		seconds bash -c "tar_out $top/plain"; p_tar_warm=$s
	fi
	if wanted randread; then
		drop; s=$("${pin[@]}" "$top/walk" randread "$top/plain" "$reads" 7 <"$top/names.plain" | cut -d' ' -f1); p_rand_cold=$s
		s=$("${pin[@]}" "$top/walk" randread "$top/plain" "$reads" 7 <"$top/names.plain" | cut -d' ' -f1); p_rand_warm=$s
	fi
}
our_reads() { # our_reads STATE ro|rw
	local mode=(-o "$2")
	if wanted stat; then
		again "$1" "${mode[@]}"
		seconds "$top/walk" stat "$top/mnt/t"; report "$2 $1: stat of all, cold" "$p_stat_cold" "$s"
		seconds "$top/walk" stat "$top/mnt/t"; report "$2 $1: stat of all, warm" "$p_stat_warm" "$s"
	fi
	if wanted tar; then
		again "$1" "${mode[@]}"
		seconds bash -c "tar_out $top/mnt/t"; report "$2 $1: tar, cold" "$p_tar_cold" "$s"
		seconds bash -c "tar_out $top/mnt/t"; report "$2 $1: tar, warm" "$p_tar_warm" "$s"
	fi
	if wanted randread; then
		again "$1" "${mode[@]}"
		s=$("${pin[@]}" "$top/walk" randread "$top/mnt/t" "$reads" 7 <"$top/names.mnt" | cut -d' ' -f1)
		report "$2 $1: random open-read-close, cold" "$p_rand_cold" "$s"
		s=$("${pin[@]}" "$top/walk" randread "$top/mnt/t" "$reads" 7 <"$top/names.mnt" | cut -d' ' -f1)
		report "$2 $1: random open-read-close, warm" "$p_rand_warm" "$s"
	fi
}
empty_reads() { # the same tree of a daemon with nothing behind it
	stop
	run_daemon "$top/walk-empty" -f "$top/mnt"
	mkdir "$top/mnt/t"
	tar xf "$top/tar" -C "$top/mnt/t" || die "tar x"
	if wanted stat; then
		drop; seconds "$top/walk" stat "$top/mnt/t"; report "stat of all, cold: an empty daemon" "$p_stat_cold" "$s"
		seconds "$top/walk" stat "$top/mnt/t"; report "stat of all, warm: an empty daemon" "$p_stat_warm" "$s"
	fi
	if wanted tar; then
		drop; seconds bash -c "tar_out $top/mnt/t"; report "tar, cold: an empty daemon" "$p_tar_cold" "$s"
		seconds bash -c "tar_out $top/mnt/t"; report "tar, warm: an empty daemon" "$p_tar_warm" "$s"
	fi
	if wanted randread; then
		drop
		s=$("${pin[@]}" "$top/walk" randread "$top/mnt/t" "$reads" 7 <"$top/names.mnt" | cut -d' ' -f1)
		report "random open-read-close, cold: an empty daemon" "$p_rand_cold" "$s"
		s=$("${pin[@]}" "$top/walk" randread "$top/mnt/t" "$reads" 7 <"$top/names.mnt" | cut -d' ' -f1)
		report "random open-read-close, warm: an empty daemon" "$p_rand_warm" "$s"
	fi
	stop
}
rsync_out() { # rsync_out STATE
	rm -rf "$top/out"*
	drop; seconds rsync -a "$top/plain/" "$top/out1/"; local first=$s
	drop; seconds rsync -a "$top/plain/" "$top/out1/"; local noop=$s
	again "$1" -o rw
	seconds rsync -a "$top/mnt/t/" "$top/out2/"; report "rw $1: rsync out, first copy, cold" "$first" "$s"
	again "$1" -o rw
	seconds rsync -a "$top/mnt/t/" "$top/out2/"; report "rw $1: rsync out, nothing to do, cold" "$noop" "$s"
	rm -rf "$top/out"*
}
print_size() {
	stop
	local ours plain
	ours=$(find "$top/data/sst" -name '*.sst' -printf '%s\n' | awk '{ s += $1 } END { print s + 0 }')
	plain=$(du -s --block-size=1 "$top/plain" | cut -f1)
	awk -v o="$ours" -v p="$plain" 'BEGIN { printf "size: sst/ %d bytes after compact, plain tree %d bytes on disk: ours is 1/%.1f\n", o, p, p / o }'
}

for p in $pins; do
	pin_name "$p"
	if wanted write; then
		heading "Writing, $p"
		write_lines
	fi
	if wanted streams; then
		heading "Streams, $p"
		streams
	fi
done
case ,$only, in *,stat,* | *,tar,* | *,randread,* | *,rsync,* | *,size,*) ;; *) exit 0 ;; esac
for state in ${states//,/ }; do
	pin=()
	make_state "$state"
	for p in $pins; do
		pin_name "$p"
		heading "Reading, $p, the store $state"
		plain_reads
		empty_reads
		for mode in ro rw; do our_reads "$state" "$mode"; done
		! wanted rsync || rsync_out "$state"
	done
	stop
	if [ "$state" = compacted ] && wanted size; then
		echo
		print_size
	fi
done
