/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of the services: each field of random requests and answers survives,
 * NULL and empty byte strings stay distinct, damage is refused or harmless, and
 * the round-trip services pass each message on unchanged.
 */
#include "engine/base/scan.h"
#include "engine/rpc/master_service.h"
#include "engine/rpc/tablet_service.h"
#include "t/lib/xorshift.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static uint64_t seed = 0x9e3779b97f4a7c15ull;

static uint64_t rnd64(void)
{
	return xorshift(&seed);
}

static unsigned rnd(unsigned n)
{
	return (unsigned)(rnd64() % n);
}

static int64_t rnd_ts(void)
{
	static const int64_t edges[] = {0, -1, 1, INT64_MIN, INT64_MAX, 1307099848000000};

	return rnd(2) ? edges[rnd(6)] : (int64_t)rnd64();
}

/* NULL, empty, short or long bytes of a static pool. */
static struct tfs_bytes rnd_bytes(void)
{
	static uint8_t pool[70000];
	unsigned kind = rnd(8);

	if (!pool[0])
		for (size_t i = 0; i < sizeof pool; i++)
			pool[i] = (uint8_t)(i * 131 + (i >> 8) + 1);
	if (kind == 0)
		return (struct tfs_bytes){0};
	if (kind == 1)
		return tfs_bytes_of(pool, 0);
	if (kind == 2)
		return tfs_bytes_of(pool + rnd(100), rnd(65000));
	return tfs_bytes_of(pool + rnd(60000), rnd(40));
}

static void expect_bytes(struct tfs_bytes a, struct tfs_bytes b)
{
	assert_int_equal(a.p == NULL, b.p == NULL);
	assert_true(bytes_eq(a, b));
}

static void expect_time(struct tfs_ts a, struct tfs_ts b)
{
	assert_int_equal(a.when, b.when);
	assert_int_equal(a.us, b.us);
}

static struct tfs_ts rnd_time(void)
{
	return (struct tfs_ts){.when = rnd(2) ? TFS_NEWEST : TFS_AT, .us = rnd_ts()};
}

#define OPS 6
#define ROWS 5
struct sample {
	struct ts_request q;
	struct op ops[OPS];
	struct tfs_range ranges[OPS][4];
	struct row_mutation rows[ROWS];
	struct ts_assigned tablets[ROWS];
	uint64_t live[3];
	struct ts_file files[ROWS];
	struct scan_spec spec;
	uint16_t families[5];
	struct tfs_user user;
	gid_t groups[3];
};

static void rnd_op(struct op *op, struct tfs_range *ranges)
{
	*op = (struct op){.kind = (enum op_kind)(1 + rnd(OP_KINDS - 1)),
		.family = (uint16_t)rnd64(),
		.to_family = (uint16_t)rnd64(),
		.w.qualifier = rnd_bytes(),
		.to_qualifier = rnd_bytes(),
		.w.place = rnd_time(),
		.to = rnd_time(),
		.w.base = (enum tfs_base)rnd(3),
		.w.base_ts = rnd_ts(),
		.w.truncate_to = rnd64(),
		.w.range_count = rnd(4),
		.w.append = rnd_bytes(),
		.value = rnd_bytes(),
		.w.replace = rnd(2),
		.w.drop_newer = rnd(2),
		.noreplace = rnd(2),
		.w.replace_ts = rnd_ts(),
		.by = rnd_ts(),
		.check = (enum tfs_check)rnd(4)};
	op->w.ranges = op->w.range_count ? ranges : NULL;
	for (unsigned i = 0; i < op->w.range_count; i++)
		ranges[i] = (struct tfs_range){rnd64(), rnd_bytes()};
}

#define RND(type) _Generic((type){0}, struct tfs_bytes : rnd_bytes(), bool : rnd(2), int64_t : rnd_ts(), default : rnd64())

static void rnd_spec(struct sample *s)
{
	s->spec = (struct scan_spec){
#define RND_MEMBER(kind, number, type, member, stage) .pub.member = RND(type),
		SCAN_MEMBERS(RND_MEMBER)
#undef RND_MEMBER
			.files = rnd_bytes(),
		.kept = rnd(2), .done_row = rnd_bytes(), .done_qualifier = rnd_bytes(), .done_family = (uint16_t)rnd64(),
		.done_in_family = rnd(2), .done_ts = rnd_ts(), .done_columns = (uint32_t)rnd64()};
	s->spec.pub.what = (enum tfs_scan_what)rnd(SCAN_WHAT_LAST + 1);
	if (rnd(2)) {
		s->spec.where_ids = s->families;
		s->spec.where_count = rnd(6);
	}
	if (rnd(2)) {
		s->spec.family_ids = s->families;
		s->spec.pub.family_count = rnd(6);
		for (unsigned i = 0; i < 5; i++)
			s->families[i] = (uint16_t)rnd64();
	}
}

