#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletctl delete --scan: deletes the rows or versions that a scan with the same clauses
# finds, and nothing else, on a mount and on a data directory; asks on a terminal, and refuses
# without one unless --yes is given; an interrupted run is finished by a second one.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model serves no other process"
ok "mount" mount_store -o allow_other
cd "$W" || exit 1
printf 'key,f:a,f:b,g:c\nr1,1,2,3\nr2,1,,3\nr3,,2,\ns1,1,2,3\n' >in.csv
fill() {
	"$TABLETCTL" ctl mnt/t truncate >.none 2>&1
	"$TABLETCTL" import -p mnt/t in.csv >.none 2>&1
	printf 'r1\tf:a\t5\told\ns1\tf:a\t6\told\n' | "$TABLETCTL" import mnt/t >.none 2>&1
}
fill
# Without ages and new versions: row, column, value.
cells() { cut -f 1,2,4 <(cat "${1:-mnt/t}/.scan/.tsv") | tr '\n\t' ', '; }
all='r1 f:a 1,r1 f:a old,r1 f:b 2,r1 g:c 3,r2 f:a 1,r2 g:c 3,r3 f:b 2,s1 f:a 1,s1 f:a old,s1 f:b 2,s1 g:c 3,'
is "$(cells)" "$all" "the table"
delete() { t "$TABLETCTL" delete "$@" 2>"$W/.err" </dev/null; }
is "$(delete --scan --dry-run --prefix r mnt/t)" "would delete 3 rows, 7 cells" "--dry-run counts"
is "$(cells)" "$all" "  and deletes nothing"
is "$(delete --scan --prefix r mnt/t; echo $?)" 2 "without a terminal and --yes it fails"
like "$(cat .err)" 'not a terminal: --yes deletes without a question' "  with the reason"
is "$(delete --scan --yes mnt/t; echo $?)" 2 "without a clause, too"
like "$(cat .err)" '--scan needs a clause.*truncate' "  with the reason"
is "$(delete --scan --yes --limit x mnt/t; echo $?)" 2 "a clause that is not valid"
is "$(delete --scan --yes --family none mnt/t; echo $?)" $'deleted at least 0 rows, 0 cells\n3' "a family that does not exist"
is "$(delete --scan --yes --prefix r mnt/t r1; echo $?)" 2 "a row and clauses"
is "$(delete --yes --before never mnt/t; echo $?)" 2 "a time that is none"
is "$(delete --yes --before 2001-01-01 --until 5 mnt/t; echo $?)" $'deleted 0 rows, 0 cells\n0' "--before and an earlier --until"
is "$(delete mnt/t; echo $?)" 2 "neither a row nor --scan"
is "$(delete --scan --yes --prefix r mnt/none; echo $?)" 2 "a table that does not exist"
is "$(cells)" "$all" "  nothing was deleted"

cat mnt/t/r1/f/a >.none # the kernel has it
is "$(delete --scan --yes --prefix r --limit 2 mnt/t)" "deleted 2 rows, 6 cells" "rows"
is "$(cells)" 'r3 f:b 2,s1 f:a 1,s1 f:a old,s1 f:b 2,s1 g:c 3,' "  are deleted with all of their cells"
soon "ls mnt/t; ls mnt/t/r1/f" $'r3\ns1' "  the mount shows it"
fill
is "$(delete --scan --yes --prefix r --qualifier a mnt/t)" "deleted 2 rows, 3 cells" "cells"
is "$(cells)" 'r1 f:b 2,r1 g:c 3,r2 g:c 3,r3 f:b 2,s1 f:a 1,s1 f:a old,s1 f:b 2,s1 g:c 3,' "  are deleted, and not their rows"
fill
is "$(delete --yes --before 2001-01-01 --prefix r mnt/t)" "deleted 1 rows, 1 cells" "versions before a time"
is "$(cells)" "${all/r1 f:a old,/}" "  are deleted, and newer ones are not"
is "$(delete --scan --yes --value-is 3 --versions 1 mnt/t)" "deleted 3 rows, 3 cells" "cells by their value"
is "$(delete --scan --yes --value-is 3 mnt/t)" "deleted 0 rows, 0 cells" "  once"
fill
is "$(delete --scan --yes --row '.1' "$D/t")" "deleted 2 rows, 8 cells" "through the data directory"
is "$(cells)" 'r2 f:a 1,r2 g:c 3,r3 f:b 2,' "  the same"

