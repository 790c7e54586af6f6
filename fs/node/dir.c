/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directory streams: READDIR and READDIRPLUS.
 *
 * An offset is a stream's number, new for each listing from the start, and an
 * ordinal.  A stream remembers the cursor of each recent position and of one
 * in CHECKPOINT_EVERY, and a position never changes its meaning: where a
 * reader has gone back and now meets other entries than before, those have
 * the number of a new stream.  A position that is no longer remembered is
 * counted from the checkpoint before it if the directory has not changed since
 * the listing began.  Otherwise, and where the stream has been forgotten, the
 * call fails with ESTALE: no entry is passed over in silence.
 *
 * An open directory pins its stream until RELEASEDIR, so a listing under way
 * is exact however many others are begun or abandoned.  Streams of closed
 * directories are kept, the latest IDLE_BYTES of them (seekdir in a directory
 * that was opened again, as NFS servers do).  Memory: at most MARK_BYTES and a key in
 * CHECKPOINT_EVERY for an open directory, and IDLE_BYTES for all closed ones.
 *
 * A read-only mount in which nothing expires has no handles: OPENDIR is
 * answered ENOSYS, which saves two requests a listing.  There all listings
 * have the same offsets, so that any of them can be found again by counting.
 *
 * The kernel caches listings.  It believes its copy only after the empty
 * answer that ends the listing, so that is where truth is ensured: a commit
 * after that answer finds the directory flagged as listed and invalidates
 * it; for one since the listing began (the stream knows the directory's
 * change count from then) the copy is invalidated first and the end is told
 * after, which leaves the kernel a copy it knows to be incomplete.
 */
#include "fs/node/dir.h"

#include "fs/base/cache.h"
#include "fs/file/file.h"
#include "fs/base/notify.h"
#include "fs/base/reply.h"
#include "fs/node/scratch.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#define BUCKETS 128
#define IDLE_BYTES (8u << 20)
#define RECENT_MAX 4096
#define MARK_BYTES (512u << 10) /* of long keys fewer are remembered, but never fewer than an answer has */
#define RECENT_MIN 1024
#define CHECKPOINT_EVERY 1024
/* A stream's first entries come with attributes, if the kernel asks; past them, names only: each node it holds costs us memory. */
#define PLUS_ENTRIES 12288

struct mark {
	uint64_t ordinal; /* entries given before this place; 0: unused */
	struct cursor at;
};
struct stream {
	struct mutex lock;
	TAILQ_ENTRY(stream) age; /* pool lock: while idle */
	LIST_ENTRY(stream) same; /* pool lock: in a bucket */
	uint32_t id;
	uint64_t dir_ino;
	const struct node *dir;
	uint32_t epoch;       /* of the directory when the listing began */
	unsigned batches;     /* answers that had entries */
	uint64_t end;         /* the ordinal at which an answer found nothing more; 0: not met */
	uint64_t end_changes; /* and what fs.changes and the epoch were before it looked */
	uint32_t end_epoch;
	bool damaged;        /* something could not be read: said at the end */
	bool ended;          /* pool lock: its end was told */
	unsigned users;      /* pool lock: the open directory, and requests; 0: idle */
	size_t bytes;        /* with its marks */
	struct mark *recent; /* ordinal n stands at n % recent_cap */
	unsigned recent_cap;
	struct mark *checkpoints;
	unsigned checkpoint_count, checkpoint_cap;
};
/* An open directory: fi->fh. */
struct dir_handle {
	/* Pool lock; each counted, or NULL: the one read last, and the one that an answer went over to, if its reader comes to that part. */
	struct stream *stream, *fork;
};

LIST_HEAD(bucket, stream);
static struct {
	struct mutex lock;         /* RANK_FS_TREE; nothing is called under it */
	TAILQ_HEAD(, stream) idle; /* the first was not used for longest, and is forgotten first */
	size_t idle_bytes;
	struct bucket buckets[BUCKETS]; /* by directory */
	uint32_t next_id;
} pool;

int dir_init(void)
{
	mutex_init(&pool.lock, RANK_FS_TREE);
	TAILQ_INIT(&pool.idle);
	for (int i = 0; i < BUCKETS; i++)
		LIST_INIT(&pool.buckets[i]);
	pool.next_id = 1;
	return 0;
}

