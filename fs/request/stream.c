/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directory streams, for READDIR and READDIRPLUS.
 *
 * An offset is the id of a stream, which is new for each listing from the
 * start, and an ordinal.  A stream remembers the cursor of each recent
 * position, and of one position in CHECKPOINT_EVERY.  A position never changes
 * its meaning: if a reader seeks back and now gets other entries, these have
 * the id of a new stream.  A position that is not remembered any more is found
 * by counting from the checkpoint before it, if the directory has not changed
 * since the listing began.  Otherwise, and if the stream has been removed, the
 * call fails with ESTALE: no entry is skipped silently.
 *
 * An open directory pins its stream until RELEASEDIR, so its listing is exact
 * however many others begin.  Streams of closed directories stay, the latest
 * IDLE_BYTES of them, for seekdir in a directory that was opened again, as NFS
 * servers do it.  Memory: at most PLACES_BYTES and a key in CHECKPOINT_EVERY
 * for an open directory, and IDLE_BYTES for all closed ones.
 *
 * If another process serves the store, each scan is a round trip.  Then an open directory
 * keeps its scan from one answer to the next (struct pause), and continues it
 * if nothing has changed since the scan began.
 *
 * A read-only mount in which nothing expires has no handles: OPENDIR returns
 * ENOSYS, which saves two requests a listing.  There all listings of a directory
 * are one stream, number SHARED.  A view lists what its reader may see, so each
 * listing of a view has a stream of its own there, too.  A stream that was
 * removed is made again, because each offset can be found by counting.
 *
 * The kernel caches listings.  It uses its copy only after the empty answer
 * that ends the listing, so that answer must be right.  A commit after it finds
 * the directory flagged as listed, and invalidates the copy.  If there was a
 * commit since the listing began (the stream has the directory's change count
 * of that time), the copy is invalidated before the end is sent, which leaves
 * the kernel an incomplete copy, that it does not use.
 */
#include "fs/request/stream.h"

#include <errno.h>
#include <stdlib.h>

#define BUCKETS 16384 /* IDLE_BYTES hold about 20,000 streams */
#define SHARED 1
#define PAUSES_MAX 64u /* each has up to two batches of its scan in memory */
#define IDLE_BYTES (8u << 20)
#define RECENT_MAX 4096
#define PLACES_BYTES (512u << 10) /* with long keys, fewer places are remembered, but not fewer than an answer has */
#define RECENT_MIN 1024
#define CHECKPOINT_EVERY 1024
LIST_HEAD(bucket, stream);
static struct {
	struct mutex lock;                       /* RANK_FS_TREE; no other lock is taken under it */
	TAILQ_HEAD(pauses, pause) pauses, ended; /* the pauses of all streams, oldest first; the pauses that will be freed */
	unsigned pause_count;
	TAILQ_HEAD(, stream) idle; /* the first was not used for the longest time, and is removed first */
	size_t idle_bytes;
	struct bucket buckets[BUCKETS]; /* by directory */
	uint32_t next_id;
} pool;

void streams_init(void)
{
	mutex_init(&pool.lock, RANK_FS_TREE);
	TAILQ_INIT(&pool.idle);
	TAILQ_INIT(&pool.pauses);
	TAILQ_INIT(&pool.ended);
	pool.next_id = SHARED + 1;
}

void pause_free(struct pause *p)
{
	if (!p)
		return;
	lister_free(p->lister);
	free(p);
}

/* The pause leaves its stream. */
static struct pause *pause_remove_locked(struct pause *p)
{
	if (!p)
		return NULL;
	TAILQ_REMOVE(&pool.pauses, p, age);
	pool.pause_count--;
	p->stream->pause = NULL;
	return p;
}

static void pause_end_locked(struct pause *p)
{
	if (pause_remove_locked(p))
		TAILQ_INSERT_TAIL(&pool.ended, p, age);
}

/* Unlocks the pool, and then frees pauses that have ended, which needs calls of the engine. */
static void pool_unlock(void)
{
	struct pauses ended = TAILQ_HEAD_INITIALIZER(ended);
	struct pause *p;

	TAILQ_CONCAT(&ended, &pool.ended, age);
	mutex_unlock(&pool.lock);
	while ((p = TAILQ_FIRST(&ended)) != NULL) {
		TAILQ_REMOVE(&ended, p, age);
		pause_free(p);
	}
}

