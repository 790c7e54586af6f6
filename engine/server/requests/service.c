/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tablet service: checks each request (families, sizes), finds the row's
 * tablet in the set, and calls that tablet.
 */
#include "engine/server/requests/service.h"
#include "engine/base/file.h"
#include "engine/server/requests/actions.h"
#include "engine/server/requests/clients.h"
#include "engine/server/requests/scans.h"
#include "engine/server/requests/traffic.h"
#include "engine/server/storage/fence.h"
#include "engine/server/storage/files.h"
#include "engine/server/storage/space.h"
#include "engine/server/tables/access.h"
#include "engine/server/tables/schemas.h"
#include "engine/server/tablets/load.h"
#include "engine/server/tablets/moves.h"
#include "engine/server/tablets/sorter.h"
#include "engine/tabletfs.h"

#include <errno.h>
#include <stdlib.h>

#define QUALIFIER_BYTES_MAX (16u * 1024u)
#define RECORD_BYTES 64 /* estimates: of a log record and of one of its cells, without row, qualifier and value */
#define CELL_BYTES 32
#define MOVED_TRIES 8 /* tablets that one call tries, if splits and merges replace each tablet */

/*
 * Rows of METADATA and of the root tablet are longer than a user's rows: each has
 * a table id and a marker before the end row.  A row of a salted table has one
 * byte in front.
 */
static bool row_ok(const struct ts_request *q)
{
	return q->row.n > 0 && q->row.n <= ROW_BYTES_MAX + (q->table == META_TABLE ? 16 : 1);
}

/* Returns true if the operation names a family, which must then exist. */
static bool op_needs_family(const struct op *op)
{
	return op->kind != OP_DELETE_ROW;
}

static bool op_ok(const struct op *op, const struct store_schema *schema)
{
	return op->kind >= OP_WRITE && op->kind < OP_KINDS && (!op_needs_family(op) || store_schema_family(schema, op->family)) &&
		(op->kind != OP_MOVE || store_schema_family(schema, op->to_family)) && op->qualifier.n <= QUALIFIER_BYTES_MAX &&
		op->to_qualifier.n <= QUALIFIER_BYTES_MAX;
}

static int check_ops(const struct ts_request *q, const struct store_schema *schema, struct tfs_result *results)
{
	for (uint32_t i = 0; i < q->op_count; i++) {
		if (op_ok(&q->ops[i], schema))
			continue;
		if (results)
			results[i].failed = true;
		return -EINVAL;
	}
	return 0;
}

/* Returns about the size of the mutation's log record, without bytes that the mutation copies from the row's cells. */
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

/* -EAGAIN is the server's own answer: it has done nothing.  The disk's means nothing of the kind. */
static int error_of_disk(int err)
{
	return err == -EAGAIN ? -EIO : err;
}

static enum disk_use disk_use_of(const struct served_tablet *served, const struct ts_request *q)
{
	return served->kind != KIND_USER ? DISK_METADATA : ops_only_remove(q->ops, q->op_count) ? DISK_REMOVE : DISK_PUT;
}

static int mutate_with_space(
	struct server *s, struct served_tablet *served, const struct ts_request *q, struct token *token, struct tfs_result *results)
{
	const enum disk_use use = disk_use_of(served, q);
	unsigned tries = 0;
	int err = space_admit(s, use, bytes_of(q));

	if (err)
		return err;
	do
		err = tablet_mutate(served->tablet, q->row, q->ops, q->op_count, token, q->sync || s->sync, results);
	while (is_no_space(err) && space_retry(s, use, tries++));
	return error_of_disk(err);
}

/* Returns the number, from 1, of the operation that made the mutation fail; 0: none of them did. */
static uint32_t failed_op(const struct tfs_result *results, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (results[i].failed)
			return i + 1;
	return 0;
}

/* A mutation that was not carried out before. */
static int mutate(
	struct server *s, struct served_tablet *served, const struct ts_request *q, struct token *token, struct tfs_result *results)
{
	struct store_schema *schema = NULL;
	int err;

	memset(results, 0, q->op_count * sizeof(*results));
	if (served->kind != KIND_USER)
		return q->user ? -EACCES : mutate_with_space(s, served, q, token, results);
	traffic_tablet(served, TABLE_WRITES, 1);
	traffic_tablet(served, TABLE_WRITTEN_BYTES, bytes_of(q));
	err = user_table_write_begin(s, served->user_table, q->schema_generation, ON_BLOCK_REFUSE, &schema);
	if (err)
		return err;
	err = check_ops(q, schema, results);
	if (!err && q->user)
		err = access_ops(served, q, results);
	if (!err)
		err = mutate_with_space(s, served, q, token, results);
	store_schema_put(schema);
	user_table_write_end(s, served->user_table);
	return err;
}

