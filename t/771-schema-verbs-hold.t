#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Verbs of a table: splits at its creation, truncation, protection.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no servers"
ok "mount" mount_store
F='families = ( { name = "f"; } );'
set_schema() { echo "$2" >"$W/text" && cp "$W/text" "$M/$1/.schema"; }
begins() { sed 1d "$M/$1/.tablets" | cut -f 1 | sed 's/^-$//' | tr '\n' ' '; }
last_log() { tail -n 1 "$M/.tabletfs/log"; }

# ---- splits ----
mkdir "$M/t" "$M/salted" "$M/bad"
ok "a table with splits, written in any order" set_schema t "splits = ( \"m\", \"b%2Fc\", \"\\xff\" ); $F"
is "$(begins t)" "$(printf ' b%%2Fc m \377 ')" "  has a tablet at each key"
like "$(cat "$M/t/.schema")" 'splits = \( "m"' "  .schema shows them as written"
ok "a change elsewhere renders them" mkdir "$M/t/.families/g"
like "$(cat "$M/t/.schema")" 'splits = \( "b%2Fc", "m", "%FF" \);' "  in order, as .tablets shows keys"
ok "  and again from a backup" cp "$M/t/.schema" "$W/backup"
for row in a b%2Fc c n "$(printf '\377x')"; do
	mkdir -p "$M/t/$row/f" && echo "$row" >"$M/t/$row/f/q"
done
# shellcheck disable=SC2012
is "$(find "$M/t" -name 'q@*' | wc -l)" 5 "rows of each tablet are found"
ok "other splits of a table that has rows are kept" set_schema t "splits = ( \"x\" ); $F"
is "$(begins t | tr -cd ' ')" "    " "  without effect"
ok "the splits of a salted table are keys as stored" set_schema salted "salt = 4; splits = ( \"%01\", \"%02\", \"%03\" ); $F"
is "$(begins salted)" " %01 %02 %03 " "  here where its ranges begin"
mkdir "$M/salted/r" && mkdir "$M/salted/r/f" && echo v >"$M/salted/r/f/q"
is "$(cat "$M/salted/r/f/q")" v "  and its rows are found"
for splits in '"a", "a"' '""' '"a%zz"' '5'; do
	fails "splits = ( $splits ) is refused" "Invalid argument" set_schema bad "splits = ( $splits ); $F"
	like "$(last_log)" "/bad/\.schema.*: .*(splits|key)" "  and the log says why"
done
fails "so is a key below no salt" "Invalid argument" set_schema bad "salt = 4; splits = ( \"x\" ); $F"
ok "a backup's .schema splits the table that it makes" mkdir "$M/copy"
ok "  by cp" cp "$W/backup" "$M/copy/.schema"
is "$(begins copy)" "$(begins t)" "  as the first"
ok "unmount" unmount_store
ok "mount" mount_store
is "$(begins copy)" "$(begins t)" "the tablets are there after a restart"

# ---- truncation ----
mkdir "$M/t/made" "$M/t/made/f"
echo old >"$M/t/a/f/p"
ls -R "$M/t" >"$W/ls"
ino=$(stat -c %i "$M/t")
exec 5<"$M/t/a/f/p" 6>"$M/t/n/f/late"
old=$(echo "$M"/t/c/f/q@*)
exec 7<"$old"
echo late >&6
ok "truncate" sh -c "echo truncate >'$M/t/.ctl'"
is "$(ls -A "$M/t")" .schema "the table is empty: no row, no made directory"
is "$(find "$M/t" | wc -l)" 2 "  for find, too"
is "$(stat -c %i "$M/t")" "$ino" "its inode number stays"
is "$(begins t)" " x " "its new tablets are split at the splits of .schema"
like "$(cat "$M/t/.schema")" '"x"' "  which stays"
fails "an old name is gone" "No such file" cat "$M/t/a/f/p"
fails "an open version cannot be read any more" "Stale file handle" cat <&7
is "$(cat <&5)" old "a plain name has loaded its bytes at open, as after rm"
exec 5<&- 6>&- 7<&-
is "$(ls -A "$M/t")" .schema "bytes that were not committed are discarded, as after rm"
mkdir -p "$M/t/c/f" && echo new >"$old"
is "$(cat "$old")" new "an old name has a new cell"
is "$(ls -A "$M/t/c/f")" "${old##*/}" "  alone"
ok "unmount" unmount_store
ok "mount" mount_store
is "$(cat "$old")" new "the new cell is there after a restart"
is "$(find "$M/t" -type f | wc -l)" 2 "  and no old one"
fails "truncate with an argument is refused" "Invalid argument|I/O error" sh -c "echo 'truncate now' >'$M/t/.ctl'"