static void stream_free(struct stream *s)
{
	for (unsigned i = 0; i < s->recent_cap; i++)
		buf_fini(&s->recent[i].at.key);
	for (unsigned i = 0; i < s->checkpoint_count; i++)
		buf_fini(&s->checkpoints[i].at.key);
	free(s->recent);
	free(s->checkpoints);
	mutex_fini(&s->lock);
	free(s);
}

void dir_fini(void)
{
	struct stream *s;

	/* Directories that are still open send no RELEASEDIR after the end. */
	for (int i = 0; i < BUCKETS; i++) {
		while ((s = LIST_FIRST(&pool.buckets[i])) != NULL) {
			LIST_REMOVE(s, same);
			stream_free(s);
		}
	}
	mutex_fini(&pool.lock);
}

static bool stream_is_of(const struct stream *s, const struct node *dir)
{
	return s->dir == dir && s->dir_ino == dir->ino;
}

static struct bucket *bucket_of(uint64_t dir_ino)
{
	return &pool.buckets[(dir_ino ^ dir_ino >> 32) % BUCKETS];
}

/* A stream of dir with one user.  NULL: out of memory. */
static struct stream *stream_new_locked(const struct node *dir, uint32_t epoch)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	mutex_init(&s->lock, RANK_FS_ROW); /* entries ask files */
	s->bytes = sizeof(*s);
	s->epoch = epoch;
	s->id = fs.no_opendir ? 1 : pool.next_id++;
	if (pool.next_id > INT32_MAX)
		pool.next_id = 1;
	s->dir = dir;
	s->dir_ino = dir->ino;
	s->users = 1;
	LIST_INSERT_HEAD(bucket_of(dir->ino), s, same);
	return s;
}

static void stream_use_locked(struct stream *s)
{
	if (s->users++ > 0)
		return;
	TAILQ_REMOVE(&pool.idle, s, age);
	pool.idle_bytes -= s->bytes;
}

static void stream_leave_locked(struct stream *s)
{
	if (!s || --s->users > 0)
		return;
	TAILQ_INSERT_TAIL(&pool.idle, s, age);
	pool.idle_bytes += s->bytes;
	while (pool.idle_bytes > IDLE_BYTES) {
		s = TAILQ_FIRST(&pool.idle);
		TAILQ_REMOVE(&pool.idle, s, age);
		LIST_REMOVE(s, same);
		pool.idle_bytes -= s->bytes;
		stream_free(s);
	}
}

static void pin_locked(struct stream **pin, struct stream *s)
{
	stream_use_locked(s);
	stream_leave_locked(*pin);
	*pin = s;
}

/* The stream of an offset (id), or for a listing from the start (id 0) a new one; counted.  -ESTALE: it has been forgotten. */
static int stream_take(const struct node *dir, uint32_t id, struct dir_handle *h, struct stream **out)
{
	struct stream *s = NULL;
	int r = 0;

	mutex_lock(&pool.lock);
	if (id || fs.no_opendir)
		LIST_FOREACH (s, bucket_of(dir->ino), same)
			if (s->id == (id ? id : 1) && stream_is_of(s, dir))
				break;
	if (s)
		stream_use_locked(s);
	else if (id && !fs.no_opendir)
		r = -ESTALE;
	else if (!(s = stream_new_locked(dir, dir->epoch)))
		r = -ENOMEM;
	if (s && h)
		pin_locked(&h->stream, s);
	mutex_unlock(&pool.lock);
	*out = s;
	return r;
}

/* From here on the listing has other entries at the same ordinals: it gets a number of its own.  Counted; NULL: out of memory. */
static struct stream *stream_fork(const struct stream *s, const struct node *dir, struct dir_handle *h)
{
	struct stream *fork;

	mutex_lock(&pool.lock);
	fork = stream_new_locked(dir, dir->epoch - 1);
	if (fork) {
		fork->damaged = s->damaged;
		if (h)
			pin_locked(&h->fork, fork);
	}
	mutex_unlock(&pool.lock);
	return fork;
}

