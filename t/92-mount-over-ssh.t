#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A store at another host is used over ssh: by a mount, by tabletctl and by programs of the library.  The
# fast cases have a program of their own in the place of ssh; the others have ssh and an sshd with
# users of its own.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2120,SC2010,SC2015,SC2016,SC2317
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has one user"
[ "$(id -u)" = 0 ] && has setpriv && has unshare && has ssh && [ -x /usr/sbin/sshd ] || cannot_run "needs root, setpriv, ssh and sshd"
M2=$W/mnt2
mkdir "$M2"
ctl() { t "$TABLETCTL" "$@"; }
as() {
	local u=$1
	shift
	t setpriv --reuid="$u" --regid="$u" --clear-groups -- "$@"
}
second=
second_answers() { ! runs "$second" || { mounted "$M2" && t stat -f "$M2"; }; }
# mount_second SOURCE [ARGUMENT...]
mount_second() {
	"$TABLETFS" -f "$1" "$M2" "${@:2}" >"$W/second.out" 2>"$W/second.err" </dev/null &
	second=$!
	wait_for "the second mount" second_answers
	mounted "$M2"
}
unmount_second() {
	t fusermount3 -u "$M2"
	wait $second
	is $? 0 "${1:-the second mount ends well}"
}
# becomes DESC COMMAND...: the command succeeds within some seconds.
becomes() {
	local what=$1 i
	shift
	for ((i = 0; i < 400; i++)); do
		"$@" >"$W/.out" 2>&1 && break
		read -r -t 0.05 <>"$W/.never" || :
	done
	ok "$what" "$@"
}

# ---- sshd, in a mount namespace with users of its own; before any mount, which the namespace would keep ----
mkdir -m 755 "$W/home"
chown 4101:4101 "$W/home"
{
	getent passwd root sshd
	echo "alice:x:4101:4101::$W/home:/bin/sh"
} >"$W/passwd"
{
	getent group root
	echo "alice:x:4101:"
} >"$W/group"
ssh-keygen -q -t ed25519 -N '' -f "$W/hostkey"
ssh-keygen -q -t ed25519 -N '' -f "$W/key"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$W/sshd_config" <<CONF
ListenAddress 127.0.0.1:$port
HostKey $W/hostkey
AuthorizedKeysFile $W/key.pub
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
SetEnv PATH=$BUILD:/usr/bin:/bin
CONF
cat >"$W/ssh_config" <<CONF
Host web1
	HostName 127.0.0.1
	HostKeyAlias web1
	Port $port
	IdentityFile $W/key
	IdentitiesOnly yes
	UserKnownHostsFile $W/known_hosts
	GlobalKnownHostsFile /dev/null
	StrictHostKeyChecking yes
CONF
echo "web1 $(cut -d' ' -f 1-2 "$W/hostkey.pub")" >"$W/known_hosts"
unshare -m -- "$SRC/t/lib/own_mounts" sh -c "mkdir -p /run/sshd; mount --bind '$W/passwd' /etc/passwd && mount --bind '$W/group' /etc/group && exec /usr/sbin/sshd -D -e -f '$W/sshd_config'" \
	>"$W/sshd.log" 2>&1 </dev/null &
sshd=$!
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$port"); }
wait_for "sshd" listens || diag <"$W/sshd.log"

