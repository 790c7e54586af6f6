#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Another user can do with a family only what its owner, group and mode permit.
# With the option quiet a refused chmod or chown succeeds without effect.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012,SC2015,SC2016,SC2317
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ "$(id -u)" = 0 ] && has setpriv || cannot_run "needs root and setpriv"
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
for f in .tabletfs/log .tabletfs/metrics .tabletfs/ctl t/.tablets t/.families/open/usage; do
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
ok "  and reads its tablets" nobody cat t/.tablets t/.families/open/usage
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
# Without allow_other no other user can see the mount.
mount_store
fails "without allow_other nobody else enters" 'Permission denied' nobody ls "$M"
done_testing
