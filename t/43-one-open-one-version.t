#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One open, write and close makes one version of a cell: this tests when it is
# committed, with which timestamp, and from which content it starts.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012,SC2016,SC2094
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
F=$M/t/r/f
mkdir -p "$F"
cd "$F" || exit 1
export F
versions() { find . -name "$1@*" | wc -l; }

# ---- tail -f ----
py <<'EOF2'
from tap import *
os.chdir(os.environ["F"])


spill("grows", b"one\n")
fd = os.open("grows", os.O_RDONLY)
spill("grows", b"one\ntwo\n")
same(os.read(fd, 99), b"one\n", "a reader has the version that it opened")
same(os.read(fd, 99), b"", "  up to its end")
same(os.read(fd, 99), b"two\n", "then what was appended")
same(os.lseek(fd, 0, os.SEEK_END), 8, "  lseek knows that end")
same(os.read(fd, 99), b"", "  and the end of that version")
with open("grows", "ab") as f:
    f.write(b"three\n")
same(os.read(fd, 99), b"three\n", "appended with O_APPEND")
spill("grows", b"a much longer text than that was\n")
os.lseek(fd, 0, os.SEEK_SET)
same(os.read(fd, 3), b"one", "within a version there is no change")
same(os.read(fd, 99), b"\ntwo\nthree\n", "  up to its end")
same(os.read(fd, 99), b"", "  the end")
same(os.pread(fd, 6, 0), b"a much", "then the newest")
same((os.read(fd, 99), os.read(fd, 99)), (b"text than that was\n", b""), "  at the same offset")
spill("grows", b"cut\n")
same((os.read(fd, 99), os.fstat(fd).st_size), (b"", 4), "a shorter one: the end of file stays, fstat says how long it is")
os.lseek(fd, 0, os.SEEK_SET)
same(os.read(fd, 4), b"cut\n", "  and it is read from the start, as tail -f does")
spill("grows", b"c\n")
os.lseek(fd, 0, os.SEEK_SET)
same((os.fstat(fd).st_size, os.read(fd, 2)), (2, b"c\n"), "  also if no read has met the end, but fstat has shown it")
os.rename("grows", "grown")
with open("grown", "ab") as f:
    f.write(b"more\n")
same((os.read(fd, 99), os.read(fd, 99)), (b"", b"more\n"), "a renamed file is followed")
os.unlink("grown")
same((os.read(fd, 99), os.pread(fd, 99, 0)), (b"", b"c\nmore\n"), "a removed one is kept")
os.close(fd)

log = os.open(M + "/.tabletfs/log", os.O_RDONLY)
while os.read(log, 1 << 20):
    pass
for i in range(3):
    err("EOPNOTSUPP", "a refusal", os.mkdir, M + "/t/.export")
    ok(os.read(log, 9999).endswith(b"/t/.export: this name has no meaning yet; a later version will use it: Operation not supported\n"),
       "  comes to a descriptor of the log that has read all of it")
    same(os.read(log, 9999), b"", "  once")
for i in range(1100):
    errno_of(os.mkdir, M + "/t/.export")
size = os.fstat(log).st_size
got = os.read(log, 1 << 20)
same(os.lseek(log, 0, os.SEEK_CUR), size, "its size says how much there is to come")
same(got.count(b"\n"), 1000, "  the lines that are kept")
ok(os.pread(log, 1 << 20, 0).count(b"\n") == 1000, "from the start there are all that are kept")
EOF2

echo a >q
is "$(versions q):$(cat q)" "1:a" "a write is a version"
echo b >q
is "$(versions q):$(cat q)" "2:b" "another one is another"
is "$(cat q@* | sort | tr -d '\n')" "ab" "both are there"
(echo a; echo b) >r
is "$(versions r):$(tr '\n' , <r)" "1:a,b," "several commands in one redirection make one version"
(for i in $(seq 50); do /bin/echo "$i"; done) >r2
is "$(versions r2):$(wc -l <r2)" "1:50" "fifty commands too"
{ /bin/echo one; cat r2; /bin/echo two; } >r3
is "$(versions r3):$(wc -l <r3)" "1:52" "and with readers between them"

