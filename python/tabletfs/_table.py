# SPDX-License-Identifier: Apache-2.0
"""Tables and snapshots."""
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from ._batch import Batch
from ._cell import Cell, Result, Schema, Snapshot, Tablet, Usage, schema_of, snapshot_of, tablet_of, usage_of
from ._errors import NotFoundError
from ._ffi import ffi
from ._handle import Handle
from ._library import Buffer, Key, Time, check, key_bytes, lib, number_of, pass_bytes, text_bytes, timestamp_of
from ._library import value_bytes
from ._files import Path, read_records, write_cells
from ._library import NO_TIME
from ._mutation import Mutation
from ._run import Output, new_run
from ._scan import Scan, new_scan

_FIRST_READ = 4096
_NOBODY = 2**32 - 1  # an owner that does not change
_new_memory = ffi.new_allocator(should_clear_after_alloc=False)


@ffi.callback("int(void *, const struct tfs_tablet *)")  # type: ignore[misc]
def _note_tablet(arg: Any, tablet: Any) -> int:
    ffi.from_handle(arg).append(tablet_of(tablet))
    return 0


@ffi.callback("int(void *, const struct tfs_snapshot *)")  # type: ignore[misc]
def note_snapshot(arg: Any, snapshot: Any) -> int:
    ffi.from_handle(arg).append(snapshot_of(snapshot))
    return 0


