#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Mounts of a store that another process serves.
#
#	t/bench/remote.sh [-n ROWS] [-c CELLS] [-b BYTES] [-r ROUNDS] [-d DIR]
#
#	-n, -c, -b  rows (1000), cells a row (10), bytes a cell (1000)
#	-r          rounds (3); the best one of each side counts
#	-d          where (a new directory under /var/tmp)
#
# Two tables are printed.  First a mount over the Unix socket against a mount that has the store
# open: the seconds of the second divided by those of the first, so higher is better and 1 is as
# fast.  Then a mount over ssh to this host against sshfs of the same tree as plain files, over the
# same sshd: the seconds of sshfs divided by ours.  "latest" is the tree below .latest.
# Cold: the mount is made anew and caches are dropped before; warm: a run before.
#
# Environment: TABLETFS, TABLETCTL the programs (build/ beside the sources).  Needs root, sshd and
# sshfs.  Nothing is asserted.
set -u -o pipefail
src=$(cd "$(dirname "$0")/../.." && pwd)
TABLETFS=${TABLETFS:-$src/build/tabletfs} TABLETCTL=${TABLETCTL:-$src/build/tabletctl}
rows=1000 cells=10 bytes=1000 rounds=3 top=
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
sshd='' server=''
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
mount_open() { "$TABLETFS" "$top/data" "$top/open"; }
mount_unix() { "$TABLETFS" "unix:$top/data" "$top/unix"; }
mount_ssh() { "$TABLETFS" "root@127.0.0.1:$top/data" "$top/ssh"; }
mount_sshfs() { sshfs ${ssh_options/-i /-o IdentityFile=} "root@127.0.0.1:$top/plain" "$top/sshfs"; }
end() { fusermount3 -u "$top/$1"; while mountpoint -q "$top/$1"; do sleep 0.02; done; }
await_end() { while [ -S "$top/data/socket" ]; do sleep 0.02; done; }
mount_open || exit 2
mkdir "$top/open/t" "$top/open/t/.families/f" && cp -r "$top/plain/." "$top/open/t/.latest/" && echo compact >"$top/open/t/.ctl" || exit 2
end open
await_end

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
# best COMMAND...: the seconds of the fastest round.  PREPARE runs before each.
best() {
	local i b='' s
	for ((i = 0; i < rounds; i++)); do
		eval "${PREPARE:-:}"
		s=$({ TIMEFORMAT=%R; time "$@" 2>/dev/null; } 2>&1)
		b=$(awk -v a="${b:-$s}" -v s="$s" 'BEGIN { print a < s ? a : s }')
	done
	echo "$b"
}
ratio() { awk -v name="$1" -v rival="$2" -v ours="$3" 'BEGIN { printf "%-34s %8.3f s %8.3f s %7.2f\n", name, rival, ours, rival / ours }'; }

# lines NAME: prints the seconds of each line on a mount, in the order of `names`.
names=("warm stat" "warm tar, Q@TS" "warm random read, Q@TS" "warm tar, latest" "warm random read, latest" "cold tar, Q@TS")
lines() {
	local m=$top/$1
	"mount_$1" || exit 2
	stat_all "$m/t"
	best stat_all "$m/t"
	tar_out "$m/t"
	best tar_out "$m/t"
	best random_read "$m/t" versions
	tar_out "$m/t/.latest"
	best tar_out "$m/t/.latest"
	best random_read "$m/t/.latest" plain
	PREPARE="end $1; drop; mount_$1" best tar_out "$m/t"
	end "$1"
}
echo "$rows rows, $cells cells of $bytes bytes; $(nproc) processors"
printf '%-34s %10s %10s %7s\n' "mount" "open" "unix" "ratio"
mapfile -t open < <(lines open)
await_end
"$TABLETFS-server" -f "$top/data" &
server=$!
while [ ! -S "$top/data/socket" ]; do sleep 0.02; done
mapfile -t unix < <(lines unix)
for i in "${!names[@]}"; do ratio "${names[i]}" "${open[i]}" "${unix[i]}"; done

printf '%-34s %10s %10s %7s\n' "over ssh" "sshfs" "ours" "ratio"
mount_sshfs && mount_ssh || exit 2
ours=$top/ssh/t/.latest
PREPARE="end sshfs; end ssh; drop; mount_sshfs; mount_ssh"
ratio "cold ls -lR" "$(best list_all "$top/sshfs")" "$(best list_all "$ours")"
ratio "cold tar out" "$(best tar_out "$top/sshfs")" "$(best tar_out "$ours")"
ratio "cold 1,000 random reads" "$(best random_read "$top/sshfs" plain)" "$(best random_read "$ours" plain)"
PREPARE=
ratio "warm ls -lR" "$(best list_all "$top/sshfs")" "$(best list_all "$ours")"
ratio "warm tar out" "$(best tar_out "$top/sshfs")" "$(best tar_out "$ours")"
ratio "warm 1,000 random reads" "$(best random_read "$top/sshfs" plain)" "$(best random_read "$ours" plain)"
tar cf "$top/tree.tar" -C "$top/plain" .
mkdir "$top/ssh/u" "$top/ssh/u/.families/f" "$top/sshfs/in"
tar_in() { tar xf "$top/tree.tar" -C "$1" --no-same-owner --no-same-permissions -m; }
rounds=1
ratio "tar in" "$(best tar_in "$top/sshfs/in")" "$(best tar_in "$top/ssh/u/.latest")"
