#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Mounts of a store that another process serves.
#
#	t/bench/remote.sh [-n ROWS] [-c CELLS] [-b BYTES] [-r ROUNDS] [-d DIR]
#
#	-n, -c, -b  rows (1000), cells a row (10), bytes a cell (1000)
#	-r          rounds (5): in each, both sides run in turn; the medians count
#	-d          where (a new directory under /var/tmp)
#
# Two tables are printed: seconds of the rival, seconds of ours, and the median of the ratios of the
# rounds, so higher is better and 1 is as fast.  The first table also has the ratio of processor time, of
# all processes, which others on the machine change less.  First a mount over the Unix socket against a mount
# that has a copy of the store open.  Then a mount over ssh to this host against sshfs of the same tree
# as plain files, over the same sshd.  "latest" is the tree below .latest, else that of Q@TS names.
# Cold: the mount is made anew and caches are dropped before; warm: a run before.
#
# Environment: TABLETFS, TABLETCTL the programs (build/ beside the sources).  Needs root, sshd and
# sshfs.  Nothing is asserted.
set -u -o pipefail
src=$(cd "$(dirname "$0")/../.." && pwd)
TABLETFS=${TABLETFS:-$src/build/tabletfs} TABLETCTL=${TABLETCTL:-$src/build/tabletctl}
rows=1000 cells=10 bytes=1000 rounds=5 top=
export LC_ALL=C
usage() { sed -n '3,20s/^# \{0,1\}//p' "$0"; exit "$1"; }
die() { echo "remote.sh: $*" >&2; exit 2; }
while getopts n:c:b:r:d:h option; do
	case $option in
	n) rows=$OPTARG ;;
	c) cells=$OPTARG ;;
	b) bytes=$OPTARG ;;
	r) rounds=$OPTARG ;;
	d) top=$OPTARG ;;
	h) usage 0 ;;
	*) usage 2 >&2 ;;
	esac
