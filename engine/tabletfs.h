/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtabletfs: Bigtable's data model (OSDI 2006, sections 2 and 3) as a C
 * library.  A cell is (row, family:qualifier, timestamp) -> bytes; a
 * mutation changes one row atomically; a scan reads rows, each as of one
 * instant.
 *
 *	struct tfs_store *s;  char *why;
 *	if (tfs_open("/data", NULL, &s, &why)) { fprintf(stderr, "%s\n", why); free(why); }
 *	struct tfs_table *t;  tfs_table_open(s, "webtable", &t);
 *
 *	// paper, Figure 2
 *	struct tfs_mutation *m = tfs_mutation_new(t, TFS_S("com.cnn.www"));
 *	tfs_mutation_put(m, "anchor", TFS_S("www.c-span.org"), TFS_AUTO, TFS_S("CNN"));
 *	tfs_mutation_delete_column(m, "anchor", TFS_S("www.abc.com"));
 *	tfs_apply(m, 0, NULL);  tfs_mutation_free(m);
 *
 *	// paper, Figure 3
 *	struct tfs_scan_spec spec = {.families = (const char *[]){"anchor"}, .family_count = 1};
 *	struct tfs_scan *sc;  tfs_scan_new(t, &spec, &sc);
 *	struct tfs_cell c;
 *	while (tfs_scan_next(sc, &c) > 0) ...;
 *	tfs_scan_free(sc);
 *
 * Errors: functions return 0 (or a count) or -errno.  -EINVAL is the
 * caller's mistake, -EBADMSG damage on disk, -EIO a failing disk, -ENOSPC a
 * full one, -ENOMEM memory, -EROFS a refused write because the log cannot be
 * written.  Outputs are written only on success.
 * Threads: any function from any thread; one mutation, scan or info struct is
 * used by one thread at a time.
 * Ownership: what a _new/_open/_get call returns is the caller's and goes
 * back through the matching _free/_close/_put.
 * What is lent (the bytes of a tfs_cell, of a tfs_tablet) is valid until
 * the next call on the same scan, or until the callback returns.
 * Times and timestamps are int64 microseconds since 1970.
 * Messages go to standard error, one line each; tfs_options.log_level says
 * which.
 * Memory: memtables and blocks come and go in pieces of 64 KiB to 1 MiB, in
 * all threads.  glibc's malloc learns to keep such pieces, a heap for each
 * thread, and a process may grow to several times what tfs_options allow.
 * The library leaves malloc to its caller; the tabletfs daemon calls, before
 * anything else,
 *	mallopt(M_MMAP_THRESHOLD, 256 << 10);  mallopt(M_ARENA_MAX, 2);
 */
#ifndef TABLETFS_H
#define TABLETFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TFS_API __attribute__((visibility("default")))
#define TFS_CHECKED __attribute__((warn_unused_result))

/* ---- limits ---- */
#define TFS_ROW_MAX (64 * 1024)
#define TFS_QUALIFIER_MAX (16 * 1024)
#define TFS_VALUE_MAX (64 * 1024 * 1024)     /* larger: -EFBIG */
#define TFS_MUTATION_MAX (256 * 1024 * 1024) /* bytes of one mutation; larger: -E2BIG */
#define TFS_NAME_MAX 64                      /* table, family and group names */

/* Bytes that the caller owns. */
struct tfs_bytes {
	const void *data;
	size_t size;
};
static inline struct tfs_bytes tfs_bytes_of(const void *p, size_t n)
{
	struct tfs_bytes b = {p, n};
	return b;
}
static inline struct tfs_bytes tfs_str(const char *s)
{
	return tfs_bytes_of(s, strlen(s));
}
#define TFS_S(literal) tfs_bytes_of((literal), sizeof(literal) - 1)

/* A timestamp argument that is not a timestamp.  Any int64 can be one, so these go with a flag. */
enum tfs_when {
	TFS_AT,     /* the timestamp given beside it */
	TFS_NEWEST, /* reading: the newest live version; writing: max(floor or now, newest version + 1 us) */
};
struct tfs_ts {
	enum tfs_when when;
	int64_t us; /* TFS_AT: the timestamp.  TFS_NEWEST, writing: a time set by the user, or TFS_NO_TIME */
};
#define TFS_NO_TIME INT64_MIN
#define TFS_AUTO ((struct tfs_ts){TFS_NEWEST, TFS_NO_TIME})
static inline struct tfs_ts tfs_at(int64_t us)
{
	struct tfs_ts t = {TFS_AT, us};
	return t;
}

