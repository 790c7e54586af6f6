#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lines +=N and -=N that are written to a counter are added atomically, each
# once, however often the descriptor is flushed.  A number sets the counter.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
cd "$M" || exit 1
mkdir -p t/.families/c t/.families/f t/r/c t/r/f
echo counter >t/.families/c/type
q=t/r/c/hits

ok "an absent counter starts from 0" bash -c "echo +=5 >$q"
is "$(cat $q)" 5 "  +=5"
echo -=7 >$q
is "$(cat $q)" -2 "  -=7"
echo +=1 >>$q
is "$(cat $q)" -1 "an append adds, too"
echo +=1 >>t/r/c/fresh
is "$(cat t/r/c/fresh)" 1 "  of an absent one"
echo 40 >$q
(echo +=1; echo +=1) >$q
is "$(cat $q)" 42 "two commands with one descriptor, which is flushed after each"
(echo +=1; echo +=1; printf '%s' '+='; printf '%s' 1; echo) >>$q
is "$(cat $q)" 45 "  appending, and a line in pieces"
printf '%s' '-=5' >$q
is "$(cat $q)" 40 "a line without a newline"
printf '+=%s\n' 1 2 3 >$q
is "$(cat $q)" 46 "several lines in one write"
(echo 7; echo +=3) >$q
is "$(cat $q)" 10 "a number and a line"
printf '7\n+=4\n' >$q
is "$(cat $q)" 11 "  in one write"
cat $q >$W/saved
echo +=100 >$q
cat $W/saved >$q
is "$(cat $q)" 11 "writing back the output of cat sets it"
cp $W/saved $q && mv $q t/r/c/moved && cp t/r/c/moved $q
is "$(cat $q)" 11 "  and so do cp and mv"
echo +=9 >t/r/c/.new && mv t/r/c/.new $q
is "$(cat $q)" 20 "a scratch file with a line, renamed onto it"
: >$q
is "$(cat $q)" 0 "a truncation is 0"
yes +=1 | head -n 20000 >$q
is "$(cat $q)" 20000 "20,000 lines"
is "$(printf '+=5' | tee t/r/f/q; cat t/r/f/q)" "+=5+=5" "in a family of bytes it is text"

for bad in +5 += -= ++1 +=x '+=1 2' '+=9223372036854775808' $'+=1\n5' $'5\n6'; do
	fails "refused: $(printf %q "$bad")" "Invalid argument|Numerical result|Value too large" bash -c "exec dd status=none conv=fsync of=$q <<<'$bad'"
done
is "$(cat $q)" 20000 "  nothing is changed"
echo 9223372036854775807 >$q
fails "an overflow" "Value too large" bash -c "exec dd status=none conv=fsync of=$q <<<'+=1'"
is "$(cat $q)" 9223372036854775807 "  changes nothing"
printf 'text' >t/r/c/odd@1
fails "a cell that is no number" "Invalid argument" bash -c "exec dd status=none conv=fsync of=t/r/c/odd <<<'+=1'"
is "$(cat t/r/c/odd)" text "  stays as it is"
like "$(tail -n 1 .tabletfs/log)" "not a decimal number, so nothing is added" "  and the log has the reason"

py <<'EOF2'
from tap import *
Q = M + "/t/r/c/held"
spill(Q, b"0\n")
fd = os.open(Q, os.O_WRONLY | os.O_TRUNC)
for i in range(50):
    os.write(fd, b"+=1\n")
    for k in range(i % 3):
        os.fsync(fd)
        os.close(os.dup(fd))
os.close(fd)
same(slurp(Q), b"50\n", "50 lines through one descriptor, with fsync and close of duplicates in between")
fd = os.open(Q, os.O_WRONLY)
for i in range(50):
    os.pwrite(fd, b"+=2\n", 0)
    os.fsync(fd)
os.close(fd)
same(slurp(Q), b"150\n", "50 lines at offset 0")
fd = os.open(Q, os.O_RDWR)
same(os.pread(fd, 10, 0), b"150\n", "read")
os.write(fd, b"+=1\n")
os.fsync(fd)
same(os.pread(fd, 10, 0), b"151\n", "  add, and read again")
os.write(fd, b"+=1\n")
os.fsync(fd)
same(os.pread(fd, 10, 0), b"152\n", "  twice")
os.ftruncate(fd, 0)
os.pwrite(fd, b"-=2\n", 0)
os.fsync(fd)
os.close(fd)
same(slurp(Q), b"150\n", "  also after a truncation")
a, b = os.open(Q, os.O_WRONLY | os.O_TRUNC), os.open(Q, os.O_WRONLY | os.O_APPEND)
for fd in (a, b, a, b):
    os.write(fd, b"+=10\n")
    os.fsync(fd)
os.close(a)
os.close(b)
same(slurp(Q), b"190\n", "two descriptors")
fd = os.open(Q, os.O_WRONLY | os.O_TRUNC)
os.write(fd, b"+=5")
os.close(os.dup(fd))
same(slurp(Q), b"195\n", "a line that was flushed before its newline is added")
err("EINVAL", "  so that a later digit is no part of it", os.write, fd, b"0\n")
err("EINVAL", "  which close reports again", os.close, fd)
same(slurp(Q), b"195\n", "  and changes nothing")

N = int(os.environ.get("INCREMENTS", "500"))
spill(Q, b"0\n")
kids = []
for i in range(8):
    pid = os.fork()
    if pid:
        kids.append(pid)
        continue
    for k in range(N):
        fd = os.open(Q, os.O_WRONLY | (os.O_TRUNC if i % 2 else os.O_APPEND))
        os.write(fd, b"+=1\n")
        os.close(fd)
    os._exit(0)
same([os.waitpid(k, 0)[1] for k in kids], [0] * 8, "8 processes of %d increments" % N)
same(slurp(Q), b"%d\n" % (8 * N), "  end at %d" % (8 * N))
EOF2
cd / || exit 1
remount
is "$(cat "$M/t/r/c/odd" "$M/t/r/c/held" | tr '\n' ' ')" "text $((8 * ${INCREMENTS:-500})) " "  also after a remount"
done_testing