# ---- a program in the place of ssh ----
cat >"$W/fake" <<'SH'
#!/bin/bash
# Notes its arguments, and runs the command as a login shell at the host does.
printf '%s\n' "$@" >"$W/arguments"
echo $$ >"$W/fake.pid"
echo run >>"$W/runs"
[ ! -e "$W/cut" ] || exec cat <>"$W/.never" # answers nothing
cd "$W/home" || exit 1
PATH=$BUILD:/usr/bin:/bin exec sh -c "exec ${@: -1}"
SH
chmod +x "$W/fake"
mount_store
mkdir -p "$M/t/r/f"
echo one >"$M/t/r/f/a"
ok "a mount over a program that is given with -o ssh=" mount_second "web1:$D" -o "ssh=$W/fake -p '22 22'"
is "$(cat "$M2/t/r/f/a")" one "  it shows the store"
is "$(head -n 2 "$W/arguments" | tr '\n' ' ')" "-p 22 22 " "  the words of the command are its first arguments"
is "$(tail -n 3 "$W/arguments")" "--
web1
tabletctl serve --stdio -- '$D'" "  the host and its command are the last"
is "$(grep -c BatchMode "$W/arguments")" 0 "  the first time a user may be asked"
is "$(grep -c . "$W/runs")" 1 "there is one connection"
echo two >"$M2/t/r/f/a"
is "$(cat "$M/t/r/f/a")" two "what one writes, the other reads"
echo three >"$M/t/r/f/a"
is "$(cat "$M2/t/r/f/a")" three "  and the other way round"
head -c 20000000 /dev/urandom >"$W/large"
ok "a value of 20 MB" cp "$W/large" "$M2/t/r/f/large"
same "$M/t/r/f/large" "$W/large" "  is whole at the other side"
same "$M2/t/r/f/large" "$W/large" "  and at this one"
is "$(grep -c . "$W/runs")" 1 "  still over one connection"
kill -9 "$(cat "$W/fake.pid")"
ok "after the connection's end the mount goes on" cp "$W/fake" "$M2/t/r/f/b"
same "$M/t/r/f/b" "$W/fake" "  with the same store"
is "$(grep -c . "$W/runs")" 2 "  by another one"
is "$(grep -c BatchMode=yes "$W/arguments")" 1 "  which asks nobody"
stopped=$(cat "$W/fake.pid")
kill -STOP "$stopped"
ok "a connection that stops is given up, and replaced" cp "$W/fake" "$M2/t/r/f/c"
is "$(grep -c . "$W/runs")" 3 "  by one"
fails "  the stopped one does not stay" "" kill -0 "$stopped"
unmount_second
no_relay() { ! kill -0 "$(cat "$W/fake.pid")"; }
ok "the program ends with the mount" no_relay

# ---- a cut line: nothing comes, and a new connection gets no answer ----
mount_second "web1:$D" -o "ssh=$W/fake" -o timeout=6s
is "$(cat "$M2/t/r/f/a")" three "a mount whose line will be cut"
: >"$W/cut"
kill -STOP "$(cat "$W/fake.pid")"
from=$SECONDS
fails "  a read fails" "Input/output error" t cat "$M2/t/r/f/b"
ok "  after its timeout of 6 s, and before twice as long ($((SECONDS - from)) s)" test $((SECONDS - from)) -ge 5 -a $((SECONDS - from)) -le 12
t timeout -s INT -k 20 1 cat "$M2/t/r/f/c"
is $? 124 "  a read that waits is ended by ^C"
rm "$W/cut"
becomes "  and the mount recovers by itself" cat "$M2/t/r/f/c"
same "$M2/t/r/f/c" "$W/fake" "  with what was stored"
unmount_second

is "$(TABLETFS_SSH=$W/fake ctl get "web1:$D/t" r f:a)" three "tabletctl, with TABLETFS_SSH"
is "$(TABLETFS_SSH=$W/fake ctl scan "ann@web1:$D/t" | wc -c)" "$(ctl scan "$D/t" | wc -c)" "  scans"
is "$(tail -n 2 "$W/arguments" | head -n 1)" "ann@web1" "  USER@HOST is one argument"
ln -s "$D" "$W/home/here"
is "$(TABLETFS_SSH=$W/fake ctl get "web1:here/t" r f:a)" three "a relative path begins where the login does"
is "$(TABLETFS_SSH=$W/fake ctl get "web1:~/here/t" r f:a)" three "  also with ~"
is "$(TABLETFS_SSH=$W/fake ctl get "[::1]:$D/t" r f:a)" three "an address in brackets"
is "$(tail -n 2 "$W/arguments" | head -n 1)" "::1" "  has none for ssh"
printf 'ssh = "%s";\n' "$W/fake" >"$W/conf"
ok "the setting ssh" mount_second "web1:$D" -o config="$W/conf"
is "$(cat "$M2/t/r/f/a")" three "  counts"
unmount_second

