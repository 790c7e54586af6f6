/* SPDX-License-Identifier: Apache-2.0 */
/* Finishes the drafts of new, decoded and changed schemas.  Makes the part of a schema that tablets need. */
#include "engine/schema/schema.h"
#include "engine/schema/schema_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- finishing ---- */

static int family_order(const void *a, const void *b)
{
	return ((const struct tfs_family *)a)->id - ((const struct tfs_family *)b)->id;
}

static int group_order(const void *a, const void *b)
{
	return ((const struct tfs_group *)a)->id - ((const struct tfs_group *)b)->id;
}

/* Checks the family's group and rule, and sets max_age_us from the rule. */
static int finish_family(struct schema *s, struct tfs_family *f, const char **reason)
{
	struct gc_rule *rule = NULL;
	int err;

	if (!draft_find_group(s, f->group))
		return schema_refuse(reason, "a family is in a group that does not exist");
	err = acl_finish(s, f, reason);
	if (err)
		return err;
	err = gc_parse(f->gc, &rule, reason);
	if (err)
		return err;
	f->max_age_us = gc_max_age(rule);
	gc_free(rule);
	return 0;
}

static int schema_check(struct schema *s, bool render, const char **reason)
{
	struct buf out = {0};
	int err = 0;

	*reason = NULL;
	if (s->pub.family_count)
		qsort(s->families, s->pub.family_count, sizeof *s->families, family_order);
	if (s->pub.group_count)
		qsort(s->groups, s->pub.group_count, sizeof *s->groups, group_order);
	s->pub.families = s->families;
	s->pub.groups = s->groups;
	s->pub.scripts = s->scripts;
	err = splits_finish(s, reason);
	for (unsigned i = 0; i < s->pub.family_count && !err; i++)
		err = finish_family(s, &s->families[i], reason);
	if (!err && render) {
		err = schema_render(s, &out);
		if (!err && out.n > SCHEMA_TEXT_MAX)
			err = schema_refuse(reason, "the schema has become too large");
		if (!err)
			err = draft_text(s, (const char *)out.p, out.n);
	}
	buf_fini(&out);
	return err;
}

int schema_finish(struct schema *s, bool render, const char **reason)
{
	struct buf out = {0};
	int err = schema_check(s, render, reason);

	if (!err)
		err = schema_encode(s, &out);
	if (!err && out.n > SCHEMA_ENCODED_MAX)
		err = schema_refuse(reason, "the schema is too large");
	buf_fini(&out);
	return err;
}

struct schema *schema_clone(const struct schema *old)
{
	struct buf b = {0};
	struct schema *s = NULL;

	if (!schema_encode(old, &b) && !schema_decode_draft(buf_bytes(&b), &s))
		s->pub.generation++;
	buf_fini(&b);
	return s;
}

/* Finishes the draft and sets *out.  On error the draft is freed. */
static int draft_to_schema(struct schema *s, bool render, struct schema **out)
{
	const char *reason;
	int err = schema_finish(s, render, &reason);

	if (err)
		schema_put(s);
	else
		*out = s;
	return err;
}

int schema_decode(struct tfs_bytes in, struct schema **out)
{
	const char *reason;
	struct schema *s;
	int err = schema_decode_draft(in, &s);

	if (err)
		return err;
	/* Its size is not checked: earlier versions stored schemas of up to 960 KiB. */
	err = schema_check(s, false, &reason);
	if (err)
		schema_put(s);
	else
		*out = s;
	return err == -EINVAL ? -EBADMSG : err;
}

void schema_snapshot_file(uint32_t table, const char *name, char file[SCHEMA_FILE_MAX])
{
	snprintf(file, SCHEMA_FILE_MAX, "snapshots/%u.%s", table, name);
}

void schema_file_name(const struct tfs_schema *p, char file[SCHEMA_FILE_MAX])
{
	if (p->snapshot_of)
		schema_snapshot_file(p->snapshot_of, p->name, file);
	else
		snprintf(file, SCHEMA_FILE_MAX, "tables/%s", p->name);
}

int schema_decode_file(struct tfs_bytes in, const char *file, struct schema **out)
{
	char right[SCHEMA_FILE_MAX];
	struct schema *s;
	int err = schema_decode(in, &s);

	if (err)
		return err;
	schema_file_name(&s->pub, right);
	if (strcmp(right, file) != 0) {
		schema_put(s);
		return -EBADMSG;
	}
	*out = s;
	return 0;
}

int schema_new(const char *name, uint32_t table_id, uid_t uid, gid_t gid, mode_t mode, int64_t now, struct schema **out)
{
	struct tfs_group *g;
	const char *reason;
	struct schema *s;
	int err = -EINVAL;

	if (!schema_name_valid(tfs_str(name)))
		return err;
	s = schema_draft(NULL);
	if (!s)
		return -ENOMEM;
	strcpy(s->pub.name, name); /* a valid name fits */
	s->pub.table_id = s->pub.tablets_id = table_id;
	s->pub.mkdir_families = true;
	s->pub.uid = uid;
	s->pub.gid = gid;
	s->pub.mode = mode & 07777;
	s->pub.mtime_us = now;
	err = draft_group(s, SCHEMA_DEFAULT_GROUP, -1, &g, &reason);
	if (!err)
		return draft_to_schema(s, true, out);
	schema_put(s);
	return err;
}