: >empty
soon 'echo "$(versions empty):$(stat -c %s empty)"' "1:0" "created and never written: an empty version"
if has flock; then
	ok "flock makes its lock file" flock lock true
	soon 'versions lock' 1 "  by a descriptor for reading only: an empty version"
fi
echo x >trunc
: >trunc
soon 'echo "$(versions trunc):$(stat -c %s trunc)"' "2:0" "truncated and never written: an empty version more"

echo l1 >app
echo l2 >>app
is "$(versions app):$(tr '\n' , <app)" "2:l1,l2," ">> appends to the newest version"
echo first >>app2
is "$(versions app2):$(cat app2)" "1:first" ">> of an absent name creates it"
exec 5>>app 6>>app
echo five >&5
echo six >&6
echo five >&5
exec 5>&- 6>&-
is "$(sort app | tr '\n' ,)" "five,five,l1,l2,six," "two appenders, both open: nothing is lost"
for p in 1 2 3 4 5 6 7 8; do
	(for i in $(seq 25); do echo "$p.$i" >>log; done) &
	pids+=($!)
done
wait "${pids[@]}"
is "$(wc -l <log):$(sort -u log | wc -l)" "200:200" ">> from eight writers loses nothing"

printf 'abcdefghij' >bytes
printf 'XY' | t dd of=bytes conv=notrunc bs=1 seek=3 status=none
is "$(versions bytes):$(cat bytes)" "2:abcXYfghij" "dd conv=notrunc changes bytes of the newest version"
t truncate -s 4 bytes
is "$(versions bytes):$(cat bytes)" "3:abcX" "truncate makes a version"
t truncate -s 6 bytes
is "$(od -An -c bytes | tr -s ' ')" " a b c X \\0 \\0" "and a longer one, with zeros"
t dd if=/dev/zero of=hole bs=1 count=1 seek=99999 status=none
is "$(stat -c %s hole):$(tr -d '\0' <hole | wc -c)" "100000:0" "a hole is zeros"

echo t >touched
t touch -d '2001-09-09 01:46:40.123456' touched
is "$(versions touched):$(ls touched@*)" "1:touched@1000000000123456" "touch -d moves the newest version"
is "$(stat -c %.6Y touched)" "1000000000.123456" "mtime is the timestamp"
echo later >touched
t touch -d '2001-09-09 01:46:41' touched
is "$(find . -name 'touched@*' | sort | tr '\n' ' ')" "./touched@1000000000123456 ./touched@1000000001000000 " "the newest of two moves"
fails "past the other one it does not" 'Invalid argument' t touch -d '2001-09-09 01:46:40' touched
t touch -d '1965-01-01' touched@1000000000123456
is "$?:$(ls touched@1000000000123456)" "0:touched@1000000000123456" "the time of a version is its name's: touch does nothing"
t touch -d '1901-12-14' negative
soon 'ls negative@*' "negative@-2147472000000000" "times before 1970"
t touch newly
soon 'versions newly' 1 "touch creates"
before=$(ts newly)
t touch newly
is "$(versions newly)$([ "$(ts newly)" -gt "$before" ] && echo later)" "1later" "touch moves to now"

rm "q@$(ts q)"
is "$(versions q):$(cat q)" "1:a" "rm of a version shows the one before"
echo c >q
echo d >q
rm q
is "$(versions q):$(cat q 2>&1)" "0:cat: q: No such file or directory" "rm of the plain name removes all"
echo new >q
is "$(versions q):$(cat q)" "1:new" "and it can be written again"
echo v >old@5
is "$(cat old):$(ts old)" "v:5" "a version can be written by its name"
echo w >old@3
is "$(cat old):$(find . -name 'old@*' | wc -l)" "v:2" "a back-dated one is not current"
echo v2 >old@5
is "$(cat old):$(find . -name 'old@*' | wc -l)" "v2:2" "written twice it is one cell"

