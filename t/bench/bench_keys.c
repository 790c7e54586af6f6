/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the choice of row keys does, for tabletfs(7), ROW KEYS:
 *
 *	bench_keys [DIR [ROWS]]
 *
 * growing keys by 1, 4 and 8 writers, salted and not; scans of the two tables;
 * pages of sites with hosts reversed or hashed; one host by its prefix and by a
 * look at everything; the newest entries by reversed time and at the end.  DIR
 * (/tmp/bench_keys) is removed before and after.
 */
#include "engine/base/bytes.h"
#include "engine/base/clock.h"
#include "engine/tabletfs.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "t/bench/bench.h"
#include "t/lib/metric.h"

#define SCHEMA "families = ( { name = \"f\"; } );"

static const char *dir = "/tmp/bench_keys";
static uint64_t rows = 400000;
static struct tfs_store *store;
static struct tfs_table *table;
static _Atomic uint64_t next_row;

static void open_new(const char *schema)
{
	bench_remove(dir);
	OK(tfs_open(dir, NULL, &store, NULL));
	OK(tfs_table_create(store, "t", 0, 0, 0755));
	OK(tfs_table_open(store, "t", &table));
	OK(tfs_schema_set_text(table, tfs_str(schema), TFS_NO_TIME, NULL));
}

static void end(void)
{
	tfs_table_close(table);
	OK(tfs_close(store));
	bench_remove(dir);
}

/* So that nothing is cached. */
static void reopen(void)
{
	tfs_table_close(table);
	OK(tfs_close(store));
	OK(tfs_open(dir, NULL, &store, NULL));
	OK(tfs_table_open(store, "t", &table));
}

static void put(struct tfs_bytes row, struct tfs_bytes value)
{
	struct tfs_mutation *m = tfs_mutation_new(table, row);

	if (!m)
		exit(1);
	OK(tfs_mutation_put(m, "f", TFS_S(""), tfs_at(1), value));
	OK(tfs_apply(m, 0, NULL));
	tfs_mutation_free(m);
}

static uint64_t scan(struct tfs_bytes from, struct tfs_bytes to, uint64_t limit, const char *must_have)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .row_from = from, .row_to = to, .limit = limit};
	struct tfs_scan *sc;
	struct tfs_cell c;
	uint64_t count = 0;
	int n;

	OK(tfs_scan_new(table, &spec, &sc));
	while ((n = tfs_scan_next(sc, &c)) > 0)
		count += !must_have || memmem(c.row.p, c.row.n, must_have, strlen(must_have));
	OK(n);
	tfs_scan_free(sc);
	return count;
}

static int count_tablet(void *arg, const struct tfs_tablet *t)
{
	++*(unsigned *)arg;
	return 0;
}

/* ---- growing keys ---- */

static void *grow(void *arg)
{
	char value[300], key[24];
	uint64_t i;

	memset(value, 'v', sizeof(value));
	while ((i = next_row++) < rows) {
		snprintf(key, sizeof(key), "%019" PRIu64, i * 1000003);
		for (unsigned k = 0; k < sizeof(value); k += 8)
			memcpy(value + k, &(uint64_t){hash64(tfs_bytes_of(key, 19), k)}, 4);
		put(tfs_bytes_of(key, 19), tfs_bytes_of(value, sizeof(value)));
	}
	return NULL;
}

static void growing(const char *name, const char *schema, bool presplit, unsigned writers)
{
	pthread_t id[16];
	uint64_t from;
	double write, whole, cold, page;
	unsigned tablets = 0;
	char at[24];

	open_new(schema);
	for (unsigned i = 1; presplit && i < 16; i++)
		(void)!tfs_split(table, tfs_bytes_of(&(uint8_t){(uint8_t)i}, 1));
	next_row = 0;
	from = monotonic_us();
	for (unsigned i = 0; i < writers; i++)
		if (pthread_create(&id[i], NULL, grow, NULL))
			exit(1);
	for (unsigned i = 0; i < writers; i++)
		pthread_join(id[i], NULL);
	write = (double)(monotonic_us() - from) / 1e6;
	OK(tfs_compact(table));
	OK(tfs_tablets(table, count_tablet, &tablets));
	reopen();
	from = monotonic_us();
	if (scan((struct tfs_bytes){0}, (struct tfs_bytes){0}, 0, NULL) != rows)
		exit(2);
	cold = (double)(monotonic_us() - from) / 1e6;
	from = monotonic_us();
	(void)scan((struct tfs_bytes){0}, (struct tfs_bytes){0}, 0, NULL);
	whole = (double)(monotonic_us() - from) / 1e6;
	from = monotonic_us();
	for (uint64_t i = 0; i < 1000; i++) {
		snprintf(at, sizeof(at), "%019" PRIu64, (i * 7919 % rows) * 1000003);
		(void)scan(tfs_bytes_of(at, 19), (struct tfs_bytes){0}, 20, NULL);
	}
	page = (double)(monotonic_us() - from) / 1000;
	printf("%-22s %u writers %8.0f rows/s  %2u tablets  scan of all %.2f s cold, %.2f warm  20 rows from a key %.0f us\n", name,
		writers, (double)rows / write, tablets, cold, whole, page);
	fflush(stdout);
	end();
}

