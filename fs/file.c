/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The FUSE calls on descriptors.
 *
 * Plain names: direct I/O; a reader's bytes are loaded at open and are his
 * own, a writer's are staged per descriptor.  Versions: cached by the kernel;
 * reads go to the store, stores in place are staged per node and committed
 * before anything is read again.  Scratch: its image is the file.  Control
 * files: a rendering at open; what is written is applied at flush, or at once
 * where one line is a whole setting, so that even a shell sees the refusal.
 */
#include "fs/file.h"

#include "engine/base/msg.h"
#include "fs/cache.h"
#include "fs/control.h"
#include "fs/name.h"
#include "fs/reply.h"
#include "fs/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

static struct handle *all_handles; /* tree lock */

static struct handle *handle_of(const struct fuse_file_info *fi)
{
	return fi ? (struct handle *)(uintptr_t)fi->fh : NULL;
}

static struct handle *handle_new(struct node *n, int flags)
{
	struct handle *h = calloc(1, sizeof(*h));
	struct filex *x = h ? filex_get(n) : NULL;

	if (!x) {
		free(h);
		return NULL;
	}
	writer_init(&h->w);
	h->node = h->target = n;
	h->readable = (flags & O_ACCMODE) != O_WRONLY;
	h->writable = (flags & O_ACCMODE) != O_RDONLY;
	node_hold(n);
	node_hold(n);
	mutex_lock(&x->lock);
	h->life = x->life;
	h->w.life = n->kind == NODE_PLAIN ? n->epoch : 0;
	mutex_lock(tree_mutex());
	h->next = x->handles;
	x->handles = h;
	h->all_next = all_handles;
	h->all_link = &all_handles;
	if (all_handles)
		all_handles->all_link = &h->all_next;
	all_handles = h;
	mutex_unlock(tree_mutex());
	mutex_unlock(&x->lock);
	return h;
}

static void handle_free(struct handle *h)
{
	struct node *n = h->node, *forward = NULL;
	struct filex *x = n->file, *orphan = NULL;

	mutex_lock(&x->lock);
	mutex_lock(tree_mutex());
	for (struct handle **at = &x->handles; *at; at = &(*at)->next) {
		if (*at == h) {
			*at = h->next;
			break;
		}
	}
	*h->all_link = h->all_next;
	if (h->all_next)
		h->all_next->all_link = h->all_link;
	if (!x->handles && x->orphan && n->opens == 0) {
		x->orphan = false;
		orphan = x;
	}
	mutex_unlock(tree_mutex());
	if (!x->handles) {
		forward = x->forward;
		x->forward = NULL;
		filex_let_go(x);
	}
	mutex_unlock(&x->lock);
	node_put(forward);
	writer_fini(&h->w);
	filex_put(n, orphan);
	filex_put(n, x);
	node_put(h->target);
	free(h);
	node_put(n);
}

static bool lies_in(const struct node *dir, const struct node *cell)
{
	struct slice component;
	struct buf path = {0};
	bool last, in;

	if (dir->kind != NODE_CELL_PART)
		return true;
	in = name_encode(cell->kind == NODE_PLAIN ? NAME_NEWEST : NAME_VERSION, node_key(cell), cell->ts, &path) == 0 &&
	     name_component(buf_slice(&path), node_key(dir), &component, &last);
	buf_fini(&path);
	return in;
}

/* The open files are few, the nodes of a directory are not: so it is they that are looked at. */
bool ofile_pending_below(struct node *dir)
{
	struct node *base = dir->kind == NODE_CELL_PART ? dir->parent : dir, **some = NULL;
	size_t count = 0, n = 0;
	bool pending = false;
	uint64_t size;
	int64_t when;

	mutex_lock(tree_mutex());
	for (struct handle *h = all_handles; h; h = h->all_next)
		count += h->writable && h->target->parent == base;
	some = count ? malloc(count * sizeof(*some)) : NULL;
	pending = count && !some;
	for (struct handle *h = some ? all_handles : NULL; h; h = h->all_next) {
		if (!h->writable || h->target->parent != base)
			continue;
		h->target->refs++;
		some[n++] = h->target;
	}
	mutex_unlock(tree_mutex());
	for (size_t i = 0; i < n; i++) {
		pending = pending || (lies_in(dir, some[i]) && ofile_pending(some[i], &size, &when));
		node_put(some[i]);
	}
	free(some);
	return pending;
}

