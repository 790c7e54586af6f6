/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of a schema, by text or by one edit; each replaces the table's
 * schema as a whole or changes nothing.
 *
 * Choices:
 *  - An edit that would leave everything as it is changes nothing at all:
 *    text, mtime and generation stay (rsync's and tar's chown and chmod of a
 *    restored tree must not touch .schema).  A real one renders the text
 *    anew and sets mtime to now; TIME and HIDE keep the text.
 *  - explicit_act counts even where nothing else changes: is_set becomes
 *    true, which is a change.
 *  - Writing the text makes the schema set and shown.
 *  - What is named (family, group) and absent is -ENOENT; a bad value, an
 *    unknown group to put a family into included, is -EINVAL.
 *  - Blanks and newlines around an edit's value are ignored (echo), but for
 *    new names: those are no lines of text.
 *  - Type changes by text are held to the same -EBUSY as by edit.
 *  - "Holds cells" means live cells; hidden ones go with the family.
 */
#include <errno.h>
#include <stdlib.h>

#include "t/model/model_types.h"

/* Takes next. */
static void publish(struct tfs_table *t, struct mdl_schema *next)
{
	for (unsigned i = 0; i < t->schema->pub.family_count; i++)
		if (!mdl_schema_family_id(next, t->schema->family[i].id))
			mdl_table_drop_family(t, t->schema->family[i].id);
	mdl_schema_unref(t->schema);
	t->schema = next;
}

/*
 * A change of a schema, even one that changes nothing, of a table that was empty: its salt is in use, and its tablets are
 * new.  So they are when a text with splits is written and there is one tablet.
 */
static void use_salt(struct tfs_table *t, bool empty, bool text)
{
	struct tfs_schema *p = &t->schema->pub;

	if (!empty || (p->salt == p->salt_in_use && !(text && p->split_count && t->cuts == 0)))
		return;
	p->salt_in_use = p->salt;
	mdl_tablets_renew(t);
}

static int check_families(struct tfs_table *t, const struct mdl_schema *next, bool allow_delete, char **why)
{
	for (unsigned i = 0; i < t->schema->pub.family_count; i++) {
		const struct tfs_family *old = &t->schema->family[i], *kept = mdl_schema_family_id(next, old->id);
		if (!kept && mdl_may_remove(t))
			return mdl_may_remove(t);
		if (kept || allow_delete || !mdl_table_has_cells(t, old->id, false))
			continue;
		mdl_why(why, "family \"%s\" holds cells: only a .schema with allow_delete = true deletes it", old->name);
		return -EBUSY;
	}
	return 0;
}

int tfs_schema_set_text(struct tfs_table *t, struct tfs_bytes text, int64_t mtime_us, char **why)
{
	struct mdl_schema *next = NULL;
	bool allow_delete, as_written, empty;
	char *written = NULL, *kept = NULL;
	int r;

	if (why)
		*why = NULL;
	mdl_lock();
	if (t->dropped || t->schema->pub.snapshot_of) {
		r = t->schema->pub.snapshot_of ? -EROFS : -ENOENT;
		goto out;
	}
	r = mdl_schema_parse(t->schema, text, &next, &allow_delete, &as_written, why);
	if (r < 0)
		goto out;
	r = check_families(t, next, allow_delete, why);
	if (r < 0)
		goto out;
	next->pub.salt_in_use = t->schema->pub.salt_in_use;
	next->pub.is_set = true;
	next->pub.is_hidden = false;
	next->pub.mtime_us = mtime_us == TFS_NO_TIME ? mdl_now(t->store) : mtime_us;
	written = calloc(1, text.n + 1);
	if (written && text.n)
		memcpy(written, text.p, text.n);
	kept = written ? mdl_schema_last(written, true) : NULL;
	r = !kept ? -ENOMEM : mdl_schema_finish(next, as_written ? tfs_str(kept) : tfs_bytes_of(NULL, 0));
	if (r < 0)
		goto out;
	empty = !mdl_table_has_cells(t, 0, true);
	publish(t, next);
	use_salt(t, empty, true);
	next = NULL;
out:
	free(written);
	free(kept);
	mdl_schema_unref(next);
	mdl_unlock();
	return r;
}

/* The model judges whole texts only. */
int tfs_schema_text_begins(struct tfs_table *t, struct tfs_bytes text, char **why)
{
	if (why)
		*why = NULL;
	return 0;
}

