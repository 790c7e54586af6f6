/* SPDX-License-Identifier: Apache-2.0 */
/*
 * READDIR and READDIRPLUS: the answers.  The first PLUS_ENTRIES entries of a
 * stream have attributes, if the kernel asks for them; later entries are names
 * only, because each node that the kernel holds costs memory here.
 */
#include "fs/request/request.h"

#include "fs/base/notify.h"
#include "fs/base/permit.h"
#include "fs/base/reply.h"
#include "fs/node/admin.h"
#include "fs/node/list.h"
#include "fs/node/tree.h"
#include "fs/request/stream.h"

#include <errno.h>
#include <stdlib.h>

#define PLUS_ENTRIES 12288

struct answer {
	fuse_req_t req;
	struct node *dir;
	bool plus;
	char *buf;
	size_t size, used;
	uint64_t last; /* the ordinal of the last entry */
	struct listing listing;
	uint32_t epoch;            /* the epoch of the directory, before the store was asked */
	struct dir_handle *handle; /* NULL: the mount has none (fs.no_opendir) */
	struct stream *stream;     /* the answer has its offsets */
	bool forked;               /* stream is a fork; counted */
	bool names_only;           /* the directory may not be searched, so the kernel gets no nodes */
};

static bool add_plain(struct answer *a, const char *name, uint64_t ino, mode_t type, off_t offset)
{
	struct fuse_entry_param e = {.attr = {.st_ino = ino, .st_mode = type}};
	size_t n;

	if (a->plus)
		n = fuse_add_direntry_plus(a->req, a->buf + a->used, a->size - a->used, name, &e, offset);
	else
		n = fuse_add_direntry(a->req, a->buf + a->used, a->size - a->used, name, &e.attr, offset);
	if (n > a->size - a->used)
		return false;
	a->used += n;
	a->last = (uint64_t)offset & UINT32_MAX;
	return true;
}

static mode_t type_of(enum node_kind kind)
{
	return kind_is(kind, KIND_DIR) ? S_IFDIR : S_IFREG;
}

/* Attributes without asking the store, if the scan and the schema have them. */
static bool entry_at_hand(struct answer *a, struct node *n, const struct list_entry *e, struct fuse_entry_param *p)
{
	memset(p, 0, sizeof(*p));
	p->ino = id_of(n);
	p->generation = n->generation;
	p->attr_timeout = p->entry_timeout = node_entry_timeout(n);
	return node_ops(n)->list_attr && node_ops(n)->list_attr(&a->listing, n, e, p);
}

static int entry_node(struct answer *a, const struct list_entry *e, const char *name, struct node **out)
{
	if (!kind_ops(e->kind)->list_attr)
		return tree_find(a->dir, name, out);
	*out = node_get(e->parent, e->kind, e->key, e->ts);
	return *out ? 0 : -ENOMEM;
}

/* Returns 1 if the entry was added, 0 if the answer is full, -errno. */
static int add_entry(struct answer *a, const struct list_entry *e, off_t offset)
{
	struct fuse_entry_param p;
	struct node *n = NULL;
	char name[256];
	size_t used;
	int r;

	memcpy(name, e->name.p, e->name.n);
	name[e->name.n] = 0;
	if (!a->plus || a->names_only || e->unsure || (offset & UINT32_MAX) > PLUS_ENTRIES)
		return add_plain(a, name, node_number_at(e->parent, e->kind, e->key, e->ts), type_of(e->kind), offset);
	r = entry_node(a, e, name, &n);
	if (r == 0 && !entry_at_hand(a, n, e, &p))
		r = node_entry(n, &p);
	if (r == -ENOENT || r == -ESTALE || r == -EBADMSG || r == -EIO) {
		/* The entry has been removed, or cannot be read; the kernel looks it up later. */
		node_put(n);
		return add_plain(a, name, node_number_at(e->parent, e->kind, e->key, e->ts), type_of(e->kind), offset);
	}
	if (r) {
		node_put(n);
		return r;
	}
	tree_count_entry(n, e->name, &p);
	fs_owner_here(&p.attr);
	used = fuse_add_direntry_plus(a->req, a->buf + a->used, a->size - a->used, name, &p, offset);
	if (used <= a->size - a->used) {
		a->used += used;
		a->last = (uint64_t)offset & UINT32_MAX;
		r = 1;
	} else {
		node_forget(n, 1);
	}
	node_put(n);
	return r;
}

static off_t offset_of(const struct stream *s, uint64_t ordinal)
{
	return (off_t)((uint64_t)s->id << 32) + (off_t)ordinal;
}

/*
 * Each listing ends with one more request, which gets an empty answer.  If the previous answer
 * reached the end, and nothing has changed since, the store is not asked again.
 */
