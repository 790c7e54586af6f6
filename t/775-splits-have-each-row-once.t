#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TABLE/.splits: its lines select each cell of the table once: row keys of any bytes and of
# 64 KiB, salted tables, snapshots, and while the tablets split and merge.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has one tablet"
ok "mount" mount_store
cd "$M" || exit 1
py <<'EOF2'
from tap import *
import re, subprocess, threading
FAMILY = 'families = ({name = "f";});'
LONG = b"long" * 16383
# A row of these bytes, in an order that tablets have.
ROWS = sorted([b"%04d" % i for i in range(300)] + [bytes([b]) for b in range(1, 256)] + [b"a\nb", b"a\tb", b"a/b", b"a b", b"a'\"$x`*?[]{}|;&<>()\\!#~^", b"..", b"-n",
    b"{}", b"{1}", b"%2F", b"\xc3\xa9t\xc3\xa9", b"\xff\x00\xfe", b"." * 600, b"%" * 700, b"x" * 251, b"x" * 300 + b"/", LONG + b"1", LONG + b"2", LONG + b"3"])


def text(key):
    return b"".join(b"\\x%02x" % c for c in key)


def quoted(key):
    return b'"' + b"".join(bytes([c]) if chr(c).isalnum() and c < 128 else b"%%%02X" % c for c in key) + b'"'


def make(table, schema, borders):
    os.mkdir(table)
    spill(table + "/.tmp", schema.encode() + b"splits = ( " + b", ".join(map(quoted, borders)) + b" ); " + FAMILY.encode())
    os.rename(table + "/.tmp", table + "/.schema")
    spill(table + "/.import", b"".join(text(row) + b"\tf:q\t%d\tv\n" % ts for row in ROWS for ts in (1, 2)))


def lines(table):
    return [line.split("\t") for line in slurp(table + "/.splits").decode("ascii").splitlines()]


def of_tablets(table):
    return [line.split(b"\t") for line in slurp(table + "/.tablets").splitlines()[1:]]


def read(table, path, stream=".tsv"):
    return slurp("%s/.scan/%s/%s" % (table, path, stream)).splitlines()


def check(table, tablets, what):
    want, found = sorted(read(table, "from=")), lines(table)
    same(len(found), tablets, what + ": a line for each tablet")
    same(sorted(cell for path, _, _ in found for cell in read(table, path)), want, "  which together have each cell once")
    same(sorted(key for path, _, _ in found for key in read(table, path, ".keys")), sorted({cell.split(b"\t")[0] for cell in want}), "  and each row")
    same([path for path, _, _ in found if not re.fullmatch(r"(?!/)[A-Za-z0-9/%._,:@+=-]+(?<!/)", path) or len(path) > 3100], [], "  by paths without bytes that shells change")
    same([name for path, _, _ in found for name in path.split("/") if len(name) > 255], [], "  whose names are short enough")
    same({server for _, server, _ in found} - {t[2].decode() for t in of_tablets(table)}, set(), "  with a server")
    ok(sum(int(n) for _, _, n in found) <= sum(int(t[4]) for t in of_tablets(table)), "  and bytes")


make("small", "", [])
same([path for path, _, _ in lines("small")], ["from="], "a small table has one line")
check("small", 1, "one tablet")
keys = [row for row in ROWS if len(row) < 300]
make("any", "", keys[3::20] + [b"." * 600, b"%" * 700, b"x" * 300 + b"/"])
check("any", len(keys[3::20]) + 4, "keys of any bytes")
# Borders that are equal in their first bytes leave one range: no cell is lost or read twice.
make("long", "", [b"0100", LONG + b"2", LONG + b"3"])
check("long", 3, "keys of 64 KiB")
# The loop of a shell over .tablets, with a tablet that begins at the row "-".
make("dash", "", [b"-", b"0100"])
spill("dash/.import", b"-\tf:q\t1\tv\n!\tf:q\t1\tv\n")
check("dash", 3, "a border that is -")
same([t[:2] for t in of_tablets("dash")], [[b"-", b"%2D"], [b"%2D", b"0100"], [b"0100", b"-"]], ".tablets shows open ends as -, and the row - as %2D")
loop = "sed 1d dash/.tablets | while IFS=$'\\t' read -r from to rest; do\n  cat \"dash/.scan/from=$from/to=$to/.tsv\"\ndone"
same(sorted(subprocess.run(["bash", "-c", loop], stdout=subprocess.PIPE, check=True).stdout.splitlines()), sorted(read("dash", "from=")), "a loop of the shell over .tablets reads each cell once")
same([read("dash", p, ".keys") for p in ("from=%2D/limit=1", "from=-/limit=1", "stored-from=%2D/limit=1", "stored-from=-/limit=1")],
     [[b"-"], read("dash", "limit=1", ".keys")] * 2, "the key - is %2D in a clause")
