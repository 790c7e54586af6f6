#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On a mount of one user the daemon checks modes and owners, and each call returns what it returns if the kernel checks
# them (-o default_permissions): with and without names that the kernel holds, by path and from a working directory.
# shellcheck source=t/lib/mount.sh disable=SC2119
[ "$(id -u)" = 0 ] && [ -z "${ALONE:-}" ] && unshare -m true 2>/dev/null && ALONE=1 exec unshare -m --propagation private "${SRC:-.}/t/lib/own_mounts" "$0" "$@"
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -n "${ALONE:-}" ] && has setpriv || cannot_run "needs root, setpriv and mount namespaces"

# Users may not open /dev/fuse on each machine.
mknod -m 666 "$W/fuse" c 10 229 && mount --bind "$W/fuse" /dev/fuse && : >/dev/fuse || cannot_run "no device can be made in $W"
{ cat /etc/passwd; echo "owner:x:1001:1001::/:/bin/sh"; } >"$W/passwd" && mount --bind "$W/passwd" /etc/passwd
owner() { setpriv --reuid=1001 --regid=1001 --groups=2001 -- "$@"; }

# The store is made by root, with families of others, and given to user 1001.
ok "mount" mount_store
py "$M" <<'PY'
import os, sys
os.chdir(sys.argv[1])
for table in "tuv":
    os.mkdir(table)
    for name, uid, gid, mode in (("f", 1001, 1001, 0o644), ("r", 1001, 1001, 0o400), ("w", 1001, 1001, 0o200), ("n", 1001, 1001, 0),
            ("theirs", 1002, 1002, 0o644), ("group", 1002, 2001, 0o660), ("notgroup", 1002, 2001, 0o606), ("closed", 1002, 1002, 0o600),
            ("mine", 1001, 1002, 0o066), ("read", 1002, 1002, 0o604)):
        d = table + "/.families/" + name
        os.mkdir(d)
        os.makedirs("%s/row/%s" % (table, name))
        for cell in ("q@5", "q@7", "p@9", "x@3"):
            with open("%s/row/%s/%s" % (table, name, cell), "w") as f:
                f.write("12345")
        os.chown(d, uid, gid)
        os.chmod(d, mode)
    os.chown(table, 1001 if table != "v" else 1002, 1001)
    os.chmod(table, 0o755 if table != "v" else 0o1777)
PY
unmount_store
cp -a "$D" "$W/store"
chmod 755 "$W"

cat >"$W/calls.py" <<'PY'
import errno, os, stat, subprocess, sys, time
top = sys.argv[1]
R, W, RW, T, C, X = os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_TRUNC, os.O_CREAT, os.O_EXCL

def call(what, fn, *args, **kw):
    try:
        got = fn(*args, **kw)
        if isinstance(got, int) and not isinstance(got, bool) and fn in (os.open,):
            os.close(got)
        text = "ok"
        if fn is os.access:
            text = str(got)
    except OSError as e:
        text = errno.errorcode[e.errno]
    print(what, text, flush=True)

def child(fn):
    pid = os.fork()
    if pid == 0:
        try:
            fn()
        except OSError as e:
            print("child", errno.errorcode[e.errno], flush=True)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)

def execs(what, path):
    def fn():
        try:
            os.execv(path, [path])
        except OSError as e:
            print(what, errno.errorcode[e.errno], flush=True)
    child(fn)

def looks(name, d):
    call(name + " list", os.listdir, d)
    for leaf in ("q@7", "q", "none"):
        p = d + "/" + leaf
        call(name + " stat " + leaf, os.stat, p)
        for flags, how in ((R, "R"), (W, "W"), (RW, "RW"), (R | T, "RT"), (W | os.O_APPEND, "WA"), (os.O_PATH, "PATH")):
            call("%s open %s %s" % (name, leaf, how), os.open, p, flags)
        for bits in (os.F_OK, os.R_OK, os.W_OK, os.X_OK, os.R_OK | os.W_OK):
            call("%s access %s %d" % (name, leaf, bits), os.access, p, bits)
        call(name + " getxattr " + leaf, os.getxattr, p, "user.tabletfs.row")
        call(name + " truncate " + leaf, os.truncate, p, 5)
    for bits in (os.F_OK, os.R_OK, os.W_OK, os.X_OK):
        call("%s access dir %d" % (name, bits), os.access, d, bits)
    call(name + " statvfs", os.statvfs, d)
    child(lambda: call(name + " chdir", os.chdir, d))
    execs(name + " exec", d + "/q@7")

