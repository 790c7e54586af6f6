/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas: tables, families, locality groups, and their libconfig text
 * (tabletfs-schema(5)).  A schema is immutable and counted; a change makes a
 * new one.  No I/O and no locks, except that names of owners are looked up by
 * getpwnam_r and getgrnam_r.
 *
 * Errors: -ENOMEM; -EINVAL (edits return others too) with line and reason in
 * *why, which the caller frees; why may be NULL.
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

bool schema_name_valid(struct slice name);
/* Returns true, and *id, if name is "#ID" (tabletfs.h). */
bool schema_ref(const char *name, uint16_t *id);
/* The family or group of that name or "#ID", or NULL.  Only this directory may change it, in a draft. */
struct tfs_family *schema_family(const struct schema *s, const char *name);
struct tfs_group *schema_group(const struct schema *s, const char *name);
/* The schema of a new table: no families, one group "default", is_set false. */
int schema_new(const char *name, uint32_t table_id, uid_t uid, gid_t gid, mode_t mode, int64_t now, struct schema **out) TFS_MUST;
/*
 * Makes a schema from text.  A family or group of old is recognised by its
 * name, or by the old name that the text gives in `was`, and retains its id.
 * New ones get ids that this table never used.  *allow_delete is set if the
 * text says so.  .schema shows the text's own bytes, unless the text says
 * allow_delete or `was`: those apply once, and the text is rendered anew.
 */
int schema_set_text(const struct schema *old, struct slice text, int64_t mtime_us, struct schema **out, bool *allow_delete,
	char **why) TFS_MUST;
/*
 * Checks the beginning of a text for .schema; it ends with a newline.
 * -EINVAL: no continuation makes it a valid schema.  Returns 0 otherwise.
 */
int schema_text_begins(const struct schema *old, struct slice text, char **why) TFS_MUST;
/*
 * s was made by schema_set_text from a text that `user` (not root) wrote, and
 * the caller has the only reference.  Owners, groups and modes that the user
 * could not set by chown and chmod become those of old or, for a new family,
 * those of the table.  *note names them, or is NULL; the caller frees it.
 */
int schema_limit_owners(const struct schema *old, struct schema *s, const struct tfs_user *user, char **note) TFS_MUST;
/* Applies one edit.  Renders the text anew, except for TIME and HIDE. */
int schema_edit(const struct schema *old, const struct tfs_schema_edit *e, int64_t now, struct schema **out, char **why) TFS_MUST;
int schema_rename(const struct schema *old, const char *name, struct schema **out) TFS_MUST;
/* The same schema with other tablets, and with the salt of .schema in use. */
int schema_use_salt(const struct schema *old, uint32_t tablets_id, struct schema **out) TFS_MUST;
/* The file tables/NAME in the lock service.  Damage: -EBADMSG. */
int schema_encode(const struct schema *s, struct buf *out) TFS_MUST;
int schema_decode(struct slice in, struct schema **out) TFS_MUST;
/* The same; -EBADMSG also if the schema has another name, as in a file that was copied by hand. */
int schema_decode_named(struct slice in, const char *name, struct schema **out) TFS_MUST;
/*
 * Checks a text before libconfig parses it, also that of a configuration file
 * (scan.c).  -EINVAL with *line and a static *reason.
 */
#define SCHEMA_TEXT_MAX (256 * 1024) /* bytes of .schema, written or rendered */
int schema_scan_text(struct slice text, unsigned *line, const char **reason) TFS_MUST;
/* Parses a checked text.  -EINVAL: *config has the error and its line.  The caller makes and destroys *config. */
struct config_t;
int schema_config_read(struct slice text, struct config_t *config) TFS_MUST;
/* The part of a schema that tablets need. */
int schema_store(const struct schema *s, struct store_schema **out) TFS_MUST;

#endif
