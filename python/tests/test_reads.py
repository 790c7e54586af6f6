# SPDX-License-Identifier: Apache-2.0
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

import tabletfs
from tabletfs import Cell, Store, Table

LARGE = 300 << 10  # not within a cell of a scan


def test_cells_and_versions(table: Table) -> None:
    assert table.get("r", "f", "q") is None and table.cell("r", "f", "q") is None
    assert table.cells("r") == [] == table.versions("r", "f", "q")
    for t in (1, 2, 3):
        result = table.put("r", "f", "q", b"%d" % t, t)
    table.put("r", "f", "qq", b"", -1)
    assert table.get("r", "f", "q") == b"3" and table.get("r", "f", "q", 2) == b"2"
    assert table.get("r", "f", "q", 4) is None
    assert table.cell("r", "f", "q") == Cell(b"r", "f", b"q", 3, b"3", 1, result.committed, 2**63 - 1)
    assert [c.value for c in table.versions("r", "f", "q")] == [b"3", b"2", b"1"]
    assert [c.value for c in table.versions("r", "f", "q", 2)] == [b"3", b"2"]
    assert [c.timestamp for c in table.cells("r")] == [3, -1]
    assert [c.timestamp for c in table.cells("r", versions=None)] == [3, 2, 1, -1]
    assert table.cells("r", "g") == []
    with pytest.raises(tabletfs.InvalidError):
        table.get("r", "none", "q")


def test_values_of_any_size(table: Table) -> None:
    sizes = [0, 1, 4095, 4096, 4097, 2**14, 256 << 10, LARGE, 2 << 20]
    values = {b"%08d" % size: Random(size).randbytes(size) for size in sizes}
    for row, value in values.items():
        table.put(row, "f", "q", value)
    assert {row: table.get(row, "f", "q") for row in values} == values
    assert {c.row: c.value for c in table} == values
    assert [c.value for c in table.cells(b"%08d" % LARGE)] == [values[b"%08d" % LARGE]]
    assert [(c.size, c.value) for c in table.scan().keys()] == [(size, b"") for size in sizes]
    assert list(table.scan().rows()) == list(values)


def test_long_keys(table: Table) -> None:
    row, qualifier = b"r" * 65536, b"q" * 16384
    table.put(row, "f", qualifier, b"v" * (256 << 10))
    table.put(row, "f", qualifier + b"", b"v", 1)
    assert [(c.row, c.qualifier, c.size) for c in table] == [(row, qualifier, 256 << 10), (row, qualifier, 1)]


def fill(table: Table) -> list[Cell]:
    """Writes cells, and returns them in the order of a scan."""
    random = Random(7)
    for i in range(400):
        m = table.mutation(b"%c%02d" % (b"abc"[i % 3], random.randrange(50)))
        m.put("fg"[random.randrange(2)], b"q%d" % random.randrange(20), b"%d" % random.randrange(10), random.randrange(1000))
        m.apply()
    cells = list(table)
    assert cells == sorted(cells, key=lambda c: (c.row, c.family, c.qualifier, -c.timestamp)) and len(cells) > 350
    return cells


Filter = Callable[[Cell], bool]
CLAUSES: list[tuple[dict[str, object], Filter]] = [
    ({"prefix": "b"}, lambda c: c.row.startswith(b"b")),
    ({"prefix": b"b\xff"}, lambda c: False),
    ({"from_": "b10", "to": "c"}, lambda c: b"b10" <= c.row < b"c"),
    ({"prefix": "b", "from_": "b20"}, lambda c: b"b20" <= c.row < b"c"),
    ({"from_": "c", "to": "a"}, lambda c: False),
    ({"to": ""}, lambda c: False),
    ({"after": "b10"}, lambda c: c.row > b"b10"),
    ({"row": ".*7"}, lambda c: c.row.endswith(b"7")),
    ({"family": "g"}, lambda c: c.family == "g"),
    ({"family": ["g", "f"]}, lambda c: True),
    ({"qualifier": "q1[0-3]"}, lambda c: bool(re.fullmatch(b"q1[0-3]", c.qualifier))),
    ({"qprefix": "q1"}, lambda c: c.qualifier.startswith(b"q1")),
    ({"qfrom": "q2", "qto": "q5"}, lambda c: b"q2" <= c.qualifier < b"q5"),
    ({"qafter": "q2"}, lambda c: c.qualifier > b"q2"),
    ({"since": 100, "until": 500}, lambda c: 100 <= c.timestamp < 500),
    ({"value": "[37]"}, lambda c: c.value in (b"3", b"7")),
    ({"value_is": b"5"}, lambda c: c.value == b"5"),
    ({"changed": timedelta(days=1)}, lambda c: True),
    ({"changed": 2**62}, lambda c: False),
    ({"prefix": "a", "family": "f", "value": "[0-4]", "since": 300}, lambda c: c.row < b"b" and c.family == "f" and c.value < b"5" and c.timestamp >= 300),
]


def test_scan_clauses(table: Table) -> None:
    cells = fill(table)
    for clauses, matches in CLAUSES:
        scan = table.scan(**clauses)  # type: ignore[arg-type]
        want = [c for c in cells if matches(c)]
        assert list(scan) == want, clauses
        assert list(scan) == want, "a scan can be repeated"
        assert list(scan.rows()) == sorted({c.row for c in want}), clauses
        assert list(scan.keys()) == [c._replace(value=b"") for c in want], clauses
        if "after" not in clauses:
            reverse = table.scan(reverse=True, **clauses)  # type: ignore[arg-type]
            assert list(reverse) == sorted(want, key=lambda c: c.row, reverse=True), clauses


