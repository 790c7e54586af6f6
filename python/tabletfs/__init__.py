# SPDX-License-Identifier: Apache-2.0
"""
Bigtable's data model over libtabletfs: tables, row mutations and scans.  tabletfs-python(3) is the manual.

    with tabletfs.open("/data") as store:
        web = store.table("webtable")
        web.put("com.cnn.www", "anchor", "cnnsi.com", b"CNN")
        for cell in web.scan(prefix="com.cnn.", family="anchor"):
            print(cell.row, cell.qualifier, cell.value)

Values are bytes.  Keys of rows and qualifiers are bytes; a str stands for its UTF-8 bytes.  Times are microseconds since
1970, or a datetime, or a timedelta that counts back from now.
"""
from ._batch import Batch
from ._cell import Cell, Family, LocalityGroup, Result, Schema, Snapshot, Tablet, Usage
from ._errors import (
    AccessError,
    BatchError,
    BusyError,
    CheckFailedError,
    ClosedError,
    DamagedError,
    Error,
    ExistsError,
    InvalidError,
    NotFoundError,
)
from ._library import Key, Time, fetch_text, lib
from ._mutation import Mutation
from ._run import Output
from ._scan import Scan
from ._store import Server, Space, Store, open
from ._table import Table

__version__ = fetch_text(lib.tfs_version())

__all__ = [
    "AccessError",
    "Batch",
    "BatchError",
    "BusyError",
    "Cell",
    "CheckFailedError",
    "ClosedError",
    "DamagedError",
    "Error",
    "ExistsError",
    "Family",
    "InvalidError",
    "Key",
    "LocalityGroup",
    "Mutation",
    "NotFoundError",
    "Output",
    "Result",
    "Scan",
    "Schema",
    "Server",
    "Snapshot",
    "Space",
    "Store",
    "Table",
    "Tablet",
    "Time",
    "Usage",
    "open",
]
