/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node table: the nodes of the kernel's inodes (node.h). All nodes are in one
 * hash table, under one lock. The lock is held for a few pointer operations, so
 * threads rarely wait for it.
 *
 * A removed directory is unhashed at once: the kernel never uses its inode again, so
 * a directory with the same name needs a new node.  A removed cell is unhashed too;
 * otherwise its open descriptors would refer to the new cell of that name.  The keys'
 * hashes select the chains, so a node is found whether or not its name has another
 * number.
 */
#include "fs/base/node.h"

#include "engine/base/hash.h"
#include "fs/base/node_memory.h"
#include "fs/base/node_ops.h"
#include "fs/base/renumber.h"
#include "fs/base/user_count.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define BUCKETS_MIN 1024u

static struct {
	struct mutex lock;
	struct node **bucket;
	size_t buckets, count;
	struct node *root;
	void (*close_file)(struct node *n);
	struct siphash_key key; /* the key of the hash that makes inode numbers */
	uint32_t generation;    /* the generation of the last node made; begins at a random number */
	int64_t replaced;       /* counts names that got another number */
} table;

static const struct node_ops *const *kinds; /* by kind */

const struct node_ops *kind_ops(enum node_kind kind)
{
	return kinds[kind];
}

bool kind_is(enum node_kind kind, unsigned traits)
{
	return kinds[kind]->traits & traits;
}

struct mutex *tree_mutex(void)
{
	return &table.lock;
}

struct node *node_root(void)
{
	return table.root;
}

#define INO_SCHEMA_END (1ull << 40) /* inode numbers below this are of .schema files only */

static uint64_t child_ino(uint64_t parent_number, enum node_kind kind, struct tfs_bytes key, int64_t ts)
{
	const uint64_t h = siphash(&table.key, (uint64_t[]){parent_number, kind, (uint64_t)ts}, 3, key), low = h % INO_SCHEMA_END;

	/* .schema has a low number, so that tools that copy in the order of inode numbers restore it before the rows. */
	if (kind == NODE_SCHEMA)
		return low <= 1 ? low + 2 : low;
	return h < INO_SCHEMA_END ? h + INO_SCHEMA_END : h;
}

static uint64_t number_of(uint64_t ino)
{
	const uint64_t number = renumber_get(ino);

	return number ? number : ino;
}

/* The hash of the key. */
static uint64_t node_ino_locked(const struct node *parent, enum node_kind kind, struct tfs_bytes key, int64_t ts)
{
	const struct node *family = parent, *row = parent->parent, *t;
	uint64_t ino;

	if (kind != NODE_FOUND)
		return child_ino(node_number(parent), kind, key, ts);
	/* The version has the number that it has in the table above the view, or above .since/NAME/.rows. */
	t = row->parent->parent;
	if (t->kind == NODE_SINCE)
		t = t->parent->parent;
	while (t->kind == NODE_SCAN)
		t = t->parent;
	ino = child_ino(node_number(t), NODE_ROW, node_key(row), 0);
	ino = child_ino(number_of(ino), NODE_FAMILY, node_key(family), 0);
	return child_ino(number_of(ino), NODE_VERSION, key, ts);
}

uint64_t node_number_at(const struct node *parent, enum node_kind kind, struct tfs_bytes key, int64_t ts)
{
	uint64_t number;

	mutex_lock(&table.lock);
	number = number_of(node_ino_locked(parent, kind, key, ts));
	mutex_unlock(&table.lock);
	return number;
}

/* The key is followed by a NUL, the inode number if it is not the key's hash, and a plain name's timestamp. */
static size_t node_bytes(enum node_kind kind, size_t key_n, bool numbered)
{
	return sizeof(struct node) + key_n + 1 + (numbered ? sizeof(uint64_t) : 0) + (kind == NODE_PLAIN ? sizeof(int64_t) : 0);
}

static uint8_t *plain_ts_at(const struct node *n)
{
	mutex_assert_held(&table.lock);
	return (uint8_t *)(uintptr_t)n + node_bytes(NODE_PLAIN, n->key_n, n->numbered) - sizeof(int64_t);
}

int64_t plain_ts_locked(const struct node *n)
{
	int64_t ts;

	memcpy(&ts, plain_ts_at(n), sizeof(ts));
	return ts;
}

void plain_set_ts_locked(struct node *n, int64_t ts)
{
	memcpy(plain_ts_at(n), &ts, sizeof(ts));
}

static struct node *node_alloc_locked(struct node *parent, enum node_kind kind, struct tfs_bytes key, int64_t ts, uint64_t ino)
{
	const uint64_t number = renumber_get(ino);
	struct node *n = node_memory_alloc(node_bytes(kind, key.n, number));

