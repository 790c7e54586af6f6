/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes METADATA and the contents of damaged logs.
 *
 * The repair writes one log, under a new incarnation.  It contains one record
 * for each row of METADATA, and the records of damaged logs that tablets still
 * need.  If METADATA is rebuilt, the records of all logs are copied.  The next
 * mount replays the log.  Durable steps:
 *	5 the old logs and METADATA's old SSTables are linked in
 *	  DATADIR/repair-NNNN, and the log is written and synced
 *	6 lock/root is replaced by a root tablet that names this log
 * Before step 6 the old METADATA is valid, after it the new one.
 */
#include "engine/base/hashtable.h"
#include "engine/base/task.h"
#include "engine/cell/batch_format.h"
#include "engine/tool/store/repair.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define SEGMENT_BYTES (64u << 20)
#define SUBMITTED_MAX 64u

struct new_log {
	struct repair *p;
	struct task_pool *pool;
	struct log *log;
	const struct repair_log *from; /* the log being copied */
	struct copied *copied;
	struct log_ticket tickets[SUBMITTED_MAX]; /* of records that were submitted and not waited for */
	unsigned submitted;
};
struct copied {
	UT_hash_handle hh;
	uint8_t key[]; /* a record's table, sequence and row */
};

static int wait_records(struct new_log *n)
{
	int err = 0;

	for (unsigned i = 0; i < n->submitted; i++) {
		int e = log_wait(n->log, &n->tickets[i]);

		err = err ? err : e;
	}
	n->submitted = 0;
	return err;
}

static int append_record(struct new_log *n, const struct log_record *r)
{
	int err = n->submitted == SUBMITTED_MAX ? wait_records(n) : 0;

	if (!err)
		err = log_wait_memory(n->log);
	if (!err)
		err = log_submit(n->log, r, false, &n->tickets[n->submitted]);
	n->submitted += !err;
	return err;
}

/* A repair that was killed left copies of records: each record is copied once. */
static int copy_once(struct new_log *n, const struct log_record *r)
{
	size_t bytes = 12 + r->row_from.n;
	struct copied *c = calloc(1, sizeof(*c) + bytes), *before;

	if (!c)
		no_memory();
	put_be32(c->key, r->table);
	put_be64(c->key + 4, r->seq);
	if (r->row_from.n)
		memcpy(c->key + 12, r->row_from.p, r->row_from.n);
	HASH_FIND(hh, n->copied, c->key, bytes, before);
	if (before) {
		free(c);
		return 0;
	}
	HASH_ADD_KEYPTR(hh, n->copied, c->key, bytes, c);
	if (!c->hh.tbl)
		no_memory();
	return append_record(n, r);
}

/* Copies a record, if a tablet has still to replay it. */
static int copy_record(void *arg, const struct log_record *r)
{
	struct new_log *n = arg;

	for (unsigned i = 0; i < n->p->tablet_count; i++) {
		const struct meta_tablet *t = &n->p->tablets[i];

		if (t->table != r->table || bytes_cmp(r->row_to, buf_bytes(&t->begin)) < 0 ||
			(!t->last && bytes_cmp(r->row_from, buf_bytes(&t->end)) >= 0))
			continue;
		for (unsigned k = 0; k < t->redo_count; k++)
			if (t->redo[k].incarnation == n->from->incarnation && t->redo[k].lsn <= r->lsn)
				return copy_once(n, r);
	}
	return 0;
}

static int copy_logs(struct new_log *n)
{
	int err = 0;

	for (const struct repair_log *g = n->p->logs; g && !err; g = g->next) {
		struct log_end end;
		char *why = NULL;

		n->from = g;
		if (g->copied)
			err = repair_log_replay(n->p, g->incarnation, g->from, copy_record, n, &end, &why);
		free(why);
	}
	return err;
}

/* Redo points in copied logs become one in the log of this repair. */
static void move_redo_points(struct repair *p, struct meta_tablet *t)
{
	unsigned count = 0;

	for (unsigned i = 0; i < t->redo_count; i++) {
		const struct repair_log *g = repair_log_get(p, t->redo[i].incarnation);

		if (!g->copied)
			t->redo[count++] = t->redo[i];
	}
	if (count < t->redo_count)
		t->redo[count++] = (struct redo_point){p->incarnation, 1};
	t->redo_count = count;
}

