/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas: tables, families, locality groups and their libconfig text form
 * (DESIGN 2.3).  A schema is immutable and counted; a change makes a new one.
 * Pure functions: no I/O, no locks (names of owners are looked up by
 * getpwnam_r and getgrnam_r; a number is taken as it is).
 *
 * Errors: -EINVAL (of edits, others too) with *why (may be NULL; else free it) saying line and
 * reason; -ENOMEM; others as said.
 */
#ifndef TFS_SCHEMA_SCHEMA_H
#define TFS_SCHEMA_SCHEMA_H

#include "engine/tablet/tablet.h"
#include "engine/tabletfs.h"

/*
 * The public struct tfs_schema is the first member of ours: a
 * `const struct tfs_schema *` given out is cast back by schema_of.
 */
struct schema;
struct schema *schema_get(const struct schema *s);
void schema_put(const struct schema *s);
const struct tfs_schema *schema_public(const struct schema *s);
const struct schema *schema_of(const struct tfs_schema *p);

bool schema_name_valid(struct slice name);
/* Is it "#ID" (tabletfs.h)?  *id: which. */
bool schema_ref(const char *name, uint16_t *id);
/* The family or group of that name or "#ID"; NULL: there is none.  Only the schema room may change it, in a draft. */
struct tfs_family *schema_family(const struct schema *s, const char *name);
struct tfs_group *schema_group(const struct schema *s, const char *name);
/* A new table: no families, group "default" (zstd 3, 64K blocks, 10 bloom bits), not set. */
int schema_new(const char *name, uint32_t table_id, uid_t uid, gid_t gid, mode_t mode, int64_t now, struct schema **out) TFS_MUST;
/*
 * From text.  Families and groups keep their ids by name, or by the name they
 * say they had (`was`); new ones get ids never used before in this table.
 * *allow_delete: the text says so.  The bytes of text are kept as
 * .schema's, but for those that say what is to be done once.
 */
int schema_set_text(const struct schema *old, struct slice text, int64_t mtime_us, struct schema **out, bool *allow_delete,
	char **why) TFS_MUST;
/*
 * text ends with a newline and begins what is being written to .schema.
 * -EINVAL: whatever follows, the whole cannot be a legal schema.  0: it may,
 * as far as can be told.
 */
int schema_text_begins(const struct schema *old, struct slice text, char **why) TFS_MUST;
/*
 * s was made by schema_set_text from a text that `user` (not root) wrote, and
 * nobody else has it yet: what he could not set by chown and chmod becomes
 * what old has, or of a new family the table's.  *note (free it; NULL: there
 * was nothing) says which.
 */
int schema_limit_owners(const struct schema *old, struct schema *s, const struct tfs_user *user, char **note) TFS_MUST;
/* One edit; renders the text anew unless it is TIME or HIDE. */
int schema_edit(const struct schema *old, const struct tfs_schema_edit *e, int64_t now, struct schema **out, char **why) TFS_MUST;
int schema_rename(const struct schema *old, const char *name, struct schema **out) TFS_MUST;
/* The same with other tablets, and with the salt in use that .schema has. */
int schema_use_salt(const struct schema *old, uint32_t tablets_id, struct schema **out) TFS_MUST;
/* The file tables/NAME in the lock service: versioned, with a CRC. Decode of damage: -EBADMSG. */
int schema_encode(const struct schema *s, struct buf *out) TFS_MUST;
int schema_decode(struct slice in, struct schema **out) TFS_MUST;
/* The same of the file tables/name: a schema of another name, as a file copied by hand has, is -EBADMSG. */
int schema_decode_named(struct slice in, const char *name, struct schema **out) TFS_MUST;
/*
 * Looks a text over before libconfig sees it, that of a configuration file
 * too (scan.c).  -EINVAL with *line and a static *reason.
 */
#define SCHEMA_TEXT_MAX (256 * 1024) /* bytes; of .schema, written or rendered */
int schema_scan_text(struct slice text, unsigned *line, const char **reason) TFS_MUST;
/* What tablets need of it. */
int schema_store(const struct schema *s, struct store_schema **out) TFS_MUST;

#endif