same(read("dash", "to=%2D", ".keys") + read("dash", "from=%2D", ".keys"), read("dash", "from=", ".keys"), "  also as an end")
same((read("dash", "to="), read("dash", "to=-"), read("dash", "from=-/stored-to=-/stored-from=-/stored-to=-".rsplit("/", 1)[0])), (read("dash", "limit=99999"),) * 3, "an empty end, and -, is no bound")
keys = [k for k in read("dash", "from=", ".keys")]
scan = subprocess.run([os.environ["TABLETCTL"], "scan", "--from", "-", "--format", "keys", "dash"], stdout=subprocess.PIPE, check=True).stdout.splitlines()
same(scan, keys[keys.index(b"-"):], "  and - is a key in an option of tabletctl")
same(subprocess.run([os.environ["TABLETCTL"], "get", "dash", "-", "f:q"], stdout=subprocess.PIPE).stdout, b"v", "  and a row of get")
spill("dash/.ctl", b"merge -\n", os.O_WRONLY)
same([t[:2] for t in of_tablets("dash")], [[b"-", b"0100"], [b"0100", b"-"]], "merge - joins the first tablet")
spill("dash/.ctl", b"split %2D\nmerge %2D\n", os.O_WRONLY)
same([t[:2] for t in of_tablets("dash")], [[b"-", b"%2D"], [b"%2D", b"-"]], "split %2D and merge %2D name the row -")
make("salted", "salt = 4; ", [b"\1", b"\1" + ROWS[90], b"\2", b"\3", b"\3" + ROWS[300]])
check("salted", 6, "a salted table")
make("broad", "salt = 9; ", [b"\2" + ROWS[90], b"\7"])
check("broad", 3, "a salted table whose tablets have several salts")
os.mkdir("any/.snap/s")
os.mkdir("salted/.snap/s")
for t in ("any", "salted"):
    then = sorted(read(t, "from="))
    spill(t + "/.ctl", b"drop-rows 0\n", os.O_WRONLY)
    same(sorted(cell for path, _, _ in lines(t + "/.snap/s") for cell in read(t + "/.snap/s", path)), then, "the splits of a snapshot")
    ok(sorted(cell for path, _, _ in lines(t) for cell in read(t, path)) != then, "  and of its table, which has changed")

# Ranges of about equal bytes, by tabletctl.
def splits(path, n):
    out = subprocess.run([os.environ["TABLETCTL"], "splits", "-n", str(n), path], stdout=subprocess.PIPE, check=True).stdout
    return [line.split("\t") for line in out.decode("ascii").splitlines()]


def check_ranges(table, n, what):
    want, found = sorted(read(table, "from=")), splits(table, n)
    ok(1 < len(found) <= n, "%s: %d ranges for -n %d" % (what, len(found), n))
    parts = [read(table, path) for path, _, _ in found]
    same(sorted(cell for part in parts for cell in part), want, "  which together have each cell once")
    sizes = [sum(map(len, part)) for part in parts]
    ok(max(sizes) < 3 * sum(sizes) / n, "  and no one much more than its share")
    note(sizes)
    ok(all(int(f[2]) for f in found), "  with bytes and a server")


