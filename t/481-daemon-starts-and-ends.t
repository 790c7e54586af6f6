#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The daemon accepts its documented options, refuses data directories that it
# must not open, and ends with the documented status.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012,SC2015,SC2016,SC2317
. "${SRC:-.}/t/lib/mount.sh" || exit 1

like "$(t "$TABLETFS" -V 2>&1)" '^tabletfs (version )?[0-9]' "-V says the version"
ok "  and ends with 0" t "$TABLETFS" -V
ok "--version too" t "$TABLETFS" --version
ok "-h ends with 0" t "$TABLETFS" -h
like "$(t "$TABLETFS" -h 2>&1)" 'usage: .*tabletfs' "  and prints the usage"
for o in allow_other ro sync quiet latest config; do like "$(t "$TABLETFS" -h 2>&1)" "$o" "  with $o"; done
fails "no argument" 'usage|needed|missing|mount ?point' t "$TABLETFS"
fails "no mount point" 'mount ?point|usage' t "$TABLETFS" "$D"
fails "an unknown option" 'colour' t "$TABLETFS" -o colour=red "$D" "$M"
fails "a mount point that is not there" 'nowhere' t "$TABLETFS" "$D" "$W/nowhere"
ok "  nothing is mounted" bash -c "! mountpoint -q '$M'"
rm -rf "$D"

# ---- mount points ----
# refused_at DESC PATTERN DATADIR MOUNTPOINT: one line, status 1, no mount, and the data directory is not touched.
refused_at() {
	t "$TABLETFS" "$3" "$4" >"$W/.e" 2>&1 </dev/null
	is "$?:$(wc -l <"$W/.e"):$(find "$3" -name FORMAT 2>/dev/null)" "1:1:" "$1: refused in one line"
	like "$(cat "$W/.e")" "$2" "  that says why"
	ok "  nothing is mounted" bash -c "! mountpoint -q '$4'"
}
mkdir -p "$W/over/data/below"
ln -s data "$W/over/link"
: >"$W/over/file"
refused_at "the data directory as mount point" 'is the data directory' "$W/over/data" "$W/over/data"
refused_at "a link to it" 'is the data directory' "$W/over/data" "$W/over/link"
refused_at "a mount point above an absent data directory" 'or contains it' "$W/over/absent/data" "$W/over"
refused_at "a mount point in it" 'lies in the data directory' "$W/over/data" "$W/over/data/below"
refused_at "a file" 'file: the mount point is not a directory' "$W/over/absent" "$W/over/file"
refused_at "a directory that is not there" 'nowhere: No such file' "$W/over/absent" "$W/over/nowhere"
ln -s "$M" "$W/over/dead"
ln -s dead "$W/over/dead2"
left() { t "$TABLETCTL" check "$D"; }
for at in "$M" "$W/over/dead2/" "${M#"$PWD"/}"; do
	ok "a daemon that dies" mount_store
	kill -9 "$daemon"
	wait "$daemon" 2>/dev/null
	daemon=
	fails "  leaves a dead mount, whose calls fail" 'not connected|connection abort' stat "$M/"
	t "$TABLETFS" "$D" "$at" 2>"$W/.e"
	like "$?:$(cat "$W/.e")" "^0:.*$M: the daemon of an earlier mount has died" "the next daemon at $at unmounts it and says so"
	ok "  its own mount answers" test -d "$M/.tabletfs"
	fusermount3 -u "$M"
	ok "  nothing is left there" bash -c "! mountpoint -q '$M'"
	wait_for "the store" left
done
rm -rf "$D"
fails "an empty config=" 'config=: the name of a file is missing' t "$TABLETFS" -o config= "$D" "$M"
fails "an unknown option names the help" 'tabletfs -h' t "$TABLETFS" -o nosuch "$D" "$M"
if [ "$(id -u)" = 0 ] && has setpriv; then
	fails "a mount point that its user may not write" 'mount point is not writable' t setpriv --reuid=65534 --regid=65534 --clear-groups -- \
		"$TABLETFS" /tmp/absent.$$ "$W/over"
fi