/* ---- store ---- */
/* What is 0 takes its default: {.sync = true} is as good as tfs_options_init and a setting. */
struct tfs_options {
	size_t block_cache_bytes;    /* uncompressed blocks and cells; default 256 MiB */
	size_t memtable_bytes;       /* all memtables together; default 128 MiB */
	size_t table_cache_bytes;    /* indexes and filters of open SSTables; default 64 MiB */
	size_t log_segment_bytes;    /* default 64 MiB */
	uint64_t sync_interval_us;   /* lazy sync of the commit log; default 1 s */
	unsigned compaction_threads; /* default 2 */
	size_t compaction_rate;      /* bytes a second that compactions in the background write; 0, the default: no limit */
	uint64_t major_within_us;    /* what was removed is off the disk within this; default 7 days */
	uint64_t
		clock_gap_us; /* a clock farther off than this since the last opening is doubted, see tfs_confirm_clock; default 1 day */
	bool sync;            /* every commit is on disk before it is acknowledged */
	bool no_background; /* tests: flush and compact only when asked */
	int log_level;      /* 0 errors, 1 and warnings, 2 notices, 3 infos, 4 debug; -1: leave it (2).  Of the process */
};
/* Fills in the defaults. */
TFS_API void tfs_options_init(struct tfs_options *o);
/*
 * Reads a libconfig file over o.  On -EINVAL, *why (may be NULL) is a
 * "FILE:LINE: reason" string to free(); an unknown or ill-typed setting is an error.
 */
TFS_API int tfs_options_load(struct tfs_options *o, const char *path, char **why) TFS_CHECKED;

struct tfs_store;
/*
 * Opens a data directory (made if absent or empty) as a cluster of one.
 * -EBUSY in use by another process; -ENOTEMPTY neither empty nor a store;
 * -EPROTO of a newer format; -EBADMSG damaged beyond its data blocks;
 * -EACCES/-EROFS not writable.  o NULL: the defaults.  why as above, of any
 * error: one line naming path and cause.  One process at a time; a store that
 * is being closed is waited for.
 */
TFS_API int tfs_open(const char *source, const struct tfs_options *o, struct tfs_store **out, char **why) TFS_CHECKED;
/*
 * Makes everything durable and closes; no call may be under way.  -EBUSY: a
 * table, mutation or scan has not been given back, and the store stays open.
 * Any other error: it is closed, and what had not been synced before may be
 * lost.
 */
TFS_API int tfs_close(struct tfs_store *s);
/* Every commit acknowledged so far is on disk when this returns 0. */
TFS_API int tfs_sync(struct tfs_store *s) TFS_CHECKED;
/* available: what the file system that the store is on has left for it; total: that and what the store takes up. */
TFS_API int tfs_space(struct tfs_store *s, uint64_t *total_bytes, uint64_t *available_bytes) TFS_CHECKED;
/* The state of the store in lines for an operator.  *text is NUL-terminated, free() it. */
TFS_API int tfs_status(struct tfs_store *s, char **text) TFS_CHECKED;
/*
 * The system's clock is right, though it is far off the time when the store was last open.  Until
 * this is called or the store has been open for 24 hours with a steady clock, nothing that expired
 * in between is removed.  Reads follow the clock at once.
 */
TFS_API int tfs_confirm_clock(struct tfs_store *s) TFS_CHECKED;
/* All its numbers as one Prometheus text page. */
TFS_API int tfs_metrics(struct tfs_store *s, char **text) TFS_CHECKED;

/* A tablet server; an embedded store has one. */
struct tfs_server {
	const char *name, *state; /* name: as tfs_tablets gives it */
	uint64_t incarnation;
	unsigned tablets; /* METADATA's included */
	uint64_t bytes;   /* their SSTables and memtables */
};
/* Calls fn for each. */
TFS_API int tfs_servers(struct tfs_store *s, int (*fn)(void *arg, const struct tfs_server *server), void *arg) TFS_CHECKED;

