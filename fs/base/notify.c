/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications of the kernel (notify.h).  If there is no memory to collect a
 * change, the request still succeeds, because the change has been made.  The
 * kernel may show old data until its timeout.  This is logged once.
 *
 * Node ids are addresses.  If the kernel has forgotten the node, the
 * notification returns ENOENT.  If another node has the address by then, that
 * node is invalidated, which does no harm.
 */
#include "fs/base/notify.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "fs/base/access.h"
#include "fs/base/node_ops.h"
#include "fs/base/reply.h"
#include "fs/base/sender.h"

#include <bsd/sys/queue.h>
#include <errno.h>
#include <stdlib.h>

enum reply_kind { REPLY_NONE, REPLY_ERR, REPLY_ATTR, REPLY_END, REPLY_WRITE, REPLY_ENTRY };

struct item {
	TAILQ_ENTRY(item) link; /* in q.inodes, q.waiting or q.entries */
	uint64_t number;        /* the number of its orders to the sender */
	unsigned orders;        /* orders that are not answered yet */
	uint64_t due_us;        /* when the reply is sent although they are not answered */
	uid_t uid;              /* the user who asked for the change */
	struct changes changes;
	enum reply_kind kind;
	fuse_req_t req;
	int err;
	size_t written;
	struct stat st;
	double timeout;
	struct node *made; /* the node of the entry; counted for the kernel */
	struct fuse_entry_param entry;
};

struct later {
	TAILQ_ENTRY(later) link;
	struct node *dir; /* counted.  If `all` is not set, it has the flag NODE_EXPIRING, and is in the queue only once */
	uint64_t due_us;
	bool all, names; /* invalidate all nodes of dir, which is a table, and also drop their names (changes_access) */
};

TAILQ_HEAD(items, item);
static struct {
	struct mutex lock;
	struct cond wake, wake_entries;
	struct items inodes;       /* for inode_thread */
	struct items entries;      /* for entry_thread */
	struct items waiting;      /* replies that wait for answers of the sender, the first due first */
	uint64_t number;           /* the number of the last item with orders */
	TAILQ_HEAD(, later) later; /* all wait equally long, so the first is due first */
	bool stop, stop_entries, started;
	_Atomic bool lost_change_logged;
	bool entries_run, answers_run; /* the threads */
	pthread_t inode_thread, entry_thread, answer_thread;
} q;

#define LATER_US 1000000
#define WAITING_US 500000

static void log_lost_change(void)
{
	if (!atomic_exchange(&q.lost_change_logged, true))
		msg_error("out of memory: the kernel was not notified of a change");
}

void changes_fini(struct changes *c)
{
	for (unsigned i = 0; i < c->entry_count; i++)
		free(c->entries[i].name);
	for (unsigned i = 0; i < c->listing_count; i++)
		node_put(c->listings[i]);
	free(c->listings);
	free(c->entries);
	free(c->inodes);
	*c = (struct changes){0};
}

/* Grows the array by array_grow.  Returns false if out of memory. */
static bool changes_grow(void *array, unsigned count, size_t size)
{
	if (array_grow(array, count, size) == 0)
		return true;
	log_lost_change();
	return false;
}

static void add_inode(struct changes *c, fuse_ino_t ino, bool attributes_only)
{
	for (unsigned i = 0; i < c->inode_count && i < 16; i++)
		if (c->inodes[c->inode_count - 1 - i].ino == ino)
			return;
	if (changes_grow(&c->inodes, c->inode_count, sizeof(*c->inodes)))
		c->inodes[c->inode_count++] = (struct change_inode){ino, attributes_only};
}

static void add_listing_locked(struct changes *c, struct node *dir)
{
	if (!(dir->flags & NODE_LISTED) || (!dir->lookups && dir->kind != NODE_ROOT))
		return;
	for (unsigned i = 0; i < c->listing_count && i < 16; i++)
		if (c->listings[c->listing_count - 1 - i] == dir)
			return;
	if (!changes_grow(&c->listings, c->listing_count, sizeof(*c->listings)))
		return;
	dir->refs++;
	c->listings[c->listing_count++] = dir;
}

void changes_inode_locked(struct changes *c, struct node *n)
{
	const bool is_dir = node_is_dir(n);

	if (n->lookups || n->kind == NODE_ROOT)
		add_inode(c, id_of(n), is_dir);
	if (is_dir)
		add_listing_locked(c, n);
}

