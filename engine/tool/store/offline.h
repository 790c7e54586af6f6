/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a data directory without a server.  Nothing is opened for writing.
 * Meanwhile it has the flock on lock/held, so that no mount can start.
 *
 * Reading continues after damage where it can.  Each damage is one line of the
 * report.
 */
#ifndef TFS_TOOL_OFFLINE_H
#define TFS_TOOL_OFFLINE_H

#include "engine/base/file.h"
#include "engine/base/iter.h"
#include "engine/meta/meta.h"
#include "engine/schema/schema.h"
#include "engine/log/log_seal.h"
#include "engine/tool/tool.h"

#include <stdio.h>

struct offline_file { /* a file of the lock service */
	const char *name, *path;
	struct buf contents;
	uint64_t version;
	bool damaged, one_copy; /* both copies are damaged; one copy is */
};
struct offline_table {
	const struct schema *schema;
	const struct tfs_schema *p;
	struct store_schema *store;
	bool misplaced; /* check_salt_of has reported a row */
};
struct offline_row { /* a row of METADATA */
	struct buf key;
	struct meta_tablet m; /* begin is the hint, as stored */
	struct buf begin;     /* where the previous tablet ends */
	struct buf events;    /* "TIMESTAMP TEXT\n", newest first */
	bool doubt;           /* cells of it, or of rows just below it, may be missing */
};
struct offline_rows {
	struct offline_row *v;
	unsigned count;
};
/* Stretches of rows around entries that cannot be read.  {0} has none. */
struct offline_gaps {
	struct offline_gap {
		struct buf from, to; /* the bounds, both included; from.n is 0 for the first row, to.p is NULL for the last row */
	} * v;
	unsigned count;
	struct buf row; /* the row of the last entry that was read */
	bool open;      /* the entries after `row` cannot be read */
};
/* Replays one log, as log_replay does.  Repair has a function that continues after damage. */
typedef int offline_replay_fn(
	void *arg, uint64_t incarnation, uint64_t from, log_replay_fn *fn, void *fn_arg, struct log_end *end, char **why);
struct offline {
	const char *dir;
	offline_replay_fn *replay; /* NULL: log_replay.  Set by repair: METADATA is read past damage */
	void *replay_arg;
	struct file *lock_file; /* lock/held, with the flock */
	struct offline_file *files;
	unsigned file_count;
	struct offline_table *tables; /* by id */
	unsigned table_count;
	uint32_t next_table;       /* the next unused table id; 0: unreadable */
	uint64_t incarnation;      /* the incarnation of the last process, 0, or UINT64_MAX if it is unreadable */
	struct offline_rows root;  /* the root tablet's row, unless it is missing or damaged */
	struct offline_rows meta;  /* rows of the root tablet: METADATA's tablets */
	struct offline_rows users; /* rows of METADATA's tablets: users' tablets */
	struct offline_rows made;  /* rows of snapshots and clones as they were made, from lock/rows; key and events are not set */
	bool format_damaged;       /* FORMAT is missing or damaged, or one of its copies is */
	bool journal_damaged;      /* the journal of the lock service is damaged */
	bool incomplete;           /* some of METADATA could not be read */
	bool all_in_doubt;         /* set by repair: METADATA's own rows could not be read, so old files of METADATA were read */
	bool meta_damaged;         /* set by repair: a file of METADATA is damaged */
	struct offline_gaps gaps;  /* rows that METADATA's files may have lost, set by repair */
	struct offline_stray *strays; /* offline_sst_find: SSTables that are elsewhere than they belong */
	unsigned stray_count;
	bool strays_listed;
	struct sst_cache *cache;
};

/*
 * Returns 0 when everything readable was read; damage is in the report.
 * Returns -EBUSY if the store is in use, -ENOENT if dir is no store, -EPROTO
 * if its format is newer, or another -errno.  An error was printed then, and
 * *store must not be closed.
 */
int offline_open(const char *dir, struct report *r, struct offline *store) TFS_MUST;
void offline_close(struct offline *store);
/* Returns NULL if there is no such table. */
struct offline_table *offline_table(const struct offline *store, uint32_t id);

