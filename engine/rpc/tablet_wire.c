/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tablet service's requests and answers as bytes.  A message may come
 * from anywhere: every enum and count is checked here.  The server checks
 * sizes of rows and the order of ranges, as it does for a caller in the same
 * process.
 *
 * An answer is two messages: the listed members of struct ts_answer, then,
 * unless it is an error, struct payload.
 */
#include "engine/base/scan.h"
#include "engine/rpc/tablet_service.h"
#include "engine/rpc/user_wire.h"
#include "engine/tabletfs.h"

#include <errno.h>
#include <stdlib.h>

#define READ_MAX (64 * 1024 * 1024) /* the longest read, TFS_VALUE_MAX */

void ts_answer_fini(struct ts_answer *a)
{
	scan_batch_fini(&a->batch);
	arena_fini(&a->arena);
	*a = (struct ts_answer){0};
}

/* ---- the structs of engine/cell/op.h and tabletfs.h; the client sets `family` and `unsure` of a cell ---- */

#define TIME(F)                                                                                                                    \
	F(VALUE, 1, enum tfs_when, when)                                                                                           \
	F(VALUE, 2, int64_t, us)
#define OP_TOKEN(F)                                                                                                                \
	F(VALUE, 1, uint64_t, client)                                                                                              \
	F(VALUE, 2, uint64_t, number)                                                                                              \
	F(VALUE, 3, uint64_t, lowest_unanswered)
#define RANGE(F)                                                                                                                   \
	F(VALUE, 1, uint64_t, offset)                                                                                              \
	F(VALUE, 2, struct tfs_bytes, data)
#define WRITE(F)                                                                                                                   \
	F(VALUE, 1, struct tfs_bytes, qualifier)                                                                                   \
	F(VALUE, 2, enum tfs_base, base)                                                                                           \
	F(VALUE, 3, int64_t, base_ts)                                                                                              \
	F(VALUE, 4, uint64_t, truncate_to)                                                                                         \
	F(ARRAY, 5, tfs_range, ranges, range_count)                                                                                \
	F(VALUE, 6, struct tfs_bytes, append)                                                                                      \
	F(STRUCT, 7, tfs_ts, place)                                                                                                \
	F(VALUE, 8, bool, replace)                                                                                                 \
	F(VALUE, 9, int64_t, replace_ts)                                                                                           \
	F(VALUE, 10, bool, drop_newer)
#define OP(F)                                                                                                                      \
	F(VALUE, 1, enum op_kind, kind)                                                                                            \
	F(VALUE, 2, uint16_t, family)                                                                                              \
	F(VALUE, 3, uint16_t, to_family)                                                                                           \
	F(STRUCT, 4, tfs_write, w)                                                                                                 \
	F(VALUE, 5, struct tfs_bytes, value)                                                                                       \
	F(VALUE, 6, struct tfs_bytes, to_qualifier)                                                                                \
	F(STRUCT, 7, tfs_ts, to)                                                                                                   \
	F(VALUE, 8, bool, noreplace)                                                                                               \
	F(VALUE, 9, int64_t, by)                                                                                                   \
	F(VALUE, 10, enum tfs_check, check)
#define ROW_MUTATION(F)                                                                                                            \
	F(VALUE, 1, struct tfs_bytes, row)                                                                                         \
	F(ARRAY, 2, op, ops, op_count)                                                                                             \
	F(VALUE, 3, uint64_t, number)
#define RESULT(F)                                                                                                                  \
	F(VALUE, 1, int64_t, ts)                                                                                                   \
	F(VALUE, 2, int64_t, counter)                                                                                              \
	F(VALUE, 3, int64_t, commit_us)                                                                                            \
	F(VALUE, 4, uint64_t, size)                                                                                                \
	F(VALUE, 5, bool, replaced)                                                                                                \
	F(VALUE, 6, bool, failed)
