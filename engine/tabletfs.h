/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtabletfs: Bigtable's data model (OSDI 2006, sections 2 and 3) as a C library.  A cell is (row, family:qualifier,
 * timestamp) -> bytes; a mutation changes one row atomically; a scan reads rows, each as of one instant.
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
 * Errors: functions return 0 (or a count) or -errno.  -EINVAL is the caller's mistake, -EBADMSG damage on disk, -EIO a failing
 * disk, -ENOSPC a full disk, -ENOMEM a lack of memory, -EROFS a write that was refused because the log cannot be written.
 * Outputs are written only on success.  tfs_error has the reason of an error as a text.
 * Threads: any function from any thread; one mutation, scan or info struct is used by one thread at a time.
 * Ownership: the caller owns the result of a _new, _open or _get call and ends it by the matching _free, _close or _put.
 * Bytes that the library lends (in a tfs_cell, in a tfs_tablet) are valid until the next call on the same scan, or until the
 * callback returns.
 * Times and timestamps are int64 microseconds since 1970.
 * Messages are lines on standard error; tfs_options.log_level selects them.
 * Memory: by default glibc's malloc keeps freed memtables and blocks in one heap per thread, and a process may grow to several
 * times the sizes in tfs_options.  The tabletfs daemon has: mallopt(M_MMAP_THRESHOLD, 256 << 10);  mallopt(M_ARENA_MAX, 2);
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
#define TFS_OPS_MAX (128 * 1024)             /* operations of one mutation; more: -E2BIG */

/* Bytes that the caller owns. */
struct tfs_bytes {
	const uint8_t *p;
	size_t n;
};
static inline struct tfs_bytes tfs_bytes_of(const void *p, size_t n)
{
	struct tfs_bytes b = {(const uint8_t *)p, n};
	return b;
}
static inline struct tfs_bytes tfs_str(const char *s)
{
	return tfs_bytes_of(s, strlen(s));
}
#define TFS_S(literal) tfs_bytes_of((literal), sizeof(literal) - 1)

/* A timestamp argument.  Every int64 is a valid timestamp, so a flag distinguishes the special value. */
enum tfs_when {
	TFS_AT,     /* the timestamp tfs_ts.us */
	TFS_NEWEST, /* a read takes the newest live version, a write max(us or now, newest version + 1 us) */
};
struct tfs_ts {
	enum tfs_when when;
	int64_t us; /* TFS_AT: the timestamp.  TFS_NEWEST in a write: a time set by the user, or TFS_NO_TIME for now */
};
#define TFS_NO_TIME INT64_MIN
#define TFS_AUTO ((struct tfs_ts){TFS_NEWEST, TFS_NO_TIME})
static inline struct tfs_ts tfs_at(int64_t us)
{
	struct tfs_ts t = {TFS_AT, us};
	return t;
}

TFS_API const char *tfs_version(void); /* the version of the library, such as "1.0.0" */

/* ---- store ---- */
/* A member that is 0 means its default, so {.sync = true} is complete.  log_level is the exception: 0 is a level. */
struct tfs_options {
	size_t block_cache_bytes;    /* uncompressed blocks and cells; default 256 MiB */
	size_t memtable_bytes;       /* all memtables together; default 128 MiB */
	size_t table_cache_bytes;    /* indexes and filters of open SSTables; default 64 MiB */
	size_t log_segment_bytes;    /* default 64 MiB */
	uint64_t sync_interval_us;   /* lazy sync of the commit log; default 1 s */
	unsigned compaction_threads; /* default 2 */
	size_t compaction_rate;      /* bytes per second that background compactions write; default 0, which is no limit */
	uint64_t major_within_us;    /* deleted data leaves the disk within this time; default 7 days */
	/* A clock that differs from the time of the last close by more than this is not trusted (tfs_confirm_clock); default 1 day. */
	uint64_t clock_gap_us;
	/* Limits of a script (tabletfs-script(7)); default 10 million, 64 MiB, 60 s, 64. */
	unsigned script_instructions, script_runs;
	size_t script_memory;
	uint64_t script_time_us;
	bool existing;            /* no store is created in a directory that is absent or empty: -ENOENT */
	bool sync;                /* every commit is on disk before it is acknowledged */
	bool no_background;       /* for tests: flush and compact only on request */
	bool serve, insecure_tcp; /* other processes may use the store through this process; `listen` may be without TLS */
	/* How long each request of a call waits for the process that serves the store; default 60 s, at most that. */
	uint64_t timeout_us;
	uint64_t coherence_us; /* the serving process gives tfs_watch a sign of life within this time; default 1 s */
	int log_level; /* the process's level: 0 errors, 1 also warnings, 2 notices (default), 3 infos, 4 debug; -1: unchanged */
	char socket_mode[8];         /* with serve, of DATADIR/socket: "0600" (default, also ""), "0660" or "0666" */
	char socket_group[64];       /* its group, a name or a number; if it is "", the process's group */
	char listen[64], keys[1024]; /* with serve: the address and port for TLS, and the file of its keys; "" if not set */
	char ssh[256];               /* the program and options for HOST:DATADIR; "": $TABLETFS_SSH, or ssh */
	/* Settings of the tabletfs daemon, "" if not set.  tfs_open does not use them. */
	char data[1024], mountpoint[1024], mount_options[512];
	char http[64], http_token[129]; /* the address and port of its HTTP server; the secret of clients that may see names */
	char name[129];                 /* the store's name on the status page; "": the host and the data directory */
	uint64_t slow_us;               /* the status page lists requests of the mount that take longer; default 1 s */
};
/* Fills in the defaults. */
TFS_API void tfs_options_init(struct tfs_options *o);
/*
 * Reads a libconfig file; its settings replace the settings of o.  -EINVAL: a setting is unknown, of the wrong type or out of
 * range.  If why is not NULL, an error sets *why to "FILE:LINE: reason", which the caller frees.
 */
TFS_API int tfs_options_load(struct tfs_options *o, const char *path, char **why) TFS_CHECKED;
/* All settings of tabletfs.conf(5) with their defaults, as comments of that file.  The caller frees *text. */
TFS_API int tfs_options_example(char **text) TFS_CHECKED;
struct tfs_store;
struct tfs_schema;
/*
 * Opens a store.  source: a data directory; "unix:DATADIR", which another process serves; "[USER@]HOST:DATADIR", the same at
 * another host, over ssh; or a mount point of tabletfs, which stands for its source (tabletfs-remote(7)).
 * A data directory is used through the process that serves it (a mount, or tfs_options.serve) if there is one.  A served store
 * has its server's settings, but sync and timeout_us of o.  A call whose server has ended waits for the next one; then it
 * returns -EIO, or -ETIMEDOUT: it is unknown if it changed something.  Otherwise the directory is opened as a cluster of one server, and created if it is absent or empty.  One process may have it
 * open; if that process is closing the store, tfs_open waits for it.  o may be NULL: all defaults.  If why is not NULL, every
 * error sets *why to one line with path and cause, which the caller frees.
 * -EBUSY in use by a process that does not serve it; -ENOTEMPTY neither empty nor a store; -EPROTO another format; -EBADMSG
 * damage outside data blocks; -EACCES, -EROFS not writable; -EXDEV, -ENODEV a cluster's directory;
 * -EOPNOTSUPP a network or FUSE file system that is not safe (tabletctl probe).
 */
