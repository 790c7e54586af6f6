#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A table with a quota accepts no puts when it is as large, and df of its directory shows the quota.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no servers"
ok "mount" mount_store
F='families = ( { name = "f"; }, { name = "n"; type = "counter"; } );'
set_schema() { echo "$2" >"$W/text" && cp "$W/text" "$M/$1/.schema"; }
Q="Disk quota exceeded"
size_of() { df -B1 --output=size "$1" | tail -n 1 | tr -d ' '; }
used_of() { df -B1 --output=used "$1" | tail -n 1 | tr -d ' '; }
# put N: writes of 64 KiB that cannot be compressed, until one is refused; at most N.
put() {
	local i
	for ((i = 0; i < $1; i++)); do
		mkdir -p "$M/t/r$i/f" && head -c 65536 /dev/urandom >"$W/x" && cp "$W/x" "$M/t/r$i/f/q" || return
	done
}
mkdir "$M/t" "$M/free" && set_schema t "quota = \"1M\"; $F"
like "$(cat "$M/t/.schema")" 'quota = "1M"' "a quota is in .schema"
is "$(size_of "$M/t")" 1048576 "df of the table shows it"
mkdir -p "$M/t/r0/f"
is "$(size_of "$M/t/r0/f")" 1048576 "  and of a directory in it"
[ "$(size_of "$M/free")" -gt 1048576 ] && pass "  but not of another table" || fail "  but not of another table"
fails "puts beyond it are refused" "$Q" put 64
like "$(tail -n 1 "$M/.tabletfs/refused")" "/t/r[0-9]*/f/q: the table has reached its quota .*: $Q" "  with a line in refused"
like "$(cat "$M/.tabletfs/log" "$W/server.err" 2>&1)" "table t: it has reached its quota of 1048576 bytes: puts are refused" "  and one of the server in the log"
rows=$(find "$M/t" -name 'q@*' | wc -l)
[ "$rows" -ge 8 ] && [ "$rows" -le 17 ] && pass "  at its size" || fail "  at its size: $rows cells of 64 KiB"
is "$(df --output=avail "$M/t" | tail -n 1 | tr -d ' ')" 0 "df shows no space"
fails "an import is refused" "$Q" sh -c "printf 'd\tf:q\t1\tv\n' >'$W/i.tsv' && cp '$W/i.tsv' '$M/t/.import.tsv'"
fails "tabletctl put is refused" "$Q|quota" "$TABLETCTL" put "$D/t" a f:q x
fails ".mutate is refused" "$Q|I/O error" sh -c "printf 'set f:q\tv\ncommit\n' >'$M/t/r0/.mutate'"
fails "an addition to a counter is refused" "the table has reached its quota" "$TABLETCTL" increment "$D/t" r0 n:hits 1
fails "  through the mount, too" "the table has reached its quota" "$TABLETCTL" increment "$M/t" r0 n:hits 1
ok "another table accepts puts" sh -c "mkdir -p '$M/free/r/f' && cp '$W/x' '$M/free/r/f/q'"
is "$(wc -c <"$M/t/r0/f/q")" 65536 "reads are answered"
ok "removals are accepted" rm -r "$M"/t/r?
ok "a compaction" sh -c "echo flush >'$M/t/.ctl' && echo compact >'$M/t/.ctl'"
[ "$(used_of "$M/t")" -lt 900000 ] && pass "  frees space" || fail "  frees space: $(used_of "$M/t")"
soon "mkdir -p '$M/t/new/f' && echo v >'$W/v' && cp '$W/v' '$M/t/new/f/q' && echo stored" stored "puts are accepted again"
like "$(cat "$M/.tabletfs/log" "$W/server.err" 2>&1)" "table t: it is below its quota again" "  and the log says so"
ok "a smaller quota" set_schema t "quota = \"1K\"; $F"
soon "cp '$W/v' '$M/t/new/f/q' 2>&1 | grep -o 'Disk quota exceeded' | head -n 1" "$Q" "  holds at once"
ok "no quota" set_schema t "$F"
ok "  any put" sh -c "cp '$W/v' '$M/t/new/f/q'"

# The question for room stores nothing, whatever versions the cell has.
ok "a quota that is not reached" set_schema t "quota = \"100M\"; $F"
mkdir -p "$M/t/ends/f" "$M/t/ends/n"
for v in "f/q@9223372036854775807 last" "f/q@-9223372036854775808 first" "n/c@9223372036854775807 1" "n/c@-9223372036854775808 2"; do
	printf '%s' "${v#* }" >"$M/t/ends/${v% *}"
