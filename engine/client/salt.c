/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for one row of a table, salted or not.
 *
 * When a salt takes effect, the table is empty and gets new tablets, in one
 * change of its schema (master/change.c).  A request that finds no tablets gets
 * -TABLE_DROPPED and has had no effect.  The client then reads the schema
 * again.  If the schema has another tablets id, the client sends the request
 * again.  The number of tries needs no limit, because each try follows another
 * change of the salt.
 */
#include "engine/client/salt.h"

#include <errno.h>
#include <stdlib.h>

#define ROW_INLINE 512

/* Reads the schema from the lock service into the table's handle. */
static int table_read_schema(struct tfs_table *t)
{
	const struct schema *s = table_schema(t);
	struct lock_service *locks = t->store->o.locks;
	struct schema *newest = NULL;
	int err = table_gone(t) ? -ENOENT : lock_sync(locks);

	if (!err)
		err = schemas_by_id(locks, t->id, schema_public(s)->name, &newest);
	schema_put(s);
	if (err)
		return user_errno(err);
	table_update_schema(t->store, newest);
	schema_put(newest);
	return 0;
}

int table_catch_up(struct tfs_table *t, uint64_t generation)
{
	const struct schema *s = table_schema(t);
	const bool behind = schema_public(s)->generation < generation;

	schema_put(s);
	return behind ? table_read_schema(t) : 0;
}

const struct schema *table_new_tablets(struct tfs_table *t, uint32_t tablets)
{
	const struct schema *s;

	if (table_read_schema(t))
		return NULL;
	s = table_schema(t);
	if (schema_public(s)->tablets_id != tablets)
		return s;
	schema_put(s);
	return NULL;
}

/*
 * Sets q->row to the row as stored.  *key: the memory of the salted row, set on
 * first use to `small` (ROW_INLINE bytes) or to the heap.
 */
static int salt_row(struct ts_request *q, struct tfs_bytes row, uint32_t salt, uint8_t *small, uint8_t **key)
{
	q->row = row;
	if (!salt)
		return 0;
	if (!*key)
		*key = row.n < ROW_INLINE ? small : malloc(row.n + 1);
	if (!*key)
		return -ENOMEM;
	(*key)[0] = salt_byte(row, salt);
	memcpy(*key + 1, row.p, row.n);
	q->row = tfs_bytes_of(*key, row.n + 1);
	return 0;
}

static int table_call(struct tfs_table *t, const struct schema *s, bool stored, struct ts_request *q, struct ts_answer *a)
{
	uint8_t small[ROW_INLINE], *key = NULL;
	const struct tfs_bytes row = q->row;
	const struct schema *now = schema_get(s), *next;
	int err;

	for (;;) {
		const struct tfs_schema *p = schema_public(now);

		q->table = p->tablets_id;
		q->user = table_user(t);
		if (p->generation > q->schema_generation)
			q->schema_generation = p->generation;
		err = salt_row(q, row, stored ? 0 : (uint32_t)p->salt_in_use, small, &key);
		if (!err)
			err = call_tablet_service(t->store->o.tablets, q, a);
		if (a->schema_generation > p->generation)
			(void)!table_catch_up(
				t, a->schema_generation); /* for later requests: the present one names a family by its id */
		if (err != -TABLE_DROPPED)
			break;
		next = table_new_tablets(t, p->tablets_id);
		if (!next)
			break;
		schema_put(now);
		now = next;
	}
	schema_put(now);
	q->row = row;
	if (key != small)
		free(key);
	return user_errno(err);
}

int table_call_row(struct tfs_table *t, const struct schema *s, struct ts_request *q, struct ts_answer *a)
{
	return table_call(t, s, false, q, a);
}

int table_call_stored_row(struct tfs_table *t, struct ts_request *q, struct ts_answer *a)
{
	const struct schema *s = table_schema(t);
	int err = table_call(t, s, true, q, a);

	schema_put(s);
	return err;
}
