#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# When chmod, chown, setfacl or a write of .schema has returned, the next access of another user obeys it: by path, from
# a working directory or an open directory in the family, with all attributes cached, and while others list the tree.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2015,SC2016
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ "$(id -u)" = 0 ] && has setfacl || cannot_run "needs root and setfacl"

ok "mount -o allow_other" mount_store -o allow_other
py "$M" "${ROUNDS:-40}" <<'PY'
import os, signal, subprocess, sys, traceback
from tap import same

M, rounds = sys.argv[1], int(sys.argv[2])
os.chdir(M)
os.mkdir("t")
for f in "fg":
    os.mkdir("t/.families/" + f)
for r in range(20):
    for f in "fg":
        os.makedirs("t/r%d/%s" % (r, f))
        with open("t/r%d/%s/q@7" % (r, f), "w") as cell:
            cell.write("x")

def as_user(fn):
    """Runs fn in a process of user 1001.  Returns its id and two files, for lines to it and from it."""
    ours, theirs = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([2001]), os.setgid(1001), os.setuid(1001)
            os.close(ours[1]), os.close(theirs[0])
            fn(os.fdopen(ours[0]), os.fdopen(theirs[1], "w"))
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.close(ours[0]), os.close(theirs[1])
    return pid, os.fdopen(ours[1], "w"), os.fdopen(theirs[0])

def say(out, text):
    out.write(text + "\n")
    out.flush()

def can(fn, *a, **k):
    try:
        fd = fn(*a, **k)
        if isinstance(fd, int):
            os.close(fd)
        return "y"
    except PermissionError:
        return "n"

def attempts(lines, out):
    os.chdir("t/r3/f")
    d = os.open(M + "/t/r3/f", os.O_RDONLY)
    up = os.open(M + "/t", os.O_PATH)
    say(out, "begins")
    for line in lines:
        how = os.O_RDONLY if line.strip() == "read" else os.O_WRONLY
        got = [can(os.open, "q@7", how), can(os.open, "q", how), can(os.open, "q@7", how, dir_fd=d),
            can(os.open, "q", how, dir_fd=d), can(os.open, M + "/t/r3/f/q@7", how), can(os.open, M + "/t/r4/f/q", how),
            can(os.open, M + "/t/.latest/r3/f/q", how), can(os.open, "r6/f/q@7", how, dir_fd=up)]
        if how == os.O_RDONLY:
            got += [can(os.listdir, M + "/t/r5/f"), can(os.listdir, M + "/t/.latest/r5/f")]
        say(out, "".join(got))

os.chmod("t/.families/f", 0o644)
pid, ask, answer = as_user(attempts)
same(answer.readline(), "begins\n", "a user is in the family") # which is closed to him from here on

def expect(what, yes):
    say(ask, what)
    got = answer.readline().strip()
    return got == ("y" if yes else "n") * (10 if what == "read" else 8) or "wanted %s: %s" % (yes, got)

def chmod(mode):
    return lambda: os.chmod("t/.families/f", mode)
def setfacl(*args):
    return lambda: subprocess.check_call(("setfacl",) + args + ("t/.families/f",))
def chown(uid, gid):
    return lambda: os.chown("t/.families/f", uid, gid)
def schema(text):
    def write():
        with open("t/.schema", "w") as f:
            f.write('families = ( { name = "f"; %s }, { name = "g"; } );\n' % text)
    return write
def reset():
    subprocess.check_call(["setfacl", "-b", "t/.families/f"])
    os.chown("t/.families/f", 0, 0)
    os.chmod("t/.families/f", 0o640)

pairs = (
    ("chmod of the family", chmod(0o600), chmod(0o644), "read"),
    ("chmod, to write", chmod(0o644), chmod(0o666), "write"),
    ("setfacl of a user", setfacl("-b"), setfacl("-m", "u:1001:r"), "read"),
    ("setfacl of a supplementary group", setfacl("-b"), setfacl("-m", "g:2001:rw"), "write"),
    ("chown", chown(0, 0), chown(1001, 0), "read"),
    ("chgrp", chown(0, 0), chown(0, 2001), "read"),
    (".schema", schema('mode = "0600";'), schema('mode = "0604";'), "read"),
    ("an ACL in .schema", schema('mode = "0640";'), schema('mode = "0640"; acl = "u:1001:r--"; '), "read"),
    ("the mask", chmod(0o600), chmod(0o660), "write"),
)
def all_pairs(times):
    for name, deny, allow, what in pairs:
        wrong = []
        reset()
        if name == "the mask":
            setfacl("-m", "u:1001:rw")()
        for i in range(times):
            deny()
            wrong.append(expect(what, False))
            allow()
            wrong.append(expect(what, True))
        same([w for w in wrong if w is not True], [], "%s, %d times" % (name, times))
all_pairs(3)

# The same while other processes list and read everything, so that answers with old attributes are under way.
def lister(lines, out):
    os.setsid()
    say(out, "begins")
    while True:
        subprocess.call("ls -lR %s/t %s/t/.latest; cat %s/t/r*/f/q* %s/t/.latest/r*/f/*" % ((M,) * 4), shell=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
listers = [as_user(lister) for i in range(2)]
for p, a, b in listers:
    b.readline()
all_pairs(rounds)
for p, a, b in listers:
    os.killpg(p, signal.SIGKILL)
    os.waitpid(p, 0)

# An open file stays open.
def keeps_open(lines, out):
    fd = os.open("t/r1/f/q@7", os.O_RDONLY)
    say(out, "open")
    lines.readline()
    say(out, "%r" % os.read(fd, 10))
reset()
os.chmod("t/.families/f", 0o644)
p, a, b = as_user(keeps_open)
b.readline()
os.chmod("t/.families/f", 0o600)
say(a, "")
same(b.readline(), "b'x'\n", "a file that was opened before is still read")
os.waitpid(p, 0)
ask.close()
os.waitpid(pid, 0)
PY
done_testing
