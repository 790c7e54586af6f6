/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One hash table over all nodes and one lock over everything in this file:
 * each hold is a few pointer moves, and the kernel serialises far more than
 * this does.  Extra entries are allocated apart, so that the million nodes
 * that have nothing extra do not pay for the tree links.
 *
 * Removed directories are unhashed at once: the kernel marks their inodes
 * dead for ever, so a directory made again needs a new node; and so does a
 * cell, or who has the old one open would meet the new one.
 */
#include "fs/base/node.h"

#include "engine/tabletfs.h"
#include "fs/file/file.h"
#include "fs/base/slab.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#define BUCKETS_MIN 1024u

struct extra {
	RB_ENTRY(extra) link;
	TAILQ_ENTRY(extra) age;
	struct node *node;
	enum extra_why why;
};
TAILQ_HEAD(extra_list, extra);

static struct {
	struct mutex lock;
	struct node **bucket;
	size_t buckets, count;
	struct node *root;
	struct extra_list extras[EXTRA_WHYS]; /* the oldest first */
	size_t extra_count[EXTRA_WHYS], extra_bytes;
} table;

static unsigned extra_class(const struct node *n)
{
	return n->kind == NODE_ROW || n->kind == NODE_FAMILY;
}

static int extra_cmp_key(const struct node *n, unsigned cls, struct slice key)
{
	unsigned c = extra_class(n);

	if (c != cls)
		return c < cls ? -1 : 1;
	return slice_cmp(node_key(n), key);
}

static int extra_cmp(struct extra *a, struct extra *b)
{
	return extra_cmp_key(a->node, extra_class(b->node), node_key(b->node));
}

/* The tree macros of libbsd expect it. */
#ifndef __unused
#define __unused __attribute__((unused))
#endif
RB_PROTOTYPE_STATIC(extra_tree, extra, link, extra_cmp);
RB_GENERATE_STATIC(extra_tree, extra, link, extra_cmp);

struct mutex *tree_mutex(void)
{
	return &table.lock;
}

struct node *node_root(void)
{
	return table.root;
}

#define INO_SCHEMA_END (1ull << 40) /* the inode numbers of .schema files are below, all others are not */

static uint64_t key_hash(const struct node *parent, enum node_kind kind, struct slice key, int64_t ts)
{
	uint64_t seed = parent ? parent->ino : 0;

	seed = (seed ^ (uint64_t)ts * 0x9e3779b97f4a7c15u) + (uint64_t)kind * 0xd1b54a32d192ed03u;
	return hash64(key, seed);
}

static size_t node_bytes(size_t key_n)
{
	return sizeof(struct node) + key_n + 1;
}

/* The caller holds the tree lock. */
static struct node *node_alloc(struct node *parent, enum node_kind kind, struct slice key, int64_t ts)
{
	struct node *n = slab_alloc(node_bytes(key.n));

	if (!n)
		return NULL;
	n->parent = parent;
	n->kind = (uint8_t)kind;
	n->ts = ts;
	n->key_n = (uint32_t)key.n;
	if (key.n)
		memcpy(n->key, key.p, key.n);
	n->ino = parent ? node_ino(parent, kind, key, ts) : 1;
	return n;
}

int node_table_init(void)
{
	mutex_init(&table.lock, RANK_FS_TREE);
	table.buckets = BUCKETS_MIN;
	table.bucket = calloc(table.buckets, sizeof(*table.bucket));
	table.root = node_alloc(NULL, NODE_ROOT, slice_of(NULL, 0), 0);
	if (!table.bucket || !table.root) {
		free(table.bucket);
		if (table.root)
			slab_free(table.root, node_bytes(0));
		mutex_fini(&table.lock);
		return -ENOMEM;
	}
	table.root->refs = 1;
	for (int i = 0; i < EXTRA_WHYS; i++) {
		TAILQ_INIT(&table.extras[i]);
		table.extra_count[i] = 0;
	}
	table.extra_bytes = 0;
	return 0;
}

static void dirx_free(struct dirx *d)
{
	struct extra *e, *next;

	if (!d)
		return;
	RB_FOREACH_SAFE(e, extra_tree, &d->extras, next)
	{
		RB_REMOVE(extra_tree, &d->extras, e);
		free(e);
	}
	if (d->table)
		tfs_table_close(d->table);
	free(d);
}

