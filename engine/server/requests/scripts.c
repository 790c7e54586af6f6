/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scripts of scans: the expression that selects rows (row_script), and a run over the rows.
 * A worker process (engine/script) has the rows of one request only, and then serves the next
 * request.  So a client that does not ask for the rest of its scan holds no worker.
 *
 * A run answers with the partial outputs of the rows that the request has read, and with the
 * last of these rows.  A client whose scan is lost continues after that row, and each row is
 * in one partial output.  A request ends between two rows, when it has worked for a second, or when much
 * output waits.  At the tablet's end the answer has an output even if no row was read, so that a run over
 * no rows has the outputs of its declarations.
 *
 * A script whose text reads no cells gets the keys of rows only, so that no value is read.
 *
 * An expression sees the whole row.  For each row that the scan finds, its cells are read again.  When
 * this has taken a second, the batch ends with its next cell, or with a row that the expression refuses.
 *
 * A request takes the places for all of its workers together; one that held a place and waited for another would keep
 * others waiting that do the same.  If there is no room in time, the answer has no cells, and the client asks again.
 */
#include "engine/server/requests/requests.h"
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/script/script.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define SLICE_US 1000000u
#define OUTPUT_BYTES ((size_t)1 << 20)
#define WORKERS_MOST 64u
#define PLACE_WAIT_US 2000000u

struct scripts {
	struct script_pool *pool;
	_Atomic unsigned workers_of_user;
};

/* The scripts of one scan. */
struct scan_script {
	struct arena arena;
	struct script_text filter, run; /* text.p NULL: none */
	struct scan_spec row;           /* reads one row for the filter */
	uint32_t uid;
	size_t batch_bytes; /* of a batch of the scan */
	/* The rest is of the run. */
	struct scan_batch batch; /* cells of the scan; those from `at` on have not been run */
	uint32_t at;
	bool end; /* the scan has no cells after the batch */
	struct buf last;
};

/* One request's use of the scripts. */
struct use {
	struct served_tablet *served;
	struct scan_script *script;
	const struct schema *schema; /* names of families */
	struct tablet_scan *scan;
	uint64_t until_us; /* monotonic: the request has worked for long */
	struct script_run *filter, *run;
	struct buf why;
};

/* ---- rows ---- */

static const char *family_name(const struct use *u, uint16_t id)
{
	const struct tfs_family *f = u->schema ? schema_family_by_id(schema_public(u->schema), id) : NULL;

	return f ? f->name : "";
}

/* The key without its salt. */
static struct tfs_bytes key_of(const struct use *u, struct tfs_bytes row)
{
	const size_t salt = u->script->row.row_salted && row.n;

	return tfs_bytes_of(row.p + salt, row.n - salt);
}

static int add_cell(struct use *u, struct script_run *run, const struct tfs_cell *c)
{
	const struct script_cell cell = {.row = key_of(u, c->row),
		.family = tfs_str(family_name(u, c->family_id)),
		.qualifier = c->qualifier,
		.value = c->value,
		.ts = c->ts};

	/* A family that the schema lacks was dropped, or is younger than this server's schema. */
	return cell.family.n ? script_run_cell(run, &cell, &u->why) : 0;
}

/* Decides if the scan returns the row (struct row_check). */
static int check_row(void *arg, struct tfs_bytes row)
{
	struct use *u = arg;
	struct scan_spec spec = u->script->row;
	struct scan_batch b = {0};
	struct buf verdict = {0};
	struct tablet_scan *scan = NULL;
	int err;

	spec.pub.row_from = row;
	if (u->script->filter.rows_only)
		err = script_run_row(u->filter, key_of(u, row), &u->why);
	else
		err = tablet_scan_new(u->served->tablet, &spec, &scan);
	while (!err && scan && !b.done) {
		err = tablet_scan_fill(scan, &b);
		for (uint32_t i = 0; i < b.count && !err; i++)
			err = add_cell(u, u->filter, &b.cells[i]);
	}
	if (!err)
		err = script_run_take(u->filter, &verdict, &u->why);
	if (!err)
		err = verdict.n && verdict.p[0];
	if (err >= 0 && monotonic_us() >= u->until_us) {
		tablet_scan_set_batch(u->scan, 1);
		err = err ? err : ROW_CHECK_PAUSE;
	}
	tablet_scan_free(scan);
	scan_batch_fini(&b);
	buf_fini(&verdict);
	return err;
}

