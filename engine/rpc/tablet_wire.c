/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tablet service's requests and answers, packed and unpacked.  The
 * order of byte strings in the tail is the order of the fields in
 * tablet.proto; packing and unpacking of one message stand side by side so
 * that it can be seen.
 *
 * What is unpacked may come from anywhere: every enum, family and count is
 * checked; what a value means (sizes of rows, order of ranges) is judged by
 * the server, as it is for a caller in the same process.
 */
#include "engine/rpc/tablet.pb-c.h"
#include "engine/rpc/tablet_service.h"
#include "engine/rpc/wire.h"

#include <errno.h>
#include <stdlib.h>

#define READ_MAX (64 * 1024 * 1024) /* TFS_VALUE_MAX: no read can want more */

void ts_answer_fini(struct ts_answer *a)
{
	scan_batch_fini(&a->batch);
	arena_fini(&a->arena);
	*a = (struct ts_answer){0};
}

static void *zalloc(struct arena *a, size_t count, size_t size)
{
	size_t n;
	void *p;

	if (__builtin_mul_overflow(count, size, &n))
		return NULL;
	p = arena_alloc(a, n ? n : 1);
	if (p)
		memset(p, 0, n);
	return p;
}

/* ---- operations ---- */

static void time_pack(Tfs__OpTime *m, struct op_time t)
{
	tfs__op_time__init(m);
	m->newest = t.newest;
	m->us = t.us;
}

static struct op_time time_unpack(const Tfs__OpTime *m)
{
	return (struct op_time){.newest = m->newest, .us = m->us};
}

struct packed_op {
	Tfs__Op op;
	Tfs__OpTime ts, to;
};

static int ranges_pack(const struct op *op, Tfs__Op *m, struct arena *a, struct tail *t)
{
	Tfs__OpRange *r = zalloc(a, op->range_count, sizeof *r);

	m->ranges = zalloc(a, op->range_count, sizeof *m->ranges);
	if (!r || !m->ranges)
		return -ENOMEM;
	m->n_ranges = op->range_count;
	for (uint32_t i = 0; i < op->range_count; i++) {
		tfs__op_range__init(&r[i]);
		r[i].offset = op->ranges[i].offset;
		r[i].data_size = tail_put(t, op->ranges[i].data);
		m->ranges[i] = &r[i];
	}
	return 0;
}

static int op_pack(const struct op *op, struct packed_op *p, struct arena *a, struct tail *t)
{
	Tfs__Op *m = &p->op;

	tfs__op__init(m);
	time_pack(&p->ts, op->ts);
	time_pack(&p->to, op->to);
	m->kind = op->kind;
	m->family = op->family;
	m->to_family = op->to_family;
	m->qualifier_size = tail_put(t, op->qualifier);
	m->to_qualifier_size = tail_put(t, op->to_qualifier);
	m->ts = &p->ts;
	m->to = &p->to;
	m->base_kind = op->base;
	m->base_ts = op->base_ts;
	m->truncate_to = op->truncate_to;
	if (op->range_count && ranges_pack(op, m, a, t))
		return -ENOMEM;
	m->append_size = tail_put(t, op->append);
	m->value_size = tail_put(t, op->value);
	m->replace = op->replace;
	m->drop_newer = op->drop_newer;
	m->noreplace = op->noreplace;
	m->replace_ts = op->replace_ts;
	m->by = op->by;
	m->check = op->check;
	return 0;
}

static int ranges_unpack(const Tfs__Op *m, struct arena *a, struct reader *tail, struct op *op)
{
	struct op_range *r = zalloc(a, m->n_ranges, sizeof *r);

	if (!r)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_ranges; i++) {
		r[i].offset = m->ranges[i]->offset;
		if (!tail_get(tail, m->ranges[i]->data_size, &r[i].data))
			return -EBADMSG;
	}
	op->ranges = r;
	op->range_count = (uint32_t)m->n_ranges;
	return 0;
}

