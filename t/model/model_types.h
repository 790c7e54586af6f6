/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the model.  Everything here is protected by mdl_lock, reference counts
 * included; functions below expect it held unless they say otherwise.  Sorted
 * arrays only: the point of the model is that a reader can see that it is
 * right.
 */
#ifndef MODEL_TYPES_H
#define MODEL_TYPES_H

#include "t/model/model.h"

#include <stdio.h>

void mdl_lock(void);
void mdl_unlock(void);

/* Immutable counted bytes: keys, qualifiers, values. */
struct mdl_blob {
	unsigned refs;
	size_t size;
	unsigned char data[];
};
struct mdl_blob *mdl_blob_new(const void *p, size_t n); /* p NULL: zeros.  NULL: out of memory */
struct mdl_blob *mdl_blob_get(struct mdl_blob *b);
void mdl_blob_put(struct mdl_blob *b); /* NULL is fine */
static inline struct tfs_bytes mdl_blob_bytes(const struct mdl_blob *b)
{
	return tfs_bytes_of(b->data, b->size);
}
int mdl_compare(struct tfs_bytes a, struct tfs_bytes b);

struct mdl_version {
	int64_t ts, commit_us;
	uint64_t sequence;
	struct mdl_blob *value;
	bool live; /* only in a mutation's copy: live before it, or written by it */
};
struct mdl_column {
	uint16_t family;
	struct mdl_blob *qualifier;
	struct mdl_version *v; /* timestamps descending */
	size_t n, capacity;
};
/* Columns by (family id, qualifier). */
struct mdl_row {
	struct mdl_blob *key;
	struct mdl_column **col;
	size_t n, capacity;
};

/* ---- GC rules: model_gc.c ---- */
struct mdl_gc;
/* "" gives NULL, no rule.  -EINVAL with *reason a constant; -ENOMEM. */
int mdl_gc_parse(const char *text, struct mdl_gc **out, const char **reason);
void mdl_gc_free(struct mdl_gc *g);
/* The time from which on the version is hidden: INT64_MIN always, INT64_MAX never.  rank 0 is the newest. */
int64_t mdl_gc_expiry(const struct mdl_gc *g, size_t rank, int64_t ts);
int64_t mdl_gc_max_age(const struct mdl_gc *g);          /* 0: never by age alone */
bool mdl_duration(const char *s, size_t n, int64_t *us); /* "7d"; false: not one, or 0, or too large */
bool mdl_size(const char *s, uint64_t *bytes);           /* "64K" */

/* ---- schema: model_schema.c, model_schema_text.c ---- */
struct mdl_schema {
	struct tfs_schema pub; /* must be first, because the two pointers are cast */
	unsigned refs;
	struct tfs_family *family; /* pub.families */
	struct mdl_gc **gc;        /* the rule of each family */
	struct tfs_group *group;   /* pub.groups */
	struct tfs_bytes *split;   /* pub.splits; each key is malloc'd */
	struct tfs_script *script; /* pub.scripts; each name and text is malloc'd */
	uint32_t next_family, next_group;
};
struct mdl_schema *mdl_schema_new(uint32_t table_id, const char *name, uid_t uid, gid_t gid, mode_t mode);
struct mdl_schema *mdl_schema_copy(const struct mdl_schema *s); /* refs 1, no gc, no text: mdl_schema_finish does those */
int mdl_schema_add_family(struct mdl_schema *s, const struct tfs_family *f); /* copies; id 0: a new one */
int mdl_schema_add_group(struct mdl_schema *s, const struct tfs_group *g);   /* likewise */
extern const struct tfs_family mdl_family_default;
extern const struct tfs_group mdl_group_default;
/* Returns true for an ACL as in struct tfs_family.  The model reads no names in ACLs. */
bool mdl_acl_valid(const char *acl);
struct tfs_family *mdl_schema_family(const struct mdl_schema *s, const char *name);
struct tfs_family *mdl_schema_family_id(const struct mdl_schema *s, uint16_t id);
struct tfs_group *mdl_schema_group(const struct mdl_schema *s, const char *name);
/* Sorts, compiles the rules, publishes; then keeps `text`, or renders it if text.data is NULL. */
int mdl_schema_finish(struct mdl_schema *s, struct tfs_bytes text);
void mdl_schema_unref(struct mdl_schema *s);
const struct mdl_gc *mdl_schema_gc(const struct mdl_schema *s, uint16_t family_id, const char **name);
int mdl_schema_parse(const struct mdl_schema *old, struct tfs_bytes text, struct mdl_schema **out, bool *allow_delete,
	bool *shown_as_written, char **why);
/*
 * The text, malloc'd, without the settings of the table that are set again later.  cut: without their lines, too;
 * else spaces replace them.  NULL: no memory.
 */
