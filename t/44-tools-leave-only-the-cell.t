#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everyday tools (editors, tar, rsync, git and others) leave the cell that they
# write and no other file.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2120,SC2012,SC2010,SC2018,SC2086,SC2094
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
export HOME=$W

# A new table and family for each tool: $F is the family's directory.
fresh() {
	T1=$M/$1
	F=$T1/r/f
	mkdir -p "$F"
}
# Lists all cells below the table with their numbers of versions, dot names included.
shape() {
	(cd "${1:-$T1}" && find . -mindepth 1 ! -type d -printf '%P\n' | sed 's/@-\?[0-9]*$/@/' | LC_ALL=C sort | uniq -c | awk '{ printf "%s%s*%d", s, $2, $1; s = " " }')
}

# A plain tree to copy in.
S=$W/src
mkdir -p "$S/r/f" "$S/r2/f"
echo alpha >"$S/r/f/a"
head -c 300000 /dev/urandom >"$S/r/f/b"
: >"$S/r/f/empty"
echo gamma >"$S/r2/f/c"
find "$S" -type f -exec touch -d '2011-11-11 11:11:11.123456' {} +

# ---- rsync ----
for opts in "" --inplace --partial --checksum --delay-updates "--partial-dir=.part" "--temp-dir=.tmp"; do
	name=rsync$(tr -dc a-z <<<"$opts")
	fresh "$name"
	[ "$opts" != --temp-dir=.tmp ] || { opts=--temp-dir=$F/.tmp; mkdir "$F/.tmp"; }
	ok "rsync -a $opts" t rsync -a $opts "$S/" "$T1/"
	soon shape "r/f/a@*1 r/f/b@*1 r/f/empty@*1 r2/f/c@*1" "  leaves the cells"
	is "$(cat "$F/a")$(cmp "$F/b" "$S/r/f/b")" "alpha" "  with their bytes"
	is "$(stat -c %.6Y "$F/a" "$F/empty" "$T1/r2/f/c" | sort -u)" "1321009871.123456" "  and times"
	is "$(t rsync -ai $opts "$S/" "$T1/" | files)" "" "  a second one itemises nothing"
	(cd "$S/r/f" && echo "alpha two" >a && touch -d '2011-11-11 12:00:00.5' a)
	is "$(t rsync -ai $opts "$S/" "$T1/" | files | sed 's/^.* //')" "r/f/a" "  a change is one file"
	is "$(shape):$(cat "$F/a")" "r/f/a@*2 r/f/b@*1 r/f/empty@*1 r2/f/c@*1:alpha two" "  and one version more"
	[ ! -d "$F/.tmp" ] || rmdir "$F/.tmp"
	(cd "$S/r/f" && echo "alpha" >a && touch -d '2011-11-11 11:11:11.123456' a)
done
fresh partial
head -c 2000000 /dev/urandom >"$W/big"
timeout -s INT 1 rsync -a --partial --bwlimit=500 "$W/big" "$F/big"
# its other processes end after the one that was interrupted
soon 'shape | grep -Evc "^(r/f/big@\*1)?$"' 0 "rsync --partial, interrupted, leaves a cell at most"
ok "  and again" t rsync -a --partial "$W/big" "$F/big"
same "$W/big" "$F/big" "  it is whole"
unlike "$(cells "$T1")" '/\.' "  without scratch"

fresh todelete
for i in 1 2 3 4; do echo "v$i" >"$F/q"; echo "$i" >"$F/k$i"; done
ok "rsync -a --delete of a tree of versions" t rsync -a --delete "$T1/" "$W/bak/"
rm "$W/bak/r/f/k2"@* "$(find "$W/bak/r/f" -name 'q@*' | sort | tail -n 1)"
ok "  and back, less two" t rsync -a --delete "$W/bak/" "$T1/"
is "$(shape):$(cat "$F/q")" "r/f/k1@*1 r/f/k3@*1 r/f/k4@*1 r/f/q@*3:v3" "  removes just those"
rm -r "$W/bak/r"
ok "  and back, without the row" t rsync -a --delete "$W/bak/" "$T1/"
is "$(cells "$T1")" "$(cells "$W/bak")" "  removes the row"

