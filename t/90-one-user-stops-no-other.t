#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One user must not stop the others: rows that many requests wait for, large
# mutations, clause directories, open imports, directories that are held in the
# kernel, and the memory of the daemon's control group.
# shellcheck source=t/lib/mount.sh
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "bounds are the engine's"
[ "$(id -u)" = 0 ] || cannot_run "needs root, for several users"

chmod 755 "$W"
ok "mount for all users" mount_store -o allow_other
mkdir -p "$M/t/r/f" "$M/other/x/f"
echo a >"$M/other/x/f/a"
chmod 777 "$M/t" "$M/t/.families/f"
export M daemon

echo "# ---- a mutation ----"
py <<'EOF2'
from tap import *
import errno
row = M + "/t/r/.mutate"
def mutate(lines):
    fd = os.open(row, os.O_RDWR)
    data = ("".join(line + "\n" for line in lines) + "commit\n").encode()
    try:
        while data:
            data = data[os.write(fd, data[:1 << 17]):]
        return 0
    except OSError as e:
        return e.errno
    finally:
        os.close(fd)
n = 30000
same(mutate("set f:q%d\tv" % i for i in range(65536)), 0, "65,536 lines are applied")
same(mutate("set f:q%d\tv" % i for i in range(65537)), errno.E2BIG, "65,537 are refused")
same(mutate("delete f:q%d" % i for i in range(65536)), 0, "and 65,536 columns are deleted")
# Compiling takes half a millisecond each.
same(mutate("check-match f:q\t(?:a{0,9}b{0,9}c{0,9}d{0,9}){0,900}" for i in range(65536)), errno.ECANCELED, "a pattern whose cell is not there fails the mutation")
spill(M + "/t/r/f/q", b"")
same(mutate("check-match f:q\t(?:a{0,9}b{0,9}c{0,9}d{0,9}){0,900}" for i in range(65536)), errno.ETIME, "65,536 patterns are not compiled for longer than 5 s")
os.unlink(M + "/t/r/f/q")
top = 4 * 10**15
# A quadratic cost takes minutes; PY_LIMIT ends it.
same(mutate(["increment f:c%d\t1" % i for i in range(n)] + ["delete f:"] * n), 0, "a family is deleted many times")
same(mutate(["increment f:c%d\t1" % i for i in range(n)] + ["delete row"] * n), 0, "a row is deleted many times")
os.makedirs(M + "/t/r/f", exist_ok=True)
same(mutate(["append f:a\t"] + ["set f:a@%d\tv" % (top + i) for i in range(n)]), 0, "versions are set in rising order")
same(mutate("delete f:a@%d" % (top + i) for i in range(n)), 0, "versions are deleted one by one")
same(mutate(["delete f:b@%d" % (top + i) for i in range(n)] + ["set f:b@%d\t" % top] + ["append f:b\t"] * n), 0,
    "the newest is looked up below deleted versions")
EOF2

echo "# ---- many wait for one row ----"
mkdir -p "$M/t/r/f"
py <<'EOF2'
from tap import *
import errno, signal, time
data = ("".join("increment f:q%d\t1\n" % i for i in range(8000)) + "commit\n").encode()
def waiter(uid):
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.setgid(uid)
        os.setuid(uid)
        while True:
            try:
                fd = os.open(M + "/t/r/.mutate", os.O_RDWR)
                left = data
                while left:
                    left = left[os.write(fd, left[:1 << 17]):]
            except OSError as e:
                if e.errno not in (errno.ENOMEM, errno.EINTR):
                    os._exit(0)
            os.close(fd)
    return pid
waiters = [waiter(1000 + i % 5) for i in range(100)]
worst = 0
end = time.monotonic() + 8
while time.monotonic() < end:
    start = time.monotonic()
    os.listdir(M + "/other/x")
    os.stat(M + "/other/x/f/a")
    spill(M + "/other/x/f/b", b"b")
    worst = max(worst, time.monotonic() - start)
print("the slowest ls, stat and write of another user: %.2f s" % worst)
ok(worst < 5, "100 processes of five users wait for a row, and no other user waits for them")
start = time.monotonic()
for pid in waiters[:50]:
    os.kill(pid, signal.SIGINT)
for pid in waiters[:50]:
    os.waitpid(pid, 0)
took = time.monotonic() - start
ok(took < 60, "^C ends half of them")
print("after %.2f s" % took)
with open(os.environ["W"] + "/waiters", "w") as f:
    f.write(" ".join(map(str, waiters[50:])))
EOF2
read -ra waiters <"$W/waiters"
start=$(date +%s%3N)
kill "$daemon"
wait "$daemon"
is $? 0 "SIGTERM ends the daemon, while the others wait"
echo "# after $(($(date +%s%3N) - start)) ms"
daemon=
kill -9 "${waiters[@]}" 2>/dev/null

