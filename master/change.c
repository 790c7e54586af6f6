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
 * or a write that was acknowledged meanwhile would be lost.  So writes to the
 * table are blocked (tablet_service.h) from before the check to after the change.
 */
#include "engine/base/msg.h"
#include "master/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const struct tfs_family *family_by_id(const struct tfs_schema *p, uint16_t id)
{
	for (unsigned i = 0; i < p->family_count; i++)
		if (p->families[i].id == id)
			return &p->families[i];
	return NULL;
}

/* -EBUSY, with a reason, if a family that next leaves out has cells.  The caller blocks writes. */
static int dropped_families_are_empty(struct master *m, const struct tfs_schema *old, const struct tfs_schema *next, char **why)
{
	bool has;
	int err;

	for (unsigned i = 0; i < old->family_count; i++) {
		const struct tfs_family *was = &old->families[i];

		if (family_by_id(next, was->id))
			continue;
		err = master_has_cells(m, old, was->id, &has);
		if (err)
			return err;
		if (has) {
			free(*why);
			if (asprintf(why, "family \"%s\" holds cells: only a .schema with allow_delete = true deletes it",
				    was->name) < 0)
				*why = NULL;
			return -EBUSY;
		}
	}
	return 0;
}

/* Returns true if next leaves out a family of old. */
static bool drops_family(const struct tfs_schema *old, const struct tfs_schema *next)
{
	for (unsigned i = 0; i < old->family_count; i++)
		if (!family_by_id(next, old->families[i].id))
			return true;
	return false;
}

/* Checks next, and makes it the table's schema.  Takes next over, also after an error. */
static int schema_replace(
	struct master *m, const struct schema *old, struct schema *next, uint64_t version, bool allow, struct ms_answer *a)
{
	const struct tfs_schema *p = schema_public(old);
	const bool drops = !allow && drops_family(p, schema_public(next)), blocked = drops || salt_is_pending(schema_public(next));
	int err = blocked ? master_block_writes(m, p->tablets_id) : 0;

	if (err)
		goto out;
	if (drops)
		err = dropped_families_are_empty(m, p, schema_public(next), &a->why);
	if (!err && salt_is_pending(schema_public(next)))
		err = salt_take_effect(m, p, &next);
	if (!err)
		err = master_schema_write(m, p, next, version);
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
out:
	schema_put(next);
	return err;
}

int master_schema_set_text(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *old = NULL, *next = NULL;
	bool allow = false;
	uint64_t version;
	int err = master_schema_read_by_id(m, q->table, q->name, &old, &version);
	int64_t mtime = q->mtime_us == TFS_NO_TIME ? clock_now(m->clock) : q->mtime_us;
	struct tfs_user user = {.uid = q->uid, .gid = q->gid, .groups = q->groups, .group_count = q->group_count};

	if (!err)
		err = schema_set_text(old, q->text, mtime, &next, &allow, &a->why);
	if (!err && user.uid != 0)
		err = schema_limit_owners(old, next, &user, &a->why);
	if (!err)
		err = schema_replace(m, old, next, version, allow, a);
	schema_put(old);
	return err;
}

int master_schema_change(struct master *m, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *old = NULL, *next = NULL;
	uint64_t version;
	int err = q->edit ? master_schema_read_by_id(m, q->table, q->name, &old, &version) : -EINVAL;

	if (!err)
		err = schema_edit(old, q->edit, clock_now(m->clock), &next, &a->why);
	if (!err)
		err = schema_replace(m, old, next, version, false, a);
	schema_put(old);
	return err;
}