static void node_destroy(struct node *n)
{
	if (node_is_dir(n))
		dirx_free(n->dir);
	else
		filex_drop_locked(n);
	slab_free(n, node_bytes(n->key_n));
}

void node_table_fini(void)
{
	for (size_t i = 0; i < table.buckets; i++) {
		struct node *next;

		for (struct node *n = table.bucket[i]; n; n = next) {
			next = n->next;
			node_destroy(n);
		}
	}
	node_destroy(table.root);
	free(table.bucket);
	table.bucket = NULL;
	table.root = NULL;
	mutex_fini(&table.lock);
}

static void resize(size_t buckets)
{
	struct node **bucket = calloc(buckets, sizeof(*bucket));

	if (!bucket)
		return; /* longer chains, or memory not returned: nothing worse */
	for (size_t i = 0; i < table.buckets; i++) {
		struct node *next;

		for (struct node *n = table.bucket[i]; n; n = next) {
			next = n->next;
			n->next = bucket[n->ino & (buckets - 1)];
			bucket[n->ino & (buckets - 1)] = n;
		}
	}
	free(table.bucket);
	table.bucket = bucket;
	table.buckets = buckets;
}

uint64_t node_ino(const struct node *parent, enum node_kind kind, struct slice key, int64_t ts)
{
	const uint64_t h = key_hash(parent, kind, key, ts), low = h % INO_SCHEMA_END;

	/* A tool that copies in the order of inode numbers restores .schema before the rows. */
	if (kind == NODE_SCHEMA)
		return low <= 1 ? low + 2 : low;
	return h < INO_SCHEMA_END ? h + INO_SCHEMA_END : h;
}

struct node *node_find_locked(struct node *parent, enum node_kind kind, struct slice key, int64_t ts)
{
	uint64_t ino = node_ino(parent, kind, key, ts);

	mutex_assert_held(&table.lock);
	for (struct node *n = table.bucket[ino & (table.buckets - 1)]; n; n = n->next)
		if (n->ino == ino && n->kind == kind && n->parent == parent && n->ts == ts && (n->flags & NODE_HASHED) &&
			slice_eq(node_key(n), key))
			return n;
	return NULL;
}

struct node *node_find(struct node *parent, enum node_kind kind, struct slice key, int64_t ts)
{
	struct node *n;

	mutex_lock(&table.lock);
	n = node_find_locked(parent, kind, key, ts);
	if (n)
		n->refs++;
	mutex_unlock(&table.lock);
	return n;
}

struct node *node_get(struct node *parent, enum node_kind kind, struct slice key, int64_t ts)
{
	struct node *n;

	mutex_lock(&table.lock);
	n = node_find_locked(parent, kind, key, ts);
	if (!n && (n = node_alloc(parent, kind, key, ts))) {
		parent->refs++;
		n->flags = NODE_HASHED;
		n->next = table.bucket[n->ino & (table.buckets - 1)];
		table.bucket[n->ino & (table.buckets - 1)] = n;
		if (++table.count > table.buckets)
			resize(table.buckets * 2);
	}
	if (n)
		n->refs++;
	mutex_unlock(&table.lock);
	return n;
}

void node_hold(struct node *n)
{
	mutex_lock(&table.lock);
	n->refs++;
	mutex_unlock(&table.lock);
}

/* Unhashed nodes stay on their chain, where lookups pass them by, until they are freed. */
static void node_reap_locked(struct node *n)
{
	while (n != table.root && n->refs == 0 && n->lookups == 0) {
		struct node *parent = n->parent, **link = &table.bucket[n->ino & (table.buckets - 1)];

		while (*link != n)
			link = &(*link)->next;
		*link = n->next;
		table.count--;
		node_destroy(n);
		n = parent;
		n->refs--;
	}
}

void node_put_locked(struct node *n)
{
	mutex_assert_held(&table.lock);
	assert(n->refs > 0);
	n->refs--;
	node_reap_locked(n);
}

void node_put(struct node *n)
{
	if (!n)
		return;
	mutex_lock(&table.lock);
	node_put_locked(n);
	mutex_unlock(&table.lock);
}

void node_lookup(struct node *n)
{
	mutex_lock(&table.lock);
	n->lookups++;
	mutex_unlock(&table.lock);
}