/* Makes a draft that differs from old in its name. */
static int clone_named(const struct schema *old, const char *name, struct schema **out)
{
	if (!schema_name_valid(tfs_str(name)))
		return -EINVAL;
	*out = schema_clone(old);
	if (!*out)
		return -ENOMEM;
	strcpy((*out)->pub.name, name);
	return 0;
}

int schema_rename(const struct schema *old, const char *name, struct schema **out)
{
	struct schema *s;
	int err = clone_named(old, name, &s);

	return err ? err : draft_to_schema(s, false, out);
}

int schema_use_tablets(const struct schema *old, uint32_t tablets_id, struct schema **out)
{
	struct schema *s = schema_clone(old);

	if (!s)
		return -ENOMEM;
	s->pub.salt_in_use = s->pub.salt;
	s->pub.tablets_id = tablets_id;
	return draft_to_schema(s, false, out);
}

/*
 * Copies a schema.  The copy has another name, and `id` as its table id and
 * tablets id.  snapshot_of, us and of_all describe a snapshot; they are 0 for a
 * clone.
 */
static int copy_named(
	const struct schema *old, const char *name, uint32_t id, uint32_t snapshot_of, int64_t us, bool of_all, struct schema **out)
{
	struct schema *s;
	int err = clone_named(old, name, &s);

	if (err)
		return err;
	s->pub.table_id = s->pub.tablets_id = id;
	s->pub.is_hidden = false;
	s->pub.snapshot_of = snapshot_of;
	s->pub.snapshot_us = us;
	s->pub.snapshot_of_all = of_all;
	return draft_to_schema(s, false, out);
}

int schema_snapshot(const struct schema *of, const char *name, uint32_t id, int64_t us, bool of_all, struct schema **out)
{
	return copy_named(of, name, id, of->pub.table_id, us, of_all, out);
}

int schema_table_clone(const struct schema *of, const char *name, uint32_t id, struct schema **out)
{
	return copy_named(of, name, id, 0, 0, false, out);
}

uint64_t schema_made(const struct schema *s)
{
	return s->made;
}

uint64_t schema_changed(const struct schema *s)
{
	return s->changed;
}

void schema_set_made(struct schema *s, uint64_t number)
{
	s->made = number;
}

void schema_set_changed(struct schema *s, uint64_t number)
{
	s->changed = number;
}

/* ---- the part for tablets ---- */

int schema_store(const struct schema *s, struct store_schema **out)
{
	struct store_schema *t = calloc(1, sizeof *t);
	const char *why;
	int err = -ENOMEM;

	if (!t)
		return err;
	t->refs = 1;
	t->generation = s->pub.generation;
	t->tablet_bytes = s->pub.tablet_size;
	t->salt = (uint32_t)s->pub.salt_in_use;
	t->changes_us = s->pub.snapshot_of ? 0 : s->pub.changes_us;
	t->keeps_data = s->pub.protect == TFS_PROTECT_DATA;
	t->readonly = s->pub.readonly;
	t->quota = s->pub.quota;
	t->families = calloc(s->pub.family_count + 1, sizeof *t->families);
	t->groups = calloc(s->pub.group_count + 1, sizeof *t->groups);
	t->splits = calloc(s->pub.split_count + 1, sizeof *t->splits);
	if (!t->families || !t->groups || !t->splits)
		goto fail;
	for (unsigned i = 0; i < s->pub.split_count; i++)
		if (buf_append(&t->splits[t->split_count++], s->splits[i].p, s->splits[i].n))
			goto fail;
	for (unsigned i = 0; i < s->pub.group_count; i++) {
		const struct tfs_group *g = &s->groups[i];

		t->groups[t->group_count++] = (struct store_group){.id = g->id,
			.sst = {.codec = (enum sst_codec)sst_codec_by_name(g->compression),
				.level = g->level,
				.block_bytes = g->block_size,
				.bloom_bits = g->bloom_bits,
				.in_memory = g->in_memory}};
	}
	for (unsigned i = 0; i < s->pub.family_count; i++) {
		const struct tfs_family *f = &s->families[i];
		struct store_family *to = &t->families[t->family_count++];

		to->id = f->id;
		to->group = draft_find_group(s, f->group)->id; /* schema_finish has checked that it exists */
		to->counter = f->type == TFS_TYPE_COUNTER;
		to->name = strdup(f->name);
		err = to->name ? gc_parse(f->gc, &to->rule, &why) : -ENOMEM;
		if (err)
			goto fail;
	}
	*out = t;
	return 0;
fail:
	store_schema_put(t);
	return err;
}
