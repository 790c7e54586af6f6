#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each path to the data, as each kind of user: nobody reads, changes or counts cells of a family without permission, and
# everybody with permission does.  A new path is a line in one of the lists below.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2015,SC2016
LIMIT=${LIMIT:-1500} PY_LIMIT=1500
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ "$(id -u)" = 0 ] && has setfacl || cannot_run "needs root and setfacl"

cat >"$W/matrix.py" <<'PY'
import os, shutil, subprocess, sys
from tap import in_share, same

M, what = sys.argv[1:]
os.chdir(M)

# ---- users and families ----
# uid, primary group, supplementary groups
USERS = {
    "root": (0, 0, []),
    "the owner": (1001, 1001, []),
    "a member of the group": (1002, 2001, []),
    "a supplementary member": (1003, 1003, [3000, 2001]),
    "the ACL's user": (1004, 1004, []),
    "a member of the ACL's group": (1005, 1005, [2002]),
    "another user": (1006, 1006, []),
}
OWNER, GROUP, SUPP, ACLUSER, ACLGROUP, OTHER = list(USERS)[1:]
ALL = set(USERS)
# family: owner, group, ACL, mode, who reads, who writes (besides root)
FAMILIES = {
    "open": (0, 0, "", 0o644, ALL, set()),
    "secret": (0, 0, "", 0o600, set(), set()),
    "owned": (1001, 0, "", 0o600, {OWNER}, {OWNER}),
    "team": (1001, 2001, "", 0o640, {OWNER, GROUP, SUPP}, {OWNER}),
    "work": (0, 2001, "", 0o660, {GROUP, SUPP}, {GROUP, SUPP}),
    "acl": (0, 0, "u:1004:rw,g:2002:r,m::rw", 0o600, {ACLUSER, ACLGROUP}, {ACLUSER}),
    "masked": (0, 0, "u:1004:rw,m::r", 0o600, {ACLUSER}, set()),
    "barred": (0, 0, "u:1004:-,g:2001:-", 0o666, ALL - {ACLUSER, GROUP, SUPP}, ALL - {ACLUSER, GROUP, SUPP}),
    "drop": (0, 0, "", 0o622, set(), ALL),
}
def reads(user, family):
    return user == "root" or user in FAMILIES[family][4]
def writes(user, family):
    return user == "root" or user in FAMILIES[family][5]

# A shell for each user, which runs each command in a process of its own.
shells = {}
def shell_of(user):
    if user not in shells:
        uid, gid, groups = USERS[user]
        def become():
            os.setgroups(groups), os.setgid(gid), os.setuid(uid)
        shells[user] = subprocess.Popen(["bash"], preexec_fn=become, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env=os.environ)
    return shells[user]

def run(user, command, T="t", F=""):
    """Returns the status and the output, also that of errors, without NUL bytes."""
    shell, said = shell_of(user), b""
    shell.stdin.write(b"export T='%s' F='%s'; said=$(exec 2>&1 </dev/null\n%s\n); printf '%%d\\0%%s\\0' $? \"$said\"\n" %
        (T.encode(), F.encode(), command.encode()))
    shell.stdin.flush()
    while said.count(b"\0") < 2:
        said += os.read(shell.stdout.fileno(), 1 << 16)
    status, text = said[:-1].split(b"\0")
    return int(status), text.decode(errors="replace")

