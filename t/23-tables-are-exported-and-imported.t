#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletctl import and export: on a mount and on a data directory the same bytes,
# in each format; refused lines, missing tables and families, exit codes.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1

# status WANTED DESC COMMAND...
status() {
	local wanted=$1 what=$2
	shift 2
	t "$@" >"$W/.out" 2>&1
	is $? "$wanted" "$what"
}
said() { like "$(cat "$W/.out")" "$1" "  $2"; }

ok "mount" mount_store
cd "$W" || exit 1
printf 'r\tf:q\t5\thello\nr\tg:q\t6\tx\nbad\nr3\tf:q\t1\tlast\n' >in.tsv
status 2 "a table that is absent" "$TABLETCTL" import mnt/t in.tsv
said 'mnt/t: there is no such table' "is named"
status 1 "-p makes it, and a line is refused" "$TABLETCTL" import -p mnt/t in.tsv
said 'in.tsv: line 3: it has fewer than four fields' "with number and reason"
is "$(cells mnt/t | grep -c '/r3$')" 0 "the import has ended there"
status 1 "--max-errors 1" "$TABLETCTL" import -p --max-errors 1 mnt/t in.tsv
is "$(cat mnt/t/r3/f/q)" last "  continues"
said 'imported .* 3 cells, 2 rows' "and counts"
py <<'PY'
import os, random
from tap import *
random.seed(3)
with open(os.environ["W"] + "/random.tsv", "wb") as f:
    for i in range(400):
        name = bytes(random.choice(b"ab.%@/:\xc3\xbc\xff\"") for _ in range(random.choice((1, 3, 30, 400))))
        value = bytes(random.randrange(256) for _ in range(random.choice((0, 5, 2000))))
        value = value.replace(b"\\", b"\\\\").replace(b"\t", b"\\t").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
        f.write(name + b"\tf:" + name[::-1] + b"\t%d\t" % random.randrange(-5, 2**50) + value + b"\n")
PY
status 0 "cells of any bytes" "$TABLETCTL" import mnt/t random.tsv
for format in tsv jsonl tar; do
	status 0 "$format of a mount" "$TABLETCTL" export mnt/t "mount.$format"
	status 0 "  is imported" "$TABLETCTL" import -p "mnt/$format" "mount.$format"
	ok "  with the same tree" t diff -r mnt/t "mnt/$format"
	status 0 "  and a second time" "$TABLETCTL" import --format $format "mnt/$format" "mount.$format"
	ok "  which changes nothing" t diff -r mnt/t "mnt/$format"
done
"$TABLETCTL" export --format tsv mnt/t 2>/dev/null | cat >piped.tsv
same piped.tsv mount.tsv "standard output has the same bytes"
mkdir mnt/set mnt/set/.families mnt/set/.families/f 2>/dev/null
status 1 "families that are absent, when the schema is set" "$TABLETCTL" import --max-errors 2 mnt/set in.tsv
said 'line 2: the table has no family [a-z]+; -p makes it' "are refused"
status 1 "an archive that is cut off" bash -c "head -c 3000 mount.tar | '$TABLETCTL' import --format tar mnt/set"
said 'the archive has no end mark: it is cut off' "is refused"
status 2 "a path that is no table" "$TABLETCTL" export nowhere/t
status 0 "a store that a mount serves" bash -c "'$TABLETCTL' export --format tsv '$D/t' >served.tsv"
same served.tsv mount.tsv "  has the same bytes"
status 2 "a format that does not exist" "$TABLETCTL" export --format zip mnt/t
for name in t.zip t.tar.xz t.gz t.TSV a.csv/b.txt; do
	status 2 "the name $name says no format" "$TABLETCTL" export mnt/t $name
	said "$name: its name does not end in .tsv, .jsonl, .csv, .wide.tsv or .tar" "is named"
	ok "  no file is made" test ! -e $name
done
status 2 "an import, too" "$TABLETCTL" import mnt/t in.zip
status 0 "--format says it" "$TABLETCTL" export --format tsv mnt/t t.zip
same t.zip mount.tsv "  as TSV"
mkdir a.b && status 0 "a name without a dot, in a directory with one" "$TABLETCTL" export mnt/t a.b/t
same a.b/t mount.tsv "  is TSV"
for name in tsv.gz jsonl.zst tar.gz csv.zst; do
	status 0 "$name" "$TABLETCTL" export --family f mnt/t "z.$name"
	case $name in *.gz) gzip -dc z.$name ;; *) zstd -dcq z.$name ;; esac >z.plain
	status 0 "  without compression" "$TABLETCTL" export --family f mnt/t "z.${name%.*}"
	same z.plain "z.${name%.*}" "  has the same bytes"
	status 0 "  is imported" "$TABLETCTL" import -p "mnt/z-$name" "z.$name"
	[ $name = csv.zst ] || is "$(cat "mnt/z-$name/.scan/.tsv")" "$(cat mnt/t/.scan/family=f/.tsv)" "  as the same cells"
	head -c $(($(stat -c %s z.$name) - 6)) z.$name >cut.$name
	status 2 "  cut off" "$TABLETCTL" import -p "mnt/z-cut" "cut.$name"
	said "cut.$name: the compressed data has no end: the file is cut off" "is named"
	status 2 "  of another kind" "$TABLETCTL" import -p "mnt/z-cut" "$(cp "z.${name%.*}" "other.$name"; echo "other.$name")"
	said "other.$name: not a file of " "is named"
