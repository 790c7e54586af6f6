/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of a script over the rows of a table.  The tablet servers run it, and answer with
 * partial outputs.  Here they are merged.
 *
 * The rows are divided into ranges of about equal bytes.  Several threads read one range after
 * another, each by a cursor of its own.  The cells of such a scan are partial outputs, and
 * the row of each is the last row that it contains.  So a cursor that lost its scan continues with
 * the next row, as each scan that returns one entry for a row.
 *
 * The threads wait while many bytes of partial outputs are queued that the caller has not read.
 */
#include "engine/client/cells.h"
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/base/stop.h"
#include "engine/cell/pattern.h"
#include "engine/client/cursor.h"
#include "engine/script/script.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS_MOST 4u
#define STOP_ASKED_US 50000u
#define SEARCH_US UINT64_C(5000000)
#define OUTPUT_MEMORY ((uint64_t)128 << 20) /* of all merged outputs */
#define QUEUE_BYTES ((size_t)4 << 20)

struct run_part {
	struct buf from, to;
	bool after, has_to;
};
struct run_delta {
	STAILQ_ENTRY(run_delta) next;
	struct buf bytes;
};
struct run_reader {
	struct task task; /* first */
	struct tfs_run *run;
};

struct tfs_run {
	struct cell_scan scan; /* has the resolved spec, and references to table and schema; it is not read */
	struct scan_spec spec;
	struct arena arena;
	bool (*stop)(void *arg);
	void *stop_arg;
	struct run_part *parts;
	unsigned part_count;
	struct task_pool *pool;
	struct run_reader readers[THREADS_MOST];
	unsigned reader_count;
	struct mutex lock; /* RANK_CLIENT; guards the next members */
	struct cond changed;
	STAILQ_HEAD(, run_delta) queue;
	size_t queue_bytes;
	unsigned next_part, reading;
	uint64_t rows;     /* have been run */
	_Atomic bool over; /* no more partial outputs are wanted; read without the lock, too */
	int err;           /* the first one */
	struct buf why;
	/* The rest is the caller's. */
	struct script_outputs *outputs;
	struct run_delta *current; /* its lines and cells are being returned */
	char *error;
	char family[TFS_NAME_MAX + 1]; /* of the cell that was returned last */
	int failed;
	bool at_end;
};

/* ---- readers ---- */

static void run_fail_locked(struct tfs_run *r, int err, struct tfs_bytes why)
{
	if (r->over)
		return;
	r->over = true;
	r->err = err == -EINTR ? -EIO : err; /* the caller has interrupted nothing */
	if (why.p)
		(void)!buf_set(&r->why, why.p, why.n);
	cond_broadcast(&r->changed);
}

static bool run_is_over(void *arg)
{
	return ((struct tfs_run *)arg)->over;
}

static size_t delta_bytes(const struct run_delta *d)
{
	return sizeof(*d) + d->bytes.n;
}

/* Adds a partial output to the queue.  *left: how many rows may still be run.  Returns 1, 0 if no more are wanted, -errno. */
static int run_queue(struct tfs_run *r, const struct tfs_cell *c, uint64_t *left)
{
	struct run_delta *d;
	int n = 0;

	if (c->family_id == SCAN_SCRIPT_FAILED) {
		mutex_lock(&r->lock);
		run_fail_locked(r, c->ts < 0 && c->ts >= -4095 ? (int)c->ts : -EINVAL, c->value);
		mutex_unlock(&r->lock);
		return 0;
	}
	mutex_lock(&r->lock);
	while (r->queue_bytes >= QUEUE_BYTES && !r->over)
		cond_wait(&r->changed, &r->lock);
	d = calloc(1, sizeof(*d));
	if (!d || buf_set(&d->bytes, c->value.p, c->value.n)) {
		free(d);
		n = -ENOMEM;
	} else {
		STAILQ_INSERT_TAIL(&r->queue, d, next);
		r->queue_bytes += delta_bytes(d);
		r->rows += c->size;
		*left = r->spec.pub.row_limit > r->rows ? r->spec.pub.row_limit - r->rows : 0;
		n = !r->over && (!r->spec.pub.row_limit || *left);
		cond_broadcast(&r->changed);
	}
	mutex_unlock(&r->lock);
	return n;
}

