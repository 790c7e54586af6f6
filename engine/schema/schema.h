/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema of a table: families, locality groups, and their libconfig text
 * (tabletfs-schema(5)).  A schema is immutable and reference-counted; a change
 * makes a new one.  The functions take no locks and do no I/O, except for the
 * look-ups of owners' names by getpwnam_r, getgrnam_r and their inverses.
 *
 * Errors: -ENOMEM, -EINVAL; an edit may return others.  *why is set to the
 * reason of -EINVAL, with its line.  The caller frees it.  why may be NULL.
 */
#ifndef TFS_SCHEMA_SCHEMA_H
#define TFS_SCHEMA_SCHEMA_H

#include "engine/tablet/tablet.h"
#include "engine/tabletfs.h"

/*
 * The public struct tfs_schema is the first member of struct schema, so
 * schema_of can cast the pointer back.
 */
struct schema;
struct schema *schema_get(const struct schema *s);
void schema_put(const struct schema *s);
const struct tfs_schema *schema_public(const struct schema *s);
const struct schema *schema_of(const struct tfs_schema *p);

bool schema_name_valid(struct tfs_bytes name);
/*
 * Returns the family or group of this name or "#ID"; NULL: none.  Only
 * engine/schema may change it, and only in a draft.
 */
struct tfs_family *schema_family(const struct schema *s, const char *name);
struct tfs_group *schema_group(const struct schema *s, const char *name);
/* NULL: none. */
const struct tfs_family *schema_family_by_id(const struct tfs_schema *p, uint16_t id);
/* Makes the schema of a new table: no families, one group "default", is_set false.  now: in us. */
int schema_new(const char *name, uint32_t table_id, uid_t uid, gid_t gid, mode_t mode, int64_t now, struct schema **out) TFS_MUST;
/*
 * Makes a schema from text.  A family or group keeps its id if old has one of
 * this name, or of the name that the text gives in `was`.  Others get ids that
 * this table never used.  *allow_delete is set to the value in the text.
 * .schema shows the written bytes.  But allow_delete and `was` apply once, so a
 * text that contains them is rendered anew without them.
 */
int schema_set_text(const struct schema *old, struct tfs_bytes text, int64_t mtime_us, struct schema **out, bool *allow_delete,
	char **why) TFS_MUST;
/*
 * Checks the beginning of a text for .schema, as far as its values are complete.
 * -EINVAL: no continuation makes it a valid schema.  A group that a family names may follow.
 */
int schema_text_begins(const struct schema *old, struct tfs_bytes text, char **why) TFS_MUST;
/*
 * Undoes the changes of owners, groups, modes and ACLs that the kernel would
 * refuse to `user`, who is not root and wrote the text.  They become the values
 * of `old`; the owner and group of a new family become the table's.  s: made by
 * schema_set_text; the caller has the only reference.  *note: a message that
 * names the table or the families, set if anything was undone; the caller frees
 * it.
 */
int schema_limit_owners(const struct schema *old, struct schema *s, const struct tfs_user *user, char **note) TFS_MUST;
/* Returns 0 if the user is NULL, root or the owner of the table, else -EACCES. */
int schema_owned_by(const struct tfs_schema *p, const struct tfs_user *user) TFS_MUST;
/* Returns 0 if the user may make this edit, -EACCES or -EPERM (tfs_table_as), -ENOENT: there is no such family.  user NULL: every edit is allowed. */
int schema_may_edit(const struct schema *s, const struct tfs_schema_edit *e, const struct tfs_user *user) TFS_MUST;
/* Applies one edit.  *out is a reference to old if nothing changes.  now: the time of the new text, in us. */
int schema_edit(const struct schema *old, const struct tfs_schema_edit *e, int64_t now, struct schema **out, char **why) TFS_MUST;
int schema_rename(const struct schema *old, const char *name, struct schema **out) TFS_MUST;
/* Copies the schema with another tablets id.  The copy uses the salt that .schema asks for. */
int schema_use_tablets(const struct schema *old, uint32_t tablets_id, struct schema **out) TFS_MUST;
/*
 * Makes the schema of a snapshot of the table `of` at the time us.  id: the
 * table id and tablets id of the snapshot.
 */
int schema_snapshot(const struct schema *of, const char *name, uint32_t id, int64_t us, bool of_all, struct schema **out) TFS_MUST;
/*
 * Sets *out to `then`, the schema of a snapshot, with the stricter of its access
 * rules and of the rules of `now`, the present schema of its table.  tfs_may and
 * the kernel decide by the owner, group, modes and ACLs of *out.  render: the text
 * of *out has them, too.  -EINVAL: it would be too large.
 */
int schema_restrict(const struct schema *then, const struct schema *now, bool render, struct schema **out) TFS_MUST;
/* Makes the schema of a clone of `of`, which is a table or a snapshot. */
int schema_table_clone(const struct schema *of, const char *name, uint32_t id, struct schema **out) TFS_MUST;
/*
 * These set `file` to the path of a schema's file in the lock service:
 * tables/NAME of a table, snapshots/TABLE.NAME of a snapshot.  TABLE is the id of
 * the table that the snapshot shows.
 */
#define SCHEMA_FILE_MAX (sizeof("snapshots/4294967295.") + TFS_NAME_MAX)
void schema_file_name(const struct tfs_schema *p, char file[SCHEMA_FILE_MAX]);
void schema_snapshot_file(uint32_t table, const char *name, char file[SCHEMA_FILE_MAX]);
/* Encode and decode the contents of that file.  -EBADMSG: damaged. */
int schema_encode(const struct schema *s, struct buf *out) TFS_MUST;
int schema_decode(struct tfs_bytes in, struct schema **out) TFS_MUST;
/*
 * Decodes as schema_decode does, and also returns -EBADMSG if the schema belongs in another file,
 * as after a copy of the file by hand.
 */
int schema_decode_file(struct tfs_bytes in, const char *file, struct schema **out) TFS_MUST;
/*
 * Checks the text of .schema or of a configuration file before libconfig parses
 * it (scan.c).  -EINVAL with *line and a static *reason.
 */
#define SCHEMA_TEXT_MAX (256 * 1024) /* bytes of .schema, written or rendered */
int schema_scan_text(struct tfs_bytes text, unsigned *line, const char **reason) TFS_MUST;
/* The bytes of the beginning of a text that no more text can change: up to the last value or line that is complete. */
size_t schema_scan_whole(struct tfs_bytes text);
/*
 * Appends a text that schema_scan_text has accepted, without the settings of the table that
 * are set again after them.  cut: their lines are left out.  Otherwise spaces replace them, so that
 * line numbers stay; the caller must scan the result, because a line may begin with other bytes now.
 */
int schema_text_last(struct tfs_bytes text, bool cut, struct buf *out) TFS_MUST;
/*
 * Parses a checked text.  -EINVAL: *config has the error and its line.  The
 * caller initialises and destroys *config.
 */
struct config_t;
int schema_config_read(struct tfs_bytes text, struct config_t *config) TFS_MUST;
/*
 * The numbers of the requests to the master that made (or renamed) the table or snapshot, and
 * that changed it last.  They are random, and the master recognizes a repeated request by them.
 * 0: none.  The setters need the only reference to s.
 */
uint64_t schema_made(const struct schema *s);
uint64_t schema_changed(const struct schema *s);
void schema_set_made(struct schema *s, uint64_t number);
void schema_set_changed(struct schema *s, uint64_t number);
/* Makes the part of a schema that tablets need. */
int schema_store(const struct schema *s, struct store_schema **out) TFS_MUST;

#endif