	if (!n)
		return NULL;
	n->parent = parent;
	n->kind = (uint8_t)kind;
	n->ts = ts;
	n->key_n = key.n & INT32_MAX;
	if (key.n)
		memcpy(n->key, key.p, key.n);
	n->ino = ino;
	n->numbered = number != 0;
	if (number)
		memcpy(n->key + key.n + 1, &number, sizeof(number));
	n->generation = ++table.generation;
	return n;
}

int node_table_init(
	const struct node_ops *const tables[NODE_KIND_COUNT], void (*close_file)(struct node *n), const struct siphash_key *key)
{
	kinds = tables;
	table.key = *key;
	table.close_file = close_file;
	mutex_init(&table.lock, RANK_FS_TREE);
	table.buckets = BUCKETS_MIN;
	table.bucket = calloc(table.buckets, sizeof(*table.bucket));
	if (random_bytes(&table.generation, sizeof(table.generation)))
		table.generation = (uint32_t)time(NULL);
	table.root = node_alloc_locked(NULL, NODE_ROOT, tfs_bytes_of(NULL, 0), 0, 1);
	if (!table.bucket || !table.root) {
		free(table.bucket);
		if (table.root)
			node_memory_free(table.root, node_bytes(NODE_ROOT, 0, false));
		mutex_fini(&table.lock);
		return -ENOMEM;
	}
	table.root->refs = 1;
	return 0;
}

static void node_destroy(struct node *n)
{
	if ((n->kind == NODE_SCAN || n->kind == NODE_RUN) && n->size)
		user_give(USER_SCANS, (uid_t)(n->size - 1), 1);
	if (!node_is_dir(n)) {
		table.close_file(n);
	} else if (n->dir) {
		if (n->dir->table)
			tfs_table_close(n->dir->table);
		free(n->dir);
	}
	node_memory_free(n, node_bytes((enum node_kind)n->kind, n->key_n, n->numbered));
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
	renumber_fini();
	mutex_fini(&table.lock);
}