void changes_attributes_locked(struct changes *c, struct node *n)
{
	if (n->lookups)
		add_inode(c, id_of(n), true);
}

void changes_inode(struct changes *c, struct node *n)
{
	mutex_lock(tree_mutex());
	changes_inode_locked(c, n);
	mutex_unlock(tree_mutex());
}

void changes_listing_locked(struct changes *c, struct node *dir)
{
	dir->epoch++;
	add_listing_locked(c, dir);
}

void changes_listing(struct changes *c, struct node *dir)
{
	mutex_lock(tree_mutex());
	changes_listing_locked(c, dir);
	mutex_unlock(tree_mutex());
}

void changes_entry(struct changes *c, struct node *dir, struct tfs_bytes name)
{
	mutex_lock(tree_mutex());
	changes_entry_locked(c, dir, name);
	mutex_unlock(tree_mutex());
}

void changes_entry_locked(struct changes *c, const struct node *dir, struct tfs_bytes name)
{
	char *copy;

	if (!dir->lookups && dir->kind != NODE_ROOT)
		return;
	if (!changes_grow(&c->entries, c->entry_count, sizeof(*c->entries)))
		return;
	copy = strndup((const char *)name.p, name.n);
	if (copy)
		c->entries[c->entry_count++] = (struct change_entry){id_of(dir), copy};
	else
		log_lost_change();
}

static void add_any(void *arg, struct node *n)
{
	if (node_is_dir(n))
		n->epoch++;
	changes_inode_locked(arg, n);
}

void changes_table(struct changes *c, struct node *table)
{
	node_each_of_table(table, false, add_any, c);
}

struct held {
	struct node **v; /* counted */
	unsigned count;
};

static void hold_any(void *arg, struct node *n)
{
	struct held *h = arg;

	if (!n->lookups || !n->parent || node_entry_timeout(n) == 0)
		return;
	if (!changes_grow(&h->v, h->count, sizeof(struct node *)))
		return;
	n->refs++;
	h->v[h->count++] = n;
}

/* A name may be the schema's, so it is asked for without the tree lock. */
static void add_names(struct changes *c, struct node *table)
{
	struct held h = {0};
	struct buf name = {0};

	node_each_of_table(table, true, hold_any, &h);
	for (unsigned i = 0; i < h.count; i++) {
		buf_reset(&name);
		if (node_append_name(h.v[i], &name) == 0)
			changes_entry(c, h.v[i]->parent, buf_bytes(&name));
		node_put(h.v[i]);
	}
	free(h.v);
	buf_fini(&name);
}

void changes_access(struct changes *c, struct node *table, bool names)
{
	node_each_of_table(table, true, add_any, c);
	if (names)
		add_names(c, table);
}

static void send_reply(const struct item *it)
{
	if (it->kind == REPLY_ERR)
		reply_err(it->req, it->err);
	else if (it->kind == REPLY_ATTR)
		fuse_reply_attr(it->req, &it->st, it->timeout);
	else if (it->kind == REPLY_END)
		fuse_reply_buf(it->req, NULL, 0);
	else if (it->kind == REPLY_WRITE)
		fuse_reply_write(it->req, it->written);
	else if (it->kind == REPLY_ENTRY && fuse_reply_entry(it->req, &it->entry) != 0)
		node_forget(it->made, 1);
}

static void queue_changes(struct changes *c, const struct item *like)
{
	bool first = c->inode_count || c->listing_count || (c->entries_first && c->entry_count), stopped;
	struct item *it;

	if (!first && like->kind != REPLY_NONE)
		send_reply(like);
	if (!first && c->entry_count == 0) {
		changes_fini(c);
		return;
	}
	it = calloc(1, sizeof(*it));
	if (!it) {
		log_lost_change();
		if (first)
			send_reply(like);
		changes_fini(c);
		return;
	}
	*it = *like;
	it->uid = fs_asker_uid();
	if (!first)
		it->kind = REPLY_NONE;
	it->changes = *c;
	*c = (struct changes){0};
	mutex_lock(&q.lock);
	stopped = q.stop;
	if (!stopped) {
		TAILQ_INSERT_TAIL(&q.inodes, it, link);
		cond_signal(&q.wake);
	}
	mutex_unlock(&q.lock);
	if (stopped) {
		/* The mount is ending, so the kernel drops all nodes without a notification. */
		send_reply(it);
		changes_fini(&it->changes);
		free(it);
	}
}

