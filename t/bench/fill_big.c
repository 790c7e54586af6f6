/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills stores that are too large for a mount to fill in reasonable time, and
 * measures what the library alone can show of memory and waiting:
 *
 *	fill_big [-c CONFIG] [-t TEXT] DATADIR VERB...
 *
 * Verbs, in order:
 *	cells TABLE COUNT BYTES PER_ROW KIND THREADS
 *		COUNT cells in rows of PER_ROW, each row one mutation; family
 *		"f".  KIND: text (pieces of the file TEXT), random (nothing
 *		compresses).  Called again it writes the same rows anew
 *	versions TABLE COUNT BYTES THREADS
 *		COUNT versions of one column, through the plain name
 *	tables COUNT CELLS BYTES
 *		COUNT tables, each with CELLS rows of one cell, opened and kept
 *	read TABLE COUNT ROWS PER_ROW
 *		reads COUNT cells of `cells` at random
 *	readv TABLE COUNT
 *		reads the newest version of the column of `versions` COUNT times
 *	flush TABLE, compact TABLE, settle (until no compaction is under way)
 *	usage TABLE     memtable and SSTable bytes
 *	status REGEX    those lines of the store's status
 *	rss             resident bytes now and the peak since the last rss
 *	kill            dies at once by SIGKILL
 *
 * Every line printed is "what: number unit, ...".  The slowest single
 * mutation or read is part of each line; a refused one ends the program with
 * status 3 (4c: writers are slowed down, never refused).
 */
#include "engine/tabletfs.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "t/lib/metric.h"

static struct tfs_store *store;
static struct tfs_table **kept;
static size_t kept_count;
static char *text;
static size_t text_bytes;

static void must(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "fill_big: %s: %s\n", what, strerror(-err));
	exit(3);
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A line of /proc/self/status in bytes. */
static uint64_t own(const char *name)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	uint64_t v = 0;

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			v = strtoull(line + strlen(name) + 1, NULL, 10) * 1024;
	if (f)
		fclose(f);
	return v;
}

static void print_rss(void)
{
	FILE *f;

	printf("rss: %.1f MiB now, %.1f MiB at most\n", (double)own("VmRSS") / 1048576, (double)own("VmHWM") / 1048576);
	f = fopen("/proc/self/clear_refs", "w"); /* 5 resets the peak */
	if (f) {
		fputs("5\n", f);
		fclose(f);
	}
}

static void load_text(const char *path)
{
	FILE *f = fopen(path, "r");
	size_t cap = 64u << 20;

	text = malloc(cap);
	if (!f || !text || (text_bytes = fread(text, 1, cap, f)) < 65536) {
		fprintf(stderr, "fill_big: %s: no text\n", path);
		exit(2);
	}
	fclose(f);
}

/* Opens a table, making it and its family where they are missing; kept until the end. */
static struct tfs_table *table(const char *name)
{
	struct tfs_schema_edit add = {.op = TFS_SCHEMA_FAMILY_ADD, .name = "f", .mode = 0644};
	struct tfs_table *t;
	int err = tfs_table_create(store, name, 0, 0, 0755);

	must(err == -EEXIST ? 0 : err, "create");
	must(tfs_table_open(store, name, &t), "open table");
	err = tfs_schema_change(t, &add, NULL);
	must(err == -EEXIST ? 0 : err, "family");
	kept = realloc(kept, (kept_count + 1) * sizeof(*kept));
	must(kept ? 0 : -ENOMEM, "tables");
	kept[kept_count++] = t;
	return t;
}

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static void fill_random(void *p, size_t n, uint64_t seed)
{
	uint8_t *to = p;

	for (size_t i = 0; i < n; i += 8) {
		uint64_t v = mix(seed + (i + 8) * UINT64_C(0x9e3779b97f4a7c15));

		memcpy(to + i, &v, n - i < 8 ? n - i : 8);
	}
}

/* ---- writing ---- */

enum shape { ROWS, VERSIONS };
struct writer {
	pthread_t thread;
	struct tfs_table *table;
	enum shape shape;
	uint64_t first, end; /* rows, or versions */
	size_t bytes;
	unsigned per_row;
	bool random;
	double slowest_s;
};

static struct tfs_bytes value_of(const struct writer *w, uint64_t number, char *room)
{
	if (w->random) {
		fill_random(room, w->bytes, number * 1000003);
		return tfs_bytes_of(room, w->bytes);
	}
	if (w->bytes >= text_bytes)
		return tfs_bytes_of(text, text_bytes);
	return tfs_bytes_of(text + number * w->bytes % (text_bytes - w->bytes), w->bytes);
}

