#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A line that is appended to .schema changes its key, in each table: .schema can always be read, as rendered.
# Writers who append keep each other's lines, and copies and archives restore a schema as before.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2010,SC2012,SC2016
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
cd "$M" || exit 1

# ---- a schema that was never set ----
mkdir -p t/r/f t/.latest/r/g
like "$(cat t/.schema)" '^mkdir_families = true;' ".schema can be read before it is set"
like "$(cat t/.schema)" 'name = "f"' "  and has the families"
is "$(ls -A t):$(stat -c '%s %Y' t/.schema)" "r:$(wc -c <t/.schema) 0" "  it is not listed, has its size, and the time 0"
ok "cp -r of the table" cp -r t "$W/plain"
is "$(find "$W/plain" -type f)" "" "  does not copy it"
ok "a line is appended" bash -c "echo 'protect = true;' >>t/.schema"
fails "  and is the schema" 'not permitted' bash -c "echo truncate >t/.ctl"
is "$(ls t/.families | tr '\n' ' '):$(ls -A t | head -n 1)" "f g :.schema" "  the families stay, .schema is listed"
ok "  and mkdir still makes families" mkdir t/r/h
ok "a later line replaces an earlier one" bash -c "echo 'protect = false;' >>t/.schema"
is "$(grep protect t/.schema)" "protect = false;" "  and the text has the later one only"
ok "  which counts" bash -c "echo truncate >t/.ctl"
ok "touch of a schema that was not set" bash -c 'mkdir -p u/r/f && touch -d 2001-01-01 u/.schema'
is "$(ls u/.families):$(stat -c %y u/.schema | cut -b 1-10):$(ls -A u | head -n 1)" "f:2001-01-01:.schema" "  sets its time and keeps the families"

# ---- a schema that was written ----
mkdir -p w/r
printf '# ours\nprotect = false; tablet_size = "64M" # half\nsalt = 0\nfamilies = ( { name = "f"; gc = "maxversions=3"; } );\n' >w/.schema
mkdir w/r/f
echo x >w/r/f/q
echo 'protect = true;' >>w/.schema
is "$(cat w/.schema)" "$(printf '# ours\n tablet_size = "64M" # half\nsalt = 0\nfamilies = ( { name = "f"; gc = "maxversions=3"; } );\nprotect = true;')" \
	"the text that was written stays, without the earlier setting"
for ((i = 0; i < 70; i++)); do echo "salt = $((i % 2 * 3));" >>w/.schema; done
is "$(grep -c salt w/.schema):$(tail -n 1 w/.schema)" "1:salt = 3;" "70 lines of one key leave one"
printf 'tablet_size = "1G";' >>w/.schema
is "$(tail -n 1 w/.schema)" 'tablet_size = "1G";' "a line without a newline"
printf 'tablet_size = "2G";' >>w/.schema
is "$(grep -c tablet_size w/.schema):$(tail -n 1 w/.schema)" '1:tablet_size = "2G";' "  and another behind it"
before=$(cat w/.schema; ts w/.schema)
for bad in 'protect = maybe;' 'protekt = true;' '@include "/etc/passwd"' \
	'mode = 5; @include "/etc/passwd"'; do
	fails "an appended line is refused in the write: $bad" 'Invalid argument' bash -c 'printf "%s\n" "$1" >>w/.schema' - "$bad"
	is "$(cat w/.schema; ts w/.schema)" "$before" "  nothing is changed"
done
printf 'families = ( { name = "g"; } );\n' >>w/.schema
is "$(cat w/.schema; ts w/.schema)" "$before" "a list of families without one that has cells changes nothing"
printf 'families = ( { name = "f"; }, { name = "g"; } );\n' >>w/.schema
is "$(ls w/.families | tr '\n' ' '):$(cat w/.families/f/gc)" "f g :" "a list of families replaces the list"
fails "an unknown key is refused" 'Invalid argument' bash -c "echo 'a = 1;' >>w/.schema"
like "$(tail -n 1 .tabletfs/log)" 'line [0-9]+: a: no such setting' "  with its line"

