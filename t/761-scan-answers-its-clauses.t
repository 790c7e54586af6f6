#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TABLE/.scan: streams and views of random clauses return the cells that a
# filter in this script selects from all cells of the table: before and after
# flushes, compactions and splits, of plain and salted tables, of snapshots and
# of clones.
#
#	SEED=n STEPS=n t/761-scan-answers-its-clauses.t
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store -o allow_other
cd "$M" || exit 1
mkdir plain salted && printf 'salt = 3;\nfamilies = ({name = "f";}, {name = "g";}, {name = "h";});\ngroups = ({name = "default"; block_size = "4K";});\n' >salted/.schema
py "${SEED:-1}" <<'EOF2'
from tap import *
import random
rnd = random.Random(int(sys.argv[1]))
ROWS = ["r%d" % i for i in range(40)] + ["com.cnn/w%d" % i for i in range(10)] + ["\u00fcber", "long" + "x" * 300, "long" + "x" * 400, "a\tb", ".dot"]
QS = ["q%d" % i for i in range(6)] + ["", "a@b", "x@1", "n" * 300]

def name(key, at=None):
    """The canonical path of a key."""
    b = key.encode()
    units = []
    for i, ch in enumerate(key):
        c = ch.encode()
        if c[0] < 32 or c in (b"/", b"%", b"\x7f") or (i == 0 and ch == "." ):
            units.append(b"%%%02X" % c[0])
        elif c == b"@" and at is not None and key[i + 1:].lstrip("-").isdigit():
            units.append(b"%40")
        else:
            units.append(c)
    if at is not None:
        units += [bytes([c]) for c in b"@%d" % at]
    parts, now, left = [], b"", sum(map(len, units))
    if left <= 255:
        return b"".join(units).decode()
    for u in units:
        if len(now) + len(u) > 254 and left > 255 - len(now) or len(now) + len(u) > 255:
            parts.append(now + b"%")
            now = b""
        now += u
        left -= len(u)
    return b"/".join(parts + [now]).decode()

for table in ("plain", "salted"):
    for row in ROWS:
        for family in rnd.sample(["f", "g", "h"], rnd.choice([1, 1, 2, 3])):
            for q in rnd.sample(QS, rnd.choice([1, 2, 5])):
                for ts in rnd.sample(range(-3, 60), rnd.choice([1, 1, 3])):
                    p = "%s/%s/%s/%s" % (table, name(row), family, name(q, ts))
                    os.makedirs(os.path.dirname(p), exist_ok=True)
                    spill(p, rnd.choice([b"v%d" % rnd.randrange(9), b"", b"two\nlines\t\\", b"\xff\x00x", b"CNN"]))
ok(True, "two tables are filled")
EOF2
sync -f .
cat >"$W/check.py" <<'EOF2'
from tap import *
import base64, ctypes, io, tarfile, json, random, re
seed, steps, table, state = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
rnd = random.Random("%d %s %s" % (seed, table, state))
scan = table + "/.scan/"

def unescape(b):
    return re.sub(rb"\\(x..|.)", lambda m: {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"\\": b"\\"}.get(m[1]) or bytes([int(m[1][1:], 16)]), b)

def tsv(path):
    out = []
    for line in slurp(path).split(b"\n")[:-1]:
        row, column, ts, value = map(unescape, line.split(b"\t"))
        family, q = column.split(b":", 1)
        out.append((row, family.decode(), q, int(ts), value))
    return out

def jsonl(path):
    def text(o, k):
        return base64.b64decode(o[k + "_base64"]) if k + "_base64" in o else o[k].encode()
    return [(text(o, "row"), o["family"], text(o, "qualifier"), o["timestamp"], text(o, "value")) for o in map(json.loads, open(path))]

