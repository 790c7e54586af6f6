#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletfs.so answers 200 random queries as a plain table of SQLite with the same cells
# does: rows, columns and types, with keys that are not UTF-8, that look like numbers, and
# of 64 KiB.  Conditions on keys read a part of a large table.  Changes are one row
# mutation each, and a second row is refused.  It works through a mount, a socket, and on
# a data directory, and a user sees what he may read.
# shellcheck source=t/lib/mount.sh disable=SC2119
PATH=/usr/bin:$PATH # Debian's Python, which loads extensions
. "${SRC:-.}/t/lib/mount.sh" || exit 1
has sqlite3 && [ -e "$BUILD/sql/tabletfs.so" ] || cannot_run "there is no sqlite3"
export LD_LIBRARY_PATH="$BUILD${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" TEST_SEED="${TEST_SEED:-1}"
ok "mount" mount_store
mkdir -p "$M/t/.families/f" "$M/t/.families/g" "$M/t/.families/n"
echo counter >"$M/t/.families/n/type"
seq -f 'user%05.0f	f:q	1	x' 0 19999 | t "$TABLETCTL" import -p "$M/big" >"$W/.import" 2>&1

cat >"$W/sql.py" <<'PY'
import os, sqlite3, subprocess
BUILD, W = os.environ["BUILD"], os.environ["W"]


def connect(path=":memory:"):
    db = sqlite3.connect(path, isolation_level=None)
    db.enable_load_extension(True)
    db.load_extension(BUILD + "/sql/tabletfs")
    return db


def error(db, sql, *args):
    try:
        db.execute(sql, args).fetchall()
    except sqlite3.Error as e:
        return str(e)
    return "no error"


def stored(b):
    """Bytes as the extension shows them."""
    try:
        return b if b"\0" in b else b.decode()
    except UnicodeDecodeError:
        return b


def escaped(b):
    return b"".join(bytes([c]) if 0x20 <= c < 0x7f and c != 0x5c else b"\\x%02x" % c for c in b)


