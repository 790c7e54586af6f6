# SPDX-License-Identifier: Apache-2.0
"""Imports and exports: files of cells as TSV or JSON lines, tabletfs-formats(5), which gzip may have compressed."""
import base64
import errno
import gzip
import json
import os
import re
from collections.abc import Callable, Iterable
from typing import IO, Any, NamedTuple, TypeAlias

from ._cell import Cell
from ._errors import error

Path: TypeAlias = str | os.PathLike[str]

# Control characters, marks that change the direction of text, separators, and bytes that are not UTF-8 (surrogateescape).
_ESCAPED = re.compile(
    "[\0-\x1f\\\\\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\udc80-\udcff]",
)
_NAMES = {"\t": r"\t", "\n": r"\n", "\r": r"\r", "\\": r"\\"}
_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|([tnr\\]))|\\")
_BYTES = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"\\": b"\\"}
_MEMBERS = {"row", "row_base64", "family", "qualifier", "qualifier_base64", "timestamp", "value", "value_base64"}


class Record(NamedTuple):
    row: bytes
    family: str
    qualifier: bytes
    timestamp: int | None
    value: bytes


def _escape(data: bytes) -> str:
    def replace(match: re.Match[str]) -> str:
        c = match[0]
        return _NAMES.get(c) or "".join(f"\\x{byte:02x}" for byte in c.encode("utf-8", "surrogateescape"))

    return _ESCAPED.sub(replace, data.decode("utf-8", "surrogateescape"))


def _unescape(field: bytes) -> bytes:
    def replace(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return bytes([int(match[1], 16)])
        if not match[2]:
            raise ValueError("a backslash begins no escape")
        return _BYTES[match[2]]

    return _ESCAPE.sub(replace, field) if b"\\" in field else field


def _tsv_line(c: Cell) -> str:
    return f"{_escape(c.row)}\t{c.family}:{_escape(c.qualifier)}\t{c.timestamp}\t{_escape(c.value)}\n"


def _tsv_record(line: bytes) -> Record:
    fields = line.split(b"\t")
    if len(fields) != 4:
        raise ValueError(f"it has {len(fields)} fields and not 4: row, family:qualifier, timestamp, value")
    family, colon, qualifier = fields[1].partition(b":")
    if not colon:
        raise ValueError("the second field is not family:qualifier")
    time = int(fields[2]) if fields[2] else None
    return Record(_unescape(fields[0]), family.decode(), _unescape(qualifier), time, _unescape(fields[3]))


def _json_line(c: Cell) -> str:
    members: dict[str, Any] = {}
    for name, data in ("row", c.row), ("family", c.family.encode()), ("qualifier", c.qualifier):
        _json_add(members, name, data)
    members["timestamp"] = c.timestamp
    _json_add(members, "value", c.value)
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")) + "\n"


def _json_add(members: dict[str, Any], name: str, data: bytes) -> None:
    try:
        members[name] = data.decode()
    except UnicodeDecodeError:
        members[name + "_base64"] = base64.b64encode(data).decode()


def _json_record(line: bytes) -> Record:
    members = json.loads(line)
    if not isinstance(members, dict) or members.keys() - _MEMBERS:
        raise ValueError("it is not an object with the members of a cell")

    def data(name: str) -> bytes:
        if name + "_base64" in members:
            return base64.b64decode(members[name + "_base64"], validate=True)
        if not isinstance(members.get(name), str):
            raise ValueError(f"{name} is missing, or is no text")
        return str(members[name]).encode()

    time = members.get("timestamp")
    if time is not None and (not isinstance(time, int) or isinstance(time, bool)):
        raise ValueError("timestamp is not a number")
    return Record(data("row"), data("family").decode(), data("qualifier"), time, data("value"))


_FORMATS: dict[str, tuple[Callable[[Cell], str], Callable[[bytes], Record]]] = {
    "tsv": (_tsv_line, _tsv_record),
    "jsonl": (_json_line, _json_record),
}


def _open(path: Path, format: str | None, mode: str) -> tuple[IO[bytes], str]:
    name = os.fspath(path)
    plain = name.removesuffix(".gz")
    kind = format or plain.rpartition(".")[2]
    if kind not in _FORMATS:
        raise error(errno.EINVAL, name, "its name does not end with .tsv, .jsonl, .tsv.gz or .jsonl.gz; or pass format=")
    if plain != name:
        return gzip.open(name, mode), kind  # type: ignore[return-value]
    return open(name, mode), kind


def write_cells(path: Path, format: str | None, cells: Iterable[Cell]) -> int:
    """Returns the number of cells."""
    count = 0
    file, kind = _open(path, format, "wb")
    with file:
        for count, cell in enumerate(cells, 1):
            file.write(_FORMATS[kind][0](cell).encode("utf-8", "surrogateescape"))
    return count


def read_records(path: Path, format: str | None, store: Callable[[Record], None]) -> int:
    """Calls store for each cell of the file.  InvalidError names the line that is none."""
    number = 0
    file, kind = _open(path, format, "rb")
    with file:
        for number, line in enumerate(file, 1):
            try:
                record = _FORMATS[kind][1](line.rstrip(b"\n"))
            except ValueError as e:
                raise error(errno.EINVAL, f"{os.fspath(path)}: line {number}", str(e)) from None
            store(record)
    return number
