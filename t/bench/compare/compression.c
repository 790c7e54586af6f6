/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletbench compression: what the settings of a locality group make of
 * web pages (paper, section 6: 10:1 where gzip of each page makes 3 or 4).
 *
 * Two corpora, rows in the order of reversed hosts:
 *	docs   the HTML of the Debian packages python3-doc (python3.11-doc) and
 *	       postgresql-doc-15, from / or from the directory in TABLETFS_DOCS
 *	sites  made pages, pages.c
 * Each setting has a fresh store, one table of one family, and a major
 * compaction; then once more with three versions of each page.
 *
 *	gzip     of every eighth page alone, by the gzip of the system, level 6
 *	ratio    bytes of values / bytes of the SSTables, all that is in them
 *	write    MB of values a second of processor time, the major compaction
 *	decode   MB of values a second of one thread: read from the kernel's
 *	         cache, checksum, decompression
 *	scan     MB of values a second of processor time, all read by the library
 *	three    size with three versions / size with one
 */
#include "engine/base/file.h"
#include "engine/sstable/sstable.h"
#include "engine/tabletfs.h"
#include "t/bench/compare/bench.h"
#include "t/bench/compare/pages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TABLE "pages"
#define FAMILY "contents"

enum {
	SITE_PAGES = 1000, /* the pages of each site */
	GZIP_EVERY = 8,
	VERSIONS = 3,
	DECODE_ROUNDS = 3,
};

struct page {
	struct buf row, html;
};

struct corpus {
	const char *name;
	struct page *pages;
	size_t n;
	uint64_t bytes;
	double gzip;
};

struct setting {
	const char *codec, *level, *block;
};
static const struct setting settings[] = {
	{"snappy", "3", "64K"},
	{"lz4", "3", "64K"},
	{"zstd", "3", "64K"},
	{"zstd", "9", "64K"},
	{"zstd", "9", "1M"},
	{"zstd-dict", "3", "16K"},
	{"zstd-dict", "3", "64K"},
	{"zstd-dict", "9", "64K"},
	{"zstd-dict", "15", "64K"},
	{"zstd-dict", "9", "1M"},
};
#define SETTINGS (sizeof(settings) / sizeof(*settings))

struct result {
	uint64_t bytes;
	double compact_s, decode_s, scan_s;
	uint64_t decoded, scanned;
};

