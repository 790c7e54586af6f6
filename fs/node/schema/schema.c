/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TABLE/.schema: the whole schema as a text; and TABLE/.scripts/NAME.lua: the texts
 * of the table's scripts, which the schema has, too.  A text is applied at flush,
 * because its end is not known before.  But bash ignores the result of close.
 * Therefore a write to .schema that completes a value fails at once if no further
 * text could make the whole valid.
 */
#include "engine/base/hash.h"
#include "engine/base/stop.h"
#include "fs/base/access.h"
#include "fs/base/reply.h"
#include "fs/file/file.h"
#include "fs/node/kinds.h"
#include "fs/node/list.h"
#include "fs/node/schema/schema_edit.h"
#include "fs/node/scratch/scratch.h"
#include "fs/node/schema/setting.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define SUFFIX ".lua"
#define SUFFIX_BYTES 4

/* The name of a script's node without .lua. */
static const char *script_name(const struct node *n, char name[TFS_SCRIPT_NAME_MAX + 1])
{
	snprintf(name, TFS_SCRIPT_NAME_MAX + 1, "%s", node_name(n));
	name[n->key_n - SUFFIX_BYTES] = 0;
	return name;
}

/*
 * The text of n and its time in the schema.  Returns false if it has none.  A schema that was never set
 * has a text, as rendered, so that a line can be appended to it.  Its time is 0, because copies that keep a
 * newer file must replace it.
 */
static bool find_text(const struct node *n, const struct tfs_schema *s, struct tfs_bytes *text, int64_t *mtime_us)
{
	char name[TFS_SCRIPT_NAME_MAX + 1];
	const struct tfs_script *script;

	if (n->kind == NODE_SCHEMA) {
		*text = tfs_bytes_of(s->text, s->text_size);
		*mtime_us = s->is_set ? s->mtime_us : 0;
		return !s->is_hidden;
	}
	script = tfs_schema_script(s, script_name(n, name));
	if (script) {
		*text = script->text;
		*mtime_us = script->mtime_us;
	}
	return script != NULL;
}

static int text_exists(struct node *n)
{
	const struct tfs_schema *s;
	struct staged_attr staged;
	struct tfs_bytes text;
	int64_t mtime_us;
	int err = tfs_schema_get(node_store_table(n), &s);

	if (err)
		return err;
	err = find_text(n, s, &text, &mtime_us) || ofile_pending(n, &staged) ? 0 : -ENOENT;
	tfs_schema_put(s);
	return err;
}

static int text_attr(struct node *n, struct stat *st, double *timeout)
{
	const struct tfs_schema *s;
	struct staged_attr staged;
	struct tfs_bytes text;
	int64_t mtime_us;
	int err = tfs_schema_get(node_store_table(n), &s);

	if (err)
		return err;
	if (ofile_pending(n, &staged))
		;
	else if (find_text(n, s, &text, &mtime_us))
		staged = (struct staged_attr){.size = text.n, .time_us = mtime_us};
	else
		err = -ENOENT;
	if (!err)
		cell_attr(n, &(struct family_info){.mode = 0644, .uid = s->uid, .gid = s->gid}, staged.time_us, staged.time_us,
			staged.size, st);
	tfs_schema_put(s);
	return err;
}

/* Mode and owner are the table's.  The call succeeds, because restores set both on every file. */
static int text_set_owner(struct node *n, const struct stat *attr, int to_set, struct changes *c)
{
	return 0;
}

static int schema_unlink(struct node *dir, struct resolved *r, struct changes *c)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_HIDE, .flag = true};
	struct node *n;
	int err = tree_find_resolved(dir, r, &n);

	if (err)
		return err;
	err = fs_schema_edit(n, &e, c);
	if (err == 0)
		node_end(n); /* open descriptors write nothing more */
	node_put(n);
	return err;
}