/* Sets *field to a copy of value; 1 if that changes it. */
static int set_string(const char **field, const char *value)
{
	char *copy;

	if (strcmp(*field, value) == 0)
		return 0;
	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	free((void *)*field);
	*field = copy;
	return 1;
}

static int set_owner(uid_t *uid, gid_t *gid, const struct tfs_schema_edit *e)
{
	uid_t u = e->uid == (uid_t)-1 ? *uid : e->uid;
	gid_t g = e->gid == (gid_t)-1 ? *gid : e->gid;
	int changed = u != *uid || g != *gid;

	*uid = u;
	*gid = g;
	return changed;
}

static int set_mode(mode_t *mode, mode_t to)
{
	int changed = *mode != (to & 07777);

	*mode = to & 07777;
	return changed;
}

/* 1: it is to be called so from now on; 0: it is already. */
static int new_name(const char *old, const char *name, bool taken, char **why)
{
	if (!tfs_name_valid(name)) {
		mdl_why(why, "not a legal name");
		return -EINVAL;
	}
	if (strcmp(old, name) == 0)
		return 0;
	if (taken)
		mdl_why(why, "there is a \"%s\" already", name);
	return taken ? -EEXIST : 1;
}

static int rename_group(struct mdl_schema *s, struct tfs_group *g, const char *name, char **why)
{
	int r = new_name(g->name, name, name && mdl_schema_group(s, name), why);

	if (r <= 0)
		return r;
	if (g->id == 0) {
		mdl_why(why, "group \"default\" keeps its name");
		return -EBUSY;
	}
	for (unsigned i = 0; i < s->pub.family_count; i++)
		if (strcmp(s->family[i].group, g->name) == 0 && set_string(&s->family[i].group, name) < 0)
			return -ENOMEM;
	return set_string(&g->name, name);
}

static int edit_family(struct tfs_table *t, struct mdl_schema *s, const struct tfs_schema_edit *e, const char *value, char **why)
{
	struct tfs_family *f = mdl_schema_family(s, e->name);
	const char *reason;
	struct mdl_gc *gc = NULL;
	int r;

	if (e->op == TFS_SCHEMA_FAMILY_ADD) {
		struct tfs_family fresh = mdl_family_default;
		if (f)
			return -EEXIST;
		fresh.name = e->name;
		fresh.uid = e->uid;
		fresh.gid = e->gid;
		fresh.mode = e->mode & 07777;
		r = mdl_schema_add_family(s, &fresh);
		return r < 0 ? r : 1;
	}
	if (!f)
		return -ENOENT;
	switch ((int)e->op) {
	case TFS_SCHEMA_FAMILY_RENAME:
		r = new_name(f->name, e->value, e->value && mdl_schema_family(s, e->value), why);
		return r > 0 ? set_string(&f->name, e->value) : r;
	case TFS_SCHEMA_FAMILY_DROP:
		if (mdl_may_remove(t))
			return mdl_may_remove(t);
		if (mdl_table_has_cells(t, f->id, false)) {
			mdl_why(why, "family \"%s\" holds cells", e->name);
			return -EBUSY;
		}
		free((void *)f->name);
		free((void *)f->gc);
		free((void *)f->group);
		free((void *)f->acl);
		*f = s->family[--s->pub.family_count];
		return 1;
	case TFS_SCHEMA_FAMILY_MODE:
		return set_mode(&f->mode, e->mode);
	case TFS_SCHEMA_FAMILY_ACL:
		if (!mdl_acl_valid(value)) {
			mdl_why(why, "acl: not one with ids");
			return -EINVAL;
		}
		r = set_string(&f->acl, value);
		return r < 0 ? r : r | set_mode(&f->mode, e->mode);
	case TFS_SCHEMA_FAMILY_OWNER:
		return set_owner(&f->uid, &f->gid, e);
	case TFS_SCHEMA_FAMILY_GC:
		r = mdl_gc_parse(value, &gc, &reason);
		mdl_gc_free(gc);
		if (r < 0) {
			mdl_why(why, "gc: %s", reason);
			return r;
		}
		return set_string(&f->gc, value);
	case TFS_SCHEMA_FAMILY_GROUP:
		if (!mdl_schema_group(s, value)) {
			mdl_why(why, "there is no group \"%s\"", value);
			return -EINVAL;
		}
		return set_string(&f->group, value);
	case TFS_SCHEMA_FAMILY_TYPE:
		if (strcmp(value, "bytes") != 0 && strcmp(value, "counter") != 0) {
			mdl_why(why, "type is \"bytes\" or \"counter\"");
			return -EINVAL;
		}
		enum tfs_family_type type = *value == 'b' ? TFS_TYPE_BYTES : TFS_TYPE_COUNTER;
		if (type == f->type)
			return 0;
		f->type = type;
		return 1;
	default:
		return -EINVAL;
	}
}

