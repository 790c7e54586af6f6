# SPDX-License-Identifier: Apache-2.0
"""
Tables as input and output of Dask, tabletfs-jobs(7).

    import tabletfs.dask

    cells = tabletfs.dask.read("/mnt/web", "webtable", family="anchor")
    links = cells.map(lambda cell: (cell.qualifier, "to", cell.row, cell.timestamp, cell.value))
    tabletfs.dask.write(links, "/mnt/web", "links")

The processes of Dask open the store by its name, so it must be one that several processes can use: a mount point, or
another source of tabletfs(1) that a server answers.  Each process opens it once at a time.

This is a package, not a module of tabletfs, because tasks close the store below the frame of write(): see
_is_within_call() of tabletfs._handle.
"""
import importlib
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .._cell import Cell
from .._library import Key
from .._store import Store, open

_bag: Any = importlib.import_module("dask.bag")
_lock = threading.Lock()
_stores: dict[tuple[int, str], tuple[Store, int]] = {}  # by process and source: the store, and how many use it


@contextmanager
def _store_of(source: str) -> Iterator[Store]:
    """The store, opened by its first user in this process and closed by the last."""
    key = (os.getpid(), source)
    with _lock:
        store, users = _stores.get(key) or (open(source), 0)
        _stores[key] = store, users + 1
    try:
        yield store
    finally:
        with _lock:
            store, users = _stores.pop(key)
            if users > 1:
                _stores[key] = store, users - 1
            else:
                store.close()


class _Range:
    """The cells of one partition, of those that the clauses select.  Each iteration scans them anew, so none are kept."""

    def __init__(self, source: str, table: str, clauses: dict[str, Any]) -> None:
        self.source, self.table, self.clauses = source, table, clauses

    def __iter__(self) -> Iterator[Cell]:
        with _store_of(self.source) as store, store.table(self.table) as table:
            yield from table.scan(**self.clauses)


def _source_of(store: str | os.PathLike[str]) -> str:
    """The name of the store in other processes, which may have another working directory."""
    source = os.fspath(store)
    return os.path.abspath(source) if os.path.exists(source) else source


def read(store: str | os.PathLike[str], table: str, *, partitions: int | None = None, **clauses: Any) -> Any:
    """
    Returns a dask.bag of the cells, tabletfs.Cell, with one partition for each tablet, or with at most so many partitions
    of about equal bytes.  clauses: as of Table.scan.  Each cell is in one partition, also if tablets split and merge
    meanwhile.  Each use of the bag reads the table again.
    """
    source = _source_of(store)
    if "stored_from" in clauses or "stored_to" in clauses:
        raise ValueError("stored_from and stored_to are the bounds of partitions")
    with _store_of(source) as opened, opened.table(table) as t:
        ends = [r.end for r in (t.tablets() if partitions is None else t.splits(partitions))]
    name = f"tabletfs-{table}-{os.urandom(8).hex()}"
    ranges = [
        _Range(source, table, clauses | {"stored_from": begin, "stored_to": end})
        for begin, end in zip([b""] + [end or b"" for end in ends], ends)
    ]
    return _bag.Bag({(name, i): r for i, r in enumerate(ranges)}, name, len(ranges))


def _write(cells: Iterable[tuple[Key, str, Key, int, bytes]], source: str, table: str) -> list[int]:
    count = 0
    with _store_of(source) as store, store.table(table) as t, t.batch() as batch:
        for row, family, qualifier, timestamp, value, *_ in cells:
            if not isinstance(timestamp, int):
                raise TypeError(f"row {row!r}: the timestamp must be a number, so that a repeated task writes the same cell")
            batch.put(row, family, qualifier, value, timestamp)
            count += 1
    return [count]


def write(bag: Any, store: str | os.PathLike[str], table: str) -> int:
    """
    Computes the bag and writes its cells: tuples of row, family, qualifier, timestamp and value (bytes), or Cells.
    Returns their number.  A task that Dask repeats writes the same cells again, so the timestamps must not depend on
    the time at which it runs.
    """
    return int(bag.map_partitions(_write, _source_of(store), table).sum().compute())
