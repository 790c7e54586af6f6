/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attributes of tables, families and groups: their text and their limits.
 * A written .schema and the files under .families/ and .groups/ use the same
 * setters, so they refuse the same values.
 */
#include "engine/base/units.h"
#include "engine/schema/schema_internal.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>

#define OWNER_MAX 255
#define NSS_BYTES (16 * 1024)
#define NSS_BYTES_MAX (1024 * 1024)

/* ---- plain values ---- */

static bool parse_number(const char *s, uint64_t most, uint64_t *out)
{
	return units_number(&s, out) && !*s && *out <= most;
}

/* Returns true and sets *id if name is "#ID" (tabletfs.h). */
static bool schema_ref(const char *name, uint16_t *id)
{
	uint64_t v;

	if (name[0] != '#' || (name[1] == '0' && name[2]) || !parse_number(name + 1, UINT16_MAX, &v))
		return false;
	*id = (uint16_t)v;
	return true;
}

struct tfs_family *schema_family(const struct schema *s, const char *name)
{
	uint16_t id;

	if (!name || !schema_ref(name, &id))
		return name ? draft_find_family(s, name) : NULL;
	for (unsigned i = 0; i < s->pub.family_count; i++)
		if (s->families[i].id == id)
			return &s->families[i];
	return NULL;
}

const struct tfs_family *schema_family_by_id(const struct tfs_schema *p, uint16_t id)
{
	for (unsigned i = 0; i < p->family_count; i++)
		if (p->families[i].id == id)
			return &p->families[i];
	return NULL;
}

struct tfs_group *schema_group(const struct schema *s, const char *name)
{
	uint16_t id;

	if (!name || !schema_ref(name, &id))
		return name ? draft_find_group(s, name) : NULL;
	return draft_group_by_id(s, id);
}

const char *value_duration(int64_t us, char text[32])
{
	static const struct {
		const char *unit;
		int64_t us;
	} units[] = {{"w", INT64_C(604800000000)}, {"d", INT64_C(86400000000)}, {"h", INT64_C(3600000000)}, {"m", 60000000},
		{"s", 1000000}, {"ms", 1000}, {"us", 1}};
	unsigned i = 0;

	while (us % units[i].us)
		i++;
	snprintf(text, 32, "%lld%s", (long long)(us / units[i].us), units[i].unit);
	return text;
}

const char *value_size(uint64_t bytes, char text[32])
{
	static const char units[] = "TGMK";

	for (unsigned i = 0; i < 4; i++) {
		unsigned shift = 40 - 10 * i;

		if (bytes && bytes % ((uint64_t)1 << shift) == 0) {
			snprintf(text, 32, "%llu%c", (unsigned long long)(bytes >> shift), units[i]);
			return text;
		}
	}
	snprintf(text, 32, "%llu", (unsigned long long)bytes);
	return text;
}

bool text_printable(const char *str)
{
	return !text_has_control(str) && utf8_valid(tfs_str(str));
}

static int dup_str(struct schema *s, const char *value, const char **out)
{
	const char *copy = draft_str(s, value);

	if (!copy)
		return -ENOMEM;
	*out = copy;
	return 0;
}

/* ---- owners ---- */

/* Calls fn, with larger scratch memory each time that it returns -ERANGE.  Returns 0 if found, -ENOENT or -ENOMEM. */
static int with_scratch(int (*fn)(void *arg, char *p, size_t n), void *arg)
{
	int err = -ERANGE;

	for (size_t n = NSS_BYTES; err == -ERANGE && n <= NSS_BYTES_MAX; n *= 4) {
		char *p = malloc(n);

		if (!p)
			return -ENOMEM;
		err = fn(arg, p, n);
		free(p);
	}
	return err;
}

struct lookup {
	const char *name; /* NULL: look up by id */
	uint32_t id;
	char *found; /* 256 bytes, for a lookup by id */
};

static int found_name(const struct lookup *l, const char *name)
{
	if (strlen(name) > OWNER_MAX)
		return -ENOENT;
	strcpy(l->found, name);
	return 0;
}

