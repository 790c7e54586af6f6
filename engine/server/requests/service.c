/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tablet service: checks each request (families, sizes), finds the row's
 * tablet in the set, and calls that tablet.
 */
#include "engine/server/requests/requests.h"
#include "engine/base/file.h"
#include "engine/base/process.h"
#include "engine/server/storage/storage.h"
#include "engine/server/tablets/tablets.h"
#include "engine/tabletfs.h"

#include <errno.h>
#include <stdlib.h>

#define QUALIFIER_BYTES_MAX (16u * 1024u)
#define RECORD_BYTES 64 /* estimates: of a log record and of one of its cells, without row, qualifier and value */
#define CELL_BYTES 32
#define REACH_US UINT64_C(1000000) /* how long to wait for the answer of a connected server */
#define MOVED_TRIES 8              /* tablets that a call tries, if splits and merges replace each tablet */

/*
 * Rows of METADATA and of the root tablet are longer than a user's rows: each has
 * a table id and a marker before the end row.  A row of a salted table has one
 * byte in front.
 */
static bool row_ok(uint32_t table, struct tfs_bytes row)
{
	return row.n > 0 && row.n <= ROW_BYTES_MAX + (table == META_TABLE ? 16 : 1);
}

/* Returns true if the operation names a family, which must then exist. */
static bool op_needs_family(const struct op *op)
{
	return op->kind != OP_DELETE_ROW;
}

static bool op_ok(const struct op *op, const struct store_schema *schema)
{
	return op->kind >= OP_WRITE && op->kind < OP_KINDS && (!op_needs_family(op) || store_schema_family(schema, op->family)) &&
		(op->kind != OP_MOVE || store_schema_family(schema, op->to_family)) && op->w.qualifier.n <= QUALIFIER_BYTES_MAX &&
		op->to_qualifier.n <= QUALIFIER_BYTES_MAX;
}

/* Returns -EPERM if the mutation deletes, and the data of the table is protected. */
static int check_deletes(const struct row_mutation *m, const struct store_schema *schema, unsigned *failed_op)
{
	for (uint32_t i = 0; schema->keeps_data && i < m->op_count; i++) {
		if (!op_deletes(&m->ops[i]))
			continue;
		*failed_op = i + 1;
		return -EPERM;
	}
	return 0;
}

static int check_ops(const struct row_mutation *m, const struct store_schema *schema, unsigned *failed_op)
{
	for (uint32_t i = 0; i < m->op_count; i++) {
		if (op_ok(&m->ops[i], schema))
			continue;
		*failed_op = i + 1;
		return -EINVAL;
	}
	return 0;
}

/* Returns about the size of the mutation's log record, without bytes that the mutation copies from the row's cells. */
static uint64_t bytes_of(const struct row_mutation *m)
{
	uint64_t bytes = RECORD_BYTES;

	for (uint32_t i = 0; i < m->op_count; i++) {
		const struct op *op = &m->ops[i];

		bytes += CELL_BYTES + m->row.n + op->w.qualifier.n + op->value.n + op->w.append.n;
		for (uint32_t k = 0; k < op->w.range_count; k++)
			bytes += op->w.ranges[k].data.n;
	}
	return bytes;
}

/* -EAGAIN from the server means that it has done nothing.  From the disk it does not mean that, so it becomes another error. */
static int error_of_disk(int err)
{
	return err == -EAGAIN ? -EIO : err;
}

static int add_samples(struct served_tablet *served, const struct ts_request *q, struct ts_answer *a)
{
	struct ts_sample *samples;
	struct tfs_bytes *rows;
	uint32_t n;
	int err = tablet_samples(served->tablet, q->offset, &a->arena, &rows, &n);

	if (err || !n)
		return err;
	samples = arena_alloc(&a->arena, n * sizeof(*samples));
	if (!samples)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		samples[i].row = rows[i];
	a->tablet.samples = samples;
	a->tablet.sample_count = n;
	return 0;
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
		.changes_bytes = st.changes_disk_bytes + st.changes_memory_bytes,
		.cells = st.cells,
		.tombstones = st.tombstones,
		.files = st.files,
		.memtables = st.memtables,
		.server = tfs_str(served->server->o.name),
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
	return q->offset ? add_samples(served, q, a) : 0;
}

