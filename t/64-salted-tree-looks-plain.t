#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A salted table shows the same tree as a plain one with the same keys, to each
# tool that lists, copies or removes it.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no ranges"
ok "mount" mount_store
reasons() { grep -c "/\.schema: .*$1" "$M/.tabletfs/log"; }
# By cp: a schema is judged when it is closed, and the shell does not look.
set_schema() { echo "$2 families = ( { name = \"f\"; } );" >"$W/text" && cp "$W/text" "$M/$1/.schema"; }

mkdir "$M/plain" "$M/salted" "$M/bad"
ok "a plain table" set_schema plain "salt = 0;"
ok "a salted one" set_schema salted "salt = 16;"
for value in 1 256 -1 '"x"' 1.5; do
	is "$(set_schema bad "salt = $value;" 2>&1 | sed 's/.*: //' | uniq)" "Invalid argument" "salt = $value is refused"
done
is "$(reasons salt)" 5 "each with a reason"
rmdir "$M/bad"

py <<'EOF2'
from tap import *
import threading
N = 1200
def add(table, i):
    row = "%s/%s/%016d" % (M, table, 1700000000000 + i * 1000)
    os.makedirs(row + "/f")
    spill(row + "/f/q@%d" % (i + 1), b"%d" % i)
for i in range(N):
    add("plain", i)
want = sorted(os.listdir(M + "/plain"))