static int read_part(struct tfs_run *r, const struct run_part *p)
{
	struct scan_spec spec = r->spec;
	const struct salt_scan *s = &r->scan.rows;
	struct row_cursor cursor;
	uint64_t left = spec.pub.row_limit;
	int n = 1;

	spec.pub.row_from = buf_bytes(&p->from);
	spec.pub.row_from_after = p->after;
	spec.pub.row_to = p->has_to ? tfs_bytes_of(p->to.p ? p->to.p : (const uint8_t *)"", p->to.n) : (struct tfs_bytes){0};
	spec.pub.stop = run_is_over;
	spec.pub.stop_arg = r;
	if (spec.pub.row_limit) {
		mutex_lock(&r->lock);
		left -= r->rows < left ? r->rows : left;
		mutex_unlock(&r->lock);
		spec.pub.row_limit = left;
		if (!left)
			return 0;
	}
	row_cursor_init(&cursor, s->svc, s->table, s->generation, &spec);
	cursor.user = s->user;
	while (n > 0) {
		const struct tfs_cell *cell;

		n = row_cursor_next(&cursor, &cell);
		if (n > 0)
			n = run_queue(r, cell, &left);
		cursor.spec.pub.row_limit = left;
	}
	row_cursor_fini(&cursor);
	return n;
}

static void reader_run(struct task *t)
{
	struct tfs_run *r = ((struct run_reader *)t)->run;
	bool more = true;

	stop_set(run_is_over, r);
	while (more) {
		const struct run_part *p = NULL;
		int err = 0;

		mutex_lock(&r->lock);
		if (r->next_part < r->part_count && !r->over)
			p = &r->parts[r->next_part++];
		mutex_unlock(&r->lock);
		if (p)
			err = read_part(r, p);
		mutex_lock(&r->lock);
		if (err < 0)
			run_fail_locked(r, err, (struct tfs_bytes){0});
		more = p && !r->over;
		if (!more) {
			r->reading--;
			cond_broadcast(&r->changed);
		}
		mutex_unlock(&r->lock);
	}
	stop_set(NULL, NULL);
}

/* ---- ranges ---- */

static int part_add(struct tfs_run *r, struct tfs_bytes from, bool after, struct tfs_bytes to)
{
	struct run_part *p;

	if (array_grow(&r->parts, r->part_count, sizeof(*p)))
		return -ENOMEM;
	p = &r->parts[r->part_count++];
	*p = (struct run_part){.after = after, .has_to = to.p != NULL};
	return buf_set(&p->from, from.p, from.n) || (to.n && buf_set(&p->to, to.p, to.n)) ? -ENOMEM : 0;
}

/* The ranges of the rows as they are stored, within the bounds of r->scan: one, or one for each salt. */
static int parts_within(struct tfs_run *r)
{
	unsigned byte, end;
	int err = salt_ranges(&r->scan.rows, &byte, &end);

	for (; byte < end && !err; byte++) {
		struct buf from = {0}, to = {0};
		struct scan_spec spec;

		err = salt_range(&r->scan.rows, byte, &from, &to, &spec);
		if (!err)
			err = part_add(r, spec.pub.row_from, spec.pub.row_from_after, spec.pub.row_to);
		buf_fini(&from);
		buf_fini(&to);
	}
	return err;
}

static int parts_begin(struct tfs_run *r)
{
	int err = r->scan.ranges && !r->scan.one_row ? 0 : parts_within(r);

	for (unsigned i = 0; i < r->scan.range_count && !r->scan.one_row && !err; i++) {
		cell_scan_bound(&r->scan, i);
		err = parts_within(r);
	}
	/* The outputs of the declarations need a range, also if no row is in one. */
	return err || r->part_count ? err : part_add(r, TFS_S("\0"), false, TFS_S("\0"));
}

/* Divides the range that has the beginning of a range of tfs_splits inside. */
static int parts_divide(void *arg, const struct tfs_tablet *tablet)
{
	struct tfs_run *r = arg;
	const struct tfs_bytes at = tablet->begin;
	const unsigned count = r->part_count;

	for (unsigned i = 0; i < count && at.n; i++) {
		struct run_part *p = &r->parts[i];
		struct buf to;
		int err;

		if (bytes_cmp(at, buf_bytes(&p->from)) <= 0 || (p->has_to && bytes_cmp(at, buf_bytes(&p->to)) >= 0))
			continue;
		to = p->to;
		err = part_add(
			r, at, false, p->has_to ? tfs_bytes_of(to.p ? to.p : (const uint8_t *)"", to.n) : (struct tfs_bytes){0});
		if (err)
			return err;
		p = &r->parts[i];
		p->has_to = true;
		return buf_set(&p->to, at.p, at.n);
	}
	return 0;
}

static int part_cmp(const void *a, const void *b)
{
	return bytes_cmp(buf_bytes(&((const struct run_part *)a)->from), buf_bytes(&((const struct run_part *)b)->from));
}

