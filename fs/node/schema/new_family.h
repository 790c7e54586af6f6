/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modes that users ask for in a table whose families mkdir makes (new_family.c).
 * Threads: any; engine calls are made.
 */
#ifndef TFS_FS_NODE_NEW_FAMILY_H
#define TFS_FS_NODE_NEW_FAMILY_H

#include "fs/base/node_ops.h"
#include "fs/base/notify.h"

/* The mode of the family that a mkdir with this mode makes: without x, and its owner may read and write. */
mode_t new_family_mode(mode_t mode);
/* mkdir in a row of the table has made the family "#ID". */
void new_family_made(struct node *table, const char *family);
/* A cell was created exclusively, with this mode. */
void new_family_cell_created(struct node *cell, mode_t mode);
/* The scratch file, of this mode, will become a cell of the family. */
int new_family_scratch(struct node *family, const struct node *scratch, mode_t mode, struct changes *c) TFS_MUST;
/*
 * A cell or a family's directory asks for a mode.  Returns 1 if the family has it or gets it,
 * or it asks for more; 0 if the family is not new; -errno.
 */
int new_family_ask(struct node *n, mode_t mode, struct changes *c) TFS_MUST;
/* node_ops.set_owner of a cell, and of a family's directory in a row. */
int new_family_set_owner(struct node *n, const struct stat *attr, int to_set, struct changes *c);

#endif
