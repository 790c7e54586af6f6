/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scripts of a table.  They are part of the schema, and so of its snapshots and
 * clones, but not of the text of .schema: a new text keeps them.  A script is
 * stored as it was written.  The client compiles it before.
 *
 * All scripts and the text of .schema are in one file of the lock service, so their
 * sizes are limited.
 */
#include "engine/schema/schema_internal.h"

#include <errno.h>

bool tfs_script_name_valid(const char *name)
{
	const size_t n = strlen(name);

	return n > 0 && n <= TFS_SCRIPT_NAME_MAX &&
		n == strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");
}

/* Returns the index of the script, or of the first script with a larger name. */
static unsigned script_at(const struct schema *s, const char *name)
{
	unsigned i = 0;

	while (i < s->pub.script_count && strcmp(s->scripts[i].name, name) < 0)
		i++;
	return i;
}

static struct tfs_script *script_find(const struct schema *s, const char *name)
{
	const unsigned i = script_at(s, name);

	return i < s->pub.script_count && strcmp(s->scripts[i].name, name) == 0 ? &s->scripts[i] : NULL;
}

const struct tfs_script *tfs_schema_script(const struct tfs_schema *s, const char *name)
{
	return script_find(schema_of(s), name);
}

int draft_script(struct schema *s, const char *name, struct tfs_bytes text, int64_t mtime_us, const char **reason)
{
	struct tfs_script *old = script_find(s, name), x = {.text = text, .mtime_us = mtime_us};
	size_t bytes = text.n - (old ? old->text.n : 0);
	unsigned at;

	for (unsigned i = 0; i < s->pub.script_count; i++)
		bytes += s->scripts[i].text.n;
	if (!tfs_script_name_valid(name))
		return schema_refuse(reason, "not a legal name of a script");
	if (text.n > TFS_SCRIPT_MAX)
		return schema_refuse(reason, "a script has at most 64 KiB");
	if (bytes > SCHEMA_SCRIPTS_BYTES)
		return schema_refuse(reason, "the scripts of a table have at most 256 KiB together");
	if (!old && s->pub.script_count >= SCHEMA_SCRIPTS_MAX)
		return schema_refuse(reason, "a table has at most 64 scripts");
	if (!x.text.p)
		x.text = TFS_S("");
	x.name = draft_str(s, name);
	if (!x.name || bytes_own(&x.text, &s->arena) || (!old && array_grow(&s->scripts, s->pub.script_count, sizeof(x))))
		return -ENOMEM;
	at = script_at(s, name);
	if (!old) {
		memmove(&s->scripts[at + 1], &s->scripts[at], (s->pub.script_count - at) * sizeof(x));
		s->pub.script_count++;
	}
	s->scripts[at] = x;
	return 0;
}

int scripts_copy(struct schema *to, const struct schema *from)
{
	const char *reason;
	int err = 0;

	for (unsigned i = 0; i < from->pub.script_count && !err; i++)
		err = draft_script(to, from->scripts[i].name, from->scripts[i].text, from->scripts[i].mtime_us, &reason);
	return err;
}

int script_edit(struct schema *s, const struct tfs_schema_edit *e, int64_t now, const char **reason)
{
	const int64_t mtime_us = e->mtime_us == TFS_NO_TIME ? now : e->mtime_us;
	struct tfs_script *x;

	if (!e->name)
		return schema_refuse(reason, "a name is missing");
	if (e->op == TFS_SCHEMA_SCRIPT_SET)
		return draft_script(s, e->name, e->text, mtime_us, reason);
	x = script_find(s, e->name);
	if (!x)
		return -ENOENT;
	if (e->op == TFS_SCHEMA_SCRIPT_TIME)
		x->mtime_us = mtime_us;
	else
		memmove(x, x + 1, (size_t)(&s->scripts[s->pub.script_count--] - x - 1) * sizeof(*x));
	return 0;
}