static int op_unpack(const Tfs__Op *m, struct arena *a, struct reader *tail, struct op *op)
{
	int rc = 0;

	if (m->kind == 0 || m->kind >= OP_KINDS || m->family > UINT16_MAX || m->to_family > UINT16_MAX ||
		m->base_kind > OP_BASE_VERSION || m->check > OP_CHECK_VALUE || m->n_ranges > UINT32_MAX)
		return -EBADMSG;
	op->kind = (enum op_kind)m->kind;
	op->family = (uint16_t)m->family;
	op->to_family = (uint16_t)m->to_family;
	op->ts = time_unpack(m->ts);
	op->to = time_unpack(m->to);
	op->base = (enum op_base)m->base_kind;
	op->base_ts = m->base_ts;
	op->truncate_to = m->truncate_to;
	op->replace = m->replace;
	op->drop_newer = m->drop_newer;
	op->noreplace = m->noreplace;
	op->replace_ts = m->replace_ts;
	op->by = m->by;
	op->check = (enum op_check)m->check;
	if (!tail_get(tail, m->qualifier_size, &op->qualifier) || !tail_get(tail, m->to_qualifier_size, &op->to_qualifier))
		return -EBADMSG;
	if (m->n_ranges)
		rc = ranges_unpack(m, a, tail, op);
	if (rc)
		return rc;
	return tail_get(tail, m->append_size, &op->append) && tail_get(tail, m->value_size, &op->value) ? 0 : -EBADMSG;
}

static int ops_pack(const struct op *ops, uint32_t count, Tfs__Op ***out, struct arena *a, struct tail *t)
{
	struct packed_op *p = zalloc(a, count, sizeof *p);
	Tfs__Op **v = zalloc(a, count, sizeof *v);
	int rc = 0;

	if (!p || !v)
		return -ENOMEM;
	for (uint32_t i = 0; i < count && !rc; i++) {
		rc = op_pack(&ops[i], &p[i], a, t);
		v[i] = &p[i].op;
	}
	*out = v;
	return rc;
}

static int ops_unpack(Tfs__Op *const *m, size_t count, struct arena *a, struct reader *tail, const struct op **out)
{
	struct op *ops = zalloc(a, count, sizeof *ops);
	int rc = 0;

	if (!ops)
		return -ENOMEM;
	for (size_t i = 0; i < count && !rc; i++)
		rc = op_unpack(m[i], a, tail, &ops[i]);
	*out = ops;
	return rc;
}

static int rows_pack(const struct ts_request *q, Tfs__TsRequest *m, struct arena *a, struct tail *t)
{
	Tfs__Row *r = zalloc(a, q->row_count, sizeof *r);
	int rc = 0;

	m->rows = zalloc(a, q->row_count, sizeof *m->rows);
	if (!r || !m->rows)
		return -ENOMEM;
	m->n_rows = q->row_count;
	for (uint32_t i = 0; i < q->row_count && !rc; i++) {
		tfs__row__init(&r[i]);
		m->rows[i] = &r[i];
		r[i].row_size = tail_put(t, q->rows[i].row);
		r[i].n_ops = q->rows[i].op_count;
		if (r[i].n_ops)
			rc = ops_pack(q->rows[i].ops, q->rows[i].op_count, &r[i].ops, a, t);
	}
	return rc;
}

static int rows_unpack(const Tfs__TsRequest *m, struct arena *a, struct reader *tail, struct ts_request *q)
{
	struct ts_row *rows;
	int rc = 0;

	if (m->n_rows > TS_ROWS_MAX)
		return -EBADMSG;
	rows = zalloc(a, m->n_rows, sizeof *rows);
	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_rows && !rc; i++) {
		const Tfs__Row *r = m->rows[i];

		if (r->n_ops > UINT32_MAX || !tail_get(tail, r->row_size, &rows[i].row))
			return -EBADMSG;
		rows[i].op_count = (uint32_t)r->n_ops;
		if (r->n_ops)
			rc = ops_unpack(r->ops, r->n_ops, a, tail, &rows[i].ops);
	}
	q->rows = rows;
	q->row_count = (uint32_t)m->n_rows;
	return rc;
}

/* ---- scan specifications ---- */

static int spec_pack(const struct scan_spec *s, Tfs__ScanSpec *m, struct arena *a, struct tail *t)
{
	tfs__scan_spec__init(m);
	m->what = s->what;
	m->row_from_size = tail_put(t, s->row_from);
	m->row_to_size = tail_put(t, s->row_to);
	m->row_from_after = s->row_from_after;
	m->one_row = s->one_row;
	m->some_families = s->families != NULL;
	if (s->families) {
		m->families = zalloc(a, s->family_count, sizeof *m->families);
		if (!m->families)
			return -ENOMEM;
		m->n_families = s->family_count;
		for (uint32_t i = 0; i < s->family_count; i++)
			m->families[i] = s->families[i];
	}
	m->qualifier_from_size = tail_put(t, s->qualifier_from);
	m->qualifier_to_size = tail_put(t, s->qualifier_to);
	m->after_cell = s->after_cell;
	m->after_ts = s->after_ts;
	m->has_times = s->has_times;
	m->since = s->since;
	m->until = s->until;
	m->versions = s->versions;
	m->limit = s->limit;
	m->batch_bytes = s->batch_bytes;
	m->past_damage = s->past_damage;
	m->kept = s->kept;
	return 0;
}

