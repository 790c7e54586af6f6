/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attributes of tables, families and groups: their text and their limits.
 * A written .schema and the files under .families/ and .groups/ set them by the same
 * function, so they refuse the same values.
 */
#include "engine/base/units.h"
#include "engine/schema/schema_internal.h"

#include <errno.h>
#include <stdlib.h>

#define OF(type, member) offsetof(struct type, member), sizeof(((struct type *)NULL)->member)
#define CODEC_NAME(upper, number, name, ...) " " name

/* root_parse (text.c) reads families, groups, splits and allow_delete; element_id reads `name` and `was` of each element. */
const struct attribute table_attributes[] = {
	{"owner", VALUE_USER, OF(schema, pub.uid)},
	{"owner_group", VALUE_USER_GROUP, OF(schema, pub.gid)},
	{"mode", VALUE_MODE, OF(schema, pub.mode), .most = 07777},
	{"tablet_size", VALUE_SIZE, OF(schema, pub.tablet_size), 64 << 10, UINT64_C(1) << 40,
		"tablet_size is a size from 64K to 1T"},
	{"salt", VALUE_SALT, OF(schema, pub.salt), 0, SCHEMA_SALT_MAX, "salt is 0, or a number from 2 to 255"},
	{"mkdir_families", VALUE_BOOLEAN, OF(schema, pub.mkdir_families)},
	{"protect", VALUE_PROTECT, OF(schema, pub.protect)},
	{"readonly", VALUE_BOOLEAN, OF(schema, pub.readonly)},
	{"quota", VALUE_SIZE, OF(schema, pub.quota), 0, UINT64_C(1) << 60, "quota is a size, such as \"10G\", or 0"},
	{"snapshot_maxage", VALUE_DURATION, OF(schema, pub.snapshot_maxage_us), 1, INT64_MAX,
		"snapshot_maxage is a duration, such as \"30d\""},
	{"changes", VALUE_DURATION, OF(schema, pub.changes_us), 1, INT64_MAX, "changes is a duration, such as \"7d\""},
	{0},
};
const struct attribute family_attributes[] = {
	{"gc", VALUE_GC, OF(tfs_family, gc), .op = TFS_SCHEMA_FAMILY_GC},
	{"group", VALUE_GROUP, OF(tfs_family, group), .op = TFS_SCHEMA_FAMILY_GROUP},
	{"type", VALUE_TYPE, OF(tfs_family, type), .op = TFS_SCHEMA_FAMILY_TYPE},
	{"owner", VALUE_USER, OF(tfs_family, uid)},
	{"owner_group", VALUE_USER_GROUP, OF(tfs_family, gid)},
	{"mode", VALUE_MODE, OF(tfs_family, mode), .most = 0777},
	{"acl", VALUE_ACL, OF(tfs_family, acl), .op = TFS_SCHEMA_FAMILY_ACL},
	{0},
};
const struct attribute group_attributes[] = {
	{"compression", VALUE_CODEC, OF(tfs_group, compression), .op = TFS_SCHEMA_GROUP_COMPRESSION},
	{"level", VALUE_NUMBER, OF(tfs_group, level), 1, 19, "level is a number from 1 to 19", TFS_SCHEMA_GROUP_LEVEL},
	{"block_size", VALUE_SIZE, OF(tfs_group, block_size), SCHEMA_BLOCK_LEAST, SCHEMA_BLOCK_MOST,
		"block_size is a size from 1K to 4M", TFS_SCHEMA_GROUP_BLOCK_SIZE},
	{"bloom_bits", VALUE_NUMBER, OF(tfs_group, bloom_bits), 0, 20, "bloom_bits is a number from 0 to 20",
		TFS_SCHEMA_GROUP_BLOOM_BITS},
	{"in_memory", VALUE_BOOLEAN, OF(tfs_group, in_memory), .wanted = "in_memory is true or false",
		.op = TFS_SCHEMA_GROUP_IN_MEMORY},
	{0},
};

static int set_string(struct schema *s, const char **member, const char *value)
{
	const char *copy = draft_str(s, value);

	if (copy)
		*member = copy;
	return copy ? 0 : -ENOMEM;
}

