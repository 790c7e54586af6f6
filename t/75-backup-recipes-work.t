#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each command of tabletfs-backup(7), run as printed, does what the page says.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012,SC2001,SC2086
. "${SRC:-.}/t/lib/mount.sh" || exit 1

page=$(sed 's/^\.Dl //' "$SRC/man/tabletfs-backup.7")
# The command of the page that matches $1, with our directories.
recipe()
{
	local line
	line=$(grep -m 1 -E -- "^$1" <<<"$page")
	[ -n "$line" ] || { echo "false # the page has no command $1"; return; }
	sed "s|/mnt|$M|g; s|/backup|$W/backup|g; s|/data|$D|g; s|TABLE|webtable|g" <<<"$line"
}

ok "the store mounts" mount_store
mkdir -p "$W/backup" "$M/webtable/com.cnn.www/contents" "$M/webtable/org.w3/contents"
for v in 1 2 3; do echo "<html>v$v" >"$M/webtable/com.cnn.www/contents/html"; done
echo w3 >"$M/webtable/org.w3/contents/html"
echo maxversions=5 >"$M/webtable/.families/contents/gc"

night=$(recipe 'rsync -a --delete /mnt/ /backup/')
ok "every night: $night" t bash -c "$night"
is "$(tree "$W/backup/webtable")" "$(tree "$M/webtable")" "the copy has every version and the schema"
is "$(t bash -c "${night/rsync -a/rsync -ai}")" "" "a second run transfers nothing"
rm "$M/webtable/org.w3/contents/html"
ok "a removed cell is removed from the copy" t bash -c "$night"
is "$(ls "$W/backup/webtable/org.w3/contents" 2>/dev/null)" "" "  by the next run"

rm -rf "$W/backup" && mkdir "$W/backup"
for today in 2026-11-21 2026-11-22; do
	for pattern in 'rsync -a --link-dest' 'ln -sfn'; do
		command=$(recipe "$pattern")
		ok "$today: $command" t bash -c "today=$today; $command"
	done
	[ $today = 2026-11-22 ] || echo new >"$M/webtable/com.cnn.www/contents/html"
done
is "$(find "$W/backup/2026-11-22" -name 'html@*' -links 2 | wc -l)" 3 "unchanged versions are links to the day before"
is "$(find "$W/backup/2026-11-22" -name 'html@*' -links 1 | wc -l)" 1 "  and the new one is not"

rm -rf "$W/backup" && mkdir -p "$W/backup/webtable"
ok "newest versions only" t bash -c "$(recipe 'rsync -aO')"
is "$(find "$W/backup/webtable" -type f -printf '%P ')" "com.cnn.www/contents/html " "  have plain names"
ok "one file" t bash -c "$(recipe 'cat /mnt/webtable/.export.tar')"
is "$(tar -tf "$W/backup/webtable.tar" 2>/dev/null | grep -c 'html@')" 4 "  contains all versions"
rm -r "$M/webtable/org.w3"
before=$(tree "$M/webtable")
rm -r "$M/webtable"
ok "a table, the fast way" t bash -c "$(recipe 'mkdir /mnt')"
ok "  from the archive" t bash -c "$(recipe 'cat /backup/webtable.tar')"
is "$(tree "$M/webtable")" "$before" "  is as it was"

rm -rf "$W/backup" && mkdir "$W/backup"
t bash -c "$night"
before=$(tree "$M/webtable")
row=$(recipe 'rsync -a --delete /backup/webtable/com.cnn.www')
echo later >"$M/webtable/com.cnn.www/contents/html"
ok "a row, as it was: $row" t bash -c "$row"
is "$(cat "$M/webtable/com.cnn.www/contents/html")" "new" "  newer versions are removed"
is "$(tree "$M/webtable")" "$before" "  and the table is as it was"
rm -r "$M/webtable"
ok "a table" t bash -c "$(recipe 'rsync -a /backup/webtable/ ')"
is "$(tree "$M/webtable")" "$before" "  is as it was"
rm -r "$M/webtable" && mkdir "$M/webtable"
ok "a table from a tree, the fast way" t bash -c "$(recipe 'tar -C /backup/webtable')"
# tar stores whole seconds; the timestamps of cells are in their names.
is "$(tree "$M/webtable" | grep -v '^\./\.schema')" "$(grep -v '^\./\.schema' <<<"$before")" "  is as it was"
is "$(grep -c maxversions=5 "$M/webtable/.schema")" 1 "  with its schema"
unmount_store
D="$W/new"
ok "a new store mounts" mount_store
ok "a store" t bash -c "$(recipe 'rsync -a /backup/ /mnt/')"
is "$(tree "$M/webtable")" "$before" "  is as it was"
done_testing
