/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings are one line each, so a write that ends in a newline is complete
 * and is applied in the write itself: `echo x > gc` then fails where a shell
 * looks.  What has no newline is applied at flush.  .schema cannot know its
 * end before close, so it is applied there.
 *
 * A change of the schema may change modes, owners and what rules hide, for
 * any cell of the table: every node of it that the kernel knows is
 * invalidated, and remembered sizes are forgotten.  A family that is renamed
 * changes its name in every row: its nodes stay what they are, with whatever
 * is open below them, and the entries of the old name go.
 */
#include "fs/node/control.h"

#include "engine/base/msg.h"
#include "fs/node/admin.h"
#include "fs/node/rendered.h"
#include "fs/base/reply.h"
#include "fs/node/scratch.h"
#include "fs/file/stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const family_settings[] = {"gc", "group", "type", "usage", NULL};
static const char *const group_settings[] = {"block_size", "bloom_bits", "compression", "in_memory", "level", NULL};
static const char *const system_files[] = {"ctl", "log", "metrics", "servers", "status", "version", NULL};
static const char *const none[] = {NULL};
static struct mutex schema_lock; /* RANK_FS_SCHEMA */

void control_init(void)
{
	mutex_init(&schema_lock, RANK_FS_SCHEMA);
	rendered_init();
}

void control_fini(void)
{
	rendered_fini();
	mutex_fini(&schema_lock);
}

const char *const *control_names(enum node_kind dir)
{
	return dir == NODE_FAMILY_DIR   ? family_settings
		: dir == NODE_GROUP_DIR ? group_settings
		: dir == NODE_SYSTEM    ? system_files
					: none;
}

bool control_reserved(const struct node *dir, const char *name)
{
	static const char *const of_table[] = {".scan", ".snap", ".import", ".import.tar", ".export", ".export.tar", ".changes",
		".splits", ".run", ".scripts", ".since", NULL};
	static const char *const of_row[] = {".row.json", ".mutate", NULL}, *const of_root[] = {".snap", NULL};
	const char *const *p = dir->kind == NODE_TABLE ? of_table
		: dir->kind == NODE_ROW                ? of_row
		: dir->kind == NODE_ROOT               ? of_root
						       : none;

	while (*p && strcmp(*p, name) != 0)
		p++;
	return *p != NULL;
}

static bool named(const struct node *n, const char *name)
{
	return strcmp(node_name(n), name) == 0;
}

bool control_name(struct node *n, char *dst)
{
	const char *name = NULL;
	const struct tfs_family *f;
	const struct tfs_group *g;
	const struct tfs_schema *s;

	if (tfs_schema_get(node_store_table(n), &s))
		return false;
	if (n->kind == NODE_GROUP_DIR)
		name = (g = tfs_schema_group(s, node_name(n))) ? g->name : NULL;
	else
		name = (f = tfs_schema_family(s, node_name(n))) ? f->name : NULL;
	if (name)
		strcpy(dst, name); /* fits: it is a legal name */
	tfs_schema_put(s);
	return name != NULL;
}

static int render_family(const struct node *n, struct tfs_table *t, const struct tfs_schema *s, struct buf *out)
{
	const struct tfs_family *f = tfs_schema_family(s, node_name(n->parent));
	struct tfs_usage u;
	int r;

	if (!f)
		return -ENOENT;
	if (named(n, "gc"))
		return buf_printf(out, "%s\n", f->gc);
	if (named(n, "group"))
		return buf_printf(out, "%s\n", f->group);
	if (named(n, "type"))
		return buf_printf(out, "%s\n", f->type == TFS_TYPE_COUNTER ? "counter" : "bytes");
	r = tfs_usage(t, node_name(n->parent), &u); /* by its id: it may get another name just now */
	if (r)
		return r;
	return buf_printf(out, "name value\ndisk_bytes %llu\nraw_bytes %llu\nmemory_bytes %llu\ncells %llu\ntombstones %llu\n",
		(unsigned long long)u.disk_bytes, (unsigned long long)u.raw_bytes, (unsigned long long)u.memory_bytes,
		(unsigned long long)u.cells, (unsigned long long)u.tombstones);
}

