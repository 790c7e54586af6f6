#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One call of the file system ends after about one -o timeout when the server of the mount is
# stopped, although the mount asks the server several times for it, and the kernel asks the mount
# several times.  The mount works again when the server goes on.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has one user"
mount_store
names=(ls stat write close append rm mkdir cat rename latest root version scan import two json)
for n in "${names[@]}"; do
	mkdir -p "$M/$n/r/f"
	echo one >"$M/$n/r/f/a"
done
head -c 3000000 /dev/zero >"$M/version/r/f/large@7" # more than the mount reads ahead
mount_second -o timeout=5s
export daemon
py "$M2" "${names[@]}" <<'PY'
from tap import *
import signal
import subprocess

LIMIT, MOST = 5, 9
mount, names = sys.argv[1], sys.argv[2:]
server = int(os.environ["daemon"])


def file(name):
    return "%s/%s/r/f/a" % (mount, name)


# Each process has opened its file and says so.  When it gets a line, it makes its call.
STARTED = r"""
import os, sys
call, path = sys.argv[1:]
if call == "version":
    fd = os.open(os.path.dirname(path) + "/large@7", os.O_RDONLY)
if call == "import":
    fd = os.open(path[: -len("/r/f/a")] + "/.import.tsv", os.O_WRONLY)
if call in ("close", "append"):
    fd = os.open(path, os.O_WRONLY | (os.O_APPEND if call == "append" else os.O_TRUNC))
    os.write(fd, b"two\n")
print("ready", flush=True)
sys.stdin.readline()
try:
    if call == "version":
        os.pread(fd, 100, 2500000)
    elif call == "import":  # more than the mount keeps in memory
        for i in range(0, 150000, 1000):
            os.write(fd, b"".join(b"row%d\tf:q\t1000000\t%s\n" % (j, b"x" * 100) for j in range(i, i + 1000)))
    else:
        os.close(fd)
except OSError as e:
    sys.exit(str(e))
"""
COMMANDS = {
    "ls": lambda p: ["ls", os.path.dirname(p)],
    "stat": lambda p: ["stat", p],
    "write": lambda p: ["bash", "-c", ': >"$1"', "-", p],
    "rm": lambda p: ["rm", p],
    "mkdir": lambda p: ["mkdir", mount + "/mkdir/r2"],
    "cat": lambda p: ["cat", p],
    "rename": lambda p: [sys.executable, "-c", "import os, sys; os.rename(sys.argv[1], sys.argv[1] + '2')", p],
    "latest": lambda p: ["cat", mount + "/latest/.latest/r/f/a"],
    "root": lambda p: ["ls", mount],
    # The kernel asks for several names in one call if it has forgotten them; a program that does so is the same for the mount.
    "two": lambda p: [sys.executable, "-c", """import os, sys
def look(name):
    try:
        os.stat(os.path.dirname(sys.argv[1]) + name)
    except OSError as e:
        return str(e)
look("/none1")
sys.exit(look("/none2"))""", p],
    "scan": lambda p: ["cat", mount + "/scan/.scan/prefix=r/.latest/r/f/a"],
}


# By itself: a user with more calls that wait than a quarter of the places gets EAGAIN.
JSON = {"json": lambda p: ["cat", mount + "/json/r/.row.json"]}


def holders():
    out = {}
    for name in "close", "append", "version", "import":
        p = subprocess.Popen([sys.executable, "-c", STARTED, name, file(name)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        p.stdout.readline()
        out[name] = p
    return out


def know():
    """The kernel and the mount know all names."""
    for name in names:
        with open(file(name)) as f:
            f.read()
        subprocess.run(["ls", "-l", mount, "%s/%s" % (mount, name), os.path.dirname(file(name))],
                       stdout=subprocess.DEVNULL)


def measure(held, what, may_know, commands=COMMANDS):
    """All calls at once, each of a name of its own.  may_know: the mount may answer some without the server."""
    began, running = {}, {}
    for name, p in held.items():
        began[name] = time.monotonic()
        p.stdin.write(b"\n")
        p.stdin.flush()
        running[name] = p
    for name, argv in commands.items():
        began[name] = time.monotonic()
        running[name] = subprocess.Popen(argv(file(name)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    took = {}
    until = time.monotonic() + 20 * LIMIT
    while len(took) < len(running) and time.monotonic() < until:
        for name, p in running.items():
            if name not in took and p.poll() is not None:
                took[name] = time.monotonic() - began[name]
        time.sleep(0.01)
    for name, p in running.items():
        if name not in took:
            p.send_signal(signal.SIGINT)
            took[name] = 20 * LIMIT
        err = p.stderr.read().decode(errors="replace").strip()
        failed = p.wait() != 0 and "Input/output error" in err
        known = may_know and name in ("ls", "stat", "root") and p.returncode == 0
        # What waits in a batch is still tried.
        ok((failed or known) and took[name] < (4 * LIMIT if name == "import" else MOST), "%s: %s ends" % (what, name))
        note("%.2f s: %s" % (took[name], err.splitlines()[-1] if err else "the mount knew it"))


def is_stopped():
    """All threads: one that still runs may answer."""
    for task in os.listdir("/proc/%d/task" % server):
        with open("/proc/%d/task/%s/stat" % (server, task)) as f:
            if f.read().rpartition(")")[2].split()[0] != "T":
                return False
    return True


know()
held = holders()
os.kill(server, signal.SIGSTOP)
wait_until(is_stopped, True)
measure(held, "at once", True)
measure({}, "when the mount has dropped what it knew", False)
measure({}, "later", False, JSON)
os.kill(server, signal.SIGCONT)


def works():
    try:
        for name in names:
            os.listdir(os.path.dirname(file(name)))
        with open(file("cat")) as f:
            return f.read()
    except OSError:
        return None


soon(works, "one\n", "the mount works again")
with open(file("stat"), "w") as f:
    f.write("three\n")
with open(os.environ["M"] + "/stat/r/f/a") as f:
    same(f.read(), "three\n", "  and writes")
PY
fusermount3 -u "$M2"
wait "$second"
done_testing
