#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A family or group that is renamed, in .families or .groups or by .schema, keeps
# its cells and settings, also while files are open and processes write.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
cd "$M" || exit 1
mkdir -p t/.families/A u/.families/A
cat >"$W/lib.py" <<'PY'
from tap import *
import threading
os.chdir(M)
ROWS = ["t/row%d" % i for i in range(40)]
VIEWS = ["", "t/.latest/"]
def move(a, b):
    os.rename("t/.families/" + a, "t/.families/" + b)
def there(name):
    """In how many rows, in both views, it can be found by name."""
    return sum(os.path.exists(p) for r in ROWS for p in (r + "/" + name, r.replace("t/", "t/.latest/") + "/" + name))
def log():
    return slurp(".tabletfs/log").splitlines()
def refused(want, what, fn, *args):
    """Fails so, with one line of reason, and the schema is what it was."""
    before, text, when = log(), slurp("t/.schema"), os.stat("t/.schema").st_mtime_ns
    err(want, what, fn, *args)
    new = log()[len(before):]
    if not ok(len(new) == 1 and b"/t/." in new[0], "  says why, once"):
        note(*new)
    same((slurp("t/.schema"), os.stat("t/.schema").st_mtime_ns), (text, when), "  and changes nothing")
PY
export PYTHONPATH="$PYTHONPATH:$W"

# ---- the kernel's cached names ----
py <<'EOF2'
from lib import *
for r in ROWS:
    os.makedirs(r + "/A")
    spill(r + "/A/q", r.encode())
os.mkdir("t/made"); os.mkdir("t/made/A")
ino = os.stat(ROWS[0] + "/A").st_ino
stale = missing = 0
for i in range(60):
    a, b = ("A", "B")[::1 if i % 2 == 0 else -1]
    missing += 2 * len(ROWS) - there(a)
    for r in ROWS:
        os.listdir(r), os.listdir(r + "/" + a)
    move(a, b)
    stale += there(a)
    missing += 2 * len(ROWS) - there(b)
    stale += sum(os.listdir(r) != [b] for r in ROWS)
same(stale, 0, "the old name is nowhere as soon as rename has returned, 60 times of 60")
same(missing, 0, "  and the new one everywhere")
same(os.stat(ROWS[0] + "/A").st_ino, ino, "the directory is the same one")
same([slurp(r + "/A/q").decode() for r in ROWS], ROWS, "  with all its cells")
move("A", "B")
same(os.listdir("t/made"), ["B"], "a directory that was only made has the new name too")
same(os.listdir("t/.families"), ["B"], ".families has the new name")
same(b'name = "B"' in slurp("t/.schema") and b'name = "A"' not in slurp("t/.schema"), True, "  and so has .schema")
os.rmdir("t/made/B"); os.rmdir("t/made")
EOF2