echo "# ---- directories of clauses ----"
ok "mount" mount_store -o allow_other
export daemon
py <<'EOF2'
from tap import *
import errno, resource
def rss():
    return int(next(l for l in open("/proc/%s/status" % os.environ["daemon"]) if l.startswith("VmRSS")).split()[1]) / 1024
here = os.getcwd()
before = rss()
os.chdir(M + "/t/.scan")
for i in range(1000):
    os.chdir((("row=" if i == 0 else "") + "a" * 300)[:253] + "%")
grown = rss() - before
print("a path of 1,000 directories of clauses: %.1f MiB" % grown)
ok(os.environ.get("SANITIZED") or grown < 10, "a path of 1,000 directories of clauses is stored once")
os.chdir(here)
resource.setrlimit(resource.RLIMIT_NOFILE, (12000, 12000))
def as_other(fn):
    """Whether fn returns true for another user."""
    pid = os.fork()
    if pid == 0:
        os.setgid(65534)
        os.setuid(65534)
        os._exit(0 if fn() else 1)
    return os.waitpid(pid, 0)[1] == 0
def use_all():
    held = []
    try:
        for i in range(10001):
            held.append(os.open(M + "/t/.scan/limit=%d" % (i + 1), os.O_RDONLY))
    except OSError as e:
        return e.errno == errno.ENOSPC and len(held) == 10000
def use_next():
    return errno_of(os.stat, M + "/t/.scan/limit=10002") == "0"
ok(as_other(use_all), "a user may use 10,000 directories of clauses, and not one more")
ok(wait_until(lambda: as_other(use_next), True), "  and others soon after they are closed")
# The kernel drops them when the daemon asks for it, on a busy machine later than the next ones are used.
left = [i for i in range(15000) if not wait_until(lambda: errno_of(os.stat, M + "/t/.scan/after=%d" % i), "0")]
same(left, [], "15,000 that are not in use any more are no limit")
EOF2
like "$(t tail -n 20 "$M/.tabletfs/log")" "at most 10,000 directories" "the log has the reason"

echo "# ---- long scans ----"
py <<'EOF2'
from tap import *
for i in range(32):
    os.makedirs(M + "/long/r%d/f" % i)
    with open(M + "/long/r%d/f/q" % i, "wb") as f:
        f.write(b"a" * 1000000)
def scan(uid, clause):
    """Starts a process that counts as that user."""
    pid = os.fork()
    if pid == 0:
        os.setgid(uid)
        os.setuid(uid)
        try:
            os._exit(0 if open(M + "/long/.scan/%s/.count" % clause).read().startswith("rows\t") else 1)
        except OSError as e:
            print("# %s: %s" % (clause, e), file=sys.stderr)
            os._exit(1)
    return pid
# A pattern for each scan, because what one scan has counted is kept.
long = [scan(1000, "value=.*b%d.*" % i) for i in range(40)]
short = [os.waitpid(scan(1001 + i, "limit=%d" % (i + 1)), 0)[1] for i in range(3)]
waiting = [pid for pid in long if os.waitpid(pid, os.WNOHANG)[0] == 0]
print("of 40 long scans %d had not ended after the short ones" % len(waiting))
same(short, [0, 0, 0], "the scans of three other users are answered")
ok(len(waiting) > 16, "  before the long scans of one user")
same([os.waitpid(pid, 0)[1] for pid in waiting], [0] * len(waiting), "  which are all answered")
EOF2

echo "# ---- open imports ----"
threads() { ls "/proc/$daemon/task" | wc -l; }
mkdir -p "$M/i/r/f"
before=$(threads)
py <<'EOF2'
from tap import *
import errno
threads = lambda: len(os.listdir("/proc/%s/task" % os.environ["daemon"]))
names = [".import", ".import.jsonl", ".import.tar", ".import.csv"]
before = threads()
held = [os.open(M + "/i/" + names[i % 4], os.O_WRONLY) for i in range(64)]
ok(threads() <= before + 1, "open imports have no threads before their first byte")
try:
    os.open(M + "/i/.import", os.O_WRONLY)
    err = 0
except OSError as e:
    err = e.errno
same(err, errno.EAGAIN, "one more is refused")
for i, fd in enumerate(held):
    if i < 12 and i % 4 == 0:
        os.write(fd, b"r%d\tf:q\t\tv\n" % i)
print("threads with three that are written to: %d, before: %d" % (threads(), before))
ok(threads() <= before + 10, "those that are written to share their threads")
for fd in held:
    os.close(fd)