/* ---- open ---- */

static int open_plain(struct node *n, struct handle *h, bool truncate, bool created)
{
	struct filex *x = n->file;
	struct mutex *row = NULL;
	struct cell_place p;
	struct family_info f;
	struct tfs_info info = {.ts = INT64_MIN};
	uint64_t size;
	int64_t when;
	int r;

	cell_place_of(n, &p);
	r = family_info_get(p.family_node, &f);
	if (r)
		return r == -ENOENT ? -ESTALE : r;
	r = cell_stat(&p, &f, &info);
	if (r == -ENOENT && (created || ofile_pending(n, &size, &when))) {
		info = (struct tfs_info){.ts = INT64_MIN};
		r = 0;
	} else if (r == 0 && !truncate && (h->readable || f.counter)) {
		if (info.size >= (1u << 20)) {
			row = ofile_row_lock(n);
			mutex_lock(row);
		}
		mutex_lock(&x->lock);
		r = writer_load(&h->w, &p, &f, &info);
		mutex_unlock(&x->lock);
		if (row)
			mutex_unlock(row);
	} else if (r == 0) {
		h->w.base_size = info.size;
	}
	if (r)
		return r == -ENOENT ? -ESTALE : r;
	if (h->writable && info.ts == INT64_MAX)
		return refuse(-EOVERFLOW, n, NULL, "its newest version has the largest timestamp there is");
	mutex_lock(&x->lock);
	if (f.counter)
		h->w.whole = true;
	if (truncate || created)
		writer_begin_whole(&h->w);
	mutex_unlock(&x->lock);
	return 0;
}

static int open_version(struct node *n, struct handle *h, bool truncate, bool created)
{
	struct filex *x = n->file;
	struct cell_place p;
	struct family_info f;
	struct tfs_info info;
	int r;

	cell_place_of(n, &p);
	r = family_info_get(p.family_node, &f);
	if (r)
		return r == -ENOENT ? -ESTALE : r;
	mutex_lock(&x->lock);
	r = cell_stat(&p, &f, &info);
	if (r == -ENOENT && created) {
		r = 0;
		truncate = true;
	} else if (r == -ENOENT && writer_pending(&x->w)) {
		r = 0;
	} else if (r == 0 && x->w.dead) {
		/* a new life of the name */
		writer_fini(&x->w);
		writer_init(&x->w);
	}
	if (r == 0 && (truncate || created)) {
		writer_begin_whole(&x->w);
	} else if (r == 0 && f.counter && !writer_pending(&x->w)) {
		struct tfs_info got;

		writer_fini(&x->w);
		writer_init(&x->w);
		r = writer_load(&x->w, &p, &f, &got);
		x->w.whole = r == 0;
	} else if (r == 0 && !writer_pending(&x->w)) {
		x->w.base_size = info.size;
		x->w.error = 0;
	}
	h->life = x->life;
	mutex_unlock(&x->lock);
	return r == -ENOENT ? -ESTALE : r;
}

/* A version for reading only: no state, if the store still has it. */
static int open_reader(struct node *n)
{
	struct cell_place p;
	struct family_info f;
	struct tfs_info info;
	uint64_t size;
	int64_t when;
	int r;

	if (n->epoch != 0 && n->epoch == table_epoch(n))
		return 0;
	cell_place_of(n, &p);
	r = family_info_get(p.family_node, &f);
	if (r == 0)
		r = cell_stat(&p, &f, &info);
	if (r == -ENOENT && ofile_pending(n, &size, &when))
		return 0;
	return r == -ENOENT ? -ESTALE : r;
}

