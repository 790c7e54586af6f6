/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a schema from a written .schema.  Each key must exist, and its value
 * must have the right type and be within its limits.  Otherwise the whole text
 * is refused, with line and reason.
 *
 * Attributes that the text leaves out get their defaults.  The table's owner
 * stays as it is by default.  A family's owner is the table's by default.
 *
 * If a key of the table is set twice, the later line counts, so that a line that is
 * appended changes its key.
 *
 * A family or group keeps its id if it keeps its name, or if the text renames
 * it: { name = "B"; was = "A"; } renames A.  The text may then give the name A
 * to another family.  `was` and allow_delete apply once and are not stored.
 * Some tools write a text twice.  The second time A no longer exists and B
 * does; this is no error.
 */
#include "engine/schema/schema_internal.h"

#include <errno.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>

/* Results of parsing in addition to the schema. */
struct parse_result {
	bool allow_delete, renames;
	bool syntax;     /* libconfig refused the text */
	bool may_follow; /* refused because of a missing group, which a longer text may contain */
	unsigned line;   /* the line of the syntax error */
};

enum { STRING = 1, INTEGER = 2, BOOLEAN = 4 };

/* The types that the value of an attribute may have. */
static const unsigned types_of[] = {
	[VALUE_USER] = STRING | INTEGER,
	[VALUE_USER_GROUP] = STRING | INTEGER,
	[VALUE_MODE] = STRING,
	[VALUE_SIZE] = STRING | INTEGER,
	[VALUE_NUMBER] = INTEGER,
	[VALUE_SALT] = INTEGER,
	[VALUE_DURATION] = STRING,
	[VALUE_BOOLEAN] = BOOLEAN,
	[VALUE_PROTECT] = STRING | BOOLEAN,
	[VALUE_GC] = STRING,
	[VALUE_GROUP] = STRING,
	[VALUE_TYPE] = STRING,
	[VALUE_ACL] = STRING,
	[VALUE_CODEC] = STRING,
};

static unsigned line_of(const config_setting_t *c)
{
	return config_setting_source_line(c);
}

static const char *shown_name(const config_setting_t *c)
{
	const char *name = config_setting_name(c);

	return name ? name : "element";
}

/* Returns the value as text for the setter, or NULL if its type is wrong.  scratch has 32 bytes. */
static const char *value_text(const config_setting_t *c, unsigned types, char *scratch)
{
	switch (config_setting_type(c)) {
	case CONFIG_TYPE_STRING:
		return types & STRING ? config_setting_get_string(c) : NULL;
	case CONFIG_TYPE_INT:
		snprintf(scratch, 32, "%d", config_setting_get_int(c));
		return types & INTEGER ? scratch : NULL;
	case CONFIG_TYPE_INT64:
		snprintf(scratch, 32, "%lld", config_setting_get_int64(c));
		return types & INTEGER ? scratch : NULL;
	case CONFIG_TYPE_BOOL:
		return types & BOOLEAN ? (config_setting_get_bool(c) ? "true" : "false") : NULL;
	default:
		return NULL;
	}
}

/* Sets *why to the expected types; types 0: a list.  Returns -EINVAL. */
static int wrong_type(const config_setting_t *c, unsigned types, char **why)
{
	static const char *const wanted[] = {
		[0] = "a list in ( )",
		[STRING] = "a string in quotes",
		[INTEGER] = "a whole number",
		[STRING | INTEGER] = "a string in quotes or a whole number",
		[BOOLEAN] = "true or false",
		[STRING | BOOLEAN] = "true, false or a string in quotes",
	};

	return why_line(why, line_of(c), "%s: not of the right type: %s is wanted", shown_name(c), wanted[types]);
}

