#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On a full disk close returns ENOSPC and reads still work.  After files are
# removed, writes succeed again.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012,SC2016,SC2317
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no disk"
[ "$(id -u)" = 0 ] || cannot_run "needs root for a small file system"
mkdir "$W/disk"
mount -t tmpfs -o size=96m none "$W/disk" || cannot_run "needs mount"
D=$W/disk/data
# Small pieces, so that the log and the tables do not need all of the disk for themselves.
cat >"$W/conf" <<'TXT'
log_segment = "4M";
memtable = "4M";
TXT
ok "mount on a disk of 96 MB" mount_store -o config="$W/conf" || { tail -n 3 "$W/daemon.err" | diag; }
mkdir -p "$M/t/r/f" "$M/t/keep/f"
echo precious >"$M/t/keep/f/k"
py <<'EOF2'
from tap import *
F = M + "/t/r/f"
done, first = 0, None
block = os.urandom(1 << 20)
for i in range(400):
    try:
        spill("%s/q%d@1" % (F, i), block)
        done += 1
    except OSError as e:
        first = name_of(e.errno)
        break
note(done, "MB went in, then", first)
same(first, "ENOSPC", "writing on and on ends in ENOSPC")
ok(done >= 20, "  after a good part of the disk")
open(W + "/done", "w").write(str(done))
bad = [i for i in range(done) if slurp("%s/q%d@1" % (F, i)) != block]
same(bad, [], "every acknowledged cell can be read")
err("ENOENT", "the refused one is not there", os.stat, "%s/q%d@1" % (F, done))
same(slurp(M + "/t/keep/f/k"), b"precious\n", "so can what was there before")
ok(len(os.listdir(F)) == done, "and listed")
names = [errno_of(spill, "%s/more%d" % (F, i), block) for i in range(5)]
# Meanwhile a flush may have removed log segments and freed space.
ok(set(names) <= {"ENOSPC", "0"}, "more is refused, or there is room again: %s" % sorted(set(names)))
EOF2
like "$(daemon_log)" 'No space left on device' "the log says why"
done=$(cat "$W/done")
removed=$((done / 2))
ok "rm of half of it" t bash -c "for i in \$(seq 0 $((removed - 1))); do rm '$M/t/r/f/'q\$i@1 || exit 1; done; rm -f '$M'/t/r/f/more*"
is "$(find "$M/t/r/f" -name 'q*' | wc -l)" $((done - removed)) "  works on a full disk"
{ echo compact >"$M/t/.ctl"; } 2>/dev/null
writable() { head -c 100000 /dev/urandom >"$W/new" && cp "$W/new" "$M/t/r/f/new"; }
ok "then there is room again" wait_for "room" writable
same "$W/new" "$M/t/r/f/new" "  what is written is there"
ok "many more" t bash -c "for i in 1 2 3 4 5 6 7 8 9; do cp '$W/new' '$M/t/r/f/again'\$i || exit 1; done"
sums=$(cd "$M/t" && find . -type f -exec md5sum {} + | sort | md5sum)
remount -o config="$W/conf"
is "$(cd "$M/t" && find . -type f -exec md5sum {} + | sort | md5sum)" "$sums" "the same after a remount"

# Cells were removed before another program filled the disk: compact frees their space and uses the reserve meanwhile.
mkdir -p "$M/c/r/f"
for i in $(seq 8); do head -c 1000000 /dev/urandom >"$M/c/r/f/b$i"; done
kept=$(cat "$M"/c/r/f/b{7,8}@* | md5sum)
echo flush >"$M/c/.ctl"
rm "$M"/c/r/f/b{1,2,3,4,5,6}
test -e "$D/ballast"
is $? 0 "a mount has its reserve"
room() { df --output=avail -B1 "$W/disk" | tail -n 1; }
filled() { # log segments may still be removed
	t dd if=/dev/zero bs=64K status=none 2>/dev/null >>"$W/disk/fill"
	[ "$(room)" -lt 65536 ]
}
ok "a full disk" wait_for "a full disk" filled
ok "compact works there" t sh -c "echo compact >'$M/c/.ctl'"
ok "  and makes room ($(room) bytes)" test "$(room)" -ge 5000000
is "$(cat "$M"/c/r/f/b{7,8}@* | md5sum)" "$kept" "  what was left is there"
rm "$W/disk/fill"