py <<'EOF2'
from tap import *
import time
F = os.environ["F"]
os.chdir(F)
C = os.O_WRONLY | os.O_CREAT

def versions(q):
    return sorted(int(n.rpartition("@")[2]) for n in os.listdir(".") if n.startswith(q + "@"))

# ---- when ----
fd = os.open("w", C)
same((os.stat("w").st_size, versions("w")), (0, []), "created: seen by stat, not yet a version")
for flags, how in ((os.O_RDONLY, "reading"), (os.O_WRONLY, "writing"), (os.O_RDWR, "both")):
    for name in ("made%d" % flags, "made%d@5" % flags):
        os.close(os.open(name, flags | os.O_CREAT))
        soon(lambda: len(versions(name.split("@")[0])), 2 if "@" in name else 1, "create of %s for %s is an empty version" % (name, how))
        same(slurp(name), b"", "  that can be read")
for name in ("node", "node2@5"):
    os.mknod(name, 0o100644)
    same((os.stat(name).st_size, len(versions(name.split("@")[0]))), (0, 1), "mknod of a regular file: an empty version")
err("EEXIST", "  not twice", os.mknod, "node", 0o100644)
os.write(fd, b"abc")
same((os.stat("w").st_size, os.fstat(fd).st_size, versions("w")), (3, 3, []), "written: the size is seen, still no version")
d = os.dup(fd)
os.close(d)
v1 = versions("w")
same((len(v1), slurp("w")), (1, b"abc"), "a descriptor is closed: committed")
os.write(fd, b"def")
os.fsync(fd)
v2 = versions("w")
same((len(v2), slurp("w")), (1, b"abcdef"), "fsync: a later commit of the same open replaces its version")
os.close(os.dup(fd))
same(versions("w"), v2, "a flush with nothing written commits nothing")
spill("w", b"another")
os.write(fd, b"ghi")
os.close(fd)
same((len(versions("w")), slurp("w")), (3, b"abcdefghi"), "after another's version it takes a new timestamp")

fd = os.open("t0", C)
os.close(os.dup(fd))
same(versions("t0"), [], "a flush of a new file that was not written commits nothing")
os.close(fd)
soon(lambda: (len(versions("t0")), slurp("t0")), (1, b""), "its release commits it empty")

spill("keep", b"old content")
fd = os.open("keep", os.O_WRONLY | os.O_TRUNC)
same(os.stat("keep").st_size, 0, "truncated: stat says 0 at once")
os.write(fd, b"new")
os.close(fd)
same((slurp("keep"), len(versions("keep"))), (b"new", 2), "the old version is kept")

# ---- reading: the version that was opened ----
spill("pin", b"one" * 1000)
r = os.open("pin", os.O_RDONLY)
spill("pin", b"two")
same(os.read(r, 5000), b"one" * 1000, "a reader keeps the version that it opened")
r2 = os.open("pin", os.O_RDONLY)
os.unlink("pin")
same((os.pread(r, 3, 0), os.read(r2, 10), versions("pin")), (b"one", b"two", []), "also when it was removed")
os.close(r)
os.close(r2)
rw = os.open("rw", os.O_RDWR | os.O_CREAT)
os.write(rw, b"hello")
same(os.pread(rw, 9, 0), b"hello", "O_RDWR reads what it wrote")
os.pwrite(rw, b"J", 0)
os.close(rw)
same((slurp("rw"), len(versions("rw"))), (b"Jello", 1), "  and commits it once")
rw = os.open("rw", os.O_RDWR)
os.pwrite(rw, b"y", 4)
same(os.pread(rw, 9, 0), b"Jelly", "  over the base, before the commit")
os.close(rw)
same((slurp("rw"), len(versions("rw"))), (b"Jelly", 2), "  as a new version")

