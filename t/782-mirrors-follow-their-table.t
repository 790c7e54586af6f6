#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletctl mirror: a table and its changes of each kind are copied to another store, by runs that go on where the last one
# ended and by one that follows; truncations and changes of families and their access, too; and each thing that ends a mirror,
# as a full disk, is one line.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model keeps no changes"
has setfacl || cannot_run "there is no setfacl"
echo 'socket_mode = "0666";' >"$W/conf"
ok "mount" mount_store -o "allow_other,config=$W/conf"
chmod 755 "$D"
export SERVER
"$SERVER" -f "$W/copy" >"$W/copy.out" 2>&1 </dev/null &
copy_server=$!
wait_for "the server" [ -S "$W/copy/socket" ]
py <<'PY'
from tap import *
import re, signal, subprocess

os.chdir(M)
TOOL = os.environ["TABLETCTL"]
COPY = W + "/copy/"
FAMILIES = b'families = ({name = "f";}, {name = "g"; gc = "maxversions=2";});'


def tool(*args, **kw):
    p = subprocess.run([TOOL, *args], capture_output=True, timeout=180, **kw)
    return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")


def mirror(source, target, *options, **kw):
    return tool("mirror", *options, source, target, **kw)


def cells(table):
    return sorted(tool("scan", table)[1].splitlines())


def equal(table, what, *options):
    code, out, err = mirror(table, COPY + table, *options)
    same((code, out), (0, ""), what)
    if code:
        note(err)
    same(cells(COPY + table), cells(table), "  and both tables are equal")


def refused(want, pattern, what, *args, **kw):
    code, out, err = mirror(*args, **kw)
    lines = [l for l in err.splitlines() if l.startswith("tabletctl: ")]
    if not ok(code == want and len(lines) == 1 and pattern in lines[0], what):
        note(code, err)


def make(table, schema=b'changes = "7d"; ' + FAMILIES):
    os.mkdir(table)
    spill(table + "/.schema", schema)


def mutate(table, row, *lines):
    os.makedirs("%s/%s" % (table, row), exist_ok=True)
    spill("%s/%s/.mutate" % (table, row), "".join(l + "\n" for l in lines).encode() + b"commit\n", os.O_WRONLY)


make("t")
spill("t/.import", b"a\tf:q\t5\tone\na\tf:q\t7\ttwo\na\tg:q\t5\tx\nb\tf:t\\tab\\xff\t-5\tl\\n\\x00\nb\tf:\t1\t\nc\tg:big\t1\t" + b"v" * 3000000 + b"\n")
equal("t", "a new mirror has the table")
equal("t", "a second run does nothing")
mutate("t", "a", "delete f:q@5", "set f:new@9\tv")
mutate("t", "a", "delete f:q")
mutate("t", "b", "delete row")
mutate("t", "c", "set g:other@3\tw", "delete g:")
mutate("t", "d", "set f:q@9\tnew")
spill("t/.import", b"a\tf:new\t9\tover\n")
equal("t", "the next run has changes of each kind")
for i in range(1, 5):
    spill("t/.import", b"v\tg:q\t%d\tx\n" % i)
mutate("t", "v", "delete g:q@4")
same([l.split("\t")[2] for l in cells("t") if l.startswith("v")], ["3"], "a delete also deletes what a rule hides")
equal("t", "  in the mirror, too")
mutate("t", "v", "set g:q@1\tagain", "delete g:q@3")
equal("t", "  and a version that is written again at its time")
spill("t/.families/g/gc", b"maxversions=1\n")
mutate("t", "v", "set g:q@7\tnew")
equal("t", "a rule that changes is the mirror's")
same(tool("scan", "--prefix", "v", COPY + "t")[1], "v\tg:q\t7\tnew\n", "  which shows one version")
os.mkdir("t/.families/h")
mutate("t", "a", "set h:q@1\tv")
equal("t", "a new family is made")
os.rename("t/.families/f", "t/.families/swap")
os.rename("t/.families/h", "t/.families/f")
os.rename("t/.families/swap", "t/.families/h")
mutate("t", "a", "set f:q@2\tof the new name")
equal("t", "families exchange their names")
spill("t/.schema", b'changes = "7d"; allow_delete = true; families = ({name = "f";}, {name = "g"; gc = "maxversions=1";});')
os.mkdir("t/.families/h")
mutate("t", "z", "set h:q@1\tanother family")
equal("t", "a family that was dropped and made again has its new cells only")


