#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletctl mirror: after random histories of a table, with truncations, families and rules, and kills of the mirror and of
# the processes that serve both stores, both tables have the same versions of all cells.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model keeps no changes"
export SERVER
py <<'PY'
from tap import *
import random, signal, subprocess

SEED = int(os.environ.get("MIRROR_SEED") or random.randrange(1 << 32))
rnd = random.Random(SEED)
note("MIRROR_SEED=%d" % SEED)
TOOL, COPY = os.environ["TABLETCTL"], W + "/copy"
FROM, TO = "unix:%s/t" % D, "unix:%s/t" % COPY
quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
children = {}


def start_source():
    children["source"] = subprocess.Popen([os.environ["TABLETFS"], "-f", D, M], **quiet)
    if not wait_until(lambda: os.path.ismount(M), True):
        raise RuntimeError("the store does not mount")


def start_target():
    children["target"] = subprocess.Popen([os.environ["SERVER"], "-f", COPY], **quiet)
    if not wait_until(lambda: os.path.exists(COPY + "/socket"), True):
        raise RuntimeError("the target is not served")


def start_mirror():
    children["mirror"] = subprocess.Popen([TOOL, "mirror", "--follow", FROM, TO], **dict(quiet, stderr=open(W + "/mirror.err", "ab")))


def end(name, number=signal.SIGKILL):
    children[name].send_signal(number)
    children[name].wait(120)
    if name == "source" and number == signal.SIGKILL:
        subprocess.run(["fusermount3", "-u", M], **quiet)
    elif name == "target" and number == signal.SIGKILL:
        os.unlink(COPY + "/socket")


STARTS = {"source": start_source, "target": start_target, "mirror": start_mirror}


def restart(name):
    end(name)
    STARTS[name]()
    kills[name] += 1


def try_write(path, data, flags=os.O_WRONLY):
    try:
        spill(path, data, flags)
    except OSError as e:
        refusals[name_of(e.errno)] = refusals.get(name_of(e.errno), 0) + 1


kills = dict.fromkeys(STARTS, 0)
refusals = {}
families = ["f", "g", "h"]
rules = {"g": 3, "h": 2}


def value():
    if rnd.random() < 0.01:
        return bytes([rnd.randrange(97, 123)]) * rnd.choice((300000, 1200000))
    return b"%d" % rnd.randrange(10 ** rnd.randrange(1, 40))


def line():
    column = "%s:%s" % (rnd.choice(families), rnd.choice("ab"))
    kind = rnd.random()
    if kind < 0.55:
        return b"set %s@%d\t%s\n" % (column.encode(), rnd.randrange(1, 14), value())
    if kind < 0.96:
        return b"delete %s@%d\n" % (column.encode(), rnd.randrange(1, 14))
    if kind < 0.98:
        return b"delete %s\n" % column.encode()
    if kind < 0.99:
        return b"delete %s:\n" % column.split(":")[0].encode()
    return b"delete row\n"


def mutate():
    row = M + "/t/r%d" % rnd.randrange(6)
    try:
        os.makedirs(row, exist_ok=True)
    except OSError:
        pass
    try_write(row + "/.mutate", b"".join(line() for i in range(rnd.randrange(1, 6))) + b"commit\n")


def files():
    """Writes and times by the tree, as programs do."""
    path = M + "/t/r%d/%s/%s" % (rnd.randrange(6), rnd.choice(families), rnd.choice("ab"))
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        spill(path, value())
        set_us(path, rnd.randrange(20, 30))
    except OSError as e:
        refusals[name_of(e.errno)] = refusals.get(name_of(e.errno), 0) + 1


def new_family():
    if len(families) < 6:
        name = "n%d" % len(families)
        os.mkdir(M + "/t/.families/" + name)
        families.append(name)


def rule():
    name = rnd.choice(("g", "h"))
    if rules[name] > 1:
        rules[name] -= 1
        try_write(M + "/t/.families/%s/gc" % name, b"maxversions=%d\n" % rules[name])


def verb():
    try_write(M + "/t/.ctl", rnd.choice((b"flush\n", b"compact\n", b"split r%d\n" % rnd.randrange(6), b"merge r1\n")))


def equal(what):
    for i in range(5):
        p = subprocess.run([TOOL, "mirror", FROM, TO], capture_output=True, timeout=300)
        if p.returncode == 0:
            break
        note(p.stderr.decode(errors="replace"))
    same(p.returncode, 0, what)
    tables = [sorted(subprocess.run([TOOL, "scan", t], capture_output=True, timeout=300).stdout.splitlines()) for t in (FROM, TO)]
    ok(len(tables[0]) > 0, "  and %d cells" % len(tables[0]))
    if not ok(tables[0] == tables[1], "  both tables are equal"):
        note("only the source:", [l[:80] for l in tables[0] if l not in tables[1]][:5])
        note("only the target:", [l[:80] for l in tables[1] if l not in tables[0]][:5])


try:
    start_source()
    start_target()
    os.mkdir(M + "/t")
    spill(M + "/t/.schema", b'changes = "7d"; families = ({name = "f";}, {name = "g"; gc = "maxversions=3";}, {name = "h"; gc = "maxversions=2";});')
    for i in range(200):
        mutate()
    start_mirror()
    for part in range(12):
        for step in range(12):
            for i in range(rnd.randrange(40)):
                (files if rnd.random() < 0.1 else mutate)()
            chance = rnd.random()
            if chance < 0.15 or children["mirror"].poll() is not None:
                restart("mirror")
            elif chance < 0.20:
                restart("source")
            elif chance < 0.25:
                restart("target")
            elif chance < 0.27:
                new_family()
            elif chance < 0.30:
                rule()
            elif chance < 0.31:
                try_write(M + "/t/.ctl", b"truncate\n")
            elif chance < 0.37:
                verb()
        kills["mirror"] += 1
        end("mirror")
        for i in range(rnd.randrange(5)):
            mutate()
        equal("part %d is mirrored" % part)
        start_mirror()
    note("kills", kills, "refusals", refusals)
    ok(min(kills.values()) > 0, "there were kills")
    end("mirror", signal.SIGTERM)
    subprocess.run(["fusermount3", "-u", M])
    children["source"].wait(120)
    end("target", signal.SIGTERM)
finally:
    for child in children.values():
        if child.poll() is None:
            child.kill()
PY
tail -n 3 "$W/mirror.err" | diag
ok "the store is sound" "$TABLETCTL" check "$D"
ok "the copy is sound" "$TABLETCTL" check "$W/copy"
done_testing