# ---- unlinked or replaced while open: discarded ----
fd = os.open("gone", C)
os.write(fd, b"a")
os.close(os.dup(fd))
os.unlink("gone")
os.write(fd, b"b")
os.close(fd)
same(versions("gone"), [], "unlinked while open: later commits are discarded")
fd = os.open("gone2", C)
os.write(fd, b"a")
os.unlink("gone2")
os.close(fd)
same(versions("gone2"), [], "  the first one too")
fd = os.open("gone3", C)
os.write(fd, b"a")
os.close(os.dup(fd))
spill(".tmp", b"replacement")
os.rename(".tmp", "gone3")
os.write(fd, b"b")
os.close(fd)
same(slurp("gone3"), b"replacement", "replaced by rename while open: discarded")
spill("gone4", b"1")
fd = os.open("gone4", os.O_WRONLY | os.O_APPEND)
os.unlink("gone4")
spill("gone4", b"new life")
os.write(fd, b"late")
os.close(fd)
same(slurp("gone4"), b"new life", "removed and made anew: the old descriptor writes nothing")
fd = os.open("v@7", C)
os.write(fd, b"a")
os.unlink("v@7")
os.close(fd)
same(versions("v"), [], "a version unlinked while open is not made again")

# ---- rename while open ----
fd = os.open(".scratch", C)
os.write(fd, b"part one, ")
os.rename(".scratch", "became")
same(slurp("became"), b"part one, ", "a scratch file renamed while open commits what is staged")
os.write(fd, b"part two")
os.close(fd)
same((slurp("became"), len(versions("became"))), (b"part one, part two", 1), "  and the descriptor is one of the cell")
spill("from", b"1")
spill("from", b"2")
fd = os.open("from", os.O_WRONLY | os.O_APPEND)
os.write(fd, b"!")
os.rename("from", "to")
os.close(fd)
same((versions("from"), slurp("to")), ([], b"2!"), "a plain name renamed while open: so is its descriptor")
same(len(versions("to")), 3, "  plain onto absent moves all versions")

# ---- rename ----
spill("src", b"s1")
spill("src", b"s2")
spill("dst", b"d1")
old = versions("dst")
os.rename("src", "dst")
v = versions("dst")
same((versions("src"), slurp("dst"), len(v), v[:1]), ([], b"s2", 2, old), "plain onto plain: the newest becomes the newest there, history kept")
spill("a@100", b"hundred")
os.rename("a@100", "b@200")
same((versions("a"), versions("b"), slurp("b")), ([], [200], b"hundred"), "version onto version")
spill("b@300", b"three")
os.rename("b@200", "b@300")
same((versions("b"), slurp("b")), ([300], b"hundred"), "  replacing what is there")
spill("c", b"c")
os.rename("b@300", "c")
same((versions("b"), slurp("c"), len(versions("c"))), ([], b"hundred", 2), "version onto plain: becomes the newest")
os.rename("c", "e@5")
same((versions("c"), versions("e"), slurp("e")), ([], [5], b"hundred"), "plain onto version: the newest goes there, the column goes")
os.mkdir("../g")
os.rename("e", "../g/e")
same((versions("e"), slurp("../g/e"), us("../g/e")), ([], b"hundred", 5), "to another family of the row")
os.rename("../g/e", "../g/e")
same(slurp("../g/e"), b"hundred", "onto itself: nothing happens")

