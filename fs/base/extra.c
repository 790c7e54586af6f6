/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extra entries: the entries of directories that exist in the daemon only
 * (extra.h).  Entries are allocated apart from nodes, because most of a million
 * nodes have no extra entry.
 */
#include "fs/base/extra.h"

#include "engine/base/msg.h"
#include "fs/base/reply.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <bsd/sys/queue.h>

struct extra {
	RB_ENTRY(extra) link;
	TAILQ_ENTRY(extra) age;
	struct node *node;
	enum extra_state state;
};
TAILQ_HEAD(extra_list, extra);

static struct {
	struct extra_list list;
	size_t count;
} states[EXTRA_STATES] = {
	{.list = TAILQ_HEAD_INITIALIZER(states[EXTRA_SCRATCH].list)},
	{.list = TAILQ_HEAD_INITIALIZER(states[EXTRA_EMPTY].list)},
	{.list = TAILQ_HEAD_INITIALIZER(states[EXTRA_UNCHECKED].list)},
	{.list = TAILQ_HEAD_INITIALIZER(states[EXTRA_HAS_CELLS].list)},
};
static size_t all_bytes;

static unsigned extra_class(const struct node *n)
{
	return node_is(n, KIND_KEYED);
}

static int extra_cmp_key(const struct node *n, unsigned cls, struct tfs_bytes key)
{
	unsigned c = extra_class(n);

	if (c != cls)
		return c < cls ? -1 : 1;
	return bytes_cmp(node_key(n), key);
}

static int extra_cmp(struct extra *a, struct extra *b)
{
	return extra_cmp_key(a->node, extra_class(b->node), node_key(b->node));
}

RB_PROTOTYPE_STATIC(extra_tree, extra, link, extra_cmp);
RB_GENERATE_STATIC(extra_tree, extra, link, extra_cmp);

static struct extra *extra_find(const struct node *dir, unsigned cls, struct tfs_bytes key)
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

static struct extra *extra_of(const struct node *n)
{
	struct extra *e = extra_find(n->parent, extra_class(n), node_key(n));

	assert(e && e->node == n);
	return e;
}

/* With malloc's overhead. */
static size_t extra_memory(const struct extra *e)
{
	return e->state == EXTRA_SCRATCH ? 0 : sizeof(*e) + sizeof(*e->node) + e->node->key_n + 32;
}

static void state_enter(struct extra *e, enum extra_state state)
{
	e->state = state;
	TAILQ_INSERT_TAIL(&states[state].list, e, age);
	states[state].count++;
	all_bytes += extra_memory(e);
}

static void state_leave(struct extra *e)
{
	TAILQ_REMOVE(&states[e->state].list, e, age);
	states[e->state].count--;
	all_bytes -= extra_memory(e);
}

void extra_fini(void)
{
	struct extra *e;

	for (int i = 0; i < EXTRA_STATES; i++) {
		while ((e = TAILQ_FIRST(&states[i].list)) != NULL) {
			state_leave(e);
			RB_REMOVE(extra_tree, &e->node->parent->dir->extras, e);
			free(e);
		}
	}
}

int extra_add_locked(struct node *n, enum extra_state state)
{
	struct dirx *d = node_dirx_locked(n->parent);
	struct extra *e;

	if (!d)
		return -ENOMEM;
	if (n->flags & NODE_EXTRA || extra_find(n->parent, extra_class(n), node_key(n)))
		return 0; /* n has an entry, or a removed node with the same key still has one */
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->node = n;
	RB_INSERT(extra_tree, &d->extras, e);
	state_enter(e, state);
	n->parent->epoch++;
	n->flags |= NODE_EXTRA;
	n->refs++;
	return 0;
}

void extra_remove_locked(struct node *n)
{
	struct extra *e;

	mutex_assert_held(tree_mutex());
	if (!(n->flags & NODE_EXTRA))
		return;
	e = extra_of(n);
	state_leave(e);
	RB_REMOVE(extra_tree, &n->parent->dir->extras, e);
	n->parent->epoch++;
	free(e);
	n->flags &= (uint16_t)~NODE_EXTRA;
	n->refs--;
}

