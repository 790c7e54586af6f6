#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A counter's value is its number in scans, checks, streams and tools.  Only the file of its
# plain name has a newline behind it: read in pieces, by mmap, in listings, in snapshots, in
# scans, beside writers, through tar and rsync, and after its family has changed its type.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
cd "$M" || exit 1
mkdir -p t/.families/c t/.families/f t/r/c t/r/f
echo counter >t/.families/c/type
q=t/r/c/hits
# bytes COMMAND...: its output, with \n for each newline
bytes() { "$@" | od -An -c -v | tr -d ' \n'; }
# files DIRECTORY: the names of a listing, without timestamps, and the sizes that come with it
files() { find "$1" -type f -printf '%f %s\n' | sed 's/@[0-9]*//' | sort | tr '\n' ' '; }

echo 14 >$q
is "$(bytes cat $q) $(stat -c %s $q) $(files t/.latest/r/c)" '14\n 3 hits 3 ' "the file has a newline; so do size and listing"
is "$(bytes cat $q@*) $(stat -c %s $q@*) $(files t/r/c)" '14 2 hits 2 ' "  a version has the number"
is "$(for at in 0 1 2 3 4; do bytes dd if=$q bs=1 skip=$at status=none; echo -n ' '; done)" '14\n 4\n \n   ' "read from each offset"
is "$(bytes head -c 1 $q) $(bytes head -c 2 $q) $(bytes head -c 3 $q) $(bytes tail -c 1 $q) $(bytes tail -c 2 $q)" '1 14 14\n \n 4\n' "  and up to each"
printf 5 | dd of=$q bs=1 seek=1 conv=notrunc status=none
is "$(bytes cat $q)" '15\n' "a digit is replaced"
printf 0 | dd of=$q bs=1 seek=2 conv=notrunc status=none
is "$(bytes cat $q) $(bytes cat "$(find $q@* | tail -n 1)")" '150\n 150' "  the newline is"
for at in 4 5; do fails "  nothing is written behind it, at $at" "Invalid argument" bash -c "printf 7 | dd of=$q bs=1 seek=$at conv=notrunc,fsync status=none"; done
truncate -s 2 $q
is "$(bytes cat $q)" '15\n' "cut to two digits"
echo -=1 >$q
is "$(bytes cat $q) $(stat -c %s $q)" '14\n 3' "subtracted from"

# ---- values ----
ts=$(find $q@* | sort | tail -n 1 | sed 's/.*@//')
scan=t/.scan/row=r/family=c/versions=1
is "$(cat $scan/.tsv)" "r	c:hits	$ts	14" "TSV"
like "$(cat $scan/.jsonl)" '"value":"14"\}$' "JSON lines"
is "$(tail -n 1 $scan/.csv)" "r,14" "CSV"
is "$(cat t/.scan/value-is=14/versions=1/.keys)$(cat t/.scan/value=^14\$/versions=1/.keys)$(cat "t/.scan/where=c:hits=14/.keys")" "rrr" "the clauses value-is, value, where"
is "$(cat "t/.scan/value-is=14%0A/.keys")" "" "  no newline"
like "$(cat t/r/.row.json)" '"value":"14"' "the row as an object"
is "$(tr -d '\n' <t/r/.row.flat.json)" '{"c":{"hits":"14"}}' "  and as a flat one"
ok "a check" bash -c 'printf "check c:hits\t14\nset f:seen\tyes\ncommit\n" >t/r/.mutate'
fails "  of a newline fails" "Operation canceled" bash -c 'printf "check c:hits\t14\\\\n\nset f:no\tyes\ncommit\n" >t/r/.mutate'
is "$(bytes "$TABLETCTL" get "$M/t" r c:hits) $(bytes "$TABLETCTL" get "$M/t" r "c:hits@$ts")" "14 14" "tabletctl get"
[ -n "$MODEL$OVER" ] || is "$(bytes "$TABLETCTL" get "$D/t" r c:hits)" "14" "  of the store"

# ---- writes ----
printf 'r\tc:tsv\t\t 07\\n\nr\tc:at\t5\t 07\\n\n' >t/.import
printf '%s\n' '{"row":"r","family":"c","qualifier":"jsonl","value":"7\n"}' >t/.import.jsonl
printf 'row,c:csv\nr,"7\n"\n' >t/.import.csv
printf 'set c:mutate\t7\\n\ncommit\n' >t/r/.mutate
printf '%s\n' '{"c":{"json":"7\n"}}' >t/r/.row.flat.json
echo 7 >t/r/c/.new && mv t/r/c/.new t/r/c/scratch
mkdir t/r/.dir && echo 7 >t/r/.dir/dir && mv t/r/.dir/dir t/r/c/
echo 7 | "$TABLETCTL" put "$M/t" r c:put
if [ -n "$MODEL$OVER" ]; then printf 7 >t/r/c/store; else echo 7 | "$TABLETCTL" put "$D/t" r c:store; fi
printf 7 >t/r/c/bare
mkdir -p "$W/tree/r/c" && echo 7 >"$W/tree/r/c/tar" && touch -d @5 "$W/tree/r/c/tar" && tar -C "$W/tree" -cf - . >t/.import.tar
for name in tsv jsonl csv mutate json scratch dir put store bare tar; do
	is "$(bytes cat t/r/c/$name@*) $(bytes cat t/r/c/$name) $(stat -c %s t/r/c/$name)" '7 7\n 2' "written by $name"