static struct ts_assigned rnd_tablet(void)
{
	return (struct ts_assigned){
		(uint32_t)rnd64(), rnd_bytes(), rnd_bytes(), rnd64(), rnd64(), rnd64(), rnd64(), rnd64(), rnd64(), rnd64(), rnd(2)};
}

static void rnd_request(struct sample *s)
{
	*s = (struct sample){0};
	s->q = (struct ts_request){.method = (enum ts_method)(1 + rnd(TS_METHODS - 1)),
		.table = (uint32_t)rnd64(),
		.schema_generation = rnd64(),
		.row = rnd_bytes(),
		.sync = rnd(2),
		.family = (uint16_t)rnd64(),
		.qualifier = rnd_bytes(),
		.ts = rnd_time(),
		.offset = rnd64(),
		.length = rnd(5000),
		.scan = rnd64(),
		.to_table = (uint32_t)rnd64(),
		.split = rnd(2),
		.epoch = rnd64(),
		.assignment = rnd64(),
		.time_left_us = rnd64(),
		.term = rnd64(),
		.incarnation = rnd64(),
		.part = (uint32_t)rnd64(),
		.parts = (uint32_t)rnd64()};
	if (rnd(2))
		s->q.token = (struct op_token){rnd64() | 1, rnd64(), rnd64()};
	for (unsigned i = 0; i < OPS; i++)
		rnd_op(&s->ops[i], s->ranges[i]);
	if (rnd(2)) {
		rnd_spec(s);
		s->q.spec = &s->spec;
	}
	if (rnd(2)) {
		s->user = (struct tfs_user){
			.uid = rnd(3), .gid = (gid_t)rnd64(), .groups = s->groups, .group_count = rnd(4), .groups_unknown = rnd(2)};
		for (unsigned i = 0; i < 3; i++)
			s->groups[i] = (gid_t)rnd64();
		s->q.user = &s->user;
	}
	s->q.live = s->live;
	s->q.live_count = rnd(4);
	for (unsigned i = 0; i < 3; i++)
		s->live[i] = rnd64();
	if (s->q.method == TS_LOAD || s->q.method == TS_UNLOAD || rnd(4) == 0) {
		s->q.tablets = s->tablets;
		s->q.tablet_count = rnd(ROWS + 1);
		for (unsigned i = 0; i < s->q.tablet_count; i++)
			s->tablets[i] = rnd_tablet();
	}
	if (s->q.method == TS_FILES || rnd(4) == 0) {
		s->q.files = s->files;
		s->q.file_count = rnd(ROWS + 1);
		for (unsigned i = 0; i < s->q.file_count; i++)
			s->files[i] = (struct ts_file){(uint32_t)rnd64(), rnd64(), rnd64()};
	}
	if (s->q.method == TS_MUTATE || rnd(4) == 0) {
		s->q.rows = s->rows;
		s->q.row_count = rnd(ROWS + 1);
		for (unsigned i = 0; i < s->q.row_count; i++)
			s->rows[i] = (struct row_mutation){rnd_bytes(), s->ops, rnd(OPS + 1), rnd64()};
	}
}

static void expect_op(const struct op *a, const struct op *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->family, b->family);
	assert_int_equal(a->to_family, b->to_family);
	expect_bytes(a->w.qualifier, b->w.qualifier);
	expect_bytes(a->to_qualifier, b->to_qualifier);
	expect_time(a->w.place, b->w.place);
	expect_time(a->to, b->to);
	assert_int_equal(a->w.base, b->w.base);
	assert_int_equal(a->w.base_ts, b->w.base_ts);
	assert_int_equal(a->w.truncate_to, b->w.truncate_to);
	assert_int_equal(a->w.range_count, b->w.range_count);
	for (unsigned i = 0; i < a->w.range_count; i++) {
		assert_int_equal(a->w.ranges[i].offset, b->w.ranges[i].offset);
		expect_bytes(a->w.ranges[i].data, b->w.ranges[i].data);
	}
	expect_bytes(a->w.append, b->w.append);
	expect_bytes(a->value, b->value);
	assert_int_equal(a->w.replace, b->w.replace);
	assert_int_equal(a->w.drop_newer, b->w.drop_newer);
	assert_int_equal(a->noreplace, b->noreplace);
	assert_int_equal(a->w.replace_ts, b->w.replace_ts);
	assert_int_equal(a->by, b->by);
	assert_int_equal(a->check, b->check);
}