# ---- data directories ----
# refused DESC PATTERN DIR: one clear line, a status that is not 0, no mount.
refused() {
	local what=$1 pattern=$2 dir=$3
	shift 3
	t "$@" "$TABLETFS" "$dir" "$M" >"$W/.o" 2>"$W/.e" </dev/null
	local status=$?
	if mounted "$M"; then
		fail "$what: it was mounted"
		fusermount3 -u "$M"
		return
	fi
	ok "$what: the status is not 0" test $status != 0 -a $status != 124
	is "$(cat "$W/.o" "$W/.e" | wc -l)" 1 "  one line"
	like "$(cat "$W/.e")" "$pattern" "  that says why"
}
ok "an absent data directory" mount_store
ok "  is made" test -f "$D/FORMAT"
mkdir "$M/t"
M2=$W/mnt2
mkdir "$M2"
t "$TABLETFS" "$D" "$M2" >"$W/.e" 2>&1 </dev/null
is "$?:$(mounted "$M2" && echo mounted):$(wc -l <"$W/.e")" "1::1" "one that is in use: 1, one line"
like "$(cat "$W/.e")" 'in use' "  that says so"
ok "  the first goes on" mkdir "$M/u"
unmount_store
mkdir "$W/left"
for i in $([ -n "$MODEL" ] || seq 5); do
	"$TABLETFS" "$W/left" "$M2" && mkdir -p "$M2/t/r/f" && head -c 4000000 /dev/zero >"$M2/t/r/f/q" && fusermount3 -u "$M2"
	ok "tabletctl check of a store whose daemon is still closing it waits ($i)" "$TABLETCTL" check "$W/left"
done
if [ -z "$MODEL" ]; then
	fails "no store is created with nocreate" "none: there is no store, and none is created here" t "$TABLETFS" -o nocreate "$W/none" "$M"
	fails "  nor with ro" "none: there is no store, and none is created here" t "$TABLETFS" -o ro "$W/none" "$M"
	echo 'create = false;' >"$W/own.conf"
	fails "  nor with the setting create" "none: there is no store, and none is created here" \
		t "$TABLETFS" -o config="$W/own.conf" "$W/none" "$M"
	mkdir "$W/hollow"
	fails "  in an empty directory" "hollow: there is no store, and none is created here" t "$TABLETFS" -o nocreate "$W/hollow" "$M"
	is "$(ls -A "$W/hollow")$(ls -d "$W/none" 2>&1 | grep -c cannot)" 1 "  and nothing is left"
	like "$(t "$TABLETFS" "$W/hollow" "$M" 2>&1)" "notice: $W/hollow: created a new store" "a new store is named at the start"
	ok "  unmount" fusermount3 -u "$M"
	is "$(t "$TABLETFS" -o nocreate "$W/hollow" "$M" 2>&1)" "" "a store that exists is mounted with nocreate"
	ok "  unmount" fusermount3 -u "$M"
fi
mkdir "$W/empty"
D=$W/empty mount_store
ok "an empty one is filled" test -f "$W/empty/FORMAT"
unmount_store
cp -r "$D" "$W/damaged"
echo rubbish >"$W/damaged/FORMAT"
refused "damaged FORMAT" 'damaged|FORMAT' "$W/damaged"
: >"$W/damaged/FORMAT"
refused "empty FORMAT" 'damaged|FORMAT' "$W/damaged"
printf 'tabletfs data directory, format 5, CRC-32C d5a9d045\n' >"$W/damaged/FORMAT"
refused "a newer format" 'newer' "$W/damaged"
printf 'tabletfs data directory, format 3, CRC-32C f30837ad\n' >"$W/damaged/FORMAT"
refused "format 3" 'format 3 is older than this program reads \(4\): export its tables with the version that wrote it' "$W/damaged"
printf 'tabletfs data directory, format 1\n' >"$W/damaged/FORMAT"
refused "format 1" 'format 1 is older' "$W/damaged"
cp "$D/FORMAT" "$W/damaged/FORMAT"
mkdir "$W/full"
echo mine >"$W/full/file"
refused "a directory that is no store" 'not' "$W/full"
is "$(ls -A "$W/full")" file "  is left alone"
refused "a file" 'not a directory|Not a directory' "$W/full/file"
refused "below a file" '' "$W/full/file/x"
if [ "$(id -u)" = 0 ] && has setpriv; then
	mkdir "$W/theirs"
	chmod 700 "$W/theirs"
	refused "a directory that cannot be read" 'Permission denied|not permitted' "$W/theirs" setpriv --reuid=65534 --regid=65534 --clear-groups --
	cp -r "$D" "$W/readonly"
	chmod -R a+rX,a-w "$W/readonly"
	refused "one that is not writable" 'Permission denied|not writable' "$W/readonly" setpriv --reuid=65534 --regid=65534 --clear-groups --