# ---- mount points stand for their sources ----
cat >"$W/tables.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <tabletfs.h>
int main(int argc, char **argv)
{
	struct tfs_store *s;
	char names[16][TFS_NAME_MAX + 1], *why;
	if (tfs_open(argv[1], NULL, &s, &why)) {
		fprintf(stderr, "%s\n", why);
		return 1;
	}
	int n = tfs_table_list(s, NULL, names, 16);
	for (int i = 0; i < n; i++)
		printf("%s ", names[i]);
	return tfs_close(s) ? 1 : 0;
}
C
ln -s "$BUILD/libtabletfs.so.0.0.0" "$W/libtabletfs.so.0"
ok "a program of the library compiles" "${CC:-cc}" -I"$SRC/engine" -o "$W/tables" "$W/tables.c" "$BUILD/libtabletfs.so.0.0.0"
tables() { LD_LIBRARY_PATH=$W t "$W/tables" "$@"; }
is "$(tables "$M")" "t " "tfs_open of a mount point uses the store of the mount"
is "$(tables "unix:$D")" "t " "  as its source does"
fails "  not of a directory below it" "" tables "$M/t"
export TABLETFS_SSH=$W/fake
ok "a mount over ssh" mount_second "web1:$D" -o allow_other
is "$(tables "$M2")" "t " "  stands for its source, too"
fails "  but ssh runs for its owner only" "user 0 has mounted it over ssh" env LD_LIBRARY_PATH="$W" setpriv --reuid=1234 --regid=1234 --clear-groups "$W/tables" "$M2"
unmount_second
ok "tabletfs MOUNTPOINT MOUNTPOINT2" mount_second "$M"
is "$(cat "$M2/t/r/f/a")" three "  mounts the same store once more"
is "$(findmnt -no SOURCE "$M2")" "unix:$D" "  by its source"
unmount_second
ok "a mount with fsname=" mount_second "unix:$D" -o fsname=web
fails "  hides its source" "fsname of this mount hides its source" tables "$M2"
unmount_second
py "an entry of the mount table that another user has made stands for nothing" <<'PY'
from tap import *
import ctypes, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def entry(source, user):
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = b"fd=%d,rootmode=40000,user_id=%d,group_id=0,allow_other" % (fd, user)
    if libc.mount(source.encode(), (M + "2").encode(), b"fuse.tabletfs", 0, options):
        raise OSError(ctypes.get_errno(), "mount")
    runs = len(open(W + "/runs").readlines())
    p = subprocess.run([W + "/tables", M + "2"], env=dict(os.environ, LD_LIBRARY_PATH=W), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    libc.umount2((M + "2").encode(), 2)
    os.close(fd)
    return p.stdout, p.stderr, len(open(W + "/runs").readlines()) - runs
D = os.environ["D"]
same(entry("web1:" + D, 0), ("t ", "", 1), "one of root does")
out, why, runs = entry("web1:" + D, 1234)
same((out, runs, "user 1234 has mounted it" in why), ("", 0, True), "one of user 1234 over ssh")
out, why, runs = entry(D, 1234)
same((out, "user 1234 has mounted it" in why), ("", True), "one of user 1234 with a data directory")
out, why, runs = entry("web", 0)
same((out, "hides its source" in why), ("", True), "a name that is no path")
PY

# ---- what is refused ----
rm -f "$W/arguments" "$W/runs"
for source in "-oProxyCommand=x:$D" "ann@-oProxyCommand=x:$D" "-lann@web1:$D" '$(touch x):/d' 'a b:/d' ':/d' 'web1:'; do
	fails "$source is no source" "no name of a user and a host|no host before the colon|directory is missing" "$TABLETFS" -o ssh="$W/fake" -- "$source" "$M2"
	TABLETFS_SSH=$W/fake fails "  for tabletctl, too" "" ctl get -- "$source/t" r f:a
done
ok "  and no program was started" test ! -e "$W/runs"
fails "a command with an open quote" "is not a program with options" "$TABLETFS" -o ssh="$W/fake 'x" "web1:$D" "$M2"
fails "a program that does not exist" "No such file" "$TABLETFS" -o ssh="$W/none" "web1:$D" "$M2"
cat >"$W/denied" <<'SH'
#!/bin/sh
echo "web1: Permission denied (publickey)." >&2
exit 255
SH
chmod +x "$W/denied"
fails "what ssh says is the reason" "^tabletfs: .*Permission denied \(publickey\)" "$TABLETFS" -o ssh="$W/denied" "web1:$D" "$M2"
fails "  also for tabletctl" "^tabletctl: .*Permission denied \(publickey\)" env TABLETFS_SSH="$W/denied" "$TABLETCTL" get "web1:$D/t" r f:a
cat >"$W/chatty" <<'SH'
#!/bin/sh
echo "Welcome to web1! You have no mail, and 17 updates are waiting."
exec "$W/fake" "$@"
SH
chmod +x "$W/chatty"
fails "a login that prints something" "start files of the login" "$TABLETFS" -o ssh="$W/chatty" "web1:$D" "$M2"
fails "tabletctl serve needs its option" "stdio" ctl serve "$D"
unmount_store

# ---- paths that mean something to a shell ----
cd "$W" || exit 1
for name in "a b" "it's" 'a"b' '$(touch x)' '`touch x`' 'a;touch x' $'a\ntouch x' '-rf' 'a\b' '*' 'a:b'; do
	D="$W/home/$name"
	mount_store
	mkdir -p "$M/t/r/f"
	echo "$name" >"$M/t/r/f/a"
	is "$(TABLETFS_SSH=$W/fake ctl get "web1:$name/t" r f:a)" "$name" "a data directory of the name $(printf %q "$name")"
	unmount_store
done
is "$(find "$W" -name x)" "" "  nothing of them was run"
D=$W/data

# ---- a directory that no process serves ----
own=$W/home/own
mkdir "$own"
export TABLETFS_SSH=$W/fake
fails "a directory that does not exist is not made" "no process serves" ctl get web1:missing/t r f:a
ok "  and is not there" test ! -e "$W/home/missing"
ok "for the owner of a directory a server is started" mount_second web1:own
mkdir -p "$M2/t/r/f"
echo mine >"$M2/t/r/f/a"
fails "  which has the store" "in use by process [0-9]+ \(tabletfs-server\)" ctl check "$own"
is "$(ctl get web1:own/t r f:a)" mine "  a second user joins it"
is "$(ctl get "$own/t" r f:a)" mine "  and so do programs at the host"
unmount_second
free() { ctl check "$own"; }
becomes "  it ends with its last user, and the store is undamaged" free
for i in 1 2 3 4 5 6; do
	ctl get web1:own/t r f:a >"$W/racer.$i" 2>&1 &
	racers[i]=$!
done
wait "${racers[@]}"
is "$(cat "$W"/racer.*)" $'mine\nmine\nmine\nmine\nmine\nmine' "of racing starters one wins, and the others use its server"
becomes "  which ends, too" free
ok "another user" chmod 755 "$own"
fails "  starts none" "no process serves|Permission denied" as 1234 env TABLETFS_SSH="$W/fake" "$TABLETCTL" get "web1:$own/t" r f:a

# ---- ssh ----
export TABLETFS_SSH="ssh -F $W/ssh_config"
printf 'socket_mode = "0666";\n' >"$W/conf"
mount_store -o allow_other,config="$W/conf"
chmod 711 "$D"
mkdir -p "$M/t/r/secret" "$M/hers/r/f"
chmod 700 "$M/t/.families/secret"
echo hidden >"$M/t/r/secret/a"
echo hers >"$M/hers/r/f/a"
chown 4101:4101 "$M/hers" "$M/hers/.families/f"
chmod 750 "$M/hers/.families/f"
is "$(ctl get "root@web1:$D/t" r f:a)" three "tabletctl over ssh"
ok "a mount over ssh as another user" mount_second "alice@web1:$D"
is "$(cat "$M2/t/r/f/a")" three "  reads what she may read"
fails "  and nothing else, although root has mounted it" "Permission denied" cat "$M2/t/r/secret/a"
fails "  she writes nothing else" "Permission denied|not permitted" cp "$W/fake" "$M2/t/r/f/hers"
is "$(stat -c %u:%g:%a "$M2/hers/r/f/a")" 0:0:640 "her files are shown as those of the user who mounted"
is "$(stat -c %u:%g "$M2/t/r/f/a")" 4101:4101 "  and that user's number is hers"
is "$(stat -c %u:%g "$M2")" 0:0 "the root of the mount is the mounting user's"
ok "she writes her files" bash -c "echo new >'$M2/hers/r/f/b'"
is "$(cat "$M/hers/r/f/b")" new "  as the other mount shows"
ok "she makes a family" mkdir "$M2/hers/.families/g"
is "$(stat -c %u:%g "$M/hers/.families/g")" 4101:4101 "  which is hers in the store"
is "$(stat -c %u:%g "$M2/hers/.families/g")" 0:0 "  and shown as the mounting user's"
ok "a mode" chmod 700 "$M2/hers/.families/g"
is "$(stat -c %a "$M/hers/.families/g")" 700 "  is set"
like "$(cat "$M2/hers/.schema")" 'owner = "4101"' ".schema has the ids of the store"
is "$(ls -ln "$M2/hers/r/f" | awk 'NR > 1 { print $3 }' | sort -u)" 0 "  ls shows those of this host"
like "$(cut -f 2,4 "$M/.tabletfs/clients")" $'4101\t'"$M2" "the server's list of clients has her"
fails "another user of this host is not let in" "Permission denied" as 1234 cat "$M2/t/r/f/a"
unmount_second
fails "allow_other, as alice" "you are user 4101, who may not speak for others" "$TABLETFS" "alice@web1:$D" "$M2" -o allow_other
ok "allow_other, as the owner" mount_second "root@web1:$D" -o allow_other
is "$(as 1234 cat "$M2/t/r/f/a")" three "  another user reads what she may read"
fails "  and nothing else" "Permission denied" as 1234 cat "$M2/t/r/secret/a"
is "$(as 4101 cat "$M2/hers/r/f/a")" hers "  each under her own number"
# kill -9 of ssh, of the far end and of the login's sshd under a writer
cat >"$W/writer.py" <<'PY'
import os, sys
out = open(os.environ["W"] + "/acknowledged", "a", buffering=1)
n = 0
while not os.path.exists(os.environ["W"] + "/enough"):
    n += 1
    try:
        fd = os.open("%s/t/r/f/q%06d" % (sys.argv[1], n), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(fd, b"v%d" % n)
        os.close(fd)
        out.write("%06d\n" % n)
    except OSError as e:
        out.write("# %s\n" % e)
PY
python3 "$W/writer.py" "$M2" &
writer=$!
written() { [ "$(grep -c '^[0-9]' "$W/acknowledged")" -ge "$1" ]; }
for round in 1 2 3; do
	wait_for "writes" written $((40 * round))
	case $round in
	1) pkill -9 -P $second ssh ;;
	2) pkill -9 -f "serve --stdio -- $D\$" ;;
	3) pkill -9 -P $sshd ;;
	esac
