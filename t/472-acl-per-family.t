#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A POSIX ACL of a family decides who uses its cells, is kept in the schema, and is copied by cp, rsync and tar.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012,SC2015,SC2016,SC2317
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ "$(id -u)" = 0 ] && has setpriv && has setfacl && has rsync || cannot_run "needs root, setpriv, setfacl and rsync"
as() { # UID GROUPS COMMAND...: the first group is the primary one
	local u=$1 g=$2
	shift 2
	t setpriv --reuid="$u" --regid="${g%%,*}" --groups="$g" -- "$@"
}
alice() { as 1001 1001 "$@"; }
bob() { as 1002 1002 "$@"; }
acl() { getfacl -cnpE "$1" 2>/dev/null | grep . | paste -sd' '; }
families() { sed -n '/^families/,/^groups/p' "$1"; }

ok "mount -o allow_other" mount_store -o allow_other
cd "$M" || exit 1
mkdir -p t/.families/f t/.families/g t/r/f t/r/g
echo f >t/r/f/q
echo g >t/r/g/q
chmod 640 t/.families/f
fails "without an ACL another user does not read" 'Permission denied' alice cat t/r/f/q
is "$(acl t/.families/f)" "user::rwx group::r-x other::---" "  getfacl shows the mode"
is "$(acl t/r/f/q)" "user::rw- group::r-- other::---" "  of a cell, too"
ok "setfacl of a family" setfacl -m u:1001:r-- t/.families/f
for p in t/.families/f t/r/f t/.latest/r/f; do
	is "$(acl $p)" "user::rwx user:1001:r-x group::r-x mask::r-x other::---" "getfacl $p"
done
for p in t/r/f/q t/r/f/q@* t/.latest/r/f/q; do
	is "$(acl "$p")" "user::rw- user:1001:r-- group::r-- mask::r-- other::---" "getfacl ${p%@*}"
done
is "$(alice cat t/r/f/q t/r/f/q@* t/.latest/r/f/q)" $'f\nf\nf' "the user of the entry reads"
is "$(alice ls t/.latest/r/f)" q "  and lists"
fails "  does not write" 'Permission denied' alice bash -c 'echo x >t/r/f/q'
fails "another one does not read" 'Permission denied' bob cat t/r/f/q
like "$(families t/.schema)" 'mode = "0640"; acl = "u:1001:r--,g::r--"' "the schema has it"
setfacl -m u:1001:rwx,g:50:r t/.families/f
ok "with rw the user writes" alice bash -c 'echo x >t/r/f/q && echo n >t/r/f/new && rm t/r/f/new'
is "$(as 1003 1003,50 cat t/r/f/q)" x "a group's entry counts for a supplementary group"
fails "  for reading only" 'Permission denied' as 1003 1003,50 bash -c 'echo x >t/r/f/q'
is "$(acl t/r/f/q)" "user::rw- user:1001:rw- group::r-- group:50:r-- mask::rw- other::---" "x is not stored"

# The middle digit of the mode is the mask.
ok "chmod g-w changes the mask" chmod 640 t/.families/f
fails "  then the user does not write" 'Permission denied' alice bash -c 'echo x >t/r/f/q'
is "$(alice cat t/r/f/q)" x "  but reads"
ok "chmod g= removes all" chmod 600 t/.families/f
fails "  then neither" 'Permission denied' alice cat t/r/f/q
fails "  nor the group" 'Permission denied' as 1003 1003,50 cat t/r/f/q
ok "the mask again" chmod 660 t/.families/f
ok "  and all as before" alice bash -c 'echo y >t/r/f/q'
setfacl -m u:1002:--- t/.families/f
chmod o+r t/.families/f
fails "an entry without permission outweighs the others' digit" 'Permission denied' bob cat t/r/f/q
is "$(as 1004 1004 cat t/r/f/q)" y "  which others have"

# Who may set it.
fails "a user who does not own the family cannot" 'not permitted' alice setfacl -m u:1001:rw t/.families/f
fails "  nor its entries" 'not permitted' alice setfacl -b t/.families/f
chown 1001 t/.families/f
ok "the owner can" alice setfacl -m u:1005:r t/.families/f
is "$(as 1005 1005 cat t/r/f/q)" y "  with effect"
chown 0 t/.families/f
fails "there are no default ACLs" 'not supported' setfacl -d -m u:1001:r t/.families/f
fails "nor ACLs of tables" 'not supported' setfacl -m u:1001:r t
like "$(tail -n 1 .tabletfs/log)" '/t: only families have ACLs: setfacl TABLE/.families/F: Operation not supported' "  and the log names the remedy"
before=$(acl t/.families/f)
for p in t/r/f/q t/r/f/q@* t/r/f; do
	ok "an equal ACL can be set on ${p%@*}" bash -c "getfacl -cnp '$p' | setfacl --set-file=- '$p'"
	fails "  another one not" 'not permitted' setfacl -m u:1001:r,u:1007:rw "$p"
	fails "  nor none" 'not permitted' setfacl -b "$p"
done
is "$(acl t/.families/f)" "$before" "  which changed nothing"
ok "the most entries" bash -c 'setfacl -m "$(seq -s, -f u:%g:r 5001 5244)" t/.families/g'
is "$(as 5244 5244 cat t/r/g/q)" g "  the last one counts"
fails "one more" 'Invalid argument' bash -c 'setfacl -m "$(seq -s, -f g:%g:r 5001 5010)" t/.families/g'
like "$(tail -n 1 .tabletfs/log)" '/t/.families/g: .*too many entries' "  and the log says why"
ok "setfacl -b" setfacl -b t/.families/g
is "$(acl t/r/g/q) $(getfattr -m - t/r/g/q 2>&1)" "user::rw- group::r-- other::r-- " "  leaves the mode"
unlike "$(families t/.schema)" 'g".*acl' "  also in the schema"

