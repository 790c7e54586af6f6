# SPDX-License-Identifier: Apache-2.0
"""Batches: the library's threads apply row mutations, many rows in one request."""
import os
from typing import TYPE_CHECKING, Any, Self

from ._errors import BatchError, Error
from ._ffi import ffi
from ._handle import Handle
from ._library import (
    Buffer,
    Key,
    Time,
    check,
    failed,
    fetch_bytes,
    key_bytes,
    lib,
    pass_bytes,
    reason,
    text_bytes,
    timestamp_of,
    value_bytes,
)
from ._mutation import Made, Mutation

if TYPE_CHECKING:
    from ._table import Table

_FAILURES_MAX = 1000


class _Failures:
    def __init__(self) -> None:
        self.count = 0
        self.first: list[tuple[bytes, int, str]] = []


@ffi.callback("void(void *, struct tfs_bytes, int)")  # type: ignore[misc]
def _note_failure(state: Any, row: Any, code: int) -> None:
    """A thread of the library reports a failed row mutation."""
    failures: _Failures = ffi.from_handle(state)
    failures.count += 1
    if len(failures.first) < _FAILURES_MAX:
        failures.first.append((fetch_bytes(row), -code, reason()))


class Batch:
    """
    Writes many rows.  Each row mutation is atomic and succeeds or fails by itself; those of one row are applied in the
    order in which they were added.  Threads may share a batch.  Leaving its `with` block closes it, also if an
    exception leaves the block: what was added is applied.
    """

    def __init__(self, table: "Table", max_bytes: int, threads: int, sync: bool) -> None:
        self.table = table
        self._failures = _Failures()
        arg = ffi.new_handle(self._failures)
        options = ffi.new(
            "struct tfs_batch_options *",
            {"max_bytes": max_bytes, "threads": threads, "sync": sync, "failed": _note_failure, "arg": arg},
        )
        keep = (arg, self._failures, table.handle)
        with table.handle as t:
            self._handle = Handle(
                table.handle.group, f"{table.what}: batch", "struct tfs_batch **", lib.tfs_batch_close, keep
            )
            with self._handle:
                check(lib.tfs_batch_new(t, options, self._handle.out), self._handle.what)

    def put(self, row: Key, family: str, qualifier: Key, value: Buffer, timestamp: Time | None = None) -> None:
        """Adds the mutation of one row that writes one cell."""
        r, q, v = key_bytes(row), key_bytes(qualifier), value_bytes(value)
        name, ts = text_bytes(family), timestamp_of(timestamp)
        with self._handle as batch, self.table.handle as table, Made(self.table.handle, table, r) as m:
            code = lib.tfs_mutation_put(m, name, pass_bytes(q), ts, pass_bytes(v))
            if code == 0:
                code = lib.tfs_batch_add(batch, m)
        if code < 0:
            raise failed(-code, f"{self.table.what}, row {r!r}: put {family}")

    def add(self, mutation: Mutation) -> None:
        """Adds a copy of the mutation, which must be of the same table."""
        other = mutation.table.handle
        with self._handle as batch, other as table, Made(other, table, mutation.row) as m:
            mutation.fill(m)
            check(lib.tfs_batch_add(batch, m), f"{self.table.what}, row {mutation.row!r}")

    def flush(self) -> None:
        """Waits until all that was added is applied.  BatchError: mutations failed since the last flush."""
        with self._handle as batch:
            code = lib.tfs_batch_flush(batch)
        if code < 0:
            self._raise(-code)

    def _raise(self, code: int) -> None:
        count, first = self._failures.count, self._failures.first
        self._failures.count, self._failures.first = 0, []
        failures: list[tuple[bytes, Error]] = []
        for row, row_code, why in first:
            failures.append((row, failed(row_code, f"{self.table.what}, row {row!r}", why)))
        first_why = first[0][2] if first else ""
        text = f"{self.table.what}: {count} row mutations failed, the first: {os.strerror(code)}"
        raise BatchError(code, f"{text}: {first_why}" if first_why else text, failures, count)

    def close(self) -> None:
        """Flushes and ends the batch.  BatchError as of flush."""
        if not self._handle.is_open:
            return
        try:
            self.flush()
        finally:
            self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self.close()