static bool at_known_end(const struct answer *a, const struct stream *s, uint64_t ordinal)
{
	return s->end && s->end == ordinal && s->end_changes == a->listing.changes && s->end_epoch == a->epoch;
}

static bool table_expires(const struct tfs_schema *schema)
{
	for (unsigned i = 0; i < schema->family_count; i++)
		if (schema->families[i].max_age_us > 0)
			return true;
	return false;
}

static int table_expires_cells(struct tfs_table *t)
{
	const struct tfs_schema *schema;
	bool yes = true;

	if (tfs_schema_get(t, &schema) == 0) {
		yes = table_expires(schema);
		tfs_schema_put(schema);
	}
	return yes;
}

bool dir_any_expires(void)
{
	return admin_each_table(table_expires_cells) != 0;
}

/* Returns true if the place of an ordinal can be found by counting entries. */
static bool may_count(const struct answer *a, const struct stream *s)
{
	return fs.no_opendir || (s->epoch == a->epoch && !(a->listing.schema && table_expires(a->listing.schema)));
}

/* An entry keeps its ordinal: if another entry has it now, a new stream begins. */
static int remember_entry(struct answer *a, uint64_t ordinal, const struct cursor *at)
{
	const struct place *m = stream_place(a->stream, ordinal);
	struct stream *fork;

	if (!m || cursor_eq(&m->at, at))
		return 0;
	fork = stream_fork(a->stream, a->dir, a->handle);
	if (!fork)
		return -ENOMEM;
	a->forked = true;
	a->stream = fork;
	return 0;
}

/* The lister after the entry with this ordinal.  Returns 1, 0 if the directory ends before it, -errno. */
static int begin_at(struct answer *a, const struct stream *s, uint64_t ordinal, struct lister **out)
{
	const struct place *from = ordinal > 2 ? stream_place(s, ordinal) : NULL;
	struct list_entry e;
	uint64_t at;
	int r;

	if (!from && ordinal > 2) {
		if (!may_count(a, s))
			return refuse(-ESTALE, a->dir, NULL,
				"a reader went back to a place that is no longer known, and the directory has changed");
		from = stream_checkpoint(s, ordinal);
	}
	r = lister_new(a->dir, from ? &from->at : NULL, a->plus, out);
	for (at = from ? from->ordinal : 2; r == 0 && at < ordinal; at++) {
		r = lister_next(*out, &e);
		if (r == 0)
			return 0;
		r = r > 0 ? 0 : r;
	}
	return r ? r : 1;
}

/* Continues the listing of the answer before.  Returns its lister and *e, the first entry; NULL: it cannot be continued. */
static struct lister *answer_resume(const struct answer *a, struct stream *s, uint64_t ordinal, struct list_entry *e)
{
	struct pause *p = stream_resume(s);
	struct lister *l = NULL;

	if (p && p->ordinal == ordinal && p->changes == a->listing.changes) {
		l = p->lister;
		*e = p->entry;
		p->lister = NULL;
	}
	pause_free(p);
	return l;
}

/* Keeps the lister for the next answer, if that saves a round trip.  Returns false if the caller frees it. */
static bool answer_pause(const struct answer *a, struct lister *l, const struct list_entry *e, uint64_t ordinal)
{
	struct pause *p;

	if (!fs.shared || !a->handle || a->forked || l->damaged || !l->scan ||
		(a->listing.schema && table_expires(a->listing.schema)))
		return false;
	p = malloc(sizeof(*p));
	if (!p)
		return false;
	*p = (struct pause){.lister = l, .entry = *e, .ordinal = ordinal, .changes = a->listing.changes};
	stream_pause(a->stream, p);
	return true;
}

static int answer_fill(struct answer *a, struct stream *s, uint64_t ordinal)
{
	uint64_t at = ordinal > 2 ? ordinal : 2;
	struct lister *l;
	struct list_entry e;
	bool ready; /* e is the next entry */
	int r = 1;

	if (ordinal < 1 && !add_plain(a, ".", node_number(a->dir), S_IFDIR, offset_of(s, 1)))
		return 0;
	if (ordinal < 2 && !add_plain(a, "..", node_number(a->dir->parent ? a->dir->parent : a->dir), S_IFDIR, offset_of(s, 2)))
		return 0;
	l = answer_resume(a, s, at, &e);
	ready = l != NULL;
	if (!l)
		r = begin_at(a, s, ordinal, &l);
	while (r > 0) {
		r = ready ? 1 : lister_next(l, &e);
		ready = false;
		if (r == 0) {
			a->stream->end = at;
			a->stream->end_changes = a->listing.changes;
			a->stream->end_epoch = a->epoch;
		}
		if (r <= 0)
			break;
		at++;
		r = remember_entry(a, at, &l->at);
		if (r == 0) /* notes the place before the kernel gets the offset */
			r = stream_remember(a->stream, at, &l->at);
		if (r == 0)
			r = add_entry(a, &e, offset_of(a->stream, at));
		ready = r == 0;
	}
	if (l && l->damaged)
		a->stream->damaged = true;
	if (!ready || !answer_pause(a, l, &e, at - 1))
		lister_free(l);
	return r;
}

