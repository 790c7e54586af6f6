/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the access rules of a snapshot: for each access the stricter of two
 * rules counts: the rule of the snapshot's instant and the table's present rule.
 * A family is the same if it has the same id. A family that the table does not
 * have any more keeps the rules of its instant.
 *
 * The result is a schema with an owner, a group, a mode and an ACL for each family,
 * because the kernel decides by these.  Where owner, group and ACL are the same in
 * both, the modes are joined.  Otherwise the present owner and group stay, and each
 * other user or group with a rule of its own in one of the two gets an entry with
 * the bits that both allow.  A user's groups are unknown here, so an entry has the
 * bits that each possible combination of groups allows.  No user gets a bit that
 * either rule refuses.  A member of several groups may get fewer bits.
 *
 * A table has no ACL.  Each digit of its mode has the bits that every user of
 * the class has under both rules.
 */
#include "engine/schema/schema_internal.h"

#include <errno.h>
#include <stdlib.h>

#define NO_ID UINT32_MAX /* no user and no group has this id */

/* The bits that the user has in both families. */
static unsigned bits_in_both(const struct tfs_family *a, const struct tfs_family *b, const struct tfs_user *user)
{
	unsigned bits = 0;

	for (unsigned bit = 1; bit <= 4; bit *= 2)
		if (family_allows(a, user, bit) && family_allows(b, user, bit))
			bits |= bit;
	return bits;
}

static unsigned bits_of_user(const struct tfs_family *a, const struct tfs_family *b, uid_t uid)
{
	return bits_in_both(a, b, &(struct tfs_user){.uid = uid, .gid = NO_ID, .groups_unknown = true});
}

/* The bits of a member of the group who has no rule as a user. */
static unsigned bits_of_group(const struct tfs_family *a, const struct tfs_family *b, gid_t gid)
{
	return bits_in_both(a, b, &(struct tfs_user){.uid = NO_ID, .gid = gid, .groups_unknown = true});
}

static void add_entry(struct acl_entries *all, const struct tfs_family *then, const struct tfs_family *now, struct tfs_acl_entry e)
{
	for (unsigned i = 0; i < all->count; i++)
		if (all->v[i].is_group == e.is_group && all->v[i].is_owner == e.is_owner && all->v[i].id == e.id)
			return;
	e.may = e.is_group ? bits_of_group(then, now, e.is_owner ? now->gid : e.id) : bits_of_user(then, now, e.id);
	all->v[all->count++] = e;
}

static void add_entries(struct acl_entries *all, const struct tfs_family *then, const struct tfs_family *now, const char *acl)
{
	struct tfs_acl_entry e;

	while (tfs_acl_next(&acl, &e))
		if (!e.is_owner && e.id != (e.is_group ? now->gid : now->uid))
			add_entry(all, then, now, e);
}

/* Sets f, a copy of `then`, to owner, group, ACL and mode as above. */
static int restrict_by_entries(struct schema *s, struct tfs_family *f, const struct tfs_family *then, const struct tfs_family *now)
{
	struct acl_entries *all = calloc(1, sizeof(*all));
	const unsigned owner = bits_of_user(then, now, now->uid);
	unsigned others = bits_in_both(then, now, &(struct tfs_user){.uid = NO_ID, .gid = NO_ID}), mask = 0;
	struct buf text = {0};
	const char *reason;
	int err = 0;

	if (!all)
		return -ENOMEM;
	add_entry(all, then, now, (struct tfs_acl_entry){.is_group = true, .is_owner = true});
	add_entries(all, then, now, then->acl);
	add_entries(all, then, now, now->acl);
	if (then->uid != now->uid)
		add_entry(all, then, now, (struct tfs_acl_entry){.id = then->uid});
	if (then->gid != now->gid)
		add_entry(all, then, now, (struct tfs_acl_entry){.is_group = true, .id = then->gid});
	for (unsigned i = 0; i < all->count; i++)
		mask |= all->v[i].may;
	f->acl = "";
	if (all->count > 1 && mask) /* with the mask 0 Linux ignores the entries */
		err = acl_print(all, &text, &reason);
	if (!err && text.n > SCHEMA_ACL_MAX) {
		mask = others = 0;
	} else if (!err && text.n) {
		f->acl = draft_str(s, (const char *)text.p);
		err = f->acl ? 0 : -ENOMEM;
	} else if (!mask && all->count > 1) {
		others = 0;
	}
	f->uid = now->uid;
	f->gid = now->gid;
	f->mode = owner << 6 | mask << 3 | others;
	buf_fini(&text);
	free(all);
	return err;
}

static int restrict_family(struct schema *s, struct tfs_family *f, const struct tfs_family *now)
{
	const struct tfs_family then = *f;

	if (then.uid != now->uid || then.gid != now->gid || strcmp(then.acl, now->acl) != 0)
		return restrict_by_entries(s, f, &then, now);
	f->mode &= now->mode;
	if (*f->acl && !(f->mode & 0070))
		f->mode &= ~(mode_t)0007; /* the ACL may refuse a user an access that others have */
	return 0;
}

static void restrict_table(struct tfs_schema *p, const struct tfs_schema *now)
{
	const struct tfs_family a = {.uid = p->uid, .gid = p->gid, .mode = p->mode, .acl = ""};
	const struct tfs_family b = {.uid = now->uid, .gid = now->gid, .mode = now->mode, .acl = ""};
	const unsigned owner = bits_of_user(&a, &b, b.uid);
	/* The former owner is now in the group's class or in the class of others. */
	const unsigned former = a.uid == b.uid ? 7 : a.mode >> 6 & 7;
	unsigned others = bits_in_both(&a, &b, &(struct tfs_user){.uid = NO_ID, .gid = NO_ID}) & former;

	if (a.gid != b.gid)
		others &= a.mode >> 3;
	p->mode = (p->mode & 07000) | owner << 6 | (bits_of_group(&a, &b, b.gid) & former) << 3 | others;
	p->uid = b.uid;
	p->gid = b.gid;
}

static bool same_rules(const struct tfs_schema *a, const struct tfs_schema *b)
{
	bool same = a->uid == b->uid && a->gid == b->gid && a->mode == b->mode;

	for (unsigned i = 0; i < a->family_count && same; i++) {
		const struct tfs_family *f = &a->families[i], *g = schema_family_by_id(b, f->id);

		same = !g || (f->uid == g->uid && f->gid == g->gid && f->mode == g->mode && strcmp(f->acl, g->acl) == 0);
	}
	return same;
}

int schema_restrict(const struct schema *then, const struct schema *now, bool render, struct schema **out)
{
	struct schema *s;
	const char *reason;
	int err = 0;

	if (same_rules(&then->pub, &now->pub)) {
		*out = schema_get(then);
		return 0;
	}
	s = schema_clone(then);
	if (!s)
		return -ENOMEM;
	s->pub.generation = then->pub.generation;
	restrict_table(&s->pub, &now->pub);
	for (unsigned i = 0; i < s->pub.family_count && !err; i++) {
		const struct tfs_family *g = schema_family_by_id(&now->pub, s->families[i].id);

		if (g)
			err = restrict_family(s, &s->families[i], g);
	}
	if (!err)
		err = schema_finish(s, render, &reason);
	if (err)
		schema_put(s);
	else
		*out = s;
	return err;
}
