# SPDX-License-Identifier: Apache-2.0
"""Stores."""
import errno
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

from ._cell import Snapshot
from ._errors import NotFoundError, error
from ._ffi import ffi
from ._handle import Group, Handle
from ._library import check, fetch_text, lib, number_of, pass_bytes, stores, take_text, text_bytes
from ._table import Table, note_snapshot

_NAMES = 1000
_FAMILY_KEYWORDS = {"gc", "type", "group", "acl", "uid", "gid", "mode"}


class Space(NamedTuple):
    total_bytes: int
    available_bytes: int


class Server(NamedTuple):
    name: str
    state: str
    incarnation: int
    tablets: int
    size: int


@ffi.callback("int(void *, const struct tfs_server *)")  # type: ignore[misc]
def _note_server(arg: Any, s: Any) -> int:
    ffi.from_handle(arg).append(Server(fetch_text(s.name), fetch_text(s.state), s.incarnation, s.tablets, s.bytes))
    return 0


class Store:
    """
    An open data directory.  close() closes what was opened from it, too.  Objects may be closed in any order, and used
    by any thread; after close(), calls raise ClosedError.  A child of fork(2) cannot use the objects of its parent.
    """

    def __init__(self, path: str, handle: Handle) -> None:
        self.path = path
        self._handle = handle

    def close(self) -> None:
        """Closes everything that was opened from the store, makes all commits durable, and closes the store."""
        self._handle.group.close()
        code, self._handle.result = self._handle.result, 0
        check(code, self._handle.what)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tabletfs {self._handle.what}>"

    # ---- tables ----

    def tables(self) -> list[str]:
        """The names of all tables, in order."""
        names = ffi.new("char[][%d]" % (lib.TFS_NAME_MAX + 1), _NAMES)
        found: list[str] = []
        while True:
            with self._handle as store:
                n = check(lib.tfs_table_list(store, text_bytes(found[-1] if found else ""), names, _NAMES), self._handle.what)
            found += [fetch_text(names[i]) for i in range(n)]
            if n < _NAMES:
                return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    def __contains__(self, name: str) -> bool:
        try:
            self.table(name).close()
        except NotFoundError:
            return False
        return True

    def table(self, name: str) -> Table:
        """Opens a table."""
        return Table(self._handle, f"table {name}", lib.tfs_table_open, text_bytes(name))

    def create_table(
        self,
        name: str,
        families: Iterable[str] | Mapping[str, Mapping[str, Any]] = (),
        *,
        schema: str | None = None,
        uid: int | None = None,
        gid: int | None = None,
        mode: int = 0o755,
    ) -> Table:
        """
        Creates a table with these families, or with the text of a schema, tabletfs-schema(5), and opens it.  families has
        names, or by name the keywords of Table.add_family, as {"f": {"gc": "maxversions=3"}}.
        """
        parts = {f: dict(families[f] or {}) if isinstance(families, Mapping) else {} for f in families}
        for family, keywords in parts.items():
            for unknown in keywords.keys() - _FAMILY_KEYWORDS:
                known = ", ".join(sorted(_FAMILY_KEYWORDS))
                raise error(errno.EINVAL, f"table {name}: family {family}", f"{unknown} is none of {known}")
        login = self._handle.group.login
        owner, group = login[0] if uid is None else uid, login[1] if gid is None else gid
        with self._handle as store:
            check(lib.tfs_table_create(store, text_bytes(name), owner, group, mode), f"table {name}")
        try:
            table = self.table(name)
            if schema is not None:
                table.set_schema(schema)
            for family, keywords in parts.items():
                acl = keywords.pop("acl", None)
                members: dict[str, Any] = {"uid": owner, "gid": group, **keywords}
                table.add_family(family, **members)
                if acl is not None:
                    table.change_family(family, acl=acl)
        except BaseException:
            self.drop_table(name)
            raise
        return table

    def drop_table(self, name: str) -> None:
        """Drops a table that has no cells: Table.truncate removes them."""
        with self._handle as store:
            check(lib.tfs_table_drop(store, text_bytes(name)), f"table {name}")

    def rename_table(self, name: str, to: str, *, replace: bool = False) -> None:
        """Renames a table.  replace: an empty table of the new name is replaced."""
        with self._handle as store:
            code = lib.tfs_table_rename(store, text_bytes(name), text_bytes(to), not replace)
        check(code, f"table {name}: rename to {to}")

    # ---- snapshots of all tables ----

    def create_snapshots(self, name: str) -> None:
        """Makes a snapshot of this name in every table."""
        with self._handle as store:
            check(lib.tfs_snapshot_create_all(store, text_bytes(name)), f"snapshots {name}")

    def drop_snapshots(self, name: str) -> None:
        """Drops the snapshots that create_snapshots made."""
        with self._handle as store:
            check(lib.tfs_snapshot_drop_all(store, text_bytes(name)), f"snapshots {name}")

    def snapshots(self) -> list[Snapshot]:
        """The snapshots that create_snapshots made; their times are those of the first table."""
        found: list[Snapshot] = []
        with self._handle as store:
            check(lib.tfs_snapshot_list_all(store, note_snapshot, ffi.new_handle(found)), "snapshots")
        return found

    # ---- state ----

    def sync(self) -> None:
        """When it returns, every mutation that was acknowledged before the call is on disk."""
        with self._handle as store:
            check(lib.tfs_sync(store), f"{self._handle.what}: sync")

    def space(self) -> Space:
        total, available = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        with self._handle as store:
            check(lib.tfs_space(store, total, available), f"{self._handle.what}: space")
        return Space(total[0], available[0])

    def _text(self, fn: Any) -> str:
        text = ffi.new("char **")
        with self._handle as store:
            check(fn(store, text), self._handle.what)
        return take_text(text)

    def status(self) -> str:
        """The state of the store as lines for an operator: tabletfs-metrics(7)."""
        return self._text(lib.tfs_status)

    def metrics(self) -> str:
        """All metrics as a page of Prometheus text."""
        return self._text(lib.tfs_metrics)

    def servers(self) -> list[Server]:
        found: list[Server] = []
        with self._handle as store:
            check(lib.tfs_servers(store, _note_server, ffi.new_handle(found)), self._handle.what)
        return found

    @property
    def config(self) -> str:
        """The settings of tabletfs.conf(5) as they are now.  Those that cannot change are comments."""
        return self._text(lib.tfs_config)

    def change_config(self, text: str) -> None:
        """Changes the settings in the text, all or none, until the store is closed."""
        why = ffi.new("char **")
        with self._handle as store:
            code = lib.tfs_config_change(store, pass_bytes(text.encode()), why)
        check(code, f"{self._handle.what}: configuration", why)

    def confirm_clock(self) -> None:
        """States that the system's clock is right: tabletfs-schema(5)."""
        with self._handle as store:
            check(lib.tfs_confirm_clock(store), self._handle.what)


