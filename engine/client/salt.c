/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for rows of a table, salted or not.
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

#define SMALL 512

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

/* Puts the row with its salt at `at`. */
static struct tfs_bytes salted(struct tfs_bytes row, uint32_t salt, uint8_t *at)
{
	at[0] = salt_byte(row, salt);
	if (row.n)
		memcpy(at + 1, row.p, row.n);
	return tfs_bytes_of(at, row.n + 1);
}

/*
 * Sets q->row or q->rows to row or rows with their salt. *memory has the salted rows; it is set
 * on first use to `small` (SMALL bytes) or to the heap.
 */
static int salt_rows(
	struct ts_request *q, struct tfs_bytes row, const struct row_mutation *rows, uint32_t salt, void *small, void **memory)
{
	size_t bytes = row.n + 1 + q->row_count * (sizeof(*rows) + 1);
	struct row_mutation *to;
	uint8_t *at;

	q->row = row;
	q->rows = rows;
	if (!salt)
		return 0;
	for (uint32_t i = 0; i < q->row_count; i++)
		bytes += rows[i].row.n;
	if (!*memory)
		*memory = bytes <= SMALL ? small : malloc(bytes);
	if (!*memory)
		return -ENOMEM;
	to = *memory;
	at = (uint8_t *)(to + q->row_count);
	q->row = salted(row, salt, at);
	at += q->row.n;
	for (uint32_t i = 0; i < q->row_count; i++) {
		to[i] = rows[i];
		to[i].row = salted(rows[i].row, salt, at);
		at += to[i].row.n;
	}
	q->rows = to;
	return 0;
}

int table_call(struct tfs_table *t, const struct schema *s, bool stored, struct ts_request *q, struct ts_answer *a)
{
	_Alignas(struct row_mutation) uint8_t small[SMALL];
	const struct row_mutation *rows = q->rows;
	const struct tfs_bytes row = q->row;
	const struct schema *now = schema_get(s), *next;
	void *memory = NULL;
	int err;

	for (;;) {
		const struct tfs_schema *p = schema_public(now);

		q->table = p->tablets_id;
		q->user = table_user(t);
		if (p->generation > q->schema_generation)
			q->schema_generation = p->generation;
		err = salt_rows(q, row, rows, stored ? 0 : (uint32_t)p->salt_in_use, small, &memory);
		if (!err)
			err = call_tablet_service(t->store->o.tablets, q, a);
		if (a->schema_generation > p->generation)
			(void)!table_catch_up(
				t, a->schema_generation); /* later requests profit; the present request names a family by its id */
		if (err != -TABLE_DROPPED)
			break;
		next = table_new_tablets(t, p->tablets_id);
		if (!next) {
			(void)store_why(t->store, -ENOENT, "table %s: it was dropped", p->name);
			break;
		}
		schema_put(now);
		now = next;
	}
	schema_put(now);
	q->row = row;
	q->rows = rows;
	if (memory != small)
		free(memory);
	return user_errno(err);
}

int table_mutate(struct tfs_table *t, const struct schema *s, uint64_t generation, const struct row_mutation *rows, uint32_t count,
	bool sync, struct ts_answer *a)
{
	struct ts_request q = {
		.method = TS_MUTATE, .schema_generation = generation, .rows = rows, .row_count = count, .sync = sync};
	int *errs = a->row_errs;
	uint32_t from = 0;
	int err;

	if (count == 1) {
		err = table_call(t, s, false, &q, a);
		if (errs)
			errs[0] = err;
		waiters_wake(t->store, q.table);
		return err;
	}
	do { /* once, unless the table gets new tablets before all rows are applied */
		q.rows = rows + from;
		q.row_count = count - from;
		a->row_errs = errs + from;
		err = table_call(t, s, false, &q, a);
		for (; from < count && (err || errs[from] != -TABLE_DROPPED); from++)
			errs[from] = err ? err : user_errno(errs[from]);
	} while (from < count);
	waiters_wake(t->store, q.table);
	a->row_errs = errs;
	return 0;
}

int table_call_stored_row(struct tfs_table *t, struct ts_request *q, struct ts_answer *a)
{
	const struct schema *s = table_schema(t);
	int err = table_call(t, s, true, q, a);

	schema_put(s);
	return err;
}