static int edit_group(struct mdl_schema *s, const struct tfs_schema_edit *e, const char *value, char **why)
{
	struct tfs_group *g = mdl_schema_group(s, e->name);
	int r;

	if (e->op == TFS_SCHEMA_GROUP_ADD) {
		struct tfs_group fresh = mdl_group_default;
		if (g)
			return -EEXIST;
		fresh.name = e->name;
		r = mdl_schema_add_group(s, &fresh);
		return r < 0 ? r : 1;
	}
	if (!g)
		return -ENOENT;
	if (e->op == TFS_SCHEMA_GROUP_RENAME)
		return rename_group(s, g, e->value, why);
	if (e->op == TFS_SCHEMA_GROUP_DROP) {
		bool used = strcmp(e->name, "default") == 0;
		for (unsigned i = 0; i < s->pub.family_count; i++)
			used = used || strcmp(s->family[i].group, e->name) == 0;
		if (used) {
			mdl_why(why, "group \"%s\" is in use", e->name);
			return -EBUSY;
		}
		free((void *)g->name);
		free((void *)g->compression);
		*g = s->group[--s->pub.group_count];
		return 1;
	}
	struct tfs_group fresh = *g;
	const char *reason = mdl_group_set(&fresh, e->op, value);
	if (reason) {
		mdl_why(why, "%s", reason);
		return -EINVAL;
	}
	if (e->op == TFS_SCHEMA_GROUP_COMPRESSION && !mdl_group_fits(&fresh))
		fresh.level = 3;
	if (!mdl_group_fits(&fresh)) {
		mdl_why(why, "the codec has no levels");
		return -EINVAL;
	}
	r = set_string(&g->compression, fresh.compression);
	if (r < 0)
		return r;
	fresh.compression = g->compression;
	r |= fresh.level != g->level || fresh.block_size != g->block_size || fresh.bloom_bits != g->bloom_bits ||
		fresh.in_memory != g->in_memory;
	*g = fresh;
	return r;
}

/* On the copy s: 1 changed, 0 not, -errno. */
static int edit(struct tfs_table *t, struct mdl_schema *s, const struct tfs_schema_edit *e, const char *value, char **why)
{
	switch (e->op) {
	case TFS_SCHEMA_TABLE_MODE:
		return set_mode(&s->pub.mode, e->mode);
	case TFS_SCHEMA_TABLE_OWNER:
		return set_owner(&s->pub.uid, &s->pub.gid, e);
	case TFS_SCHEMA_TIME:
	case TFS_SCHEMA_HIDE:
		return 0;
	case TFS_SCHEMA_FAMILY_ADD:
	case TFS_SCHEMA_FAMILY_DROP:
	case TFS_SCHEMA_FAMILY_MODE:
	case TFS_SCHEMA_FAMILY_OWNER:
	case TFS_SCHEMA_FAMILY_GC:
	case TFS_SCHEMA_FAMILY_GROUP:
	case TFS_SCHEMA_FAMILY_TYPE:
	case TFS_SCHEMA_FAMILY_RENAME:
	case TFS_SCHEMA_FAMILY_ACL:
		break;
	case TFS_SCHEMA_GROUP_ADD:
	case TFS_SCHEMA_GROUP_DROP:
	case TFS_SCHEMA_GROUP_COMPRESSION:
	case TFS_SCHEMA_GROUP_LEVEL:
	case TFS_SCHEMA_GROUP_BLOCK_SIZE:
	case TFS_SCHEMA_GROUP_BLOOM_BITS:
	case TFS_SCHEMA_GROUP_IN_MEMORY:
	case TFS_SCHEMA_GROUP_RENAME:
		break;
	case TFS_SCHEMA_SCRIPT_SET:
	case TFS_SCHEMA_SCRIPT_TIME:
	case TFS_SCHEMA_SCRIPT_DROP:
		return mdl_script_edit(s, e, mdl_now(t->store), why);
	case TFS_SCHEMA_TEXT_APPEND:
		return -EINVAL; /* append() */
	}
	bool fresh = e->op == TFS_SCHEMA_FAMILY_ADD || e->op == TFS_SCHEMA_GROUP_ADD;
	if (!tfs_name_valid(e->name) && (fresh || e->name[0] != '#')) {
		mdl_why(why, "not a legal name");
		return -EINVAL;
	}
	return e->op <= TFS_SCHEMA_FAMILY_TYPE || e->op == TFS_SCHEMA_FAMILY_RENAME || e->op == TFS_SCHEMA_FAMILY_ACL
		? edit_family(t, s, e, value, why)
		: edit_group(s, e, value, why);
}