# A listing while keys are added shows each older key once, in order.
for i in range(N // 2):
    add("salted", i)
def rest():
    for i in range(N // 2, N):
        add("salted", i)
t = threading.Thread(target=rest)
t.start()
before = want[:N // 2 + 1]
fine, rounds = True, 0
while t.is_alive() or rounds < 3:
    seen = [e.name for e in os.scandir(M + "/salted")]
    fine = fine and seen == sorted(set(seen)) and seen[:len(before)] == before
    rounds += 1
t.join()
ok(fine, "listings while keys are added are in order, whole, and without repeats")
same([e.name for e in os.scandir(M + "/salted")], want, "the same listing as of the plain table")
same(os.listdir(M + "/salted/.latest"), os.listdir(M + "/plain/.latest"), "and of its plain view")
with os.scandir(M + "/salted") as it:
    seen = [next(it).name for _ in range(700)]
    at = it
    os.unlink("%s/salted/%s/f/q" % (M, want[10]))
    seen += [e.name for e in at]
same(seen, want, "a listing goes on where it was")
spill("%s/salted/%s/f/q@10" % (M, want[10]), b"9")
EOF2

tree() { (cd "$M/$1" && find . -name .schema -prune -o -type f -printf '%p %s %T@ ' -exec cat {} + | md5sum); }
list() { (cd "$M/$1" && find . ! -name .schema); }
list plain >"$W/plain.list"
list salted >"$W/salted.list"
same "$W/plain.list" "$W/salted.list" "find sees the same"
is "$(tree salted)" "$(tree plain)" "the same sizes, times and bytes"

# A salt that is set while the table holds rows waits until it is empty.
waits() { cut -f 4 "$M/$1/.tablets" | grep -c salt-waits; }
ok "another salt for a table with cells is accepted" set_schema salted "salt = 8;"
like "$(cat "$M/salted/.schema")" "salt = 8;" "  .schema shows it as it was written"
is "$(waits salted)" 1 "  .tablets says that it waits"
like "$(tail -n 1 "$M/.tabletfs/log")" "table salted: it holds cells: salt = 8 takes effect when it is empty" "  and so does the log"
is "$(tree salted)" "$(tree plain)" "  nothing has changed for readers"
ok "  the first one may come back" set_schema salted "salt = 16;"
is "$(waits salted)" 0 "  and waits for nothing"

ok "a split between ranges" sh -c "echo 'split %05' >'$M/salted/.ctl'"
ok "and within one" sh -c "printf 'split %%050000001700\\n' >'$M/salted/.ctl'"
fails "not at a row as ls shows it" 'Invalid argument|I/O error' sh -c "echo 'split 0000017' >'$M/salted/.ctl'"
is "$(grep -c 'no row is stored with this byte in front' "$M/.tabletfs/log")" 1 "with a reason"
is "$(sed 1d "$M/salted/.tablets" | cut -f1,2 | sed 's/^-	/	/; s/	-$/	/' | tr '\t\n' '- ')" '-%05 %05-%050000001700 %050000001700- ' ".tablets shows keys as they are stored"
ok "merge" sh -c "echo 'merge %05' >'$M/salted/.ctl'"
is "$(tree salted)" "$(tree plain)" "nothing has changed for readers"

ok "rsync out" rsync -a "$M/salted" "$W/backup/"
rsync -a "$M/plain" "$W/backup/"
is "$(diff -r -x .schema "$W/backup/salted" "$W/backup/plain")" "" "copies of both are the same"
tar -C "$M" -cf "$W/salted.tar" salted
is "$(tar -tf "$W/salted.tar" | sed -n 2p)" "salted/.schema" "an archive has .schema before the rows"

is "$(rm -r "$M/salted" 2>&1)" "" "rm -r"
ok "is of all" test ! -e "$M/salted"
ok "rsync in" rsync -a "$W/backup/salted" "$M/"
like "$(cat "$M/salted/.schema")" "salt = 16;" "the table is salted again"
is "$(tree salted)" "$(tree plain)" "and the same"
is "$(rsync -ai "$W/backup/salted" "$M/" 2>&1)" "" "a second copy finds nothing to do"
ok "drop-rows" sh -c "echo 'drop-rows 0001700000' >'$M/salted/.ctl'"
(cd "$M/plain" && rm -r 0001700000*)
list plain >"$W/plain.list"
list salted >"$W/salted.list"
same "$W/plain.list" "$W/salted.list" "takes what a pattern takes"
echo compact >"$M/salted/.ctl"
remount
like "$(cat "$M/salted/.schema")" "salt = 16;" "still salted"
is "$(tree salted)" "$(tree plain)" "still the same"
is "$(rm -r "$M/salted" 2>&1)" "" "rm -r"
ok "tar x" tar -C "$M" -xf "$W/salted.tar"
(cd "$M/salted" && rm -r 0001700000*)
is "$(tree salted)" "$(tree plain)" "is the same again"

# On ext4 a program that reads a directory may reach .schema after some or all rows.
tar -C "$W/backup" -cf "$W/last.tar" --no-recursion salted -T <(cd "$W/backup" && find salted -mindepth 1 ! -name .schema; echo salted/.schema)
is "$(rm -r "$M/salted" 2>&1)" "" "rm -r"
ok "tar x of it" tar -C "$M" -xf "$W/last.tar"
like "$(cat "$M/salted/.schema")" "salt = 16;" "the schema is that of the backup"
is "$(waits salted)" 1 "its salt waits"
(cd "$M/salted" && rm -r 0001700000*)
is "$(tree salted)" "$(tree plain)" "and the table is the same"
remount
is "$(tree salted)" "$(tree plain)" "also after a remount"
is "$(waits salted)" 1 "where the salt waits on"
like "$(cat "$M/.tabletfs/metrics")" 'tables_salt_waits 1' "  a metric counts it"
ino=$(stat -c %i "$M/salted" "$M/salted/.schema")
mkdir "$M/salted/made"
ok "it takes effect once the table is empty" sh -c "rm -r '$M'/salted/0*; until grep -q 'table salted: it is empty: salt = 16' '$M/.tabletfs/log'; do :; done"
is "$(waits salted)" 0 "  and waits no more"
is "$(stat -c %i "$M/salted" "$M/salted/.schema")" "$ino" "  inode numbers stay"
ok "  directories that were made, too" test -d "$M/salted/made"
cp -a "$W/backup/salted" "$M/"
rmdir "$M/salted/made"
(cd "$M/salted" && rm -r 0001700000*)
is "$(tree salted)" "$(tree plain)" "rows are as they were"
ok "and spread over the ranges" sh -c "echo 'split %05' >'$M/salted/.ctl'; awk '{n+=\$9} END {exit !n}' '$M/salted/.tablets'"
done_testing