/*
 * May the kernel keep what it collected of this listing?  Not if the
 * directory changed since it began.  Not while another stream of it, with
 * other offsets, is under way: its reader would look for its offset in the
 * kernel's copy, not find it, and stop short.  And not if it took more than
 * one answer: a reader could come back from a copy that was dropped, much
 * later, to a place that this stream has long forgotten.
 */
static bool stream_may_be_kept(struct stream *s, const struct node *dir)
{
	bool keep = s->epoch == dir->epoch && s->batches <= 1;
	struct stream *other;

	mutex_lock(&pool.lock);
	s->ended = true;
	LIST_FOREACH (other, bucket_of(dir->ino), same)
		keep = keep && (other == s || !stream_is_of(other, dir) || other->ended);
	mutex_unlock(&pool.lock);
	return keep || fs.no_opendir;
}

static void stream_give(struct stream *s)
{
	mutex_lock(&pool.lock);
	stream_leave_locked(s);
	mutex_unlock(&pool.lock);
}

static int mark_set(struct stream *s, struct mark *m, uint64_t ordinal, const struct cursor *at)
{
	size_t before = m->at.key.cap;
	int r = buf_set(&m->at.key, at->key.p, at->key.n);

	s->bytes += m->at.key.cap - before;
	m->ordinal = r ? 0 : ordinal;
	m->at.phase = at->phase;
	m->at.number = at->number;
	return r;
}

static bool cursor_eq(const struct cursor *a, const struct cursor *b)
{
	return a->phase == b->phase && a->number == b->number && slice_eq(buf_slice(&a->key), buf_slice(&b->key));
}

/* The nearest checkpoint at or before ordinal; NULL: the start. */
static const struct mark *checkpoint_before(const struct stream *s, uint64_t ordinal)
{
	uint64_t i = ordinal / CHECKPOINT_EVERY; /* the i-th, from 1, has ordinal i * CHECKPOINT_EVERY, if none was missed */

	i = i < s->checkpoint_count ? i : s->checkpoint_count;
	while (i > 0 && s->checkpoints[i - 1].ordinal > ordinal)
		i--;
	return i ? &s->checkpoints[i - 1] : NULL;
}

/* The place of an ordinal, or NULL. */
static const struct mark *recall(const struct stream *s, uint64_t ordinal)
{
	const struct mark *m = s->recent_cap ? &s->recent[ordinal % s->recent_cap] : NULL;

	if (m && m->ordinal == ordinal)
		return m;
	m = checkpoint_before(s, ordinal);
	return m && m->ordinal == ordinal ? m : NULL;
}

static int recent_grow(struct stream *s)
{
	unsigned cap = s->recent_cap ? s->recent_cap * 4 : 16;
	struct mark *more = calloc(cap, sizeof(*more));

	if (!more)
		return -ENOMEM;
	for (unsigned i = 0; i < s->recent_cap; i++) {
		struct mark *m = &s->recent[i];

		if (m->ordinal)
			more[m->ordinal % cap] = *m;
		else
			buf_fini(&m->at.key);
	}
	free(s->recent);
	s->bytes += (cap - s->recent_cap) * sizeof(*more);
	s->recent = more;
	s->recent_cap = cap;
	return 0;
}

