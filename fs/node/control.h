/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control names (DESIGN 2.3): .schema, .families/, .groups/, .tablets, .ctl
 * and /.tabletfs/.  Reading one is reading a rendering made at open; writing
 * applies all bytes written so far, as a whole or not at all.
 * Threads: any; engine calls are made.
 */
#ifndef TFS_FS_CONTROL_H
#define TFS_FS_CONTROL_H

#include "fs/file/file.h"

void control_init(void);
void control_fini(void);
/* The names below a directory of settings (FAMILY_DIR, GROUP_DIR, SYSTEM), NULL-terminated. */
const char *const *control_names(enum node_kind dir);
/* Will the name have a meaning in the directory?  Until then it is refused there, so that nobody stores anything in scratch by mistake. */
bool control_reserved(const struct node *dir, const char *name);
/* What the file shows. */
int control_render(struct node *n, struct buf *out) TFS_MUST;
/* Does the node exist?  0 or -ENOENT. */
int control_exists(struct node *n) TFS_MUST;
int control_attr(struct node *n, struct stat *st) TFS_MUST;
/* Before the attributes that a look-up of its name answers with. */
void control_looked_up(const struct node *n);

int control_open(struct node *n, struct writer *w, bool writable, bool truncate) TFS_MUST;
int control_read(struct node *n, uint64_t offset, void *buf, size_t size, size_t *got) TFS_MUST;
/* Is it /.tabletfs/log?  A descriptor for reading it shows lines as they come: its image begins at w.origin.  The file's lock is held. */
bool control_is_log(const struct node *n);
int control_read_log(struct handle *h, uint64_t offset, void *buf, size_t n, size_t *got) TFS_MUST;
/* After each write, which came to `end`, the file's lock held: a finished line of a setting is applied at once. */
int control_written(struct node *n, struct writer *w, uint64_t end, struct changes *c) TFS_MUST;
int control_commit(struct node *n, struct filex *x, struct writer *w, bool last, struct changes *c) TFS_MUST;
int control_set_time(struct node *n, int64_t us, struct changes *c) TFS_MUST;
/* Who sends the request, malloc'd; NULL: out of memory. */
struct who *control_who(fuse_req_t req);
/* Sets the schema of the table that n lies in to what w, a scratch file's, holds; under that file's lock. */
int control_apply_scratch(struct node *n, struct writer *w, struct changes *c) TFS_MUST;
/* The same for what was written to a scratch file since it was renamed to .schema. */
int control_commit_scratch(struct filex *x, struct changes *c) TFS_MUST;
/* The name that a family's or group's directory has, or had; dst has TFS_NAME_MAX + 1 bytes.  false: it has none any more. */
bool control_name(struct node *n, char *dst);
/*
 * Asked when something has been made in n, or n itself, that only the daemon
 * has: does n lie in a family that has been dropped meanwhile?  Who dropped it
 * may have looked before; now all that there was of it has ended.
 */
bool control_dropped(struct node *n);
/* One change of the schema; a refusal is logged with the node's name. */
int control_change(struct node *n, const struct tfs_schema_edit *e, struct changes *c) TFS_MUST;

#endif