# ---- writers ----
mkdir -p two/r/f
py <<'PY'
from tap import *
def schema(): return slurp("two/.schema").decode()
a, b = (os.open("two/.schema", os.O_WRONLY | os.O_APPEND) for _ in "ab")
os.write(a, b"protect = true;\n")
os.write(b, b'snapshot_maxage = "3d";\n')
os.mkdir("two/r/late")
os.close(a); os.close(b)
s = schema()
ok("protect = true;" in s and 'snapshot_maxage = "3d";' in s, "two who append keep each other's lines")
same(sorted(os.listdir("two/.families")), ["f", "late"], "  and a family that was made meanwhile stays")
a = os.open("two/.schema", os.O_WRONLY | os.O_APPEND)
os.write(a, b"protect"); os.write(a, b" = false;\n")
os.close(os.dup(a))
ok("protect = true" not in schema(), "a line in two writes")
os.write(a, b'snapshot_maxage = "4d";\n'); os.close(a)
s = schema()
same(s.count("snapshot_maxage"), 1, "a second flush of one descriptor appends once")
ok('snapshot_maxage = "4d";' in s and "protect = true" not in s, "  and both lines count")
a = os.open("two/.schema", os.O_RDWR)
os.lseek(a, 0, os.SEEK_END); os.write(a, b"protect = true;\n"); os.close(a)
ok(schema().endswith("protect = true;\n"), "a writer that seeks to the end appends, too")
a = os.open("two/.schema", os.O_RDWR)
t = b'families = ( { name = "f"; }, { name = "late"; } );\n'
os.ftruncate(a, 0); os.write(a, t); os.close(a)
same(slurp("two/.schema"), t, "ftruncate and write replace the text")
a = os.open("two/.schema", os.O_WRONLY | os.O_TRUNC)
os.write(a, t + b"protect = true;\n"); os.close(a)
same(slurp("two/.schema"), t + b"protect = true;\n", "O_TRUNC replaces the text")
import threading
def add(i):
    for k in range(8):
        with open("two/.schema", "a") as f: f.write('%s = "%dd";\n' % (("snapshot_maxage", "changes")[i], k + 2))
x = [threading.Thread(target=add, args=(i,)) for i in (0, 1)]
for i in x: i.start()
for i in x: i.join()
s = schema()
ok('snapshot_maxage = "9d"' in s and 'changes = "9d"' in s and s.count("protect") == 1, "two threads who append eight times each")
PY
echo 'protect = false;' >>two/.schema

# ---- editors ----
ok "sed -i" sed -i 's/"9d"/"8d"/' two/.schema
like "$(cat two/.schema)" 'changes = "8d"' "  edits the schema"
is "$(ls -A two | tr '\n' ' ')" ".schema r " "  and leaves nothing beside it"
ok "  a row may have a name such as that of its file" mkdir -p two/sedatives/f
ok "  which it does not hide" bash -c 'echo x >two/sedatives/f/q && sed -i "s/8d/7d/" two/.schema && cat two/sedatives/f/q'
fails "  but no other program makes a file there" 'not permitted' bash -c 'echo x >two/sedation1'
fails "an edit that is no schema is refused" 'Invalid argument|cannot rename' sed -i 's/families/familys/' two/.schema
is "$(ls -A two | tr '\n' ' ')" ".schema r sedatives " "  and leaves nothing"
if has vim; then
	ok "vim" bash -c "vim -es -u NONE -c '%s/\"7d\"/\"6d\"/' -c wq two/.schema </dev/null"
	like "$(cat two/.schema)" 'changes = "6d"' "  edits the schema"
fi
rm -r two/sedatives

# ---- copies restore it ----
mkdir -p old/r/f && echo 'changes = "9d";' >>old/.schema && touch -d 2001-01-01 old/.schema && echo x >old/r/f/q
cp -a old "$W/back"
restored() { is "$(cat "$1/.schema")|$(cat "$1/r/f/q")|$(stat -c %Y "$1/.schema")" "$(cat old/.schema)|x|$(stat -c %Y old/.schema)" "$2"; }
for how in 'cp -a "$W/back/." new' 'cp -au "$W/back/." new' 'rsync -a "$W/back/" new/' 'rsync -au "$W/back/" new/' 'rsync -a --inplace "$W/back/" new/' \
	'tar -C "$W/back" -c . | tar -x -C new' 'tar -C "$W/back" -c . | tar -x --keep-newer-files -C new' 'cp -a --remove-destination "$W/back/." new'; do
	mkdir new
	W=$W ok "restore: $how" bash -c "$how"
	restored new "  the schema and the cells"
	rm -rf new