TFS_API int tfs_open(const char *source, const struct tfs_options *o, struct tfs_store **out, char **why) TFS_CHECKED;
/*
 * Makes all commits durable and closes the store.  No other call may be running.  -EBUSY if a table, mutation or scan is still
 * open; the store stays open then.  After any other error the store is closed, and commits since the last sync may be lost.
 */
TFS_API int tfs_close(struct tfs_store *s);
/* Before a tfs_close that must not wait: each tfs_compact ends with -ECANCELED, from now on. */
TFS_API void tfs_will_close(struct tfs_store *s);
/*
 * Why the calling thread's newest call failed, if it was about this store: one line that names the table and, where they
 * matter, row, family, qualifier or clause.  "": it succeeded, or the error number says all that is known.  The text is valid
 * until the thread's next call.  Calls of other threads do not change it.  tfs_mutation_new, tfs_mutation_put and the others
 * that only collect, functions without a store, and those that return no error leave it as it is.  In a callback that reports
 * an error, such as tfs_batch_options.failed, it is the reason of that error.  s NULL: forgets the text, and returns "".
 */
TFS_API const char *tfs_error(struct tfs_store *s);
/* When it returns 0, every commit acknowledged before the call is on disk. */
TFS_API int tfs_sync(struct tfs_store *s) TFS_CHECKED;
/* *available_bytes: free space of the file system that holds the store.  *total_bytes: this plus the size of the store. */
TFS_API int tfs_space(struct tfs_store *s, uint64_t *total_bytes, uint64_t *available_bytes) TFS_CHECKED;
/*
 * The state of the store as lines for an operator.  The caller frees *text, a string.  The
 * rates are computed since the last call of tfs_status_for with the same watcher, a number of
 * the caller's choice.  tfs_status: watcher 0.
 */
TFS_API int tfs_status(struct tfs_store *s, char **text) TFS_CHECKED;
TFS_API int tfs_status_for(struct tfs_store *s, uint64_t watcher, char **text) TFS_CHECKED;
/*
 * States that the system's clock is right although it is far from the time of the last close.  Until this call, or until the
 * store has been open for 24 hours with a steady clock, cells that expired in the gap are not removed from the disk.  Reads
 * follow the system's clock in any case.
 */
TFS_API int tfs_confirm_clock(struct tfs_store *s) TFS_CHECKED;
/*
 * Derives a random key of TFS_KEY_BYTES from the store's secret.  A store and a
 * purpose (a string) have the same key each time that the store is opened.
 */
#define TFS_KEY_BYTES 16
TFS_API int tfs_key(struct tfs_store *s, const char *purpose, unsigned char *key) TFS_CHECKED;
/*
 * The settings of tabletfs.conf(5) as they are now, as text of that file.  Settings that cannot change while the store is open
 * are comments.  The caller frees *text.
 */
TFS_API int tfs_config(struct tfs_store *s, char **text) TFS_CHECKED;
/*
 * Changes the settings in the text, all or none; others stay.  They hold until the store is closed.  -EINVAL: a setting is
 * unknown, of the wrong type, out of range, or cannot change; if why is not NULL, *why is the reason, which the caller frees.
 */
TFS_API int tfs_config_change(struct tfs_store *s, struct tfs_bytes text, char **why) TFS_CHECKED;
/*
 * Replaces all settings that can change by the settings of o.  Sets *left, which the
 * caller frees, to the names of further settings that differ in o, or to "".
 */
TFS_API int tfs_config_replace(struct tfs_store *s, const struct tfs_options *o, char **left) TFS_CHECKED;
enum tfs_changed {
	TFS_CHANGED_CELLS,   /* cells of a row and family of a table that a handle has open */
	TFS_CHANGED_SCHEMA,  /* the table has another schema than `before` by now, or was dropped */
	TFS_CHANGED_TABLES,  /* tables or snapshots were made, renamed or dropped */
	TFS_CHANGED_ALL,     /* anything may have changed, but from now on all changes are reported */
	TFS_CHANGES_UNKNOWN, /* changes may be missed until the next TFS_CHANGED_ALL */
};
struct tfs_change {
	enum tfs_changed what;
	uint32_t table;       /* its id */
	struct tfs_bytes row; /* n 0: any rows */
	uint16_t family;      /* its id; 0: any */
	const struct tfs_schema *before;
};
/*
 * Calls fn, from a thread of the library, after others have changed the store; maybe also
 * without a change.  Changes by this handle are not reported.  A store that another process
 * serves begins with TFS_CHANGED_ALL.  If nothing is heard of the server for coherence_us,
 * changes are unknown.  -EBUSY: there is a watch already.  tfs_unwatch ends it.
 */
TFS_API int tfs_watch(
	struct tfs_store *s, void (*fn)(void *arg, const struct tfs_change *changes, unsigned count), void *arg) TFS_CHECKED;
TFS_API void tfs_unwatch(struct tfs_store *s);
/* All metrics as one page of Prometheus text.  The caller frees *text. */
TFS_API int tfs_metrics(struct tfs_store *s, char **text) TFS_CHECKED;
/* A tablet server.  An embedded store has one. */
struct tfs_server {
	const char *name, *state; /* name: as in tfs_tablet.server */
	uint64_t incarnation;
	unsigned tablets; /* including METADATA's */
	uint64_t bytes;   /* the bytes of their SSTables and memtables */
};
/* Calls fn for each server.  fn returns 0, or a value that ends the calls and is returned. */
TFS_API int tfs_servers(struct tfs_store *s, int (*fn)(void *arg, const struct tfs_server *server), void *arg) TFS_CHECKED;
struct tfs_login { /* the user that the store's server takes this process for: over ssh, the user of the login */
	uid_t uid;
	gid_t gid;
	bool for_others; /* requests on behalf of other users (tfs_table_as) are allowed: root, or the user of the server */
};
TFS_API void tfs_login(struct tfs_store *s, struct tfs_login *out);
/* A line "number user process program requests seconds address", with tabs, for each client.  Most users get only their own. */
TFS_API int tfs_clients(struct tfs_store *s, char **text) TFS_CHECKED;
/* Disconnects a client, and refuses its process for a minute; refuse false lets it in.  -ENOENT if there is none, -EPERM. */
TFS_API int tfs_client_refuse(struct tfs_store *s, uint64_t client, bool refuse) TFS_CHECKED;
/* Returns 0 if this process serves requests within this time, -ENOTSUP if it does not serve the store.  One thread at a time. */
TFS_API int tfs_answers(struct tfs_store *s, uint64_t limit_us) TFS_CHECKED;