/* ---- the run ---- */

static int own_script(struct tfs_run *r, const struct tfs_script *script, const struct tfs_arguments *args)
{
	struct buf joined = {0};
	int err = 0;

	r->spec.script = script->text.p ? script->text : tfs_str("");
	r->spec.script_name = tfs_str(script->name ? script->name : "script");
	for (unsigned i = 0; args && i < args->count && !err; i++)
		err = buf_append(&joined, args->v[i], strlen(args->v[i]) + 1);
	r->spec.script_args = joined.n ? buf_bytes(&joined) : tfs_bytes_of("", 0);
	if (!err &&
		(bytes_own(&r->spec.script, &r->arena) || bytes_own(&r->spec.script_name, &r->arena) ||
			bytes_own(&r->spec.script_args, &r->arena)))
		err = -ENOMEM;
	buf_fini(&joined);
	return err;
}

static unsigned readers_most(void)
{
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus < 2 ? 2 : cpus > (long)THREADS_MOST ? THREADS_MOST : (unsigned)cpus;
}

static int readers_begin(struct tfs_run *r)
{
	unsigned count = readers_most();
	int err;

	/* A limit of rows is counted along the rows. */
	count = r->spec.pub.row_limit ? 1 : count < r->part_count ? count : r->part_count;
	err = task_pool_new("run", count, &r->pool);
	if (err)
		return err;
	r->reader_count = r->reading = count;
	for (unsigned i = 0; i < count; i++) {
		r->readers[i].run = r;
		task_init(&r->readers[i].task, r->pool, reader_run);
	}
	for (unsigned i = 0; i < count; i++)
		task_queue(&r->readers[i].task);
	return 0;
}

/* is_check: the script is only compiled, and its declarations run.  The spec selects no row, so one range is enough. */
static int run_new(struct tfs_table *t, const struct tfs_script *script, const struct tfs_arguments *args,
	const struct tfs_scan_spec *spec, bool is_check, struct tfs_run **out)
{
	struct tfs_run *r;
	int err;

	if (spec->what || spec->reverse || spec->limit || spec->past_damage || spec->absent_from)
		return table_why(t, -EINVAL,
			"a run has no order of rows: its spec has no what, reverse, limit, past_damage and absent_from");
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	STAILQ_INIT(&r->queue);
	mutex_init(&r->lock, RANK_CLIENT);
	cond_init(&r->changed);
	r->stop = spec->stop;
	r->stop_arg = spec->stop_arg;
	err = cell_scan_init(&r->scan, t, spec);
	if (!err) {
		r->spec = r->scan.rows.spec;
		r->spec.pub.one_row = r->scan.one_row; /* not that of the first key */
		r->spec.pub.what = TFS_SCAN_ROWS;      /* each entry stands for all rows up to its own */
		r->spec.row_salted = r->scan.rows.salt != 0;
		r->spec.pub.stored_from = r->spec.pub.stored_to = (struct tfs_bytes){0}; /* the parts have them */
		err = r->spec.row_salted && spec->row_limit
			? table_why(t, -EINVAL, "it has a salt: a run over it has no limit of rows")
			: own_script(r, script, args);
	}
	if (!err)
		err = script_outputs_new(OUTPUT_MEMORY, &r->outputs);
	if (!err)
		err = parts_begin(r);
	/* Without the sizes, which a user may not be allowed to read, each range is read as one. */
	if (!err && !spec->one_row && !spec->row_limit && !is_check &&
		(err = tfs_splits(t, 4 * readers_most(), parts_divide, r)) != -ENOMEM) {
		err = 0;
		reason_clear();
	}
	if (!err && is_check)
		r->next_part = r->part_count - 1;
	if (!err) {
		qsort(r->parts, r->part_count, sizeof(*r->parts), part_cmp);
		err = readers_begin(r);
	}
	if (err)
		tfs_run_free(r);
	else
		*out = r;
	return err;
}

int tfs_run_new(struct tfs_table *t, const struct tfs_script *script, const struct tfs_arguments *args,
	const struct tfs_scan_spec *spec, struct tfs_run **out)
{
	reason_clear();
	return run_new(t, script, args, spec, false, out);
}

