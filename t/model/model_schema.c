/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One state of a table's schema: an immutable object once
 * mdl_schema_finish has run.  A change copies it, edits the copy, finishes
 * it and puts it in the table's place; readers keep the old one as long as
 * they hold a reference.
 *
 * Ids count up from what the table has used so far.  Group "default" is
 * always there, with id 0.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "t/model/model_types.h"

const struct tfs_family mdl_family_default = {
	.name = "",
	.gc = "",
	.group = "default",
	.type = TFS_TYPE_BYTES,
	.mode = 0644,
	.acl = "",
};
const struct tfs_group mdl_group_default = {
	.name = "default",
	.compression = "zstd-dict",
	.level = 3,
	.block_size = 2 * 1024,
	.bloom_bits = 10,
};

void mdl_why(char **why, const char *fmt, ...)
{
	va_list ap;
	char *p;

	if (!why)
		return;
	va_start(ap, fmt);
	if (vasprintf(&p, fmt, ap) < 0)
		p = NULL;
	va_end(ap);
	free(*why);
	*why = p;
}

static void free_family(struct tfs_family *f)
{
	free((void *)f->name);
	free((void *)f->gc);
	free((void *)f->group);
	free((void *)f->acl);
}

static void free_group(struct tfs_group *g)
{
	free((void *)g->name);
	free((void *)g->compression);
}

void mdl_schema_unref(struct mdl_schema *s)
{
	if (!s || --s->refs > 0)
		return;
	for (unsigned i = 0; i < s->pub.family_count; i++)
		free_family(&s->family[i]);
	for (unsigned i = 0; s->gc && i < s->pub.family_count; i++)
		mdl_gc_free(s->gc[i]);
	for (unsigned i = 0; i < s->pub.group_count; i++)
		free_group(&s->group[i]);
	free(s->family);
	free(s->gc);
	free(s->group);
	mdl_splits_free(s);
	mdl_scripts_free(s);
	free((void *)s->pub.text);
	free(s);
}

/* Called name, or #ID? */
static bool is_called(const char *asked, const char *name, unsigned id)
{
	char by_id[16];

	snprintf(by_id, sizeof(by_id), "#%u", id);
	return strcmp(asked, name) == 0 || strcmp(asked, by_id) == 0;
}

struct tfs_family *mdl_schema_family(const struct mdl_schema *s, const char *name)
{
	for (unsigned i = 0; i < s->pub.family_count; i++)
		if (is_called(name, s->family[i].name, s->family[i].id))
			return &s->family[i];
	return NULL;
}

struct tfs_family *mdl_schema_family_id(const struct mdl_schema *s, uint16_t id)
{
	for (unsigned i = 0; i < s->pub.family_count; i++)
		if (s->family[i].id == id)
			return &s->family[i];
	return NULL;
}

struct tfs_group *mdl_schema_group(const struct mdl_schema *s, const char *name)
{
	for (unsigned i = 0; i < s->pub.group_count; i++)
		if (is_called(name, s->group[i].name, s->group[i].id))
			return &s->group[i];
	return NULL;
}