char *mdl_schema_last(const char *text, bool cut);
int mdl_schema_render(const struct mdl_schema *s, char **text, size_t *size);
/* ---- model_splits.c ---- */
struct config_setting_t;
int mdl_splits_parse(struct mdl_schema *s, const struct config_setting_t *list, char **why);
int mdl_splits_check(const struct mdl_schema *s, char **why); /* against each other and the salt */
int mdl_splits_copy(struct mdl_schema *to, const struct mdl_schema *from);
void mdl_splits_free(struct mdl_schema *s);
/* model_scripts.c */
int mdl_scripts_copy(struct mdl_schema *to, const struct mdl_schema *from);
void mdl_scripts_free(struct mdl_schema *s);
/* 1 changed, -errno. */
int mdl_script_edit(struct mdl_schema *s, const struct tfs_schema_edit *e, int64_t now, char **why);
void mdl_splits_render(const struct mdl_schema *s, FILE *f);
/* One named value of a group, as text; NULL or what is wrong. */
const char *mdl_group_set(struct tfs_group *g, enum tfs_schema_op op, const char *value);
bool mdl_group_fits(const struct tfs_group *g);
void mdl_why(char **why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- store, tables, rows ---- */
struct tfs_store {
	char *source;
	struct tfs_table **table; /* by name */
	size_t n, capacity;
	struct tfs_table **snapshot; /* by table id, then name */
	size_t snapshots, snapshot_capacity;
	uint32_t next_table;
	unsigned handles; /* table references: tfs_close is -EBUSY while there are any */
	int64_t last_unique;
	uint64_t commits;
};
struct tfs_table {
	struct tfs_store *store;
	unsigned refs; /* one for being in the store, one a handle, mutation or scan */
	uint32_t id;
	bool dropped;
	struct mdl_schema *schema;
	struct mdl_row **row; /* by key */
	size_t n, capacity;
	struct tfs_bytes *cut; /* rows at which tablets begin, rising; model_tablets.c */
	size_t cuts;
};
void mdl_tablets_free(struct tfs_table *t);
void mdl_tablets_copy(struct tfs_table *to, const struct tfs_table *from); /* to has none */
void mdl_tablets_renew(struct tfs_table *t);                               /* cut at the schema's splits, and nowhere else */
int64_t mdl_now(struct tfs_store *s);
/* A snapshot's time is the instant that it shows. */
int64_t mdl_table_now(const struct tfs_table *t);
/* ---- snapshots: model_snapshots.c ---- */
bool mdl_has_snapshots(const struct tfs_table *t);
int mdl_may_remove(
	const struct tfs_table *t); /* -EROFS, -EPERM: the table is readonly or protected, and not dropped or truncated */
/* The store is closed. */
void mdl_snapshots_free(struct tfs_store *s);
void mdl_table_insert(struct tfs_store *s, struct tfs_table *t); /* there is room */
bool mdl_table_named(const struct tfs_store *s, const char *name);
int64_t mdl_unique(struct tfs_store *s);
void mdl_table_get(struct tfs_table *t);
void mdl_table_put(struct tfs_table *t);

/* Makes room in a growing array; *p is unchanged on -ENOMEM. */
int mdl_reserve(void *p, size_t *capacity, size_t want, size_t item_bytes);
/* Where key is (true) or would be inserted (false). */
bool mdl_row_find(const struct tfs_table *t, struct tfs_bytes key, size_t *at);
bool mdl_column_find(const struct mdl_row *r, uint16_t family, struct tfs_bytes qualifier, size_t *at);
struct mdl_column *mdl_column_new(uint16_t family, struct tfs_bytes qualifier);
void mdl_column_free(struct mdl_column *c);
void mdl_column_clear(struct mdl_column *c);
int mdl_column_put(struct mdl_column *c, int64_t ts, int64_t commit_us, struct mdl_blob *value); /* takes value, always; live */
void mdl_column_remove(struct mdl_column *c, size_t i);
void mdl_row_free(struct mdl_row *r);
/*
 * Takes the columns of `touched` into the row of that key (before NULL: a new
 * one), and drops what is empty then.  Makes all room first: all or nothing.
 */
int mdl_row_install(struct tfs_table *t, struct mdl_row *before, struct tfs_bytes key, struct mdl_row *touched);
/* How many of the column's versions are live at `now`: always the newest ones. */
size_t mdl_column_live(const struct mdl_column *c, const struct mdl_gc *gc, int64_t now);
bool mdl_table_has_cells(struct tfs_table *t, uint16_t family_id, bool any_family);
void mdl_table_drop_family(struct tfs_table *t, uint16_t family_id);
void mdl_table_collect(struct tfs_table *t); /* removes hidden versions */

/* Returns 1 if the row meets the condition row_where (data NULL: any does), 0 if not, -EINVAL, -ENOMEM: model_where.c.  row NULL: only checks it. */
int mdl_where(const struct tfs_table *t, struct tfs_bytes text, const struct mdl_row *row);

/* ---- mutations: model_mutation.c builds, model_row.c judges and applies ---- */
enum mdl_op_kind {
	MDL_PUT,
	MDL_WRITE,
	MDL_DELETE_VERSION,
	MDL_DELETE_COLUMN,
	MDL_DELETE_FAMILY,
	MDL_DELETE_ROW,
	MDL_SET_TIME,
	MDL_MOVE,
	MDL_INCREMENT,
	MDL_CHECK,
};
struct mdl_op {
	enum mdl_op_kind kind;
	const char *family, *to_family;
	struct tfs_bytes qualifier, to_qualifier, value;
	struct tfs_ts ts, to;
	int64_t number;         /* a timestamp, or what to add */
	struct tfs_write write; /* a copy */
	enum tfs_check check;
	bool noreplace;
};
struct tfs_mutation {
	struct tfs_table *table;
	struct tfs_bytes row;
	struct mdl_op *op;
	size_t n, capacity;
};
int mdl_apply_locked(const struct tfs_mutation *m, struct tfs_result *results);
/* A key or value matches a pattern (data NULL: any does). */
bool mdl_matches(struct tfs_bytes pattern, struct tfs_bytes text);
uint64_t mdl_fingerprint(uint16_t family, struct tfs_bytes qualifier, int64_t ts, uint64_t sequence);
int mdl_op_check(const struct mdl_op *op, const struct mdl_schema *s, uint64_t *bytes); /* the arguments alone */
int mdl_value_build(const struct mdl_blob *base, const struct tfs_write *w, struct mdl_blob **out);

#endif