echo "# ---- a terminal ----"
fill
cat >"$W/ask.py" <<'PY'
import os, pty, sys
answer, argv = sys.argv[1].encode() + b"\n", sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    os.execvp(argv[0], argv)
seen = b""
try:
    while True:
        seen += os.read(fd, 4096)
        if answer and b"[y/N]" in seen:
            os.write(fd, answer)
            answer = b""
except OSError:
    pass
sys.stdout.write(seen.decode().replace("\r", ""))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
said=$(t python3 "$W/ask.py" n "$TABLETCTL" delete --scan --prefix r mnt/t)
is $? 2 "the answer n"
like "$said" 'mnt/t: delete 3 rows, 7 cells\? \[y/N\]' "  to a question that has the counts"
is "$(cells)" "$all" "  deletes nothing"
said=$(t python3 "$W/ask.py" y "$TABLETCTL" delete --scan --prefix r mnt/t)
is $? 0 "the answer y"
like "$said" 'deleted 3 rows, 7 cells' "  deletes"
is "$(cells)" 's1 f:a 1,s1 f:a old,s1 f:b 2,s1 g:c 3,' "  what it has counted"

echo "# ---- many rows, large rows, and an interruption ----"
seq -f 'row%06.0f	f:q	1	x' 1 150000 >many.tsv
seq -f 'wide	f:%06.0f	1	x' 1 70000 >>many.tsv
t "$TABLETCTL" import -p mnt/many many.tsv >.none 2>&1
is "$(delete --yes --scan --prefix wide --qprefix 0 mnt/many)" "deleted 1 rows, 70000 cells" "a row of 70,000 cells"
"$TABLETCTL" delete --yes --scan --prefix row mnt/many >.count 2>.err &
pid=$!
begun() { [ "$(head -n 1 mnt/many/.scan/limit=1/.keys)" != row000001 ]; }
wait_for "the first row to be deleted" begun
kill -TERM $pid
wait $pid
status=$?
left=$(cat mnt/many/.scan/.keys | wc -l)
if [ $status = 143 ]; then
	like "$(cat .err)" 'interrupted: what was deleted stays deleted; a second run deletes the rest' "an interruption"
	like "$(cat .count)" "^deleted $((150000 - left)) rows, $((150000 - left)) cells" "  prints the rows that are gone"
else
	is "$status $left" "0 0" "it was quicker than the signal"
fi
is "$(delete --yes --scan --prefix row mnt/many)" "deleted $left rows, $left cells" "a second run deletes the rest"
is "$(cat mnt/many/.scan/.count)" $'rows\t0\ncells\t0' "  and no row is left"

echo "# ---- rights ----"
fill
echo 'protect = "data";' >>mnt/t/.schema
is "$(delete --yes --scan --prefix r mnt/t; echo $?)" $'deleted at least 0 rows, 0 cells\n3' "a table whose data is protected"
like "$(cat .err)" 'mnt/t: the data of the table is protected' "  with the reason"
is "$(cells)" "$all" "  stays"
if [ "$(id -u)" = 0 ] && has setpriv; then
	is "$(t setpriv --reuid=65534 --regid=65534 --clear-groups "$TABLETCTL" delete --yes --scan --prefix r mnt/t 2>.err; echo $?)" 2 "another user, who cannot reach the store"
	is "$(cells)" "$all" "  deletes nothing"
fi
cd / || exit 1
unmount_store
ok "without a mount" t "$TABLETCTL" delete --yes --scan --prefix none "$D/many"
check_store
done_testing
