# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Functions for tests of a mounted store; sourced by the mount tests (t/4*.t to t/8*.t).
#
# Each test script has its own work directory $W, data directory $D and mount
# point $M.  mount_store [ARGUMENT...] mounts the store and waits until the
# mount answers.  unmount_store unmounts it, requires that the daemon's exit
# status is 0, and checks the data directory.  When the script ends, the trap
# unmounts the rest.  A watchdog aborts a mount that hangs for
# LIMIT seconds: each call on it then fails, and so does the test.
#
# TAP: ok DESC COMMAND..., fails DESC PATTERN COMMAND..., is, like, unlike,
# same (two files), py (a Python snippet that uses tap.py), then done_testing.
# TABLETFS=PROGRAM and MODEL=1 run a test with another daemon, which loses its
# data at an unmount.  OVER=unix runs it on a mount that reaches the store through the socket of a
# second daemon, which serves it; OVER=cluster on a mount of a cluster in $C.
set -u
SRC=$(cd "${SRC:-$(dirname "$0")/..}" && pwd)
BUILD=$(cd "${BUILD:-.}" && pwd)
TABLETFS=${TABLETFS:-$BUILD/tabletfs}
SERVER=$TABLETFS-server
TABLETCTL=${TABLETCTL:-$BUILD/tabletctl}
MODEL=${MODEL:-}
OVER=${OVER:-}
LIMIT=${LIMIT:-600}
export LC_ALL=C.UTF-8 TZ=UTC PYTHONPATH="$SRC/t/lib" PYTHONDONTWRITEBYTECODE=1
unset CDPATH POSIXLY_CORRECT
unset GLIBC_TUNABLES # of t/lib/run: the daemon's memory is a subject of tests

test_number=0
test_failures=0
daemon=
server=
second=
finished=

diag() { cut -b 1-300 | sed 's/^/# /' | head -n "${DIAG_LINES:-25}"; }
pass() { test_number=$((test_number + 1)); echo "ok $test_number - ${1//#/\\#}"; }
fail() {
	test_number=$((test_number + 1))
	test_failures=$((test_failures + 1))
	echo "not ok $test_number - ${1//#/\\#}"
}
skip_all() { finished=1; echo "1..0 # SKIP $1"; exit 0; }
# The machine lacks something that the test needs.  In CI this is a failure.
cannot_run() {
	if [ "${CI:-}" = true ]; then
		finished=1
		echo "not ok 1 - $1"
		echo "1..1"
		exit 1
	fi
	skip_all "$1"
}
skip() { test_number=$((test_number + 1)); echo "ok $test_number - $1 # SKIP $2"; }
done_testing() {
	finished=1
	[ -z "$daemon" ] || unmount_store
	echo "1..$test_number"
	[ $test_failures = 0 ]
	exit
}