static double clock_seconds(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- corpora ---- */

static struct page *add_page(struct corpus *c)
{
	struct page *p = reallocarray(c->pages, c->n + 1, sizeof(*p));

	if (!p)
		return NULL;
	c->pages = p;
	p[c->n] = (struct page){0};
	return &p[c->n++];
}

static void corpus_fini(struct corpus *c)
{
	for (size_t i = 0; i < c->n; i++) {
		buf_fini(&c->pages[i].row);
		buf_fini(&c->pages[i].html);
	}
	free(c->pages);
	*c = (struct corpus){.name = c->name};
}

static int read_whole(const char *path, struct buf *out)
{
	struct file *f;
	uint64_t bytes;
	size_t got = 0;
	int err = file_open(path, FILE_READ, &f);

	if (err)
		return err;
	err = file_size(f, &bytes);
	if (!err)
		err = buf_reserve(out, (size_t)bytes + 1);
	if (!err)
		err = file_pread(f, out->p, (size_t)bytes, 0, &got);
	out->n = err ? 0 : got;
	file_close(f);
	return err;
}

struct walk_html {
	struct corpus *c;
	const char *dir, *row; /* where we are, and the row of it */
};

static int take_html(void *arg, const char *name, bool is_dir)
{
	struct walk_html *w = arg, below = {.c = w->c};
	size_t n = strlen(name);
	char *path = path_join(w->dir, name), *row = NULL;
	struct page *p;
	int err = -ENOMEM;

	if (!path || asprintf(&row, "%s/%s", w->row, name) < 0) {
		row = NULL;
		goto out;
	}
	err = 0;
	if (is_dir) {
		below.dir = path;
		below.row = row;
		err = file_list(path, take_html, &below);
	} else if (n > 5 && strcmp(name + n - 5, ".html") == 0) {
		p = add_page(w->c);
		err = p ? buf_append(&p->row, row, strlen(row)) : -ENOMEM;
		if (!err)
			err = read_whole(path, &p->html);
	}
out:
	free(path);
	free(row);
	return err;
}

static int load_docs(struct corpus *c)
{
	static const char *const from[][2] = {{"usr/share/doc/python3.11/html", "org.python.docs"},
		{"usr/share/doc/postgresql-doc-15/html", "org.postgresql.www"}};
	const char *root = getenv("TABLETFS_DOCS");
	int err = 0;

	for (unsigned i = 0; i < 2 && !err; i++) {
		char *dir = path_join(root ? root : "/", from[i][0]);
		struct walk_html w = {.c = c, .dir = dir, .row = from[i][1]};

		err = dir ? file_list(dir, take_html, &w) : -ENOMEM;
		free(dir);
	}
	return err;
}

static int make_sites(struct corpus *c)
{
	int err = 0;

	for (unsigned site = 0; site < PAGES_SITES; site++)
		for (unsigned i = 0; i < SITE_PAGES && !err; i++) {
			struct page *p = add_page(c);

			err = p ? pages_make(site, i, &p->row, &p->html) : -ENOMEM;
		}
	return err;
}

static int by_row(const void *a, const void *b)
{
	return bytes_cmp(buf_bytes(&((const struct page *)a)->row), buf_bytes(&((const struct page *)b)->row));
}

/* Bytes that gzip makes of one page, through a file and a pipe. */
static int gzip_bytes(const char *dir, struct tfs_bytes html, uint64_t *bytes)
{
	char *command = NULL, *path = path_join(dir, "page");
	unsigned long long n = 0;
	FILE *f = NULL;
	int err = -ENOMEM;

	if (!path || asprintf(&command, "gzip -6 -c '%s' | wc -c", path) < 0) {
		command = NULL;
		goto out;
	}
	err = file_replace(path, html);
	if (err)
		goto out;
	f = popen(command, "r");
	err = f && fscanf(f, "%llu", &n) == 1 && n ? 0 : -EIO;
	*bytes = n;
out:
	if (f)
		pclose(f);
	free(command);
	free(path);
	return err;
}

static int finish_corpus(struct corpus *c, const char *dir)
{
	uint64_t raw = 0, packed = 0, n = 0;
	int err = 0;

	qsort(c->pages, c->n, sizeof(*c->pages), by_row);
	for (size_t i = 0; i < c->n && !err; i++) {
		c->bytes += c->pages[i].html.n;
		if (i % GZIP_EVERY)
			continue;
		err = gzip_bytes(dir, buf_bytes(&c->pages[i].html), &n);
		raw += c->pages[i].html.n;
		packed += n;
	}
	if (!err && packed)
		c->gzip = (double)raw / (double)packed;
	return err;
}

/* ---- one store ---- */

static int set_group(struct tfs_table *t, enum tfs_schema_op op, const char *value)
{
	struct tfs_schema_edit e = {.op = op, .name = "default", .value = value};

	return tfs_schema_change(t, &e, NULL);
}

static int make_table(struct tfs_store *s, const struct setting *set, struct tfs_table **out)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_ADD, .name = FAMILY, .mode = 0644};
	struct tfs_table *t;
	int err = tfs_table_create(s, TABLE, 0, 0, 0755);

	if (!err)
		err = tfs_table_open(s, TABLE, &t);
	if (err)
		return err;
	err = tfs_schema_change(t, &e, NULL);
	if (!err)
		err = set_group(t, TFS_SCHEMA_GROUP_COMPRESSION, set->codec);
	if (!err)
		err = set_group(t, TFS_SCHEMA_GROUP_LEVEL, set->level);
	if (!err)
		err = set_group(t, TFS_SCHEMA_GROUP_BLOCK_SIZE, set->block);
	if (err)
		tfs_table_close(t);
	else
		*out = t;
	return err;
}