/* The time is when bytes were written through open descriptors, if there are any. */
static int text_set_time(struct node *n, int64_t us, struct changes *c)
{
	char name[TFS_SCRIPT_NAME_MAX + 1];
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_TIME, .mtime_us = us, .explicit_act = n->kind == NODE_SCHEMA};
	struct open_file *x = open_file_find(n);
	bool done = false;

	if (x) {
		mutex_lock(&x->lock);
		for (struct descriptor *h = x->descriptors; h; h = h->next) {
			if (!h->writable)
				continue;
			h->own.time = us;
			done = done || content_is_staged(&h->own);
		}
		mutex_unlock(&x->lock);
		open_file_put(x);
	}
	if (n->kind == NODE_SCRIPT) {
		e.op = TFS_SCHEMA_SCRIPT_TIME;
		e.name = script_name(n, name);
	}
	return done ? 0 : fs_schema_edit(n, &e, c);
}

/* ---- content ---- */

static int text_read(struct node *n, struct buf *out, int64_t *when)
{
	const struct tfs_schema *s;
	struct tfs_bytes text;
	int64_t mtime_us;
	int err = tfs_schema_get(node_store_table(n), &s);

	if (err)
		return err;
	/* A file that was created has no text yet. */
	err = find_text(n, s, &text, &mtime_us) ? buf_append_bytes(out, text) : text_exists(n);
	tfs_schema_put(s);
	return err;
}

/* The image is the text that the schema has.  Bytes that follow it are appended. */
static int note_base(struct content *w)
{
	struct tfs_bytes text;
	int err = stage_bytes(&w->image, &text);

	if (err)
		return err;
	w->base_size = text.n;
	w->base_hash = hash_private(0, text);
	return 0;
}

static int text_open(struct node *n, struct content *w, bool writable, bool truncate)
{
	w->holds = IMAGE_WHOLE;
	/* The kernel has checked the mode of a file that exists, but a user who may make rows may create .schema. */
	if (writable && !fs_owns_table(w->caller, n))
		return refuse(-EACCES, n, NULL, "only the owner of the table may change its schema and scripts");
	if (!truncate || !writable) {
		int err = setting_load(n, w);

		return err ? err : note_base(w);
	}
	content_begin_whole(w);
	return 0;
}

/*
 * Appended lines are added to the text that the schema has when they are applied.  So two writers who
 * append keep each other's lines, and a family that was made meanwhile stays.
 */
static int schema_apply(struct node *n, struct content *w, struct changes *c)
{
	struct tfs_bytes text;
	int err = w->error ? w->error : stage_bytes(&w->image, &text);

	if (err)
		return err;
	if (w->base_size && text.n > w->base_size && hash_private(0, tfs_bytes_of(text.p, w->base_size)) == w->base_hash)
		err = fs_schema_append_text(n, tfs_bytes_of(text.p + w->base_size, text.n - w->base_size), w->time, w->caller, c);
	else
		err = fs_schema_replace_text(n, text, w->time, w->caller, c);
	return err || !w->base_size ? err : note_base(w);
}

/*
 * cp -a creates a table and then, exclusively, its files.  The kernel does not state at LOOKUP whether a creation
 * follows.  So for the thread that has made the table, .schema does not exist until the schema is set.
 */
static int schema_looked_up(struct node *n)
{
	const struct dirx *table = n->parent->dir;

	return table && table->made_by && table->made_by == fs_asker_thread() && fs_schema_is_unset(n) ? -ENOENT : 0;
}

static bool completes_value(struct tfs_bytes text)
{
	size_t i = 0;

	while (i < text.n && (!text.p[i] || !strchr("\n;,)}", text.p[i])))
		i++;
	return i < text.n;
}

/*
 * Checks the values written so far if the text is written in order from its
 * start.  Otherwise a later write may replace a wrong value.
 */
