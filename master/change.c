/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of schemas.  A schema is one file of the lock service, changed by
 * compare-and-set.  Servers read it because they watch the file; they have
 * done so before the change is answered.
 *
 * A family is dropped if it holds no cell, or if a written schema says
 * allow_delete.  Its cells do not exist from the moment the schema is changed.
 * A major compaction removes them from the disk.
 *
 * A family that was found empty must stay empty until the schema is changed,
 * or a write that was acknowledged in between would be lost.  So writes to the table
 * are blocked (tablet_service.h) from before the check to after the change.
 *
 * New tablets.
 *
 * A table gets a new set of tablets, without the cells of the old set, if
 *	- it is truncated
 *	- it holds no cell, and a salt was set that is not in use
 *	- it holds no cell and has one tablet, and .schema is written with splits
 * The new tablets are split at the schema's splits.  Durable steps:
 *	1 block the table's writes; unless it is truncated, check that it has no cell
 *	2 take a new id for its tablets, write the METADATA rows of the new ones
 *	3 one multi-operation: write the schema with the new id, and with the salt
 *	  in use; create the note dropped/OLD ID; servers drop the old tablets and files
 *	4 unblock the writes: they find no tablets, and their clients ask for the
 *	  schema (client/salt.c)
 *	5 delete the METADATA rows of the old id, then the note
 * These are the steps of creating a table and of dropping one (tables.c), and
 * the next start completes them in the same way: after a crash before 3 the new
 * rows have no schema and no data, and are deleted; after 3 the old ones have a note.
 * The table retains its own id, and so its inode numbers and the kernel's cached
 * entries.
 *
 * Old and new tablets share nothing.  So a request with the old salt neither
 * reaches rows of the new tablets nor misses any.  A mutation that was answered
 * before 1 is in the old tablets.  A later mutation waits, and is applied in the new
 * set.
 *
 * Rejected for truncation: a delete of each row, or a mark in METADATA below
 * which cells do not exist.  The first takes time with the size; the second would
 * be one more rule for each reader, compaction and replay.
 *
 * Pending salts.
 *
 * A .schema may set another salt while the table has rows, because a restore
 * writes cells and .schema in any order.  The schema then has two salts: the written
 * salt, and the salt in use.  The master checks if the table is empty when a schema is
 * written, at the start, and from time to time while a salt is pending.
 */
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "master/internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns -EBUSY, with a reason, if a family that `next` leaves out has cells.  The caller blocks writes. */
static int dropped_families_are_empty(struct master *m, const struct tfs_schema *old, const struct tfs_schema *next, char **why)
{
	bool has;
	int err;

	for (unsigned i = 0; i < old->family_count; i++) {
		const struct tfs_family *was = &old->families[i];

		if (schema_family_by_id(next, was->id))
			continue;
		err = master_has_cells(m, old, was->id, &has);
		if (err)
			return err;
		if (has) {
			why_set(why, "family \"%s\" holds cells: only a .schema with allow_delete = true deletes it", was->name);
			return -EBUSY;
		}
	}
	return 0;
}

/* Returns true if next leaves out a family of old. */
static bool drops_family(const struct tfs_schema *old, const struct tfs_schema *next)
{
	for (unsigned i = 0; i < old->family_count; i++)
		if (!schema_family_by_id(next, old->families[i].id))
			return true;
	return false;
}

int master_may_remove(const struct tfs_schema *p, char **why)
{
	if (p->readonly)
		why_set(why, "the table is readonly: first write readonly = false into its .schema");
	else if (p->protect)
		why_set(why, "the table is protected: first write protect = false into its .schema");
	return p->readonly ? -EROFS : p->protect ? -EPERM : 0;
}

/* Time between two checks of the tables with a pending salt.  The checks take at most a 20th of the time. */
#define CHECK_PAUSE_US 1000000
#define CHECK_SHARE 20

bool salt_is_pending(const struct tfs_schema *p)
{
	return p->salt != p->salt_in_use;
}

enum change {
	CHANGE_EDIT,     /* no family with cells is dropped */
	CHANGE_TEXT,     /* as CHANGE_EDIT, and splits may take effect */
	CHANGE_DROPS,    /* as CHANGE_TEXT, with allow_delete */
	CHANGE_SALT,     /* the check of a pending salt */
	CHANGE_TRUNCATE, /* the table loses its cells */
};

/* Returns true if next may need new tablets.  The caller then blocks writes. */
static bool may_need_tablets(const struct tfs_schema *next, enum change how)
{
	return how == CHANGE_TRUNCATE || salt_is_pending(next) ||
		(next->split_count && (how == CHANGE_TEXT || how == CHANGE_DROPS));
}

