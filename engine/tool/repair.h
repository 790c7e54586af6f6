/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of `tabletctl repair`; repair.c has the durable steps. */
#ifndef TFS_TOOL_REPAIR_H
#define TFS_TOOL_REPAIR_H

#include "engine/log/log_format.h"
#include "engine/tool/offline.h"

struct repair_log;
struct repair_file;

struct repair {
	struct report r; /* of damage */
	struct offline store;
	const char *dir;
	bool write;               /* else a dry run: nothing below dir is changed, and all that is found is printed */
	char *aside;              /* DATADIR/repair-NNNN, made when the first thing is kept there */
	unsigned actions, losses; /* lines of each */
	bool news;                /* METADATA is written anew */
	uint64_t incarnation;     /* of the files that this repair writes: above all that exist */
	uint64_t next_file;
	uint32_t table_max;        /* the greatest table id that exists */
	struct repair_log *logs;   /* those read so far */
	struct repair_file *files; /* SSTables looked at so far */
};

/* One line each: "repair: ..." of what is done, or would be; "lost: ..." of what cannot be restored. */
void repair_does(struct repair *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void repair_loses(struct repair *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A second name of the file in DATADIR/repair-NNNN, durable on return; the file itself stays. */
int repair_keep(struct repair *p, const char *path) TFS_MUST;
/* The table's name for messages, in *b. */
const char *repair_table_name(struct buf *b, const struct repair *p, uint32_t table);

/* ---- repair_log.c ---- */
struct repair_log_table { /* of a log: what it holds of one table */
	uint32_t table;
	uint64_t first_lsn, seq_max, records;
	uint16_t *families;
	unsigned family_count;
	uint8_t no_salt[256]; /* [n]: a row is not one of a table salted n */
};
/*
 * A offline_replay_fn (offline.h), arg a struct repair: log_replay, and behind a gap each whole
 * record that can still be found, in LSN order.
 */
int repair_log_replay(void *arg, const char *dir, uint64_t from, log_replay_fn *fn, void *fn_arg, struct log_end *end, char **why);
/*
 * Reads DATADIR/log/INCARNATION as replay will read it from LSN `from` on (0: from its
 * beginning) and reports damage and loss.  *lost: records were lost, and table tells of which
 * it is not known or is METADATA's.  *tables is borrowed.
 */
int repair_log_look(struct repair *p, uint64_t incarnation, uint64_t from, bool *lost, const struct repair_log_table **tables,
	unsigned *count) TFS_MUST;
void repair_log_tables(const struct repair *p, uint32_t table, void (*fn)(void *arg, const struct repair_log_table *t), void *arg);
/* A row of a table: rules out every salt that would give it another first byte. */
void repair_salt_note(uint8_t no_salt[256], struct slice row);
/* Step 7, for each log found damaged. */
int repair_log_write_all(struct repair *p) TFS_MUST;
void repair_logs_fini(struct repair *p);
/* A new log of one segment, whole and synced, with these records in it (their LSNs are set). */
int repair_log_new(struct repair *p, uint64_t incarnation, struct log_record *v, unsigned count) TFS_MUST;

/* ---- repair_sst.c ---- */
/*
 * The file as it will be: itself (*changed false); rewritten without its damaged blocks under
 * another name; or removed from its lists (*gone).  f: as METADATA has it, or with bytes 0 only
 * where it lies.  *out gets all but begin and end.  Each file is looked at once.
 */
int repair_sst(struct repair *p, const struct tablet_file *f, struct tablet_file *out, bool *changed, bool *gone) TFS_MUST;
/* Of a file that repair_sst has looked at: the families that it has entries of.  Borrowed. */
const struct props *repair_sst_props(const struct repair *p, const struct tablet_file *f);
void repair_ssts_fini(struct repair *p);

/* ---- repair_meta.c ---- */
struct repair_meta {
	struct meta_tablet *v; /* users' tablets as they will be, in order */
	unsigned count;
	bool changed; /* METADATA is written anew */
};
/* What METADATA will say; looks at all files and logs on the way. */
int repair_meta_plan(struct repair *p, struct repair_meta *m) TFS_MUST;
/* Steps 5 and 6. */
int repair_meta_write(struct repair *p, const struct repair_meta *m) TFS_MUST;
void repair_meta_fini(struct repair_meta *m);

/* ---- repair_schema.c ---- */
/* Step 4: tables with data whose schema is damaged or missing. */
int repair_schemas(struct repair *p, const struct repair_meta *m) TFS_MUST;

/* ---- repair.c ---- */
/* One file of the lock service, replaced (kept before) and durable on return.  contents.p NULL: removed. */
int repair_lock_file(struct repair *p, const char *name, struct slice contents) TFS_MUST;
/* Is there a file or directory of that name? */
bool repair_exists(const char *path);

#endif
