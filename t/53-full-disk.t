#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A full disk: ENOSPC at close, reads go on, rm makes room, writes again.
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
# A flush may have let go of log segments meanwhile, and so made room.
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

# Cells were removed before another filled the disk: compact makes room of them, and lives off the ballast meanwhile.
mkdir -p "$M/c/r/f"
for i in $(seq 8); do head -c 1000000 /dev/urandom >"$M/c/r/f/b$i"; done
kept=$(cat "$M"/c/r/f/b{7,8}@* | md5sum)
echo flush >"$M/c/.ctl"
rm "$M"/c/r/f/b{1,2,3,4,5,6}
test -e "$D/ballast"
is $? 0 "a mount with room has its ballast"
room() { df --output=avail -B1 "$W/disk" | tail -n 1; }
filled() { # log segments may still be let go of
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
ok "rm works" t rm "$M/t/r/f/again1"
ls "$M/t/r/f" | LC_ALL=C sort >"$W/before"
kill_daemon -9
check_store
ok "after kill -9 it mounts on the full disk, or says why" bash -c '
	timeout 60 "$TABLETFS" -o config="$W/conf" "$D" "$M" 2>"$W/full.err" </dev/null || grep -q "No space" "$W/full.err"'
mounted "$M" && { echo "# it mounted"; t fusermount3 -u "$M"; }
rm "$W/disk/fill"
free() { t "$TABLETCTL" check "$D"; }
wait_for "the store" free
ok "with room it mounts" mount_store -o config="$W/conf"
is "$(ls "$M/t/r/f" | LC_ALL=C sort | diff "$W/before" -)" "" "nothing is lost, the removal neither"
ok "and takes writes" cp "$W/new" "$M/t/r/f/last"
unmount_store
done_testing