static int needs_tablets(
	struct master *m, const struct tfs_schema *old, const struct tfs_schema *next, enum change how, bool *needs)
{
	bool has = false;
	int err = 0;

	*needs = may_need_tablets(next, how);
	if (!*needs || how == CHANGE_TRUNCATE)
		return 0;
	if (!salt_is_pending(next))
		err = master_has_one_tablet(m, old->tablets_id, needs);
	if (err || !*needs)
		return err;
	err = master_has_cells(m, old, 0, &has);
	if (err == -EBADMSG && !salt_is_pending(next)) { /* splits have no effect on damaged rows either */
		has = true;
		err = 0;
	}
	*needs = !has;
	return err;
}

/* If the table needs new tablets, replaces *next by a schema with them and with its salt in use.  The caller blocks writes. */
static int use_new_tablets(struct master *m, const struct tfs_schema *old, enum change how, struct schema **next)
{
	struct schema *s;
	uint32_t id;
	bool needs;
	int err = needs_tablets(m, old, schema_public(*next), how, &needs);

	if (err || !needs)
		return err;
	err = master_tablets_create(m, schema_public(*next), &id);
	if (!err)
		err = schema_use_tablets(*next, id, &s);
	if (err)
		return err;
	schema_put(*next);
	*next = s;
	return 0;
}

/* Checks next, and makes it the table's schema, by the request with this number.  Takes next over, also after an error. */
static int schema_replace(struct master *m, const struct schema *old, struct schema *next, uint64_t version, enum change how,
	uint64_t number, struct ms_answer *a)
{
	const struct tfs_schema *p = schema_public(old);
	const bool drops = drops_family(p, schema_public(next)), check = drops && how != CHANGE_DROPS;
	const bool blocked = check || may_need_tablets(schema_public(next), how);
	int err = 0;

	if (drops || how == CHANGE_TRUNCATE)
		err = master_may_remove(p, &a->why);
	if (!err && blocked)
		err = master_block_writes(m, p->tablets_id);
	if (err)
		goto out;
	if (check)
		err = dropped_families_are_empty(m, p, schema_public(next), &a->why);
	if (!err)
		err = use_new_tablets(m, p, how, &next);
	if (!err) {
		if (next != old && number)
			schema_set_changed(next, number);
		err = master_schema_write(m, p, next, version);
	}
	if (!err && schema_public(next)->tablets_id != p->tablets_id)
		(void)!assign_table(m, schema_public(next)->tablets_id);
	if (blocked)
		master_unblock_writes(m, p->tablets_id);
	if (!err && schema_public(next)->tablets_id != p->tablets_id)
		master_tablets_delete(m, p->tablets_id);
	if (!err && salt_is_pending(schema_public(next))) {
		msg_notice("table %s: it holds cells: salt = %d takes effect when it is empty", p->name, schema_public(next)->salt);
		salt_watch(m, p->table_id);
	}
	if (!err)
		a->schema = schema_get(next);
	if (!err)
		snapshots_watch(m, schema_public(next));
out:
	schema_put(next);
	return err;
}

/* ---- pending salts ---- */

static bool salt_stays_pending(struct master *m, uint32_t table)
{
	struct ms_answer a = {0};
	struct schema *s = NULL;
	uint64_t version;
	bool has = true, pending;
	int err = schemas_table_by_id(m->locks, table, NULL, &s, &version);

	if (err)
		return err != -ENOENT;
	pending = salt_is_pending(schema_public(s));
	if (pending)
		err = master_has_cells(m, schema_public(s), 0, &has);
	if (!err && !has)
		err = schema_replace(m, s, schema_get(s), version, CHANGE_SALT, 0, &a);
	if (!err && a.schema && !salt_is_pending(schema_public(a.schema))) {
		msg_notice("table %s: it is empty: salt = %d takes effect", schema_public(s)->name, schema_public(s)->salt);
		pending = false;
	}
	schema_put(a.schema);
	schema_put(s);
	return pending;
}

static void salt_check(struct task *t)
{
	struct master *m = (struct master *)(void *)((char *)t - offsetof(struct master, salt_check));
	uint64_t from = monotonic_us(), took;

	mutex_lock(&m->lock);
	for (unsigned i = m->pending_count; i-- > 0;)
		if (!salt_stays_pending(m, m->pending[i]))
			m->pending[i] = m->pending[--m->pending_count];
	took = (monotonic_us() - from) * CHECK_SHARE;
	if (m->pending_count)
		task_queue_after(t, took > CHECK_PAUSE_US ? took : CHECK_PAUSE_US);
	mutex_unlock(&m->lock);
}