static int handle_open(struct node *n, int flags, bool created, struct handle **out)
{
	bool truncate = (flags & O_TRUNC) != 0;
	struct handle *h = handle_new(n, flags);
	struct filex *x;
	int r = 0;

	if (!h)
		return -ENOMEM;
	x = n->file;
	switch ((enum node_kind)n->kind) {
	case NODE_PLAIN:
		r = open_plain(n, h, truncate, created);
		break;
	case NODE_VERSION:
		r = open_version(n, h, truncate, created);
		break;
	case NODE_SCRATCH_FILE:
		mutex_lock(&x->lock);
		if (x->given && x->handles == h && !h->next) {
			r = -ESTALE; /* it is a cell now, and found by its name */
		} else if (truncate) {
			r = writer_truncate(&x->w, 0);
			x->mtime_us = fs_now_us();
		}
		mutex_unlock(&x->lock);
		break;
	case NODE_SCHEMA:
	case NODE_SETTING:
		r = control_open(n, &h->w, h->writable, truncate || created);
		break;
	case NODE_ROOT:
	case NODE_TABLE:
	case NODE_LATEST:
	case NODE_ROW:
	case NODE_ROW_PART:
	case NODE_FAMILY:
	case NODE_CELL_PART:
	case NODE_SCRATCH_DIR:
	case NODE_FAMILIES:
	case NODE_FAMILY_DIR:
	case NODE_GROUPS:
	case NODE_GROUP_DIR:
	case NODE_SYSTEM:
		r = -EISDIR;
		break;
	}
	if (r)
		handle_free(h);
	else
		*out = h;
	return r;
}

/*
 * The name was found and gone at OPEN, twice running.  Whether O_CREAT was
 * asked for the kernel does not say here, so neither creating it nor ENOENT
 * is right for all; but a file that was opened and removed the instant after
 * is: it has no name, and what is written to it goes nowhere.
 */
static int open_gone(struct node *n, int flags, struct handle **out)
{
	struct handle *h = handle_new(n, flags);

	if (!h)
		return -ENOMEM;
	mutex_lock(&n->file->lock);
	if (n->kind == NODE_PLAIN) {
		writer_begin_whole(&h->w);
		h->w.fresh = false;
		h->w.dead = true;
	} else {
		h->life--; /* of an earlier life than any */
	}
	mutex_unlock(&n->file->lock);
	*out = h;
	return 0;
}

/*
 * A version that is only written needs no pages: direct I/O saves the kernel
 * a question about capabilities before each write.
 */
static void set_open_flags(const struct node *n, struct fuse_file_info *fi)
{
	if (n->kind == NODE_VERSION && (fi->flags & O_ACCMODE) != O_WRONLY)
		fi->keep_cache = 1;
	else
		fi->direct_io = 1;
}

void ofile_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);
	struct handle *h;
	int r;

	if (fs.no_open) {
		fuse_reply_err(req, ENOSYS);
		return;
	}
	if (n->kind == NODE_VERSION && (fi->flags & O_ACCMODE) == O_RDONLY && !(fi->flags & O_TRUNC)) {
		mutex_lock(tree_mutex());
		n->opens++;
		mutex_unlock(tree_mutex());
		r = stale_answer(req, n, open_reader(n));
		fi->fh = 0;
		fi->keep_cache = 1;
		fi->noflush = 1;
		if (r)
			reply_err(req, r);
		else
			r = fuse_reply_open(req, fi);
		if (r) {
			mutex_lock(tree_mutex());
			n->opens--;
			mutex_unlock(tree_mutex());
		}
		return;
	}
	r = stale_answer(req, n, handle_open(n, fi->flags, false, &h));
	if (r == -ENOENT && (fi->flags & O_ACCMODE) != O_RDONLY && (n->kind == NODE_PLAIN || n->kind == NODE_VERSION))
		r = open_gone(n, fi->flags, &h);
	if (r) {
		reply_err(req, refuse_store(r, n, NULL, "cannot be opened"));
		return;
	}
	fi->fh = (uint64_t)(uintptr_t)h;
	set_open_flags(n, fi);
	if (!h->writable)
		fi->noflush = 1;
	if (fuse_reply_open(req, fi) != 0)
		handle_free(h);
}

