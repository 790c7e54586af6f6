/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tablet service: checks the request (families, sizes), finds the tablet
 * in the set and calls it.
 */
#include "engine/server/internal.h"

#include <errno.h>
#include <stdlib.h>

#define ROW_BYTES_MAX (64u * 1024u)
#define QUALIFIER_BYTES_MAX (16u * 1024u)
#define RECORD_BYTES 64
#define CELL_BYTES 32
#define MOVED_TRIES 8 /* splits and merges of a tablet during one call */

/*
 * Root and METADATA rows are longer than a user's: a table id and a marker
 * before the end row.  A row of a salted table has a byte in front.
 */
static bool row_ok(const struct ts_request *q)
{
	return q->row.n > 0 && q->row.n <= ROW_BYTES_MAX + (q->table == META_TABLE ? 16 : 1);
}

static bool op_needs_family(const struct op *op)
{
	return op->kind != OP_DELETE_ROW;
}

static int check_ops(const struct ts_request *q, const struct store_schema *schema)
{
	for (uint32_t i = 0; i < q->op_count; i++) {
		const struct op *op = &q->ops[i];

		if (op->kind < OP_WRITE || op->kind >= OP_KINDS)
			return -EINVAL;
		if (op_needs_family(op) && !store_schema_family(schema, op->family))
			return -EINVAL;
		if (op->kind == OP_MOVE && !store_schema_family(schema, op->to_family))
			return -EINVAL;
		if (op->qualifier.n > QUALIFIER_BYTES_MAX || op->to_qualifier.n > QUALIFIER_BYTES_MAX)
			return -EINVAL;
	}
	return 0;
}

/* The size of its log record, about.  Bytes that the mutation reads from the row are not included. */
static uint64_t bytes_of(const struct ts_request *q)
{
	uint64_t bytes = RECORD_BYTES;

	for (uint32_t i = 0; i < q->op_count; i++) {
		const struct op *op = &q->ops[i];

		bytes += CELL_BYTES + q->row.n + op->qualifier.n + op->value.n + op->append.n;
		for (uint32_t k = 0; k < op->range_count; k++)
			bytes += op->ranges[k].data.n;
	}
	return bytes;
}

static int service_mutate(struct server *s, struct served_tablet *served, const struct ts_request *q, struct op_result *results)
{
	enum disk_use use = served->kind != KIND_USER  ? DISK_METADATA
		: ops_only_remove(q->ops, q->op_count) ? DISK_REMOVE
						       : DISK_PUT;
	unsigned tries = 0;
	int err = space_admit(s, use, bytes_of(q));

	if (err)
		return err;
	do
		err = tablet_mutate(served->tablet, q->row, q->ops, q->op_count, q->token, q->sync || s->sync, results);
	while ((err == -ENOSPC || err == -EDQUOT) && space_retry(s, use, tries++));
	return err;
}

static int call_mutate(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a)
{
	struct op_result *results = a->results;
	struct store_schema *schema = NULL;
	int err = 0;

	if (q->op_count == 0 || !q->ops)
		return -EINVAL;
	if (!results) {
		results = arena_alloc(&a->arena, q->op_count * sizeof(*results));
		if (!results)
			return -ENOMEM;
	}
	if (served->kind != KIND_USER)
		return service_mutate(s, served, q, results);
	traffic_table(served->user_table, TABLE_WRITES, 1);
	traffic_table(served->user_table, TABLE_WRITTEN_BYTES, bytes_of(q));
	err = user_table_write_begin(s, served->user_table, q->schema_generation, ON_HOLD_WAIT, &schema);
	if (err)
		return err;
	err = check_ops(q, schema);
	if (!err)
		err = service_mutate(s, served, q, results);
	store_schema_put(schema);
	user_table_write_end(s, served->user_table);
	return err;
}

static int call_info(struct served_tablet *served, const struct ts_request *q, struct ts_answer *a)
{
	struct tablet_stats st = {0};
	struct slice begin = tablet_begin(served->tablet), end = tablet_end(served->tablet);
	struct ts_tablet *t = &a->tablet;
	int err = 0;

	if (q->family)
		err = tablet_family_stats(served->tablet, q->family, &st);
	else
		tablet_get_stats(served->tablet, &st);
	if (err)
		return err;
	*t = (struct ts_tablet){
		.disk_bytes = st.disk_bytes,
		.raw_bytes = st.raw_bytes,
		.memory_bytes = st.memory_bytes,
		.cells = st.cells,
		.tombstones = st.tombstones,
		.files = st.files,
		.memtables = st.memtables,
		.server = slice_str(SERVER_NAME),
		.state = slice_str(
			served->user_table && atomic_load(&served->user_table->salt_waits) && strcmp(st.state, "serving") == 0
				? "salt-waits"
				: st.state),
	};
	if (!arena_dup(&a->arena, begin, &t->begin))
		return -ENOMEM;
	t->end = (struct slice){NULL, 0};
	if (end.p && !arena_dup(&a->arena, end, &t->end))
		return -ENOMEM;
	return 0;
}