static int schema_written(struct node *n, struct content *w, uint64_t end, struct changes *c)
{
	struct tfs_bytes text, more;
	char *why = NULL;
	int err;

	if (setting_too_large(w))
		return w->error;
	w->origin = w->image.size != end ? UINT64_MAX : w->origin;
	if (w->origin == UINT64_MAX)
		return 0;
	err = stage_bytes(&w->image, &text);
	if (err || text.n <= w->origin)
		return err;
	more = tfs_bytes_of(text.p + w->origin, text.n - w->origin);
	w->origin = text.n;
	if (!completes_value(more))
		return 0;
	err = tfs_schema_text_begins(node_store_table(n), text, &why);
	if (err == -EINVAL)
		err = w->error = refuse(err, n, NULL, "%s", why ? why : "no legal schema");
	free(why);
	return err;
}

static int text_commit(struct node *n, struct content *w, bool last, struct changes *c)
{
	int err;

	if (!node_lives(n) || w->error || !(w->staged == STAGED_BYTES || (last && w->staged == STAGED_CREATION)))
		return node_lives(n) ? w->error : 0;
	err = node_ops(n)->apply(n, w, c);
	c->entries_first = true;
	w->committed = w->committed || err == 0;
	w->staged = STAGED_NOTHING;
	return err;
}

#define TEXT_OPS                                                                                                                   \
	.traits = KIND_UNCACHED_RW, .attr = text_attr, .set_owner = text_set_owner, .set_time = text_set_time,                     \
	.exists = text_exists, .make = resolved_make, .open = text_open, .read = setting_read_staged, .text = text_read,           \
	.commit = text_commit
const struct node_ops schema_ops = {TEXT_OPS, .fixed_name = ".schema", .looked_up = schema_looked_up, .unlink = schema_unlink,
	.written = schema_written, .apply = schema_apply};

/* ---- scripts ---- */

static int script_unlink(struct node *dir, struct resolved *r, struct changes *c)
{
	char name[TFS_SCRIPT_NAME_MAX + 1];
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_SCRIPT_DROP};
	struct staged_attr staged;
	struct node *n;
	int err = tree_find_resolved(dir, r, &n);

	if (err)
		return err;
	e.name = script_name(n, name);
	err = fs_schema_edit(n, &e, c);
	if (err == -ENOENT && ofile_pending(n, &staged))
		err = 0; /* the script is created and not stored */
	if (err == 0)
		node_end(n);
	node_put(n);
	return err;
}

/* Runs the declarations of the script, on behalf of the user who writes it. */
static int script_check(struct node *n, const struct caller *caller, const struct tfs_script *script, char **why)
{
	struct tfs_table *t;
	int err = fs_table_as_caller(caller, n, &t);

	if (err)
		return err;
	stop_set(fs_is_interrupted, NULL);
	err = tfs_script_check(t, script, why);
	stop_set(NULL, NULL);
	tfs_table_close(t);
	return err;
}

static int script_apply(struct node *n, struct content *w, struct changes *c)
{
	char name[TFS_SCRIPT_NAME_MAX + 1];
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_SCRIPT_SET, .name = script_name(n, name), .mtime_us = w->time};
	int err = w->error ? w->error : stage_bytes(&w->image, &e.text);
	char *why = NULL;

	if (!err) {
		const struct tfs_script script = {.name = e.name, .text = e.text};

		err = script_check(n, w->caller, &script, &why);
		err = err && why && *why ? refuse(err, n, NULL, "%s", why) : err;
		free(why);
	}
	return err ? err : fs_schema_edit_as(n, &e, w->caller, c);
}

/*
 * Refuses a text whose whole lines no continuation makes a script, so that a shell sees the error, which does not look
 * at close(2).  Lua names the token at which a syntax error is, which is <eof> if more text may follow.
 */