/* ---- tables (the master service) ---- */
struct tfs_table;
/* Returns true for a valid table, family or group name: [A-Za-z0-9_][A-Za-z0-9_.-]{0,63} */
TFS_API bool tfs_name_valid(const char *name);
/* -EEXIST; -EINVAL for the name.  A new table has no families, one group "default", and is_set is false in its schema. */
TFS_API int tfs_table_create(struct tfs_store *s, const char *name, uid_t uid, gid_t gid, mode_t mode) TFS_CHECKED;
/* -ENOENT; -EPERM if the table is protected; -EROFS if it is readonly; -ENOTEMPTY if it has cells.  Durable on return. */
TFS_API int tfs_table_drop(struct tfs_store *s, const char *name) TFS_CHECKED;
/*
 * Removes all cells, as fast from a large table as from a small one: the table gets a new set of
 * tablets, split at the schema's `splits`.  Schema and ids remain.  A mutation that was answered
 * before the call is removed, and a mutation that begins after it stays.  Any other mutation was
 * applied before or after it as a whole.  Durable on return.  -ENOENT; -EPERM the table is
 * protected, -EBUSY it has snapshots, with *why as in tfs_schema_set_text.
 */
TFS_API int tfs_table_truncate(struct tfs_table *t, char **why) TFS_CHECKED;
/*
 * Renames a table and replaces an empty table `to`.  -ENOENT: there is no table `from`.  If `to` exists: -EEXIST with
 * noreplace, -EPERM if it is protected, -ENOTEMPTY if it has cells.
 */
TFS_API int tfs_table_rename(struct tfs_store *s, const char *from, const char *to, bool noreplace) TFS_CHECKED;
/* Fills at most max names, in byte order, that come after `after` (NULL or "": all).  Returns the count. */
TFS_API int tfs_table_list(struct tfs_store *s, const char *after, char (*names)[TFS_NAME_MAX + 1], int max) TFS_CHECKED;
/* -ENOENT.  A handle refers to the table, not to its name: it remains valid after a rename.  After a drop, calls return -ENOENT. */
TFS_API int tfs_table_open(struct tfs_store *s, const char *name, struct tfs_table **out) TFS_CHECKED;
TFS_API void tfs_table_close(struct tfs_table *t);
TFS_API uint32_t tfs_table_id(const struct tfs_table *t);
/* *empty is set if the table has no live cell, and none that expired while the clock is not trusted (tfs_confirm_clock). */
TFS_API int tfs_table_empty(struct tfs_table *t, bool *empty) TFS_CHECKED;

/* ---- snapshots and clones ---- */
/*
 * A snapshot shows a table as it was at one instant, with the schema of that instant: cells that expire later remain in it.
 * It shares the SSTables of its table, so creating it takes the time of a minor compaction, and writers wait for a small part
 * of that.  The SSTables of a snapshot stay on disk until the snapshot is dropped.  A table that has snapshots can be renamed,
 * but neither dropped nor replaced by a rename (-EBUSY).
 *
 * Durable on return.  -EEXIST if t has a snapshot of that name; -EINVAL if the name is not valid (tfs_name_valid); -ENOENT if
 * there is no such table; -ENOSPC.  `t` is a table.
 */
TFS_API int tfs_snapshot_create(struct tfs_table *t, const char *name) TFS_CHECKED;
/* -ENOENT.  Open handles of the snapshot remain; calls with them return -ENOENT.  Durable on return. */
TFS_API int tfs_snapshot_drop(struct tfs_table *t, const char *name) TFS_CHECKED;
/*
 * Opens a snapshot of the table t, or of the table of which t is a snapshot.
 * Every function that reads takes the handle.  A function that would change the snapshot returns -EROFS.
 */
TFS_API int tfs_snapshot_open(struct tfs_table *t, const char *name, struct tfs_table **out) TFS_CHECKED;
struct tfs_snapshot {
	const char *name;
	int64_t time_us;       /* the instant */
	bool of_all;           /* made by tfs_snapshot_create_all */
	uint64_t bytes;        /* bytes of its SSTables; 0 without `usage` */
	uint64_t pinned_bytes; /* the bytes among these that no table and no other snapshot uses; 0 without `usage` */
};
/*
 * Calls fn for each snapshot of t, by name.  fn returns 0, or a value that ends the calls and is returned.  usage: also sets the
 * sizes; this reads METADATA as a whole.
 */
TFS_API int tfs_snapshot_list(
	struct tfs_table *t, bool usage, int (*fn)(void *arg, const struct tfs_snapshot *snapshot), void *arg) TFS_CHECKED;
/* Describes one snapshot, by its handle, with the sizes; name is NULL.  -EINVAL: t is a table; -ENOENT: it was dropped. */
TFS_API int tfs_snapshot_usage(struct tfs_table *t, struct tfs_snapshot *out) TFS_CHECKED;
/*
 * Makes a snapshot of this name in every table, each as of an instant of its own.  After an
 * error it drops the snapshots that it has made.
 * -EEXIST: a table has a snapshot of that name.
 */
TFS_API int tfs_snapshot_create_all(struct tfs_store *s, const char *name) TFS_CHECKED;
/* Drops the snapshots of this name that tfs_snapshot_create_all made.  -ENOENT: there is none. */
TFS_API int tfs_snapshot_drop_all(struct tfs_store *s, const char *name) TFS_CHECKED;
/* Calls fn for each name under which tfs_snapshot_create_all made snapshots that still exist. time_us is the instant of the first table's snapshot. */
TFS_API int tfs_snapshot_list_all(
	struct tfs_store *s, int (*fn)(void *arg, const struct tfs_snapshot *snapshot), void *arg) TFS_CHECKED;
/*
 * Creates a table with the rows of t, a table or a snapshot, and with a copy of its schema.  The two share SSTables until
 * compactions replace them, so no data is copied.  -EEXIST, -EINVAL: the name.  Durable on return.
 */
TFS_API int tfs_table_clone(struct tfs_table *t, const char *name) TFS_CHECKED;