else
	skip "not writable" "needs root and setpriv"
fi

# ---- configuration ----
# A refused setting names file and line.
bad_config() {
	printf '%s\n' "$2" >"$W/bad.conf"
	t "$TABLETFS" -o config="$W/bad.conf" "$D" "$M" >"$W/.e" 2>&1 </dev/null
	is "$?:$(mounted "$M" && echo mounted)" "1:" "$1: refused"
	like "$(cat "$W/.e")" "bad.conf:$3" "  with file and line"
}
bad_config "an unknown setting" $'# one\ncolour = "red";' 2
bad_config "an ill-typed setting" $'\n\nlog_level = 17.5;' 3
bad_config "a syntax error" 'log_level = ' '[12]'
bad_config "a number that libconfig would wrap to 4 MiB" $'\nmemtable = 0x100400000;' 2
bad_config "less than there can be" 'major_within = "59m";' '1: major_within: must be from 1h to 3650d'
bad_config "more" 'log_segment = "5G";' '1: log_segment: must be from 1M to 4G'
bad_config "another file included" '@include "/etc/passwd"' 1
bad_config "nested too deeply" "a = $(printf '(%.0s' {1..20000})" 1
fails "a directory" 'full: Is a directory' t "$TABLETFS" -o config="$W/full" "$D" "$M"
fails "what does not end" 'zero:1: the text is too long' t "$TABLETFS" -o config=/dev/zero "$D" "$M"
fails "a configuration that is not there" 'nowhere.conf' t "$TABLETFS" -o config="$W/nowhere.conf" "$D" "$M"
: >"$W/good.conf"
ok "an empty configuration" mount_store -o config="$W/good.conf"
unmount_store
# --check-config agrees.
checks() {
	printf '%s\n' "$1" >"$W/check.conf"
	t "$TABLETFS" --check-config "$W/check.conf" 2>&1
	echo "status $?"
}
if [ -z "$MODEL" ]; then
	is "$(checks '')" 'status 0' "--check-config: an empty file is valid"
	is "$(checks $'\n\ncolour = 1;')" "tabletfs: $W/check.conf:3: colour: unknown setting"$'\nstatus 1' "  an error has file, line and cause"
	is "$(checks 'data = "here";')" "tabletfs: $W/check.conf:1: data: must be an absolute path of at most 1023 bytes"$'\nstatus 1' \
		"  a path must be absolute"
	like "$(checks $'sync = true;\nmount_options = "ro,colour=red";')" 'check.conf:2: mount_options: "ro,colour=red" contains a wrong option' "  the options of the mount are checked"
	fails "  a file that is not there" 'nowhere.conf: No such file' t "$TABLETFS" --check-config "$W/nowhere.conf"
	fails "  no file" 'missing argument' t "$TABLETFS" --check-config
	t "$TABLETFS" --print-config >"$W/example.conf"
	is "$(grep -vcE '^(#.*)?$' "$W/example.conf")" 0 "--print-config prints comments only"
	sed 's/^#\([a-z]\)/\1/' "$W/example.conf" >"$W/all.conf"
	ok "  and without # its settings are valid" t "$TABLETFS" --check-config "$W/all.conf"
	ok "  and mount" mount_store -o config="$W/all.conf"
	is "$(sed 's/^# //; s/ (at the mount only)//' "$M/.tabletfs/config" | grep -v '^data\|^mountpoint')" \
		"$(grep '^[a-z]' "$W/all.conf" | grep -v '^data\|^mountpoint')" "  as the defaults that they are"
	unmount_store
	printf 'data = "%s";\nmountpoint = "%s";\nmount_options = "ro,noatime";\nsync_interval = "2s";\n' "$D" "$M" >"$W/own.conf"
	ok "a configuration that names data directory, mount point and options" t "$TABLETFS" -o config="$W/own.conf"
	like "$(grep -F " $M " /proc/self/mounts)" "$D .* fuse.tabletfs ro,.*noatime" "  is all that a mount needs"
	pid=$(pgrep -f "config=$W/own.conf")
	# On a read-only mount the kernel keeps what was read.
	is "$(sed -n "s/^sync_interval = //p" "$M/.tabletfs/config")" '"2s";' "  its settings can be read"
	printf 'sync_interval = "3s"; compaction_threads = 1;\n' >"$W/own.conf"
	kill -HUP "$pid"
	soon 'sed -n "s/^sync_interval = //p" "$M/.tabletfs/config"' '"3s";' "SIGHUP to a daemon in the background reads the settings again"
	soon 'tail -n 1 "$M/.tabletfs/log" | cut -d" " -f2-' "warning: $W/own.conf: these settings change at the next mount: mount_options, compaction_threads" \
		"  the log names those that cannot change"
	echo 'memtable = "7";' >"$W/own.conf"
	kill -HUP "$pid"
	soon 'tail -n 1 "$M/.tabletfs/log" | cut -d" " -f2-' "error: the settings stay as they are: $W/own.conf:1: memtable: must be from 1M to 1T" \
		"  a wrong file changes nothing"
	fusermount3 -u "$M"
	released() { t "$TABLETCTL" check "$D"; }
	wait_for "the store" released
