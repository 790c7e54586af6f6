/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes and names of nodes of any kind. */
#include "fs/base/node_ops.h"

#include <errno.h>

double node_entry_timeout(const struct node *n)
{
	const bool uncached =
		node_is(n, KIND_UNCACHED) || (node_is(n, KIND_UNCACHED_RW) && (!fs.read_only || fs.shared)) || node_in_scan(n);

	return uncached || !fs.may_keep ? 0 : FS_FOREVER;
}

int node_attr(struct node *n, struct stat *st, double *timeout)
{
	int err;

	*timeout = node_entry_timeout(n);
	err = node_ops(n)->attr(n, st, timeout);
	return err == -ENOENT ? -ESTALE : err;
}

int node_entry(struct node *n, struct fuse_entry_param *e)
{
	int err;

	memset(e, 0, sizeof(*e));
	e->ino = id_of(n);
	e->generation = n->generation;
	err = node_attr(n, &e->attr, &e->attr_timeout);
	e->entry_timeout = node_entry_timeout(n);
	/* A version's name expires with the version. */
	if (n->kind == NODE_VERSION && e->attr_timeout < e->entry_timeout)
		e->entry_timeout = e->attr_timeout;
	return err;
}

int resolved_get(const struct resolved *r, struct node **out)
{
	*out = node_get(r->parent, r->kind, buf_bytes(&r->key), r->ts);
	return *out ? 0 : -ENOMEM;
}

int resolved_make(const struct making *m, struct resolved *r, struct node **out)
{
	return resolved_get(r, out);
}

int node_read_text(struct node *n, uint64_t offset, void *buf, size_t size, size_t *got)
{
	struct buf text = {0};
	int err = node_ops(n)->text(n, &text, NULL);

	if (err == 0) {
		*got = offset >= text.n ? 0 : text.n - offset < size ? (size_t)(text.n - offset) : size;
		if (*got)
			memcpy(buf, text.p + offset, *got);
	}
	buf_fini(&text);
	return err == -ENOENT ? -ESTALE : err;
}

int node_append_name(struct node *n, struct buf *out)
{
	const struct node_ops *o = node_ops(n);

	if (o->name)
		return o->name(n, out);
	return o->fixed_name ? buf_append(out, o->fixed_name, strlen(o->fixed_name)) : buf_append_bytes(out, node_key(n));
}