void changes_reply_err(struct changes *c, fuse_req_t req, int r)
{
	queue_changes(c, &(struct item){.kind = REPLY_ERR, .req = req, .err = r});
}

void changes_reply_attr(struct changes *c, fuse_req_t req, const struct stat *st, double timeout)
{
	struct item reply = {.kind = REPLY_ATTR, .req = req, .st = *st, .timeout = timeout};

	fs_owner_here(&reply.st);
	queue_changes(c, &reply);
}

void changes_reply_write(struct changes *c, fuse_req_t req, size_t n)
{
	queue_changes(c, &(struct item){.kind = REPLY_WRITE, .req = req, .written = n});
}

void changes_reply_entry(struct changes *c, fuse_req_t req, struct node *n, const struct fuse_entry_param *e)
{
	struct item reply = {.kind = REPLY_ENTRY, .req = req, .made = n, .entry = *e};

	fs_owner_here(&reply.entry.attr);
	queue_changes(c, &reply);
}

void changes_reply_end(struct changes *c, fuse_req_t req)
{
	queue_changes(c, &(struct item){.kind = REPLY_END, .req = req});
}

void changes_send(struct changes *c)
{
	queue_changes(c, &(struct item){.kind = REPLY_NONE});
}

/* Invalidates n's attributes and, for a regular file, its pages, unless attributes_only is set. */
static void invalidate_attributes(const struct changes *c, bool attributes_only)
{
	for (unsigned i = 0; i < c->inode_count; i++)
		fuse_lowlevel_notify_inval_inode(
			fs.session, c->inodes[i].ino, attributes_only || c->inodes[i].attributes_only ? -1 : 0, 0);
}

void changes_send_now(struct changes *c)
{
	invalidate_attributes(c, false);
	c->inode_count = 0;
	changes_send(c);
}

/* NULL: out of memory. */
static struct later *later_new(struct node *dir, bool all, bool names)
{
	struct later *l = malloc(sizeof(*l));

	if (l) {
		*l = (struct later){.dir = dir, .due_us = monotonic_us() + LATER_US, .all = all, .names = names};
		node_hold(dir);
	} else {
		log_lost_change();
	}
	return l;
}

static void later_free(struct later *l)
{
	node_put(l->dir);
	free(l);
}

/* Queues l, unless the notifier has stopped.  Returns the item that it replaces, or NULL. */
static struct later *later_queue(struct later *l)
{
	struct later *old = NULL;

	mutex_lock(&q.lock);
	if (l->all)
		TAILQ_FOREACH (old, &q.later, link)
			if (old->all && old->dir == l->dir)
				break;
	if (old) {
		l->names = l->names || old->names;
		TAILQ_REMOVE(&q.later, old, link);
	}
	if (q.stop) {
		old = l;
	} else {
		TAILQ_INSERT_TAIL(&q.later, l, link);
		cond_signal(&q.wake);
	}
	mutex_unlock(&q.lock);
	return old;
}

void notify_later(struct node *dir)
{
	struct later *l = later_new(dir, false, false);
	bool planned;

	if (!l)
		return;
	mutex_lock(tree_mutex());
	planned = dir->flags & NODE_EXPIRING;
	dir->flags |= NODE_EXPIRING;
	mutex_unlock(tree_mutex());
	if (!planned)
		l = later_queue(l);
	if (l)
		later_free(l);
}

void notify_table_later(struct node *table, bool names)
{
	struct later *l = later_new(table, true, names);

	if (l)
		l = later_queue(l);
	if (l)
		later_free(l);
}

/* name: NULL, for the listing.  Returns false if there will be no answer. */
static bool order(fuse_ino_t dir, const char *name, uint64_t number, uid_t uid)
{
	if (sender_order(dir, name ? tfs_str(name) : tfs_bytes_of(NULL, 0), number, uid))
		return true;
	/* The process has been killed.  The kernel ends these calls in time, unless a user makes a directory hang. */
	if (name)
		fuse_lowlevel_notify_inval_entry(fs.session, dir, name, strlen(name));
	else
		fuse_lowlevel_notify_inval_inode(fs.session, dir, 0, 0);
	return false;
}