done
[ "$(id -u)" = 0 ] || die "needs root"
command -v sshfs >/dev/null && [ -x /usr/sbin/sshd ] || die "needs sshfs and sshd"
[ -n "$top" ] || top=$(mktemp -d /var/tmp/tabletfs-remote-XXXXXX)
mkdir -p "$top"/{open,unix,ssh,sshfs,plain} /run/sshd || exit 2
sshd='' server='' pid_open='' pid_unix=''
cleanup() {
	for m in open unix ssh sshfs; do fusermount3 -uz "$top/$m" 2>/dev/null; done
	kill $sshd $server 2>/dev/null
	wait 2>/dev/null
	rm -rf "$top"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# ---- sshd ----
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
ssh-keygen -q -t ed25519 -N '' -f "$top/hostkey" && ssh-keygen -q -t ed25519 -N '' -f "$top/key" || exit 2
printf '%s\n' "ListenAddress 127.0.0.1:$port" "HostKey $top/hostkey" "AuthorizedKeysFile $top/key.pub" 'StrictModes no' \
	'UsePAM no' 'PidFile none' 'PermitRootLogin yes' "SetEnv PATH=$(dirname "$TABLETCTL"):/usr/bin:/bin" \
	'Subsystem sftp internal-sftp' >"$top/sshd_config"
/usr/sbin/sshd -D -f "$top/sshd_config" &
sshd=$!
for ((i = 0; i < 200; i++)); do (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break; sleep 0.05; done
ssh_options="-p $port -i $top/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
export TABLETFS_SSH="ssh $ssh_options"

# ---- the tree ----
python3 - "$top/plain" "$rows" "$cells" "$bytes" <<'PY'
import os, random, sys
top, rows, cells, size = sys.argv[1], *map(int, sys.argv[2:])
r = random.Random(1)
words = [bytes(r.choices(b"abcdefghijklmnopqrstuvwxyz", k=r.randrange(2, 9))) for _ in range(2000)]
for i in range(rows):
    os.makedirs(f"{top}/row{i:06}/f")
    for c in range(cells):
        with open(f"{top}/row{i:06}/f/c{c:02}", "wb") as f:
            f.write(b" ".join(r.choices(words, k=size // 5))[:size])
PY
# foreground SIDE SOURCE: mounts, and sets the variable "pid_" and SIDE.
foreground() {
	"$TABLETFS" -f "$2" "$top/$1" >/dev/null 2>&1 &
	declare -g "pid_$1=$!"
	while ! mountpoint -q "$top/$1"; do sleep 0.02; done
}
mount_open() { foreground open "$top/${1:-copy}"; }
mount_unix() { foreground unix "unix:$top/data"; }
mount_ssh() { "$TABLETFS" "root@127.0.0.1:$top/data" "$top/ssh"; }
mount_sshfs() { sshfs ${ssh_options/-i /-o IdentityFile=} "root@127.0.0.1:$top/plain" "$top/sshfs"; }
end() {
	local pid=pid_$1
	fusermount3 -u "$top/$1"
	while mountpoint -q "$top/$1"; do sleep 0.02; done
	[ -z "${!pid:-}" ] || wait "${!pid}"
}
await_end() { while [ -S "$top/data/socket" ]; do sleep 0.02; done; }
mount_open data || exit 2
mkdir "$top/open/t" "$top/open/t/.families/f" && cp -r "$top/plain/." "$top/open/t/.latest/" && echo compact >"$top/open/t/.ctl" || exit 2
end open
await_end
cp -r "$top/data" "$top/copy"

# ---- the work ----
drop() { sync; echo 3 >/proc/sys/vm/drop_caches; }
stat_all() { find "$1" -printf '%s %T@\n' >/dev/null; }
list_all() { ls -lR "$1" >/dev/null; }
tar_out() { tar cf - -C "$1" . | cat >/dev/null; }
random_read() {
	python3 - "$1" "$2" "$rows" "$cells" <<'PY'
import glob, os, random, sys
top, kind, rows, cells = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
r = random.Random(3)
for _ in range(1000):
    d = f"{top}/row{r.randrange(rows):06}/f"
    c = f"c{r.randrange(cells):02}"
    name = c if kind == "plain" else next(n for n in os.listdir(d) if n.startswith(c + "@"))
    with open(f"{d}/{name}", "rb") as f:
        f.read()
PY
}
# ticks SIDE: processor time of the processes behind the mount, in hundredths of a second.
ticks() {
	case $1 in
	open) cat "/proc/$pid_open/stat" ;;
	unix) cat "/proc/$pid_unix/stat" "/proc/$server/stat" ;;
	esac | awk '{ n += $14 + $15 } END { print n + 0 }'
}
# seconds SIDE COMMAND...: the time by the clock and the processor time, also of the command.
seconds() {
	local side=$1 before
	shift
	before=$(ticks "$side")
	{ TIMEFORMAT='%R %U %S'; time "$@" >/dev/null 2>&1; } 2>&1 | tr '\n' ' '
	echo "$(($(ticks "$side") - before))"
}
# pair NAME SIDE COMMAND ARGUMENT... -- SIDE COMMAND ARGUMENT...: the rival, then ours.  SIDE is the mount, which COLD=1 makes anew.
prepare() {
	[ -n "${COLD:-}" ] || return 0
	end "$1"
	drop
	"mount_$1"
}
pair() {
	local name=$1 rival ours i lines=
	shift
	local -a a=() b=()
	while [ "$1" != -- ]; do a+=("$1"); shift; done
	shift
	b=("$@")
	if [ -z "${COLD:-}" ]; then
		"${a[@]:1}" >/dev/null 2>&1
		"${b[@]:1}" >/dev/null 2>&1
	fi
	for ((i = 0; i < rounds; i++)); do
		prepare "${a[0]}"
		rival=$(seconds "${a[@]}")
		prepare "${b[0]}"
		ours=$(seconds "${b[@]}")
		lines+="$rival $ours"$'\n'
	done
	python3 - "$name" "$lines" "${a[0]}" <<'PY'
import statistics, sys
m = statistics.median
v = [list(map(float, x.split())) for x in sys.argv[2].splitlines()]
clock = [(a[0], a[4]) for a in v]
used = [(a[1] + a[2] + a[3] / 100, a[5] + a[6] + a[7] / 100) for a in v]
print("%-34s %8.3f s %8.3f s %7.2f" % (sys.argv[1], m(a for a, _ in clock), m(b for _, b in clock), m(a / b for a, b in clock))
      + (" %9.2f" % m(a / b for a, b in used) if sys.argv[3] == "open" else ""), flush=True)
PY
}

echo "$rows rows, $cells cells of $bytes bytes; $(nproc) processors; medians of $rounds rounds"
printf '%-34s %10s %10s %7s %9s\n' "mount" "open" "unix" "ratio" "processor"
"$TABLETFS-server" -f "$top/data" &
server=$!
while [ ! -S "$top/data/socket" ]; do sleep 0.02; done
mount_open && mount_unix || exit 2
o=$top/open/t u=$top/unix/t
pair "warm stat" open stat_all "$o" -- unix stat_all "$u"
pair "warm tar" open tar_out "$o" -- unix tar_out "$u"
pair "warm random read" open random_read "$o" versions -- unix random_read "$u" versions
pair "warm tar, latest" open tar_out "$o/.latest" -- unix tar_out "$u/.latest"
pair "warm random read, latest" open random_read "$o/.latest" plain -- unix random_read "$u/.latest" plain
COLD=1 pair "cold tar" open tar_out "$o" -- unix tar_out "$u"
COLD=1 pair "cold tar, latest" open tar_out "$o/.latest" -- unix tar_out "$u/.latest"
end open
end unix

printf '%-34s %10s %10s %7s\n' "over ssh" "sshfs" "ours" "ratio"
mount_sshfs && mount_ssh || exit 2
s=$top/sshfs o=$top/ssh/t
COLD=1 pair "cold ls -lR" sshfs list_all "$s" -- ssh list_all "$o"
COLD=1 pair "cold ls -lR, latest" sshfs list_all "$s" -- ssh list_all "$o/.latest"
COLD=1 pair "cold tar out" sshfs tar_out "$s" -- ssh tar_out "$o"
COLD=1 pair "cold tar out, latest" sshfs tar_out "$s" -- ssh tar_out "$o/.latest"
COLD=1 pair "cold 1,000 random reads" sshfs random_read "$s" plain -- ssh random_read "$o" versions
COLD=1 pair "cold 1,000 random reads, latest" sshfs random_read "$s" plain -- ssh random_read "$o/.latest" plain
pair "warm ls -lR" sshfs list_all "$s" -- ssh list_all "$o"
pair "warm ls -lR, latest" sshfs list_all "$s" -- ssh list_all "$o/.latest"
pair "warm tar out" sshfs tar_out "$s" -- ssh tar_out "$o"
pair "warm tar out, latest" sshfs tar_out "$s" -- ssh tar_out "$o/.latest"
pair "warm 1,000 random reads" sshfs random_read "$s" plain -- ssh random_read "$o" versions
pair "warm 1,000 random reads, latest" sshfs random_read "$s" plain -- ssh random_read "$o/.latest" plain
tar cf "$top/tree.tar" -C "$top/plain" .
mkdir "$top/in"
mount_sshfs_in() { sshfs ${ssh_options/-i /-o IdentityFile=} "root@127.0.0.1:$top/in" "$top/sshfs"; }
end sshfs
mount_sshfs_in || exit 2
tar_in() {
	local in
	in=$1/u$(date +%s%N)
	mkdir "$in"
	[ "$1" = "$top/sshfs" ] || mkdir "$in/.families/f"
	tar xf "$top/tree.tar" -C "$in$2" --no-same-owner --no-same-permissions -m
}
rounds=$(((rounds + 1) / 2))
pair "tar in" sshfs tar_in "$top/sshfs" "" -- ssh tar_in "$top/ssh" /.latest
