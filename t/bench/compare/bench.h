/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of tabletbench.  A side is a database, ours or a rival, with
 * the table of functions struct side_ops.  One loop drives them all.
 *
 *	main.c         command line, and the parent process that cleans up
 *	run.c          threads, clocks, latencies, the printed rows
 *	feed.c         keys, values, orders; directories
 *	paper.c        } the kinds of measurement: `engine`,
 *	writers.c      } `writers`,
 *	ycsb.c         } `ycsb`,
 *	amplify.c      } `amplify`,
 *	recovery.c     } `recovery`,
 *	compression.c  } `compression`; pages.c makes its pages
 *	log.c          the line `log` of `engine`
 *	ours.c, leveldb.c, rocksdb.c   the sides
 *	sides.c        the list of sides; RocksDB only if librocksdb-dev is installed
 */
#ifndef T_BENCH_COMPARE_H
#define T_BENCH_COMPARE_H

#include "engine/base/bytes.h"

#include <stdio.h>

enum { EXIT_CANNOT = 2 };
/* One line on standard error. */
#define complain(...)                                                                                                              \
	((void)fflush(stdout), fprintf(stderr, "tabletbench: "), fprintf(stderr, __VA_ARGS__), (void)fputc('\n', stderr))

#define BENCH_KEY_BYTES 16
#define BENCH_SIDES 8
#define BENCH_THREADS 64

struct side_ops;

struct bench_options {
	uint64_t cells, reads, cold_reads, synced, ops;
	size_t value_bytes, cache_bytes, memtable_bytes;
	uint64_t tablet_bytes;
	unsigned threads[8], thread_counts;
	unsigned repeat;
	const char *dir;
	const char *only;  /* "" all, else names joined by commas */
	const char *group; /* settings of our locality group, as in a schema; "" the defaults */
	uint64_t seed;
	bool no_compact, reuse, plain;
	const struct side_ops *sides[BENCH_SIDES]; /* sides[0] is ours */
	char *dirs[BENCH_SIDES];                   /* the directory of each side, in dir */
	unsigned side_count;
	bool alone; /* no rivals are wanted */
	/* input */
	struct buf text;
	uint32_t *order; /* a permutation of the keys */
};

/* Where our cells' timestamps come from.  The rivals have none. */
enum stamps {
	STAMP_NUMBER, /* the cell's number: written once */
	STAMP_CLOCK,  /* the caller's clock: an overwrite that does not read the replaced cell */
	STAMP_AUTO,   /* TFS_AUTO makes the store look for the newest version first */
};

/* How a database is opened for one line. */
struct side_options {
	const char *dir;                    /* its own */
	size_t cache_bytes, memtable_bytes; /* memtable_bytes may be 0, for the side's default */
	bool fresh;                         /* it is emptied first */
	bool plain;                         /* nothing is compressed */
	/* ours */
	enum stamps stamps;
	bool one_version;      /* gc = "maxversions=1": overwritten cells are garbage, as with the rivals */
	uint64_t tablet_bytes; /* 0 for the default */
	const char *group;
};
struct side_ops {
	const char *name;
	const char *what; /* its settings, printed above the lines */
	/* NULL: failed, and complained. */
	void *(*open)(const struct side_options *o);
	void (*close)(void *db);
	/* Returns 0 or -errno; called by any thread.  number: the cell's, for STAMP_NUMBER. */
	int (*put)(void *db, const char *key, uint64_t number, struct tfs_bytes value, bool sync);
	/* Size of the value, which is read by feed_touch into *sum; p and n: room for it if that is needed; -errno. */
	long (*get)(void *db, const char *key, void *p, size_t n, uint64_t *sum);
	/* Cells with from <= key < to (NULL: to the end), at most limit (0: all), every value read by feed_touch into *sum. */
	int (*scan)(void *db, const char *from, const char *to, uint64_t limit, uint64_t *cells, uint64_t *sum);
	int (*compact)(void *db); /* everything */
	/* Bytes of the files that hold the data. */
	int (*size)(const char *dir, uint64_t *bytes);
	/* Tablets of the table; NULL: has none. */
	unsigned (*tablets)(void *db);
	/* The longest that a write waited for a split, in microseconds; where tablets is. */
	uint64_t (*split_wait)(void *db);
};
extern const struct side_ops side_ours, side_leveldb, side_rocksdb, side_rocksdb_zstd;
extern const struct side_ops *const bench_sides[]; /* ours first, NULL-ended */

