/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files of `tabletctl bench engine`: two sides behind one table
 * of calls, so that one loop drives both, and what they are fed with.
 */
#ifndef TFS_TOOL_BENCH_H
#define TFS_TOOL_BENCH_H

#include "engine/base/bytes.h"

#define BENCH_KEY_BYTES 16

struct bench_options {
	uint64_t cells, reads, cold_reads, synced;
	size_t value_bytes, cache_bytes, memtable_bytes;
	unsigned threads[8], thread_counts;
	unsigned repeat;
	const char *dir;
	char *only;             /* "" all, else names joined by commas */
	uint64_t seed;
	bool no_compact, reuse;
	/* what is fed in */
	struct buf text;
	uint32_t *order;        /* a permutation of the keys */
};

/* How a database is opened for one line. */
struct side_options {
	const char *dir;        /* its own */
	size_t cache_bytes, memtable_bytes; /* memtable_bytes 0: the side's default */
	bool fresh;             /* whatever is there is removed first */
	bool auto_timestamps;   /* ours: TFS_AUTO in the place of explicit timestamps */
};
struct side_ops {
	const char *name;
	/* NULL: failed, and complained. */
	void *(*open)(const struct side_options *o);
	void (*close)(void *db);
	/* 0 or -errno; any thread. number: of the cell, for the timestamp. */
	int (*put)(void *db, const char *key, uint64_t number, struct slice value, bool sync);
	/* Size of the value, which is read by feed_touch into *sum; p and n: room for it if that is needed; -errno. */
	long (*get)(void *db, const char *key, void *p, size_t n, uint64_t *sum);
	/* All cells with from <= key < to (NULL: to the end), every value read by feed_touch into *sum. */
	int (*scan)(void *db, const char *from, const char *to, uint64_t *cells, uint64_t *sum);
	int (*settle)(void *db); /* everything compacted */
	/* Bytes of the files that hold the data. */
	int (*size)(const char *dir, uint64_t *bytes);
};
extern const struct side_ops side_ours, side_leveldb;

/* ---- bench_feed.c ---- */
/* Real text from documentation on this machine. */
int feed_text(struct buf *out, size_t want_bytes) TFS_MUST;
int feed_order(uint64_t n, uint64_t seed, uint32_t **out) TFS_MUST;
void feed_key(char key[BENCH_KEY_BYTES + 1], uint64_t number);
struct slice feed_value(const struct bench_options *o, uint64_t number);
/* Reads every byte, as whoever asked for the value would. */
uint64_t feed_touch(const void *p, size_t n);
int remove_tree(const char *path) TFS_MUST; /* success when absent */
/* Bytes of the regular files directly in dir whose names end in one of a NULL-ended list. */
int sum_files(const char *dir, const char *const *ends, uint64_t *bytes) TFS_MUST;
/* 0, or -errno when the kernel's caches cannot be dropped. */
int drop_caches(void) TFS_MUST;

/* ---- bench_log.c ---- */
int bench_log(const struct bench_options *o, double *ours_s, double *bare_s, uint64_t *records) TFS_MUST;

#endif
