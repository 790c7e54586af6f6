#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 32 processes change, read, snapshot and clone the same tables for MIXED_SECONDS
# (6), and then again until the daemon is killed.  Each process has a model of the
# rows that only it changes, and of its part of what all change.  Reads during the
# run, and the store after a remount, must equal the models.
#
#	MIXED_SECONDS=n ROUNDS="clean kill ..." SEED=n t/82-processes-mix-operations.t
# shellcheck source=t/lib/mount.sh disable=SC2119
PROCESSES=${PROCESSES:-32} MIXED_SECONDS=${MIXED_SECONDS:-4} ROUNDS=${ROUNDS:-clean kill} SEED=${SEED:-$(date +%s)}
PY_LIMIT=$((MIXED_SECONDS + 600)) LIMIT=${LIMIT:-$((600 + 2 * MIXED_SECONDS))}
export PROCESSES
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model keeps nothing"
echo "# SEED=$SEED"

cat >"$W/mixed.py" <<'EOF2'
"""The state of one process: its model, which mixed_run.py changes and mixed_compare.py holds against the store."""
from tap import *
import copy, pickle, re
PROCESSES = int(os.environ["PROCESSES"])
LONG = "x" * 300

def unescape(b):
    return re.sub(rb"\\(x..|.)", lambda m: {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"\\": b"\\"}.get(m[1]) or bytes([int(m[1][1:], 16)]), b)

def escape(b):
    return b.replace(b"\\", b"\\\\").replace(b"\t", b"\\t").replace(b"\n", b"\\n").replace(b"\r", b"\\r")

def cell(family, value):
    return int(value) if family == "c" else value

def tsv(path):
    """The rows of a stream: {row: {(family, qualifier): {timestamp: value}}}."""
    rows = {}
    for line in slurp(path).split(b"\n")[:-1]:
        row, column, ts, value = map(unescape, line.split(b"\t"))
        family, q = column.decode().split(":", 1)
        rows.setdefault(row.decode(), {}).setdefault((family, q), {})[int(ts)] = cell(family, value)
    return rows

def row_path(row):
    return row if len(row) <= 255 else row[:254] + "%/" + row[254:]

def tree(table, row):
    """The same of one row, through its directories."""
    out, top = {}, table + "/" + row_path(row)
    try:
        families = os.listdir(top)
    except FileNotFoundError:
        return {}
    for family in families:
        for name in os.listdir(top + "/" + family):
            q, ts = name.rsplit("@", 1)
            out.setdefault((family, q), {})[int(ts)] = cell(family, slurp("%s/%s/%s" % (top, family, name)))
    return out

def values(state):
    """A row without its timestamps, which nobody has seen if the call was interrupted."""
    return {c: [v[t] for t in sorted(v, reverse=True)] for c, v in state.items()}

def differences(got, want):
    for c in sorted(set(got) | set(want)):
        g, w = got.get(c, {}), want.get(c, {})
        for t in sorted(set(g) | set(w)):
            if g.get(t) != w.get(t):
                yield "%s:%s@%d is %.60r, wanted %.60r" % (c[0], c[1], t, g.get(t), w.get(t))

class State:
    def __init__(self, me):
        self.me = me
        self.prefix = "p%02d-" % me
        self.names = [self.prefix + n for n in ("a", "b", "\u00fc", LONG)]
        self.rows = {}    # (table, row): {(family, qualifier): {timestamp: value}}
        self.shared = {}  # name of a number that all add to: the sum of this process
        self.snaps = {}   # (table, name): the rows of the table then
        self.alls = {}    # name of a snapshot of all tables: (rows, shared)
        self.tables = ["t", "s"]
        self.doubt = {}   # (table, row): its possible states, while a call is in progress
        self.doubt_shared = []
        self.n = 0

def states():
    return [pickle.load(open("%s/state.%d" % (W, i), "rb")) for i in range(PROCESSES)]
def save(s):
    pickle.dump(s, open("%s/state.%d" % (W, s.me), "wb"))
EOF2