def changes(name, d):
    call(name + " create", os.open, d + "/new", W | C)
    call(name + " create again", os.open, d + "/new", W | C)
    call(name + " create excl", os.open, d + "/new", W | C | X)
    call(name + " create version", os.open, d + "/v@11", RW | C | X, 0)
    call(name + " scratch", os.open, d + "/.s", RW | C | X, 0o400)
    for flags, how in ((R, "R"), (W, "W"), (RW | T, "RWT"), (W | C, "WC")):
        call("%s scratch open %s" % (name, how), os.open, d + "/.s", flags)
    call(name + " scratch chmod", os.chmod, d + "/.s", 0o700)
    execs(name + " scratch exec", d + "/.s")
    call(name + " scratch chown", os.chown, d + "/.s", 1002, -1)
    call(name + " scratch chgrp", os.chown, d + "/.s", -1, 2001)
    call(name + " scratch chgrp other", os.chown, d + "/.s", -1, 3000)
    call(name + " setxattr", os.setxattr, d + "/q@7", "user.x", b"1")
    call(name + " removexattr", os.removexattr, d + "/q@7", "user.x")
    call(name + " setxattr of the key", os.setxattr, d + "/q@7", "user.tabletfs.row", b"1")
    call(name + " utime now", os.utime, d + "/q")
    call(name + " utime", os.utime, d + "/q", (5, 50))
    call(name + " utime of a version", os.utime, d + "/q@7", (5, 50))
    call(name + " chmod cell", os.chmod, d + "/q@7", 0o666)
    call(name + " chmod same", os.chmod, d + "/q@7", stat.S_IMODE(os.stat(top + "/t").st_mode))
    call(name + " chown cell", os.chown, d + "/q@7", 1001, 1001)
    call(name + " symlink", os.symlink, "x", d + "/l")
    call(name + " link", os.link, d + "/q@7", d + "/l")
    call(name + " fifo", os.mkfifo, d + "/fifo")
    call(name + " node", os.mknod, d + "/node", 0o600 | stat.S_IFREG)
    call(name + " mkdir", os.mkdir, d + "/dir")
    call(name + " mkdir over", os.mkdir, d + "/q@7")
    call(name + " scratch dir", os.mkdir, d + "/.d", 0o300)
    call(name + " list scratch dir", os.listdir, d + "/.d")
    call(name + " file in scratch dir", os.open, d + "/.d/a", W | C)
    call(name + " chmod scratch dir", os.chmod, d + "/.d", 0o400)
    call(name + " file of it", os.stat, d + "/.d/a")
    call(name + " list scratch dir again", os.listdir, d + "/.d")
    call(name + " file there", os.open, d + "/.d/a", W)
    call(name + " unlink there", os.unlink, d + "/.d/a")
    call(name + " chmod back", os.chmod, d + "/.d", 0o700)
    call(name + " unlink there now", os.unlink, d + "/.d/a")
    call(name + " rmdir", os.rmdir, d + "/.d")
    call(name + " rename", os.rename, d + "/.s", d + "/renamed")
    call(name + " rename over", os.rename, d + "/p@9", d + "/x@3")
    call(name + " rename out", os.rename, d + "/q@7", top + "/t/row/f/from_" + name.split()[-1] + "@7")
    call(name + " source", os.open, top + "/t/row/mine/source@5", W | C)
    call(name + " rename in", os.rename, top + "/t/row/mine/source@5", d + "/in@5")
    call(name + " unlink", os.unlink, d + "/q@5")
    call(name + " unlink none", os.unlink, d + "/none")

families = ("f", "r", "w", "n", "theirs", "group", "notgroup", "closed", "mine", "read")
def controls(name, t):
    for f in (".schema", ".ctl", ".stats", ".families/f/gc", ".families/closed/gc", ".families/f", ".families"):
        for flags, how in ((R, "R"), (W, "W"), (RW, "RW"), (W | T, "WT")):
            call("%s %s %s" % (name, f, how), os.open, t + "/" + f, flags)
        call("%s access %s" % (name, f), os.access, t + "/" + f, os.W_OK)
        call("%s list %s" % (name, f), os.listdir, t + "/" + f)
    call(name + " chmod of a family", os.chmod, t + "/.families/theirs", 0o666)
    call(name + " chgrp of a family", os.chown, t + "/.families/f", -1, 2001)
    call(name + " chgrp to another", os.chown, t + "/.families/f", -1, 3000)
    call(name + " chown of a family", os.chown, t + "/.families/f", 1002, -1)
    call(name + " new family", os.mkdir, t + "/.families/new")
    call(name + " chown of the table", os.chown, t, 1002, -1)
    call(name + " utime of the table", os.utime, t)
    call(name + " utime of a row", os.utime, t + "/row", (1, 1))

