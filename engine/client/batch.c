/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes many rows (tabletfs.h).  tfs_batch_add copies a mutation into one
 * piece of memory and appends it to a queue.  A hash of the row selects the
 * queue, so all mutations of a row are in one queue.  Each queue is one task of
 * a pool.  So the mutations of a row are applied in their order, while the queues
 * run in parallel.
 *
 * The batches of a store share one pool, unless the caller asks for a number of
 * threads.  A run of the task sends one request, and then queues the task after
 * the tasks of other batches.  So the number of threads does not depend on the
 * number of batches, and a large batch does not stop a small one.
 *
 * A queue is scheduled when its mutations fill a request (SEND_BYTES,
 * SEND_ROWS), or when a caller waits for space or for tfs_batch_flush.  The
 * task removes mutations from the queue, sorts them by row, and sends the rows
 * of one tablet as one request.  Mutations of one row keep their order.
 * The memtable also inserts sorted rows faster.
 *
 * The mutations of one row in one request become one, if they only write cells:
 * the log and the tablet then do their work once for a row and not for each cell.
 * If it fails, nothing of it is applied, and each is sent alone.  It includes the
 * last mutation of its row in the request, so no mutation that is sent again
 * passes a later mutation.
 *
 * If the cache of locations has no tablet for a row, the row is sent alone.
 * The router then caches its tablet.  If the server no longer serves a row, the
 * row is sent again alone, and the router finds its server.
 *
 * Rejected: building one request per tablet while mutations are added.  With
 * many tablets, requests that are not full would hold most of the memory.  With
 * one tablet, only one request at a time would be sent.
 *
 * Waiters get space in FIFO order.  Otherwise a mutation that needs all the
 * space would wait as long as other threads add small mutations.
 *
 * The lock is not held during a call of a service or a callback.
 */
#include "engine/client/salt.h"

#include "engine/base/hash.h"
#include "engine/base/task.h"

#include <errno.h>
#include <stdlib.h>

#define BYTES_DEFAULT (16u << 20)
#define THREADS_DEFAULT 4u /* the queues of a batch in the pool of the store */
#define POOL_THREADS 8u
#define THREADS_MOST 64u
#define SEND_BYTES (256u << 10)
#define SEND_ROWS 256u
#define NONE UINT64_MAX

/* A row mutation.  The memory to which it points follows the struct.  It has only these fields of the request. */
struct added {
	struct added *next;
	size_t bytes;
	uint64_t generation, number; /* the schema's generation; `number` counts from 0 in the order of tfs_batch_add */
	uint8_t *salted_row;         /* one byte for the salt, followed by the row */
	struct tfs_bytes row, key;   /* `key` is the row as stored, with the salt if the table has one */
	struct op *ops;
	uint32_t op_count;
};

struct queue {
	struct task task; /* must be first */
	struct tfs_batch *batch;
	struct buf ops; /* of its task: the operations of joined mutations */
	struct added *first, **last;
	size_t bytes, rows;
	bool scheduled;   /* its task is queued or running */
	uint64_t sending; /* number of the first mutation that it is sending, or NONE */
};

struct tfs_batch {
	struct tfs_table *table;
	struct tfs_batch_options o;
	struct task_pool *pool;
	bool shares; /* the pool is the store's */
	size_t send_bytes;
	struct mutex lock; /* RANK_CLIENT; guards the queues and the next members */
	struct cond progress, report;
	size_t bytes;      /* of mutations that are in queues or being sent */
	uint64_t added;    /* mutations so far */
	uint64_t arrived;  /* calls of tfs_batch_add so far */
	uint64_t admitted; /* the waiters that have got space */
	unsigned waiters;  /* callers of add and flush that wait.  Meanwhile queues send requests that are not full */
	bool reporting;    /* a thread is in o.failed */
	int err;           /* the first error since the last flush */
	unsigned queue_count;
	struct queue queues[];
};

/* ---- copying ---- */

static uint8_t *put_bytes(uint8_t *at, struct tfs_bytes from, struct tfs_bytes *to)
{
	*to = from;
	if (!from.p)
		return at;
	to->p = at;
	if (from.n)
		memcpy(at, from.p, from.n);
	return at + from.n;
}

static size_t op_bytes(const struct op *op)
{
	size_t n = op->qualifier.n + op->to_qualifier.n + op->append.n + op->value.n;

	for (uint32_t i = 0; i < op->range_count; i++)
		n += sizeof(struct tfs_range) + op->ranges[i].data.n;
	return n;
}

/* Copies the mutation.  Operations and ranges need alignment, so they precede the bytes. */
static struct added *added_new(const struct ts_request *q)
{
	size_t n = sizeof(struct added) + q->op_count * sizeof(struct op) + 1 + q->row.n;
	struct tfs_range *ranges;
	struct added *a;
	uint8_t *at;

