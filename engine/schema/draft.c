/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema as an object, and drafts.  A draft can be changed.  A finished
 * schema is reference-counted and immutable.
 *
 * A table never reuses the id of a family or group, so data of a dropped
 * family cannot appear in a new one.  The schema stores the next ids, which
 * only increase.  The default group has id 0.
 */
#include "engine/schema/schema_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define IDS 65536u

struct schema *schema_get(const struct schema *s)
{
	struct schema *m = (struct schema *)(uintptr_t)s;

	__atomic_add_fetch(&m->refs, 1, __ATOMIC_RELAXED);
	return m;
}

void schema_put(const struct schema *s)
{
	struct schema *m = (struct schema *)(uintptr_t)s;

	if (!m || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL))
		return;
	free(m->families);
	free(m->groups);
	free(m->splits);
	free(m->scripts);
	free(m->text);
	arena_fini(&m->arena);
	free(m);
}

const struct tfs_schema *schema_public(const struct schema *s)
{
	return &s->pub;
}

const struct schema *schema_of(const struct tfs_schema *p)
{
	return (const struct schema *)p;
}

bool schema_name_valid(struct tfs_bytes name)
{
	if (name.n == 0 || name.n > TFS_NAME_MAX)
		return false;
	for (size_t i = 0; i < name.n; i++) {
		uint8_t c = name.p[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';

		if (!letter && (i == 0 || (c != '.' && c != '-')))
			return false;
	}
	return true;
}

int why_line(char **why, unsigned line, const char *fmt, ...)
{
	char *reason, *all = NULL;
	va_list ap;
	int n;

	if (!why)
		return -EINVAL;
	va_start(ap, fmt);
	n = vasprintf(&reason, fmt, ap);
	va_end(ap);
	if (n >= 0 && !line) {
		*why = reason;
	} else if (n >= 0) {
		if (asprintf(&all, "line %u: %s", line, reason) >= 0)
			*why = all;
		free(reason);
	}
	return -EINVAL;
}

int schema_refuse(const char **reason, const char *text)
{
	*reason = text;
	return -EINVAL;
}

/* ---- drafts ---- */

struct schema *schema_draft(const struct schema *old)
{
	struct schema *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	s->refs = 1;
	if (old) {
		s->pub = old->pub;
		s->pub.families = NULL;
		s->pub.groups = NULL;
		s->pub.splits = NULL;
		s->pub.scripts = NULL;
		s->pub.text = NULL;
		s->pub.family_count = s->pub.group_count = s->pub.split_count = s->pub.script_count = 0;
		s->pub.text_size = 0;
		s->pub.generation++;
		s->next_family = old->next_family;
		s->next_group = old->next_group;
		s->made = old->made;
		s->changed = old->changed;
	} else {
		s->pub.mode = 0755;
		s->pub.tablet_size = (uint64_t)128 << 20;
		s->pub.generation = 1;
		s->next_family = 1;
	}
	return s;
}

const char *draft_str(struct schema *s, const char *str)
{
	return arena_text(&s->arena, str);
}

/* Returns `wanted`, or a new id if wanted < 0.  -EINVAL. */
static int draft_take_id(uint32_t *next, int wanted, const char **reason)
{
	if (wanted >= 0)
		return wanted;
	if (*next >= IDS)
		return schema_refuse(reason, "the table has used up its ids");
	return (int)(*next)++;
}

struct tfs_family *draft_find_family(const struct schema *s, const char *name)
{
	for (unsigned i = 0; i < s->pub.family_count; i++)
		if (strcmp(s->families[i].name, name) == 0)
			return &s->families[i];
	return NULL;
}

struct tfs_group *draft_find_group(const struct schema *s, const char *name)
{
	for (unsigned i = 0; i < s->pub.group_count; i++)
		if (strcmp(s->groups[i].name, name) == 0)
			return &s->groups[i];
	return NULL;
}

struct tfs_group *draft_group_by_id(const struct schema *s, uint16_t id)
{
	for (unsigned i = 0; i < s->pub.group_count; i++)
		if (s->groups[i].id == id)
			return &s->groups[i];
	return NULL;
}

int draft_family(struct schema *s, const char *name, int id, struct tfs_family **f, const char **reason)
{
	struct tfs_family x = {.gc = "", .group = SCHEMA_DEFAULT_GROUP, .type = TFS_TYPE_BYTES, .mode = 0644, .acl = ""};

	if (!schema_name_valid(tfs_str(name)))
		return schema_refuse(reason, "not a legal family name");
	if (draft_find_family(s, name))
		return schema_refuse(reason, "the family is there twice");
	if (s->pub.family_count >= SCHEMA_FAMILIES_MAX)
		return schema_refuse(reason, "too many families");
	if (array_grow(&s->families, s->pub.family_count, sizeof x) || !(x.name = draft_str(s, name)))
		return -ENOMEM;
	id = draft_take_id(&s->next_family, id, reason);
	if (id < 0)
		return id;
	x.id = (uint16_t)id;
	x.uid = s->pub.uid;
	x.gid = s->pub.gid;
	*f = &s->families[s->pub.family_count++];
	**f = x;
	return 0;
}

int draft_group(struct schema *s, const char *name, int id, struct tfs_group **g, const char **reason)
{
	struct tfs_group x = {
		.compression = sst_codec_kinds[SST_ZSTD_DICT].name, .level = SCHEMA_LEVEL, .block_size = 2048, .bloom_bits = 10};

	if (!schema_name_valid(tfs_str(name)))
		return schema_refuse(reason, "not a legal group name");
	if (draft_find_group(s, name))
		return schema_refuse(reason, "the group is there twice");
	if (s->pub.group_count >= SCHEMA_GROUPS_MAX)
		return schema_refuse(reason, "too many groups");
	if (array_grow(&s->groups, s->pub.group_count, sizeof x) || !(x.name = draft_str(s, name)))
		return -ENOMEM;
	id = draft_take_id(&s->next_group, id, reason);
	if (id < 0)
		return id;
	if (id == TABLET_GROUP_CHANGES)
		return schema_refuse(reason, "no id is left for a group");
	x.id = (uint16_t)id;
	*g = &s->groups[s->pub.group_count++];
	**g = x;
	return 0;
}

int draft_text(struct schema *s, const char *text, size_t n)
{
	char *copy = malloc(n + 1);

	if (!copy)
		return -ENOMEM;
	if (n)
		memcpy(copy, text, n);
	copy[n] = 0;
	free(s->text);
	s->text = copy;
	s->pub.text = copy;
	s->pub.text_size = n;
	return 0;
}