static int key_set(struct schema *s, void *target, const struct attribute *keys, const config_setting_t *c, char **why)
{
	const char *name = shown_name(c), *reason = "", *value;
	char scratch[32];
	int err;

	while (keys->name && strcmp(keys->name, name) != 0)
		keys++;
	if (!keys->name)
		return why_line(why, line_of(c), "%s: no such setting", name);
	value = value_text(c, types_of[keys->form], scratch);
	if (!value)
		return wrong_type(c, types_of[keys->form], why);
	err = attribute_set(s, target, keys, value, &reason);
	if (err == -EINVAL)
		why_line(why, line_of(c), "%s: %s", name, reason);
	return err;
}

static int keys_set(struct schema *s, void *target, const struct attribute *keys, const config_setting_t *c, char **why)
{
	int err = 0;

	for (int i = 0; i < config_setting_length(c) && !err; i++) {
		const config_setting_t *k = config_setting_get_elem(c, (unsigned)i);

		if (strcmp(shown_name(k), "name") != 0 && strcmp(shown_name(k), "was") != 0)
			err = key_set(s, target, keys, k, why);
	}
	return err;
}

/* Returns the id of the family or group of that name, or -1. */
static int id_of(const struct schema *old, bool family, const char *name)
{
	const struct tfs_family *f = family ? draft_find_family(old, name) : NULL;
	const struct tfs_group *g = family ? NULL : draft_find_group(old, name);

	return f ? f->id : g ? g->id : -1;
}

/* Returns true if an element of c's list, other than c, has was = name. */
static bool renamed_from(const config_setting_t *c, const char *name)
{
	const config_setting_t *list = config_setting_parent(c);

	for (int i = 0; i < config_setting_length(list); i++) {
		const config_setting_t *e = config_setting_get_elem(list, (unsigned)i);
		const config_setting_t *w =
			e != c && config_setting_type(e) == CONFIG_TYPE_GROUP ? config_setting_get_member(e, "was") : NULL;

		if (w && config_setting_type(w) == CONFIG_TYPE_STRING && strcmp(config_setting_get_string(w), name) == 0)
			return true;
	}
	return false;
}

/* Reads an element's name, which is required, and sets *id to the id that it keeps; -1: it is new. */
static int element_id(const struct schema *old, const config_setting_t *c, bool family, struct parse_result *result,
	const char **name, int *id, char **why)
{
	const config_setting_t *n, *w;
	const char *was;

	if (config_setting_type(c) != CONFIG_TYPE_GROUP)
		return why_line(why, line_of(c), "{ name = ...; } was expected");
	n = config_setting_get_member(c, "name");
	if (!n || config_setting_type(n) != CONFIG_TYPE_STRING)
		return why_line(why, line_of(c), "a name is missing");
	*name = config_setting_get_string(n);
	*id = id_of(old, family, *name);
	w = config_setting_get_member(c, "was");
	if (!w) {
		if (*id >= 0 && renamed_from(c, *name))
			*id = -1;
		return 0;
	}
	if (config_setting_type(w) != CONFIG_TYPE_STRING)
		return wrong_type(w, STRING, why);
	result->renames = true;
	was = config_setting_get_string(w);
	if (renamed_from(c, was))
		return why_line(why, line_of(w), "was: two say that they were this one");
	if (id_of(old, family, was) >= 0)
		*id = id_of(old, family, was);
	else if (*id < 0 || renamed_from(c, *name))
		return why_line(why, line_of(w), "was: there is none of that name");
	return 0;
}

static int group_parse(
	struct schema *s, const struct schema *old, const config_setting_t *c, struct parse_result *result, char **why)
{
	struct tfs_group *g;
	const char *name = NULL, *reason = "";
	int id, err = element_id(old, c, false, result, &name, &id, why);

	if (err)
		return err;
	if (id >= 0 && (id == 0) != (strcmp(name, SCHEMA_DEFAULT_GROUP) == 0))
		return why_line(why, line_of(c), "was: the default group keeps its name");
	err = draft_group(s, name, id, &g, &reason);
	if (err == -EINVAL)
		why_line(why, line_of(c), "%s", reason);
	if (!err)
		err = keys_set(s, g, group_attributes, c, why);
	if (err)
		return err;
	err = group_fits(g, &reason);
	if (err)
		why_line(why, line_of(c), "level: %s", reason);
	return err;
}

