/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names the action of a store's process at its death: the call (a schema edit by
 * its kind), the step as numbered in the file that carries it out (split.c,
 * merge.c, copy.c, tables.c, local_files.c), and the file operation.
 */
#ifndef T_CRASH_DURABLE_H
#define T_CRASH_DURABLE_H

#include "t/history/history.h"
#include "t/lib/file_faults.h"

#define DURABLE_BYTES 112u
#define DURABLE_UNKNOWN "nobody-knows" /* in a name */

/* api_library, which records the current call */
struct api durable_api(void);
/* Names an action that is no call of the library; NULL when it is over. */
void durable_call(const char *name);
/*
 * Names the operation that a hook sees.  Returns false if the operation changes nothing.  The name
 * is empty if the operation is within no call that has a name.
 */
bool durable_name(char name[DURABLE_BYTES], enum file_op op, const char *path);
/* The call that has ended since the previous request, or NULL. */
const char *durable_over(void);

#endif