/* ---- run.c ---- */
#define LATENCY_BUCKETS (64 * 16)
struct latency {
	uint64_t count, max_ns, buckets[LATENCY_BUCKETS];
};
struct took {
	double wall, cpu; /* seconds; cpu is the time of all threads, including background work */
	uint64_t ops;
	unsigned tablets;
	uint64_t split_wait_us; /* the longest */
	struct latency latency; /* count 0: not measured */
};
/* One thread's share of a line. */
struct job {
	const struct bench_options *o;
	const struct side_ops *side;
	void *db;
	void *line;              /* the argument of run_jobs */
	uint64_t from, to;       /* the range of the operations */
	unsigned number;         /* the number of the thread */
	uint8_t *p;              /* room for a value */
	uint64_t sum;            /* the sum of all bytes read, so that the compiler removes no read */
	struct latency *latency; /* or NULL */
};
typedef int (*job_fn)(struct job *j);
/* `ops` operations spread over the threads; *took from the common start to the last one's end. */
int run_jobs(const struct bench_options *o, const struct side_ops *side, void *db, job_fn fn, void *line, uint64_t ops,
	unsigned threads, bool latencies, struct took *took) TFS_MUST;
double cpu_seconds(void); /* of this process, so far */
/* Around one operation whose latency counts. */
uint64_t job_clock(const struct job *j);
void job_count(struct job *j, uint64_t since);
int job_put(struct job *j, const char *key, uint64_t number, bool sync) TFS_MUST;
int job_get(struct job *j, const char *key) TFS_MUST; /* -EBADMSG: not the value's size */

typedef int (*turn_fn)(const struct bench_options *o, unsigned side, void *line, struct took *t);
/* Side after side, o->repeat times over; best[side] is the fastest run. */
int take_turns(const struct bench_options *o, turn_fn fn, void *line, struct took best[BENCH_SIDES]) TFS_MUST;
/* The options that all lines have in common. */
struct side_options side_options(const struct bench_options *o, unsigned side);
/* Is the line of this name asked for? */
bool line_wanted(const struct bench_options *o, const char *name);
void print_heading(const struct bench_options *o);
void print_line(
	const struct bench_options *o, const char *name, const char *what, unsigned threads, const struct took took[BENCH_SIDES]);
/* Under a line: percentiles of one operation for each side, if they were measured. */
void print_latencies(const struct bench_options *o, const struct took took[BENCH_SIDES]);
double latency_us(const struct latency *l, double share); /* share 1 is the longest */

/* ---- kinds of measurement ---- */
struct bench_kind {
	const char *name, *lines; /* lines: names, each between blanks */
	int (*run)(const struct bench_options *o);
	bool feeds_itself; /* needs neither cells nor rivals, and prints its own heading */
};
extern const struct bench_kind bench_paper, bench_writers, bench_ycsb, bench_amplify, bench_recovery, bench_compression;

/* ---- feed.c ---- */
/* Real text from documentation on this machine. */
int feed_text(struct buf *out, size_t want_bytes) TFS_MUST;
int feed_order(uint64_t n, uint64_t seed, uint32_t **out) TFS_MUST;
void feed_key(char key[BENCH_KEY_BYTES + 1], uint64_t number);
/* Keys whose order says nothing of their numbers'. */
void feed_hashed_key(char key[BENCH_KEY_BYTES + 1], uint64_t number);
struct tfs_bytes feed_value(const struct bench_options *o, uint64_t number);
/* Reads every byte, as whoever asked for the value would. */
uint64_t feed_touch(const void *p, size_t n);
uint64_t feed_hash(uint64_t number); /* one to one */
uint64_t feed_random(uint64_t *state);
int remove_tree(const char *path) TFS_MUST; /* success when absent */
/* Bytes of the regular files directly in dir whose names end in one of a NULL-ended list. */
int sum_files(const char *dir, const char *const *ends, uint64_t *bytes) TFS_MUST;
/* Sets *bytes to the disk space of all files below dir. */
int disk_usage(const char *dir, uint64_t *bytes) TFS_MUST;
/* 0, or -errno when the kernel's caches cannot be dropped. */
int drop_caches(void) TFS_MUST;

/* ---- log.c ---- */
int bench_log(const struct bench_options *o, double *ours_s, double *bare_s, uint64_t *records) TFS_MUST;

#endif
