/* SPDX-License-Identifier: Apache-2.0 */
/* The table of SQLite's functions, which SQLite passes to the entry point.  The macros of sqlite3ext.h call through it. */
#include "sql/internal.h"

SQLITE_EXTENSION_INIT1
