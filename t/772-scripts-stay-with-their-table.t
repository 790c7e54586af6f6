#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The scripts of a table are files in TABLE/.scripts.  They are stored whole, and stay with their table, its snapshots and
# its clones.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2015,SC2016
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
cd "$M" || exit 1
mkdir -p t/.families/f t/r/f
echo x >t/r/f/q
S=t/.scripts
text='local n = output.count() function row(r) n:add() end'

# ---- files ----
is "$(ls -A t):$(ls -A $S)" ".schema
r:" "a table without scripts has an empty .scripts, which is not listed"
schema=$(cat t/.schema; stat -c %.6Y t/.schema)
echo "$text" >$S/count.lua
is "$(cat $S/count.lua):$(ls -A $S):$(ls -A t | tr '\n' ' ')" "$text:count.lua:.schema .scripts r " "a script is written and listed"
is "$(stat -c '%s %a %F' $S/count.lua)" "$((${#text} + 1)) 644 regular file" "  with its size"
is "$(cat t/.schema; stat -c %.6Y t/.schema)" "$schema" "  .schema does not show it"
py <<'EOF2'
from tap import *
os.chdir(M + "/t/.scripts")
data = b"--[=[" + bytes(range(256)) * 3 + b"]=]"
spill("bytes.lua", data)
same(slurp("bytes.lua"), data, "any bytes are stored")
fd = os.open("bytes.lua", os.O_WRONLY | os.O_TRUNC)
os.write(fd, b"--n")
same(slurp("bytes.lua"), data, "until close a reader sees the old text")
os.write(fd, b"ew")
os.close(fd)
same((slurp("bytes.lua"), os.stat("bytes.lua").st_size), (b"--new", 5), "  then the new one")
os.utime("bytes.lua", ns=(0, 1234567890123456000))
same(os.stat("bytes.lua").st_mtime_ns, 1234567890123456000, "its time can be set")
fd = os.open("bytes.lua", os.O_WRONLY | os.O_APPEND)
os.write(fd, b"er")
os.close(fd)
same(slurp("bytes.lua"), b"--newer", "append")
ok(os.stat("bytes.lua").st_mtime_ns > 1234567890123456000, "  sets the time")
spill("empty.lua", b"")
same((slurp("empty.lua"), os.stat("empty.lua").st_size), (b"", 0), "an empty script")
os.unlink("empty.lua")
same((errno_of(os.stat, "empty.lua"), errno_of(os.unlink, "empty.lua")), ("ENOENT", "ENOENT"), "  is removed")
fd = os.open("never.lua", os.O_WRONLY | os.O_CREAT)
os.unlink("never.lua")
os.write(fd, b"text")
os.close(fd)
same(sorted(os.listdir(".")), ["bytes.lua", "count.lua"], "a script that is removed before its close is not stored")
stale = 0
for i in range(40):
    spill("n%d.lua" % i, b"--x")
    stale += "n%d.lua" % i not in os.listdir(".")
    os.unlink("n%d.lua" % i)
    stale += "n%d.lua" % i in os.listdir(".")
same(stale, 0, "a listing is right as soon as close or unlink has returned, 80 times of 80")

# ---- names and sizes ----
new = os.O_WRONLY | os.O_CREAT
same([(n, got) for n in ("a.txt", "a", "a.lu", "a.lua.txt", "a b.lua", "a.b.lua", ".a.lua", ".lua", "\u00e4.lua", "x" * 65 + ".lua", "*.lua", "a.LUA")
      for got in [errno_of(os.open, n, new)] if got != "EINVAL"], [], "names that no script can have are EINVAL")
ok("NAME matches [A-Za-z0-9_-]{1,64}" in slurp(M + "/.tabletfs/log").decode(), "  and the log has the names that it may have")
same((errno_of(os.mkdir, "a.lua"), errno_of(os.symlink, "x", "a.lua"), errno_of(os.open, ".schema", new)), ("EPERM", "EPERM", "EOPNOTSUPP"),
     "no directory, symlink or other control name is made")
