#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node in the kernel follows its file when names are created, removed and
# renamed.  Each case here was a bug once.
# shellcheck source=t/lib/mount.sh disable=SC2010,SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store

# ---- files renamed in a circle while both are open ----
py <<'EOF2'
from tap import *
F = M + "/circle/r/f"
os.makedirs(F)
os.chdir(F)
spill("a", b"one")
a = os.open("a", os.O_RDWR)
os.rename("a", "b")
b = os.open("b", os.O_RDWR)
os.rename("b", "a")
same(os.fstat(b).st_size, 3, "a file renamed there and back is found by its descriptor")
os.unlink("a")
st = os.fstat(a)
same(st.st_nlink, 0, "removed, its first descriptor has a file without a name")
same(os.fstat(b).st_nlink, 0, "  the second too")
os.close(a)
os.close(b)
ok(os.path.isdir(M), "  and the daemon lives")
EOF2

# ---- a listing continues after version 0 of the empty qualifier ----
py <<'EOF2'
from tap import *
libc.opendir.restype = ctypes.c_void_p
libc.readdir.restype = ctypes.c_void_p
libc.telldir.restype = ctypes.c_long
for f in (libc.readdir, libc.telldir, libc.closedir):
    f.argtypes = [ctypes.c_void_p]
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
F = M + "/zero/r/f"
os.makedirs(F)
for n in ("@2", "@1", "@0", "@-1", "a@0", "b@0"):
    spill(F + "/" + n, b"x")
d = libc.opendir(os.fsencode(F))
def name():
    e = libc.readdir(d)
    return ctypes.string_at(e + 19).decode() if e else None
got = []
while True:
    n = name()
    if n is None:
        break
    got.append(n)
    if n == "@0":
        at = libc.telldir(d)
same([n for n in got if n[0] != "."], ["@2", "@1", "@0", "@-1", "a@0", "b@0"], "versions of the empty qualifier are listed in order")
libc.seekdir(d, at)
again = []
while (n := name()) is not None and len(again) < 20:
    again.append(n)
libc.closedir(d)
same(again, ["@-1", "a@0", "b@0"], "a listing resumed behind @0 goes on behind it")
EOF2