static int set_mode(mode_t *member, mode_t most, const char *value, const char **reason)
{
	const size_t n = strlen(value);
	mode_t v;

	if (!n || n > 5 || strspn(value, "01234567") != n)
		return schema_refuse(reason, "a mode is a string of octal digits, such as \"0644\"");
	v = (mode_t)strtoul(value, NULL, 8);
	if (v & ~most)
		return schema_refuse(reason, "the mode has bits that do not apply");
	*member = v;
	return 0;
}

static int set_gc(struct schema *s, const char **member, const char *value, const char **reason)
{
	struct gc_rule *rule = NULL;
	int err;

	if (strlen(value) > SCHEMA_GC_MAX || !text_printable(value))
		return schema_refuse(reason, "not a rule for garbage collection");
	err = gc_parse(value, &rule, reason);
	if (err)
		return err;
	gc_free(rule);
	return set_string(s, member, value);
}

/* Sets a member that has a form from VALUE_SIZE to VALUE_DURATION. */
static int set_number(void *member, const struct attribute *a, const char *value, const char **reason)
{
	const char *end = value;
	uint64_t v;
	bool valid = a->form == VALUE_SIZE  ? units_size(value, &v)
		: a->form == VALUE_DURATION ? units_duration(value, &v)
					    : units_number(&end, &v) && !*end;

	if (!valid || v < a->least || v > a->most || (a->form == VALUE_SALT && v == 1))
		return schema_refuse(reason, a->wanted);
	if (a->size == sizeof(uint64_t))
		*(uint64_t *)member = v;
	else
		*(uint32_t *)member = (uint32_t)v;
	return 0;
}

int attribute_set(struct schema *s, void *target, const struct attribute *a, const char *value, const char **reason)
{
	void *member = (char *)target + a->at;
	bool yes = strcmp(value, "true") == 0;
	int codec;

	switch (a->form) {
	case VALUE_USER:
		return value_user_id(value, member, reason);
	case VALUE_USER_GROUP:
		return value_group_id(value, member, reason);
	case VALUE_MODE:
		return set_mode(member, (mode_t)a->most, value, reason);
	case VALUE_SIZE:
	case VALUE_NUMBER:
	case VALUE_SALT:
	case VALUE_DURATION:
		return set_number(member, a, value, reason);
	case VALUE_BOOLEAN:
		if (!yes && strcmp(value, "false") != 0)
			return schema_refuse(reason, a->wanted);
		*(bool *)member = yes;
		return 0;
	case VALUE_PROTECT:
		if (!yes && strcmp(value, "false") != 0 && strcmp(value, "data") != 0)
			return schema_refuse(reason, "protect is true, false or \"data\"");
		*(enum tfs_protect *)member = yes ? TFS_PROTECT_TABLE : *value == 'd' ? TFS_PROTECT_DATA : TFS_PROTECT_NONE;
		return 0;
	case VALUE_GC:
		return set_gc(s, member, value, reason);
	case VALUE_GROUP: /* schema_finish checks that the group exists */
		return schema_name_valid(tfs_str(value)) ? set_string(s, member, value)
							 : schema_refuse(reason, "not a legal group name");
	case VALUE_TYPE:
		if (strcmp(value, "bytes") != 0 && strcmp(value, "counter") != 0)
			return schema_refuse(reason, "a type is \"bytes\" or \"counter\"");
		*(enum tfs_family_type *)member = *value == 'b' ? TFS_TYPE_BYTES : TFS_TYPE_COUNTER;
		return 0;
	case VALUE_ACL:
		return acl_store(s, member, value, reason);
	case VALUE_CODEC:
		codec = sst_codec_by_name(value);
		if (codec < 0)
			return schema_refuse(reason, "compression is one of" SST_CODEC_LIST(CODEC_NAME));
		*(const char **)member = sst_codec_kinds[codec].name;
		return 0;
	}
	return -EINVAL;
}

int group_fits(const struct tfs_group *g, const char **reason)
{
#define LEVELS_true(name) " " name
#define LEVELS_false(name) ""
#define CODEC_LEVELS(upper, number, name, levels) LEVELS_##levels(name)
	if (g->level == SCHEMA_LEVEL || sst_codec_kinds[sst_codec_by_name(g->compression)].levels)
		return 0;
	return schema_refuse(reason, "only" SST_CODEC_LIST(CODEC_LEVELS) " have levels");
}
