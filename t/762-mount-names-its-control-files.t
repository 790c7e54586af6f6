#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A mount names its control files: /.tabletfs/help, the clauses that ls TABLE/.scan shows, and the texts of .ctl, .snap/.help and .mutate.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2010,SC2012,SC2016
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
like "$(cat "$W/daemon.err")" "$M/.tabletfs/help" "the daemon's start line names the help"
cd "$M" || exit 1
mkdir -p t/com.cnn/f t/org/f
echo 'changes = "7d";' >>t/.schema
echo x >t/com.cnn/f/q
echo y >t/org/f/q
ls .tabletfs >"$W/list"
ok "ls .tabletfs has it" grep -x help "$W/list"
ok "it has about 40 lines of at most 100 bytes" awk 'length > 100 { exit 1 } END { exit NR < 35 || NR > 50 }' .tabletfs/help
# Each command without an argument of its own, as printed.
sed -nE 's/^  (cat|ls) ([a-z.][^ ]*|[^ ]*)  .*/\1 \2/p' .tabletfs/help | sed 's/;.*//; s/ > t.tar//' >"$W/commands"
ok "it has such commands" [ "$(wc -l <"$W/commands")" -ge 15 ]
echo maxversions=3 >t/.families/f/gc
mkdir -p t/row/f t/.snap/monday && echo 1 >t/row/f/q
while read -r command; do
	case $command in *cells.tsv*) continue ;; esac
	ok "  $command" t bash -c "$command"
done <"$W/commands"

# ---- the clauses ----
ls -FU t/.scan >"$W/list"
ok "ls .scan shows the clauses, as files" [ "$(grep -c '^[a-z-]*=$' "$W/list")" -gt 14 ]
is "$(grep -v '=$' "$W/list")" "$(printf "%s=/\n" from to stored-from stored-to qualifier qprefix qfrom qto qafter value value-is)" "  but those that an empty value, qualifier or bound may follow"
like "$(cat t/.scan/prefix=)" '^prefix=KEY +rows that begin with KEY' "a clause reads as its help"
while read -r clause; do
	like "$(cat "t/.scan/$clause")" "^$clause" "  $clause"
done < <(grep '=$' "$W/list")
is "$(ls t/.scan/from= t/.scan/prefix=com/value-is=)" "$(printf 't/.scan/from=:\n\nt/.scan/prefix=com/value-is=:')" "  below from= and value-is= none are listed"
is "$(stat -c %F t/.scan/prefix=x t/.scan/prefix= t/.scan/from= | tr '\n' ,)" "directory,regular file,directory," "with a value it is a directory"
is "$(stat -c %s t/.scan/limit=):$(cat t/.scan/limit= | wc -c)" "$(cat t/.scan/limit= | wc -c):$(stat -c %s t/.scan/limit=)" "  its size is real"
is "$(cat t/.scan/from=/.keys | tr '\n' ' ')" "com.cnn org row " "from= is all rows"
ls t/.scan/prefix=com/limit=3 >"$W/list"
ok "ls below a clause shows those that can follow" grep -x 'family=' "$W/list"
is "$(grep -cx 'prefix=\|limit=' "$W/list")" 0 "  without those that were given"
is "$(ls t/.scan/limit=3/.rows t/.scan/limit=3/.rows/org)" "$(printf 't/.scan/limit=3/.rows:\ncom.cnn\norg\nrow\n\nt/.scan/limit=3/.rows/org:\nf')" "the results are as before"
ok "find ends below 60 names" [ "$(find t/.scan | wc -l)" -lt 60 ]
is "$(t rsync -an --out-format=%n t/ "$W/none/" | grep -c '=\|help')" 0 "rsync of the table does not see them"
cp -r t "$W/copy"
is "$(find "$W/copy" | grep -c '=\|help')" 0 "  nor does cp -r"
fails "a clause's help cannot be written" 'Permission denied|not permitted|Read-only' bash -c 'echo x >t/.scan/limit='
fails "  nor removed" 'not permitted|Read-only' rm -f t/.scan/limit=
fails "an unknown clause is refused" 'Invalid argument' ls t/.scan/prefx=a
is "$(ls -F t/.snap/monday/.scan | grep -c '=$')" "$(ls -F t/.scan | grep -c '=$')" "a snapshot's scan has them, too"

# ---- the others ----
like "$(cat t/.ctl)" '^compact ' ".ctl reads as its verbs"
like "$(cat .snap/.help t/.snap/.help | sort -u | head -n 1)$(cat t/.snap/.help)" 'mkdir .snap/NAME' ".snap/.help"
is "$(ls t/.snap):$(ls .snap)" "monday:" "  is not listed"
like "$(cat t/org/.mutate)" 'check-absent F:Q' ".mutate reads as its verbs"
is "$(bash -c 'exec 3<>t/org/.mutate; cat <&3')" "" "  but not through a descriptor that writes"
cd "$W" && unmount_store
if [ -e /dev/ptmx ] && has script; then
	script -qec "'$TABLETFS' '$D' '$M'" /dev/null >"$W/terminal" </dev/null
	like "$(cat "$W/terminal")" "mounted on $M; $M/.tabletfs/help" "on a terminal, the command names the help"
	fusermount3 -u "$M"
	wait_for "the daemon's end" eval "! pgrep -f 'tabletfs $D $M'"
fi
ok "mount read-only" mount_store -o ro
like "$(cat "$M/t/.scan/limit=")" '^limit=N' "a read-only mount has them"
done_testing