# ---- cp, tar, mv ----
fresh cpa
ok "cp -a of a tree" t cp -a "$S/." "$T1/"
soon shape "r/f/a@*1 r/f/b@*1 r/f/empty@*1 r2/f/c@*1" "  leaves the cells"
is "$(stat -c %.6Y "$F/a")" "$(stat -c %.6Y "$S/r/f/a")" "  and the times"
ok "cp -p of a file" t cp -p "$S/r/f/b" "$F/cp"
is "$(ls "$F" | grep '^cp@')" "cp@$(ts "$S/r/f/b")" "  at its time"
ok "cp onto a cell" t cp "$S/r/f/a" "$F/cp"
is "$(find "$F" -name 'cp@*' | wc -l):$(cat "$F/cp")" "2:alpha" "  makes a version"
ok "cp -r" t cp -r "$S/r2" "$T1/r3"
is "$(cat "$T1/r3/f/c")" "gamma" "  makes a row"
ok "cp -a out" t cp -a "$T1" "$W/cpout"
is "$(tree "$W/cpout" | grep -av ' d ')" "$(tree "$T1" | grep -av ' d ')" "  all of it"
fresh tar
ok "tar c | tar x" t bash -c "set -o pipefail; tar -C '$S' -cf - . | tar -C '$T1' -xf -"
soon shape "r/f/a@*1 r/f/b@*1 r/f/empty@*1 r2/f/c@*1" "  leaves the cells"
is "$(ts "$F/a")" "$(ts "$S/r/f/a" | cut -c1-10)000000" "  with the times of the archive"
ok "tar --sparse -S c of the table" t tar -C "$T1" -Scf "$W/x.tar" .
is "$(t tar -tf "$W/x.tar" | grep -c '@')" 4 "  has the versions"
fresh mv
echo m1 >"$F/m"
echo m2 >"$F/m"
ok "mv within a row" t mv "$F/m" "$F/n"
is "$(shape)" "r/f/n@*2" "  moves all versions"
mkdir -p "$T1/r2/f"
ok "mv to another row" t mv "$F/n" "$T1/r2/f/n"
is "$(shape):$(cat "$T1/r2/f/n")" "r2/f/n@*1:m2" "  copies the newest and removes the source"
cp "$S/r/f/a" "$W/outside"
ok "mv from outside" t mv "$W/outside" "$F/in"
ok "mv to outside" t mv "$F/in" "$W/outside"
is "$(cat "$W/outside")" alpha "  and its bytes"
echo k >"$F/k"
echo l >"$F/l"
t mv -n "$F/k" "$F/l" 2>/dev/null
is "$(cat "$F/k" "$F/l" | tr '\n' ,)" k,l, "mv -n does not replace"
ok "mv of a table" t mv "$T1" "$M/mv2"
is "$(cat "$M/mv2/r2/f/n" "$M/mv2/r/f/k"):$(test -e "$T1" || echo gone)" "m2
k:gone" "  all is there"