cat >"$W/mixed_run.py" <<'EOF2'
from mixed import *
import base64, json, multiprocessing as mp, multiprocessing.connection, random, signal, subprocess, traceback
seed, seconds, daemon, round = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
killed = daemon > 0
os.chdir(M)
ENDED = (errno.ENOTCONN, errno.ECONNABORTED)
BYTES, QS = ["f", "g"], ["q1", "q2", "q3", "a b", "x@y"]

class Wrong(Exception):
    pass

class Process(State):
    # ---- names and values ----
    def pick(self):
        """A row, its path and a copy of its state."""
        key = self.rnd.choice(self.tables), self.rnd.choice(self.names)
        return key, key[0] + "/" + row_path(key[1]), copy.deepcopy(self.rows.get(key, {}))

    def column(self):
        return self.rnd.choice(BYTES), self.rnd.choice(QS)

    def bytes(self):
        self.n += 1
        return b"%d %d " % (self.me, self.n) * self.rnd.choice([1, 1, 1, 1, 30, 2000, self.rnd.choice([1, 30000])]) + self.rnd.choice([b"", b"\t\\\n", b"\xff\0"])

    def dirs(self, path, state, family):
        if not any(c[0] == family for c in state):
            self.make(path + "/" + family)

    def make(self, path):
        parts = path.split("/")
        for i in range(2, len(parts) + 1):
            try:
                os.mkdir("/".join(parts[:i]))
            except FileExistsError:
                pass

    # ---- the model ----
    def begin(self, key, *possible):
        self.doubt = {key: [self.rows.get(key, {})] + [copy.deepcopy(p) for p in possible]}

    def end(self, key, state):
        self.rows[key] = {c: v for c, v in state.items() if v}
        self.doubt = {}

    def newest(self, state, column, value):
        """Adds a version whose timestamp is not known yet."""
        versions = state.setdefault(column, {})
        ts = max(list(versions) + [1 << 61]) + 1
        versions[ts] = value
        self.trim(state, column)
        return ts

    def trim(self, state, column):
        keep = {"h": 3, "c": 1}.get(column[0])
        for ts in sorted(state[column], reverse=True)[keep:] if keep else []:
            del state[column][ts]

    def known(self, state, column, ts, path):
        """The newest version has the time that the store gave it."""
        now = os.stat("%s/%s/%s" % (path, *column)).st_mtime_ns // 1000
        others = [t for t in state[column] if t != ts]
        if others and now <= max(others):
            raise Wrong("%s/%s/%s: the new version %d is not the newest, %r" % (path, *column, now, others))
        state[column][now] = state[column].pop(ts)

    def check(self, what, got, want):
        if got != want:
            raise Wrong("%s: %s" % (what, "; ".join(list(differences(got, want))[:4])))

    # ---- cells ----
    def write(self):
        key, path, s = self.pick()
        column = (self.rnd.choice(["f", "g", "h"]), self.rnd.choice(QS))
        self.dirs(path, s, column[0])
        value, flags = self.bytes(), os.O_TRUNC
        old = s.get(column, {})
        if self.rnd.random() < .3:
            flags = os.O_APPEND
        new = (old[max(old)] if old and flags == os.O_APPEND else b"") + value
        ts = self.newest(s, column, new)
        self.begin(key, s)
        spill("%s/%s/%s" % (path, *column), value, os.O_WRONLY | os.O_CREAT | flags)
        self.known(s, column, ts, path)
        self.end(key, s)

    def write_version(self):
        key, path, s = self.pick()
        column, ts, value = self.column(), self.rnd.randrange(-5, 40), self.bytes()
        self.dirs(path, s, column[0])
        s.setdefault(column, {})[ts] = value
        self.begin(key, s)
        spill("%s/%s/%s@%d" % (path, *column, ts), value)
        self.end(key, s)

    def scratch(self):
        key, path, s = self.pick()
        column, value = self.column(), self.bytes()
        self.dirs(path, s, column[0])
        ts = self.newest(s, column, value)
        self.begin(key, s)
        spill("%s/%s/.new" % (path, column[0]), value)
        os.rename("%s/%s/.new" % (path, column[0]), "%s/%s/%s" % (path, *column))
        self.known(s, column, ts, path)
        self.end(key, s)

    def remove(self):
        key, path, s = self.pick()
        columns = [c for c in s if c[0] != "c"]
        if not columns:
            return
        column = self.rnd.choice(columns)
        name = "%s/%s/%s" % (path, *column)
        if self.rnd.random() < .5 and column[0] != "h":
            ts = self.rnd.choice(sorted(s[column]))
            name += "@%d" % ts
            del s[column][ts]
        else:
            del s[column]
        s = {c: v for c, v in s.items() if v}
        self.begin(key, s)
        os.unlink(name)
        self.end(key, s)

    def drop_rows(self):
        table = self.rnd.choice(self.tables)
        row = self.rnd.choice(self.names)
        self.begin((table, row), {})
        spill(table + "/.ctl", b"drop-rows " + row_path(row).encode() + b"\n", os.O_WRONLY)
        self.end((table, row), {})

    def rename(self):
        key, path, s = self.pick()
        columns = [c for c in s if c[0] in BYTES]
        if not columns:
            return
        a, b = self.rnd.choice(columns), self.column()
        if a == b:
            return
        self.dirs(path, s, b[0])
        old, new, ts = "%s/%s/%s" % (path, *a), "%s/%s/%s" % (path, *b), None
        kind = self.rnd.randrange(3)
        if kind == 0 and b not in s:
            s[b] = s.pop(a)
        elif kind == 0:
            moved = s.pop(a)
            ts = self.newest(s, b, moved[max(moved)])
        else:
            at = self.rnd.choice(sorted(s[a]))
            old += "@%d" % at
            value = s[a].pop(at)
            if kind == 1:
                ts = self.newest(s, b, value)
            else:
                to = self.rnd.randrange(-5, 40)
                new += "@%d" % to
                s.setdefault(b, {})[to] = value
        s = {c: v for c, v in s.items() if v}
        self.begin(key, s)
        os.rename(old, new)
        if ts is not None:
            self.known(s, b, ts, path)
        self.end(key, s)

    def touch(self):
        key, path, s = self.pick()
        columns = [c for c in s if c[0] in BYTES]
        if not columns:
            return
        column = self.rnd.choice(columns)
        old = max(s[column])
        new = old + self.rnd.randrange(1, 1000)
        s[column][new] = s[column].pop(old)
        self.begin(key, s)
        set_us("%s/%s/%s" % (path, *column), new)
        self.end(key, s)

    # ---- numbers ----
    def counter(self):
        key, path, s = self.pick()
        column, n = ("c", self.rnd.choice(QS)), self.rnd.randrange(-9, 10)
        self.dirs(path, s, "c")
        old = s.get(column, {})
        if self.rnd.random() < .2:
            value, line = n, b"%d\n" % n
        else:
            value = (old[max(old)] if old else 0) + n
            line = b"+=%d\n" % n if n >= 0 else b"-=%d\n" % -n
        ts = self.newest(s, column, value)
        self.begin(key, s)
        spill("%s/c/%s" % (path, column[1]), line)
        self.known(s, column, ts, path)
        self.end(key, s)

    def add(self, name, n, fn):
        """Adds n to a number that all processes change; fn returns False if nothing was added."""
        self.doubt_shared = [(name, n)]
        if fn() is not False:
            self.shared[name] = self.shared.get(name, 0) + n
        self.doubt_shared = []

    def shared_counter(self):
        table, n = self.rnd.choice("ts"), self.rnd.randrange(1, 10)
        name = "%s/shared/c/%s" % (table, self.rnd.choice(QS))
        self.add(name, n, lambda: spill(name, b"+=%d\n" % n, os.O_WRONLY | os.O_CREAT | self.rnd.choice([os.O_APPEND, os.O_TRUNC])))

    def two_counters(self):
        """A snapshot that has an addition to the second one has that to the first one."""
        for name in ("t/first/c/n", "t/second/c/n"):
            self.add(name, 1, lambda: spill(name, b"+=1\n", os.O_WRONLY | os.O_CREAT))

    def two_counters_at_once(self):
        def fn():
            spill("s/shared/.mutate", b"increment c:left\t%d\nincrement c:right\t%d\ncommit\n" % (n, -n), os.O_WRONLY)
        n = self.rnd.randrange(1, 10)
        self.add("s/shared/c/left", n, fn)
        self.shared["s/shared/c/right"] = self.shared.get("s/shared/c/right", 0) - n

    def compare_and_set(self):
        name = "t/shared/h/n"
        def fn():
            old = slurp(name)
            try:
                spill("t/shared/.mutate", b"check h:n\t%s\nset h:n\t%d\ncommit\n" % (old, int(old) + 1), os.O_WRONLY)
            except OSError as e:
                if e.errno != errno.ECANCELED:
                    raise
                return False
        self.add(name, 1, fn)

    def compare_and_replace(self):
        def fn():
            d = json.loads(slurp("s/json/.row.json"))
            d["cells"] = [{"family": "h", "qualifier": "n", "value": str(int(d["cells"][0]["value"]) + 1)}]
            try:
                spill("s/json/.row.json", json.dumps(d).encode(), os.O_WRONLY | os.O_TRUNC)
            except OSError as e:
                if e.errno != errno.ECANCELED:
                    raise
                return False
        self.add("s/json/h/n", 1, fn)

    # ---- rows ----
    def mutate(self):
        key, path, s = self.pick()
        self.make(path)
        lines, pending, refused = [], [], False
        for _ in range(self.rnd.randrange(3)):
            column = self.column()
            old = s.get(column, {})
            if self.rnd.random() < .1:
                refused = True
                lines.append(b"check %s:%s\tnever" % tuple(c.encode() for c in column))
            elif old:
                lines.append(b"check %s:%s\t%s" % (column[0].encode(), column[1].encode(), escape(old[max(old)])))
            else:
                lines.append(b"check-absent %s:%s" % tuple(c.encode() for c in column))
        for _ in range(self.rnd.randrange(1, 6)):
            column, what = self.column(), self.rnd.choice(["set", "set", "set@", "set@", "append", "increment", "delete", "delete@", "family", "row"])
            name = ("%s:%s" % column).encode()
            old = s.get(column, {})
            if what in ("set", "append"):
                value = self.bytes()
                lines.append(what.encode() + b" " + name + b"\t" + escape(value))
                new = (old[max(old)] if old and what == "append" else b"") + value
                pending.append((len(lines) - 1, column, self.newest(s, column, new)))
            elif what == "set@":
                ts, value = self.rnd.randrange(-5, 40), self.bytes()
                lines.append(b"set %s@%d\t%s" % (name, ts, escape(value)))
                s.setdefault(column, {})[ts] = value
            elif what == "increment":
                column = ("c", column[1])
                n, old = self.rnd.randrange(-9, 10), s.get(column, {})
                lines.append(b"increment c:%s\t%d" % (column[1].encode(), n))
                pending.append((len(lines) - 1, column, self.newest(s, column, (old[max(old)] if old else 0) + n)))
            elif what == "delete@":
                ts = self.rnd.randrange(-5, 40)
                lines.append(b"delete %s@%d" % (name, ts))
                old.pop(ts, None)
            elif what == "delete":
                lines.append(b"delete " + name)
                s.pop(column, None)
            elif what == "family":
                lines.append(b"delete " + column[0].encode() + b":")
                s = {c: v for c, v in s.items() if c[0] != column[0]}
            elif self.rnd.random() < .3:
                lines.append(b"delete row")
                s = {}
        # A version that two lines set or delete has no single timestamp here: the columns of `pending` are given times in order.
        if len({p[1] for p in pending}) != len(pending):
            return
        s = {c: v for c, v in s.items() if v}
        self.begin(key, s)
        fd = os.open(path + "/.mutate", os.O_RDWR)
        text = b"\n".join(lines + [b"commit", b""])
        try:
            while text:
                text = text[os.write(fd, text):]
            result = b""
            while piece := os.read(fd, 1 << 16):
                result += piece
        except OSError as e:
            if e.errno != errno.ECANCELED or not refused:
                raise
            self.doubt = {}
            return
        finally:
            os.close(fd)
        if refused:
            raise Wrong(path + ": a mutation whose check fails was applied")
        result = result.split(b"\n")
        for i, column, ts in pending:
            if column in s and ts in s[column]:
                s[column][int(result[i].split(b"\t")[0].rsplit(b"@", 1)[1])] = s[column].pop(ts)
        self.end(key, s)

    def from_json(self, text):
        def member(o, k):
            return base64.b64decode(o[k + "_base64"]) if k + "_base64" in o else o[k].encode()
        out = {}
        for o in json.loads(text)["cells"]:
            out.setdefault((o["family"], member(o, "qualifier").decode()), {})[o["timestamp"]] = cell(o["family"], member(o, "value"))
        return out

    def row_json(self):
        key, path, s = self.pick()
        self.make(path)
        text = slurp(path + "/.row.json")
        self.check(path + "/.row.json", self.from_json(text), s)
        column = self.column()
        s.setdefault(column, {})[self.rnd.randrange(-5, 40)] = self.bytes()
        if self.rnd.random() < .5:
            s.pop(self.rnd.choice(sorted(s)))
        d = {"sequence": json.loads(text)["sequence"], "cells": [
            {"family": c[0], "qualifier": c[1], "timestamp": t, "value_base64": base64.b64encode(b"%d" % x if c[0] == "c" else x).decode()}
            for c, v in s.items() for t, x in v.items()]}
        self.begin(key, s)
        if self.rnd.random() < .5:
            spill(path + "/.row.json", json.dumps(d).encode(), os.O_WRONLY | os.O_TRUNC)
        else:
            spill(path + "/.edited", json.dumps(d).encode())
            os.rename(path + "/.edited", path + "/.row.json")
        self.end(key, s)

    def bulk(self):
        key, path, s = self.pick()
        text, possible = b"", []
        for _ in range(self.rnd.choice([1, 3, 20])):
            column, ts, value = self.column(), self.rnd.randrange(-5, 40), self.bytes()
            text += b"%s\t%s:%s\t%d\t%s\n" % (key[1].encode(), column[0].encode(), column[1].encode(), ts, escape(value))
            s.setdefault(column, {})[ts] = value
            possible.append(copy.deepcopy(s))
        self.begin(key, *possible)
        spill(key[0] + "/.import", text, os.O_WRONLY)
        self.end(key, s)

    # ---- reads ----
    def own(self, table):
        return {r: v for (t, r), v in self.rows.items() if t == table and v}

    def compare_rows(self, what, got, want):
        for row in sorted(set(got) | set(want)):
            self.check("%s %s" % (what, row[:20]), got.get(row, {}), want.get(row, {}))

    def scan(self):
        table = self.rnd.choice(self.tables)
        self.compare_rows(table + "/.scan", tsv("%s/.scan/prefix=%s/.tsv" % (table, self.prefix)), self.own(table))

    def scan_columns(self):
        table, column = self.rnd.choice(self.tables), self.column()
        want = {r: {c: {max(v): v[max(v)]} for c, v in s.items() if c == column} for r, s in self.own(table).items()}
        self.compare_rows(table + "/.scan of a column", tsv("%s/.scan/prefix=%s/versions=1/family=%s/qualifier=%s/.tsv" % (table, self.prefix, *column)), want)

    def view(self):
        table, row = self.rnd.choice(self.tables), self.rnd.choice(self.names)
        top = "%s/.scan/prefix=%s/.rows" % (table, self.prefix)
        self.check("%s %s" % (top, row[:20]), tree(top, row), self.rows.get((table, row), {}))

    def walk(self):
        key, path, s = self.pick()
        self.check(path, tree(*key), s)
        for (family, q), versions in s.items():
            got = cell(family, slurp("%s/%s/%s" % (path, family, q)))
            if got != versions[max(versions)]:
                raise Wrong("%s/%s/%s: not the newest version: %.60r" % (path, family, q, got))

    # ---- tables ----
    def verb(self):
        table = self.rnd.choice(self.tables)
        verb = self.rnd.choice(["flush", "flush", "compact", "split " + self.rnd.choice(self.names[:2]), "merge " + self.rnd.choice(self.names[:2])])
        if table == "s" or table.startswith("clone-s"):
            verb = verb.split()[0].replace("split", "flush").replace("merge", "compact")
        try:
            spill(table + "/.ctl", verb.encode() + b"\n", os.O_WRONLY)
        except OSError as e:
            # The row begins a tablet already, or is in the last one.
            if e.errno != errno.EINVAL or verb.split()[0] not in ("split", "merge"):
                raise

    def snapshot(self):
        table = self.rnd.choice(self.tables)
        mine = sorted(self.snaps)
        if len(mine) > 2:
            return self.drop_snapshot()
        self.n += 1
        name = "%d-%d" % (self.me, self.n)
        os.mkdir("%s/.snap/%s" % (table, name))
        self.snaps[table, name] = copy.deepcopy(self.own(table))
        if table == "t":
            n = [int(slurp("t/.snap/%s/%s/c/n" % (name, r))) for r in ("first", "second")]
            # One addition of each process can be between the two, in each round.
            if not 0 <= n[0] - n[1] <= PROCESSES * 9:
                raise Wrong("t/.snap/%s is not of one instant: %r" % (name, n))
        self.compare_rows("%s/.snap/%s" % (table, name), tsv("%s/.snap/%s/.scan/prefix=%s/.tsv" % (table, name, self.prefix)), self.own(table))

    def read_snapshot(self):
        if not self.snaps:
            return self.snapshot()
        table, name = self.rnd.choice(sorted(self.snaps))
        top = "%s/.snap/%s" % (table, name)
        want = self.snaps[table, name]
        if self.rnd.random() < .5:
            row = self.rnd.choice(self.names)
            self.check("%s %s" % (top, row[:20]), tree(top, row), want.get(row, {}))
        else:
            self.compare_rows(top, tsv("%s/.scan/prefix=%s/.tsv" % (top, self.prefix)), want)

    def drop_snapshot(self):
        table, name = self.rnd.choice(sorted(self.snaps))
        del self.snaps[table, name]
        os.rmdir("%s/.snap/%s" % (table, name))

    def clone(self):
        mine = [t for t in self.tables if t.startswith("clone")]
        if mine:
            return self.drop_clone(mine[0])
        if self.rnd.random() < .5 and self.snaps:
            table, name = self.rnd.choice(sorted(self.snaps))
            rows, ctl = self.snaps[table, name], "%s/.snap/%s/.ctl" % (table, name)
        else:
            table = self.rnd.choice("ts")
            rows, ctl = self.own(table), table + "/.ctl"
        new = "clone-%s-%d" % ("s" if table[-1] == "s" or table.startswith("clone-s") else "t", self.me)
        self.doubt = {(new, r): [{}, copy.deepcopy(v)] for r, v in rows.items()}
        spill(ctl, b"clone %s\n" % new.encode(), os.O_WRONLY)
        self.doubt = {}
        self.tables.append(new)
        self.rows.update({(new, r): copy.deepcopy(v) for r, v in rows.items()})
        self.compare_rows(new, tsv("%s/.scan/prefix=%s/.tsv" % (new, self.prefix)), rows)

    def drop_clone(self, table):
        if os.listdir(table + "/.snap"):
            return
        self.tables.remove(table)
        self.doubt = {(t, r): [v, {}] for (t, r), v in self.rows.items() if t == table}
        spill(table + "/.ctl", b"truncate\n", os.O_WRONLY)
        for key in list(self.doubt):
            del self.rows[key]
        self.doubt = {}
        rows = [r for r in os.listdir(table) if r != ".schema"]
        if rows:
            raise Wrong(table + ": rows after truncate: %r" % rows[:3])
        os.rmdir(table)

    # ---- the run ----
    MIX = [("write", 12), ("write_version", 12), ("scratch", 3), ("remove", 8), ("drop_rows", 1), ("rename", 8), ("touch", 2), ("counter", 5),
           ("shared_counter", 6), ("two_counters", 3), ("two_counters_at_once", 2), ("compare_and_set", 2), ("compare_and_replace", 2), ("mutate", 10),
           ("row_json", 3), ("bulk", 5), ("scan", 3), ("scan_columns", 2), ("view", 2), ("walk", 3), ("verb", .5), ("snapshot", .5), ("read_snapshot", 1),
           ("clone", .2)]

    def meet(self, barrier):
        """All processes stop, and one makes a snapshot of all tables."""
        barrier.wait(60)
        if self.me == 0:
            os.mkdir(".snap/" + round)
        self.alls[round] = copy.deepcopy((self.rows, self.shared))
        barrier.wait(60)

    def run(self, begin, barrier):
        self.rnd = random.Random("%s %d %s" % (seed, self.me, round))
        names, weights = zip(*self.MIX)
        self.counts, self.failed, met = {}, None, killed
        while not self.counts or time.monotonic() < begin + seconds or killed:
            if not met and time.monotonic() > begin + seconds / 2:
                met = True
                self.meet(barrier)
            op = self.rnd.choices(names, weights)[0] if self.counts else names[self.me % len(names)]
            try:
                getattr(self, op)()
            except OSError as e:
                if not (killed and e.errno in ENDED):
                    raise
                break
            self.counts[op] = self.counts.get(op, 0) + 1