static int family_parse(
	struct schema *s, const struct schema *old, const config_setting_t *c, struct parse_result *result, char **why)
{
	struct tfs_family *f;
	const config_setting_t *g;
	const char *name = NULL, *reason = "";
	int id, err = element_id(old, c, true, result, &name, &id, why);

	if (err)
		return err;
	err = draft_family(s, name, id, &f, &reason);
	if (err == -EINVAL)
		why_line(why, line_of(c), "%s", reason);
	if (!err)
		err = keys_set(s, f, family_attributes, c, why);
	if (err)
		return err;
	g = config_setting_get_member(c, "group");
	if (!draft_find_group(s, f->group)) {
		why_line(why, line_of(g ? g : c), "group: there is no group of that name");
		result->may_follow = true;
		return -EINVAL;
	}
	return 0;
}

static int splits_parse(struct schema *s, const config_setting_t *list, char **why)
{
	int err = 0;

	if (config_setting_type(list) != CONFIG_TYPE_LIST)
		return wrong_type(list, 0, why);
	for (int i = 0; i < config_setting_length(list) && !err; i++) {
		const config_setting_t *c = config_setting_get_elem(list, (unsigned)i);
		const char *reason = "", *text = config_setting_get_string(c);

		if (!text)
			return why_line(why, line_of(c), "splits: not of the right type: a string in quotes is wanted");
		err = draft_split_text(s, text, &reason);
		if (err == -EINVAL)
			why_line(why, line_of(c), "splits: %s", reason);
	}
	return err;
}

static int list_parse(struct schema *s, const struct schema *old, const config_setting_t *list, struct parse_result *result,
	int (*fn)(struct schema *, const struct schema *, const config_setting_t *, struct parse_result *, char **), char **why)
{
	int err = 0;

	if (!list)
		return 0;
	if (config_setting_type(list) != CONFIG_TYPE_LIST)
		return wrong_type(list, 0, why);
	for (int i = 0; i < config_setting_length(list) && !err; i++)
		err = fn(s, old, config_setting_get_elem(list, (unsigned)i), result, why);
	return err;
}

/*
 * Parses the table's settings first, because its owner is the families'
 * default; then groups, because families name them.
 */
static int root_parse(
	struct schema *s, const struct schema *old, const config_setting_t *root, struct parse_result *result, char **why)
{
	const config_setting_t *families = NULL, *groups = NULL;
	struct tfs_group *g;
	const char *reason = "";
	int err = 0;

	for (int i = 0; i < config_setting_length(root) && !err; i++) {
		const config_setting_t *c = config_setting_get_elem(root, (unsigned)i);
		const char *name = shown_name(c);

		if (strcmp(name, "families") == 0)
			families = c;
		else if (strcmp(name, "groups") == 0)
			groups = c;
		else if (strcmp(name, "splits") == 0)
			err = splits_parse(s, c, why);
		else if (strcmp(name, "allow_delete") != 0)
			err = key_set(s, s, table_attributes, c, why);
		else if (config_setting_type(c) == CONFIG_TYPE_BOOL)
			result->allow_delete = config_setting_get_bool(c);
		else
			err = wrong_type(c, BOOLEAN, why);
	}
	if (!err)
		err = list_parse(s, old, groups, result, group_parse, why);
	if (!err && !draft_find_group(s, SCHEMA_DEFAULT_GROUP)) {
		err = draft_group(s, SCHEMA_DEFAULT_GROUP, 0, &g, &reason);
		if (err == -EINVAL)
			why_line(why, 0, "%s", reason);
	}
	return err ? err : list_parse(s, old, families, result, family_parse, why);
}

