#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Another user can do with a family only what its owner, group and mode permit.
# With the option quiet a refused chmod or chown succeeds without effect.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012,SC2015,SC2016,SC2317
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ "$(id -u)" = 0 ] && has setpriv && has setfacl && has rsync || cannot_run "needs root, setpriv, setfacl and rsync"
as() { # UID GID COMMAND...
	local u=$1 g=$2
	shift 2
	t setpriv --reuid="$u" --regid="$g" --clear-groups -- "$@"
}
nobody() { as 65534 65534 "$@"; }

ok "mount -o allow_other" mount_store -o allow_other
cd "$M" || exit 1
mkdir -p t/.families/open t/.families/secret t/.families/team t/.families/theirs t/r/open t/r/secret t/r/team t/r/theirs
for f in open secret team theirs; do echo "$f" >t/r/$f/q; done
ok "chmod of families" chmod 600 t/.families/secret
ok "chown of families" chown 0:100 t/.families/team
ok "  group" chmod 660 t/.families/team
ok "  owner" chown 65534:65534 t/.families/theirs
is "$(stat -c '%a %u %g' t/r/secret/q t/r/team/q t/r/theirs/q | tr '\n' ,)" "600 0 0,660 0 100,644 65534 65534," "cells have the families' modes and owners"
is "$(stat -c '%a' t/r/secret t/r/team t/r/theirs | tr '\n' ,)" "700,770,755," "directories have x wherever r"
like "$(grep -A1 'name = "secret"' t/.schema)" 'mode = "0600"' "the schema says so"

is "$(nobody cat t/r/open/q)" open "another user reads an open family"
fails "not a secret one" 'Permission denied' nobody cat t/r/secret/q
fails "nor lists it" 'Permission denied' nobody ls t/r/secret
fails "nor writes an open one" 'Permission denied' nobody bash -c 'echo x >t/r/open/q'
chmod 777 t t/r
nobody mkdir -p t/.row/open
nobody bash -c 'echo x >t/.row/open/q'
fails "nor gets cells into it by renaming a directory of scratch" 'Permission denied' nobody perl -e 'rename("t/.row", "t/row") or die $!'
nobody rm -r t/.row
nobody mkdir -p t/.row/theirs
nobody bash -c 'echo x >t/.row/theirs/q'
ok "  but into a family that may be written" nobody perl -e 'rename("t/.row", "t/row") or die $!'
is "$(cat t/row/theirs/q)" x "  with its cells"
rm -r t/row
many() { t setpriv --reuid=1234 --regid=1234 --groups="$(seq -s, 20 90),100" -- "$@"; }
many bash -c 'mkdir -p t/.row/team && echo x >t/.row/team/q'
ok "  or that the last of 72 groups may write" many perl -e 'rename("t/.row", "t/row") or die $!'
rm -r t/row
chmod 755 t t/r
fails "nor creates in it" 'Permission denied' nobody bash -c 'echo x >t/r/open/new'
fails "nor removes from it" 'Permission denied' nobody rm -f t/r/open/q
fails "nor renames in it" 'Permission denied' nobody mv t/r/open/q t/r/open/z
fails "nor touches it" 'Permission denied|not permitted' nobody touch t/r/open/q
is "$(as 1234 100 cat t/r/team/q)" team "its group reads a group's family"
ok "  and writes it" as 1234 100 bash -c 'echo more >>t/r/team/q'
fails "  others do not" 'Permission denied' nobody cat t/r/team/q
mutate_team() { "$@" bash -c 'exec 3<>t/r/.mutate && printf "append team:q\tx\nset team:new\tx\nset team:past@7\tx\ncommit\n" >&3 && cat <&3' | sed -E 's/[0-9]{16}/TIME/g'; }
chmod 620 t/.families/team
is "$(mutate_team as 1234 100)" "append team:q
set team:new
set team:past@7
committed TIME" "a user who may write but not read does not get times and sizes of values"
chmod 660 t/.families/team
is "$(mutate_team as 1234 100)" "append team:q@TIME	12
set team:new@TIME
set team:past@7
committed TIME" "  one who may read gets them"
ok "its owner writes his family" nobody bash -c 'echo mine >t/r/theirs/q'
is "$(cat t/r/theirs/q)" mine "  indeed"
ok "  and changes its mode" nobody chmod 600 t/.families/theirs
is "$(stat -c %a t/r/theirs/q)" 600 "  at once, for all of its cells"
fails "not another's" 'Operation not permitted' nobody chmod 666 t/.families/secret
fails "nor its rule" 'Permission denied' nobody bash -c 'echo maxversions=1 >t/.families/secret/gc'
fails "nor the schema" 'Permission denied' nobody bash -c 'echo >t/.schema'
fails "nor makes families" 'Permission denied' nobody mkdir t/.families/x
fails "nor verbs" 'Permission denied' nobody bash -c 'echo flush >t/.ctl'
fails "nor rows" 'Permission denied' nobody mkdir t/newrow
fails "nor tables" 'Permission denied' nobody mkdir newtable
fails "nor drops one" 'Permission denied|not permitted' nobody rmdir t
for f in .tabletfs/log .tabletfs/metrics .tabletfs/ctl t/.tablets t/.splits t/.families/open/usage; do
	fails "nor reads $f" 'Permission denied' nobody cat "$f"
	ok "  root does" cat "$f"