def child(p, begin, barrier):
    try:
        p.run(begin, barrier)
    except Exception:
        p.failed = traceback.format_exc()[-1500:]
        barrier.abort()
    del p.rnd
    pickle.dump(p.__dict__, open("%s/dict.%d" % (W, p.me), "wb"))
    os._exit(0)

old = [] if round == "1" else states()
begin, barrier, jobs = time.monotonic(), mp.Barrier(PROCESSES), []
for me in range(PROCESSES):
    p = Process(me)
    if old:
        p.__dict__.update(old[me].__dict__)
    jobs.append(mp.Process(target=child, args=(p, begin, barrier)))
for j in jobs:
    j.start()
if killed:
    time.sleep(seconds)
    os.kill(daemon, signal.SIGKILL)
    # A thread of the daemon can be in the kernel and wait for a directory's lock, which a process holds that waits for the
    # daemon.  Then only an abort ends both.
    subprocess.run(["umount", "-f", M], stderr=subprocess.DEVNULL)
for j in jobs:
    j.join(60)
alive = [j for j in jobs if j.is_alive()]
for j in alive:
    j.kill()
same(len(alive), 0, "round %s: %d processes end" % (round, PROCESSES))
counts = {}
for me in range(PROCESSES):
    s = State(me)
    try:
        s.__dict__.update(pickle.load(open("%s/dict.%d" % (W, me), "rb")))
    except OSError:
        note("process %d left no state" % me)
        continue
    for k, v in s.__dict__.pop("counts").items():
        counts[k] = counts.get(k, 0) + v
    failed = s.__dict__.pop("failed")
    # The others stop at a barrier that a process has left.
    if failed and "BrokenBarrier" not in failed:
        ok(False, "process %d" % me)
        note(failed)
    save(s)
