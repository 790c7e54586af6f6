/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of `tabletctl repair`; repair.c lists the durable steps. */
#ifndef TFS_TOOL_REPAIR_H
#define TFS_TOOL_REPAIR_H

#include "engine/base/hashtable.h"
#include "engine/log/log_format.h"
#include "engine/log/log_seal.h"
#include "engine/tool/store/offline.h"

struct repair_log;
struct repair_file;

struct repair {
	struct report r;
	struct offline store;
	const char *dir;
	bool write;           /* false: a dry run, which prints everything and changes nothing */
	const char *aside;    /* DATADIR/repair-NNNN, made for the first file in it */
	bool rewrites_meta;   /* METADATA is written anew; stays set from the first pass to the second */
	uint64_t incarnation; /* the incarnation of the files that this repair writes, above all that exist */
	uint64_t next_file;
	uint32_t table_max;        /* the greatest table id that exists */
	struct repair_log *logs;   /* all logs that exist or are named */
	struct repair_file *files; /* all SSTables that exist or are named */
	/* Set by repair_meta_plan. */
	struct meta_tablet *tablets; /* the users' tablets after the repair, in order */
	unsigned tablet_count;
	bool lost_meta;    /* METADATA's log lost records */
	bool all_in_doubt; /* each row of METADATA may lack cells, and rows may be missing */
};

/* Report a step, and data that cannot be restored. */
#define repair_step(p, ...) report(&(p)->r, REPORT_STEP, __VA_ARGS__)
#define repair_loss(p, ...) report(&(p)->r, REPORT_LOSS, __VA_ARGS__)

/* ---- repair_lock.c: files that are replaced ---- */
/* Links the file in DATADIR/repair-NNNN, durably.  Does nothing in a dry run. */
int repair_keep(struct repair *p, const char *path) TFS_MUST;
/* Links all files below DATADIR/NAME as repair_keep. */
int repair_keep_tree(struct repair *p, const char *name) TFS_MUST;
/* ---- repair_log.c ---- */
struct repair_log_table { /* the records of one table in a log */
	uint32_t table;
	uint64_t first_lsn, seq_bound; /* all sequence numbers of these records are below seq_bound */
};
struct log_scan;
struct repair_log {
	struct repair_log *next;
	uint64_t incarnation;
	const char *dir;
	bool named;    /* a redo set names the log; `from` is the least redo point */
	bool of_meta;  /* named by a redo set of METADATA or of the root tablet */
	uint64_t from; /* 0 if it is replayed from its beginning */
	bool examined;
	struct repair_log_table *tables; /* set by repair_log_examine */
	unsigned table_count;
	bool damaged, missing;
	bool copied;            /* the records that tablets need are copied to the log of this repair */
	uint64_t first_missing; /* the first LSN that log_replay cannot read, of a damaged log */
	bool sealed, unsealed;  /* it has a seal; it had one, which is missing or damaged */
	struct log_seal seal;
	struct log_scan *scan;
};
/* Finds or adds the log. */
struct repair_log *repair_log_get(struct repair *p, uint64_t incarnation);
/* An offline_replay_fn, arg a struct repair: offline_replay, then each whole record after damage, in LSN order. */
int repair_log_replay(
	void *arg, uint64_t incarnation, uint64_t from, log_replay_fn *fn, void *fn_arg, struct log_end *end, char **why);
/*
 * Reads the log from g->from on, and prints damage and losses.  *lost_meta is set if lost records
 * may be METADATA's.  The second call for a log does nothing.
 */
int repair_log_examine(struct repair *p, struct repair_log *g, bool *lost_meta) TFS_MUST;
void repair_logs_fini(struct repair *p);

/* ---- repair_sst.c ---- */
struct repair_file {
	UT_hash_handle hh;
	uint64_t id[3]; /* table, incarnation, number: the next three members */
	uint32_t table;
	uint64_t incarnation, number;
	bool exists, named; /* found in its directory; named by METADATA */
	bool examined;
	bool changed,
		gone; /* gone: the file is missing, or no entry can be read; changed: the file is gone, or was written anew under another name */
	struct tablet_file now; /* the file after the repair; without begin and end */
	struct offline_gaps lost;
};
/* Finds or adds the file. */
struct repair_file *repair_file_get(struct repair *p, uint32_t table, uint64_t incarnation, uint64_t number);
/*
 * Examines and repairs the file, once.  f: as METADATA names it, or with bytes
 * 0 if only its name is known.  *out is owned by p.
 */
int repair_sst(struct repair *p, const struct tablet_file *f, const struct repair_file **out) TFS_MUST;
/* Prints which rows of the tablet lost cells in the file. */
void repair_sst_losses(struct repair *p, const struct meta_tablet *t, const struct repair_file *f);
void repair_ssts_fini(struct repair *p);

/* ---- repair_meta.c ---- */
/* Examines all files and logs, and decides which rows METADATA has after the repair. */
int repair_meta_plan(struct repair *p) TFS_MUST;
void repair_meta_fini(struct repair *p);

/* ---- repair_write.c ---- */
/* Steps 5 and 6. */
int repair_meta_write(struct repair *p) TFS_MUST;

/* ---- repair_schema.c ---- */
/* Step 4: new schemas for tables with data whose schema is damaged or missing. */
int repair_schemas(struct repair *p) TFS_MUST;

/* ---- repair_lock.c ---- */
/*
 * Replaces one file of the lock service, durably, and links the old one in
 * DATADIR/repair-NNNN.  contents.p NULL: removes it.  Does nothing in a dry run.
 */
int repair_lock_file(struct repair *p, const char *name, struct tfs_bytes contents) TFS_MUST;
/* Makes lock/held, if it is missing: the flock needs it. */
int repair_make_held(struct repair *p) TFS_MUST;
/* Step 1. */
int repair_locks(struct repair *p) TFS_MUST;
/* Step 2. */
int repair_incarnation(struct repair *p) TFS_MUST;
/* Step 4. */
int repair_ids(struct repair *p) TFS_MUST;
int repair_identity(struct repair *p) TFS_MUST;
/* Step 7: writes lock/rows of snapshots and clones again if METADATA was written, or if a file in lock/rows is lost. */
int repair_rows(struct repair *p) TFS_MUST;
/* Returns true if lock/rows has a file of this table that is damaged. */
bool repair_lock_had_rows(const struct repair *p, uint32_t table);
/* Step 8. */
int repair_format(struct repair *p) TFS_MUST;

#endif