# ---- open files ----
py <<'EOF2'
from lib import *
import mmap
r = ROWS[0] + "/"
d = os.open(r + "B", os.O_RDONLY)
read = os.open(r + "B/q", os.O_RDONLY)
add = os.open(r + "B/add", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(add, b"one ")
spill(r + "B/v@77", b"x" * 9000)
ver = os.open(r + "B/v@77", os.O_RDWR)
m = mmap.mmap(ver, 9000)
scratch = os.open(r + "B/.s", os.O_WRONLY | os.O_CREAT)
os.write(scratch, b"scratch")
gc = os.open("t/.families/B/gc", os.O_WRONLY)
late = os.open("t/.latest/" + r[2:] + "B/late", os.O_WRONLY | os.O_CREAT)
where = os.getcwd()
os.chdir(r + "B")
os.rename(M + "/t/.families/B", M + "/t/.families/C")
os.mkdir(M + "/t/.families/B")
os.mkdir(M + "/" + r + "B")
same(sorted(n.split("@")[0] for n in os.listdir(".")), [".s", "q", "v"], "a directory one is in goes along")
os.stat(M + "/" + r + "C")
same(os.getcwd(), M + "/" + r + "C", "  and its path is the new one once that has been met")
os.chdir(where)
same(os.read(read, 99), ROWS[0].encode(), "a descriptor reads on")
os.write(add, b"two"); os.close(add)
same(slurp(r + "C/add"), b"one two", "what is written through another goes to the renamed family")
m[5000:5003] = b"new"; m.flush(); m.close()
os.pwrite(ver, b"y", 0); os.close(ver)
same(slurp(r + "C/v@77"), b"y" + b"x" * 4999 + b"new" + b"x" * 3997, "  so is what is stored through mmap")
os.write(late, b"later"); os.close(late)
same(slurp(r + "C/late"), b"later", "  and what was opened in .latest")
os.write(scratch, b" file"); os.close(scratch)
os.rename(r + "C/.s", r + "C/s")
same(slurp(r + "C/s"), b"scratch file", "a scratch file stays in its directory")
fd = os.open("x", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=d)
os.write(fd, b"at"); os.close(fd)
same(slurp(r + "C/x"), b"at", "openat by a directory opened before goes there")
os.write(gc, b"maxversions=5\n"); os.close(gc)
same((slurp("t/.families/C/gc"), slurp("t/.families/B/gc")), (b"maxversions=5\n", b"\n"), "a setting opened before is the renamed family's")
same(os.listdir(r + "B"), [], "a new family of the old name has nothing of it")
spill(r + "B/q", b"B's own")
same((slurp(r + "B/q"), slurp(r + "C/q")), (b"B's own", ROWS[0].encode()), "  and they stay apart")
os.unlink(r + "B/q")
os.rmdir(r + "B")
for fd in (d, read):
    os.close(fd)
os.rmdir("t/.families/B")
same(os.path.exists(r + "B"), False, "  until it is removed")
EOF2

# ---- refused renames ----
py <<'EOF2'
from lib import *
os.mkdir("t/.families/B")
os.mkdir("t/.groups/g")
os.mkdir("t/.groups/h")
refused("EEXIST", "a family onto another", move, "C", "B")
err("EEXIST", "  the same with RENAME_NOREPLACE, which the kernel itself answers", renameat2, "t/.families/C", "t/.families/B", RENAME_NOREPLACE)
refused("EINVAL", "RENAME_EXCHANGE", renameat2, "t/.families/C", "t/.families/B", RENAME_EXCHANGE)
refused("EPERM", "a name that no family can have", move, "C", "a b")
refused("EPERM", "  nor one with an id for a name", move, "C", "#1")
refused("EPERM", "  nor one that is too long", move, "C", "x" * 65)
refused("EPERM", "into another family", move, "C", "B/C")
refused("EPERM", "a setting", os.rename, "t/.families/C/gc", "t/.families/C/group")
refused("EPERM", "into .groups", os.rename, "t/.families/C", "t/.groups/C")
refused("EEXIST", "a group onto another", os.rename, "t/.groups/g", "t/.groups/h")
refused("EBUSY", "the default group", os.rename, "t/.groups/default", "t/.groups/d")
before = log()
err("EPERM", "to another table", os.rename, "t/.families/C", "u/.families/C")
same(len(log()) - len(before), 1, "  says why, once")
err("ENOENT", "a family that is not there", move, "Z", "Y")
err("0", "RENAME_NOREPLACE onto a new name", renameat2, "t/.families/B", "t/.families/B2", RENAME_NOREPLACE)
err("0", "onto itself", move, "B2", "B2")
os.rmdir("t/.families/B2")
EOF2

# ---- groups ----
echo g >t/.families/C/group
exec 5>t/.groups/g/block_size
ok "a group is renamed" mv t/.groups/g t/.groups/pages
is "$(cat t/.families/C/group)" pages "  with the families in it"
echo 16K >&5
exec 5>&-
is "$(cat t/.groups/pages/block_size)" 16K "  and descriptors"
is "$(ls t/.groups | tr '\n' ' ')" "default h pages " "  in the listing"
echo compact >t/.ctl
is "$(cat t/row7/C/q)" t/row7 "cells are read after a compaction"

# ---- by .schema ----
py <<'EOF2'
from lib import *
spill("t/.schema", b'''families = ( { name = "A"; was = "C"; group = "html"; } );
groups = ( { name = "html"; was = "pages"; compression = "lz4"; }, { name = "h"; } );
''')
same([slurp(r + "/A/q").decode() for r in ROWS], ROWS, "{ name; was; } in .schema renames a family")
same((os.listdir("t/.families"), slurp("t/.families/A/group")), (["A"], b"html\n"), "  and a group")
same((there("C"), b"was" in slurp("t/.schema")), (0, False), "  and is not kept")
fd = os.open("t/.schema", os.O_WRONLY | os.O_TRUNC)
before = slurp("t/.families/A/group")
err("EINVAL", "was that is not there", os.write, fd, b'families = ( { name = "A"; was = "nosuch"; }, { name = "D"; was = "E"; } );\n')
errno_of(os.close, fd)
same(log()[-1].rpartition(b"/t/")[2], b'.schema: line 1: was: there is none of that name: Invalid argument', "  says where")
same((os.listdir("t/.families"), slurp("t/.families/A/group")), (["A"], before), "  and changes nothing")
os.mkdir("t/.families/B")
os.mkdir(ROWS[1] + "/B")
spill(ROWS[1] + "/B/q", b"was in B")
spill("t/.schema", b'families = ( { name = "A"; was = "B"; }, { name = "B"; was = "A"; } );')
same((slurp(ROWS[1] + "/A/q"), slurp(ROWS[1] + "/B/q")), (b"was in B", ROWS[1].encode()), "two families exchange their names")
os.unlink(ROWS[1] + "/A/q")
spill("t/.schema", b'families = ( { name = "A"; was = "B"; } );')
same([slurp(r + "/A/q").decode() for r in ROWS], ROWS, "one takes the name of an empty one that is left out")
os.mkdir("t/.families/B")
os.mkdir(ROWS[1] + "/B")
spill(ROWS[1] + "/B/q", b"was in B")
fd = os.open("t/.schema", os.O_WRONLY | os.O_TRUNC)
os.write(fd, b'families = ( { name = "A"; was = "B"; } );')
err("EBUSY", "  but not of one that holds cells, nor may that be left out", os.close, fd)
same((slurp(ROWS[1] + "/A/q"), slurp(ROWS[1] + "/B/q")), (ROWS[1].encode(), b"was in B"), "  both stay")
os.unlink(ROWS[1] + "/B/q")
os.rmdir(ROWS[1] + "/B")
os.rmdir("t/.families/B")
EOF2

# ---- renames of directories at the same time: no deadlock ----
py <<'EOF2'
from lib import *
import random
end = time.monotonic() + 3
done = [0, 0, 0]
def rows():
    r = random.Random(1)
    while time.monotonic() < end:
        d = r.choice(ROWS)
        try:
            spill(d + "/.x", b"1")
            errno_of(os.rename, d + "/.x", "t/.families/x")   # locks both directories
            errno_of(os.rename, "t/.families", d + "/y")
            os.unlink(d + "/.x")
            done[0] += 1
        except FileNotFoundError:
            pass
def looks():
    r = random.Random(2)
    while time.monotonic() < end:
        d = r.choice(ROWS)
        os.listdir(d)
        os.path.exists(d + "/A"), os.path.exists(d + "/B")
        done[1] += 1
ts = [threading.Thread(target=f) for f in (rows, rows, looks, looks)]
for t in ts:
    t.start()
while time.monotonic() < end:
    move("A", "B"); move("B", "A")
    done[2] += 2
for t in ts:
    t.join()
ok(min(done) > 0, "renames, between directories too, go on beside each other")
note("rows %d looks %d renames %d" % tuple(done))
same([slurp(r + "/A/q").decode() for r in ROWS], ROWS, "  and nothing is lost")
EOF2

# ---- shells that write meanwhile ----
cat >"$W/writer.sh" <<'SH'
# Acknowledged writes are in $W/wrote.$1.  If a name has just been removed, the write is tried again under the other name.
for i in $(seq 1 "$2"); do
	for f in A B A B A B A B A B; do
		if { echo "$i" >"t/row$1/$f/w$i"; } 2>/dev/null; then
			echo "$i" >>"$W/wrote.$1"
			break
		fi
	done
done
SH
for k in 1 2 3; do
	W=$W bash "$W/writer.sh" "$k" 300 &
	writers[k]=$!
done
renames=0
while runs "${writers[1]}" || runs "${writers[2]}" || runs "${writers[3]}"; do
	mv t/.families/A t/.families/B && mv -T t/.families/B t/.families/A || break
	renames=$((renames + 2))
done
wait "${writers[@]}"
lost=0 wrote=0
for k in 1 2 3; do
	while read -r i; do
		wrote=$((wrote + 1))
		[ "$(cat "t/row$k/A/w$i" 2>/dev/null)" = "$i" ] || lost=$((lost + 1))
	done <"$W/wrote.$k"
done
is "$lost" 0 "what shells were told is written is there after all the renames"
ok "  and they did write" test "$wrote" -gt 300
echo "# $wrote writes, $renames renames"

# ---- directories that are created while their family is renamed or removed ----
py <<'EOF2'
from lib import *
import multiprocessing, random
N = 150
def beside(first, meanwhile, after):
    """first(i) in another process beside meanwhile(); then after(i, waited), for each i.
    waited: meanwhile() took so long that it may have returned before the old name was dropped (notify.h)."""
    go, done = multiprocessing.Semaphore(0), multiprocessing.Semaphore(0)
    def other():
        for i in range(N):
            go.acquire()
            errno_of(first, i)
            done.release()
    p = multiprocessing.Process(target=other, daemon=True)
    p.start()
    for i in range(N):
        go.release()
        until = time.monotonic() + random.random() * 0.001
        while time.monotonic() < until:
            pass
        begin = time.monotonic()
        meanwhile()
        waited = time.monotonic() - begin > 0.4
        done.acquire()
        after(i, waited)
    p.join()
def make(i):
    os.mkdir("made/r%d/A" % i)
os.mkdir("made"); os.mkdir("made/.families/A"); os.mkdir("made/.families/other")
stale, listed, stuck = [], [], []
for i in range(N):
    os.mkdir("made/r%d" % i)
def look(i, waited):
    if not waited and os.path.exists("made/r%d/A" % i):
        stale.append(i)
    if os.listdir("made/r%d" % i) not in ([], ["B"]):
        listed.append(i)
    os.rename("made/.families/B", "made/.families/A")
beside(make, lambda: os.rename("made/.families/A", "made/.families/B"), look)
same((stale, listed), ([], []), "the old name is nowhere in a row that it was made in at that moment")
for i in range(N):
    errno_of(os.rmdir, "made/r%d/A" % i)
def remove(i, waited):
    if not waited and os.path.exists("made/r%d/A" % i):
        stale.append(i)
    if errno_of(os.rmdir, "made/r%d" % i) != "0":
        stuck.append(i)
    os.mkdir("made/.families/A")
beside(make, lambda: os.rmdir("made/.families/A"), remove)
same((stale, stuck), ([], []), "  and of a dropped family nothing is left that keeps a row from being removed")
err("0", "  nor the table", os.rmdir, "made")
EOF2

# ---- it is durable ----
ok "one more" mv t/.families/A t/.families/last
cd / || exit 1
kill_daemon
ok "mount" mount_store
cd "$M" || exit 1
is "$(ls t/.families):$(cat t/row3/last/q)" "last:t/row3" "the name is the new one after kill -9"
cd / || exit 1
unmount_store
ok "mount again" mount_store
is "$(cat "$M/t/row3/last/q")" "t/row3" "  and after a remount"
done_testing
