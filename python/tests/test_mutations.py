# SPDX-License-Identifier: Apache-2.0
import errno
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

import tabletfs
from tabletfs import Store, Table


def test_a_mutation_is_atomic(table: Table) -> None:
    with table.mutation("r") as m:
        m.put("f", "a", b"1", 10).put("f", b"\xff\0", b"").put("g", "c", bytearray(b"3"))
    assert [result.timestamp for result in m.results][0] == 10 and len(m) == 3
    assert all(result.committed == m.results[0].committed > 0 for result in m.results)
    assert [(c.family, c.qualifier, c.value) for c in table.cells("r")] == [
        ("f", b"a", b"1"),
        ("f", b"\xff\0", b""),
        ("g", b"c", b"3"),
    ]
    with pytest.raises(ZeroDivisionError):
        with table.mutation("r") as m:
            m.delete_row()
            raise ZeroDivisionError
    assert table.exists("r")


def test_deletes(table: Table) -> None:
    for t in (1, 2, 3):
        table.put("r", "f", "q", b"%d" % t, t)
    table.put("r", "f", "p", b"")
    table.put("r", "g", "q", b"")
    table.delete("r", "f", "q", 2)
    assert [c.timestamp for c in table.versions("r", "f", "q")] == [3, 1]
    table.delete("r", "f", "q")
    assert table.get("r", "f", "q") is None and table.exists("r", "f")
    table.delete_family("r", "f")
    assert not table.exists("r", "f") and "r" in table
    table.delete_row("r")
    table.delete_row("r")
    assert "r" not in table


def test_read_modify_write(table: Table) -> None:
    assert table.append("r", "f", "log", b"one ").size == 4
    assert table.append("r", "f", "log", b"two").size == 7
    assert table.get("r", "f", "log") == b"one two"
    assert table.increment("r", "g", "n") == 1
    assert table.increment("r", "g", "n", -5) == -4
    assert table.get("r", "g", "n") == b"-4"
    table.mutation("r").check_value("g", "n", b"-4").put("f", "seen", b"").apply()
    table.put("r", "g", "text", b"text")
    with pytest.raises(tabletfs.InvalidError, match='operation 1: increment: Invalid argument: row "r": g:"text": its newest'):
        table.mutation("r").put("f", "x", b"").increment("g", "text").apply()
    assert table.get("r", "f", "x") is None
    table.put("r", "g", "n", b"%d\n" % (2**63 - 1))
    with pytest.raises(tabletfs.Error) as overflow:
        table.increment("r", "g", "n")
    assert overflow.value.errno == errno.EOVERFLOW


def test_checks(table: Table) -> None:
    table.mutation("users").check_absent("f", "alice").put("f", "alice", b"1", 5).apply()
    with pytest.raises(tabletfs.CheckFailedError) as failed:
        table.mutation("users").put("f", "x", b"").check_absent("f", "alice").put("f", "alice", b"2").apply()
    assert failed.value.operation == 1 and failed.value.errno == errno.ECANCELED
    assert "row b'users', operation 1: check_absent" in str(failed.value)
    assert table.get("users", "f", "alice") == b"1" and table.get("users", "f", "x") is None
    m = table.mutation("users").check_exists("f", "alice").check_exists("f", "alice", 5).check_newest("f", "alice", 5)
    m.check_value("f", "alice", b"1").check_match("f", "alice", "[0-9]").check_absent("f", "alice", 4)
    m.put("f", "alice", b"2", 6).apply()
    for wrong in (
        table.mutation("users").check_exists("f", "bob"),
        table.mutation("users").check_newest("f", "alice", 5),
        table.mutation("users").check_value("f", "alice", b"1"),
        table.mutation("users").check_match("f", "alice", "[a-z]"),
    ):
        with pytest.raises(tabletfs.CheckFailedError):
            wrong.delete_row().apply()


def test_fingerprints(table: Table) -> None:
    assert table.fingerprint("r", "f") == 0
    for i in range(100):
        table.put("r", "f", f"q{i}", b"")
    seen = table.fingerprint("r", "f")
    table.put("r", "g", "q", b"")
    table.mutation("r").check_fingerprint("f", seen).put("f", "q1", b"").apply()
    with pytest.raises(tabletfs.CheckFailedError):
        table.mutation("r").check_fingerprint("f", seen).put("f", "q1", b"").apply()