static int user_once(void *arg, char *p, size_t n)
{
	struct lookup *l = arg;
	struct passwd pw, *got = NULL;
	int err = l->name ? getpwnam_r(l->name, &pw, p, n, &got) : getpwuid_r(l->id, &pw, p, n, &got);

	if (!got)
		return err == ERANGE ? -ERANGE : err == ENOMEM ? -ENOMEM : -ENOENT;
	if (!l->name)
		return found_name(l, got->pw_name);
	l->id = got->pw_uid;
	return 0;
}

static int group_once(void *arg, char *p, size_t n)
{
	struct lookup *l = arg;
	struct group gr, *got = NULL;
	int err = l->name ? getgrnam_r(l->name, &gr, p, n, &got) : getgrgid_r(l->id, &gr, p, n, &got);

	if (!got)
		return err == ERANGE ? -ERANGE : err == ENOMEM ? -ENOMEM : -ENOENT;
	if (!l->name)
		return found_name(l, got->gr_name);
	l->id = got->gr_gid;
	return 0;
}

static int parse_owner(
	const char *value, int (*once)(void *, char *, size_t), const char *unknown, uint32_t *out, const char **reason)
{
	struct lookup l = {.name = value};
	uint64_t number;
	int err;

	if (parse_number(value, UINT32_MAX - 1, &number)) {
		*out = (uint32_t)number;
		return 0;
	}
	if (!*value || strlen(value) > OWNER_MAX || !text_printable(value))
		return schema_refuse(reason, unknown);
	err = with_scratch(once, &l);
	if (err == -ENOMEM)
		return err;
	if (err)
		return schema_refuse(reason, unknown);
	*out = l.id;
	return 0;
}

int value_user_id(const char *name, uint32_t *id, const char **reason)
{
	return parse_owner(name, user_once, "no such user", id, reason);
}

int value_group_id(const char *name, uint32_t *id, const char **reason)
{
	return parse_owner(name, group_once, "no such user group", id, reason);
}

/*
 * Writes the name of an id.  Writes the number instead if the name, parsed
 * again, gives another id: two names may share an id, and a name may consist
 * of digits.
 */
static const char *owner_text(uint32_t id, int (*once)(void *, char *, size_t), char name[256])
{
	struct lookup l = {.id = id, .found = name};
	const char *reason;
	uint32_t back;

	if (with_scratch(once, &l) == 0 && parse_owner(name, once, "", &back, &reason) == 0 && back == id)
		return name;
	snprintf(name, 256, "%u", id);
	return name;
}

const char *value_user(uid_t uid, char name[256])
{
	return owner_text(uid, user_once, name);
}

const char *value_group(gid_t gid, char name[256])
{
	return owner_text(gid, group_once, name);
}

/* ---- setters ---- */

static int parse_mode(const char *value, mode_t most, mode_t *out, const char **reason)
{
	const size_t n = strlen(value);
	mode_t v;

	if (!n || n > 5 || strspn(value, "01234567") != n)
		return schema_refuse(reason, "a mode is a string of octal digits, such as \"0644\"");
	v = (mode_t)strtoul(value, NULL, 8);
	if (v & ~most)
		return schema_refuse(reason, "the mode has bits that do not apply");
	*out = v;
	return 0;
}

int set_owner(struct schema *s, void *target, const char *value, const char **reason)
{
	struct tfs_family *f = target;

	return value_user_id(value, f ? &f->uid : &s->pub.uid, reason);
}

int set_owner_group(struct schema *s, void *target, const char *value, const char **reason)
{
	struct tfs_family *f = target;

	return value_group_id(value, f ? &f->gid : &s->pub.gid, reason);
}

int set_mode(struct schema *s, void *target, const char *value, const char **reason)
{
	struct tfs_family *f = target;

	return f ? parse_mode(value, 0777, &f->mode, reason) : parse_mode(value, 07777, &s->pub.mode, reason);
}

int set_tablet_size(struct schema *s, void *target, const char *value, const char **reason)
{
	uint64_t v;

	if (!units_size(value, &v) || v < 64 * 1024 || v > (uint64_t)1 << 40)
		return schema_refuse(reason, "tablet_size is a size from 64K to 1T");
	s->pub.tablet_size = v;
	return 0;
}