static void expect_number(uint64_t a, uint64_t b)
{
	assert_int_equal(a, b);
}

static void expect_spec(const struct scan_spec *a, const struct scan_spec *b)
{
#define EXPECT_MEMBER(kind, number, type, member, stage)                                                                           \
	_Generic(a->pub.member, struct tfs_bytes : expect_bytes, default : expect_number)(a->pub.member, b->pub.member);
	SCAN_MEMBERS(EXPECT_MEMBER)
#undef EXPECT_MEMBER
	assert_int_equal(a->family_ids == NULL, b->family_ids == NULL);
	assert_int_equal(a->pub.family_count, b->pub.family_count);
	for (unsigned i = 0; i < a->pub.family_count; i++)
		assert_int_equal(a->family_ids[i], b->family_ids[i]);
	assert_int_equal(a->where_ids == NULL, b->where_ids == NULL);
	assert_int_equal(a->where_count, b->where_count);
	for (unsigned i = 0; i < a->where_count; i++)
		assert_int_equal(a->where_ids[i], b->where_ids[i]);
	expect_bytes(a->files, b->files);
	assert_int_equal(a->kept, b->kept);
	expect_bytes(a->done_row, b->done_row);
	expect_bytes(a->done_qualifier, b->done_qualifier);
	assert_int_equal(a->done_family, b->done_family);
	assert_int_equal(a->done_in_family, b->done_in_family);
	assert_int_equal(a->done_ts, b->done_ts);
	assert_int_equal(a->done_columns, b->done_columns);
}

static void expect_files(const struct ts_file *a, uint32_t a_count, const struct ts_file *b, uint32_t b_count)
{
	assert_int_equal(a_count, b_count);
	for (unsigned i = 0; i < a_count; i++)
		assert_true(a[i].table == b[i].table && a[i].incarnation == b[i].incarnation && a[i].number == b[i].number);
}

static void expect_tablets(const struct ts_assigned *a, uint32_t a_count, const struct ts_assigned *b, uint32_t b_count)
{
	assert_int_equal(a_count, b_count);
	for (uint32_t i = 0; i < a_count; i++) {
		assert_int_equal(a[i].table, b[i].table);
		expect_bytes(a[i].begin, b[i].begin);
		expect_bytes(a[i].end, b[i].end);
		assert_int_equal(a[i].assignment, b[i].assignment);
		assert_memory_equal(&a[i].assignment, &b[i].assignment, 7 * sizeof(uint64_t));
		assert_int_equal(a[i].border, b[i].border);
	}
}

static void expect_user(const struct tfs_user *a, const struct tfs_user *b)
{
	assert_int_equal(a == NULL, b == NULL);
	if (!a)
		return;
	assert_int_equal(a->uid, b->uid);
	assert_int_equal(a->gid, b->gid);
	assert_int_equal(a->groups_unknown, b->groups_unknown);
	assert_int_equal(a->group_count, b->group_count);
	for (unsigned i = 0; i < a->group_count; i++)
		assert_int_equal(a->groups[i], b->groups[i]);
}

static void expect_request(const struct ts_request *a, const struct ts_request *b)
{
	assert_int_equal(a->method, b->method);
	assert_int_equal(a->table, b->table);
	assert_int_equal(a->schema_generation, b->schema_generation);
	expect_bytes(a->row, b->row);
	assert_memory_equal(&a->token, &b->token, sizeof a->token);
	assert_int_equal(a->sync, b->sync);
	assert_int_equal(a->family, b->family);
	expect_bytes(a->qualifier, b->qualifier);
	expect_time(a->ts, b->ts);
	assert_int_equal(a->offset, b->offset);
	assert_int_equal(a->length, b->length);
	assert_int_equal(a->spec == NULL, b->spec == NULL);
	if (a->spec)
		expect_spec(a->spec, b->spec);
	assert_int_equal(a->scan, b->scan);
	expect_user(a->user, b->user);
	assert_int_equal(a->to_table, b->to_table);
	assert_int_equal(a->split, b->split);
	assert_int_equal(a->incarnation, b->incarnation);
	assert_int_equal(a->part, b->part);
	assert_int_equal(a->parts, b->parts);
	assert_int_equal(a->epoch, b->epoch);
	assert_int_equal(a->assignment, b->assignment);
	assert_int_equal(a->time_left_us, b->time_left_us);
	assert_int_equal(a->term, b->term);
	assert_int_equal(a->row_count, b->row_count);
	for (unsigned i = 0; i < a->row_count; i++) {
		expect_bytes(a->rows[i].row, b->rows[i].row);
		assert_int_equal(a->rows[i].op_count, b->rows[i].op_count);
		assert_int_equal(a->rows[i].number, b->rows[i].number);
		for (unsigned k = 0; k < a->rows[i].op_count; k++)
			expect_op(&a->rows[i].ops[k], &b->rows[i].ops[k]);
	}
	expect_tablets(a->tablets, a->tablet_count, b->tablets, b->tablet_count);
	expect_files(a->files, a->file_count, b->files, b->file_count);
}