# ---- the paths ----
# Reading one family $F of $T, a table or a snapshot: each succeeds for the users who may read $F and for no others.
READ_ONE = """
cat $T/r/$F/q
cat $T/r/$F/q@7
cat $T/.latest/r/$F/q
ls $T/r/$F
ls $T/.latest/r/$F
stat $T/r/$F/q@7
test -r $T/r/$F/q
tar c $T/r/$F
tail -c 3 $T/r/$F/q
rsync -a $T/r/$F/ $W/out/$UID-$F
getfattr -n user.tabletfs.timestamp $T/r/$F/q
cd $T/r/$F && cat q
cat $T/.scan/family=$F/.rows/r/$F/q@7
cat $T/.scan/family=$F/.latest/r/$F/q
cat $T/.scan/.rows/r/$F/q@7
ls $T/.scan/family=$F/.rows
ls $T/.scan/.rows/r/$F
test "$(ls $T/.scan/value-is=value-of-$F/.rows)" = r
test "$(ls $T/.scan/limit=1/value-is=value-of-$F/.latest)" = r
test "$(ls $T/.scan/value=.*-of-$F/.rows/r)" = $F
test -d $T/.scan/value-is=value-of-$F/.rows/r
test "$(ls $T/.scan/where=$F:q=value-of-$F/.rows 2>/dev/null)" = r
test -d $T/.scan/where=$F:q=value-of-$F/.rows/r
test -d $T/.scan/.rows/r/$F
"""
# The same with a read-write mount only.
READ_ONE_RW = """
cat $T/.scan/family=$F/.tsv
cat $T/.scan/family=$F/.count
cat $T/.scan/family=$F/.csv
test "$(cat $T/.scan/value-is=value-of-$F/.keys)" = r
cat $T/.scan/where=$F:q/.keys
cat $T/.scan/value-is=value-of-$F/.count | grep -q "^cells.1$"
"""
# The same in a table only.
READ_ONE_TABLE = """
printf "check $F:q\\tvalue-of-$F\\ncommit\\n" >$T/r/.mutate
printf "check-match $F:q\\tvalue.*\\ncommit\\n" >$T/r/.mutate
printf "check-absent $F:none\\ncommit\\n" >$T/r/.mutate
cat $T/.changes/from=start/.tsv | grep -q "r.$F:q.7.value-of-$F$"
cat $T/.changes/from=start/.jsonl | grep -q "value-of-$F"
"""
# The same in a snapshot, with a read-only mount too.
READ_ONE_SNAPSHOT = """
cat $T/.since/empty/.rows/r/$F/q@7
ls $T/.since/empty/.rows/r/$F
test -d $T/.since/empty/.rows/r/$F
"""
READ_ALL_SNAPSHOT = """
grep -rh value $T/.since/empty/.rows
"""
# Reading all families: succeeds, and shows value-of-F for each family F that the user may read, and of no other.
READ_ALL = """
cat $T/r/*/q 2>/dev/null; true
grep -rh value $T/r 2>/dev/null; true
grep -rh value $T/.latest/r 2>/dev/null; true
tar c $T/r 2>/dev/null; true
grep -rh value $T/.scan/.rows
grep -rh value $T/.scan/limit=3/.latest
"""
READ_ALL_RW = """
cat $T/.scan/.tsv
cat $T/.scan/.jsonl
cat $T/.scan/.csv
cat $T/.scan/.wide.tsv
cat $T/.scan/.tar
cat $T/r/.row.json
cat $T/r/.row.flat.json
cat $T/.scan/prefix=r/reverse=yes/.tsv
"""
READ_ALL_TABLE = """
cat $T/.export.tar
cat $T/.changes/from=start/.tsv
cat $T/.changes/from=start/.jsonl
head -n $(cat $T/.changes/from=start/.tsv | wc -l) $T/.changes/from=start/.follow
head -n $(cat $T/.changes/from=start/.tsv | wc -l) $T/.changes/from=start/.follow.jsonl
sed 's#^r/\\([a-z]*\\)/q@7$#value-of-\\1#' $T/.snap/s/.since/empty/.changed
sed 's#^r/\\([a-z]*\\)/q@7$#value-of-\\1#' $T/.snap/empty/.since/s/.deleted
"""
# Writing to family $F: succeeds for the users who may write and for no others, and changes cells.  In the tree users must
# read, too, because the directories have x wherever they have r.
WRITE_IN_TREE = """
echo new >t/r/$F/q
echo new >>t/r/$F/q
echo new >t/r/$F/q@9
echo new >t/.latest/r/$F/q
: >t/r/$F/q@7
truncate -s 3 t/r/$F/q
rm -f t/r/$F/q
rm -f t/r/$F/q@7
rm -f t/.latest/r/$F/q
perl -e 'rename("t/r/$ENV{F}/q", "t/r/$ENV{F}/z") or exit 1'
touch t/r/$F/q
"""
WRITE = """
mkdir -p t/.tmp$F/$F && echo new >t/.tmp$F/$F/new && { mv -T t/.tmp$F t/new$F; s=$?; rm -rf t/.tmp$F; exit $s; }
printf "set $F:q\\tnew\\ncommit\\n" >t/r/.mutate
printf "r\\t$F:q\\t9\\tnew\\n" >t/.import
printf '{"row":"r","family":"%s","qualifier":"q","timestamp":9,"value":"new"}\\n' $F >t/.import.jsonl
printf "key,$F:q\\nr,new\\n" >t/.import.csv
printf '{"%s":{"q":"new"}}' $F >t/r/.row.flat.json
printf '{"%s":null}' $F >t/r/.row.flat.json
printf '{"cells":[{"family":"%s","qualifier":"q","value":null}],"merge":true}' $F >t/r/.row.json
tar -C $W/in -cf t/.import.tar ./r/$F/q@9
printf "append $F:q\\tnew\\ncommit\\n" >t/r/.mutate
printf "delete $F:q\\ncommit\\n" >t/r/.mutate
printf "delete $F:q@7\\ncommit\\n" >t/r/.mutate
printf "delete $F:\\ncommit\\n" >t/r/.mutate
mkdir -p t/other && printf "set $F:q\\tnew\\ncommit\\n" >t/other/.mutate; s=$?; rmdir t/other 2>/dev/null; exit $s
"""
# Writing to family $F in ways that also read it.
WRITE_AND_READ = """
printf "increment $F:n\\t1\\ncommit\\n" >t/r/.mutate
"""
# What only root may do, because it concerns families for which no user has permission.
ROOT_ONLY = """
printf "delete row\\ncommit\\n" >t/r/.mutate
cat .tabletfs/log
cat .tabletfs/metrics
echo sync >.tabletfs/ctl
echo flush >t/.ctl
echo "clone copy" >u/.ctl
"""
# For the owner of the table, too, who is the owner here.
TABLE_OWNER = """
cat u/.tablets
cat u/.splits
cat u/.splits.3
cat u/.snap/s/.tablets
cat u/.snap/s/.splits
cat u/.snap/s/.splits.3
cat u/.snap/s/usage
cat u/.families/f/usage
echo flush >u/.ctl
mkdir u/.families/more && rmdir u/.families/more
mkdir u/.groups/more && rmdir u/.groups/more
mkdir u/.snap/more && rmdir u/.snap/more
echo maxversions=9 >u/.families/f/gc
perl -e 'rename("u/.families/f", "u/.families/g") && rename("u/.families/g", "u/.families/f") or exit 1'
cp u/.schema u/.tmp$UID && mv u/.tmp$UID u/.schema
s=$(cat u/.schema) && rm u/.schema && echo "$s" >u/.schema
cat u/.schema >u/.tmp$UID; cat u/.tmp$UID >u/.schema; s=$?; rm -f u/.tmp$UID; exit $s
touch u/.schema
echo -- >u/.scripts/more.lua && rm u/.scripts/more.lua
echo -- >u/.scripts/.tmp$UID && mv u/.scripts/.tmp$UID u/.scripts/more.lua && rm u/.scripts/more.lua
touch u/.scripts/s.lua
"""
# For all who may search the table.
TABLE_SEARCH = """
test "$(cat u/.scripts/s.lua)" = --
test "$(ls u/.scripts)" = s.lua
test "$(cat u/.snap/s/.scripts/s.lua)" = --
"""

