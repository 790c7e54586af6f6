/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Families of bytes that turn out to be counters, and rows that turn out to
 * be salted.
 *
 * A restore writes cells and .schema in whatever order a tool likes, so a
 * family of counters may first be made as one of bytes, its values stored as
 * the text that was written (DESIGN 2.2).  As long as the table's schema has
 * not been set, a written schema may therefore make such a family one of
 * counters: every value, which must be a decimal number, becomes its 8 bytes
 * at the same timestamp.  Or it may give the table a salt: every row is
 * written anew under its salted key, and deleted under its plain one.
 *
 * Durable steps, the table's writes held meanwhile:
 *	1 look at every cell: a value that is no number or cannot be read, or a
 *	  row that could be taken for a salted one, refuses the schema
 *	2 one multi-operation: the new schema, and the file "convert/TABLE ID"
 *	  with the families' ids and the twins, and whether there is a new salt
 *	3 write each value anew, as 8 bytes; sync
 *	4 if there is a new salt: the file says no more than that; then write
 *	  and delete each row; sync
 *	5 remove "convert/TABLE ID"
 * A crash between 2 and 5 leaves the file, and the next start goes on from 3
 * or 4 before anybody can write.  After an error there the table is not
 * written to, since what is written meanwhile could not be told from what is
 * still to be converted, nor read, since rows that have no salt yet would look
 * as if they were not there (-EIO); the others are.  So it is tried again by
 * itself, after 0.1 s and ever less often up to a minute, when the schema is
 * written again, and at the next start.  So it is when an error in 2 leaves
 * open whether that took place; where the file turns out not to be there
 * nothing was begun, or all has ended, and the table is let go.
 *
 * What fails for good, for a cell that cannot be read any more, leaves one way
 * out: a schema with allow_delete that keeps none of the table's families
 * (master.c).  The cells are then nobody's, so that nothing is left to
 * be converted; what was being restored is restored again.  Going back would
 * have to read what cannot be read, too.
 *
 * Doing 3 twice must do it once.  What has been converted is 8 bytes, and
 * those of a small number begin with 00 or FF, which no text does; but the 8
 * bytes of 3544952156018063160 read "12345678".  Such values are found in
 * step 1 and noted as twins: of 8 bytes that are a text, those of a twin have
 * been converted, all others have not.  Twins are known by their plain rows,
 * so 4 begins when 3 is known to be done.
 *
 * A salted key begins with a byte below the salt, and by step 1 no plain row
 * does: what has been salted is not again.  A row is deleted after its copy,
 * and the log keeps that order.
 */
#include "engine/base/counter.h"
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/client/salt.h"
#include "master/convert_format.h"
#include "master/internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Longer texts are no numbers that anybody wrote. */
#define TEXT_MAX 4096
/* Of all twins: a file of the lock service holds no more. */
#define TWINS_MAX (900 * 1024)
#define FILE_MAX 32
#define RETRY_LEAST_US 100000
#define RETRY_MOST_US 60000000

static void convert_file(char *file, uint32_t table)
{
	snprintf(file, FILE_MAX, "convert/%u", table);
}

static bool is_number(struct slice text, int64_t *value)
{
	return text.p && text.n <= TEXT_MAX && counter_parse(text, value) == 0;
}

struct walk {
	struct master *m;
	uint32_t table;
	uint64_t generation;
	struct conversion *found;   /* judging */
	struct reader twins;        /* converting: those still to come */
	struct convert_key twin;    /* the next one, if there */
	int there;                  /* 1; 0 no more */
	uint8_t salt;
	struct buf row, key;        /* salting: the row that is being copied, plain, and where to */
	struct buf large;           /* a value that a scan does not give */
};

/*
 * Calls fn for each version of the family (0: of all), from a row on, by keys
 * as they are stored.  Those too that the rules of the new schema hide: they
 * may be loosened.
 */
static int each_cell(struct walk *w, uint16_t family, struct slice from, int (*fn)(struct walk *w, const struct scan_cell *c))
{
	struct scan_spec spec = {.what = SCAN_CELLS, .row_from = from, .families = family ? &family : NULL, .family_count = family ? 1 : 0, .hidden = true};
	const struct scan_cell *cell;
	struct row_cursor c;
	int err = 0, n;

	row_cursor_init(&c, w->m->tablets, w->table, w->generation, &spec);
	c.salt = TS_AS_STORED;
	while (!err && (n = row_cursor_next(&c, &cell)) != 0)
		err = n < 0 ? n : fn(w, cell);
	row_cursor_fini(&c);
	return err;
}

