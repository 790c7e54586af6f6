#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables whose data is protected lose no cell, whoever asks, and readonly tables change in nothing but their schema.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no control files"
ok "mount" mount_store
F='families = ( { name = "f"; }, { name = "n"; type = "counter"; } );'
set_schema() { echo "$2" >"$W/text" && cp "$W/text" "$M/$1/.schema"; }
last_log() { tail -n 1 "$M/.tabletfs/log"; }
refused() { tail -n 1 "$M/.tabletfs/refused"; }
P="Operation not permitted|I/O error" # dash names only some errors
export_of() { "$TABLETCTL" export "$D/$1" "$W/$2" && [ -s "$W/$2" ]; }

mkdir "$M/t" && set_schema t "$F"
for row in a b "$(printf 'c/%0300d' 0 | sed 's,/,%2F,')"; do
	key=$(sed 's,.\{254\},&%/,' <<<"$row")
	mkdir -p "$M/t/$key/f" "$M/t/$key/n"
	for i in 1 2 3; do echo "$row $i" >"$M/t/$key/f/q@$i"; done
	echo 5 >"$M/t/$key/n/hits"
done
mkdir "$M/t/.snap/before"
ok "data is protected" set_schema t "protect = \"data\"; $F"
ok "export" export_of t before.tsv

# ---- removals ----
fails "rm -rf of the table" "Operation not permitted" rm -rf "$M/t"
like "$(last_log)" "/t/.*: the data of the table is protected: first write protect = true or false into its .schema" "  the log names the remedy"
like "$(refused)" "the data of the table is protected" "  and so does /.tabletfs/refused"
ok "export" export_of t after.tsv
same "$W/before.tsv" "$W/after.tsv" "  has removed no cell"
like "$(ls -A "$M/t")" "^\.schema$" "  and the schema is listed"
fails "rm -rf through .latest" "Operation not permitted" rm -rf "$M/t/.latest/a"
fails "rm of a name" "Operation not permitted" rm "$M/t/a/f/q"
fails "rm of a version" "Operation not permitted" rm "$M/t/a/f/q@1"
fails "rm of the schema" "Operation not permitted" rm "$M/t/.schema"
fails "rmdir of a row" "Operation not permitted" rmdir "$M/t/a"
mkdir "$M/t/made"
fails "rmdir of an empty row" "Operation not permitted" rmdir "$M/t/made"
fails "find -delete" "Operation not permitted" find "$M/t" -delete
fails "drop-rows" "$P" sh -c "echo 'drop-rows ' >'$M/t/.ctl'"
fails "drop-rows that finds no row" "$P" sh -c "echo 'drop-rows none' >'$M/t/.ctl'"
fails "truncate" "$P" sh -c "echo truncate >'$M/t/.ctl'"
fails "rmdir of a family" "Operation not permitted" rmdir "$M/t/.families/f"
fails "a schema without a family" "Operation not permitted" set_schema t "protect = \"data\"; allow_delete = true; families = ( );"
for verb in "delete f:q" "delete f:q@1" "delete-family f" "delete-row" "set f:new\tv\ndelete f:q"; do
	fails ".mutate: $verb" "$P" sh -c "printf '$verb\ncommit\n' >'$M/t/a/.mutate'"
done
like "$(last_log)" "/t/a/\.mutate: line 2: delete f:q: the data of the table is protected" "  with the reason"
fails ".row.json without the cells" "$P" sh -c "echo '{\"f\":{}}' >'$M/t/a/.row.json'"
fails ".row.flat.json without a column" "$P" sh -c "echo '{\"f\":{\"q\":null}}' >'$M/t/a/.row.flat.json'"
fails "tabletctl delete" "the data of the table is protected" "$TABLETCTL" delete "$D/t" a f:q
fails "tabletctl delete of a row" "the data of the table is protected" "$TABLETCTL" delete "$D/t" a
ok "export" export_of t after.tsv
same "$W/before.tsv" "$W/after.tsv" "no cell is gone"