done
W=$W ok "cp -a that makes the table" bash -c 'cp -a "$W/back" new'
restored new "  the schema and the cells"
py <<'PY'
from tap import *
os.makedirs("own/r/f")
err("ENOENT", "a thread that has made a table finds no .schema before it is set", os.open, "own/.schema", os.O_RDONLY)
with open("own/.schema", "a") as f: f.write("protect = true;\n")
ok("mkdir_families = true;" in slurp("own/.schema").decode() and os.listdir("own/.families") == ["f"], "  and appends to the text that others see")
os.makedirs("excl/r/f")
t = b'families = ( { name = "f"; gc = "maxversions=1"; } );\n'
with open("excl/.schema", "xb") as f: f.write(t)
same(slurp("excl/.schema"), t, "  and creates it exclusively, as cp does")
PY
rm -rf new
mkdir -p new/r/f
W=$W ok "rsync onto a table that has a family" bash -c 'rsync -a "$W/back/" new/'
restored new "  sets the schema"
is "$(rsync -ai "$W/back/" new/ | head -n 1)" "" "  and has nothing more to copy"
rm -rf new
is "$(ls -d new 2>&1)" "ls: cannot access 'new': No such file or directory" "rm -r removes a table whose schema was set"
mkdir -p new2/r/f && rm new2/.schema
fails "rm .schema hides the name" 'No such file' cat new2/.schema
ok "  it is created exclusively" bash -c "set -C; echo 'families = ( { name = \"f\"; } );' >new2/.schema"
is "$(cat new2/.schema)" 'families = ( { name = "f"; } );' "  and is the text"

# ---- snapshots, other users ----
mkdir s/ && mkdir s/.snap/x && like "$(cat s/.snap/x/.schema)" '^families = ' "a snapshot's can be read"
fails "  and not appended to" 'Read-only' bash -c "echo 'protect = true;' >>s/.snap/x/.schema"
rmdir s/.snap/x
is "$(ls -A s)" "" "reading sets nothing"
if [ "$(id -u)" = 0 ]; then
	cd "$W" && unmount_store
	ok "mount for others" mount_store -o allow_other
	cd "$M" && chmod 777 s
	nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"; }
	like "$(nobody cat s/.schema)" '^families' "another user reads it"
	fails "  and does not append to it" 'Permission denied' nobody bash -c "echo 'protect = true;' >>s/.schema"
fi
cd "$W" && unmount_store
# Each key has one writer, so its line stays as this writer has set it, whatever the other mount appends meanwhile.
append() { # TABLE KEY UNIT
	local i
	for ((i = 1; i <= 20; i++)); do
		echo "$2 = \"$i$3\";" >>"$1/.schema" && grep -qx "$2 = \"$i$3\";" "$1/.schema" || { echo "$2 $i"; return; }
	done
}
if [ -z "$MODEL$OVER" ]; then
	ok "mount" mount_store
	ok "  twice" mount_second
	append "$M/two" snapshot_maxage d >"$W/lost1" &
	append "$M2/two" quota G >"$W/lost2"
	wait $!
	is "$(cat "$W/lost1" "$W/lost2")" "" "two mounts who append twenty times each lose no line"
	like "$(tr '\n' ' ' <"$M/two/.schema")" 'snapshot_maxage = "20d"' "  nor the last"
	ok "tabletctl alter appends" "$TABLETCTL" alter "unix:$D/two" 'quota = "21G"'
	soon "grep quota '$M2/two/.schema'" 'quota = "21G";' "  and both mounts show it"
	ok "  and the other key stays" grep -q 'snapshot_maxage = "20d"' "$M2/two/.schema"
	ok "sed is killed and leaves its file" bash -c "set -C; : >'$M/two/sedAbCdEf'"
	ok "another client makes a row of this name" "$TABLETCTL" put "unix:$D/two" sedAbCdEf f:q v
	soon "cat '$M/two/sedAbCdEf/f/q'" v "  which the file does not hide"
	fusermount3 -u "$M2" && wait "$second"
	second=
	unmount_store
fi
ok "mount read-only" mount_store -o ro
like "$(cat "$M/s/.schema")" '^families = ' "it can be read"
done_testing