static int answer_tablet_end(struct served_tablet *served, struct ts_answer *a)
{
	a->tablet_end = (struct slice){NULL, 0};
	return served->last || arena_dup(&a->arena, buf_slice(&served->end), &a->tablet_end) ? 0 : -ENOMEM;
}

static int call_tablet(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a)
{
	struct cell_info info = {0};
	int err;

	switch (q->method) {
	case TS_MUTATE:
		return row_ok(q) ? call_mutate(s, served, q, a) : -EINVAL;
	case TS_READ:
		traffic_table_read(served->user_table);
		err = tablet_read(
			served->tablet, q->row, q->family, q->qualifier, q->ts, q->offset, q->into, q->length, &a->got, &info);
		a->ts = info.ts;
		a->expires_us = info.expires_us;
		a->commit_us = info.commit_us;
		a->size = info.size;
		return err;
	case TS_EXISTS:
		traffic_table_read(served->user_table);
		return tablet_row_exists(served->tablet, q->row, q->family, &a->exists);
	case TS_FLUSH:
		err = tablet_flush(served->tablet);
		return err ? err : answer_tablet_end(served, a);
	case TS_COMPACT:
		err = tablet_compact(served->tablet);
		return err ? err : answer_tablet_end(served, a);
	case TS_TABLET_INFO:
		return call_info(served, q, a);
	case TS_SCAN_OPEN:
	case TS_SCAN_NEXT:
	case TS_SCAN_CLOSE:
	case TS_MUTATE_ROWS:
	case TS_SYNC:
	case TS_BLOCK_WRITES:
	case TS_UNBLOCK_WRITES:
	case TS_SPLIT:
	case TS_MERGE:
	case TS_METHODS:
		break;
	}
	return -ENOSYS;
}

/* Translates errors between a tablet and its server for the client: the tablet is not served here, or its table was dropped. */
static int service_error(struct server *s, struct served_tablet *served, int err)
{
	if (err != -ESTALE && err != -ESHUTDOWN)
		return err;
	return served->user_table && user_table_dropped(s, served->user_table) ? -EIDRM : -EREMCHG;
}

/* Calls the tablet that contains the row. */
static int call_row(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct served_tablet *served;
	int err;

	/* If a split or merge replaces the tablet meanwhile, its successors are in the set when it returns. */
	for (unsigned tries = 0; tries < MOVED_TRIES; tries++) {
		err = served_find(s, q->table, q->row, &served);
		if (err)
			return err;
		err = call_tablet(s, served, q, a);
		/*
		 * The client's schema has a family that this server's lacks:
		 * the watch that should have reported it may have failed.
		 */
		if (err == -EINVAL && q->method == TS_READ && served->user_table &&
			user_table_read_again(s, served->user_table, q->schema_generation))
			err = call_tablet(s, served, q, a);
		err = service_error(s, served, err);
		served_put(served);
		if (err != -EREMCHG)
			break;
	}
	return err;
}

/* All rows share one sync. */
static int call_rows(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	int err = 0;

	if (q->row_count && (!q->rows || !a->row_errs))
		return -EINVAL; /* the caller must get the errors */
	for (uint32_t i = 0; i < q->row_count; i++) {
		struct ts_request one = {.method = TS_MUTATE,
			.table = q->table,
			.schema_generation = q->schema_generation,
			.row = q->rows[i].row,
			.ops = q->rows[i].ops,
			.op_count = q->rows[i].op_count};
		struct ts_answer answer = {0};

		a->row_errs[i] = err ? err : call_row(s, &one, &answer);
		/* A row may occur more than once, and a repeated request must keep its order. */
		if (a->row_errs[i] == -EREMCHG || a->row_errs[i] == -EIDRM)
			err = a->row_errs[i];
		ts_answer_fini(&answer);
	}
	return q->sync ? log_sync(s->log) : 0;
}

static int server_call(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	struct server *s = (struct server *)service;
	const uint64_t since_us = traffic_begin(q);
	int err = 0;

	switch (q->method) {
	case TS_SCAN_OPEN:
	case TS_SCAN_NEXT:
	case TS_SCAN_CLOSE:
		err = scans_call(s, q, a);
		break;
	case TS_MUTATE_ROWS:
		err = call_rows(s, q, a);
		break;
	case TS_SYNC:
		err = log_sync(s->log);
		break;
	case TS_BLOCK_WRITES:
		err = user_table_hold_writes(s, q->table);
		break;
	case TS_UNBLOCK_WRITES:
		user_table_release_writes(s, q->table);
		break;
	case TS_SPLIT:
		err = row_ok(q) ? moves_split(s, q->table, q->row) : -EINVAL;
		break;
	case TS_MERGE:
		err = moves_merge(s, q->table, q->row);
		break;
	case TS_MUTATE:
	case TS_READ:
	case TS_EXISTS:
	case TS_FLUSH:
	case TS_COMPACT:
	case TS_TABLET_INFO:
	case TS_METHODS:
	default:
		err = call_row(s, q, a);
	}
	traffic_end(s, q, since_us);
	a->err = err;
	return err;
}

static const struct tablet_service_ops server_service_ops = {.call = server_call};

struct tablet_service *server_service(struct server *s)
{
	s->service.ops = &server_service_ops;
	return &s->service;
}