static int apply_mutation(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a)
{
	struct tfs_result *results = a->results;
	struct token *token = NULL;
	int err = 0, known = 0;

	if (served->user_table && served->user_table->frozen)
		return -EROFS;
	if (!row_ok(q) || q->op_count == 0 || !q->ops)
		return -EINVAL;
	if (!results) {
		results = arena_alloc(&a->arena, q->op_count * sizeof(*results));
		if (!results)
			return -ENOMEM;
	}
	if (q->token.client)
		known = tablet_token_begin(served->tablet, &q->token, q->op_count, results, &err, &token);
	if (known < 0)
		return known;
	if (known)
		traffic_refused(s, q, -MUTATION_ANSWERED);
	else
		err = mutate(s, served, q, token, results);
	if (!err && q->user)
		access_hide_sizes(served, q, results);
	a->failed_op = err ? failed_op(results, q->op_count) : 0;
	if (token)
		tablet_token_end(served->tablet, token, err, a->failed_op);
	return err;
}

static int serve_mutation(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a)
{
	int err = 0;

	if (!q->to_table)
		return apply_mutation(s, served, q, a);
	if (served->table != META_TABLE)
		return -EINVAL;
	if (making_begin(s, q->to_table))
		err = q->split ? table_exists(s, q->to_table) : -ECANCELED;
	if (!err)
		err = apply_mutation(s, served, q, a);
	making_end(s);
	return err;
}

static int serve_info(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a)
{
	struct tablet_stats st = {0};
	struct tfs_bytes begin = tablet_begin(served->tablet), end = tablet_end(served->tablet);
	struct ts_tablet *t = &a->tablet;
	int err = q->user ? access_owner(served, q) : 0;

	if (err)
		return err;
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
		.server = tfs_str(SERVER_NAME),
		.state = tfs_str(
			served->user_table && atomic_load(&served->user_table->salt_waits) && strcmp(st.state, "serving") == 0
				? "salt-waits"
				: st.state),
		.reads = atomic_load(&served->reads),
		.writes = atomic_load(&served->writes),
		.compactions = (st.flushing ? TFS_COMPACTION_MINOR : 0) | (st.merging ? TFS_COMPACTION_MERGING : 0) |
			(st.majoring ? TFS_COMPACTION_MAJOR : 0),
	};
	if (!arena_dup(&a->arena, begin, &t->begin) || !served_events(served, &a->arena, &t->events))
		return -ENOMEM;
	t->end = (struct tfs_bytes){NULL, 0};
	if (end.p && !arena_dup(&a->arena, end, &t->end))
		return -ENOMEM;
	return 0;
}

static int serve_read(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a)
{
	struct tfs_info info = {0};
	int err = q->user ? access_family(served, q, q->family, TFS_MAY_READ) : 0;

	if (err)
		return err;
	traffic_tablet_read(served);
	if (q->into || !q->length) {
		err = tablet_read(
			served->tablet, q->row, q->family, q->qualifier, q->ts, q->offset, q->into, q->length, &a->got, &info);
	} else {
		err = tablet_read_most(served->tablet, q->row, q->family, q->qualifier, q->ts, q->offset,
			q->length < TS_READ_BYTES_MAX ? q->length : TS_READ_BYTES_MAX, &a->arena, &a->bytes, &info);
		a->got = a->bytes.n;
	}
	a->ts = info.ts;
	a->expires_us = info.expires_us;
	a->commit_us = info.commit_us;
	a->size = info.size;
	return err;
}

static int serve_exists(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a)
{
	uint16_t *ids = NULL;
	uint32_t count;
	int err;

	traffic_tablet_read(served);
	if (!q->user)
		return tablet_row_exists(served->tablet, q->row, q->family, &a->exists);
	err = access_readable(served, q, &q->family, q->family != 0, &ids, &count);
	if (err)
		return err;
	for (uint32_t i = 0; i < count && !err && !a->exists; i++)
		err = tablet_row_exists(served->tablet, q->row, ids[i], &a->exists);
	free(ids);
	return err;
}

/* TS_FLUSH, TS_COMPACT */
static int serve_compaction(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a)
{
	int err = q->method == TS_FLUSH ? tablet_flush(served->tablet) : tablet_compact(served->tablet);

	a->tablet_end = (struct tfs_bytes){NULL, 0};
	if (!err && !served->last && !arena_dup(&a->arena, buf_bytes(&served->end), &a->tablet_end))
		err = -ENOMEM;
	return err;
}

