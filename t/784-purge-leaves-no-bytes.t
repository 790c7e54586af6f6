#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The verb purge: bytes that were deleted or replaced are in no file of the data directory when it returns, and the
# changes that the table kept are gone.  A reader that has not read all of them gets ESTALE, also after kill -9.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no data directory"
ok "mount" mount_store -o allow_other
export LINES=$W/lines PLACES=$W/places
cat >"$LINES" <<'EOF2'
from tap import *
import json, subprocess

os.chdir(M)
SCHEMA = b'families = ({name = "f"; group = "g";}); groups = ({name = "g"; compression = "none";});'
place = lambda table, p, s=".tsv": "%s/.changes/from=%s/%s" % (table, p, s)
lines = lambda table, p="start": [l.split("\t") for l in slurp(place(table, p)).decode().splitlines()]
verb = lambda table, text: spill(table + "/.ctl", text.encode() + b"\n", os.O_WRONLY)


def on_disk(secret):
    """The files of the data directory that have the bytes."""
    found = subprocess.run(["grep", "-r", "-l", "-a", "-F", "-e", secret, os.environ["D"]], stdout=subprocess.PIPE)
    return sorted(os.path.relpath(os.fsdecode(f), os.environ["D"]) for f in found.stdout.splitlines())


def make(table, changes=b'changes = "7d"; '):
    os.mkdir(table)
    spill(table + "/.schema", changes + SCHEMA)
EOF2
export D
py <<'EOF2'
from tap import *
exec(slurp(os.environ["LINES"]))
make("t")
make("plain", b"")
make("other")
rows = b"".join(b"r%02d\tf:q\t5\tkept\n" % i for i in range(20))
for table in ("t", "plain", "other"):
    spill(table + "/.import", rows)
verb("t", "split r10")
for row in ("r03", "r15"):
    spill("t/.import", row.encode() + b"\tf:secret\t5\tRosebud-one\n" + row.encode() + b"\tf:new\t5\tRosebud-two\n")
spill("plain/.import", b"r03\tf:secret\t5\tRosebud-three\n")
spill("other/.import", b"r03\tf:secret\t5\tRosebud-four\n")
verb("t", "flush")
for row in ("r03", "r15"):
    os.unlink("t/%s/f/secret" % row)
    spill("t/.import", row.encode() + b"\tf:new\t5\tbetter\n")
    spill("t/.import", row.encode() + b"\tf:secret\t6\tRosebud-five\n")  # this one is in no SSTable yet
    os.unlink("t/%s/f/secret" % row)
os.unlink("plain/r03/f/secret")
ok(on_disk("Rosebud-one") and on_disk("Rosebud-two") and on_disk("Rosebud-five"), "deleted and replaced bytes are on the disk")
before = lines("t")
ok(before, "and in the changes")
behind = before[-1][0]
elsewhere = lines("other")
verb("t", "purge")
same([on_disk("Rosebud-" + n) for n in ("one", "two", "five")], [[]] * 3, "purge: no file has them")
ok(on_disk("Rosebud-four"), "a cell that is not deleted is there")
same(len(slurp("t/.scan/.tsv").splitlines()), 22, "the table has its cells")
same(lines("t"), [], "it has no changes")
same([errno_of(slurp, place("t", p)) for p in (before[0][0], before[-2][0], before[0][1])], ["ESTALE"] * 3, "places before them are ESTALE")
same(lines("t", behind), [], "a reader that had all of them continues")
spill("t/.import", b"r03\tf:q\t6\tnext\n")
same([l[3:] for l in lines("t", behind)], [["r03", "f:q", "6", "next"]], "  with the next change")
same([l[3:] for l in lines("t")], [["r03", "f:q", "6", "next"]], "and from=start begins there")
same(lines("other"), elsewhere, "other tables keep their changes")
verb("plain", "purge")
same(on_disk("Rosebud-three"), [], "purge of a table without changes")
same(errno_of(verb, "t", "purge now"), "EINVAL", "purge takes no argument")
spill(os.environ["PLACES"], json.dumps([before[0][0], behind]).encode())

# A reader that waits behind the last change goes on; one that is behind gets the error, never a gap.
follow = os.open(place("t", "start", ".follow"), os.O_RDONLY)
same(os.read(follow, 1000).split(b"\t")[3:], [b"r03", b"f:q", b"6", b"next\n"], "a reader follows")
verb("t", "purge")
spill("t/.import", b"r04\tf:q\t6\tlater\n")
same(os.read(follow, 1000).split(b"\t")[3:], [b"r04", b"f:q", b"6", b"later\n"], "  and goes on after a purge")
os.close(follow)

