/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a family's ACL.  It has entries, separated by commas, for named
 * users (u:NAME:rw-), named groups (g:NAME:r--) and the owning group (g::r--).
 * NAME is a name or an id.  An entry may also begin with "user" or "group", as
 * getfacl prints it.
 *
 * A schema has the text in one form: with ids instead of names, first users,
 * then the owning group, then groups, each in the order of ids.  .schema shows
 * names.  The other entries of a POSIX ACL are the digits of the mode: the
 * owner, the mask, and others.  If a text has no entry for the owning group,
 * the mode's second digit becomes this entry.
 */
#include "engine/schema/schema_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define ENTRY_BYTES_MAX 280

static int entry_class(const struct tfs_acl_entry *e)
{
	return !e->is_group ? 0 : e->is_owner ? 1 : 2;
}

static int entry_order(const void *a, const void *b)
{
	const struct tfs_acl_entry *x = a, *y = b;
	const int c = entry_class(x) - entry_class(y);

	return c ? c : (x->id > y->id) - (x->id < y->id);
}

int acl_print(struct acl_entries *all, struct buf *out, const char **reason)
{
	qsort(all->v, all->count, sizeof(*all->v), entry_order);
	for (unsigned i = 0; i < all->count; i++) {
		const struct tfs_acl_entry *e = &all->v[i];
		char id[12] = "";

		if (i && entry_order(e - 1, e) == 0)
			return schema_refuse(reason, "a user or group is there twice");
		if (!e->is_owner)
			snprintf(id, sizeof(id), "%u", e->id);
		if (buf_printf(out, "%s%s:%s:%c%c%c", i ? "," : "", e->is_group ? "g" : "u", id, e->may & 4 ? 'r' : '-',
			    e->may & 2 ? 'w' : '-', e->may & 1 ? 'x' : '-'))
			return -ENOMEM;
	}
	return buf_u8(out, 0);
}

/* Parses one entry.  Changes the string `text`. */
static int entry_parse(char *text, struct tfs_acl_entry *e, const char **reason)
{
	char *name = strchr(text, ':'), *may = name ? strchr(name + 1, ':') : NULL;

	*e = (struct tfs_acl_entry){0};
	if (!may || strlen(may) != 4 || !strchr("r-", may[1]) || !strchr("w-", may[2]) || !strchr("x-", may[3]))
		return schema_refuse(reason, "an entry is u:NAME:rw-, g:NAME:rw- or g::rw-");
	*name++ = 0;
	*may++ = 0;
	e->may = (may[0] == 'r' ? 4u : 0) | (may[1] == 'w' ? 2u : 0) | (may[2] == 'x' ? 1u : 0);
	e->is_group = strcmp(text, "g") == 0 || strcmp(text, "group") == 0;
	e->is_owner = e->is_group && !*name;
	if (e->is_owner)
		return 0;
	if (e->is_group)
		return value_group_id(name, &e->id, reason);
	if (strcmp(text, "u") == 0 || strcmp(text, "user") == 0)
		return *name ? value_user_id(name, &e->id, reason)
			     : schema_refuse(reason, "the owner's entry is the mode's first digit");
	return schema_refuse(reason, "an entry is u:NAME:rw-, g:NAME:rw- or g::rw-");
}

/* Converts the text in .schema to the form of tfs_family.acl, and appends it and a NUL to *out. */
static int acl_parse(const char *text, struct buf *out, const char **reason)
{
	struct acl_entries *all = calloc(1, sizeof(*all));
	char one[ENTRY_BYTES_MAX];
	int err = all ? 0 : -ENOMEM;

	while (*text && !err) {
		const size_t n = strcspn(text, ",");

		if (n >= sizeof(one) || all->count == ACL_ENTRIES_MAX) {
			err = schema_refuse(reason, n >= sizeof(one) ? "an entry is too long" : "too many entries");
			break;
		}
		memcpy(one, text, n);
		one[n] = 0;
		err = entry_parse(one, &all->v[all->count++], reason);
		text += n;
		if (!err && *text && !*++text)
			err = schema_refuse(reason, "an entry is missing at the end");
	}
	if (!err)
		err = acl_print(all, out, reason);
	free(all);
	return err;
}

int acl_store(struct schema *s, const char **acl, const char *value, const char **reason)
{
	struct buf text = {0};
	const char *copy = NULL;
	int err = acl_parse(value, &text, reason);

	if (!err && text.n > SCHEMA_ACL_MAX)
		err = schema_refuse(reason, "too many entries");
	if (!err && !(copy = draft_str(s, (const char *)text.p)))
		err = -ENOMEM;
	if (!err)
		*acl = copy;
	buf_fini(&text);
	return err;
}

bool acl_valid(const char *text, bool *no_memory)
{
	struct buf again = {0};
	const char *reason;
	int err = acl_parse(text, &again, &reason);
	bool valid = !err && strcmp((const char *)again.p, text) == 0;

	*no_memory = err == -ENOMEM;
	buf_fini(&again);
	return valid;
}

int acl_finish(struct schema *s, struct tfs_family *f, const char **reason)
{
	struct acl_entries *all;
	struct tfs_acl_entry e;
	struct buf text = {0};
	bool complete = false;
	int err = 0;

	for (const char *p = f->acl; tfs_acl_next(&p, &e);)
		complete = complete || e.is_owner;
	if (complete || !*f->acl)
		return 0;
	all = calloc(1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (const char *p = f->acl; tfs_acl_next(&p, &all->v[all->count]);)
		all->count++;
	all->v[all->count++] = (struct tfs_acl_entry){.is_group = true, .is_owner = true, .may = f->mode >> 3 & 7};
	err = acl_print(all, &text, reason);
	if (!err && !(f->acl = draft_str(s, (const char *)text.p)))
		err = -ENOMEM;
	buf_fini(&text);
	free(all);
	return err;
}

int acl_show(const char *acl, struct buf *out)
{
	struct tfs_acl_entry e;
	char name[256];
	bool first = true;

	while (tfs_acl_next(&acl, &e)) {
		const char *who = e.is_owner ? "" : e.is_group ? value_group(e.id, name) : value_user(e.id, name);
		/* The text of a name with these bytes would not parse. */
		if (strpbrk(who, ":,"))
			snprintf(name, sizeof(name), "%u", e.id);
		if (buf_printf(out, "%s%c:%s:%c%c%c", first ? "" : ",", e.is_group ? 'g' : 'u', who, e.may & 4 ? 'r' : '-',
			    e.may & 2 ? 'w' : '-', e.may & 1 ? 'x' : '-'))
			return -ENOMEM;
		first = false;
	}
	return buf_u8(out, 0);
}