EOF2
soon "cat $M/i/.scan/.count | head -n 1" "rows	3" "what was written is stored"
like "$(t tail -n 5 "$M/.tabletfs/log")" "/i/.import: a user has at most 64 open imports" "the log has the reason"
soon "exec 8>$M/i/.import && exec 8>&- && echo opened" opened "after they are closed, an import can be opened"

echo "# ---- unfinished mutations ----"
py <<'EOF2'
from tap import *
import errno
def begin(uid):
    """Opens a mutation as that user, and writes 60 MiB without a commit."""
    os.seteuid(uid)
    try:
        fd = os.open(M + "/t/r/.mutate", os.O_WRONLY)
    finally:
        os.seteuid(0)
    head = b"set f:large\t"
    os.write(fd, head + b"v" * ((1 << 17) - len(head)))
    try:
        for i in range(60 * 8 - 1):
            os.write(fd, b"v" * (1 << 17))
    except OSError as e:
        os.close(fd)
        return e.errno
    held.append(fd)
    return 0
os.makedirs(M + "/t/r", exist_ok=True)
held = []
same([begin(1000) for i in range(3)], [0, 0, errno.ENOMEM], "a user may have 128 MiB of unfinished mutations")
same(begin(1001), 0, "  and another user still begins one")
same(os.write(held[-1], b"\nset f:small\tdone\ncommit\n") > 0, True, "  and commits it")
for fd in held:
    os.close(fd)
EOF2
soon "cat $M/t/r/f/small" done "  as a reader sees"
unmount_store

echo "# ---- a directory that a user holds in the kernel ----"
# hold NAME DIRECTORY: sets $holder.
hold() {
	mkdir -p "$W/$1"
	"$W/hold" "$W/$1" "$2" >"$W/$1.out" 2>"$W/$1.err" &
	holder=$!
	wait_for "the directory is held" grep -q held "$W/$1.out"
}
# works DESC: changes that notify the kernel, in the held directory's row, in others, and in all views.
works() {
	T=20 ok "$1: a mutation in its row" t sh -c "printf 'delete f:a@1\nset f:n\tv\ncommit\n' >$held/.mutate"
	T=20 ok "  a mutation elsewhere" t sh -c "printf 'delete f:b@1\ncommit\n' >$other/x/.mutate"
	T=20 ok "  other commands elsewhere" t sh -c "ls $other/x/f && echo x >$other/x/f/new && cat $other/x/f/new &&
		mkdir $other/q && rmdir $other/q && rm $other/x/f/new"
	is "$(T=20 t ls "$other/x/f")" "b@2" "  and listings there are new"
}
if ${CC:-cc} -O1 -o "$W/hold" "$SRC/t/lib/hold_directory.c" $(pkg-config --cflags --libs fuse3) 2>"$W/cc.log"; then
	for variant in lock listing; do
		ok "mount" mount_store -o allow_other
		held=$M/held-$variant/r other=$M/other-$variant
		mkdir -p "$held/f" "$other/x/f"
		for i in 1 2; do echo a >"$held/f/a@$i"; echo b >"$other/x/f/b@$i"; done
		ls "$other/x/f" "$other/.latest/x/f" >/dev/null
		# The kernel's copy of a listing is read under another lock than the directory.
		[ $variant = lock ] || { ls "$held/f"; ls "$held/f"; } >/dev/null
		hold "$variant" "$held/f"
		works "$variant"
		start=$(date +%s%3N)
		kill "$daemon"
		T=30 t tail --pid="$daemon" -f /dev/null
		is $? 0 "  SIGTERM ends the daemon meanwhile"
		wait "$daemon"
		is $? 0 "  with success"
		echo "# after $(($(date +%s%3N) - start)) ms"
		daemon=
		ok "  the store can be mounted again" mount_store -o allow_other
		unmount_store
		kill -9 $holder
		wait $holder 2>/dev/null
		umount -l "$W/$variant"
	done
else
	skip "a directory that is held" "it needs a compiler: $(head -n 1 "$W/cc.log")"
fi

echo "# ---- memory.max ----"
if has unshare && grep -q '^0::/' /proc/self/cgroup; then
	mkdir -p "$W/group"
	echo 104857600 >"$W/group/memory.max"
	cat >"$W/limited" <<'EOF2'
mount --bind "$W/group" /sys/fs/cgroup || exit 77
"$TABLETFS" -f "$D" "$M" 2>"$W/limited.err" &
for _ in $(seq 300); do mountpoint -q "$M" && break; sleep 0.1; done
kill $!
wait $!
EOF2
	export W D TABLETFS
	t unshare -m --propagation private bash "$W/limited"
	like "$(cat "$W/limited.err")" "memory.max is 100 MiB, but block_cache, memtable and table_cache together are 448 MiB" \
		"a limit below the configured memory is a warning"
else
	skip "a limit below the configured memory is a warning" "needs control groups of version 2"
fi
done_testing
