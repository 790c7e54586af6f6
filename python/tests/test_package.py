# SPDX-License-Identifier: Apache-2.0
"""The package is that of this tree's header, library and version."""
import importlib.util
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import tabletfs
from tabletfs import Table
from tabletfs._ffi import ffi
from tabletfs._library import SONAME, lib
from tabletfs._scan import CELL

TREE = Path(os.environ.get("SRC", Path(__file__).resolve().parent.parent.parent))


def declared() -> Any:
    spec = importlib.util.spec_from_file_location("declarations", TREE / "python" / "declarations.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_declarations_are_those_of_the_header() -> None:
    ours = declared().ffi
    names = [re.sub(r"^struct ", "", name) for name in ours.list_types()[1]]
    assert "tfs_cell" in names
    for name in names:
        theirs, mine = ours.typeof(f"struct {name}"), ffi.typeof(f"struct {name}")
        if theirs.fields is None:
            assert mine.fields is None
            continue
        layout = [[(member, f.offset, f.type.cname) for member, f in t.fields] for t in (theirs, mine)]
        assert layout[0] == layout[1], name
    functions = re.findall(r"^TFS_API [^;(]*?\**(tfs_\w+)\(", (TREE / "engine" / "tabletfs.h").read_text(), re.M)
    assert len(functions) > 60
    for name in functions:
        assert getattr(lib, name)


def test_a_packed_cell_is_a_struct_tfs_cell() -> None:
    fields = dict(ffi.typeof("struct tfs_cell").fields)
    members = ["row", "qualifier", "family", "family_id", "ts", "size", "value", "expires_us", "commit_us", "sequence"]
    cell = ffi.new("struct tfs_cell *")
    for i, member in enumerate(members):
        if member in ("row", "qualifier", "value"):
            getattr(cell, member).n = i + 1
        elif member == "family":
            cell.family = ffi.cast("char *", i + 1)
        else:
            setattr(cell, member, i + 1)
    cell.unsure = True
    assert CELL.unpack(ffi.buffer(cell)) == (0, 1, 0, 2, 3, 4, 5, 6, 0, 7, 8, 9, 10, True)
    assert set(fields) == {*members, "unsure"}


def test_versions() -> None:
    version = re.search(r"^AC_INIT\(\[tabletfs\], \[(.*?)\]", (TREE / "configure.ac").read_text(), re.M)
    assert version and tabletfs.__version__ == version[1]
    library = os.environ.get("TABLETFS_LIBRARY")
    if library:
        out = subprocess.run(["objdump", "-p", library], capture_output=True, text=True, check=True).stdout
        assert re.search(r"SONAME\s+(\S+)", out)[1] == SONAME  # type: ignore[index]


def test_a_missing_library_is_an_import_error() -> None:
    environment = dict(os.environ, TABLETFS_LIBRARY="/nowhere/libtabletfs.so.0")
    script = "try:\n import tabletfs\nexcept ImportError as e:\n print(e)"
    out = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True).stdout
    assert "/nowhere/libtabletfs.so.0" in out


def test_iterations_use_bounded_memory(table: Table) -> None:
    with table.batch() as batch:
        for i in range(10_000):
            batch.put(b"%08d" % i, "f", "q", b"x" * 1000)
    tracemalloc.start()
    try:
        count = sum(1 for cell in table.scan())
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 10_000 and most < 5 << 20, most