# ---- writes ----
ok "a write" sh -c "echo new >'$M/t/a/f/q'"
is "$(cat "$M/t/a/f/q")" new "  is there"
ok "a write of a version" sh -c "echo old >'$M/t/a/f/q@2'"
ok "an addition to a counter" "$TABLETCTL" increment "$D/t" a n:hits 1
ok "an editor's way: a scratch file renamed over the name" sh -c "echo edited >'$M/t/a/f/.q.swp' && mv '$M/t/a/f/.q.swp' '$M/t/a/f/q'"
is "$(cat "$M/t/a/f/q")" edited "  is there"
ok "a rename of a cell over a name" sh -c "echo moved >'$M/t/a/f/tmp' && mv '$M/t/a/f/tmp' '$M/t/a/f/q'"
is "$(cat "$M/t/a/f/q")" moved "  is there"
ok "  and to a new name" mv "$M/t/a/f/q@1" "$M/t/a/f/r@1"
ok "touch" touch -d 2001-01-01 "$M/t/b/f/q"
ok "cp -p into .latest" sh -c "echo latest >'$W/x' && touch -d 2002-02-02 '$W/x' && cp -p '$W/x' '$M/t/.latest/b/f/copied'"
ok "rsync, twice" sh -c "rsync -a '$W/x' '$M/t/b/f/' && rsync -a '$W/x' '$M/t/b/f/'"
ok ".import.tsv" sh -c "printf 'd\tf:q\t1\tv\n' >'$M/t/.import.tsv'"
is "$(cat "$M/t/d/f/q@1")" v "  has stored its cell"
ok "a scratch file is removed" sh -c "echo >'$M/t/b/f/.x' && rm '$M/t/b/f/.x'"
ok "a snapshot is removed" rmdir "$M/t/.snap/before"
ok "a family is added" mkdir "$M/t/.families/g"
like "$(cat "$M/t/.schema")" '^protect = "data";$' "  .schema shows the protection"

# ---- the end of it ----
ok "unmount" unmount_store
ok "mount" mount_store
fails "it is there after a restart" "Operation not permitted" rm "$M/t/a/f/q"
ok "protect = true" set_schema t "protect = true; families = ( { name = \"f\"; }, { name = \"g\"; }, { name = \"n\"; } );"
ok "  lets cells be removed" rm -r "$M/t/b"
fails "  but not the table" "Operation not permitted" rm -r "$M/t"

# ---- readonly ----
mkdir -p "$M/r" && set_schema r "$F" && mkdir -p "$M/r/a/f" && echo v >"$M/r/a/f/q@1"
ok "a readonly table" set_schema r "readonly = true; $F"
ok "export" export_of r before.tsv
R="Read-only file system|I/O error"
fails "a write" "$R" sh -c "echo x >'$M/r/a/f/q'"
like "$(last_log)" "/r/a/f/q: the table is readonly: first write readonly = false into its .schema" "  the log names the remedy"
fails "a new cell" "$R" sh -c "echo x >'$M/r/a/f/new'"
fails "an append" "$R" sh -c "echo x >>'$M/r/a/f/q@1'"
fails "a truncation of a cell" "$R" truncate -s 0 "$M/r/a/f/q@1"
fails "touch" "$R" touch "$M/r/a/f/q"
fails "a new row" "$R" mkdir "$M/r/b"
fails "a new directory of a family" "$R" mkdir "$M/r/a/n"
fails "a rename" "$R" mv "$M/r/a/f/q" "$M/r/a/f/p"
fails "a rename of scratch to a cell" "$R" sh -c "echo x >'$M/r/a/f/.x' && mv '$M/r/a/f/.x' '$M/r/a/f/q'"
rm -f "$M/r/a/f/.x"
fails "rm -rf" "$R" rm -rf "$M/r"
fails "find -delete" "$R" find "$M/r" -delete
fails ".mutate" "$R" sh -c "printf 'set f:q\tv\ncommit\n' >'$M/r/a/.mutate'"
fails ".row.flat.json" "$R" sh -c "echo '{}' >'$M/r/a/.row.flat.json'"
fails ".row.json" "$R" sh -c "echo '{}' >'$M/r/a/.row.json'"
fails ".import.tsv" "$R" sh -c "printf 'd\tf:q\t1\tv\n' >'$M/r/.import.tsv'"
fails "truncate" "$R" sh -c "echo truncate >'$M/r/.ctl'"
fails "drop-rows" "$R" sh -c "echo 'drop-rows a' >'$M/r/.ctl'"
fails "rmdir of a family" "$R" rmdir "$M/r/.families/f"
fails "a schema without a family" "$R" set_schema r "readonly = true; allow_delete = true; families = ( );"
fails "tabletctl put" "$R|the table is readonly" "$TABLETCTL" put "$D/r" a f:q x
fails "tabletctl import" "$R|the table is readonly" sh -c "printf 'd\tf:q\t1\tv\n' | '$TABLETCTL' import '$D/r' -"
mkdir "$M/other" "$M/empty" && set_schema empty "readonly = true;"
fails "a rename over an empty table" "$R" mv -T "$M/other" "$M/empty"
fails "  and its removal" "$R" rmdir "$M/empty"
ok "export" export_of r after.tsv
same "$W/before.tsv" "$W/after.tsv" "nothing has changed"
ok "the schema may change" mkdir "$M/r/.families/g"
ok "  a snapshot may be made" mkdir "$M/r/.snap/s"
ok "  and removed" rmdir "$M/r/.snap/s"
ok "the table may be renamed" mv "$M/r" "$M/r2"
ok "readonly = false" set_schema r2 "families = ( { name = \"f\"; }, { name = \"g\"; }, { name = \"n\"; } );"
done_testing
