#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each recipe of tabletfs-backup(7), run as printed, does what the page says.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012,SC2001,SC2086
. "${SRC:-.}/t/lib/mount.sh" || exit 1
PATH=$(dirname "$TABLETCTL"):$PATH # the recipes name tabletctl and tabletfs
export PATH

# The recipes of the page: the lines of an example, and each .Dl, as one line with "; " between commands.
awk '/^\.Bd -literal/ { on = 1; text = ""; next } /^\.Ed/ { if (on) print text; on = 0; next }
	on { text = text (text == "" ? "" : "; ") $0 } sub(/^\.Dl /, "") { print }' "$SRC/man/tabletfs-backup.7" >"$W/recipes"
: >"$W/run"
# run DESC PATTERN: runs the first recipe that matches, with our directories, up to $TABLE and $DATE.
run()
{
	local line
	line=$(grep -m 1 -E -- "$2" "$W/recipes")
	[ -n "$line" ] || { fail "$1: the page has no recipe $2"; return; }
	echo "$line" >>"$W/run"
	line=$(sed "s|/mnt|$M|g; s|/backup|$W/backup|g; s| /data| $D|g; s|TABLE|webtable|g" <<<"$line")
	[ -z "${DATE:-}" ] || line=${line/\$(date +%F)/$DATE}
	ok "$1: $line" t bash -ec "$line"
}
site() { mkdir -p "$M/webtable/$1/contents" && echo "$2" >"$M/webtable/$1/contents/html"; }
emptied() { rm -rf "$W/backup" && mkdir -p "$W/backup"; }

ok "the store mounts" mount_store
mkdir "$W/backup"
for v in 1 2 3; do site com.cnn.www "<html>v$v"; done
site org.w3 w3
mkdir -p "$M/other/r/f" && echo o >"$M/other/r/f/q"
echo maxversions=5 >"$M/webtable/.families/contents/gc"

# ---- of one instant ----
before=$(tree "$M/webtable")
run "all tables" 'mkdir /mnt/.snap/night'
is "$(tree "$W/backup/webtable")" "$before" "  every version and the schema are in the copy"
is "$(tree "$W/backup/other")" "$(tree "$M/other")" "  of each table"
is "$(ls "$M/.snap" "$M/webtable/.snap")" "$(printf '%s:\n\n%s:' "$M/.snap" "$M/webtable/.snap")" "  no snapshot is left"
rm "$M/webtable/org.w3/contents/html"
run "a removed cell is removed from the copy" 'mkdir /mnt/.snap/night'
is "$(ls "$W/backup/webtable/org.w3/contents" 2>/dev/null)" "" "  by the next run"
is "$(tree "$W/backup/webtable" | grep html)" "$(tree "$M/webtable" | grep html)" "  which is the table"

emptied
run "one table" 'mkdir /mnt/TABLE/.snap/night'
is "$(tree "$W/backup/webtable" | grep html)" "$(tree "$M/webtable" | grep html)" "  is the table"
mkdir "$M/webtable/.snap/busy"
site com.cnn.www later
is "$(tar -xOf "$M/webtable/.snap/busy/.export.tar" 2>/dev/null | grep -c later)" 0 ".export.tar of a snapshot has no later cell"
rmdir "$M/webtable/.snap/busy"

emptied
for DATE in 2026-11-21 2026-11-22; do
	run "a copy per day" '^today='
	[ $DATE = 2026-11-22 ] || site com.cnn.www new
done
DATE=
is "$(find "$W/backup/2026-11-22/webtable" -name 'html@*' -links 2 | wc -l)" 4 "  unchanged versions are links to the day before"
is "$(find "$W/backup/2026-11-22/webtable" -name 'html@*' -links 1 | wc -l)" 1 "  and the new one is not"
is "$(tree "$W/backup/last/webtable")" "$(tree "$M/webtable" | grep -v org.w3)" "  and the last one is the table"

emptied
run "one file" 'mkdir /mnt/TABLE/.snap/file'
is "$(tar -tf "$W/backup/webtable.tar" | grep -c 'html@')" 5 "  has all versions"
rm -rf "$M/webtable/org.w3"
before=$(tree "$M/webtable")
rm -r "$M/webtable"
run "a table, the fast way" '^mkdir /mnt/TABLE; cat'
is "$(tree "$M/webtable")" "$before" "  is as it was"