class Table:
    """
    A table, or a snapshot of one, which cannot be changed.  It refers to the table, not to its name: it remains valid
    after a rename.  After a drop, calls raise NotFoundError.
    """

    def __init__(self, parent: Handle, what: str, open: Callable[..., int], *args: Any) -> None:
        """open: the function of the library that opens it, from the parent and the arguments."""
        self.what = what
        self.handle = Handle(parent.group, what, "struct tfs_table **", lib.tfs_table_close, parent)
        with parent as pointer, self.handle:
            check(open(pointer, *args, self.handle.out), what)

    def close(self) -> None:
        self.handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tabletfs {self.what}>"

    def _call(self, fn: Callable[..., int], *args: Any, why: Any = None, of: str = "") -> int:
        with self.handle as table:
            result = fn(table, *args)
        return check(result, f"{self.what}{of}", why)

    # ---- schema ----

    @property
    def schema(self) -> Schema:
        out = ffi.new("struct tfs_schema **")
        with self.handle as table:
            check(lib.tfs_schema_get(table, out), self.what)
            try:
                return schema_of(out[0], lib.TFS_TYPE_COUNTER)
            finally:
                lib.tfs_schema_put(out[0])

    @property
    def name(self) -> str:
        """The present name; of a snapshot, its own."""
        return self.schema.name

    @property
    def id(self) -> int:
        with self.handle as table:
            return int(lib.tfs_table_id(table))

    def set_schema(self, text: str) -> None:
        """Replaces the whole schema by a text, tabletfs-schema(5), or changes nothing."""
        why = ffi.new("char **")
        self._call(lib.tfs_schema_set_text, pass_bytes(text.encode()), NO_TIME, why, why=why, of=": schema")

    def _change(self, op: int, name: str, value: str | None = None, **members: int) -> None:
        texts = [ffi.new("char[]", text_bytes(text)) for text in (name, value or "")]
        edit = ffi.new("struct tfs_schema_edit *", members)
        edit.op, edit.name, edit.value, edit.explicit_act = op, texts[0], texts[1], True
        why = ffi.new("char **")
        self._call(lib.tfs_schema_change, edit, why, why=why, of=f": {name}")

    def add_family(
        self,
        name: str,
        *,
        gc: str | None = None,
        type: str | None = None,
        group: str | None = None,
        uid: int | None = None,
        gid: int | None = None,
        mode: int = 0o644,
    ) -> None:
        """Adds a family, for this user, and then sets what is given: gc, type and group are as in tabletfs-schema(5)."""
        login = self.handle.group.login
        owner = {"uid": login[0] if uid is None else uid, "gid": login[1] if gid is None else gid, "mode": mode}
        self._change(lib.TFS_SCHEMA_FAMILY_ADD, name, None, **owner)
        self.change_family(name, gc=gc, type=type, group=group)

    def change_family(
        self,
        name: str,
        *,
        gc: str | None = None,
        type: str | None = None,
        group: str | None = None,
        acl: str | None = None,
        uid: int | None = None,
        gid: int | None = None,
        mode: int | None = None,
    ) -> None:
        """Sets what is given, one after another."""
        if mode is not None and acl is None:
            self._change(lib.TFS_SCHEMA_FAMILY_MODE, name, mode=mode)
        if uid is not None or gid is not None:
            owner = {"uid": _NOBODY if uid is None else uid, "gid": _NOBODY if gid is None else gid}
            self._change(lib.TFS_SCHEMA_FAMILY_OWNER, name, None, **owner)
        if acl is not None:
            bits = self.schema.families[name].mode if mode is None and name in self.schema.families else mode or 0o644
            self._change(lib.TFS_SCHEMA_FAMILY_ACL, name, acl, mode=bits)
        for op, value in (
            (lib.TFS_SCHEMA_FAMILY_TYPE, type),
            (lib.TFS_SCHEMA_FAMILY_GROUP, group),
            (lib.TFS_SCHEMA_FAMILY_GC, gc),
        ):
            if value is not None:
                self._change(op, name, value)

    def rename_family(self, name: str, to: str) -> None:
        self._change(lib.TFS_SCHEMA_FAMILY_RENAME, name, to)

    def drop_family(self, name: str) -> None:
        """BusyError: it has cells."""
        self._change(lib.TFS_SCHEMA_FAMILY_DROP, name)

    def set_script(self, name: str, text: str | Buffer) -> None:
        """Stores a script; `schema.scripts` has it."""
        data = text.encode() if isinstance(text, str) else value_bytes(text)
        why = ffi.new("char **")
        self._call(lib.tfs_script_set, text_bytes(name), pass_bytes(data), why, why=why, of=f": {name}")

    def drop_script(self, name: str) -> None:
        """NotFoundError: there is none of this name."""
        why = ffi.new("char **")
        self._call(lib.tfs_script_set, text_bytes(name), (ffi.NULL, 0), why, why=why, of=f": {name}")

    # ---- writing ----

    def mutation(self, row: Key) -> Mutation:
        return Mutation(self, row)

    def put(
        self, row: Key, family: str, qualifier: Key, value: Buffer, timestamp: Time | None = None, *, sync: bool = False
    ) -> Result:
        """Writes a version; without a timestamp, the newest one.  sync: it is on disk when the call returns."""
        return Mutation(self, row).put(family, qualifier, value, timestamp).apply(sync=sync)[0]

    def append(self, row: Key, family: str, qualifier: Key, value: Buffer, *, sync: bool = False) -> Result:
        """Writes a new version: the newest one, if there is one, and value behind it."""
        return Mutation(self, row).append(family, qualifier, value).apply(sync=sync)[0]

    def increment(self, row: Key, family: str, qualifier: Key, by: int = 1, *, sync: bool = False) -> int:
        """Adds to a counter, and returns its new value.  An absent one is 0."""
        return Mutation(self, row).increment(family, qualifier, by).apply(sync=sync)[0].counter

    def delete(
        self, row: Key, family: str, qualifier: Key, timestamp: Time | None = None, *, sync: bool = False
    ) -> None:
        """Deletes one version, or without a timestamp the column.  Deleting what is absent succeeds."""
        Mutation(self, row).delete(family, qualifier, timestamp).apply(sync=sync)

    def delete_family(self, row: Key, family: str, *, sync: bool = False) -> None:
        """Deletes the cells of a family in one row."""
        Mutation(self, row).delete_family(family).apply(sync=sync)

    def delete_row(self, row: Key, *, sync: bool = False) -> None:
        Mutation(self, row).delete_row().apply(sync=sync)

    def batch(self, *, max_bytes: int | str = 0, threads: int = 0, sync: bool = False) -> Batch:
        """
        max_bytes: of mutations that wait or are being applied (16 MiB), such as "64M"; threads: requests at a time (4, at most 64);
        sync: applied mutations are on disk.
        """
        return Batch(self, number_of(max_bytes), threads, sync)

    def truncate(self) -> None:
        """Removes all cells, whatever the size."""
        why = ffi.new("char **")
        self._call(lib.tfs_table_truncate, why, why=why)

    # ---- reading ----

    def _read(self, row: Key, family: str, qualifier: Key, timestamp: Time | None, size: int) -> tuple[bytes, Any] | None:
        r, name, q, ts = key_bytes(row), text_bytes(family), key_bytes(qualifier), timestamp_of(timestamp)
        info = ffi.new("struct tfs_info *")
        got = ffi.new("size_t *")
        while True:
            memory = _new_memory("char[]", size or 1)
            with self.handle as table:
                code = lib.tfs_read(table, pass_bytes(r), name, pass_bytes(q), ts, 0, memory, size, got, info)
            try:
                check(code, f"{self.what}, row {r!r}: {family}")
            except NotFoundError:
                # The table may have been dropped; then this raises NotFoundError.
                self.exists(row)
                return None
            if size == 0 or info.size <= size:
                return bytes(ffi.buffer(memory, got[0])), info
            size = info.size

    def get(self, row: Key, family: str, qualifier: Key, timestamp: Time | None = None) -> bytes | None:
        """Returns the value of this version, or without a timestamp of the newest; None: there is none."""
        found = self._read(row, family, qualifier, timestamp, _FIRST_READ)
        return found[0] if found else None

    def cell(self, row: Key, family: str, qualifier: Key, timestamp: Time | None = None) -> Cell | None:
        """The same with the cell's times."""
        found = self._read(row, family, qualifier, timestamp, _FIRST_READ)
        if not found:
            return None
        value, info = found
        r, q = key_bytes(row), key_bytes(qualifier)
        return Cell(r, family, q, info.ts, value, info.size, info.commit_us, info.expires_us)

    def versions(self, row: Key, family: str, qualifier: Key, count: int | None = None) -> list[Cell]:
        """Returns the versions of a column, newest first; count: at most so many."""
        return list(new_scan(self, one_row=row, family=family, one_qualifier=qualifier, versions=count))

    def cells(self, row: Key, family: str | Iterable[str] | None = None, *, versions: int | None = 1) -> list[Cell]:
        """Returns the row's cells as of one instant: the newest version of each column; versions=None: all."""
        return list(new_scan(self, one_row=row, family=family, versions=versions))

    def row(self, row: Key, family: str | Iterable[str] | None = None) -> dict[bytes, bytes]:
        """Returns the newest values of the row as of one instant, by b"family:qualifier"; {}: there is no such row."""
        return {b"%s:%s" % (c.family.encode(), c.qualifier): c.value for c in self.cells(row, family)}

    def rows(
        self, keys: Iterable[Key], family: str | Iterable[str] | None = None
    ) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """Returns key and row() of each of the rows that exist, in the order of the keys.  Each is as of an instant of its own."""
        names = family if family is None or isinstance(family, str) else list(family)
        found = ((key_bytes(key), self.row(key, names)) for key in keys)
        return [(key, row) for key, row in found if row]

    def count(self, **clauses: Any) -> int:
        """Returns the number of rows that have a cell that matches the clauses of scan()."""
        return sum(1 for _ in self.scan(**clauses).rows())

    def export_file(self, path: Path, *, format: str | None = None, **clauses: Any) -> int:
        """
        Writes the cells that match the clauses of scan() to a file, tabletfs-formats(5), and returns their number.
        format is tsv or jsonl; without it the end of the name says it, as .tsv or .jsonl.gz.
        """
        return write_cells(path, format, self.scan(**clauses))

    def import_file(self, path: Path, *, format: str | None = None, sync: bool = False) -> int:
        """
        Writes the cells of such a file into the table, and returns their number.  The families must exist.  Lines before
        one that is refused are stored; importing the file again does no harm if each line has a timestamp.
        """
        with self.batch(sync=sync) as batch:
            return read_records(path, format, lambda r: batch.put(r.row, r.family, r.qualifier, r.value, r.timestamp))

    def exists(self, row: Key, family: str | None = None) -> bool:
        """Returns true if the row has a cell, in this family or in any."""
        r = key_bytes(row)
        out = ffi.new("bool *")
        name = ffi.NULL if family is None else text_bytes(family)
        self._call(lib.tfs_row_exists, pass_bytes(r), name, out, of=f", row {r!r}")
        return bool(out[0])

    def __contains__(self, row: Key) -> bool:
        return self.exists(row)

    def fingerprint(self, row: Key, family: str) -> int:
        """Returns a number for Mutation.check_fingerprint: it changes with every cell of this family in the row."""
        return new_scan(self, one_row=row, family=family).fingerprint()

    def scan(
        self,
        *,
        prefix: Key | Iterable[Key] | None = None,
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
        rows: Iterable[Key] | None = None,
    ) -> Scan:
        """
        Describes a scan by the clauses of tabletfs-scan(7); a cell matches if it matches all of them.  row, qualifier
        and value are regular expressions (pcre2syntax(3), over bytes) that match the whole key or value; lua is a Lua
        expression on the row r (tabletfs-script(7)).  where has a condition on the row's columns, as "f:q=VALUE", or several
        of which all must hold.

        Of several prefixes any matches.  rows: only rows with these keys, in the order of keys and each once.  sample: a
        share of all rows, as 0.01, chosen by a hash of their keys.

        absent_from: self and absent_from are two snapshots of one table, and cells match that the other one does not
        have with the same timestamp and value; with absent_names, whatever their value.  Other clauses can be those of
        keys' bounds and families.
        """
        return new_scan(
            self,
            prefix=prefix,
            rows=rows,
            from_=from_,
            to=to,
            after=after,
            stored_from=stored_from,
            stored_to=stored_to,
            row=row,
            lua=lua,
            where=where,
            sample=sample,
            reverse=reverse,
            limit=limit,
            family=family,
            qualifier=qualifier,
            qprefix=qprefix,
            qfrom=qfrom,
            qto=qto,
            qafter=qafter,
            qlimit=qlimit,
            since=since,
            until=until,
            at=at,
            versions=versions,
            value=value,
            value_is=value_is,
            changed=changed,
            absent_from=absent_from,
            absent_names=absent_names,
        )

    def run(
        self, script: Key, args: Mapping[str, str] | None = None, *, name: str = "script", **clauses: Any
    ) -> Iterator[Output | Cell]:
        """
        Runs the text of a script (tabletfs-script(7)) on the tablet servers, over the cells that the clauses of scan()
        select.  Yields an Output for each result and line, and a Cell for each that was emitted.
        """
        return new_run(self, script, name, args or {}, self.scan(**clauses))

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.scan())

    # ---- snapshots and clones ----

    def create_snapshot(self, name: str) -> "Table":
        """Makes a snapshot of this instant, and opens it."""
        self._call(lib.tfs_snapshot_create, text_bytes(name), of=f": snapshot {name}")
        return self.snapshot(name)

    def snapshot(self, name: str) -> "Table":
        """Opens a snapshot."""
        return Table(self.handle, f"{self.what}: snapshot {name}", lib.tfs_snapshot_open, text_bytes(name))

    def drop_snapshot(self, name: str) -> None:
        self._call(lib.tfs_snapshot_drop, text_bytes(name), of=f": snapshot {name}")

    def snapshots(self, *, usage: bool = False) -> list[Snapshot]:
        """usage: with the sizes, which reads METADATA as a whole."""
        found: list[Snapshot] = []
        self._call(lib.tfs_snapshot_list, usage, note_snapshot, ffi.new_handle(found), of=": snapshots")
        return found

    def clone(self, name: str) -> None:
        """Creates a table with the rows and schema of this table or snapshot.  No data is copied."""
        self._call(lib.tfs_table_clone, text_bytes(name), of=f": clone {name}")

    # ---- tablets ----

    @property
    def is_empty(self) -> bool:
        out = ffi.new("bool *")
        self._call(lib.tfs_table_empty, out)
        return bool(out[0])

    def usage(self, family: str | None = None) -> Usage:
        out = ffi.new("struct tfs_usage *")
        self._call(lib.tfs_usage, ffi.NULL if family is None else text_bytes(family), out, of=": usage")
        return usage_of(out)

    def tablets(self) -> list[Tablet]:
        found: list[Tablet] = []
        self._call(lib.tfs_tablets, _note_tablet, ffi.new_handle(found), of=": tablets")
        return found

    def splits(self, count: int) -> list[Tablet]:
        """Returns at most so many ranges of about equal bytes, with begin, end, server and size, in order."""
        found: list[Tablet] = []
        self._call(lib.tfs_splits, count, _note_tablet, ffi.new_handle(found), of=": splits")
        return found

    def split(self, row: Key) -> None:
        """Splits the tablet that contains row, which becomes the first row of the upper part."""
        r = key_bytes(row)
        self._call(lib.tfs_split, pass_bytes(r), of=f": split {r!r}")

    def merge(self, row: Key) -> None:
        """Merges the tablet that contains row with the next one."""
        r = key_bytes(row)
        self._call(lib.tfs_merge, pass_bytes(r), of=f": merge {r!r}")

    def flush(self) -> None:
        """Writes the memtables to SSTables."""
        self._call(lib.tfs_flush, of=": flush")

    def compact(self) -> None:
        """Rewrites every tablet without deleted data."""
        self._call(lib.tfs_compact, of=": compact")

    def purge(self) -> None:
        """Removes from the disk what was deleted or replaced, and the changes that are kept."""
        self._call(lib.tfs_purge, of=": purge")

    # ---- access ----

    def as_user(self, uid: int, gid: int, groups: Iterable[int] = ()) -> "Table":
        """Opens the same table on behalf of a user, whose permissions each read, scan and mutation needs."""
        members = list(groups)
        ids = ffi.new("gid_t[]", members)
        user = ffi.new("struct tfs_user *", {"uid": uid, "gid": gid, "groups": ids, "group_count": len(members)})
        return Table(self.handle, self.what, lib.tfs_table_as, user)
