/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a tablet of METADATA without a server: a merge of the SSTables of its
 * list, clipped to their ranges, and of a memtable that is filled from the logs
 * of its redo set.
 *
 * For repair, a damaged SSTable is a memtable with its readable entries, and the
 * rows around each unreadable stretch are noted (struct offline_gap).
 *
 * Rejected: a tablet whose commit callback refuses.  It would need a log,
 * worker threads and compactions, all of which would have to be disabled.
 */
#include "engine/cell/batch_format.h"
#include "engine/cell/merge.h"
#include "engine/sstable/blockfile_format.h"
#include "engine/base/msg.h"
#include "engine/tablet/tablet_plan.h"
#include "engine/tablet/view.h"
#include "engine/tool/store/offline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

const char *offline_log_dir(const struct offline *store, uint64_t incarnation)
{
	const char *dir = text("%s/log/%" PRIu64, store->dir, incarnation), *sealed = text("%s.dead", dir);
	uint64_t id;

	return file_look_up(sealed, &id) ? dir : sealed;
}

int offline_seal(const struct offline *store, uint64_t incarnation, struct log_seal *seal, char **why)
{
	const char *name = text("seals/%" PRIu64, incarnation), *dir = offline_log_dir(store, incarnation);
	const struct offline_file *f = offline_file(store, name);
	uint64_t id;
	int err = f ? log_seal_decode(buf_bytes(&f->contents), seal) : -ENOENT;

	*why = NULL;
	if (!err && seal->incarnation == incarnation)
		return 1;
	if (!err)
		log_seal_fini(seal);
	if (err == -ENOENT && (!strstr(dir, ".dead") || file_look_up(dir, &id)))
		return 0;
	why_set(why, "%s: its seal, %s/lock/%s, is %s", dir, store->dir, name, f ? "damaged" : "missing or damaged");
	return -EBADMSG;
}

int offline_replay(const struct offline *store, uint64_t incarnation, uint64_t from, log_replay_fn *fn, void *arg,
	struct log_end *end, char **why)
{
	const char *dir = offline_log_dir(store, incarnation);
	struct log_seal seal;
	int err = offline_seal(store, incarnation, &seal, why);

	if (err < 0)
		return err;
	if (!err)
		return log_replay(dir, from, fn, arg, end, why);
	err = log_replay_sealed(dir, &seal, from, fn, arg, end, why);
	log_seal_fini(&seal);
	return err;
}

const char *offline_sst_path(const struct offline *store, const struct tablet_file *f)
{
	char *path = tablet_file_path(store->dir, f->table, f->incarnation, f->number);
	const char *out = path ? text("%s", path) : NULL;

	if (!out)
		no_memory();
	free(path);
	return out;
}

/* ---- files below sst/ ---- */

/* An SSTable whose identity does not match its path. */
struct offline_stray {
	const char *path;
	uint64_t identity;
};

struct listing {
	struct offline *store;
	const char *dir;
};

static int add_stray(void *arg, const char *name, bool is_dir)
{
	const struct listing *l = arg;
	struct listing below = {l->store, text("%s/%s", l->dir, name)};
	uint64_t identity = is_dir ? 0 : sst_identity(below.dir);

	if (is_dir)
		return file_list(below.dir, add_stray, &below);
	if (!identity || identity == bff_identity(below.dir))
		return 0;
	tool_grow(l->store->strays, l->store->stray_count);
	l->store->strays[l->store->stray_count++] = (struct offline_stray){below.dir, identity};
	return 0;
}

const char *offline_sst_find(struct offline *store, const struct tablet_file *f)
{
	const char *path = offline_sst_path(store, f);
	const uint64_t identity = bff_identity(path);
	struct listing l = {store, text("%s/sst", store->dir)};

	if (sst_identity(path) == identity)
		return path;
	if (!store->strays_listed)
		(void)!file_list(l.dir, add_stray, &l);
	store->strays_listed = true;
	for (unsigned i = 0; i < store->stray_count; i++)
		if (store->strays[i].identity == identity)
			return store->strays[i].path;
	return path;
}

struct sst_listing {
	struct report *r;
	offline_sst_fn *fn;
	void *arg;
	const char *dir;
	uint32_t table;
};

static int list_file(void *arg, const char *name, bool is_dir)
{
	const struct sst_listing *l = arg;
	uint64_t incarnation, number;

	if (!is_dir && meta_sstable_parse(name, &incarnation, &number))
		return l->fn(l->arg, l->table, incarnation, number);
	report_note(l->r, "%s/%s: not a part of the store; no mount removes it", l->dir, name);
	return 0;
}