static void stream_free(struct stream *s)
{
	for (unsigned i = 0; i < s->recent_cap; i++)
		buf_fini(&s->recent[i].at.key);
	for (unsigned i = 0; i < s->checkpoint_count; i++)
		buf_fini(&s->checkpoints[i].at.key);
	free(s->recent);
	free(s->checkpoints);
	buf_fini(&s->dir_key);
	mutex_fini(&s->lock);
	free(s);
}

void streams_fini(void)
{
	struct stream *s;

	/* Directories that are still open send no RELEASEDIR after the end. */
	for (unsigned i = 0; i < BUCKETS; i++) {
		while ((s = LIST_FIRST(&pool.buckets[i])) != NULL) {
			pause_free(pause_remove_locked(s->pause));
			LIST_REMOVE(s, same);
			stream_free(s);
		}
	}
	mutex_fini(&pool.lock);
}

/* key: of dir, by node_append_key. */
static bool stream_is_of(const struct stream *s, const struct node *dir, const struct buf *key)
{
	return s->dir == dir && s->dir_ino == dir->ino && bytes_eq(buf_bytes(key), buf_bytes(&s->dir_key));
}

static struct bucket *bucket_of(uint64_t dir_ino)
{
	return &pool.buckets[(dir_ino ^ dir_ino >> 32) % BUCKETS];
}

static uint32_t new_id_locked(void)
{
	if (pool.next_id >= INT32_MAX)
		pool.next_id = SHARED + 1;
	return pool.next_id++;
}

/* A stream of dir with one user.  NULL: out of memory. */
static struct stream *stream_new_locked(const struct node *dir, uint32_t epoch, uint32_t id)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (node_append_key(dir, &s->dir_key)) {
		buf_fini(&s->dir_key);
		free(s);
		return NULL;
	}
	mutex_init(&s->lock, RANK_FS_ROW); /* the attributes of entries need locks of files */
	s->bytes = sizeof(*s) + s->dir_key.cap;
	s->epoch = epoch;
	s->id = id;
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
	pause_end_locked(s->pause);
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

int stream_get(const struct node *dir, uint32_t id, struct dir_handle *h, struct stream **out)
{
	struct stream *s = NULL;
	struct buf key = {0};
	int r = node_append_key(dir, &key);

	if (r) {
		buf_fini(&key);
		return r;
	}
	mutex_lock(&pool.lock);
	if (!id && fs.no_opendir && !node_in_scan(dir))
		id = SHARED;
	if (id)
		LIST_FOREACH (s, bucket_of(dir->ino), same)
			if (s->id == id && stream_is_of(s, dir, &key))
				break;
	if (s)
		stream_use_locked(s);
	else if (id && !fs.no_opendir)
		r = -ESTALE;
	else if (!(s = stream_new_locked(dir, dir->epoch, id ? id : new_id_locked())))
		r = -ENOMEM;
	if (s && h)
		pin_locked(&h->stream, s);
	pool_unlock();
	buf_fini(&key);
	*out = s;
	return r;
}

struct stream *stream_fork(const struct stream *s, const struct node *dir, struct dir_handle *h)
{
	struct stream *fork;

	mutex_lock(&pool.lock);
	fork = stream_new_locked(dir, dir->epoch - 1, new_id_locked());
	if (fork) {
		fork->damaged = s->damaged;
		if (h)
			pin_locked(&h->fork, fork);
	}
	pool_unlock();
	return fork;
}

/*
 * False if the directory changed since the listing began.  False while another
 * stream of the directory, with other offsets, has not ended: its reader would
 * not find its offset in the kernel's copy, and would stop early.  False if the
 * listing took more than one answer: much later, a reader could return from a
 * dropped copy to a place that this stream has removed.
 */
bool stream_may_be_kept(struct stream *s, const struct node *dir)
{
	struct buf key = {0};
	bool keep = node_append_key(dir, &key) == 0 && s->epoch == dir->epoch && s->batches <= 1;
	struct stream *other;

	mutex_lock(&pool.lock);
	s->ended = true;
	LIST_FOREACH (other, bucket_of(dir->ino), same)
		keep = keep && (other == s || !stream_is_of(other, dir, &key) || other->ended);
	mutex_unlock(&pool.lock);
	buf_fini(&key);
	return keep || fs.no_opendir;
}

