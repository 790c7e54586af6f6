/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference model, for a program that also links the real library:
 * model_X has the contract of tfs_X in engine/tabletfs.h.  A handle made by one
 * side must never be passed to the second side: the struct tags are the same,
 * the structs behind them are not.
 *
 * Link t/model/libmodel_ref.la for these names, t/model/libmodel.la for the
 * tfs_ names (a stand-in for libtabletfs; model_set_clock is in both).
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "engine/tabletfs.h"

/*
 * Replaces the system clock of all stores (NULL: back to the real one).
 * Reads follow it, as in the library, in both directions,
 * and times that it assigns rise strictly.  Call it with no call under way.
 */
void model_set_clock(int64_t (*now_us)(void *arg), void *arg);

void model_options_init(struct tfs_options *o);
int model_options_load(struct tfs_options *o, const char *path, char **why);
int model_options_example(char **text);
int model_open(const char *source, const struct tfs_options *o, struct tfs_store **out, char **why);
int model_close(struct tfs_store *s);
void model_will_close(struct tfs_store *s);
int model_sync(struct tfs_store *s);
int model_space(struct tfs_store *s, uint64_t *total_bytes, uint64_t *available_bytes);
int model_config(struct tfs_store *s, char **text);
int model_config_change(struct tfs_store *s, struct tfs_bytes text, char **why);
int model_config_replace(struct tfs_store *s, const struct tfs_options *o, char **left);
int model_status(struct tfs_store *s, char **text);
int model_metrics(struct tfs_store *s, char **text);
bool model_name_valid(const char *name);
int model_table_create(struct tfs_store *s, const char *name, uid_t uid, gid_t gid, mode_t mode);
int model_table_drop(struct tfs_store *s, const char *name);
int model_table_rename(struct tfs_store *s, const char *from, const char *to, bool noreplace);
int model_table_truncate(struct tfs_table *t, char **why);
int model_table_list(struct tfs_store *s, const char *after, char (*names)[TFS_NAME_MAX + 1], int max);
int model_table_open(struct tfs_store *s, const char *name, struct tfs_table **out);
void model_table_close(struct tfs_table *t);
uint32_t model_table_id(const struct tfs_table *t);
int model_table_empty(struct tfs_table *t, bool *empty);
int model_snapshot_create(struct tfs_table *t, const char *name);
int model_snapshot_drop(struct tfs_table *t, const char *name);
int model_snapshot_open(struct tfs_table *t, const char *name, struct tfs_table **out);
int model_snapshot_list(struct tfs_table *t, bool usage, int (*fn)(void *arg, const struct tfs_snapshot *snapshot), void *arg);
int model_snapshot_create_all(struct tfs_store *s, const char *name);
int model_snapshot_drop_all(struct tfs_store *s, const char *name);
int model_table_clone(struct tfs_table *t, const char *name);
int model_schema_get(struct tfs_table *t, const struct tfs_schema **out);
void model_schema_put(const struct tfs_schema *s);
const struct tfs_family *model_schema_family(const struct tfs_schema *s, const char *name);
bool model_may(const struct tfs_schema *s, const struct tfs_family *f, const struct tfs_user *user, unsigned may);
bool model_acl_next(const char **acl, struct tfs_acl_entry *e);
int model_table_as(struct tfs_table *t, const struct tfs_user *user, struct tfs_table **out);
int model_schema_set_text(struct tfs_table *t, struct tfs_bytes text, int64_t mtime_us, char **why);
int model_schema_change(struct tfs_table *t, const struct tfs_schema_edit *e, char **why);
struct tfs_mutation *model_mutation_new(struct tfs_table *t, struct tfs_bytes row);
void model_mutation_free(struct tfs_mutation *m);
int model_mutation_put(
	struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts, struct tfs_bytes value);
int model_mutation_write(struct tfs_mutation *m, const struct tfs_write *w);
int model_mutation_delete_version(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, int64_t ts);
int model_mutation_delete_column(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier);
int model_mutation_delete_family(struct tfs_mutation *m, const char *family);
int model_mutation_delete_row(struct tfs_mutation *m);
int model_mutation_set_time(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, int64_t to);
int model_mutation_move(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, struct tfs_ts from,
	const char *to_family, struct tfs_bytes to_qualifier, struct tfs_ts to, bool noreplace);
int model_mutation_increment(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, int64_t by);
int model_mutation_check_family(struct tfs_mutation *m, const char *family, uint64_t fingerprint);
int model_mutation_check(struct tfs_mutation *m, enum tfs_check check, const char *family, struct tfs_bytes qualifier,
	struct tfs_ts ts, struct tfs_bytes value);
int model_apply(struct tfs_mutation *m, unsigned flags, struct tfs_result *results);
int model_scan_new(struct tfs_table *t, const struct tfs_scan_spec *spec, struct tfs_scan **out);
int model_scan_next(struct tfs_scan *s, struct tfs_cell *cell);
void model_scan_free(struct tfs_scan *s);
uint64_t model_fingerprint(const struct tfs_cell *cell);
int model_stat(struct tfs_table *t, struct tfs_bytes row, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts,
	struct tfs_info *info);
int model_read(struct tfs_table *t, struct tfs_bytes row, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts,
	uint64_t offset, void *p, size_t n, size_t *got, struct tfs_info *info);
int model_row_exists(struct tfs_table *t, struct tfs_bytes row, const char *family, bool *exists);
int model_usage(struct tfs_table *t, const char *family, struct tfs_usage *u);
int model_tablets(struct tfs_table *t, int (*fn)(void *arg, const struct tfs_tablet *tablet), void *arg);
int model_split(struct tfs_table *t, struct tfs_bytes row) TFS_CHECKED;
int model_merge(struct tfs_table *t, struct tfs_bytes row) TFS_CHECKED;
int model_flush(struct tfs_table *t);
int model_compact(struct tfs_table *t);
int model_purge(struct tfs_table *t);

#endif
