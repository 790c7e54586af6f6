/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A schema from libconfig text, strictly: a key that is not known, a value
 * of another type, a name given twice or a family in a group that is not
 * there is -EINVAL, and the reason carries the line.
 *
 * Choices:
 *  - Left-out keys take their defaults; the table's owner and group, which
 *    have none, stay as they are, and a family's are the table's.
 *  - Sizes are strings ("64K"; digits alone are bytes); level, bloom_bits
 *    and salt integers; owners strings (a name, or digits) or integers; mode
 *    a string of octal digits.
 *  - The text has at most 1 MiB, no NUL byte and no @include.
 *  - A key of the table that is set again later has the later value; the text that
 *  is kept does not have the earlier setting.
 *  - A text with allow_delete or was is not kept as written but rendered:
 *    what is shown, and so what a backup carries, never has them.
 *  - { name = "B"; was = "A"; } is A, with another name; a further A is a new
 *  family.  Where no A is left, B must be there: it was done before.
 */
#include <errno.h>
#include <grp.h>
#include <libconfig.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "t/model/model_types.h"

#define TEXT_MAX (1024 * 1024)
#define TABLET_SIZE_MIN (64 * 1024)
#define TABLET_SIZE_MAX (1ULL << 40)

static int bad(char **why, const config_setting_t *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int bad(char **why, const config_setting_t *at, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	mdl_why(why, "line %u: %s", config_setting_source_line(at), text);
	return -EINVAL;
}

static int want_string(const config_setting_t *s, const char **out, char **why)
{
	if (config_setting_type(s) != CONFIG_TYPE_STRING)
		return bad(why, s, "%s must be a string", config_setting_name(s));
	*out = config_setting_get_string(s);
	return 0;
}

static int want_int(const config_setting_t *s, int least, int most, int *out, char **why)
{
	if (config_setting_type(s) != CONFIG_TYPE_INT || config_setting_get_int(s) < least || config_setting_get_int(s) > most)
		return bad(why, s, "%s must be a number from %d to %d", config_setting_name(s), least, most);
	*out = config_setting_get_int(s);
	return 0;
}

static int want_bool(const config_setting_t *s, bool *out, char **why)
{
	if (config_setting_type(s) != CONFIG_TYPE_BOOL)
		return bad(why, s, "%s must be true or false", config_setting_name(s));
	*out = config_setting_get_bool(s) != 0;
	return 0;
}

static int want_protect(const config_setting_t *s, enum tfs_protect *out, char **why)
{
	const char *text = "data";
	bool yes = false;
	int r = config_setting_type(s) == CONFIG_TYPE_STRING ? want_string(s, &text, why) : want_bool(s, &yes, why);

	if (r == 0 && strcmp(text, "data") != 0 && strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
		r = bad(why, s, "protect must be true, false or \"data\"");
	if (r == 0 && config_setting_type(s) == CONFIG_TYPE_STRING)
		*out = *text == 'd' ? TFS_PROTECT_DATA : *text == 't' ? TFS_PROTECT_TABLE : TFS_PROTECT_NONE;
	else if (r == 0)
		*out = yes ? TFS_PROTECT_TABLE : TFS_PROTECT_NONE;
	return r;
}

static int want_size(const config_setting_t *s, uint64_t least, uint64_t most, uint64_t *out, char **why)
{
	const char *text = "";

	if (want_string(s, &text, why) < 0 || !mdl_size(text, out) || *out < least || *out > most)
		return bad(why, s, "%s must be a size, such as \"64K\" or \"128M\", within its bounds", config_setting_name(s));
	return 0;
}

static int want_mode(const config_setting_t *s, mode_t *out, char **why)
{
	const char *text = "";
	size_t n;

	if (want_string(s, &text, why) < 0)
		return -EINVAL;
	n = strspn(text, "01234567");
	if (n == 0 || n > 5 || text[n] || strtoul(text, NULL, 8) > 07777)
		return bad(why, s, "mode must be octal digits in a string, such as \"0644\"");
	*out = (mode_t)strtoul(text, NULL, 8);
	return 0;
}

static int want_owner(const config_setting_t *s, bool is_group, uint32_t *out, char **why)
{
	const char *text = "";
	int number;

	if (config_setting_type(s) == CONFIG_TYPE_INT) {
		if (want_int(s, 0, INT32_MAX, &number, why) < 0)
			return -EINVAL;
		*out = (uint32_t)number;
		return 0;
	}
	if (want_string(s, &text, why) < 0)
		return -EINVAL;
	if (is_group) {
		const struct group *gr = getgrnam(text);
		if (gr) {
			*out = gr->gr_gid;
			return 0;
		}
	} else {
		const struct passwd *pw = getpwnam(text);
		if (pw) {
			*out = pw->pw_uid;
			return 0;
		}
	}
	size_t n = strspn(text, "0123456789");
	if (n == 0 || n > 10 || text[n] || strtoull(text, NULL, 10) >= UINT32_MAX)
		return bad(why, s, "there is no %s \"%.64s\"", is_group ? "group" : "user", text);
	*out = (uint32_t)strtoull(text, NULL, 10);
	return 0;
}

/* The list's i-th entry must be { ... } with a legal name. */
static int entry(const config_setting_t *list, int i, config_setting_t **out, const char **name, char **why)
{
	config_setting_t *e = config_setting_get_elem(list, (unsigned)i);

	if (config_setting_type(e) != CONFIG_TYPE_GROUP)
		return bad(why, e, "%s must be a list of { name = ...; }", config_setting_name(list));
	config_setting_t *n = config_setting_get_member(e, "name");
	if (!n)
		return bad(why, e, "name is missing");
	if (want_string(n, name, why) < 0)
		return -EINVAL;
	if (!tfs_name_valid(*name))
		return bad(why, n, "\"%.80s\" is not a legal name", *name);
	*out = e;
	return 0;
}

static int want_list(const config_setting_t *s, char **why)
{
	if (config_setting_type(s) != CONFIG_TYPE_LIST)
		return bad(why, s, "%s must be a list, ( ... )", config_setting_name(s));
	return 0;
}

/* Does another entry of the list say that it was `name`? */
static bool is_claimed(const config_setting_t *list, int but, const char *name)
{
	for (int i = 0; i < config_setting_length(list); i++) {
		const char *was;
		config_setting_t *e = config_setting_get_elem(list, (unsigned)i);
		if (i != but && config_setting_is_group(e) && config_setting_lookup_string(e, "was", &was) &&
			strcmp(was, name) == 0)
			return true;
	}
	return false;
}

/* What the i-th entry was called before: NULL, it is new; -EINVAL. */
static int called_before(const config_setting_t *list, int i, const config_setting_t *e, const char *name,
	bool (*there)(const struct mdl_schema *, const char *), const struct mdl_schema *old, const char **before, bool *as_written,
	char **why)
{
	const config_setting_t *w = config_setting_get_member(e, "was");
	const char *was = "";

	if (!w) {
		*before = there(old, name) && !is_claimed(list, i, name) ? name : NULL;
		return 0;
	}
	if (want_string(w, &was, why) < 0)
		return -EINVAL;
	*as_written = false;
	if (is_claimed(list, i, was))
		return bad(why, w, "two were \"%.80s\"", was);
	*before = there(old, was) ? was : there(old, name) && !is_claimed(list, i, name) ? name : NULL;
	return *before ? 0 : bad(why, w, "there is no \"%.80s\"", was);
}

static bool has_family(const struct mdl_schema *s, const char *name)
{
	return tfs_name_valid(name) && mdl_schema_family(s, name);
}

static bool has_group(const struct mdl_schema *s, const char *name)
{
	return tfs_name_valid(name) && mdl_schema_group(s, name);
}

static int parse_group(
	const struct mdl_schema *old, struct mdl_schema *new, const config_setting_t *list, int i, bool *as_written, char **why)
{
	struct tfs_group g = mdl_group_default;
	config_setting_t *e;
	const char *text = NULL;
	uint64_t bytes;
	int r = entry(list, i, &e, &g.name, why);

	if (r < 0)
		return r;
	if (mdl_schema_group(new, g.name))
		return bad(why, e, "group \"%s\" is there twice", g.name);
	for (int k = 0; r == 0 && k < config_setting_length(e); k++) {
		config_setting_t *s = config_setting_get_elem(e, (unsigned)k);
		const char *key = config_setting_name(s);
		if (strcmp(key, "name") == 0 || strcmp(key, "was") == 0) {
			continue;
		} else if (strcmp(key, "compression") == 0) {
			r = want_string(s, &text, why);
			const char *reason = r == 0 ? mdl_group_set(&g, TFS_SCHEMA_GROUP_COMPRESSION, text) : NULL;
			if (reason)
				r = bad(why, s, "%s", reason);
		} else if (strcmp(key, "level") == 0) {
			r = want_int(s, 1, 19, &g.level, why);
		} else if (strcmp(key, "block_size") == 0) {
			r = want_size(s, 1024, 4 * 1024 * 1024, &bytes, why);
			if (r == 0)
				g.block_size = (uint32_t)bytes;
		} else if (strcmp(key, "bloom_bits") == 0) {
			r = want_int(s, 0, 20, &g.bloom_bits, why);
		} else if (strcmp(key, "in_memory") == 0) {
			r = want_bool(s, &g.in_memory, why);
		} else {
			r = bad(why, s, "unknown key \"%.80s\"", key);
		}
	}
	if (r < 0)
		return r;
	if (!mdl_group_fits(&g))
		return bad(why, e, "the codec has no levels");
	const char *before;
	if (called_before(list, i, e, g.name, has_group, old, &before, as_written, why) < 0)
		return -EINVAL;
	g.id = before ? mdl_schema_group(old, before)->id : 0;
	if (before && (strcmp(before, "default") == 0) != (strcmp(g.name, "default") == 0))
		return bad(why, e, "group \"default\" keeps its name");
	return mdl_schema_add_group(new, &g);
}

static int parse_family(
	const struct mdl_schema *old, struct mdl_schema *new, const config_setting_t *list, int i, bool *as_written, char **why)
{
	struct tfs_family f = mdl_family_default;
	config_setting_t *e;
	const char *text = "", *reason;
	struct mdl_gc *gc = NULL;
	int r = entry(list, i, &e, &f.name, why);

	if (r < 0)
		return r;
	if (mdl_schema_family(new, f.name))
		return bad(why, e, "family \"%s\" is there twice", f.name);
	f.uid = new->pub.uid;
	f.gid = new->pub.gid;
	for (int k = 0; r == 0 && k < config_setting_length(e); k++) {
		config_setting_t *s = config_setting_get_elem(e, (unsigned)k);
		const char *key = config_setting_name(s);
		if (strcmp(key, "name") == 0 || strcmp(key, "was") == 0) {
			continue;
		} else if (strcmp(key, "gc") == 0) {
			r = want_string(s, &f.gc, why);
			if (r == 0)
				r = mdl_gc_parse(f.gc, &gc, &reason);
			else
				break;
			mdl_gc_free(gc);
			gc = NULL;
			if (r == -EINVAL)
				r = bad(why, s, "gc: %s", reason);
		} else if (strcmp(key, "group") == 0) {
			r = want_string(s, &f.group, why);
			if (r == 0 && !mdl_schema_group(new, f.group))
				r = bad(why, s, "there is no group \"%.80s\"", f.group);
		} else if (strcmp(key, "type") == 0) {
			r = want_string(s, &text, why);
			if (r == 0 && strcmp(text, "bytes") != 0 && strcmp(text, "counter") != 0)
				r = bad(why, s, "type is \"bytes\" or \"counter\"");
			f.type = strcmp(text, "counter") == 0 ? TFS_TYPE_COUNTER : TFS_TYPE_BYTES;
		} else if (strcmp(key, "owner") == 0) {
			r = want_owner(s, false, &f.uid, why);
		} else if (strcmp(key, "owner_group") == 0) {
			r = want_owner(s, true, &f.gid, why);
		} else if (strcmp(key, "mode") == 0) {
			r = want_mode(s, &f.mode, why);
		} else if (strcmp(key, "acl") == 0) {
			r = want_string(s, &f.acl, why);
			if (r == 0 && !mdl_acl_valid(f.acl))
				r = bad(why, s, "acl: not one with ids");
		} else {
			r = bad(why, s, "unknown key \"%.80s\"", key);
		}
	}
	if (r < 0)
		return r;
	const char *before;
	if (called_before(list, i, e, f.name, has_family, old, &before, as_written, why) < 0)
		return -EINVAL;
	f.id = before ? mdl_schema_family(old, before)->id : 0;
	return mdl_schema_add_family(new, &f);
}

static int parse_root(const struct mdl_schema *old, struct mdl_schema *new, const config_setting_t *root, bool *allow_delete,
	bool *as_written, char **why)
{
	const config_setting_t *families = NULL, *groups = NULL;
	int r = 0;

	for (int k = 0; r == 0 && k < config_setting_length(root); k++) {
		config_setting_t *s = config_setting_get_elem(root, (unsigned)k);
		const char *key = config_setting_name(s);
		if (strcmp(key, "owner") == 0) {
			r = want_owner(s, false, &new->pub.uid, why);
		} else if (strcmp(key, "owner_group") == 0) {
			r = want_owner(s, true, &new->pub.gid, why);
		} else if (strcmp(key, "mode") == 0) {
			r = want_mode(s, &new->pub.mode, why);
		} else if (strcmp(key, "tablet_size") == 0) {
			r = want_size(s, TABLET_SIZE_MIN, TABLET_SIZE_MAX, &new->pub.tablet_size, why);
		} else if (strcmp(key, "salt") == 0) {
			r = want_int(s, 0, 255, &new->pub.salt, why);
			if (r == 0 && new->pub.salt == 1)
				r = bad(why, s, "salt spreads over no one range");
		} else if (strcmp(key, "mkdir_families") == 0) {
			r = want_bool(s, &new->pub.mkdir_families, why);
		} else if (strcmp(key, "protect") == 0) {
			r = want_protect(s, &new->pub.protect, why);
		} else if (strcmp(key, "quota") == 0) {
			r = want_size(s, 0, UINT64_C(1) << 60, &new->pub.quota, why);
		} else if (strcmp(key, "readonly") == 0) {
			r = want_bool(s, &new->pub.readonly, why);
		} else if (strcmp(key, "snapshot_maxage") == 0) {
			const char *age = "";
			if (want_string(s, &age, why) < 0 || !mdl_duration(age, strlen(age), &new->pub.snapshot_maxage_us))
				r = bad(why, s, "snapshot_maxage must be a duration, such as \"30d\"");
		} else if (strcmp(key, "changes") == 0) {
			const char *age = "";
			if (want_string(s, &age, why) < 0 || !mdl_duration(age, strlen(age), &new->pub.changes_us))
				r = bad(why, s, "changes must be a duration, such as \"7d\"");
		} else if (strcmp(key, "splits") == 0) {
			r = mdl_splits_parse(new, s, why);
		} else if (strcmp(key, "allow_delete") == 0) {
			r = want_bool(s, allow_delete, why);
			*as_written = false;
		} else if (strcmp(key, "families") == 0) {
			families = s;
			r = want_list(s, why);
		} else if (strcmp(key, "groups") == 0) {
			groups = s;
			r = want_list(s, why);
		} else {
			r = bad(why, s, "unknown key \"%.80s\"", key);
		}
	}
	for (int i = 0; r == 0 && groups && i < config_setting_length(groups); i++)
		r = parse_group(old, new, groups, i, as_written, why);
	if (r == 0 && !mdl_schema_group(new, "default"))
		r = mdl_schema_add_group(new, &mdl_group_default);
	for (int i = 0; r == 0 && families && i < config_setting_length(families); i++)
		r = parse_family(old, new, families, i, as_written, why);
	return r ? r : mdl_splits_check(new, why);
}

/* The line of the first @include at a line's start; 0 if there is none. */
static unsigned include_line(const char *p)
{
	for (unsigned line = 1;; line++) {
		p += strspn(p, " \t");
		if (strncmp(p, "@include", 8) == 0)
			return line;
		p = strchr(p, '\n');
		if (!p)
			return 0;
		p++;
	}
}

int mdl_schema_parse(const struct mdl_schema *old, struct tfs_bytes text, struct mdl_schema **out, bool *allow_delete,
	bool *shown_as_written, char **why)
{
	struct mdl_schema *new = NULL;
	config_t config;
	char *copy, *last = NULL;
	int r = -ENOMEM;

	if (text.n > TEXT_MAX || (text.n > 0 && memchr(text.p, 0, text.n))) {
		mdl_why(why, "line 1: %s", text.n > TEXT_MAX ? "longer than 1 MiB" : "has a NUL byte");
		return -EINVAL;
	}
	copy = calloc(1, text.n + 1);
	new = calloc(1, sizeof(*new));
	config_init(&config);
	if (!copy || !new || mdl_scripts_copy(new, old))
		goto out;
	if (text.n > 0)
		memcpy(copy, text.p, text.n);
	if (include_line(copy) > 0) {
		mdl_why(why, "line %u: @include is not allowed", include_line(copy));
		r = -EINVAL;
		goto out;
	}
	last = mdl_schema_last(copy, false);
	if (!last)
		goto out;
	new->refs = 1;
	new->next_family = old->next_family;
	new->next_group = old->next_group;
	new->pub.table_id = old->pub.table_id;
	new->pub.generation = old->pub.generation + 1;
	memcpy(new->pub.name, old->pub.name, sizeof(new->pub.name));
	new->pub.uid = old->pub.uid;
	new->pub.gid = old->pub.gid;
	new->pub.mode = 0755;
	new->pub.tablet_size = 128u << 20;
	new->pub.mkdir_families = false;
	*allow_delete = false;
	*shown_as_written = true;
	if (!config_read_string(&config, include_line(last) ? copy : last)) {
		mdl_why(why, "line %d: %s", config_error_line(&config), config_error_text(&config));
		r = -EINVAL;
		goto out;
	}
	r = parse_root(old, new, config_root_setting(&config), allow_delete, shown_as_written, why);
	if (r == 0) {
		*out = new;
		new = NULL;
	}
out:
	config_destroy(&config);
	free(last);
	free(copy);
	if (new &&new->refs == 0)
		new->refs = 1;
	mdl_schema_unref(new);
	return r;
}
