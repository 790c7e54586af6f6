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

# ---- tabletctl prints the reason ----
fails "tabletctl ctl: a bad verb" '/t/\.ctl: no such verb: "explode"' "$TABLETCTL" ctl "$M/t" explode
fails "  of the mount" '/\.tabletfs/ctl: no such verb: "explode"' "$TABLETCTL" ctl "$M" explode
fails "tabletctl config: a setting that does not exist" "nosuch: unknown setting" "$TABLETCTL" config "$M" nosuch=1
fails "  a wrong value" "sync: must be true or false" "$TABLETCTL" config "$M" sync=maybe
for c in scan count export; do
	fails "tabletctl $c: a family that does not exist" "/t/\.scan/family=nosuch: .*it has no family .nosuch." "$TABLETCTL" "$c" --family nosuch "$M/t"
	fails "  a wrong expression" "the pattern of qualifiers, ..., is not valid: missing closing parenthesis" "$TABLETCTL" "$c" --qualifier '(' "$M/t"
done
unmount_store

# ---- each user reads the reasons of his refusals ----
ok "a mount for all users" mount_store -o allow_other
chmod 755 "$W"
setpriv --reuid=1234 --regid=1234 --clear-groups ls "$M/t/.scan/family=nosuch" >/dev/null 2>&1
mkdir "$M/c d" 2>/dev/null
is "$(setpriv --reuid=1234 --regid=1234 --clear-groups cut -f 2 "$M/.tabletfs/refused" | tr '\n' ' ')" "user 1234 " "a user reads his own refusals"
is "$(cut -f 2 "$M/.tabletfs/refused" | tr '\n' ' ')" "user 1234 0 " "  root all"
like "$(tail -n 1 "$M/.tabletfs/refused")" "^20..-..-..T..:..:..\.[0-9]{6}Z	0	[0-9]+	/c d: .*: Invalid argument$" "  with time, thread, path and reason"
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