# The verb after the setting was left out: what was kept goes.
spill("other/.import", b"r03\tf:secret\t6\tRosebud-six\n")
os.unlink("other/r03/f/secret@6")
spill("other/.schema", SCHEMA)
verb("other", "purge")
same(on_disk("Rosebud-six"), [], "after `changes` was left out of the schema, purge removes what was kept")
same(errno_of(slurp, place("other", "start")), "EOPNOTSUPP", "  and the table keeps none")

# Snapshots keep what they show.
spill("plain/.import", b"r05\tf:secret\t5\tRosebud-seven\n")
os.mkdir("plain/.snap/s")
os.unlink("plain/r05/f/secret")
verb("plain", "purge")
same(slurp("plain/.snap/s/r05/f/secret"), b"Rosebud-seven", "a snapshot keeps what it shows")
same(errno_of(verb, "plain/.snap/s", "purge"), "EINVAL", "  and has no such verb")
os.rmdir("plain/.snap/s")
verb("plain", "purge")
same(on_disk("Rosebud-seven"), [], "  until it is dropped")
EOF2

# ---- purges beside writers, splits and kill -9 ----
py <<'EOF2'
from tap import *
exec(slurp(os.environ["LINES"]))
make("w")
verb("w", "split m")
follow = subprocess.Popen(["cat", place("w", "start", ".follow")], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
writer = subprocess.Popen(["bash", "-c", """
	for i in {1..300}; do printf '%s\\tf:q\\t%s\\tRosebud-w\\n' a $i z $i; done >w/.import
	for i in {1..60}; do printf '%s\\tf:q\\t%s\\tRosebud-w\\n' a 1$i z 1$i >w/.import; done
"""])
for i in range(6):
    verb("w", "purge")
same(writer.wait(), 0, "a writer beside purges")
verb("w", "split c")
last = lines("w", "now")
spill("w/.import", b"a\tf:last\t1\tx\n")
follow_lines = []
for line in follow.stdout:
    follow_lines.append(line.decode().rstrip("\n").split("\t"))
    if follow_lines[-1][4] == "f:last":
        follow.kill()
        break
same([int(l[1]) for l in follow_lines], sorted(int(l[1]) for l in follow_lines), "  a reader gets changes in their order")
error = follow.communicate()[1]
if follow_lines and follow_lines[-1][4] == "f:last":
    same(len(follow_lines), 721, "  all of them")
else:
    ok(b"Stale" in error, "  or the error ESTALE")
for key in "az":
    subprocess.run(["rm", "-r", "w/" + key], check=True)
verb("w", "purge")
same((on_disk("Rosebud-w"), lines("w")), ([], []), "deletes of rows, and a purge")
EOF2
kill_daemon
ok "kill -9, and a mount" mount_store -o allow_other
py <<'EOF2'
from tap import *
exec(slurp(os.environ["LINES"]))
early, behind = json.loads(slurp(os.environ["PLACES"]))
same([errno_of(slurp, place("t", p)) for p in (early, behind)], ["ESTALE"] * 2, "the places are ESTALE after kill -9")
spill("w/.import", b"a\tf:secret\t5\tRosebud-eight\n")
os.unlink("w/a/f/secret")
EOF2
kill_daemon
ok "kill -9, and a mount" mount_store -o allow_other
py <<'EOF2'
from tap import *
exec(slurp(os.environ["LINES"]))
ok(on_disk("Rosebud-eight"), "the log of the killed daemon has deleted bytes")
verb("w", "purge")
same(on_disk("Rosebud-eight"), [], "  and purge removes it")
EOF2

# ---- who may ----
[ "$(id -u)" != 0 ] || fails "another user may not purge" "Permission denied" setpriv --reuid=4711 --regid=4711 --clear-groups sh -c "echo purge >'$M/w/.ctl'"
ok "tabletctl ctl TABLE purge" t "$TABLETCTL" ctl "$M/w" purge
ok "a second mount, through the first one's daemon" mount_second
mkdir -p "$M/w/b/f"
echo Rosebud-nine >"$M/w/b/f/secret"
rm "$M/w/b/f/secret"
ok "purge through it" sh -c "echo purge >'$M2/w/.ctl'"
is "$(grep -r -l -a -F Rosebud-nine "$D")" "" "  removes the bytes"
ok "unmount of the second mount" t fusermount3 -u "$M2"
wait "$second"
ok "unmount" unmount_store
ok "tabletctl check" check_store
done_testing