static int render_group(const struct node *n, const struct tfs_schema *s, struct buf *out)
{
	const struct tfs_group *g = tfs_schema_group(s, node_name(n->parent));

	if (!g)
		return -ENOENT;
	if (named(n, "compression"))
		return buf_printf(out, "%s\n", g->compression);
	if (named(n, "level"))
		return buf_printf(out, "%d\n", g->level);
	if (named(n, "bloom_bits"))
		return buf_printf(out, "%d\n", g->bloom_bits);
	if (named(n, "in_memory"))
		return buf_printf(out, "%s\n", g->in_memory ? "true" : "false");
	if (g->block_size % 1024 == 0)
		return buf_printf(out, "%uK\n", g->block_size / 1024);
	return buf_printf(out, "%u\n", g->block_size);
}

int control_render(struct node *n, struct buf *out)
{
	const struct tfs_schema *s;
	struct tfs_table *t;
	int r;

	if (n->parent->kind == NODE_SYSTEM)
		return admin_render_system(n, out);
	t = node_store_table(n);
	if (n->parent->kind == NODE_TABLE && n->kind == NODE_SETTING)
		return named(n, ".tablets") ? admin_render_tablets(t, out) : 0;
	r = tfs_schema_get(t, &s);
	if (r)
		return r;
	if (n->kind == NODE_SCHEMA)
		r = buf_append(out, s->text, s->text_size);
	else if (n->parent->kind == NODE_FAMILY_DIR)
		r = render_family(n, t, s, out);
	else
		r = render_group(n, s, out);
	tfs_schema_put(s);
	return r;
}

int control_exists(struct node *n)
{
	struct node *table = node_table(n);
	const struct tfs_schema *s;
	const char *name = NULL;
	int r;

	if (!table)
		return 0;
	r = tfs_schema_get(node_store_table(n), &s);
	if (r)
		return r;
	if (n->kind == NODE_FAMILY_DIR || n->parent->kind == NODE_FAMILY_DIR) {
		name = node_name(n->kind == NODE_FAMILY_DIR ? n : n->parent);
		r = tfs_schema_family(s, name) ? 0 : -ENOENT;
	} else if (n->kind == NODE_GROUP_DIR || n->parent->kind == NODE_GROUP_DIR) {
		name = node_name(n->kind == NODE_GROUP_DIR ? n : n->parent);
		r = tfs_schema_group(s, name) ? 0 : -ENOENT;
	} else if (n->kind == NODE_SCHEMA) {
		struct staged w;

		r = (s->is_set && !s->is_hidden) || ofile_pending(n, &w) ? 0 : -ENOENT;
	}
	tfs_schema_put(s);
	return r;
}

/* Is there no OPEN that would make a rendering?  (.schema does not change while nobody writes.) */
static bool keeps_rendering(const struct node *n)
{
	return fs.no_open && n->kind == NODE_SETTING;
}

static int render_and_keep(struct node *n, uint64_t *size)
{
	struct buf text = {0};
	int r = control_render(n, &text);

	*size = text.n;
	if (r == 0 && keeps_rendering(n))
		rendered_keep(n->ino, &text, fs_now_us());
	buf_fini(&text);
	return r;
}

void control_looked_up(const struct node *n)
{
	if (keeps_rendering(n))
		rendered_drop(n->ino);
}

bool control_is_log(const struct node *n)
{
	return n->kind == NODE_SETTING && n->parent->kind == NODE_SYSTEM && named(n, "log");
}

