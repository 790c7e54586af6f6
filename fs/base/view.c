/* SPDX-License-Identifier: Apache-2.0 */
/* Both views of a table have the same nodes below them, with the same keys: only the path to the table differs. */
#include "fs/base/view.h"

#include "fs/base/fs.h"

struct node *node_in_table_locked(struct node *n)
{
	struct node *parent;

	if (n->kind == NODE_LATEST)
		return n->parent;
	if (!node_is(n, KIND_IN_VIEW))
		return n;
	parent = node_in_table_locked(n->parent);
	return !parent ? NULL : parent == n->parent ? n : node_find_locked(parent, (enum node_kind)n->kind, node_key(n), 0);
}

struct node *node_in_other_view_locked(struct node *n)
{
	struct node *parent;

	if (n->kind == NODE_LATEST)
		return n->parent;
	if (n->kind == NODE_TABLE)
		return node_find_locked(n, NODE_LATEST, slice_of(NULL, 0), 0);
	parent = node_is(n, KIND_IN_VIEW) ? node_in_other_view_locked(n->parent) : NULL;
	return parent ? node_find_locked(parent, (enum node_kind)n->kind, node_key(n), 0) : NULL;
}

struct node *node_in_table_get(struct node *n)
{
	struct node *parent = n->kind == NODE_LATEST ? n->parent : n, *own;

	if (!node_is(n, KIND_IN_VIEW)) {
		node_hold(parent);
		return parent;
	}
	parent = node_in_table_get(n->parent);
	if (parent == n->parent) {
		node_hold(n);
		own = n;
	} else {
		own = parent ? node_get(parent, (enum node_kind)n->kind, node_key(n), 0) : NULL;
	}
	node_put(parent);
	return own;
}

bool node_is_latest(const struct node *n)
{
	if (fs.latest)
		return true;
	for (; n; n = n->parent)
		if (n->kind == NODE_LATEST)
			return true;
	return false;
}