static int serve_read(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a)
{
	struct tfs_info info = {0};
	int err = q->user ? access_read(served, q, q->family) : 0;

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

/* TS_FLUSH, TS_COMPACT, TS_PURGE */
static int serve_compaction(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a)
{
	int err = q->method == TS_PURGE ? logs_purge(s, q->offset) : 0;

	if (!err)
		err = q->method == TS_FLUSH     ? tablet_flush(served->tablet)
			: q->method == TS_PURGE ? tablet_purge(served->tablet)
						: tablet_compact(served->tablet);

	a->tablet_end = (struct tfs_bytes){NULL, 0};
	if (!err && !served->last && !arena_dup(&a->arena, buf_bytes(&served->end), &a->tablet_end))
		err = -ENOMEM;
	return err;
}

typedef int serve_tablet_fn(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a);

static int serve_from_tablet(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a)
{
	static serve_tablet_fn *const functions[TS_METHODS] = {
		[TS_READ] = serve_read,
		[TS_EXISTS] = serve_exists,
		[TS_FLUSH] = serve_compaction,
		[TS_COMPACT] = serve_compaction,
		[TS_PURGE] = serve_compaction,
		[TS_TABLET_INFO] = serve_info,
		[TS_CHANGES] = changes_serve,
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

/* ---- TS_MUTATE ---- */

enum { ROWS_AT_ONCE = 256 }; /* rows that share a sync */

/* Rows of one request that are in one tablet. */
struct row_run {
	struct server *s;
	const struct ts_request *q;
	struct served_tablet *served;
	struct tablet_row *rows;
	uint32_t from, count; /* the range of q->rows */
};

static enum disk_use disk_use_of(const struct row_run *run, const struct row_mutation *m)
{
	return run->served->kind != KIND_USER ? DISK_METADATA : ops_only_remove(m->ops, m->op_count) ? DISK_REMOVE : DISK_PUT;
}

/* Checks a row that is not applied yet.  schema NULL: a tablet of METADATA. */
static int run_check_row(const struct row_run *run, struct tablet_row *r, const struct store_schema *schema)
{
	int err = row_ok(run->q->table, r->m->row) && r->m->op_count && r->m->ops ? 0 : -EINVAL;

	if (!err && schema)
		err = check_ops(r->m, schema, &r->failed_op);
	if (!err && schema)
		err = check_deletes(r->m, schema, &r->failed_op);
	if (!err && run->q->user)
		err = access_ops(run->served, run->q, r->m, &r->failed_op);
	if (!err && schema && schema->quota && disk_use_of(run, r->m) == DISK_PUT)
		err = quota_admit(run->served->user_table, schema->quota, bytes_of(r->m));
	return err ? err : space_admit(run->s, disk_use_of(run, r->m), bytes_of(r->m));
}

/* Applies the row again as long as the disk had no space, unless a later mutation of the row was applied. */
static void run_retry_row(struct row_run *run, uint32_t i)
{
	struct tablet_row *r = &run->rows[i];
	const enum disk_use use = disk_use_of(run, r->m);

	for (uint32_t k = i + 1; k < run->count; k++)
		if (!run->rows[k].err && bytes_eq(run->rows[k].m->row, r->m->row))
			return;
	for (unsigned tries = 0; is_no_space(r->err) && space_retry(run->s, use, tries); tries++) {
		const int no_space = r->err;

		r->done = false;
		tablet_mutate(run->served->tablet, r, 1, run->q->sync || run->s->sync);
		/* Later rows have been applied.  After a refusal all would be sent again, here without numbers. */
		if (i + 1 < run->count && !run->q->token.client && ts_is_refusal(error_for_client(run->s, run->served, r->err)))
			r->err = no_space;
	}
}

/* Applies the rows that are not done, under the schema; NULL: of a tablet of METADATA. */
static void run_apply(struct row_run *run, const struct store_schema *schema)
{
	bool tried[ROWS_AT_ONCE];
	uint64_t bytes = 0;
	uint32_t writes = 0;

	for (uint32_t i = 0; i < run->count; i++) {
		struct tablet_row *r = &run->rows[i];

		tried[i] = false;
		if (r->done)
			continue;
		writes++;
		bytes += bytes_of(r->m);
		r->err = run_check_row(run, r, schema);
		tried[i] = !r->err;
		r->done = r->err;
	}
	traffic_tablet(run->served, TABLE_WRITES, writes);
	traffic_tablet(run->served, TABLE_WRITTEN_BYTES, bytes);
	tablet_mutate(run->served->tablet, run->rows, run->count, run->q->sync || run->s->sync);
	for (uint32_t i = 0; i < run->count; i++)
		if (tried[i] && run->rows[i].err) {
			run_retry_row(run, i);
			run->rows[i].err = error_of_disk(run->rows[i].err);
		}
}

/* Applies the run, unless the table or a block of its writes refuses all its rows. */
static void run_apply_permitted(struct row_run *run)
{
	struct user_table *u = run->served->user_table;
	struct store_schema *schema = NULL;
	int err = !u && run->q->user ? -EACCES : u && u->frozen ? -EROFS : 0;

	if (!err && u)
		err = user_table_write_begin(run->s, u, run->q->schema_generation, ON_BLOCK_REFUSE, &schema);
	if (!err && u && schema->readonly) {
		store_schema_put(schema);
		user_table_write_end(run->s, u);
		err = -EROFS;
	}
	for (uint32_t i = 0; err && i < run->count; i++)
		if (!run->rows[i].done)
			run->rows[i].err = err;
	if (err)
		return;
	run_apply(run, schema);
	if (u) {
		store_schema_put(schema);
		user_table_write_end(run->s, u);
	}
}

/*
 * Returns -EAGAIN if another copy of the row's mutation is under way, so that the rows after it
 * must not be applied before it.
 */
static int run_begin_token(const struct row_run *run, struct tablet_row *r)
{
	const uint64_t peer = client_is_owner(run->q->peer) ? 0 : run->q->peer;
	int known = tablet_token_begin(run->served->tablet, &run->q->token, peer, r);

	if (known == 1 ||
		(known == -MUTATION_ANSWERED &&
			run->q->row_count > 1)) /* the error of a single row is the request's error, which is counted elsewhere */
		traffic_refused(run->s, run->q, -MUTATION_ANSWERED);
	return known == -EAGAIN ? known : 0;
}

/*
 * Serves the rows from run->from on that are in the tablet.  Sets run->count to the
 * number of rows that have been served or have failed, and their errs.  Returns the
 * reason if the row after them is refused.
 */
static int run_serve(struct row_run *run, struct tfs_result *results, int *errs)
{
	const struct row_mutation *m = run->q->rows + run->from;
	const uint32_t most = run->q->row_count - run->from;
	const struct tfs_bytes begin = tablet_begin(run->served->tablet);
	bool to_apply = false;
	int refusal = 0;

	for (run->count = 0; run->count < most && run->count < ROWS_AT_ONCE; run->count++) {
		struct tablet_row *r = &run->rows[run->count];

		if (run->count &&
			(bytes_cmp(m[run->count].row, begin) < 0 ||
				(!run->served->last && bytes_cmp(m[run->count].row, buf_bytes(&run->served->end)) >= 0)))
			break;
		*r = (struct tablet_row){.m = &m[run->count], .results = results};
		if (run->q->token.client && (refusal = run_begin_token(run, r)) != 0)
			break;
		to_apply |= !r->done;
	}
	if (to_apply)
		run_apply_permitted(run);
	for (uint32_t i = 0; i < run->count; i++) {
		struct tablet_row *r = &run->rows[i];

		if (r->token)
			tablet_token_end(run->served->tablet, r);
		if (!r->err && results && run->q->user)
			access_hide_sizes(run->served, run->q, r->m, results);
		errs[i] = error_for_client(run->s, run->served, r->err);
	}
	for (uint32_t i = 0; i < run->count; i++)
		if (ts_is_refusal(errs[i])) {
			refusal = errs[i];
			run->count = i;
		}
	return refusal;
}

/* Applies the rows in order.  Each run of rows in one tablet shares one sync. */
static int mutate_rows(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	const bool single = q->row_count == 1;
	struct tablet_row one = {0};
	struct row_run run = {.s = s, .q = q, .rows = &one};
	int err = 0, own = 0, *errs = a->row_errs || !single ? a->row_errs : &own;

	if (!q->row_count || !q->rows || !errs)
		return -EINVAL; /* without row_errs the caller would not get the rows' errors */
	if (!single)
		run.rows = malloc((q->row_count < ROWS_AT_ONCE ? q->row_count : ROWS_AT_ONCE) * sizeof(one));
	if (!run.rows)
		return -ENOMEM;
	/* A tablet that a split or merge has replaced refuses its rows.  By then the set has the new tablets. */
	for (unsigned tries = 0; run.from < q->row_count && tries < MOVED_TRIES; tries = run.count ? 0 : tries + 1) {
		err = served_find_for(s, q, q->rows[run.from].row, &run.served);
		if (err)
			break;
		err = run_serve(&run, single ? a->results : NULL, errs + run.from);
		a->schema_generation = served_generation(run.served);
		served_put(run.served);
		run.from += run.count;
		if (err && err != -TABLET_MOVED)
			break;
	}
	if (run.from && run.from < q->row_count)
		traffic_refused(s, q, err);
	for (uint32_t i = run.from; i < q->row_count; i++)
		errs[i] = err;
	a->failed_op = one.failed_op;
	if (!single)
		free(run.rows);
	return single ? errs[0] : run.from ? 0 : err;
}

static int serve_mutate(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	int err = 0;

	if (!q->to_table)
		return mutate_rows(s, q, a);
	if (q->table != META_TABLE)
		return -EINVAL;
	if (making_begin(s, q->to_table))
		err = q->split ? table_exists(s, q->to_table) : -ECANCELED;
	if (!err)
		err = mutate_rows(s, q, a);
	making_end(s);
	return err;
}

static int serve_sync(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	return log_sync(s->log);
}

static int serve_block(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	if (q->method == TS_BLOCK_WRITES) {
		user_table_learn(s, q->table);
		return user_table_block_writes(s, q->table);
	}
	user_table_refresh(s, q->table);
	if (user_table_unblock_writes(s, q->table))
		retire_soon(s);
	return 0;
}

/* The actions of TS_FLUSH, TS_COMPACT, TS_PURGE, TS_SPLIT, TS_MERGE. */
static int act(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	int err = q->method == TS_MERGE ? tablets_merge(s, q->table, q->row)
		: q->method == TS_SPLIT ? tablets_split(s, q->table, q->row)
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
	if (!err && q->method == TS_SPLIT && !row_ok(q->table, q->row))
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
		retire_soon(s);
	return err;
}

/* TS_HELLO: client_begin has ended the earlier requests, and later copies of them are refused. */
static int serve_hello(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct served_tablet **list = NULL;
	unsigned count = 0;
	int err = q->epoch == TS_EPOCH_LAST ? served_list(s, 0, &list, &count) : 0;

	scans_free_client(s, q->token.client, q->epoch);
	for (unsigned i = 0; i < count; i++)
		tablet_tokens_forget(list[i]->tablet, q->token.client);
	served_list_put(list, count);
	return err;
}

static bool is_load(const struct ts_request *q)
{
	return q->method == TS_LOAD || q->method == TS_UNLOAD;
}

/* Returns false for METADATA, because reading the schemas may need it. */
static bool needs_schemas(const struct ts_request *q)
{
	return q->table >= META_FIRST_USER_TABLE || q->method == TS_FILES;
}

/* Reads the schemas. engine/rpc/listen.c then reports the change to the clients. */
static int serve_note_schemas(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	return schemas_read_all(s);
}

static int serve_storage(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	return s->fence && !fence_storage_answers(s->fence, monotonic_us()) ? -EAGAIN : 0;
}

static int serve_reach(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	const struct ts_request ask = {.method = TS_REACH, .time_left_us = REACH_US};
	const struct tablet_servers *servers = &s->o.servers;
	struct tablet_service *to = q->incarnation && servers->connect ? servers->connect(servers->arg, q->incarnation) : NULL;
	struct ts_answer answer = {0};

	if (q->incarnation && !to)
		return -EAGAIN;
	a->exists = !to || ts_call(to, &ask, &answer) == 0;
	ts_answer_fini(&answer);
	return 0;
}

/* Only a master sends these.  In a cluster each master has a term. */
static bool is_masters(enum ts_method m)
{
	return m == TS_LOAD || m == TS_UNLOAD || m == TS_SEAL || m == TS_BURY || m == TS_BLOCK_WRITES || m == TS_UNBLOCK_WRITES ||
		m == TS_COPY_TABLE;
}

static int serve_request(struct tablet_service *service, const struct ts_request *q, struct ts_answer *a)
{
	static int (*const functions[TS_METHODS])(struct server * s, const struct ts_request *q, struct ts_answer *a) = {
		[TS_SCAN_OPEN] = scans_call,
		[TS_SCAN_NEXT] = scans_call,
		[TS_SCAN_CLOSE] = scans_call,
		[TS_MUTATE] = serve_mutate,
		[TS_SYNC] = serve_sync,
		[TS_BLOCK_WRITES] = serve_block,
		[TS_UNBLOCK_WRITES] = serve_block,
		[TS_FLUSH] = serve_action,
		[TS_COMPACT] = serve_action,
		[TS_PURGE] = serve_action,
		[TS_SPLIT] = serve_action,
		[TS_MERGE] = serve_action,
		[TS_POLL] = action_poll,
		[TS_COPY_TABLE] = serve_copy,
		[TS_SEAL] = seal_make,
		[TS_BURY] = clients_bury,
		[TS_HELLO] = serve_hello,
		[TS_SORT] = sorter_call,
		[TS_LOAD] = load_tablets,
		[TS_UNLOAD] = tablets_unload,
		[TS_LIST] = list_tablets,
		[TS_FILES] = files_call,
		[TS_NOTE_SCHEMAS] = serve_note_schemas,
		[TS_STORAGE] = serve_storage,
		[TS_REACH] = serve_reach,
	};
	struct server *s = (struct server *)service;
	const uint64_t since_us = traffic_begin(q);

	a->err = s->fence ? fence_begin(s->fence, q) : 0;
	if (!a->err && q->term)
		a->err = see_term(s, q->term);
	else if (!a->err && s->fence && is_masters(q->method))
		a->err = -EPERM;
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
		if (is_masters(q->method))
			die_step(DIE_BEFORE_ANSWER);
		if (s->fence)
			a->err = fence_answer(s->fence, q, a->err);
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