# ---- of the living tree ----
emptied
run "all tables, living" '^rsync -a --delete /mnt/ /backup/'
is "$(tree "$W/backup/webtable")" "$before" "  are copied"
is "$(t rsync -ai --delete "$M/" "$W/backup/")" "" "  a second run transfers nothing"
mkdir -p "$W/plain/webtable" && mv "$W/backup" "$W/tree" && mv "$W/plain" "$W/backup"
run "newest versions only" '^rsync -aO'
is "$(find "$W/backup/webtable" -type f -printf '%P ')" "com.cnn.www/contents/html " "  have plain names"
emptied
DATE=2026-11-23 run "what was committed" 'export --changed'
is "$(tar -tf "$W/backup/webtable-2026-11-23.tar" | grep -c 'html@')" 5 "  is in the archive"

# ---- the mirror ----
rm -rf "$W/backup" && mkdir "$W/backup"
cp --preserve=timestamps "$M/webtable/.schema" "$W/schema"
echo 'changes = "7d"; families = ({name = "contents"; gc = "maxversions=5";});' >"$M/webtable/.schema"
run "a mirror" '^tabletctl mirror'
site com.cnn.www mirrored
run "  has the changes" '^tabletctl mirror'
run "  and is equal" '^tabletctl compare'
is "$(tabletctl scan "$W/backup/store/webtable")" "$(tabletctl scan "$M/webtable")" "  which a scan shows, too"
rm "$(ls "$M"/webtable/com.cnn.www/contents/html@* | tail -n 1)"
cp --preserve=timestamps "$W/schema" "$M/webtable/.schema"

# ---- restores ----
rm -rf "$W/backup" && mv "$W/tree" "$W/backup"
site com.cnn.www later
run "a row, as it was" '^rsync -aI --delete /backup/TABLE/com.cnn.www'
is "$(tree "$M/webtable")" "$before" "  is as it was"
name=$(basename "$(ls "$M"/webtable/com.cnn.www/contents/html@* | head -n 1)")
touch -d "@${name#html@}" "$W/now" 2>/dev/null
text=$(cat "$M/webtable/com.cnn.www/contents/$name")
tr 'a-z' 'b-za' <<<"$text" >"$M/webtable/com.cnn.www/contents/$name"
run "a table, also versions with other bytes of the same size" '^rsync -aI /backup/TABLE/ '
is "$(tree "$M/webtable")" "$before" "  is as it was"
rm -r "$M/webtable"
run "a table from a tree, the fast way" '^mkdir /mnt/TABLE; tar'
# tar stores whole seconds; the timestamps of cells are in their names.
is "$(tree "$M/webtable" | grep -v '^\./\.schema')" "$(grep -v '^\./\.schema' <<<"$before")" "  is as it was"
is "$(grep -c maxversions=5 "$M/webtable/.schema")" 1 "  with its schema"
before=$(tree "$M/webtable")

# ---- the data directory, with a damaged SSTable ----
echo flush >"$M/webtable/.ctl"
unmount_store
tabletfs "$D" "$M" 2>/dev/null
run "the data directory" '^fusermount3 -u /mnt; flock'
is "$(tree "$M/webtable")" "$before" "  the store is mounted again"
ok "  the copy is a store" tabletctl check "$W/backup/data"
mkdir "$W/copied"
tabletfs "$W/backup/data" "$W/copied" 2>/dev/null
is "$(tree "$W/copied/webtable")" "$before" "  with the same tables"
fusermount3 -u "$W/copied"
fusermount3 -u "$M"
sst=$(ls -S "$D"/sst/*/*.sst | head -n 1)
printf '\xff\xff\xff\xff' | dd of="$sst" bs=1 seek=40 conv=notrunc status=none
tabletfs "$D" "$M" 2>/dev/null
rm -rf "$W/backup/webtable" && mkdir "$W/backup/webtable"
cp -a "$W/backup/." "$W/kept" 2>/dev/null
tabletfs "$W/backup/data" "$W/copied" 2>/dev/null
rsync -a "$W/copied/webtable/" "$W/backup/webtable/"
fusermount3 -u "$W/copied"
run "cells that damage took" '^fusermount3 -u /mnt; tabletctl repair'
is "$(tree "$M/webtable" | grep html)" "$(grep html <<<"$before")" "  are there again"
fusermount3 -u "$M"
rm -rf "$W/backup/data"
mkdir "$D/new"
run "a store" '^tabletfs /data/new /mnt'
is "$(tree "$M/webtable" | grep html)" "$(grep html <<<"$before")" "  is as it was"
fusermount3 -u "$M"
is "$(sort "$W/recipes")" "$(sort -u "$W/run")" "each recipe of the page was run"
done_testing
