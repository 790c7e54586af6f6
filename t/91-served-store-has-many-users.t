#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A store that is mounted is used at the same time by tabletctl, by programs of the library
# and by a second mount, and each sees what the others have written.  kill -9 of the daemon
# under writers through all of them loses nothing that was acknowledged, and they go on
# when the store is mounted again.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2120,SC2010,SC2012,SC2015,SC2317
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has one user"
mkdir "$M2"
ctl() { t "$TABLETCTL" "$@"; }
# becomes DESC COMMAND...: the command succeeds within some seconds.
becomes() {
	local what=$1 i
	shift
	for ((i = 0; i < 200; i++)); do
		"$@" >"$W/.out" 2>&1 && break
		read -r -t 0.05 <>"$W/.never" || :
	done
	ok "$what" "$@"
}
lists() { ls "$1" | grep -qx "$2"; }

mount_store
mkdir -p "$M/t/r/f"
echo one >"$M/t/r/f/a"

# ---- programs beside a mount ----
is "$(stat -c %F:%a:%u "$D/socket")" "socket:600:$(id -u)" "the socket is the owner's only"
is "$(ctl get "$D/t" r f:a)" one "tabletctl reads what the mount has written"
ok "tabletctl writes" ctl put "$D/t" r f:b two
is "$(cat "$M/t/r/f/b")" two "  and the mount reads it"
ok "  again, under a name that the mount knows" ctl put "$D/t" r f:b three
is "$(cat "$M/t/r/f/b")" three "  and the mount reads the new version"
shown() { [ "$(find "$M/t" -name 'b@*' | wc -l)" = "$1" ]; }
becomes "  and lists it" shown 2
ok "a new row" ctl put "$D/t" r2 f:c four
becomes "  is in the mount's listing" lists "$M/t" r2
is "$(ctl scan "$D/t" | wc -l)" 4 "tabletctl scans"
ok "a value of 20 MB" bash -c 'head -c 20000000 /dev/urandom >"$W/large" && "$TABLETCTL" put "$D/t" r f:large - <"$W/large"'
same "$M/t/r/f/large" "$W/large" "  is whole in the mount"
ctl get "$D/t" r f:large >"$W/back"
same "$W/back" "$W/large" "  and through the socket"
fails "a second mount by the data directory: it is in use, by whom" "in use by process $daemon \(tabletfs\)" "$TABLETFS" "$D" "$M2"
fails "tabletctl check, too" "in use by process $daemon \(tabletfs\)" ctl check "$D"

# ---- a second mount ----
mount_second
is "$(cat "$M2/t/r/f/a")" one "the second mount shows the store"
same "$M2/t/r/f/large" "$W/large" "  also large cells"
is "$(cd "$M" && find t | sort)" "$(cd "$M2" && find t | sort)" "  and the same names"
is "$(cd "$M" && find t -type f -printf '%p %s %i %T@ %m\n' | sort)" "$(cd "$M2" && find t -type f -printf '%p %s %i %T@ %m\n' | sort)" "  with the same attributes and inode numbers"
echo five >"$M2/t/r/f/d"
is "$(cat "$M/t/r/f/d")" five "what the second writes, the first reads"
echo six >"$M/t/r/f/d"
is "$(cat "$M2/t/r/f/d")" six "  and the other way round"
mkdir "$M2/u"
is "$(stat -c %F "$M/u")" directory "a table that one makes is the other's"
becomes "  and listed" lists "$M" u
mkdir "$M/u/.families/g"
becomes "a family, too" test -d "$M2/u/.families/g"
echo maxversions=1 >"$M2/u/.families/g/gc"
said() { grep -qs "maxversions=1" "$1"; }
becomes "a rule" said "$M/u/.families/g/gc"
mv "$M/u" "$M/v"
gone() { [ ! -e "$1" ]; }
becomes "a table that one renames" test -d "$M2/v"
becomes "  has no old name at the other" gone "$M2/u"
rmdir "$M2/v/.families/g" "$M2/v"
becomes "a table that one drops is gone" gone "$M/v"
chmod 700 "$M/t/.families/f"
mode() { [ "$(stat -c %a "$1")" = "$2" ]; }
becomes "a mode that one sets is the other's" mode "$M2/t/r/f" 700
chmod 755 "$M/t/.families/f"
mkdir "$M/t/.snap/s"
becomes "a snapshot is there for both" test -f "$M2/t/.snap/s/r/f/a"
rmdir "$M2/t/.snap/s"
becomes "  and for none when one drops it" gone "$M/t/.snap/s"
rm "$M/t/r/f/d"
becomes "what one removes, the other does not have" gone "$M2/t/r/f/d"