static int put_page(struct tfs_table *t, const struct page *p, uint64_t seed, unsigned versions)
{
	struct tfs_mutation *m = tfs_mutation_new(t, buf_bytes(&p->row));
	struct buf last = {0}, next = {0}, spare;
	int err = m ? buf_set(&last, p->html.p, p->html.n) : -ENOMEM;

	for (unsigned i = 0; i < versions && !err; i++) {
		if (i) {
			err = pages_edit(buf_bytes(&last), seed * VERSIONS + i, &next);
			spare = last;
			last = next;
			next = spare;
		}
		if (!err)
			err = tfs_mutation_put(m, FAMILY, TFS_S("html"), tfs_at((int64_t)i + 1), buf_bytes(&last));
	}
	if (!err)
		err = tfs_apply(m, 0, NULL);
	tfs_mutation_free(m);
	buf_fini(&last);
	buf_fini(&next);
	return err;
}

static int scan(struct tfs_table *t, uint64_t *bytes)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	struct tfs_scan *s;
	struct tfs_cell c;
	uint64_t sum = 0;
	int err = tfs_scan_new(t, &spec, &s);

	if (err)
		return err;
	*bytes = 0;
	while ((err = tfs_scan_next(s, &c)) > 0) {
		sum += feed_touch(c.value.p, c.value.n);
		*bytes += c.value.n;
	}
	tfs_scan_free(s);
	return err;
}

struct files {
	const char *dir;
	struct result *r;
};

static int take_file(void *arg, const char *name, bool is_dir)
{
	const struct files *f = arg;
	char *path = path_join(f->dir, name);
	struct sst_cache *cache = NULL;
	struct sst *t = NULL;
	struct tfs_bytes value;
	uint64_t size = 0;
	int err = path ? 0 : -ENOMEM;

	if (err || is_dir)
		goto out;
	err = sst_cache_new(1 << 20, 1 << 20, &cache);
	if (!err)
		err = sst_new(cache, path, false, &t);
	for (unsigned round = 0; round <= DECODE_ROUNDS && !err; round++) {
		double began = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
		struct iter *it;

		err = sst_scan_new(t, &it);
		if (err)
			break;
		for (iter_seek(it, tfs_str("")); it->valid && !err; iter_next(it)) {
			err = iter_value(it, &value);
			f->r->decoded += round ? value.n : 0;
		}
		err = err ? err : it->err;
		iter_free(it);
		if (round) /* the first one fills the kernel's cache */
			f->r->decode_s += clock_seconds(CLOCK_THREAD_CPUTIME_ID) - began;
	}
	if (!err)
		err = file_stat_size(path, &size);
	f->r->bytes += size;
	sst_put(t);
	if (cache)
		sst_cache_free(cache);
out:
	free(path);
	return err;
}

/* The files of the user table: all directories but METADATA's. */
static int take_dir(void *arg, const char *name, bool is_dir)
{
	struct files *f = arg, below = {.r = f->r};
	char *path = path_join(f->dir, name);
	int err = path ? 0 : -ENOMEM;

	if (!err && is_dir && strcmp(name, "1") != 0) {
		below.dir = path;
		err = file_list(path, take_file, &below);
	}
	free(path);
	return err;
}

