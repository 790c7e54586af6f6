/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directory streams (DESIGN 2.2): READDIR and READDIRPLUS without handles.
 *
 * OPENDIR is answered ENOSYS, so the kernel caches listings and an offset is
 * all that comes back: a stream number, new for each listing from the start,
 * and an ordinal.  A stream remembers the cursors of its recent entries and
 * of one in CHECKPOINT_EVERY.  An offset of a stream that has been forgotten
 * is found again by counting from the start: right unless the directory
 * changed, and needed only by readers that come back after many others.
 *
 * The kernel caches listings.  It believes its copy only after the empty
 * answer that ends the listing, so that is where truth is ensured: a commit
 * after that answer finds the directory flagged as listed and invalidates
 * it; for one since the listing began (the stream knows the directory's
 * change count from then) the copy is invalidated first and the end is told
 * after, which leaves the kernel a copy it knows to be incomplete.
 */
#include "fs/dir.h"

#include "fs/cache.h"
#include "fs/file.h"
#include "fs/notify.h"
#include "fs/reply.h"
#include "fs/scratch.h"
#include "fs/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#define STREAMS 256
#define BUCKETS 128
#define RECENT_MAX 1024
#define RECENT_BYTES (256u << 10) /* of long keys fewer are remembered */
#define CHECKPOINT_EVERY 1024
/* A stream's first entries come with attributes, if the kernel asks; past them, names only: each node it holds costs us memory. */
#define PLUS_ENTRIES 12288

struct mark {
	uint64_t ordinal; /* entries given before this place; 0: unused */
	struct cursor at;
};
struct stream {
	struct mutex lock;
	TAILQ_ENTRY(stream) age;  /* pool lock */
	LIST_ENTRY(stream) same;  /* pool lock: in a bucket, while id != 0 */
	uint32_t id;           /* 0: unused */
	uint64_t dir_ino;
	const struct node *dir;
	uint32_t epoch;        /* of the directory when the listing began */
	unsigned batches;      /* answers that had entries */
	uint64_t end;          /* the ordinal at which an answer found nothing more; 0: not met */
	uint64_t end_changes;  /* and what fs.changes and the epoch were before it looked */
	uint32_t end_epoch;
	bool damaged;          /* something could not be read: said at the end */
	bool ended;            /* pool lock: its end was told */
	unsigned users;        /* pool lock */
	struct mark *recent;
	unsigned recent_cap, recent_at;
	uint64_t furthest;     /* the greatest ordinal remembered */
	struct mark *checkpoints;
	unsigned checkpoint_count, checkpoint_cap;
};

LIST_HEAD(bucket, stream);
static struct {
	struct mutex lock;     /* RANK_FS_TREE; nothing is called under it */
	struct stream stream[STREAMS];
	TAILQ_HEAD(, stream) ages;     /* whom to forget first: those ended, then those not used for longest */
	struct bucket buckets[BUCKETS]; /* by directory */
	uint32_t next_id;
} pool;

int dir_init(void)
{
	mutex_init(&pool.lock, RANK_FS_TREE);
	TAILQ_INIT(&pool.ages);
	for (int i = 0; i < BUCKETS; i++)
		LIST_INIT(&pool.buckets[i]);
	for (int i = 0; i < STREAMS; i++) {
		mutex_init(&pool.stream[i].lock, RANK_FS_ROW); /* entries ask files */
		TAILQ_INSERT_TAIL(&pool.ages, &pool.stream[i], age);
	}
	pool.next_id = 1;
	return 0;
}

static void stream_reset(struct stream *s)
{
	/* Ring slots keep their memory for the next listing. */
	for (unsigned i = 0; i < s->recent_cap; i++)
		s->recent[i].ordinal = 0;
	for (unsigned i = 0; i < s->checkpoint_count; i++)
		buf_fini(&s->checkpoints[i].at.key);
	s->checkpoint_count = 0;
	s->recent_at = 0;
	s->furthest = 0;
	s->damaged = false;
}