/* ---- pages of sites ---- */

#define SITES 400

static size_t page_text(unsigned site, unsigned n, char *p, size_t room)
{
	size_t at = 0;

	/* A site's own head and foot, and words of the page. */
	for (unsigned i = 0; i < 60; i++)
		at += (size_t)snprintf(p + at, room - at, "<div class=\"c%" PRIx64 "\"><a href=\"/%" PRIx64 "\">",
			hash64(tfs_bytes_of(&i, 4), site) & 0xffffff, hash64(tfs_bytes_of(&i, 4), site + 7) & 0xffff);
	for (unsigned i = 0; i < 150; i++)
		at += (size_t)snprintf(
			p + at, room - at, "%" PRIx64 " ", hash64(tfs_bytes_of(&i, 4), (uint64_t)site << 32 | n) % 5000);
	return at;
}

static void pages(bool reversed)
{
	char key[100], text[8192], prefix[40], to[40];
	const unsigned each = (unsigned)(rows / 10 / SITES);
	struct tfs_usage u;
	uint64_t blocks, bytes, from, got;

	open_new(SCHEMA);
	for (unsigned n = 0; n < each; n++)
		for (unsigned s = 0; s < SITES; s++) {
			size_t len = page_text(s, n, text, sizeof(text));

			snprintf(key, sizeof(key), "com.site%03u.www/page%05u", s, n);
			if (!reversed)
				snprintf(key, sizeof(key), "%016" PRIx64 ".www.site%03u.com/page%05u", hash64(tfs_str(key), 0), s,
					n);
			put(tfs_str(key), tfs_bytes_of(text, len));
		}
	OK(tfs_compact(table));
	OK(tfs_usage(table, NULL, &u));
	reopen();
	blocks = metric_of(store, "blocks_read");
	bytes = metric_of(store, "bytes_read");
	from = monotonic_us();
	if (reversed) {
		snprintf(prefix, sizeof(prefix), "com.site123.");
		snprintf(to, sizeof(to), "com.site123/");
		got = scan(tfs_str(prefix), tfs_str(to), 0, NULL);
	} else {
		got = scan((struct tfs_bytes){0}, (struct tfs_bytes){0}, 0, ".site123.com/");
	}
	from = monotonic_us() - from;
	printf("%-22s %.1f:1 on disk; a site's %" PRIu64 " pages of %u: %.1f ms, %" PRIu64 " blocks, %.0f KiB read\n",
		reversed ? "hosts reversed" : "keys hashed", (double)u.raw_bytes / (double)u.disk_bytes, got, each * SITES,
		(double)from / 1000, metric_of(store, "blocks_read") - blocks,
		(double)(metric_of(store, "bytes_read") - bytes) / 1024);
	fflush(stdout);
	end();
}

/* ---- the newest ---- */

static void newest(bool reversed)
{
	const uint64_t each = rows / 100;
	char key[64], a[64], b[64], value[200];
	uint64_t from, bytes, got = 0;

	open_new(SCHEMA);
	memset(value, 'x', sizeof(value));
	for (uint64_t t = 0; t < each; t++)
		for (unsigned s = 0; s < 100; s++) {
			uint64_t us = UINT64_C(1700000000000000) + t * 1000000;

			snprintf(key, sizeof(key), "sensor%02u/%019" PRIu64, s, reversed ? (uint64_t)INT64_MAX - us : us);
			for (unsigned k = 0; k < sizeof(value); k += 8)
				memcpy(value + k, &(uint64_t){hash64(tfs_str(key), k)}, 4);
			put(tfs_str(key), tfs_bytes_of(value, sizeof(value)));
		}
	OK(tfs_compact(table));
	reopen();
	bytes = metric_of(store, "bytes_read");
	from = monotonic_us();
	for (unsigned s = 0; s < 10; s++) {
		snprintf(a, sizeof(a), "sensor%02u/", s * 9);
		snprintf(b, sizeof(b), "sensor%02u0", s * 9);
		got += scan(tfs_str(a), tfs_str(b), reversed ? 10 : 0, NULL);
	}
	from = monotonic_us() - from;
	printf("%-22s the 10 newest of %" PRIu64 ": %.2f ms a sensor, %.0f KiB read, %" PRIu64 " rows\n",
		reversed ? "reversed time" : "time", each, (double)from / 10000,
		(double)(metric_of(store, "bytes_read") - bytes) / 10 / 1024, got / 10);
	fflush(stdout);
	end();
}

int main(int argc, char **argv)
{
	if (argc > 1)
		dir = argv[1];
	if (argc > 2)
		rows = strtoull(argv[2], NULL, 10);
	if (rows < 10000)
		return 2;
	for (unsigned w = 1; w <= 8; w = w == 1 ? 4 : w * 2) {
		growing("growing", SCHEMA, false, w);
		growing("salt 16", "salt = 16; " SCHEMA, false, w);
		growing("salt 16, 16 tablets", "salt = 16; " SCHEMA, true, w);
	}
	pages(true);
	pages(false);
	newest(true);
	newest(false);
	return 0;
}