typedef int serve_tablet_fn(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a);

static int serve_from_tablet(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a)
{
	static serve_tablet_fn *const functions[TS_METHODS] = {
		[TS_MUTATE] = serve_mutation,
		[TS_READ] = serve_read,
		[TS_EXISTS] = serve_exists,
		[TS_FLUSH] = serve_compaction,
		[TS_COMPACT] = serve_compaction,
		[TS_TABLET_INFO] = serve_info,
	};

	return q->method < TS_METHODS && functions[q->method] ? functions[q->method](s, served, q, a) : -ENOSYS;
}

/* Translates errors of a tablet that has stopped: to -TABLE_DROPPED if its table was dropped, else to -TABLET_MOVED (not served here). */
static int error_for_client(struct server *s, struct served_tablet *served, int err)
{
	if (err != -TABLET_TAKEN && err != -TABLET_STOPPED)
		return err;
	return served->user_table && user_table_dropped(served->user_table) ? -TABLE_DROPPED : -TABLET_MOVED;
}

/* Calls the tablet that contains the row. */
static int serve_row(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct served_tablet *served;
	int err;

	/* A tablet that a split or merge has replaced returns -TABLET_MOVED.  By then the set has the new tablets. */
	for (unsigned tries = 0; tries < MOVED_TRIES; tries++) {
		err = served_find_for(s, q, q->row, &served);
		if (err)
			return err;
		err = serve_from_tablet(s, served, q, a);
		/*
		 * The client's schema may have a family that this server's
		 * lacks, because the watch could not read the new schema.
		 */
		if (err == -EINVAL && q->method == TS_READ && served->user_table &&
			user_table_read_again(s, served->user_table, q->schema_generation))
			err = serve_from_tablet(s, served, q, a);
		err = error_for_client(s, served, err);
		a->schema_generation = served_generation(served);
		served_put(served);
		if (err != -TABLET_MOVED)
			break;
	}
	return err;
}

/* ---- TS_MUTATE_ROWS ---- */

enum { ROWS_AT_ONCE = 256 }; /* rows that share a sync */

/* Rows of one request that are in one tablet. */
struct row_run {
	const struct ts_request *q;
	struct served_tablet *served;
	uint32_t from, count; /* of q->rows */
	uint64_t generation;  /* the schema's generation, for the answer */
	struct tablet_row rows[ROWS_AT_ONCE];
};

static struct ts_request run_request(const struct row_run *run, uint32_t i)
{
	struct ts_request one = *run->q;

	one.method = TS_MUTATE;
	one.row = run->q->rows[run->from + i].row;
	one.ops = run->q->rows[run->from + i].ops;
	one.op_count = run->q->rows[run->from + i].op_count;
	one.token.number = run->q->rows[run->from + i].number;
	return one;
}

/* Returns 0 or -errno of one row, which is not applied yet.  schema NULL: a tablet of METADATA. */
static int run_check_row(
	struct server *s, const struct row_run *run, const struct ts_request *one, const struct store_schema *schema)
{
	int err = row_ok(one) && one->op_count && one->ops ? 0 : -EINVAL;

	if (!err && schema)
		err = check_ops(one, schema, NULL);
	if (!err && one->user)
		err = access_ops(run->served, one, NULL);
	return err ? err : space_admit(s, disk_use_of(run->served, one), bytes_of(one));
}

static bool run_has_later(const struct row_run *run, uint32_t i)
{
	for (uint32_t k = i + 1; k < run->count; k++)
		if (!run->rows[k].err && bytes_eq(run->rows[k].row, run->rows[i].row))
			return true;
	return false;
}

/* Returns true if the row is sent again, because the disk had no space and no later mutation of the row was applied. */
static bool run_repeats_row(const struct row_run *run, uint32_t i)
{
	return is_no_space(run->rows[i].err) && !run_has_later(run, i);
}

/* Returns false if another copy of the row's mutation is under way, so that those after it must not be applied before it. */
static bool run_begin_token(struct row_run *run, const struct ts_request *one, uint32_t i)
{
	struct tablet_row *row = &run->rows[i];
	int err = 0, known = tablet_token_begin(run->served->tablet, &one->token, one->op_count, NULL, &err, &row->token);

	if (known) {
		traffic_refused(run->served->server, one, -MUTATION_ANSWERED);
		row->known = true;
		row->err = known < 0 ? known : err;
	}
	return known != -EAGAIN;
}