done
is "$(bytes cat t/r/c/at@5)" '07\n' "a version has the bytes that were written"
echo text >"$W/tree/r/c/tar" && touch -d @6 "$W/tree/r/c/tar" && tar -C "$W/tree" -cf - . >t/.import.tar
is "$(bytes cat t/r/c/tar@6000000) $(bytes cat t/r/c/tar)" 'text text\n' "a file of an archive that is no number"
rm t/r/c/tar@6000000
printf '14\n' >t/r/c/old@5
is "$(bytes cat t/r/c/old) $(stat -c %s t/r/c/old)" '14\n\n 4' "a counter that was stored with a newline has a blank line"
echo '+=1' >t/r/c/old
is "$(bytes cat t/r/c/old)" '15\n' "  until it changes"
rm t/r/c/old t/r/c/at
for n in 0 -1 9223372036854775807 -9223372036854775808; do
	echo $n >t/r/c/edge
	is "$(bytes cat t/r/c/edge) $(stat -c %s t/r/c/edge)" "$n\\n $((${#n} + 1))" "the number $n"
done
printf %s "123456789012345678901" >t/r/c/long@5
is "$(bytes cat t/r/c/long) $(stat -c %s t/r/c/long)" '123456789012345678901 21' "a longer value is shown as it is"
rm t/r/c/long
: >t/r/c/none@5
is "$(bytes cat t/r/c/none)$(stat -c %s t/r/c/none)" 0 "  and an empty one"
rm t/r/c/none

# ---- copies ----
mkdir -p {u,v,w,x}/.families/c "$W/copy"
for table in u v w x; do echo counter >$table/.families/c/type; done
rsync -a t/.latest/r/c "$W/copy/"
is "$(rsync -aci t/.latest/r/c "$W/copy/")" "" "rsync -c to another file system: the second one copies nothing"
rsync -rtO "$W/copy/c" u/.latest/r/
is "$(rsync -rtOci "$W/copy/c" u/.latest/r/)$(rsync -rtOci t/.latest/r/c u/.latest/r/)" "" "  and back, and from table to table"
ok "  so the tables are equal" diff -r t/.latest/r/c u/.latest/r/c
is "$(cd u/r/c && cat -- *@* | tr -cd '\n' | wc -c)" 0 "  no value has a newline"
tar -C t/.latest -cf "$W/plain.tar" --exclude=f .
is "$(bytes tar -xOf "$W/plain.tar" ./r/c/hits)" '14\n' "tar copies the file"
ok "  and extracts it" tar -C v/.latest --touch -xf "$W/plain.tar"
cat "$W/plain.tar" >w/.import.tar
ok "  so does an import" diff -r v/.latest/r/c w/.latest/r/c
ok "    which is what was there" diff -r t/.latest/r/c w/.latest/r/c
cat t/.scan/row=r/family=c/.tar >"$W/versions.tar"
is "$(bytes tar -xOf "$W/versions.tar" "./r/c/hits@$ts")" 14 "an export of versions has values"
cat "$W/versions.tar" >x/.import.tar
ok "  and is imported" diff -r t/r/c x/r/c
echo 1 >t/r/c/mv
mv t/r/c/mv t/r/c/moved
is "$(bytes cat t/r/c/moved) $(bytes cat t/r/c/moved@*)" '1\n 1' "rename"
mv t/r/c/moved t/r/f/
is "$(bytes cat t/r/f/moved)" '1\n' "  to a family of bytes is a copy of the file"
mv t/r/f/moved t/r/c/
is "$(bytes cat t/r/c/moved) $(bytes cat t/r/c/moved@*)" '1\n 1' "  and back"
echo 2 >t/r/c/source
mv "$(echo t/r/c/source@*)" t/r/c/moved
is "$(bytes cat t/r/c/moved)" '2\n' "a version becomes the newest"
cp t/r/c/moved t/r/c/copied
is "$(bytes cat t/r/c/copied) $(bytes cat t/r/c/copied@*)" '2\n 2' "cp"
rm t/r/c/moved t/r/c/copied

# ---- other places ----
if mkdir t/.snap/s; then
	echo '+=86' >$q
	is "$(bytes cat t/.snap/s/r/c/hits t/.snap/s/r/c/hits@"$ts") $(stat -c %s t/.snap/s/r/c/hits)" '14\n14 3' "in a snapshot"
	is "$(files t/.snap/s/.latest/r/c | tr ' ' '\n' | grep -A 1 hits | tr '\n' ' ')" "hits 3 " "  listed"
fi
echo 200 >$q
found=t/.scan/value-is=200
is "$(bytes cat $found/.latest/r/c/hits $found/.rows/r/c/hits@*) $(stat -c %s $found/.latest/r/c/hits) $(files $found/.latest)$(files $found/.rows)" \
	'200\n200 4 hits 4 hits 3 ' "in a scan"