def open(
    path: str | os.PathLike[str], *, config: str | os.PathLike[str] | None = None, **settings: int | bool | str
) -> Store:
    """
    Opens a store: a data directory, which is created if it is absent or empty, or another source, such as "HOST:DATADIR" or
    a mount point, tabletfs-remote(7).  config: a file with the settings of tabletfs.conf(5).  settings: members of struct
    tfs_options, such as sync=True, memtable_bytes="32M", timeout_us="5s" or ssh="ssh -p 2222".
    BusyError: another process has it open, and does not serve it.
    """
    options = ffi.new("struct tfs_options *")
    why = ffi.new("char **")
    where = os.fsdecode(path)
    lib.tfs_options_init(options)
    if config is not None:
        name = os.fsencode(config)
        check(lib.tfs_options_load(options, name, why), f"store {where}", why)
    known = {member: field.type.kind for member, field in ffi.typeof("struct tfs_options").fields}
    for member, setting in settings.items():
        if member not in known:
            raise error(errno.EINVAL, f"store {where}", f"there is no setting {member}")
        if isinstance(setting, str) and known[member] == "primitive":
            setting = number_of(setting, member.endswith("_us"))
        setattr(options, member, text_bytes(setting) if isinstance(setting, str) else setting)
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise error(errno.EINVAL, f"store {where!r}")
    handle = Handle(Group(), f"store {where}", "struct tfs_store **", lib.tfs_close)
    handle.group.root = weakref.ref(handle)
    with handle:
        check(lib.tfs_open(encoded, options, handle.out, why), handle.what, why)
        login = ffi.new("struct tfs_login *")
        lib.tfs_login(handle.out[0], login)
        handle.group.login = login.uid, login.gid
    stores[:] = [ref for ref in stores if ref()] + [handle.group.root]
    return Store(where, handle)
