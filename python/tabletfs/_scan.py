# SPDX-License-Identifier: Apache-2.0
"""
Scans.  A Scan is a description: each iteration over it begins a new scan of the library.  An iteration is a generator
that reads many cells with one call (tfs_scan_fill), into memory of its own.  Its first call reads a few, so that
reading one row costs little.  A value that is too large for that is read when its cell is returned.
"""
import errno
import struct
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ._cell import Cell
from ._errors import error
from ._ffi import ffi
from ._handle import Handle
from ._library import Key, Time, check, fetch_text, key_bytes, lib, microseconds, pass_bytes, text_bytes, value_bytes

if TYPE_CHECKING:
    from ._table import Table

# struct tfs_cell: row, qualifier, family, its id, ts, size, value, expires_us, commit_us, sequence, unsure.
CELL = struct.Struct("@PNPNPHqQPNqqQ?0q")
_FIRST_CELLS, _FIRST_BYTES = 32, 16 << 10
_CELLS, _BYTES = 1024, lib.TFS_CELL_MAX
_FIRST, _LAST = -(2**63), 2**63 - 1  # timestamps

_new_memory = ffi.new_allocator(should_clear_after_alloc=False)
_new_cell = tuple.__new__
raised = threading.local()


def _note_exception(kind: object, value: BaseException, trace: object) -> None:
    raised.exception = value


@ffi.callback("bool(void *)", onerror=_note_exception, error=True)  # type: ignore[misc]
def stop(state: Any) -> bool:
    """The library asks while it finds nothing.  Python runs signal handlers here, which may raise an exception."""
    handle: Handle = ffi.from_handle(state)[0]()
    return not handle.is_open or handle.group.is_closing


class _Buffer:
    """Memory for the cells of one call."""

    def __init__(self, cells: int, size: int) -> None:
        self.count = cells
        self.cells = _new_memory("struct tfs_cell[]", cells)
        self.size = size
        self.bytes = _new_memory("char[]", size)
        self._view = ffi.buffer(self.bytes)
        self._base = int(ffi.cast("uintptr_t", self.bytes))

    def take(self, count: int) -> list[tuple[Cell, bool]]:
        """The cells of a scan, and whether the value is still to be read."""
        view, base = self._view, self._base
        taken = []
        row = family = last_row = last_family = None
        for (
            row_at,
            row_size,
            qualifier_at,
            qualifier_size,
            family_at,
            _,
            timestamp,
            size,
            value_at,
            value_size,
            expires,
            committed,
            _,
            _,
        ) in CELL.iter_unpack(ffi.buffer(self.cells, count * CELL.size)):
            if row_at != last_row:
                last_row = row_at
                row = view[row_at - base : row_at - base + row_size]
            if family_at != last_family:
                last_family = family_at
                family = fetch_text(ffi.cast("char *", family_at))
            qualifier = view[qualifier_at - base : qualifier_at - base + qualifier_size] if qualifier_size else b""
            value = view[value_at - base : value_at - base + value_size] if value_size else b""
            cell = _new_cell(Cell, (row, family, qualifier, timestamp, value, size, committed, expires))
            taken.append((cell, size != value_size))
        return taken

    def take_rows(self, count: int) -> list[bytes]:
        view, base = self._view, self._base
        return [view[c[0] - base : c[0] - base + c[1]] for c in CELL.iter_unpack(ffi.buffer(self.cells, count * CELL.size))]


def _fill(handle: Handle, buffer: _Buffer) -> int:
    while True:
        with handle as scan:
            raised.exception = None
            count: int = lib.tfs_scan_fill(scan, buffer.cells, buffer.count, buffer.bytes, buffer.size)
        if raised.exception:
            raise raised.exception
        if count != -errno.EINTR:  # else the scan was closed, or continues
            return count


def _buffers(handle: Handle) -> Iterator[tuple[_Buffer, int]]:
    """Yields buffers and the number of cells in each."""
    buffer = _Buffer(_FIRST_CELLS, _FIRST_BYTES)
    try:
        while count := _fill(handle, buffer):
            if count != -errno.ENOBUFS:
                yield buffer, check(count, handle.what)
            if buffer.count < _CELLS:
                buffer = _Buffer(_CELLS, _BYTES)
    finally:
        handle.close()


def _rows(handle: Handle) -> Iterator[bytes]:
    for buffer, count in _buffers(handle):
        yield from buffer.take_rows(count)


