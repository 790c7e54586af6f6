/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions of scripts: the table `re`. */
#ifndef TFS_SCRIPT_WORKER_RE_H
#define TFS_SCRIPT_WORKER_RE_H

#include "engine/base/bytes.h"

#include <lua.h>

/* Pushes the table with match, find, gmatch and gsub. */
void re_push_library(lua_State *l);
/* Returns true if the pattern, an argument, matches the whole text.  Raises errors of the script. */
bool re_matches_whole(lua_State *l, int arg, struct tfs_bytes text);

#endif