# ---- access ----
def family(table, name):
    """The family in the schema: its rule, owner, group, mode and ACL."""
    found = re.search(r'\{ name = "%s";(.*?)\}' % name, tool("describe", table)[1], re.S)
    return " ".join(found.group(1).split()) if found else None


def same_access(what, *has):
    equal("t", what)
    there = family(COPY + "t", "h")
    ok(there == family("t", "h") and all(part in there for part in has), "  is the mirror's: %s" % there)


os.chmod("t/.families/h", 0o600)
same_access("a chmod of a family", 'mode = "0600"')
same(subprocess.run(["setfacl", "-m", "u:1234:rw,g:4321:r", "t/.families/h"]).returncode, 0, "an ACL")
same_access("  which the mirror gets", 'mode = "0660"', "1234", "4321")
if os.getuid() == 0:
    os.chown("t/.families/h", 65534, 1234)
    same_access("a chown", 'owner_group = "1234"')
same(subprocess.run(["setfacl", "-b", "t/.families/h"]).returncode, 0, "no ACL")
same_access("  which the mirror has not either")
os.mkdir(W + "/mnt2")
second = subprocess.Popen([os.environ["TABLETFS"], "-f", "unix:" + W + "/copy", W + "/mnt2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
soon(lambda: os.path.ismount(W + "/mnt2"), True, "the target is mounted")
os.chmod(W + "/mnt2/t/.families/h", 0o640)
os.chmod("t/.families/g", 0o644)
equal("t", "another change of the source")
ok('mode = "0640"' in family(COPY + "t", "h"), "  leaves the mode that the target's owner has set")
os.chmod("t/.families/h", 0o604)
same_access("  until it changes in the source", 'mode = "0604"')
subprocess.run(["fusermount3", "-u", W + "/mnt2"])
same(second.wait(60), 0, "the target is unmounted")

spill("t/.ctl", b"truncate\n", os.O_WRONLY)
mutate("t", "n", "set f:q@1\tnew")
equal("t", "a truncation is one of the mirror")
make("salted", b'salt = 8; changes = "7d"; ' + FAMILIES)
spill("salted/.import", b"".join(b"%d\tf:q\t1\tx\n" % i for i in range(500)))
equal("salted", "a table with a salt")
mutate("salted", "7", "delete row")
spill("salted/.ctl", b"split %04\n", os.O_WRONLY)
equal("salted", "  and its changes after a split")

# ---- what a target keeps ----
state = dict(l.split("\t")[1::2] for l in tool("scan", COPY + "t.mirror")[1].splitlines())
same((state["state:source"], state["state:phase"]), ("t", "follow"), "TARGET.mirror has the source, and what is done")
same(tool("get", COPY + "t", "mirror")[0], 1, "  and the target has no row for that")
spill("t/.import", b"x\tf:q\t1\tx\n")
same(tool("import", COPY + "t", "-", input=b"extra\tf:q\t1\ty\nn\tf:q\t1\tother\n")[0], 0, "somebody writes the target")
equal("t", "--restart removes what the source has not", "--restart")

# ---- comparing ----
compare = lambda a, b: tool("compare", a, b)
same(compare("t", COPY + "t")[:2], (0, ""), "compare prints nothing for equal tables")
same(compare("salted", COPY + "salted")[:2], (0, ""), "  with a salt, too")
os.mkdir("t/.snap/before")
spill("t/.import", b"n\tf:q\t1\tsame\nn\tf:q\t2\tx\nz\\xff\tg:\t-3\t\n" + b"big\tf:q\t1\t" + b"v" * 1000000 + b"\n")
same(mirror("t", COPY + "t")[0], 0, "  of a mirror")
same(compare("t", COPY + "t")[:2], (0, ""), "  with large values")
spill("t/.import", b"n\tf:q\t1\tSAME\n" + b"big\tf:q\t1\t" + b"v" * 999999 + b"w\n")
mutate("t", "n", "delete f:q@2")
os.mkdir("t/.families/alone")
mutate("t", "n", "set alone:q@1\tx")
same(compare("t", COPY + "t")[:2], (1, "value\tbig\tf:q\t1\nsecond\tn\tf:q\t2\nvalue\tn\tf:q\t1\nfirst\tn\talone:q\t1\n"), "  and what differs")
same(compare("t/.snap/before", "t")[:2], (1, "second\tbig\tf:q\t1\nvalue\tn\tf:q\t1\nsecond\tn\talone:q\t1\nsecond\tz\\xFF\tg:\t-3\n"), "  between a snapshot and its table")
same(compare("t", "t/.snap/none")[0], 2, "  but not with an absent snapshot")
os.rmdir("t/.snap/before")
# Families in another order of ids.
os.mkdir("order")
spill("order/.schema", b'families = ({name = "g";}, {name = "alone";}, {name = "f";});')
spill("order/.import", slurp("t/.scan/.tsv"))
same(compare("t", "order")[:2], (0, ""), "  or if the families have another order")
same(compare("order", "t/absent")[0], 2, "an absent table")
equal("t", "a mirror after all that")

# ---- what is refused ----
make("none", FAMILIES)
refused(2, 'changes = "7d"', "a table that keeps no changes", "none", COPY + "none")
refused(2, "no such table", "an absent table", "absent", COPY + "absent")
refused(2, "source itself", "the source as its target", "t", "t")
refused(2, "--restart", "a mirror of another table", "salted", COPY + "t")
same(tool("import", "-p", COPY + "full", "-", input=b"a\tf:q\t1\tx\n")[0], 0, "a table with cells")
refused(2, "--restart", "  is no target", "t", COPY + "full")
same(tool("scan", COPY + "full")[1], "a\tf:q\t1\tx\n", "  and is not changed")
code, out, err = mirror("t", COPY + "full", "--restart")
same((code, cells(COPY + "full")), (0, cells("t")), "  but --restart replaces its cells")
refused(2, "too long", "a name that has no room for .mirror", "t", COPY + "n" * 60)
if os.getuid() == 0 and not os.environ.get("OVER"): # else the store's socket refuses the user
    make("p", b'changes = "7d"; mode = "0755"; families = ({name = "open"; mode = "0644";}, {name = "closed"; mode = "0600";});')
    os.mkdir(W + "/theirs")
    os.chown(W + "/theirs", 65534, 65534)
    refused(2, "family closed", "a family that the user may not read", M + "/p", W + "/theirs/copy/p", user=65534, group=65534, extra_groups=[])

# ---- expiry ----
make("short", b'changes = "300ms"; ' + FAMILIES)
equal("short", "a table that keeps changes for a moment")
spill("short/.import", b"a\tf:q\t1\tx\n")
behind = tool("get", COPY + "short.mirror", "mirror", "state:token")[1]
soon(lambda: errno_of(slurp, "short/.changes/from=%s/.tsv" % behind), "ESTALE", "  whose change has expired")
refused(1, "--restart", "  ends the mirror", "short", COPY + "short")
same(mirror("short", COPY + "short", "--restart")[0], 0, "  and --restart goes on")
same(cells(COPY + "short"), ["a\tf:q\t1\tx"], "  with all cells")

# ---- following ----
make("w")
equal("w", "an empty table")


def follow():
    return subprocess.Popen([TOOL, "mirror", "--follow", "w", COPY + "w"], stderr=subprocess.PIPE)


mirror_of_w = follow()
spill("w/.import", b"a\tf:q\t1\tx\n")
soon(lambda: tool("scan", COPY + "w")[1], "a\tf:q\t1\tx\n", "--follow applies a change")
mutate("w", "a", "delete row")
os.mkdir("w/.families/i")
mutate("w", "b", "set i:q@1\tx")
soon(lambda: tool("scan", COPY + "w")[1], "b\ti:q\t1\tx\n", "  and changes of families")
os.chmod("w/.families/i", 0o600)
soon(lambda: family(COPY + "w", "i") == family("w", "i") and 'mode = "0600"' in family("w", "i"), True, "  and a mode, without a change of cells")
token = lambda: tool("get", COPY + "w.mirror", "mirror", "state:token")[1]
last = slurp("w/.changes/from=start/.tsv").decode().splitlines()[-1].split("\t")[0]
soon(token, last, "  and saves the token without another change")
same(mirror("w", COPY + "w")[0], 0, "another mirror of the same target takes over")
mutate("w", "c", "set f:q@1\tx")
same(mirror_of_w.wait(60), 2, "  and the first one ends")
ok(b"another tabletctl mirror" in mirror_of_w.stderr.read(), "  and says why")
mirror_of_w = follow()
soon(lambda: tool("scan", COPY + "w")[1], "b\ti:q\t1\tx\nc\tf:q\t1\tx\n", "the next one goes on")
mirror_of_w.send_signal(signal.SIGTERM)
same(mirror_of_w.wait(60), 143, "SIGTERM ends it")
ok(b"the next run continues" in mirror_of_w.stderr.read(), "  with a line")
mirror_of_w = follow()
spill("w/.ctl", b"truncate\n", os.O_WRONLY)
soon(lambda: tool("scan", COPY + "w")[1], "", "a truncation is followed")
os.rmdir("w")
same(mirror_of_w.wait(60), 1, "the drop of the table ends it")
ok(b"was dropped" in mirror_of_w.stderr.read(), "  with a line")
same(tool("scan", COPY + "w"), (0, "", ""), "  and the target stays")

# ---- a full disk ----
if os.getuid() == 0:
    os.mkdir(W + "/disk")
    spill(W + "/small", b'log_segment = "4M"; memtable = "4M";')
    same(subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "none", W + "/disk"]).returncode, 0, "a small disk")
    small = subprocess.Popen([os.environ["SERVER"], "-f", "-o", "config=" + W + "/small", W + "/disk/copy"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    soon(lambda: os.path.exists(W + "/disk/copy/socket"), True, "  with a store")
    make("large")
    for i in range(100):
        spill("large/.import", b"r%d\tf:q\t1\t%s\n" % (i, os.urandom(3 << 18).hex().encode()))
    target = W + "/disk/copy/large"
    refused(2, "No space left", "a mirror on a full disk ends", "large", target)
    refused(2, "No space left", "  and so does one that follows", "large", target, "--follow")
    same(subprocess.run(["mount", "-o", "remount,size=400m", W + "/disk"]).returncode, 0, "the disk has more space")
    soon(lambda: mirror("large", target)[0], 0, "  and the mirror goes on")
    same(cells(target) == cells("large"), True, "  with all cells")
    same(compare("large", target)[0], 0, "  which compare finds, too")
    small.terminate()
    same(small.wait(60), 0, "the server ends")
    same(tool("check", W + "/disk/copy")[0], 0, "  and its store is sound")
    subprocess.run(["umount", W + "/disk"])
PY
server=$copy_server end_server -TERM
ok "the copy is sound" "$TABLETCTL" check "$W/copy"
ok "unmount" unmount_store
ok "the store is sound" check_store
done_testing
