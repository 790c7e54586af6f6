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
 * Over a network a request waits for its answer for longer than the server needs for it.  So a
 * batch of a store that another process serves has more queues: QUEUES_REMOTE requests of
 * SEND_BYTES are 4 MiB under way.  Each waits in a thread, because a thread that waits
 * costs little, and a queue has one request at a time in any case: no two requests
 * under way have the same row.  window.h limits their rows.
 *
 * A queue is scheduled when its mutations fill a request (send_bytes,
 * send_rows), or when a caller waits for space or for tfs_batch_flush.  The
 * task removes mutations from the queue, sorts them by row, and sends them.  So the
 * router can send the rows of one tablet as one request.  Mutations of one row keep
 * their order.  The memtable also inserts sorted rows faster.
 *
 * The mutations of one row in one request become one, if they only write cells:
 * the log and the tablet then do their work once for a row and not for each cell.
 * If it fails, nothing of it is applied, and each is sent alone.  It includes the
 * last mutation of its row in the request, so no mutation that is sent again
 * passes a later mutation.
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

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/stop.h"
#include "engine/base/task.h"

#include <errno.h>
#include <stdlib.h>

#define BYTES_DEFAULT (16u << 20)
#define QUEUES_DEFAULT 4u /* the queues of a batch in the store's pool */
#define POOL_THREADS 8u
#define QUEUES_REMOTE 16u /* the queues if another process serves the store, and the threads of the pool then */
#define THREADS_MOST 64u
#define SEND_BYTES (256u << 10)
#define SEND_ROWS 256u
#define SEND_ROWS_REMOTE (TS_ROWS_UNDER_WAY / QUEUES_REMOTE)
#define TRIES 64u
#define NONE UINT64_MAX

/* A mutation in a queue.  The memory to which it points follows the struct. */
struct queued {
	struct queued *next;
	size_t bytes;
	uint64_t since_us;           /* the call of tfs_batch_add; 0: the store is this process's */
	uint64_t generation, number; /* the schema's generation; `number` counts from 0 in the order of tfs_batch_add */
	uint8_t salt;                /* the salt of the stored row; set before rows are sorted */
	struct row_mutation m;
};

struct queue {
	struct task task; /* must be first */
	struct tfs_batch *batch;
	struct buf ops; /* the task's copy of the operations of joined mutations */
	struct queued *first, **last;
	size_t bytes, rows;
	bool scheduled;    /* its task is queued or running */
	uint64_t since_us; /* when it was scheduled */
	uint64_t sending;  /* number of the first mutation that it is sending, or NONE */
};

struct tfs_batch {
	struct tfs_table *table;
	struct tfs_batch_options o;
	struct task_pool *pool;
	bool shares; /* the pool is the store's */
	size_t send_bytes;
	unsigned send_rows;  /* at most SEND_ROWS */
	uint64_t timeout_us; /* the store's */
	struct mutex lock;   /* RANK_CLIENT; guards the queues and the next members */
	struct cond progress, report;
	size_t bytes;      /* the bytes of mutations that are in queues or being sent */
	uint64_t added;    /* mutations so far */
	uint64_t arrived;  /* calls of tfs_batch_add so far */
	uint64_t admitted; /* the waiters that have got space */
	unsigned waiters;  /* callers of add and flush that wait.  Meanwhile queues send requests that are not full */
	bool reporting;    /* a thread is in o.failed */
	int err;           /* the first error since the last flush, and its reason */
	struct reason reason;
	unsigned queue_count;
	struct queue queues[];
};

/* ---- sending ---- */

/* Reports a failed mutation.  The caller's function o.failed runs in one thread at a time. */
static void batch_report(struct tfs_batch *b, const struct queued *a, int err)
{
	err = user_errno(err);
	reason_clear();
	if (err == -ENOENT)
		(void)table_why(b->table, err, "it was dropped");
	(void)mutation_failed(b->table, &a->m, 0, err);
	mutex_lock(&b->lock);
	if (!b->err) {
		b->err = err;
		reason_get(&b->reason);
	}
	while (b->o.failed && b->reporting)
		cond_wait(&b->report, &b->lock);
	b->reporting = b->o.failed;
	mutex_unlock(&b->lock);
	if (!b->o.failed)
		return;
	b->o.failed(b->o.arg, a->m.row, err);
	mutex_lock(&b->lock);
	b->reporting = false;
	cond_signal(&b->report);
	mutex_unlock(&b->lock);
}