py <<'EOF2'
import mmap
from tap import *
Q = M + "/t/r/c/hits"
spill(Q, b"9\n")
fd = os.open(Q, os.O_RDONLY)
with mmap.mmap(fd, 0, mmap.MAP_PRIVATE, mmap.PROT_READ) as m:
    same(bytes(m), b"9\n", "mmap")
out = os.open(W + "/sent", os.O_RDWR | os.O_CREAT)
same((os.sendfile(out, fd, 0, 100), os.pread(out, 9, 0)), (2, b"9\n"), "sendfile")
os.close(fd)
fd = os.open(Q, os.O_RDONLY)
a = os.read(fd, 1)
spill(Q, b"+=1\n", os.O_WRONLY)
same((os.fstat(fd).st_size, a + os.read(fd, 9), os.read(fd, 9)), (2, b"9\n", b""), "a reader keeps its version")
same((os.stat(Q).st_size, os.pread(fd, 9, 0)), (3, b"10\n"), "  and reads the next one from the beginning")
os.close(fd)
fd = os.open(Q, os.O_RDWR)
same((os.fstat(fd).st_size, os.pread(fd, 9, 0), os.lseek(fd, 0, os.SEEK_END)), (3, b"10\n", 3), "a descriptor for reading and writing")
os.pwrite(fd, b"11\n", 0)
os.fsync(fd)
same((os.fstat(fd).st_size, os.pread(fd, 9, 0), os.lseek(fd, 0, os.SEEK_END)), (3, b"11\n", 3), "  that has written")
os.ftruncate(fd, 1)
os.close(fd)
same((os.stat(Q).st_size, slurp(Q)), (2, b"1\n"), "  and truncated")
fd = os.open(Q, os.O_RDONLY)
os.unlink(Q)
same((os.fstat(fd).st_size, os.read(fd, 9)), (2, b"1\n"), "a file that was removed")
os.close(fd)

spill(Q, b"1\n")
writer = os.fork()
if not writer:
    for i in range(400):
        spill(Q, b"+=1\n", os.O_WRONLY)
    os._exit(0)
wrong, last = [], 0
while last < 401 and os.waitpid(writer, os.WNOHANG) == (0, 0):
    fd = os.open(Q, os.O_RDONLY)
    size, text = os.fstat(fd).st_size, os.read(fd, 99)
    os.close(fd)
    if not text.endswith(b"\n") or not text[:-1].isdigit() or size != len(text) or int(text) < last:
        wrong.append((size, text, last))
    last = int(text)
soon(lambda: slurp(Q), b"401\n", "a writer adds 400 times")
same(wrong, [], "  beside it a reader reads numbers that grow, each with its newline")

# ---- the type changes ----
T = M + "/t/"
os.mkdir(T + ".families/late")
os.mkdir(T + "r/late")
spill(T + "r/late/number", b"12")
spill(T + "r/late/text", b"twelve")
spill(T + "r/late/long", b"x" * 21)
def shown():
    return [(os.stat(T + "r/late/" + n).st_size, slurp(T + "r/late/" + n)) for n in ("number", "text", "long")]
def listed():
    with os.scandir(T + ".latest/r/late") as it:
        return sorted(e.stat().st_size for e in it)
bare, lines = [(2, b"12"), (6, b"twelve"), (21, b"x" * 21)], [(3, b"12\n"), (7, b"twelve\n"), (21, b"x" * 21)]
same((shown(), listed()), (bare, [2, 6, 21]), "a family of bytes")
for turn in range(2):
    fd = os.open(T + "r/late/number", os.O_RDONLY)
    spill(T + ".families/late/type", b"counter\n", os.O_WRONLY)
    same((os.fstat(fd).st_size, os.read(fd, 9)), (2, b"12"), "  is one of counters: a reader keeps its bytes")
    os.close(fd)
    same((shown(), listed()), (lines, [3, 7, 21]), "    and the files have newlines")
    same(slurp(T + ".scan/family=late/.tsv").split(b"\n")[1].split(b"\t")[3], b"12", "    but not the values")
    fd = os.open(T + "r/late/number", os.O_RDONLY)
    spill(T + ".families/late/type", b"bytes\n", os.O_WRONLY)
    same((os.fstat(fd).st_size, os.read(fd, 9)), (3, b"12\n"), "  is one of bytes again: a reader keeps its bytes")
    os.close(fd)
    same((shown(), listed()), (bare, [2, 6, 21]), "    and the files are the values")
EOF2
cd / || exit 1
if [ -z "$MODEL" ]; then
	unmount_store
	ok "mounted for reading only" mount_store -o ro
	is "$(bytes cat "$M/$q") $(stat -c %s "$M/$q") $(files "$M/t/.latest/r/c" | grep -o 'hits [0-9]*')" '401\n 4 hits 4' "  the file has its newline"
	is "$(bytes dd if="$M/$q" bs=1 skip=3 status=none)$(bytes dd if="$M/$q" bs=1 skip=4 status=none)$(bytes cat "$M/t/.snap/s/r/c/hits")" '\n14\n' "  at its end, and in a snapshot"
fi
done_testing