fi

# ---- in the background ----
exec 7>"$W/lock"
flock 7
ok "in the background it returns when the mount answers" t "$TABLETFS" "$D" "$M"
exec 7>&-
ok "  the mount is there" mountpoint -q "$M"
ok "  and answers" mkdir "$M/background"
ok "  it keeps nothing that the caller had open" flock -n "$W/lock" true
ok "fusermount3 -u" t fusermount3 -u "$M"
released() { t "$TABLETCTL" check "$D"; }
ok "  the daemon lets go of the store" wait_for "the store" released
ok "-f -d" mount_store -d
ls "$M" >/dev/null
unmount_store
like "$(cat "$W/daemon.err" "$W/daemon.out")" 'LOOKUP|GETATTR|unique' "  prints the requests"
ok "options of the kernel" mount_store -o noatime,nosuid,nodev
like "$(grep -F " $M " /proc/self/mounts)" ' fuse.tabletfs rw,nosuid,nodev,noatime' "  are passed on"
unmount_store
ok "words of fstab for others" mount_store -o x-systemd.automount,comment=mine,defaults,_netdev,nofail,noauto,users,user,relatime
unmount_store
mount_store
mkdir -p "$M/sig/r/f"
echo TERM >"$M/sig/r/f/q"
kill -TERM "$daemon"
wait_daemon
is "$daemon_status:$(mounted "$M" && echo mounted)" "0:" "SIGTERM ends it cleanly"
check_store
mount_store
is "$(cat "$M/sig/r/f/q")" TERM "  nothing is lost"
unmount_store
# A process that has written and neither closed nor fsynced, until fd 8 is closed.
mkfifo "$W/hold" "$W/held"
hold() {
	python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(fd, b"staged")
print("ready", flush=True)
sys.stdin.read()' "$1" <"$W/hold" >"$W/held" &
	holder=$!
	exec 8>"$W/hold"
	read -r _ <"$W/held"
}
let_go() {
	exec 8>&-
	wait "$holder"
	mounted "$M" && umount -l "$M"
}
# A shell's background processes ignore SIGINT.
printf '#!/bin/sh\nexec env --default-signal=INT "%s" "$@"\n' "$TABLETFS" >"$W/heeds"
chmod 755 "$W/heeds"
for signals in TERM INT HUP "TERM INT HUP"; do
	for args in "" -s; do
		TABLETFS=$W/heeds mount_store $args
		hold "$M/sig/r/f/$signals$args"
		# Several: again and again, also while it ends.
		for s in $signals; do kill "-$s" "$daemon"; done
		while [ "$signals" != "${signals% *}" ] && kill -TERM "$daemon" 2>/dev/null; do :; done
		wait_daemon
		let_go
		is "$daemon_status" 0 "SIG$signals ends it cleanly${args:+ ($args)}"
		check_store
	done
