/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renders a schema as libconfig text, in the order and style of the manual's
 * example.  Parsing the text results in the same schema.  The text contains
 * defaults, too, so that it means the same in a version with other defaults.
 */
#include "engine/schema/schema_internal.h"

#include <errno.h>

/* Appends a libconfig string.  Only quotes and backslashes need escapes, because all values are printable. */
static int render_quoted(struct buf *out, const char *s)
{
	if (buf_u8(out, '"'))
		return -ENOMEM;
	for (; *s; s++)
		if (((*s == '"' || *s == '\\') && buf_u8(out, '\\')) || buf_u8(out, (uint8_t)*s))
			return -ENOMEM;
	return buf_u8(out, '"');
}

static int render_setting(struct buf *out, const char *name, const char *value)
{
	return buf_printf(out, "%s = ", name) || render_quoted(out, value) ? -ENOMEM : buf_append(out, "; ", 2);
}

static int render_family(const struct tfs_family *f, struct buf *out)
{
	char user[256], group[256];
	struct buf acl = {0};
	int err = 0;

	if (buf_append(out, "  { ", 4) || render_setting(out, "name", f->name) || (*f->gc && render_setting(out, "gc", f->gc)) ||
		render_setting(out, "group", f->group) ||
		render_setting(out, "type", f->type == TFS_TYPE_COUNTER ? "counter" : "bytes") || buf_append(out, "\n    ", 5) ||
		render_setting(out, "owner", value_user(f->uid, user)) ||
		render_setting(out, "owner_group", value_group(f->gid, group)) ||
		buf_printf(out, "mode = \"0%03o\"; ", (unsigned)f->mode) ||
		(*f->acl && (acl_show(f->acl, &acl) || render_setting(out, "acl", (const char *)acl.p))) || buf_append(out, "}", 1))
		err = -ENOMEM;
	buf_fini(&acl);
	return err;
}

static int render_group(const struct tfs_group *g, struct buf *out)
{
	char size[32];

	if (buf_append(out, "  { ", 4) || render_setting(out, "name", g->name) ||
		render_setting(out, "compression", g->compression) || buf_printf(out, "level = %d; ", g->level) ||
		render_setting(out, "block_size", value_size(g->block_size, size)))
		return -ENOMEM;
	return buf_printf(out, "bloom_bits = %d; in_memory = %s; }", g->bloom_bits, g->in_memory ? "true" : "false");
}

static int render_splits(const struct tfs_schema *t, struct buf *out)
{
	struct buf key = {0};
	int err = buf_printf(out, "splits = (");

	for (unsigned i = 0; i < t->split_count && !err; i++) {
		buf_reset(&key);
		err = buf_printf(out, i ? ", " : " ") || split_render(&t->splits[i], &key) || buf_u8(&key, 0)
			? -ENOMEM
			: render_quoted(out, (const char *)key.p);
	}
	buf_fini(&key);
	return err ? err : buf_printf(out, " );\n");
}

static int render_table(const struct tfs_schema *t, struct buf *out)
{
	static const char *const protect[] = {
		[TFS_PROTECT_NONE] = "", [TFS_PROTECT_TABLE] = "protect = true;\n", [TFS_PROTECT_DATA] = "protect = \"data\";\n"};
	char user[256], group[256], size[32];

	if (render_setting(out, "owner", value_user(t->uid, user)) ||
		render_setting(out, "owner_group", value_group(t->gid, group)) ||
		buf_printf(out, "mode = \"0%03o\";\n", (unsigned)t->mode) ||
		render_setting(out, "tablet_size", value_size(t->tablet_size, size)))
		return -ENOMEM;
	out->p[out->n - 1] = '\n';
	if (buf_printf(out, "salt = %d;\n%s%s%s", t->salt, t->mkdir_families ? "mkdir_families = true;\n" : "", protect[t->protect],
		    t->readonly ? "readonly = true;\n" : ""))
		return -ENOMEM;
	if (t->quota) {
		if (render_setting(out, "quota", value_size(t->quota, size)))
			return -ENOMEM;
		out->p[out->n - 1] = '\n';
	}
	if (t->snapshot_maxage_us) {
		if (render_setting(out, "snapshot_maxage", value_duration(t->snapshot_maxage_us, size)))
			return -ENOMEM;
		out->p[out->n - 1] = '\n';
	}
	if (t->changes_us) {
		if (render_setting(out, "changes", value_duration(t->changes_us, size)))
			return -ENOMEM;
		out->p[out->n - 1] = '\n';
	}
	return t->split_count ? render_splits(t, out) : 0;
}

int schema_render(const struct schema *s, struct buf *out)
{
	size_t from = out->n;

	/* Groups precede the families that name them (schema_text_begins). */
	if (render_table(&s->pub, out) || buf_printf(out, "groups = ("))
		goto fail;
	for (unsigned i = 0; i < s->pub.group_count; i++)
		if (buf_append(out, i ? ",\n" : "\n", i ? 2 : 1) || render_group(&s->groups[i], out))
			goto fail;
	if (buf_printf(out, " );\nfamilies = ("))
		goto fail;
	for (unsigned i = 0; i < s->pub.family_count; i++)
		if (buf_append(out, i ? ",\n" : "\n", i ? 2 : 1) || render_family(&s->families[i], out))
			goto fail;
	if (buf_printf(out, " );\n"))
		goto fail;
	return 0;
fail:
	out->n = from;
	return -ENOMEM;
}