static int list_table(void *arg, const char *name, bool is_dir)
{
	struct sst_listing below = *(const struct sst_listing *)arg;
	char *end;
	unsigned long id = strtoul(name, &end, 10);

	below.dir = text("%s/%s", below.dir, name);
	below.table = (uint32_t)id;
	if (is_dir && !*end && id && id <= UINT32_MAX)
		return file_list(below.dir, list_file, &below);
	report_note(below.r, "%s: not a table's directory; no mount removes it", below.dir);
	return 0;
}

int offline_list_ssts(const struct offline *store, struct report *r, offline_sst_fn *fn, void *arg)
{
	struct sst_listing l = {r, fn, arg, text("%s/sst", store->dir), 0};

	return file_list(l.dir, list_table, &l);
}

/* ---- logs ---- */

struct tablet_replay {
	const struct offline_view *v;
	struct plan plan;
};

static int replay_record(void *arg, const struct log_record *r)
{
	struct tablet_replay *f = arg;
	const struct meta_tablet *t = f->v->t;
	struct batch_reader b;
	struct batch_cell c;
	int err;

	if (r->table != t->table || bytes_cmp(r->row_from, buf_bytes(&t->begin)) < 0 ||
		(!t->last && bytes_cmp(r->row_from, buf_bytes(&t->end)) >= 0))
		return 0;
	err = batch_open(&b, r->batch);
	plan_reset(&f->plan);
	while (!err && (err = batch_next(&b, &c)) > 0)
		err = plan_cell(&f->plan, b.row, &c);
	if (!err)
		err = plan_prepare(&f->plan, f->v->mem, r->seq, b.commit);
	if (!err)
		plan_insert(&f->plan, f->v->mem);
	return err;
}

static int replay_logs(struct offline_view *v)
{
	struct tablet_replay f = {.v = v};
	int err = 0;

	plan_init(&f.plan);
	for (unsigned i = 0; i < v->t->redo_count && !err; i++) {
		const char *dir = offline_log_dir(v->store, v->t->redo[i].incarnation);
		struct log_end end;
		char *why = NULL;

		if (v->store->replay)
			err = v->store->replay(
				v->store->replay_arg, v->t->redo[i].incarnation, v->t->redo[i].lsn, replay_record, &f, &end, &why);
		else
			err = offline_replay(v->store, v->t->redo[i].incarnation, v->t->redo[i].lsn, replay_record, &f, &end, &why);
		if (err == -EBADMSG || err == -ENOENT) {
			report_problem(v->r, "%s", why ? why : dir);
			v->part_missing = true;
			err = 0;
		} else if (err) {
			complain("%s: %s", why ? why : dir, strerror(-err));
		}
		free(why);
	}
	plan_fini(&f.plan);
	return err;
}

/* ---- SSTables ---- */

int offline_gap_add(struct offline_gaps *g, struct tfs_bytes from, struct tfs_bytes to)
{
	struct offline_gap gap = {0};
	int err = buf_set(&gap.from, from.p, from.n);

	if (!err && to.p)
		err = buf_set(&gap.to, to.p, to.n);
	tool_grow(g->v, g->count);
	g->v[g->count++] = gap;
	return err;
}

int offline_gaps_row(struct offline_gaps *g, struct tfs_bytes row)
{
	int err = g->open ? offline_gap_add(g, buf_bytes(&g->row), row) : 0;

	g->open = false;
	return err ? err : buf_set(&g->row, row.p, row.n);
}

int offline_gaps_end(struct offline_gaps *g)
{
	int err = g->open ? offline_gap_add(g, buf_bytes(&g->row), (struct tfs_bytes){NULL, 0}) : 0;

	g->open = false;
	buf_reset(&g->row);
	return err;
}

void offline_gaps_fini(struct offline_gaps *g)
{
	for (unsigned i = 0; i < g->count; i++) {
		buf_fini(&g->v[i].from);
		buf_fini(&g->v[i].to);
	}
	free(g->v);
	buf_fini(&g->row);
	*g = (struct offline_gaps){0};
}

struct salvage {
	struct offline_gaps *gaps;
	struct memtable *m;
	struct buf scratch;
};

/* An sst_salvage_fn. */
static int salvage_entry(void *arg, struct tfs_bytes key, struct tfs_bytes value)
{
	struct salvage *s = arg;
	struct memnode *node;
	struct cellkey k;
	int err = key.p && value.p ? cellkey_decode(key, &k, &s->scratch) : -EBADMSG;

	if (err == -EBADMSG) {
		s->gaps->open = true;
		return 0;
	}
	if (!err)
		err = offline_gaps_row(s->gaps, k.row);
	if (!err)
		err = memtable_prepare(s->m, key, value, &node);
	if (!err)
		memtable_insert(s->m, node, true);
	return err;
}