static int families_unpack(const Tfs__ScanSpec *m, struct arena *a, struct scan_spec *s)
{
	uint16_t *v = zalloc(a, m->n_families, sizeof *v);

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_families; i++) {
		if (m->families[i] > UINT16_MAX)
			return -EBADMSG;
		v[i] = (uint16_t)m->families[i];
	}
	s->families = v;
	s->family_count = (uint32_t)m->n_families;
	return 0;
}

static int spec_unpack(const Tfs__ScanSpec *m, struct arena *a, struct reader *tail, const struct scan_spec **out)
{
	struct scan_spec *s = zalloc(a, 1, sizeof *s);
	int rc = 0;

	if (!s)
		return -ENOMEM;
	if (m->what > SCAN_FAMILIES || m->n_families > UINT16_MAX || (m->n_families && !m->some_families) ||
		m->batch_bytes > SIZE_MAX)
		return -EBADMSG;
	if (!tail_get(tail, m->row_from_size, &s->row_from) || !tail_get(tail, m->row_to_size, &s->row_to) ||
		!tail_get(tail, m->qualifier_from_size, &s->qualifier_from) ||
		!tail_get(tail, m->qualifier_to_size, &s->qualifier_to))
		return -EBADMSG;
	if (m->some_families)
		rc = families_unpack(m, a, s);
	s->what = (enum scan_what)m->what;
	s->row_from_after = m->row_from_after;
	s->one_row = m->one_row;
	s->after_cell = m->after_cell;
	s->after_ts = m->after_ts;
	s->has_times = m->has_times;
	s->since = m->since;
	s->until = m->until;
	s->versions = m->versions;
	s->limit = m->limit;
	s->batch_bytes = (size_t)m->batch_bytes;
	s->past_damage = m->past_damage;
	s->kept = m->kept;
	*out = s;
	return rc;
}

/* ---- requests ---- */

int ts_request_pack(const struct ts_request *q, struct buf *out)
{
	Tfs__TsRequest m = TFS__TS_REQUEST__INIT;
	Tfs__ScanSpec spec;
	Tfs__OpTime ts;
	struct arena arena = {0};
	struct tail tail = {0};
	int rc = 0;

	time_pack(&ts, q->ts);
	m.method = q->method;
	m.table = q->table;
	m.schema_generation = q->schema_generation;
	m.row_size = tail_put(&tail, q->row);
	if (q->op_count) {
		m.n_ops = q->op_count;
		rc = ops_pack(q->ops, q->op_count, &m.ops, &arena, &tail);
	}
	m.has_token_client = m.has_token_number = m.has_token_lowest_unanswered = q->token.client != 0;
	m.token_client = q->token.client;
	m.token_number = q->token.number;
	m.token_lowest_unanswered = q->token.lowest_unanswered;
	m.sync = q->sync;
	m.family = q->family;
	m.qualifier_size = tail_put(&tail, q->qualifier);
	m.ts = &ts;
	m.offset = q->offset;
	m.length = q->length;
	if (q->spec && !rc) {
		rc = spec_pack(q->spec, &spec, &arena, &tail);
		m.spec = &spec;
	}
	m.scan = q->scan;
	if (q->row_count && !rc)
		rc = rows_pack(q, &m, &arena, &tail);
	tail.no_memory |= rc != 0;
	rc = wire_close(&tail, &m.base, out);
	arena_fini(&arena);
	return rc;
}