/* Packs q twice, so that the second time nothing may be written after the message. */
static void pack_exactly(const struct ts_request *q, struct buf *b)
{
	size_t n;

	buf_reset(b);
	assert_int_equal(ts_request_pack(q, b), 0);
	n = b->n;
	assert_int_equal(buf_reserve(b, 8), 0);
	memset(b->p, 0xaa, n + 8);
	buf_reset(b);
	assert_int_equal(ts_request_pack(q, b), 0);
	assert_int_equal(b->n, n);
	for (size_t i = n; i < n + 8; i++)
		assert_int_equal(b->p[i], 0xaa);
}

static void test_requests(void **state)
{
	const struct ts_request least = {.method = TS_SYNC};
	static struct sample s;
	struct buf b = {0};

	pack_exactly(&least, &b);
	for (int i = 0; i < 500; i++) {
		struct arena arena = {0};
		struct ts_request q;

		rnd_request(&s);
		pack_exactly(&s.q, &b);
		assert_int_equal(ts_request_unpack(buf_bytes(&b), &arena, &q), 0);
		expect_request(&s.q, &q);
		assert_null(q.into);
		arena_fini(&arena);
	}
	buf_fini(&b);
}

static void test_other_versions_are_refused(void **state)
{
	const struct ts_request q = {.method = TS_SYNC};
	const struct ms_request mq = {.method = MS_TABLE_DROP, .name = ""};
	struct arena arena = {0};
	struct ts_request got;
	struct ms_request mgot;
	struct buf b = {0};

	assert_int_equal(ts_request_pack(&q, &b), 0);
	assert_int_equal(b.p[0], RPC_VERSION);
	b.p[0]++;
	assert_int_equal(ts_request_unpack(buf_bytes(&b), &arena, &got), -EPROTO);
	buf_reset(&b);
	assert_int_equal(ms_request_pack(&mq, &b), 0);
	b.p[0] = 0;
	assert_int_equal(ms_request_unpack(buf_bytes(&b), &arena, &mgot), -EPROTO);
	arena_fini(&arena);
	buf_fini(&b);
}

static void test_large_values_are_borrowed(void **state)
{
	uint8_t *big = malloc(8 << 20);
	struct op op = {.kind = OP_WRITE, .family = 1, .w.truncate_to = UINT64_MAX};
	const struct row_mutation row = {tfs_str("r"), &op, 1};
	struct ts_request q = {.method = TS_MUTATE, .row_count = 1, .rows = &row}, got;
	struct arena arena = {0};
	struct buf b = {0};

	assert_non_null(big);
	memset(big, 7, 8 << 20);
	op.value = tfs_bytes_of(big, 8 << 20);
	assert_int_equal(ts_request_pack(&q, &b), 0);
	assert_int_equal(ts_request_unpack(buf_bytes(&b), &arena, &got), 0);
	assert_true(got.rows[0].ops[0].value.p >= b.p && got.rows[0].ops[0].value.p < b.p + b.n);
	assert_true(arena.used_bytes < 65536);
	assert_true(bytes_eq(got.rows[0].ops[0].value, op.value));
	arena_fini(&arena);
	buf_fini(&b);
	free(big);
}

/* ---- answers, through the round trip ---- */

/* Answers every request as the last made-up answer says, and keeps a look at the request. */
struct fake {
	struct tablet_service base;
	const struct ts_request *want;
	int rc;
	struct ts_answer answer; /* values to copy */
	struct tfs_result results[OPS];
	int row_errs[ROWS];
	struct ts_assigned tablets[ROWS];
	struct ts_sample samples[ROWS];
	struct ts_file files[ROWS];
	uint64_t logs[ROWS];
	struct tfs_cell cells[50];
	unsigned cell_count;
	uint8_t bytes[5000];
	unsigned calls;
};

static unsigned row_err_count(const struct ts_request *q)
{
	return q->method == TS_MUTATE                            ? q->row_count
		: q->method == TS_LOAD || q->method == TS_UNLOAD ? q->tablet_count
		: q->method == TS_FILES                          ? q->file_count
								 : 0;
}

