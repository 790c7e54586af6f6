#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TABLE/.snap/NAME is the table's tree as of one instant, whatever happens to the
# table, and nothing changes it.  /.snap/NAME is that of every table.  The verb
# clone makes a table of its own.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
cd "$M" || exit 1
long=$(printf 'x%.0s' {1..300})
mkdir -p t/.families/f t/.families/old "t/.families/aged"
for i in $(seq 40); do
	mkdir -p "t/row$i/f"
	echo "value $i" >"t/row$i/f/q@$i"
	echo "second" >"t/row$i/f/q@$((i + 1))"
done
mkdir -p "t/a%2Fb/f" t/row1/old
echo odd >"t/a%2Fb/f/x y@7"
echo gone >t/row1/old/q
python3 - "$long" <<'PY'
import os, sys
key = sys.argv[1]
path = "t/" + key[:254] + "%/" + key[254:]
os.makedirs(path + "/f")
with open(path + "/f/q", "w") as f:
    f.write("split")
PY
rsync -a t/ "$W/then/"
ok "mkdir" mkdir t/.snap/s
is "$(ls t/.snap)" s "  is listed"
ok "  with its time" test $(($(date +%s) - $(stat -c %Y t/.snap/s))) -lt 30
fails "the name is taken" "File exists" mkdir t/.snap/s
fails "a name that is none" "Invalid argument" mkdir t/.snap/.s
fails "no files beside them" "Operation not permitted" touch t/.snap/file

# ---- the table changes ----
rm -r t/row3 t/row4
for i in 5 6 7; do echo new >"t/row$i/f/q"; done
echo more >t/row5/f/another
echo 'split row2' >t/.ctl
echo compact >t/.ctl
mv t/.families/f t/.families/g
rm -r t/row1/old && rmdir t/.families/old
ok "the tree of the snapshot is that of then" diff -r t/.snap/s "$W/then"
is "$(rsync -aiOn t/.snap/s/ "$W/then/")" "" "  with times, modes and owners"
is "$(cat t/.snap/s/row5/f/q)" second "  by plain names"
is "$(cat t/.snap/s/.latest/row5/f/q)" second "  in .latest"
is "$(ls -A t/.snap/s | head -n 1)" .schema "  with .schema"
is "$(cat t/.snap/s/.families/f/gc)$(ls t/.snap/s/.families | tr '\n' ' ')" "aged f old " "  and families"
is "$(cat t/.snap/s/row1/old/q)" gone "  a dropped one too"
is "$(cat t/.snap/s/.scan/prefix=row5/.tsv)" "$(printf 'row5\tf:q\t6\tsecond\\n\nrow5\tf:q\t5\tvalue 5\\n')" "  by scans"
ok "  as trees" diff -r t/.snap/s/.scan/prefix=row1/.rows/row10 "$W/then/row10"
fails "no other names" "No such file" cat t/.snap/s/row1/g/q

# ---- the difference of two snapshots ----
mkdir t/.snap/now
rsync -a t/.snap/now/ "$W/now/"
cp -a "$W/then" "$W/mirror"
ok "a mirror takes the changed cells" bash -c "tr '\\n' '\\0' <t/.snap/now/.since/s/.changed | rsync -a0 --files-from=- t/.snap/now/ '$W/mirror/'"
ok "  and removes the deleted ones" bash -c "cd '$W/mirror' && xargs -d '\n' rm -f <'$M/t/.snap/now/.since/s/.deleted'"
is "$(cd "$W/mirror" && find . -type f ! -name .schema | sort | xargs -d '\n' md5sum)" \
	"$(cd "$W/now" && find . -type f ! -name .schema | sort | xargs -d '\n' md5sum)" "  then it is equal"
is "$(cat t/.snap/s/.since/s/.changed t/.snap/s/.since/s/.deleted)$(ls t/.snap/s/.since/s/.rows)" "" \
	"a snapshot does not differ from itself"