void node_forget(struct node *n, uint64_t count)
{
	mutex_lock(&table.lock);
	n->lookups = n->lookups > count ? n->lookups - count : 0;
	node_reap_locked(n);
	/* Here alone, since others put nodes while they walk the table. */
	if (table.count < table.buckets / 8 && table.buckets > BUCKETS_MIN)
		resize(table.buckets / 2);
	mutex_unlock(&table.lock);
}

bool node_known(struct node *n)
{
	bool known;

	mutex_lock(&table.lock);
	known = n->lookups > 0 || n == table.root;
	mutex_unlock(&table.lock);
	return known;
}

void node_end_locked(struct node *n)
{
	mutex_assert_held(&table.lock);
	n->flags &= (uint8_t)~NODE_HASHED;
	n->flags |= NODE_GONE;
}

struct node *node_table(struct node *n)
{
	while (n && n->kind != NODE_TABLE)
		n = n->parent;
	return n;
}

struct dirx *node_dirx_locked(struct node *dir)
{
	mutex_assert_held(&table.lock);
	if (!dir->dir) {
		dir->dir = calloc(1, sizeof(*dir->dir));
		if (dir->dir)
			RB_INIT(&dir->dir->extras);
	}
	return dir->dir;
}

static struct extra *extra_find(const struct node *dir, unsigned cls, struct slice key)
{
	struct extra *e = dir->dir ? RB_ROOT(&dir->dir->extras) : NULL;

	while (e) {
		int c = extra_cmp_key(e->node, cls, key);

		if (c == 0)
			return e;
		e = c > 0 ? RB_LEFT(e, link) : RB_RIGHT(e, link);
	}
	return NULL;
}

static void extra_enter(struct extra *e, enum extra_why why)
{
	e->why = why;
	TAILQ_INSERT_TAIL(&table.extras[why], e, age);
	table.extra_count[why]++;
	if (why != EXTRA_SCRATCH)
		table.extra_bytes += sizeof(*e) + sizeof(*e->node) + e->node->key_n + 32; /* malloc's part */
}

static void extra_leave(struct extra *e)
{
	TAILQ_REMOVE(&table.extras[e->why], e, age);
	table.extra_count[e->why]--;
	if (e->why != EXTRA_SCRATCH)
		table.extra_bytes -= sizeof(*e) + sizeof(*e->node) + e->node->key_n + 32;
}

static struct extra *extra_of(const struct node *n)
{
	struct extra *e = extra_find(n->parent, extra_class(n), node_key(n));

	assert(e && e->node == n);
	return e;
}

int node_extra_add_locked(struct node *n, enum extra_why why)
{
	struct dirx *d = node_dirx_locked(n->parent);
	struct extra *e;

	if (!d)
		return -ENOMEM;
	if (n->flags & NODE_EXTRA || extra_find(n->parent, extra_class(n), node_key(n)))
		return 0; /* itself, or an unhashed twin that is still listed */
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->node = n;
	RB_INSERT(extra_tree, &d->extras, e);
	extra_enter(e, why);
	n->parent->epoch++;
	n->flags |= NODE_EXTRA;
	n->refs++;
	return 0;
}

void node_extra_drop_locked(struct node *n)
{
	struct extra *e;

	mutex_assert_held(&table.lock);
	if (!(n->flags & NODE_EXTRA))
		return;
	e = extra_of(n);
	extra_leave(e);
	RB_REMOVE(extra_tree, &n->parent->dir->extras, e);
	n->parent->epoch++;
	free(e);
	n->flags &= (uint8_t)~NODE_EXTRA;
	n->refs--;
}

void node_extra_is_locked(struct node *n, enum extra_why why)
{
	struct extra *e = extra_of(n);

	extra_leave(e);
	extra_enter(e, why);
}

struct node *node_extra_oldest_locked(enum extra_why why)
{
	struct extra *e = TAILQ_FIRST(&table.extras[why]);

	mutex_assert_held(&table.lock);
	return e ? e->node : NULL;
}

size_t node_extra_count_locked(enum extra_why why)
{
	mutex_assert_held(&table.lock);
	return table.extra_count[why];
}

size_t node_extra_bytes_locked(void)
{
	mutex_assert_held(&table.lock);
	return table.extra_bytes;
}

void node_extra_replace_locked(struct node *old, struct node *n)
{
	struct extra *e = extra_of(old);

	mutex_assert_held(&table.lock);
	assert(e->why == EXTRA_SCRATCH && !(n->flags & NODE_EXTRA));
	e->node = n;
	n->parent->epoch++;
	n->flags |= NODE_EXTRA;
	n->refs++;
	old->flags &= (uint8_t)~NODE_EXTRA;
	node_put_locked(old);
}