void extra_drop_locked(struct node *n)
{
	n->refs++;
	extra_remove_locked(n);
	node_put_locked(n);
}

void extra_set_state_locked(struct node *n, enum extra_state state)
{
	struct extra *e = extra_of(n);

	state_leave(e);
	state_enter(e, state);
}

void extra_replace_locked(struct node *old, struct node *n)
{
	struct extra *e = extra_of(old);

	mutex_assert_held(tree_mutex());
	assert(e->state == EXTRA_SCRATCH && !(n->flags & NODE_EXTRA));
	e->node = n;
	n->parent->epoch++;
	n->flags |= NODE_EXTRA;
	n->refs++;
	old->flags &= (uint16_t)~NODE_EXTRA;
	node_put_locked(old);
}

struct node *extra_oldest_locked(enum extra_state state)
{
	struct extra *e = TAILQ_FIRST(&states[state].list);

	mutex_assert_held(tree_mutex());
	return e ? e->node : NULL;
}

size_t extra_count_locked(enum extra_state state)
{
	mutex_assert_held(tree_mutex());
	return states[state].count;
}

size_t extra_bytes_locked(void)
{
	mutex_assert_held(tree_mutex());
	return all_bytes;
}

struct node *extra_next_locked(struct node *dir, unsigned cls, const struct tfs_bytes *above)
{
	struct extra *e = dir->dir ? RB_ROOT(&dir->dir->extras) : NULL, *best = NULL;

	mutex_assert_held(tree_mutex());
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

struct node *extra_find_locked(struct node *dir, unsigned cls, struct tfs_bytes key)
{
	struct extra *e = extra_find(dir, cls, key);

	return e ? e->node : NULL;
}

bool extra_any_locked(const struct node *dir)
{
	return dir->dir && !RB_EMPTY(&dir->dir->extras);
}

bool extra_any_view_locked(struct node *dir)
{
	struct node *other = node_in_other_view_locked(dir);

	return extra_any_locked(dir) || (other && extra_any_locked(other));
}

static void log_dropped(struct node *n, const char *when)
{
	char path[512];

	if (n->kind == NODE_SCRATCH_FILE)
		msg_notice("%s: scratch file dropped %s", node_describe(n, NULL, path, sizeof(path)), when);
}

void extra_report_scratch(void)
{
	struct extra *e;

	mutex_lock(tree_mutex());
	TAILQ_FOREACH (e, &states[EXTRA_SCRATCH].list, age)
		log_dropped(e->node, "at the end of the mount");
	mutex_unlock(tree_mutex());
}

void extra_end_each(bool (*ends)(void *arg, const struct node *n), void *arg)
{
	struct extra *e, *next;

	mutex_lock(tree_mutex());
	for (int i = 0; i < EXTRA_STATES; i++) {
		TAILQ_FOREACH_SAFE (e, &states[i].list, age, next) {
			if (!ends(arg, e->node))
				continue;
			log_dropped(e->node, "with its directory");
			extra_drop_locked(e->node);
		}
	}
	mutex_unlock(tree_mutex());
}

void extra_has_cells_locked(struct node *dir)
{
	if (!(dir->flags & NODE_EXTRA))
		return;
	if (extra_any_view_locked(dir))
		extra_set_state_locked(dir, EXTRA_HAS_CELLS);
	else
		extra_drop_locked(dir);
}

void extra_cell_added(struct node *family)
{
	struct node *own, *row;

	mutex_lock(tree_mutex());
	own = node_in_table_locked(family);
	row = own ? own->parent : node_in_table_locked(family->parent);
	if (row)
		row->refs++;
	if (own)
		extra_drop_locked(own);
	if (row) {
		extra_has_cells_locked(row);
		node_put_locked(row);
	}
	mutex_unlock(tree_mutex());
}
