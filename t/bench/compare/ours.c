/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our side of the benchmark, through the public tabletfs.h alone: a table of
 * one family; the key is the row, the qualifier is empty, the timestamp as
 * the line has it (enum stamps).
 */
#include "engine/tabletfs.h"
#include "engine/base/file.h"
#include "t/bench/compare/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define TABLE "bench"
#define FAMILY "f"

struct ours {
	struct tfs_store *store;
	struct tfs_table *table;
	enum stamps stamps;
};

static int set_schema(struct ours *u, const struct side_options *o, char **why)
{
	struct buf text = {0};
	int err =
		buf_printf(&text, "families = ({ name = \"" FAMILY "\"; gc = \"%s\"; });\n", o->one_version ? "maxversions=1" : "");

	if (!err && (o->plain || *o->group))
		err = buf_printf(
			&text, "groups = ({ name = \"default\"; %s%s });\n", o->plain ? "compression = \"none\"; " : "", o->group);
	if (!err && o->tablet_bytes)
		err = buf_printf(&text, "tablet_size = \"%llu\";\n", (unsigned long long)o->tablet_bytes);
	if (!err)
		err = tfs_schema_set_text(u->table, buf_bytes(&text), TFS_NO_TIME, why);
	buf_fini(&text);
	return err;
}

static int make_table(struct ours *u, const struct side_options *o, char **why)
{
	int err = tfs_table_create(u->store, TABLE, 0, 0, 0755);
	bool made = !err;

	if (err && err != -EEXIST)
		return err;
	err = tfs_table_open(u->store, TABLE, &u->table);
	return err || !made ? err : set_schema(u, o, why);
}

static void ours_close(void *db)
{
	struct ours *u = db;

	if (u->table)
		tfs_table_close(u->table);
	if (u->store && tfs_close(u->store))
		complain("our store: an error at close");
	free(u);
}

static void *ours_open(const struct side_options *o)
{
	struct ours *u = calloc(1, sizeof(*u));
	struct tfs_options t;
	char *why = NULL;
	int err = u ? 0 : -ENOMEM;

	tfs_options_init(&t);
	t.block_cache_bytes = o->cache_bytes;
	if (o->memtable_bytes)
		t.memtable_bytes = o->memtable_bytes;
	if (!err && o->fresh)
		err = remove_tree(o->dir);
	if (!err)
		err = tfs_open(o->dir, &t, &u->store, &why);
	if (!err)
		err = make_table(u, o, &why);
	if (err) {
		complain("%s", why ? why : strerror(-err));
		free(why);
		if (u)
			ours_close(u);
		return NULL;
	}
	u->stamps = o->stamps;
	return u;
}

static struct tfs_ts stamp(const struct ours *u, uint64_t number)
{
	struct timespec now;

	if (u->stamps == STAMP_AUTO)
		return TFS_AUTO;
	if (u->stamps == STAMP_NUMBER)
		return tfs_at((int64_t)number + 1);
	clock_gettime(CLOCK_REALTIME, &now);
	return tfs_at((int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

static int ours_put(void *db, const char *key, uint64_t number, struct tfs_bytes value, bool sync)
{
	struct ours *u = db;
	struct tfs_mutation *m = tfs_mutation_new(u->table, tfs_bytes_of(key, BENCH_KEY_BYTES));
	int err;

	if (!m)
		return -ENOMEM;
	err = tfs_mutation_put(m, FAMILY, TFS_S(""), stamp(u, number), value);
	if (!err)
		err = tfs_apply(m, sync ? TFS_APPLY_SYNC : 0, NULL);
	tfs_mutation_free(m);
	return err;
}

static long ours_get(void *db, const char *key, void *p, size_t n, uint64_t *sum)
{
	struct ours *u = db;
	size_t got;
	int err = tfs_read(u->table, tfs_bytes_of(key, BENCH_KEY_BYTES), FAMILY, TFS_S(""), TFS_AUTO, 0, p, n, &got, NULL);

	if (err)
		return err;
	*sum += feed_touch(p, got);
	return (long)got;
}

static int ours_scan(void *db, const char *from, const char *to, uint64_t limit, uint64_t *cells, uint64_t *sum)
{
	struct ours *u = db;
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .row_from = tfs_bytes_of(from, BENCH_KEY_BYTES), .limit = limit};
	struct tfs_scan *s;
	struct tfs_cell c;
	uint64_t n = 0;
	int err;

	if (to)
		spec.row_to = tfs_bytes_of(to, BENCH_KEY_BYTES);
	err = tfs_scan_new(u->table, &spec, &s);
	if (err)
		return err;
	while ((err = tfs_scan_next(s, &c)) > 0) {
		n++;
		*sum += feed_touch(c.value.p, c.value.n);
	}
	tfs_scan_free(s);
	*cells = n;
	return err;
}

static int ours_compact(void *db)
{
	struct ours *u = db;

	return tfs_compact(u->table);
}

static int add_table(void *arg, const char *name, bool is_dir)
{
	static const char *const ends[] = {".sst", NULL};
	void **pair = arg;
	uint64_t bytes, *sum = pair[1];
	char *path = path_join(pair[0], name);
	int err = path ? 0 : -ENOMEM;

	if (!err && is_dir)
		err = sum_files(path, ends, &bytes);
	if (!err && is_dir)
		*sum += bytes;
	free(path);
	return err;
}

static int ours_size(const char *dir, uint64_t *bytes)
{
	uint64_t sum = 0;
	char *sst = path_join(dir, "sst");
	void *pair[] = {sst, &sum};
	int err = sst ? file_list(sst, add_table, pair) : -ENOMEM;

	if (!err)
		*bytes = sum;
	free(sst);
	return err;
}

static int count_tablet(void *arg, const struct tfs_tablet *tablet)
{
	++*(unsigned *)arg;
	return 0;
}

static unsigned ours_tablets(void *db)
{
	struct ours *u = db;
	unsigned n = 0;

	return tfs_tablets(u->table, count_tablet, &n) ? 0 : n;
}

static uint64_t ours_split_wait(void *db)
{
	static const char name[] = "\ntabletfs_split_wait_longest_seconds ";
	struct ours *u = db;
	char *text = NULL, *at;
	uint64_t us = 0;

	if (!tfs_metrics(u->store, &text) && (at = strstr(text, name)))
		us = (uint64_t)(strtod(at + strlen(name), NULL) * 1e6);
	free(text);
	return us;
}

const struct side_ops side_ours = {
	.name = "ours",
	.what = "a table of one family, default settings but for --group, explicit timestamps",
	.open = ours_open,
	.close = ours_close,
	.put = ours_put,
	.get = ours_get,
	.scan = ours_scan,
	.compact = ours_compact,
	.size = ours_size,
	.tablets = ours_tablets,
	.split_wait = ours_split_wait,
};