/* Applies the rows, unless their table refuses all of them: -errno. */
static int run_apply(struct server *s, struct row_run *run)
{
	struct user_table *u = run->served->user_table;
	struct store_schema *schema = NULL;
	uint64_t bytes = 0;
	int err = 0;

	if (u && u->frozen)
		return -EROFS;
	if (!u && run->q->user)
		return -EACCES;
	if (u)
		err = user_table_write_begin(s, u, run->q->schema_generation, ON_BLOCK_REFUSE, &schema);
	if (err)
		return err;
	for (uint32_t i = 0; i < run->count; i++) {
		const struct ts_request one = run_request(run, i);

		run->rows[i] = (struct tablet_row){
			.row = one.row, .ops = one.ops, .op_count = one.op_count, .err = run_check_row(s, run, &one, schema)};
		bytes += u ? bytes_of(&one) : 0;
		if (one.token.client && !run_begin_token(run, &one, i))
			run->count = i;
	}
	if (u) {
		traffic_tablet(run->served, TABLE_WRITES, run->count);
		traffic_tablet(run->served, TABLE_WRITTEN_BYTES, bytes);
	}
	tablet_mutate_rows(run->served->tablet, run->rows, run->count, run->q->sync || s->sync);
	for (uint32_t i = 0; i < run->count; i++)
		if (run->rows[i].token)
			tablet_token_end(
				run->served->tablet, run->rows[i].token, run_repeats_row(run, i) ? -EAGAIN : run->rows[i].err, 0);
	if (u) {
		store_schema_put(schema);
		user_table_write_end(s, u);
	}
	return 0;
}

static int run_repeat_row(struct server *s, const struct row_run *run, uint32_t i)
{
	const struct ts_request one = run_request(run, i);
	struct ts_answer a = {0};
	int err = serve_row(s, &one, &a);

	ts_answer_fini(&a);
	return err;
}

/* The row is not applied, and the same row may follow.  Its mutations must keep their order, so those after it are refused, too. */
static bool is_refusal(int err)
{
	return err == -TABLET_MOVED || err == -TABLE_DROPPED || err == -EAGAIN;
}

/*
 * Serves the rows from run->from on that are in the first one's tablet.  Returns
 * the number of rows that have been served or have failed.  If it is 0, the
 * first row is refused, and errs[0] is the reason.
 */
static uint32_t run_serve(struct server *s, struct row_run *run, int *errs)
{
	const struct ts_row *rows = run->q->rows + run->from;
	const uint32_t most = run->q->row_count - run->from;
	struct tfs_bytes begin;
	int err = served_find_for(s, run->q, rows[0].row, &run->served);

	if (err) {
		errs[0] = err;
		return !is_refusal(err);
	}
	begin = tablet_begin(run->served->tablet);
	for (run->count = 1; run->count < most && run->count < ROWS_AT_ONCE; run->count++)
		if (bytes_cmp(rows[run->count].row, begin) < 0 ||
			(!run->served->last && bytes_cmp(rows[run->count].row, buf_bytes(&run->served->end)) >= 0))
			break;
	err = run_apply(s, run);
	if (!run->count)
		errs[0] = -EAGAIN; /* another copy of its mutation is under way */
	for (uint32_t i = 0; i < run->count; i++) {
		errs[i] = err ? err : error_of_disk(run->rows[i].err);
		if (!err && run_repeats_row(run, i)) {
			errs[i] = run_repeat_row(s, run, i);
			/* Later rows have been applied.  After a refusal all would be sent again, here without numbers. */
			if (is_refusal(errs[i]) && !run->q->token.client)
				errs[i] = error_of_disk(run->rows[i].err);
		}
		errs[i] = error_for_client(s, run->served, errs[i]);
		if (is_refusal(errs[i]))
			run->count = i;
	}
	run->generation = served_generation(run->served);
	served_put(run->served);
	return run->count;
}

/* Applies the rows in order.  Each run of rows in one tablet shares one sync. */
static int serve_rows(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct row_run *run;
	unsigned tries = 0;

	if (q->row_count && (!q->rows || !a->row_errs))
		return -EINVAL; /* without row_errs the caller would not get the rows' errors */
	run = malloc(sizeof(*run));
	if (!run)
		return -ENOMEM;
	run->q = q;
	run->from = 0;
	run->generation = 0;
	while (run->from < q->row_count && tries < MOVED_TRIES) {
		const uint32_t n = run_serve(s, run, a->row_errs + run->from);

		tries = n ? 0 : a->row_errs[run->from] != -TABLET_MOVED ? MOVED_TRIES : tries + 1;
		run->from += n;
	}
	if (run->from < q->row_count)
		traffic_refused(s, q, a->row_errs[run->from]);
	for (uint32_t i = run->from + 1; i < q->row_count; i++)
		a->row_errs[i] = a->row_errs[run->from];
	a->schema_generation = run->generation;
	free(run);
	return 0;
}

