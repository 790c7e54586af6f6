/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Families of bytes that turn out to be counters.
 *
 * A restore writes cells and .schema in whatever order a tool likes, so a
 * family of counters may first be made as one of bytes, its values stored as
 * the text that was written (DESIGN 2.2).  As long as the table's schema has
 * not been set, a written schema may therefore make such a family one of
 * counters: every value, which must be a decimal number, becomes its 8 bytes
 * at the same timestamp.
 *
 * Durable steps, the table's writes held meanwhile:
 *	1 look at every value: one that is no number refuses the schema
 *	2 one multi-operation: the new schema, and the file "convert/TABLE ID"
 *	  with the families' ids
 *	3 write each value anew, as 8 bytes
 *	4 remove "convert/TABLE ID"
 * A crash between 2 and 4 leaves the file, and the next start does 3 and 4
 * before anybody can write.  Doing 3 twice is harmless: the 8 bytes that the
 * text of a number of at most 8 characters becomes begin with 00 or FF,
 * which no text does, and longer or shorter values are texts.
 */
#include "engine/base/counter.h"
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "master/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Longer texts are no numbers that anybody wrote. */
#define TEXT_MAX 4096

static void convert_file(char *file, uint32_t table)
{
	snprintf(file, CONVERT_FILE_MAX, "convert/%u", table);
}

/* Is the value a text yet to be converted; *value its number. */
static bool is_text(const struct scan_cell *c, int64_t *value)
{
	return c->value.p && c->value.n <= TEXT_MAX && counter_parse(c->value, value) == 0;
}

/* Calls fn for each version of the family. */
static int each_cell(struct master *m, uint32_t table, uint64_t generation, uint16_t family,
		     int (*fn)(struct master *m, uint32_t table, uint64_t generation, const struct scan_cell *c))
{
	struct scan_spec spec = {.what = SCAN_CELLS, .families = &family, .family_count = 1};
	const struct scan_cell *cell;
	struct row_cursor c;
	int err = 0, n;

	row_cursor_init(&c, m->tablets, table, generation, &spec);
	while (!err && (n = row_cursor_next(&c, &cell)) != 0)
		err = n < 0 ? n : fn(m, table, generation, cell);
	row_cursor_fini(&c);
	return err;
}

static int look_at(struct master *m, uint32_t table, uint64_t generation, const struct scan_cell *c)
{
	int64_t value;

	(void)m;
	(void)table;
	(void)generation;
	return is_text(c, &value) ? 0 : -EBUSY;
}

static int rewrite(struct master *m, uint32_t table, uint64_t generation, const struct scan_cell *c)
{
	struct op op = {
		.kind = OP_WRITE,
		.family = c->family,
		.qualifier = c->qualifier,
		.ts = {.us = c->ts},
		.truncate_to = UINT64_MAX,
	};
	struct ts_request q = {
		.method = TS_MUTATE,
		.table = table,
		.schema_generation = generation,
		.row = c->row,
		.ops = &op,
		.op_count = 1,
		.through_hold = true,
	};
	struct ts_answer a = {0};
	uint8_t bytes[8];
	int64_t value;
	int err;

	if (!is_text(c, &value))
		return 0;
	put_be64(bytes, (uint64_t)value);
	op.value = slice_of(bytes, sizeof(bytes));
	err = ts_call(m->tablets, &q, &a);
	ts_answer_fini(&a);
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

int convert_judge(struct master *m, const struct tfs_schema *old, uint16_t family)
{
	return each_cell(m, old->table_id, old->generation, family, look_at);
}

int convert_begin(const struct tfs_schema *old, const uint16_t *families, unsigned count, struct buf *contents, char *file)
{
	int err = 0;

	convert_file(file, old->table_id);
	for (unsigned i = 0; i < count && !err; i++)
		err = buf_be16(contents, families[i]);
	return err;
}

int convert_run(struct master *m, uint32_t table, uint64_t generation)
{
	struct lock_op done = {.remove = true, .expect = LOCK_ANY};
	char file[CONVERT_FILE_MAX];
	struct buf b = {0};
	struct reader r;
	uint64_t version;
	uint16_t family;
	int err;

	convert_file(file, table);
	err = lock_get(m->locks, file, &b, &version);
	r = reader_of(buf_slice(&b));
	while (!err && reader_left(&r))
		err = get_be16(&r, &family) ? each_cell(m, table, generation, family, rewrite) : -EBADMSG;
	if (!err)
		err = sync_all(m);
	done.name = file;
	if (!err)
		err = lock_multi(m->locks, &done, 1, NULL);
	buf_fini(&b);
	return err;
}
