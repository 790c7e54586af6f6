/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies one edit to a schema.  mkdir, rmdir, rename, chmod, chown and writes
 * under .families/ and .groups/ become such edits.
 *
 * Edits of the text's time, of the hidden flag and of scripts keep the text.  All others
 * render it anew.  An edit that changes nothing keeps text, time and
 * generation.  This matters because rsync and tar end a restore with chown and
 * chmod, which must not change .schema.
 */
#include "engine/schema/schema_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns a malloc'd copy without the blanks at both ends. */
static char *value_trimmed(const char *value)
{
	static const char blanks[] = " \t\n\r";
	size_t n;

	value += strspn(value, blanks);
	n = strlen(value);
	while (n && strchr(blanks, value[n - 1]))
		n--;
	return strndup(value, n);
}

/* a: the attributes of the target. */
static int edit_value(
	struct schema *s, void *target, const struct attribute *a, const struct tfs_schema_edit *e, const char **reason)
{
	char *value;
	int err;

	if (!e->value)
		return schema_refuse(reason, "a value is missing");
	value = value_trimmed(e->value);
	if (!value)
		return -ENOMEM;
	while (a->op != e->op)
		a++;
	err = attribute_set(s, target, a, value, reason);
	free(value);
	return err;
}

static void edit_owner(const struct tfs_schema_edit *e, uid_t *uid, gid_t *gid)
{
	if (e->uid != (uid_t)-1)
		*uid = e->uid;
	if (e->gid != (gid_t)-1)
		*gid = e->gid;
}

/* Sets *out to a copy of the new name.  Returns 1 and sets nothing if the name is unchanged. */
static int edit_name(struct schema *s, const char *old, const char *name, bool taken, const char **out, const char **reason)
{
	const char *copy;

	if (!name || !schema_name_valid(tfs_str(name)))
		return schema_refuse(reason, "not a legal name");
	if (strcmp(old, name) == 0)
		return 1;
	if (taken) {
		*reason = "the new name is another's";
		return -EEXIST;
	}
	copy = draft_str(s, name);
	if (!copy)
		return -ENOMEM;
	*out = copy;
	return 0;
}

static int family_rename(struct schema *s, struct tfs_family *f, const char *name, const char **reason)
{
	int err = edit_name(s, f->name, name, name && draft_find_family(s, name), &f->name, reason);

	return err < 0 ? err : 0;
}

static int group_rename(struct schema *s, struct tfs_group *g, const char *name, const char **reason)
{
	const char *old = g->name;
	int err = edit_name(s, old, name, name && draft_find_group(s, name), &g->name, reason);

	if (err)
		return err < 0 ? err : 0;
	if (strcmp(old, SCHEMA_DEFAULT_GROUP) == 0) {
		*reason = "the default group keeps its name";
		return -EBUSY;
	}
	for (unsigned i = 0; i < s->pub.family_count; i++)
		if (strcmp(s->families[i].group, old) == 0)
			s->families[i].group = g->name;
	return 0;
}

static int family_add(struct schema *s, const struct tfs_schema_edit *e, const char **reason)
{
	struct tfs_family *f;
	int err;

	if (draft_find_family(s, e->name))
		return -EEXIST;
	err = draft_family(s, e->name, -1, &f, reason);
	if (err)
		return err;
	edit_owner(e, &f->uid, &f->gid);
	f->mode = e->mode & 0777;
	return 0;
}

static void family_drop(struct schema *s, struct tfs_family *f)
{
	size_t after = (size_t)(&s->families[s->pub.family_count] - f) - 1;

	memmove(f, f + 1, after * sizeof *f);
	s->pub.family_count--;
}

static int group_add(struct schema *s, const struct tfs_schema_edit *e, const char **reason)
{
	struct tfs_group *g;

	return draft_find_group(s, e->name) ? -EEXIST : draft_group(s, e->name, -1, &g, reason);
}

static int group_drop(struct schema *s, struct tfs_group *g, const char **reason)
{
	size_t after = (size_t)(&s->groups[s->pub.group_count] - g) - 1;

	*reason = "the default group stays";
	if (strcmp(g->name, SCHEMA_DEFAULT_GROUP) == 0)
		return -EBUSY;
	*reason = "the group is in use";
	for (unsigned i = 0; i < s->pub.family_count; i++)
		if (strcmp(s->families[i].group, g->name) == 0)
			return -EBUSY;
	memmove(g, g + 1, after * sizeof *g);
	s->pub.group_count--;
	return 0;
}

static int edit_family(struct schema *s, struct tfs_family *f, const struct tfs_schema_edit *e, const char **reason)
{
	int err;

	if (e->op == TFS_SCHEMA_FAMILY_MODE) {
		f->mode = e->mode & 0777;
		return 0;
	}
	if (e->op == TFS_SCHEMA_FAMILY_OWNER) {
		edit_owner(e, &f->uid, &f->gid);
		return 0;
	}
	if (e->op == TFS_SCHEMA_FAMILY_ACL)
		f->mode = e->mode & 0777;
	err = edit_value(s, f, family_attributes, e, reason);
	if (!err && !draft_find_group(s, f->group))
		err = schema_refuse(reason, "there is no group of that name");
	return err;
}