int ts_request_unpack(struct slice in, struct arena *arena, struct ts_request *q)
{
	struct ts_request x = {0};
	ProtobufCMessage *base;
	const Tfs__TsRequest *m;
	struct reader tail;
	int rc = wire_open(in, &tfs__ts_request__descriptor, arena, &base, &tail);

	if (rc)
		return rc;
	m = (const Tfs__TsRequest *)base;
	if (m->method == 0 || m->method >= TS_METHODS || m->family > UINT16_MAX || m->length > READ_MAX)
		return -EBADMSG;
	x.method = (enum ts_method)m->method;
	x.table = m->table;
	x.schema_generation = m->schema_generation;
	x.token = (struct op_token){m->token_client, m->token_number, m->token_lowest_unanswered};
	x.sync = m->sync;
	x.family = (uint16_t)m->family;
	x.ts = time_unpack(m->ts);
	x.offset = m->offset;
	x.length = (size_t)m->length;
	x.scan = m->scan;
	if (!tail_get(&tail, m->row_size, &x.row))
		return -EBADMSG;
	if (m->n_ops > UINT32_MAX)
		return -EBADMSG;
	x.op_count = (uint32_t)m->n_ops;
	if (m->n_ops)
		rc = ops_unpack(m->ops, m->n_ops, arena, &tail, &x.ops);
	if (!rc && !tail_get(&tail, m->qualifier_size, &x.qualifier))
		rc = -EBADMSG;
	if (!rc && m->spec)
		rc = spec_unpack(m->spec, arena, &tail, &x.spec);
	if (!rc && m->n_rows)
		rc = rows_unpack(m, arena, &tail, &x);
	if (!rc && !tail_done(&tail))
		rc = -EBADMSG;
	if (!rc && x.length && x.method == TS_READ) { /* the others have no use for 64 MiB */
		x.into = zalloc(arena, x.length, 1);
		rc = x.into ? 0 : -ENOMEM;
	}
	if (!rc)
		*q = x;
	return rc;
}

/* ---- answers ---- */

static int results_pack(const struct ts_request *q, const struct ts_answer *a, Tfs__TsAnswer *m, struct arena *arena)
{
	Tfs__OpResult *r = zalloc(arena, q->op_count, sizeof *r);

	m->results = zalloc(arena, q->op_count, sizeof *m->results);
	if (!r || !m->results)
		return -ENOMEM;
	m->n_results = q->op_count;
	for (uint32_t i = 0; i < q->op_count; i++) {
		tfs__op_result__init(&r[i]);
		r[i].ts = a->results[i].ts;
		r[i].counter = a->results[i].counter;
		r[i].size = a->results[i].size;
		r[i].replaced = a->results[i].replaced;
		r[i].commit_us = a->results[i].commit_us;
		m->results[i] = &r[i];
	}
	return 0;
}

static int cells_pack(const struct scan_batch *b, Tfs__TsAnswer *m, struct arena *arena, struct tail *t)
{
	Tfs__ScanCell *c = zalloc(arena, b->count, sizeof *c);

	m->cells = zalloc(arena, b->count, sizeof *m->cells);
	if (!c || !m->cells)
		return -ENOMEM;
	m->n_cells = b->count;
	for (uint32_t i = 0; i < b->count; i++) {
		const struct scan_cell *from = &b->cells[i];

		tfs__scan_cell__init(&c[i]);
		c[i].row_size = tail_put(t, from->row);
		c[i].qualifier_size = tail_put(t, from->qualifier);
		c[i].value_size = tail_put(t, from->value);
		c[i].family = from->family;
		c[i].ts = from->ts;
		c[i].expires_us = from->expires_us;
		c[i].commit_us = from->commit_us;
		c[i].size = from->size;
		m->cells[i] = &c[i];
	}
	return 0;
}

static void tablet_pack(const struct ts_tablet *i, Tfs__TabletInfo *m, struct tail *t)
{
	tfs__tablet_info__init(m);
	m->begin_size = tail_put(t, i->begin);
	m->end_size = tail_put(t, i->end);
	m->server_size = tail_put(t, i->server);
	m->state_size = tail_put(t, i->state);
	m->disk_bytes = i->disk_bytes;
	m->raw_bytes = i->raw_bytes;
	m->memory_bytes = i->memory_bytes;
	m->cells = i->cells;
	m->tombstones = i->tombstones;
	m->files = i->files;
	m->memtables = i->memtables;
}

/* An answer that is an error carries nothing else. */
static int body_pack(const struct ts_request *q, const struct ts_answer *a, Tfs__TsAnswer *m, Tfs__TabletInfo *info,
	struct arena *arena, struct tail *t)
{
	int rc = 0;

	if (q->method == TS_MUTATE && a->results && q->op_count)
		rc = results_pack(q, a, m, arena);
	if (q->method == TS_MUTATE_ROWS && a->row_errs) {
		m->n_row_errs = q->row_count;
		m->row_errs = a->row_errs;
	}
	m->exists = a->exists;
	if (q->method == TS_READ && a->got)
		m->got_size = tail_put(t, slice_of(q->into, a->got));
	m->ts = a->ts;
	m->expires_us = a->expires_us;
	m->commit_us = a->commit_us;
	m->size = a->size;
	if (!rc && a->batch.count)
		rc = cells_pack(&a->batch, m, arena, t);
	m->done = a->batch.done;
	m->damaged = a->batch.damaged;
	m->scan = a->scan;
	m->tablet_end_size = tail_put(t, a->tablet_end);
	if (q->method == TS_TABLET_INFO) {
		tablet_pack(&a->tablet, info, t);
		m->tablet = info;
	}
	return rc;
}

