/* SPDX-License-Identifier: Apache-2.0 */
/* The global functions of scripts. */
#ifndef TFS_SCRIPT_WORKER_LIB_H
#define TFS_SCRIPT_WORKER_LIB_H

#include <lua.h>

/* Replaces Lua's globals by the globals of scripts.  Called once, in a protected call. */
void lib_open(lua_State *l);

#endif