static int remember(struct stream *s, uint64_t ordinal, const struct cursor *at)
{
	struct mark *m = s->recent_cap ? &s->recent[ordinal % s->recent_cap] : NULL;
	int r = 0;

	while (r == 0 && (!m || (m->ordinal && m->ordinal != ordinal)) &&
		(s->recent_cap < RECENT_MIN || (s->recent_cap < RECENT_MAX && s->bytes < MARK_BYTES))) {
		r = recent_grow(s);
		m = r ? NULL : &s->recent[ordinal % s->recent_cap];
	}
	if (r == 0)
		r = mark_set(s, m, ordinal, at);
	if (r || ordinal % CHECKPOINT_EVERY)
		return r;
	if (s->checkpoint_count && s->checkpoints[s->checkpoint_count - 1].ordinal >= ordinal)
		return 0;
	if (s->checkpoint_count == s->checkpoint_cap) {
		unsigned cap = s->checkpoint_cap ? s->checkpoint_cap * 2 : 8;
		struct mark *more = realloc(s->checkpoints, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->bytes += (cap - s->checkpoint_cap) * sizeof(*more);
		s->checkpoints = more;
		s->checkpoint_cap = cap;
	}
	s->checkpoints[s->checkpoint_count] = (struct mark){0};
	return mark_set(s, &s->checkpoints[s->checkpoint_count++], ordinal, at);
}

/* ---- building an answer ---- */

struct answer {
	fuse_req_t req;
	struct node *dir;
	bool plus;
	char *buf;
	size_t size, used;
	uint64_t changes; /* as they were before anything was looked at */
	uint32_t epoch;
	struct family_info family; /* of the cells here */
	const struct tfs_schema *schema;
	struct dir_handle *handle; /* NULL: there are none */
	struct stream *stream;     /* whose offsets the answer has now */
	bool forked;               /* that is a new one; counted */
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
	return true;
}

static mode_t type_of(enum node_kind kind)
{
	struct node n = {.kind = (uint8_t)kind};

	return node_is_dir(&n) ? S_IFDIR : S_IFREG;
}

/* Something of it may be staged. */
static bool is_open(struct node *plain)
{
	struct filex *x = handle_are_any() ? filex_find(plain) : NULL;

	filex_put(x);
	return x != NULL;
}

/* Attributes without asking the store, where the scan and the schema have all there is to know. */
static bool entry_at_hand(struct answer *a, struct node *n, const struct list_entry *e, struct fuse_entry_param *p)
{
	const struct tfs_family *f;
	struct family_info info;

	memset(p, 0, sizeof(*p));
	p->ino = id_of(n);
	p->attr_timeout = p->entry_timeout = FS_FOREVER;
	switch (e->kind) {
	case NODE_VERSION:
		/*
		 * A size from before a commit would make the kernel cut off
		 * pages it has just been given: only when nothing changed.
		 */
		if (n->file || !tree_learnt(n, &e->info, a->changes))
			return false;
		tree_entry_version(n, &a->family, &e->info, p);
		if (e->value.data && e->info.size <= CACHE_VALUE_MAX)
			cache_put(n, e->value.data, (size_t)e->info.size, a->changes);
		return true;
	case NODE_PLAIN:
		if (is_open(n) || a->changes != atomic_load(&fs.changes))
			return false;
		cell_attr(n, &a->family, e->ts, e->info.commit_us, e->info.size, &p->attr);
		p->attr_timeout = p->entry_timeout = tree_entry_timeout(n);
		return true;
	case NODE_ROW:
	case NODE_ROW_PART:
		tree_dir_attr(n, a->schema->mode, a->schema->uid, a->schema->gid, &p->attr);
		return true;
	case NODE_FAMILY:
		f = tfs_schema_family(a->schema, node_name(n));
		if (!f)
			return false;
		family_info_from(f, &info);
		tree_dir_attr(n, info.mode | (info.mode & 0444) >> 2, info.uid, info.gid, &p->attr);
		return true;
	case NODE_CELL_PART:
		tree_dir_attr(n, a->family.mode | (a->family.mode & 0444) >> 2, a->family.uid, a->family.gid, &p->attr);
		return true;
	case NODE_ROOT:
	case NODE_TABLE:
	case NODE_LATEST:
	case NODE_SCRATCH_FILE:
	case NODE_SCRATCH_DIR:
	case NODE_SCHEMA:
	case NODE_FAMILIES:
	case NODE_FAMILY_DIR:
	case NODE_GROUPS:
	case NODE_GROUP_DIR:
	case NODE_SETTING:
	case NODE_SYSTEM:
		break;
	}
	return false;
}

static int entry_node(struct answer *a, const struct list_entry *e, const char *name, struct node **out)
{
	if (e->kind == NODE_VERSION || e->kind == NODE_PLAIN || e->kind == NODE_ROW || e->kind == NODE_FAMILY ||
		e->kind == NODE_ROW_PART || e->kind == NODE_CELL_PART) {
		*out = node_get(e->parent, e->kind, e->key, e->kind == NODE_VERSION ? e->ts : 0);
		return *out ? 0 : -ENOMEM;
	}
	return tree_find(a->dir, name, out);
}

/* 1 added, 0 full, -errno. */
static int add_entry(struct answer *a, const struct list_entry *e, off_t offset)
{
	struct fuse_entry_param p;
	struct node *n = NULL;
	char name[256];
	size_t used;
	int r;

	memcpy(name, e->name.p, e->name.n);
	name[e->name.n] = 0;
	if (!a->plus || e->unsure || (offset & UINT32_MAX) > PLUS_ENTRIES)
		return add_plain(
			a, name, node_ino(e->parent, e->kind, e->key, e->kind == NODE_PLAIN ? 0 : e->ts), type_of(e->kind), offset);
	r = entry_node(a, e, name, &n);
	if (r == 0 && !entry_at_hand(a, n, e, &p))
		r = tree_entry(n, &p);
	if (r == -ENOENT || r == -ESTALE || r == -EBADMSG || r == -EIO) {
		/* It went meanwhile, or cannot be read; the kernel will find that out by itself. */
		node_put(n);
		return add_plain(a, name, 2, type_of(e->kind), offset);
	}
	if (r) {
		node_put(n);
		return r;
	}
	tree_entry_given(n, e->name, &p);
	used = fuse_add_direntry_plus(a->req, a->buf + a->used, a->size - a->used, name, &p, offset);
	if (used <= a->size - a->used) {
		a->used += used;
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
 * Every listing is ended by one more request, whose answer is empty.  If the
 * one before it met the end and nothing has changed since, that is known.
 */
static bool at_known_end(const struct answer *a, const struct stream *s, uint64_t ordinal)
{
	return s->end && s->end == ordinal && s->end_changes == a->changes && s->end_epoch == a->epoch;
}

static bool table_expires(const struct tfs_schema *schema)
{
	for (unsigned i = 0; i < schema->family_count; i++)
		if (schema->families[i].max_age_us > 0)
			return true;
	return false;
}

bool dir_any_expires(void)
{
	char names[16][TFS_NAME_MAX + 1], after[TFS_NAME_MAX + 1] = "";
	const struct tfs_schema *schema;
	bool expires = false;
	struct tfs_table *t;
	int n;

	while (!expires && (n = tfs_table_list(fs.store, after, names, 16)) > 0) {
		for (int i = 0; i < n && !expires; i++) {
			if (tfs_table_open(fs.store, names[i], &t))
				continue;
			expires = tfs_schema_get(t, &schema) != 0;
			if (!expires) {
				expires = table_expires(schema);
				tfs_schema_put(schema);
			}
			tfs_table_close(t);
		}
		strcpy(after, names[n - 1]);
	}
	return expires;
}

/* Is what an ordinal means found by counting entries? */
static bool may_count(const struct answer *a, const struct stream *s)
{
	return fs.no_opendir || (s->epoch == a->epoch && !(a->schema && table_expires(a->schema)));
}

/* What has an ordinal keeps it: another entry begins another stream. */
static int remember_entry(struct answer *a, uint64_t ordinal, const struct cursor *at)
{
	const struct mark *m = recall(a->stream, ordinal);
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

/* The lister behind the entry with this ordinal: 1; 0, the directory ends before it. */
static int begin_at(struct answer *a, const struct stream *s, uint64_t ordinal, struct lister **out)
{
	const struct mark *from = ordinal > 2 ? recall(s, ordinal) : NULL;
	struct list_entry e;
	uint64_t at;
	int r;

	if (!from && ordinal > 2) {
		if (!may_count(a, s))
			return refuse(-ESTALE, a->dir, NULL,
				"a reader went back to a place that is no longer known, and the directory has changed");
		from = checkpoint_before(s, ordinal);
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

static int fill(struct answer *a, struct stream *s, uint64_t ordinal)
{
	uint64_t at = ordinal > 2 ? ordinal : 2;
	struct lister *l = NULL;
	struct list_entry e;
	int r;

	if (ordinal < 1 && !add_plain(a, ".", a->dir->ino, S_IFDIR, offset_of(s, 1)))
		return 0;
	if (ordinal < 2 && !add_plain(a, "..", a->dir->parent ? a->dir->parent->ino : a->dir->ino, S_IFDIR, offset_of(s, 2)))
		return 0;
	r = begin_at(a, s, ordinal, &l);
	while (r > 0) {
		r = lister_next(l, &e);
		if (r == 0) {
			a->stream->end = at;
			a->stream->end_changes = a->changes;
			a->stream->end_epoch = a->epoch;
		}
		if (r <= 0)
			break;
		at++;
		r = remember_entry(a, at, lister_cursor(l));
		if (r == 0)
			r = add_entry(a, &e, offset_of(a->stream, at));
		if (r > 0 && remember(a->stream, at, lister_cursor(l)))
			r = -ENOMEM;
	}
	if (l && lister_damaged(l))
		a->stream->damaged = true;
	lister_free(l);
	return r;
}

static void list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct dir_handle *h, bool plus)
{
	struct node *dir = node_of(ino), *family = dir->kind == NODE_CELL_PART ? dir->parent : dir;
	struct answer a = {.req = req,
		.dir = dir,
		.plus = plus,
		.size = size,
		.changes = atomic_load(&fs.changes),
		.epoch = dir->epoch,
		.handle = h};
	uint64_t ordinal = (uint64_t)offset & UINT32_MAX;
	struct stream *s = NULL;
	int r = 0;

	a.buf = malloc(size);
	r = a.buf ? stream_take(dir, (uint32_t)((uint64_t)offset >> 32), h, &s) : -ENOMEM;
	if (r == -ESTALE)
		refuse(r, dir, NULL, "a reader came back to a listing of long ago");
	if (r)
		goto out;
	a.stream = s;
	if (node_table(dir))
		r = tfs_schema_get(node_store_table(dir), &a.schema);
	if (r == 0 && family->kind == NODE_FAMILY)
		r = family_info_get(family, &a.family);
	if (r == 0) {
		mutex_lock(&s->lock);
		if (!at_known_end(&a, s, ordinal))
			r = fill(&a, s, ordinal);
		if (r >= 0 && a.used == 0 && a.stream->damaged)
			r = -EIO;
		a.stream->batches += a.used > 0;
		mutex_unlock(&s->lock);
	}
out:
	if (r < 0 && a.used == 0) {
		reply_err(req, refuse_store(r == -ENOENT ? -ESTALE : r, dir, NULL, "cannot be listed"));
	} else if (a.used == 0) {
		struct changes c = {0};

		mutex_lock(tree_mutex());
		dir->flags |= NODE_LISTED | NODE_ENDED;
		mutex_unlock(tree_mutex());
		if (!stream_may_be_kept(a.stream, dir))
			changes_inode(&c, dir);
		changes_reply_end(&c, req);
		if (a.schema && table_expires(a.schema))
			notify_later(dir);
	} else {
		fuse_reply_buf(req, a.buf, a.used);
	}
	if (a.schema)
		tfs_schema_put(a.schema);
	if (a.forked)
		stream_give(a.stream);
	if (s)
		stream_give(s);
	free(a.buf);
}

void dir_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	list(req, ino, size, offset, (struct dir_handle *)(uintptr_t)fi->fh, false);
}

void dir_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	list(req, ino, size, offset, (struct dir_handle *)(uintptr_t)fi->fh, true);
}

void dir_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct dir_handle *h;

	(void)ino;
	if (fs.no_opendir) {
		fuse_reply_err(req, ENOSYS);
		return;
	}
	h = calloc(1, sizeof(*h));
	if (!h) {
		reply_err(req, -ENOMEM);
		return;
	}
	fi->fh = (uintptr_t)h;
	fi->cache_readdir = fi->keep_cache = 1;
	if (fuse_reply_open(req, fi) != 0)
		free(h);
}

void dir_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct dir_handle *h = (struct dir_handle *)(uintptr_t)fi->fh;

	(void)ino;
	if (h) {
		mutex_lock(&pool.lock);
		stream_leave_locked(h->stream);
		stream_leave_locked(h->fork);
		mutex_unlock(&pool.lock);
		free(h);
	}
	reply_err(req, 0);
}
