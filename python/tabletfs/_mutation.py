# SPDX-License-Identifier: Apache-2.0
"""
Mutations of one row.  A Mutation is a list of operations in Python.  Applying it, or adding it to a batch, makes the
library's mutation, so a Mutation has nothing to close, and may be applied more than once.
"""
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from ._cell import Result
from ._errors import CheckFailedError
from ._ffi import ffi
from ._handle import Handle, free_last
from ._library import (
    ANY,
    AUTO,
    Buffer,
    Key,
    Time,
    failed,
    key_bytes,
    lib,
    microseconds,
    pass_bytes,
    text_bytes,
    timestamp_of,
    value_bytes,
)

if TYPE_CHECKING:
    from ._table import Table

_UNCHANGED = 2**64 - 1


class Made:
    """The library's mutation, which the end of the `with` block frees."""

    __slots__ = ("_mutations", "_args", "_before")

    def __init__(self, handle: Handle, table: Any, row: bytes) -> None:
        self._mutations = handle.group.mutations.setdefault(threading.get_ident(), [])
        self._before = len(self._mutations)
        self._args = (table,), (pass_bytes(row),)

    def __enter__(self) -> Any:
        self._mutations.extend(map(lib.tfs_mutation_new, *self._args))  # one call, see _handle.py
        if not self._mutations[-1]:
            raise MemoryError
        return self._mutations[-1]

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        while len(self._mutations) > self._before:
            free_last(lib.tfs_mutation_free, self._mutations)