/* ---- schema ---- */
enum tfs_family_type { TFS_TYPE_BYTES, TFS_TYPE_COUNTER };
struct tfs_family {
	const char *name;
	uint16_t id;    /* never reused in a table; never 0 */
	const char *gc; /* a rule such as "maxversions=3 or maxage=7d", or "" */
	const char *group;
	enum tfs_family_type type; /* counter: values are decimal numbers, as tfs_mutation_increment stores them */
	uid_t uid;
	gid_t gid;
	mode_t mode;        /* permission bits of its cells; default 0644.  With an ACL the group's bits are its mask */
	const char *acl;    /* entries for tfs_acl_next, with ids, or "" */
	int64_t max_age_us; /* the age at which every cell has expired; 0: age alone expires none */
};
struct tfs_group {
	const char *name;
	uint16_t id;
	const char *compression; /* as in tabletfs-schema(5) */
	int level;
	uint32_t block_size; /* bytes */
	int bloom_bits;
	bool in_memory;
};
/* A script that is stored with the table: TABLE/.scripts/NAME.lua. */
#define TFS_SCRIPT_NAME_MAX 64 /* letters, digits, '_' and '-' */
#define TFS_SCRIPT_MAX 65536   /* bytes of a text */
struct tfs_script {
	const char *name;      /* without .lua */
	struct tfs_bytes text; /* any bytes */
	int64_t mtime_us;
};
enum tfs_protect {
	TFS_PROTECT_NONE,
	TFS_PROTECT_TABLE, /* the table is neither dropped nor truncated, and no family of it is dropped */
	TFS_PROTECT_DATA,  /* also, a mutation that deletes cells is refused; writes and moves are not */
};
/* One state of a table's schema.  Immutable. */
struct tfs_schema {
	uint32_t table_id; /* never changes */
	/* The id of its tablets, log records and files; changes when the table gets new tablets, by a salt, splits or truncation. */
	uint32_t tablets_id;
	uint64_t generation; /* increases with every change of the schema */
	char name[TFS_NAME_MAX + 1];
	uid_t uid;
	gid_t gid;
	mode_t mode;         /* default 0755 */
	bool is_set;         /* set by an explicit act (tabletfs(7)); .schema is listed */
	bool mkdir_families; /* mkdir of ROW/F also creates the family F; true for a new table */
	bool is_hidden;      /* .schema was unlinked; the schema remains */
	int64_t mtime_us;    /* the time of .schema */
	const char *text;    /* contents of .schema, either the bytes last written, or rendered */
	size_t text_size;
	uint64_t tablet_size; /* bytes */
	int salt;             /* as in .schema: 0, or the number of ranges over which rows are spread */
	int salt_in_use; /* equals salt, unless that was set while the table had rows: it takes effect when the table is empty */
	enum tfs_protect protect;
	bool readonly; /* only the schema and the name of the table change; the table is neither dropped nor truncated */
	const struct tfs_bytes
		*splits; /* the rows at which new tablets of the table are split; keys as in tfs_tablet.begin, ascending */
	unsigned split_count;
	const struct tfs_family *families; /* in id order */
	unsigned family_count;
	const struct tfs_group *groups;
	unsigned group_count;
	int64_t snapshot_maxage_us; /* older snapshots of the table are dropped, unless it is 0 */
	uint64_t quota;             /* bytes; a larger table, as tfs_usage shows it, accepts no puts; 0: none */
	int64_t changes_us;         /* for so long the changes of the table are kept (tfs_feed_open); 0: they are not */
	uint32_t
		snapshot_of; /* the id of the table of this snapshot, while `name` is the snapshot's own name; 0: this is a table */
	int64_t snapshot_us; /* the instant that the snapshot shows */
	bool snapshot_of_all;             /* made by tfs_snapshot_create_all */
	const struct tfs_script *scripts; /* in the order of their names */
	unsigned script_count;
};
/*
 * Returns a counted reference to the schema as last read.  No I/O.  A snapshot has the schema of its instant.  But access is the
 * stricter of that instant's and today's.  A family that was deleted since then has the access of that instant.
 */
TFS_API int tfs_schema_get(struct tfs_table *t, const struct tfs_schema **out) TFS_CHECKED;
TFS_API void tfs_schema_put(const struct tfs_schema *s);
/*
 * Returns NULL if there is none.  Every function that takes the name of an existing family or group also takes "#ID", its id in
 * decimal.  "#ID" refers to the same family or group after a rename.
 */
TFS_API const struct tfs_family *tfs_schema_family(const struct tfs_schema *s, const char *name);
TFS_API const struct tfs_group *tfs_schema_group(const struct tfs_schema *s, const char *name);
TFS_API const struct tfs_script *tfs_schema_script(const struct tfs_schema *s, const char *name); /* NULL if there is none */

/* ---- access ---- */
struct tfs_user {
	uid_t uid; /* 0: the user may do everything */
	gid_t gid;
	const gid_t *groups; /* supplementary */
	unsigned group_count;
	bool groups_unknown; /* the user may be in more groups: an answer that depends on them is the strictest possible */
};
#define TFS_MAY_READ 4u /* the bits are as in a mode */
#define TFS_MAY_WRITE 2u
/*
 * Returns true if the user may search the table and may do all of `may` with the cells of its family f.  Owner, group, mode and
 * ACL decide as the kernel decides for a file.  f may be NULL, with `may` 0: only the table counts.
 */
TFS_API bool tfs_may(const struct tfs_schema *s, const struct tfs_family *f, const struct tfs_user *user, unsigned may);
/* An entry of an ACL, for a named user, a named group, or the group that owns the family. */
struct tfs_acl_entry {
	bool is_group, is_owner; /* is_owner: "g::", without an id */
	uint32_t id;
	unsigned may; /* the bits of a mode: 4, 2, 1 */
};
/* Reads the entry at *acl and moves *acl past it.  Returns false at the end. */
TFS_API bool tfs_acl_next(const char **acl, struct tfs_acl_entry *e);
/*
 * Opens the same table on behalf of a user.  The server checks this user by tfs_may at each read, scan and mutation made with
 * the new handle.  Without permission for a family, reads, scans that name it, and mutations return -EACCES; a scan of all
 * families and tfs_row_exists omit it.  An increment, a check and the source of a move also need read permission; the delete of
 * a row needs write permission for all families.  A snapshot that is opened with the handle is for the same user.
 *
 * The master checks changes.  Only the owner of the table may call usage, tablets, flush, compact, split, merge, truncate,
 * clones and snapshots, and change the schema (-EACCES).  Exceptions: a family's owner may set its mode and ACL (-EPERM), and
 * its group to a group of the owner; only root sets owners.  While mkdir_families is set, a user who may write to the table
 * may add families.
 *
 * Copies the user.  tfs_table_close ends the handle.
 */
TFS_API int tfs_table_as(struct tfs_table *t, const struct tfs_user *user, struct tfs_table **out) TFS_CHECKED;
/*
 * Replaces the whole schema by libconfig text, or changes nothing.  mtime_us may be TFS_NO_TIME for now.  Returns -EINVAL if
 * the text is not a valid schema, -EBUSY if it leaves out a family that has cells and does not say allow_delete = true, -EPERM
 * if it leaves out a family of a protected table, -EROFS of a readonly one.  If why is not NULL, *why is NULL or line and reason; the caller frees it.
 *
 * On behalf of a user (tfs_table_as), owners, groups and modes that this user could not set by chown and chmod are ignored: an
 * existing family retains its own, a new one gets the table's.  Then the call returns 0 and *why names them.
 */
TFS_API int tfs_schema_set_text(struct tfs_table *t, struct tfs_bytes text, int64_t mtime_us, char **why) TFS_CHECKED;
/*
 * Checks the beginning of a schema text, as far as its values are complete.  -EINVAL, *why as above: no continuation makes it a
 * valid schema.  A group that a family names may follow later in the text.
 */
