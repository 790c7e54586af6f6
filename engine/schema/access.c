/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a user may access a family, and whether a user may change a
 * schema.  In the tree the kernel decides.  Other paths to the data must not be
 * more open.  So the rules here are the rules of Linux for a file with a POSIX
 * ACL:
 *
 *   1 the owner has the first digit of the mode
 *   2 without an ACL, the group has the second digit, others have the third
 *   3 with an ACL, the second digit is the mask.  A named user has the entry's
 *     bits within the mask.  Otherwise, if one of the user's groups has an entry, one
 *     such entry must have all bits, within the mask.  Otherwise the third
 *     digit decides.
 *
 * If the second digit is 0, Linux ignores the ACL.
 *
 * A user whose groups are unknown may be in any group.  The user has only the bits
 * that each of these possibilities gives.
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
	mode_t digit = user->uid == uid ? mode >> 6 : user_in_group(user, gid) ? mode >> 3 : mode;

	if (user->groups_unknown && user->uid != uid && !user_in_group(user, gid))
		digit &= mode >> 3;
	return (digit & bits) == bits;
}

/* Returns true if the family's ACL allows all of `bits`.  The user does not own the family. */
static bool bits_by_acl(const struct tfs_user *user, const struct tfs_family *f, unsigned bits)
{
	const unsigned mask = f->mode >> 3 & 7;
	struct tfs_acl_entry e;
	bool in_any = false,
	     in_all = true; /* an entry of one of the user's groups lacks the bits; all entries of groups have them */

	for (const char *acl = f->acl; tfs_acl_next(&acl, &e);) {
		const bool applies = e.is_group ? user_in_group(user, e.is_owner ? f->gid : e.id) : user->uid == e.id;

		in_all = in_all && (!e.is_group || (e.may & mask & bits) == bits);
		if (!applies)
			continue;
		if (!e.is_group || (e.may & bits) == bits)
			return (e.may & mask & bits) == bits;
		in_any = true;
	}
	return !in_any && (in_all || !user->groups_unknown) && (f->mode & bits) == bits;
}

bool family_allows(const struct tfs_family *f, const struct tfs_user *user, unsigned bits)
{
	if (*f->acl && user->uid != f->uid && (f->mode & 0070))
		return bits_by_acl(user, f, bits);
	return bits_by_mode(user, f->uid, f->gid, f->mode, bits);
}

bool tfs_may(const struct tfs_schema *s, const struct tfs_family *f, const struct tfs_user *user, unsigned may)
{
	if (user->uid == 0)
		return true;
	if (!bits_by_mode(user, s->uid, s->gid, s->mode, 1))
		return false;
	return !f || may == 0 || family_allows(f, user, may);
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

/* ---- changes of the schema ---- */

int schema_owned_by(const struct tfs_schema *p, const struct tfs_user *user)
{
	return !user || user->uid == 0 || user->uid == p->uid ? 0 : -EACCES;
}

/* Checks a chown of something with this owner, as Linux does. */
static int may_chown(const struct tfs_schema_edit *e, const struct tfs_user *user, uid_t uid, gid_t gid)
{
	const bool same_uid = e->uid == (uid_t)-1 || e->uid == uid, same_gid = e->gid == (gid_t)-1 || e->gid == gid;

	return same_uid && (same_gid || user_in_group(user, e->gid)) && user->uid == uid ? 0 : -EPERM;
}

/* Checks mkdir of a family by this user. */
static int may_add(const struct tfs_schema *p, const struct tfs_schema_edit *e, const struct tfs_user *user)
{
	const bool owner = user->uid == p->uid;

	if (!owner && (e->explicit_act || !p->mkdir_families || !bits_by_mode(user, p->uid, p->gid, p->mode, 3)))
		return -EACCES;
	if (owner && e->uid == (uid_t)-1 && e->gid == (gid_t)-1)
		return 0;
	return e->uid == user->uid && (user_in_group(user, e->gid) || (owner && e->gid == p->gid)) ? 0 : -EPERM;
}

int schema_may_edit(const struct schema *s, const struct tfs_schema_edit *e, const struct tfs_user *user)
{
	const struct tfs_schema *p = &s->pub;
	const struct tfs_family *f;

	if (!user || user->uid == 0)
		return 0;
	if (e->op == TFS_SCHEMA_FAMILY_ADD)
		return may_add(p, e, user);
	if (e->op == TFS_SCHEMA_TABLE_OWNER)
		return may_chown(e, user, p->uid, p->gid);
	if (e->op == TFS_SCHEMA_TABLE_MODE)
		return user->uid == p->uid ? 0 : -EPERM;
	if (e->op != TFS_SCHEMA_FAMILY_MODE && e->op != TFS_SCHEMA_FAMILY_ACL && e->op != TFS_SCHEMA_FAMILY_OWNER)
		return schema_owned_by(p, user);
	f = e->name ? schema_family(s, e->name) : NULL;
	if (!f)
		return -ENOENT;
	if (e->op == TFS_SCHEMA_FAMILY_OWNER)
		return may_chown(e, user, f->uid, f->gid);
	return user->uid == f->uid ? 0 : -EPERM;
}