#define SCAN_OWN(F)                                                                                                                \
	F(VALUE, 3, bool, row_salted)                                                                                              \
	F(VALUE, 4, struct tfs_bytes, files)                                                                                       \
	F(VALUE, 5, bool, kept)                                                                                                    \
	F(VALUE, 6, struct tfs_bytes, done_row)                                                                                    \
	F(VALUE, 7, struct tfs_bytes, done_qualifier)                                                                              \
	F(VALUE, 8, uint16_t, done_family)                                                                                         \
	F(VALUE, 9, bool, done_in_family)                                                                                          \
	F(VALUE, 10, int64_t, done_ts)                                                                                             \
	F(VALUE, 11, uint32_t, done_columns)                                                                                       \
	F(VALUE, 12, struct tfs_bytes, script)                                                                                     \
	F(VALUE, 13, struct tfs_bytes, script_name)                                                                                \
	F(VALUE, 14, struct tfs_bytes, script_args)
#define SCAN_SPEC(F)                                                                                                               \
	F(STRUCT, 1, tfs_scan_spec, pub)                                                                                           \
	F(NUMBERS, 2, uint16_t, family_ids, pub.family_count)                                                                      \
	F(NUMBERS, 15, uint16_t, where_ids, where_count)                                                                           \
	SCAN_OWN(F)
#define SCAN_CELL(F)                                                                                                               \
	F(VALUE, 1, struct tfs_bytes, row)                                                                                         \
	F(VALUE, 2, struct tfs_bytes, qualifier)                                                                                   \
	F(VALUE, 3, struct tfs_bytes, value)                                                                                       \
	F(VALUE, 4, uint16_t, family_id)                                                                                           \
	F(VALUE, 5, int64_t, ts)                                                                                                   \
	F(VALUE, 6, int64_t, expires_us)                                                                                           \
	F(VALUE, 7, int64_t, commit_us)                                                                                            \
	F(VALUE, 8, uint64_t, size)                                                                                                \
	F(VALUE, 9, uint64_t, sequence)
WIRE_COMPLETE(tfs_ts, TIME)
WIRE_COMPLETE(op_token, OP_TOKEN)
WIRE_COMPLETE(tfs_range, RANGE)
WIRE_COMPLETE_WITH(tfs_write, WRITE, const char *family;)
WIRE_COMPLETE(op, OP)
WIRE_COMPLETE(row_mutation, ROW_MUTATION)
WIRE_COMPLETE(tfs_result, RESULT)
WIRE_COMPLETE_WITH(tfs_scan_spec, SCAN_MEMBERS, const struct tfs_key *keys; unsigned key_count; const char *const *families;
		   unsigned family_count; bool (*stop)(void *arg); void *stop_arg; struct tfs_table * absent_from;
		   bool absent_names;)
WIRE_COMPLETE_WITH(scan_spec, SCAN_OWN, struct tfs_scan_spec pub; const uint16_t *family_ids; const uint16_t *where_ids;
		   uint32_t where_count;)
WIRE_COMPLETE_WITH(tfs_cell, SCAN_CELL, const char *family; bool unsure;)

static bool time_valid(const void *m)
{
	return ((const struct tfs_ts *)m)->when <= TFS_NEWEST;
}

static bool op_valid(const void *m)
{
	const struct op *op = m;

	return op->kind > 0 && op->kind < OP_KINDS && op->w.base <= TFS_BASE_VERSION && op->check <= TFS_CHECK_FAMILY;
}

static bool spec_valid(const void *m)
{
	const struct scan_spec *s = m;

	return s->pub.what <= SCAN_WHAT_LAST && s->pub.family_count <= UINT16_MAX;
}

WIRE_MESSAGE(tfs_ts, TIME, time_valid)
WIRE_MESSAGE(op_token, OP_TOKEN, NULL)
WIRE_MESSAGE(tfs_range, RANGE, NULL)
WIRE_MESSAGE(tfs_write, WRITE, NULL)
WIRE_MESSAGE(op, OP, op_valid)
WIRE_MESSAGE(row_mutation, ROW_MUTATION, NULL)
WIRE_MESSAGE(tfs_result, RESULT, NULL)
WIRE_MESSAGE(tfs_scan_spec, SCAN_MEMBERS, NULL)
WIRE_MESSAGE(scan_spec, SCAN_SPEC, spec_valid)
WIRE_MESSAGE(tfs_cell, SCAN_CELL, NULL)