static void notify_later_item(struct later *l)
{
	struct changes c = {0};

	mutex_lock(tree_mutex());
	if (!l->all)
		l->dir->flags &= (uint16_t)~NODE_EXPIRING;
	changes_inode_locked(&c, l->dir);
	mutex_unlock(tree_mutex());
	if (l->all)
		changes_access(&c, l->dir, l->names);
	invalidate_attributes(&c, l->all);
	if (!l->all)
		for (unsigned i = 0; i < c.listing_count; i++)
			(void)order(
				id_of(c.listings[i]), NULL, 0, (uid_t)-1); /* the invalidation is due by time, and not for a user */
	for (unsigned i = 0; i < c.entry_count; i++)
		(void)order(c.entries[i].parent, c.entries[i].name, 0, (uid_t)-1);
	changes_fini(&c);
	later_free(l);
}

/* ---- items ---- */

/*
 * Every commit in a listed directory invalidates the listing, even if the
 * invalidation of an earlier commit is still queued, because this commit is
 * answered only afterwards.  Then the kernel has no whole listing, unless another
 * listing has ended since then, or the listing of another commit is being
 * invalidated.
 */
static void listings_begin(const struct changes *c)
{
	mutex_lock(tree_mutex());
	for (unsigned i = 0; i < c->listing_count; i++)
		c->listings[i]->flags &= (uint16_t)~NODE_ENDED;
	mutex_unlock(tree_mutex());
}

/* The tree lock is held. */
static bool is_being_invalidated(const struct node *dir)
{
	const struct item *it;
	bool found = false;

	mutex_lock(&q.lock);
	TAILQ_FOREACH (it, &q.waiting, link)
		for (unsigned i = 0; i < it->changes.listing_count && !found; i++)
			found = it->changes.listings[i] == dir;
	mutex_unlock(&q.lock);
	return found;
}

static void listings_end(struct changes *c, bool answered)
{
	mutex_lock(tree_mutex());
	for (unsigned i = 0; i < c->listing_count; i++) {
		if (answered && !(c->listings[i]->flags & NODE_ENDED) && !is_being_invalidated(c->listings[i]))
			c->listings[i]->flags &= (uint16_t)~NODE_LISTED;
		node_put_locked(c->listings[i]);
	}
	mutex_unlock(tree_mutex());
	c->listing_count = 0;
}

static void item_free(struct item *it)
{
	changes_fini(&it->changes);
	free(it);
}

/* Sends the reply.  The entries that it did not wait for are dropped now. */
static void item_reply(struct item *it, bool answered)
{
	listings_end(&it->changes, answered);
	send_reply(it);
	if (it->changes.entries_first || !it->changes.entry_count) {
		item_free(it);
		return;
	}
	mutex_lock(&q.lock);
	if (!q.stop_entries) {
		TAILQ_INSERT_TAIL(&q.entries, it, link);
		cond_signal(&q.wake_entries);
		it = NULL;
	}
	mutex_unlock(&q.lock);
	if (it)
		item_free(it);
}

/* Returns the waiting item if this was the last answer. */
static struct item *item_answered(uint64_t number)
{
	struct item *it;

	mutex_lock(&q.lock);
	TAILQ_FOREACH (it, &q.waiting, link)
		if (it->number == number)
			break;
	if (it && --it->orders == 0)
		TAILQ_REMOVE(&q.waiting, it, link);
	else
		it = NULL;
	mutex_unlock(&q.lock);
	return it;
}

static void *answer_main(void *arg)
{
	uint64_t number;

	while ((number = sender_answer()) != 0) {
		struct item *it = item_answered(number);

		if (it)
			item_reply(it, true);
	}
	return NULL;
}

/* An item without an answer is sent later.  So it may be freed by the answer to the last order, or before it at the end. */
static void send_orders(struct item *it)
{
	const struct changes *c = &it->changes;
	const unsigned entries = c->entries_first ? c->entry_count : 0, orders = c->listing_count + entries;
	const uint64_t number = it->number = ++q.number;
	const uid_t uid = it->uid;
	unsigned failed = 0;

	it->orders = orders + 1; /* one for this function */
	it->due_us = monotonic_us() + WAITING_US;
	listings_begin(c);
	mutex_lock(&q.lock);
	TAILQ_INSERT_TAIL(&q.waiting, it, link);
	mutex_unlock(&q.lock);
	for (unsigned i = 0; i < c->listing_count; i++)
		failed += !order(id_of(c->listings[i]), NULL, number, uid);
	for (unsigned i = 0; i < entries; i++)
		failed += !order(c->entries[i].parent, c->entries[i].name, number, uid);
	for (unsigned i = 0; i < failed + 1; i++) {
		struct item *done = item_answered(number);

		if (done)
			item_reply(done, true);
	}
}

