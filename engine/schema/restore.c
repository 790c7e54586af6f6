/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a schema for a table whose schema is lost (restore.h).  Families and
 * groups keep the ids that the data has.  The next ids are above all of them,
 * so that a new family does not get the cells of an old one.
 */
#include "engine/schema/restore.h"
#include "engine/schema/schema_internal.h"

#include <errno.h>
#include <stdio.h>

static int add_family(struct schema *s, const struct restore_family *from, const char **reason)
{
	struct tfs_group *g = draft_group_by_id(s, from->group);
	struct tfs_family *f;
	char name[32];
	int err = 0;

	if (!g) {
		snprintf(name, sizeof(name), "group-%u", from->group);
		err = draft_group(s, from->group ? name : SCHEMA_DEFAULT_GROUP, from->group, &g, reason);
	}
	snprintf(name, sizeof(name), "family-%u", from->id);
	if (!err)
		err = draft_family(s, from->name && !draft_find_family(s, from->name) ? from->name : name, from->id, &f, reason);
	if (err)
		return err;
	f->group = g->name;
	f->mode = 0600;
	if (from->id >= s->next_family)
		s->next_family = from->id + 1u;
	if (from->group >= s->next_group)
		s->next_group = from->group + 1u;
	return 0;
}

int schema_restore(const struct restore_table *t, struct schema **out)
{
	struct schema *s = schema_draft(NULL);
	const char *reason;
	struct tfs_group *g;
	int err;

	if (!s)
		return -ENOMEM;
	snprintf(s->pub.name, sizeof(s->pub.name), "%s", t->name);
	s->pub.table_id = s->pub.tablets_id = t->table;
	s->pub.uid = t->uid;
	s->pub.gid = t->gid;
	s->pub.mode = 0700;
	s->pub.salt = s->pub.salt_in_use = t->salt;
	s->pub.mtime_us = t->mtime_us;
	s->pub.is_set = true;
	s->next_group = 1;
	err = draft_group(s, SCHEMA_DEFAULT_GROUP, 0, &g, &reason);
	for (unsigned i = 0; i < t->family_count && !err; i++)
		err = add_family(s, &t->families[i], &reason);
	if (!err)
		err = schema_finish(s, true, &reason);
	if (err)
		schema_put(s);
	else
		*out = s;
	return err;
}