def lines(text):
    return [line for line in text.split("\n") if line]

# ---- the cells ----
def restore():
    for f in FAMILIES:
        os.makedirs("t/r/%s" % f, exist_ok=True)
        for d in ("t/r/%s" % f, "t/other/%s" % f, "t/new%s/%s" % (f, f)):
            for name in os.listdir(d) if os.path.isdir(d) else ():
                if "/r/" not in d or name != "q@7":
                    os.unlink(d + "/" + name)
        with open("t/r/%s/q@7" % f, "w") as cell:
            cell.write("value-of-%s" % f)
    for r in ("other",) + tuple("new" + f for f in FAMILIES):
        shutil.rmtree("t/" + r, ignore_errors=True)

def state():
    """All cells of the table, as root reads them."""
    cells = {}
    for d, _, names in os.walk("t"):
        for name in names:
            path = d + "/" + name
            with open(path, "rb") as f:
                cells[path] = (os.stat(path).st_mtime_ns, f.read())
    return cells

def make():
    os.mkdir("t")
    with open("t/.schema", "w") as schema:
        schema.write('changes = "7d"; families = ();')
    os.chmod("t", 0o777)
    os.mkdir("t/r")
    for f, (uid, gid, acl, mode, r, w) in FAMILIES.items():
        d = "t/.families/" + f
        os.mkdir(d)
        os.chown(d, uid, gid)
        os.chmod(d, mode)
        if acl:
            subprocess.check_call(["setfacl", "-m", acl, d])
        os.mkdir("t/r/" + f)
    os.mkdir("t/.snap/empty")
    restore()
    os.mkdir("t/.snap/s")
    os.mkdir(".snap/all")
    os.makedirs("u/.families/f")
    os.chown("u", USERS[OWNER][0], 0)
    os.chmod("u", 0o777)
    with open("u/.scripts/s.lua", "w") as script:
        script.write("--")
    os.mkdir("u/.snap/s")

# ---- the matrix ----
# With TEST_SHARE=N each path is tried with one family in N, another one for the next user and for the next path.
tried = 0
def share(families):
    global tried
    tried += 1
    return [f for i, f in enumerate(families) if in_share(tried + i)]