size_t row_mutation_bytes(const struct row_mutation *m)
{
	return wire_copy_bytes(row_mutation_wire(), m);
}

struct row_mutation row_mutation_copy(const struct row_mutation *m, void *memory)
{
	struct row_mutation copy = *m;
	uint8_t *at = memory;

	wire_copy(row_mutation_wire(), &copy, &at);
	return copy;
}

/* ---- requests ---- */

static bool request_valid(const void *m)
{
	const struct ts_request *q = m;

	return q->method > 0 && q->method < TS_METHODS && q->length <= READ_MAX && q->row_count <= TS_ROWS_MAX &&
		q->file_count <= TS_FILES_MAX;
}

WIRE_MESSAGE(ts_assigned, TS_ASSIGNED, NULL)
WIRE_MESSAGE(ts_file, TS_FILE, NULL)
WIRE_MESSAGE(ts_request, TS_REQUEST, request_valid)

int ts_request_pack(const struct ts_request *q, struct buf *out)
{
	return wire_pack_request(ts_request_wire(), q, out);
}

int ts_request_unpack(struct tfs_bytes in, struct arena *arena, struct ts_request *q)
{
	struct ts_request x = {0};
	int err = wire_unpack_request(in, ts_request_wire(), arena, &x);

	if (!err)
		*q = x;
	return err;
}

/* ---- answers ---- */

#define PAYLOAD(F)                                                                                                                 \
	F(VALUE, 1, struct tfs_bytes, bytes)                                                                                       \
	F(ARRAY, 2, tfs_result, results, result_count)                                                                             \
	F(NUMBERS, 3, int, row_errs, row_err_count)                                                                                \
	F(ARRAY, 4, tfs_cell, cells, cell_count)                                                                                   \
	F(VALUE, 5, bool, done)                                                                                                    \
	F(VALUE, 6, bool, damaged)                                                                                                 \
	F(ARRAY, 7, ts_assigned, tablets, tablet_count)                                                                            \
	F(VALUE, 8, struct tfs_bytes, why)                                                                                         \
	F(ARRAY, 9, ts_file, files, file_count)                                                                                    \
	F(NUMBERS, 10, uint64_t, logs, log_count)                                                                                  \
	F(VALUE, 11, struct tfs_bytes, log)
struct payload {
	PAYLOAD(WIRE_MEMBER)
};

static bool answer_valid(const void *m)
{
	return wire_errno_valid(((const struct ts_answer *)m)->err);
}

static bool payload_valid(const void *m)
{
	const struct payload *p = m;

	for (uint32_t i = 0; i < p->row_err_count; i++)
		if (!wire_errno_valid(p->row_errs[i]))
			return false;
	return p->cell_count <= UINT32_MAX / 2;
}

WIRE_MESSAGE(ts_sample, TS_SAMPLE, NULL)
WIRE_MESSAGE(ts_tablet, TS_TABLET, NULL)
WIRE_MESSAGE(ts_answer, TS_ANSWER, answer_valid)
WIRE_MESSAGE(payload, PAYLOAD, payload_valid)

/* The number of errors in the answer to q. */
static uint32_t row_err_count(const struct ts_request *q)
{
	return q->method == TS_MUTATE                            ? q->row_count
		: q->method == TS_LOAD || q->method == TS_UNLOAD ? q->tablet_count
		: q->method == TS_FILES                          ? q->file_count
								 : 0;
}

static uint32_t result_count(const struct ts_request *q)
{
	return q->method == TS_MUTATE && q->row_count == 1 ? q->rows[0].op_count : 0;
}