note("%d operations:" % sum(counts.values()), counts)
ok(killed or set(counts) >= {k for k, _ in Process.MIX}, "  of each kind")
EOF2

cat >"$W/mixed_compare.py" <<'EOF2'
from mixed import *
os.chdir(M)
bad = []
now = {t: tsv(t + "/.scan/.tsv") for t in os.listdir(".")}
all_states = states()
known = {"t": {"shared", "first", "second"}, "s": {"shared", "json"}}
compared = 0
for s in all_states:
    # A clone or a removal that was interrupted.
    for table, row in s.doubt:
        if table not in s.tables and table in now:
            s.tables.append(table)
    for key in sorted(set(s.rows) | set(s.doubt) | {(t, r) for t in s.tables for r in s.names}):
        got, want = now.get(key[0], {}).get(key[1], {}), s.rows.get(key, {})
        known.setdefault(key[0], set()).add(key[1])
        compared += 1
        if key in s.doubt:
            if values(got) not in [values(v) for v in s.doubt[key]]:
                bad.append("%s/%s after an interrupted call: " % (key[0], key[1][:20]) + "; ".join(list(differences(got, s.doubt[key][-1]))[:4]))
        elif got != want:
            bad.append("%s/%s: " % (key[0], key[1][:20]) + "; ".join(list(differences(got, want))[:4]))
        if got:
            s.rows[key] = got
        else:
            s.rows.pop(key, None)
    s.tables = [t for t in s.tables if t in now]
    s.doubt = {}
    for row in s.names[:2]:
        if tree("t", row) != s.rows.get(("t", row), {}):
            bad.append("t/%s through its directories" % row)
