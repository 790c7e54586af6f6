/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts of a table, in the order of their names. */
#include <errno.h>
#include <stdlib.h>

#include "t/model/model_types.h"

bool tfs_script_name_valid(const char *name)
{
	size_t n = 0;

	for (; name[n]; n++)
		if (!strchr("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-", name[n]))
			return false;
	return n >= 1 && n <= 64;
}

const struct tfs_script *tfs_schema_script(const struct tfs_schema *s, const char *name)
{
	for (unsigned i = 0; i < s->script_count; i++)
		if (strcmp(s->scripts[i].name, name) == 0)
			return &s->scripts[i];
	return NULL;
}

static void free_script(struct tfs_script *x)
{
	free((void *)(uintptr_t)x->name);
	free((void *)(uintptr_t)x->text.p);
}

void mdl_scripts_free(struct mdl_schema *s)
{
	for (unsigned i = 0; i < s->pub.script_count; i++)
		free_script(&s->script[i]);
	free(s->script);
}

static int name_order(const void *a, const void *b)
{
	return strcmp(((const struct tfs_script *)a)->name, ((const struct tfs_script *)b)->name);
}

static int add(struct mdl_schema *s, const char *name, struct tfs_bytes text, int64_t mtime_us)
{
	struct tfs_script x = {.name = strdup(name), .mtime_us = mtime_us}, *grown;
	void *copy = malloc(text.n + 1);

	grown = reallocarray(s->script, s->pub.script_count + 1, sizeof(x));
	if (grown)
		s->script = grown;
	if (!grown || !x.name || !copy) {
		free(copy);
		free((void *)(uintptr_t)x.name);
		return -ENOMEM;
	}
	if (text.n)
		memcpy(copy, text.p, text.n);
	x.text = tfs_bytes_of(copy, text.n);
	s->script[s->pub.script_count++] = x;
	qsort(s->script, s->pub.script_count, sizeof(x), name_order);
	s->pub.scripts = s->script;
	return 0;
}

int mdl_scripts_copy(struct mdl_schema *to, const struct mdl_schema *from)
{
	int r = 0;

	for (unsigned i = 0; i < from->pub.script_count && r == 0; i++)
		r = add(to, from->script[i].name, from->script[i].text, from->script[i].mtime_us);
	return r;
}

static void drop(struct mdl_schema *s, struct tfs_script *x)
{
	free_script(x);
	*x = s->script[--s->pub.script_count];
	if (s->pub.script_count)
		qsort(s->script, s->pub.script_count, sizeof(*x), name_order);
}

int mdl_script_edit(struct mdl_schema *s, const struct tfs_schema_edit *e, int64_t now, char **why)
{
	struct tfs_script *old = e->name ? (struct tfs_script *)(uintptr_t)tfs_schema_script(&s->pub, e->name) : NULL;
	const int64_t mtime_us = e->mtime_us == TFS_NO_TIME ? now : e->mtime_us;
	size_t bytes = 0;
	int r;

	if (e->op != TFS_SCHEMA_SCRIPT_SET) {
		if (old && e->op == TFS_SCHEMA_SCRIPT_TIME)
			old->mtime_us = mtime_us;
		else if (old)
			drop(s, old);
		return old ? 1 : -ENOENT;
	}
	for (unsigned i = 0; i < s->pub.script_count; i++)
		bytes += &s->script[i] == old ? 0 : s->script[i].text.n;
	if (!e->name || !tfs_script_name_valid(e->name) || e->text.n > 65536 || bytes + e->text.n > 4 * 65536 ||
		(!old && s->pub.script_count == 64)) {
		mdl_why(why, "%s: a script is not valid, there are more than 64, or they have more than 256 KiB",
			e->name ? e->name : "");
		return -EINVAL;
	}
	if (old)
		drop(s, old);
	r = add(s, e->name, e->text, mtime_us);
	return r ? r : 1;
}

int tfs_script_set(struct tfs_table *t, const char *name, struct tfs_bytes text, char **why)
{
	const struct tfs_schema_edit e = {
		.op = text.p ? TFS_SCHEMA_SCRIPT_SET : TFS_SCHEMA_SCRIPT_DROP, .name = name, .text = text, .mtime_us = TFS_NO_TIME};

	return tfs_schema_change(t, &e, why);
}

/* The model has no Lua: each text is a script, and none runs. */
int tfs_script_check(struct tfs_table *t, const struct tfs_script *script, char **why)
{
	return 0;
}

int tfs_run_new(struct tfs_table *t, const struct tfs_script *script, const struct tfs_arguments *args,
	const struct tfs_scan_spec *spec, struct tfs_run **out)
{
	return -EOPNOTSUPP;
}

int tfs_run_next(struct tfs_run *r, struct tfs_output *out)
{
	return 0;
}

const char *tfs_run_error(const struct tfs_run *r)
{
	return "";
}

void tfs_run_free(struct tfs_run *r)
{
}