	for (uint32_t i = 0; i < q->op_count; i++)
		n += op_bytes(&q->ops[i]);
	a = malloc(n);
	if (!a)
		return NULL;
	*a = (struct added){.bytes = n, .generation = q->schema_generation, .op_count = q->op_count};
	a->ops = (struct op *)(a + 1);
	ranges = (struct tfs_range *)(a->ops + q->op_count);
	at = (uint8_t *)ranges;
	for (uint32_t i = 0; i < q->op_count; i++)
		at += q->ops[i].range_count * sizeof(struct tfs_range);
	a->salted_row = at;
	at = put_bytes(at + 1, q->row, &a->row);
	for (uint32_t i = 0; i < q->op_count; i++) {
		const struct op *from = &q->ops[i];
		struct op *to = &a->ops[i];

		*to = *from;
		to->ranges = from->range_count ? ranges : NULL;
		for (uint32_t k = 0; k < from->range_count; k++, ranges++) {
			ranges->offset = from->ranges[k].offset;
			at = put_bytes(at, from->ranges[k].data, &ranges->data);
		}
		at = put_bytes(at, from->qualifier, &to->qualifier);
		at = put_bytes(at, from->to_qualifier, &to->to_qualifier);
		at = put_bytes(at, from->append, &to->append);
		at = put_bytes(at, from->value, &to->value);
	}
	return a;
}

/* ---- sending ---- */

/* Reports a failed mutation.  The caller's function o.failed runs in one thread at a time. */
static void batch_report(struct tfs_batch *b, const struct added *a, int err)
{
	err = user_errno(err);
	mutex_lock(&b->lock);
	b->err = b->err ? b->err : err;
	while (b->o.failed && b->reporting)
		cond_wait(&b->report, &b->lock);
	b->reporting = b->o.failed;
	mutex_unlock(&b->lock);
	if (!b->o.failed)
		return;
	b->o.failed(b->o.arg, a->row, err);
	mutex_lock(&b->lock);
	b->reporting = false;
	cond_signal(&b->report);
	mutex_unlock(&b->lock);
}

static void batch_release(struct tfs_batch *b, struct added *const *v, unsigned n)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < n; i++) {
		bytes += v[i]->bytes;
		free(v[i]);
	}
	mutex_lock(&b->lock);
	b->bytes -= bytes;
	cond_broadcast(&b->progress);
	mutex_unlock(&b->lock);
}

static int batch_send_row(struct tfs_batch *b, const struct schema *s, const struct added *a)
{
	struct ts_request q = {.method = TS_MUTATE,
		.schema_generation = a->generation,
		.row = a->row,
		.ops = a->ops,
		.op_count = a->op_count,
		.sync = b->o.sync};
	struct ts_answer answer = {0};
	int err = table_call_row(b->table, s, &q, &answer);

	ts_answer_fini(&answer);
	return err;
}

static bool only_writes(const struct added *a)
{
	for (uint32_t i = 0; i < a->op_count; i++)
		if (a->ops[i].kind != OP_WRITE)
			return false;
	return true;
}

/* Returns how many mutations, from v[0] on, become one. */
static unsigned joined_count(struct added *const *v, unsigned n)
{
	unsigned i = 0;

	for (; i < n && (i == 0 || bytes_eq(v[i]->key, v[0]->key)); i++)
		if (!only_writes(v[i]))
			return 1;
	return i;
}

/* ops: has space for the operations. */
static struct ts_row row_join(struct added *const *v, unsigned n, struct buf *ops)
{
	struct ts_row row = {v[0]->key, v[0]->ops, v[0]->op_count};

	if (n == 1)
		return row;
	row.ops = (struct op *)(void *)(ops->p + ops->n);
	for (unsigned i = 0; i < n; i++) {
		memcpy(ops->p + ops->n, v[i]->ops, v[i]->op_count * sizeof(struct op));
		ops->n += v[i]->op_count * sizeof(struct op);
		row.op_count += i ? v[i]->op_count : 0;
	}
	return row;
}

/*
 * Sends rows that are in one tablet, according to the cache of locations.
 * Sends the refused ones again, each alone.
 */