for t in "tuv":
    for f in families:
        looks(t + " " + f, "%s/%s/row/%s" % (top, t, f))
    controls(t, top + "/" + t)
for mode in (0o755, 0o600, 0o400, 0o300, 0o100, 0o200, 0o500, 0, 0o1777):
    # The kernel holds all names.
    os.chmod(top + "/u", 0o755)
    subprocess.call(["ls", "-lR", top + "/u"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    home = os.open(top + "/u/row/f", R)
    os.chmod(top + "/u", mode)
    name = "u %o" % mode
    if not mode & 0o100: # names are dropped just after chmod of their table
        end = time.monotonic() + 60
        while os.path.exists(top + "/u/row") and time.monotonic() < end:
            time.sleep(0.001)
    for p in ("u/row", "u/row/f", "u/row/f/q@7", "u/row/f/q", "u/.schema", "u/.families", "u/.families/f/gc", "u/none", "u"):
        call("%s stat %s" % (name, p), os.stat, top + "/" + p)
        call("%s open %s" % (name, p), os.open, top + "/" + p, R)
    call(name + " list", os.listdir, top + "/u")
    subprocess.call(["ls", "-lR", top + "/u"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    call(name + " row after the listing", os.stat, top + "/u/row")
    call(name + " new row", os.mkdir, top + "/u/new%o" % mode)
    call(name + " relative", os.open, "q@7", R, dir_fd=home)
    call(name + " relative list", os.listdir, home)
    call(name + " remove", os.rmdir, top + "/u/new%o" % mode)
    call(name + " rename row", os.rename, top + "/u/row", top + "/u/row2")
    call(name + " rename back", os.rename, top + "/u/row2", top + "/u/row")
    os.close(home)
os.chmod(top + "/u", 0o755)
for mode in (0o644, 0, 0o200, 0o400):
    os.chmod(top + "/u/.families/f", 0o644)
    subprocess.call(["ls", "-lR", top + "/u"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    home = os.open(top + "/u/row/f", R)
    os.chmod(top + "/u/.families/f", mode)
    looks("u f %o" % mode, top + "/u/row/f")
    call("u f %o relative" % mode, os.stat, "q@7", dir_fd=home)
    os.close(home)
for t in "tuv":
    for f in families:
        changes(t + " " + f, "%s/%s/row/%s" % (top, t, f))
    call(t + " drop", os.rmdir, top + "/" + t + "/row")
call("root list", os.listdir, top)
call("root mkdir", os.mkdir, top + "/w")
call("root rmdir", os.rmdir, top + "/w")
PY

# run_calls FILE OPTION...: on a fresh copy of the store, as its user
run_calls() {
	local out=$1
	shift
	rm -rf "$D"
	cp -a "$W/store" "$D"
	chown -R 1001:1001 "$D"
	chown 1001:1001 "$M"
	owner "$TABLETFS" -f "$D" "$M" "$@" >"$W/daemon.out" 2>"$W/daemon.err" </dev/null &
	daemon=$!
	wait_for "the mount" eval "! runs $daemon || owner test -d $M/t/.families"
	grep -F " $M " /proc/mounts >"$W/options"
	owner python3 "$W/calls.py" "$M" >"$out" 2>"$W/calls.err"
}
run_calls "$W/kernel" -o default_permissions
# If two errors apply, for example of rmdir(2) of a file in a directory that may not be written, the kernel chooses.
like "$(cat "$W/options")" default_permissions "the kernel checks if it is asked to"
is "$(cat "$W/calls.err")" "" "  and all calls were made"
owner fusermount3 -u "$M"
wait_daemon
run_calls "$W/daemon"
unlike "$(cat "$W/options")" default_permissions "else the daemon does"
is "$(cat "$W/calls.err")" "" "  and all calls were made"
diff "$W/kernel" "$W/daemon" >"$W/differences"
[ -z "${KEEP:-}" ] || cp "$W/differences" "$KEEP"
is "$(cat "$W/differences")" "" "  with the same results ($(wc -l <"$W/kernel"), $(grep -c EACCES "$W/kernel") refused)"
owner fusermount3 -u "$M"
wait_daemon
done_testing