py <<'EOF2'
from tap import *
import subprocess, threading, time
# Writers beside truncations: a write that ended before a truncation began is removed, a write that began after its end is there.
os.makedirs(M + "/busy/.families/f")
log, stop = [[], [], []], False
def writer(w):
    i = 0
    while not stop:
        i += 1
        row = "%s/busy/w%d-%06d" % (M, w, i)
        start = time.monotonic()
        try:
            os.makedirs(row + "/f", exist_ok=True)
            spill(row + "/f/q", b"v")
        except OSError as e:
            if e.errno not in (errno.ENOENT, errno.ESTALE): # its directory was removed
                raise
            continue
        log[w].append((start, time.monotonic(), os.path.basename(row)))
threads = [threading.Thread(target=writer, args=(w,)) for w in range(3)]
for t in threads:
    t.start()
def more(n):
    until = [len(l) + n for l in log]
    while any(len(l) < u for l, u in zip(log, until)) and all(t.is_alive() for t in threads):
        time.sleep(0.001)
cuts = []
for i in range(8):
    more(10)
    start = time.monotonic()
    spill(M + "/busy/.ctl", b"truncate\n")
    cuts.append((start, time.monotonic()))
more(10)
stop = True
for t in threads:
    t.join()
there = set(os.listdir(M + "/busy"))
cells = set(r for r in there if r[0] == "w" and os.path.exists("%s/busy/%s/f/q" % (M, r)))
before = [r for l in log for (a, b, r) in l if b < cuts[-1][0]]
after = [r for l in log for (a, b, r) in l if a > cuts[-1][1]]
ok(len(before) >= 240 and len(after) >= 27, "three writers wrote before, between and after eight truncations")
same(sorted(set(before) & cells), [], "no write that had ended before the last truncation is there")
same(sorted(set(after) - cells), [], "each write that began after it is there")
EOF2

# ---- protection ----
P="protect = true;"
ok "a protected table" set_schema t "$P $F"
fails "is not dropped" "Operation not permitted" sh -c "rm -rf '$M/t/c' && rmdir '$M/t'"
like "$(last_log)" "/t: the table is protected: first write protect = false" "  the log names the remedy"
mkdir -p "$M/t/r/f" && echo v >"$M/t/r/f/q@1"
fails "nor truncated" "Operation not permitted|I/O error" sh -c "echo truncate >'$M/t/.ctl'"
like "$(last_log)" "/t/\.ctl: the table is protected: first write protect = false" "  with the same line"
fails "nor does it lose a family" "Operation not permitted" rmdir "$M/t/.families/f"
fails "  by a schema, even one that says allow_delete" "Operation not permitted" set_schema t "allow_delete = true; families = ( );"
fails "  or one that ends the protection as well" "Operation not permitted" set_schema t "families = ( );"
like "$(last_log)" "/t/\.schema: the table is protected" "  each with a line"
mkdir "$M/other"
fails "nor replaced by a rename" "not permitted" mv -T "$M/other" "$M/t"
ok "its name may change" mv "$M/t" "$M/t2"
ok "  and come back" mv "$M/t2" "$M/t"
is "$(cat "$M/t/r/f/q@1")" v "its cells are there"
ok "a family may be added" set_schema t "$P families = ( { name = \"f\"; }, { name = \"g\"; } );"
fails "rm -r removes the rows, not the table" "cannot remove.*'$M/t'.*Operation not permitted" rm -r "$M/t"
like "$(ls "$M")" "^t$" "  which is there"
ok "the protection ends" set_schema t "protect = false; families = ( { name = \"f\"; }, { name = \"g\"; } );"
ok "  then a family may go" rmdir "$M/t/.families/g"
ok "  and the table" rmdir "$M/t"
done_testing