static int look_at(struct walk *w, const struct scan_cell *c)
{
	struct convert_key key = {c->family, c->row, c->qualifier, c->ts};
	uint8_t bytes[8];
	int64_t value, again;

	if (!is_number(c->value, &value))
		return -EBUSY;
	put_be64(bytes, (uint64_t)value);
	if (!is_number(slice_of(bytes, sizeof(bytes)), &again))
		return 0;
	return w->found->twins.n > TWINS_MAX ? -EBUSY : convert_twin_encode(&key, &w->found->twins);
}

/* Twins stand in the order of the walk; some may have been removed since. */
static bool is_twin(struct walk *w, const struct scan_cell *c)
{
	const struct convert_key key = {c->family, c->row, c->qualifier, c->ts};

	while (w->there > 0 && convert_key_cmp(&w->twin, &key) < 0)
		w->there = convert_twin_decode(&w->twins, &w->twin);
	return w->there > 0 && convert_key_cmp(&w->twin, &key) == 0;
}

static int apply(struct walk *w, struct slice row, const struct op *op)
{
	struct ts_request q = {
		.method = TS_MUTATE,
		.table = w->table,
		.schema_generation = w->generation,
		.salt = TS_AS_STORED,
		.row = row,
		.ops = op,
		.op_count = 1,
		.through_hold = true,
	};
	struct ts_answer a = {0};
	int err = service_call(w->m->tablets, &q, &a);

	ts_answer_fini(&a);
	return err;
}

static int put(struct walk *w, struct slice row, const struct scan_cell *c, struct slice value)
{
	const struct op op = {
		.kind = OP_WRITE,
		.family = c->family,
		.qualifier = c->qualifier,
		.ts = {.us = c->ts},
		.truncate_to = UINT64_MAX,
		.value = value,
	};

	return apply(w, row, &op);
}

static int rewrite(struct walk *w, const struct scan_cell *c)
{
	uint8_t bytes[8];
	int64_t value;

	if (!is_number(c->value, &value) || (c->value.n == sizeof(bytes) && is_twin(w, c)))
		return 0;
	put_be64(bytes, (uint64_t)value);
	return put(w, c->row, c, slice_of(bytes, sizeof(bytes)));
}

/* The row that has been copied whole. */
static int delete_plain(struct walk *w)
{
	const struct op op = {.kind = OP_DELETE_ROW};

	return w->row.n ? apply(w, buf_slice(&w->row), &op) : 0;
}

/* All of a value that is too large for a scan. */
static int read_large(struct walk *w, const struct scan_cell *c)
{
	struct ts_request q = {
		.method = TS_READ,
		.table = w->table,
		.schema_generation = w->generation,
		.salt = TS_AS_STORED,
		.row = c->row,
		.family = c->family,
		.qualifier = c->qualifier,
		.ts = {.us = c->ts},
		.hidden = true,
	};
	int err;

	buf_reset(&w->large);
	err = buf_reserve(&w->large, (size_t)c->size);
	while (!err && w->large.n < c->size) {
		struct ts_answer a = {0};

		q.offset = w->large.n;
		q.into = w->large.p + w->large.n;
		q.length = (size_t)c->size - w->large.n;
		err = service_call(w->m->tablets, &q, &a);
		if (!err && a.got == 0)
			err = -EIO;
		w->large.n += err ? 0 : a.got;
		ts_answer_fini(&a);
	}
	return err;
}

static int salt_cell(struct walk *w, const struct scan_cell *c)
{
	struct slice value = c->value;
	int err = 0;

	if (!slice_eq(buf_slice(&w->row), c->row)) {
		err = delete_plain(w);
		buf_reset(&w->key);
		if (!err && (buf_set(&w->row, c->row.p, c->row.n) || buf_u8(&w->key, salt_byte(c->row, w->salt)) ||
			     buf_append_slice(&w->key, c->row)))
			err = -ENOMEM;
	}
	if (!err && c->value.n != c->size) {
		err = read_large(w, c);
		if (err == -ENOENT) /* hidden, and removed since */
			return 0;
		value = buf_slice(&w->large);
	}
	return err ? err : put(w, buf_slice(&w->key), c, value);
}

/* Rows that begin with a byte below the salt are there already. */
static int salt_all(struct walk *w)
{
	int err = each_cell(w, 0, slice_of(&w->salt, 1), salt_cell);

	if (!err)
		err = delete_plain(w);
	buf_fini(&w->row);
	buf_fini(&w->key);
	buf_fini(&w->large);
	return err;
}