/* Makes an iterator over the readable entries of a file; a missing file has no entries. */
static int salvaged_iter(struct offline *store, const struct tablet_file *f, const char *at, struct iter **out)
{
	struct salvage s = {.gaps = &store->gaps};
	int err = memtable_new(&s.m);

	if (!err)
		err = sst_salvage(at, offline_sst_path(store, f), f->bytes, salvage_entry, &s);
	if (err == -ENOENT || err == -EBADMSG) {
		err = 0;
		s.gaps->open = true;
	}
	if (!err)
		err = offline_gaps_end(s.gaps);
	if (!err)
		err = memtable_iter_new(s.m, out);
	memtable_put(s.m);
	buf_fini(&s.scratch);
	return err;
}

/* For repair: *out is NULL if the file is undamaged. */
static int damaged_iter(struct offline_view *v, const struct tablet_file *f, struct iter **out)
{
	const char *path = offline_sst_path(v->store, f), *at = offline_sst_find(v->store, f);
	char *why = NULL;
	uint64_t keys;
	int err = at == path || strcmp(at, path) == 0 ? sst_verify(path, f->bytes, &keys, &why) : -EBADMSG;

	*out = NULL;
	if (err == -EBADMSG || err == -ENOENT) {
		report_problem(v->r, "%s",
			why                      ? why
				: err == -ENOENT ? text("%s: missing; it holds rows of METADATA", path)
						 : text("%s: another SSTable is in its place; %s is this file", path, at));
		v->store->meta_damaged = true;
		err = salvaged_iter(v->store, f, at, out);
	}
	free(why);
	return err;
}

/* Makes an iterator over the tablet's rows of f; *out is NULL if the file cannot be read. */
static int file_iter(struct offline_view *v, const struct tablet_file *f, struct iter **out)
{
	const struct meta_tablet *t = v->t;
	struct tfs_bytes begin = buf_bytes(&t->begin), end = t->last ? (struct tfs_bytes){NULL, 0} : buf_bytes(&t->end);
	struct buf from = {0}, to = {0};
	struct iter *it = NULL;
	struct sst *s = NULL;
	uint64_t bytes;
	const char *path = offline_sst_path(v->store, f);
	int err = v->store->replay ? damaged_iter(v, f, &it) : file_stat_size(path, &bytes);

	*out = NULL;
	if (bytes_cmp(buf_bytes(&f->begin), begin) > 0)
		begin = buf_bytes(&f->begin);
	if (f->end.p && (!end.p || bytes_cmp(buf_bytes(&f->end), end) < 0))
		end = buf_bytes(&f->end);
	if (!err)
		err = cellkey_row_prefix(&from, begin);
	if (!err && end.p)
		err = cellkey_row_prefix(&to, end);
	if (!err && !it)
		err = sst_new(v->store->cache, path, false, &s);
	if (!err && !it) {
		sst_expect_bytes(s, f->bytes);
		err = sst_scan_new(s, &it);
	}
	if (err == -EBADMSG || err == -ENOENT) {
		v->part_missing = true;
		report_problem(v->r, "%s: %s; it holds rows of METADATA", path, err == -ENOENT ? "missing" : "damaged");
		err = 0;
	} else if (!err) {
		err = clip_iter_new(it, buf_bytes(&from), end.p ? buf_bytes(&to) : (struct tfs_bytes){NULL, 0}, out);
	}
	sst_put(s);
	buf_fini(&from);
	buf_fini(&to);
	return err;
}

static int merge_sources(struct offline_view *v, struct iter **out)
{
	const struct meta_tablet *t = v->t;
	struct iter **children = calloc(t->file_count + 1, sizeof(struct iter *));
	unsigned n = 0;
	int err = children ? memtable_iter_new(v->mem->m, &children[0]) : -ENOMEM;

	n += !err;
	for (unsigned i = 0; i < t->file_count && !err; i++) {
		err = file_iter(v, &t->files[i], &children[n]);
		n += children[n] != NULL;
	}
	err = merge_iter_new(children, n, err, out);
	free(children);
	return err;
}

int offline_view_open(struct offline_view *v, struct iter **out)
{
	int err = vmem_new(&v->memory, &v->mem);

	if (!err)
		err = replay_logs(v);
	return err ? err : merge_sources(v, out);
}

void offline_view_close(struct offline_view *v)
{
	vmem_put(v->mem);
	v->mem = NULL;
}

struct size {
	const char *dir;
	uint64_t bytes;
};

static int add_size(void *arg, const char *name, bool is_dir)
{
	struct size *s = arg;
	const char *path = text("%s/%s", s->dir, name);
	uint64_t bytes = 0;

	if (is_dir)
		bytes = offline_bytes(path);
	else if (file_stat_size(path, &bytes))
		bytes = 0;
	s->bytes += bytes;
	return 0;
}

uint64_t offline_bytes(const char *dir)
{
	struct size s = {.dir = dir};

	(void)!file_list(dir, add_size, &s);
	return s.bytes;
}