int ts_answer_pack(const struct ts_request *q, const struct ts_answer *a, struct buf *out)
{
	Tfs__TsAnswer m = TFS__TS_ANSWER__INIT;
	Tfs__TabletInfo info;
	struct arena arena = {0};
	struct tail tail = {0};
	int rc;

	m.err = a->err;
	if (!a->err && body_pack(q, a, &m, &info, &arena, &tail))
		tail.no_memory = true;
	rc = wire_close(&tail, &m.base, out);
	arena_fini(&arena);
	return rc;
}

static int results_unpack(const Tfs__TsAnswer *m, const struct ts_request *q, struct ts_answer *a)
{
	if (m->n_results && (q->method != TS_MUTATE || m->n_results != q->op_count))
		return -EBADMSG;
	/* the caller may want what the server did not care to tell */
	if (a->results && q->op_count && m->n_results == 0 && q->method == TS_MUTATE)
		return -EBADMSG;
	for (size_t i = 0; a->results && i < m->n_results; i++)
		a->results[i] = (struct op_result){.ts = m->results[i]->ts,
			.counter = m->results[i]->counter,
			.commit_us = m->results[i]->commit_us,
			.size = m->results[i]->size,
			.replaced = m->results[i]->replaced};
	return 0;
}

/* A copy in the arena, so that it outlives the input; NULL stays NULL. */
static bool keep(struct arena *arena, struct slice s, struct slice *out)
{
	*out = s;
	return !s.p || !s.n || arena_dup(arena, s, out);
}

static int cells_unpack(const Tfs__TsAnswer *m, struct reader *tail, struct scan_batch *b)
{
	if (m->n_cells > UINT32_MAX / 2)
		return -EBADMSG;
	if (m->n_cells > b->cap) {
		struct scan_cell *more = realloc(b->cells, m->n_cells * sizeof *more);

		if (!more)
			return -ENOMEM;
		b->cells = more;
		b->cap = (uint32_t)m->n_cells;
	}
	for (size_t i = 0; i < m->n_cells; i++) {
		const Tfs__ScanCell *from = m->cells[i];
		struct scan_cell *c = &b->cells[i];
		struct slice row, qualifier, value;

		if (!tail_get(tail, from->row_size, &row) || !tail_get(tail, from->qualifier_size, &qualifier) ||
			!tail_get(tail, from->value_size, &value) || from->family > UINT16_MAX)
			return -EBADMSG;
		*c = (struct scan_cell){.family = (uint16_t)from->family,
			.ts = from->ts,
			.expires_us = from->expires_us,
			.commit_us = from->commit_us,
			.size = from->size};
		if (!keep(&b->arena, row, &c->row) || !keep(&b->arena, qualifier, &c->qualifier) ||
			!keep(&b->arena, value, &c->value))
			return -ENOMEM;
		b->count++;
	}
	return 0;
}

static int tablet_unpack(const Tfs__TabletInfo *m, struct reader *tail, struct ts_answer *a)
{
	struct ts_tablet *t = &a->tablet;
	struct slice begin, end, server, state;

	if (!tail_get(tail, m->begin_size, &begin) || !tail_get(tail, m->end_size, &end) ||
		!tail_get(tail, m->server_size, &server) || !tail_get(tail, m->state_size, &state))
		return -EBADMSG;
	if (!keep(&a->arena, begin, &t->begin) || !keep(&a->arena, end, &t->end) || !keep(&a->arena, server, &t->server) ||
		!keep(&a->arena, state, &t->state))
		return -ENOMEM;
	t->disk_bytes = m->disk_bytes;
	t->raw_bytes = m->raw_bytes;
	t->memory_bytes = m->memory_bytes;
	t->cells = m->cells;
	t->tombstones = m->tombstones;
	t->files = m->files;
	t->memtables = m->memtables;
	return 0;
}

static int row_errs_unpack(const Tfs__TsAnswer *m, const struct ts_request *q, struct ts_answer *a)
{
	if (m->n_row_errs != (q->method == TS_MUTATE_ROWS ? q->row_count : 0))
		return -EBADMSG;
	for (size_t i = 0; i < m->n_row_errs; i++) {
		if (m->row_errs[i] > 0 || m->row_errs[i] < -4095)
			return -EBADMSG;
		if (a->row_errs)
			a->row_errs[i] = m->row_errs[i];
	}
	return 0;
}

