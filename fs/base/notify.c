/* SPDX-License-Identifier: Apache-2.0 */
/*
 * If there is no memory to collect a change, the request still succeeds,
 * because it has been done; the kernel may show old data until its timeout.
 * That is logged once.
 *
 * Node ids are addresses.  If the kernel has forgotten a node meanwhile, the
 * notification returns ENOENT; if the address has been used again, it
 * invalidates a node too many.
 */
#include "fs/base/notify.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "fs/base/reply.h"

#include <errno.h>
#include <stdlib.h>

enum reply_kind { REPLY_NONE, REPLY_ERR, REPLY_ATTR, REPLY_END, REPLY_WRITE, REPLY_ENTRY };

struct item {
	struct item *next, *next_waiting;
	uint64_t due_us; /* when the reply is sent, if its entries are not done */
	struct changes changes;
	enum reply_kind kind;
	fuse_req_t req;
	int err;
	size_t written;
	struct stat st;
	double timeout;
	struct node *made; /* of the entry; counted for the kernel */
	struct fuse_entry_param entry;
};

struct later {
	struct later *next;
	struct node *dir; /* counted; flagged NODE_EXPIRING, unless all: in the queue once */
	uint64_t due_us;
	bool all; /* of a table */
};

static struct {
	struct mutex lock;
	struct cond wake, wake_entries;
	struct item *head, **tail;
	struct item *entries, **entries_tail;
	struct item *waiting, **waiting_tail; /* replies that wait for their entries, in order of time */
	struct later *later, **later_tail;    /* all wait for the same time, so they are in order of time */
	bool stop, stop_entries, started;
	_Atomic bool lost_change_logged;
	pthread_t inode_thread, entry_thread;
} q;

#define LATER_US 1000000
#define WAITING_US 100000