static unsigned result_count(const struct ts_request *q)
{
	return q->method == TS_MUTATE && q->row_count == 1 ? q->rows[0].op_count : 0;
}

static int fake_call(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	struct fake *f = (struct fake *)s;

	f->calls++;
	expect_request(f->want, q);
	a->schema_generation = f->answer.schema_generation; /* errors have it, too */
	if (f->rc)
		return f->rc;
	a->exists = f->answer.exists;
	a->ts = f->answer.ts;
	a->expires_us = f->answer.expires_us;
	a->size = f->answer.size;
	a->scan = f->answer.scan;
	a->tablet_end = f->answer.tablet_end;
	a->tablet = f->answer.tablet;
	a->tablets = f->tablets;
	a->tablet_count = f->answer.tablet_count;
	a->files = f->files;
	a->file_count = f->answer.file_count;
	a->logs = f->logs;
	a->log_count = f->answer.log_count;
	a->why = f->answer.why;
	a->log = f->answer.log;
	if (q->method == TS_READ) {
		a->got = q->length / 2;
		if (q->into)
			memcpy(q->into, f->bytes, a->got);
		else
			a->bytes = tfs_bytes_of(f->bytes, a->got);
	}
	if (result_count(q) && a->results)
		memcpy(a->results, f->results, result_count(q) * sizeof *f->results);
	for (unsigned i = 0; i < row_err_count(q) && a->row_errs; i++)
		a->row_errs[i] = f->row_errs[i];
	a->batch.cells = malloc(f->cell_count * sizeof *a->batch.cells + 1);
	assert_non_null(a->batch.cells);
	memcpy(a->batch.cells, f->cells, f->cell_count * sizeof *f->cells);
	a->batch.count = a->batch.cap = f->cell_count;
	a->batch.done = f->answer.batch.done;
	return 0;
}

static void rnd_answer(struct fake *f)
{
	struct ts_tablet *t = &f->answer.tablet;

	f->rc = rnd(5) ? 0 : -(int)(1 + rnd(130));
	f->answer.exists = rnd(2);
	f->answer.ts = rnd_ts();
	f->answer.expires_us = rnd_ts();
	f->answer.size = rnd64();
	f->answer.scan = rnd64();
	f->answer.schema_generation = rnd64();
	f->answer.tablet_end = rnd_bytes();
	f->answer.batch.done = rnd(2);
	*t = (struct ts_tablet){rnd_bytes(), rnd_bytes(), rnd64(), rnd64(), rnd64(), rnd64(), rnd64(), (uint32_t)rnd64(),
		(uint32_t)rnd64(), rnd_bytes(), rnd_bytes(), rnd64(), rnd64(), (uint32_t)rnd64(), rnd_bytes(), f->samples,
		rnd(ROWS + 1)};
	for (unsigned i = 0; i < ROWS; i++)
		f->samples[i].row = rnd_bytes();
	for (unsigned i = 0; i < OPS; i++)
		f->results[i] = (struct tfs_result){.ts = rnd_ts(), .counter = rnd_ts(), .size = rnd64(), .replaced = rnd(2)};
	for (unsigned i = 0; i < ROWS; i++)
		f->row_errs[i] = -(int)rnd(130);
	f->answer.file_count = rnd(ROWS + 1);
	f->answer.log_count = rnd(ROWS + 1);
	for (unsigned i = 0; i < ROWS; i++) {
		f->files[i] = (struct ts_file){(uint32_t)rnd64(), rnd64(), rnd64()};
		f->logs[i] = rnd64();
	}
	f->answer.tablet_count = rnd(ROWS + 1);
	for (unsigned i = 0; i < f->answer.tablet_count; i++)
		f->tablets[i] = rnd_tablet();
	f->answer.why = rnd_bytes();
	f->answer.log = rnd_bytes();
	f->cell_count = rnd(50);
	for (unsigned i = 0; i < f->cell_count; i++)
		f->cells[i] = (struct tfs_cell){.row = rnd_bytes(),
			.qualifier = rnd_bytes(),
			.value = rnd_bytes(),
			.family_id = (uint16_t)rnd64(),
			.ts = rnd_ts(),
			.expires_us = rnd_ts(),
			.size = rnd64()};
	for (unsigned i = 0; i < sizeof f->bytes; i++)
		f->bytes[i] = (uint8_t)rnd64();
}