TFS_API int tfs_schema_text_begins(struct tfs_table *t, struct tfs_bytes text, char **why) TFS_CHECKED;
enum tfs_schema_op {
	TFS_SCHEMA_TABLE_MODE,  /* mode */
	TFS_SCHEMA_TABLE_OWNER, /* uid, gid; (uid_t)-1 and (gid_t)-1: unchanged */
	TFS_SCHEMA_TIME,        /* mtime_us of .schema */
	TFS_SCHEMA_HIDE,        /* flag: .schema is unlinked; not flag: it is listed again */
	TFS_SCHEMA_FAMILY_ADD,  /* name; uid, gid, mode of the creator; -EEXIST */
	TFS_SCHEMA_FAMILY_DROP, /* -EBUSY if it has cells; -EPERM if the table is protected; -EROFS if it is readonly */
	TFS_SCHEMA_FAMILY_MODE,
	TFS_SCHEMA_FAMILY_OWNER,
	TFS_SCHEMA_FAMILY_GC,
	TFS_SCHEMA_FAMILY_GROUP,
	TFS_SCHEMA_FAMILY_TYPE, /* value: a text as in .schema, also for the next two */
	TFS_SCHEMA_GROUP_ADD,
	TFS_SCHEMA_GROUP_DROP, /* -EBUSY if it has a family; "default" cannot be dropped */
	TFS_SCHEMA_GROUP_COMPRESSION,
	TFS_SCHEMA_GROUP_LEVEL,
	TFS_SCHEMA_GROUP_BLOCK_SIZE,
	TFS_SCHEMA_GROUP_BLOOM_BITS,
	TFS_SCHEMA_GROUP_IN_MEMORY, /* value, also for the next four */
	TFS_SCHEMA_FAMILY_RENAME,   /* value is the new name; cells and id remain; -EEXIST if the name is in use */
	TFS_SCHEMA_GROUP_RENAME,    /* value is the new name; -EEXIST; -EBUSY for "default", which cannot be renamed */
	TFS_SCHEMA_FAMILY_ACL,      /* value: the ACL as in .schema; mode */
	TFS_SCHEMA_SCRIPT_SET,      /* name; text; mtime_us, or TFS_NO_TIME for now: adds or replaces a script */
	TFS_SCHEMA_SCRIPT_TIME,     /* name; mtime_us */
	TFS_SCHEMA_SCRIPT_DROP,     /* name */
	/* text: lines behind the present text of .schema, whoever changed it last; mtime_us.  Errors as those of tfs_schema_set_text. */
	TFS_SCHEMA_TEXT_APPEND,
};
struct tfs_schema_edit {
	enum tfs_schema_op op;
	bool explicit_act; /* sets is_set; TFS_SCHEMA_FAMILY_ADD: also clears mkdir_families */
	const char *name;  /* family, group or script */
	const char *value;
	struct tfs_bytes text;
	uid_t uid;
	gid_t gid;
	mode_t mode;
	bool flag;
	bool while_open; /* -ECANCELED unless mkdir_families is set */
	int64_t mtime_us;
};
/* Atomic; durable on return.  -EINVAL with *why as above; -ENOENT there is no such family, group or script; -EEXIST; -EBUSY. */
TFS_API int tfs_schema_change(struct tfs_table *t, const struct tfs_schema_edit *e, char **why) TFS_CHECKED;
TFS_API bool tfs_script_name_valid(const char *name);
/* Stores a script, or removes it if text.p is NULL.  Readers find it in the schema (tfs_schema_script). */
TFS_API int tfs_script_set(struct tfs_table *t, const char *name, struct tfs_bytes text, char **why) TFS_CHECKED;

/* ---- mutations: one row, atomic ---- */
TFS_API struct tfs_mutation *tfs_mutation_new(struct tfs_table *t, struct tfs_bytes row); /* NULL: out of memory */
TFS_API void tfs_mutation_free(struct tfs_mutation *m);
/*
 * Adding an operation copies no bytes: keys and values, and the row, must live until tfs_apply returns.  The only error is
 * -ENOMEM; tfs_apply reports all others.  A mutation may be applied more than once.
 */
TFS_API int tfs_mutation_put(
	struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts, struct tfs_bytes value);

/*
 * The general write: starts from a base, changes some of its bytes, and stores the result as a version.  With TFS_BASE_EMPTY it
 * equals put.  The server reads the base and stores the result under the row's lock.
 */
struct tfs_range {
	uint64_t offset;
	struct tfs_bytes data;
};
enum tfs_base {
	TFS_BASE_EMPTY,   /* no bytes */
	TFS_BASE_NEWEST,  /* the newest live version; no bytes if there is none */
	TFS_BASE_VERSION, /* the version at base_ts; -ENOENT if there is none */
};
struct tfs_write {
	const char *family;
	struct tfs_bytes qualifier;
	enum tfs_base base;
	int64_t base_ts;
	uint64_t truncate_to;           /* the base is first cut or extended to this size; UINT64_MAX: unchanged */
	const struct tfs_range *ranges; /* second: written in order; gaps become zeros */
	unsigned range_count;
	struct tfs_bytes append; /* third: added at the end */
	struct tfs_ts place;     /* TFS_AT: this timestamp.  TFS_NEWEST: max(us or now, newest + 1); -EOVERFLOW past INT64_MAX */
	/*
	 * If the version at replace_ts is still the newest version, the result
	 * replaces it: at the same timestamp or, if place.us is set, at
	 * max(place.us, next older version + 1).
	 */
	bool replace;
	int64_t replace_ts;
	bool drop_newer; /* delete versions newer than the result (.latest) */
};
TFS_API int tfs_mutation_write(
	struct tfs_mutation *m, const struct tfs_write *w); /* the ranges and all bytes live until tfs_apply returns */
/* Deletes are idempotent: deleting an absent version, column, family or row succeeds.  Add a check if that matters. */
TFS_API int tfs_mutation_delete_version(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, int64_t ts);
TFS_API int tfs_mutation_delete_column(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier);
TFS_API int tfs_mutation_delete_family(struct tfs_mutation *m, const char *family);
TFS_API int tfs_mutation_delete_row(struct tfs_mutation *m);
/* Gives the newest version the timestamp `to`.  -ENOENT: there is none; -EINVAL: `to` is not above the next older version. */
TFS_API int tfs_mutation_set_time(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, int64_t to);
/*
 * rename(2) within a row (tabletfs(7)).  TFS_NEWEST in `from` or `to` means
 * the column (a plain name), TFS_AT one version.  The source is deleted.
 *   column to absent column: all versions are moved.
 *   column to existing column: the newest version becomes the newest of the
 *     target, at max(its timestamp, newest of the target + 1).
 *   column to version: the newest version is stored as that version.
 *   version to column: it becomes the newest of the target, as above.
 *   version to version: it is stored there and replaces an existing one.
 * -ENOENT: there is no source; -EEXIST: noreplace, and the target exists.
 */
TFS_API int tfs_mutation_move(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, struct tfs_ts from,
	const char *to_family, struct tfs_bytes to_qualifier, struct tfs_ts to, bool noreplace);
/*
 * Adds to the newest value of a counter (0 if absent), which may have blanks around it.  Stores the decimal number, without a
 * newline, as with TFS_AUTO.  -EINVAL: the value is not a decimal number; -EOVERFLOW.  Puts and writes store any bytes.
 */
TFS_API int tfs_mutation_increment(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, int64_t by);
enum tfs_check {
	TFS_CHECK_EXISTS, /* the column (TFS_NEWEST) or version (TFS_AT) is live */
	TFS_CHECK_ABSENT,
	TFS_CHECK_NEWEST_IS, /* its newest version has this timestamp (ts.us) */
	TFS_CHECK_VALUE,     /* its newest version has this value */
	TFS_CHECK_MATCH, /* its newest version matches the pattern `value` (tfs_scan_spec.value_regex); -EINVAL: not a pattern; -ETIME: too many steps */
	TFS_CHECK_FAMILY, /* tfs_mutation_check_family; tfs_mutation_check refuses it */
};
/* If a check fails, nothing is applied and tfs_apply returns -ECANCELED.  Checks see the row before the mutation. */
TFS_API int tfs_mutation_check(struct tfs_mutation *m, enum tfs_check check, const char *family, struct tfs_bytes qualifier,
	struct tfs_ts ts, struct tfs_bytes value);