done
mount_store
is "$(cd "$M/sig/r/f" && cat TERM INT HUP "TERM INT HUP" TERM-s INT-s HUP-s "TERM INT HUP-s")" "$(printf 'staged%.0s' 1 2 3 4 5 6 7 8)" \
	"what was written and not closed is committed then"
kill -USR1 "$daemon"
kill -USR2 "$daemon"
kill -PIPE "$daemon"
ok "SIGUSR1, SIGUSR2 and SIGPIPE do not end it" mkdir "$M/sig/still"
unmount_store
# It writes its messages to a pipe whose reader has ended.
{ "$TABLETFS" -f "$D" "$M" 2>&1 >/dev/null </dev/null; echo $? >"$W/status"; } | true &
wait_for "the mount" mounted "$M"
echo keep >"$M/sig/r/f/.scratch"
hold "$M/sig/r/f/unread"
umount -l "$M"
let_go
wait $!
wait_for "its status" test -s "$W/status"
is "$(cat "$W/status")" 0 "a log that nobody reads does not end it early"
check_store
mount_store
is "$(cat "$M/sig/r/f/unread")" staged "  nothing is lost"
echo keep >"$M/sig/r/f/.scratch"
unmount_store
like "$(cat "$W/daemon.err" "$W/daemon.out")" 'scratch' "the log names each scratch file dropped"
mount_store -o sync
echo s >"$M/sig/r/f/s"
is "$(cat "$M/sig/r/f/s")" s "-o sync"
unmount_store

# ---- a signal while many are at work: the notifier may wait for whom the daemon has to answer ----
cat >"$W/busy.py" <<'PY'
import errno, os, sys
os.chdir(sys.argv[1])
i = 0
while True:
    try:
        n = "a%d@5" % (i % 5)
        i += 1
        fd = os.open(n, os.O_RDWR | os.O_CREAT)
        os.write(fd, b"x" * 20000)
        os.close(fd)
        for q in os.listdir("."):
            with open(q, "rb") as f:
                f.read()
        os.rename(n, "b%d@5" % (i % 3))
        os.unlink("../../.latest/busy/f/b%d" % (i % 3))
    except OSError as e:
        if e.errno in (errno.ENOTCONN, errno.ECONNABORTED):
            break
    if i == 40:
        open(sys.argv[2], "w").close()
PY
for round in 1 2 3; do
	mount_store
	mkdir -p "$M/sig/busy/f"
	busy=()
	for i in 1 2 3 4; do
		t python3 "$W/busy.py" "$M/sig/busy/f" "$W/at-work.$round.$i" 2>/dev/null &
		busy+=($!)
	done
	# In the midst of it once each has done a good deal.
	for i in 1 2 3 4; do wait_for "work" test -e "$W/at-work.$round.$i"; done
	kill -TERM "$daemon"
	wait_daemon
	is "$daemon_status" 0 "SIGTERM while four processes change one directory (round $round)"
	kill "${busy[@]}" 2>/dev/null
	wait "${busy[@]}" 2>/dev/null
	mounted "$M" && umount -l "$M"
	check_store
done

# ---- mount(8) ----
if [ "$(id -u)" = 0 ] && has mount.fuse3 && has unshare; then
	# A private mount namespace, where an installed daemon can be pretended.  In a chroot whose / is no mount point
	# propagation cannot be set, but as a rule mounts are private there already: the script looks.
	propagation=private
	t unshare -m --propagation private true 2>/dev/null || propagation=unchanged
	mkdir "$W/bin"
	printf '#!/bin/sh\nexec "%s" "$@"\n' "$TABLETFS" >"$W/bin/tabletfs"
	chmod 755 "$W/bin/tabletfs"
	cat >"$W/mount8" <<'TXT'