def load(table, cells):
    """Imports cells: row, family, qualifier, timestamp, value."""
    lines = [b"%s\t%s:%s\t%d\t%s\n" % (escaped(r), f.encode(), escaped(q), ts, escaped(v)) for r, f, q, ts, v in cells]
    subprocess.run([os.environ["TABLETCTL"], "import", table], input=b"".join(lines), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
PY
export PYTHONPATH="$W:$PYTHONPATH"

py <<'PY'
import random
from tap import *
from sql import *
rnd = random.Random(int(os.environ["TEST_SEED"]))
print("# TEST_SEED=" + os.environ["TEST_SEED"])
KEYS = [b"a", b"abc", b"abd", b"ab\xff", b"ab\xc3\xbc", b"ab\xe0\x83\xbc", b"abc\0d", b"B", b"b", b"Abc", b"5", b"05", b"5.0", b" 5", b"-1", b"1e3", b":", b";", b"!x", b"2026-11-29", b"2026-11-30",
        b"\xff\xfe", b"\0", b"\x80", b"\xc3\xbc", b"zz\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"z" * 65536, b"\xfe" * 65535 + b"z", b"%", b"_a", b"100%"]
cells = {}
for i in range(220):
    f = rnd.choice("ffg")
    cells[rnd.choice(KEYS), f, rnd.choice(KEYS[:-6])[:100], rnd.choice((-5, 0, 1, 2, 3, 1 << 40, (1 << 63) - 1))] = rnd.choice((b"", b"x", b"5", b"\xff", b"a\0b", b"value"))
for k in rnd.sample(KEYS, 12):
    for q in (b"en", b"hits", b"x"):
        if rnd.random() < .7:
            cells[k, "g" if q == b"hits" else "f", q, rnd.randrange(9)] = rnd.choice((b"7", b" 12\n", b"1.0", b"3.5", b"text", b"\xff", b"0x10", b"9223372036854775808"))
for k in rnd.sample(KEYS, 5):
    cells[k, "n", b"c", 4] = b"%d\n" % rnd.randrange(-99, 99)
cells = [k + (v,) for k, v in cells.items()]
load(os.environ["M"] + "/t", cells)

db = connect()
db.execute("CREATE VIRTUAL TABLE v USING tabletfs('%s', 't')" % os.environ["M"])
db.execute("CREATE VIRTUAL TABLE w USING tabletfs('%s', 't', 'en=f:en', 'hits=g:hits INTEGER', 'r=f:en2 REAL', 'b=f:x BLOB', n=n:c)" % os.environ["M"])
db.execute('CREATE TABLE p("row" TEXT, family TEXT, qualifier TEXT, timestamp INTEGER, value)')
db.execute('CREATE TABLE pw("row" TEXT PRIMARY KEY NOT NULL, en, hits INTEGER, r REAL, b BLOB, n)')
newest = {}
for r, f, q, ts, v in cells:
    db.execute("INSERT INTO p VALUES(?, ?, ?, ?, ?)", (stored(r), f, stored(q), ts, int(v) if f == "n" else stored(v)))
    if newest.get((r, f, q), (None,))[0] is None or ts > newest[r, f, q][0]:
        newest[r, f, q] = ts, v
for r in {r for r, f, q in newest}:
    get = lambda f, q: newest.get((r, f, q), (0, None))[1]
    en, hits, b, n = get("f", b"en"), get("g", b"hits"), get("f", b"x"), get("n", b"c")
    if (en, hits, b, n) != (None,) * 4:
        db.execute("INSERT INTO pw VALUES(?, ?, ?, ?, ?, ?)", (stored(r), en and stored(en), hits and stored(hits), None, b, n and int(n)))
db.execute("CREATE TABLE o(i INTEGER, s TEXT, b BLOB)")
for k in rnd.sample(KEYS, 9):
    db.execute("INSERT INTO o VALUES(?1, ?1, ?1)", (stored(k),))
db.execute("INSERT INTO o VALUES(5, 5, 5), (NULL, NULL, NULL), ('!x', '!x', '!x'), ('2026-11-29', '2026-11-29', '2026-11-29')")
FIXED = ["SELECT t.row, o.%s FROM THE_TABLE AS t, o WHERE t.row %s o.%s" % (c, op, c) for c in "isb" for op in ("=", "<", "<=", ">", ">=")]
FIXED += ["SELECT t.row FROM THE_TABLE AS t WHERE t.%s ORDER BY t.row LIMIT 40" % w for w in ("row LIKE 'ab%'", "row GLOB '*b*'", "row > '5' AND t.row < x'ff'", "row >= 5", "row < 6.0", "row < 'b'", "qualifier > 'a'",
                                                                                             "qualifier < x'ab'", "qualifier IN ('a', 'b')", "timestamp > 1.5", "timestamp < '2'", "timestamp IN (1, 3)", "family IN ('f', 5)")]
FIXED += ["SELECT t.row FROM THE_TABLE AS t WHERE t.family IN (x'66', 'n') ORDER BY t.row LIMIT 3"] # no family is a BLOB
for sql in FIXED:
    got, want = (db.execute(sql.replace("THE_TABLE", name)).fetchall() for name in ("v", "p"))
    if "ORDER" not in sql:
        got, want = sorted(map(repr, got)), sorted(map(repr, want))
    ok(got == want and got, sql)


def literal(v):
    if v is None:
        return "NULL"
    return "x'%s'" % v.hex() if isinstance(v, bytes) else "'%s'" % v.replace("'", "''") if isinstance(v, str) else str(v)


def operand(args, joined, numbers):
    kind = rnd.random()
    if joined and kind < .4:
        return "o." + rnd.choice("isb")
    v = rnd.choice((-5, 0, 1, 2, 1.5, 2.0, "2", "x", None, 1 << 40, (1 << 63) - 1, -1e30)) if numbers else rnd.choice([stored(k) for k in KEYS] * 3 + [5, 5.0, -1, None, "", b""])
    if kind < .7 or (isinstance(v, str) and "\0" in v):
        args.append(v)
        return "?"
    return rnd.choice(("%s", "%s", "%s", "CAST(%s AS TEXT)", "CAST(%s AS INTEGER)", "+%s")) % literal(v)


def condition(args, joined, wide):
    columns = ["row"] * 4 + (["en", "hits"] if wide else ["qualifier", "family", "timestamp", "timestamp", "value"])
    c = rnd.choice(columns)
    full = "t." + c
    op = rnd.choice(("=", "<", "<=", ">", ">=", "BETWEEN", "IN", "GLOB", "LIKE", "IS", "!=", "= COLL"))
    o = lambda: operand(args, joined, c == "timestamp")
    if c == "family":
        o = lambda: rnd.choice(("'f'", "'g'", "'n'", "'none'", "NULL", "x'66'"))
        op = rnd.choice(("=", "IN", "<", "!="))
    if op == "BETWEEN":
        return "%s BETWEEN %s AND %s" % (full, o(), o())
    if op == "IN":
        if rnd.random() < .3:
            return "%s IN (SELECT %s FROM o)" % (full, rnd.choice("isb"))
        return "%s IN (%s)" % (full, ", ".join(o() for _ in range(rnd.randrange(1, 5))))
    if op in ("GLOB", "LIKE"):
        return "%s %s '%s'" % (full, op, rnd.choice(("a*", "ab?", "ab%", "5%", "%", "*", "2026-1*", "2026-11-%", "ab\xfc*", "abc", "[a-c]*", ":%", "zz*", "z*", "_%")))
    if op == "= COLL":
        return "%s %s %s COLLATE NOCASE" % (full, rnd.choice(("=", "<", ">=")), o())
    return "%s %s %s" % (full, op, o())


ROW = "t.row, typeof(t.row), "
wrong = []
for i in range(200):
    args, joined, wide = [], rnd.random() < .25, rnd.random() < .35
    where = [condition(args, joined, wide) for _ in range(rnd.randrange(0, 4))]
    glue = rnd.choice((" AND ", " AND ", " AND ", " OR "))
    keys = ["t.row"] if wide else ["t.row", "t.family", "t.qualifier", "t.timestamp"]
    wanted = rnd.choice((ROW + "t.en, typeof(t.en), t.hits, typeof(t.hits), t.r, t.b, typeof(t.b), t.n, typeof(t.n)", "t.row", "t.hits") if wide else
                        (ROW + "t.family, t.qualifier, typeof(t.qualifier), t.timestamp, t.value, typeof(t.value)", "t.row", "t.row, count(*), max(t.timestamp)", "DISTINCT t.row"))
    tail, ordered = "", False
    if "count" in wanted:
        tail = " GROUP BY t.row"
    elif rnd.random() < .4 and not joined:
        descending = rnd.choice(("", " DESC"))
        if wanted == "DISTINCT t.row" or wide:
            tail, ordered = " ORDER BY t.row" + descending, True
        else:
            tail, ordered = " ORDER BY " + ", ".join(k + descending for k in keys), True
        if wanted in ("t.row", "DISTINCT t.row"):
            tail = " ORDER BY t.row" + descending
        if rnd.random() < .7 and not any("AS INTEGER" in w for w in where):
            tail += " LIMIT %d OFFSET %d" % (rnd.randrange(1, 9), rnd.randrange(3))
    sql = "SELECT %s FROM THE_TABLE AS t%s%s%s" % (wanted, ", o" if joined else "", " WHERE " + glue.join(where) if where else "", tail)
    if "AS INTEGER" in sql and "GROUP" in sql: # see below: SQLite makes a group of each run of equal rows then
        continue
    got, want = (db.execute(sql.replace("THE_TABLE", name), args).fetchall() for name in (("w", "pw") if wide else ("v", "p")))
    if "AS INTEGER" in sql: # SQLite takes a column that is equal to a number for constant, though it is '5' or '05'
        want, ordered = list(dict.fromkeys(want)) if "DISTINCT" in sql else want, False
    if not ordered:
        got, want = sorted(map(repr, got)), sorted(map(repr, want))
    if got != want:
        wrong.append("%d rows, not %d: %s %s" % (len(got), len(want), sql[:300], repr(args)[:200]))
for line in wrong[:9]:
    print("# " + line)
same(len(wrong), 0, "200 queries are answered as by a plain table")
same(sorted(map(repr, db.execute("SELECT row, value FROM v WHERE length(CAST(row AS BLOB)) > 60000"))),
     sorted(map(repr, db.execute("SELECT row, value FROM p WHERE length(CAST(row AS BLOB)) > 60000"))), "keys of 64 KiB")
PY

# ---- conditions are clauses ----
scanned() { awk '/^tabletfs_table_scanned_cells_total.*"big"/ { print $2 }' "$M/.tabletfs/metrics"; }
sql() { T=60 t sqlite3 -batch -cmd ".load $BUILD/sql/tabletfs" "$@" 2>&1; }
big="CREATE VIRTUAL TABLE b USING tabletfs('$M', 'big'); CREATE VIRTUAL TABLE o USING tabletfs('$M', 'big', 'q=f:q')"
n=0
while IFS='|' read -r wanted query; do
	n=$((n + 1))
	before=$(scanned)
	is "$(sql :memory: "$big" "$query")" "$wanted" "$query"
	after=$(scanned)
	ok "  20000 rows are not read for it: $((after - before)) cells" test $((after - before)) -lt 4000
done <<'TXT'
1|SELECT count(*) FROM b WHERE row = 'user01234'
10|SELECT count(*) FROM b WHERE row >= 'user01230' AND row < 'user01240'
10|SELECT count(*) FROM b WHERE row BETWEEN 'user01230' AND 'user01239' AND family = 'f'
10|SELECT count(*) FROM b WHERE row GLOB 'user0123*'
2|SELECT count(*) FROM b WHERE row IN ('user01234', 'user01999', 'none')
1|SELECT count(*) FROM o WHERE row = 'user01234'
3|SELECT count(*) FROM (VALUES('user00001'), ('user00002'), ('user19999')) JOIN o ON o.row = column1
user00000|SELECT row FROM b ORDER BY row LIMIT 1
user19998|SELECT row FROM b ORDER BY row DESC LIMIT 1 OFFSET 1
user01235|SELECT row FROM o WHERE row > 'user01234' LIMIT 1
0|SELECT count(*) FROM b WHERE family = 'none'
0|SELECT count(*) FROM b WHERE row = NULL
TXT
like "$(sql :memory: "$big" "EXPLAIN QUERY PLAN SELECT value FROM b WHERE row >= 'a' AND row < 'b' AND family = 'f' AND timestamp > 5 ORDER BY row LIMIT 3")" \
	"row>='\?' row<'\?' family='\?' timestamp>\? limit=\? order=row" "EXPLAIN QUERY PLAN shows the clauses"
like "$(sql :memory: "$big" "EXPLAIN QUERY PLAN SELECT row FROM b WHERE row = 'a' COLLATE NOCASE")" ':keys' "another collation is no clause"

# ---- changes ----
py <<'PY'
from tap import *
from sql import *
db = connect()
db.execute("CREATE VIRTUAL TABLE c USING tabletfs('%s', 't')" % M)
db.execute("CREATE VIRTUAL TABLE w USING tabletfs('%s', 't', 'a=f:a', 'i=f:i INTEGER', 'n=n:n', 'blob=f:blob BLOB')" % M)
rows = lambda sql, *args: db.execute(sql, args).fetchall()
ONE = "tabletfs: t: a transaction changes one row of one table, and this one has changed a row of t already"
EXISTS = "tabletfs: t: the row or the cell exists already"
W_ROW = "SELECT a, i, n, blob FROM w WHERE row = ?"


def refused(sql, message, *args):
    before = sorted(map(repr, rows("SELECT * FROM c")))
    same(error(db, sql, *args), message, sql)
    same(sorted(map(repr, rows("SELECT * FROM c"))), before, "  and nothing has changed")


rows("INSERT INTO w(row, a, i, n, blob) VALUES('k1', 'text', 12, 5, x'00ff')")
same(rows(W_ROW, "k1"), [("text", 12, 5, b"\0\xff")], "INSERT of a row")
same(open(M + "/t/k1/n/n").read(), "5\n", "  a counter is a number of the mount")
refused("INSERT INTO w(row, a) VALUES('k1', 'again')", EXISTS)
same(rows("INSERT OR IGNORE INTO w(row, a) VALUES('k1', 'again')"), [], "INSERT OR IGNORE")
same(rows(W_ROW, "k1"), [("text", 12, 5, b"\0\xff")], "  changes nothing")
rows("UPDATE w SET i = i + 1, n = n + 1, blob = NULL WHERE row = 'k1'")
same(rows(W_ROW, "k1"), [("text", 13, 6, None)], "UPDATE")
same(rows("SELECT count(*) FROM c WHERE row = 'k1' AND qualifier = 'a'"), [(1,)], "  writes no other column")
rows("INSERT OR REPLACE INTO w(row, i) VALUES('k1', 1)")
same(rows(W_ROW, "k1"), [(None, 1, None, None)], "INSERT OR REPLACE deletes the columns that it does not set")
rows("DELETE FROM w WHERE row = 'k1'")
same(rows(W_ROW, "k1"), [], "DELETE")
rows("INSERT INTO c VALUES(?, 'f', ?, 7, ?)", b"k\xff", b"q\0", "z" * 1000000)
same(rows("SELECT row, qualifier, timestamp, length(value) FROM c WHERE row = ?", b"k\xff"), [(b"k\xff", b"q\0", 7, 1000000)], "a cell with keys that are BLOB and a large value")
rows("UPDATE c SET timestamp = 8, qualifier = 'p' WHERE row = ?", b"k\xff")
same(rows("SELECT qualifier, timestamp, length(value) FROM c WHERE row = ?", b"k\xff"), [("p", 8, 1000000)], "a cell gets another name in its row")
rows("UPDATE c SET value = NULL WHERE row = ?", b"k\xff")
same(rows("SELECT * FROM c WHERE row = ?", b"k\xff"), [], "NULL deletes it")
rows("INSERT INTO c(row, family, qualifier, value) VALUES(?, 'f', '', 'v')", "x" * 65536)
same(rows("SELECT length(row), value FROM c WHERE row = ?", "x" * 65536), [(65536, "v")], "a key of 64 KiB")
rows("DELETE FROM c WHERE row = ?", "x" * 65536)

refused("INSERT INTO w(row, a) VALUES('m1', 1), ('m2', 2)", ONE)
for row in ("d1", "d2"): # the others are random
    rows("INSERT INTO w(row, a) VALUES(?, 'x')", row)
refused("DELETE FROM w", ONE)
refused("UPDATE c SET value = 'x' WHERE family = 'f'", ONE)
rows("INSERT INTO w(row, a) VALUES('m1', 1)")
rows("BEGIN")
rows("UPDATE w SET a = 2 WHERE row = 'm1'")
same(error(db, "INSERT INTO w(row, a) VALUES('m2', 2)"), ONE, "a second row in a transaction")
same(rows("SELECT a FROM w WHERE row = 'm1'"), [("1",)], "a transaction does not read its own changes")
rows("SAVEPOINT s")
rows("UPDATE w SET i = 3 WHERE row = 'm1'")
rows("ROLLBACK TO s")
rows("COMMIT")
same(rows(W_ROW, "m1"), [("2", None, None, None)], "  the first row is stored, without what was rolled back")
rows("BEGIN")
rows("UPDATE w SET a = 3 WHERE row = 'm1'")
rows("ROLLBACK")
same(rows(W_ROW, "m1"), [("2", None, None, None)], "ROLLBACK")
rows("BEGIN")
rows("INSERT INTO w(row, a) VALUES('late', 1)")
subprocess.run([os.environ["TABLETCTL"], "put", M + "/t", "late", "f:a", "other"], check=True)
same(error(db, "COMMIT"), EXISTS + ", since another process made it", "COMMIT, after another process has made the row")
same(rows(W_ROW, "late"), [("other", None, None, None)], "  leaves that")

T = "tabletfs: t: "
refused("UPDATE w SET row = 'other' WHERE row = 'm1'", T + "UPDATE cannot change row: that would change two rows")
refused("UPDATE c SET row = 'other' WHERE row = 'm1'", T + "UPDATE cannot change row: that would change two rows")
refused("INSERT INTO w(row) VALUES('none')", T + "all columns are NULL: a row has a cell")
refused("INSERT INTO w(row, a) VALUES('', 1)", T + "a row key has 1 to 65536 bytes")
refused("INSERT INTO w(row, a) VALUES(?, 1)", T + "a row key has 1 to 65536 bytes", "x" * 65537)
refused("INSERT INTO w(row, a) VALUES(NULL, 1)", T + "row is NULL")
refused("INSERT INTO w(row, n) VALUES('r', 'many')", T + "n has counters: a value is a whole number")
refused("INSERT INTO c VALUES('r', 'none', 'q', 1, 'v')", T + "there is no family none")
refused("INSERT INTO c VALUES('r', 'f', 'q', 'now', 'v')", T + "a timestamp is a whole number of microseconds")
refused("INSERT INTO c VALUES('r', 'f', 'q', 1, NULL)", T + "value is NULL")
refused("INSERT INTO c VALUES('r', 'f', ?, 1, 'v')", T + "a qualifier has at most 16384 bytes", "x" * 16385)
for arguments, message in (("'%s'" % M, "tabletfs(SOURCE, TABLE) or tabletfs(SOURCE, TABLE, 'NAME=FAMILY:QUALIFIER', ...)"),
                           ("'%s', 'none'" % M, "tabletfs: none: %s: there is no such table" % M),
                           ("'%s', '../t'" % M, "../t: not the name of a table or of a snapshot, TABLE/.snap/NAME"),
                           ("'%s/none', 't'" % W, "tabletfs: t: %s/none: there is no store, and none is created here" % W),
                           ("'%s', 't', 'x'" % M, "x: not NAME=FAMILY:QUALIFIER"),
                           ("'%s', 't', 'x=f:q DATE'" % M, "x: its type is none of INTEGER, REAL, TEXT, BLOB; a blank in a qualifier is \\x20"),
                           ("'%s', 't', 'x=f:q', 'y=f:q'" % M, "y: another column has the same family and qualifier"),
                           ("'%s', 't', 'x=f:\\y'" % M, "x: not a qualifier: a backslash begins one of \\t \\n \\r \\\\ \\xHH")):
    same(error(db, "CREATE VIRTUAL TABLE e USING tabletfs(%s)" % arguments), message, "tabletfs(%s)" % arguments[-30:])
utf16 = connect()
utf16.execute("PRAGMA encoding = 'UTF-16'")
ok("the database is UTF-16" in error(utf16, "CREATE VIRTUAL TABLE e USING tabletfs('%s', 't')" % M), "a database in UTF-16 is refused")
ok(not os.path.exists(W + "/none"), "no store was made")

os.mkdir(M + "/t/.snap/day")
rows("CREATE VIRTUAL TABLE s USING tabletfs('%s', 't/.snap/day', 'a=f:a')" % M)
same(rows("SELECT a FROM s WHERE row = 'm1'"), [("2",)], "a snapshot")
same(error(db, "UPDATE s SET a = 1 WHERE row = 'm1'"), "tabletfs: t: the change of a row: Read-only file system", "  cannot be changed")
PY

# ---- tabletctl sql ----
shell() { T=60 t "$TABLETCTL" sql "$@" 2>&1 </dev/null; }
printf 'r\tf:q\t1\tit'"'"'s\n' >"$W/one.tsv"
for name in select a-b.c Name name sqlite_x; do "$TABLETCTL" import -p "$M/$name" "$W/one.tsv" >"$W/.import" 2>&1; done
is "$(shell "$M" -- 'SELECT value FROM "a-b.c" JOIN "select" USING(row, family, qualifier, timestamp, value)' 2>&1 | tail -n 1)" "it's" "tabletctl sql joins two tables"
like "$(shell "$M/" -- "SELECT count(*) FROM big WHERE row < 'user00003'" | tr '\n' '|')" '^tabletctl: name: SQLite needs another name[^|]*[|]tabletctl: sqlite_x: SQLite needs another name[^|]*[|]3[|]$' "  names that SQLite does not take are left out"
is "$(T=60 t "$TABLETCTL" sql "unix:$D" 2>/dev/null <<<'SELECT name FROM sqlite_schema ORDER BY name;' | xargs)" "Name a-b.c big select t" "  of a socket, with commands on its standard input"
is "$(shell "$M" -- -json 'SELECT timestamp FROM "select"' | tail -n 1)" '[{"timestamp":1}]' "  options of sqlite3"
fails "  a wrong statement" "no such table: none" shell "$M" -- "SELECT * FROM none"
fails "  a directory without a store" "neither a data directory nor a mount point" shell "$W/none"
fails "  a statement without --" "-- must be in front" shell "$M" "SELECT 1"
"$TABLETCTL" import -p "$W/it's/t" "$W/one.tsv" >"$W/.import" 2>&1
is "$(shell "$W/it's" -- "SELECT value FROM t")" "it's" "  a data directory with a quote in its name"

# ---- other sources, and other users ----
cells() { sql :memory: "CREATE VIRTUAL TABLE c USING tabletfs('$1', 't')" "${2:-SELECT count(*) > 99 FROM c}"; }
is "$(cells "unix:$D")" 1 "a data directory's socket"
is "$(cells "$D")" 1 "a data directory that is in use"
sql "$W/file.db" "CREATE VIRTUAL TABLE c USING tabletfs('$D', 't')"
chmod 700 "$M/t/.families/g"
unmount_store
is "$(cells "$D")" 1 "a data directory that is not in use"
if [ "$(id -u)" = 0 ] && has setpriv; then
	echo 'socket_mode = "0666";' >"$W/conf"
	chmod 711 "$D"
	mkdir "$W/lib" && cp "$BUILD/sql/tabletfs.so" "$BUILD/libtabletfs.so.0" "$W/lib"
	ok "a server for all users" serve_store -o "config=$W/conf"
	other() { LD_LIBRARY_PATH="$W/lib" T=60 t setpriv --reuid=65534 --regid=65534 --clear-groups sqlite3 -batch -cmd ".load $W/lib/tabletfs" :memory: "CREATE VIRTUAL TABLE c USING tabletfs('unix:$D', 't')" "$1" 2>&1; }
	is "$(other "SELECT group_concat(DISTINCT family) FROM c")" "f,n" "a user does not see a family that he may not read"
	like "$(other "SELECT * FROM c WHERE family = 'g'")" "Permission denied" "  which is an error if the statement names it"
	like "$(other "INSERT INTO c VALUES('r', 'f', 'q', 1, 'v')")" "Permission denied" "  and so is a change that he may not make"
	end_server -TERM
fi
check_store
mv "$D" "$D.away"
like "$(sql "$W/file.db" "SELECT * FROM c")" "there is no store, and none is created here" "a database whose store is absent"
is "$(sql "$W/file.db" "DROP TABLE c")" "" "  its virtual table can be dropped"
mv "$D.away" "$D"
done_testing