static void handle_item(struct item *it)
{
	invalidate_attributes(&it->changes, false);
	if (it->changes.listing_count || (it->changes.entries_first && it->changes.entry_count))
		send_orders(it);
	else
		item_reply(it, true);
}

static void *inode_main(void *arg)
{
	mutex_lock(&q.lock);
	for (;;) {
		struct item *it = TAILQ_FIRST(&q.inodes), *waiting = TAILQ_FIRST(&q.waiting);
		struct later *l = TAILQ_FIRST(&q.later);
		uint64_t now = l || waiting ? monotonic_us() : 0;

		if (waiting && (waiting->due_us <= now || (q.stop && !it))) {
			TAILQ_REMOVE(&q.waiting, waiting, link);
			mutex_unlock(&q.lock);
			item_reply(waiting, false); /* a directory hangs */
			mutex_lock(&q.lock);
		} else if (it) {
			TAILQ_REMOVE(&q.inodes, it, link);
			mutex_unlock(&q.lock);
			handle_item(it);
			mutex_lock(&q.lock);
		} else if (l && l->due_us <= now) {
			TAILQ_REMOVE(&q.later, l, link);
			mutex_unlock(&q.lock);
			notify_later_item(l);
			mutex_lock(&q.lock);
		} else if (q.stop) {
			break;
		} else if (l || waiting) {
			uint64_t due = waiting ? waiting->due_us : l->due_us;

			if (l && l->due_us < due)
				due = l->due_us;
			cond_wait_us(&q.wake, &q.lock, due - now);
		} else {
			cond_wait(&q.wake, &q.lock);
		}
	}
	mutex_unlock(&q.lock);
	return NULL;
}

static void *entry_main(void *arg)
{
	mutex_lock(&q.lock);
	while (!q.stop_entries || !TAILQ_EMPTY(&q.entries)) {
		struct item *it = TAILQ_FIRST(&q.entries);

		if (!it) {
			cond_wait(&q.wake_entries, &q.lock);
			continue;
		}
		TAILQ_REMOVE(&q.entries, it, link);
		mutex_unlock(&q.lock);
		for (unsigned i = 0; i < it->changes.entry_count; i++)
			(void)order(it->changes.entries[i].parent, it->changes.entries[i].name, 0, it->uid);
		item_free(it);
		mutex_lock(&q.lock);
	}
	mutex_unlock(&q.lock);
	return NULL;
}

int notify_start(void)
{
	int r;

	mutex_init(&q.lock, RANK_FS_NOTIFY);
	cond_init(&q.wake);
	cond_init(&q.wake_entries);
	TAILQ_INIT(&q.inodes);
	TAILQ_INIT(&q.entries);
	TAILQ_INIT(&q.waiting);
	TAILQ_INIT(&q.later);
	q.stop = false;
	r = pthread_create(&q.inode_thread, NULL, inode_main, NULL);
	if (r)
		return -r;
	q.started = true;
	r = pthread_create(&q.entry_thread, NULL, entry_main, NULL);
	q.entries_run = r == 0;
	if (!r)
		r = pthread_create(&q.answer_thread, NULL, answer_main, NULL);
	q.answers_run = r == 0;
	return -r;
}

void notify_stop(void)
{
	struct later *l;

	if (!q.started)
		return;
	q.started = false;
	mutex_lock(&q.lock);
	q.stop = true;
	while ((l = TAILQ_FIRST(&q.later)) != NULL) {
		TAILQ_REMOVE(&q.later, l, link);
		free(l); /* the nodes are freed with the node table */
	}
	cond_signal(&q.wake);
	mutex_unlock(&q.lock);
	pthread_join(q.inode_thread, NULL);
	mutex_lock(&q.lock);
	q.stop_entries = true;
	cond_signal(&q.wake_entries);
	mutex_unlock(&q.lock);
	if (q.entries_run)
		pthread_join(q.entry_thread, NULL);
}

void notify_end(void)
{
	sender_end();
	if (q.answers_run)
		pthread_join(q.answer_thread, NULL);
	q.answers_run = false;
	sender_close();
}