# matches PATTERN: whether a line of the standard input, a file or a here-string, matches the ERE.  Without a process for short texts.
matches() {
	local line
	local -a lines=()
	if [[ $1 == *[{$'\n']* ]]; then # where grep differs from regcomp(3)
		grep -Eq -- "$1"
		return
	fi
	mapfile -t -n 200 lines
	for line in "${lines[@]}"; do
		[[ $line =~ $1 ]] && return
	done
	[ ${#lines[@]} = 200 ] && grep -Eq -- "$1"
}
# ok DESC COMMAND...: the command must succeed.
ok() {
	local what=$1
	shift
	if "$@" >"$W/.out" 2>&1; then pass "$what"; else
		local status=$?
		fail "$what"
		{ echo "status $status: $*"; cat "$W/.out"; } | diag
	fi
}
# fails DESC PATTERN COMMAND...: the command must fail, with output that matches PATTERN (an ERE).
fails() {
	local what=$1 pattern=$2
	shift 2
	if "$@" >"$W/.out" 2>&1; then
		fail "$what"
		echo "succeeded: $*" | diag
	elif ! matches "$pattern" <"$W/.out"; then
		fail "$what"
		{ echo "not /$pattern/: $*"; cat "$W/.out"; } | diag
	else
		pass "$what"
	fi
}
# is GOT WANTED DESC
is() {
	if [ "$1" = "$2" ]; then pass "$3"; else
		fail "$3"
		{ echo "got:    $1"; echo "wanted: $2"; } | diag
	fi
}
# soon COMMAND-STRING WANTED DESC: like "is", but repeats the command for up to 60 s until it prints WANTED.  The kernel
# sends RELEASE after close has returned, so a commit at RELEASE may be visible a moment later.
soon() {
	local i got
	for ((i = 0; i < 1200; i++)); do
		got=$(eval "$1" 2>&1)
		[ "$got" != "$2" ] || break
		read -r -t 0.05 <>"$W/.never" || :
	done
	is "$got" "$2" "$3"
}
like() {
	if matches "$2" <<<"$1"; then pass "$3"; else
		fail "$3"
		{ echo "got: $1"; echo "wanted /$2/"; } | diag
	fi
}
unlike() {
	if ! matches "$2" <<<"$1"; then pass "$3"; else
		fail "$3"
		{ echo "got: $1"; echo "wanted no /$2/"; } | diag
	fi
}
# same FILE FILE DESC: both files have the same bytes.
same() {
	if cmp -- "$1" "$2" >"$W/.out" 2>&1; then pass "$3"; else
		fail "$3"
		{ cat "$W/.out"; diff -U2 -- "$1" "$2"; } 2>&1 | diag
	fi
}
# Runs the Python snippet on stdin.  tap.py prints TAP lines without numbers; they are numbered here.
py() {
	local line status
	timeout -k 5 "${PY_LIMIT:-600}" python3 -u - "$@" >"$W/.py" 2>"$W/.pyerr"
	status=$?
	while IFS= read -r line; do
		case $line in
		'ok - '*) pass "${line#ok - }" ;;
		'not ok - '*) fail "${line#not ok - }" ;;
		*) echo "# $line" ;;
		esac
	done <"$W/.py"
	if [ $status != 0 ]; then
		fail "a Python snippet ends with status $status"
		tail -n 20 "$W/.pyerr" | diag
	fi
}
# t COMMAND...: runs the command with a time limit.
t() { timeout -k 5 "${T:-180}" "$@"; }
has() { command -v "$1" >/dev/null 2>&1; }

# wait_for DESC COMMAND...: repeats the command until it succeeds, for at most 120 s.
wait_for() {
	local what=$1 i
	shift
	for ((i = 0; i < 2450; i++)); do
		"$@" >/dev/null 2>&1 && return 0
		read -r -t 0.0$((i < 50 ? 1 : 5)) <>"$W/.never" || :
	done
	echo "# timeout: $what"
	return 1
}

# runs PID: a child of this shell runs.  (kill -0 would find another process that has got its number.)
runs() {
	local running
	jobs -rp >"$W/.jobs"
	mapfile -t running <"$W/.jobs"
	[[ " ${running[*]} " == *" $1 "* ]]
}

mounted() {
	local mounts
	mapfile -d '' mounts </proc/self/mounts
	[[ $mounts == *" $1 fuse"* ]]
}