void dir_fini(void)
{
	for (int i = 0; i < STREAMS; i++) {
		struct stream *s = &pool.stream[i];

		stream_reset(s);
		for (unsigned j = 0; j < s->recent_cap; j++)
			buf_fini(&s->recent[j].at.key);
		free(s->recent);
		free(s->checkpoints);
		mutex_fini(&s->lock);
		*s = (struct stream){0};
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

/* A stream for a listing of dir from the start (id 0), or one that goes on but has been forgotten; NULL: all are in use. */
static struct stream *stream_new_locked(const struct node *dir, uint32_t id)
{
	struct stream *s;

	TAILQ_FOREACH(s, &pool.ages, age)
		if (s->users == 0)
			break;
	if (!s)
		return NULL;
	if (s->id)
		LIST_REMOVE(s, same);
	stream_reset(s);
	/* One that was forgotten cannot tell what it missed. */
	s->epoch = id && !fs.read_only ? dir->epoch - 1 : dir->epoch;
	s->batches = 0;
	s->end = 0;
	if (fs.read_only) {
		/* Nothing changes, so all listings can have the same offsets. */
		id = 1;
	} else if (id == 0) {
		id = pool.next_id++;
		if (pool.next_id > INT32_MAX)
			pool.next_id = 1;
	}
	s->id = id;
	s->dir = dir;
	s->dir_ino = dir->ino;
	s->ended = false;
	LIST_INSERT_HEAD(bucket_of(dir->ino), s, same);
	return s;
}

/* The stream of an offset (id), or for a listing from the start (id 0) a new one.  NULL: all are in use. */
static struct stream *stream_take(const struct node *dir, uint32_t id)
{
	struct stream *s = NULL;

	mutex_lock(&pool.lock);
	if (id)
		LIST_FOREACH(s, bucket_of(dir->ino), same)
			if (s->id == id && stream_is_of(s, dir))
				break;
	if (!s)
		s = stream_new_locked(dir, id);
	if (s) {
		s->users++;
		TAILQ_REMOVE(&pool.ages, s, age);
		TAILQ_INSERT_TAIL(&pool.ages, s, age);
	}
	mutex_unlock(&pool.lock);
	return s;
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
	TAILQ_REMOVE(&pool.ages, s, age);
	TAILQ_INSERT_HEAD(&pool.ages, s, age);
	LIST_FOREACH(other, bucket_of(dir->ino), same)
		keep = keep && (other == s || !stream_is_of(other, dir) || other->ended);
	mutex_unlock(&pool.lock);
	return keep || fs.read_only;
}

static void stream_give(struct stream *s)
{
	mutex_lock(&pool.lock);
	s->users--;
	mutex_unlock(&pool.lock);
}

static int mark_set(struct mark *m, uint64_t ordinal, const struct cursor *at)
{
	m->ordinal = ordinal;
	m->at.phase = at->phase;
	m->at.number = at->number;
	return buf_set(&m->at.key, at->key.p, at->key.n);
}

static struct mark *mark_find(struct mark *v, unsigned n, uint64_t ordinal)
{
	for (unsigned i = 0; i < n; i++)
		if (v[i].ordinal == ordinal)
			return &v[i];
	return NULL;
}

/* Who has gone back counts on from there: where the directory has changed since, an ordinal means another place now. */
static int remember_again(struct stream *s, uint64_t ordinal, const struct cursor *at, bool *done)
{
	struct mark *m = mark_find(s->checkpoints, s->checkpoint_count, ordinal);
	int r = m ? mark_set(m, ordinal, at) : 0;

	m = mark_find(s->recent, s->recent_cap, ordinal);
	*done = m != NULL;
	return r || !m ? r : mark_set(m, ordinal, at);
}

static int remember(struct stream *s, uint64_t ordinal, const struct cursor *at)
{
	bool done = false;
	int r;

	if (ordinal <= s->furthest) {
		r = remember_again(s, ordinal, at, &done);
		if (r || done)
			return r;
	}
	s->furthest = ordinal > s->furthest ? ordinal : s->furthest;
	if (s->recent_at == s->recent_cap && s->recent_cap < RECENT_MAX && (!s->recent_cap || s->recent_cap * at->key.n < RECENT_BYTES)) {
		unsigned cap = s->recent_cap ? s->recent_cap * 4 : 16;
		struct mark *more = realloc(s->recent, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		memset(more + s->recent_cap, 0, (cap - s->recent_cap) * sizeof(*more));
		s->recent = more;
		s->recent_cap = cap;
	}
	if (s->recent_at == s->recent_cap)
		s->recent_at = 0;
	r = mark_set(&s->recent[s->recent_at], ordinal, at);
	if (r)
		return r;
	s->recent_at++;
	if (ordinal % CHECKPOINT_EVERY)
		return 0;
	if (s->checkpoint_count && s->checkpoints[s->checkpoint_count - 1].ordinal >= ordinal)
		return 0;
	if (s->checkpoint_count == s->checkpoint_cap) {
		unsigned cap = s->checkpoint_cap ? s->checkpoint_cap * 2 : 8;
		struct mark *more = realloc(s->checkpoints, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->checkpoints = more;
		s->checkpoint_cap = cap;
	}
	s->checkpoints[s->checkpoint_count] = (struct mark){0};
	return mark_set(&s->checkpoints[s->checkpoint_count++], ordinal, at);
}

/* The nearest known place at or before ordinal; NULL: the start. */
static const struct mark *recall(const struct stream *s, uint64_t ordinal)
{
	const struct mark *best = NULL;

	for (unsigned i = 0; i < s->recent_cap; i++)
		if (s->recent[i].ordinal && s->recent[i].ordinal <= ordinal && (!best || s->recent[i].ordinal > best->ordinal))
			best = &s->recent[i];
	for (unsigned i = 0; i < s->checkpoint_count; i++)
		if (s->checkpoints[i].ordinal <= ordinal && (!best || s->checkpoints[i].ordinal > best->ordinal))
			best = &s->checkpoints[i];
	return best;
}

/* ---- building an answer ---- */

struct answer {
	fuse_req_t req;
	struct node *dir;
	bool plus;
	char *buf;
	size_t size, used;
	uint64_t changes;            /* as they were before anything was looked at */
	uint32_t epoch;
	struct family_info family;   /* of the cells here */
	const struct tfs_schema *schema;
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
	if (e->kind == NODE_VERSION || e->kind == NODE_PLAIN || e->kind == NODE_ROW || e->kind == NODE_FAMILY || e->kind == NODE_ROW_PART ||
	    e->kind == NODE_CELL_PART) {
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
		return add_plain(a, name, node_ino(e->parent, e->kind, e->key, e->kind == NODE_PLAIN ? 0 : e->ts), type_of(e->kind), offset);
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

/*
 * Every listing is ended by one more request, whose answer is empty.  If the
 * one before it met the end and nothing has changed since, that is known.
 */
static bool at_known_end(const struct answer *a, const struct stream *s, uint64_t ordinal)
{
	return s->end && s->end == ordinal && s->end_changes == a->changes && s->end_epoch == a->epoch;
}

static int fill(struct answer *a, struct stream *s, uint64_t ordinal)
{
	const struct mark *from = recall(s, ordinal);
	uint64_t at = from ? from->ordinal : 2;
	off_t base = (off_t)((uint64_t)s->id << 32);
	struct lister *l = NULL;
	struct list_entry e;
	int r;

	if (ordinal < 1 && !add_plain(a, ".", a->dir->ino, S_IFDIR, base + 1))
		return 0;
	if (ordinal < 2 && !add_plain(a, "..", a->dir->parent ? a->dir->parent->ino : a->dir->ino, S_IFDIR, base + 2))
		return 0;
	r = lister_new(a->dir, from ? &from->at : NULL, a->plus, &l);
	while (r == 0 && at < ordinal) {
		r = lister_next(l, &e);
		if (r == 0) {
			lister_free(l);
			return 0;
		}
		r = r > 0 ? 0 : r;
		at++;
	}
	while (r == 0) {
		r = lister_next(l, &e);
		if (r == 0) {
			s->end = at;
			s->end_changes = a->changes;
			s->end_epoch = a->epoch;
		}
		if (r <= 0)
			break;
		at++;
		r = add_entry(a, &e, base + (off_t)at);
		if (r <= 0)
			break;
		r = remember(s, at, lister_cursor(l));
	}
	if (l && lister_damaged(l))
		s->damaged = true;
	lister_free(l);
	return r;
}

static bool table_expires(const struct tfs_schema *schema)
{
	for (unsigned i = 0; i < schema->family_count; i++)
		if (schema->families[i].max_age_us > 0)
			return true;
	return false;
}

static void list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, bool plus)
{
	struct node *dir = node_of(ino), *family = dir->kind == NODE_CELL_PART ? dir->parent : dir;
	struct answer a = {.req = req, .dir = dir, .plus = plus, .size = size, .changes = atomic_load(&fs.changes), .epoch = dir->epoch};
	struct stream *s = NULL;
	int r = 0;

	a.buf = malloc(size);
	s = a.buf ? stream_take(dir, (uint32_t)((uint64_t)offset >> 32)) : NULL;
	if (!s) {
		r = a.buf ? -EBUSY : -ENOMEM;
		goto out;
	}
	if (node_table(dir))
		r = tfs_schema_get(node_store_table(dir), &a.schema);
	if (r == 0 && family->kind == NODE_FAMILY)
		r = family_info_get(family, &a.family);
	if (r == 0) {
		mutex_lock(&s->lock);
		if (!at_known_end(&a, s, (uint64_t)offset & UINT32_MAX))
			r = fill(&a, s, (uint64_t)offset & UINT32_MAX);
		if (r >= 0 && a.used == 0 && s->damaged)
			r = -EIO;
		s->batches += a.used > 0;
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
		if (!stream_may_be_kept(s, dir))
			changes_inode(&c, dir);
		changes_reply_end(&c, req);
		if (a.schema && table_expires(a.schema))
			notify_later(dir);
	} else {
		fuse_reply_buf(req, a.buf, a.used);
	}
	if (a.schema)
		tfs_schema_put(a.schema);
	if (s)
		stream_give(s);
	free(a.buf);
}

void dir_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	(void)fi;
	list(req, ino, size, offset, false);
}

void dir_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	(void)fi;
	list(req, ino, size, offset, true);
}