void ofile_create(fuse_req_t req, struct node *n, bool exists, mode_t mode, struct fuse_file_info *fi)
{
	struct fuse_entry_param e = {0};
	struct handle *h;
	int r;

	(void)mode;
	r = handle_open(n, fi->flags, !exists, &h);
	if (r == 0) {
		r = tree_entry(n, &e);
		if (r)
			handle_free(h);
	}
	if (r) {
		reply_err(req, refuse_store(r, n, NULL, "cannot be created"));
		return;
	}
	fi->fh = (uint64_t)(uintptr_t)h;
	set_open_flags(n, fi);
	node_lookup(n);
	if (fuse_reply_create(req, &e, fi) != 0) {
		handle_free(h);
		node_forget(n, 1);
	}
}

/* ---- read ---- */

/* One buffer a thread, freed with it. */
struct thread_buffer {
	size_t bytes;
	uint8_t data[];
};
static pthread_key_t buffer_key;
static pthread_once_t buffer_once = PTHREAD_ONCE_INIT;

static void make_buffer_key(void)
{
	pthread_key_create(&buffer_key, free);
}

static uint8_t *buffer_of(size_t n)
{
	struct thread_buffer *b;

	pthread_once(&buffer_once, make_buffer_key);
	b = pthread_getspecific(buffer_key);
	if (!b || n > b->bytes) {
		struct thread_buffer *more = realloc(b, sizeof(*b) + n);

		if (!more)
			return NULL;
		b = more;
		b->bytes = n;
		pthread_setspecific(buffer_key, b);
	}
	return b->data;
}

static void mark_paged(struct node *n)
{
	mutex_lock(tree_mutex());
	n->flags |= NODE_PAGED;
	mutex_unlock(tree_mutex());
}

static int read_version(struct node *n, struct filex *x, uint64_t offset, uint8_t *buf, size_t size, size_t *got)
{
	struct cell_place p;
	struct family_info f;
	int r;

	mark_paged(n);
	if (x) {
		struct mutex *row = ofile_row_lock(n);
		struct changes c = {0};

		mutex_lock(row);
		mutex_lock(&x->lock);
		r = writer_pending(&x->w) ? writer_commit(&x->w, n, true, &c) : 0;
		if (r == 0 && x->w.dead) {
			r = writer_read(&x->w, offset, buf, size, got);
			mutex_unlock(&x->lock);
			mutex_unlock(row);
			return r;
		}
		mutex_unlock(&x->lock);
		mutex_unlock(row);
		changes_send(&c);
		if (r)
			return r;
	}
	cell_place_of(n, &p);
	r = family_info_get(p.family_node, &f);
	if (r == 0)
		r = cell_read(&p, &f, offset, buf, size, got, NULL);
	return r == -ENOENT ? -ESTALE : r;
}

static int read_without_handle(struct node *n, uint64_t offset, uint8_t *buf, size_t size, size_t *got)
{
	struct filex *x;
	int r;

	if (n->kind == NODE_SETTING || n->kind == NODE_SCHEMA)
		return control_read(n, offset, buf, size, got);
	if (n->kind == NODE_VERSION && !n->file && offset == 0 && size >= CACHE_VALUE_MAX) {
		mark_paged(n);
		if (cache_take(n, buf, got))
			return 0;
	}
	x = filex_find(n);
	r = read_version(n, x, offset, buf, size, got);
	filex_put(n, x);
	if (r == -ESTALE && !x && (x = filex_find(n)) != NULL) {
		/* Removed just now: its content has been kept for those who have it open. */
		r = read_version(n, x, offset, buf, size, got);
		filex_put(n, x);
	}
	return r;
}