/* Past the end: the lines that have come since.  Before the image, by a reader that went back: all lines that are kept. */
int control_read_log(struct handle *h, uint64_t offset, void *buf, size_t n, size_t *got)
{
	struct writer *w = &h->w;
	uint64_t end = w->origin + w->image.size;
	bool all = offset < w->origin || end == 0;
	struct buf lines = {0};
	int r = 0;

	if (all || offset >= end)
		r = msg_ring_after(&h->w.seen, all, &lines);
	if (r == 0 && (all || lines.n)) {
		stage_reset(&w->image);
		w->origin = all ? 0 : end;
		r = stage_load(&w->image, 0, lines.p, lines.n);
	}
	buf_fini(&lines);
	return r ? r : writer_read(w, offset - w->origin, buf, n, got);
}

/* tail -f reads by sizes: to a descriptor that has read the log, it ends where the lines end that this one has not had yet. */
static uint64_t log_size(struct node *n, uint64_t size)
{
	struct filex *x = filex_find(n);

	if (!x)
		return size;
	mutex_lock(&x->lock);
	for (const struct handle *h = x->handles; h; h = h->next) {
		uint64_t end = h->w.origin + h->w.image.size;
		uint32_t seen = h->w.seen;
		struct buf news = {0};

		if (end && msg_ring_after(&seen, false, &news) == 0 && end + news.n > size)
			size = end + news.n;
		buf_fini(&news);
	}
	mutex_unlock(&x->lock);
	filex_put(x);
	return size;
}

int control_attr(struct node *n, struct stat *st)
{
	const struct tfs_schema *s;
	struct staged w;
	uint64_t size;
	int64_t when;
	int r;

	memset(st, 0, sizeof(*st));
	st->st_ino = n->ino;
	st->st_nlink = 1;
	st->st_blksize = 4096;
	st->st_uid = fs.uid;
	st->st_gid = fs.gid;
	st->st_mode = S_IFREG | 0444;
	if (named(n, "ctl") || named(n, ".ctl"))
		st->st_mode = S_IFREG | 0600;
	else if (control_is_log(n) || named(n, "metrics") || named(n, "usage") || named(n, ".tablets"))
		st->st_mode = S_IFREG | 0400; /* they name tables and rows, or tell of families, that others may not list */
	stat_time(&st->st_mtim, fs_now_us());
	if (node_table(n)) {
		r = tfs_schema_get(node_store_table(n), &s);
		if (r)
			return r;
		st->st_uid = s->uid;
		st->st_gid = s->gid;
		if (n->kind == NODE_SCHEMA) {
			st->st_mode = S_IFREG | 0644;
			stat_time(&st->st_mtim, s->mtime_us);
		} else if (n->parent->kind != NODE_TABLE && !named(n, "usage")) {
			st->st_mode = S_IFREG | 0644;
		}
		tfs_schema_put(s);
	}
	if (n->kind == NODE_SCHEMA && ofile_pending(n, &w)) {
		st->st_size = (off_t)w.size;
		stat_time(&st->st_mtim, w.time_us);
	} else {
		r = control_exists(n);
		if (r == 0 && keeps_rendering(n) && rendered_stat(n->ino, &size, &when))
			stat_time(&st->st_mtim, when);
		else if (r == 0)
			r = render_and_keep(n, &size);
		if (r)
			return r;
		st->st_size = (off_t)(control_is_log(n) ? log_size(n, size) : size);
	}
	st->st_blocks = (st->st_size + 511) / 512;
	st->st_atim = st->st_ctim = st->st_mtim;
	return 0;
}

int control_open(struct node *n, struct writer *w, bool writable, bool truncate)
{
	struct buf text = {0};
	int r = 0;

	w->holds = IMAGE_WHOLE;
	if (truncate && writable) {
		writer_begin_whole(w);
		/* A setting that was only truncated means nothing; a schema may be empty. */
		if (n->kind != NODE_SCHEMA)
			w->staged = STAGED_NOTHING;
		return 0;
	}
	/* A setting is replaced by what is written, not edited; the log is rendered as it is read. */
	if ((writable && n->kind != NODE_SCHEMA) || control_is_log(n))
		return 0;
	r = control_exists(n);
	if (r == 0)
		r = control_render(n, &text);
	if (r == 0 && text.n)
		r = stage_load(&w->image, 0, text.p, text.n);
	buf_fini(&text);
	return r == -ENOENT ? -ESTALE : r;
}