static int sync_all(struct master *m)
{
	struct ts_request q = {.method = TS_SYNC};
	struct ts_answer a = {0};
	int err = ts_call(m->tablets, &q, &a);

	ts_answer_fini(&a);
	return err;
}

int convert_judge(struct master *m, const struct tfs_schema *old, uint16_t family, struct conversion *c)
{
	struct walk w = {.m = m, .table = old->table_id, .generation = old->generation, .found = c};
	uint16_t *ids = realloc(c->families, (c->count + 1) * sizeof(*ids));

	if (!ids)
		return -ENOMEM;
	c->families = ids;
	ids[c->count++] = family;
	return each_cell(&w, family, slice_of(NULL, 0), look_at);
}

static int look_at_row(struct walk *w, const struct scan_cell *c)
{
	int err = c->row.p[0] < w->salt ? -EBUSY : 0;

	if (!err && c->value.n != c->size)
		err = read_large(w, c);
	return err == -ENOENT ? 0 : err;
}

int convert_judge_salt(struct master *m, const struct tfs_schema *old, int salt, struct conversion *c)
{
	struct walk w = {.m = m, .table = old->table_id, .generation = old->generation, .salt = (uint8_t)salt};
	int err = each_cell(&w, 0, slice_of(NULL, 0), look_at_row);

	c->salt = true;
	buf_fini(&w.large);
	return err;
}

void conversion_fini(struct conversion *c)
{
	free(c->families);
	buf_fini(&c->twins);
	buf_fini(&c->contents);
}

int convert_step(struct conversion *c, uint32_t table, struct lock_op *op)
{
	int err = convert_head_encode(c->salt, c->families, c->count, &c->contents);

	if (!err)
		err = buf_append_slice(&c->contents, buf_slice(&c->twins));
	convert_file(c->file, table);
	*op = (struct lock_op){.name = c->file, .contents = buf_slice(&c->contents), .expect = LOCK_ANY};
	return err;
}

/*
 * Each family by the ids in the file; the twins of each stand together.  The
 * file is read through first: half of it would do harm.  *sound: it is whole.
 */
static int convert_all(struct walk *w, struct slice contents, bool *salt, bool *sound)
{
	struct convert_key key = {0};
	struct slice families;
	struct reader r;
	unsigned count;
	int err;

	w->twins = reader_of(contents);
	err = convert_head_decode(&w->twins, salt, &families, &count);
	for (r = w->twins; !err;) {
		int n = convert_twin_decode(&r, &key);

		if (n <= 0) {
			err = n;
			break;
		}
	}
	*sound = !err;
	if (!err && !count) /* that has been done */
		return 0;
	if (!err)
		w->there = convert_twin_decode(&w->twins, &w->twin);
	for (unsigned i = 0; i < count && !err; i++)
		err = each_cell(w, load_be16(families.p + 2 * i), slice_of(NULL, 0), rewrite);
	return err ? err : sync_all(w->m);
}

/* Step 4. */
static int convert_salt(struct walk *w, const char *file)
{
	struct lock_op only = {.name = file, .expect = LOCK_ANY};
	struct buf b = {0};
	int err = convert_head_encode(true, NULL, 0, &b);

	only.contents = buf_slice(&b);
	if (!err)
		err = lock_multi(w->m->locks, &only, 1, NULL);
	if (!err)
		err = salt_all(w);
	buf_fini(&b);
	return err ? err : sync_all(w->m);
}

/* *sound: what fails is the table's; else it is lock/convert/TABLE that cannot be read. */
static int run(struct master *m, const struct tfs_schema *p, bool *sound)
{
	struct walk w = {.m = m, .table = p->table_id, .generation = p->generation, .salt = (uint8_t)p->salt};
	struct lock_op done = {.remove = true, .expect = LOCK_ANY};
	struct buf b = {0};
	char file[FILE_MAX];
	bool salt = false;
	int err;

	convert_file(file, p->table_id);
	err = lock_get(m->locks, file, &b, NULL);
	if (!err)
		err = convert_all(&w, buf_slice(&b), &salt, sound);
	if (!err && salt)
		err = convert_salt(&w, file);
	done.name = file;
	if (!err)
		err = lock_multi(m->locks, &done, 1, NULL);
	buf_fini(&b);
	return err;
}

int convert_run(struct master *m, const struct tfs_schema *p)
{
	bool sound = false;

	return run(m, p, &sound);
}

void convert_end_step(struct conversion *c, uint32_t table, struct lock_op *op)
{
	convert_file(c->file, table);
	*op = (struct lock_op){.name = c->file, .remove = true, .expect = LOCK_ANY};
}