def test_moves_and_times(table: Table) -> None:
    table.put("r", "f", "a", b"1", 10)
    table.put("r", "f", "a", b"2", 20)
    table.mutation("r").set_time("f", "a", 30).apply()
    assert [c.timestamp for c in table.versions("r", "f", "a")] == [30, 10]
    table.mutation("r").move("f", "a", "g", "b").apply()
    assert [c.value for c in table.versions("r", "g", "b")] == [b"2", b"1"] and not table.exists("r", "f")
    table.put("r", "f", "c", b"")
    with pytest.raises(FileExistsError):
        table.mutation("r").move("f", "c", "g", "b", replace=False).apply()


def test_times_are_microseconds_dates_and_ages(table: Table) -> None:
    noon = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)
    assert table.put("r", "f", "q", b"", noon).timestamp == 1795435200 * 10**6
    assert table.put("r", "f", "q", b"", datetime(1969, 12, 31, tzinfo=timezone.utc)).timestamp == -86400 * 10**6
    age = table.put("r", "f", "q", b"", timedelta(hours=1)).timestamp
    assert abs(age / 10**6 + 3600 - time.time()) < 60
    now = table.put("r", "f", "q", b"")
    assert abs(now.timestamp / 10**6 - time.time()) < 60
    with pytest.raises(ValueError, match="time zone"):
        table.put("r", "f", "q", b"", datetime(2026, 11, 23))


def test_arguments(table: Table) -> None:
    table.put("gruß", "f", "süß", b"x")
    assert table.get("gruß".encode(), "f", "süß".encode()) == b"x"
    with pytest.raises(TypeError, match="a value is bytes"):
        table.put("r", "f", "q", "text")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a key is bytes or str"):
        table.put(3, "f", "q", b"")  # type: ignore[arg-type]
    with pytest.raises(tabletfs.InvalidError):
        table.put("", "f", "q", b"")
    with pytest.raises(tabletfs.InvalidError):
        table.put("r", "none", "q", b"")
    with pytest.raises(tabletfs.Error) as large:
        table.put("r", "f", "q", bytes(2**26 + 1))
    assert large.value.errno == errno.EFBIG
    with pytest.raises(OverflowError):
        table.put("r", "f", "q", b"", 2**63)
    assert table.mutation("r").apply() == []


def test_committed_mutations_survive(store: Store, table: Table) -> None:
    table.put("r", "f", "q", b"x", sync=True)
    path = store.path
    store.close()
    with tabletfs.open(path) as again:
        assert again.table("t").get("r", "f", "q") == b"x"


def test_errors_have_reasons(directory: Path) -> None:
    """Also of a store that another process serves."""
    own = tabletfs.open(directory, log_level=0, serve=True)
    with own as store, store.create_table("t", ["f"]) as table, tabletfs.open(f"unix:{directory}") as served:
        for s, t in (store, table), (served, served.table("t")):
            with pytest.raises(tabletfs.InvalidError, match='table t, row .*: it has no family "nosuch"$'):
                t.put("r", "nosuch", "q", b"v")
            with pytest.raises(tabletfs.InvalidError, match='it has no family "nosuch"$'):
                t.get("r", "nosuch", "q")
            with pytest.raises(tabletfs.InvalidError, match="the pattern of rows, .*missing closing parenthesis"):
                list(t.scan(row="("))
            with pytest.raises(tabletfs.NotFoundError, match="there is no table none"):
                s.table("none")
            with pytest.raises(tabletfs.ExistsError, match="there is a table t already"):
                s.create_table("t")
            with pytest.raises(tabletfs.InvalidError, match="'a b'|\"a b\" is no name"):
                s.create_table("a b")
            t.put("r", "f", "q", b"text")
            with pytest.raises(tabletfs.BatchError, match="not a decimal number") as failed, t.batch() as batch:
                batch.add(t.mutation("r").increment("f", "q"))
            assert "not a decimal number" in str(failed.value.failures[0][1])
            with pytest.raises(tabletfs.CheckFailedError, match="another value"):
                t.mutation("r").check_value("f", "q", b"x").put("f", "q", b"y").apply()
            with pytest.raises(tabletfs.Error, match="table t: .*: it has cells"):
                s.drop_table("t")
