/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control files (setting.h). They are read and written in lines, so a text that
 * ends in a newline is complete.  The WRITE applies it, and the shell sees the
 * refusal of `echo x > gc`.  A text that does not end in a newline is applied
 * at flush.
 *
 * On a read-only mount the kernel sends no OPEN.  But every open(2) causes a
 * LOOKUP, which drops the cached text.  The text is rendered again at its next
 * use.  So all stats and READs until the next LOOKUP show the same text.  If
 * two processes read one file at the same time, the first may get the text of
 * the second.
 */
#include "fs/node/schema/setting.h"

#include "fs/base/access.h"
#include "fs/base/reply.h"
#include "fs/node/list.h"

#include <errno.h>

#define TEXT_MAX (1u << 20)

const struct setting *setting_of(const struct node *n)
{
	const struct setting *s = node_ops(n->parent)->settings;

	while (!setting_is(s, node_name(n)))
		s++;
	return s;
}

static int64_t setting_ts(struct node *dir, const struct setting *s);

int setting_list(struct lister *l, struct list_entry *e)
{
	const struct setting *s = &node_ops(l->dir)->settings[l->at.number];

	if (!s->name)
		return 0;
	l->at.number++;
	*e = (struct list_entry){.name = tfs_str(s->name),
		.kind = NODE_SETTING,
		.parent = l->dir,
		.key = tfs_str(s->name),
		.ts = setting_ts(l->dir, s)};
	return 1;
}

int setting_resolve(struct node *dir, const char *name, struct resolved *out)
{
	out->forbidden = true;
	return -ENOENT;
}

bool setting_too_large(struct content *w)
{
	if (w->image.size > TEXT_MAX)
		w->error = -EFBIG;
	return w->error == -EFBIG;
}

int setting_read_staged(struct descriptor *h, uint64_t offset, void *buf, size_t n, size_t *got)
{
	return content_read(&h->own, offset, buf, n, got);
}

/* ---- attributes ---- */

/* A control file exists as long as its directory. */
static int setting_exists(struct node *n)
{
	struct buf name = {0};
	int err = node_append_name(n->parent, &name);

	buf_fini(&name);
	return err;
}

/* On a read-only mount, the text is cached. */
static int setting_text(struct node *n, struct buf *out, int64_t *when)
{
	const struct setting *s = setting_of(n);
	uint64_t stamp = (uint64_t)fs_now_us();
	int err = setting_exists(n);

	if (err == 0 && !(fs.no_open && cache_get(&fs.control_texts, n, tfs_bytes_of(NULL, 0), &stamp, out))) {
		err = s->render ? s->render(n, out) : 0;
		if (err == 0 && fs.no_open)
			cache_put(&fs.control_texts, n, tfs_bytes_of(NULL, 0), stamp, out->p, out->n);
	}
	if (when)
		*when = (int64_t)stamp;
	return err;
}

static int setting_looked_up(struct node *n)
{
	if (fs.no_open)
		cache_remove(&fs.control_texts, n);
	return 0;
}

/*
 * A user who may not read the file has a node of its own, with ts 1, without size and
 * time.  The kernel keeps the attributes of an inode that it asked for last, and can
 * return them without asking (statx), so with one inode a user would see the
 * attributes that another user has asked for.
 */
static int64_t setting_ts(struct node *dir, const struct setting *s)
{
	const struct tfs_schema *schema;
	uid_t owner = fs.uid;

	if (s->mode & 0004 || fs_asker_uid() == 0)
		return 0;
	if (node_table(dir)) {
		if (tfs_schema_get(node_store_table(dir), &schema))
			return 1;
		owner = schema->uid;
		tfs_schema_put(schema);
	}
	return fs_asker_uid() != owner;
}

static int setting_find(struct node *dir, struct resolved *r, struct node **out)
{
	const struct setting *s = node_ops(dir)->settings;
	struct node *n;
	int err;

	while (!setting_is(s, (const char *)r->key.p))
		s++;
	r->parent = dir;
	r->ts = setting_ts(dir, s);
	err = resolved_get(r, &n);
	if (!err)
		err = setting_exists(n);
	if (!err)
		*out = n;
	else
		node_put(n);
	return err;
}