static int edit_group(struct schema *s, struct tfs_group *g, const struct tfs_schema_edit *e, const char **reason)
{
	const char *ignored;
	int err = edit_value(s, g, group_attributes, e, reason);

	/*
	 * The new codec may have no levels.  Then the level resets, so that the
	 * edit does not fail because of the old one.
	 */
	if (!err && e->op == TFS_SCHEMA_GROUP_COMPRESSION && group_fits(g, &ignored))
		g->level = SCHEMA_LEVEL;
	return err ? err : group_fits(g, reason);
}

static int edit_apply(struct schema *s, const struct tfs_schema_edit *e, int64_t now, const char **reason)
{
	struct tfs_family *f = schema_family(s, e->name);
	struct tfs_group *g = schema_group(s, e->name);

	switch (e->op) {
	case TFS_SCHEMA_TABLE_MODE:
		s->pub.mode = e->mode & 07777;
		return 0;
	case TFS_SCHEMA_TABLE_OWNER:
		edit_owner(e, &s->pub.uid, &s->pub.gid);
		return 0;
	case TFS_SCHEMA_TIME:
	case TFS_SCHEMA_HIDE:
		return 0; /* schema_edit handles them */
	case TFS_SCHEMA_FAMILY_ADD:
		return e->name ? family_add(s, e, reason) : -EINVAL;
	case TFS_SCHEMA_FAMILY_DROP:
		if (!f)
			return -ENOENT;
		family_drop(s, f);
		return 0;
	case TFS_SCHEMA_FAMILY_MODE:
	case TFS_SCHEMA_FAMILY_OWNER:
	case TFS_SCHEMA_FAMILY_GC:
	case TFS_SCHEMA_FAMILY_GROUP:
	case TFS_SCHEMA_FAMILY_TYPE:
	case TFS_SCHEMA_FAMILY_ACL:
		return f ? edit_family(s, f, e, reason) : -ENOENT;
	case TFS_SCHEMA_GROUP_ADD:
		return e->name ? group_add(s, e, reason) : -EINVAL;
	case TFS_SCHEMA_GROUP_DROP:
		return g ? group_drop(s, g, reason) : -ENOENT;
	case TFS_SCHEMA_GROUP_COMPRESSION:
	case TFS_SCHEMA_GROUP_LEVEL:
	case TFS_SCHEMA_GROUP_BLOCK_SIZE:
	case TFS_SCHEMA_GROUP_BLOOM_BITS:
	case TFS_SCHEMA_GROUP_IN_MEMORY:
		return g ? edit_group(s, g, e, reason) : -ENOENT;
	case TFS_SCHEMA_FAMILY_RENAME:
		return f ? family_rename(s, f, e->value, reason) : -ENOENT;
	case TFS_SCHEMA_GROUP_RENAME:
		return g ? group_rename(s, g, e->value, reason) : -ENOENT;
	case TFS_SCHEMA_SCRIPT_SET:
	case TFS_SCHEMA_SCRIPT_TIME:
	case TFS_SCHEMA_SCRIPT_DROP:
		return script_edit(s, e, now, reason);
	case TFS_SCHEMA_TEXT_APPEND:
		break; /* the master makes the whole text (schema_set_text) */
	}
	return schema_refuse(reason, "no such operation");
}

/* Sets *equal to true if the two differ at most in text, time and generation. */
static int schemas_equal(const struct schema *a, const struct schema *b, bool *equal)
{
	struct buf x = {0}, y = {0};
	int err = schema_render(a, &x);

	if (!err)
		err = schema_render(b, &y);
	if (!err)
		*equal = bytes_eq(buf_bytes(&x), buf_bytes(&y)) && a->pub.is_set == b->pub.is_set;
	buf_fini(&x);
	buf_fini(&y);
	return err;
}

int schema_edit(const struct schema *old, const struct tfs_schema_edit *e, int64_t now, struct schema **out, char **why)
{
	const bool render = e->op != TFS_SCHEMA_TIME && e->op != TFS_SCHEMA_HIDE && e->op < TFS_SCHEMA_SCRIPT_SET;
	struct schema *s;
	const char *reason = NULL;
	bool unchanged = false;
	int err;

	if (e->while_open && !old->pub.mkdir_families)
		return -ECANCELED;
	s = schema_clone(old);
	if (!s)
		return -ENOMEM;
	if (e->explicit_act) {
		s->pub.is_set = true;
		s->pub.mkdir_families = s->pub.mkdir_families && e->op != TFS_SCHEMA_FAMILY_ADD;
	}
	if (e->op == TFS_SCHEMA_TIME)
		s->pub.mtime_us = e->mtime_us == TFS_NO_TIME ? now : e->mtime_us;
	else if (e->op == TFS_SCHEMA_HIDE)
		s->pub.is_hidden = e->flag;
	else if (render)
		s->pub.mtime_us = now;
	err = edit_apply(s, e, now, &reason);
	if (!err)
		err = schema_finish(s, render, &reason);
	if (!err && render)
		err = schemas_equal(old, s, &unchanged);
	if (!err && unchanged) {
		schema_put(s);
		s = schema_get(old);
	}
	if (err) {
		bool named = e->name && e->name[0] != '#';

		if (err == -EINVAL || (reason && err != -ENOMEM))
			why_line(why, 0, "%s%s%s", named ? e->name : "", named ? ": " : "", reason ? reason : "not a legal change");
		schema_put(s);
		return err;
	}
	*out = s;
	return 0;
}