# ---- rows that another user removes, and that the kernel still knows ----
long=long-$(printf 'x%.0s' {1..300})
part=${long:0:254}% rest=${long:254}
mkdir "$M/t/.families/g" "$M/t/$part" # the part stays without the row
# comes_and_ends NAME KEY: the tool makes a row, and removes it when this mount knows t/NAME/f.
comes_and_ends() {
	local parent=
	[[ $1 != */* ]] || parent=${1%/*}
	ctl put "$D/t" "$2" f:q x
	becomes "a row of the tool's: ${1:0:9}" test -f "$M/t/$1/f/q"
	ctl delete "$D/t" "$2"
	lacks() { ! lists "$M/t/$1" "$2" && ! lists "$M/t/.latest/$1" "$2"; }
	becomes "  is not listed after its end" lacks "$parent" "${1##*/}"
	# The kernel keeps a listing that is younger than the last notice of a change, which comes 0.2 s after the first one.
	sleep 0.5
	ls "$M/t/$parent" "$M/t/.latest/$parent" >"$W/.out"
}
both_list() { lists "$M/t/$1" "$2" && lists "$M/t/.latest/$1" "$2"; }
comes_and_ends "$part/$rest" "$long"
echo y >"$M/t/$part/$rest/f/q"
ok "  a cell brings a row with a split name back into both views" both_list "$part" "$rest"
rm -r "$M/t/$part/$rest"
comes_and_ends "$part/$rest" "$long"
mkdir "$M/t/$part/$rest/g"
ok "  so does the directory of a family" both_list "$part" "$rest"
rm -r "$M/t/$part/$rest"
comes_and_ends back back
mkdir "$M/t/back/g"
ok "  and that of another row" both_list "" back
rm -r "$M/t/back"
rmdir "$M/t/$part" "$M/t/.families/g"

printf 'r9\tf:q\t\tv\n' >"$W/in.tsv"
cp "$W/in.tsv" "$M2/t/.import"
is "$(cat "$M/t/r9/f/q")" v "an import through the second mount"
is "$(cat "$M2/t/.scan/row=r9/.tsv" | wc -l)" 1 "a scan of the second mount"

# ---- views agree after each change ----
py "200 changes by one side are seen by the other" <<'PY'
from tap import *
import random
import subprocess
rnd = random.Random(7)
sides = [M, M + "2"]
def view(m):
    out = {}
    for d, _, files in os.walk(m + "/t"):
        for f in files:
            p = os.path.join(d, f)
            try:
                st = os.lstat(p)
                out[p[len(m):]] = (st.st_size, st.st_mtime_ns, open(p, "rb").read())
            except FileNotFoundError:
                out[p[len(m):]] = None
    return out
subprocess.run(["rm", "-r", M + "/t/r", M + "/t/r2", M + "/t/r9"], check=True)
late = 0
for i in range(200):
    w = rnd.randrange(2)
    row, q = "row%d" % rnd.randrange(4), "q%d" % rnd.randrange(4)
    p = "%s/t/%s/f/%s" % (sides[w], row, q)
    what = rnd.randrange(4)
    if what < 3:
        os.makedirs(os.path.dirname(p), exist_ok=True)
        data = b"%d " % i * rnd.choice((1, 10, 1000))
        spill(p, data)
        got = open(p.replace(sides[w], sides[1 - w], 1), "rb").read()
        if got != data:
            ok(False, "change %d: the plain name has %r" % (i, got[:20]))
    else:
        names = [n for n in os.listdir(os.path.dirname(p))] if os.path.isdir(os.path.dirname(p)) else []
        if names:
            os.unlink(os.path.dirname(p) + "/" + rnd.choice(names))
    until = time.monotonic() + 30
    a, b = view(sides[0]), view(sides[1])
    while a != b and time.monotonic() < until:
        late += 1
        time.sleep(0.005)
        a, b = view(sides[0]), view(sides[1])
    if a != b:
        ok(False, "change %d: the views differ: %s" % (i, sorted(set(a.items()) ^ set(b.items()))[:3]))
        break
else:
    ok(True, "the views were equal after each change (%d looks came too early)" % late)
PY

# ---- the Python package ----
cp -R "$SRC/python" "$W/python" && mkdir "$W/engine" && cp "$SRC/configure.ac" "$W/" && cp "$SRC/engine/tabletfs.h" "$W/engine/"
if ! (cd "$W/python" && /usr/bin/python3 -c 'import cffi' && /usr/bin/python3 setup.py -q build --build-base "$W/base" --build-lib "$W/lib") >"$W/.out" 2>&1; then
	[ "${CI:-}" != true ] || fail "the Python package is built"
	skip "the Python package beside a mount" "python3-cffi or python3-setuptools is missing"
else
	mkdir -p "$M/t/python/f"
	echo mount >"$M/t/python/f/a"
	cat >"$W/beside.py" <<'PY'
import os, sys
import tabletfs
data, mnt = sys.argv[1:]
with tabletfs.open(data) as store, store.table("t") as table:
    print(table.get("python", "f", "a"))
    table.put("python", "f", "b", b"python")
    print(open(mnt + "/t/python/f/b", "rb").read())
    with table.batch() as batch:
        for i in range(2000):
            batch.put("python%04d" % i, "f", "q", b"%d" % i)
    print(open(mnt + "/t/python1999/f/q", "rb").read(), sum(1 for c in table.scan(prefix="python")))
    print(table.increment("python", "f", "n", 5), open(mnt + "/t/python/f/n", "rb").read())
    with open(mnt + "/t/python/f/b", "wb") as f:
        f.write(b"mount")
    print(table.get("python", "f", "b"))
    with tabletfs.open(data) as other:
        print("t" in other.tables(), flush=True)
    child = os.fork()
    if child == 0:
        try:
            table.get("python", "f", "b")
        except tabletfs.ClosedError:
            with tabletfs.open(data) as own, own.table("t") as t:
                os._exit(0 if t.get("python", "f", "b") == b"mount" else 1)
        os._exit(2)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), table.get("python", "f", "b"))
