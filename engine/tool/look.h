/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A data directory looked at and left alone: nothing is opened for writing,
 * no server is started.  The lock directory's flock is held meanwhile, so no
 * mount can begin.
 *
 * Looking goes on past damage as far as it makes sense; each thing found
 * wrong is one line of the report.
 */
#ifndef TFS_TOOL_LOOK_H
#define TFS_TOOL_LOOK_H

#include "engine/base/file.h"
#include "engine/base/iter.h"
#include "engine/meta/meta.h"
#include "engine/schema/schema.h"
#include "engine/log/log.h"

#include <stdio.h>

struct report {
	unsigned problems, notes;
	bool quiet; /* notes are counted, not printed */
	FILE *to;
	uint64_t *told; /* hashes of the lines so far: a thing that two checks come upon is told once */
	unsigned told_count;
};
void report_fini(struct report *r);
/* One line; "damaged: " or "note: " stands before it. */
void report_problem(struct report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void report_note(struct report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct look_file { /* of the lock service */
	char *name, *path;
	struct buf contents;
	uint64_t version;
	bool one_copy; /* the other one of its copies is damaged */
};
struct look_table {
	const struct schema *schema;
	const struct tfs_schema *p;
	struct store_schema *store;
	bool misplaced; /* check: a row of it under another salt byte was reported */
};
struct look_row { /* of METADATA */
	struct buf key;
	struct meta_tablet m; /* begin: the hint, as stored */
	struct buf begin;     /* where the previous tablet ends */
	struct buf events;    /* "TIMESTAMP TEXT\n", newest first */
};
struct look_rows {
	struct look_row *v;
	unsigned count, cap;
};
/* log_replay, or repair's in its place, which reads on behind damage. */
typedef int look_replay_fn(
	void *arg, const char *dir, uint64_t from, log_replay_fn *fn, void *fn_arg, struct log_end *end, char **why);
struct look {
	const char *dir;
	look_replay_fn *replay; /* NULL: log_replay */
	void *replay_arg;
	bool past_format; /* go on without FORMAT */
	struct file *held;
	struct look_file *files;
	unsigned file_count, file_cap;
	struct look_table *tables; /* by id */
	unsigned table_count;
	uint32_t next_table;  /* no table has had this id yet; 0: not known */
	uint64_t incarnation; /* of the last process; 0: none; UINT64_MAX: not known */
	bool has_root;
	struct look_row root;   /* the root tablet's row */
	struct look_rows meta;  /* rows of the root tablet: METADATA's tablets */
	struct look_rows users; /* rows of those: users' tablets */
	bool incomplete;        /* some of METADATA could not be read */
	struct sst_cache *cache;
};

/*
 * 0: as much as can be read has been; damage is in the report.  -EBUSY in
 * use, -ENOENT not a store, -EPROTO of a newer format, others: cannot be
 * read.  Then one line has been complained, and nothing is to be closed.
 */
int look_open(const char *dir, struct report *r, struct look *l) TFS_MUST;
void look_close(struct look *l);
struct look_table *look_table(const struct look *l, uint32_t id); /* or NULL */

/* ---- look_view.c: what a tablet's files and logs hold, merged ---- */
struct look_view {
	struct report *r;
	struct look *l;
	const struct meta_tablet *t; /* with its true begin */
	bool part_missing;           /* something of it cannot be read, and the report says so */
	struct memtable *m;
};
/* Close it on error, too, and after *out was freed. */
int look_view_open(struct look_view *v, struct iter **out) TFS_MUST;
void look_view_close(struct look_view *v);
/* DIR/log/INCARNATION; free it. */
char *look_log_dir(const struct look *l, uint64_t incarnation);
/* ---- look_lock.c: FORMAT, the flock, the lock service's files, schemas ---- */
struct look_file *look_file(const struct look *l, const char *name); /* or NULL */
int look_locks(struct report *r, struct look *l) TFS_MUST;
void look_locks_close(struct look *l);
/* ---- look_meta.c: the root tablet's row and METADATA ---- */
int look_metadata(struct report *r, struct look *l) TFS_MUST;
void look_metadata_close(struct look *l);

#endif
