/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for nodes, which the system gets back when they are freed. */
#ifndef TFS_FS_BASE_NODE_MEMORY_H
#define TFS_FS_BASE_NODE_MEMORY_H

#include <stddef.h>

/* Both: one caller at a time (node.c: the tree lock). */
void *node_memory_alloc(size_t bytes);        /* zeroed; NULL: out of memory */
void node_memory_free(void *p, size_t bytes); /* `bytes` is the size that was allocated; p may be NULL */

#endif