/* Runs rows of the scan until the request has done enough.  *rows and *cells: how many were run. */
static int run_rows(struct use *u, uint64_t *rows, uint64_t *cells)
{
	struct scan_script *x = u->script;
	int err = 0;

	while (!err) {
		const struct tfs_cell *c = &x->batch.cells[x->at];

		if (x->at == x->batch.count) {
			if (x->end || (!*rows && monotonic_us() >= u->until_us))
				break;
			err = tablet_scan_fill(u->scan, &x->batch);
			x->at = 0;
			x->end = !err && x->batch.done;
			continue;
		}
		if (!*rows || !bytes_eq(c->row, buf_bytes(&x->last))) {
			if (*rows && (monotonic_us() >= u->until_us || script_run_waiting(u->run) >= OUTPUT_BYTES))
				break;
			err = buf_set(&x->last, c->row.p, c->row.n);
			++*rows;
		}
		if (!err)
			err = x->run.rows_only ? script_run_row(u->run, key_of(u, c->row), &u->why) : add_cell(u, u->run, c);
		*cells += !err;
		x->at += !err;
	}
	return err;
}

/* Makes the cell the only one of the batch, which is empty. */
static int batch_set(struct scan_batch *b, struct tfs_cell cell)
{
	if (!b->cap) {
		b->cells = calloc(1, sizeof(*b->cells));
		b->cap = b->cells != NULL;
	}
	if (!b->cap || !arena_dup(&b->arena, cell.row, &cell.row) || !arena_dup(&b->arena, cell.value, &cell.value))
		return -ENOMEM;
	b->cells[0] = cell;
	b->count = 1;
	return 0;
}

static int fill_run(struct use *u, struct scan_batch *b)
{
	struct tfs_cell answer = {.expires_us = INT64_MAX};
	struct buf delta = {0};
	int err = run_rows(u, &answer.size, &answer.sequence);

	if (!err)
		err = script_run_take(u->run, &delta, &u->why);
	answer.row = buf_bytes(&u->script->last);
	answer.value = buf_bytes(&delta);
	b->done = !err && u->script->end && u->script->at == u->script->batch.count;
	b->damaged = u->script->batch.damaged;
	/* A run over no rows: any row may stand for it. */
	if (!err && b->done && !answer.row.n)
		answer.row = tfs_str("!");
	if (!err && (answer.size || b->done))
		err = batch_set(b, answer);
	buf_fini(&delta);
	return err;
}

/* Errors that end a run for good. */
static bool is_of_script(int err)
{
	return err == -EINVAL || err == -SCRIPT_LIMIT || err == -SCRIPT_DIED;
}

static int answer_error(struct use *u, struct scan_batch *b, int err)
{
	const struct tfs_cell answer = {.row = tfs_str("!"),
		.family_id = SCAN_SCRIPT_FAILED,
		.ts = err,
		.value = buf_bytes(&u->why),
		.expires_us = INT64_MAX};

	scan_batch_reset(b);
	b->done = true;
	return batch_set(b, answer);
}

int scripts_fill(struct scripts *scripts, struct server *s, struct open_scan *o, struct scan_batch *b)
{
	struct scan_script *x = o->script;
	struct use u = {.served = o->served, .script = x, .scan = o->scan};
	const unsigned places = (x->run.text.p != NULL) + (x->filter.text.p != NULL);
	int err = script_pool_take(scripts->pool, x->uid, places,
		atomic_load_explicit(&scripts->workers_of_user, memory_order_relaxed), PLACE_WAIT_US);

	scan_batch_reset(b);
	b->done = false;
	if (err)
		return err == -EAGAIN ? 0 : err;
	u.until_us = monotonic_us() + SLICE_US;
	if (o->served->user_table)
		u.schema = user_table_access(s, o->served->user_table);
	if (x->run.text.p)
		err = script_run_new(scripts->pool, x->uid, &x->run, &u.run, &u.why);
	if (!err && x->filter.text.p)
		err = script_run_new(scripts->pool, x->uid, &x->filter, &u.filter, &u.why);
	if (!err) {
		tablet_scan_set_batch(o->scan, x->batch_bytes);
		tablet_scan_check_rows(o->scan, u.filter ? check_row : NULL, &u);
		err = u.run ? fill_run(&u, b) : tablet_scan_fill(o->scan, b);
		tablet_scan_check_rows(o->scan, NULL, NULL);
	}
	script_run_free(u.filter);
	script_run_free(u.run);
	script_pool_give(scripts->pool, x->uid, places);
	schema_put(u.schema);
	if (is_of_script(err) && u.why.n && x->run.text.p)
		err = answer_error(&u, b, err);
	else if (is_of_script(err) && u.why.n)
		msg_warning("lua=: %s", Q(buf_bytes(&u.why)));
	buf_fini(&u.why);
	return err;
}

/* ---- the scripts of a scan ---- */