def each_family(user, command, T):
    for f in share(FAMILIES):
        yield (f,) + run(user, command, T, f)

# EACH=all: each path as each user, for each family, which takes minutes.  By default those paths of snapshots, of a
# read-only mount and of writes that others of their kind resemble are tried by fewer users or for fewer families.
ALL_PATHS = os.environ.get("EACH") == "all"
def users_of(T):
    return USERS if ALL_PATHS or T == "t" and what == "rw" else ["root", SUPP, ACLGROUP, OTHER]
def written_families():
    return FAMILIES if ALL_PATHS else ["open", "team", "acl", "masked", "barred", "drop"]

def read_one(commands, T):
    for command in commands:
        wrong = []
        for user in users_of(T):
            for f, status, text in each_family(user, command, T):
                if (status == 0) != reads(user, f) or (not reads(user, f) and "value-of-" + f in text):
                    wrong.append("%s, %s: %d %s" % (user, f, status, text[:200]))
        same(wrong, [], "%s: %s" % (T, command))

def read_all(commands, T):
    for command in commands:
        wrong = []
        for user in users_of(T):
            status, text = run(user, command, T=T)
            seen = {f for f in FAMILIES if "value-of-" + f in text}
            if status or seen != {f for f in FAMILIES if reads(user, f)}:
                wrong.append("%s: %d %s %s" % (user, status, sorted(seen), text[:200]))
        same(wrong, [], "%s: %s" % (T, command))

def write(commands, may):
    for command in commands:
        wrong = []
        restore()
        before = state()
        for user in USERS:
            for f in share(written_families()):
                status, text = run(user, command, F=f)
                changed = state() != before
                if (status == 0) != may(user, f) or changed != may(user, f):
                    wrong.append("%s, %s: %d %s%s" % (user, f, status, "changed " if changed else "", text[:200]))
                if changed:
                    restore()
        same(wrong, [], command)

def replace_row(text):
    """Without a sequence, the text replaces the cells of the families that the user may read and write."""
    wrong = []
    for user in USERS:
        restore()
        status, said = run(user, "echo '%s' >t/r/.row.json" % text)
        gone = {f for f in FAMILIES if not os.path.exists("t/r/%s/q" % f)}
        if status or gone != {f for f in FAMILIES if reads(user, f) and writes(user, f)}:
            wrong.append("%s: %d %s %s" % (user, status, sorted(gone), said[:200]))
    same(wrong, [], "echo TEXT >t/r/.row.json")

def only(commands, users):
    for command in commands:
        wrong = []
        for user in reversed(list(USERS)):
            status, text = run(user, command)
            if (status == 0) != (user in users):
                wrong.append("%s: %d %s" % (user, status, text[:200]))
        same(wrong, [], command)

if what == "rw":
    make()
for T in ("t", "t/.snap/s", ".snap/all/t") if what == "rw" else ("t", "t/.snap/s"):
    rw, table, snapshot = what == "rw", T == "t" and what == "rw", T != "t"
    read_one(lines(READ_ONE) + (lines(READ_ONE_RW) if rw else []) + (lines(READ_ONE_TABLE) if table else []) +
        (lines(READ_ONE_SNAPSHOT) if snapshot else []), T)
    read_all(lines(READ_ALL) + (lines(READ_ALL_RW) if rw else []) + (lines(READ_ALL_TABLE) if table else []) +
        (lines(READ_ALL_SNAPSHOT) if snapshot else []), T)
if what == "rw":
    write(lines(WRITE_IN_TREE), lambda u, f: reads(u, f) and writes(u, f))
    write(lines(WRITE), writes)
    write(lines(WRITE_AND_READ), lambda u, f: reads(u, f) and writes(u, f))
    replace_row('{"cells": []}')
    only(lines(TABLE_OWNER), {"root", OWNER})
    only(lines(TABLE_SEARCH), ALL)
    os.chmod("u", 0o700)
    only(lines(TABLE_SEARCH), {"root", OWNER})
    restore()
    only(lines(ROOT_ONLY), {"root"})
    restore()
for shell in shells.values():
    shell.stdin.close()
    shell.wait()
PY
ok "mount -o allow_other" mount_store -o allow_other

run() { py "$M" "$1" <"$W/matrix.py"; }
export W
mkdir -m 1777 "$W/out"
for f in open secret owned team work acl masked barred drop; do
	mkdir -p "$W/in/r/$f"
	echo new >"$W/in/r/$f/q@9"
	touch -d @0.000009 "$W/in/r/$f/q@9"
done
run rw
unmount_store
ok "mount -o ro" mount_store -o allow_other,ro
run ro
done_testing