static char *trimmed(const char *s)
{
	static const char blank[] = " \t\r\n";
	size_t n;

	if (!s)
		s = "";
	s += strspn(s, blank);
	n = strlen(s);
	while (n > 0 && strchr(blank, s[n - 1]))
		n--;
	return strndup(s, n);
}

/* Appends the lines to the text of the schema. */
static int append(struct tfs_table *t, const struct tfs_schema_edit *e, char **why)
{
	const struct tfs_schema *now;
	char *whole;
	int n, r = tfs_schema_get(t, &now);

	if (r < 0)
		return r;
	n = asprintf(&whole, "%.*s%s%.*s", (int)now->text_size, now->text,
		now->text_size && now->text[now->text_size - 1] != '\n' ? "\n" : "", (int)e->text.n,
		e->text.n ? (const char *)e->text.p : "");
	tfs_schema_put(now);
	if (n < 0)
		return -ENOMEM;
	r = tfs_schema_set_text(t, tfs_bytes_of(whole, (size_t)n), e->mtime_us, why);
	free(whole);
	return r;
}

int tfs_schema_change(struct tfs_table *t, const struct tfs_schema_edit *e, char **why)
{
	struct mdl_schema *next = NULL;
	char *value;
	int r = -ENOMEM;

	if (e->op == TFS_SCHEMA_TEXT_APPEND)
		return append(t, e, why);
	value = trimmed(e->value);
	if (why)
		*why = NULL;
	mdl_lock();
	if (t->dropped || t->schema->pub.snapshot_of) {
		r = t->schema->pub.snapshot_of ? -EROFS : -ENOENT;
		goto out;
	}
	if (e->while_open && !t->schema->pub.mkdir_families) {
		r = -ECANCELED;
		goto out;
	}
	if (!value || !(next = mdl_schema_copy(t->schema)))
		goto out;
	const struct tfs_schema *old = &t->schema->pub;
	r = edit(t, next, e, value, why);
	if (r >= 0 && e->op == TFS_SCHEMA_HIDE && e->flag && !old->is_hidden && (old->readonly || old->protect == TFS_PROTECT_DATA))
		r = mdl_may_remove(t);
	if (r < 0)
		goto out;
	const bool script = e->op >= TFS_SCHEMA_SCRIPT_SET;
	bool render = (r > 0 && !script) || (e->explicit_act && !old->is_set);
	r = 0;
	next->pub.is_set = old->is_set || e->explicit_act;
	next->pub.mkdir_families = old->mkdir_families && !(e->explicit_act && e->op == TFS_SCHEMA_FAMILY_ADD);
	if (render)
		next->pub.mtime_us = mdl_now(t->store);
	if (e->op == TFS_SCHEMA_TIME)
		next->pub.mtime_us = e->mtime_us == TFS_NO_TIME ? mdl_now(t->store) : e->mtime_us;
	if (e->op == TFS_SCHEMA_HIDE)
		next->pub.is_hidden = e->flag;
	bool empty = !mdl_table_has_cells(t, 0, true);
	if (!render && !script && next->pub.mtime_us == old->mtime_us && next->pub.is_hidden == old->is_hidden) {
		use_salt(t, empty, false);
		goto out;
	}
	next->pub.generation++;
	bool keep = !render || e->op == TFS_SCHEMA_TIME || e->op == TFS_SCHEMA_HIDE;
	r = mdl_schema_finish(next, keep ? tfs_bytes_of(old->text, old->text_size) : tfs_bytes_of(NULL, 0));
	if (r < 0)
		goto out;
	publish(t, next);
	use_salt(t, empty, false);
	next = NULL;
out:
	mdl_schema_unref(next);
	mdl_unlock();
	free(value);
	return r;
}
