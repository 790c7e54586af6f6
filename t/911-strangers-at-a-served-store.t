#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Who may use the socket of a mounted store, and what is done to the data directory: other users,
# sockets of dead processes, copies, tabletctl check, repair and clone, programs that fork.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has one user"
[ "$(id -u)" = 0 ] && has setpriv && has rsync || cannot_run "needs root, setpriv and rsync"
ctl() { t "$TABLETCTL" "$@"; }
as() {
	local u=$1
	shift
	t setpriv --reuid="$u" --regid="$u" --clear-groups -- "$@"
}
mount_store -o allow_other
mkdir -p "$M/t/r/f" "$M/t/r/secret"
echo public >"$M/t/r/f/a"
echo hidden >"$M/t/r/secret/a"
chmod 700 "$M/t/.families/secret"
mkdir "$M/kept"
printf 'changes = "1d"; families = ( { name = "f"; }, { name = "secret"; } );\n' >"$M/kept/.schema"
mkdir -p "$M/kept/name-of-a-row/secret"
echo hidden >"$M/kept/name-of-a-row/secret/a"
chmod 700 "$M/kept/.families/secret"

# ---- another user ----
chmod 711 "$D"
fails "another user is refused by the socket's mode" "Permission denied" as 1234 "$TABLETCTL" get "$D/t" r f:a
chmod 666 "$D/socket"
is "$(as 1234 "$TABLETCTL" get "$D/t" r f:a)" public "with another mode of the socket, it reads what it may read in the mount"
fails "  and nothing else" "no permission to read the family secret" as 1234 "$TABLETCTL" get "$D/t" r secret:a
is "$(as 1234 "$TABLETCTL" scan "$D/t" | wc -l)" 1 "  also by a scan"
fails "  it writes nothing" "no permission" as 1234 "$TABLETCTL" put "$D/t" r f:b x
chmod 777 "$M/t/.families/f"
ok "  unless the family's mode permits it" as 1234 "$TABLETCTL" put "$D/t" r f:b x
is "$(cat "$M/t/r/f/b")" x "  as the mount shows"
fails "  it cannot make a table" "table new: only root and the owner of the store make tables" as 1234 "$TABLETCTL" import -p "$D/new" /dev/null
py "what it may not ask by frames of its own is refused" <<'PY'
import re, socket, struct
from tap import *
from wire import *
def session(uid, hello, *sent, until=None):
    """Returns kinds and bodies of the frames that came until the connection was closed, or until the last PING was answered, and a frame of the kind `until` came."""
    os.setresuid(-1, uid, -1)
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(os.environ["D"] + "/socket")
    os.setresuid(-1, 0, -1)
    s.sendall(frame(1, 0, message(hello)) + b"".join(sent) + frame(4, 99, b""))
    data = b""
    try:
        while True:
            b = s.recv(65536)
            if not b:
                break
            data += b
            if frame(5, 99, b"") in data and (not until or any(kind == until for kind, _ in frames(data))):
                break
    except ConnectionResetError:
        pass
    return frames(data)
client = 1 << 63 | 12345
hello = field(1, 1) + field(4, client) + field(7, b"a\tb\x1b[2J\n9")
same([k for k, _ in session(1234, hello)], [1, 5], "HELLO is answered, and PING")
same(session(1234, field(1, 99) + field(4, client))[0][1].find(b"version") > 0, True, "  and refused, with the versions, if it is another protocol's")
same(session(1234, field(1, 1) + field(3, 999) + field(4, client))[0][1].find(b"wants server 999") > 0, True, "  or another server's")
same(session(1234, field(1, 1) + field(4, 5))[0][1].find(b"one of a server") > 0, True, "  or if it has the id of a server")
# The places of changes have row keys.
methods = re.search(r"enum ts_method \{(.*?)TS_METHODS", re.sub(r"/\*.*?\*/", "", slurp(os.environ["SRC"] + "/engine/rpc/tablet_service.h").decode(), flags=re.S), re.S)[1]
method = re.findall(r"TS_\w+", methods).index("TS_CHANGES") + 1
_, table, _, stamp, _ = slurp(M + "/kept/.changes/from=start/.tsv").split(b"\t")[0].split(b"-")
place = bytes(0x80 | int(stamp, 16) - 1 >> 7 * i & 0x7f for i in range(8, -1, -1))
ask = request(TABLETS, 1, field(1, method), field(2, int(table, 16)), field(10, place), field(13, 65536), field(6, field(1, client)))
os.chmod(M + "/kept/.families/secret", 0o700)
refused = dict(session(1234, hello, ask, until=TABLETS_ANSWER))[TABLETS_ANSWER]
os.chmod(M + "/kept/.families/secret", 0o755)
allowed = dict(session(1234, hello, ask, until=TABLETS_ANSWER))[TABLETS_ANSWER]
same((refused[1:3], b"name-of-a-row" in allowed), (b"\x08\x19", True), "  nor for changes in families that it may not read: EACCES") # 0x19: -13
same([k for k, _ in session(1234, hello, b"\xff" * 4096)], [1], "what is no frame closes the connection")
same([k for k, _ in session(1234, hello, frame(0x12, 1, b"\x08\xff"))], [1], "so does a request that cannot be decoded")
PY
is "$(cat "$M/t/r/f/a")" public "the mount goes on"
like "$(daemon_log)" "a client \(user 1234, process [0-9]+\) was disconnected: " "the log names the user"
is "$(daemon_log | grep -c 'user 1234.*disconnected')" 1 "  once a minute"
unmount_store