static void expect_answer(const struct ts_request *q, const struct fake *f, const struct ts_answer *a)
{
	assert_int_equal(a->exists, f->answer.exists);
	assert_int_equal(a->ts, f->answer.ts);
	assert_int_equal(a->expires_us, f->answer.expires_us);
	assert_int_equal(a->size, f->answer.size);
	assert_int_equal(a->scan, f->answer.scan);
	expect_bytes(a->tablet_end, f->answer.tablet_end);
	expect_tablets(a->tablets, a->tablet_count, f->tablets, f->answer.tablet_count);
	expect_files(a->files, a->file_count, f->files, f->answer.file_count);
	assert_int_equal(a->log_count, f->answer.log_count);
	for (unsigned i = 0; i < a->log_count; i++)
		assert_true(a->logs[i] == f->logs[i]);
	expect_bytes(a->why, f->answer.why);
	expect_bytes(a->log, f->answer.log);
	assert_int_equal(a->batch.done, f->answer.batch.done);
	assert_int_equal(a->batch.count, f->cell_count);
	for (unsigned i = 0; i < f->cell_count; i++) {
		expect_bytes(a->batch.cells[i].row, f->cells[i].row);
		expect_bytes(a->batch.cells[i].qualifier, f->cells[i].qualifier);
		expect_bytes(a->batch.cells[i].value, f->cells[i].value);
		assert_int_equal(a->batch.cells[i].family_id, f->cells[i].family_id);
		assert_int_equal(a->batch.cells[i].ts, f->cells[i].ts);
		assert_int_equal(a->batch.cells[i].expires_us, f->cells[i].expires_us);
		assert_int_equal(a->batch.cells[i].size, f->cells[i].size);
	}
	if (q->method == TS_READ) {
		assert_int_equal(a->got, q->length / 2);
		assert_memory_equal(q->into, f->bytes, a->got);
	}
	if (q->method == TS_TABLET_INFO) {
		expect_bytes(a->tablet.begin, f->answer.tablet.begin);
		expect_bytes(a->tablet.end, f->answer.tablet.end);
		expect_bytes(a->tablet.server, f->answer.tablet.server);
		expect_bytes(a->tablet.state, f->answer.tablet.state);
		expect_bytes(a->tablet.events, f->answer.tablet.events);
		assert_int_equal(a->tablet.sample_count, f->answer.tablet.sample_count);
		for (uint32_t i = 0; i < a->tablet.sample_count; i++)
			expect_bytes(a->tablet.samples[i].row, f->answer.tablet.samples[i].row);
		assert_int_equal(a->tablet.reads, f->answer.tablet.reads);
		assert_int_equal(a->tablet.writes, f->answer.tablet.writes);
		assert_int_equal(a->tablet.compactions, f->answer.tablet.compactions);
		assert_memory_equal(
			&a->tablet.disk_bytes, &f->answer.tablet.disk_bytes, 5 * sizeof(uint64_t) + 2 * sizeof(uint32_t));
	}
}

static void test_round_trip(void **state)
{
	static const struct tablet_service_ops ops = {.call = fake_call};
	static struct sample s;
	static struct fake f;
	static uint8_t into[5000];
	struct tablet_service *t;

	f.base.ops = &ops;
	t = ts_round_trip_new(&f.base);
	assert_non_null(t);
	for (int i = 0; i < 500; i++) {
		struct tfs_result results[OPS] = {0};
		int row_errs[ROWS];
		struct ts_answer a = {.results = rnd(2) ? results : NULL, .row_errs = row_errs};
		bool wanted = a.results != NULL;

		rnd_request(&s);
		rnd_answer(&f);
		memset(into, 0, sizeof into);
		s.q.into = into;
		f.want = &s.q;
		assert_int_equal(ts_call(t, &s.q, &a), f.rc);
		assert_int_equal(a.schema_generation, f.answer.schema_generation);
		if (!f.rc) {
			expect_answer(&s.q, &f, &a);
			for (unsigned k = 0; k < row_err_count(&s.q); k++)
				assert_int_equal(row_errs[k], f.row_errs[k]);
			for (unsigned k = 0; wanted && k < result_count(&s.q); k++) {
				assert_int_equal(results[k].ts, f.results[k].ts);
				assert_int_equal(results[k].counter, f.results[k].counter);
				assert_int_equal(results[k].size, f.results[k].size);
				assert_int_equal(results[k].replaced, f.results[k].replaced);
			}
		}
		ts_answer_fini(&a);
	}
	assert_int_equal(f.calls, 500);
	free(t);
}

/* ---- hostile bytes ---- */