/* The last of several settings of one key counts.  Bytes that would be read in another way without the others stay as they are: libconfig refuses a key that is set twice. */
static int text_read(struct tfs_bytes text, config_t *c)
{
	struct buf last = {0};
	const char *reason;
	unsigned line;
	int err = schema_text_last(text, false, &last);

	if (!err)
		err = schema_config_read(schema_scan_text(buf_bytes(&last), &line, &reason) == 0 ? buf_bytes(&last) : text, c);
	buf_fini(&last);
	return err;
}

static int text_parse(struct schema *s, const struct schema *old, const char *text, struct parse_result *result, char **why)
{
	config_t c;
	int err;

	config_init(&c);
	err = text_read(tfs_str(text), &c);
	if (!err) {
		err = root_parse(s, old, config_root_setting(&c), result, why);
	} else if (err == -EINVAL) {
		result->syntax = true;
		result->line = (unsigned)config_error_line(&c);
		why_line(why, result->line, "%s", config_error_text(&c));
	}
	config_destroy(&c);
	return err;
}

static unsigned count_lines(struct tfs_bytes text)
{
	unsigned n = 0;

	for (size_t i = 0; i < text.n; i++)
		n += text.p[i] == '\n';
	return n;
}

/*
 * Checks only the part of the text whose values are complete, followed by a
 * newline.  A syntax error before its end is final.  An error in a value is final,
 * unless more text can change the value: "a" "b" is one string.  To find out, an
 * empty string is appended.  If that is a syntax error, the value cannot be
 * continued.
 *
 * A group that is missing may follow in a later write.  But the writer of a short
 * text that names an unknown group would learn of it from close(2) only, which
 * shells ignore.  So a group may follow only where a buffer of the writer may have
 * cut the text.
 */
int schema_text_begins(const struct schema *old, struct tfs_bytes text, char **why)
{
	struct schema *s = schema_draft(old);
	struct buf more = {0};
	struct parse_result result = {0}, ignored = {0};
	const char *reason;
	unsigned line;
	int err = -ENOMEM;

	text.n = schema_scan_whole(text);
	if (!s || buf_append_bytes(&more, text) || buf_append(&more, "\n", 2))
		goto out;
	err = schema_scan_text(text, &line, &reason);
	if (err == -EINVAL) {
		why_line(why, line, "%s", reason);
		goto out;
	}
	err = text_parse(s, old, (const char *)more.p, &result, why);
	if (err != -EINVAL)
		goto out;
	if (result.syntax ? result.line > count_lines(buf_bytes(&more)) : result.may_follow)
		err = 0;
	if (err == -EINVAL && !result.syntax && !result.may_follow) {
		schema_put(s);
		s = schema_draft(old);
		more.n -= 2;
		err = s && buf_append(&more, "\"\"", 3) == 0 ? 0 : -ENOMEM;
		if (!err && schema_scan_text(tfs_str((const char *)more.p), &line, &reason) == -EINVAL)
			ignored.syntax = true; /* libconfig would leak the string */
		if (!err)
			err = ignored.syntax ? -EINVAL : text_parse(s, old, (const char *)more.p, &ignored, NULL);
		if (err == -EINVAL && !ignored.syntax)
			err = 0;
	}
out:
	if (err == 0 && why) {
		free(*why);
		*why = NULL;
	}
	buf_fini(&more);
	schema_put(s);
	return err;
}

/*
 * Undoes changes that chown and chmod would refuse to the user.  was_*: the
 * previous attributes.  was_mode NULL: the family is new and may have any mode.
 * Returns true if anything was undone.
 */
static bool limit_owner(
	const struct tfs_user *user, uid_t was_uid, gid_t was_gid, const mode_t *was_mode, uid_t *uid, gid_t *gid, mode_t *mode)
{
	bool owns = user->uid == was_uid, limited = false;

	if (*uid != was_uid) {
		*uid = was_uid;
		limited = true;
	}
	if (*gid != was_gid && !(owns && user_in_group(user, *gid))) {
		*gid = was_gid;
		limited = true;
	}
	if (was_mode && *mode != *was_mode && !owns) {
		*mode = *was_mode;
		limited = true;
	}
	return limited;
}