static void *write_some(void *arg)
{
	struct writer *w = arg;
	char row[24], *room = malloc(w->random ? w->bytes * w->per_row + 8 : 8), (*names)[16] = calloc(w->per_row, sizeof(*names));

	must(room && names ? 0 : -ENOMEM, "memory");
	for (unsigned k = 0; k < w->per_row; k++)
		snprintf(names[k], sizeof(names[k]), "q%04u", k);
	for (uint64_t i = w->first; i < w->end; i++) {
		struct tfs_mutation *m;
		double start, took;

		snprintf(row, sizeof(row), "row%010" PRIu64, w->shape == ROWS ? i : 0);
		m = tfs_mutation_new(w->table, tfs_str(row));
		must(m ? 0 : -ENOMEM, "mutation");
		for (unsigned k = 0; k < w->per_row; k++)
			must(tfs_mutation_put(m, "f", tfs_str(names[k]), TFS_AUTO,
				     value_of(w, i * w->per_row + k, room + (w->random ? k * w->bytes : 0))),
				"put");
		start = now_s();
		must(tfs_apply(m, 0, NULL), "a write was refused");
		took = now_s() - start;
		if (took > w->slowest_s)
			w->slowest_s = took;
		tfs_mutation_free(m);
	}
	free(room);
	free(names);
	return NULL;
}

static void write_all(const char *what, struct writer w, uint64_t count, unsigned threads)
{
	struct writer *v = calloc(threads, sizeof(*v));
	double start = now_s(), slowest = 0, took;
	uint64_t cells = count * w.per_row;

	must(v ? 0 : -ENOMEM, "memory");
	if (!w.random && !text)
		must(-EINVAL, "text without -t");
	for (unsigned i = 0; i < threads; i++) {
		v[i] = w;
		v[i].first = count * i / threads;
		v[i].end = count * (i + 1) / threads;
		must(-pthread_create(&v[i].thread, NULL, write_some, &v[i]), "thread");
	}
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(v[i].thread, NULL);
		if (v[i].slowest_s > slowest)
			slowest = v[i].slowest_s;
	}
	took = now_s() - start;
	printf("%s: %" PRIu64 " cells of %zu bytes by %u threads in %.1f s, %.0f cells/s, slowest %.1f ms\n", what, cells, w.bytes,
		threads, took, (double)cells / took, slowest * 1e3);
	free(v);
}

static void tables(uint64_t count, uint64_t cells, size_t bytes)
{
	char *room = malloc(bytes + 8), name[24], row[24];
	double start = now_s();

	must(room ? 0 : -ENOMEM, "memory");
	for (uint64_t i = 0; i < count; i++) {
		struct tfs_table *t;

		snprintf(name, sizeof(name), "t%06" PRIu64, i);
		t = table(name);
		for (uint64_t k = 0; k < cells; k++) {
			struct tfs_mutation *m;

			snprintf(row, sizeof(row), "row%010" PRIu64, k);
			m = tfs_mutation_new(t, tfs_str(row));
			must(m ? 0 : -ENOMEM, "mutation");
			fill_random(room, bytes, i * cells + k);
			must(tfs_mutation_put(m, "f", TFS_S("q"), TFS_AUTO, tfs_bytes_of(room, bytes)), "put");
			must(tfs_apply(m, 0, NULL), "a write was refused");
			tfs_mutation_free(m);
		}
	}
	printf("tables: %" PRIu64 " tables with %" PRIu64 " cells of %zu bytes in %.1f s\n", count, cells, bytes, now_s() - start);
	free(room);
}

/* ---- reading ---- */

static void read_some(const char *name, uint64_t count, uint64_t rows, unsigned per_row)
{
	struct tfs_table *t = table(name);
	double start = now_s(), slowest = 0, took;
	char row[24], q[16], *room = malloc(TFS_INLINE_MAX);

	must(room && rows && per_row ? 0 : -EINVAL, "read");
	for (uint64_t i = 0; i < count; i++) {
		uint64_t r = mix(i * UINT64_C(0x9e3779b97f4a7c15) + 1);
		double from;
		size_t got;

		snprintf(row, sizeof(row), "row%010" PRIu64, r % rows);
		snprintf(q, sizeof(q), "q%04u", (unsigned)((r >> 40) % per_row));
		from = now_s();
		must(tfs_read(t, tfs_str(row), "f", tfs_str(q), TFS_AUTO, 0, room, TFS_INLINE_MAX, &got, NULL), row);
		from = now_s() - from;
		if (from > slowest)
			slowest = from;
	}
	took = now_s() - start;
	printf("read: %" PRIu64 " cells at random of %" PRIu64 " rows in %.2f s, %.0f/s, slowest %.1f ms\n", count, rows, took,
		(double)count / took, slowest * 1e3);
	free(room);
}