int control_read(struct node *n, uint64_t offset, void *buf, size_t size, size_t *got)
{
	struct buf text = {0};
	int r;

	if (keeps_rendering(n) && rendered_read(n->ino, offset, buf, size, got))
		return 0;
	r = control_render(n, &text);
	if (r == 0) {
		*got = offset >= text.n ? 0 : text.n - offset < size ? (size_t)(text.n - offset) : size;
		if (*got)
			memcpy(buf, text.p + offset, *got);
	}
	buf_fini(&text);
	return r == -ENOENT ? -ESTALE : r;
}

/* Is it a family's directory, or something in one, that the schema no longer has? */
struct orphans {
	struct node *table;
	const struct tfs_schema *schema;
};

static bool is_orphan(void *arg, const struct node *n)
{
	const struct orphans *o = arg;

	for (; n; n = n->parent)
		if (n->kind == NODE_FAMILY)
			return node_table((struct node *)n) == o->table && !tfs_schema_family(o->schema, node_name(n));
	return false;
}

static void drop_orphans(struct node *table)
{
	struct orphans o = {.table = table};

	if (tfs_schema_get(node_store_table(table), &o.schema))
		return;
	scratch_end(is_orphan, &o);
	tfs_schema_put(o.schema);
}

bool control_dropped(struct node *n)
{
	char name[TFS_NAME_MAX + 1];

	while (n && n->kind != NODE_FAMILY)
		n = n->parent;
	if (!n || control_name(n, name))
		return false;
	drop_orphans(node_table(n));
	return true;
}

struct renamed {
	const struct tfs_schema *before, *after;
	struct changes *c;
};

static void forget_name(void *arg, struct node *n)
{
	const struct renamed *s = arg;
	const struct tfs_family *was, *is;

	if (n->kind != NODE_FAMILY)
		return;
	was = tfs_schema_family(s->before, node_name(n));
	is = tfs_schema_family(s->after, node_name(n));
	if (was && (!is || strcmp(was->name, is->name) != 0))
		changes_entry_locked(s->c, n->parent, slice_str(was->name));
}

/* Under schema_lock, so that no name is passed over which a family had between two changes. */
static void schema_changed(struct node *n, const struct tfs_schema *before, struct changes *c)
{
	struct node *table = node_table(n);
	struct renamed s = {.before = before, .c = c};

	drop_orphans(table);
	atomic_fetch_add(&fs.changes, 1);
	table_new_epoch(table);
	changes_table(c, table);
	notify_table_later(table);
	if (tfs_schema_get(node_store_table(table), &s.after))
		return;
	node_each_of_table(table, forget_name, &s);
	tfs_schema_put(s.after);
}

/* By an edit or, without one, by a text. */
static int change_schema(struct node *n, const struct tfs_schema_edit *e, struct slice text, int64_t mtime_us,
	const struct who *who, char **why, struct changes *c)
{
	static const struct tfs_user stranger = {.uid = (uid_t)-1, .gid = (gid_t)-1};
	struct tfs_table *t = node_store_table(n);
	const struct tfs_schema *before;
	int r;

	mutex_lock(&schema_lock);
	r = tfs_schema_get(t, &before);
	if (r == 0) {
		r = e ? tfs_schema_change(t, e, why)
		      : tfs_schema_set_text_as(t, bytes_of(text), mtime_us, who ? &who->user : &stranger, why);
		if (r == 0)
			schema_changed(n, before, c);
		tfs_schema_put(before);
	}
	mutex_unlock(&schema_lock);
	return r;
}

int control_change(struct node *n, const struct tfs_schema_edit *e, struct changes *c)
{
	char *why = NULL;
	int r = change_schema(n, e, slice_of(NULL, 0), 0, NULL, &why, c);

	if (r && why)
		refuse(r, n, NULL, "%s", why);
	else
		refuse_store(r, n, NULL, "the schema was not changed");
	free(why);
	return r;
}