# ---- the list of clients ----
mount_store -o allow_other
mkdir "$W/mnt2"
"$TABLETFS" -f "unix:$D" "$W/mnt2" >"$W/second.out" 2>&1 </dev/null &
second=$!
wait_for "the second mount" mounted "$W/mnt2"
ls "$W/mnt2/t" >/dev/null
client() { awk -F'\t' -v p="$second" '$3 == p { print $1 }' "$M/.tabletfs/clients"; }
is "$(head -n 1 "$M/.tabletfs/clients")" $'client\tuser\tprocess\tmount or program\trequests\tseconds\taddress' "/.tabletfs/clients has a header"
like "$(awk -F'\t' -v p="$second" '$3 == p { print $2, $4, $7, $5 }' "$M/.tabletfs/clients")" "^0 $W/mnt2 unix [1-9][0-9]*\$" "  and a line with user, mount point, address and requests"
same <(cut -f 1-4 "$M/.tabletfs/clients") <(cut -f 1-4 "$W/mnt2/.tabletfs/clients") "  the other mount shows the same"
# A user's own program: a scan that nobody reads.
seq -f 'wide%05.0f	f:q	1	xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' 1 20000 | ctl import -p "$D/wide" - 2>"$W/.import"
chmod 666 "$D/socket"
mkfifo "$W/unread"
as 1234 "$TABLETCTL" scan "$D/wide" >"$W/unread" &
reader=$!
exec 8<"$W/unread"
theirs() { cut -f 2 "$M/.tabletfs/clients" | grep -qx 1234; }
ok "another user's program" wait_for "its line" theirs
for m in "$M" "$W/mnt2"; do
	is "$(cut -f 2 "$m/.tabletfs/clients" | sort -u | tr '\n' ' ')" "0 1234 user " "  root sees it beside the mount"
done
is "$(as 1234 cat "$M/.tabletfs/clients" | cut -f 2 | tr '\n' ' ')" "user 1234 " "  its user sees it alone"
is "$(as 1235 cat "$M/.tabletfs/clients" | wc -l)" 1 "  and another user none"
is "$(as 1234 grep -c '^client ' "$M/.tabletfs/status"):$(grep -c '^client ' "$M/.tabletfs/status")" "1:$(($(wc -l <"$M/.tabletfs/clients") - 1))" "  so does the status"
like "$(as 1234 grep '^client ' "$M/.tabletfs/status")" "^client       [0-9]+: tabletctl, user 1234, process [0-9]+, address unix; [0-9]+ requests in [0-9]+ s\$" "  which names user, program and address"
fails "  who disconnects no client" "Permission denied" as 1234 bash -c "echo disconnect $(client) >'$M/.tabletfs/ctl'"
their=$(awk -F'\t' '$2 == 1234 { print $1 }' "$M/.tabletfs/clients")
ok "root disconnects it" bash -c "echo disconnect $their >'$M/.tabletfs/ctl'"
exec 8<&-
# A reader that was in a call waits until it is let in, or for the minute that this lasts.
fails "  a new process of the same user is refused" "the owner of the store has disconnected it" as 1234 "$TABLETCTL" get "$D/t" r f:a
is "$(as 1235 "$TABLETCTL" get "$D/t" r f:a)" public "  another user is not"
ok "  until root allows it" bash -c "echo allow $their >'$M/.tabletfs/ctl'"
is "$(as 1234 "$TABLETCTL" get "$D/t" r f:a)" public "  then it reads again"
wait $reader
n=$(client)
fails "a number that no client has" "Invalid argument" bash -c "echo disconnect 999999 >'$M/.tabletfs/ctl'"
like "$(daemon_log | tail -n 1)" "no client has this number.*disconnect 999999" "  the log says so"
fails "a client that is not refused cannot be allowed" "Invalid argument" bash -c "echo allow $n >'$M/.tabletfs/ctl'"
ok "disconnect" bash -c "echo disconnect $n >'$M/.tabletfs/ctl'"
gone() { [ -z "$(client)" ]; }
ok "  it is not listed any more" wait_for "its end" gone
is "$(ctl get "$D/t" r f:a)" public "  another process of root is not refused"
t cat "$W/mnt2/t/r/f/a" >"$W/waits" &
waits=$!
is "$(cat "$M/t/r/f/a")" public "  others go on"
ok "  while it waits" runs $waits
ok "allow" bash -c "echo allow $n >'$M/.tabletfs/ctl'"
wait $waits
is "$? $(cat "$W/waits")" "0 public" "  the call that waited ends well"
like "$(client)" "^[0-9]+\$" "  and it is listed again"
fusermount3 -u "$W/mnt2"
wait $second
ok "a mount that ends is not listed" wait_for "its end" gone
unmount_store

