# SPDX-License-Identifier: Apache-2.0
import threading

import pytest

import tabletfs
from tabletfs import Store, Table


def test_a_batch_writes_rows_in_order(table: Table) -> None:
    with table.batch(max_bytes=1 << 20, threads=2, sync=True) as batch:
        for i in range(2000):
            batch.put(f"row{i % 500:04}", "f", "q", b"%d" % i)
        batch.flush()
        assert len(list(table.scan().rows())) == 500
        batch.add(table.mutation("row0000").put("f", "a", b"1").append("f", "q", b"!").put("g", "", b"", 7))
    assert table.get("row0000", "f", "q") == b"1500!" and table.get("row0499", "f", "q") == b"1999"
    assert table.get("row0000", "g", "", 7) == b""


def test_failures_name_their_rows(store: Store, table: Table) -> None:
    batch = table.batch()
    for i in range(1500):
        m = table.mutation(b"%04d" % i).put("f", "q", b"")
        batch.add(m.check_exists("f", "none") if i % 5 else m)
    with pytest.raises(tabletfs.BatchError) as failed:
        batch.flush()
    assert failed.value.count == 1200 and len(failed.value.failures) == 1000
    row, error = min(failed.value.failures)
    assert int(row) % 5 and isinstance(error, tabletfs.CheckFailedError) and repr(row) in str(error)
    assert len(list(table)) == 300
    batch.put("r", "f", "q", b"")
    batch.add(table.mutation("s").check_exists("f", "none").put("f", "q", b""))
    with pytest.raises(tabletfs.BatchError) as failed:
        batch.close()
    assert failed.value.count == 1 and failed.value.failures[0][0] == b"s"
    batch.close()
    with pytest.raises(tabletfs.InvalidError):
        with table.batch() as batch:
            batch.put("t", "f", "q", b"")
            batch.put("t", "none", "q", b"")
    assert "r" in table and "t" in table
    other = store.create_table("other", ["f"])
    with table.batch() as batch, pytest.raises(tabletfs.InvalidError):
        batch.add(other.mutation("r").put("f", "q", b""))
    with pytest.raises(tabletfs.InvalidError):
        table.batch(threads=65)


def test_threads_share_a_batch(table: Table) -> None:
    with table.batch(max_bytes=1 << 16) as batch:

        def write(n: int) -> None:
            for i in range(1000):
                batch.put(f"{n}-{i}", "f", "q", b"x" * 100)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(list(table.scan().rows())) == 4000


def test_an_exception_leaves_what_was_added(table: Table) -> None:
    with pytest.raises(KeyError):
        with table.batch() as batch:
            batch.put("r", "f", "q", b"")
            raise KeyError
    assert "r" in table
