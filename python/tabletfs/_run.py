# SPDX-License-Identifier: Apache-2.0
"""Runs of scripts (tabletfs-script(7)): the tablet servers run a script, and only its outputs come back."""
import errno
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ._cell import Cell
from ._errors import error
from ._ffi import ffi
from ._handle import Handle
from ._library import Key, check, fetch_bytes, fetch_text, key_bytes, lib, pass_bytes, text_bytes
from ._scan import Scan, raised, stop

if TYPE_CHECKING:
    from ._table import Table


class Output(NamedTuple):
    output: str
    """Its name in the script."""
    key: bytes
    """Empty if the output has no keys."""
    value: bytes


def _fetch(out: Any) -> "Output | Cell":
    if out.kind != lib.TFS_OUTPUT_CELL:
        name = fetch_bytes(out.output).decode(errors="replace")
        return Output(name, fetch_bytes(out.key), fetch_bytes(out.value))
    c = out.cell
    value = fetch_bytes(c.value)
    family = fetch_text(c.family)
    return Cell(fetch_bytes(c.row), family, fetch_bytes(c.qualifier), c.ts, value, len(value), 0, c.expires_us)


def _next(handle: Handle, out: Any) -> int:
    while True:
        why = ""
        with handle as run:
            raised.exception = None
            n: int = lib.tfs_run_next(run, out)
            if n < 0:
                why = fetch_text(lib.tfs_run_error(run))
        if raised.exception:
            raise raised.exception
        if n < 0 and n != -errno.EINTR:
            raise error(-n, handle.what, why or None)
        if n != -errno.EINTR:  # else the run was closed, or continues
            return n


def _outputs(handle: Handle) -> "Iterator[Output | Cell]":
    out = ffi.new("struct tfs_output *")
    try:
        while _next(handle, out):
            yield _fetch(out)
    finally:
        handle.close()


def new_run(table: "Table", script: Key, name: str, args: Mapping[str, str], scan: Scan) -> "Iterator[Output | Cell]":
    link: list[Any] = []
    arg = ffi.new_handle(link)
    text, label = key_bytes(script), ffi.new("char[]", text_bytes(name))
    strings = [ffi.new("char[]", text_bytes(f"{key}={value}")) for key, value in args.items()]
    array = ffi.new("char *[]", strings)
    program = ffi.new("struct tfs_script *")
    program.name, program.text = label, pass_bytes(text)
    arguments = ffi.new("struct tfs_arguments *")
    arguments.v, arguments.count = array, len(strings)
    spec = scan.new_spec()
    spec.stop, spec.stop_arg = stop, arg
    parent = table.handle
    with parent as pointer:
        handle = Handle(parent.group, f"{table.what}: {name}", "struct tfs_run **", lib.tfs_run_free, (arg, parent))
        with handle:
            check(lib.tfs_run_new(pointer, program, arguments, spec, handle.out), handle.what)
    link.append(weakref.ref(handle))
    return _outputs(handle)