static void test_damaged_tablet_messages(void **state)
{
	static struct sample s;
	static struct fake f;
	static uint8_t into[5000];
	struct buf b = {0};

	/* the server allocates a read's memory when it finds the value */
	struct ts_request large = {.method = TS_READ, .length = 64 << 20}, got;
	struct arena room = {0};

	assert_int_equal(ts_request_pack(&large, &b), 0);
	assert_int_equal(ts_request_unpack(buf_bytes(&b), &room, &got), 0);
	assert_true(room.used_bytes < 4096);
	arena_fini(&room);
	for (int i = 0; i < 60; i++) {
		struct ts_answer a = {0};

		rnd_request(&s);
		s.q.row = s.q.qualifier = tfs_str("short");
		s.q.into = into;
		buf_reset(&b);
		assert_int_equal(ts_request_pack(&s.q, &b), 0);
		for (size_t n = 0; n < b.n; n += 1 + b.n / 500) {
			struct arena arena = {0};
			struct ts_request q;

			assert_int_equal(ts_request_unpack(tfs_bytes_of(b.p, n), &arena, &q), -EBADMSG);
			arena_fini(&arena);
		}
		/* one byte too many */
		struct arena arena = {0};
		struct ts_request q;

		assert_int_equal(buf_u8(&b, 0), 0);
		assert_int_equal(ts_request_unpack(buf_bytes(&b), &arena, &q), -EBADMSG);
		for (int k = 0; k < 300; k++) {
			size_t at = rnd((unsigned)(b.n < 300 ? b.n : 300));
			uint8_t was = b.p[at];
			int rc;

			b.p[at] ^= (uint8_t)(1u << rnd(8));
			rc = ts_request_unpack(tfs_bytes_of(b.p, b.n - 1), &arena, &q);
			assert_true(rc == 0 || rc == -EBADMSG || (rc == -EPROTO && at == 0));
			b.p[at] = was;
			arena_reset(&arena);
		}
		arena_fini(&arena);
		rnd_answer(&f);
		f.rc = 0;
		f.want = &s.q;
		f.base.ops = NULL;
		a.results = f.results;
		assert_int_equal(fake_call(&f.base, &s.q, &a), 0);
		buf_reset(&b);
		assert_int_equal(ts_answer_pack(&s.q, &a, &b), 0);
		ts_answer_fini(&a);
		for (int k = 0; k < 300; k++) {
			struct tfs_result results[OPS];
			size_t at = rnd((unsigned)(b.n < 300 ? b.n : 300));
			uint8_t was = b.p[at];
			int rc;

			a.results = results;
			b.p[at] ^= (uint8_t)(1u << rnd(8));
			rc = ts_answer_unpack(tfs_bytes_of(b.p, b.n - (k % 3 == 0)), &s.q, &a);
			assert_true(rc == 0 || rc == -EBADMSG);
			b.p[at] = was;
			ts_answer_fini(&a);
		}
	}
	buf_fini(&b);
}

/* ---- master ---- */

struct fake_master {
	struct master_service base;
	const struct ms_request *want;
	const struct schema *schema;
	int rc;
};

static void same_string(const char *a, const char *b)
{
	assert_int_equal(a == NULL, b == NULL);
	if (a)
		assert_string_equal(a, b);
}

static void expect_ms_request(const struct ms_request *a, const struct ms_request *b)
{
	assert_int_equal(a->method, b->method);
	same_string(a->name, b->name);
	same_string(a->to, b->to);
	assert_int_equal(a->table, b->table);
	assert_int_equal(a->noreplace, b->noreplace);
	assert_int_equal(a->of_all, b->of_all);
	assert_int_equal(a->uid, b->uid);
	assert_int_equal(a->gid, b->gid);
	assert_int_equal(a->mode, b->mode);
	assert_int_equal(a->incarnation, b->incarnation);
	assert_int_equal(a->number, b->number);
	expect_bytes(a->text, b->text);
	expect_user(a->user, b->user);
	assert_int_equal(a->mtime_us, b->mtime_us);
	assert_int_equal(a->time_left_us, b->time_left_us);
	assert_int_equal(a->edit == NULL, b->edit == NULL);
	if (!a->edit)
		return;
	assert_int_equal(a->edit->op, b->edit->op);
	assert_int_equal(a->edit->explicit_act, b->edit->explicit_act);
	same_string(a->edit->name, b->edit->name);
	same_string(a->edit->value, b->edit->value);
	assert_true(bytes_eq(a->edit->text, b->edit->text));
	assert_int_equal(a->edit->uid, b->edit->uid);
	assert_int_equal(a->edit->gid, b->edit->gid);
	assert_int_equal(a->edit->mode, b->edit->mode);
	assert_int_equal(a->edit->flag, b->edit->flag);
	assert_int_equal(a->edit->while_open, b->edit->while_open);
	assert_int_equal(a->edit->mtime_us, b->edit->mtime_us);
}