#define NOT_LISTED "cannot be listed"

/* What is absent now was there when it was opened. */
static int listing_error(int err)
{
	return err == -ENOENT ? -ESTALE : err;
}

static void dir_list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct dir_handle *h, bool plus)
{
	struct node *dir = node_of(ino), *family = node_is(dir, KIND_PART) ? dir->parent : dir;
	struct answer a = {.req = req,
		.dir = dir,
		.plus = plus,
		.size = size,
		.listing = {.dir = dir, .changes = fs_changes()},
		.epoch = dir->epoch,
		.handle = h};
	uint64_t ordinal = (uint64_t)offset & UINT32_MAX;
	struct stream *s = NULL;
	bool told = false; /* the request before has logged the error */
	int r = 0;

	a.buf = malloc(size);
	r = a.buf ? stream_get(dir, (uint32_t)((uint64_t)offset >> 32), h, &s) : -ENOMEM;
	if (r == -ESTALE)
		refuse(r, dir, NULL, "a reader came back to a listing of long ago");
	if (r)
		goto out;
	a.stream = s;
	a.names_only = plus && permit(dir, PERMIT_SEARCH);
	if (node_table(dir))
		r = tfs_schema_get(node_store_table(dir), &a.listing.schema);
	if (r == 0 && node_is(family, KIND_FAMILY))
		r = family_info_get(family, &a.listing.family);
	if (r == 0) {
		mutex_lock(&s->lock);
		told = s->err && s->err_at == ordinal;
		if (told)
			r = s->err;
		else if (!at_known_end(&a, s, ordinal))
			r = answer_fill(&a, s, ordinal);
		s->err = 0;
		if (a.used && (r < 0 || (a.stream->damaged && a.stream->end == a.last))) {
			a.stream->err = listing_error(r < 0 ? r : -EIO);
			a.stream->err_at = a.last;
			/* Now, because the next request does not know the reason of the store. */
			(void)refuse_store(a.stream->err, dir, NULL, NOT_LISTED);
		}
		if (r >= 0 && a.used == 0 && a.stream->damaged)
			r = -EIO;
		a.stream->batches += a.used > 0;
		mutex_unlock(&s->lock);
	}
out:
	if (r < 0 && a.used == 0) {
		reply_err(req, told ? r : refuse_store(listing_error(r), dir, NULL, NOT_LISTED));
	} else if (a.used == 0) {
		struct changes c = {0};

		mutex_lock(tree_mutex());
		dir->flags |= NODE_LISTED | NODE_ENDED;
		mutex_unlock(tree_mutex());
		/* The listing of a view depends on the user, so the kernel must not keep it for the next user. */
		if (!stream_may_be_kept(a.stream, dir) || node_in_scan(dir))
			changes_inode(&c, dir);
		changes_reply_end(&c, req);
		if (a.listing.schema && table_expires(a.listing.schema))
			notify_later(dir);
	} else {
		fuse_reply_buf(req, a.buf, a.used);
	}
	if (a.listing.schema)
		tfs_schema_put(a.listing.schema);
	if (a.forked)
		stream_put(a.stream);
	if (s)
		stream_put(s);
	free(a.buf);
}

void dir_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	dir_list(req, ino, size, offset, (struct dir_handle *)(uintptr_t)fi->fh, false);
}

void dir_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	dir_list(req, ino, size, offset, (struct dir_handle *)(uintptr_t)fi->fh, true);
}

void dir_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct dir_handle *h;
	int err;

	if (fs.no_opendir) {
		fuse_reply_err(req, ENOSYS);
		return;
	}
	err = permit(node_of(ino), PERMIT_READ);
	if (err) {
		reply_err(req, err);
		return;
	}
	h = calloc(1, sizeof(*h));
	if (!h) {
		reply_err(req, -ENOMEM);
		return;
	}
	fi->fh = (uintptr_t)h;
	fi->cache_readdir = fi->keep_cache = node_entry_timeout(node_of(ino)) > 0;
	node_opened(node_of(ino), true);
	if (fuse_reply_open(req, fi) != 0) {
		node_opened(node_of(ino), false);
		free(h);
	}
}

void dir_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	node_opened(node_of(ino), false);
	stream_close((struct dir_handle *)(uintptr_t)fi->fh);
	reply_err(req, 0);
}