static int script_begins(struct node *n, struct content *w)
{
	char name[TFS_SCRIPT_NAME_MAX + 1], *why = NULL;
	struct tfs_script script = {.name = script_name(n, name)};
	int err = stage_bytes(&w->image, &script.text);

	while (script.text.n && script.text.p[script.text.n - 1] != '\n')
		script.text.n--;
	if (!err && script.text.n)
		err = script_check(n, w->caller, &script, &why);
	if (err == -EINVAL && why && strstr(why, " near ") && !strstr(why, "<eof>"))
		err = refuse(err, n, NULL, "%s", why);
	else if (err != -E2BIG)
		err = 0; /* the close decides */
	free(why);
	return err;
}

static int script_written(struct node *n, struct content *w, uint64_t end, struct changes *c)
{
	if (w->image.size > TFS_SCRIPT_MAX)
		w->error = refuse(-EFBIG, n, NULL, "a script has at most 64 KiB");
	else if (!w->error)
		w->error = script_begins(n, w);
	return w->error;
}

const struct node_ops script_ops = {TEXT_OPS, .unlink = script_unlink, .written = script_written, .apply = script_apply};

/* ---- .scripts ---- */

static bool ends_with(const char *name, const char *end)
{
	const size_t n = strlen(name), m = strlen(end);

	return n >= m && strcmp(name + n - m, end) == 0;
}

/* Names that rsync and editors make beside a file: .NAME.lua.AbCdEf and .NAME.lua.swp, NAME.lua~, #NAME.lua#, and of sed -i sedAbCdEf. */
static bool is_scratch_name(const char *name)
{
	return (name[0] == '.' && !ends_with(name, SUFFIX)) || ends_with(name, "~") || (name[0] == '#' && ends_with(name, "#")) ||
		scratch_is_of_sed(name);
}

static int scripts_resolve(struct node *dir, const char *name, struct resolved *out)
{
	char text[TFS_SCRIPT_NAME_MAX + SUFFIX_BYTES + 1];
	const size_t n = strlen(name);

	if (is_scratch_name(name))
		return scratch_resolve_name(dir, name, out);
	if (n >= sizeof(text) || !ends_with(name, SUFFIX))
		return -ENOENT;
	memcpy(text, name, n + 1);
	text[n - SUFFIX_BYTES] = 0;
	if (!tfs_script_name_valid(text))
		return -ENOENT;
	out->kind = NODE_SCRIPT;
	return buf_set(&out->key, name, n);
}

static int list_texts(struct lister *l, struct list_entry *e)
{
	for (unsigned i = 0; i < l->schema->script_count; i++) {
		const struct tfs_bytes name = tfs_str(l->schema->scripts[i].name);

		if (bytes_cmp(name, buf_bytes(&l->at.key)) <= 0)
			continue;
		if (buf_set(&l->at.key, name.p, name.n) || buf_set(&l->name, name.p, name.n) ||
			buf_append(&l->name, SUFFIX, SUFFIX_BYTES))
			return -ENOMEM;
		*e = (struct list_entry){
			.name = buf_bytes(&l->name), .kind = NODE_SCRIPT, .parent = l->dir, .key = buf_bytes(&l->name)};
		return 1;
	}
	return 0;
}

/* The directory is always there, but rm -r removes it with the table. */
static int scripts_rmdir(struct node *n, const char *name, struct changes *c)
{
	const struct tfs_schema *s;
	int err = tfs_schema_get(node_store_table(n), &s);

	if (err)
		return err;
	err = s->script_count ? -ENOTEMPTY : 0;
	tfs_schema_put(s);
	if (err == 0)
		node_end(n);
	return err;
}

const struct node_ops scripts_ops = {
	.traits = KIND_DIR | KIND_UNCACHED,
	.fixed_name = ".scripts",
	.attr = tree_owners_attr,
	.set_owner = text_set_owner,
	.names = "a script is NAME.lua, and NAME matches [A-Za-z0-9_-]{1,64}",
	.resolve = scripts_resolve,
	.list = (const list_phase_fn[]){list_texts, list_extras, NULL},
	.rmdir = scripts_rmdir,
	.rename = setting_rename,
};