/*
 * The time of a file that can be written is the time of the last change of the
 * table's schema, or of the mount, because editors refuse to write a file whose
 * time has changed since they read it.  Other texts change at any time.  On a
 * read-only mount the settings change at any time, too, because their file
 * cannot be written: the kernel reads a text again only if its time or size
 * differs.
 */
static int setting_attr(struct node *n, struct stat *st, double *timeout)
{
	const struct setting *s = setting_of(n);
	struct family_info owner = {.mode = s->mode, .uid = fs.uid, .gid = fs.gid};
	const struct tfs_schema *schema;
	struct buf text = {0};
	int64_t when, changed = fs.started_us;
	int err;

	if (node_table(n)) {
		err = tfs_schema_get(node_store_table(n), &schema);
		if (err)
			return err;
		owner.uid = schema->uid;
		owner.gid = schema->gid;
		changed = schema->mtime_us;
		tfs_schema_put(schema);
	}
	if (n->ts) {
		when = fs.started_us;
		err = setting_exists(n);
	} else {
		err = setting_text(n, &text, &when);
		if (s->apply && (node_table(n) || !fs.no_open))
			when = changed;
	}
	if (err == 0)
		cell_attr(n, &owner, when, when, s->size ? s->size(n, text.n) : text.n, st);
	buf_fini(&text);
	return err;
}

static int setting_unlink(struct node *dir, struct resolved *r, struct changes *c)
{
	if (buf_u8(&r->key, 0)) /* the name becomes a string */
		return -ENOMEM;
	return refuse(-EPERM, dir, (const char *)r->key.p, "control files cannot be removed");
}

/* ---- content ---- */

int setting_load(struct node *n, struct content *w)
{
	struct buf text = {0};
	int err = node_ops(n)->text(n, &text, NULL);

	if (err == 0 && text.n)
		err = stage_load(&w->image, 0, text.p, text.n);
	buf_fini(&text);
	return err == -ENOENT ? -ESTALE : err;
}

static int setting_open(struct node *n, struct content *w, bool writable, bool truncate)
{
	w->holds = IMAGE_WHOLE;
	if (truncate && writable) {
		content_begin_whole(w);
		w->staged = STAGED_NOTHING; /* only truncated: there is nothing to apply */
	}
	/* A write replaces the setting; the log is rendered when it is read. */
	return writable || setting_of(n)->read ? 0 : setting_load(n, w);
}

static int setting_read(struct descriptor *h, uint64_t offset, void *buf, size_t n, size_t *got)
{
	const struct setting *s = setting_of(h->node);

	return s->read && !h->writable ? s->read(h, offset, buf, n, got) : setting_read_staged(h, offset, buf, n, got);
}

static int setting_apply(struct node *n, struct content *w, struct changes *c)
{
	const struct setting *s = setting_of(n);
	struct tfs_bytes text;
	int err = stage_bytes(&w->image, &text);

	fs.verbs++;
	if (err == 0)
		err = s->apply ? s->apply(n, text, w->caller, c) : refuse(-EACCES, n, NULL, "it can only be read");
	fs.verbs--;
	w->staged = STAGED_NOTHING;
	return err;
}

static int setting_written(struct node *n, struct content *w, uint64_t end, struct changes *c)
{
	struct tfs_bytes text;
	int err;

	if (setting_too_large(w))
		return w->error;
	err = stage_bytes(&w->image, &text);
	if (err || text.n == 0 || text.p[text.n - 1] != '\n')
		return err;
	err = setting_apply(n, w, c);
	if (err == 0)
		stage_reset(&w->image);
	else
		w->error = err;
	return err;
}

static int setting_commit(struct node *n, struct content *w, bool last, struct changes *c)
{
	return node_lives(n) && !w->error && w->staged == STAGED_BYTES ? setting_apply(n, w, c) : 0;
}

int setting_rename(struct renaming *m)
{
	return refuse(-EPERM, m->dir, m->name, "control names cannot be renamed");
}

const struct node_ops setting_ops = {
	.traits = KIND_UNCACHED,
	.attr = setting_attr,
	.looked_up = setting_looked_up,
	.find = setting_find,
	.unlink = setting_unlink,
	.rename = setting_rename,
	.open = setting_open,
	.read = setting_read,
	.text = setting_text,
	.written = setting_written,
	.commit = setting_commit,
};