done
ok "he reads the status" nobody cat .tabletfs/status .tabletfs/version .tabletfs/servers
unlike "$(nobody cat .tabletfs/status .tabletfs/servers)" 'secret|\bt\b' "  which names no table or family"
ok "chmod of the TABLE" chmod 700 t
fails "then nobody else enters it" 'Permission denied' nobody cat t/r/open/q
is "$(stat -c %a t t/r)" $'700\n700' "its rows have its mode"
ok "chown of the TABLE" chown 65534 t
is "$(nobody cat t/r/open/q)" open "its owner does"
ok "  and makes rows" nobody mkdir t/newrow
ok "  and reads its tablets" nobody cat t/.tablets t/.splits t/.families/open/usage
before=$(tree .)

# If no schema was set, the user that creates a family owns it.
mkdir u
chmod 777 u
ok "mkdir ROW by another user" nobody mkdir u/r
ok "  and ROW/F" nobody mkdir u/r/mine
ok "  and a cell" nobody bash -c 'echo x >u/r/mine/q'
is "$(stat -c %u u/r/mine/q)" 65534 "his family is his"
before=$(tree .)

# A .schema that a user writes cannot do more than chown by this user.
mkdir v
chown 1234:100 v
mkdir v/.families/roots
chmod 600 v/.families/roots
owners() { stat -c '%u:%g:%a' v v/.families/* v/.families/roots v/.families/his 2>/dev/null | tr '\n' ' '; }
user() { t setpriv --reuid=1234 --regid=100 --groups=100,4321 -- "$@"; }
cat >"$W/roots.schema" <<'TXT'
owner = "root"; owner_group = "root"; mode = "0755";
families = ( { name = "roots"; mode = "0666"; }, { name = "his"; owner = 0; owner_group = 4321; mode = "0640"; },
	{ name = "other"; owner_group = 4322; } );
TXT
for how in 'cat "$1" >v/.schema' 'cp "$1" v/.tmp && mv v/.tmp v/.schema' 'cd v && mkdir x && cp "$1" /tmp/$$.schema && tar -C /tmp --transform="s/.*/.schema/" -cf - $$.schema | tar xf -; rm /tmp/$$.schema'; do
	ok "a user restores a .schema of root's: ${how%% *}" user bash -c "$how" - "$W/roots.schema"
	is "$(stat -c '%n %u:%g:%a' v v/.families/roots v/.families/his v/.families/other | tr '\n' ',')" \
		"v 1234:100:755,v/.families/roots 0:0:700,v/.families/his 1234:4321:750,v/.families/other 1234:100:755," "  what chown would refuse is left out"
	like "$(tail -n 1 .tabletfs/log)" '/v/.schema: owner, group, mode or ACL of the table and of family roots and others left out' "  and the log says so"
	unlike "$(cat v/.schema)" '4322' "  and .schema says what holds"
	ok "  he uses what he has restored" user bash -c "mkdir -p v/r/his && echo x >v/r/his/q && rm -r v/r"
	rmdir v/x 2>/dev/null
	mkdir v/.families/keep
	rmdir v/.families/his v/.families/other v/.families/keep
done
cp "$W/roots.schema" v/.schema
is "$(stat -c '%u:%g:%a' v v/.families/roots v/.families/other | tr '\n' ' ')" "0:0:755 0:0:777 0:4322:755 " "root may set all of them"
rmdir v
before=$(tree .)

# A no-op is no change; a change is EPERM ...
ok "chmod that changes nothing" chmod 600 t/r/secret/q
ok "chown that changes nothing" chown 0:0 t/r/secret/q
fails "chmod that does" 'Operation not permitted' chmod 644 t/r/secret/q
fails "chown that does" 'Operation not permitted' chown 1 t/r/secret/q
ok "cp -p of the same mode" bash -c 'umask 077; echo x >'"$W"'/x; cp -p '"$W"'/x t/r/secret/x && rm t/r/secret/x'
cd / || exit 1
unmount_store
# ... or with quiet succeeds without effect.
ok "mount -o quiet" mount_store -o allow_other,quiet
cd "$M" || exit 1
is "$(tree . | grep -v newrow)" "$(grep -v newrow <<<"$before")" "all as it was after a remount"
ok "quiet: chmod of a cell" chmod 644 t/r/secret/q
ok "quiet: chown of a cell" chown 1:1 t/r/secret/q
is "$(stat -c '%a %u %g' t/r/secret/q)" "600 0 0" "  without effect"
ok "quiet: rsync -a of other modes" bash -c "mkdir -p '$W/s/r/secret'; echo s >'$W/s/r/secret/new'; chmod 755 '$W/s/r/secret/new'; chown 3:3 '$W/s/r/secret/new'; timeout 30 rsync -a '$W/s/r/secret/new' t/r/secret/new"
is "$(cat t/r/secret/new):$(stat -c %a t/r/secret/new)" "s:600" "  stores the cell"
cd / || exit 1
unmount_store

# A rename of scratch to a cell, a row or a control file reads it.
ok "mount -o allow_other" mount_store -o allow_other
cd "$M" || exit 1
alice() { as 1001 1001 "$@"; }
bob() { as 1002 1002 "$@"; }
move() { perl -e 'rename($ARGV[0], $ARGV[1]) or die "$!\n"' "$@"; }
export -f move
mkdir -p w/.families/f w/r/f
chmod 777 w
chmod 666 w/.families/f
for to in w/r/f/x w/r/f/x@7 w/.latest/r/f/x w/r/.row.json; do
	alice bash -c 'umask 077; echo "{\"cells\": []}" >w/r/f/.x'
	fails "another's private scratch does not become $to" 'Permission denied' bob bash -c "move w/r/f/.x $to"
	is "$(cat w/r/f/.x)" '{"cells": []}' "  and stays as it is"
done
chown 1002 w
alice bash -c 'umask 077; echo "families = ();" >w/.x'
fails "  nor .schema, by a rename" 'Permission denied' bob bash -c 'move w/.x w/.schema'
chown 0 w
rm -rf w/.x
like "$(tail -n 1 .tabletfs/log)" '/w/.x: refused: the user may not read this scratch' "  and the log says why"
ok "its owner may rename it" alice bash -c 'move w/r/f/.x w/r/f/x'
alice bash -c 'umask 077; mkdir -p w/.d/f; echo private >w/.d/f/q'
fails "nor does a private directory of scratch become a row" 'Permission denied' bob bash -c 'move w/.d w/d'
alice chmod 755 w/.d w/.d/f
fails "  nor one with a private file" 'Permission denied' bob bash -c 'move w/.d w/d'
alice chmod 644 w/.d/f/q
alice chmod 711 w/.d/f
fails "  nor one that cannot be listed" 'Permission denied' bob bash -c 'move w/.d w/d'
fails "  nor a family" 'Permission denied' bob bash -c 'move w/.d/f w/r/f2'
alice chmod 755 w/.d/f
ok "  one that the user may read does" bob bash -c 'move w/.d w/d'
is "$(cat w/d/f/q)" private "  with its cells"
py "$M" <<'PY'
import os, sys
from tap import same

# Another user's descriptor of a scratch file that has become a cell: a chmod that would have no effect is refused.
os.chdir(sys.argv[1])
ours, theirs = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    os.setgroups([]), os.setgid(1001), os.setuid(1001)
    fd = os.open("w/r/f/.z", os.O_WRONLY | os.O_CREAT, 0o644)
    os.write(theirs[1], b".")
    os.read(ours[0], 1)
    try:
        os.fchmod(fd, 0o600)
        os.write(fd, b"private")
    except PermissionError:
        os._exit(0)
    os._exit(1)
os.read(theirs[0], 1)
os.rename("w/r/f/.z", "w/r/f/z")
os.write(ours[1], b".")
same(os.waitpid(pid, 0)[1], 0, "fchmod 600 of scratch that has become a more open cell is refused")
same(open("w/r/f/z").read(), "", "  so nothing private is written to it")
PY
rm -rf w/r w/d

# The schema, the families, the groups and the snapshots are the owner's, although others may make rows.
mkdir -m 777 x
fails "another one does not create .schema" 'Permission denied' bob bash -c 'echo "families = ();" >x/.schema'
fails "  nor by mknod" 'File exists' bob python3 -c 'import os; os.mknod("x/.schema", 0o100644)'
ok "mkdir of ROW/FAMILY stays as it is" bob mkdir -p x/r/bobs
bob bash -c 'echo y >x/r/bobs/q'
ok "the owner makes a family" mkdir x/.families/more
ok "  a group" mkdir x/.groups/fast
ok "  a snapshot" mkdir x/.snap/k
ok "  a snapshot of all tables" mkdir .snap/all
echo maxversions=3 >x/.families/bobs/gc
before=$(cat x/.schema)
while read -r command; do
	fails "another one: $command" 'ermission denied|not permitted|cross-device' bob bash -c "$command"
done <<'TXT'
rm x/.schema
echo "families = ();" >x/.schema
: >x/.schema
truncate -s 0 x/.schema
echo >>x/.schema
echo "allow_delete = true; families = ();" >x/.tmp && move x/.tmp x/.schema
rm -f x/.schema; echo "allow_delete = true; families = ();" >x/.schema
rm -f x/.schema; cp x/.tmp x/.schema
move x/.schema x/.gone
mv x/.schema x/.gone
touch x/.schema
mkdir x/.families/z
rmdir x/.families/more
rmdir x/.families/bobs
move x/.families/more x/.families/less
echo maxversions=1 >x/.families/bobs/gc
echo fast >x/.families/bobs/group
mkdir x/.groups/z
rmdir x/.groups/fast
move x/.groups/fast x/.groups/slow
echo 9 >x/.groups/fast/level
mkdir x/.snap/z
rmdir x/.snap/k
move x/.snap/k x/.snap/l
mkdir .snap/z
rmdir .snap/all
echo flush >x/.ctl
echo "clone copy" >x/.snap/k/.ctl
TXT
is "$(cat x/.schema) $(ls -d x/.snap/k .snap/all/x)" "$before .snap/all/x
x/.snap/k" "nothing has changed"
ok "a descriptor that the owner opened is the owner's" bash -c 'setpriv --reuid=1002 --regid=1002 --clear-groups -- bash -c "echo maxversions=2 >&3" 3>x/.families/bobs/gc'
is "$(cat x/.families/bobs/gc)" "maxversions=2" "  and has effect"
ok "the family's owner changes its mode" bob chmod 600 x/.families/bobs
rmdir x/.snap/k .snap/all
ok "the owner removes .schema" rm x/.schema
rm -rf x/r x/.[a-z]*
cd / || exit 1

# Sizes and times of control files are shown to those only who may read them.
cd "$M" || exit 1
for f in .tabletfs/config .tabletfs/log .tabletfs/metrics x/.tablets; do
	unlike "$(stat -c %s $f)" '^0$' "root sees the size of $f"
	is "$(bob stat -c '%s %Y' $f)" "0 $(stat -c %Y .tabletfs/config)" "  another user does not, nor its time"
done
py "$M" <<'PY'
import ctypes, os, sys
from tap import same

# The kernel keeps the attributes that it asked for last.  statx can return them without asking.
os.chdir(sys.argv[1])
ours, theirs = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    os.setgroups([]), os.setgid(1002), os.setuid(1002)
    log = os.open(".tabletfs/log", os.O_PATH)
    os.write(theirs[1], b".")
    os.read(ours[0], 1)
    buf = ctypes.create_string_buffer(256)
    done = ctypes.CDLL(None).statx(log, b"", 0x1000 | 0x4000, 0x7ff, buf)  # AT_EMPTY_PATH, AT_STATX_DONT_SYNC
    os._exit(done != 0 or int.from_bytes(buf[40:48], "little") != 0)
os.read(theirs[0], 1)
os.stat(".tabletfs/log")
os.write(ours[1], b".")
same(os.waitpid(pid, 0)[1], 0, "  nor does the kernel show what it has asked for root")
PY
cat .tabletfs/log >"$W/log"
is "$(wc -c <"$W/log")" "$(stat -c %s .tabletfs/log)" "root reads all of it"

# New families take the mode that mkdir and chmod ask for.
mode() { stat -c %a "$@" | tr '\n' ' '; }
mkdir -m 777 y
ok "umask 077: mkdir and chmod 600" alice bash -c 'umask 077; mkdir -p y/r/diary && echo x >y/r/diary/x && chmod 600 y/r/diary/x'
is "$(mode y/r/diary y/r/diary/x y/.families/diary)" "700 600 700 " "  give a private family"
fails "  which another user cannot read" 'Permission denied' bob cat y/r/diary/x
ok "umask 022: chmod 600 of a cell" alice bash -c 'umask 022; mkdir y/r/a && echo x >y/r/a/x && chmod 600 y/r/a/x'
is "$(mode y/r/a/x)" "600 " "  makes the new family private"
ok "  chmod of its directory" alice chmod 755 y/r/a
is "$(mode y/r/a/x)" "600 " "  does not give what a cell has refused"
ok "umask 077: chmod 755 of the directory" alice bash -c 'umask 077; mkdir y/r/b && echo x >y/r/b/x && chmod 755 y/r/b'
is "$(mode y/r/b/x)" "644 " "  sets the new family's mode"
ok "  chmod 640 of a cell" alice chmod 640 y/r/b/x
is "$(mode y/r/b/x)" "640 " "  reduces it"
alice bash -c 'mkdir -p y/r2/b && echo x >y/r2/b/x'
fails "when another row has cells of it, chmod 600 of a cell" 'not permitted' alice chmod 600 y/r/b/x
fails "  and chmod 700 of its directory" 'not permitted' alice chmod 700 y/r2/b
ok "  one that asks for more succeeds" alice chmod 666 y/r/b/x
is "$(mode y/r/b/x y/r2/b)" "640 750 " "  without effect"
fails "  and another user's is not permitted" 'ermission denied|not permitted' bob chmod 640 y/r/b/x
ok "  of the family it is" alice chmod 600 y/.families/b
is "$(mode y/r/b/x)" "600 " "  with effect"
ok "a scratch file with 0600 that becomes a cell" alice bash -c 'umask 022; mkdir y/r/c; umask 077; echo x >y/r/c/.x; move y/r/c/.x y/r/c/x'
is "$(mode y/r/c/x)" "600 " "  makes the new family private"
ok "a directory of scratch with 0700" alice bash -c 'umask 077; mkdir y/r/.d; echo x >y/r/.d/x; move y/r/.d y/r/d'
is "$(mode y/r/d/x)" "600 " "  too"
alice bash -c 'mkdir -p y/r/.l; echo x >y/r/.l/x; chmod 0 y/r/.l'
fails "a directory of scratch that cannot be read" 'Permission denied' alice perl -e 'rename("y/r/.l", "y/r/l") or die "$!\n"'
ok "  makes no family" test ! -e y/.families/l
alice bash -c 'chmod 700 y/r/.l; rm -r y/r/.l'
ok "mkdir of .families takes its umask" bash -c 'umask 027; mkdir y/.families/e'
is "$(mode y/.families/e)" "750 " "  too"
rm -rf y/r y/r2
for f in y/.families/*; do rmdir "$f"; done
rmdir y

# Tools restore a tree into a new table, and its modes.
chmod 755 "$W"
for user in root alice; do
	run=("$user")
	[ $user = alice ] || run=(t)
	for modes in "755 644 022" "755 600 022" "700 600 077"; do
		mask=${modes##* }
		modes=${modes% *}
		rm -rf "$W/tree"
		mkdir -p "$W"/tree/r1/f "$W"/tree/r2/f "$W"/tree/r2/g
		for f in r1/f/a r1/f/b r2/f/a r2/g/a; do echo $f >"$W/tree/$f"; done
		chmod "${modes% *}" "$W"/tree/* "$W"/tree/*/*
		chmod "${modes#* }" "$W"/tree/*/*/*
		[ $user = root ] || chown -R 1001:1001 "$W/tree"
		tar -C "$W/tree" -cf "$W/tree.tar" .
		for how in "rsync -a $W/tree/ z/" "tar -C z -xpf $W/tree.tar" "cp -a $W/tree/. z/"; do
			mkdir -m 777 z
			[ $user = root ] || chown 1001 z
			ok "$user, $modes, umask $mask: ${how%% *}, twice" "${run[@]}" bash -c "umask $mask; $how && $how"
			is "$(mode z/r1/f/a z/r2/f/a z/r2/g/a)$(cat z/r2/f/a)" "${modes#* } ${modes#* } ${modes#* } r2/f/a" "  restores the modes"
			rm -rf z/*
			rmdir z
		done
	done
done

# A tree of files with several modes: what one of them has refused, no later file and no chmod of the directory gives.
rm -rf "$W/tree"
mkdir -p "$W/tree/r/f"
for f in a b c; do echo $f >"$W/tree/r/f/$f"; done
chmod 600 "$W/tree/r/f/b"
chown -R 1001:1001 "$W/tree"
for how in "rsync -a $W/tree/ z/" "mkdir -p z/r/.f && cp -p $W/tree/r/f/* z/r/.f/ && move z/r/.f z/r/f"; do
	mkdir -m 777 z
	chown 1001 z
	ok "modes 600 and 644, umask 022: ${how%% *}" alice bash -c "umask 022; $how"
	ok "  chmod of the directory" alice chmod 755 z/r/f
	is "$(mode z/r/f/b)" "600 " "  does not give what a file has refused"
	rm -rf z/*
	rmdir z
done
mkdir -m 777 z
chown 1001 z
py "$M" <<'PY'
import os, sys
from tap import same

os.chdir(sys.argv[1])
os.setgroups([]), os.setgid(1001), os.setuid(1001), os.umask(0o022)
os.makedirs("z/r/f")
os.mknod("z/r/f/a", 0o100600)
os.mknod("z/r/f/b", 0o100644)
os.chmod("z/r/f", 0o755)
same(os.stat("z/r/f/a").st_mode & 0o777, 0o600, "nor what a file of mknod has refused")
PY
rm -rf z/*
rmdir z

# A scratch file that another user can write does not become the schema.
mkdir -m 777 z
mkdir z/.families/f
mkfifo -m 666 "$W/opened" "$W/close"
bob bash -c 'umask 022; exec 3>z/.x; cat z/.schema >&3; echo >"$0/opened"; read -r <"$0/close"' "$W" &
read -r <"$W/opened"
to_schema=(perl -e 'rename("z/.x", "z/.schema") or die "$!\n"')
fails "a scratch file that another user has open is not renamed to the schema" 'cross-device' "${to_schema[@]}"
echo >"$W/close"
wait $!
soon '"${to_schema[@]}" 2>&1' "" "  when it is closed, it is"
rmdir z/.families/f z

# A snapshot follows a later, stricter mode of its table and of its families.
mkdir -m 755 z
mkdir z/.families/f z/.families/g
mkdir -p z/r/f z/r/g
echo value >z/r/f/q@7
echo value >z/r/g/q@7
mkdir z/.snap/empty z/.snap/s .snap/all
cat >"$W/paths" <<'SH'
for S in "$@"; do
	while read -r command; do
		(eval "$command") >/dev/null 2>&1 && echo "yes $S: $command" || echo "no $S: $command"
	done <<'TXT'
cat $S/r/f/q
cat $S/.latest/r/f/q
ls $S/r/f
cat $S/.scan/family=f/.tsv
ls $S/.scan/family=f/.rows
cat $S/.scan/family=f/.rows/r/f/q@7
TXT
done
SH
may() { # yes or no: user bob, in the snapshots that follow
	local want=$1 what=$2
	shift 2
	is "$(bob bash "$W/paths" "$@" | grep -v "^$want ")" "" "$what"
}
ALL="z/.snap/s .snap/all/z"
may yes "another user reads snapshots" $ALL
chmod 600 z/.families/f
may no "  not after a chmod of the family" $ALL
is "$(mode z/.snap/s/r/f/q .snap/all/z/r/f)" "600 700 " "  whose mode they show"
like "$(bob cat z/.snap/s/.scan/.tsv)" '^r	g:q	7' "  but another family"
unlike "$(bob cat z/.snap/s/.scan/.tsv)" 'f:q' "  alone"
chmod 666 z/.families/f
may yes "  again after a chmod" $ALL
is "$(mode z/.snap/s/r/f/q)" "644 " "  but with no more than then"
chmod 700 z
may no "not after a chmod of the table" $ALL
is "$(mode .snap/all/z .snap/all/z/r)" "700 700 " "  whose mode they show"
chmod 755 z
may yes "  again" $ALL
setfacl -m u:1002:- z/.families/f
may no "not if an ACL excludes him now" $ALL
setfacl -b z/.families/f
chmod 644 z/.families/f
may yes "  again" $ALL
chown 1001:1001 z/.families/f
may yes "another owner does not matter to others" $ALL
chmod 640 z/.families/f
may no "  until the mode does" $ALL
is "$(alice cat z/.snap/s/r/f/q)" value "  and the new owner could read then, too"
chmod 644 z/.families/f
chown 0:0 z/.families/f
# What is open stays open; a working directory does not.
mkfifo "$W/go"
exec 8< <(bob bash -c 'exec 3<z/.snap/s/r/f/q; cd z/.snap/s/r/f; echo open; read -r <"$0"; cat <&3; cat q 2>/dev/null || echo no' "$W/go")
read -r -u 8 line
chmod 600 z/.families/f
echo >"$W/go"
is "$line $(cat <&8)" "open value
no" "a file that is open stays open"
# A family that was removed, and one that was made again under the same name, has the rules of then.
chmod 600 z/.families/f
rm -rf z/r
rmdir z/.families/f
may yes "a removed family has the mode of then" $ALL
mkdir -m 700 z/.families/f
may yes "  also if there is another one of its name" $ALL
mv z z2
chmod 700 z2
may no "a renamed table" .snap/all/z2
rmdir z2/.snap/s z2/.snap/empty .snap/all
rmdir z2
cd / || exit 1
unmount_store

# A daemon in another PID namespace cannot know the groups of a process.
cat >"$W/elsewhere" <<TXT
#!/bin/sh
exec unshare --pid --fork --kill-child "$TABLETFS" "\$@"
TXT
chmod +x "$W/elsewhere"
if unshare --pid --fork true 2>/dev/null; then
	own=$TABLETFS
	TABLETFS=$W/elsewhere
	ok "mount in another PID namespace" mount_store -o allow_other
	TABLETFS=$own
	cd "$M" || exit 1
	mkdir z z/.families/f z/r z/r/f
	echo value >z/r/f/q@7
	in_group() { t setpriv --reuid=1003 --regid=1003 --groups=100 -- "$@"; }
	chown 1001:100 z/.families/f
	stream() { "$@" cat z/.scan/family=f/.tsv 2>/dev/null | grep -c value; }
	while read -r acl group other owner named; do
		setfacl -b z/.families/f
		chmod "${acl%%,*}" z/.families/f
		[ "$acl" = "${acl#*,}" ] || setfacl -m "${acl#*,}" z/.families/f
		is "$(stream in_group) $(stream bob) $(stream alice) $(stream as 1004 1004) $(stream t)" "$group $other $owner $named 1" "$acl: a member, another user, the owner, user 1004, root"
	done <<'TXT'
0644 1 1 1 1
0640 0 0 1 0
0604 0 0 1 0
0640,u:1004:r 0 0 1 1
0644,u:1004:- 1 1 1 0
0644,g:200:- 0 0 1 0
TXT
	setfacl -b z/.families/f
	chmod 660 z/.families/f
	is "$(in_group cat z/r/f/q)" value "the kernel knows them, and decides in the tree"
	py "$M" <<'PY'
import mmap, os, sys
from tap import same

# The kernel writes pages of a mapping on behalf of nobody.  What counts is the right at open.
os.chdir(sys.argv[1])
ours, theirs = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    os.setgroups([100]), os.setgid(1003), os.setuid(1003)
    fd = os.open("z/r/f/q@7", os.O_RDWR)
    m = mmap.mmap(fd, 5)
    os.close(fd)
    os.write(theirs[1], b".")
    os.read(ours[0], 1)
    m[0:5] = b"VALUE"
    m.flush()
    os._exit(0)
os.read(theirs[0], 1)
os.chmod("z/.families/f", 0o600)
os.write(ours[1], b".")
same(os.waitpid(pid, 0)[1], 0, "a mapping writes with the right that was checked at open")
same(open("z/r/f/q@7").read(5), "VALUE", "  and what it writes is stored")
PY
	cd / || exit 1
	unmount_store
else
	skip "groups that are not known" "no PID namespaces"
fi
# Without allow_other no other user can see the mount.
mount_store
fails "without allow_other nobody else enters" 'Permission denied' nobody ls "$M"
done_testing