static void log_lost_change(void)
{
	if (!atomic_exchange(&q.lost_change_logged, true))
		msg_error("out of memory: the kernel could not be told of a change");
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

static void add_inode(struct changes *c, fuse_ino_t ino)
{
	for (unsigned i = 0; i < c->inode_count && i < 16; i++)
		if (c->inodes[c->inode_count - 1 - i] == ino)
			return;
	if (c->inode_count == c->inode_cap) {
		unsigned cap = c->inode_cap ? c->inode_cap * 2 : 8;
		fuse_ino_t *more = realloc(c->inodes, cap * sizeof(*more));

		if (!more) {
			log_lost_change();
			return;
		}
		c->inodes = more;
		c->inode_cap = cap;
	}
	c->inodes[c->inode_count++] = ino;
}

void changes_inode_locked(struct changes *c, struct node *n)
{
	if (n->lookups || n->kind == NODE_ROOT)
		add_inode(c, id_of(n));
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
	if (!(dir->flags & NODE_LISTED) || (!dir->lookups && dir->kind != NODE_ROOT))
		return;
	for (unsigned i = 0; i < c->listing_count; i++)
		if (c->listings[i] == dir)
			return;
	if (c->listing_count == c->listing_cap) {
		unsigned cap = c->listing_cap ? c->listing_cap * 2 : 4;
		struct node **more = realloc(c->listings, cap * sizeof(*more));

		if (!more) {
			log_lost_change();
			return;
		}
		c->listings = more;
		c->listing_cap = cap;
	}
	dir->refs++;
	c->listings[c->listing_count++] = dir;
}

void changes_listing(struct changes *c, struct node *dir)
{
	mutex_lock(tree_mutex());
	changes_listing_locked(c, dir);
	mutex_unlock(tree_mutex());
}

void changes_entry(struct changes *c, struct node *dir, struct slice name)
{
	mutex_lock(tree_mutex());
	changes_entry_locked(c, dir, name);
	mutex_unlock(tree_mutex());
}

void changes_entry_locked(struct changes *c, const struct node *dir, struct slice name)
{
	char *copy;

	if (!dir->lookups && dir->kind != NODE_ROOT)
		return;
	if (c->entry_count == c->entry_cap) {
		unsigned cap = c->entry_cap ? c->entry_cap * 2 : 4;
		struct change_entry *more = realloc(c->entries, cap * sizeof(*more));

		if (!more) {
			log_lost_change();
			return;
		}
		c->entries = more;
		c->entry_cap = cap;
	}
	copy = malloc(name.n + 1);
	if (!copy) {
		log_lost_change();
		return;
	}
	memcpy(copy, name.p, name.n);
	copy[name.n] = 0;
	c->entries[c->entry_count++] = (struct change_entry){id_of(dir), copy};
}

static void add_any(void *arg, struct node *n)
{
	if (node_is_dir(n))
		n->epoch++;
	changes_inode_locked(arg, n);
}

void changes_table(struct changes *c, struct node *table)
{
	node_each_of_table(table, add_any, c);
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
	if (!first)
		it->kind = REPLY_NONE;
	it->changes = *c;
	it->next = NULL;
	*c = (struct changes){0};
	mutex_lock(&q.lock);
	stopped = q.stop;
	if (!stopped) {
		*q.tail = it;
		q.tail = &it->next;
		cond_signal(&q.wake);
	}
	mutex_unlock(&q.lock);
	if (stopped) {
		/* The mount is ending, and with it all that the kernel holds. */
		send_reply(it);
		changes_fini(&it->changes);
		free(it);
	}
}

void changes_reply_err(struct changes *c, fuse_req_t req, int r)
{
	struct item like = {.kind = REPLY_ERR, .req = req, .err = r};

	queue_changes(c, &like);
}

void changes_reply_attr(struct changes *c, fuse_req_t req, const struct stat *st, double timeout)
{
	struct item like = {.kind = REPLY_ATTR, .req = req, .st = *st, .timeout = timeout};

	queue_changes(c, &like);
}

void changes_reply_write(struct changes *c, fuse_req_t req, size_t n)
{
	struct item like = {.kind = REPLY_WRITE, .req = req, .written = n};

	queue_changes(c, &like);
}

void changes_reply_entry(struct changes *c, fuse_req_t req, struct node *n, const struct fuse_entry_param *e)
{
	struct item like = {.kind = REPLY_ENTRY, .req = req, .made = n, .entry = *e};

	queue_changes(c, &like);
}

void changes_reply_end(struct changes *c, fuse_req_t req)
{
	struct item like = {.kind = REPLY_END, .req = req};

	queue_changes(c, &like);
}

void changes_send(struct changes *c)
{
	struct item like = {.kind = REPLY_NONE};

	queue_changes(c, &like);
}

void notify_later(struct node *dir)
{
	struct later *l;
	bool planned;

	mutex_lock(tree_mutex());
	planned = dir->flags & NODE_EXPIRING;
	dir->flags |= NODE_EXPIRING;
	dir->refs += !planned;
	mutex_unlock(tree_mutex());
	if (planned)
		return;
	l = malloc(sizeof(*l));
	if (!l) {
		log_lost_change();
		mutex_lock(tree_mutex());
		dir->flags &= (uint8_t)~NODE_EXPIRING;
		node_put_locked(dir);
		mutex_unlock(tree_mutex());
		return;
	}
	*l = (struct later){.dir = dir, .due_us = monotonic_us() + LATER_US};
	mutex_lock(&q.lock);
	if (q.stop) {
		free(l);
	} else {
		*q.later_tail = l;
		q.later_tail = &l->next;
		cond_signal(&q.wake);
	}
	mutex_unlock(&q.lock);
}

/* Removes the entry of the table from the queue; the caller queues it again with a new time. */
static struct later *take_later_locked(const struct node *table)
{
	for (struct later **at = &q.later; *at; at = &(*at)->next) {
		struct later *l = *at;

		if (!l->all || l->dir != table)
			continue;
		*at = l->next;
		if (!*at)
			q.later_tail = at;
		return l;
	}
	return NULL;
}

void notify_table_later(struct node *table)
{
	struct later *fresh = malloc(sizeof(*fresh)), *l;

	if (!fresh) {
		log_lost_change();
		return;
	}
	*fresh = (struct later){.dir = table, .all = true};
	node_hold(table);
	mutex_lock(&q.lock);
	l = q.stop ? NULL : take_later_locked(table);
	if (!l && !q.stop) {
		l = fresh;
		fresh = NULL;
	}
	if (l) {
		l->due_us = monotonic_us() + LATER_US;
		l->next = NULL;
		*q.later_tail = l;
		q.later_tail = &l->next;
		cond_signal(&q.wake);
	}
	mutex_unlock(&q.lock);
	if (fresh)
		node_put(table);
	free(fresh);
}

static void notify_later_item(struct later *l)
{
	struct changes c = {0};

	mutex_lock(tree_mutex());
	if (!l->all)
		l->dir->flags &= (uint8_t)~NODE_EXPIRING;
	changes_inode_locked(&c, l->dir);
	mutex_unlock(tree_mutex());
	if (l->all)
		changes_table(&c, l->dir);
	for (unsigned i = 0; i < c.inode_count; i++)
		fuse_lowlevel_notify_inval_inode(fs.session, c.inodes[i], l->all ? -1 : 0, 0); /* -1: attributes only */
	changes_fini(&c);
	node_put(l->dir);
	free(l);
}

/*
 * Every commit in a listed directory comes here, even if the invalidation of an
 * earlier commit is still queued: it must be done before this commit is
 * answered. Afterwards the kernel has no whole listing, unless one has ended
 * meanwhile.
 */
static void invalidate_listing(struct node *dir)
{
	mutex_lock(tree_mutex());
	dir->flags &= (uint8_t)~NODE_ENDED;
	mutex_unlock(tree_mutex());
	fuse_lowlevel_notify_inval_inode(fs.session, id_of(dir), 0, 0);
	mutex_lock(tree_mutex());
	if (!(dir->flags & NODE_ENDED))
		dir->flags &= (uint8_t)~NODE_LISTED;
	node_put_locked(dir);
	mutex_unlock(tree_mutex());
}

static void invalidate_inodes(struct item *it)
{
	for (unsigned i = 0; i < it->changes.listing_count; i++)
		invalidate_listing(it->changes.listings[i]);
	it->changes.listing_count = 0;
	for (unsigned i = 0; i < it->changes.inode_count; i++)
		fuse_lowlevel_notify_inval_inode(fs.session, it->changes.inodes[i], 0, 0);
	if (!it->changes.entries_first || it->changes.entry_count == 0)
		send_reply(it);
	it->changes.inode_count = 0;
}

static void queue_entries_locked(struct item *it)
{
	if (it->changes.entries_first) {
		it->due_us = monotonic_us() + WAITING_US;
		*q.waiting_tail = it;
		q.waiting_tail = &it->next_waiting;
	}
	it->next = NULL;
	*q.entries_tail = it;
	q.entries_tail = &it->next;
	cond_signal(&q.wake_entries);
}

/* The caller that removes the item sends its reply. */
static bool take_waiting_locked(struct item *it)
{
	struct item **at = &q.waiting;

	while (*at && *at != it)
		at = &(*at)->next_waiting;
	if (!*at)
		return false;
	*at = it->next_waiting;
	if (!*at)
		q.waiting_tail = at;
	return true;
}

/* The entries of the first item take too long: its reply is sent without them. */
static void send_waiting(void)
{
	const struct item reply = *q.waiting;

	(void)take_waiting_locked(q.waiting);
	mutex_unlock(&q.lock);
	send_reply(&reply);
	mutex_lock(&q.lock);
}

static void *inode_main(void *arg)
{
	mutex_lock(&q.lock);
	for (;;) {
		uint64_t now = q.later || q.waiting ? monotonic_us() : 0;

		if (q.head) {
			struct item *it = q.head;

			q.head = it->next;
			if (!q.head)
				q.tail = &q.head;
			mutex_unlock(&q.lock);
			invalidate_inodes(it);
			mutex_lock(&q.lock);
			if (it->changes.entry_count) {
				queue_entries_locked(it);
			} else {
				changes_fini(&it->changes);
				free(it);
			}
		} else if (q.waiting && (q.stop || q.waiting->due_us <= now)) {
			send_waiting();
		} else if (q.later && q.later->due_us <= now) {
			struct later *l = q.later;

			q.later = l->next;
			if (!q.later)
				q.later_tail = &q.later;
			mutex_unlock(&q.lock);
			notify_later_item(l);
			mutex_lock(&q.lock);
		} else if (q.stop) {
			break;
		} else if (q.later || q.waiting) {
			uint64_t due = q.waiting ? q.waiting->due_us : q.later->due_us;

			if (q.later && q.later->due_us < due)
				due = q.later->due_us;
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
	while (!q.stop_entries || q.entries) {
		struct item *it = q.entries;
		bool owed;

		if (!it) {
			cond_wait(&q.wake_entries, &q.lock);
			continue;
		}
		q.entries = it->next;
		if (!q.entries)
			q.entries_tail = &q.entries;
		mutex_unlock(&q.lock);
		for (unsigned i = 0; i < it->changes.entry_count; i++) {
			struct change_entry *e = &it->changes.entries[i];

			fuse_lowlevel_notify_inval_entry(fs.session, e->parent, e->name, strlen(e->name));
		}
		mutex_lock(&q.lock);
		owed = take_waiting_locked(it);
		mutex_unlock(&q.lock);
		if (owed)
			send_reply(it);
		changes_fini(&it->changes);
		free(it);
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
	q.tail = &q.head;
	q.entries_tail = &q.entries;
	q.waiting_tail = &q.waiting;
	q.later_tail = &q.later;
	q.stop = false;
	r = pthread_create(&q.inode_thread, NULL, inode_main, NULL);
	if (r)
		return -r;
	r = pthread_create(&q.entry_thread, NULL, entry_main, NULL);
	if (r) {
		mutex_lock(&q.lock);
		q.stop = true;
		cond_signal(&q.wake);
		mutex_unlock(&q.lock);
		pthread_join(q.inode_thread, NULL);
		return -r;
	}
	q.started = true;
	return 0;
}

void notify_stop(void)
{
	struct later *next;

	if (!q.started)
		return;
	q.started = false;
	mutex_lock(&q.lock);
	q.stop = true;
	for (struct later *l = q.later; l; l = next) {
		next = l->next;
		free(l); /* the nodes are freed with the node table */
	}
	q.later = NULL;
	q.later_tail = &q.later;
	cond_signal(&q.wake);
	mutex_unlock(&q.lock);
	pthread_join(q.inode_thread, NULL);
	mutex_lock(&q.lock);
	q.stop_entries = true;
	cond_signal(&q.wake_entries);
	mutex_unlock(&q.lock);
	pthread_join(q.entry_thread, NULL);
}