static int fake_master_call(struct master_service *s, const struct ms_request *q, struct ms_answer *a)
{
	struct fake_master *f = (struct fake_master *)s;

	expect_ms_request(f->want, q);
	if (f->rc) {
		a->why = strdup("line 3: because");
		return f->rc;
	}
	a->schema = f->schema ? schema_get(f->schema) : NULL;
	return 0;
}

static void test_master(void **state)
{
	static const struct master_service_ops ops = {.call = fake_master_call};
	static const char *const strings[] = {NULL, "", "webtable", "\xff\x01"};
	struct fake_master f = {.base = {&ops}};
	struct master_service *m = ms_round_trip_new(&f.base);
	static const gid_t groups[] = {0, 100, (gid_t)-1};
	struct schema *s = NULL;
	struct buf b = {0};

	assert_non_null(m);
	assert_int_equal(schema_new("webtable", 16, 1, 2, 0700, 5, &s), 0);
	for (int i = 0; i < 400; i++) {
		struct tfs_schema_edit e = {.op = (enum tfs_schema_op)rnd(TFS_SCHEMA_TEXT_APPEND + 1),
			.explicit_act = rnd(2),
			.name = strings[rnd(4)],
			.value = strings[rnd(4)],
			.text = rnd_bytes(),
			.uid = (uid_t)rnd64(),
			.gid = (gid_t)rnd64(),
			.mode = (mode_t)rnd64(),
			.flag = rnd(2),
			.while_open = rnd(2),
			.mtime_us = rnd_ts()};
		const struct tfs_user user = {.uid = (uid_t)rnd64(),
			.gid = (gid_t)rnd64(),
			.groups = groups,
			.group_count = rnd(4),
			.groups_unknown = rnd(2)};
		struct ms_request q = {.method = (enum ms_method)(1 + rnd(MS_METHODS - 1)),
			.name = strings[rnd(4)],
			.to = strings[rnd(4)],
			.table = (uint32_t)rnd64(),
			.noreplace = rnd(2),
			.of_all = rnd(2),
			.uid = (uid_t)rnd64(),
			.gid = (gid_t)rnd64(),
			.mode = (mode_t)rnd64(),
			.text = rnd_bytes(),
			.mtime_us = rnd_ts(),
			.time_left_us = rnd64(),
			.incarnation = rnd64(),
			.number = rnd64(),
			.user = rnd(2) ? &user : NULL,
			.edit = rnd(2) ? &e : NULL};
		struct ms_answer a = {0};

		f.want = &q;
		f.rc = rnd(4) ? 0 : -EINVAL;
		f.schema = rnd(2) ? s : NULL;
		assert_int_equal(ms_call(m, &q, &a), f.rc);
		assert_int_equal(a.err, f.rc);
		if (f.rc) {
			assert_string_equal(a.why, "line 3: because");
		} else {
			assert_null(a.why);
			assert_int_equal(a.schema != NULL, f.schema != NULL);
			if (a.schema) {
				assert_string_equal(schema_public(a.schema)->text, schema_public(s)->text);
				assert_int_equal(schema_public(a.schema)->gid, 2);
			}
		}
		/* damage */
		buf_reset(&b);
		assert_int_equal(ms_answer_pack(&q, &a, &b), 0);
		for (int k = 0; k < 100 && b.n; k++) {
			struct ms_answer d = {0};
			size_t at = rnd((unsigned)b.n);

			b.p[at] ^= (uint8_t)(1u << rnd(8));
			int rc = ms_answer_unpack(buf_bytes(&b), &q, &d);

			assert_true(rc == 0 || rc == -EBADMSG);
			if (rc == 0)
				ms_answer_fini(&d);
			else
				assert_null(d.schema);
		}
		ms_answer_fini(&a);
		buf_reset(&b);
		assert_int_equal(ms_request_pack(&q, &b), 0);
		for (size_t n = 0; n < b.n; n += 1 + b.n / 50) {
			struct arena arena = {0};
			struct ms_request d;

			assert_int_equal(ms_request_unpack(tfs_bytes_of(b.p, n), &arena, &d), -EBADMSG);
			arena_fini(&arena);
		}
	}
	schema_put(s);
	buf_fini(&b);
	free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_other_versions_are_refused),
		cmocka_unit_test(test_large_values_are_borrowed),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_damaged_tablet_messages),
		cmocka_unit_test(test_master),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