int convert_pending(struct master *m, uint32_t table)
{
	char file[FILE_MAX];

	convert_file(file, table);
	return lock_get(m->locks, file, NULL, NULL);
}

/* ---- those that were not finished ---- */

struct finish {
	struct master *m;
	char **why;   /* at the start only: a file that makes no sense keeps the store from being opened */
	int failed;   /* tables whose cells cannot be converted keep no other from its turn */
};

/* Nobody reads or writes the table until there is no error. */
static int run_one(struct finish *f, const struct tfs_schema *p, bool *sound)
{
	int err = master_hold(f->m, p->table_id);

	if (err)
		return err;
	err = run(f->m, p, sound);
	master_let_go(f->m, p->table_id, err ? err : 1);
	if (!err)
		msg_notice("table %s: its cells have been converted after all", p->name);
	return err;
}

void convert_tell(struct master *m, const struct tfs_schema *p, int err)
{
	if (err != m->retry_told)
		msg_error("table %s: its cells cannot be converted: %s; until they are it cannot be read or written", p->name, strerror(-err));
	m->retry_told = err;
}

static int finish_one(void *arg, const char *name)
{
	struct finish *f = arg;
	struct lock_op stray = {.remove = true, .expect = LOCK_ANY};
	char file[FILE_MAX], *end;
	unsigned long table = strtoul(name, &end, 10);
	struct schema *s = NULL;
	bool sound = false;
	uint64_t version;
	int err;

	convert_file(file, (uint32_t)table);
	if (*end || table > UINT32_MAX || strcmp(strchr(file, '/') + 1, name) != 0)
		return 0; /* not ours */
	err = master_read_by_id(f->m, (uint32_t)table, NULL, &s, &version);
	if (!err) {
		err = run_one(f, schema_public(s), &sound);
	} else if (err == -ENOENT) { /* of a table dropped meanwhile */
		stray.name = file;
		err = lock_multi(f->m->locks, &stray, 1, NULL);
	}
	if (err && sound)
		convert_tell(f->m, schema_public(s), err);
	if (err && !sound && f->why && !*f->why &&
	    asprintf(f->why, "lock/convert/%s: table %s: its cells cannot be converted: %s", name, s ? schema_public(s)->name : "?",
		     strerror(-err)) < 0)
		*f->why = NULL;
	schema_put(s);
	f->failed = err ? err : f->failed;
	return f->why && !sound ? err : 0;
}

int convert_finish_all(struct master *m, char **why)
{
	struct finish f = {.m = m, .why = why};
	int err = m->locks->ops->list(m->locks, "convert", finish_one, &f);

	if (!err && f.failed)
		convert_later(m);
	return err;
}

/* Of those that are refused: there is nothing to convert after all. */
static int let_one_go(struct master *m, uint32_t table)
{
	struct schema *s = NULL;
	uint64_t version;
	int err = convert_pending(m, table);

	if (!err) /* it has failed again */
		return 0;
	if (err == -ENOENT) {
		err = master_read_by_id(m, table, NULL, &s, &version);
		if (err == -ENOENT) {
			master_note_refused(m, table, false);
			return 0;
		}
	}
	if (!err)
		err = master_hold(m, table);
	if (!err) {
		master_let_go(m, table, 1);
		msg_notice("table %s: there is nothing to be converted: it can be read and written again", schema_public(s)->name);
	}
	schema_put(s);
	return err;
}

static int let_go(struct master *m)
{
	int failed = 0;

	for (unsigned i = m->refused_count; i-- > 0;) {
		int err = let_one_go(m, m->refused[i]);

		failed = err ? err : failed;
	}
	return failed;
}

/* What a disk did once it may not do again; nobody reads or writes the table, so soon. */
static void retry(struct task *t)
{
	struct master *m = (struct master *)(void *)((char *)t - offsetof(struct master, retry));
	struct finish f = {.m = m};
	int err;

	mutex_lock(&m->lock);
	err = m->locks->ops->list(m->locks, "convert", finish_one, &f);
	if (!err)
		err = let_go(m);
	m->retry_us = m->retry_us < RETRY_MOST_US / 2 ? m->retry_us * 2 : RETRY_MOST_US;
	if (err || f.failed)
		task_queue_after(t, m->retry_us);
	mutex_unlock(&m->lock);
}

void convert_later(struct master *m)
{
	if (m->no_background || (!m->pool && task_pool_new("master", 1, &m->pool)))
		return; /* then the next start, or whoever writes the schema again */
	if (!m->retry.run)
		task_init(&m->retry, m->pool, retry);
	m->retry_us = RETRY_LEAST_US;
	task_queue_after(&m->retry, m->retry_us);
}