# ---- a group of users ----
conf() { printf '%s\n' "$1" >"$W/conf"; }
conf 'socket_mode = "0660"; socket_group = "2001";'
mount_store -o allow_other,config="$W/conf"
is "$(stat -c %a:%g "$D/socket")" 660:2001 "socket_mode and socket_group are those of the socket"
in_group() { t setpriv --reuid="$1" --regid="$1" --groups="$2" -- "$TABLETCTL" get "$D/t" r "$3"; }
is "$(in_group 1235 2001 f:a)" public "a member of the group reads"
fails "  no more than it may" "no permission to read the family secret" in_group 1235 2001 secret:a
chgrp 2001 "$M/t/.families/secret" && chmod 640 "$M/t/.families/secret"
is "$(in_group 1235 2001 secret:a)" hidden "  its groups count"
fails "another user is refused" "Permission denied" in_group 1235 2002 f:a
unmount_store
conf 'socket_group = "no such group";'
fails "an unknown group: nothing is mounted" "socket_group: there is no group no such group" "$TABLETFS" -o config="$W/conf" "$D" "$M"
conf 'socket_mode = "0777";'
fails "a mode that is none of a socket" 'conf:1: socket_mode: must be "0600", "0660" or "0666"' "$TABLETFS" -o config="$W/conf" "$D" "$M"

# ---- another user who can write in the data directory puts a link under the name of the new socket ----
cat >"$W/swap.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int bind(int fd, const struct sockaddr *a, socklen_t n)
{
	int r = ((int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "bind"))(fd, a, n);
	const char *path = ((const struct sockaddr_un *)a)->sun_path;
	return r ? r : unlink(path) || symlink(getenv("VICTIM"), path);
}
C
ok "a library that does it" "${CC:-cc}" -shared -fPIC -o "$W/swap.so" "$W/swap.c" -ldl
echo secret >"$W/victim"
chmod 600 "$W/victim"
conf 'socket_mode = "0666"; socket_group = "2001";'
fails "nothing is mounted then" "socket" env LD_PRELOAD="$W/swap.so" VICTIM="$W/victim" "$TABLETFS" -o config="$W/conf" "$D" "$M"
is "$(stat -c %a:%g "$W/victim")" 600:0 "  and the file that the link names is as it was"
rm -f "$D/socket"

# ---- a server that is neither root's nor the owner's ----
python3 - "$D/socket" <<'PY' &
import os, socket, sys
os.chmod(os.path.dirname(sys.argv[1]), 0o777)
os.setresuid(1234, 1234, 1234)
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(1)
s.accept()[0].recv(1)
PY
impostor=$!
wait_for "the socket" test -S "$D/socket"
fails "a client talks to root and the owner of the store only" "user 1234 listens there" ctl get "$D/t" r f:a
kill $impostor
wait $impostor 2>/dev/null
chmod 700 "$D"
ok "without the other, its socket is that of a dead process" test -S "$D/socket"
is "$(ctl get "$D/t" r f:a)" public "  and tabletctl opens the store itself"