static int text_own(struct scan_script *x, struct script_text *t, struct tfs_bytes name, struct tfs_bytes text)
{
	return !arena_dup(&x->arena, name, &t->name) || !arena_dup(&x->arena, text, &t->text) ? -ENOMEM : 0;
}

/* args: texts "KEY=VALUE", each with a zero byte behind it.  Sets the arguments of the run. */
static int args_own(struct scan_script *x, struct tfs_bytes args)
{
	struct tfs_bytes *list;
	unsigned count = 0;

	for (size_t i = 0; i < args.n; i++)
		count += args.p[i] == 0;
	if (args.n && (args.p[args.n - 1] != 0 || !arena_dup(&x->arena, args, &args)))
		return args.p[args.n - 1] != 0 ? -EINVAL : -ENOMEM;
	list = arena_alloc(&x->arena, (count + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	x->run.args = list;
	x->run.arg_count = count;
	for (unsigned i = 0; i < count; i++) {
		list[i] = tfs_bytes_of(args.p, strlen((const char *)args.p));
		args = tfs_bytes_of(args.p + list[i].n + 1, args.n - list[i].n - 1);
	}
	return 0;
}

int scripts_new(const struct ts_request *q, struct open_scan *o)
{
	const struct scan_spec *spec = q->spec;
	struct scan_script *x;
	uint16_t *ids = NULL;
	int err = 0;

	if (!spec->script.p && !spec->pub.row_script.p)
		return 0;
	/* Rows of METADATA are no user's. */
	if (!o->served->user_table || (spec->script.p && spec->pub.what != TFS_SCAN_ROWS))
		return -EINVAL;
	x = calloc(1, sizeof(*x));
	if (!x)
		return -ENOMEM;
	x->uid = q->user ? (uint32_t)q->user->uid : (uint32_t)geteuid();
	x->batch_bytes = spec->pub.batch_bytes < TS_SCAN_BATCH_MAX ? spec->pub.batch_bytes : TS_SCAN_BATCH_MAX;
	x->row.row_salted = spec->row_salted;
	x->row.pub.one_row = true;
	if (q->user)
		err = access_readable(o->served, q, NULL, 0, &ids, &x->row.pub.family_count);
	if (!err && ids) {
		uint16_t *own = arena_alloc(&x->arena, (x->row.pub.family_count + 1u) * sizeof(*ids));

		if (own)
			memcpy(own, ids, x->row.pub.family_count * sizeof(*ids));
		err = own ? 0 : -ENOMEM;
		x->row.family_ids = own;
	}
	free(ids);
	if (!err && spec->pub.row_script.p)
		err = text_own(x, &x->filter, tfs_str("lua="), spec->pub.row_script);
	x->filter.filter = true;
	x->filter.rows_only = !script_reads_cells(x->filter.text);
	if (!err && spec->script.p)
		err = text_own(x, &x->run, spec->script_name, spec->script);
	x->run.rows_only = !script_reads_cells(x->run.text);
	if (!err)
		err = args_own(x, spec->script_args);
	o->script = x;
	return err;
}

enum tfs_scan_what scripts_what(const struct open_scan *o)
{
	return o->script->run.rows_only ? TFS_SCAN_ROWS : TFS_SCAN_CELLS;
}

void scripts_set_batch(struct open_scan *o, size_t bytes)
{
	o->script->batch_bytes = bytes;
}

void scripts_free(struct open_scan *o)
{
	struct scan_script *x = o->script;

	if (!x)
		return;
	scan_batch_fini(&x->batch);
	buf_fini(&x->last);
	arena_fini(&x->arena);
	free(x);
}

/* ---- all scripts of a server ---- */

void scripts_change(struct scripts *x, const struct script_settings *to)
{
	const struct script_limits limits = {.instructions = to->instructions, .memory = to->memory, .time_us = to->time_us};

	script_pool_set_limits(x->pool, &limits);
	atomic_store(&x->workers_of_user, to->workers_of_user ? to->workers_of_user : WORKERS_MOST);
}

int scripts_begin(const struct script_settings *o, struct scripts **out)
{
	const struct script_limits limits = {.instructions = o->instructions, .memory = o->memory, .time_us = o->time_us};
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	/* A run with lua= has two. */
	const unsigned workers = cpus < 2 ? 2 : cpus > (long)WORKERS_MOST ? WORKERS_MOST : (unsigned)cpus;
	struct scripts *x = calloc(1, sizeof(*x));
	int err = x ? script_pool_new(&limits, workers, &x->pool) : -ENOMEM;

	if (err) {
		free(x);
		return err;
	}
	scripts_change(x, o);
	*out = x;
	return 0;
}

void scripts_end(struct scripts *x)
{
	if (!x)
		return;
	script_pool_free(x->pool);
	free(x);
}