/*
 * The family has the same cells as when its fingerprint was read: the sum of tfs_fingerprint
 * over its cells in one scan of the row, 0 if it had none.  Any write, delete or expiry in
 * between makes the check fail.  The server reads the keys of the family's cells in the row.
 */
TFS_API int tfs_mutation_check_family(struct tfs_mutation *m, const char *family, uint64_t fingerprint);
/* The result of one operation. */
struct tfs_result {
	int64_t ts;        /* the timestamp of the version written or moved; else 0 */
	uint64_t size;     /* the size of its value; UINT64_MAX if the user of the table's handle may not read the family */
	int64_t counter;   /* the new value of an increment */
	int64_t commit_us; /* the time of commit, the same for all operations; 0 if the mutation changed nothing */
	bool replaced;     /* set if a write with replace found its version, replace_ts, the newest and replaced it */
	bool failed;       /* after an error: this operation is the cause, for example the check that failed */
};
#define TFS_APPLY_SYNC 1u /* the mutation is on disk before the call returns */
#define TFS_APPLY_KEEP 2u /* deletes keep the versions that only a clock in doubt hides */
/*
 * Applies all operations atomically, in order: an operation sees the effect of earlier operations on the same column.  results:
 * NULL, or an array with an element per operation; after an error only `failed` is set in it.  -ENOENT the table was dropped;
 * -EINVAL unknown family or bad argument; -EFBIG; -E2BIG; -ECANCELED a check failed; -EPERM a delete, and the data of the table
 * is protected; -EROFS the table is readonly or a snapshot; -EDQUOT the table has reached its quota.  After an I/O error it is unknown whether the mutation was applied;
 * after any other it was not.
 */
TFS_API int tfs_apply(struct tfs_mutation *m, unsigned flags, struct tfs_result *results) TFS_CHECKED;

/* ---- writing many rows (paper, section 3: batching writes across row keys) ---- */
/*
 * A batch takes any number of mutations of rows of one table.  Its own threads apply them: rows of one tablet in one request,
 * several requests at a time, so that the server's log groups them.  Each row mutation is atomic and succeeds or fails
 * independently.  Mutations of one row are applied in the order in which they were added.
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
	size_t max_bytes; /* the most bytes of mutations that wait or are being applied; default 16 MiB */
	/* The number of requests at a time, at most 64.  The default is 4, or 16 for a store in another process; then all such batches share threads. */
	unsigned threads;
	bool sync; /* applied mutations are on disk */
	/*
	 * Called for each row mutation that failed, with the -errno that tfs_apply would have returned.  Threads of the batch
	 * call it, one at a time.  It must not call the batch.  May be NULL.
	 */
	void (*failed)(void *arg, struct tfs_bytes row, int err);
	void *arg;
};
/* o may be NULL: all defaults.  The batch has its own reference to the table.  -EINVAL: more than 64 threads. */
TFS_API int tfs_batch_new(struct tfs_table *t, const struct tfs_batch_options *o, struct tfs_batch **out) TFS_CHECKED;
/*
 * Adds a copy of the mutation with its keys and values.  Waits while the batch has max_bytes; a larger mutation waits until the
 * batch is empty.  After an error nothing was added: -EINVAL unknown family, bad argument or another table's mutation; -ENOENT
 * the table was dropped; -ENOMEM.
 */
TFS_API int tfs_batch_add(struct tfs_batch *b, const struct tfs_mutation *m) TFS_CHECKED;
/* Waits until every mutation added before is applied or has failed.  Returns 0, or the first error since the last flush. */
TFS_API int tfs_batch_flush(struct tfs_batch *b) TFS_CHECKED;
/* Flushes and frees the batch.  Returns the same as tfs_batch_flush. */
TFS_API int tfs_batch_close(struct tfs_batch *b) TFS_CHECKED;

/* ---- reading ---- */
struct tfs_cell {
	struct tfs_bytes row, qualifier;
	const char *family;
	uint16_t family_id;
	int64_t ts;
	uint64_t size;          /* the size of the whole value */
	struct tfs_bytes value; /* data is NULL in scans without values and if size > TFS_INLINE_MAX: call tfs_read */
	int64_t expires_us;     /* when it expires by age; INT64_MAX: never */
	int64_t commit_us;      /* the time of commit (not the timestamp) */
	uint64_t sequence;      /* among a row's cells, a cell written later has a larger number */
	bool unsure;            /* past_damage: an unreadable block may contain a newer version or a delete of it */
};
#define TFS_INLINE_MAX (256 * 1024)
#define TFS_CELL_MAX (512 * 1024) /* the bytes of a cell in tfs_scan_fill are fewer */