int schema_limit_owners(const struct schema *old, struct schema *s, const struct tfs_user *user, char **note)
{
	const struct tfs_schema *was = &old->pub;
	bool table = limit_owner(user, was->uid, was->gid, &was->mode, &s->pub.uid, &s->pub.gid, &s->pub.mode);
	const char *first = NULL, *reason = NULL;
	unsigned families = 0;
	int err;

	for (unsigned i = 0; i < s->pub.family_count; i++) {
		struct tfs_family *f = &s->families[i];
		const struct tfs_family *before = NULL;
		bool limited;

		for (unsigned k = 0; k < was->family_count && !before; k++)
			before = was->families[k].id == f->id ? &was->families[k] : NULL;
		limited = before ? limit_owner(user, before->uid, before->gid, &before->mode, &f->uid, &f->gid, &f->mode)
				 : limit_owner(user, s->pub.uid, s->pub.gid, NULL, &f->uid, &f->gid, &f->mode);
		if (before && user->uid != before->uid && strcmp(f->acl, before->acl) != 0) {
			f->acl = draft_str(s, before->acl);
			if (!f->acl)
				return -ENOMEM;
			limited = true;
		}
		if (!limited)
			continue;
		if (!families++)
			first = f->name;
	}
	if (!table && !families)
		return 0;
	err = schema_finish(s, true, &reason);
	if (err == 0 && families)
		why_line(note, 0, "owner, group, mode or ACL of %sfamily %s%s left out: the writer could not set them by chown",
			table ? "the table and of " : "", first, families > 1 ? " and others" : "");
	else if (err == 0)
		why_line(note, 0, "owner, group or mode of the table left out: the writer could not set them by chown");
	return err;
}

int schema_set_text(
	const struct schema *old, struct tfs_bytes text, int64_t mtime_us, struct schema **out, bool *allow_delete, char **why)
{
	struct schema *s = NULL;
	const char *reason;
	struct parse_result result = {0};
	struct buf kept = {0};
	unsigned line;
	int err = schema_scan_text(text, &line, &reason);

	if (err) {
		why_line(why, line, "%s", reason);
		return err;
	}
	err = -ENOMEM;
	s = schema_draft(old);
	if (!s || scripts_copy(s, old))
		goto fail;
	s->pub.mode = 0755;
	s->pub.tablet_size = (uint64_t)128 << 20;
	s->pub.salt = 0;
	s->pub.mkdir_families = s->pub.readonly = false;
	s->pub.protect = TFS_PROTECT_NONE;
	s->pub.snapshot_maxage_us = 0;
	s->pub.changes_us = 0;
	s->pub.quota = 0;
	s->pub.mtime_us = mtime_us;
	s->pub.is_set = true;
	s->pub.is_hidden = false;
	/* Errors have the lines of the text as written.  The text that is kept has each key once, so appended lines do not fill it. */
	err = draft_text(s, (const char *)text.p, text.n);
	if (!err)
		err = text_parse(s, old, s->text, &result, why);
	if (!err)
		err = schema_text_last(text, true, &kept);
	if (!err && kept.n < text.n)
		err = draft_text(s, (const char *)kept.p, kept.n);
	if (err)
		goto fail;
	/* allow_delete and `was` apply once, so the text is rendered without them. */
	err = schema_finish(s, result.allow_delete || result.renames, &reason);
	if (err == -EINVAL)
		why_line(why, 0, "%s", reason ? reason : "not a legal schema");
	if (err)
		goto fail;
	*allow_delete = result.allow_delete;
	*out = s;
	buf_fini(&kept);
	return 0;
fail:
	buf_fini(&kept);
	schema_put(s);
	return err;
}