static void node_index_resize(size_t buckets)
{
	struct node **bucket = calloc(buckets, sizeof(*bucket));

	if (!bucket)
		return; /* the table works with its old size too */
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

static struct node *find_locked(struct node *parent, enum node_kind kind, struct tfs_bytes key, int64_t ts, uint64_t ino)
{
	mutex_assert_held(&table.lock);
	for (struct node *n = table.bucket[ino & (table.buckets - 1)]; n; n = n->next)
		if (n->ino == ino && n->kind == kind && n->parent == parent && n->ts == ts && (n->flags & NODE_HASHED) &&
			bytes_eq(node_key(n), key))
			return n;
	return NULL;
}

struct node *node_find_locked(struct node *parent, enum node_kind kind, struct tfs_bytes key, int64_t ts)
{
	return find_locked(parent, kind, key, ts, node_ino_locked(parent, kind, key, ts));
}

struct node *node_find(struct node *parent, enum node_kind kind, struct tfs_bytes key, int64_t ts)
{
	struct node *n;

	mutex_lock(&table.lock);
	n = node_find_locked(parent, kind, key, ts);
	if (n)
		n->refs++;
	mutex_unlock(&table.lock);
	return n;
}

struct node *node_get(struct node *parent, enum node_kind kind, struct tfs_bytes key, int64_t ts)
{
	struct node *n;
	uint64_t ino;

	mutex_lock(&table.lock);
	ino = node_ino_locked(parent, kind, key, ts);
	n = find_locked(parent, kind, key, ts, ino);
	if (!n && (n = node_alloc_locked(parent, kind, key, ts, ino))) {
		parent->refs++;
		assert(node_is_dir(parent));
		LIST_INSERT_HEAD(&parent->children, n, link);
		n->flags = NODE_HASHED;
		n->next = table.bucket[ino & (table.buckets - 1)];
		table.bucket[ino & (table.buckets - 1)] = n;
		if (++table.count > table.buckets)
			node_index_resize(table.buckets * 2);
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

/* Unhashed nodes stay on their chain until they are freed; lookups skip them. */
static void node_reap_locked(struct node *n)
{
	while (n != table.root && n->refs == 0 && n->lookups == 0) {
		struct node *parent = n->parent, **link = &table.bucket[n->ino & (table.buckets - 1)];

		while (*link != n)
			link = &(*link)->next;
		*link = n->next;
		LIST_REMOVE(n, link);
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
	/* Not in node_reap_locked(): other callers put nodes while they walk the table. */
	if (table.count < table.buckets / 8 && table.buckets > BUCKETS_MIN)
		node_index_resize(table.buckets / 2);
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
	if (n->flags & NODE_GONE)
		return;
	n->flags &= (uint16_t)~NODE_HASHED;
	n->flags |= NODE_GONE;
	/* No program has seen the number of a node that the kernel does not hold.  A number of scratch belongs to one node only. */
	if (n->lookups && !node_is(n, KIND_SCRATCH))
		renumber_put(n->ino, child_ino(n->ino, (enum node_kind)n->kind, tfs_bytes_of(NULL, 0), ++table.replaced));
}

void node_end(struct node *n)
{
	mutex_lock(&table.lock);
	node_end_locked(n);
	mutex_unlock(&table.lock);
}

void node_renumber(const struct node *n, const struct node *from)
{
	mutex_lock(&table.lock);
	renumber_put(n->ino, node_number(from));
	mutex_unlock(&table.lock);
}

struct node *node_above(const struct node *n, enum node_kind kind)
{
	while (n && n->kind != kind)
		n = n->parent;
	return (struct node *)n;
}

struct node *node_table(struct node *n)
{
	while (n && n->kind != NODE_TABLE && n->kind != NODE_SNAPSHOT)
		n = n->parent;
	return n;
}

bool node_is_frozen(const struct node *n)
{
	if (n->kind == NODE_SETTING && n->parent->kind == NODE_SNAPSHOT)
		return false;
	while (n && n->kind != NODE_TABLE && n->kind != NODE_SNAPSHOT && n->kind != NODE_SNAP_ALL)
		n = n->parent;
	return n && n->kind != NODE_TABLE;
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

static bool is_snapshot_of(const struct node *n, const struct node *t)
{
	return n && n->kind == NODE_SNAPSHOT && n->dir && n->dir->snapshot_of == load_be32(t->key);
}

void node_each_of_table(struct node *t, bool snapshots, void (*fn)(void *arg, struct node *n), void *arg)
{
	mutex_lock(&table.lock);
	for (size_t i = 0; i < table.buckets; i++)
		for (struct node *n = table.bucket[i]; n; n = n->next)
			if (node_table(n) == t || (snapshots && is_snapshot_of(node_table(n), t)))
				fn(arg, n);
	mutex_unlock(&table.lock);
}

void node_each_below_locked(struct node *top, void (*fn)(void *arg, struct node *n), void *arg)
{
	struct node *n = top;

	mutex_assert_held(&table.lock);
	for (;;) {
		fn(arg, n);
		if (node_is_dir(n) && !LIST_EMPTY(&n->children)) {
			n = LIST_FIRST(&n->children);
			continue;
		}
		while (n != top && !LIST_NEXT(n, link))
			n = n->parent;
		if (n == top)
			return;
		n = LIST_NEXT(n, link);
	}
}

void node_each(void (*fn)(void *arg, struct node *n), void *arg)
{
	mutex_lock(&table.lock);
	for (size_t i = 0; i < table.buckets; i++)
		for (struct node *n = table.bucket[i]; n; n = n->next)
			fn(arg, n);
	fn(arg, node_root());
	mutex_unlock(&table.lock);
}

/* ---- views: both have the same nodes below them, with the same keys; only the path to the table differs ---- */

bool node_in_scan(const struct node *n)
{
	while (node_is(n, KIND_IN_VIEW))
		n = n->parent;
	return node_is(n, KIND_SCAN);
}

bool node_in_own_view(const struct node *dir)
{
	while (node_is(dir, KIND_IN_VIEW))
		dir = dir->parent;
	return dir->kind != NODE_LATEST;
}

struct node *node_in_table_locked(struct node *n)
{
	struct node *parent;

	if (n->kind == NODE_LATEST)
		return n->parent;
	if (node_in_own_view(n))
		return n;
	parent = node_in_table_locked(n->parent);
	return parent ? node_find_locked(parent, (enum node_kind)n->kind, node_key(n), 0) : NULL;
}

struct node *node_in_other_view_locked(struct node *n)
{
	struct node *parent;

	if (n->kind == NODE_LATEST)
		return n->parent;
	if (n->kind == NODE_TABLE)
		return node_find_locked(n, NODE_LATEST, tfs_bytes_of(NULL, 0), 0);
	parent = node_is(n, KIND_IN_VIEW) ? node_in_other_view_locked(n->parent) : NULL;
	return parent ? node_find_locked(parent, (enum node_kind)n->kind, node_key(n), 0) : NULL;
}

struct node *node_in_table_get(struct node *n)
{
	struct node *parent, *own = n->kind == NODE_LATEST ? n->parent : node_in_own_view(n) ? n : NULL;

	if (own) {
		node_hold(own);
		return own;
	}
	parent = node_in_table_get(n->parent);
	own = parent ? node_get(parent, (enum node_kind)n->kind, node_key(n), 0) : NULL;
	node_put(parent);
	return own;
}

int node_append_key(const struct node *n, struct buf *out)
{
	int err = 0;

	for (; n->parent && !err; n = n->parent)
		err = buf_u8(out, n->kind) || buf_be64(out, (uint64_t)n->ts) || buf_lstr(out, node_key(n)) ? -ENOMEM : 0;
	return err;
}