cp -a "$W/then" "$W/nightly"
ok ".rows: a mirror takes the tree" rsync -a --exclude=.schema t/.snap/now/.since/s/.rows/ "$W/nightly/"
ok "  and removes the deleted cells" bash -c "cd '$W/nightly' && xargs -rd '\n' rm <'$M/t/.snap/now/.since/s/.deleted'"
is "$(rsync -aiOn --exclude=.schema t/.snap/now/ "$W/nightly/")" "" "  then it is equal, with times, modes and owners"
is "$(cd t/.snap/now/.since/s/.rows && find . -type f -printf '%P\n' | sort)" "$(sort t/.snap/now/.since/s/.changed)" \
	"  the tree has the names of .changed"
is "$(cd t/.snap/s/.since/now/.rows && find . -type f -printf '%P\n' | sort)" "$(sort t/.snap/s/.since/now/.changed)" \
	"  the other way, too"
is "$(cd t/.snap/s/.since/now/.rows && find . -type f -exec md5sum {} + | sort)" \
	"$(cd t/.snap/s && xargs -d '\n' md5sum <../now/.since/s/.deleted | sed 's#  #  ./#' | sort)" "  with the values"
is "$(cd t/.snap/now/.since/s/.rows && find . -type f -printf '%i %P\n' | sort)" \
	"$(cd t/.snap/now && xargs -d '\n' stat -c '%i %n' <.since/s/.changed | sort)" "  with the inode numbers of the snapshot"
echo third >t/row9/g/q@99 && rm t/row8/g/q@8
mkdir t/.snap/after
is "$(cat t/.snap/after/.since/now/.changed)" "row9/g/q@99" "a cell that was added"
is "$(cat t/.snap/after/.since/now/.deleted)" "row8/g/q@8" "  and one that was removed"
is "$(cd t/.snap/after/.since/now/.rows && find . | tr '\n' ' ')" ". ./row9 ./row9/g ./row9/g/q@99 " "  the tree of it"
is "$(cat t/.snap/after/.since/now/.rows/row9/g/q@99)" third "  its value"
fails "  no other cell" "No such file" cat t/.snap/after/.since/now/.rows/row9/g/q@9
fails "  no plain name" "No such file" cat t/.snap/after/.since/now/.rows/row9/g/q
fails "  no other family" "No such file" ls t/.snap/after/.since/now/.rows/row9/old
fails "  no other row" "No such file" ls t/.snap/after/.since/now/.rows/row8
fails "  no clauses" "No such file" ls t/.snap/after/.since/now/prefix=row9/.rows
fails "  nothing changes it" "Read-only file system" rm t/.snap/after/.since/now/.rows/row9/g/q@99
fails "  nor adds to it" "Read-only file system" touch t/.snap/after/.since/now/.rows/row9/g/new
is "$(cat t/.snap/now/.since/after/.deleted t/.snap/now/.since/after/.changed | tr '\n' ' ')" "row9/g/q@99 row8/g/q@8 " "  the other way"
fails "since no snapshot" "No such file" cat t/.snap/now/.since/none/.deleted
fails "  as a tree" "No such file" ls t/.snap/now/.since/none/.rows
rmdir t/.snap/now t/.snap/after

