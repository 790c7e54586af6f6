/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TABLE/.schema: the whole schema as a text.  It is applied at close, because
 * its end is not known before; but a write after which the text can no longer
 * become legal fails, because bash ignores the result of close.
 */
#include "fs/base/reply.h"
#include "fs/file/file.h"
#include "fs/node/schema_edit.h"
#include "fs/node/setting.h"

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

static int schema_find(struct node *dir, struct resolved *r, struct node **out)
{
	struct node *n = node_get(dir, NODE_SCHEMA, buf_slice(&r->key), 0);
	int err = n ? schema_exists(n) : -ENOMEM;

	if (err)
		node_put(n);
	else
		*out = n;
	return err;
}

static int schema_attr(struct node *n, struct stat *st, double *timeout)
{
	const struct tfs_schema *s;
	struct staged_attr staged;
	int err = tfs_schema_get(node_store_table(n), &s);

	if (err)
		return err;
	setting_stat(n, S_IFREG | 0644, s->uid, s->gid, st);
	stat_time(&st->st_mtim, s->mtime_us);
	st->st_size = (off_t)s->text_size;
	if (ofile_pending(n, &staged)) {
		st->st_size = (off_t)staged.size;
		stat_time(&st->st_mtim, staged.time_us);
	} else if (!s->is_set || s->is_hidden) {
		err = -ENOENT;
	}
	tfs_schema_put(s);
	st->st_blocks = (st->st_size + 511) / 512;
	st->st_atim = st->st_ctim = st->st_mtim;
	return err;
}

/* They are the table's.  The call succeeds, because restores set both on every file. */
static int schema_set_owner(struct node *n, const struct stat *attr, int to_set, struct changes *c)
{
	return 0;
}

static int schema_unlink(struct node *dir, struct resolved *r, struct changes *c)
{
	struct tfs_schema_edit e = {
		.op = TFS_SCHEMA_HIDE, .flag = true, .uid = (uid_t)-1, .gid = (gid_t)-1, .mtime_us = TFS_NO_TIME};
	struct node *n;
	int err = schema_find(dir, r, &n);

	if (err)
		return err;
	err = fs_schema_edit(n, &e, c);
	if (err == 0) {
		/* Open descriptors write nothing more. */
		mutex_lock(tree_mutex());
		node_end_locked(n);
		mutex_unlock(tree_mutex());
	}
	node_put(n);
	return err;
}

/* The time is that of the bytes written through open descriptors, if there are any. */
static int schema_set_time(struct node *n, int64_t us, struct changes *c)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_TIME, .mtime_us = us, .uid = (uid_t)-1, .gid = (gid_t)-1};
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

static int schema_text(struct node *n, struct buf *out)
{
	const struct tfs_schema *s;
	int err = tfs_schema_get(node_store_table(n), &s);

	if (err == 0) {
		err = buf_append(out, s->text, s->text_size);
		tfs_schema_put(s);
	}
	return err;
}

static int schema_open(struct node *n, struct content *w, bool writable, bool truncate)
{
	struct buf text = {0};
	int err;

	w->holds = IMAGE_WHOLE;
	if (truncate && writable) {
		content_begin_whole(w);
		return 0;
	}
	err = schema_exists(n);
	if (err == 0)
		err = schema_text(n, &text);
	if (err == 0 && text.n)
		err = stage_load(&w->image, 0, text.p, text.n);
	buf_fini(&text);
	return err == -ENOENT ? -ESTALE : err;
}

static int schema_read_unopened(struct node *n, uint64_t offset, void *buf, size_t size, size_t *got)
{
	struct buf text = {0};
	int err = schema_text(n, &text);

	if (err == 0)
		*got = setting_copy(buf_slice(&text), offset, buf, size);
	buf_fini(&text);
	return err == -ENOENT ? -ESTALE : err;
}

static int schema_apply(struct node *n, struct content *w, struct changes *c)
{
	struct slice text;
	int err = w->error ? w->error : stage_bytes(&w->image, &text);

	return err ? err : fs_schema_replace_text(n, text, w->time, w->caller, c);
}

/*
 * Checks the lines written so far, if the text is written from its start, in
 * order; otherwise later writes may replace a wrong line.
 */
static int schema_written(struct node *n, struct content *w, uint64_t end, struct changes *c)
{
	const uint8_t *last;
	struct slice text;
	char *why = NULL;
	int err;

	if (setting_too_large(w))
		return w->error;
	w->origin = w->image.size != end ? UINT64_MAX : w->origin;
	if (w->origin == UINT64_MAX)
		return 0;
	err = stage_bytes(&w->image, &text);
	last = err == 0 && text.n ? memrchr(text.p, '\n', text.n) : NULL;
	if (!last || (size_t)(last + 1 - text.p) <= w->origin)
		return err;
	w->origin = (size_t)(last + 1 - text.p);
	err = tfs_schema_text_begins(node_store_table(n), bytes_of(slice_of(text.p, w->origin)), &why);
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
	.find = schema_find,
	.make = resolved_make,
	.unlink = schema_unlink,
	.open = schema_open,
	.read = setting_read_staged,
	.read_unopened = schema_read_unopened,
	.written = schema_written,
	.commit = schema_commit,
	.apply = schema_apply,
};
