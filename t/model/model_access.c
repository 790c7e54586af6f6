/* SPDX-License-Identifier: Apache-2.0 */
/* Access, written down case by case from the rules of acl(5).  A handle for a user is not checked: the model runs as one user. */
#include <stdio.h>
#include <stdlib.h>

#include "t/model/model_types.h"

bool tfs_acl_next(const char **acl, struct tfs_acl_entry *e)
{
	char what, bits[4] = "";
	int n = 0;

	*e = (struct tfs_acl_entry){0};
	if (sscanf(*acl, "%c:%u:%3[rwx-]%n", &what, &e->id, bits, &n) < 3 || n == 0) {
		if (sscanf(*acl, "%c::%3[rwx-]%n", &what, bits, &n) < 2 || n == 0)
			return false;
		e->is_owner = true;
	}
	e->is_group = what == 'g';
	for (int i = 0; i < 3; i++)
		e->may |= bits[i] == '-' ? 0 : 4u >> i;
	*acl += n;
	*acl += **acl == ',';
	return true;
}

bool mdl_acl_valid(const char *acl)
{
	struct tfs_acl_entry e;

	while (*acl)
		if (!tfs_acl_next(&acl, &e))
			return false;
	return true;
}

static bool member(const struct tfs_user *u, gid_t gid)
{
	for (unsigned i = 0; i < u->group_count; i++)
		if (u->groups[i] == gid)
			return true;
	return u->gid == gid;
}

/* The bits of a user in one class of the mode. */
static unsigned by_class(mode_t mode, int class)
{
	return mode >> (3 * class) & 7;
}

bool tfs_may(const struct tfs_schema *s, const struct tfs_family *f, const struct tfs_user *u, unsigned may)
{
	struct tfs_acl_entry e;
	bool listed = false;

	if (u->uid == 0)
		return true;
	if (!(by_class(s->mode, u->uid == s->uid ? 2 : member(u, s->gid) ? 1 : 0) & 1))
		return false;
	if (!f)
		return true;
	if (u->uid == f->uid)
		return (by_class(f->mode, 2) & may) == may;
	if (!*f->acl || by_class(f->mode, 1) == 0)
		return (by_class(f->mode, member(u, f->gid) ? 1 : 0) & may) == may;
	for (const char *p = f->acl; tfs_acl_next(&p, &e);)
		if (!e.is_group && e.id == u->uid)
			return (e.may & by_class(f->mode, 1) & may) == may;
	for (const char *p = f->acl; tfs_acl_next(&p, &e);)
		if (e.is_group && member(u, e.is_owner ? f->gid : e.id)) {
			if ((e.may & may) == may)
				return (by_class(f->mode, 1) & may) == may;
			listed = true;
		}
	return !listed && (by_class(f->mode, 0) & may) == may;
}

int tfs_table_as(struct tfs_table *t, const struct tfs_user *user, struct tfs_table **out)
{
	mdl_lock();
	mdl_table_get(t);
	t->store->handles++;
	mdl_unlock();
	*out = t;
	return 0;
}