# start_cluster [ARGUMENT...]: runs a cluster in $C.  Sets $CLUSTER to its source; $C/keys is the key of mounts.
start_cluster() {
	has java || cannot_run "there is no java for ZooKeeper"
	rm -f "$W/cluster.out" # of an earlier one
	"$TABLETCTL" cluster start "$@" "$C" >"$W/cluster.out" 2>"$W/cluster.err" </dev/null &
	server=$!
	if ! wait_for "the cluster" eval "! runs $server || [ -s '$W/cluster.out' ]" || ! runs "$server"; then
		diag <"$W/cluster.err"
		for log in "$C"/*.log; do tail -n 5 "$log" | diag; done
		server=
		return 1
	fi
	read -r _ _ _ CLUSTER _ <"$W/cluster.out"
}
# mount_second [ARGUMENT...]: mounts the store at $M2, too: that of the cluster, or the one that another process serves.
second_answers() { mounted "$M2" && t stat -f "$M2"; }
mount_second() {
	mkdir -p "$M2"
	"$TABLETFS" -f "${CLUSTER:-unix:$D}" "$M2" "$@" >>"$W/second.out" 2>>"$W/second.err" </dev/null &
	second=$!
	wait_for "the second mount" second_answers
}
# histories_end: waits for $writers, which is t/lib/lin_files beside $kills and $stops of processes.
histories_end() {
	wait "$writers"
	is $? 0 "the histories of all rows have an order"
	diag <"$W/lin.out"
	echo "# $kills kills, $stops stops"
	ok "there were kills" [ "$kills" -gt 0 ]
}
# serve_store [ARGUMENT...]: with OVER, serves $D by a daemon without a mount, with the settings among the arguments.
serve_store() {
	local a
	local -a with=()
	for a; do [[ $a == -o || $a =~ ^(config=|sync) ]] && with+=("$a"); done
	[ ${#with[@]} = 0 ] || [ "${with[-1]}" != -o ] || unset 'with[-1]'
	rm -f "$D/socket" # of one that was killed
	"$SERVER" -f "${with[@]}" "$D" >"$W/server.out" 2>"$W/server.err" </dev/null &
	server=$!
	wait_for "the server" eval "! runs $server || [ -S '$D/socket' ]" && runs "$server" && return
	cat "$W/server.err" >"$W/daemon.err"
	server=
	return 1
}
# end_server [SIGNAL]: its exit status after SIGTERM must be 0.
end_server() {
	local status
	[ -n "$server" ] || return 0
	! runs "$server" || kill "$1" "$server"
	wait_for "the server's end" eval "! runs $server" || kill -9 "$server"
	wait "$server" 2>/dev/null
	status=$?
	server=
	[ "$1" != -TERM ] || [ $status = 0 ] || { fail "the server's exit status is $status"; tail -n 25 "$W/server.err" | diag; }
}

# mount_store [ARGUMENT...]: mounts $D on $M with a daemon in the foreground.
mount_store() {
	local source=$D
	if [ "$OVER" = cluster ]; then
		start_cluster || return 1
		source=$CLUSTER
		set -- "$@" -o "keys=$C/keys"
	elif [ -n "$OVER" ]; then
		serve_store "$@" || return 1
		source=$OVER:$D
	fi
	"$TABLETFS" -f "$source" "$M" "$@" >"$W/daemon.out" 2>"$W/daemon.err" </dev/null &
	daemon=$!
	if ! wait_for "the mount" mount_answers; then
		wait_daemon
		return 1
	fi
	[ -n "$daemon" ]
}
# Succeeds also if the daemon has ended.
mount_answers() {
	if ! runs "$daemon"; then
		wait_daemon
		daemon=
		return 0
	fi
	mounted "$M" && t stat -f "$M"
}
daemon_status=
wait_daemon() {
	[ -n "$daemon" ] || return 0
	if ! wait_for "the daemon's end" eval "! runs $daemon"; then
		fail "the daemon ends"
		grep -lsF " $M " /proc/[0-9]*/mountinfo | sed 's/^/it is mounted for /' | diag
		! has gdb || timeout 60 gdb -p "$daemon" -batch -ex 'thread apply all bt 12' 2>/dev/null | grep -E '^(#|Thread)' | cut -c 1-150 | diag
		abort_mount
		kill -9 "$daemon"
		umount -l "$M" 2>/dev/null
	fi
	wait "$daemon" 2>/dev/null
	daemon_status=$?
	daemon=
}
# unmount_store: unmounts, waits for the daemon and checks the store.
unmount_store() {
	[ -n "$daemon" ] || return 0
	t fusermount3 -u "$M" 2>"$W/.umount" || {
		fail "fusermount3 -u"
		diag <"$W/.umount"
		umount -l "$M"
	}
	wait_daemon
	if [ "$daemon_status" != 0 ]; then
		fail "the daemon's exit status is $daemon_status"
		tail -n 25 "$W/daemon.err" | diag
	fi
	end_server -TERM
	check_store
}
# A store that is not in use must be undamaged.
check_store() {
	[ -z "$MODEL" ] && [ "$OVER" != cluster ] || return 0
	if ! T=120 t "$TABLETCTL" check "$D" >"$W/.check" 2>&1; then
		fail "tabletctl check"
		diag <"$W/.check"
	fi
}
remount() {
	unmount_store
	mount_store "$@"
}
# kill_daemon [SIGNAL]: ends the daemon by a signal (default SIGKILL) and removes the dead mount.
kill_daemon() {
	[ -n "$daemon" ] || return 0
	! runs "$daemon" || kill "${1:--9}" "$daemon"
	wait_daemon
	end_server "${1:--9}"
	mounted "$M" && { fusermount3 -u "$M" 2>/dev/null || umount -l "$M"; }
	return 0
}
# daemon_log: prints the daemon's log.
daemon_log() { cat "$M/.tabletfs/log"; }
# ts FILE: mtime in microseconds.
ts() { stat -c %.6Y "$1" | sed -E 's/\.//; s/^(-?)0+(.)/\1\2/'; }
# tree DIR: prints all that a backup must preserve.  The sizes of directories differ between file systems.
tree() { (cd "$1" && find . -mindepth 1 \( -type d -printf '%p d - %T@ %m %U %G\n' -o -printf '%p %y %s %T@ %m %U %G\n' \) | LC_ALL=C sort); }
# cells DIR: prints the names below DIR.
cells() { (cd "$1" && find . -mindepth 1 -printf '%p\n' | LC_ALL=C sort); }