static void settle(void)
{
	uint64_t before = UINT64_MAX, now;
	double start = now_s(), still = start;

	do {
		now = metric_of(store, "compactions_minor") + metric_of(store, "compactions_merging") +
			metric_of(store, "compactions_major") + metric_of(store, "blocks_read");
		if (now != before)
			still = now_s();
		before = now;
		usleep(100000);
	} while (now_s() - still < 2);
	printf("settle: compactions over after %.1f s\n", still - start);
}

static void print_status(const char *pattern)
{
	char *s, *save = NULL;
	regex_t re;

	must(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) ? -EINVAL : 0, pattern);
	must(tfs_metrics(store, &s), "metrics");
	for (char *line = strtok_r(s, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (line[0] != '#' && regexec(&re, line, 0, NULL, 0) == 0)
			printf("status: %s\n", line + strlen("tabletfs_"));
	free(s);
	regfree(&re);
}

static void print_usage(const char *name)
{
	struct tfs_usage u;

	must(tfs_usage(table(name), NULL, &u), "usage");
	printf("usage: memtables %" PRIu64 " bytes; SSTables %" PRIu64 " bytes, raw %" PRIu64 ", %" PRIu64 " cells, %" PRIu64
	       " tombstones\n",
		u.memory_bytes, u.disk_bytes, u.raw_bytes, u.cells, u.tombstones);
}

/* ---- the command line ---- */

static char **words;

static const char *word(void)
{
	if (!*words) {
		fprintf(stderr, "fill_big: a word is missing\n");
		exit(2);
	}
	return *words++;
}

static uint64_t number(void)
{
	const char *w = word();
	char *end;
	uint64_t v = strtoull(w, &end, 10);

	if (*end || end == w) {
		fprintf(stderr, "fill_big: %s: not a number\n", w);
		exit(2);
	}
	return v;
}

static void run(const char *verb)
{
	if (strcmp(verb, "cells") == 0) {
		struct writer w = {.table = table(word()), .shape = ROWS};
		uint64_t count = number();

		w.bytes = number();
		w.per_row = (unsigned)number();
		w.random = strcmp(word(), "random") == 0;
		must(w.per_row ? 0 : -EINVAL, "cells");
		write_all("cells", w, count / w.per_row, (unsigned)number());
	} else if (strcmp(verb, "versions") == 0) {
		struct writer w = {.table = table(word()), .shape = VERSIONS, .per_row = 1, .random = true};
		uint64_t count = number();

		w.bytes = number();
		write_all("versions", w, count, (unsigned)number());
	} else if (strcmp(verb, "tables") == 0) {
		uint64_t count = number(), cells = number();

		tables(count, cells, number());
	} else if (strcmp(verb, "read") == 0) {
		const char *name = word();
		uint64_t count = number(), rows = number();

		read_some(name, count, rows, (unsigned)number());
	} else if (strcmp(verb, "readv") == 0) {
		const char *name = word();

		read_some(name, number(), 1, 1);
	} else if (strcmp(verb, "flush") == 0) {
		must(tfs_flush(table(word())), "flush");
	} else if (strcmp(verb, "compact") == 0) {
		double start = now_s();

		must(tfs_compact(table(word())), "compact");
		printf("compact: %.1f s\n", now_s() - start);
	} else if (strcmp(verb, "settle") == 0) {
		settle();
	} else if (strcmp(verb, "usage") == 0) {
		print_usage(word());
	} else if (strcmp(verb, "status") == 0) {
		print_status(word());
	} else if (strcmp(verb, "rss") == 0) {
		print_rss();
	} else if (strcmp(verb, "kill") == 0) {
		fflush(stdout);
		raise(SIGKILL);
	} else {
		fprintf(stderr, "fill_big: %s: no such verb\n", verb);
		exit(2);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct tfs_options o;
	char *why = NULL;
	double start;
	int c;

	mallopt(M_MMAP_THRESHOLD, 256 << 10); /* as the daemon: fs/main.c */
	tfs_options_init(&o);
	while ((c = getopt(argc, argv, "+c:t:")) != -1) {
		if (c == 'c') {
			must(tfs_options_load(&o, optarg, NULL), optarg);
		} else if (c == 't') {
			load_text(optarg);
		} else {
			return 2;
		}
	}
	words = argv + optind;
	start = now_s();
	must(tfs_open(word(), &o, &store, &why), why ? why : "open");
	printf("open: %.3f s\n", now_s() - start);
	fflush(stdout);
	while (*words)
		run(word());
	for (size_t i = 0; i < kept_count; i++)
		tfs_table_close(kept[i]);
	start = now_s();
	must(tfs_close(store), "close");
	printf("close: %.3f s\n", now_s() - start);
	free(kept);
	free(text);
	return 0;
}
