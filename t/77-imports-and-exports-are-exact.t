#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TABLE/.import, .import.jsonl, .import.tar and .export.tar: cells of any bytes
# return exactly, also from archives that GNU tar wrote; a refused line fails its
# write and all later ones; a line that is cut off is not stored; the kernel sees the
# new cells at once.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
cd "$M" || exit 1

mkdir first
ls first >/dev/null
ok "lines of TSV" bash -c 'printf "r\tf:q\t5\thello\nr\tf:q\t\tnew\ns\tg:\t-1\t\\\\x00\\\\n\n" >first/.import'
is "$(cat first/r/f/q@5)" hello "  are cells"
is "$(cat first/r/f/q)" new "  without a timestamp the newest"
is "$(od -An -tx1 first/s/g/@-1 | tr -d ' ')" 000a "  with escaped bytes"
is "$(ls first)" $'r\ns' "  in the listing"
ok "a line" bash -c 'printf "r\tf:q\t5\tbye\n" >first/.import'
is "$(cat first/r/f/q@5)" bye "  replaces a version that was read before"
ok "lines by two commands" bash -c '(printf "r\tf:a\t1\t1\n"; printf "r\tf:b\t1\t2\n") >first/.import'
is "$(cat first/r/f/a first/r/f/b)" 12 "  are both stored"
ok "a line of JSON" bash -c 'echo "{\"row\":\"j\",\"family\":\"f\",\"qualifier_base64\":\"/w==\",\"value\":\"\\u00fc\"}" >first/.import.jsonl'
is "$(cat first/j/f/$'\xff')" $'\xc3\xbc' "  is a cell"

# refused BEFORE PATTERN COMMAND
refused() {
	fails "$1" "$2" bash -c "$3"
}
refused "a wrong line" 'Invalid argument' 'printf "k\tf:q\t1\tv\nwrong\nl\tf:q\t1\tv\n" >first/.import'
like "$(tail -n 1 .tabletfs/log)" '/first/.import: line 2: it has fewer than four fields' "  its number and the reason are in the log"
ok "  the line before is stored" test -e first/k/f/q@1
ok "  the line behind is not" test ! -e first/l
py <<'PY'
import errno, os
from tap import *
fd = os.open(M + "/first/.import", os.O_WRONLY)
os.write(fd, b"m\tf:q\t1\tv\n")
try:
    os.write(fd, b"wrong\n")
    ok(False, "the write of a wrong line fails")
except OSError as e:
    ok(e.errno == errno.EINVAL, "the write of a wrong line fails")
try:
    os.write(fd, b"n\tf:q\t1\tv\n")
    ok(False, "  and so do all later writes")
except OSError as e:
    ok(e.errno == errno.EINVAL, "  and so do all later writes")
os.close(fd)

# A close does not show whether the last line is whole: the kernel closes the files of a killed process, too.
T = M + "/first/"
for name, cut, rest in ((".import", b"cut\tf:q\t1\t12", b"34\n"),
                        (".import.jsonl", b'{"row":"cut","family":"f","qualifier":"q","timestamp":1,"value":"12', b'34"}\n')):
    pid = os.fork()
    if pid == 0:
        os.write(os.open(T + name, os.O_WRONLY), b"%s" % cut)
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    same(os.path.exists(T + "cut/f/q"), False, name + ": the cut line of a process that is killed is not stored")
    ok(b"/first/%s: line 1: it has no newline: it is cut off" % name.encode() in slurp(M + "/.tabletfs/log").splitlines()[-1], "  and the log says so")
    fd = os.open(T + name, os.O_WRONLY)
    os.write(fd, cut)
    err("EINVAL", "  fsync fails within a line", os.fsync, fd)
    err("EINVAL", "  close of a duplicate, too", os.close, os.dup(fd))
    os.write(fd, rest)
    os.close(fd)
    same(slurp(T + "cut/f/q@1"), b"1234", "  the line can be continued")
    os.unlink(T + "cut/f/q@1")
PY
mkdir first/.families/new
refused "an unknown family, when the schema is set" 'Invalid argument' 'printf "r\tnof:q\t5\thello\n" >first/.import'
like "$(tail -n 1 .tabletfs/log)" 'line 1: the table has no such family' "  the log has the reason"
ok "the new family" bash -c 'printf "r\tnew:q\t5\thello\n" >first/.import'
refused "an archive that is cut off" 'Invalid argument' 'head -c 3000 <(cat first/.export.tar) >first/.import.tar'
refused "a text in the place of an archive" 'Invalid argument' 'yes | head -c 20000 >first/.import.tar'
refused "reading an import" 'Permission denied' 'cat first/.import'
refused "writing an export" 'Permission denied' 'echo >first/.export.tar'
refused "removing an import" 'Operation not permitted' 'rm first/.import'

# Random cells of any bytes, long names and large values.
mkdir from
py <<'PY'
import os, random
from tap import *
random.seed(7)
M = os.environ["M"]
special = b"\t\n\r\\\"/.%@:-0{}\0\x7f\x1f\xff\xc3\xbc"
def some(n):
    return bytes(random.choice(special) if random.random() < .5 else random.randrange(256) for _ in range(n))
def field(b):
    return b.replace(b"\\", b"\\\\").replace(b"\t", b"\\t").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
cells = {}
for i in range(300):
    row = some(random.choice((1, 2, 3, 60, 300, 700)))
    qualifier = some(random.choice((0, 1, 5, 50, 254, 500)))
    ts = random.choice((0, 1, -1, 2**63 - 1, -2**63, 1300000000123456, random.randrange(2**50)))
    cells[row, random.choice((b"f", b"g")), qualifier, ts] = some(random.choice((0, 1, 10, 1000, 3000)))
