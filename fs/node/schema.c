/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TABLE/.schema: the whole schema as a text.  It is applied at flush, because
 * its end is not known before.  But bash ignores the result of close.  Therefore
 * a write that completes a value fails at once if no further text could make the
 * whole valid.
 */
#include "fs/base/access.h"
#include "fs/base/reply.h"
#include "fs/file/file.h"
#include "fs/node/schema_edit.h"
#include "fs/node/setting.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>

static int schema_exists(struct node *n)
{
	const struct tfs_schema *s;
	struct staged_attr staged;
	int err = tfs_schema_get(node_store_table(n), &s);

	if (err)
		return err;
	err = (s->is_set && !s->is_hidden) || ofile_pending(n, &staged) ? 0 : -ENOENT;
	tfs_schema_put(s);
	return err;
}

static int schema_attr(struct node *n, struct stat *st, double *timeout)
{
	const struct tfs_schema *s;
	struct staged_attr staged;
	int err = schema_exists(n);

	if (err == 0)
		err = tfs_schema_get(node_store_table(n), &s);
	if (err)
		return err;
	if (!ofile_pending(n, &staged))
		staged = (struct staged_attr){.size = s->text_size, .time_us = s->mtime_us};
	cell_attr(n, &(struct family_info){.mode = 0644, .uid = s->uid, .gid = s->gid}, staged.time_us, staged.time_us, staged.size,
		st);
	tfs_schema_put(s);
	return 0;
}

/* Mode and owner are the table's.  The call succeeds, because restores set both on every file. */
static int schema_set_owner(struct node *n, const struct stat *attr, int to_set, struct changes *c)
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
static int schema_set_time(struct node *n, int64_t us, struct changes *c)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_TIME, .mtime_us = us};
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
	return done ? 0 : fs_schema_edit(n, &e, c);
}

/* ---- content ---- */

static int schema_text(struct node *n, struct buf *out, int64_t *when)
{
	const struct tfs_schema *s;
	int err = schema_exists(n);

	if (err == 0)
		err = tfs_schema_get(node_store_table(n), &s);
	if (err == 0) {
		err = buf_append(out, s->text, s->text_size);
		tfs_schema_put(s);
	}
	return err;
}

static int schema_open(struct node *n, struct content *w, bool writable, bool truncate)
{
	w->holds = IMAGE_WHOLE;
	/* The kernel has checked the mode of a file that exists, but a user who may make rows may create it. */
	if (writable && !fs_owns_table(w->caller, n))
		return refuse(-EACCES, n, NULL, "only the owner of the table may change its schema");
	if (!truncate || !writable)
		return setting_load(n, w);
	content_begin_whole(w);
	return 0;
}

static int schema_apply(struct node *n, struct content *w, struct changes *c)
{
	struct tfs_bytes text;
	int err = w->error ? w->error : stage_bytes(&w->image, &text);

	return err ? err : fs_schema_replace_text(n, text, w->time, w->caller, c);
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

static int schema_commit(struct node *n, struct content *w, bool last, struct changes *c)
{
	int err;

	if (!node_lives(n) || w->error || !(w->staged == STAGED_BYTES || (last && w->staged == STAGED_CREATION)))
		return node_lives(n) ? w->error : 0;
	err = schema_apply(n, w, c);
	c->entries_first = true;
	w->committed = w->committed || err == 0;
	w->staged = STAGED_NOTHING;
	return err;
}

const struct node_ops schema_ops = {
	.traits = KIND_UNCACHED_RW,
	.fixed_name = ".schema",
	.attr = schema_attr,
	.set_owner = schema_set_owner,
	.set_time = schema_set_time,
	.exists = schema_exists,
	.make = resolved_make,
	.unlink = schema_unlink,
	.open = schema_open,
	.read = setting_read_staged,
	.text = schema_text,
	.written = schema_written,
	.commit = schema_commit,
	.apply = schema_apply,
};