static int parse_limited(const char *value, uint64_t least, uint64_t most, int *out, const char *wanted, const char **reason)
{
	uint64_t v;

	if (!parse_number(value, most, &v) || v < least)
		return schema_refuse(reason, wanted);
	*out = (int)v;
	return 0;
}

int set_salt(struct schema *s, void *target, const char *value, const char **reason)
{
	uint64_t v;

	if (!parse_number(value, SCHEMA_SALT_MAX, &v) || v == 1)
		return schema_refuse(reason, "salt is 0, or a number from 2 to 255");
	s->pub.salt = (int)v;
	return 0;
}

int set_protect(struct schema *s, void *target, const char *value, const char **reason)
{
	s->pub.protect = strcmp(value, "true") == 0; /* as set_mkdir_families */
	return 0;
}

int set_snapshot_maxage(struct schema *s, void *target, const char *value, const char **reason)
{
	uint64_t us;

	if (!units_duration(value, &us) || us == 0)
		return schema_refuse(reason, "snapshot_maxage is a duration, such as \"30d\"");
	s->pub.snapshot_maxage_us = (int64_t)us;
	return 0;
}

int set_mkdir_families(struct schema *s, void *target, const char *value, const char **reason)
{
	s->pub.mkdir_families = strcmp(value, "true") == 0; /* libconfig has checked that it is a boolean */
	return 0;
}

int set_family_gc(struct schema *s, void *target, const char *value, const char **reason)
{
	struct tfs_family *f = target;
	struct gc_rule *rule = NULL;
	int err;

	if (strlen(value) > SCHEMA_GC_MAX || !text_printable(value))
		return schema_refuse(reason, "not a rule for garbage collection");
	err = gc_parse(value, &rule, reason);
	if (err)
		return err;
	gc_free(rule);
	return dup_str(s, value, &f->gc);
}

int set_family_group(struct schema *s, void *target, const char *value, const char **reason)
{
	struct tfs_family *f = target;

	/* schema_finish checks that the group exists. */
	if (!schema_name_valid(tfs_str(value)))
		return schema_refuse(reason, "not a legal group name");
	return dup_str(s, value, &f->group);
}

int set_family_type(struct schema *s, void *target, const char *value, const char **reason)
{
	struct tfs_family *f = target;

	if (strcmp(value, "bytes") == 0)
		f->type = TFS_TYPE_BYTES;
	else if (strcmp(value, "counter") == 0)
		f->type = TFS_TYPE_COUNTER;
	else
		return schema_refuse(reason, "a type is \"bytes\" or \"counter\"");
	return 0;
}

int set_group_compression(struct schema *s, void *target, const char *value, const char **reason)
{
#define CODEC_NAME(upper, number, name, ...) " " name
	int codec = sst_codec_by_name(value);

	if (codec < 0)
		return schema_refuse(reason, "compression is one of" SST_CODEC_LIST(CODEC_NAME));
	((struct tfs_group *)target)->compression = sst_codec_kinds[codec].name;
	return 0;
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

int set_group_level(struct schema *s, void *target, const char *value, const char **reason)
{
	return parse_limited(value, 1, 19, &((struct tfs_group *)target)->level, "level is a number from 1 to 19", reason);
}

int set_group_block_size(struct schema *s, void *target, const char *value, const char **reason)
{
	uint64_t v;

	if (!units_size(value, &v) || v < 4 * 1024 || v > 4 * 1024 * 1024)
		return schema_refuse(reason, "block_size is a size from 4K to 4M");
	((struct tfs_group *)target)->block_size = (uint32_t)v;
	return 0;
}

int set_group_bloom_bits(struct schema *s, void *target, const char *value, const char **reason)
{
	return parse_limited(
		value, 0, 20, &((struct tfs_group *)target)->bloom_bits, "bloom_bits is a number from 0 to 20", reason);
}

int set_group_in_memory(struct schema *s, void *target, const char *value, const char **reason)
{
	struct tfs_group *g = target;

	if (strcmp(value, "true") == 0)
		g->in_memory = true;
	else if (strcmp(value, "false") == 0)
		g->in_memory = false;
	else
		return schema_refuse(reason, "in_memory is true or false");
	return 0;
}