static int body_unpack(const Tfs__TsAnswer *m, struct reader *tail, const struct ts_request *q, struct ts_answer *a)
{
	struct slice bytes, end;
	int rc = results_unpack(m, q, a);

	if (!rc)
		rc = row_errs_unpack(m, q, a);
	if (rc)
		return rc;
	if (!tail_get(tail, m->got_size, &bytes) || (m->got_size && q->method != TS_READ) || bytes.n > q->length)
		return -EBADMSG;
	if (bytes.n)
		memcpy(q->into, bytes.p, bytes.n);
	a->got = bytes.n;
	a->exists = m->exists;
	a->ts = m->ts;
	a->expires_us = m->expires_us;
	a->commit_us = m->commit_us;
	a->size = m->size;
	a->scan = m->scan;
	rc = cells_unpack(m, tail, &a->batch);
	if (rc)
		return rc;
	a->batch.done = m->done;
	a->batch.damaged = m->damaged;
	if (!tail_get(tail, m->tablet_end_size, &end))
		return -EBADMSG;
	/* What an earlier answer of the scan said holds until another says otherwise. */
	if ((end.p || q->method != TS_SCAN_NEXT) && !keep(&a->arena, end, &a->tablet_end))
		return -ENOMEM;
	if ((m->tablet != NULL) != (q->method == TS_TABLET_INFO))
		return -EBADMSG;
	return m->tablet ? tablet_unpack(m->tablet, tail, a) : 0;
}

int ts_answer_unpack(struct slice in, const struct ts_request *q, struct ts_answer *a)
{
	struct arena arena = {0};
	ProtobufCMessage *base;
	const Tfs__TsAnswer *m;
	struct reader tail;
	int rc = wire_open(in, &tfs__ts_answer__descriptor, &arena, &base, &tail);

	if (rc)
		goto out;
	m = (const Tfs__TsAnswer *)base;
	scan_batch_reset(&a->batch);
	a->err = m->err;
	if (m->err > 0 || m->err < -4095)
		rc = -EBADMSG;
	if (!rc && m->err == 0)
		rc = body_unpack(m, &tail, q, a);
	if (!rc && !tail_done(&tail))
		rc = -EBADMSG;
out:
	arena_fini(&arena);
	return rc;
}

/* ---- the round trip of debug builds ---- */

struct round_trip {
	struct tablet_service base;
	struct tablet_service *inner;
};

/* What the server side of a channel does: bytes in, bytes out. */
static int serve(struct tablet_service *inner, struct slice in, struct buf *out)
{
	struct arena arena = {0};
	struct ts_answer a = {0};
	struct ts_request q;
	unsigned tries = 0;
	int rc = ts_request_unpack(in, &arena, &q);

	if (rc)
		goto out;
	if (q.op_count) {
		a.results = zalloc(&arena, q.op_count, sizeof *a.results);
		if (!a.results) {
			rc = -ENOMEM;
			goto out;
		}
	}
	if (q.row_count) {
		a.row_errs = zalloc(&arena, q.row_count, sizeof *a.row_errs);
		if (!a.row_errs) {
			rc = -ENOMEM;
			goto out;
		}
	}
	a.err = ts_call(inner, &q, &a);
	do
		rc = ts_answer_pack(&q, &a, out);
	while (wire_again(rc, &tries));
out:
	ts_answer_fini(&a);
	arena_fini(&arena);
	return rc;
}

static int round_trip_call(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	struct round_trip *r = (struct round_trip *)s;
	struct buf there = {0}, back = {0};
	unsigned tries = 0;
	int rc = ts_request_pack(q, &there);

	if (!rc)
		rc = serve(r->inner, buf_slice(&there), &back);
	if (!rc)
		do
			rc = ts_answer_unpack(buf_slice(&back), q, a);
		while (wire_again(rc, &tries));
	buf_fini(&there);
	buf_fini(&back);
	return rc ? rc : a->err;
}

struct tablet_service *ts_round_trip_new(struct tablet_service *inner)
{
	static const struct tablet_service_ops ops = {.call = round_trip_call};
	struct round_trip *r = calloc(1, sizeof *r);

	if (!r)
		return NULL;
	r->base.ops = &ops;
	r->inner = inner;
	return &r->base;
}