static void batch_send_tablet(struct tfs_batch *b, const struct schema *s, struct added *const *v, unsigned n, struct buf *ops)
{
	struct ts_row rows[SEND_ROWS];
	unsigned joined[SEND_ROWS];
	int errs[SEND_ROWS] = {0}, err = -TABLET_MOVED; /* alone: each is sent below */
	struct ts_request q = {.method = TS_MUTATE_ROWS,
		.table = schema_public(s)->tablets_id,
		.row = v[0]->key,
		.rows = rows,
		.sync = b->o.sync,
		.user = table_user(b->table)};
	struct ts_answer a = {.row_errs = errs};
	size_t op_count = 0;
	bool alone = n == 1;

	for (unsigned i = 0; i < n; i++) {
		op_count += v[i]->op_count;
		if (v[i]->generation > q.schema_generation)
			q.schema_generation = v[i]->generation;
	}
	buf_reset(ops);
	alone |= buf_reserve(ops, op_count * sizeof(struct op)) != 0;
	for (unsigned i = 0; i < n; i += joined[q.row_count++]) {
		joined[q.row_count] = alone ? 1 : joined_count(v + i, n - i);
		rows[q.row_count] = row_join(v + i, joined[q.row_count], ops);
	}
	if (!alone) {
		err = ts_call(b->table->store->o.tablets, &q, &a);
		ts_answer_fini(&a);
	}
	for (unsigned row = 0; row < q.row_count; v += joined[row++])
		for (unsigned i = 0; i < joined[row]; i++) {
			int e = err ? err : errs[row];

			if (e == -TABLET_MOVED || e == -TABLE_DROPPED || (!err && e && joined[row] > 1))
				e = batch_send_row(b, s, v[i]);
			if (e)
				batch_report(b, v[i], e);
		}
	batch_release(b, v - n, n);
}

static int by_row(const void *x, const void *y)
{
	const struct added *a = *(struct added *const *)x, *b = *(struct added *const *)y;
	int c = bytes_cmp(a->key, b->key);

	return c ? c : (a->number > b->number) - (a->number < b->number);
}

static void batch_send_sorted(struct tfs_batch *b, struct added **v, unsigned n, struct buf *ops)
{
	struct router *r = b->table->store->o.router;
	const struct schema *s = table_schema(b->table);
	const uint32_t salt = (uint32_t)schema_public(s)->salt_in_use;
	struct buf end = {0};
	unsigned from = 0;

	for (unsigned i = 0; i < n; i++) {
		v[i]->key = v[i]->row;
		if (!salt)
			continue;
		v[i]->salted_row[0] = salt_byte(v[i]->row, salt);
		v[i]->key = tfs_bytes_of(v[i]->salted_row, 1 + v[i]->row.n);
	}
	qsort(v, n, sizeof(*v), by_row);
	while (from < n) {
		unsigned to = n;
		bool last = true;

		buf_reset(&end);
		if (r && route_tablet_end(r, schema_public(s)->tablets_id, v[from]->key, &end, &last))
			to = from + 1;
		for (unsigned i = from; !last && to == n && i < n; i++)
			if (bytes_cmp(v[i]->key, buf_bytes(&end)) >= 0)
				to = i;
		batch_send_tablet(b, s, v + from, to - from, ops);
		from = to;
	}
	buf_fini(&end);
	schema_put(s);
}

/* ---- queues ---- */

static bool queue_is_due(const struct tfs_batch *b, const struct queue *queue)
{
	return queue->rows && (b->waiters || queue->bytes >= b->send_bytes || queue->rows >= SEND_ROWS);
}

/* Sends one request. */
static void queue_run(struct task *t)
{
	struct queue *queue = (struct queue *)t;
	struct tfs_batch *b = queue->batch;
	struct added *v[SEND_ROWS];
	size_t bytes = 0;
	unsigned n = 0;
	bool more;

	mutex_lock(&b->lock);
	while (queue->first && n < SEND_ROWS && (!n || bytes + queue->first->bytes <= b->send_bytes)) {
		v[n] = queue->first;
		bytes += v[n]->bytes;
		queue->first = v[n++]->next;
	}
	if (!queue->first)
		queue->last = &queue->first;
	queue->bytes -= bytes;
	queue->rows -= n;
	queue->sending = n ? v[0]->number : NONE;
	mutex_unlock(&b->lock);
	if (n)
		batch_send_sorted(b, v, n, &queue->ops);
	mutex_lock(&b->lock);
	queue->sending = NONE;
	cond_broadcast(&b->progress);
	more = queue->scheduled = queue_is_due(b, queue);
	if (more)
		task_queue(&queue->task);
	mutex_unlock(&b->lock);
}

static void queue_schedule_locked(struct queue *queue)
{
	if (queue->scheduled || !queue_is_due(queue->batch, queue))
		return;
	queue->scheduled = true;
	task_queue(&queue->task);
}

/* Schedules all queues, and waits until a request has been answered. */
static void batch_wait_locked(struct tfs_batch *b)
{
	b->waiters++;
	for (unsigned i = 0; i < b->queue_count; i++)
		queue_schedule_locked(&b->queues[i]);
	cond_wait(&b->progress, &b->lock);
	b->waiters--;
}

