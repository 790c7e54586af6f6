#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A user who may write into a data directory puts a symbolic link or a FIFO in the place
# of each of its files and directories.  No program follows it: the file outside stays as
# it is, and one line names the link.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model keeps nothing"

D=$D/
ok "a data directory that does not exist yet, with a slash at its end" mount_store
unmount_store
ok "  and one that exists" mount_store
unmount_store
D=${D%/}
mount_store
mkdir -p "$M/t/.families/f" "$M/t/r/f" "$M/.snap"
for i in 1 2 3; do echo "v$i" >"$M/t/r/f/q$i"; done
printf 'flush\ncompact\n' >"$M/t/.ctl"
mkdir "$M/t/.snap/s"
echo late >"$M/t/r/f/late"
kill -9 "$daemon"
wait_daemon
umount -l "$M"
mv "$D" "$W/good"
names=$(cd "$W/good" && find . -mindepth 1 | sed 's,^\./,,' | sort)

# state PATH: all that must not change in a file or a tree outside.
state() { find "$1" -printf '%P %y %s %m %T@ %C@\n' | sort; find "$1" -type f -exec cksum {} +; }
# planted KIND NAME: a copy of the store in which NAME is of this kind.
planted() {
	rm -rf "$D" "$W/victim"
	cp -a "$W/good" "$D"
	case $1 in
	link)
		mv "$D/$2" "$W/victim"
		ln -s "$W/victim" "$D/$2"
		;;
	fifo)
		rm -r "${D:?}/$2"
		mkfifo "$D/$2"
		;;
	esac
}
# Mounts, reads, writes, makes the store sync and compact, and unmounts.
used() {
	local daemon
	"$TABLETFS" -f "$D" "$M" >"$W/daemon.out" 2>"$W/daemon.err" </dev/null &
	daemon=$!
	wait_for "the mount, or its end" mount_answers
	if [ -n "$daemon" ]; then
		cat "$M"/t/r/f/* "$M"/t/.snap/s/r/f/* >"$W/.out" 2>&1
		echo new >"$M/t/r/f/new"
		printf 'flush\ncompact\n' >"$M/t/.ctl"
		t fusermount3 -u "$M"
		wait_daemon
	fi 2>>"$W/.out"
	cat "$W/daemon.err"
}
n=0
for kind in link fifo; do
	for name in $names; do
		# Check changes nothing, and repair must change nothing.  The mount may replace or remove what it does not read.
		planted $kind "$name"
		[ $kind != link ] || before=$(state "$W/victim")
		for program in check "repair --write" mount; do
			# shellcheck disable=SC2086
			if [ "$program" = mount ]; then out=$(used 2>&1); else out=$(t "$TABLETCTL" $program "$D" 2>&1); fi
			[ $kind != link ] || is "$(state "$W/victim")" "$before" "$program, a link $name: the file outside is as it was"
			like "$out" "$D/$name: (a symbolic link; |neither a file nor a directory)" "$program, a $kind $name: a line names it"
		done
		n=$((n + 1))
	done
done
is "$((n > 30))" 1 "all names of a store were tried, in both ways"

rm -rf "$D" "$W/elsewhere"
cp -a "$W/good" "$W/elsewhere"
ln -s "$W/elsewhere" "$D"
mount_store
is "$(cat "$M/t/r/f/late")" late "the data directory itself may be a link"
unmount_store
ok "  also for check" "$TABLETCTL" check "$D"

rm "$D"
cp -a "$W/good" "$D"
echo precious >"$W/victim"
rm -f "$D/ballast"
ln "$W/victim" "$D/ballast"
mount_store
echo x >"$M/t/r/f/x"
unmount_store
is "$(cat "$W/victim")" precious "a file with a second hard link is not written"
rm "$D/lock/held"
ln "$W/victim" "$D/lock/held"
fails "  nor is lock/held: the store is refused" "lock/held: .*hard link" "$TABLETFS" -f "$D" "$M"
is "$(cat "$W/victim")" precious "  and the file is as it was"
done_testing