enum tfs_scan_what {
	TFS_SCAN_CELLS,    /* cells with values */
	TFS_SCAN_KEYS,     /* cells without values */
	TFS_SCAN_ROWS,     /* one entry per row that has a matching live cell; only `row` is set */
	TFS_SCAN_FAMILIES, /* one entry per row and family that have a matching live cell */
	TFS_SCAN_STORED_ROWS, /* rows that have any entry in some SSTables, also a delete; the library's own, -EINVAL in tfs_scan_new */
	/*
	 * Hashes of the cells, by which tables are compared.  The scan is divided into parts of whole rows and about batch_bytes of
	 * cells; of a salted table each range of the salt by itself.  Of each part there is one entry for each family that has matching live cells in it: row is the last row of the part,
	 * size the number of cells, sequence their bytes without rows, value the sum of their hashes, 16 bytes.  A hash is one of row,
	 * qualifier, timestamp and value.  So two ranges of rows of any tables have the same cells if the sums over all parts, as
	 * big-endian numbers of two halves of 8 bytes, are equal.  Not with reverse, limit, row_limit, past_damage and absent_from.
	 */
	TFS_SCAN_HASHES,
};
/* The row with this key or, with is_prefix, the rows whose keys begin with it. */
struct tfs_key {
	struct tfs_bytes key;
	bool is_prefix;
};
struct tfs_scan_spec {
	enum tfs_scan_what what;
	struct tfs_bytes row_from; /* inclusive ... */
	bool row_from_after;       /* ... or exclusive */
	struct tfs_bytes row_to;   /* exclusive; data NULL: to the end */
	bool reverse;              /* rows in descending order; not with past_damage */
	bool one_row;              /* row_from only */
	/* Bounds of the keys as stored (tfs_tablet.begin), so that they can select the rows of one tablet also in a salted table.  NULL means the same as in row_from and row_to. */
	struct tfs_bytes stored_from, stored_to;
	/*
	 * Only these rows, and only within the bounds above.  Keys may be in any order and overlap: each row is returned
	 * once, in the order of the scan.  NULL: all rows.
	 */
	const struct tfs_key *keys;
	unsigned key_count;
	const char *const *families; /* NULL: all.  Unknown: -EINVAL */
	unsigned family_count;
	struct tfs_bytes qualifier_from; /* inclusive ... */
	bool qualifier_from_after;       /* ... or exclusive */
	struct tfs_bytes qualifier_to;   /* exclusive; data NULL: to the end */
	bool after_cell;                 /* with one_row and one family: start strictly after (qualifier_from, after_ts) */
	int64_t after_ts;
	bool has_times; /* [since, until); until INT64_MAX: to the end */
	int64_t since, until;
	uint32_t versions; /* versions of each column within the times, before the filters below; 0 for all live versions */
	/* A pattern is a regular expression of PCRE2 over bytes and matches the whole key or value; data NULL: no filter. */
	struct tfs_bytes row_regex, qualifier_regex, value_regex;
	struct tfs_bytes value_is; /* the whole value */
	bool has_changed;          /* cells with commit_us >= changed_since */
	int64_t changed_since;
	uint32_t column_limit; /* columns of each row and family, after the filters; 0: all */
	uint64_t row_limit;    /* rows, after the filters; 0: all */
	uint64_t limit;        /* entries; 0: all */
	size_t batch_bytes;    /* hint: fetch about this much at a time; 0: default */
	/*
	 * Asked while a scan finds nothing for long (filters reject what it reads).
	 * If it returns true, tfs_scan_next returns -EINTR; the next call continues.
	 */
	bool (*stop)(void *arg);
	void *stop_arg;
	bool past_damage; /* skip blocks that cannot be read; the scan then ends with -EBADMSG instead of 0 */
	/*
	 * Only rows for which this Lua expression is true (tabletfs-script(7)).  Its r is the
	 * whole row: all live cells in families that the user may read, also cells that the
	 * other members do not select.
	 */
	struct tfs_bytes row_script;
	/*
	 * Only rows for which this condition on their columns is true, as in the clause where=
	 * (tabletfs-scan(7)).  It sees the newest version of a column, whatever cells the other
	 * members select.  -EACCES if the user may not read a family in it.
	 */
	struct tfs_bytes row_where;
	uint32_t row_sample; /* only rows of which the hash XXH3 (64 bits) of the key modulo 1,000,000 is below this; 0: all */
	/*
	 * The difference of two snapshots of one table.  The scan of one snapshot leaves out
	 * the cells that the second, absent_from, has with the same timestamp and value, also
	 * if they were written again.  With absent_names it also leaves out cells with other
	 * values.  Both are read on behalf of the user of the scanned handle.
	 *
	 * With one_row, the row is read in both.  Otherwise the scan reads the rows in SSTables
	 * that only one of the two snapshots uses, or all rows if the table is salted, if
	 * families or their GC rules differ, or if a rule has an age.
	 *
	 * Bounds, families, batch_bytes, stop and past_damage apply; -EINVAL with
	 * other members, or if the two are not snapshots of one table.  past_damage:
	 * the scan still ends at a block of absent_from that cannot be read.
	 */
	struct tfs_table *absent_from; /* NULL: all cells are returned */
	bool absent_names;
};
struct tfs_scan;
/*
 * Order: rows (reverse: descending), families by id, qualifiers ascending, timestamps descending.  Each row is read as of one
 * instant if its cells fit in batch_bytes.  A larger row is, too, unless the caller pauses for a
 * minute within the row or the row's server is lost.  Then the rest of the row is of a later
 * instant.  Copies the spec.
 */
TFS_API int tfs_scan_new(struct tfs_table *t, const struct tfs_scan_spec *spec, struct tfs_scan **out) TFS_CHECKED;
/*
 * Returns 1 and a cell that is valid until the next call, 0 at the end, -errno.  -EINVAL: a pattern is not valid; -ETIME: a
 * pattern takes too many steps on a key or value; -EINTR: see tfs_scan_spec.stop.
 */
TFS_API int tfs_scan_next(struct tfs_scan *s, struct tfs_cell *cell) TFS_CHECKED;
/*
 * Reads many cells in one call, at most max.  Their keys, families and values are copied to p, at most n bytes, so they are
 * valid as long as p.  Cells of one row share its bytes.  Returns the count, 0 at the end, -errno as tfs_scan_next.  While the
 * scan finds nothing for long, the call returns the cells that it has.  -ENOBUFS if the next cell needs more than n bytes; a
 * call with TFS_CELL_MAX returns it.
 */
TFS_API int tfs_scan_fill(struct tfs_scan *s, struct tfs_cell *cells, int max, void *p, size_t n) TFS_CHECKED;
TFS_API void tfs_scan_free(struct tfs_scan *s);
/* For tfs_mutation_check_family: a hash of the cell's family, qualifier, timestamp, sequence number and time of commit. */
TFS_API uint64_t tfs_fingerprint(const struct tfs_cell *cell);

/* ---- scripts ---- */
/*
 * A program in Lua that the tablet servers run over the rows of a scan (paper, section 3; tabletfs-script(7)).  Only its
 * outputs come back.  It sees the cells that the members of the scan's spec select, in families that the user may read.
 */
/* Arguments: "KEY=VALUE", which the script has in its table arg. */
struct tfs_arguments {
	const char *const *v;
	unsigned count;
};
enum tfs_output_kind {
	TFS_OUTPUT_VALUE, /* output, key, value: a result, after all rows have been run */
	TFS_OUTPUT_LINE,  /* value: a line of an output of lines */
	TFS_OUTPUT_CELL,  /* cell: emitted; its row, family, qualifier, ts and value are set */
};
struct tfs_output {
	enum tfs_output_kind kind;
	struct tfs_bytes output, key, value;
	struct tfs_cell cell;
};
struct tfs_run;
/*
 * Copies script, args (NULL: none) and spec, and begins the run, in which each tablet runs the
 * script by itself, several at once.  The members what, reverse, limit, past_damage and
 * absent_from of spec must be 0; row_limit needs a table without salt.
 */
TFS_API int tfs_run_new(struct tfs_table *t, const struct tfs_script *script, const struct tfs_arguments *args,
	const struct tfs_scan_spec *spec, struct tfs_run **out) TFS_CHECKED;
/*
 * Returns 1 and an output that is valid until the next call; 0 at the end; -errno.  Lines and cells come while rows are
 * run, in any order.  -EINVAL: the script is not valid or has failed; -E2BIG: it has exceeded a limit; -EIO: its worker process died.  Then
 * tfs_run_error has a line with the reason.  -EINTR: see tfs_scan_spec.stop.
 */
TFS_API int tfs_run_next(struct tfs_run *r, struct tfs_output *out) TFS_CHECKED;
TFS_API const char *tfs_run_error(const struct tfs_run *r); /* "" if there is no reason; valid until the next call */
TFS_API void tfs_run_free(struct tfs_run *r);               /* ends it */
/* Compiles the script on a server.  *why is set to the reason of -EINVAL; the caller frees it. */
TFS_API int tfs_script_check(struct tfs_table *t, const struct tfs_script *script, char **why) TFS_CHECKED;

struct tfs_info {
	int64_t ts;
	uint64_t size;
	int64_t expires_us, commit_us; /* as in tfs_cell */
};
/* Attributes of one version, or of the newest (TFS_NEWEST).  -ENOENT: there is none; -EINVAL: unknown family. */
TFS_API int tfs_stat(struct tfs_table *t, struct tfs_bytes row, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts,
	struct tfs_info *info) TFS_CHECKED;
/* Reads up to n bytes at offset.  *got < n only at the end of the value.  info may be NULL.  Errors as tfs_stat. */
TFS_API int tfs_read(struct tfs_table *t, struct tfs_bytes row, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts,
	uint64_t offset, void *p, size_t n, size_t *got, struct tfs_info *info) TFS_CHECKED;