/* ---- tables (the master service) ---- */
struct tfs_table;
/* A legal table, family or group name: [A-Za-z0-9_][A-Za-z0-9_.-]{0,63} */
TFS_API bool tfs_name_valid(const char *name);
/* -EEXIST, -EINVAL (name).  A new table has no families, one group "default", and its schema is not yet set. */
TFS_API int tfs_table_create(struct tfs_store *s, const char *name, uid_t uid, gid_t gid, mode_t mode) TFS_CHECKED;
/* -ENOENT; -ENOTEMPTY while it has cells.  Durable when it returns. */
TFS_API int tfs_table_drop(struct tfs_store *s, const char *name) TFS_CHECKED;
/* -ENOENT: no `from`.  Onto an existing table: -EEXIST when noreplace, -ENOTEMPTY when that has cells, else replaces it. */
TFS_API int tfs_table_rename(struct tfs_store *s, const char *from, const char *to, bool noreplace) TFS_CHECKED;
/* Names in byte order, strictly after `after` (NULL or "": from the start); fills at most max; returns the count. */
TFS_API int tfs_table_list(struct tfs_store *s, const char *after, char (*names)[TFS_NAME_MAX + 1], int max) TFS_CHECKED;
/* -ENOENT.  A handle is bound to the table, not its name: it survives rename; after drop every call gives -ENOENT. */
TFS_API int tfs_table_open(struct tfs_store *s, const char *name, struct tfs_table **out) TFS_CHECKED;
TFS_API void tfs_table_close(struct tfs_table *t);
TFS_API uint32_t tfs_table_id(const struct tfs_table *t);
/* True when the table has no live cell, and none that is kept while the clock is not believed. */
TFS_API int tfs_table_empty(struct tfs_table *t, bool *empty) TFS_CHECKED;

/* ---- schema ---- */
enum tfs_family_type { TFS_TYPE_BYTES, TFS_TYPE_COUNTER };

struct tfs_family {
	const char *name;
	uint16_t id;    /* never reused in a table; never 0 */
	const char *gc; /* "" none; "maxversions=3 or maxage=7d" */
	const char *group;
	enum tfs_family_type type; /* counter: the value is read and written as a decimal number, stored as "N\n" */
	uid_t uid;
	gid_t gid;
	mode_t mode;        /* permission bits of its cells; default 0644 */
	const char *acl;    /* "" none */
	int64_t max_age_us; /* shortest age after which a cell surely expires; 0: never by age alone */
};
struct tfs_group {
	const char *name;
	uint16_t id;
	const char *compression; /* none snappy lz4 zstd zstd-dict */
	int level;
	uint32_t block_size; /* bytes */
	int bloom_bits;
	bool in_memory;
};
/* One state of a table's schema; immutable. */
struct tfs_schema {
	uint32_t table_id;   /* for the table's life */
	uint32_t tablets_id; /* of its tablets, logs and files: another one once a salt takes effect */
	uint64_t generation; /* rises with every change of the schema */
	char name[TFS_NAME_MAX + 1];
	uid_t uid;
	gid_t gid;
	mode_t mode;         /* default 0755 */
	bool is_set;         /* by an explicit act (tabletfs(7)): .schema is listed */
	bool mkdir_families; /* mkdir of ROW/F makes the family F, too; true of a new table */
	bool is_hidden;      /* .schema was removed by name; the schema itself stays */
	int64_t mtime_us;    /* of .schema */
	const char *text;    /* what .schema shows: bytes last written, or rendered */
	size_t text_size;
	uint64_t tablet_size; /* bytes */
	int salt;             /* as .schema has it: 0, or the number of ranges that rows are spread over */
	int salt_in_use;      /* the same, unless salt was set while the table held rows: then it waits until the table is empty */
	const struct tfs_family *families; /* in id order */
	unsigned family_count;
	const struct tfs_group *groups;
	unsigned group_count;
};
/* A counted reference; cheap (no I/O). */
TFS_API int tfs_schema_get(struct tfs_table *t, const struct tfs_schema **out) TFS_CHECKED;
TFS_API void tfs_schema_put(const struct tfs_schema *s);
/*
 * Or NULL.  Wherever this library takes a family's or group's name, but for a
 * new one, it also takes "#ID", its id in decimal: that goes on meaning the
 * family or group when it has been renamed.
 */
