#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Small files have two copies: a flipped bit in either copy is reported by
# tabletctl check, does not affect the next mount, and is repaired by it.  If
# both copies of a schema are damaged, only its own table is unavailable, and
# none of its data is lost.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no files"
mount_store
for table in one two; do
	mkdir -p "$M/$table/r/f"
	for i in 1 2 3 4 5; do
		echo "$table $i" >"$M/$table/r/f/q$i@5"
	done
done
echo flush >"$M/one/.ctl"
remount
echo two 6 >"$M/two/r/f/q6@5"
unmount_store
kept=$W/kept
cp -a "$D" "$kept"
all() { t cat "$M"/*/r/f/q*@5 2>&1; }
want=$(for i in 1 2 3 4 5; do echo "one $i"; done; for i in 1 2 3 4 5 6; do echo "two $i"; done)

# flip FILE PART: one random bit of the part-th third of the file.
flip() {
	python3 - "$1" "$2" <<'EOF2'
import os, random, sys
size, part, rnd = os.path.getsize(sys.argv[1]), int(sys.argv[2]), random.Random(len(sys.argv[1]) * 3 + int(sys.argv[2]))
at = rnd.randrange(size * part // 3, size * (part + 1) // 3)
with open(sys.argv[1], "r+b") as f:
    f.seek(at)
    b = f.read(1)[0] ^ 1 << rnd.randrange(8)
    f.seek(at)
    f.write(bytes([b]))
EOF2
}
count=0
for file in FORMAT lock/root lock/ids lock/incarnation lock/store lock/tables/one $(cd "$kept" && echo sst/1/*.sst); do
	for part in 0 1 2; do
		rm -rf "$D"
		cp -a "$kept" "$D"
		flip "$D/$file" "$part"
		t "$TABLETCTL" check "$D" >"$W/.c" 2>&1
		is "$?:$(grep -c "$file" "$W/.c")" 1:1 "$file, a bit of third $part: check names it once and ends with 1"
		mount_store || { fail "  it mounts"; diag <"$W/daemon.err"; continue; }
		is "$(all)" "$want" "  all cells are read"
		is "$(daemon_log | grep -c "$file.*one of its two copies was damaged")" 1 "  one line in the log"
		unmount_store
		ok "  then the store is clean" t "$TABLETCTL" check "$D"
		count=$((count + 1))
	done
done
ok "$count flipped bits, at least one METADATA SSTable among them" test "$count" -ge 18

# Both copies of one schema.  Until it is put back, check has something to say.
leave() {
	t fusermount3 -u "$M"
	wait_daemon
}
rm -rf "$D"
cp -a "$kept" "$D"
python3 - "$D/lock/tables/two" <<'EOF2'
import sys
with open(sys.argv[1], "r+b") as f:
    for at in (30, 4096 + 30):
        f.seek(at)
        f.write(b"\xff\xff\xff")
EOF2
ls "$D"/sst/*/* >"$W/files"
ok "a schema damaged in both copies: the store mounts" mount_store
is "$(ls "$M")" $'one\ntwo' "  both tables are listed"
is "$(cat "$M"/one/r/f/q*@5)" "$(grep one <<<"$want")" "  the other one's cells are read"
like "$(cat "$M/.tabletfs/status")" '^attention .*table two is refused' "  status says so"
fails "  its own are refused" 'Input/output error' cat "$M/two/r/f/q1@5"
fails "  and so are new ones" 'Input/output error' mkdir "$M/two/s"
fails "  it is not dropped" 'Input/output error|not empty' rmdir "$M/two"
is "$(daemon_log | grep -c "lock/tables/two: damaged: table two is refused.*tabletctl repair $D")" 1 "  one line names table, file and remedy"
mkdir -p "$M/three/r/f"
echo three >"$M/three/r/f/q@5"
echo flush >"$M/three/.ctl"
echo compact >"$M/one/.ctl"
rm -r "$M/three"
ok "  other tables are made and dropped" test ! -e "$M/three"
leave
mount_store
fails "  after another mount" 'Input/output error' ls "$M/two"
leave
grep -F /sst/17/ "$W/files" >"$W/two" # the second table's
ok "  its SSTables stay" xargs -a "$W/two" ls
cp "$kept/lock/tables/two" "$D/lock/tables/two"
mount_store
is "$(cat "$M"/two/r/f/q*@5)" "$(grep two <<<"$want")" "with its schema put back all its cells are there"
unmount_store
check_store
done_testing