void ofile_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);
	struct handle *h = handle_of(fi);
	uint8_t *buf = buffer_of(size);
	size_t got = 0;
	int r;

	if (!buf) {
		reply_err(req, -ENOMEM);
		return;
	}
	if (!h) {
		r = read_without_handle(n, (uint64_t)offset, buf, size, &got);
	} else {
		struct filex *x = h->node->file;

		n = h->node;
		if (n->kind == NODE_VERSION) {
			r = read_version(n, x, (uint64_t)offset, buf, size, &got);
		} else {
			mutex_lock(&x->lock);
			r = writer_read(n->kind == NODE_SCRATCH_FILE ? &x->w : &h->w, (uint64_t)offset, buf, size, &got);
			mutex_unlock(&x->lock);
		}
	}
	if (r)
		reply_err(req, refuse_store(r, n, NULL, "cannot be read"));
	else
		fuse_reply_buf(req, (const char *)buf, got);
}

/* ---- write ---- */

/* A counter's text so far must be able to become a number. */
static int counter_check(struct node *n, struct writer *w)
{
	struct family_info f;
	struct slice text;
	int r;

	if (!w->whole || w->image.size > 64 || n->parent->kind != NODE_FAMILY)
		return 0;
	r = family_info_get(n->parent, &f);
	if (r || !f.counter)
		return r;
	r = stage_bytes(&w->image, &text);
	if (r || counter_prefix(text))
		return r;
	w->error = -EINVAL;
	return refuse(-EINVAL, n, NULL, "a counter is written as one decimal number");
}

static int write_bytes(struct handle *h, uint64_t offset, const uint8_t *p, size_t size, int flags)
{
	struct node *n = h->node;
	struct filex *x = n->file;
	bool append = (flags & O_APPEND) != 0;
	int r = 0;

	mutex_lock(&x->lock);
	switch ((enum node_kind)n->kind) {
	case NODE_PLAIN:
		r = writer_write(&h->w, offset, p, size, append);
		if (r == 0)
			r = counter_check(h->target, &h->w);
		break;
	case NODE_VERSION:
		if (h->life != x->life)
			break; /* removed: nobody will read it */
		r = writer_write(&x->w, offset, p, size, false);
		if (r == 0)
			r = counter_check(n, &x->w);
		break;
	case NODE_SCRATCH_FILE:
		r = writer_write(&x->w, offset, p, size, append);
		x->mtime_us = fs_now_us();
		x->w.time_set = false;
		break;
	case NODE_SETTING:
		/* Lines before this one have been applied and are gone. */
		if (h->w.image.size == 0)
			h->w.origin = offset;
		if (offset < h->w.origin) {
			r = refuse(-EINVAL, n, NULL, "written out of order");
			break;
		}
		r = writer_write(&h->w, offset - h->w.origin, p, size, append);
		if (r == 0)
			r = control_written(n, &h->w);
		break;
	case NODE_SCHEMA:
		r = writer_write(&h->w, offset, p, size, append);
		if (r == 0)
			r = control_written(n, &h->w);
		break;
	case NODE_ROOT:
	case NODE_TABLE:
	case NODE_LATEST:
	case NODE_ROW:
	case NODE_ROW_PART:
	case NODE_FAMILY:
	case NODE_CELL_PART:
	case NODE_SCRATCH_DIR:
	case NODE_FAMILIES:
	case NODE_FAMILY_DIR:
	case NODE_GROUPS:
	case NODE_GROUP_DIR:
	case NODE_SYSTEM:
		r = -EISDIR;
		break;
	}
	mutex_unlock(&x->lock);
	if (r == -EFBIG)
		return refuse(r, n, NULL, "a value is at most 64 MiB; nothing of it is stored");
	return r == -EINVAL ? r : refuse_store(r, n, NULL, "the write was not taken");
}