# ---- times ----
fd = os.open("timed", C)
os.write(fd, b"x")
os.utime(fd, ns=(1, 1234567890123456000))
same(os.fstat(fd).st_mtime_ns, 1234567890123456000, "a time set before the commit is seen")
os.close(fd)
same(versions("timed"), [1234567890123456], "  and is the version's")
fd = os.open("timed2", C)
os.write(fd, b"x")
os.fsync(fd)
os.utime(fd, ns=(1, 77000))
os.close(fd)
same(versions("timed2"), [77], "set after fsync, before release: the version moves")
fd = os.open("timed", os.O_WRONLY | os.O_TRUNC)
os.write(fd, b"y")
os.utime(fd, ns=(1, 5000))
os.close(fd)
same((versions("timed"), slurp("timed")), ([1234567890123456, 1234567890123457], b"y"), "an older time than the newest version's: newest + 1 us")
fd = os.open("timed3", C)
os.write(fd, b"x")
os.utime(fd, ns=(0, 0))
os.close(fd)
ok(abs(versions("timed3")[0] - time.time() * 1e6) < 60e6, "time 0 means now")
fd = os.open("named@42", C)
os.write(fd, b"x")
os.utime(fd, ns=(1, 99000))
os.close(fd)
same((versions("named"), us("named")), ([42], 42), "where the name carries the timestamp the name wins")
spill("future@4000000000000000", b"f")
spill("future", b"g")
same(versions("future"), [4000000000000000, 4000000000000001], "after a version from the future: + 1 us; what was written is what is read")
same(slurp("future"), b"g", "  indeed")
spill("min@-9223372036854775808", b"m")
same((us("min"), slurp("min")), (-2 ** 63, b"m"), "the smallest timestamp there is")

# ---- O_APPEND whatever the offset ----
spill("ap", b"0123456789")
fd = os.open("ap", os.O_WRONLY | os.O_APPEND)
os.pwrite(fd, b"A", 2)
spill("ap", b"shorter")
os.close(fd)
same(slurp("ap"), b"shorterA", "an appended delta is applied to the newest version at commit")
fd = os.open("ap", os.O_RDWR | os.O_APPEND)
os.write(fd, b"BC")
same(os.pread(fd, 99, 0), b"shorterABC", "an appender with read access sees its bytes at the end")
os.close(fd)
# ---- O_EXCL, O_TRUNC, modes ----
fd = os.open("ex", C | os.O_EXCL, 0o600)
os.close(fd)
same(os.stat("ex").st_mode & 0o777, 0o644, "a cell's mode is its family's, whatever was asked for")
spill("z", b"")
spill("z", b"", os.O_WRONLY)
soon(lambda: len(versions("z")), 1, "opened for writing without truncation and not written: nothing")
# A large one through the plain name, in pieces.
piece = os.urandom(1 << 20)
fd = os.open("large", C)
for i in range(8):
    os.write(fd, piece)
os.close(fd)
ok(slurp("large") == piece * 8, "8 MiB in pieces")
fd = os.open("large", os.O_WRONLY)
os.pwrite(fd, b"patch", 5 << 20)
os.close(fd)
want = bytearray(piece * 8)
want[5 << 20:(5 << 20) + 5] = b"patch"
ok(slurp("large") == want, "  patched in the middle")
same(len(versions("large")), 2, "  two versions")
EOF2

is "$(find . -name '.*' ! -name . | wc -l)" 0 "no scratch is left"
before=$(tree "$M/t")
cd / || exit 1
remount
is "$(tree "$M/t")" "$before" "all is the same after a remount"
# A truncation counts although another descriptor has committed before the first write.
mkdir -p "$M/t/truncated/f"
py <<'PY'
import os, sys
from tap import *
q = os.environ["M"] + "/t/truncated/f/q"
spill(q, b"a long old value")
appender = os.open(q, os.O_WRONLY | os.O_APPEND)
os.write(appender, b" and more")
truncater = os.open(q, os.O_RDWR | os.O_TRUNC)
os.close(appender)
os.write(truncater, b"new")
os.close(truncater)
same(slurp(q), b"new", "a write after O_TRUNC replaces what was committed since the open")
PY
fails "a control file is not removed" 'Operation not permitted' rm "$M/t/.ctl"
like "$(daemon_log | tail -n 1)" 't/\.ctl: control files cannot be removed' "  and the log names it"
done_testing