mkdir "$W/over" "$W/work" "$W/up" 2>/dev/null
mount -t tmpfs none "$W/over" || exit 1
if grep -qF " $W/over " "/proc/$OUTSIDE/mounts"; then
	umount "$W/over"
	exit 3
fi
cp -a /usr/local/bin/. "$W/over/" 2>/dev/null
cp "$W/bin/tabletfs" "$W/over/tabletfs"
mount --bind "$W/over" /usr/local/bin || exit 1
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t fuse.tabletfs -o "ro,x-systemd.automount,comment=mine,defaults,_netdev,nofail,noatime,nodev,nosuid,user" "$D" "$M" || exit 2
cat "$M/sig/r/f/s"
grep -F " $M " /proc/self/mounts | cut -d' ' -f3
umount "$M"
TXT
	out=$(OUTSIDE=$$ t unshare -m --propagation "$propagation" bash "$W/mount8" 2>"$W/.e")
	if [ $? = 3 ]; then
		skip "mount -t fuse.tabletfs" "no mount can be made that others do not see"
	else
		is "$out" $'s\nfuse.tabletfs' "mount -t fuse.tabletfs DATADIR MOUNTPOINT"
		diag <"$W/.e"
		wait_for "the store" released
	fi
	if [ $propagation = private ]; then
		mount_store
		unshare -m --propagation private "$SRC/t/lib/own_mounts" bash -c ': >"$W/other"; exec sleep 600' &
		other=$!
		wait_for "the namespace" [ -e "$W/other" ]
		unmount_store
		ok "the daemon ends beside a mount namespace that has dropped its copy of the mount" runs $other
		kill $other
	fi
else
	skip "mount -t fuse.tabletfs" "needs root, mount.fuse3 and unshare"
fi
# ---- a daemon that is killed while its notifier waits for a directory that a client has locked ----
if [ -z "$MODEL" ] && [ "$(id -u)" = 0 ] && ${CC:-cc} -shared -fPIC -O2 -o "$W/slow.so" "$SRC/t/lib/slow_sync.c" -ldl; then
	D=$W/dying
	mkdir "$D"
	LD_PRELOAD=$W/slow.so SLOW_FLAG=$W/slow mount_store
	mkdir -p "$M/t/.families/f" "$M/t/row/f" "$M/t/kept/f"
	echo x >"$M/t/row/f/q"
	echo x >"$M/t/kept/f/q"
	ls -R "$M/t" >/dev/null
	cp "$M/t/.schema" "$M/t/.new"
	# Opened before t is locked; the programs of the test must not have it, because their end would wait for the daemon.
	python3 - "$M/t/row/.mutate" "$W/delete" <<'EOF2' &
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
open(sys.argv[2] + ".ready", "w").close()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
os.write(fd, b"delete row\ncommit\n")
EOF2
	writer=$!
	wait_for "the writer" test -e "$W/delete.ready"
	: >"$W/slow"
	mv "$M/t/.new" "$M/t/.schema" 2>/dev/null & # t is locked until the schema is on disk
	client=$!
	syncing() { grep -q nanosleep "/proc/$daemon"/task/*/wchan; }
	wait_for "the sync of the schema" syncing
	: >"$W/delete"
	notifier_waits() { # the process of this daemon that notifies has the same environment
		local p
		for p in $(pgrep -x tabletfs-notify); do
			grep -q "$W/slow.so" "/proc/$p/environ" && grep -q fuse_reverse_inval_entry "/proc/$p"/task/*/wchan && return
		done
		return 1
	}
	ok "a notifier waits for a client" wait_for "the notifier" notifier_waits
	kill -9 "$daemon"
	rm "$W/slow"
	ok "  its daemon is killed: the next mount" timeout -s KILL 30 "$TABLETFS" "$D" "$M"
	is "$(cat "$M/t/kept/f/q")" x "  answers"
	wait "$client" "$writer" "$daemon" 2>/dev/null
	daemon=
	ok "  and ends" fusermount3 -u "$M"
fi
done_testing