/* Returns true if every mutation below `number` has been answered.  Each queue sends in the order of numbers. */
static bool batch_answered_locked(const struct tfs_batch *b, uint64_t number)
{
	for (unsigned i = 0; i < b->queue_count; i++) {
		const struct queue *queue = &b->queues[i];

		if (queue->sending < number || (queue->first && queue->first->number < number))
			return false;
	}
	return true;
}

int tfs_batch_add(struct tfs_batch *b, const struct tfs_mutation *m)
{
	struct ts_request q;
	struct added *a;
	struct queue *queue;
	uint64_t turn;
	int err = mutation_request(m, b->table, &q);

	if (err || q.op_count == 0)
		return err;
	a = added_new(&q);
	if (!a)
		return -ENOMEM;
	queue = &b->queues[hash_private(0, a->row) % b->queue_count];
	mutex_lock(&b->lock);
	turn = b->arrived++;
	while (turn != b->admitted || (b->bytes && b->bytes + a->bytes > b->o.max_bytes))
		batch_wait_locked(b);
	if (++b->admitted != b->arrived)
		cond_broadcast(&b->progress); /* there may also be space for the next caller */
	a->number = b->added++;
	b->bytes += a->bytes;
	*queue->last = a;
	queue->last = &a->next;
	queue->bytes += a->bytes;
	queue->rows++;
	queue_schedule_locked(queue);
	mutex_unlock(&b->lock);
	return 0;
}

int tfs_batch_flush(struct tfs_batch *b)
{
	uint64_t until;
	int err;

	mutex_lock(&b->lock);
	until = b->added;
	while (!batch_answered_locked(b, until))
		batch_wait_locked(b);
	err = b->err;
	b->err = 0;
	mutex_unlock(&b->lock);
	return err;
}

static int pool_get(struct tfs_store *s, struct task_pool **out)
{
	int err = 0;

	mutex_lock(&s->lock);
	if (!s->batches)
		err = task_pool_new("batch", POOL_THREADS, &s->batches);
	if (!err) {
		s->batch_count++;
		*out = s->batches;
	}
	mutex_unlock(&s->lock);
	return err;
}

static void pool_put(struct tfs_store *s)
{
	struct task_pool *unused = NULL;

	mutex_lock(&s->lock);
	if (--s->batch_count == 0) {
		unused = s->batches;
		s->batches = NULL;
	}
	mutex_unlock(&s->lock);
	if (unused)
		task_pool_free(unused);
}

static void batch_free(struct tfs_batch *b)
{
	for (unsigned i = 0; i < b->queue_count; i++) {
		task_cancel(&b->queues[i].task);
		buf_fini(&b->queues[i].ops);
	}
	if (b->pool && b->shares)
		pool_put(b->table->store);
	else if (b->pool)
		task_pool_free(b->pool);
	cond_fini(&b->progress);
	cond_fini(&b->report);
	mutex_fini(&b->lock);
	tfs_table_close(b->table);
	free(b);
}

int tfs_batch_new(struct tfs_table *t, const struct tfs_batch_options *o, struct tfs_batch **out)
{
	struct tfs_batch_options filled = o ? *o : (struct tfs_batch_options){0};
	const bool shares = filled.threads == 0;
	struct tfs_batch *b;
	int err;

	filled.max_bytes = filled.max_bytes ? filled.max_bytes : BYTES_DEFAULT;
	filled.threads = shares ? THREADS_DEFAULT : filled.threads;
	if (filled.threads > THREADS_MOST)
		return -EINVAL;
	b = calloc(1, sizeof(*b) + filled.threads * sizeof(b->queues[0]));
	if (!b)
		return -ENOMEM;
	b->o = filled;
	b->shares = shares;
	b->table = t;
	table_get(t);
	mutex_init(&b->lock, RANK_CLIENT);
	cond_init(&b->progress);
	cond_init(&b->report);
	/* So one half of the memory can fill while the second half is sent. */
	b->send_bytes = filled.max_bytes / 2 / filled.threads < SEND_BYTES ? filled.max_bytes / 2 / filled.threads : SEND_BYTES;
	err = shares ? pool_get(t->store, &b->pool) : task_pool_new("batch", filled.threads, &b->pool);
	if (err) {
		batch_free(b);
		return err;
	}
	b->queue_count = filled.threads;
	for (unsigned i = 0; i < b->queue_count; i++) {
		struct queue *queue = &b->queues[i];

		task_init(&queue->task, b->pool, queue_run);
		queue->batch = b;
		queue->last = &queue->first;
		queue->sending = NONE;
	}
	*out = b;
	return 0;
}

int tfs_batch_close(struct tfs_batch *b)
{
	int err = b ? tfs_batch_flush(b) : 0;

	if (b)
		batch_free(b);
	return err;
}