# Filled from outside, to the last byte, and killed.
t dd if=/dev/zero of="$W/disk/fill" bs=1M status=none 2>/dev/null
is "$(cat "$M/t/keep/f/k")" precious "a disk filled by another: reads go on"
is "$(cd "$M/t/r/f" && for i in $(seq $removed $((done - 1))); do cmp "q$i" "q$i@1" || echo "q$i"; done)" "" \
	"  large ones too, through plain names, which are kept for who opens them"
py <<'EOF2'
from tap import *
F = M + "/t/r/f"
data = os.urandom(3 << 20)
got = [errno_of(spill, "%s/x%d@1" % (F, i), data) for i in range(30)]
ok("ENOSPC" in got and set(got) <= {"ENOSPC", "0"}, "writes end in ENOSPC: %s" % sorted(set(got)))
kept = [i for i, e in enumerate(got) if e == "0"]
same([i for i in kept if slurp("%s/x%d@1" % (F, i)) != data], [], "  what was acknowledged is there")
open(W + "/kept", "w").write("\n".join("x%d@1" % i for i in kept))
EOF2
py <<'EOF2'
from tap import *
F = M + "/t/r/f"
got = [errno_of(os.unlink, "%s/again%d" % (F, i)) for i in range(1, 10)]
same(set(got), {"0"}, "rm works, time and again")
same(errno_of(os.mkdir, M + "/t/.families/more"), "0", "so do METADATA's changes: a family is made")
same(errno_of(os.rmdir, M + "/t/.families/more"), "0", "  and removed")
same(errno_of(os.truncate, "%s/new" % F, 0), "0", "and a cell is emptied")
EOF2
ls "$M/t/r/f" | LC_ALL=C sort >"$W/before"
kill_daemon -9
check_store
t dd if=/dev/zero bs=4K status=none 2>/dev/null >>"$W/disk/fill"
ok "after kill -9 it mounts on the full disk" mount_store -o config="$W/conf"
ok "  where rm works" t rm "$M/t/r/f/new"
# Recovery flushes, then removes the log, which frees space for a moment.
refused() { t dd if=/dev/zero bs=4K status=none 2>/dev/null >>"$W/disk/fill"; ! cp "$W/new" "$M/t/r/f/last" 2>"$W/.cp"; }
ok "  and cp does not" wait_for "a full disk" refused
like "$(cat "$W/.cp")" 'No space' "  but says why"
# bash ignores the errors of close(2).  The daemon knows of the refused copy, so it asks before it takes bytes.
seen() { refused && ! bash -c "echo x >'$M/t/r/f/last'" 2>"$W/.echo"; }
ok "a shell sees it, too" wait_for "a full disk" seen
like "$(cat "$W/.echo")" 'write error: No space' "  in write(2)"
ls "$M/t/r/f" | LC_ALL=C sort >"$W/before"
rm "$W/disk/fill"
ok "with room it goes on by itself" wait_for "room" cp "$W/new" "$M/t/r/f/by-itself"
rm "$M/t/r/f/by-itself"
remount -o config="$W/conf"
is "$(ls "$M/t/r/f" | LC_ALL=C sort | diff "$W/before" -)" "" "nothing is lost, the removal neither"
ok "and takes writes" cp "$W/new" "$M/t/r/f/last"
unmount_store

# Writers, flushes and compactions leave the last space to removals.
rm -r "$D"
mount_store -o config="$W/conf"
mkdir -p "$M/t/r/f"
py <<'EOF2'
from tap import *
import threading
F = M + "/t/r/f"
block = os.urandom(300000)
put = lambda name: errno_of(spill, "%s/%s@1" % (F, name), block)
done = 0
while put("q%d" % done) == "0":
    done += 1
stop = threading.Event()
def others(k):
    n = 0
    while not stop.is_set():
        n += put("more%d.%d" % (k, n)) == "0"
def control():
    while not stop.is_set():
        for verb in ("flush", "compact"):
            errno_of(spill, M + "/t/.ctl", (verb + "\n").encode())
threads = [threading.Thread(target=others, args=(k,)) for k in range(2)] + [threading.Thread(target=control)]
for x in threads:
    x.start()
got = [errno_of(os.unlink, "%s/q%d@1" % (F, i)) for i in range(done // 2)]
stop.set()
for x in threads:
    x.join()
same([i for i, e in enumerate(got) if e != "0"], [], "on a full disk that others keep writing to, all of %d cells are removed" % len(got))
same([i for i in range(done // 2, done) if slurp("%s/q%d@1" % (F, i)) != block], [], "  and no other")
EOF2
unmount_store
done_testing