void salt_watch(struct master *m, uint32_t table)
{
	for (unsigned i = 0; i < m->pending_count; i++)
		if (m->pending[i] == table)
			return;
	if (array_grow(&m->pending, m->pending_count, sizeof(*m->pending)))
		return; /* the next start checks */
	m->pending[m->pending_count++] = table;
	master_later(m, &m->salt_check, salt_check, CHECK_PAUSE_US);
}

/* ---- requests ---- */

/* Returns true if this request was sent before and made the last change of the schema.  Then *a is the answer. */
static bool is_repetition(const struct schema *now, const struct ms_request *q, struct ms_answer *a)
{
	const bool is = q->number && schema_changed(now) == q->number;

	if (is)
		a->schema = schema_get(now);
	return is;
}

/* *text is the text that the table gets.  Lines that are appended follow the present text, so that two clients keep each other's. */
static int text_of(const struct tfs_schema *now, const struct ms_request *q, struct buf *whole, struct tfs_bytes *text)
{
	int err = 0;

	*text = q->text;
	if (q->method != MS_SCHEMA_CHANGE)
		return 0;
	err = buf_append(whole, now->text, now->text_size);
	if (!err && whole->n && whole->p[whole->n - 1] != '\n')
		err = buf_u8(whole, '\n');
	if (!err)
		err = buf_append_bytes(whole, q->edit->text);
	*text = buf_bytes(whole);
	return err;
}

int master_schema_set_text(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *old = NULL, *next = NULL;
	const int64_t given = q->method == MS_SCHEMA_CHANGE ? q->edit->mtime_us : q->mtime_us;
	struct tfs_bytes text = {0};
	struct buf whole = {0};
	bool allow = false;
	uint64_t version;
	int err = schemas_table_by_id(m->locks, q->table, q->name, &old, &version);
	int64_t mtime = given == TFS_NO_TIME ? clock_now(m->clock) : given;

	if (!err)
		err = schema_owned_by(schema_public(old), q->user);
	if (!err && is_repetition(old, q, a))
		goto out;
	if (!err)
		err = text_of(schema_public(old), q, &whole, &text);
	if (!err)
		err = schema_set_text(old, text, mtime, &next, &allow, &a->why);
	if (!err && q->user && q->user->uid != 0)
		err = schema_limit_owners(old, next, q->user, &a->why);
	if (!err)
		err = schema_replace(m, old, next, version, allow ? CHANGE_DROPS : CHANGE_TEXT, q->number, a);
out:
	buf_fini(&whole);
	schema_put(old);
	return err;
}

/* Returns true if .schema is removed from the listing of a table whose files are not removed. */
static bool hides_kept(const struct tfs_schema *old, const struct tfs_schema *next)
{
	return next->is_hidden && !old->is_hidden && (old->protect == TFS_PROTECT_DATA || old->readonly);
}

int master_schema_change(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *old = NULL, *next = NULL;
	uint64_t version;
	int err;

	if (q->edit && q->edit->op == TFS_SCHEMA_TEXT_APPEND)
		return master_schema_set_text(m, q, a);
	err = q->edit ? schemas_table_by_id(m->locks, q->table, q->name, &old, &version) : -EINVAL;
	if (!err)
		err = schema_may_edit(old, q->edit, q->user);
	if (!err && is_repetition(old, q, a))
		goto out;
	if (!err)
		err = schema_edit(old, q->edit, clock_now(m->clock), &next, &a->why);
	if (!err && hides_kept(schema_public(old), schema_public(next))) {
		err = master_may_remove(schema_public(old), &a->why);
		schema_put(next);
	}
	if (err)
		goto out;
	err = schema_replace(m, old, next, version, CHANGE_EDIT, q->number, a);
out:
	schema_put(old);
	return err;
}

int master_table_truncate(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *old = NULL;
	uint64_t version;
	int err = schemas_table_by_id(m->locks, q->table, q->name, &old, &version);

	if (!err)
		err = schema_owned_by(schema_public(old), q->user);
	if (!err && is_repetition(old, q, a))
		goto out;
	if (!err)
		err = master_has_snapshots(m, schema_public(old), &a->why);
	if (!err)
		err = schema_replace(m, old, schema_get(old), version, CHANGE_TRUNCATE, q->number, a);
out:
	schema_put(old);
	return err;
}