cells[b"big", b"f", b"text", 5] = b"0123456789\xe2\x82\xac" * 30000
cells[b"big", b"f", b"binary", 6] = os.urandom(700000)
lines = b"".join(field(r) + b"\t" + f + b":" + field(q) + b"\t%d\t" % t + field(v) + b"\n" for (r, f, q, t), v in cells.items())
with open(M + "/from/.import", "wb", buffering=0) as f:
    while lines:
        lines = lines[f.write(lines[:random.randrange(1, 300000)]):]
found = {}
for at, dirs, files in os.walk(os.fsencode(M + "/from")):
    for name in files:
        p = at + b"/" + name
        fd = os.open(p, os.O_RDONLY)
        key = [os.getxattr(fd, "user.tabletfs." + a) for a in ("row", "qualifier", "timestamp")]
        family = [d for d in at.split(b"/") if d in (b"f", b"g")][-1]
        value = b""
        while piece := os.read(fd, 1 << 20):
            value += piece
        os.close(fd)
        found[key[0], family, key[1], int(key[2])] = value
ok(found == cells, "random cells are in the tree as they were written")
PY
t cat from/.export.tar >"$W/export.tar"
is $(($(stat -c %s "$W/export.tar") % 10240)) 0 "the archive consists of whole records"
mkdir to
ok "an archive of the store is imported" t cp "$W/export.tar" to/.import.tar
is "$(tree to)" "$(tree from)" "  the tree is the same"
ok "  and each byte" t diff -r from to
mkdir gnu
(cd from && t tar -cf "$W/gnu.tar" .)
ok "an archive that GNU tar wrote" t cp "$W/gnu.tar" gnu/.import.tar
ok "  is imported" t diff -r from gnu
mkdir pax
(cd from && t tar --format=pax -cf "$W/pax.tar" .)
ok "  and in the format pax" t cp "$W/pax.tar" pax/.import.tar
ok "  is imported" t diff -r from pax
is "$(t tar -tf "$W/export.tar" | LC_ALL=C sort)" "$(t tar -tf "$W/pax.tar" | LC_ALL=C sort)" "tar lists the same names in both"
mkdir "$W/out"
ok "GNU tar reads the archive" t tar -xf "$W/export.tar" -C "$W/out"
ok "  and its files are the tree's" t diff -r from "$W/out"
t cat to/.export.tar >"$W/again.tar"
same "$W/export.tar" "$W/again.tar" "the second archive is the first"

mkdir set
echo 'families = ({ name = "f"; gc = "maxversions=7"; });' >set/.schema
t cat set/.export.tar >"$W/set.tar"
mkdir restored
ok "an archive with a schema" t cp "$W/set.tar" restored/.import.tar
is "$(cat restored/.schema)" "$(cat set/.schema)" "  sets it"
is "$(ts restored/.schema)" "$(ts set/.schema)" "  and its time"
mkdir -p "$W/latest" && touch -d @5.123456 "$W/latest/q" && mkdir -p "$W/latest/row/f" && mv "$W/latest/q" "$W/latest/row/f"
(cd "$W/latest" && tar --format=pax -cf - .) >restored/.import.tar
ok "a plain name is the version at its time" test -e restored/row/f/q@5123456
cd / || exit 1
remount
ok "after a remount" t diff -r "$M/from" "$W/out"
unmount_store
ok "-o ro" mount_store -o ro
[ -n "$OVER" ] || fails "  has no streams" 'not supported' cat "$M/from/.export.tar"
unmount_store

# Another user: imports and exports have the caller's rights on each family.
if [ "$(id -u)" = 0 ] && has setpriv && mount_store -o allow_other; then
	cd "$M" || exit 1
	nobody() { t setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"; }
	mkdir rights
	printf 'r\topen:q\t5\topen\nr\tsecret:q\t5\tsecret\n' >rights/.import
	chmod 666 rights/.families/open
	chmod 600 rights/.families/secret
	is "$(nobody cat rights/.export.tar | tar -tf - | grep @)" ./r/open/q@5 "an export omits what the caller may not read"
	ok "an import into a family that the caller may write" nobody bash -c 'printf "r\topen:q\t6\tmine\n" >rights/.import'
	fails "  into another" 'Permission denied' nobody bash -c 'printf "r\tsecret:q\t6\tmine\n" >rights/.import'
	fails "  which makes a family" 'Permission denied' nobody bash -c 'printf "r\tnew:q\t6\tmine\n" >rights/.import'
	mkdir "$W/schema" && echo 'families = ({ name = "open"; });' >"$W/schema/.schema" && tar -cf "$W/schema.tar" -C "$W/schema" .
	fails "  which sets the schema" 'Permission denied' nobody bash -c "cat $W/schema.tar >rights/.import.tar"
	is "$(nobody bash -c "printf 'r\tsecret:q\t7\tx\nr\topen:q\t8\ty\n' | '$TABLETCTL' import --max-errors 1 rights" 2>&1 | head -n 1)" \
		"tabletctl: standard input: line 1: the user may not write to this family" "tabletctl refuses that line"
	is "$(cd rights && find . -name '*@*' | LC_ALL=C sort | tr '\n' ' ')" "./r/open/q@5 ./r/open/q@6 ./r/open/q@8 ./r/secret/q@5 " "  and stores the others"
	cd / || exit 1
	unmount_store
else
	skip "another user" "needs root, setpriv and allow_other"
fi
done_testing