done
status 0 "CSV" "$TABLETCTL" export mnt/z-csv.zst z2.csv
same z2.csv z.csv "  returns"
printf 'families = ({ name = "f"; gc = "maxage=7d"; });\n' >"$W/old.schema"
mkdir mnt/old && cp "$W/old.schema" mnt/old/.schema
printf 'r\tf:ms\t%s000\tx\nr\tf:us\t%s000000\tx\n' "$(date +%s)" "$(date +%s)" >ms.tsv
status 0 "milliseconds that have expired" "$TABLETCTL" import mnt/old ms.tsv
said 'warning: ms.tsv: 1 cells have expired already: their timestamps look like milliseconds' "are counted"
status 0 "  through the library" "$TABLETCTL" import "$D/old" ms.tsv
said 'warning: ms.tsv: 1 cells have expired already' "are counted"
status 2 "a number that is none" "$TABLETCTL" import --max-errors x mnt/t
# The clauses of scans as options, here and on the data directory below.
clauses() {
	local table=$1
	printf 'com.a\tf:q\t1\t1\ncom.b\tf:q\t2\t2\ncom.b\tg:q\t3\t3\norg\tf:q\t4\t4\n' >clauses.tsv
	status 0 "cells for clauses" "$TABLETCTL" import -p "$table" clauses.tsv
	is "$("$TABLETCTL" export --prefix com. --family f --reverse "$table" 2>/dev/null)" \
		$'com.b\tf:q\t2\t2\ncom.a\tf:q\t1\t1' "export --prefix --family --reverse"
	is "$("$TABLETCTL" export --format tar --prefix com. --limit 1 "$table" 2>/dev/null | tar -t | grep -v schema)" \
		$'./\n./com.a/\n./com.a/f/\n./com.a/f/q@1' "  and --limit, as an archive"
	is "$("$TABLETCTL" export --changed 1d "$table" 2>/dev/null | wc -l)" 4 "what was committed within a day"
	is "$("$TABLETCTL" export --changed 2100-01-01 "$table" 2>/dev/null | wc -l)" 0 "  or from a later time on"
	status 2 "a family that is absent" "$TABLETCTL" export --family nothing "$table"
	status 2 "a clause that is not valid" "$TABLETCTL" export --limit x "$table"
}
clauses mnt/clauses
unmount_store
clauses "$D/clauses2"
for format in tsv jsonl tar; do
	status 0 "$format of a data directory" "$TABLETCTL" export "$D/t" "data.$format"
	same "data.$format" "mount.$format" "  is that of the mount"
	status 2 "  a table that is absent" "$TABLETCTL" import "$D/new-$format" "data.$format"
	status 0 "  -p makes it" "$TABLETCTL" import -p "$D/new-$format" "data.$format"
	status 0 "  exported again" "$TABLETCTL" export --format $format "$D/new-$format" again
	same again "data.$format" "  it is the same"
done
# -p makes the data directory, too, if there is no directory of that name.
printed=$(sed -n 's/^\(tabletctl import -p [^ ]* \).*/\1/p' "$SRC/man/tabletctl.1")
is "$printed" "tabletctl import -p data2/webtable " "tabletctl(1) prints an import into a new store"
for format in tsv jsonl tar; do
	status 0 "$format into a store that is absent" "$TABLETCTL" import -p "data2-$format/webtable" "data.$format"
	status 0 "  exported again" "$TABLETCTL" export --format $format "data2-$format/webtable" again
	same again "data.$format" "  it is the same"
	ok "  the store is sound" "$TABLETCTL" check --quiet "data2-$format"
done
status 2 "without -p" "$TABLETCTL" import "data3/webtable" data.tsv
status 2 "no name of a table" "$TABLETCTL" import -p "data3/a b" data.tsv
ok "  nothing is made" test ! -e data3
mkdir empty
status 2 "a directory that exists, which may be a mount point" "$TABLETCTL" import -p empty/webtable data.tsv
is "$(ls -A empty)" "" "  nothing is made"
status 1 "a refused line" "$TABLETCTL" import -p "$D/lines" in.tsv
said 'in.tsv: line 3: it has fewer' "has its number here, too"
check_store
done_testing
