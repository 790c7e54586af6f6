/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pending salts.
 *
 * A .schema may set another salt while the table has rows, because a restore
 * writes cells and .schema in any order.  The schema then has two salts: the
 * one that was written, and the one in use.  The master checks if the table is
 * empty when a schema is written, at the start, and from time to time while a
 * salt is pending.  Durable steps, once the table appears to be empty:
 *	1 block its writes, and check that it has no cell
 *	2 take a new id for its tablets, write the METADATA row of the first one
 *	3 one multi-operation: write the schema with the salt in use and the new
 *	  id, create the note dropped/OLD ID; servers drop the old tablets and files
 *	4 unblock the writes: they find no tablets, and their clients ask for the
 *	  schema (client/salt.c)
 *	5 delete the METADATA rows of the old id, then the note
 * These are the steps of creating a table and of dropping one (tables.c), and
 * the next start completes them in the same way.  The table retains its own
 * id, and so its inode numbers and the kernel's cached entries.
 *
 * Old and new tablets share nothing.  So a request with the old salt neither
 * reaches rows of the new tablets nor misses any.
 */
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "master/internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/* Time between two checks of the tables with a pending salt.  The checks take at most a 20th of the time. */
#define CHECK_PAUSE_US 1000000
#define CHECK_SHARE 20

bool salt_is_pending(const struct tfs_schema *p)
{
	return p->salt != p->salt_in_use;
}

int salt_take_effect(struct master *m, const struct tfs_schema *old, struct schema **next)
{
	struct schema *s;
	uint32_t id;
	bool has;
	int err = master_has_cells(m, old, 0, &has);

	if (err || has)
		return err;
	err = master_tablets_create(m, &id);
	if (!err)
		err = schema_use_salt(*next, id, &s);
	if (err)
		return err;
	schema_put(*next);
	*next = s;
	return 0;
}

/* The table is probably empty.  Blocks its writes, checks again, changes the schema. */
static int salt_take_effect_blocked(struct master *m, const struct schema *s, uint64_t version, bool *done)
{
	const struct tfs_schema *p = schema_public(s);
	struct schema *next = schema_get(s);
	int err = master_block_writes(m, p->tablets_id);

	if (!err) {
		err = salt_take_effect(m, p, &next);
		*done = !err && next != s;
		if (*done)
			err = master_schema_write(m, p, next, version);
		master_unblock_writes(m, p->tablets_id);
	}
	if (!err && *done) {
		master_tablets_delete(m, p->tablets_id);
		msg_notice("table %s: it is empty: salt = %d takes effect", p->name, p->salt);
	}
	schema_put(next);
	return err;
}

/* Returns 1 if the table's salt is still pending. */
static int salt_check_table(struct master *m, uint32_t table)
{
	struct schema *s = NULL;
	uint64_t version;
	bool has, done = false;
	int err = master_schema_read_by_id(m, table, NULL, &s, &version);

	if (err == -ENOENT)
		return 0;
	if (!err && salt_is_pending(schema_public(s))) {
		err = master_has_cells(m, schema_public(s), 0, &has);
		if (!err && !has)
			err = salt_take_effect_blocked(m, s, version, &done);
	} else if (!err) {
		done = true;
	}
	schema_put(s);
	return !done;
}

static void salt_check(struct task *t)
{
	struct master *m = (struct master *)(void *)((char *)t - offsetof(struct master, salt_check));
	uint64_t from = monotonic_us(), took;

	mutex_lock(&m->lock);
	for (unsigned i = m->pending_count; i-- > 0;)
		if (!salt_check_table(m, m->pending[i]))
			m->pending[i] = m->pending[--m->pending_count];
	took = (monotonic_us() - from) * CHECK_SHARE;
	if (m->pending_count)
		task_queue_after(t, took > CHECK_PAUSE_US ? took : CHECK_PAUSE_US);
	mutex_unlock(&m->lock);
}

void salt_watch(struct master *m, uint32_t table)
{
	uint32_t *more;

	for (unsigned i = 0; i < m->pending_count; i++)
		if (m->pending[i] == table)
			return;
	more = reallocarray(m->pending, m->pending_count + 1, sizeof(*more));
	if (!more)
		return; /* the next start checks */
	m->pending = more;
	more[m->pending_count++] = table;
	if (m->no_background || (!m->pool && task_pool_new("master", 1, &m->pool)))
		return;
	if (!m->salt_check.run)
		task_init(&m->salt_check, m->pool, salt_check);
	task_queue_after(&m->salt_check, CHECK_PAUSE_US);
}
