#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletctl compare: two equal tables of two servers are compared without their cells' being sent, and of tables that differ it
# prints what a comparison of both exports does, whatever their tablets, salts, order of families and large values.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no hashes"
echo 'socket_mode = "0666";' >"$W/conf"
ok "mount" mount_store -o "allow_other,config=$W/conf"
chmod 755 "$D"
"$SERVER" -f "$W/copy" >"$W/copy.out" 2>&1 </dev/null &
copy_server=$!
wait_for "the server" [ -S "$W/copy/socket" ]
py <<'PY'
from tap import *
from terminal import Terminal
import random, socket, subprocess, threading

SEED = int(os.environ.get("COMPARE_SEED") or random.randrange(1 << 32))
rnd = random.Random(SEED)
note("COMPARE_SEED=%d" % SEED)
TOOL = os.environ["TABLETCTL"]
COPY = W + "/copy/"


def tool(*args, **kw):
    p = subprocess.run([TOOL, *args], capture_output=True, timeout=300, **kw)
    return p.returncode, p.stdout, p.stderr.decode(errors="replace")


def cells(table):
    return dict(line.rsplit(b"\t", 1) for line in tool("scan", table)[1].splitlines())


def wanted(a, b):
    """The comparison of both exports."""
    a, b = cells(a), cells(b)
    lines = [b"first\t" + c for c in a.keys() - b.keys()] + [b"second\t" + c for c in b.keys() - a.keys()]
    return sorted(lines + [b"value\t" + c for c in a.keys() & b.keys() if a[c] != b[c]])


def agrees(a, b, what, least=1):
    want = wanted(a, b)
    code, out, err = tool("compare", a, b)
    got = sorted(out.splitlines())
    if not ok((code, got) == (int(bool(want)), want) and len(want) >= least, "%s (%d lines)" % (what, len(want))):
        note(code, err, len(got), [l for l in got if l not in want][:5], [l for l in want if l not in got][:5])


def store(table, lines):
    code, out, err = tool("import", "-p", table, "-", input=b"".join(lines))
    if code:
        ok(False, err)


class Relay(threading.Thread):
    """Passes on the connections of a socket of its own, and counts the bytes."""

    def __init__(self, name, to):
        super().__init__(daemon=True)
        self.to, self.bytes, self.dir = to, 0, W + "/" + name
        os.mkdir(self.dir)
        spill(self.dir + "/FORMAT", b"")  # its owner may listen
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.dir + "/socket")
        self.listener.listen()
        self.start()

    def run(self):
        while True:
            a, _ = self.listener.accept()
            b = socket.socket(socket.AF_UNIX)
            b.connect(self.to)
            for ends in ((a, b), (b, a)):
                threading.Thread(target=self.copy, args=ends, daemon=True).start()

    def copy(self, a, b):
        try:
            while data := a.recv(1 << 16):
                self.bytes += len(data)
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass


# ---- bytes ----
CELLS = 100000
lines = [b"r%07d\tf:q\t1\t%d-%s\n" % (i, i * 7919 % 100003, b"v" * 150) for i in range(CELLS)]
store(M + "/t", lines)
store(COPY + "t", lines)
relays = [Relay("one", D + "/socket"), Relay("two", COPY + "socket")]
through = ["unix:%s/t" % r.dir for r in relays]
same(tool("compare", *through), (0, b"", ""), "equal tables of two servers")
sent = sum(r.bytes for r in relays)
ok(0 < sent < 100000, "  are compared with %d bytes, not %d" % (sent, 2 * sum(map(len, lines))))
store(COPY + "t", [b"r0050000\tf:q\t1\tother\n"])
same(tool("compare", *through), (1, b"value\tr0050000\tf:q\t1\n", ""), "a cell that differs is found")
sent = sum(r.bytes for r in relays) - sent
ok(sent < 1000000, "  with %d bytes" % sent)
store(COPY + "t", [lines[50000]])
same(tool("compare", *through)[0], 0, "  and when it has its value again there is none")

# ---- agreement ----
store(COPY + "t", [b"r0012345\tf:q\t2\tnew\n", b"r0099999\tf:q\t0\told\n", b"a\tf:q\t1\t\n", b"s\tg:\t-1\tx\n"])
agrees(M + "/t", COPY + "t", "another version, the last row, rows before and behind all others, and a family", 4)
for i in rnd.sample(range(CELLS), 200):
    os.unlink(M + "/t/r%07d/f/q@1" % i)
store(COPY + "t", [b"r%07d\\x00\tf:q\t1\tx\n" % i for i in rnd.sample(range(CELLS), 200)])
agrees(M + "/t", COPY + "t", "400 rows that one of the tables lacks", 400)
store(COPY + "t", [b"r%07d\tf:q\t1\tx\n" % i for i in range(20000, 40000)])
agrees(COPY + "t", M + "/t", "20,000 rows in a row, in the other order of the tables", 20000)
out, in_ = os.pipe()
p = Terminal(TOOL, "compare", COPY + "t", M + "/t", stdout=in_)
os.close(in_)
ok(p.until(rb"\r\x1b\[Kcompared .*, [1-9]\d* cells, .*/s, about \d+ (s|min) left"), "  a terminal shows the progress while the reader waits")
with open(out, "rb") as f:
    lines_read = f.read().count(b"\n")