def walk(top, prefix=""):
    """The tree below a view: path of a file: (bytes, mtime, inode number)."""
    out = {}
    with os.scandir(top) as it:
        for e in it:
            p = prefix + "/" + e.name
            if e.is_dir():
                out.update(walk(top + "/" + e.name, p))
            else:
                st = os.stat(e.path)
                out[p] = (slurp(e.path), st.st_mtime_ns // 1000, st.st_ino if e.inode() == st.st_ino else "not that of readdir")
    return out

CELLS = tsv(scan + ".tsv")
TREE = {p: v for p, v in walk(table).items() if p != "/.schema"}
same(len(TREE), len(CELLS), "%s %s: .tsv has every file of the tree" % (table, state))

def crc32c(b):
    r = 0xffffffff
    for c in b:
        r ^= c
        for _ in range(8):
            r = r >> 1 ^ (0x82f63b78 if r & 1 else 0)
    return r ^ 0xffffffff

SALTED = table.startswith("salted")
STORED = {c[0]: bytes([crc32c(c[0]) % 3]) * SALTED + c[0] for c in CELLS}
stored = STORED.get

LUA = {b"#r.key > 4": lambda row: len(row) > 4, b'r.key:sub(1, 1) == "r"': lambda row: row[:1] == b"r",
       b'#r:cells("f:") > 2': lambda row: sum(c[:2] == (row, "f") for c in CELLS) > 2}

NEWEST = {}
for c in CELLS:
    NEWEST.setdefault(c[:3], c[4])

def newest_value(row, family, q):
    value = NEWEST.get((row, family, q))
    return None if value is None else re.sub(rb"\n\Z", b"", value)

def test(family, q, fn):
    return lambda row: newest_value(row, family, q) is not None and fn(newest_value(row, family, q))

WHERE = {b"f:q1": test("f", b"q1", lambda v: True), b"f:q1=v1": test("f", b"q1", lambda v: v == b"v1"),
         b"f:q1!=CNN": test("f", b"q1", lambda v: v != b"CNN"), b"not g:q2 > v3": lambda row: not test("g", b"q2", lambda v: v > b"v3")(row),
         b'(f:""=""or h:"a@b"<= "v5" )and not(f:q2)': lambda row: (test("f", b"", lambda v: v == b"")(row) or test("h", b"a@b", lambda v: v <= b"v5")(row)) and
             not test("f", b"q2", lambda v: True)(row),
         b"f:q3 or g:q3 or h:q3 and h:q4 < w": lambda row: any(newest_value(row, f, b"q3") is not None for f in "fg") or
             (newest_value(row, "h", b"q3") is not None and test("h", b"q4", lambda v: v < b"w")(row))}

XXH = ctypes.CDLL("libxxhash.so.0")
XXH.XXH3_64bits.restype = ctypes.c_uint64

def hashed(row):
    return XXH.XXH3_64bits(row, ctypes.c_size_t(len(row)))

def share(text):
    return round(float(text.rstrip(b"%")) * (10000 if text.endswith(b"%") else 1000000))

def select(o):
    cells = [c for c in CELLS if
             c[0].startswith(o.get("prefix", b"")) and c[0] >= o.get("from", b"") and ("to" not in o or c[0] < o["to"]) and
             ("after" not in o or (c[0] < o["after"] if "reverse" in o else c[0] > o["after"])) and
             stored(c[0]) >= o.get("stored-from", b"") and ("stored-to" not in o or stored(c[0]) < o["stored-to"]) and
             ("lua" not in o or LUA[o["lua"]](c[0])) and
             ("sample" not in o or hashed(c[0]) % 1000000 < share(o["sample"])) and
             ("where" not in o or WHERE[o["where"]](c[0])) and
             ("row" not in o or re.fullmatch(o["row"], c[0], re.S)) and ("family" not in o or c[1] in o["family"].decode().split(",")) and
             ("qualifier" not in o or re.fullmatch(o["qualifier"], c[2])) and c[2].startswith(o.get("qprefix", b"")) and
             c[2] >= o.get("qfrom", b"") and ("qto" not in o or c[2] < o["qto"]) and ("qafter" not in o or c[2] > o["qafter"]) and
             ("since" not in o or c[3] >= int(o["since"])) and ("until" not in o or c[3] < int(o["until"])) and
             ("at" not in o or c[3] <= int(o["at"]))]
    versions = int(o["versions"]) if "versions" in o else 1 if "at" in o else 99
    seen, out = {}, []
    for c in cells:
        seen[c[:3]] = seen.get(c[:3], 0) + 1
        if seen[c[:3]] <= versions and ("value" not in o or re.fullmatch(o["value"], c[4])) and c[4] == o.get("value-is", c[4]):
            out.append(c)
    if "qlimit" in o:
        columns = {}
        for c in out:
            columns.setdefault(c[:2], [])
            if c[2] not in columns[c[:2]]:
                columns[c[:2]].append(c[2])
        out = [c for c in out if columns[c[:2]].index(c[2]) < int(o["qlimit"])]
    rows = list(dict.fromkeys(c[0] for c in out))
    rows = rows[::-1] if "reverse" in o else rows
    return [c for r in rows[:int(o.get("limit", b"99999"))] for c in out if c[0] == r]

def clause(k, v):
    return os.fsdecode(b"".join(b"%%%02X" % b if b < 32 or b in b"/%\x7f" else bytes([b]) for b in k.encode() + b"=" + v))

def picks():
    row = lambda: rnd.choice(CELLS)[0][:rnd.choice([1, 2, 3, 200])]
    q = lambda: rnd.choice(CELLS)[2][:rnd.choice([1, 2, 200])]
    stored_row = lambda: stored(rnd.choice(CELLS)[0])[:rnd.choice([1, 2, 3, 200])]
    ts = lambda: b"%d" % rnd.randrange(-3, 60)
    return {"prefix": row, "from": row, "to": row, "after": row, "stored-from": stored_row, "stored-to": stored_row, "limit": lambda: b"%d" % rnd.choice([1, 2, 5, 30, 900]),
            "row": lambda: rnd.choice([b"r[0-9]", b".*1.*", b"com[.].*|long.*", b"nothing"]), "reverse": lambda: b"yes",
            "sample": lambda: rnd.choice([b"50%", b"0.9", b"12.5%", b"0.0001%", b"100%"]),
            "lua": lambda: rnd.choice(list(LUA)), "where": lambda: rnd.choice(list(WHERE)),
            "family": lambda: rnd.choice([b"f", b"g,f", b"h"]), "qualifier": lambda: rnd.choice([b"q[1-3]", b"", b".*@.*"]),
            "qprefix": q, "qfrom": q, "qto": q, "qafter": q, "qlimit": lambda: b"%d" % rnd.choice([1, 2, 3]), "since": ts, "until": ts, "at": ts,
            "versions": lambda: b"%d" % rnd.choice([1, 2]), "value": lambda: rnd.choice([b"v[0-4]", b"C.N", b"(?s).*\\n.*"]),
            "value-is": lambda: rnd.choice([b"CNN", b"v1", b""]), "changed": lambda: rnd.choice([b"1", b"1d"])}

def clauses():
    pick = picks()
    o = {k: pick[k]() for k in rnd.sample(sorted(pick), rnd.choice([0, 1, 1, 2, 2, 3, 4]))}
    each = list(o.items())
    if "prefix" in o and rnd.random() < 0.5:
        o["prefix"] = tuple([o["prefix"]] + [pick["prefix"]() for _ in range(rnd.choice([1, 2, 5]))])
        each = [e for e in each if e[0] != "prefix"] + [("prefix", p) for p in o["prefix"]]
    return o, scan + "".join(clause(k, v) + "/" for k, v in rnd.sample(each, len(each)))

def newest_of(cells):
    out = {}
    for c in cells:
        out.setdefault((c[0], c[1].encode() + b":" + c[2]), c[4])
    return out

def wide(path, separator):
    """The cells of wide CSV.  An empty field is no cell, and "" is an empty value."""
    lines, line = [], []
    for field, end in re.findall(rb'("(?:[^"]|"")*"|[^"\n%s]*)([%s\n])' % (separator, separator), slurp(path)):
        line.append(field[1:-1].replace(b'""', b'"') if field[:1] == b'"' else field or None)
        if end == b"\n":
            lines.append(line)
            line = []
    return {(line[0], column): v for line in lines[1:] for column, v in zip(lines[0][1:], line[1:], strict=True) if v is not None}

same(sorted(picks()), sorted(re.findall(r"^  ([a-z-]+)=", slurp(scan + ".help").decode(), re.M)), "%s %s: each clause of .help is tried" % (table, state))
bad = []
for n in range(steps):
    o, path = clauses()
    want = select(o)
    got = {"tsv": tsv(path + ".tsv"), "jsonl": jsonl(path + ".jsonl")}
    rows = list(dict.fromkeys(c[0] for c in want))
    wants = {"tsv": want, "jsonl": want, "keys": rows, "count": b"rows\t%d\ncells\t%d\n" % (len(rows), len(want))}
    got["keys"] = [unescape(k) for k in slurp(path + ".keys").split(b"\n")[:-1]]
    got["count"] = slurp(path + ".count")
    for suffix, separator in ((".csv", b","), (".wide.tsv", b"\t")):
        got[suffix], wants[suffix] = wide(path + suffix, separator), newest_of(want)
    got["names"] = [line.rsplit(b"\t", 1)[0] for line in slurp(path + ".tsv").split(b"\n")[:-1]]
    wants["names"] = slurp(path + ".names").split(b"\n")[:-1]
    view = walk(path + ".rows")
    archive = tarfile.open(fileobj=io.BytesIO(slurp(path + ".tar")), encoding="utf-8", errors="surrogateescape")
    got["tar"] = {m.name[1:]: archive.extractfile(m).read() for m in archive if m.isfile() and m.name != "./.schema"}
    wants["tar"] = {k: v[0] for k, v in view.items()}
    got["rows"] = sorted((v[1], v[0]) for v in view.values())
    wants["rows"] = sorted((c[3], c[4]) for c in want)
    got["inodes"] = {k: TREE.get(k) for k in view}
    wants["inodes"] = view
    top = [e for e in os.listdir(path + ".rows") if not e.endswith("%")]
    got["order"] = [e for e in top]
    wants["order"] = [e.decode() for e in (os.fsencode(clause("", r))[1:] if not r.startswith(b".") else b"%2E" + r[1:] for r in rows) if len(e) <= 255]
    newest = list({c[:3]: c for c in want[::-1]}.values())
    got["latest"] = sorted((v[1], v[0]) for v in walk(path + ".latest").values())
    wants["latest"] = sorted((c[3], c[4]) for c in newest)
    # Names that are looked up, and not listed.
    some = rnd.sample(sorted(TREE), 12)
    got["looked up"] = [os.path.exists(path + ".rows" + p) for p in some]
    wants["looked up"] = [p in view for p in some]
    bad += [(path, k, got[k], wants[k]) for k in wants if got[k] != wants[k]]
for path, k, got, want in bad[:3]:
    note("seed %d: %s %s" % (seed, path, k))
    note("got   ", repr(got)[:400])
    note("wanted", repr(want)[:400])
ok(not bad, "%s %s: %d scans with random clauses" % (table, state, steps))
EOF2
check() { py "${SEED:-1}" "${3:-${STEPS:-8}}" "$1" "$2" <"$W/check.py"; }
check plain "in memtables"
check salted "in memtables"
echo flush >plain/.ctl; echo flush >salted/.ctl
echo "split r2" >plain/.ctl; echo "split com.cnn%2Fw5" >plain/.ctl
check plain "in three tablets"
check salted "in SSTables"
echo compact >plain/.ctl
check plain "compacted"

# ---- snapshots and clones: the tables change, and their own cells do not ----
for table in plain salted; do
	cat $table/.scan/.tsv >"$W/$table.then"
	mkdir $table/.snap/then
	echo "clone $table-clone" >$table/.ctl
	rm -r $table/r3* $table/com.cnn*
	for i in 2 3 4 5; do mkdir -p $table/r$i/f $table/new$i/g && echo new | tee $table/r$i/f/q1@7 $table/r$i/f/new >$table/new$i/g/q2; done
	echo compact >$table/.ctl
	for from in $table/.snap/then $table-clone; do
		cat "$from/.scan/.tsv" >"$W/now"
		same "$W/now" "$W/$table.then" "$from has the cells of then"
		check "$from" "beside its table" $((${STEPS:-8} / 5))
	done
	mkdir -p $table-clone/own/g && echo own >$table-clone/own/g/q1@5
	rm -r $table-clone/r2*
	check $table-clone "with changes of its own" $((${STEPS:-8} / 5))
done
mkdir .snap/all
check .snap/all/plain "among snapshots of all tables" $((${STEPS:-8} / 5))

# ---- errors and limits ----
for bad in foo=1 prefix limit=0 limit=x reverse=maybe family=nope row='((' since=someday since=nowadays since=2026-02-31 since=2026-11-21T10:00+1x to=a/to=b sample=0 sample=101% sample=0.00001% sample=x from=%2g 'row=(a)\2' 'row=b(*ACCEPT)' where=f 'where=f:q=' 'where=f:q=a b' 'where=(f:q' 'where=f:q)' 'where=f:"q' 'where=f:q and' where=nope:q 'value=(*LIMIT_MATCH=9)a'; do
	fails "EINVAL: $bad" "Invalid argument" cat "plain/.scan/$bad/.tsv"
done
like "$(daemon_log)" "plain/.scan/limit=x: it needs a number" "the log has the reason"
tail -n 1 .tabletfs/log >"$W/last"
like "$(cat "$W/last")" "the pattern of .*is not valid" "  of a pattern"
cat plain/.scan/family=f,nope/.tsv 2>/dev/null
like "$(tail -n 1 .tabletfs/log)" "it has no family .nope." "  of a family"
grep -o ': .*' .tabletfs/refused | tail -n 1 >"$W/last"
cat 'plain/.scan/where=f:q=1/where=f:p=a b/.tsv' 2>/dev/null
like "$(tail -n 1 .tabletfs/refused)" "where=f:p=a b: after a column: and, or, the end or an operator; a VALUE with a space" "/.tabletfs/refused has the reason of a condition"
cat 'plain/.scan/where=nope:q/.tsv' 2>/dev/null
like "$(tail -n 1 .tabletfs/refused)" "it has no family .nope." "  and of its family"
like "$(cat plain/.scan/.help)" "qlimit=N" ".help lists the clauses"
# Several conditions, and values as echo and printf write them.
where() { # where ROWS CONDITION...: each CONDITION is a clause
	local rows=$1 path=plain/.scan
	shift
	for c; do path=$path/where=$c; done
	is "$(cat "$path/.keys" | tr '\n' ' ')" "$rows" "where: $*"
}
for i in 1 2 10 -3 1.5 1.50 x; do mkdir -p plain/num$i/f && echo $i >plain/num$i/f/n; done
printf 007 >plain/num1/f/n; mkdir -p plain/num2/g && echo yes >plain/num2/g/flag; echo 99 >plain/num2/f/n@1
where "num1 num10 num2 numx " 'f:n > 1.5'
where "num-3 num1.5 num1.50 " 'f:n <= +1.5000'
where "num1 num10 num2 " 'f:n>=2' 'f:n < 99999999999999999999999999'
where "num1 " f:n=7
where "numx " f:n=x
where "num2 " 'f:n' g:flag=yes
where "num10 " 'f:n=10 or f:n=99' 'not g:flag'
is "$(cat 'plain/.scan/prefix=num/where=not g:flag and not f:n/.count' | head -n 1)" "rows	0" "not"
is "$("$TABLETCTL" scan --where 'f:n>=2' --where 'f:n<8' --family f --versions 1 plain | cut -f 1,4)" "num1	007
num2	2\\n" "tabletctl scan --where, twice"
is "$("$TABLETCTL" count --where g:flag plain | tail -n 1)" "cells	3" "tabletctl count --where: the clause selects rows, not cells"
is "$("$TABLETCTL" get --where f:n=3 plain num2; echo $?)" 1 "tabletctl get --where: the row does not meet it"
fails "tabletctl names the reason of a condition" "where=f:n=: a VALUE is needed after the operator" "$TABLETCTL" scan --where f:n= plain
rm -r plain/num*
# Samples, several prefixes, lists of keys.
is "$(cat plain/.scan/sample=20%/.keys)" "$(cat plain/.scan/sample=20%25/.keys)" "sample=20%: a percent sign may be escaped"
is "$(cat plain/.scan/sample=20%/.keys plain/.scan/sample=40%/.keys | sort | uniq -d)" "$(sort <(cat plain/.scan/sample=20%/.keys))" \
	"  and a larger sample has the rows of a smaller one"
is "$(cat plain/.scan/prefix=r2/prefix=r1/prefix=r11/from=r12/to=r21/.keys | tr '\n' ' ')" "$(cat plain/.scan/from=r12/to=r21/.keys | tr '\n' ' ')" \
	"prefixes that overlap have each row once, within the bounds"
mkdir -p plain/a,b/f && echo 1 >plain/a,b/f/q
is "$(cat plain/.scan/prefix=a,b/.keys plain/.scan/prefix=a/prefix=none/.keys | tr '\n' ' ')" 'a,b a\tb a,b ' "a comma is a byte of the key"
is "$("$TABLETCTL" scan --prefix r1 --prefix r3 --limit 99 --format keys plain)" "$(cat plain/.scan/prefix=r1/prefix=r3/.keys)" "tabletctl scan --prefix, twice"
printf 'r7\nnone\nr3\na\\tb\nr7\n' >"$W/keys"
is "$("$TABLETCTL" scan --rows "$W/keys" --format keys plain | tr '\n' ' ')" 'a\tb r3 r7 ' "tabletctl scan --rows: each row once, in the order of keys"
is "$("$TABLETCTL" scan --rows - --prefix r --reverse --limit 1 --format keys plain <"$W/keys")" r7 "  from standard input, with clauses"
is "$("$TABLETCTL" scan --rows "$W/keys" plain)" "$(cat plain/.scan/'row=(r7|r3|a\tb)'/.tsv)" "  all cells"
is "$("$TABLETCTL" scan --rows "$W/keys" --format names salted)" "$(cat salted/.scan/'row=(r7|r3|a\tb)'/.names)" "  names, of a salted table"
is "$("$TABLETCTL" count --rows "$W/keys" plain)" "$(cat plain/.scan/'row=(r7|r3|a\tb)'/.count)" "tabletctl count --rows"
is "$("$TABLETCTL" count --rows /dev/null plain | tr '\n' ' ')" "rows	0 cells	0 " "  of an empty list"
printf 'r1\n\n' >"$W/keys"
fails "tabletctl names a line without a key" "keys:2: a row key has 1 to 65536 bytes" "$TABLETCTL" scan --rows "$W/keys" plain
fails "  and a file that is not there" "nofile: No such file" "$TABLETCTL" count --rows nofile plain
rm -r plain/a,b
# A value may be pasted from any name of a file, and split anywhere.
is "$(cat plain/.scan/prefix=%2Edot/.keys plain/.scan/from=%2Ed%6Ft/limit=1/.keys)" "$(printf '.dot\n.dot')" "a name that begins with an escaped dot"
is "$(cat plain/.scan/qprefix=a%40b/.count)" "$(cat plain/.scan/qprefix=a@b/.count)" "an escaped @"
keys() { cat "plain/.scan$1/.keys"; }
is "$(keys /from=r2)" "$(keys '' | LC_ALL=C awk '$0 >= "r2"')" "from= bounds rows"
is "$(keys /to=r2)" "$(keys '' | LC_ALL=C awk '$0 < "r2"')" "to= bounds rows"
is "$(keys /after=r2)" "$(keys '' | LC_ALL=C awk '$0 > "r2"')" "after= bounds rows"
is "$(cat plain/.scan/prefix=lo%/ng%/xxx/.count)" "$(cat plain/.scan/prefix=longxxx/.count)" "a value in short parts"
# Times are half-open, in each spelling of ISO 8601 that date(1) prints.
mkdir -p plain/time/f && echo t >plain/time/f/q@1795255200000000 && echo t >plain/time/f/q@1795255200250000
times() { # times TIME SINCE UNTIL: the cells with timestamps from TIME on, and before it
	is "$(grep -c . "plain/.scan/row=time/since=$1/.tsv") $(grep -c . "plain/.scan/row=time/until=$1/.tsv")" "$2 $3" "$1"
}
for time in 1795255200000000 2026-11-21T10 2026-11-21T10:00 2026-11-21T10:00Z '2026-11-21 10:00:00' 2026-11-21T11:00+01 2026-11-21T11:00:00+01:00 2026-11-21T06:30:00.000000-0330; do
	times "$time" 2 0
done
for time in 1795255200250000 2026-11-21T10:00:00.25 2026-11-21T10:00:00,250000000+00:00 2026-11-21T10:00:00.000001Z; do times "$time" 1 1; done
rm plain/time/f/*
us() { date -u -d "$1" +%s%6N; }
for time in now today yesterday tomorrow; do
	# A row with a version before and one behind the time; the day may change meanwhile.
	at=$(us "$([ $time = now ] && echo now || echo "$time 00:00Z")")
	echo t >"plain/time/f/$time@$((at - 90000000000))" && echo t >"plain/time/f/$time@$((at + 90000000000))"
	is "$(cut -f 3 "plain/.scan/row=time/qualifier=$time/since=$time/.tsv"):$(cut -f 3 "plain/.scan/row=time/qualifier=$time/until=$time/.tsv")" \
		"$((at + 90000000000)):$((at - 90000000000))" "since=$time and until=$time"
	is "$("$TABLETCTL" scan --row time --qualifier $time --at $time plain | cut -f 3)" "$((at - 90000000000))" "  tabletctl scan --at $time"
done
is "$(cat plain/.scan/changed=yesterday/.count)" "$(cat plain/.scan/.count)" "changed=yesterday"
is "$(cat plain/.scan/changed=tomorrow/.count | tr '\n\t' '  ')" "rows 0 cells 0 " "changed=tomorrow"
rm -r plain/time
for flag in yes true on 1; do is "$(cat plain/.scan/reverse=$flag/.keys)" "$(cat plain/.scan/.keys | tac)" "reverse=$flag"; done
for flag in no false off 0; do is "$(cat plain/.scan/reverse=$flag/.keys)" "$(cat plain/.scan/.keys)" "reverse=$flag"; done
for word in now today yesterday true no; do like "$(cat plain/.scan/.help)" "\\b$word\\b" ".help has $word"; done
is "$(ls -A plain/.scan | grep -v "^[a-z-]*=$")" "" "of a scan its clauses are listed, and no control names"
fails "a view is read-only: a new file" "Read-only" touch plain/.scan/.rows/new
fails "an existing one" "Read-only" dd of=plain/.scan/.rows/r1/new status=none
fails "mkdir" "Read-only" mkdir plain/.scan/.rows/new
fails "rmdir" "Read-only" rmdir plain/.scan/.rows/r1
fails "mv out of a view" "Read-only" mv -T plain/.scan/.rows/r1 plain/other
fails "mv into a view" "Read-only" mv -T plain/r1 plain/.scan/.rows/other
fails "an attribute" "Read-only" python3 -c 'import os; os.setxattr("plain/.scan/.rows/r1", "user.x", b"1")'
fails "a row has no control files in a view" "No such file" cat plain/.scan/.rows/r1/.row.json
fails "a stream is read-only" "Permission denied|Read-only" dd if=/dev/null of=plain/.scan/.tsv status=none conv=notrunc
is "$(stat -c %s plain/.scan/.tsv)" 0 "a stream has no size"
# ---- tabletctl ----
ctl() { "$TABLETCTL" "$@"; }
is "$(ctl scan --prefix r1 --limit 2 plain)" "$(cat plain/.scan/prefix=r1/limit=2/.tsv)" "tabletctl scan"
is "$(ctl scan --row '.*\d' --reverse --format keys plain)" "$(cat 'plain/.scan/row=.*\d/reverse=yes/.keys')" "a pattern, and keys"
is "$(ctl scan --prefix 'a\tb' --format jsonl plain)" "$(cat plain/.scan/prefix=a%09b/.jsonl)" "an escape in a key"
is "$(ctl count --prefix "long$(printf %0300d 0 | tr 0 x)" plain | head -n 1)" "rows	2" "tabletctl count, with a long key"
fails "an invalid clause" "limit=x: it needs a number, at least 1" ctl scan --limit x plain
fails "not a table" "not a table" ctl scan "$W"
for verb in "get $M row f:q" "get $M row" "scan $M" "count $M/" "put $M row f:q v" "delete $M row"; do
	# shellcheck disable=SC2086
	fails "tabletctl $verb: a mount is no table" "^tabletctl: $M/?: a mount, not a table: TABLE_PATH is $M/TABLE\$" ctl $verb
done
mkdir -p plain/got/f && echo one >plain/got/f/q@7 && echo two >plain/got/f/q@8
is "$(ctl get plain got f:q) $(ctl get plain got f:q@7)" "two one" "tabletctl get of a cell"
is "$(ctl get --versions 1 plain got)" "$(printf 'got\tf:q\t8\ttwo\\n')" "of a row"
ctl get plain got f:no >/dev/null; is $? 1 "of an absent cell: status 1"
ctl get plain no >/dev/null; is $? 1 "of an absent row"
ctl get plain got fq 2>/dev/null; is $? 2 "bad usage: status 2"
rm -r plain/got
# An evil pattern ends with an error, and the mount answers meanwhile.
mkdir -p plain/r1/f
head -c 3000 /dev/zero | tr '\0' a >plain/r1/f/evil
fails "a pattern that backtracks ends" "Timer expired|Time" cat 'plain/.scan/value=(a+)+[bc]/.tsv'
# ---- users, and many long scans at once ----
as_other() { setpriv --reuid 1000 --regid 1000 --clear-groups "$@"; }
mkdir plain/.families/secret && chmod 700 plain/.families/secret && mkdir -p plain/r0/secret && echo s >plain/r0/secret/a
is "$(ls plain/.scan/value-is=s%0A/.rows; cat plain/.scan/family=secret/.keys)" "$(printf 'r0\nr0')" "root finds a family with mode 700"
is "$(as_other ls plain/.scan/value-is=s%0A/.rows; as_other cat plain/.scan/prefix=r0/.jsonl | grep secret)" "" \
	"another user does not, in views and in streams"
is "$(as_other cat plain/.scan/value-is=s%0A/.count | head -n 1)" "rows	0" "nor in counts"
chgrp 2001 plain/.families/secret && chmod 750 plain/.families/secret && mkdir -p plain/!first/secret && echo s >plain/!first/secret/a
first_row() { setpriv --reuid 1000 --regid 1000 "$@" ls plain/.scan/limit=1/.rows; }
is "$(first_row --groups 2001)" "!first" "limit: a member of a group finds the first row that the group may read"
unlike "$(first_row --clear-groups)" '^(!first)?$' "  and the same user without the group the first that he may"
rm -r plain/!first
is "$(cat plain/.scan/where=secret:a=s/.keys)" r0 "root selects rows by a column of the family"
fails "another user may not: a stream" "Permission denied" as_other cat plain/.scan/where=secret:a=s/.keys
fails "  or a view" "Permission denied" as_other ls plain/.scan/where=secret:a=s/.rows
fails "  also where the family's column cannot matter" "Permission denied" as_other cat 'plain/.scan/where=f:q1 or not secret:a/.count'
rmdir_secret() { rm -r plain/r0/secret && rmdir plain/.families/secret; }
ok "the family is removed" rmdir_secret
py <<'EOF2'
from tap import *
with open("plain/.import", "wb") as f:
    for i in range(1500):
        f.write(b"bulk%05d\tf:q\t1\t%s\n" % (i, b"0" * 40))
with open(W + "/big.tsv", "wb") as f:
    for i in range(1, 1001):
        f.write(b"row%05d\tf:q\t%d\t%s\nrow%05d\tg:q\t%d\t%s\n" % (i, i, b"0" * 200, i, i, b"0" * 200))
with open(W + "/new.tsv", "wb") as f:
    for i in range(1, 101):
        f.write(b"row%05d\tf:q\t%d\t%s\n" % (i, i + 100000, b"0" * 200))
ok(True, "many rows are imported")
EOF2
scans=()
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
	cat 'plain/.scan/prefix=bulk/value=(0*)(0*)[xy]/.tsv' >"$W/long.$i" &
	scans+=($!)
done
ok "30 long scans leave threads for other requests" t ls plain/r0
timeout -s INT -k 20 0.02 cat 'plain/.scan/prefix=bulk/value=(0*)(0*)(0*)(0*)[xy]/.tsv'
is $? 124 "a long scan can be interrupted"
wait "${scans[@]}"
echo 'drop-rows bulk' >plain/.ctl
rsync_view() { rm -rf "$W/out" && rsync -a plain/.scan/prefix=r1/.rows/ "$W/out/" && [ -z "$(rsync -ain plain/.scan/prefix=r1/.rows/ "$W/out/")" ]; }
ok "rsync copies a view, and a second one copies nothing" rsync_view
cd /
remount
cd "$M" || exit 1
is "$(head -n 1 plain/.scan/prefix=r/.keys)" r0 "a scan after a remount"
check plain/.snap/then "after a remount" $((${STEPS:-8} / 5))
check plain-clone "after a remount" $((${STEPS:-8} / 5))
# ---- the bytes read grow with the answer: blocks of cold files ----
mkdir big && printf 'families = ({name = "f"; gc = "maxversions=2";}, {name = "g"; group = "other";});\ngroups = ({name = "default"; block_size = "4K"; compression = "none";}, {name = "other"; block_size = "4K"; compression = "none";});\n' >big/.schema
cat "$W/big.tsv" >big/.import && echo compact >big/.ctl
between=$(date +%s%6N)
cat "$W/new.tsv" >big/.import && echo flush >big/.ctl
# Sets $n to the number of blocks that the scan reads from a store that was just opened.
blocks() { # blocks CLAUSES
	cd / && remount && cd "$M" || return
	n=$(sed -n 's/^tabletfs_blocks_read_total //p' .tabletfs/metrics)
	cat "big/.scan/$1/.count" >"$W/count"
	n=$(($(sed -n 's/^tabletfs_blocks_read_total //p' .tabletfs/metrics) - n))
}
blocks versions=9
all=$n
few() { # few CLAUSES ROWS: at most a fifth of all blocks
	blocks "$1"
	is "$(head -n 1 "$W/count") $((n * 5 <= all))" "rows	$2 1" "$1 reads few blocks ($n of $all)"
}
few prefix=row0050 10
few reverse=yes/limit=5 5
few since=100001 100
few "changed=$between" 100
few where=g:q/prefix=row0050 10
blocks family=g/value=x
values=$n
blocks where=g:q=x/family=g
is "$((n * 10 <= values * 11))" 1 "where=g:q=x/family=g reads the other locality group only, each block once ($n, as value=x $values)"
blocks where=g:q=x/family=f
is "$((n * 10 <= (values + all) * 11))" 1 "where=g:q=x/family=f reads the values of the condition only ($n of $values and $all)"
blocks family=g
is "$((n * 10 <= all * 6))" 1 "family=g reads one locality group ($n of $all)"
# ---- a walk that reads no files reads few values ----
mkdir -p files/.families/f
awk 'BEGIN { v = sprintf("%900s", ""); gsub(/ /, "some text ", v); for (i = 10000; i < 13000; i++) printf "r%d\tf:q\t5\t%d%s\n", i, i, v }' >files/.import
echo compact >files/.ctl
walk() { # walk COMMAND...: sets $n as blocks does
	cd / && remount && cd "$M" || return
	n=$(sed -n 's/^tabletfs_blocks_read_total //p' .tabletfs/metrics)
	"$@" >"$W/walked" || return
	n=$(($(sed -n 's/^tabletfs_blocks_read_total //p' .tabletfs/metrics) - n))
}
walk grep -r -c ^1 files --include=q@5
all=$n
walk find files -name q@5 -size +0
is "$(wc -l <"$W/walked") $((n * 3 <= all))" "3000 1" "find over 3,000 files of 9,000 bytes reads few blocks ($n, grep $all)"
cd /
remount -o ro
if [ -z "$OVER" ]; then # a mount of a served store sees what others write, so it has them
	fails "a read-only mount has no streams" "not supported" cat "$M/plain/.scan/.tsv"
	fails "  and tabletctl says so" "a read-only mount has no streams" ctl count "$M/plain"
fi
is "$(ls "$M/plain/.scan/prefix=r1/to=r10/.rows")" r1 "it has views"
done_testing