TFS_API const struct tfs_family *tfs_schema_family(const struct tfs_schema *s, const char *name);
TFS_API const struct tfs_group *tfs_schema_group(const struct tfs_schema *s, const char *name);
/*
 * Sets the whole schema from libconfig text, or changes nothing.  -EINVAL:
 * *why (may be NULL) says the line and reason; -EBUSY: would delete a family that holds
 * cells without allow_delete = true.  mtime_us TFS_NO_TIME: now.
 */
TFS_API int tfs_schema_set_text(struct tfs_table *t, struct tfs_bytes text, int64_t mtime_us, char **why) TFS_CHECKED;
/*
 * The same for a user.  Owners, groups and modes that he could not set by
 * chown and chmod are left out of the text, as tar leaves them out: they stay
 * as they are, or are the table's.  0 with *why not NULL says which.
 */
struct tfs_user {
	uid_t uid; /* 0 may set all */
	gid_t gid;
	const gid_t *groups; /* the supplementary ones */
	unsigned group_count;
};
TFS_API int tfs_schema_set_text_as(
	struct tfs_table *t, struct tfs_bytes text, int64_t mtime_us, const struct tfs_user *user, char **why) TFS_CHECKED;

/* Of the beginning of such a text, up to a newline.  -EINVAL, *why as above: whatever follows, it cannot become legal. */
TFS_API int tfs_schema_text_begins(struct tfs_table *t, struct tfs_bytes text, char **why) TFS_CHECKED;

enum tfs_schema_op {
	TFS_SCHEMA_TABLE_MODE,  /* mode */
	TFS_SCHEMA_TABLE_OWNER, /* uid, gid; (uid_t)-1, (gid_t)-1 leave */
	TFS_SCHEMA_TIME,        /* mtime_us of .schema */
	TFS_SCHEMA_HIDE,        /* .schema removed (flag: true) or shown again (false) */
	TFS_SCHEMA_FAMILY_ADD,  /* name; uid, gid, mode of the creator; -EEXIST */
	TFS_SCHEMA_FAMILY_DROP, /* -EBUSY while it holds cells */
	TFS_SCHEMA_FAMILY_MODE,
	TFS_SCHEMA_FAMILY_OWNER,
	TFS_SCHEMA_FAMILY_GC,
	TFS_SCHEMA_FAMILY_GROUP,
	TFS_SCHEMA_FAMILY_TYPE, /* value; type: -EBUSY while it holds cells */
	TFS_SCHEMA_GROUP_ADD,
	TFS_SCHEMA_GROUP_DROP, /* -EBUSY while a family is in it; "default" stays */
	TFS_SCHEMA_GROUP_COMPRESSION,
	TFS_SCHEMA_GROUP_LEVEL,
	TFS_SCHEMA_GROUP_BLOCK_SIZE,
	TFS_SCHEMA_GROUP_BLOOM_BITS,
	TFS_SCHEMA_GROUP_IN_MEMORY, /* value, as text */
	TFS_SCHEMA_FAMILY_RENAME,   /* value: the new name; cells and id stay; -EEXIST: another has it */
	TFS_SCHEMA_GROUP_RENAME,    /* likewise, with its families; -EBUSY: "default" keeps its name */
};
struct tfs_schema_edit {
	enum tfs_schema_op op;
	bool explicit_act; /* the schema counts as set from now on; of FAMILY_ADD: without mkdir_families */
	const char *name;  /* family or group */
	const char *value;
	uid_t uid;
	gid_t gid;
	mode_t mode;
	bool flag;
	int64_t mtime_us;
};
/* Atomic and durable; -EINVAL with *why as above; -ENOENT no such family or group, -EEXIST, -EBUSY. */
TFS_API int tfs_schema_change(struct tfs_table *t, const struct tfs_schema_edit *e, char **why) TFS_CHECKED;

/* ---- mutations: one row, atomic ---- */
struct tfs_mutation;
TFS_API struct tfs_mutation *tfs_mutation_new(struct tfs_table *t, struct tfs_bytes row); /* NULL: out of memory */
TFS_API void tfs_mutation_free(struct tfs_mutation *m);
/*
 * Adding an operation copies nothing: keys and values (of the row too) must
 * live until tfs_apply returns.  -ENOMEM only: what else is wrong, tfs_apply
 * says.  A mutation may be applied more than once.
 */
TFS_API int tfs_mutation_put(
	struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts, struct tfs_bytes value);

/*
 * The general write: takes a base, changes bytes of it, places the result.
 * Without a base it equals put.  Judged and applied under the row's lock.
 */
