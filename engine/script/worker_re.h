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

/*
 * Calls fn for each match of the pattern in the text, both arguments: with its first capture, or with the whole match if the
 * pattern has none.  Raises errors of the script, as fn may.
 */
void re_each(lua_State *l, int text, int pattern, void (*fn)(lua_State *l, void *arg, struct tfs_bytes match), void *arg);

#endif