void ofile_write(fuse_req_t req, fuse_ino_t ino, struct fuse_bufvec *in, off_t offset, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);
	size_t size = fuse_buf_size(in), done = 0;
	struct fuse_bufvec whole = FUSE_BUFVEC_INIT(size);
	const uint8_t *p;
	int r;

	(void)ino;
	if (!h) {
		reply_err(req, -EBADF);
		return;
	}
	if (in->count == 1 && in->idx == 0 && in->off == 0 && !(in->buf[0].flags & FUSE_BUF_IS_FD)) {
		p = in->buf[0].mem;
	} else {
		ssize_t n;

		p = whole.buf[0].mem = buffer_of(size);
		n = p ? fuse_buf_copy(&whole, in, 0) : -ENOMEM;
		if (n < 0) {
			reply_err(req, (int)n);
			return;
		}
		size = (size_t)n;
	}
	r = write_bytes(h, (uint64_t)offset, p, size, fi->flags);
	done = size;
	if (r)
		reply_err(req, r);
	else
		fuse_reply_write(req, done);
}

/* ---- flush, fsync, release ---- */

static int commit_handle(struct handle *h, bool last, struct changes *c)
{
	struct node *n = h->node;
	struct filex *x = n->file;
	struct mutex *row;
	int r = 0;

	if (!h->writable)
		return 0;
	if (n->kind == NODE_SCHEMA || n->kind == NODE_SETTING)
		return control_commit(n, x, &h->w, last, c);
	if (n->kind == NODE_SCRATCH_FILE) {
		struct node *forward;

		mutex_lock(&x->lock);
		forward = x->forward;
		if (forward)
			node_hold(forward);
		mutex_unlock(&x->lock);
		if (!forward)
			return 0;
		row = ofile_row_lock(forward);
		if (row)
			mutex_lock(row);
		mutex_lock(&x->lock);
		if (forward->kind == NODE_PLAIN || forward->kind == NODE_VERSION)
			r = writer_commit(&x->w, forward, false, c);
		mutex_unlock(&x->lock);
		if (row)
			mutex_unlock(row);
		node_put(forward);
		return r;
	}
	row = ofile_row_lock(n);
	mutex_lock(row);
	mutex_lock(&x->lock);
	if (n->kind == NODE_PLAIN)
		r = writer_commit(&h->w, h->target, last, c);
	else if (h->life == x->life)
		r = writer_commit(&x->w, n, last, c);
	mutex_unlock(&x->lock);
	mutex_unlock(row);
	return r;
}

void ofile_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);
	struct changes c = {0};
	int r;

	(void)ino;
	r = h ? commit_handle(h, false, &c) : 0;
	changes_reply_err(&c, req, r);
}

void ofile_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);
	struct changes c = {0};
	int r;

	(void)ino;
	(void)datasync;
	r = h ? commit_handle(h, false, &c) : 0;
	if (r == 0)
		r = tfs_sync(fs.store);
	changes_reply_err(&c, req, r);
}

void ofile_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct handle *h = handle_of(fi);
	struct changes c = {0};
	int r = 0;

	if (h) {
		r = commit_handle(h, true, &c);
		handle_free(h);
	} else if (!fs.no_open) {
		struct node *n = node_of(ino);
		struct filex *orphan = NULL;

		if (n->kind == NODE_VERSION) {
			mutex_lock(tree_mutex());
			if (n->opens > 0)
				n->opens--;
			if (n->opens == 0 && n->file && n->file->orphan && !n->file->handles) {
				orphan = n->file;
				orphan->orphan = false;
			}
			mutex_unlock(tree_mutex());
			filex_put(n, orphan);
		}
	}
	changes_reply_err(&c, req, r);
}

void ofile_close_all(void)
{
	for (;;) {
		struct handle *h;
		struct changes c = {0};

		mutex_lock(tree_mutex());
		h = all_handles;
		mutex_unlock(tree_mutex());
		if (!h)
			return;
		refuse_begin();
		(void)!commit_handle(h, true, &c);
		changes_fini(&c);
		handle_free(h);
	}
}