# ---- other files of this name ----
rm "$D/socket"
ln -s elsewhere "$D/socket"
fails "a symbolic link is not followed" "symbolic link" "$TABLETFS" "$D" "$M"
rm "$D/socket"
echo mine >"$D/socket"
fails "a file of another kind is not removed" "neither a file nor a directory of the store" "$TABLETFS" "$D" "$M"
rm "$D/socket"

# ---- the socket of a dead process; copies ----
mount_store
kill_daemon
ok "a killed daemon leaves its socket" test -S "$D/socket"
is "$(ctl check "$D" | grep socket)" "" "tabletctl check takes it as a part of the store"
rsync -a "$D/" "$W/copy/"
ok "a copy has it, too" test -S "$W/copy/socket"
is "$(ctl get "$W/copy/t" r f:a)" public "  and can be used"
fails "  but nothing serves it" "no process serves" "$TABLETFS" "unix:$W/copy" "$M"
ok "tabletctl repair" ctl repair "$W/copy"
mount_store
ok "the next daemon makes a new one" ctl put "$D/t" r f:c c
mkdir -p "$W/mnt2"
"$TABLETFS" "$W/copy" "$W/mnt2"
ok "the copy is served beside the store" ctl put "$W/copy/t" r f:c d
is "$(cat "$M/t/r/f/c" "$W/mnt2/t/r/f/c")" cd "  as a store of its own"
fusermount3 -u "$W/mnt2"
ok "a clone while others use the store" eval "echo clone u >\"$M/t/.ctl\""
is "$(ctl get "$D/u" r f:a)" public "  is served, too"

# ---- another host on shared storage: it does not see the process, and its socket is of no use ----
elsewhere() { t unshare --mount --pid --fork --mount-proc -- "$@"; }
mv "$D/socket" "$D/elsewhere"
me="$(uname -n) by process $daemon \\(tabletfs\\)"
fails "tabletctl names host, process and program" "$D: in use on $me\$" elsewhere "$TABLETCTL" get "$D/t" r f:a
fails "  so does check" "$D: in use on $me\$" elsewhere "$TABLETCTL" check "$D"
fails "  and a mount by the socket" "$D: no process serves this directory here; it is in use on $me\$" elsewhere "$TABLETFS" "unix:$D" "$W/mnt2"
cp "$D/lock/held" "$W/held"
: >"$D/lock/held"
fails "a file without the name says less" "$D: in use by a process of another host or container" elsewhere "$TABLETCTL" check "$D"
cp "$W/held" "$D/lock/held"
mv "$D/elsewhere" "$D/socket"
fails "on this host the kernel names it" "$D: in use by process $daemon \\(tabletfs\\)" ctl check "$D"

