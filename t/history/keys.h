/* SPDX-License-Identifier: Apache-2.0 */
/* Inside t/history: where random keys and values come from, and the kinds of steps. */
#ifndef T_HISTORY_KEYS_H
#define T_HISTORY_KEYS_H

#include "t/history/history.h"

#define FAMILIES 5
extern const char *const family_names[FAMILIES]; /* the last is a counter family */
struct tfs_bytes pick_row(struct rng *r, unsigned flags);
struct tfs_bytes pick_qualifier(struct rng *r, unsigned flags);
const char *pick_family(struct rng *r);
int64_t pick_time(struct rng *r);
struct tfs_bytes pick_value(struct rng *r, unsigned flags);

int step_mutate(
	struct side *s, struct tfs_table *t, struct rng *r, unsigned flags, bool sync, struct out *o, struct tfs_bytes *row);

/* ---- look.c: scans and point reads ---- */
int step_scan(struct side *s, struct tfs_table *t, struct rng *r, unsigned flags, struct out *o);
int step_point(struct side *s, struct tfs_table *t, struct rng *r, unsigned flags, struct out *o);
void say_scan(struct side *s, struct tfs_table *t, const struct tfs_scan_spec *spec, struct out *o);
void say_row(struct side *s, struct tfs_table *t, struct tfs_bytes row, struct out *o);

/* ---- schemas.c: tables and schemas ---- */
extern const char *const table_names[TABLES];
int step_table(struct side *s, struct rng *r, unsigned flags, struct out *o);
int step_edit(struct side *s, struct tfs_table *t, struct rng *r, unsigned flags, struct out *o);
int step_rules(struct side *s, struct tfs_table *t, struct rng *r, unsigned flags, struct out *o);
void say_schema(struct side *s, struct tfs_table *t, bool access, struct out *o);

/* ---- snapshots.c: snapshots and clones ---- */
int step_snapshot(struct side *s, struct tfs_table *t, struct rng *r, unsigned flags, struct out *o);
/* All snapshots of t, with their cells. */
void say_snapshots(struct side *s, struct tfs_table *t, struct out *o);

#define KEEPS_CHANGES "changes = \"3650d\";\n"
#endif