void stream_put(struct stream *s)
{
	mutex_lock(&pool.lock);
	stream_leave_locked(s);
	pool_unlock();
}

void stream_pause(struct stream *s, struct pause *p)
{
	mutex_lock(&pool.lock);
	pause_end_locked(s->pause);
	if (pool.pause_count == PAUSES_MAX)
		pause_end_locked(TAILQ_FIRST(&pool.pauses));
	p->stream = s;
	s->pause = p;
	TAILQ_INSERT_TAIL(&pool.pauses, p, age);
	pool.pause_count++;
	pool_unlock();
}

struct pause *stream_resume(struct stream *s)
{
	struct pause *p;

	mutex_lock(&pool.lock);
	p = pause_remove_locked(s->pause);
	mutex_unlock(&pool.lock);
	return p;
}

static int place_set(struct stream *s, struct place *m, uint64_t ordinal, const struct cursor *at)
{
	size_t before = m->at.key.cap;
	int r = buf_set(&m->at.key, at->key.p, at->key.n);

	s->bytes += m->at.key.cap - before;
	m->ordinal = r ? 0 : ordinal;
	m->at.phase = at->phase;
	m->at.number = at->number;
	return r;
}

bool cursor_eq(const struct cursor *a, const struct cursor *b)
{
	return a->phase == b->phase && a->number == b->number && bytes_eq(buf_bytes(&a->key), buf_bytes(&b->key));
}

const struct place *stream_checkpoint(const struct stream *s, uint64_t ordinal)
{
	uint64_t i =
		ordinal / CHECKPOINT_EVERY; /* the i-th, from 1, has ordinal i * CHECKPOINT_EVERY, unless a checkpoint was missed */

	i = i < s->checkpoint_count ? i : s->checkpoint_count;
	while (i > 0 && s->checkpoints[i - 1].ordinal > ordinal)
		i--;
	return i ? &s->checkpoints[i - 1] : NULL;
}

const struct place *stream_place(const struct stream *s, uint64_t ordinal)
{
	const struct place *m = s->recent_cap ? &s->recent[ordinal % s->recent_cap] : NULL;

	if (m && m->ordinal == ordinal)
		return m;
	m = stream_checkpoint(s, ordinal);
	return m && m->ordinal == ordinal ? m : NULL;
}

static int recent_grow(struct stream *s)
{
	unsigned cap = s->recent_cap ? s->recent_cap * 4 : 16;
	struct place *more = calloc(cap, sizeof(*more));

	if (!more)
		return -ENOMEM;
	for (unsigned i = 0; i < s->recent_cap; i++) {
		struct place *m = &s->recent[i];

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

int stream_remember(struct stream *s, uint64_t ordinal, const struct cursor *at)
{
	struct place *m = s->recent_cap ? &s->recent[ordinal % s->recent_cap] : NULL;
	int r = 0;

	while (r == 0 && (!m || (m->ordinal && m->ordinal != ordinal)) &&
		(s->recent_cap < RECENT_MIN || (s->recent_cap < RECENT_MAX && s->bytes < PLACES_BYTES))) {
		r = recent_grow(s);
		m = r ? NULL : &s->recent[ordinal % s->recent_cap];
	}
	if (r == 0)
		r = place_set(s, m, ordinal, at);
	if (r || ordinal % CHECKPOINT_EVERY)
		return r;
	if (s->checkpoint_count && s->checkpoints[s->checkpoint_count - 1].ordinal >= ordinal)
		return 0;
	if (s->checkpoint_count == s->checkpoint_cap) {
		unsigned cap = s->checkpoint_cap ? s->checkpoint_cap * 2 : 8;
		struct place *more = realloc(s->checkpoints, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->bytes += (cap - s->checkpoint_cap) * sizeof(*more);
		s->checkpoints = more;
		s->checkpoint_cap = cap;
	}
	s->checkpoints[s->checkpoint_count] = (struct place){0};
	return place_set(s, &s->checkpoints[s->checkpoint_count++], ordinal, at);
}

void stream_close(struct dir_handle *h)
{
	if (!h)
		return;
	mutex_lock(&pool.lock);
	stream_leave_locked(h->stream);
	stream_leave_locked(h->fork);
	pool_unlock();
	free(h);
}