struct tfs_range {
	uint64_t offset;
	struct tfs_bytes data;
};
enum tfs_base {
	TFS_BASE_EMPTY,   /* start from no bytes */
	TFS_BASE_NEWEST,  /* from the newest live version, or none */
	TFS_BASE_VERSION, /* from the version at base_ts; -ENOENT if there is none */
};
struct tfs_write {
	const char *family;
	struct tfs_bytes qualifier;
	enum tfs_base base;
	int64_t base_ts;
	uint64_t truncate_to;           /* first cut or zero-extend the base to this; UINT64_MAX: leave */
	const struct tfs_range *ranges; /* then these, in order; gaps are zeros */
	unsigned range_count;
	struct tfs_bytes append; /* then this at the end */
	struct tfs_ts place;     /* TFS_AT: exactly there.  TFS_NEWEST: max(us or now, newest + 1); -EOVERFLOW past INT64_MAX */
	bool replace;            /* if the version at replace_ts is still the newest, the result takes its place:
					  * at that timestamp, or at place.us if that is set and above the version below (else just above it) */
	int64_t replace_ts;
	bool drop_newer; /* delete versions above the result's timestamp (.latest) */
};
TFS_API int tfs_mutation_write(struct tfs_mutation *m, const struct tfs_write *w); /* w and its arrays live until apply */
/* Absent versions and columns are deleted with success (idempotent); use a check where it matters. */
TFS_API int tfs_mutation_delete_version(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, int64_t ts);
TFS_API int tfs_mutation_delete_column(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier);
TFS_API int tfs_mutation_delete_family(struct tfs_mutation *m, const char *family);
TFS_API int tfs_mutation_delete_row(struct tfs_mutation *m);
/* Moves the newest version to timestamp `to`; -ENOENT without one, -EINVAL if it would meet or pass another version. */
TFS_API int tfs_mutation_set_time(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, int64_t to);
/*
 * rename(2) within a row (tabletfs(7)).  from.when TFS_NEWEST means the whole
 * column (plain name), TFS_AT one version; likewise to.
 *   column -> absent column: all versions move.
 *   column -> existing column: the newest becomes the newest there, at max(its time, newest there + 1); source column goes.
 *   column -> version: newest goes there, source column goes.
 *   version -> column: becomes the newest there, at max(its time, newest there + 1); source version goes.
 *   version -> version: goes there, replacing what is there.
 * -ENOENT no source; -EEXIST noreplace and the target exists.
 */
TFS_API int tfs_mutation_move(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, struct tfs_ts from,
	const char *to_family, struct tfs_bytes to_qualifier, struct tfs_ts to, bool noreplace);
/* Adds to the newest value of a counter (absent: 0); -EINVAL: not a decimal number; -EOVERFLOW.  Placed as TFS_AUTO. */
TFS_API int tfs_mutation_increment(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, int64_t by);

enum tfs_check {
	TFS_CHECK_EXISTS, /* the column (TFS_NEWEST) or version (TFS_AT) is live */
	TFS_CHECK_ABSENT,
	TFS_CHECK_NEWEST_IS, /* its newest version has this timestamp (ts.us) */
	TFS_CHECK_VALUE,     /* its newest version has this value */
};
/* If any check fails nothing is applied and tfs_apply gives -ECANCELED. Checks see the row before the mutation. */
TFS_API int tfs_mutation_check(struct tfs_mutation *m, enum tfs_check check, const char *family, struct tfs_bytes qualifier,
	struct tfs_ts ts, struct tfs_bytes value);

/* What one operation did, in the order the operations were added. */
struct tfs_result {
	int64_t ts;        /* of the version written or moved; else 0 */
	uint64_t size;     /* of its value */
	int64_t counter;   /* increment: the new value */
	bool replaced;     /* write with replace: the earlier version was still the newest and was replaced */
	int64_t commit_us; /* the time of commit, the same for all operations; 0: the mutation changed nothing */
};
#define TFS_APPLY_SYNC 1u /* on disk before it returns */
/*
 * All operations see the row as it was before the mutation and are applied
 * in order (a later one of the same column sees the earlier one's effect).
 * -ENOENT table dropped; -EINVAL unknown family or bad argument; -EFBIG,
 * -E2BIG; any other errno: not applied, or (I/O errors only) in doubt.
 * results: NULL, or as many as operations.
 */
