#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A refused call writes exactly one line to the log.  Also: several lines written
# to one control file, and libfuse's own options.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
cd "$M" || exit 1
mkdir -p t/r/f t/.families/g
echo x >t/r/f/q
one_line() { # DESC COMMAND...
	local what=$1 before after
	shift
	before=$(wc -l <.tabletfs/log)
	"$@" 2>/dev/null
	after=$(wc -l <.tabletfs/log)
	is $((after - before)) 1 "$what leaves one line in the log"
}
one_line "a directory in a family" mkdir t/r/f/dir
one_line "a symlink" ln -s x t/r/f/s
one_line "a bad table name" mkdir 'a b'
one_line "a bad row name" mkdir t/x%41
one_line "chmod of a cell" chmod 600 t/r/f/q
one_line "a touch past another version" bash -c 'echo y >t/r/f/q; touch -d 1971-01-01 t/r/f/q'
one_line "a bad verb" bash -c 'echo explode >t/.ctl'
one_line "a bad rule" bash -c 'echo never >t/.families/f/gc'
one_line "a bad schema" bash -c 'echo "what = 1;" >t/.schema'
ok "two verbs at once, line by line" bash -c 'printf "flush\ncompact\n" >t/.ctl'
ok "  and by two commands" bash -c '(echo flush; echo flush) >t/.ctl'
cd / || exit 1
unmount_store
ok "-o fsname" mount_store -o fsname=webstore
like "$(grep -F " $M " /proc/self/mounts)" '^webstore ' "  is the source"
unmount_store
mount_store -o max_read=131072
ok "-o max_read: it answers" t ls "$M"
unmount_store
cp -r "$D" "$W/damaged"
find "$W/damaged/lock" -type f -exec sh -c 'head -c 100 /dev/urandom >"$1"' sh {} \;
D=$W/damaged t "$TABLETFS" "$W/damaged" "$M" >"$W/.e" 2>&1
is "$?:$(mounted "$M" && echo mounted):$(wc -l <"$W/.e")" "1::1" "a damaged root file: one line, no mount"
done_testing