class Mutation:
    """
    Operations on one row, which are applied in order, all or none.  As a context manager, it is applied at the end of
    the block, unless an exception leaves the block; `results` has the results.
    """

    def __init__(self, table: "Table", row: Key) -> None:
        self.table = table
        self.row = key_bytes(row)
        self.results: list[Result] = []
        # Of each operation: its name for messages, the function and its arguments, and objects to which these point.
        self._operations: list[tuple[str, Callable[..., int], tuple[Any, ...], object]] = []

    def __len__(self) -> int:
        return len(self._operations)

    def _add(self, name: str, fn: Callable[..., int], *args: Any, keep: object = None) -> Self:
        self._operations.append((name, fn, args, keep))
        return self

    def put(self, family: str, qualifier: Key, value: Buffer, timestamp: Time | None = None) -> Self:
        """Writes a version; without a timestamp, the newest one."""
        q, v = pass_bytes(key_bytes(qualifier)), pass_bytes(value_bytes(value))
        return self._add("put", lib.tfs_mutation_put, text_bytes(family), q, timestamp_of(timestamp), v)

    def append(self, family: str, qualifier: Key, value: Buffer) -> Self:
        """Writes a new version: the newest one, if there is one, and value behind it."""
        name = ffi.new("char[]", text_bytes(family))
        q, v = pass_bytes(key_bytes(qualifier)), pass_bytes(value_bytes(value))
        write = ffi.new(
            "struct tfs_write *",
            {
                "family": name,
                "qualifier": q,
                "base": lib.TFS_BASE_NEWEST,
                "truncate_to": _UNCHANGED,
                "append": v,
                "place": AUTO,
            },
        )
        return self._add("append", lib.tfs_mutation_write, write, keep=(name, q, v))

    def increment(self, family: str, qualifier: Key, by: int = 1) -> Self:
        """Adds to a counter; an absent one is 0."""
        q = pass_bytes(key_bytes(qualifier))
        return self._add("increment", lib.tfs_mutation_increment, text_bytes(family), q, by)

    def delete(self, family: str, qualifier: Key, timestamp: Time | None = None) -> Self:
        """Deletes one version, or without a timestamp the column.  Deleting what is absent succeeds."""
        name, q = text_bytes(family), pass_bytes(key_bytes(qualifier))
        if timestamp is None:
            return self._add("delete", lib.tfs_mutation_delete_column, name, q)
        return self._add("delete", lib.tfs_mutation_delete_version, name, q, microseconds(timestamp))

    def delete_family(self, family: str) -> Self:
        return self._add("delete_family", lib.tfs_mutation_delete_family, text_bytes(family))

    def delete_row(self) -> Self:
        return self._add("delete_row", lib.tfs_mutation_delete_row)

    def set_time(self, family: str, qualifier: Key, timestamp: Time) -> Self:
        """Changes the timestamp of the newest version."""
        q = pass_bytes(key_bytes(qualifier))
        return self._add("set_time", lib.tfs_mutation_set_time, text_bytes(family), q, microseconds(timestamp))

    def move(
        self,
        family: str,
        qualifier: Key,
        to_family: str,
        to_qualifier: Key,
        *,
        timestamp: Time | None = None,
        to_timestamp: Time | None = None,
        replace: bool = True,
    ) -> Self:
        """Renames a column, or with timestamps a version, as rename(2) in a mount does."""
        source = text_bytes(family), pass_bytes(key_bytes(qualifier)), timestamp_of(timestamp)
        target = text_bytes(to_family), pass_bytes(key_bytes(to_qualifier)), timestamp_of(to_timestamp)
        return self._add("move", lib.tfs_mutation_move, *source, *target, not replace)

    # ---- checks, which see the row before the mutation ----

    def _check(self, name: str, kind: int, family: str, qualifier: Key, ts: Any, value: Any) -> Self:
        q = pass_bytes(key_bytes(qualifier))
        return self._add(name, lib.tfs_mutation_check, kind, text_bytes(family), q, ts, value)

    def check_exists(self, family: str, qualifier: Key, timestamp: Time | None = None) -> Self:
        """Requires that the column, or this version, exists."""
        ts = timestamp_of(timestamp)
        return self._check("check_exists", lib.TFS_CHECK_EXISTS, family, qualifier, ts, ANY)

    def check_absent(self, family: str, qualifier: Key, timestamp: Time | None = None) -> Self:
        """Requires that the column, or this version, does not exist."""
        ts = timestamp_of(timestamp)
        return self._check("check_absent", lib.TFS_CHECK_ABSENT, family, qualifier, ts, ANY)

    def check_newest(self, family: str, qualifier: Key, timestamp: Time) -> Self:
        """Requires that the newest version has this timestamp."""
        ts = timestamp_of(timestamp)
        return self._check("check_newest", lib.TFS_CHECK_NEWEST_IS, family, qualifier, ts, ANY)

    def check_value(self, family: str, qualifier: Key, value: Buffer) -> Self:
        """Requires that the newest version has this value."""
        v = pass_bytes(value_bytes(value))
        return self._check("check_value", lib.TFS_CHECK_VALUE, family, qualifier, AUTO, v)

    def check_match(self, family: str, qualifier: Key, pattern: Key) -> Self:
        """Requires that a regular expression (pcre2syntax(3), over bytes) matches all of the newest version."""
        v = pass_bytes(key_bytes(pattern))
        return self._check("check_match", lib.TFS_CHECK_MATCH, family, qualifier, AUTO, v)

    def check_fingerprint(self, family: str, fingerprint: int) -> Self:
        """Requires that the family has the same cells as when Table.fingerprint returned this number."""
        return self._add("check_fingerprint", lib.tfs_mutation_check_family, text_bytes(family), fingerprint)

    # ---- applying ----

    def fill(self, m: Any) -> None:
        """Adds the operations to the library's mutation, which points to bytes of self."""
        for _, fn, args, _ in self._operations:
            if fn(m, *args) < 0:
                raise MemoryError

    def _error(self, code: int, results: Any) -> Exception:
        what = f"{self.table.what}, row {self.row!r}"
        cause = next((i for i in range(len(self)) if results[i].failed), None)
        if cause is not None:
            what += f", operation {cause}: {self._operations[cause][0]}"
        e = failed(code, what)
        if isinstance(e, CheckFailedError):
            e.operation = cause
        return e

    def apply(self, *, sync: bool = False) -> list[Result]:
        """
        Applies the operations.  sync: they are on disk when it returns.  CheckFailedError: a check failed.  After EIO it
        is unknown whether they were applied; after any other error they were not.
        """
        count = len(self)
        results = ffi.new("struct tfs_result[]", count or 1)
        with self.table.handle as table, Made(self.table.handle, table, self.row) as m:
            self.fill(m)
            code = lib.tfs_apply(m, lib.TFS_APPLY_SYNC if sync else 0, results)
        if code < 0:
            raise self._error(-code, results)
        self.results = [Result(r.ts, r.size, r.counter, r.commit_us) for r in results[0:count]]
        return self.results

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if kind is None:
            self.apply()