longest = "x" * 64 + ".lua"
spill(longest, b"--1")
same((errno_of(spill, "large.lua", b"-" * 65537), os.path.exists("large.lua")), ("EFBIG", False), "65,537 bytes are EFBIG")
for n in (longest, "l1.lua", "l2.lua"):
    spill(n, b"-" * 65536)
spill("l3.lua", b"-" * 65000)
same((errno_of(spill, "l4.lua", b"-" * 600), os.path.exists("l4.lua")), ("EINVAL", False), "the scripts of a table have at most 256 KiB")
ok("256 KiB" in slurp(M + "/.tabletfs/log").decode().splitlines()[-1], "  and the log says so")
for n in (longest, "l1.lua", "l2.lua", "l3.lua"):
    os.unlink(n)
for i in range(62):
    spill("m%d.lua" % i, b"--x")
same(errno_of(spill, "many.lua", b"--x"), "EINVAL", "a table has at most 64 scripts")
for i in range(62):
    os.unlink("m%d.lua" % i)
same(sorted(os.listdir(".")), ["bytes.lua", "count.lua"], "all are removed")

# ---- what programs make beside them ----
wrong = []
for n in (".count.lua.AbCdEf", ".count.lua.swp", "count.lua~", "#count.lua#", "sedAbCdEf", ".~tmp~", ".nfs01"):
    got = (errno_of(spill, n, b"x", os.O_WRONLY | os.O_CREAT | os.O_EXCL), errno_of(os.rename, n, n + "~"), errno_of(os.unlink, n + "~"))
    wrong += [(n, got)] if set(got) != {"0"} else []
same(wrong, [], "names that programs make beside a script are scratch")
spill(".new", b"--first")
same((errno_of(os.rename, ".new", "bytes.lua"), slurp("bytes.lua"), os.path.exists(".new")), ("0", b"--first", False), "a rename replaces a script")
spill("../.new", b"--second")
same((errno_of(os.rename, "../.new", "bytes.lua"), slurp("bytes.lua")), ("0", b"--second"), "  also from the table's directory")
spill(".new", b"n" * 65537)
same((errno_of(os.rename, ".new", "bytes.lua"), slurp("bytes.lua")), ("EPERM", b"--second"), "one that is too large is refused")
os.unlink(".new")
EOF2
is "$(mv $S/bytes.lua $S/moved.lua && cat $S/moved.lua; ls $S | tr '\n' ' ')" "--secondcount.lua moved.lua " "mv of a script"
ok "sed -i" sed -i s/second/third/ $S/moved.lua
is "$(cat $S/moved.lua):$(ls -A $S | tr '\n' ' ')" "--third:count.lua moved.lua " "  edits it"
if has vim; then
	ok "vim writes a script, with a backup and a swap file beside it" t vim -u NONE -N -es -c 'set backup swapfile directory=. backupdir=.' \
		-c "e $S/moved.lua" -c 's/third/fourth/' -c 'wq'
	is "$(cat $S/moved.lua)" "--fourth" "  and it is stored"
	rm -f $S/moved.lua~