PY
	is "$(cd "$W" && PYTHONPATH="$W/lib" TABLETFS_LIBRARY="$BUILD/libtabletfs.so.0.0.0" t /usr/bin/python3 "$W/beside.py" "$D" "$M" 2>&1)" \
		"b'mount\\n'
b'python'
b'1999' 2002
5 b'5'
b'mount'
True
0 b'mount'" "a Python program reads, writes, scans and forks beside the mount"
fi

# ---- kill -9 under writers ----
cat >"$W/writer.py" <<'PY'
"""Writes numbered cells by one way; prints each after it has been acknowledged."""
import os, subprocess, sys, time
way, path = sys.argv[1:3]
out = open("%s/acknowledged.%s" % (os.environ["W"], way), "a", buffering=1)
n = 0
until = time.monotonic() + 60
while not os.path.exists(os.environ["W"] + "/enough") and time.monotonic() < until:
    if way == "tool" and os.path.exists(os.environ["W"] + "/down"):  # it would open the store itself
        time.sleep(0.01)
        continue
    n += 1
    if way == "tool":
        done = subprocess.run([os.environ["TABLETCTL"], "put", path, way, "f:q%06d" % n, "v%d" % n], stderr=subprocess.DEVNULL).returncode == 0
    else:
        try:
            fd = os.open("%s/%s/f/q%06d" % (path, way, n), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            os.write(fd, b"v%d" % n)
            os.close(fd)
            done = True
        except OSError as e:
            out.write("# %s\n" % e)
            done = False
            time.sleep(0.01)
    if done:
        out.write("%06d\n" % n)
PY
cat >"$W/library.c" <<'C'
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <tabletfs.h>
int main(int argc, char **argv)
{
	struct tfs_store *s;
	struct tfs_table *t;
	char *why, q[32], v[32], enough[4096];
	int err = tfs_open(argv[1], NULL, &s, &why);
	if (err) {
		fprintf(stderr, "%s\n", why);
		return 1;
	}
	snprintf(enough, sizeof(enough), "%s/enough", getenv("W"));
	if (tfs_table_open(s, "t", &t))
		return 1;
	for (int n = 1; access(enough, F_OK) != 0; n++) {
		struct tfs_mutation *m = tfs_mutation_new(t, TFS_S("library"));
		snprintf(q, sizeof(q), "q%06d", n);
		snprintf(v, sizeof(v), "v%d", n);
		err = tfs_mutation_put(m, "f", tfs_str(q), TFS_AUTO, tfs_str(v));
		err = err ? err : tfs_apply(m, 0, NULL);
		tfs_mutation_free(m);
		if (!err)
			printf("%06d\n", n);
		else
			printf("# %d: %s\n", n, strerror(-err));
		fflush(stdout);
		usleep(2000);
	}
	tfs_table_close(t);
	return tfs_close(s) ? 1 : 0;
}
C
ln -s "$BUILD/libtabletfs.so.0.0.0" "$W/libtabletfs.so.0"
ok "a program of the library compiles" "${CC:-cc}" -I"$SRC/engine" -o "$W/library" "$W/library.c" "$BUILD/libtabletfs.so.0.0.0"
mkdir -p "$M/t/mount/f" "$M/t/second/f"
echo x >"$M/t/mount/f/x"
echo x >"$M/t/second/f/x"
LD_LIBRARY_PATH=$W "$W/library" "$D" >"$W/acknowledged.library" 2>"$W/library.err" &
library=$!
python3 "$W/writer.py" second "$M2/t" &
writers=($!)
python3 "$W/writer.py" tool "$D/t" &
writers+=($!)
enough_of() { [ "$(grep -c '^[0-9]' "$W/acknowledged.$1")" -ge "$2" ]; }
for round in 1 2 3; do
	python3 "$W/writer.py" mount "$M/t" &
	mounted_writer=$!
	for way in library second tool; do
		wait_for "writes by $way" enough_of $way $((20 * round)) || fail "$way writes in round $round"
	done
	touch "$W/down"
	kill_daemon
	kill $mounted_writer 2>/dev/null
	wait $mounted_writer 2>/dev/null
	mount_store
	rm "$W/down"
done
for way in library second tool; do
	before=$(grep -c '^[0-9]' "$W/acknowledged.$way")
	ok "$way goes on after the last kill" wait_for "more writes by $way" enough_of $way $((before + 20))
done
touch "$W/enough"
wait $library
is $? 0 "the program of the library ends well"
wait "${writers[@]}"
py <<'PY'
from tap import *
for way in "mount", "library", "second", "tool":
    lines = open("%s/acknowledged.%s" % (W, way)).read().split("\n")
    numbers = sorted(set(l for l in lines if l.isdigit()))
    lost = []
    for n in numbers:
        try:
            if open("%s/t/%s/f/q%s" % (M, way, n)).read() != "v%d" % int(n):
                lost.append(n)
        except OSError:
            lost.append(n)
    same(lost, [], "%s: of %d acknowledged writes none is lost" % (way, len(numbers)))
    names = [n for n in os.listdir("%s/t/%s/f" % (M, way)) if n[0] == "q"]
    same(len(names), len(set(n.split("@")[0] for n in names)), "%s: none was applied twice" % way)
PY
is "$(grep -c '^#' "$W/acknowledged.library")" 0 "the library met no error: its calls waited"
is "$(cd "$M" && find t | sort | md5sum)" "$(cd "$M2" && find t | sort | md5sum)" "both mounts have the same names"

# ---- the end ----
t fusermount3 -u "$M2"
wait $second
is $? 0 "the second mount ends well"
unmount_store
ok "the socket is gone" test ! -e "$D/socket"
fails "a mount of a store that is not served" "no process serves" "$TABLETFS" "unix:$D" "$M2"
# A long path: a socket's address has 107 bytes.
D=$W/$(printf 'd%.0s' {1..200})/data
mkdir "${D%/data}"
mount_store
mkdir -p "$M/t/r/f"
ok "a path of more than 107 bytes" ctl put "$D/t" r f:a x
is "$(cat "$M/t/r/f/a")" x "  works"
unmount_store
done_testing
