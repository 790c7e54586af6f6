#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TABLE/.latest and -o latest show the newest version of each cell under its
# plain name, for tools that do not expect versions.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2010,SC2012,SC2086
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
T1=$M/t
L=$T1/.latest
mkdir -p "$T1/r/f" "$T1/r/g"
for i in 1 2 3; do echo "a$i" >"$T1/r/f/a"; done
echo b >"$T1/r/f/b"
echo w >"$T1/r/g/%2Ew"
echo odd >"$T1/r/f/x%4012@5"
is "$(cells "$L" | tr '\n' ' ')" "./r ./r/f ./r/f/a ./r/f/b ./r/f/x%4012 ./r/g ./r/g/%2Ew " "the columns, by their plain names"
is "$(cat "$L/r/f/a"):$(ts "$L/r/f/a")" "a3:$(ts "$T1/r/f/a")" "with the newest version's bytes and time"
is "$(cat "$L/r/f/x%4012")" odd "an escaped @"
fails "versions are not there" 'No such file' stat "$L/r/f/a@$(ts "$T1/r/f/a")"
fails "nor can be made" 'Invalid argument' bash -c "echo x >'$L/r/f/a@5'"
unlike "$(ls -A "$T1")" 'latest' "it is not listed"

echo a4 >"$L/r/f/a"
is "$(find "$T1/r/f" -name 'a@*' | wc -l):$(cat "$T1/r/f/a")" "4:a4" "a write is a version more"
mkdir -p "$L/r2/f"
echo new >"$L/r2/f/n"
is "$(cat "$T1/r2/f/n")" new "rows and cells can be made"
rm "$L/r2/f/n"
is "$(find "$T1/r2" -type f 2>/dev/null | wc -l)" 0 "rm removes the column"
rmdir "$L/r2/f" "$L/r2"
ok "mv" mv "$L/r/f/b" "$L/r/f/c"
is "$(cat "$L/r/f/c")" b "  within a row"
ok "sed -i" t sed -i s/a4/a5/ "$L/r/f/a"
is "$(cat "$T1/r/f/a")" a5 "  works"
# There a file's time is the time that was set, even an older one: the same mutation removes newer versions.
ok "touch -d to the past" t touch -d '2010-10-10 10:10:10' "$L/r/f/a"
is "$(ts "$L/r/f/a"):$(cat "$L/r/f/a")" "1286705410000000:a5" "  is that time"
is "$(ls "$T1/r/f" | grep -c '^a@')" 1 "  newer versions are deleted"
cd / || exit 1

# ---- rsync of plain trees converges ----
S=$W/plain
mkdir -p "$S/r/f" "$S/s/f"
for i in 1 2 3 4 5; do echo "one $i" >"$S/r/f/k$i"; done
echo s >"$S/s/f/s"
: >"$S/s/f/empty"
touch -d '2012-12-12 12:12:12.5' "$S"/*/f/*
sync_in() { t rsync -ai "$@" "$S/" "$L/"; }
ok "rsync -a --delete of a plain tree" sync_in --delete
is "$(diff -r "$S" "$L")" "" "the trees are the same"
is "$(sync_in --delete)" "" "a second one itemises nothing, directories neither"
is "$(t rsync -ai --delete "$L/" "$S/")" "" "nor the other direction"
is "$(stat -c %Y "$T1/r")" 0 "directories of versions have no time"
echo "two" >"$S/r/f/k1"
touch -d '2013-01-01 00:00:00' "$S/r/f/k1"
echo "older" >"$S/r/f/k2"
touch -d '2011-01-01 00:00:00' "$S/r/f/k2"
rm "$S/r/f/k3"
for opts in "" --inplace --delay-updates --checksum; do
	is "$(sync_in --delete $opts | files | tr -s ' ' | sed 's/^>[^ ]* //' | LC_ALL=C sort | tr '\n' ';')" "*deleting r/f/k3;r/f/k1;r/f/k2;" "rsync $opts: a newer, an older and a deleted one"
	is "$(diff -r "$S" "$L")$(sync_in --delete $opts)" "" "  converges"
	is "$(cat "$T1/r/f/k2"):$(stat -c %Y "$T1/r/f/k2")" "older:1293840000" "  the older one is current"
	# And back for the next round.
	echo "one 3" >"$S/r/f/k3"
	echo "one 2" >"$S/r/f/k2"
	echo "one 1" >"$S/r/f/k1"
	touch -d '2012-12-12 12:12:12.5' "$S"/r/f/k[123]
	sync_in --delete >/dev/null
	is "$(diff -r "$S" "$L")" "" "  and back"
	echo "two" >"$S/r/f/k1"
	touch -d '2013-01-01 00:00:00' "$S/r/f/k1"
	echo "older" >"$S/r/f/k2"
	touch -d '2011-01-01 00:00:00' "$S/r/f/k2"
	rm "$S/r/f/k3"
done
sync_in --delete >/dev/null
ok "cp -a out" t cp -a "$L" "$W/out"
is "$(diff -r "$W/out" "$S")" "" "  is the plain tree"
ok "tar c | tar x into another" bash -c "mkdir '$M/u' && tar -C '$S' -cf - . | tar -C '$M/u/.latest' -xf -"
is "$(diff -r "$S" "$M/u/.latest")" "" "  is the same"
is "$(cells "$M/u" | grep -c '@')" "$(find "$S" -type f | wc -l)" "one version each"
ok "rm -r in .latest" t rm -r "$M/u/.latest/r"
is "$(find "$M/u/r" -type f 2>/dev/null | wc -l)" 0 "  removes the row"

# ---- -o latest ----
want=$(cd "$S" && find . | sort)
unmount_store
mount_store
is "$(sync_in --delete -O)" "" "rsync -O: a new mount knows no directory's time"
like "$(sync_in --delete)" '^\.d\.\.t' "  without it, they are set again"
is "$(sync_in --delete)" "" "  once"
rm -r "$L/s"
before=$(date +%s)
cp -r "$S/s" "$L/"
ok "a directory made again has the time of its entries" test "$(stat -c %Y "$L/s")" -ge "$before"
touch -d @5 "$S/s" "$L/s"
touch -d @7 "$S/s/f"
sync_in >/dev/null
is "$(stat -c %Y "$L/s" "$L/s/f" | tr '\n' ' ')" "5 7 " "  until it is set"
unmount_store
ok "-o latest" mount_store -o latest
is "$(cd "$T1" && find . | sort)" "$want" "the plain tree is in the place of the table"
is "$(diff -r "$S" "$T1")$(t rsync -ai --delete "$S/" "$T1/" | files)" "" "the same files"
is "$(t rsync -ai --delete "$S/" "$T1/")" "" "  and then nothing is itemised"
echo x >"$T1/r/f/x"
fails "no versions" 'Invalid argument' bash -c "echo x >'$T1/r/f/x@1'"
t touch -d '2000-01-01' "$T1/r/f/x"
is "$(cat "$T1/r/f/x"):$(stat -c %Y "$T1/r/f/x")" "x:946684800" "times are those set"
unmount_store
ok "-o latest,ro" mount_store -o latest,ro
is "$(cat "$T1/r/f/x"):$(tail -c 1 "$T1/r/f/x" | od -An -c)" "x:  \\n" "can be read, from its end too"
done_testing