static int append_row(struct new_log *n, const struct meta_tablet *t, uint64_t *seq, int64_t now)
{
	struct log_record r = {.table = META_TABLE, .seq = *seq};
	struct buf key = {0}, batch = {0};
	struct arena a = {0};
	struct op *ops;
	unsigned count;
	int err = meta_row_key(&key, t->table, t->last, t->last ? (struct tfs_bytes){NULL, 0} : buf_bytes(&t->end));

	if (!err)
		err = meta_ops_new(t, &a, &ops, &count);
	if (!err)
		err = batch_begin(&batch, buf_bytes(&key));
	for (unsigned i = 0; i < count && !err; i++) {
		struct batch_cell c = {.kind = CELL_VALUE,
			.family = ops[i].family,
			.qualifier = ops[i].w.qualifier,
			.value = ops[i].value,
			.ts = now};

		err = batch_add(&batch, &c);
	}
	if (!err) {
		batch_set_commit(&batch, now);
		r.row_from = r.row_to = buf_bytes(&key);
		r.batch = buf_bytes(&batch);
		*seq += count;
		err = append_record(n, &r);
	}
	arena_fini(&a);
	buf_fini(&key);
	buf_fini(&batch);
	return err;
}

/* Appends METADATA's own row, which the root tablet holds, and a row for each tablet. */
static int append_rows(struct new_log *n, struct meta_tablet *root)
{
	struct meta_tablet meta = {
		.table = META_TABLE, .last = true, .server = n->p->incarnation, .redo = root->redo, .redo_count = root->redo_count};
	int64_t now = (int64_t)time(NULL) * 1000000;
	int err = buf_append_bytes(&meta.begin, META_ROOT_END);

	root->seq_mark = 1;
	if (!err)
		err = append_row(n, &meta, &root->seq_mark, now);
	for (unsigned i = 0; i < n->p->tablet_count && !err; i++) {
		move_redo_points(n->p, &n->p->tablets[i]);
		err = append_row(n, &n->p->tablets[i], &root->seq_mark, now);
	}
	buf_fini(&meta.begin);
	return err;
}

static int write_log(struct repair *p, struct meta_tablet *root)
{
	struct new_log n = {.p = p};
	struct copied *c, *tmp;
	const char *dir = offline_log_dir(&p->store, p->incarnation);
	struct log_options o = {.dir = dir, .incarnation = p->incarnation, .segment_bytes = SEGMENT_BYTES};
	int err = task_pool_new("repair", 1, &n.pool), closed;

	if (!err)
		err = file_mkdir(dir);
	o.pool = n.pool;
	if (!err)
		err = log_new(&o, &n.log);
	if (!err)
		err = copy_logs(&n);
	if (!err)
		err = append_rows(&n, root);
	closed = wait_records(&n);
	err = err ? err : closed;
	closed = log_free(n.log);
	HASH_ITER(hh, n.copied, c, tmp)
	{
		HASH_DEL(n.copied, c);
		free(c);
	}
	err = err ? err : closed;
	if (!err)
		err = file_sync_parent(dir);
	if (err)
		complain("%s: %s", dir, strerror(-err));
	task_pool_free(n.pool);
	return err;
}

int repair_meta_write(struct repair *p)
{
	struct redo_point redo = {p->incarnation, 1};
	struct meta_tablet root = {.table = META_TABLE, .server = p->incarnation, .redo = &redo, .redo_count = 1};
	struct buf b = {0};
	int err = repair_keep_tree(p, "log");

	if (!err)
		err = repair_keep_tree(p, "sst/1");
	if (!err)
		err = write_log(p, &root);
	if (!err)
		err = buf_append_bytes(&root.end, META_ROOT_END);
	if (!err)
		err = meta_root_encode(&root, &b);
	if (!err)
		err = repair_lock_file(p, "root", buf_bytes(&b));
	buf_fini(&root.end);
	buf_fini(&b);
	return err;
}