static int serve_sync(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	return log_sync(s->log);
}

static int serve_block(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	if (q->method == TS_BLOCK_WRITES) {
		user_table_learn(s, q->table);
		return user_table_block_writes(s, q->table, q->term);
	}
	user_table_refresh(s, q->table);
	if (user_table_unblock_writes(s, q->table))
		moves_soon(s);
	return 0;
}

/* The actions of TS_FLUSH, TS_COMPACT, TS_SPLIT, TS_MERGE. */
static int act(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	int err = q->method == TS_MERGE ? moves_merge(s, q->table, q->row)
		: q->method == TS_SPLIT ? moves_split(s, q->table, q->row)
					: serve_row(s, q, a);

	return err == WRITES_BLOCKED ? -EAGAIN : error_of_disk(err);
}

static int serve_action(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct served_tablet *served;
	int err = q->user ? served_find(s, q->table, q->row, &served) : 0;

	if (q->user && !err) {
		err = access_owner(served, q);
		served_put(served);
	}
	if (!err && q->method == TS_SPLIT && !row_ok(q))
		err = -EINVAL;
	return err ? err : action_begin(s, q, a, act);
}

static int serve_copy(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	int err = making_begin(s, q->to_table) ? -ECANCELED : copy_table(s, q, a);

	making_end(s);
	return err;
}

/* Refuses requests of masters that have been replaced. */
static int see_term(struct server *s, uint64_t term)
{
	bool deferred;
	int err = tables_see_term(s, term, &deferred);

	if (deferred)
		moves_soon(s);
	return err;
}

/* TS_HELLO: client_begin has ended the earlier requests. */
static int serve_hello(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	scans_free_client(s, q->token.client, q->epoch);
	return 0;
}

static bool is_load(const struct ts_request *q)
{
	return q->method == TS_LOAD || q->method == TS_UNLOAD;
}

/* Not of METADATA: reading the schemas may need it. */
static bool needs_schemas(const struct ts_request *q)
{
	return q->table >= META_FIRST_USER_TABLE || q->method == TS_FILES;
}

static int serve_request(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	static int (*const functions[TS_METHODS])(struct server * s, const struct ts_request *q, struct ts_answer *a) = {
		[TS_SCAN_OPEN] = scans_call,
		[TS_SCAN_NEXT] = scans_call,
		[TS_SCAN_CLOSE] = scans_call,
		[TS_MUTATE_ROWS] = serve_rows,
		[TS_SYNC] = serve_sync,
		[TS_BLOCK_WRITES] = serve_block,
		[TS_UNBLOCK_WRITES] = serve_block,
		[TS_FLUSH] = serve_action,
		[TS_COMPACT] = serve_action,
		[TS_SPLIT] = serve_action,
		[TS_MERGE] = serve_action,
		[TS_POLL] = action_poll,
		[TS_COPY_TABLE] = serve_copy,
		[TS_SEAL] = seal_make,
		[TS_BURY] = clients_bury,
		[TS_HELLO] = serve_hello,
		[TS_SORT] = sorter_call,
		[TS_LOAD] = load_tablets,
		[TS_UNLOAD] = moves_unload,
		[TS_LIST] = list_tablets,
		[TS_FILES] = files_call,
	};
	struct server *s = (struct server *)service;
	const uint64_t since_us = traffic_begin(q);

	a->err = s->fence ? fence_begin(s->fence, q) : 0;
	if (!a->err && q->term)
		a->err = see_term(s, q->term);
	if (!a->err && q->token.client)
		a->err = client_begin(s, q);
	if (!a->err) {
		if (needs_schemas(q))
			schemas_current(s);
		a->err = q->method < TS_METHODS && functions[q->method] ? functions[q->method](s, q, a) : serve_row(s, q, a);
		if (a->err == -TABLET_STOPPED)
			a->err = -TABLET_MOVED;
		for (uint32_t i = 0; is_load(q) && i < q->tablet_count && !a->err; i++)
			traffic_refused(s, q, a->row_errs[i]);
		if (s->fence)
			a->err = fence_answer(s->fence, a->err);
		if (q->token.client)
			client_end(s, q);
	}
	traffic_end(s, q, a->err, since_us);
	return a->err;
}

static const struct tablet_service_ops server_service_ops = {.call = serve_request};

void server_service_init(struct server *s)
{
	s->service = (struct tablet_service){.ops = &server_service_ops, .refused = traffic_refusals(s->traffic), .local = true};
}

struct tablet_service *server_service(struct server *s)
{
	return &s->service;
}