static void batch_release(struct tfs_batch *b, struct queued *const *v, unsigned n)
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

static bool only_writes(const struct queued *a)
{
	for (uint32_t i = 0; i < a->m.op_count; i++)
		if (a->m.ops[i].kind != OP_WRITE)
			return false;
	return true;
}

/* Returns how many mutations, from v[0] on, become one. */
static unsigned joined_count(struct queued *const *v, unsigned n)
{
	unsigned i = 0;

	for (; i < n && (i == 0 || bytes_eq(v[i]->m.row, v[0]->m.row)); i++)
		if (!only_writes(v[i]))
			return 1;
	return i;
}

/* ops: has space for the operations. */
static struct row_mutation row_join(struct queued *const *v, unsigned n, struct buf *ops)
{
	struct row_mutation row = v[0]->m;

	if (n == 1)
		return row;
	row.ops = (struct op *)(void *)(ops->p + ops->n);
	for (unsigned i = 0; i < n; i++) {
		memcpy(ops->p + ops->n, v[i]->m.ops, v[i]->m.op_count * sizeof(struct op));
		ops->n += v[i]->m.op_count * sizeof(struct op);
		row.op_count += i ? v[i]->m.op_count : 0;
	}
	return row;
}

static int by_row(const void *x, const void *y)
{
	const struct queued *a = *(struct queued *const *)x, *b = *(struct queued *const *)y;
	int c = a->salt != b->salt ? a->salt - b->salt : bytes_cmp(a->m.row, b->m.row);

	return c ? c : (a->number > b->number) - (a->number < b->number);
}

static void rows_send(struct tfs_batch *b, const struct schema *s, uint64_t generation, const struct row_mutation *rows,
	unsigned count, int *errs)
{
	struct ts_answer a = {.row_errs = errs};

	(void)table_mutate(b->table, s, generation, rows, count, b->o.sync, &a);
	ts_answer_fini(&a);
}

/*
 * If no server answers, the first requests wait for the store's timeout.  Meanwhile other mutations wait in the queues.
 * Their requests then wait for a part of the timeout only, which is enough for a server that answers.  Otherwise
 * a full batch would wait for the timeout again and again.
 */
static void wait_begin(const struct tfs_batch *b, uint64_t since_us)
{
	stop_wait_begin(since_us, b->timeout_us);
	if (stop_wait_left(b->timeout_us) <= STOP_TRY_US(b->timeout_us))
		stop_wait_begin(monotonic_us(), b->timeout_us / TRIES);
}

/* Sends the mutations, which wait since since_us.  If a server refuses a joined mutation, sends its parts one by one. */
static void batch_send(struct tfs_batch *b, struct queued **v, unsigned n, struct buf *ops, uint64_t since_us)
{
	const struct schema *s = table_schema(b->table);
	const uint32_t salt = (uint32_t)schema_public(s)->salt_in_use;
	struct row_mutation rows[SEND_ROWS];
	unsigned joined[SEND_ROWS], count = 0;
	struct window_part part;
	int errs[SEND_ROWS];
	uint64_t generation = 0;
	size_t op_count = 0;
	bool alone;

	for (unsigned i = 0; i < n; i++) {
		v[i]->salt = salt ? salt_byte(v[i]->m.row, salt) : 0;
		op_count += v[i]->m.op_count;
		generation = v[i]->generation > generation ? v[i]->generation : generation;
	}
	qsort(v, n, sizeof(*v), by_row);
	buf_reset(ops);
	alone = buf_reserve(ops, op_count * sizeof(struct op)) != 0;
	for (unsigned i = 0; i < n; i += joined[count++]) {
		joined[count] = alone ? 1 : joined_count(v + i, n - i);
		rows[count] = row_join(v + i, joined[count], ops);
	}
	if (b->table->store->o.remote) {
		window_enter(&table_base(b->table)->window, &part, count);
		wait_begin(b, since_us);
	}
	rows_send(b, s, generation, rows, count, errs);
	for (unsigned row = 0, i = 0; row < count; row++)
		for (unsigned end = i + joined[row]; i < end; i++) {
			int err = errs[row];

			/* After -ETIMEDOUT it may have been applied. */
			if (err && err != -ETIMEDOUT && joined[row] > 1 && !stop_wait_in_vain())
				rows_send(b, s, v[i]->generation, &v[i]->m, 1, &err);
			if (err)
				batch_report(b, v[i], err);
		}
	if (b->table->store->o.remote) {
		stop_wait_begin(0, 0);
		window_leave(&table_base(b->table)->window, &part);
	}
	batch_release(b, v, n);
	schema_put(s);
}

