/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a user may access a family.  In the tree the kernel decides.
 * Other paths to the data must not be more open.  So the rules here are those of
 * Linux for a file with a POSIX ACL:
 *
 *   1 the owner has the first digit of the mode
 *   2 without an ACL, the group has the second digit, others have the third
 *   3 with an ACL, the second digit is the mask.  A named user has the entry's
 *     bits within the mask.  Otherwise, if one of the user's groups has an entry, one
 *     such entry must have all bits, within the mask.  Otherwise the third
 *     digit decides.
 *
 * If the second digit is 0, Linux ignores the ACL.
 */
#include "engine/schema/schema_internal.h"

#include <errno.h>
#include <stdlib.h>

bool user_in_group(const struct tfs_user *user, gid_t gid)
{
	bool in = user->gid == gid;

	for (unsigned i = 0; i < user->group_count && !in; i++)
		in = user->groups[i] == gid;
	return in;
}

/* Returns true if the mode alone allows all of `bits` (4 read, 2 write, 1 execute). */
static bool bits_by_mode(const struct tfs_user *user, uid_t uid, gid_t gid, mode_t mode, unsigned bits)
{
	const mode_t digit = user->uid == uid ? mode >> 6 : user_in_group(user, gid) ? mode >> 3 : mode;

	return (digit & bits) == bits;
}

/* Returns true if the family's ACL allows all of `bits`.  The user does not own the family. */
static bool bits_by_acl(const struct tfs_user *user, const struct tfs_family *f, unsigned bits)
{
	const unsigned mask = f->mode >> 3 & 7;
	struct tfs_acl_entry e;
	bool in_any = false;

	for (const char *acl = f->acl; tfs_acl_next(&acl, &e);) {
		const bool applies = e.is_group ? user_in_group(user, e.is_owner ? f->gid : e.id) : user->uid == e.id;

		if (!applies)
			continue;
		if (!e.is_group || (e.may & bits) == bits)
			return (e.may & mask & bits) == bits;
		in_any = true;
	}
	return !in_any && (f->mode & bits) == bits;
}

bool tfs_may(const struct tfs_schema *s, const struct tfs_family *f, const struct tfs_user *user, unsigned may)
{
	if (user->uid == 0)
		return true;
	if (!bits_by_mode(user, s->uid, s->gid, s->mode, 1))
		return false;
	if (!f || may == 0)
		return true;
	if (*f->acl && user->uid != f->uid && (f->mode & 0070))
		return bits_by_acl(user, f, may);
	return bits_by_mode(user, f->uid, f->gid, f->mode, may);
}

bool tfs_acl_next(const char **acl, struct tfs_acl_entry *e)
{
	const char *p = *acl;
	char *end;

	if (!*p)
		return false;
	*e = (struct tfs_acl_entry){.is_group = p[0] == 'g', .is_owner = p[2] == ':'};
	e->id = (uint32_t)strtoul(p + 2, &end, 10);
	e->may = (end[1] == 'r' ? 4u : 0) | (end[2] == 'w' ? 2u : 0) | (end[3] == 'x' ? 1u : 0);
	*acl = end + 4 + (end[4] == ',');
	return true;
}