TFS_API int tfs_apply(struct tfs_mutation *m, unsigned flags, struct tfs_result *results) TFS_CHECKED;

/* ---- writing many rows (the paper's batch interface for clients) ---- */
/*
 * A batch takes mutations of any rows of one table, in any number, and has
 * them applied by threads of its own: rows of one tablet in one request, many
 * requests under way, so that the server's log writes them together.  Each
 * row mutation is atomic and succeeds or fails by itself.  Mutations of one
 * row are applied in the order in which they were added.
 *
 *	struct tfs_batch *b;
 *	int err = tfs_batch_new(t, &(struct tfs_batch_options){.failed = complain}, &b);
 *	while (!err && more) {
 *		struct tfs_mutation *m = tfs_mutation_new(t, row);
 *		err = tfs_mutation_put(m, "contents", TFS_S(""), TFS_AUTO, value);
 *		if (!err)
 *			err = tfs_batch_add(b, m);
 *		tfs_mutation_free(m);
 *	}
 *	last = tfs_batch_close(b);
 *
 * Threads: add and flush from any; new and close from one.
 */
struct tfs_batch;
struct tfs_batch_options {
	size_t max_bytes; /* of mutations that wait or are under way; default 16 MiB */
	unsigned threads; /* requests under way at a time; default 4, at most 64 */
	bool sync;        /* what counts as applied is on disk */
	/*
	 * Called for each row mutation that was not applied, or (I/O errors) is in
	 * doubt, with the errno that tfs_apply would have given; by threads of the
	 * batch, one call at a time.  It may not call the batch.  NULL: none.
	 */
	void (*failed)(void *arg, struct tfs_bytes row, int err);
	void *arg;
};
/* o NULL: the defaults.  The batch keeps the table open.  -EINVAL: more than 64 threads. */
TFS_API int tfs_batch_new(struct tfs_table *t, const struct tfs_batch_options *o, struct tfs_batch **out) TFS_CHECKED;
/*
 * Adds a copy of what the mutation is now: keys, values and the mutation
 * itself are the caller's again.  Waits while max_bytes are held; a mutation
 * larger than that has the batch to itself.  An error (-EINVAL unknown family
 * or bad argument, or of another table; -ENOENT table dropped; -ENOMEM) means
 * that it was not added.
 */
TFS_API int tfs_batch_add(struct tfs_batch *b, const struct tfs_mutation *m) TFS_CHECKED;
/* Waits until all that was added before is applied or has failed.  0, or the first error since the last flush. */
TFS_API int tfs_batch_flush(struct tfs_batch *b) TFS_CHECKED;
/* Flushes and frees; as tfs_batch_flush. */
TFS_API int tfs_batch_close(struct tfs_batch *b) TFS_CHECKED;

/* ---- reading ---- */
struct tfs_cell {
	struct tfs_bytes row, qualifier;
	const char *family;
	uint16_t family_id;
	int64_t ts;
	uint64_t size;          /* of the whole value */
	struct tfs_bytes value; /* data NULL when keys only, or when size > TFS_INLINE_MAX: then tfs_read */
	int64_t expires_us;     /* when age will hide it; INT64_MAX: never */
	int64_t commit_us;      /* the time of commit (not the timestamp) */
	bool unsure;            /* past_damage: what could not be read, here or before, may have hidden or replaced it */
};
#define TFS_INLINE_MAX (256 * 1024)