done
ok "a version is written beside versions at both ends of time" sh -c "printf x >'$M/t/ends/f/q@5' && printf 3 >'$M/t/ends/n/c@5'"
fails "  a newer one cannot be" "too large" bash -c "echo x >'$M/t/ends/f/q'"
is "$("$TABLETCTL" scan "$M/t" | grep ^ends | cut -f 2- | tr '\t\n' ' ;')" \
	"f:q 9223372036854775807 last;f:q 5 x;f:q -9223372036854775808 first;n:c 9223372036854775807 1;n:c 5 3;n:c -9223372036854775808 2;" \
	"  and these have their values"
rm -r "$M/t/ends"

# A shell ignores the errors of close(2), so a write that the quota refuses fails before.
ok "a table at its quota" set_schema t "quota = \"1K\"; $F"
soon "bash -c \"echo x >'$M/t/new/f/other'\" 2>&1 | grep -o '$Q'" "$Q" "echo into a new cell is refused by write(2)"
before=$(ls -A "$M/t/new/f")
fails "echo over a cell is refused" "$Q" bash -c "echo x >'$M/t/new/f/q'"
fails "echo behind a cell is refused by write(2)" "write error: $Q|$Q" bash -c "echo x >>'$M/t/new/f/q'"
fails "an extension is refused" "$Q" truncate -s 100 "$M/t/new/f/q"
fails "a second write after a refused one is refused, too" "$Q" bash -c "{ echo x || echo y; } >'$M/t/new/f/q'"
fails "an import by cat is refused" "$Q" sh -c "cat '$W/i.tsv' >'$M/t/.import.tsv'"
is "$(ls -A "$M/t/new/f")" "$before" "  and nothing has changed"
fails "a file that was copied beside is not renamed over it" "$Q" sh -c "echo x >'$M/t/new/f/.q.tmp' && mv '$M/t/new/f/.q.tmp' '$M/t/new/f/q'"
like "$(tail -n 2 "$M/.tabletfs/refused")" "the table has reached its quota" "  each with its reason"
py <<'E'
import os
from tap import *
f = os.environ['M'] + '/t/new/f/q'
fd = os.open(f, os.O_RDWR)
os.ftruncate(fd, 0)
same(errno_of(os.write, fd, b'x'), 'EDQUOT', 'a program that truncates by the descriptor gets the error, too')
E
ok "an empty cell is accepted" touch "$M/t/new/f/touched"
ok "  and a cell is emptied" sh -c ": >'$M/t/new/f/q' && [ ! -s '$M/t/new/f/q' ]"
ok "removals are accepted" rm -r "$M/t/new"

is "$("$TABLETCTL" import "$M/t" "$W/i.tsv" 2>"$W/err"; echo $?)" 1 "tabletctl import is refused: status 1"
like "$(cat "$W/err")" "the table has reached its quota" "  with the reason"
like "$(cat "$W/err")" "read .*, imported 0 cells" "  and counts no cell"
is "$("$TABLETCTL" import "$D/t" "$W/i.tsv" 2>"$W/err"; echo $?)" 1 "  and so it is through the library"
like "$(cat "$W/err")" "the table has reached its quota" "  with the reason"
like "$(cat "$W/err")" "read .*, imported 0 cells" "  and counts no cell"
ok "a quota that an import passes" set_schema t "quota = \"1M\"; $F"
soon "mkdir -p '$M/t/new/f' && echo v >'$M/t/new/f/q' && echo stored" stored "  is open"
head -c 6000000 /dev/urandom | base64 -w 6000 | awk '{print "r" NR "\tf:q\t1\t" $0}' >"$W/big.tsv"
is "$("$TABLETCTL" import "$M/t" "$W/big.tsv" 2>"$W/err"; echo $?)" 1 "tabletctl import passes it, and is refused: status 1"
like "$(cat "$W/err")" "[1-9][0-9]* cells of this import are stored: $Q" "  with the number of cells that are stored"
counted=$(grep -o 'imported [0-9]* cells' "$W/err" | tr -dc 0-9)
is "$(find "$M/t" -path '*/r*/f/q@1' | wc -l)" "$counted" "  and the last line counts them"
done_testing