# files: removes directories' times from rsync's itemised list.  Directories of a table have no time of their own.
files() { grep -v '^\.d\.\.t\.* ' || :; }

abort_mount() {
	local id
	id=$(awk -v m="$M" '$5 == m && / - fuse/ { split($3, a, ":"); print a[2] }' /proc/self/mountinfo | tail -n 1)
	if [ -n "$id" ] && [ -w "/sys/fs/fuse/connections/$id/abort" ]; then echo 1 >"/sys/fs/fuse/connections/$id/abort"; fi
}
clean_up() {
	local status=$? m
	trap - EXIT
	cd /
	[ -z "${watchdog:-}" ] || kill "$watchdog" 2>/dev/null
	awk -v w="$W/" 'index($2, w) == 1 { print $2 }' /proc/self/mounts | sort -r | while read -r m; do
		timeout 10 fusermount3 -u "$m" 2>/dev/null || umount -l "$m" 2>/dev/null
	done
	[ -z "$server" ] || ! runs "$server" || kill -9 "$server" 2>/dev/null
	[ -z "$daemon" ] || ! runs "$daemon" || { kill -9 "$daemon" && wait "$daemon"; } 2>/dev/null
	# Without -r it lists those that have ended, too, and another process may have their number.  The processes of a cluster
	# end with their supervisor.
	jobs -rp | xargs -r kill -9 2>/dev/null
	if [ -n "${KEEP:-}" ]; then echo "# kept: $W"; else rm -rf "$W"; fi
	if [ -z "$finished" ]; then
		echo "# the script ended early, with status $status"
		[ $status != 0 ] || status=1
	fi
	exit $status
}

[ -x "$TABLETFS" ] || { echo "Bail out! there is no $TABLETFS"; exit 1; }
W=$(mktemp -d "${TMPDIR:-/tmp}/tfs-test.XXXXXX") || exit 1
chmod 755 "$W"
D=$W/data
M=$W/mnt
M2=$W/mnt2
C=$W/cluster
export W D M M2 C TABLETFS TABLETCTL SRC BUILD
mkdir "$M"
mkfifo "$W/.never"
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
if [ ! -r /dev/fuse ] || [ ! -w /dev/fuse ] || ! has fusermount3; then cannot_run "/dev/fuse or fusermount3 cannot be used"; fi
if ! has python3; then cannot_run "there is no python3"; fi
{
	# The watchdog must keep neither prove's pipe nor the script's directory open.
	exec >/dev/null 2>&1 </dev/null
	trap - EXIT
	sleep "$LIMIT" &
	sleeper=$!
	trap 'kill $sleeper; exit 0' TERM
	wait
	abort_mount
} &
watchdog=$!