# ---- differences that names, times and sequence numbers do not show ----
mirror() { # mirror TABLE A B: the manual's two commands bring a copy of A to B
	rsync -a --exclude=.schema "$1/.snap/$2/" "$W/m.$1/" &&
		rsync -aI --exclude=.schema "$1/.snap/$3/.since/$2/.rows/" "$W/m.$1/" &&
		(cd "$W/m.$1" && xargs -rd '\n' rm --) <"$1/.snap/$3/.since/$2/.deleted" &&
		[ "$(cd "$W/m.$1" && find . -type f | sort | xargs -d '\n' md5sum --)" = \
			"$(cd "$1/.snap/$3" && find . -type f ! -name .schema | sort | xargs -d '\n' md5sum --)" ]
}
mkdir -p d1/.families/f d1/r/f d1/-row/f d1/#x/f
printf aaa >d1/r/f/q@5
printf x >d1/-row/f/q@5
mkdir d1/.snap/A
printf bbb >d1/r/f/q@5
rm -r -- d1/-row
printf y >d1/#x/f/q@6
mkdir d1/.snap/B
ok "a mirror: a value of the same size and time, a row -row, a row #x" mirror d1 A B
mkdir -p d2/.families/f d2/r/f
printf old >d2/r/f/q@5
mkdir d2/.snap/A
rm -r d2/r
sed 's/salt = 0;/salt = 4;/' d2/.schema >"$W/salted" && cp "$W/salted" d2/.schema
mkdir -p d2/r/f
printf new >d2/r/f/q@5
mkdir d2/.snap/B
is "$(cat d2/.snap/B/.since/A/.changed)" r/f/q@5 "a cell that was written after the table got new tablets"
ok "  a mirror" mirror d2 A B
mkdir -p d3/.families/f d3/r/f
printf same >d3/r/f/same@5
printf old >d3/r/f/other@5
printf old >d3/r/f/gone@5
mkdir d3/.snap/A
rm -r d3/r && rmdir d3/.families/f && mkdir d3/.families/f && mkdir -p d3/r/f
printf same >d3/r/f/same@5
printf new >d3/r/f/other@5
mkdir d3/.snap/B
is "$(cat d3/.snap/B/.since/A/.changed d3/.snap/B/.since/A/.deleted | tr '\n' ' ')" "r/f/other@5 r/f/gone@5 " \
	"a family that was made again: its cells are compared by name"
is "$(ls d3/.snap/B/.since/A/.rows/r/f)" other@5 "  in .rows"
ok "  a mirror" mirror d3 A B
for t in d1 d2 d3; do rmdir $t/.snap/A $t/.snap/B && rm -r "$t"; done

# ---- nothing changes it ----
ro='Read-only file system'
fails "a write" "$ro" bash -c 'echo x >t/.snap/s/row1/f/q'
fails "  of a version" "$ro" bash -c 'echo x >t/.snap/s/row1/f/q@1'
fails "  appended" "$ro" bash -c 'echo x >>t/.snap/s/row1/f/q'
fails "  of a new cell" "$ro" touch t/.snap/s/row1/f/new
fails "  of a scratch file" "$ro" touch t/.snap/s/row1/f/.new
fails "a new row" "$ro" mkdir t/.snap/s/row99
fails "a new family" "$ro" mkdir t/.snap/s/.families/n
fails "a removal" "$ro" rm t/.snap/s/row1/f/q@1
fails "  of a row" "$ro" rmdir t/.snap/s/row1
fails "  of a family" "$ro" rmdir t/.snap/s/.families/f
fails "a rename" "$ro" mv t/.snap/s/row1/f/q@1 t/.snap/s/row1/f/r@1
fails "a schema" "$ro" cp "$W/then/.schema" t/.snap/s/.schema
fails "a setting" "$ro" bash -c 'echo maxversions=1 >t/.snap/s/.families/f/gc'
fails "a time" "$ro" touch t/.snap/s/row1/f/q
fails "a mode" "$ro" chmod 600 t/.snap/s/row1/f/q@1
fails "a mutation" "$ro" bash -c 'echo "set f:q x" >t/.snap/s/row1/.mutate'
fails "a rename of the snapshot" "Operation not permitted" mv t/.snap/s t/.snap/r
like "$(tail -n 3 .tabletfs/log)" "cannot be renamed" "  and the log has the reason"
ok "all is as before" diff -r t/.snap/s "$W/then"

# ---- the table's life ----
ok "a rename of the table keeps it" mv t u
is "$(cat u/.snap/s/row5/f/q)" second "  under the new name"
mv u t
mkdir -p e/.families/f && mkdir e/.snap/only
fails "a table with snapshots is not dropped" "Device or resource busy" rmdir e
like "$(tail -n 1 .tabletfs/log)" "e: .*[Ss]napshot" "  and the log has the reason"
mkdir -p x && fails "  nor replaced" "busy" mv -T x e
ok "  before they are" rmdir e/.snap/only
ok "  and then it is" rmdir e
rmdir x