fi
if has rsync; then
	mkdir "$W/out" "$W/in" && echo 'return 1' >"$W/in/one.lua" && echo 'return 2' >"$W/in/two.lua" && touch -d 2020-01-02 "$W/in/two.lua"
	for how in "" --inplace --delay-updates; do
		ok "rsync -a --delete $how into .scripts" t rsync -a --delete $how "$W/in/" $S/
		is "$(cat $S/*.lua | tr '\n' ' '):$(ls -A $S | tr '\n' ' ')$(stat -c %Y $S/two.lua)" "return 1 return 2 :one.lua two.lua $(stat -c %Y "$W/in/two.lua")" "  stores texts and times"
		is "$(rsync -ain --delete "$W/in/" $S/ | grep -v '/$')" "" "  and a second one finds nothing to do"
		rm -f $S/*.lua
	done
	t rsync -a "$W/in/" $S/
	ok "rsync -a of the table" t rsync -a t/ "$W/out/"
	ok "  and back into another" t rsync -a "$W/out/" back/
	is "$(cat back/.scripts/two.lua; cat back/r/f/q)" "return 2
x" "  restores scripts and cells"
	ok "tar of the table, into another" bash -c 'mkdir copy && tar -C t -c . | tar -C copy -x'
	is "$(cat copy/.scripts/two.lua)" "return 2" "  has the scripts"
	ok "rm -r removes a table with scripts" rm -r copy back
	ok "  and its directory can be made again" mkdir copy
	is "$(ls -A copy/.scripts)" "" "  without scripts"
	rmdir copy
else
	echo 'return 1' >$S/one.lua && echo 'return 2' >$S/two.lua
fi
echo 'return 3' >$S/moved.lua && rm $S/moved.lua
fails "rmdir .scripts while it has scripts" 'not empty' rmdir $S
mkdir empty && rmdir empty/.scripts
ok "an empty one is there after rmdir" test -d empty/.scripts
ok "  and takes a script" bash -c 'echo -- >empty/.scripts/a.lua && rm -r empty'

# ---- the table's life ----
cat t/.schema >"$W/schema" && cat "$W/schema" >t/.schema
is "$(ls $S | tr '\n' ' ')" "one.lua two.lua " "a new .schema keeps the scripts"
mv t renamed
is "$(cat renamed/.scripts/two.lua)" "return 2" "so does a rename of the table"
mv renamed t
if [ -z "$MODEL" ]; then
	mkdir t/.snap/s && echo 'return 4' >$S/two.lua && rm $S/one.lua
	N=t/.snap/s
	is "$(cat $N/.scripts/*.lua | tr '\n' ' '):$(cat $S/*.lua)" "return 1 return 2 :return 4" "a snapshot has the scripts of its instant"
	fails "  which nobody changes" 'Read-only' bash -c "echo x >$N/.scripts/two.lua"
	fails "  adds to" 'Read-only' bash -c "echo x >$N/.scripts/three.lua"
	fails "  or removes" 'Read-only' rm $N/.scripts/two.lua
	echo 'clone clone' >$N/.ctl
	is "$(cat clone/.scripts/*.lua | tr '\n' ' ')" "return 1 return 2 " "a clone of it has them, too"
	echo 'return 5' >clone/.scripts/two.lua
	is "$(cat $S/two.lua $N/.scripts/two.lua | tr '\n' ' ')" "return 4 return 2 " "  and changes its own"
	cd "$W" && remount && cd "$M" || exit 1
	is "$(cat $S/two.lua $N/.scripts/two.lua clone/.scripts/two.lua | tr '\n' ' ')" "return 4 return 2 return 5 " "a remount keeps all"
	cd "$W" && remount -o ro && cd "$M" || exit 1
	is "$(cat $S/two.lua; stat -c %s $S/two.lua)" "return 4
9" "a read-only mount shows them"
	fails "  and refuses a write" 'Read-only' bash -c "echo x >$S/two.lua"
	cd "$W" && OVER=${OVER:-unix} && remount && cd "$M" || exit 1
	keys=()
	[ "$OVER" != cluster ] || keys=(-o "keys=$C/keys")
	ok "a second mount of the served store" mount_second "${keys[@]}"
	echo 'return 6' >$S/two.lua
	soon "cat '$M2/$S/two.lua'; ls -A '$M2/$S'" "return 6
two.lua" "  shows a script that the first has written"
	echo 'return 7' >"$M2/$S/three.lua"
	soon "cat $S/three.lua; ls -A $S | tr '\n' ' '" "return 7
three.lua two.lua " "  and the other way"
	fusermount3 -u "$M2" && wait "$second"
fi
cd "$W" || exit 1
done_testing
