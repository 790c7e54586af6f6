# SPDX-License-Identifier: Apache-2.0
import errno
import time

import pytest

import tabletfs
from tabletfs import Store, Table


def test_a_snapshot_shows_one_instant(store: Store, table: Table) -> None:
    table.put("r", "f", "q", b"old", 1)
    with table.create_snapshot("monday") as monday:
        table.put("r", "f", "q", b"new", 1)
        assert monday.get("r", "f", "q") == b"old" and table.get("r", "f", "q") == b"new"
        assert [c.value for c in monday] == [b"old"] and monday.name == "monday"
        assert abs((monday.schema.snapshot_time or 0) / 10**6 - time.time()) < 60 and table.schema.snapshot_time is None
        with pytest.raises(tabletfs.Error) as refused:
            monday.put("r", "f", "q", b"x")
        assert refused.value.errno == errno.EROFS
        with pytest.raises(tabletfs.ExistsError):
            table.create_snapshot("monday")
        (found,) = table.snapshots(usage=True)
        assert found.name == "monday" and not found.of_all and found.disk_bytes > 0
        with pytest.raises(tabletfs.BusyError):
            table.truncate()
        table.drop_snapshot("monday")
        with pytest.raises(tabletfs.NotFoundError):
            monday.get("r", "f", "q")
    with pytest.raises(tabletfs.NotFoundError):
        table.snapshot("monday")
    assert table.snapshots() == []


def test_snapshots_of_all_tables(store: Store, table: Table) -> None:
    other = store.create_table("other", ["f"])
    store.create_snapshots("all")
    assert [s.name for s in store.snapshots()] == ["all"]
    assert [s.of_all for t in (table, other) for s in t.snapshots()] == [True, True]
    store.drop_snapshots("all")
    assert store.snapshots() == [] == table.snapshots()
    with pytest.raises(tabletfs.NotFoundError):
        store.drop_snapshots("all")


def test_the_difference_of_snapshots(table: Table) -> None:
    for name in ("kept", "changed", "deleted"):
        table.put(name, "f", "q", b"1", 1)
    table.put("large", "f", "q", b"x" * 400_000, 1)
    a = table.create_snapshot("a")
    table.put("changed", "f", "q", b"2", 1)
    table.put("new", "f", "q", b"3", 1)
    table.put("large", "f", "q", b"y" * 400_000, 1)
    table.delete_row("deleted")
    b = table.create_snapshot("b")
    new = [(c.row, c.value[:1], len(c.value)) for c in b.scan(absent_from=a)]
    assert new == [(b"changed", b"2", 1), (b"large", b"y", 400_000), (b"new", b"3", 1)]
    assert [(c.row, c.value) for c in a.scan(absent_from=b, absent_names=True).keys()] == [(b"deleted", b"")]
    assert list(b.scan(absent_from=a, prefix="n", family="f").rows()) == [b"new"]
    for wrong in (table.scan(absent_from=a), b.scan(absent_from=a, limit=1)):
        with pytest.raises(tabletfs.InvalidError):
            list(wrong)


def test_clones(store: Store, table: Table) -> None:
    table.put("r", "f", "q", b"old")
    snapshot = table.create_snapshot("s")
    table.put("r", "f", "q", b"new")
    snapshot.clone("from_snapshot")
    table.clone("from_table")
    assert store.table("from_snapshot").get("r", "f", "q") == b"old"
    copy = store.table("from_table")
    copy.put("r", "f", "q", b"other")
    assert copy.get("r", "f", "q") == b"other" and table.get("r", "f", "q") == b"new"
    with pytest.raises(tabletfs.ExistsError):
        table.clone("from_table")
