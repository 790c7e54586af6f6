#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SIGKILL loses no write whose close had returned.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012,SC2015,SC2016,SC2317
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model keeps nothing"
cat >"$W/writer.py" <<'PY'
"""Writes, appends, removes and renames; says each step in a file outside once it has been acknowledged."""
import os, random, sys
from tap import *
me, seed = sys.argv[1], int(sys.argv[2])
rnd = random.Random(seed)
base = "%s/t/%s/f" % (M, me)
journal = open("%s/journal.%s" % (W, me), "a", buffering=1)
n = 0
try:
    while True:
        n += 1
        name = "q%d" % rnd.randrange(200)
        what = rnd.randrange(10)
        journal.write("? %s\n" % name)
        if what < 6:
            data = ("%s %d %s;" % (name, n, seed)).encode() * rnd.choice((1, 1, 10, 100, 3000))
            spill(base + "/" + name, data)
            journal.write("= %s %d %d\n" % (name, n, len(data)))
        elif what < 8:
            spill(base + "/" + name, b"+%d %d;" % (n, seed), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            journal.write("+ %s %d %d\n" % (name, n, seed))
        elif what == 8:
            try:
                os.unlink(base + "/" + name)
            except FileNotFoundError:
                pass
            journal.write("- %s\n" % name)
        else:
            to = "r%d" % rnd.randrange(200)
            journal.write("? %s\n" % to)
            try:
                os.rename(base + "/" + name, base + "/" + to)
                journal.write("> %s %s\n" % (name, to))
            except FileNotFoundError:
                journal.write("x %s %s\n" % (name, to))
except OSError as e:
    if e.errno not in (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO, errno.ENOENT, errno.ESTALE):
        print("not ok - a writer met", e)
PY
cat >"$W/judge.py" <<'PY'
"""Holds the store against a journal.  What was in flight may have happened or not."""
import sys
from tap import *
bad = total = 0
for me in sys.argv[1:]:
    state, doubt = {}, set()
    seed = None
    lines = open("%s/journal.%s" % (W, me)).read().split("\n")
    for i, line in enumerate(lines):
        p = line.split(" ")
        if p[0] == "?":
            doubt.add(p[1])
        elif p[0] == "=":
            state[p[1]] = ("=", p[2], int(p[3]), [])
            doubt.discard(p[1])
        elif p[0] == "+":
            old = state.get(p[1], ("", "", 0, []))
            state[p[1]] = (old[0], old[1], old[2], old[3] + ["+%s %s;" % (p[2], p[3])])
            doubt.discard(p[1])
        elif p[0] == "-":
            state.pop(p[1], None)
            doubt.discard(p[1])
        elif p[0] in ">x":
            if p[0] == ">":
                state[p[2]] = state.pop(p[1])
            doubt -= set(p[1:3])
        elif p[0] == "round":
            # After a crash, the store decides about the calls that were in progress.
            pass
    for name in ["q%d" % i for i in range(200)] + ["r%d" % i for i in range(200)]:
        if name in doubt:
            continue
        total += 1
        try:
            data = slurp("%s/t/%s/f/%s" % (M, me, name)).decode()
        except FileNotFoundError:
            data = None
        want = state.get(name)
        if want is None:
            good = data is None
        elif data is None:
            good = False
        else:
            tail = "".join(want[3])
            head = data[:len(data) - len(tail)] if tail else data
            good = data.endswith(tail) and len(head) == want[2] and (want[2] == 0 or head.split(" ")[1] == want[1])
        if not good:
            bad += 1
            if bad < 5:
                note(me, name, "wanted", want, "got", data and data[:100])
same(bad, 0, "%d cells are as acknowledged" % total)
PY
for round in 1 2 3 4; do
	rm -f "$W"/journal.*
	mount_store || { fail "mount $round"; break; }
	rm -rf "$M/t"
	writers=()
	for w in a b c; do
		mkdir -p "$M/t/$w/f"
		python3 "$W/writer.py" $w $round$round >"$W/writer.$w" 2>&1 &
		writers+=($!)
	done
	# Until enough has been acknowledged; a different point each time, the last one across a compaction.
	enough() { [ "$(cat "$W"/journal.* 2>/dev/null | wc -l)" -gt $((round * 1500)) ]; }
	wait_for "the writers" enough
	[ $round != 3 ] || echo flush >"$M/t/.ctl"
	[ $round != 4 ] || (echo compact >"$M/t/.ctl") 2>/dev/null &
	[ $round != 4 ] || wait_for "some more" eval '[ "$(cat "$W"/journal.* | wc -l)" -gt 7000 ]'
	kill_daemon -9
	wait "${writers[@]}" 2>/dev/null
	is "$(cat "$W"/writer.? | grep -v '^$')" "" "round $round: writers met nothing but the end"
	check_store
	ok "round $round: the store mounts again" mount_store
	py a b c <"$W/judge.py"
	unmount_store
done

# Many small files, closed one after another, not one fsync.
mount_store
rm -rf "$M/t"
mkdir -p "$M/many/r/f"
py <<'EOF2'
from tap import *
os.chdir(M + "/many/r/f")
for i in range(3000):
    spill("%d@%d" % (i, i + 1), b"value %d" % i)
ok(True, "3000 small cells")
EOF2
kill_daemon -9
check_store
ok "mount" mount_store
like "$(cat "$M/.tabletfs/log")" "notice: .*/log/[0-9]+: [0-9]+ records replayed in [0-9.]+ s" "  and says what was replayed"
is "$(ls "$M/many/r/f" | wc -l)" 3000 "are there after kill -9"
is "$(cat "$M/many/r/f"/* | md5sum)" "$(LC_ALL=C ls "$M/many/r/f" | while IFS=@ read -r i _; do printf 'value %s' "$i"; done | md5sum)" "with their bytes"
mkdir -p "$M/many/.families/late" "$M/many/r/late"
chmod 600 "$M/many/.families/late"
echo maxversions=1 >"$M/many/.families/late/gc"
rm "$M/many/r/f/7@8"
mv "$M/many/r/f/8" "$M/many/r/f/renamed"
kill_daemon -9
kill_daemon -9
mount_store
is "$(ls "$M/many/r/f" | wc -l):$(cat "$M/many/r/f/renamed"):$(cat "$M/many/.families/late/gc"):$(stat -c %a "$M/many/.families/late")" "2999:value 8:maxversions=1:700" "so are a removal, a rename and a schema"
kill_daemon -SEGV
check_store
mount_store
is "$(ls "$M/many/r/f" | wc -l)" 2999 "and after any other death"
done_testing