for t in ("t", "s"):
    bad += ["%s/%s is unknown" % (t, r[:20]) for r in now[t] if r not in known[t]]
same(bad[:5], [], "round %s: %d rows are as the models" % (sys.argv[1], compared))

bad = []
for s in all_states:
    for (table, name), want in s.snaps.items():
        top = "%s/.snap/%s" % (table, name)
        if tsv("%s/.scan/prefix=%s/.tsv" % (top, s.prefix)) != want:
            bad.append(top)
names = set().union(*(s.alls for s in all_states))
then = {(n, t): tsv(".snap/%s/%s/.scan/.tsv" % (n, t)) for n in names for t in os.listdir(".snap/" + n)}
for name in names:
    for s in all_states:
        rows, shared = s.alls[name]
        for (table, row), want in rows.items():
            if then[name, table].get(row, {}) != want:
                bad.append(".snap/%s/%s/%s" % (name, table, row[:20]))
same(bad[:5], [], "%d snapshots of processes and %d of all tables are as then" % (sum(len(s.snaps) for s in all_states), len(names)))

def number(rows, name):
    table, row, family, q = name.split("/")
    versions = rows.get(row, {}).get((family, q), {0: 0})
    return int(versions[max(versions)])

bad = []
for name in sorted(set().union(*(s.shared for s in all_states))):
    possible = {sum(s.shared.get(name, 0) for s in all_states)}
    for s in all_states:
        for what, n in s.doubt_shared:
            if what == name:
                possible |= {p + n for p in possible}
            elif what == "s/shared/c/left" and name == "s/shared/c/right":
                possible |= {p - n for p in possible}
    got = number(now[name[0]], name)
    if got not in possible:
        bad.append("%s is %d, wanted %r" % (name, got, sorted(possible)[:5]))
    all_states[0].shared[name] = all_states[0].shared.get(name, 0) + got - sum(s.shared.get(name, 0) for s in all_states)
    for n in names:
        want = sum(s.alls[n][1].get(name, 0) for s in all_states)
        if number(then[n, name[0]], name) != want:
            bad.append(".snap/%s: %s is %d, wanted %d" % (n, name, number(then[n, name[0]], name), want))