# ---- a program of the library ----
cat >"$W/forks.c" <<'C'
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <tabletfs.h>
static int put(struct tfs_table *t, struct tfs_batch *b)
{
	struct tfs_mutation *m = tfs_mutation_new(t, TFS_S("forks"));
	int err = tfs_mutation_put(m, "f", TFS_S("q"), TFS_AUTO, TFS_S("v"));
	err = err ? err : b ? tfs_batch_add(b, m) : tfs_apply(m, 0, NULL);
	tfs_mutation_free(m);
	return err;
}
static void watched(void *arg, uint32_t table, const struct tfs_schema *before)
{
}
static const char *source;
/* Returns 0 if all calls of a child are refused, or the number of one that is not. */
static int refused(struct tfs_store *s, struct tfs_table *t, struct tfs_batch *b, struct tfs_scan *scan)
{
	struct tfs_cell cell;
	struct tfs_table *u;
	struct tfs_scan *other;
	char *text;
	if (put(t, NULL) != -EPERM)
		return 2;
	if (put(t, b) != -EPERM || tfs_batch_flush(b) != -EPERM || tfs_batch_close(b) != -EPERM)
		return 3;
	if (tfs_table_open(s, "t", &u) != -EPERM || tfs_table_create(s, "u", 0, 0, 0755) != -EPERM)
		return 4;
	if (tfs_scan_new(t, &(struct tfs_scan_spec){.what = TFS_SCAN_CELLS}, &other) || tfs_scan_next(other, &cell) != -EPERM)
		return 5;
	tfs_scan_free(other);
	tfs_scan_free(scan);
	if (tfs_sync(s) != -EPERM || tfs_status(s, &text) != -EPERM || tfs_flush(t) != -EPERM || tfs_split(t, TFS_S("m")) != -EPERM)
		return 6;
	tfs_table_close(t);
	return tfs_close(s) == 0 ? 0 : 7;
}
static int opens(void)
{
	struct tfs_store *s;
	struct tfs_table *t;
	int err = tfs_open(source, NULL, &s, NULL) || tfs_table_open(s, "t", &t);
	if (err)
		return 8;
	err = put(t, NULL);
	tfs_table_close(t);
	return err || tfs_close(s) ? 9 : 0;
}
/* Runs in a child; returns how that ended. */
static int child(int (*fn)(struct tfs_store *, struct tfs_table *, struct tfs_batch *, struct tfs_scan *), struct tfs_store *s, struct tfs_table *t, struct tfs_batch *b, struct tfs_scan *scan)
{
	int status = 0;
	if (fork() == 0) {
		alarm(60); /* it must not hang */
		_exit(fn ? fn(s, t, b, scan) : opens());
	}
	wait(&status);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
/* Clients one after the other, as in a loop of a shell, more than a tablet remembers at a time. */
static int loops(void)
{
	int err = 0, n;
	for (n = 0; n < 2049 && !err; n++)
		err = opens();
	printf("%d clients: %d\n", n, err);
	return err;
}
int main(int argc, char **argv)
{
	struct tfs_options o = {.timeout_us = 1000000};
	struct tfs_store *s;
	struct tfs_table *t;
	struct tfs_batch *b;
	struct tfs_scan *scan;
	struct tfs_cell cell;
	char *why = NULL;
	int err;
	source = argv[1];
	if (argc > 2)
		return loops();
	err = tfs_open(source, &o, &s, &why);
	if (err || (err = tfs_table_open(s, "t", &t)) != 0)
		return fprintf(stderr, "%s\n", why ? why : strerror(-err)), 1;
	if (tfs_watch(s, watched, NULL) || tfs_batch_new(t, NULL, &b) || put(t, b) || tfs_batch_flush(b) ||
		tfs_scan_new(t, &(struct tfs_scan_spec){.what = TFS_SCAN_CELLS}, &scan) || tfs_scan_next(scan, &cell) != 1)
		return 1;
	printf("refused %d opens %d again %d\n", child(refused, s, t, b, scan), child(NULL, s, t, b, scan), child(refused, s, t, b, scan));
	while ((err = tfs_scan_next(scan, &cell)) > 0)
		;
	tfs_scan_free(scan);
	printf("scan %d batch %d put %d\n", err, put(t, b) || tfs_batch_close(b), put(t, NULL));
	fflush(stdout);
	getchar(); /* the daemon ends meanwhile */
	printf("ended %d\n", put(t, NULL) < 0);
	tfs_table_close(t);
	return tfs_close(s) ? 1 : 0;
}
C
ln -s "$BUILD/libtabletfs.so.0.0.0" "$W/libtabletfs.so.0"
ok "a program of the library compiles" "${CC:-cc}" -I"$SRC/engine" -o "$W/forks" "$W/forks.c" "$BUILD/libtabletfs.so.0.0.0"
is "$(LD_LIBRARY_PATH=$W t "$W/forks" "$D" loop)" "2049 clients: 0" "2,049 programs, one after the other, write: a tablet forgets those that have ended"
mkfifo "$W/go"
LD_LIBRARY_PATH=$W T=100 t "$W/forks" "$D" <"$W/go" >"$W/forks.out" 2>"$W/forks.err" &
forks=$!
exec 9>"$W/go"
wait_for "the program" grep -q put "$W/forks.out"
is "$(head -n 1 "$W/forks.out")" "refused 0 opens 0 again 0" "after fork(2) a child's calls are refused, its close returns, and it can open the store itself"
is "$(sed -n 2p "$W/forks.out")" "scan 0 batch 0 put 0" "  the parent's scan, batch and connection go on"
pid=$(pgrep -f "^$W/forks $D")
masks=$(for task in /proc/"$pid"/task/*; do [ "$(cat "$task/comm")" != wire ] || awk '/^SigBlk/ { print $2 }' "$task/status"; done)
like "$masks" '^f{7}e7ffbfeff$' "the library's thread blocks all signals but SIGKILL, SIGSTOP and those of the C library"
kill_daemon
echo >&9
exec 9>&-
wait $forks
is $? 0 "no SIGPIPE ends the program when the daemon has ended"
like "$(tail -n 1 "$W/forks.out")" "ended 1" "  its call fails after its timeout"
done_testing