static int set_schema(struct node *n, const struct writer *w, struct slice text, struct changes *c)
{
	char path[1024], *why = NULL;
	int r = change_schema(n, NULL, text, w->time, w->who, &why, c);

	if (r)
		refuse(r, n, NULL, "%s", why ? why : r == -EIO ? "the schema may not be set" : "the schema was not set");
	else if (why)
		msg_warning("%s: %s", node_describe(n, NULL, path, sizeof(path)), why);
	free(why);
	return r;
}

struct who *control_who(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	int count = ctx->uid ? fuse_req_getgroups(req, 0, NULL) : 0;
	struct who *who;

	if (count < 0)
		count = 0; /* it has ended, or /proc is not mounted */
	who = malloc(sizeof(*who) + (size_t)count * sizeof(gid_t));
	if (!who)
		return NULL;
	if (count && fuse_req_getgroups(req, count, who->groups) != count)
		count = 0;
	who->user = (struct tfs_user){.uid = ctx->uid, .gid = ctx->gid, .groups = who->groups, .group_count = (unsigned)count};
	return who;
}

int control_apply_scratch(struct node *n, struct writer *w, struct changes *c)
{
	struct slice text;
	int r = w->error ? w->error : stage_bytes(&w->image, &text);

	return r ? r : set_schema(n, w, text, c);
}

int control_commit_scratch(struct filex *x, struct changes *c)
{
	if (x->w.staged != STAGED_BYTES || !node_lives(x->w.target))
		return 0;
	x->w.staged = STAGED_NOTHING;
	return control_apply_scratch(x->w.target, &x->w, c);
}

/* The text of a setting as a string without the white space around it. */
static int setting_text(struct slice text, char **out)
{
	char *s;

	while (text.n &&
		(text.p[text.n - 1] == '\n' || text.p[text.n - 1] == ' ' || text.p[text.n - 1] == '\t' ||
			text.p[text.n - 1] == '\r'))
		text.n--;
	while (text.n && (*text.p == ' ' || *text.p == '\t'))
		text = slice_of(text.p + 1, text.n - 1);
	if (text.n && memchr(text.p, 0, text.n))
		return -EINVAL;
	s = malloc(text.n + 1);
	if (!s)
		return -ENOMEM;
	if (text.n)
		memcpy(s, text.p, text.n);
	s[text.n] = 0;
	*out = s;
	return 0;
}

static int setting_op(const struct node *n, enum tfs_schema_op *op)
{
	static const struct {
		enum node_kind dir;
		const char *name;
		enum tfs_schema_op op;
	} ops[] = {
		{NODE_FAMILY_DIR, "gc", TFS_SCHEMA_FAMILY_GC},
		{NODE_FAMILY_DIR, "group", TFS_SCHEMA_FAMILY_GROUP},
		{NODE_FAMILY_DIR, "type", TFS_SCHEMA_FAMILY_TYPE},
		{NODE_GROUP_DIR, "compression", TFS_SCHEMA_GROUP_COMPRESSION},
		{NODE_GROUP_DIR, "level", TFS_SCHEMA_GROUP_LEVEL},
		{NODE_GROUP_DIR, "block_size", TFS_SCHEMA_GROUP_BLOCK_SIZE},
		{NODE_GROUP_DIR, "bloom_bits", TFS_SCHEMA_GROUP_BLOOM_BITS},
		{NODE_GROUP_DIR, "in_memory", TFS_SCHEMA_GROUP_IN_MEMORY},
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (ops[i].dir == (enum node_kind)n->parent->kind && named(n, ops[i].name)) {
			*op = ops[i].op;
			return 0;
		}
	}
	return -EACCES;
}

