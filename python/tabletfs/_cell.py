# SPDX-License-Identifier: Apache-2.0
"""What the library returns: cells, results, and descriptions of tables."""
from dataclasses import dataclass
from typing import Any, NamedTuple

from ._ffi import ffi
from ._library import fetch_bytes, fetch_text

_FOREVER = 2**63 - 1


class Cell(NamedTuple):
    row: bytes
    family: str
    qualifier: bytes
    timestamp: int
    """Microseconds since 1970."""
    value: bytes
    """Empty in a scan of keys."""
    size: int
    """Of the value."""
    committed: int
    """When the store accepted the cell, in microseconds since 1970."""
    expires: int
    """When it expires by age, in microseconds since 1970; 2**63 - 1: never."""


class Result(NamedTuple):
    """Of one operation of a mutation."""

    timestamp: int
    """Of the version that was written or moved; else 0."""
    size: int
    """Of its value."""
    counter: int
    """Of an increment: the new value."""
    committed: int
    """When the mutation was committed, in microseconds since 1970; 0: it changed nothing."""


@dataclass(frozen=True)
class Family:
    name: str
    id: int
    gc: str
    group: str
    type: str
    uid: int
    gid: int
    mode: int
    acl: str
    max_age: int
    """The age in microseconds at which every cell has expired; 0: age alone expires none."""


@dataclass(frozen=True)
class LocalityGroup:
    name: str
    id: int
    compression: str
    level: int
    block_size: int
    bloom_bits: int
    in_memory: bool


@dataclass(frozen=True)
class Schema:
    """One state of a table's schema: tabletfs-schema(5)."""

    name: str
    generation: int
    """Increases with every change."""
    uid: int
    gid: int
    mode: int
    text: str
    """As in TABLE/.schema."""
    tablet_size: int
    salt: int
    salt_in_use: int
    protect: bool | str
    """True, False or "data"."""
    readonly: bool
    quota: int
    """In bytes; 0: none."""
    splits: tuple[bytes, ...]
    families: dict[str, Family]
    groups: dict[str, LocalityGroup]
    scripts: dict[str, bytes]
    """The texts of the stored scripts, by name without .lua."""
    snapshot_maxage: int
    """In microseconds; 0: no snapshot is dropped because of its age."""
    snapshot_time: int | None
    """Of a snapshot: its instant, in microseconds since 1970."""


class Snapshot(NamedTuple):
    name: str
    time: int
    """The instant, in microseconds since 1970."""
    of_all: bool
    """Store.create_snapshots made it."""
    disk_bytes: int
    """Of its SSTables; 0 without `usage`."""
    pinned_bytes: int
    """Of these, bytes that no table and no other snapshot uses; 0 without `usage`."""


class Usage(NamedTuple):
    disk_bytes: int
    raw_bytes: int
    memory_bytes: int
    cells: int
    tombstones: int
    changes_bytes: int
    """Of the changes that are kept, on disk and in memory; no other number counts them."""


class Tablet(NamedTuple):
    begin: bytes
    end: bytes | None
    """None: to the end of the table."""
    server: str
    state: str
    size: int
    """Bytes on disk and in memory."""
    sstables: int
    usage: Usage


def usage_of(u: Any) -> Usage:
    return Usage(u.disk_bytes, u.raw_bytes, u.memory_bytes, u.cells, u.tombstones, u.changes_bytes)


def tablet_of(t: Any) -> Tablet:
    end = fetch_bytes(t.end) if t.end.p else None
    return Tablet(
        fetch_bytes(t.begin), end, fetch_text(t.server), fetch_text(t.state), t.bytes, t.sstables, usage_of(t.usage)
    )


def snapshot_of(s: Any, name: str | None = None) -> Snapshot:
    return Snapshot(name or fetch_text(s.name), s.time_us, s.of_all, s.bytes, s.pinned_bytes)


def _family_of(f: Any, counter: int) -> Family:
    kind = "counter" if f.type == counter else "bytes"
    gc, group, acl = (fetch_text(text) for text in (f.gc, f.group, f.acl))
    return Family(fetch_text(f.name), f.id, gc, group, kind, f.uid, f.gid, f.mode, acl, f.max_age_us)


def _group_of(g: Any) -> LocalityGroup:
    compression = fetch_text(g.compression)
    return LocalityGroup(fetch_text(g.name), g.id, compression, g.level, g.block_size, g.bloom_bits, g.in_memory)


def schema_of(s: Any, counter: int) -> Schema:
    families = [_family_of(s.families[i], counter) for i in range(s.family_count)]
    groups = [_group_of(s.groups[i]) for i in range(s.group_count)]
    return Schema(
        name=fetch_text(s.name),
        generation=s.generation,
        uid=s.uid,
        gid=s.gid,
        mode=s.mode,
        text=bytes(ffi.buffer(s.text, s.text_size)).decode(errors="replace") if s.text else "",
        tablet_size=s.tablet_size,
        salt=s.salt,
        salt_in_use=s.salt_in_use,
        protect=(False, True, "data")[s.protect],
        readonly=s.readonly,
        quota=s.quota,
        splits=tuple(fetch_bytes(s.splits[i]) for i in range(s.split_count)),
        families={family.name: family for family in families},
        groups={group.name: group for group in groups},
        scripts={fetch_text(s.scripts[i].name): fetch_bytes(s.scripts[i].text) for i in range(s.script_count)},
        snapshot_maxage=s.snapshot_maxage_us,
        snapshot_time=s.snapshot_us if s.snapshot_of else None,
    )
