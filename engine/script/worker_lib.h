/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that scripts may call. */
#ifndef TFS_SCRIPT_WORKER_LIB_H
#define TFS_SCRIPT_WORKER_LIB_H

#include <lua.h>

/* Replaces the globals of the state by those of scripts.  Called once, in a protected call. */
void lib_open(lua_State *l);

#endif