static int apply_setting(struct node *n, struct slice text, struct changes *c)
{
	struct tfs_schema_edit e = {.explicit_act = true, .name = node_name(n->parent), .uid = (uid_t)-1, .gid = (gid_t)-1};
	char *value = NULL;
	int r;

	if (n->parent->kind == NODE_SYSTEM)
		return admin_apply_system(n, text);
	if (n->parent->kind == NODE_TABLE)
		return admin_apply_table(n, text, c);
	r = setting_op(n, &e.op);
	if (r)
		return refuse(r, n, NULL, "it can only be read");
	r = setting_text(text, &value);
	if (r)
		return refuse(r, n, NULL, "not one line of text");
	e.value = value;
	r = control_change(n, &e, c);
	free(value);
	return r;
}

static int apply(struct node *n, struct writer *w, struct changes *c)
{
	struct slice text;
	int r = stage_bytes(&w->image, &text);

	if (r == 0 && n->kind == NODE_SCHEMA) {
		r = set_schema(n, w, text, c);
		c->entries_first = true;
		w->committed = w->committed || r == 0;
	} else if (r == 0) {
		r = apply_setting(n, text, c);
	}
	w->staged = STAGED_NOTHING;
	return r;
}

/*
 * A text of .schema is refused in the write after which it can no longer
 * become a legal one: bash does not look at what close returns.  Only of one
 * that is written from its start, in order: else what is wrong may be
 * overwritten.
 */
static int judge_schema(struct node *n, struct writer *w, uint64_t end)
{
	const uint8_t *last;
	struct slice text;
	char *why = NULL;
	int r;

	w->origin = w->image.size != end ? UINT64_MAX : w->origin;
	if (w->origin == UINT64_MAX)
		return 0;
	r = stage_bytes(&w->image, &text);
	last = r == 0 && text.n ? memrchr(text.p, '\n', text.n) : NULL;
	if (!last || (size_t)(last + 1 - text.p) <= w->origin)
		return r;
	w->origin = (size_t)(last + 1 - text.p);
	r = tfs_schema_text_begins(node_store_table(n), bytes_of(slice_of(text.p, w->origin)), &why);
	if (r == -EINVAL)
		r = w->error = refuse(r, n, NULL, "%s", why ? why : "no legal schema");
	free(why);
	return r;
}

int control_written(struct node *n, struct writer *w, uint64_t end, struct changes *c)
{
	struct slice text;
	int r;

	/* Nothing of it is applied at close: its beginning may read well. */
	if (w->image.size > (1u << 20))
		return w->error = -EFBIG;
	if (n->kind == NODE_SCHEMA)
		return judge_schema(n, w, end);
	r = stage_bytes(&w->image, &text);
	if (r || text.n == 0 || text.p[text.n - 1] != '\n')
		return r;
	r = apply(n, w, c);
	if (r == 0)
		stage_reset(&w->image);
	else
		w->error = r;
	return r;
}

int control_commit(struct node *n, struct filex *x, struct writer *w, bool last, struct changes *c)
{
	int r = 0;

	mutex_lock(&x->lock);
	if (!node_lives(n))
		r = 0; /* removed, or replaced */
	else if (!w->error && (w->staged == STAGED_BYTES || (last && w->staged == STAGED_CREATION && n->kind == NODE_SCHEMA)))
		r = apply(n, w, c);
	else if (w->error && n->kind == NODE_SCHEMA)
		r = w->error;
	mutex_unlock(&x->lock);
	return r;
}

int control_set_time(struct node *n, int64_t us, struct changes *c)
{
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_TIME, .mtime_us = us, .uid = (uid_t)-1, .gid = (gid_t)-1};
	struct filex *x;
	bool done = false;

	if (n->kind != NODE_SCHEMA)
		return 0;
	x = filex_find(n);
	if (x) {
		mutex_lock(&x->lock);
		for (struct handle *h = x->handles; h; h = h->next) {
			if (!h->writable)
				continue;
			h->w.time = us;
			done = done || writer_pending(&h->w);
		}
		mutex_unlock(&x->lock);
		filex_put(x);
	}
	return done ? 0 : control_change(n, &e, c);
}