def _cells(handle: Handle, table: "Table", values: bool) -> Iterator[Cell]:
    for buffer, count in _buffers(handle):
        for cell, is_partial in buffer.take(count):
            if not is_partial or not values:
                yield cell
                continue
            value = table.get(cell.row, cell.family, cell.qualifier, cell.timestamp)
            if value is not None:  # else it was deleted meanwhile
                yield cell._replace(value=value)


def prefix_end(prefix: bytes) -> bytes | None:
    """The least key above all that begin with prefix; None: there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


class Bounds:
    """The range that several clauses leave."""

    def __init__(self) -> None:
        self.least = b""
        self.is_after = False
        self.end: bytes | None = None

    def start(self, key: Key | None, is_after: bool = False) -> None:
        if key is not None:
            self.least, self.is_after = max((self.least, self.is_after), (key_bytes(key), is_after))

    def stop(self, key: Key | None) -> None:
        if key is not None:
            self.end = key_bytes(key) if self.end is None else min(self.end, key_bytes(key))

    def prefix(self, key: Key | None) -> None:
        if key is not None:
            self.start(key)
            self.stop(prefix_end(key_bytes(key)))


def _count(name: str, number: int | None, most: int) -> int:
    if number is None:
        return 0
    if not 1 <= number <= most:
        raise error(errno.EINVAL, f"{name}={number}", "it needs a number, at least 1")
    return number


def _conditions(conditions: Iterable[Key]) -> bytes:
    """One condition, which is true if all are."""
    each = [key_bytes(c) for c in conditions]
    return each[0] if len(each) == 1 else b" and ".join(b"(%s)" % c for c in each)


class Scan:
    """
    Cells of a table, in order: rows ascending (reverse: descending), of each row the families by id, their qualifiers
    ascending, and timestamps descending.  Each row is read as of one instant.  Every iteration scans the table anew.
    """

    def __init__(self, table: "Table", spec: Any, keep: object, absent_from: "Table | None") -> None:
        self.table = table
        self.absent_from = absent_from
        self._spec = spec
        self._keep = keep

    def new_spec(self) -> Any:
        """Its bytes live as long as the Scan."""
        return ffi.new("struct tfs_scan_spec *", self._spec[0])

    def start(self, what: int) -> Handle:
        link: list[Any] = []
        arg = ffi.new_handle(link)
        spec = self.new_spec()
        spec.what = what
        spec.stop = stop
        spec.stop_arg = arg
        parent, other = self.table.handle, (self.absent_from or self.table).handle
        keep = (arg, parent, other)
        with parent as table, other as absent_from:
            handle = Handle(parent.group, f"{self.table.what}: scan", "struct tfs_scan **", lib.tfs_scan_free, keep)
            if self.absent_from is not None:
                spec.absent_from = absent_from
            with handle:
                check(lib.tfs_scan_new(table, spec, handle.out), handle.what)
        link.append(weakref.ref(handle))
        return handle

    def __iter__(self) -> Iterator[Cell]:
        return _cells(self.start(lib.TFS_SCAN_CELLS), self.table, True)

    def keys(self) -> Iterator[Cell]:
        """The same cells without values."""
        return _cells(self.start(lib.TFS_SCAN_KEYS), self.table, False)

    def rows(self) -> Iterator[bytes]:
        """The keys of the rows that have a matching cell."""
        return _rows(self.start(lib.TFS_SCAN_ROWS))

    def fingerprint(self) -> int:
        total = 0
        for buffer, count in _buffers(self.start(lib.TFS_SCAN_KEYS)):
            total += sum(lib.tfs_fingerprint(buffer.cells + i) for i in range(count))
        return total % 2**64


def new_scan(
    table: "Table",
    *,
    one_row: Key | None = None,
    prefix: Key | Iterable[Key] | None = None,
    rows: Iterable[Key] | None = None,
    from_: Key | None = None,
    to: Key | None = None,
    after: Key | None = None,
    stored_from: bytes | None = None,
    stored_to: bytes | None = None,
    row: Key | None = None,
    lua: Key | None = None,
    where: Key | Iterable[Key] | None = None,
    sample: float | None = None,
    reverse: bool = False,
    limit: int | None = None,
    family: str | Iterable[str] | None = None,
    qualifier: Key | None = None,
    one_qualifier: Key | None = None,
    qprefix: Key | None = None,
    qfrom: Key | None = None,
    qto: Key | None = None,
    qafter: Key | None = None,
    qlimit: int | None = None,
    since: Time | None = None,
    until: Time | None = None,
    at: Time | None = None,
    versions: int | None = None,
    value: Key | None = None,
    value_is: bytes | None = None,
    changed: Time | None = None,
    absent_from: "Table | None" = None,
    absent_names: bool = False,
) -> Scan:
    bounds, qualifiers = Bounds(), Bounds()
    bounds.start(from_)
    bounds.stop(to)
    if reverse:
        bounds.stop(after)
    else:
        bounds.start(after, True)
    prefixes = None if prefix is None else [key_bytes(p) for p in ([prefix] if isinstance(prefix, (str, bytes)) else prefix)]
    keys = None if rows is None else [(r, False) for r in map(key_bytes, rows) if prefixes is None or r.startswith(tuple(prefixes))]
    if keys is None and prefixes is not None and len(prefixes) != 1:
        keys = [(p, True) for p in prefixes]
    elif keys is None and prefixes is not None:
        bounds.prefix(prefixes[0])
    qualifiers.start(qfrom)
    qualifiers.start(qafter, True)
    qualifiers.stop(qto)
    qualifiers.prefix(qprefix)
    if one_qualifier is not None:
        qualifiers.start(one_qualifier)
        qualifiers.stop(key_bytes(one_qualifier) + b"\0")
    keep: list[Any] = []

    def pointer(data: bytes) -> Any:
        keep.append(pass_bytes(data))
        return keep[-1]

    spec = ffi.new("struct tfs_scan_spec *")
    spec.row_from = pointer(bounds.least)
    spec.row_from_after = bounds.is_after
    if keys is not None:
        spec.keys = array = ffi.new("struct tfs_key[]", len(keys) + 1)
        spec.key_count = len(keys)
        keep.append(array)
        for i, (key, is_prefix) in enumerate(keys):
            array[i].key, array[i].is_prefix = pointer(key), is_prefix
    if one_row is not None:
        spec.row_from, spec.one_row = pointer(key_bytes(one_row)), True
    if bounds.end is not None:
        spec.row_to = pointer(bounds.end)
    if stored_from is not None:
        spec.stored_from = pointer(stored_from)
    if stored_to is not None:
        spec.stored_to = pointer(stored_to)
    spec.reverse = reverse
    spec.qualifier_from = pointer(qualifiers.least)
    spec.qualifier_from_after = qualifiers.is_after
    if qualifiers.end is not None:
        spec.qualifier_to = pointer(qualifiers.end)
    if family is not None:
        names = [ffi.new("char[]", text_bytes(name)) for name in ([family] if isinstance(family, str) else family)]
        if not names:
            raise error(errno.EINVAL, "family", "it needs the name of a family")
        array = ffi.new("char *[]", names)
        spec.families, spec.family_count = array, len(names)
        keep += [names, array]
    if row is not None:
        spec.row_regex = pointer(key_bytes(row))
    if where is not None:
        spec.row_where = pointer(_conditions([where] if isinstance(where, (str, bytes)) else where))
    if lua is not None:
        spec.row_script = pointer(key_bytes(lua))
    if qualifier is not None:
        spec.qualifier_regex = pointer(key_bytes(qualifier))
    if value is not None:
        spec.value_regex = pointer(key_bytes(value))
    if value_is is not None:
        spec.value_is = pointer(value_bytes(value_is))
    if sample is not None:
        if not 0.000001 <= sample <= 1:
            raise error(errno.EINVAL, f"sample={sample}", "it needs a share from 0.000001 to 1")
        spec.row_sample = round(sample * 1_000_000)
    spec.row_limit = _count("limit", limit, 2**64 - 1)
    spec.column_limit = _count("qlimit", qlimit, 2**32 - 1)
    spec.versions = _count("versions", versions, 2**32 - 1)
    if at is not None and versions is None:
        spec.versions = 1
    first, end = _FIRST if since is None else microseconds(since), _LAST if until is None else microseconds(until)
    if at is not None and microseconds(at) < end:
        end = microseconds(at) + 1
    if since is not None or end < _LAST:
        spec.has_times, spec.since, spec.until = True, first, end
    if changed is not None:
        spec.has_changed, spec.changed_since = True, microseconds(changed)
    spec.absent_names = absent_names
    return Scan(table, spec, keep, absent_from)