enum tfs_scan_what {
	TFS_SCAN_CELLS,    /* cells with values */
	TFS_SCAN_KEYS,     /* cells without values */
	TFS_SCAN_ROWS,     /* one entry a row that has a matching live cell: row only */
	TFS_SCAN_FAMILIES, /* one entry a (row, family) that has a matching live cell */
};
struct tfs_scan_spec {
	enum tfs_scan_what what;
	struct tfs_bytes row_from;   /* inclusive ... */
	bool row_from_after;         /* ... or exclusive */
	struct tfs_bytes row_to;     /* exclusive; data NULL: to the end */
	bool one_row;                /* just row_from */
	const char *const *families; /* NULL: all.  Unknown: -EINVAL */
	unsigned family_count;
	struct tfs_bytes qualifier_from; /* inclusive */
	struct tfs_bytes qualifier_to;   /* exclusive; data NULL: to the end */
	bool after_cell;                 /* with one_row and one family: start strictly after (qualifier_from, after_ts) */
	int64_t after_ts;
	bool has_times; /* [since, until) */
	int64_t since, until;
	uint32_t versions;  /* of each column; 0: all live */
	uint64_t limit;     /* entries; 0: all */
	size_t batch_bytes; /* hint: fetch about this much at a time; 0: default */
	bool past_damage;   /* go on behind what cannot be read; -EBADMSG comes in the place of the end */
};
struct tfs_scan;
/* Order: rows, families by id, qualifiers ascending, timestamps descending.  Copies the spec. */
TFS_API int tfs_scan_new(struct tfs_table *t, const struct tfs_scan_spec *spec, struct tfs_scan **out) TFS_CHECKED;
/* 1 and a cell, valid until the next call; 0 at the end; -errno. */
TFS_API int tfs_scan_next(struct tfs_scan *s, struct tfs_cell *cell) TFS_CHECKED;
TFS_API void tfs_scan_free(struct tfs_scan *s);

struct tfs_info {
	int64_t ts;
	uint64_t size;
	int64_t expires_us, commit_us; /* as in tfs_cell */
};
/* stat of one version, or of the newest (TFS_NEWEST).  -ENOENT; -EINVAL unknown family. */
TFS_API int tfs_stat(struct tfs_table *t, struct tfs_bytes row, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts,
	struct tfs_info *info) TFS_CHECKED;
/* Reads up to n bytes at offset; info may be NULL.  *got < n only at the value's end. */
TFS_API int tfs_read(struct tfs_table *t, struct tfs_bytes row, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts,
	uint64_t offset, void *p, size_t n, size_t *got, struct tfs_info *info) TFS_CHECKED;
/* Does the row (family NULL) or the row's family hold a live cell, or may it, in a block that cannot be read? */
TFS_API int tfs_row_exists(struct tfs_table *t, struct tfs_bytes row, const char *family, bool *exists) TFS_CHECKED;

/* ---- tablets ---- */
struct tfs_usage {
	uint64_t disk_bytes;   /* SSTables, compressed (a family, a tablet that shares files: its share) */
	uint64_t raw_bytes;    /* keys and values in SSTables, uncompressed */
	uint64_t memory_bytes; /* memtables */
	uint64_t cells;        /* entries stored, dead ones not yet collected included */
	uint64_t tombstones;   /* deletes stored; of whole rows: the table's, and no family's */
};
/* family NULL: the whole table. */
TFS_API int tfs_usage(struct tfs_table *t, const char *family, struct tfs_usage *u) TFS_CHECKED;
struct tfs_tablet {
	/* [begin, end); end.data NULL: to the end.  Keys as they are stored: a salted table's with crc32c(row) mod salt in front */
	struct tfs_bytes begin, end;
	const char *server, *state;
	uint64_t bytes; /* on disk and in memory */
	unsigned sstables;
	struct tfs_usage usage;
};
/* Calls fn for each tablet in order. */
TFS_API int tfs_tablets(struct tfs_table *t, int (*fn)(void *arg, const struct tfs_tablet *tablet), void *arg) TFS_CHECKED;
/*
 * Splits the tablet that holds row, at row, which becomes the first of the
 * upper part (paper, section 5.2).  Reads, writes and scans go on.  Tablets
 * also split by themselves past the schema's tablet_size.  -EEXIST: a tablet
 * begins at row already.  In a salted table row is a key as it is stored, as
 * tfs_tablets gives them, here and in tfs_merge.
 */
TFS_API int tfs_split(struct tfs_table *t, struct tfs_bytes row) TFS_CHECKED;
/*
 * Makes one of the tablet that holds row and the one after it.  Small
 * neighbours are merged by themselves, too.  -ENOENT: there is none after it;
 * -E2BIG: with row keys of tens of KiB the lower one's range and files do not
 * fit a cell of METADATA, and nothing has changed; fewer files, after tfs_compact,
 * may.  -EBUSY: try again.
 */
TFS_API int tfs_merge(struct tfs_table *t, struct tfs_bytes row) TFS_CHECKED;
/* Minor compaction of every tablet of the table; returns when done. */
TFS_API int tfs_flush(struct tfs_table *t) TFS_CHECKED;
/* Major compaction of every tablet of the table; returns when done. */
TFS_API int tfs_compact(struct tfs_table *t) TFS_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