int ts_answer_pack(const struct ts_request *q, const struct ts_answer *a, struct buf *out)
{
	const struct ts_answer error = {.err = a->err, .failed_op = a->failed_op, .schema_generation = a->schema_generation};
	struct payload p = {.cells = a->batch.cells,
		.cell_count = a->batch.count,
		.done = a->batch.done,
		.damaged = a->batch.damaged,
		.tablets = a->tablets,
		.tablet_count = a->tablet_count,
		.why = a->why,
		.files = a->files,
		.file_count = a->file_count,
		.logs = a->logs,
		.log_count = a->log_count,
		.log = a->log};
	const size_t from = out->n;
	int err = wire_pack(ts_answer_wire(), a->err ? &error : a, out);

	if (err || a->err)
		return err;
	if (q->method == TS_READ && a->got)
		p.bytes = q->into ? tfs_bytes_of(q->into, a->got) : a->bytes;
	if (a->results) {
		p.results = a->results;
		p.result_count = result_count(q);
	}
	if (a->row_errs) {
		p.row_errs = a->row_errs;
		p.row_err_count = row_err_count(q);
	}
	err = wire_pack(payload_wire(), &p, out);
	if (err)
		out->n = from;
	return err;
}

/* Returns false if the payload cannot answer this request. */
static bool payload_answers(const struct payload *p, const struct ts_request *q, const struct ts_answer *a)
{
	/* The server may leave out results that the caller did not ask for. */
	if (p->result_count != result_count(q) && (p->result_count || a->results))
		return false;
	return p->row_err_count == row_err_count(q) && p->bytes.n <= (q->method == TS_READ ? q->length : 0);
}

static int batch_fill(struct scan_batch *b, const struct payload *p)
{
	if (p->cell_count > b->cap) {
		struct tfs_cell *more = realloc(b->cells, p->cell_count * sizeof *more);

		if (!more)
			return -ENOMEM;
		b->cells = more;
		b->cap = p->cell_count;
	}
	for (uint32_t i = 0; i < p->cell_count; i++) {
		struct tfs_cell *c = &b->cells[i];

		*c = p->cells[i];
		if (bytes_own(&c->row, &b->arena) || bytes_own(&c->qualifier, &b->arena) || bytes_own(&c->value, &b->arena))
			return -ENOMEM;
	}
	b->count = p->cell_count;
	b->done = p->done;
	b->damaged = p->damaged;
	return 0;
}

static int tablets_own(const struct payload *p, struct ts_answer *a)
{
	a->tablets = wire_zalloc(&a->arena, p->tablet_count * sizeof(*a->tablets));
	if (!a->tablets)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->tablet_count; i++) {
		struct ts_assigned *t = &a->tablets[i];

		*t = p->tablets[i];
		if (bytes_own(&t->begin, &a->arena) || bytes_own(&t->end, &a->arena))
			return -ENOMEM;
	}
	a->tablet_count = p->tablet_count;
	return 0;
}

static int files_own(const struct payload *p, struct ts_answer *a)
{
	a->files = wire_zalloc(&a->arena, p->file_count * sizeof(*a->files));
	a->logs = wire_zalloc(&a->arena, p->log_count * sizeof(*a->logs));
	if (!a->files || !a->logs)
		return -ENOMEM;
	if (p->file_count)
		memcpy(a->files, p->files, p->file_count * sizeof(*a->files));
	if (p->log_count)
		memcpy(a->logs, p->logs, p->log_count * sizeof(*a->logs));
	a->file_count = p->file_count;
	a->log_count = p->log_count;
	return 0;
}