int mdl_schema_add_family(struct mdl_schema *s, const struct tfs_family *f)
{
	struct tfs_family c = *f, *grown;

	if (!c.id && s->next_family > UINT16_MAX)
		return -ENOSPC;
	grown = reallocarray(s->family, s->pub.family_count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	s->family = grown;
	c.name = strdup(f->name);
	c.gc = strdup(f->gc);
	c.group = strdup(f->group);
	c.acl = strdup(f->acl);
	if (!c.name || !c.gc || !c.group || !c.acl) {
		free_family(&c);
		return -ENOMEM;
	}
	if (!c.id)
		c.id = (uint16_t)s->next_family++;
	s->family[s->pub.family_count++] = c;
	return 0;
}

/* A group has its id from its place among all ever made; "default" is 0. */
int mdl_schema_add_group(struct mdl_schema *s, const struct tfs_group *g)
{
	struct tfs_group c = *g, *grown;
	bool fresh = !c.id && strcmp(c.name, "default") != 0;

	if (fresh && s->next_group > UINT16_MAX)
		return -ENOSPC;
	grown = reallocarray(s->group, s->pub.group_count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	s->group = grown;
	c.name = strdup(g->name);
	c.compression = strdup(g->compression);
	if (!c.name || !c.compression) {
		free_group(&c);
		return -ENOMEM;
	}
	if (fresh)
		c.id = (uint16_t)s->next_group++;
	s->group[s->pub.group_count++] = c;
	return 0;
}

struct mdl_schema *mdl_schema_new(uint32_t table_id, const char *name, uid_t uid, gid_t gid, mode_t mode)
{
	struct mdl_schema *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->refs = 1;
	s->next_family = s->next_group = 1;
	s->pub.table_id = table_id;
	s->pub.generation = 1;
	memcpy(s->pub.name, name, strlen(name) + 1);
	s->pub.uid = uid;
	s->pub.gid = gid;
	s->pub.mode = mode & 07777;
	s->pub.tablet_size = 128u << 20;
	s->pub.mkdir_families = true;
	if (mdl_schema_add_group(s, &mdl_group_default) < 0 || mdl_schema_finish(s, tfs_bytes_of(NULL, 0)) < 0) {
		mdl_schema_unref(s);
		return NULL;
	}
	return s;
}

struct mdl_schema *mdl_schema_copy(const struct mdl_schema *s)
{
	struct mdl_schema *c = calloc(1, sizeof(*c));
	int r = 0;

	if (!c)
		return NULL;
	c->refs = 1;
	c->next_family = s->next_family;
	c->next_group = s->next_group;
	c->pub = s->pub;
	c->pub.families = NULL;
	c->pub.groups = NULL;
	c->pub.scripts = NULL;
	c->pub.script_count = 0;
	c->pub.text = NULL;
	c->pub.text_size = c->pub.family_count = c->pub.group_count = c->pub.split_count = 0;
	for (unsigned i = 0; r == 0 && i < s->pub.family_count; i++)
		r = mdl_schema_add_family(c, &s->family[i]);
	for (unsigned i = 0; r == 0 && i < s->pub.group_count; i++)
		r = mdl_schema_add_group(c, &s->group[i]);
	if (r == 0)
		r = mdl_splits_copy(c, s);
	if (r == 0)
		r = mdl_scripts_copy(c, s);
	if (r < 0) {
		mdl_schema_unref(c);
		return NULL;
	}
	return c;
}

static int family_order(const void *a, const void *b)
{
	const struct tfs_family *x = a, *y = b;

	return (int)x->id - (int)y->id;
}

static int group_order(const void *a, const void *b)
{
	const struct tfs_group *x = a, *y = b;

	return (int)x->id - (int)y->id;
}

int mdl_schema_finish(struct mdl_schema *s, struct tfs_bytes text)
{
	const char *reason;
	char *copy;
	size_t size;
	int r;

	if (s->pub.family_count > 0)
		qsort(s->family, s->pub.family_count, sizeof(*s->family), family_order);
	qsort(s->group, s->pub.group_count, sizeof(*s->group), group_order);
	s->gc = calloc(s->pub.family_count + 1, sizeof(struct mdl_gc *));
	if (!s->gc)
		return -ENOMEM;
	for (unsigned i = 0; i < s->pub.family_count; i++) {
		r = mdl_gc_parse(s->family[i].gc, &s->gc[i], &reason);
		if (r < 0)
			return r;
		s->family[i].max_age_us = mdl_gc_max_age(s->gc[i]);
	}
	s->pub.families = s->family;
	s->pub.groups = s->group;
	if (text.p) {
		size = text.n;
		copy = calloc(1, size + 1);
		if (!copy)
			return -ENOMEM;
		memcpy(copy, text.p, size);
	} else {
		r = mdl_schema_render(s, &copy, &size);
		if (r < 0)
			return r;
	}
	s->pub.text = copy;
	s->pub.text_size = size;
	return 0;
}

const struct mdl_gc *mdl_schema_gc(const struct mdl_schema *s, uint16_t family_id, const char **name)
{
	for (unsigned i = 0; i < s->pub.family_count; i++)
		if (s->family[i].id == family_id) {
			if (name)
				*name = s->family[i].name;
			return s->gc[i];
		}
	return NULL;
}

int tfs_schema_get(struct tfs_table *t, const struct tfs_schema **out)
{
	int r = 0;

	mdl_lock();
	if (t->dropped) {
		r = -ENOENT;
	} else {
		t->schema->refs++;
		*out = &t->schema->pub;
	}
	mdl_unlock();
	return r;
}

void tfs_schema_put(const struct tfs_schema *s)
{
	mdl_lock();
	mdl_schema_unref((struct mdl_schema *)(uintptr_t)s);
	mdl_unlock();
}

const struct tfs_family *tfs_schema_family(const struct tfs_schema *s, const char *name)
{
	for (unsigned i = 0; i < s->family_count; i++)
		if (is_called(name, s->families[i].name, s->families[i].id))
			return &s->families[i];
	return NULL;
}

const struct tfs_group *tfs_schema_group(const struct tfs_schema *s, const char *name)
{
	for (unsigned i = 0; i < s->group_count; i++)
		if (is_called(name, s->groups[i].name, s->groups[i].id))
			return &s->groups[i];
	return NULL;
}