/* *exists is set if the row has a live cell, in this family or (NULL) in any, or if a block that may hold one is unreadable. */
TFS_API int tfs_row_exists(struct tfs_table *t, struct tfs_bytes row, const char *family, bool *exists) TFS_CHECKED;

/* ---- changes: of tables whose schema has `changes` (tabletfs-schema(5)) ---- */
enum tfs_feed_kind {
	TFS_FEED_SET = 1,       /* value at ts */
	TFS_FEED_DELETE_CELL,   /* the version at ts */
	TFS_FEED_DELETE_COLUMN, /* the column's versions up to ts; INT64_MAX: all */
	TFS_FEED_DELETE_FAMILY, /* the family in the row */
	TFS_FEED_DELETE_ROW,
	TFS_FEED_TRUNCATE, /* of the table.  The changes before it are not kept */
	TFS_FEED_DROP      /* of the table; the last one */
};
#define TFS_TOKEN_MAX 255
struct tfs_feed_change {
	enum tfs_feed_kind kind;
	struct tfs_bytes row, qualifier, value;
	const char *family;
	int64_t ts, commit_us;
	const char *token; /* from which tfs_feed_open continues behind this change; at most TFS_TOKEN_MAX bytes */
};
#define TFS_FEED_START INT64_MIN
#define TFS_FEED_NOW INT64_MAX
struct tfs_feed;
/*
 * Reads the changes behind the token; or, if it is NULL, from the time of commit from_us on: TFS_FEED_START is the first change
 * that is kept.  -EINVAL: no token, or one of another table or store; -ESTALE: changes behind it are not kept any more;
 * -EOPNOTSUPP: the table keeps none.
 */
TFS_API int tfs_feed_open(struct tfs_table *t, const char *token, int64_t from_us, struct tfs_feed **out) TFS_CHECKED;
/*
 * Returns 1 and a change, valid until the next call; 0 if there is none yet; -errno as tfs_feed_open; -ENOENT after TFS_FEED_DROP.
 * The order is that of times of commit.  Changes of families that the user of the handle may not read are left out.
 */
TFS_API int tfs_feed_next(struct tfs_feed *f, struct tfs_feed_change *change) TFS_CHECKED;
/*
 * Returns true if the next change has been received.  If not, tfs_feed_next asks the servers and may wait for them, so a
 * reader that collects changes passes them on first.
 */
TFS_API bool tfs_feed_at_hand(struct tfs_feed *f);
/* All changes that were committed before tfs_feed_open have a time of commit up to this one. */
TFS_API int64_t tfs_feed_opened_us(const struct tfs_feed *f);
/* The token from which a reader continues behind the changes so far; valid until the next call. */
TFS_API const char *tfs_feed_token(struct tfs_feed *f);
/* Waits after the return 0 until there may be changes.  -EINTR: stop, which is asked from time to time, returned true; NULL: none. */
TFS_API int tfs_feed_wait(struct tfs_feed *f, bool (*stop)(void *arg), void *arg) TFS_CHECKED;
/* Instead: fn is called once, maybe during this call.  It must not wait or call the library.  NULL: none; on return, none runs. */
TFS_API void tfs_feed_notify(struct tfs_feed *f, void (*fn)(void *arg), void *arg);
TFS_API void tfs_feed_free(struct tfs_feed *f);

/* ---- tablets ---- */
struct tfs_usage {
	uint64_t disk_bytes;   /* SSTables, compressed; a family, or a tablet that shares files, has its share */
	uint64_t raw_bytes;    /* keys and values in SSTables, uncompressed */
	uint64_t memory_bytes; /* memtables */
	uint64_t cells;        /* stored entries, including entries that compactions have yet to remove */
	uint64_t tombstones;   /* stored deletes; deletes of whole rows count for the table only */
	/* The changes that are kept (tfs_feed_open), on disk and in memory.  No other member counts them.  A family has 0. */
	uint64_t changes_bytes;
};
/* family NULL: the whole table. */
TFS_API int tfs_usage(struct tfs_table *t, const char *family, struct tfs_usage *u) TFS_CHECKED;
struct tfs_tablet {
	/* [begin, end); end.data NULL: to the end.  Keys as stored: in a salted table the byte crc32c(row) mod salt precedes the row. */
	struct tfs_bytes begin, end;
	const char *server, *state;
	uint64_t bytes; /* the sum of the bytes on disk and in memory, with the changes that are kept */
	unsigned sstables;
	struct tfs_usage usage;
	/* Since the server loaded or made the tablet: cells and rows read, and row mutations.  One of 16 reads by name is counted, as 16. */
	uint64_t reads, writes;
	unsigned compactions; /* under way: TFS_COMPACTION_* */
	/* The latest changes of its list of SSTables since the server loaded or made it, the newest last: lines "SECONDS TEXT", seconds since 1970. */
	const char *events;
};
#define TFS_COMPACTION_MINOR 1u
#define TFS_COMPACTION_MERGING 2u
#define TFS_COMPACTION_MAJOR 4u
/* Calls fn for each tablet in order.  fn returns 0, or a value that ends the calls and is returned. */
TFS_API int tfs_tablets(struct tfs_table *t, int (*fn)(void *arg, const struct tfs_tablet *tablet), void *arg) TFS_CHECKED;
/* Calls fn for at most n (to 4096) ranges of about equal bytes, in order.  Only begin, end, server and bytes of a range are set. */
TFS_API int tfs_splits(
	struct tfs_table *t, unsigned n, int (*fn)(void *arg, const struct tfs_tablet *range), void *arg) TFS_CHECKED;
/*
 * Splits the tablet that contains row (paper, section 5.2).  row becomes the first row of the upper part.  Reads, writes and
 * scans continue.  The server splits a tablet that is larger than the schema's tablet_size by itself.  In a salted table, row
 * is a key as stored (tfs_tablet.begin), here and in tfs_merge.  -EEXIST: a tablet begins at row.
 */
TFS_API int tfs_split(struct tfs_table *t, struct tfs_bytes row) TFS_CHECKED;
/*
 * Merges the tablet that contains row with the next one.  The server merges small neighbours by itself.  -ENOENT: there is no
 * next tablet; -EBUSY: try again; -E2BIG: row keys of tens of KiB make the list of the lower tablet's files larger than a cell
 * of METADATA.  Nothing was changed; tfs_compact reduces the number of files.
 */
TFS_API int tfs_merge(struct tfs_table *t, struct tfs_bytes row) TFS_CHECKED;
/* Writes the memtables of every tablet to SSTables (paper, section 5.4: minor compaction).  Returns when that is done. */
TFS_API int tfs_flush(struct tfs_table *t) TFS_CHECKED;
/* Rewrites every tablet without deleted data (major compaction).  Returns when that is done.  -ECANCELED: tfs_will_close. */
TFS_API int tfs_compact(struct tfs_table *t) TFS_CHECKED;
/*
 * Removes what was deleted or replaced before the call, and the changes that are kept (tfs_feed_open), from SSTables, files of
 * changes and the commit log.  Readers of changes that have not read all of them get -ESTALE.  It flushes all tables of the
 * servers.  Snapshots keep what they show.  Errors as of tfs_compact; -EBUSY: try again.
 */
TFS_API int tfs_purge(struct tfs_table *t) TFS_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