done
ok "kill -9 of ssh, of its far end and of its sshd: a writer goes on" wait_for "writes" written 200
touch "$W/enough"
wait $writer
is "$(grep '^#' "$W/acknowledged")" "" "  no write failed"
py <<'PY'
from tap import *
numbers = [int(l) for l in open(W + "/acknowledged") if l[0].isdigit()]
lost = [n for n in numbers if open("%s/t/r/f/q%06d" % (M, n)).read() != "v%d" % n]
same(lost, [], "  of %d acknowledged writes none is lost" % len(numbers))
names = [n for n in os.listdir(M + "/t/r/f") if n[0] == "q"]
same(len(names), len(set(n.split("@")[0] for n in names)), "  none was applied twice")
PY
unmount_second
mkdir "$W/home/data"
chown 4101:4101 "$W/home/data"
ok "a login's own store, which nobody serves" mount_second alice@web1:data
mkdir -p "$M2/t/r/f"
echo hers >"$M2/t/r/f/a"
is "$(stat -c %u:%g "$M2/t/r/f/a" "$M2/t" | sort -u)" 0:0 "  all in it is the mounting user's here"
is "$(stat -c %U "$W/home/data/FORMAT" | sed 's/UNKNOWN/4101/')" 4101 "  and the login's there"
unmount_second
kill_sshd() {
	kill $sshd
	wait $sshd
}
ok "a mount while sshd ends" mount_second "root@web1:$D" -o timeout=3s
kill_sshd 2>/dev/null
pkill -9 -P $second ssh
fails "without a server a call waits for its timeout" "Input/output error" cat "$M2/t/r/f/a"
unmount_second "  and the mount ends well"
unmount_store
done_testing