static int measure_store(const struct corpus *c, const struct setting *set, unsigned versions, const char *dir, struct result *r)
{
	struct tfs_options o;
	struct tfs_store *s = NULL;
	struct tfs_table *t = NULL;
	struct files f = {.r = r};
	char *sst = path_join(dir, "sst"), *why = NULL;
	double began;
	int err = sst ? remove_tree(dir) : -ENOMEM;

	*r = (struct result){0};
	tfs_options_init(&o);
	if (!err)
		err = tfs_open(dir, &o, &s, &why);
	if (err && why)
		complain("%s", why);
	if (!err)
		err = make_table(s, set, &t);
	for (size_t i = 0; i < c->n && !err; i++)
		err = put_page(t, &c->pages[i], i, versions);
	if (!err)
		err = tfs_flush(t); /* so that the compaction reads files, as it would later */
	began = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
	if (!err)
		err = tfs_compact(t);
	r->compact_s = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - began;
	began = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
	if (!err)
		err = scan(t, &r->scanned);
	r->scan_s = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - began;
	if (t)
		tfs_table_close(t);
	if (s && tfs_close(s) && !err)
		err = -EIO;
	f.dir = sst;
	if (!err)
		err = file_list(sst, take_dir, &f);
	if (remove_tree(dir) && !err)
		err = -EIO;
	free(sst);
	free(why);
	return err;
}

static double rate(uint64_t bytes, double seconds)
{
	return seconds > 0 ? (double)bytes / seconds / 1e6 : 0;
}

static int measure_setting(const struct corpus *c, const struct setting *set, const char *dir)
{
	struct result one, three;
	int err = measure_store(c, set, 1, dir, &one);
	double ratio;

	if (!err)
		err = measure_store(c, set, VERSIONS, dir, &three);
	if (err) {
		complain("%s, %s %s %s: %s", c->name, set->codec, set->level, set->block, strerror(-err));
		return err;
	}
	ratio = (double)c->bytes / (double)one.bytes;
	printf("%-6s %-9s %5s %5s %6.2f %7.2f %6.2f %7.0f %7.0f %7.0f %6.2f\n", c->name, set->codec, set->level, set->block,
		c->gzip, ratio, ratio / c->gzip, rate(c->bytes, one.compact_s), rate(one.decoded, one.decode_s),
		rate(one.scanned, one.scan_s), (double)three.bytes / (double)one.bytes);
	fflush(stdout);
	return 0;
}

static int measure_corpus(const struct bench_options *o, struct corpus *c, int (*load)(struct corpus *))
{
	const char *dir = o->dirs[0];
	char name[64];
	int err = load(c);

	if (err == -ENOENT || err == -ENOTDIR) {
		printf("%-6s not measured: no pages of python3.11-doc and postgresql-doc-15 under %s (t/bench/compression.sh fetches them)\n",
			c->name, getenv("TABLETFS_DOCS") ? getenv("TABLETFS_DOCS") : "/");
		err = 0;
		goto out;
	}
	if (!err)
		err = file_mkdir(dir);
	if (!err)
		err = finish_corpus(c, dir);
	if (err) {
		complain("%s: %s", c->name, strerror(-err));
		goto out;
	}
	printf("%-6s %zu pages, %.1f MB\n", c->name, c->n, (double)c->bytes / 1e6);
	for (unsigned i = 0; i < SETTINGS && !err; i++) {
		snprintf(name, sizeof(name), "%s-%s-%s", settings[i].codec, settings[i].level, settings[i].block);
		if (line_wanted(o, name))
			err = measure_setting(c, &settings[i], dir);
	}
out:
	corpus_fini(c);
	return err;
}

static int run(const struct bench_options *o)
{
	struct corpus docs = {.name = "docs"}, sites = {.name = "sites"};
	int err;

	printf("corpus codec     level block   gzip   ratio x gzip   write  decode    scan  three\n");
	err = measure_corpus(o, &docs, load_docs);
	return err ? err : measure_corpus(o, &sites, make_sites);
}

const struct bench_kind bench_compression = {
	.name = "compression",
	.lines =
		" snappy-3-64K lz4-3-64K zstd-3-64K zstd-9-64K zstd-9-1M zstd-dict-3-16K zstd-dict-3-64K zstd-dict-9-64K zstd-dict-15-64K"
		" zstd-dict-9-1M ",
	.run = run,
	.feeds_itself = true,
};