def test_scan_limits(table: Table) -> None:
    cells = fill(table)
    rows = sorted({c.row for c in cells})
    assert list(table.scan(limit=3).rows()) == rows[:3]
    assert [c for c in table.scan(limit=3)] == [c for c in cells if c.row <= rows[2]]
    assert list(table.scan(after=rows[2], limit=2).rows()) == rows[3:5]
    assert list(table.scan(after=rows[2], reverse=True).rows()) == [rows[1], rows[0]]
    newest = {(c.row, c.family, c.qualifier): c for c in reversed(cells)}
    assert list(table.scan(versions=1)) == list(reversed(newest.values()))
    first = {(c.row, c.family): c for c in reversed(cells)}
    assert list(table.scan(versions=1, qlimit=1)) == list(reversed(first.values()))
    past = {(c.row, c.family, c.qualifier): c for c in reversed(cells) if c.timestamp <= 500}
    assert sorted(table.scan(at=500)) == sorted(past.values())


def test_refused_clauses(table: Table) -> None:
    fill(table)
    for clauses in ({"limit": 0}, {"versions": -1}, {"qlimit": 2**32}, {"family": []}):
        with pytest.raises(tabletfs.InvalidError):
            table.scan(**clauses)  # type: ignore[arg-type]
    with pytest.raises(tabletfs.InvalidError):
        iter(table.scan(family="none"))
    with pytest.raises(tabletfs.InvalidError):
        list(table.scan(row="("))
    with pytest.raises(TypeError):
        table.scan(prefix=3)  # type: ignore[arg-type]


def test_salted_and_split_tables_scan_in_order(store: Store) -> None:
    table = store.create_table("s", schema='salt = 7; families = ( { name = "f"; } );')
    rows = [b"%06d" % i for i in range(5000)]
    with table.batch() as batch:
        for row in rows:
            batch.put(row, "f", "q", row)
    assert [c.value for c in table] == rows
    assert list(table.scan(reverse=True).rows()) == rows[::-1]
    assert [c.row for c in table.scan(from_=rows[100], limit=50)] == rows[100:150]


def test_rows_as_dicts(table: Table) -> None:
    assert table.row("none") == {} and table.rows(["none"]) == [] and table.count() == 0
    table.mutation("a").put("f", "q", b"1", 1).put("f", "q", b"2", 2).put("g", b"\xff", b"").apply()
    table.put("b", "f", "", b"3")
    assert table.row("a") == {b"f:q": b"2", b"g:\xff": b""}
    assert table.row("a", ["g"]) == {b"g:\xff": b""}
    assert table.rows(["b", "none", b"a"], (f for f in ["f"])) == [(b"b", {b"f:": b"3"}), (b"a", {b"f:q": b"2"})]
    assert table.count() == 2 and table.count(prefix="a") == 1 and table.count(family="g") == 1


def test_files(store: tabletfs.Store, table: Table, tmp_path: Path) -> None:
    strange = bytes(range(256)) + "\u200e\u2028\ufeffé\\".encode()
    table.mutation(strange).put("f", strange, strange, -5).put("g", "", b"", 7).apply()
    table.put("plain", "f", "q", b"text", 9)
    for name in "cells.tsv", "cells.jsonl", "cells.tsv.gz", "cells.jsonl.gz":
        assert table.export_file(tmp_path / name) == 3
        with store.create_table(name.replace(".", "-"), ["f", "g"]) as copy:
            assert copy.import_file(tmp_path / name) == 3
            assert [c[:5] for c in copy] == [c[:5] for c in table]
    assert table.export_file(tmp_path / "some", format="tsv", prefix="pl") == 1
    assert (tmp_path / "some").read_bytes() == b"plain\tf:q\t9\ttext\n"
    assert (tmp_path / "cells.tsv").read_bytes().count(b"\n") == 3
    for data, reason in ((b"a\tf:q\t1\n", "line 1: .*3 fields"), (b"a\tf\t\tv\n", "family:qualifier"), (b"a\tf:q\t\t\\z\n", "no escape")):
        (tmp_path / "bad.tsv").write_bytes(data)
        with pytest.raises(tabletfs.InvalidError, match=reason):
            table.import_file(tmp_path / "bad.tsv")
    (tmp_path / "bad.tsv").write_bytes(b"a\tnosuch:q\t1\tv\n")
    with pytest.raises(tabletfs.InvalidError, match="no family"):
        table.import_file(tmp_path / "bad.tsv")
    with pytest.raises(tabletfs.InvalidError, match="does not end with .tsv"):
        table.export_file(tmp_path / "cells.zip")
    assert not (tmp_path / "cells.zip").exists()


def test_families_and_sizes(directory: Path) -> None:
    with tabletfs.open(directory, memtable_bytes="32M", timeout_us="5s", log_level=0) as store:
        assert 'memtable = "32M"' in store.config
        with store.create_table("u", {"f": {"gc": "maxversions=3"}, "n": {"type": "counter", "mode": 0o600}, "g": {}}) as u:
            families = u.schema.families
            assert list(families) == ["f", "n", "g"] and families["f"].gc == "maxversions=3"
            assert families["n"].type == "counter" and families["n"].mode == 0o600
            with u.batch(max_bytes="1M") as batch:
                batch.put("r", "f", "q", b"v")
        with pytest.raises(tabletfs.InvalidError, match="family f: .*max_versions is none of acl, gc"):
            store.create_table("v", {"f": {"max_versions": 3}})
        with pytest.raises(tabletfs.InvalidError, match="expected maxversions"):
            store.create_table("v", {"f": {"gc": "never"}})
        assert store.tables() == ["u"]
    for setting in "64X", "M", "":
        with pytest.raises(tabletfs.InvalidError, match="as 64M"):
            tabletfs.open(directory, memtable_bytes=setting)