/* Waits for a partial output.  Returns 1 and the first one, 0 at the end, -errno. */
static int run_take(struct tfs_run *r, struct run_delta **out)
{
	int n = 0;

	mutex_lock(&r->lock);
	while (!r->err && !r->queue_bytes && r->reading && !n) {
		mutex_unlock(&r->lock);
		n = stop_asked() || (r->stop && r->stop(r->stop_arg)) ? -EINTR : 0;
		mutex_lock(&r->lock);
		if (!n && !r->err && !r->queue_bytes && r->reading)
			(void)cond_wait_us(&r->changed, &r->lock, STOP_ASKED_US);
	}
	if (r->err) {
		n = r->err;
	} else if (r->queue_bytes) {
		*out = STAILQ_FIRST(&r->queue);
		STAILQ_REMOVE_HEAD(&r->queue, next);
		r->queue_bytes -= delta_bytes(*out);
		n = 1;
		cond_broadcast(&r->changed);
	}
	mutex_unlock(&r->lock);
	return n;
}

static void delta_free(struct run_delta *d)
{
	if (!d)
		return;
	buf_fini(&d->bytes);
	free(d);
}

static int record_output(struct tfs_run *r, const struct script_record *record, struct tfs_output *out)
{
	static const enum tfs_output_kind kinds[] = {
		[SCRIPT_RESULT] = TFS_OUTPUT_VALUE, [SCRIPT_LINE] = TFS_OUTPUT_LINE, [SCRIPT_CELL] = TFS_OUTPUT_CELL};
	const struct script_cell *c = &record->cell;

	*out = (struct tfs_output){
		.kind = kinds[record->kind], .output = record->output, .key = record->key, .value = record->value};
	if (record->kind == SCRIPT_CELL && c->family.n > TFS_NAME_MAX)
		return -EBADMSG;
	if (record->kind == SCRIPT_CELL) {
		memcpy(r->family, c->family.p, c->family.n);
		r->family[c->family.n] = 0;
		out->cell = (struct tfs_cell){.row = c->row,
			.family = r->family,
			.qualifier = c->qualifier,
			.value = c->value,
			.ts = c->ts,
			.size = c->value.n,
			.expires_us = INT64_MAX};
	}
	return 1;
}

static int run_next(struct tfs_run *r, struct script_record *record, struct buf *why)
{
	while (!r->at_end) {
		struct run_delta *d = NULL;
		int n = r->current ? script_outputs_streamed(r->outputs, record) : 0;

		if (n)
			return n;
		n = run_take(r, &d);
		if (n < 0)
			return n;
		delta_free(r->current);
		r->current = d;
		r->at_end = n == 0;
		n = d ? script_outputs_add(r->outputs, buf_bytes(&d->bytes), why) : 0;
		if (n)
			return n;
	}
	return script_outputs_result(r->outputs, record, why);
}

/* As tfs_run_next; sets the reason only if the script has failed. */
static int run_step(struct tfs_run *r, struct tfs_output *out)
{
	struct script_record record = {0};
	struct buf why = {0};
	int n = r->failed ? r->failed : run_next(r, &record, &why);

	if (n < 0 && n != -EINTR) {
		r->failed = n;
		mutex_lock(&r->lock);
		run_fail_locked(r, n, buf_bytes(&why));
		mutex_unlock(&r->lock);
	}
	buf_fini(&why);
	if (n < 0 && *tfs_run_error(r))
		(void)table_why(r->scan.table, user_errno(n), "%s", r->error);
	return n > 0 ? record_output(r, &record, out) : user_errno(n);
}

/* ---- reasons of scans ---- */

struct script_search {
	const struct tfs_scan_spec *of;
	uint64_t until_us;
};

static bool search_is_over(void *arg)
{
	const struct script_search *s = arg;

	return monotonic_us() >= s->until_us || (s->of->stop && s->of->stop(s->of->stop_arg));
}

/*
 * Sets the reason why an expression of tfs_scan_spec.row_script is refused, or fails for a row.  The answer to
 * a scan has an errno only, but the answer to a run has the text.  So the rows are run again, with the
 * expression and a script that does nothing, for SEARCH_US at most.
 */
static void script_failed(struct tfs_table *t, const struct scan_spec *spec)
{
	const struct tfs_script script = {.name = "none", .text = tfs_str("function row(r) end")};
	struct script_search search = {.of = &spec->pub, .until_us = monotonic_us() + SEARCH_US};
	struct tfs_scan_spec again = spec->pub;
	struct tfs_output out;
	struct tfs_run *r;
	int n;

	again.what = TFS_SCAN_CELLS;
	again.reverse = again.past_damage = again.after_cell = false;
	again.limit = again.row_limit = 0;
	again.stop = search_is_over;
	again.stop_arg = &search;
	n = run_new(t, &script, NULL, &again, false, &r);
	if (n)
		return;
	do
		n = run_step(r, &out);
	while (n > 0);
	tfs_run_free(r);
}