def big(table, schema, borders):
    make(table, schema, borders)
    spill(table + "/.import", b"".join(b"big%05d\tf:q\t1\t%s\n" % (i, os.urandom(500).hex().encode()) for i in range(2000)))
    spill(table + "/.ctl", b"flush\n", os.O_WRONLY)


big("big", "", [b"big00100"])
check_ranges("big", 8, "finer than tablets")
big("bigsalt", "salt = 3; ", [b"\1"])
check_ranges("bigsalt", 10, "salted")
big("many", "", [b"big%05d" % i for i in range(0, 2000, 100)])
check_ranges("many", 3, "coarser than tablets")
spill("big/.import", b"big00900\tf:large\t1\t%s\n" % (b"x" * 4000000))
spill("big/.ctl", b"compact\n", os.O_WRONLY)
same(sorted(cell for path, _, _ in splits("big", 9) for cell in read("big", path)), sorted(read("big", "from=")), "a row with most of the bytes")
same(len(splits("small", 1)), 1, "one range")
if not os.environ.get("OVER"):
    same(splits("unix:%s/big" % D, 8), splits("big", 8), "by the socket, the same")
same(slurp("big/.splits.8").decode(), "".join("\t".join(line) + "\n" for line in splits("big", 8)), "by a control file, the same")
for name in (".splits.0", ".splits.4097", ".splits.08", ".splits.", ".splits.x", ".splits.99999999999", ".splits.-1", ".splits.1.1"):
    ok(not os.path.exists("big/" + name), "there is no " + name)
for n in ("0", "x", "4097", "-1", "8x", ""):
    same(subprocess.run([os.environ["TABLETCTL"], "splits", "-n", n, "big"], stderr=subprocess.DEVNULL).returncode, 2, "-n %s is refused" % n)
same(subprocess.run([os.environ["TABLETCTL"], "splits", "-n", "4", "none"], stderr=subprocess.DEVNULL).returncode, 2, "and a table that does not exist")
ok(not os.path.exists("big/FORMAT") and subprocess.run([os.environ["TABLETCTL"], "splits", "-n", "4", "big/.snap/s"], stderr=subprocess.DEVNULL).returncode == 2, "and what is no table")

# As the manuals say, by programs.
for loop in ("cut -f 1 any/.splits | while read -r s; do cat any/.scan/$s/.tsv; done", "cut -f 1 any/.splits | xargs -I{} cat any/.scan/{}/.tsv",
             "for s in $(cut -f 1 any/.splits); do cat any/.scan/$s/.tsv; done"):
    same(sorted(subprocess.run(["bash", "-c", loop], stdout=subprocess.PIPE, check=True).stdout.splitlines()), sorted(read("any", "from=")), loop)

# Tablets split and merge between the list and the last range, and during the list.
make("moving", "", [b"0100"])
want = sorted(read("moving", "from="))
stop = threading.Event()
done = []


def move():
    while not stop.is_set():
        for verb in ("split 0050", "split 0150", "merge 0000", "merge 0050", "merge 0100", "split 0100"):
            done.append(errno_of(spill, "moving/.ctl", verb.encode() + b"\n", os.O_WRONLY))


t = threading.Thread(target=move)
t.start()
bad, counts = [], set()
end = time.monotonic() + 2
while time.monotonic() < end or (len(counts) < 2 and time.monotonic() < end + 60):
    found = lines("moving")
    counts.add(len(found))
    got = sorted(cell for path, _, _ in found for cell in read("moving", path))
    if got != want:
        bad.append((found, len(got), len(want)))
stop.set()
t.join()
same(bad[:1], [], "splits and merges meanwhile")
ok(len(counts) > 1 and "0" in done, "  which there were")
note(len(done), "verbs,", sorted(counts), "lines")
EOF2
cd / || exit 1
[ -z "$OVER" ] || done_testing
"$TABLETCTL" splits -n 8 "$M/big" >"$W/mounted"
unmount_store
ok "a data directory that is not mounted" bash -c '"$TABLETCTL" splits -n 8 "$D/big" >"$W/stored"'
same "$W/stored" "$W/mounted" "  the same"
done_testing