# .schema: names or ids, in any order; what the writer may not set is left out.
cat >"$W/schema" <<'TXT'
families = (
  { name = "f"; mode = "0640"; acl = "group:daemon:r--,u:daemon:rw-,u:root:r--"; },
  { name = "g"; mode = "0664"; acl = "u:1001:rw-,g::r--"; } );
TXT
ok "an ACL in .schema" cp "$W/schema" t/.schema
is "$(acl t/r/f/q)" "user::rw- user:0:r-- user:1:rw- group::r-- group:1:r-- mask::r-- other::---" "  has the group's digit for the group"
chmod 644 t/.families/f
like "$(families t/.schema)" 'acl = "u:root:r--,u:daemon:rw-,g::r--,g:daemon:r--"' "  and is rendered with names"
fails "a user that does not exist" 'Invalid argument' bash -c 'sed s/daemon/no-such-user/g "$W/schema" >t/.schema'
like "$(tail -n 1 .tabletfs/log)" '/t/.schema: line 2: acl: no such user' "  is named"
mkdir v
chown 1001 v
mkdir v/.families/f
ok "a user restores a .schema with an ACL of another's family" alice cp "$W/schema" v/.schema
is "$(acl v/.families/f) $(acl v/.families/g)" "user::rwx group::r-x other::r-x user::rwx user:1001:rwx group::r-x mask::rwx other::r-x" \
	"  it is left out; that of the user's family is set"
like "$(tail -n 1 .tabletfs/log)" '/v/.schema: owner, group, mode or ACL of family f left out' "  and the log says so"
rmdir v

# Copies.
setfacl -b -m u:1001:rw,g:50:r,o::- t/.families/f
wanted=$(acl t/r/f/q)
mkdir "$W/copy"
ok "cp -a out" cp -a t "$W/copy/"
if setfacl -m u:1:r "$W/schema" 2>/dev/null; then
	is "$(acl "$W"/copy/t/r/f/q@*)" "$wanted" "  with the ACL"
	ok "rsync -aA out changes nothing" bash -c '[ -z "$(rsync -aAi t/ "$W/copy/t/" | grep -v "^\.d\.\.t\.")" ]'
	ok "tar --acls out" tar --acls -C "$M" -cf "$W/t.tar" t
	for how in 'cp -a "$W/copy/t/." u/' 'rsync -aA "$W/copy/t/" u/' 'tar --acls --strip-components=1 -C u -xf "$W/t.tar"'; do
		mkdir u
		ok "${how%% *} into a new table" bash -c "$how"
		is "$(acl u/r/f/q@*) $(alice cat u/r/f/q)" "$wanted y" "  restores ACL and cells"
		ok "  and again" bash -c "$how"
		is "$(rsync -aAi "$W/copy/t/" u/ | files)" "" "  after which rsync -aA finds nothing to do"
		rm -r u/r
		rmdir u
	done
	# rsync sets modes and ACLs of directories while its other process writes .schema.
	for i in 1 2 3 4 5 6 7 8; do
		mkdir u
		rsync -aA "$W/copy/t/" u/ 2>&1
		[ "$(acl u/r/f/q@*)" = "$wanted" ] || echo "$i: $(acl u/r/f/q@*)"
		rm -r u/r
		rmdir u
	done >"$W/said"
	is "$(cat "$W/said")" "" "eight more tables by rsync -aA: no error, and each has the ACL"
	echo z >"$W/other"
	setfacl -m u:1009:rw "$W/other"
	fails "cp -a of a file with another ACL" 'preserving permissions' cp -a "$W/other" t/r/f/z
else
	skip "copies with ACLs" "no ACLs in $W"
fi
rm -f t/r/f/z
before=$(tree .)
cd / || exit 1
unmount_store
ok "mount -o ro" mount_store -o allow_other,ro
cd "$M" || exit 1
is "$(tree .)" "$before" "all as it was"
is "$(acl t/r/f/q) $(alice cat t/r/f/q)" "$wanted y" "  with the ACL"
is "$(as 1003 1003,50 cat t/r/f/q)" y "  and its group"
fails "  others do not read" 'Permission denied' bob cat t/r/f/q
fails "  nor list" 'Permission denied' bob ls t/r/f
for p in t/r/f/q@*; do
	fails "  nor a version" 'Permission denied' bob cat "$p"
done
cd / || exit 1
unmount_store
ok "mount -o quiet" mount_store -o allow_other,quiet
cd "$M" || exit 1
ok "quiet: another ACL of a cell" setfacl -m u:1009:rw t/r/f/q
is "$(acl t/r/f/q)" "$wanted" "  without effect"
cd / || exit 1
unmount_store
# A mount of one user: tools set and show ACLs, and ls stops asking for them.
ok "mount without allow_other" mount_store
cd "$M" || exit 1
is "$(acl t/r/f/q)" "$wanted" "getfacl"
ok "setfacl" setfacl -b -m u:1006:r t/.families/g
is "$(acl t/r/g/q)" "user::rw- user:1006:r-- group::r-- mask::r-- other::r--" "  with effect"
cd / || exit 1
done_testing
