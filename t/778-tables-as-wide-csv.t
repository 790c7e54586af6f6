#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Wide CSV and TSV: .scan/.csv and .wide.tsv are read by other programs as the cells that they
# show, .import.csv stores what other programs write, and both ways each byte returns;
# malformed lines, marks of other encodings and compressed inputs are refused by name.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
cd "$M" || exit 1
cat >"$W/in.csv" <<'EOF'
key,f:name,f:note,g:
u1,Ann,"says ""hi"", twice",1
u2,Bob,"two
lines",
u3,,"",7
EOF
mkdir t
ok "a CSV of a spreadsheet" t cp "$W/in.csv" t/.import.csv
is "$(cat t/u1/f/note)" 'says "hi", twice' "  quotes and commas"
is "$(cat t/u2/f/note)" $'two\nlines' "  a newline in quotes"
ok "  an empty field is no cell" test ! -e t/u3/f/name
is "$(stat -c %s t/u3/f/note)" 0 "  quotes around nothing are an empty value"
is "$(cat t/u3/g/@* | head -c 1)" 7 "  the empty qualifier"
is "$(cat t/.scan/.csv)" "$(cat "$W/in.csv")" ".csv is the same file"
is "$(cat t/.scan/family=f/limit=2/reverse=yes/.csv)" $'key,f:name,f:note\nu3,,""\nu2,Bob,"two\nlines"' "  clauses choose rows and columns"
is "$(cat t/.scan/prefix=none/.csv)" key "  without rows there are no columns"
is "$(head -n 2 t/.scan/.wide.tsv)" $'key\tf:name\tf:note\tg:\nu1\tAnn\t"says ""hi"", twice"\t1' ".wide.tsv has tabs"
mkdir tabs crlf semi
ok "  and is imported" bash -c 'cat t/.scan/.wide.tsv >tabs/.import.wide.tsv'
is "$(cat tabs/.scan/.csv)" "$(cat "$W/in.csv")" "  as the same cells"
ok "CRLF, a byte order mark and no newline at the end of quotes" bash -c 'printf "\xef\xbb\xbfid,f:a,f:b\r\n\r\nr,1,\"2\"\r\n" >crlf/.import.csv'
is "$(cat crlf/.scan/.csv)" $'key,f:a,f:b\nr,1,2' "  are no part of a cell"
ok "semicolons" bash -c 'printf "id;f:a\nr;1,5\n" >semi/.import.csv'
is "$(cat semi/r/f/a)" 1,5 "  separate if the header has them"
echo old >t/u1/f/name@5
is "$(cat t/.scan/.csv | sed -n 2p)" 'u1,Ann,"says ""hi"", twice",1' "only the newest version is shown"
is "$(cat t/.scan/value=o.*/.csv)" $'key,f:name\nu1,"old\n"' "  of those that match"

# refused PATTERN TEXT WHAT
refused() {
	mkdir bad 2>/dev/null
	fails "$3" 'Invalid argument' bash -c "printf '$2' | cat >bad/.import${4-.csv}"
	like "$(tail -n 1 .tabletfs/log)" "$1" "  the log says why"
}
refused 'line 1: it is no header' 'r,f:a,3\n' "no header"
refused 'line 1: it is no header: the first column' 'f:a,f:b\n' "no key"
refused 'line 1: the header names a column twice' 'key,f:a,f:a\n' "a column twice"
refused 'line 1: not the name of a family' 'key,a b:q\n' "no family"
refused 'line 2: it has fewer fields than the header' 'key,f:a,f:b\nr,1\n' "too few fields"
refused 'line 2: it has more fields than the header' 'key,f:a\nr,1,2\n' "too many"
refused 'line 4: the row key is empty' 'key,f:a\nr,"1\n2"\n,3\n' "no row key, behind a line of two"
refused 'line 2: a field goes on behind its second quote' 'key,f:a\nr,"1"2\n' "bytes behind a quote"
refused 'line 2: a quote is in a field' 'key,f:a\nr,1"2\n' "a quote within a field"
refused 'line 2: a carriage return' 'key,f:a\nr,1\r2\n' "a carriage return"
refused 'line 2: it has no newline' 'key,f:a\nr,"1\n' "quotes that do not end"
refused 'line 1: the input is UTF-16' '\xff\xfek\0' "UTF-16"
refused 'line 1: the input is UTF-16' '\xfe\xff\0k' "UTF-16 of TSV" ''
refused 'line 1: the input is compressed: gunzip' '\x1f\x8b\x08' "gzip"
refused 'entry 1: the input is compressed: zstd' '\x28\xb5\x2f\xfd' "zstd as an archive" .tar
refused 'line 1: the input is a zip archive' 'PK\x03\x04' "a zip archive" .jsonl
is "$(ls bad)" r "lines before a refused one are stored"
mkdir mark
ok "a byte order mark before TSV" bash -c 'printf "\xef\xbb\xbfr\tf:q\t5\tx\n" >mark/.import'
ok "  before JSON" bash -c 'printf "\xef\xbb\xbf{\"row\":\"s\",\"family\":\"f\",\"qualifier\":\"\",\"value\":\"v\"}\n" >mark/.import.jsonl'
is "$(ls mark)" $'r\ns' "  is not stored"
printf '\\xef\\xbb\\xbfx\tf:q\t5\ty\n' >mark/.import
cat mark/.scan/.tsv >"$W/mark.tsv"
mkdir mark2
ok "a row key that begins with the mark" t cp "$W/mark.tsv" mark2/.import
is "$(ls mark2)" "$(ls mark)" "  returns"

