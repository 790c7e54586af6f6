/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs in scripts: the table `output`, their method add, and emit. */
#ifndef TFS_SCRIPT_WORKER_OUTPUT_H
#define TFS_SCRIPT_WORKER_OUTPUT_H

#include <lua.h>
#include <stdbool.h>

/* Pushes the table `output`, and emit. */
void output_push_library(lua_State *l);
void output_push_emit(lua_State *l);
/* Gives a name to the output on the top of the stack, if it is one without a name. */
void output_set_name(lua_State *l, const char *name);
/* Numbers the outputs that have no name.  Raises an error if two have one name. */
void output_end_names(lua_State *l);

#endif
