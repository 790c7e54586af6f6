/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table's schema as the tree uses it: names of families and groups, and
 * changes.
 * Threads: any; engine calls are made.
 */
#ifndef TFS_FS_NODE_SCHEMA_EDIT_H
#define TFS_FS_NODE_SCHEMA_EDIT_H

#include "fs/base/node_ops.h"
#include "fs/base/notify.h"

/* The key of the node of a family, of its directory in .families, or of a group's in .groups. */
#define FAMILY_KEY_BYTES sizeof("#65535")

void fs_schema_family_key(uint16_t id, char key[FAMILY_KEY_BYTES]);
/* Replaces the name of a family or group in r by the key of its node.  -ENOENT: the schema does not have the name. */
int fs_schema_bind(struct resolved *r) TFS_MUST;
/* node_ops.name of a family, and of the directory of a family or group. */
int fs_schema_name(struct node *n, struct buf *out) TFS_MUST;
/* node_ops.set_owner of a table, and of a family's directory in .families. */
int fs_schema_set_owner(struct node *n, const struct stat *attr, int to_set, struct changes *c);
/* Sets the ACL (a text as in .schema) and the mode of a family; n is its directory in .families. */
int fs_schema_set_acl(struct node *n, const char *acl, mode_t mode, struct changes *c) TFS_MUST;
/* Returns true if the family was dropped or has another name than this.  The kernel may then hold an old name. */
bool fs_schema_renamed(struct node *family, struct tfs_bytes name);

/*
 * Edits the schema of the table that n is in, on behalf of the user whose request
 * this thread serves; the master checks whether this user may.  A refusal is logged
 * with n's name.
 */
int fs_schema_edit(struct node *n, const struct tfs_schema_edit *e, struct changes *c) TFS_MUST;
/* Edits on behalf of a caller that was noted before.  NULL: -EACCES. */
struct caller;
int fs_schema_edit_as(struct node *n, const struct tfs_schema_edit *e, const struct caller *caller, struct changes *c) TFS_MUST;
/*
 * The schema of n's table, which was `before`, has changed: collects the kernel's copies that are
 * out of date.  The caller holds fs.schema_lock if it has changed it; otherwise a name that a
 * family had between two changes would not be dropped.
 */
void fs_schema_changed(struct node *n, const struct tfs_schema *before, struct changes *c);
/* Sets the whole schema. */
int fs_schema_replace_text(
	struct node *n, struct tfs_bytes text, int64_t mtime_us, const struct caller *caller, struct changes *c) TFS_MUST;
/* Adds lines to the text that the schema has now, and sets the whole. */
int fs_schema_append_text(
	struct node *n, struct tfs_bytes lines, int64_t mtime_us, const struct caller *caller, struct changes *c) TFS_MUST;
/*
 * Returns true if n is in a family that was dropped.  It has then removed the
 * extra entries (extra.h) in such families of the table.  A thread that has added
 * an entry calls this, because the drop may have looked for entries before.
 */
bool fs_schema_family_dropped(struct node *n);
/*
 * The result of a change of mode, owner or ACL of a node that has the mode, owner and ACL
 * of its family or table: EPERM, or 0 without effect.
 */
int fs_schema_keep_owner(struct node *n) TFS_MUST;
/* Returns true if n is the .schema of a table whose schema was never set. */
bool fs_schema_is_unset(struct node *n);
/* Returns true if mkdir adds families.  Then chmod and chown of cells succeed without effect, because a restore needs that. */
bool fs_schema_is_open(struct node *n);

#endif
