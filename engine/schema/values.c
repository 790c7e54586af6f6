/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of values: ids, sizes, durations, users and their groups.
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