# ---- usage ----
echo compact >t/.ctl
like "$(tr "\n" " " <t/.snap/s/usage)" "name value bytes [0-9]+ pinned_bytes [1-9]" "usage: what only this snapshot pins"
mkdir t/.snap/s2
like "$(cat t/.snap/s2/usage)" "pinned_bytes 0" "  a new one shares all"
mkdir -p t/usage/g && echo row >t/usage/g/q
mkdir t/.snap/s3
is "$(cat t/.snap/s3/usage/g/q)" row "  a row of that name is a row"
like "$(cat t/.snap/s3/.usage)" "pinned_bytes" "  beside .usage"
ok "rmdir" rmdir t/.snap/s2
fails "  drops it" "No such file" ls t/.snap/s2
fails "  once" "No such file" rmdir t/.snap/s2
rmdir t/.snap/s3

# ---- clones ----
ok "clone, of a table" bash -c 'echo "clone c" >t/.ctl'
ok "clone, of a snapshot" bash -c 'echo "clone d" >t/.snap/s/.ctl'
fails "  the name is taken" "File exists" bash -c 'echo "clone d" >t/.ctl'
fails "  no name" "Invalid argument" bash -c 'echo clone >t/.ctl'
fails "  no other verb" "Invalid argument" bash -c 'echo compact >t/.snap/s/.ctl'
is "$(ls | tr '\n' ' ')" "c d t " "  they are tables"
ok "  with the rows" diff -r c t
ok "  of the snapshot" diff -r d "$W/then"
echo own >d/row1/f/q && rm -r d/row2
is "$(cat d/row1/f/q)" own "  writable"
ok "  not the snapshot" diff -r t/.snap/s "$W/then"
mkdir c/.snap/of-clone

# ---- all tables ----
ok "mkdir /.snap" mkdir .snap/all
is "$(ls .snap)" all "  is listed"
is "$(ls .snap/all | tr '\n' ' ')" "c d t " "  has the tables"
ok "  with their rows" diff -r .snap/all/t t
is "$(ls c/.snap | tr '\n' ' ')" "all of-clone " "  and is one of each"
is "$(cd .snap/all/t/.since/s/.rows && find . -type f -printf '%P\n' | sort)" \
	"$(cd t/.snap/all/.since/s/.rows && find . -type f -printf '%P\n' | sort)" "  and its difference from a snapshot of a table"
fails "the name is taken" "File exists" mkdir .snap/of-clone
fails "nothing changes it" "$ro" bash -c 'echo x >.snap/all/t/row1/g/q'
fails "  nor adds to it" "$ro" mkdir .snap/all/new

like "$(grep ^tabletfs_snapshot .tabletfs/metrics)" 'snapshot_wait_longest_seconds 0\.0*[1-9]' "the metrics have the wait of writers"
(cd t/.snap/all/.since/s/.rows && find . -type f -printf '%i %P\n' | sort) >"$W/names"
cd / && unmount_store && ok "mount -o ro" mount_store -o ro
cd "$M" || exit 1
is "$(cd t/.snap/all/.since/s/.rows && find . -type f -printf '%i %P\n' | sort)" "$(cat "$W/names")" "  the difference is there"
fails "  its streams are not" "not supported" cat t/.snap/all/.since/s/.deleted
like "$(tail -n 1 .tabletfs/log)" "a read-only mount has no streams" "  and the log has the reason"
cd / && unmount_store && ok "mount again" mount_store
cd "$M" || exit 1
ok "the snapshot is there" diff -r t/.snap/s "$W/then"
ok "  those of all tables" diff -r .snap/all/d d
is "$(stat -c %y .snap/all | cut -c 1-10)" "$(date +%F)" "  with their time"
ok "rmdir /.snap" rmdir .snap/all
is "$(ls -A .snap)$(ls c/.snap)" of-clone "  drops those"
rmdir c/.snap/of-clone
like "$(cat .tabletfs/status)" '^tables +3, .*; 1 snapshots$' "the status counts tables and snapshots"
rm -r t/* && rmdir t/.snap/s && ok "the table can be dropped" rmdir t
ok "the clones remain" test "$(cat d/row1/f/q) $(cat c/row5/g/q)" = "own new"
cd / || exit 1
done_testing