static int payload_unpack(struct reader *r, const struct ts_request *q, struct arena *arena, struct ts_answer *a)
{
	struct payload p = {0};
	int err = wire_unpack(r, payload_wire(), arena, &p);

	if (!err && !payload_answers(&p, q, a))
		err = -EBADMSG;
	if (err)
		return err;
	if (a->results && p.result_count)
		memcpy(a->results, p.results, p.result_count * sizeof *p.results);
	if (a->row_errs && p.row_err_count)
		memcpy(a->row_errs, p.row_errs, p.row_err_count * sizeof *p.row_errs);
	if (p.bytes.n)
		memcpy(q->into, p.bytes.p, p.bytes.n);
	a->got = p.bytes.n;
	a->why = p.why;
	a->log = p.log;
	if (bytes_own(&a->why, &a->arena) || bytes_own(&a->log, &a->arena))
		return -ENOMEM;
	err = p.tablet_count ? tablets_own(&p, a) : 0;
	if (!err && (p.file_count || p.log_count))
		err = files_own(&p, a);
	return err ? err : batch_fill(&a->batch, &p);
}

/* The samples that were unpacked borrow from the message. */
static int samples_own(struct ts_tablet *t, struct arena *arena)
{
	struct ts_sample *own = t->sample_count ? wire_zalloc(arena, t->sample_count * sizeof(*own)) : NULL;

	if (t->sample_count && !own)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->sample_count; i++) {
		own[i] = t->samples[i];
		if (bytes_own(&own[i].row, arena))
			return -ENOMEM;
	}
	t->samples = own;
	return 0;
}

int ts_answer_unpack(struct tfs_bytes in, const struct ts_request *q, struct ts_answer *a)
{
	const struct tfs_bytes end = a->tablet_end;
	struct reader r = reader_of(in);
	struct arena arena = {0};
	int err = wire_unpack(&r, ts_answer_wire(), &arena, a);

	scan_batch_reset(&a->batch);
	/* In a scan an earlier answer's end remains valid until another answer has one. */
	if (!a->tablet_end.p && q->method == TS_SCAN_NEXT)
		a->tablet_end = end;
	else if (!err && bytes_own(&a->tablet_end, &a->arena))
		err = -ENOMEM;
	if (!err &&
		(bytes_own(&a->tablet.begin, &a->arena) || bytes_own(&a->tablet.end, &a->arena) ||
			bytes_own(&a->tablet.server, &a->arena) || bytes_own(&a->tablet.state, &a->arena) ||
			bytes_own(&a->tablet.events, &a->arena) || samples_own(&a->tablet, &a->arena)))
		err = -ENOMEM;
	if (!err && !a->err)
		err = payload_unpack(&r, q, &arena, a);
	if (!err && reader_left(&r))
		err = -EBADMSG;
	arena_fini(&arena);
	return err;
}

/* ---- channels ---- */

static int is_well(void *arg, uint64_t incarnation, struct tablet_service *service)
{
	const struct ts_request q = {.method = TS_STORAGE, .time_left_us = 3000000};
	struct ts_answer a = {0};
	int err = ts_call(service, &q, &a);

	ts_answer_fini(&a);
	return err == 0;
}

bool ts_one_is_well(const struct tablet_servers *servers)
{
	return servers->each(servers->arg, is_well, NULL) > 0;
}

int ts_serve_decoded(struct tablet_service *inner, const struct ts_request *q, struct arena *arena, struct buf *out)
{
	struct ts_answer a = {.results = wire_zalloc(arena, result_count(q) * sizeof *a.results),
		.row_errs = wire_zalloc(arena, row_err_count(q) * sizeof *a.row_errs)};
	unsigned tries = 0;
	int err = a.results && a.row_errs ? 0 : -ENOMEM;

	if (!err) {
		a.err = ts_call(inner, q, &a);
		do
			err = ts_answer_pack(q, &a, out);
		while (wire_again(err, &tries));
	}
	ts_answer_fini(&a);
	return err;
}

int ts_serve(struct tablet_service *inner, struct tfs_bytes in, struct buf *out)
{
	struct arena arena = {0};
	struct ts_request q;
	int err = ts_request_unpack(in, &arena, &q);

	if (!err)
		err = ts_serve_decoded(inner, &q, &arena, out);
	arena_fini(&arena);
	return err;
}

WIRE_ROUND_TRIP(ts, tablet_service)