left = [number(now["s"], "s/shared/c/" + q) for q in ("left", "right")]
same(bad + ([] if sum(left) == 0 else ["left and right are %r" % left]), [], "the numbers that all change have their sums")
for s in all_states:
    s.doubt_shared = []
    save(s)
EOF2
PYTHONPATH=$PYTHONPATH:$W

ok "mount" mount_store
mkdir "$M/t" "$M/s" && cat >"$W/schema" <<'EOF2'
families = (
  {name = "f";}, {name = "g";},
  {name = "h"; gc = "maxversions=3";},
  {name = "c"; type = "counter"; gc = "maxversions=1";}
);
EOF2
ok "a plain table" cp "$W/schema" "$M/t/.schema"
ok "a salted one" bash -c "(echo 'salt = 3;'; cat '$W/schema') >'$M/s/.schema'"
mkdir -p "$M"/{t,s}/shared/{c,h} "$M"/t/{first,second}/c "$M/s/json/h"
printf 0 >"$M/t/shared/h/n"
printf 0 >"$M/s/json/h/n"
printf 0 | tee "$M"/t/{first,second}/c/n >/dev/null
n=0
for round in $ROUNDS; do
	n=$((n + 1))
	mkdir -p "$M"/{t,s}/shared/c
	if [ "$round" = kill ]; then
		py "$SEED" $((MIXED_SECONDS / 2)) "$daemon" $n <"$W/mixed_run.py" 2>/dev/null
		wait_daemon
		end_server -9
		mounted "$M" && umount -l "$M"
		check_store
	else
		py "$SEED" "$MIXED_SECONDS" 0 $n <"$W/mixed_run.py"
		unmount_store
	fi
	ok "mount" mount_store
	py $n <"$W/mixed_compare.py"
done
done_testing