same((lines_read > 20000, p.end()), (True, 1), "  and the comparison goes on")
os.mkdir(M + "/empty")
agrees(M + "/empty", COPY + "t", "a table without families", CELLS)
store(M + "/empty", [b"a\tf:q\t1\tx\n"])
os.unlink(M + "/empty/a/f/q@1")
agrees(M + "/t", M + "/empty", "an empty table", CELLS - 200)
same(tool("compare", M + "/empty", M + "/empty")[0], 0, "  which is equal to itself")

# Each row is a part of its own.
big = [b"%02d\tf:q\t1\t%s\n" % (i, bytes([97 + i % 26]) * 150000) for i in range(40)]
store(M + "/big", big)
for i in (0, 1, 20, 38, 39):
    store(COPY + "big%d" % i, big[:i] + [big[i][:-2] + b"~\n"] + big[i + 1:])
    agrees(M + "/big", COPY + "big%d" % i, "a value of the row %d of 40, at whose ends ranges begin and end" % i)
    store(COPY + "without%d" % i, big[:i] + big[i + 1:] + [b"%02d\\x00\tf:q\t1\tx\n" % i])
    agrees(M + "/big", COPY + "without%d" % i, "  the row is absent, and there is one behind it", 2)

# ---- random tables ----
def random_lines(count):
    for i in range(count):
        size = 300000 if rnd.random() < 0.001 else 70000 if rnd.random() < 0.001 else rnd.randrange(60)
        yield (rnd.randrange(1500), rnd.choice("fgh"), rnd.choice("ab"), rnd.randrange(3), b"%d" % rnd.randrange(10) + b"z" * size)


def text(line):
    return b"k%d\t%s:%s\t%d\t%s\n" % (line[0], line[1].encode(), line[2].encode(), line[3], line[4])


for n in range(6):
    base = {l[:4]: l for l in random_lines(4000)}
    other = dict(base)
    for key in rnd.sample(sorted(base), rnd.choice((1, 3, 40, 1500))):
        if rnd.random() < 0.5:
            del other[key]
        else:
            other[key] = key + (b"changed",)
    sides = []
    for name, content in (("x%d" % n, base), ("y%d" % n, other)):
        families = ['{name = "%s";}' % f for f in "fgh"]
        rnd.shuffle(families)
        salt = rnd.choice(("", "", "salt = 3; ", "salt = 16; "))
        splits = "" if salt else 'splits = (%s); ' % ", ".join(sorted('"k%d"' % s for s in {rnd.randrange(1500) for i in range(3)}))
        os.mkdir(M + "/" + name)
        spill(M + "/%s/.schema" % name, ("%s%sfamilies = (%s);" % (salt, splits, ", ".join(families))).encode())
        store(M + "/" + name, map(text, content.values()))
        sides.append(M + "/" + name)
        note(name, salt, splits)
    agrees(*sides, "random tables %d" % n)
    store(COPY + "x%d" % n, map(text, base.values()))
    same(tool("compare", sides[0], COPY + "x%d" % n)[0], 0, "  and one is equal to another one of the same cells")

# ---- snapshots, rules ----
os.mkdir(M + "/x0/.snap/s")
same(tool("compare", M + "/x0", M + "/x0/.snap/s")[0], 0, "a snapshot is equal to its table")
store(M + "/x0", [b"k700\tf:a\t9\tx\n", b"new\tg:a\t9\tx\n"])
agrees(M + "/x0/.snap/s", M + "/x0", "  until that changes", 2)
spill(M + "/x0/.families/h/gc", b"maxversions=1\n")
agrees(M + "/x0/.snap/s", M + "/x0", "  or a rule hides versions", 100)

# ---- refusals ----
if os.getuid() == 0 and not os.environ.get("OVER"): # else the store's socket refuses the user
    os.chmod(M + "/y1/.families/g", 0o600)
    code, out, err = tool("compare", M + "/x1", M + "/y1", user=65534, group=65534, extra_groups=[])
    if not ok(code == 2 and "y1: no permission" in err and err.count("\n") == 1, "a table with a family that the user may not read is named"):
        note(code, err)
PY
server=$copy_server end_server -TERM
file=$(find "$W/copy/sst" -name '*.sst' -size +1000k -printf '%s %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2)
[ -n "$file" ] && printf '\377\377\377\377\377\377\377\377' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") / 2)) conv=notrunc 2>/dev/null
"$TABLETCTL" compare "$W/copy/t" "$M/t" >"$W/out" 2>"$W/err"
is $? 2 "damage of one table ends the comparison"
like "$(cat "$W/err")" "^tabletctl: .*$W/copy/t" "  and is that table's"
diag <"$W/err"
ok "unmount" unmount_store
ok "the store is sound" check_store
done_testing