/* ---- offline_tablet.c: a tablet's files and logs, merged ---- */
struct offline_view {
	struct report *r;
	struct offline *store;
	const struct meta_tablet *t; /* a METADATA tablet; its begin is where the previous one ends */
	bool part_missing;           /* set if a file or log cannot be read, which was reported */
	struct vmem *mem;
	_Atomic size_t memory;
};
/* The view must be closed, also after an error; *out is freed before. */
int offline_view_open(struct offline_view *v, struct iter **out) TFS_MUST;
void offline_view_close(struct offline_view *v);
/* Paths, which stay until the end of the program. */
const char *offline_log_dir(const struct offline *store, uint64_t incarnation); /* log/N, or log/N.dead if it was sealed */
/*
 * Reads the seal of a log.  Returns 1 if it has one, which the caller frees by log_seal_fini; 0 if it was not sealed; -EBADMSG
 * if it was, and its seal is missing or damaged: *why names it.
 */
int offline_seal(const struct offline *store, uint64_t incarnation, struct log_seal *seal, char **why) TFS_MUST;
/* log_replay, or log_replay_sealed if the log was sealed. */
int offline_replay(const struct offline *store, uint64_t incarnation, uint64_t from, log_replay_fn *fn, void *arg,
	struct log_end *end, char **why) TFS_MUST;
const char *offline_sst_path(const struct offline *store, const struct tablet_file *f);
/* Returns the path at which the file is.  That is its own path, unless another file is there and this file is elsewhere below sst/. */
const char *offline_sst_find(struct offline *store, const struct tablet_file *f);
/* Calls fn for each SSTable that is in a directory below sst/, whether or not a tablet names it.  Other names there are notes. */
typedef int offline_sst_fn(void *arg, uint32_t table, uint64_t incarnation, uint64_t number);
int offline_list_ssts(const struct offline *store, struct report *r, offline_sst_fn *fn, void *arg) TFS_MUST;
int offline_gap_add(struct offline_gaps *g, struct tfs_bytes from, struct tfs_bytes to) TFS_MUST;
/* An entry of this row was read.  Ends the open stretch. */
int offline_gaps_row(struct offline_gaps *g, struct tfs_bytes row) TFS_MUST;
/* Call it at the end of each file.  It ends an open stretch, which lasts to the last row. */
int offline_gaps_end(struct offline_gaps *g) TFS_MUST;
void offline_gaps_fini(struct offline_gaps *g);
/* Returns true, after a message, for the directory of a cluster: its lock service is elsewhere, and its servers may run. */
bool offline_is_cluster(const char *dir);
/* Lists all directories, so that a link, FIFO or device anywhere is refused before anything is read.  Other errors are not returned. */
int offline_look(const char *dir) TFS_MUST;
/* Returns the size of the files in and below a directory, for a report of progress; 0 if it cannot be listed. */
uint64_t offline_bytes(const char *dir);
/* ---- offline_lock.c: FORMAT, the flock, the lock service's files, schemas ---- */
struct offline_file *offline_file(const struct offline *store, const char *name); /* NULL: missing or damaged */
bool offline_is_store(const char *dir); /* it has at least two of FORMAT, lock, sst and log */
/* Returns the first of the rows of a table, which are together, and their number; NULL if there is none. */
const struct offline_row *offline_table_rows(const struct offline_rows *rows, uint32_t table, unsigned *count);
/* Returns true if the table was dropped and the next mount removes its data. */
bool offline_is_dropped(const struct offline *store, uint32_t table);
int offline_locks(struct report *r, struct offline *store) TFS_MUST;
void offline_locks_close(struct offline *store);
/* ---- offline_meta.c: the root tablet's row and METADATA ---- */
/* Returns the i-th row of root, meta and users, or NULL after the last one. */
const struct offline_row *offline_row_at(const struct offline *store, unsigned i);
/* The rows of a table in lock/rows that were not compared yet. */
struct offline_made {
	const struct offline_row *next;
	unsigned count; /* the number of rows that are left */
};
struct offline_made offline_made(const struct offline *store, uint32_t table);
/* The tablet is the next one of its table.  Returns true if the next row has its files, or if no row can have them. */
bool offline_is_made(struct offline_made *made, const struct meta_tablet *m);
bool offline_has_tablet(const struct offline *store, uint32_t table);
/* Names for messages, which stay until the end of the program: "table NAME", and "table NAME, the tablet ending at KEY". */
const char *offline_table_name(const struct offline *store, uint32_t table);
const char *offline_tablet_name(const struct offline *store, const struct meta_tablet *m);
int offline_metadata(struct report *r, struct offline *store) TFS_MUST;

#endif