# ---- editors ----
fresh sed
printf 'one\ntwo\n' >"$F/q"
ok "sed -i" t sed -i s/two/three/ "$F/q"
is "$(shape):$(tr '\n' , <"$F/q")" "r/f/q@*2:one,three," "  is one version more"
ok "sed -i.bak" t sed -i.bak s/one/1/ "$F/q"
is "$(shape):$(head -n 1 "$F/q")" "r/f/q.bak@*2 r/f/q@*1:1" "  keeps the history in the backup"
ok "perl -pi" t perl -pi -e 's/1/uno/' "$F/q"
is "$(head -n 1 "$F/q"):$(cells "$T1" | grep -c '/\.')" "uno:0" "  works and leaves nothing"
cat >"$W/screen.py" <<'PY'
import pty, select, time
from tap import *
def drive(argv, *steps):
    """Runs an editor on a terminal: of each step, what it must show, and what is typed then (or a function to call first)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execvp(argv[0], argv)
    end, seen, steps, deadline = os.pidfd_open(pid), b"", list(steps), time.monotonic() + 30
    while True:
        ready = select.select([fd, end], [], [], max(0, deadline - time.monotonic()))[0]
        if not ready:
            os.kill(pid, 9)
        if fd in ready:
            try:
                seen += os.read(fd, 65536)
            except OSError:
                pass # the terminal is closed
        if end in ready or not ready:
            os.close(fd)
            return os.waitpid(pid, 0)[1]
        if steps and steps[0][0] in seen:
            for do in steps.pop(0)[1:]:
                if callable(do):
                    do()
                else:
                    os.write(fd, do)
            seen = b""
PY
export PYTHONPATH="$PYTHONPATH:$W" F
fresh vim
vim=$(command -v vim || command -v vim.tiny || command -v vi || :)
if [ -n "$vim" ]; then
	printf 'hello\nworld\n' >"$F/q"
	ok "vim" t "$vim" -es -c '%s/world/vim/' -c 'wq' "$F/q" </dev/null
	is "$(shape):$(tr '\n' , <"$F/q")" "r/f/q@*2:hello,vim," "  is one version more and nothing else"
	ok "vim of a new file" t "$vim" -es -c 'normal ihello' -c 'wq' "$F/new" </dev/null
	is "$(shape):$(cat "$F/new")" "r/f/new@*1 r/f/q@*2:hello" "  makes a cell"
	rm "$F/new"
	for how in yes no auto; do
		echo "$how" >"$F/q"
		ok "vim, backupcopy=$how, with a swap file" t "$vim" -N -es -c "set backupcopy=$how swapfile updatecount=1" -c "%s/$how/done/" -c 'wq' "$F/q" </dev/null
		# If vim was built with backups, "no" renames the old file, and its versions move with it.
		like "$(shape):$(cat "$F/q")" '^r/f/q@\*[0-9]+:done$' "  leaves the cell and nothing else"
	done
	rm "$F/q"
	echo text >"$F/q"
	VIM_IS=$vim py <<'EOF2'
from screen import *
os.chdir(os.environ["F"])
def look():
    same(sorted(n for n in os.listdir(".") if n.startswith(".")), [".q.swp"], "vim on a terminal has its swap file")
same(drive([os.environ["VIM_IS"], "-N", "-u", "NONE", "q"], (b"text", look, b"ofrom vim\x1b:w\r"), (b"written", b"oand more\x1b:wq\r")), 0, "vim, written twice")
same(slurp("q"), b"text\nfrom vim\nand more\n", "  writes the cell")
EOF2
	is "$(shape)" "r/f/q@*3" "  is a version for each and nothing else"
	gc=$T1/.families/f/gc
	echo maxversions=5 >"$gc"
	is "$(stat -c %y "$gc" "$T1/.ctl" "$T1/.groups/default/level" | sort -u)" "$(stat -c %y "$T1/.schema")" "a control file has the time of the schema"
	# Where the time has changed since it read the file, vim asks, and without an answer it writes nothing.
	ok "vim of a control file" t "$vim" -es -c '%s/5/7/' -c 'sleep 10m' -c 'wq' "$gc" </dev/null
	is "$(cat "$gc")" "maxversions=7" "  sets it"
	is "$(stat -c %y "$gc")" "$(stat -c %y "$T1/.schema")" "  and the schema's time"
	ok "vim of .tabletfs/config" t "$vim" -es -c 'sleep 10m' -c 'wq' "$M/.tabletfs/config" </dev/null
else
	skip "vim" "there is no vim"
fi
if has nano; then
	fresh nano
	echo text >"$F/q"
	py <<'EOF2'
from screen import *
same(drive(["nano", "-I", os.environ["F"] + "/q"], (b"Exit", b"more \x0f"), (b"Write", b"\r"), (b"Wrote", b"\x18")), 0, "nano")
same(slurp(os.environ["F"] + "/q"), b"more text\n", "  writes the cell")
EOF2
	is "$(shape)" "r/f/q@*2" "  is one version more and nothing else"
else
	skip "nano" "there is no nano"
fi

# ---- dd, truncate, touch: see 43-one-open-one-version.t ----
fresh dd
ok "dd" t dd if="$S/r/f/b" of="$F/d" bs=64k status=none
ok "dd conv=notrunc" t dd if="$S/r/f/b" of="$F/d" bs=1000 skip=5 seek=5 count=1 conv=notrunc status=none
same "$F/d" "$S/r/f/b" "  the bytes are the same"
ok "dd conv=fsync oflag=append" t dd if="$S/r/f/a" of="$F/d" oflag=append conv=notrunc,fsync status=none
is "$(stat -c %s "$F/d"):$(shape)" "300006:r/f/d@*3" "  three versions"
ok "truncate" t truncate -s 10 "$F/d"
ok "install" t install -m 644 "$S/r/f/a" "$F/i"
ok "tee" t bash -c "echo tee | tee '$F/t1' '$F/t2' >/dev/null"
is "$(shape)" "r/f/d@*4 r/f/i@*1 r/f/t1@*1 r/f/t2@*1" "  nothing else is left"
ok "split" t split -b 100000 "$S/r/f/b" "$F/part."
is "$(cat "$F"/part.*@* | cmp - "$S/r/f/b" && echo same)" same "  the parts are the whole"
ok "sort -o" t sort -r -o "$F/t1" "$F/t1" "$F/i"
is "$(tr '\n' , <"$F/t1")" "tee,alpha," "  onto its own input"
ok "flock" t flock "$F/t1" true
ok "patch, where there is one" bash -c "command -v patch >/dev/null || exit 0; cd '$F' && printf -- '--- t2\n+++ t2\n@@ -1 +1 @@\n-tee\n+patched\n' | timeout 20 patch -s t2 && grep -q patched t2"

# ---- sqlite3, git ----
if has sqlite3; then
	fresh sqlite
	ok "sqlite3: create" t sqlite3 "$F/db" "create table k(a integer primary key, b text); begin; insert into k(b) values('x'); insert into k(b) values('y'); commit;"
	ok "sqlite3: many inserts" t sqlite3 "$F/db" "with recursive n(i) as (select 1 union all select i+1 from n where i<2000) insert into k(b) select 'row '||i from n;"
	is "$(t sqlite3 "$F/db" "select count(*) from k; pragma integrity_check;" | tr '\n' ,)" "2002,ok," "  it is whole"
	ok "sqlite3: delete and vacuum" t sqlite3 "$F/db" "delete from k where a>10; vacuum;"
	is "$(t sqlite3 "$F/db" "select count(*) from k; pragma integrity_check;" | tr '\n' ,)" "10,ok," "  it is whole"
	like "$(shape)" '^r/f/db@\*[0-9]+$' "  no journal is left"
	cp "$F/db" "$W/db"
	is "$(t sqlite3 "$W/db" "pragma integrity_check")" ok "  nor needed"
fi
fresh git
echo blob >"$F/q"
is "$(cd "$W" && t git hash-object "$F/q")" "$(echo blob | git hash-object --stdin)" "git hash-object"
git init -q "$W/flat" 2>/dev/null
(cd "$W/flat" && echo 1 >one && echo 2 >two && git add . && git -c user.name=n -c user.email=e commit -qm first)
ok "git clone into a family's directory" t git clone -q "$W/flat" "$T1/.latest/r/g"
is "$(cd "$T1/.latest/r/g" && t git status --short 2>&1; git log --format=%s; cat one two | tr '\n' ,)" "first
1,2," "  it is whole, and unchanged"
ok "git init --separate-git-dir" t git init -q --separate-git-dir="$W/gitdir" "$T1/.latest/r/h"
is "$(cd "$T1/.latest/r/h" && echo 3 >three && t git add three && git -c user.name=n -c user.email=e commit -qm second && rm .git && git --git-dir="$W/gitdir" --work-tree=. status --short && git --git-dir="$W/gitdir" log --format=%s)" "second" "  what is committed is outside the table"
is "$(md5sum <"$F/q")" "$(echo blob | md5sum)" "md5sum"

# ---- find -delete, rm ----
fresh remove
t cp -a "$S/." "$T1/"
mkdir "$T1/r/made"
ok "find -delete" t find "$T1/r" -delete
is "$(shape)" "r2/f/c@*1" "  removes the row"
ok "rm -r of a row" t rm -r "$T1/r2"
is "$(ls -A "$T1")" "" "  nothing is left"
t cp -a "$S/." "$T1/"
ok "rm -r of the table" t rm -r "$T1"
fails "  it is gone" 'No such file' stat "$T1"
fresh remove
is "$(ls -A "$F")" "" "  and a new one is empty"
fresh globs
for i in 1 2 3; do echo "$i" >"$F/g$i"; echo "$i" >"$F/g$i"; done
ok "rm *" t bash -c "cd '$F' && rm *"
is "$(shape)" "" "  removes every version"
is "$(t du -s --apparent-size -B1 "$M/cpa/r2/f" | cut -f1)" 6 "du --apparent-size"
is "$(grep -c . < <(grep -rl alpha "$M/cpa"))" 2 "grep -r"
before=$(for d in "$M"/*; do tree "$d"; done)
remount
is "$(for d in "$M"/*; do tree "$d"; done | grep -av ' d ')" "$(grep -av ' d ' <<<"$before")" "all is the same after a remount"
unlike "$(cat "$W/daemon.err")" 'scratch' "and no scratch was dropped"
done_testing