# ---- split names are no deeper than keys are long ----
py <<'EOF2'
from tap import *
T = M + "/deep"
os.makedirs(T + "/r/f")
part = "p" * 254 + "%"
def depth(top, most):
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    n, e = 0, "0"
    while n < most and e == "0":
        e = errno_of(os.mkdir, part, dir_fd=fd)
        if e == "0":
            nfd = os.open(part, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = nfd
            n += 1
    os.close(fd)
    return n, e
same(depth(T, 300), (65536 // 254, "ENAMETOOLONG"), "parts of a row's name end where row keys do")
same(depth(T + "/r/f", 100), ((16384 + 20) // 254, "ENAMETOOLONG"), "parts of a cell's name end where qualifiers do")
EOF2

# ---- rows that a verb drops are removed from the kernel's cache ----
mkdir -p "$M/drop/r1/f" "$M/drop/r2/f"
echo x >"$M/drop/r1/f/q"
echo x >"$M/drop/r2/f/q"
long=$(printf 'r1%0300d' 7)
mkdir -p "$M/drop/${long:0:254}%/${long:254}/f"
echo x >"$M/drop/${long:0:254}%/${long:254}/f/q"
ls "$M/drop/r1/f" "$M/drop/.latest/r1/f" >/dev/null
# The answer waits half a second for the kernel (fs/base/notify.h).
still() { if stat -c 'still there' "$1" 2>/dev/null; then :; fi; }
echo 'drop-rows r1' >"$M/drop/.ctl"
is "$(ls "$M/drop" | grep -v %)" r2 "drop-rows: the rows are not listed"
soon 'still "$M/drop/r1"' "" "  stat knows them no more"
soon 'still "$M/drop/.latest/r1"' "" "  in the other view"
soon 'still "$M/drop/${long:0:254}%/${long:254}"' "" "  nor under a long name"
ok "  and one can be made again" mkdir "$M/drop/r1"

py <<'EOF2'
from tap import *
os.chdir(M + "/drop")
F = ".latest/gone/f"
left = []
for verb in ["truncate\n", "drop-rows gone\n"] * 10:
    os.makedirs(F)
    spill(F + "/q", b"x")
    os.listdir(F)
    begun = time.monotonic()
    spill(".ctl", verb.encode())
    if time.monotonic() - begun < 0.4 and (os.path.exists("gone") or os.path.exists(".latest/gone")):
        left.append(verb)
    if not wait_until(lambda: os.path.exists(".latest/gone"), False):
        left.append("never " + verb)
same(left, [], "no name is left when truncate and drop-rows answer")
EOF2

# ---- a directory in which a file has been created is not empty ----
mkdir -p "$M/pend/r/f"
exec 3>"$M/pend/r/f/q"
fails "rmdir of a family with a file just created" 'not empty' rmdir "$M/pend/r/f"
echo kept >&3
exec 3>&-
is "$(cat "$M/pend/r/f/q")" kept "  which is there when it is closed"
exec 3<>"$M/pend/r/f/q"
echo more >&3
rm "$M/pend/r/f/q"
ok "  one removed while open keeps no directory" rmdir "$M/pend/r/f"
exec 3>&-
mkdir "$M/pend/r/f"
exec 3>"$M/pend/r/f/.s"
rm "$M/pend/r/f/.s"
ok "  nor does a scratch file" rmdir "$M/pend/r/f"
exec 3>&-

# ---- an empty directory stays, in both views, also when the kernel has forgotten it ----
mkdir -p "$M/empty/r/f" "$M/empty/.latest/l/f"
V=$M/empty/.latest
both() { for v in "$M/empty" "$V"; do (cd "$v" && find . -mindepth 1 | LC_ALL=C sort | tr '\n' ' '); done; }
dirs="./l ./l/f ./r ./r/f "
is "$(both)" "$dirs$dirs" "what mkdir makes is in both views"
forget() { echo 3 >/proc/sys/vm/drop_caches 2>/dev/null || :; }
forget
is "$(both)" "$dirs$dirs" "  after the kernel has forgotten it, too"
echo x >"$M/empty/r/f/q" && rm "$M/empty/r/f/q" && echo x >"$V/l/f/q" && rm "$V/l/f/q"
is "$(both)" "$dirs$dirs" "so is what its last cell was removed from"
forget
is "$(both)" "$dirs$dirs" "  and the kernel has forgotten"
echo 1 >"$V/r/f/a" && mv "$V/r/f/a" "$V/l/f/" && rm "$V/l/f/a"
is "$(both)" "$dirs$dirs" "  or moved away from"
fails "mkdir of it in the other view" 'File exists' mkdir "$V/r/f"
echo x >"$M/empty/r/f/.s"
fails "scratch in the table keeps .latest's directory" 'not empty' rmdir "$V/r/f"
like "$(daemon_log)" 'r/f: .*scratch' "  the log says why"
rm "$M/empty/r/f/.s"
(
	cd "$M/empty/r/f" || exit
	echo 1 >"$V/r/f/q" && rm "$V/r/f/q" && forget && echo 2 >job && cat job && rm job
) >"$W/spool" 2>&1
is "$(cat "$W/spool")" 2 "who stands in an emptied directory goes on"
is "$(both)" "$dirs$dirs" "  which is there still"
rm -r "$V/r" "$M/empty/l"
is "$(both)" "" "each goes from both views"
mkdir -p "$V/r1/f" "$M/empty/r2/f" "$M/empty/s/f"
is "$(both)" "./r1 ./r1/f ./r2 ./r2/f ./s ./s/f ./r1 ./r1/f ./r2 ./r2/f ./s ./s/f " "others come"
if [ -z "$MODEL" ]; then
	echo 'drop-rows r' >"$M/empty/.ctl"
	is "$(both)" "./s ./s/f ./s ./s/f " "  and go as their rows are dropped"
	fails "  for those who know the name, too" 'No such file' stat "$V/r1"
	mkdir -p "$M/empty/k/f" "$M/empty/k/g" && echo x >"$M/empty/k/f/q" && echo 'drop-rows k' >"$M/empty/.ctl"
	is "$(mkdir "$M/empty/k" && ls "$M/empty/k")" "" "  an empty family goes with its row's cells"
	mkdir "$M/empty/k/g" "$M/empty/k/h" && echo 'maxage=1h' >"$M/empty/.families/h/gc" && rm "$M/empty/.schema" && echo x >"$M/empty/k/h/q@1"
	forget
	is "$(both)" "./k ./k/g ./s ./s/f ./k ./k/g ./s ./s/f " "an empty family keeps its row when the row's last cell has expired"
	mkdir "$M/empty/k/h" "$M/empty/k/i" && echo y >"$M/empty/k/h/q" && rmdir "$M/empty/k/g" && rm "$M/empty/k/h/q" && rmdir "$V/k/h" "$M/empty/k/i"
	is "$(both)" "./k ./s ./s/f ./k ./s ./s/f " "  and a row that it kept stays"
	ok "  until it is removed" rmdir "$V/k"
fi
mkdir -p "$M/empty/${long:0:254}%/${long:254}/f" && rmdir "$M/empty/${long:0:254}%/${long:254}/f"
is "$(find "$V" -name "${long:0:254}%" | wc -l) $(ls "$V/${long:0:254}%")" "1 ${long:254}" "a row with a long name is in both"
rm -r "$V/${long:0:254}%"
is "$(find "$M/empty" -name "${long:0:254}%" | wc -l)" 0 "  and goes from both"
if [ -z "$MODEL" ]; then
	part=${long:0:254}% rest=${long:254}
	mkdir -p "$M/empty/$part/$rest" "$M/empty/$part/${rest}2"
	exec 8<"$V/$part" 9<"$M/empty/$part/$rest"
	ls "$V/$part" >"$W/.out" # the kernel keeps this listing and, of the rows below, only one in the table's own view
	{ echo 2 >/proc/sys/vm/drop_caches; } 2>/dev/null
	printf 'delete row\ncommit\n' >"$M/empty/$part/$rest/.mutate"
	is "$(ls "$V/$part")" "${rest}2" "a deleted row that the kernel has forgotten in one view is not listed there"
	exec 8<&- 9<&-
	rm -r "${V:?}/$part"
fi
mkdir -p "$V/z/f"
if has gcc; then
	echo 'int main(void){return 0;}' >"$V/z/f/h.c"
	ok "gcc, with its temporary files, in .latest" env TMPDIR="$V/z/f" gcc -o "$V/z/f/h" "$V/z/f/h.c"
fi
if has zip; then ok "zip in .latest" bash -c "cd '$V/z/f' && echo 1 >x && zip -q x.zip x && rm x x.zip"; fi

# ---- opening a name that others create and remove creates nothing ----
py <<'EOF2'
from tap import *
import multiprocessing
F = M + "/race/r/f"
os.makedirs(F)
os.chdir(F)
def opener(name, flags, stop, seen):
    n = set()
    while not stop.is_set():
        try:
            fd = os.open(name, flags)
            os.write(fd, b"B")
            os.close(fd)
        except OSError as x:
            n.add(name_of(x.errno))
    seen.put(n)
def race(name, flags, fn):
    stop, seen = multiprocessing.Event(), multiprocessing.Queue()
    ps = [multiprocessing.Process(target=opener, args=(name, flags, stop, seen)) for _ in range(3)]
    for p in ps:
        p.start()
    end = time.time() + 0.8
    while time.time() < end:
        fn(name)
    stop.set()
    errors = set().union(*(seen.get() for _ in ps))
    for p in ps:
        p.join()
    return errors
for name in ("q", "v@5"):
    ghosts = []
    def come_and_go(name):
        spill(name, b"A")
        os.unlink(name)
        ghosts.extend(1 for _ in range(3) if errno_of(os.stat, name) == "0")
    same(race(name, os.O_WRONLY, come_and_go) - {"ENOENT"}, set(), "open of %s, which comes and goes, is ENOENT or succeeds" % name)
    same(len(ghosts), 0, "  and never makes it")
    def go(name):
        try:
            os.unlink(name)
        except FileNotFoundError:
            pass
    same(race(name, os.O_WRONLY | os.O_CREAT, go), set(), "  with O_CREAT it always succeeds")
    go(name)
EOF2

# ---- two processes append to an absent name ----
mkdir -p "$M/app/r/f"
short=0
for ((n = 0; n < 60; n++)); do
	pids=
	for p in 1 2 3 4 5 6 7 8; do
		(for i in 1 2 3 4 5 6 7 8; do echo "$p.$i" >>"$M/app/r/f/log$n"; done) &
		pids="$pids $!"
	done
	# shellcheck disable=SC2086
	wait $pids
	[ "$(sort -u "$M/app/r/f/log$n" | wc -l)" = 64 ] || short=$((short + 1))
done
is $short 0 "eight appenders to each of 60 absent names lose nothing"

# ---- a table that is renamed takes everything along ----
mkdir -p "$M/old/made/f" "$M/old/row/f" "$M/old/.latest/lmade"
echo 1 >"$M/old/row/f/q"
echo scratch >"$M/old/row/f/.s"
echo top >"$M/old/.t"
mkdir "$M/old/.d"
echo deep >"$M/old/.d/x"
ino=$(stat -c %i "$M/old/row/f/q")
cd "$M/old/row" || exit 1
mv "$M/old" "$M/new"
is "$(cd "$M/new" && find . -mindepth 1 -not -name 'q@*' | LC_ALL=C sort | tr '\n' ' ')" \
	"./.d ./.d/x ./.t ./lmade ./made ./made/f ./row ./row/f ./row/f/.s " "a renamed table keeps its made directories and scratch"
is "$(ls "$M/new/.latest" | tr '\n' ' ')" "lmade made row " "  those of .latest too"
is "$(cat "$M/new/row/f/.s" "$M/new/.t" "$M/new/.d/x" | tr '\n' ' ')" "scratch top deep " "  with their content"
is "$(stat -c %i "$M/new/row/f/q")" "$ino" "  inode numbers stay"
echo 2 >"$M/new/row/f/q"
is "$(cat f/q)" 2 "  who stands in it sees what is written through the new name"
cd / || exit 1
fails "  the old name is gone" 'No such file' ls "$M/old"
if [ -z "$MODEL" ]; then
	remount
	is "$(stat -c %i "$M/new/row/f/q")" "$ino" "  inode numbers are the same after a remount"
fi
mkdir -p "$M/onto/made"
fails "a table is not renamed onto one with directories in it" 'not empty' mv -T "$M/new" "$M/onto"
rmdir "$M/onto/made"
ok "  but onto an empty one" mv -T "$M/new" "$M/onto"
is "$(cat "$M/onto/row/f/q")" 2 "  whose name it has then"
is "$(stat -c %i "$M/onto/row/f/q")" "$ino" "  and it is still the same files"

# ---- removing a table or family removes its scratch files ----
mkdir -p "$M/gone/.latest/r" && rmdir "$M/gone/r"
echo x >"$M/gone/.latest/.s"
ok "rmdir of a table with scratch in .latest" rmdir "$M/gone"
like "$(daemon_log)" 'dropped\)/.latest/.s: scratch file dropped' "  which the log names"
mkdir "$M/gone"
fails "  a new table has none of it" 'No such file' stat "$M/gone/.latest/.s"
is "$(ls -A "$M/gone/.latest")" "" "  nor directories"
mkdir -p "$M/gone/r/f" "$M/gone/.families/g"
echo x >"$M/gone/r/f/.s"
rmdir "$M/gone/.families/f"
like "$(daemon_log)" '/gone/r/\(family #1, dropped\)/.s: scratch file dropped' "a family that is dropped: the log names its scratch"
ok "  and the row can go" rmdir "$M/gone/r"

# ---- a row with a split name is removed as a whole and made again, while others rename between directories ----
mkdir -p "$M/again/.families/f" "$M/again/.families/g"
py <<'EOF2'
from tap import *
from multiprocessing import Process, Value
os.chdir(M + "/again")
over, refused = Value("b", 0), Value("i", 0)

def again(who):
    part = "%d" % who + "x" * 253 + "%"
    row = part + "/" + "y" * 30
    for i in range(100):
        try:
            for path in (part, row, row + "/f"):
                if not os.path.isdir(path):
                    os.mkdir(path)
            spill(row + "/f/q", b"x")
            fd = os.open(row + "/.mutate", os.O_RDWR)
            os.write(fd, b"delete row\ncommit\n")
            os.close(fd)
        except OSError as e:
            if not refused.value:
                note(i, e)
            refused.value += 1

def rename(who):
    os.makedirs("%d/f" % who)
    os.makedirs("%d/g" % who)
    while not over.value:
        spill("%d/f/a" % who, b"")
        os.rename("%d/f/a" % who, "%d/g/a" % who)

makers = [Process(target=again, args=(i,)) for i in range(3)]
renamers = [Process(target=rename, args=(i,)) for i in range(3, 7)]
for p in makers + renamers:
    p.start()
for p in makers:
    p.join()
over.value = 1
for p in renamers:
    p.join()
same((refused.value, [p.exitcode for p in makers + renamers]), (0, [0] * 7), "300 removals and new rows with split names, during renames")
EOF2

# ---- the memory of forgotten nodes is returned to the system ----
anonymous() { awk '/^RssAnon/ { print $2 }' "/proc/$daemon/status"; }
if [ -z "$MODEL" ] && [ "$(id -u)" = 0 ] && [ -z "${SANITIZED:-}" ]; then
	mkdir -p "$M/many/r/f"
	py <<'EOF2'
from tap import *
for i in range(30000):
    spill("%s/many/r/f/%064d@1" % (M, i), b"x")
EOF2
	remount
	before=$(anonymous)
	find "$M/many" -size +1M
	top=$(anonymous)
	# The rest is cached.
	less() { forget; [ $((($(anonymous) - before) * 10)) -lt $(((top - before) * 9)) ]; }
	ok "the memory of nodes that the kernel has forgotten is returned" wait_for "forgetting" less
	echo "# $before KiB before, $top at its top, $(anonymous) after"
fi
done_testing