/* Sets the reason for a pattern that is none.  Returns false if it is valid. */
static bool pattern_failed(struct tfs_table *t, const char *of, struct tfs_bytes pattern)
{
	char reason[160];

	if (!pattern.p || !pattern_refused(pattern, reason, sizeof(reason)))
		return false;
	(void)table_why(t, -EINVAL, "the pattern of %s, %s, is not valid: %s", of, Q(pattern), reason);
	return true;
}

int scan_failed(struct tfs_table *t, const struct scan_spec *spec, int err)
{
	const struct tfs_scan_spec *p = &spec->pub;
	const struct schema *s;

	if (err >= 0 || reason_is_set())
		return err;
	if (err == -ETIME)
		return table_why(t, err, "a pattern takes too many steps on a key or a value");
	if (err == -ENOENT)
		return table_why(t, err, "it was dropped");
	if ((err == -EINVAL || err == -E2BIG) && !pattern_failed(t, "rows", p->row_regex) &&
		!pattern_failed(t, "qualifiers", p->qualifier_regex) && !pattern_failed(t, "values", p->value_regex) &&
		p->row_script.p) {
		(void)table_why(
			t, err, "the expression %s fails for a row: the log of its server has the reason", Q(p->row_script));
		script_failed(t, spec);
	}
	if (err != -EACCES)
		return err;
	s = table_schema(t);
	(void)table_why(t, err, "no permission to read it");
	for (unsigned i = 0; spec->family_ids && i < p->family_count; i++) {
		const struct tfs_family *f = schema_family_by_id(schema_public(s), spec->family_ids[i]);

		if (f && table_user(t) && !tfs_may(schema_public(s), f, table_user(t), TFS_MAY_READ))
			(void)table_why(t, err, "no permission to read the family %s", f->name);
	}
	schema_put(s);
	return err;
}

int tfs_run_next(struct tfs_run *r, struct tfs_output *out)
{
	reason_clear();
	return scan_failed(r->scan.table, &r->spec, run_step(r, out));
}

const char *tfs_run_error(const struct tfs_run *r)
{
	struct tfs_run *own = (struct tfs_run *)(uintptr_t)r;

	mutex_lock(&own->lock);
	free(own->error);
	own->error = own->why.n ? strndup((const char *)own->why.p, own->why.n) : NULL;
	mutex_unlock(&own->lock);
	return own->error ? own->error : "";
}

void tfs_run_free(struct tfs_run *r)
{
	struct run_delta *d;

	if (!r)
		return;
	mutex_lock(&r->lock);
	r->over = true;
	cond_broadcast(&r->changed);
	mutex_unlock(&r->lock);
	if (r->pool)
		task_pool_free(r->pool);
	while ((d = STAILQ_FIRST(&r->queue))) {
		STAILQ_REMOVE_HEAD(&r->queue, next);
		delta_free(d);
	}
	delta_free(r->current);
	script_outputs_free(r->outputs);
	for (unsigned i = 0; i < r->part_count; i++) {
		buf_fini(&r->parts[i].from);
		buf_fini(&r->parts[i].to);
	}
	free(r->parts);
	cell_scan_fini(&r->scan);
	arena_fini(&r->arena);
	buf_fini(&r->why);
	free(r->error);
	cond_fini(&r->changed);
	mutex_fini(&r->lock);
	free(r);
}

int tfs_script_check(struct tfs_table *t, const struct tfs_script *script, char **why)
{
	reason_clear();
	/* No row is below the key of one zero byte. */
	const struct tfs_scan_spec none = {.row_from = TFS_S("\0"), .row_to = TFS_S("\0")};
	struct tfs_output out;
	struct tfs_run *r;
	int n = run_new(t, script, NULL, &none, true, &r);

	if (n)
		return n;
	do
		n = tfs_run_next(r, &out);
	while (n > 0);
	if (n < 0 && why)
		*why = strdup(tfs_run_error(r));
	tfs_run_free(r);
	return n;
}

int tfs_script_set(struct tfs_table *t, const char *name, struct tfs_bytes text, char **why)
{
	reason_clear();
	const struct tfs_script script = {.name = name, .text = text};
	const struct tfs_schema_edit e = {
		.op = text.p ? TFS_SCHEMA_SCRIPT_SET : TFS_SCHEMA_SCRIPT_DROP, .name = name, .text = text, .mtime_us = TFS_NO_TIME};
	int err = text.p ? tfs_script_check(t, &script, why) : 0;

	return err ? err : tfs_schema_change(t, &e, why);
}