echo "# ---- archives ----"
(cd "$W" && mkdir -p tree/r/f && echo 1 >tree/r/f/q && ln tree/r/f/q tree/r/f/q2 && tar -cf lead.tar tree && tar -C tree -cf links.tar .)
mkdir a
fails "a leading directory" 'Invalid argument' t cp "$W/lead.tar" a/.import.tar
like "$(tail -n 1 .tabletfs/log)" 'tree/r/f/q.*: it has a leading directory, or too many components: tar -C TABLE' "  is named"
fails "a hard link" 'Invalid argument' t cp "$W/links.tar" a/.import.tar
like "$(tail -n 1 .tabletfs/log)" 'a hard link: tar --hard-dereference' "  is named"

py <<'PY'
import csv, io, random
from tap import *
random.seed(5)
csv.field_size_limit(1 << 24)
special = b"\t\n\r\\\",;:@ \0\x7f\xff\xc3\xbc\xef\xbb\xbf"
def some(n):
    return bytes(random.choice(special) if random.random() < .4 else random.randrange(33, 127) for _ in range(n))
def field(b):
    return b.replace(b"\\", b"\\\\").replace(b"\t", b"\\t").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
columns = [(f, some(random.choice((0, 1, 3, 40)))) for f in (b"f", b"g") for _ in range(12)]
cells = {}
for i in range(150):
    row = some(random.choice((1, 2, 30, 300)))
    for f, q in random.sample(columns, random.choice((1, 3, 20))):
        cells[row, f + b":" + q] = some(random.choice((0, 1, 10, 1000)))
cells[b"big", b"f:large"] = bytes(random.choice(b'",\n\0a') for _ in range(700000))
os.makedirs(M + "/any/.families/f")
os.makedirs(M + "/any/.families/g")
spill(M + "/any/.import", b"".join(field(r) + b"\t" + field(c) + b"\t\t" + field(v) + b"\n" for (r, c), v in cells.items()), os.O_WRONLY)
for suffix, delimiter in ((".csv", ","), (".wide.tsv", "\t")):
    text = slurp(M + "/any/.scan/" + suffix)
    lines = list(csv.reader(io.StringIO(text.decode("latin-1"), newline=""), delimiter=delimiter, strict=True))
    encoded = [[f.encode("latin-1") for f in line] for line in lines]
    got = {(line[0], c): v for line in encoded[1:] for c, v in zip(encoded[0][1:], line[1:]) if v}
    ok(got == {k: v for k, v in cells.items() if v}, suffix + ": Python's csv reads all cells that are not empty")
    same({len(line) for line in lines}, {len(lines[0])}, "  each line has a field for each column")
    os.mkdir(M + "/copy")
    with open(M + "/copy/.import" + suffix, "wb", buffering=0) as f:
        rest = text
        while rest:
            rest = rest[f.write(rest[:random.randrange(1, 300000)]):]
    ok(slurp(M + "/copy/.scan/" + suffix) == text, "  it is imported in pieces, and returns with empty values")
    spill(M + "/copy/.ctl", b"truncate\n", os.O_WRONLY)
    os.rmdir(M + "/copy")
out = io.StringIO(newline="")
w = csv.writer(out)
w.writerow(["key"] + ["f:%d" % i for i in range(40)])
for i in range(30):
    w.writerow(["row%d" % i] + ["%s,\"\r\n'" % (i * j) for j in range(40)])
spill(M + "/csv/.import.csv" if os.mkdir(M + "/csv") is None else "", out.getvalue().encode(), os.O_WRONLY)
same(slurp(M + "/csv/row29/f/39"), b"1131,\"\r\n'", "what Python's csv writes is stored")
# more columns than a header has
spill(M + "/wide/.import" if os.mkdir(M + "/wide") is None else "", b"".join(b"r\tf:%d\t1\tv\n" % i for i in range(16385)), os.O_WRONLY)
err("E2BIG", "too many columns", slurp, M + "/wide/.scan/.csv")
ok(b"more than 16384 columns" in slurp(M + "/.tabletfs/log").splitlines()[-1], "  the log says so")
same(len(slurp(M + "/wide/.scan/qprefix=99/.csv").split(b"\n")[0].split(b",")), 1 + 1 + 10 + 100, "  clauses name fewer")
PY
echo "# ---- times that are not microseconds ----"
mkdir old
echo 'families = ({ name = "f"; gc = "maxage=7d"; });' >old/.schema
now=$(date +%s)
printf 'r\tf:ms\t%s000\tx\nr\tf:us\t%s000000\tx\nr\tf:s\t%s\tx\nr\tf:old\t1000000000000000\tx\n' "$now" "$now" "$now" >"$W/times.tsv"
ok "milliseconds and seconds" t cp "$W/times.tsv" old/.import
like "$(tail -n 1 .tabletfs/log)" '/old/.import: 2 cells have expired already: their timestamps look like milliseconds or seconds' "  the log has their number"
is "$(ls old/.latest/r/f)" us "  of those that have expired"
cd / || exit 1
unmount_store
done_testing
