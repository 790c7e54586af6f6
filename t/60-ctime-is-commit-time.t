#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# st_ctime is the time of commit, which backup programs use to find rewritten
# and back-dated cells.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2016,SC2317
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model keeps no times of commit"
ok "mount" mount_store
F=$M/t/row/f
mkdir -p "$F" "$M/t/other/f"
ct() { stat -c %.6Z "$1"; }
after() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 > b + 0) }'; }
newer() { (cd "$M" && find . -type f -cnewer "$1" | LC_ALL=C sort | tr '\n' ' '); }
backup() { t tar -c --listed-incremental="$W/snar" -f "$1" -C "$M" t && tar -tf "$1" | grep -v '/$' | tr '\n' ' '; }

printf one >"$F/q@1000"
printf two >"$F/q@2000"
printf one >"$F/p"
head -c 300000 /dev/zero >"$F/large@5"
ok "tar -g takes all" test "$(backup "$W/0.tar" | wc -w)" = 4
is "$(backup "$W/1.tar")" "" "and then nothing"

# ---- changes that find and tar -g must see ----
echo ref >"$W/ref" # an empty file is committed at RELEASE, after close has returned
is "$(newer "$W/ref")" "" "nothing is newer than a file made on another file system"
before=$(ct "$F/q@1000")
printf six >"$F/q@1000"
ok "a version rewritten in place with the same size and time has another ctime" after "$(ct "$F/q@1000")" "$before"
is "$(stat -c '%s %Y' "$F/q@1000")" "3 0" "  with the same size and mtime"
is "$(newer "$W/ref")" "./t/row/f/q@1000 " "find -cnewer lists it"
is "$(backup "$W/2.tar")" "t/row/f/q@1000 " "tar -g takes it"
is "$(tar -xOf "$W/2.tar" t/row/f/q@1000)" six "  as it is now"
printf new >"$F/ref"
printf old >"$F/back@1000"
like "$(newer "$F/ref")" "^./t/row/f/back@1000 (./t/row/f/ref@[0-9]+ )?$" "so is a back-dated cell, newer than a cell made just before"
like "$(backup "$W/3.tar")" "^t/row/f/back@1000 t/row/f/ref@[0-9]+ $" "  for tar too"
head -c 300000 /dev/urandom >"$F/large@5"
is "$(backup "$W/4.tar")" "t/row/f/large@5 " "a large value"
printf x | dd of="$F/large@5" bs=1 seek=7 conv=notrunc status=none
is "$(backup "$W/5.tar")" "t/row/f/large@5 " "one byte of it in place"
mv "$F/q@2000" "$F/moved@2000"
is "$(backup "$W/6.tar")" "t/row/f/moved@2000 " "a version that was renamed"
printf 1 >"$F/col@1"; printf 2 >"$F/col@2"; stat "$F"/col@* >"$W/.out"; backup "$W/c.tar" >"$W/.out"
mv "$F/col" "$F/lane"
is "$(backup "$W/d.tar")" "t/row/f/lane@1 t/row/f/lane@2 " "a column that was renamed, each version"
touch -d @7 "$F/p"
is "$(backup "$W/7.tar")" "t/row/f/p@7000000 " "the newest version, its time set"
cp -p "$W/ref" "$F/copied"
is "$(backup "$W/8.tar" | wc -w)" 1 "a file that cp -p gave its time"
is "$(backup "$W/9.tar")" "" "and then nothing"

py <<'EOF2'
from tap import *
import time
os.chdir(M + "/t/row/f")
def ctime(name):
    return os.stat(name).st_ctime_ns
# It lies between the moments before and after each commit, and never runs backwards.
wrong, last = [], 0
for i in range(300):
    name = ("in@%d" % (i % 3), "plain", "far@%d" % (i - 2**50))[i % 3]
    a = time.time_ns() // 1000 * 1000
    spill(name, b"%03d" % i)
    b, c = time.time_ns(), ctime(name)
    if not (a <= c <= b and c > last):
        wrong.append((name, a, c, b, last))
    last = c
same(wrong, [], "300 commits: each later than the one before, between its begin and its end")
same(ctime("plain"), ctime([n for n in os.listdir(".") if n.startswith("plain@")][0]) if sum(n.startswith("plain@") for n in os.listdir(".")) == 1
     else max(ctime(n) for n in os.listdir(".") if n.startswith("plain@")), "a plain name has its newest version's")
same(ctime("plain"), ctime("../../.latest/row/f/plain"), "in .latest too")
# While staged, ctime is the time of the last write.  The commit changes it, even if the kernel has cached the old one.
for name in ("in@0", "plain", ".scratch"):
    before = ctime(name) if name[0] != "." else 0
    fd = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
    os.pwrite(fd, b"xyz", 0)
    staged, by_name = os.fstat(fd).st_ctime_ns, ctime(name)
    ok(before < staged <= time.time_ns() and by_name == staged, "%s: staged, it has the time of the write" % name)
    os.close(fd)
    same(name[0] == "." or ctime(name) > staged, True, "  and committed, that of the commit")
os.utime(".scratch", (1, 1))
ok(os.stat(".scratch").st_mtime == 1 and time.time() - os.stat(".scratch").st_ctime < 100, "a time set on scratch is not its ctime")
os.rename(".scratch", "in@1")
ok(time.time() - os.stat("in@1").st_ctime < 100 and ctime("in@1") > last, "scratch that became a version")
# Through a listing (readdirplus) and one by one it is the same.
with os.scandir(".") as d:
    listed = {e.name: e.stat().st_ctime_ns for e in d}
wrong = [n for n in listed if ctime(n) != listed[n]]
same(wrong, [], "%d cells: as in the listing" % len(listed))
# One that is open while another process rewrites it.
spill("in@2", b"was")
fd = os.open("in@2", os.O_RDONLY)
before = os.fstat(fd).st_ctime_ns
os.system("printf abc >in@2")
ok(os.fstat(fd).st_ctime_ns > before, "a descriptor sees the later time")
os.unlink("in@2")
ok(os.fstat(fd).st_ctime_ns > before, "and none before it once the cell was removed")
os.close(fd)
EOF2

# ---- and it stays ----
times() { (cd "$M/t" && find . -type f -printf '%p %C@ %T@ %s\n' | LC_ALL=C sort); }
times >"$W/all"
like "$(grep -c . "$W/all")" '^[0-9]{3}$' "some hundred cells"
stays() { times >"$W/now" && same "$W/now" "$W/all" "ctimes are the same $1"; }
kill_daemon -9
ok "mount" mount_store
stays "after kill -9 and replay"
echo flush >"$M/t/.ctl"
stays "after a flush"
backup "$W/x.tar" >/dev/null
is "$(backup "$W/y.tar")" "" "tar -g, once more, takes nothing"
echo 'split row' >"$M/t/.ctl"
stays "after a split"
echo 'merge other' >"$M/t/.ctl"
stays "after a merge"
echo compact >"$M/t/.ctl"
stays "after a compaction"
remount
stays "after a clean remount"
remount -o ro
stays "mounted read-only"
remount -o latest
is "$(stat -c %.9Z "$M/t/row/f/plain")" "$(sed -n 's/^.*plain@[0-9]* \([0-9.]*\) .*/\1/p' "$W/all" | sort -n | tail -n 1 | cut -c 1-20)" "and with -o latest"
done_testing