/* ---- queues ---- */

static bool queue_is_due(const struct tfs_batch *b, const struct queue *queue)
{
	return queue->rows && (b->waiters || queue->bytes >= b->send_bytes || queue->rows >= b->send_rows);
}

/* Sends one request. */
static void queue_run(struct task *t)
{
	struct queue *queue = (struct queue *)t;
	struct tfs_batch *b = queue->batch;
	struct queued *v[SEND_ROWS];
	size_t bytes = 0;
	unsigned n = 0;
	bool more;

	mutex_lock(&b->lock);
	while (queue->first && n < b->send_rows && (!n || bytes + queue->first->bytes <= b->send_bytes)) {
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
		batch_send(b, v, n, &queue->ops, v[0]->since_us > queue->since_us ? v[0]->since_us : queue->since_us);
	mutex_lock(&b->lock);
	queue->sending = NONE;
	cond_broadcast(&b->progress);
	more = queue->scheduled = queue_is_due(b, queue);
	if (more)
		task_queue(&queue->task);
	mutex_unlock(&b->lock);
}

static uint64_t now_of(const struct tfs_batch *b)
{
	return b->table->store->o.remote ? monotonic_us() : 0;
}

static void queue_schedule_locked(struct queue *queue)
{
	if (queue->scheduled || !queue_is_due(queue->batch, queue))
		return;
	queue->scheduled = true;
	queue->since_us = now_of(queue->batch);
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
	reason_clear();
	struct row_mutation row;
	struct queued *a;
	struct queue *queue;
	uint64_t turn, generation;
	size_t bytes;
	int err = store_is_parents(b->table->store) ? store_why(b->table->store, -EPERM, PARENTS)
						    : mutation_row(m, b->table, &row, &generation);

	if (err || row.op_count == 0)
		return err;
	bytes = sizeof(*a) + row_mutation_bytes(&row);
	a = malloc(bytes);
	if (!a)
		return -ENOMEM;
	*a = (struct queued){.bytes = bytes, .since_us = now_of(b), .generation = generation, .m = row_mutation_copy(&row, a + 1)};
	queue = &b->queues[hash_private(0, a->m.row) % b->queue_count];
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
	reason_clear();
	uint64_t until;
	int err;

	if (store_is_parents(b->table->store))
		return store_why(b->table->store, -EPERM, PARENTS); /* the batch's threads do not exist in this child process */
	mutex_lock(&b->lock);
	until = b->added;
	while (!batch_answered_locked(b, until))
		batch_wait_locked(b);
	err = b->err;
	if (err)
		reason_put(&b->reason);
	b->err = 0;
	mutex_unlock(&b->lock);
	return err;
}

static int pool_get(struct tfs_store *s, struct task_pool **out)
{
	int err = 0;

	mutex_lock(&s->lock);
	if (!s->batches)
		err = task_pool_new("batch", s->o.remote ? QUEUES_REMOTE : POOL_THREADS, &s->batches);
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
	reason_clear();
	struct tfs_batch_options filled = o ? *o : (struct tfs_batch_options){0};
	const bool shares = filled.threads == 0, remote = t->store->o.remote;
	struct tfs_batch *b;
	int err;

	filled.max_bytes = filled.max_bytes ? filled.max_bytes : BYTES_DEFAULT;
	filled.threads = !shares ? filled.threads : remote ? QUEUES_REMOTE : QUEUES_DEFAULT;
	if (filled.threads > THREADS_MOST)
		return table_why(t, -EINVAL, "a batch has at most %u threads", THREADS_MOST);
	b = calloc(1, sizeof(*b) + filled.threads * sizeof(b->queues[0]));
	if (!b)
		return -ENOMEM;
	b->o = filled;
	b->shares = shares;
	b->send_rows = remote ? SEND_ROWS_REMOTE : SEND_ROWS;
	mutex_lock(&t->store->config_lock);
	b->timeout_us = t->store->o.options.timeout_us;
	mutex_unlock(&t->store->config_lock);
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
	reason_clear();
	int err = b ? tfs_batch_flush(b) : 0;

	if (b && !store_is_parents(b->table->store))
		batch_free(b);
	return err;
}