static bool in_a_view(const struct node *n)
{
	return n->kind == NODE_ROW || n->kind == NODE_ROW_PART || n->kind == NODE_FAMILY || n->kind == NODE_CELL_PART;
}

struct node *node_home_locked(struct node *n)
{
	struct node *parent;

	if (n->kind == NODE_LATEST)
		return n->parent;
	if (!in_a_view(n))
		return n;
	parent = node_home_locked(n->parent);
	return !parent ? NULL : parent == n->parent ? n : node_find_locked(parent, (enum node_kind)n->kind, node_key(n), 0);
}

struct node *node_twin_locked(struct node *n)
{
	struct node *parent;

	if (n->kind == NODE_LATEST)
		return n->parent;
	if (n->kind == NODE_TABLE)
		return node_find_locked(n, NODE_LATEST, slice_of(NULL, 0), 0);
	parent = in_a_view(n) ? node_twin_locked(n->parent) : NULL;
	return parent ? node_find_locked(parent, (enum node_kind)n->kind, node_key(n), 0) : NULL;
}

struct node *node_home_get(struct node *n)
{
	struct node *parent = n->kind == NODE_LATEST ? n->parent : n, *home;

	if (!in_a_view(n)) {
		node_hold(parent);
		return parent;
	}
	parent = node_home_get(n->parent);
	if (parent == n->parent) {
		node_hold(n);
		home = n;
	} else {
		home = parent ? node_get(parent, (enum node_kind)n->kind, node_key(n), 0) : NULL;
	}
	node_put(parent);
	return home;
}

struct node *node_extra_next_locked(struct node *dir, unsigned cls, const struct slice *above)
{
	struct extra *e = dir->dir ? RB_ROOT(&dir->dir->extras) : NULL, *best = NULL;

	mutex_assert_held(&table.lock);
	while (e) {
		int c = above ? extra_cmp_key(e->node, cls, *above) : extra_class(e->node) < cls ? -1 : 1;

		if (c > 0) {
			best = e;
			e = RB_LEFT(e, link);
		} else {
			e = RB_RIGHT(e, link);
		}
	}
	return best && extra_class(best->node) == cls ? best->node : NULL;
}

struct node *node_extra_find_locked(struct node *dir, unsigned cls, struct slice key)
{
	struct extra *e = extra_find(dir, cls, key);

	return e ? e->node : NULL;
}

bool node_extra_any_locked(const struct node *dir)
{
	return dir->dir && !RB_EMPTY(&dir->dir->extras);
}

/* In helpings: no memory is asked for, so it cannot fail. */
void node_extras_end(bool (*ends)(void *arg, const struct node *n), void *arg, void (*dropping)(struct node *n))
{
	struct node *some[64];
	unsigned count;
	size_t i = 0;

	mutex_lock(&table.lock);
	do {
		count = 0;
		/* The bucket in which the last helping ended is looked at once more. */
		for (i -= i > 0; i < table.buckets && count < 64; i++) {
			for (struct node *n = table.bucket[i]; n && count < 64; n = n->next) {
				if (!(n->flags & NODE_EXTRA) || !ends(arg, n))
					continue;
				n->refs++;
				some[count++] = n;
			}
		}
		for (unsigned j = 0; j < count; j++) {
			dropping(some[j]);
			node_extra_drop_locked(some[j]);
			node_put_locked(some[j]);
		}
	} while (count == 64);
	mutex_unlock(&table.lock);
}

void node_each(void (*fn)(void *arg, struct node *n), void *arg)
{
	mutex_lock(&table.lock);
	for (size_t i = 0; i < table.buckets; i++)
		for (struct node *n = table.bucket[i]; n; n = n->next)
			fn(arg, n);
	mutex_unlock(&table.lock);
}

void node_each_of_table(struct node *t, void (*fn)(void *arg, struct node *n), void *arg)
{
	mutex_lock(&table.lock);
	for (size_t i = 0; i < table.buckets; i++)
		for (struct node *n = table.bucket[i]; n; n = n->next)
			if (n->lookups && node_table(n) == t)
				fn(arg, n);
	mutex_unlock(&table.lock);
}
