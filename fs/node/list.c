/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listers of directories (list.h).  Within a phase the cursor is the last key
 * returned, so entries that are added or removed elsewhere do not move it.
 *
 * Damage.  A scan ends at the first block that cannot be read.  The listing
 * then continues from its cursor with a scan that passes such blocks, and ends
 * with EIO.  An unreadable block may contain tombstones, so later entries are
 * names only: the kernel looks each of them up.
 */
#include "fs/node/list.h"

#include "fs/base/ahead.h"
#include "fs/base/extra.h"

#include <errno.h>
#include <stdlib.h>

bool lister_is_damage(int err)
{
	return err == -EBADMSG || err == -EIO;
}

int lister_scan(struct lister *l, const struct tfs_scan_spec *spec)
{
	return source_scan(&l->source, spec, &l->scan);
}

void lister_end_scan(struct lister *l)
{
	if (l->scan)
		tfs_scan_free(l->scan);
	l->scan = NULL;
	ahead_put(l->row);
	l->row = NULL;
	l->scan_done = l->peeked = false;
}

int lister_init(struct lister *l, struct node *base, struct tfs_bytes path)
{
	int err;

	l->base = base;
	if (node_is(base, KIND_FAMILY)) {
		l->own = node_in_table_get(base); /* where the nodes of cells are */
		if (!l->own)
			return -ENOMEM;
	} else {
		mutex_lock(tree_mutex());
		l->own = node_in_table_locked(base);
		if (l->own)
			l->own->refs++;
		mutex_unlock(tree_mutex());
	}
	l->path = path;
	err = source_init(&l->source, base);
	return err || !path.n ? err : name_prefix_init(path, node_is(base, KIND_FAMILY), &l->prefix);
}

void lister_fini(struct lister *l)
{
	lister_end_scan(l);
	node_put(l->own);
	name_prefix_fini(&l->prefix);
	if (l->schema)
		tfs_schema_put(l->schema);
	buf_fini(&l->at.key);
	buf_fini(&l->to);
	buf_fini(&l->from);
	buf_fini(&l->name);
	buf_fini(&l->last_part);
	free(l->memory);
	source_fini(&l->source);
}

int lister_new(struct node *dir, const struct cursor *from, bool values, struct lister **out)
{
	struct lister *l = calloc(1, sizeof(*l));
	bool part = node_is(dir, KIND_PART);
	int err;

	if (!l)
		return -ENOMEM;
	l->dir = dir;
	err = lister_init(l, part ? dir->parent : dir, part ? node_key(dir) : tfs_bytes_of(NULL, 0));
	/* Values are kept by version_list_attr().  In a shared store, a READ asks for the values of its row (fs/base/ahead.h). */
	l->values = values && !l->source.is_view && !l->source.latest && !fs.shared &&
		atomic_load(&fs.unread_values) < FS_UNREAD_VALUES_MAX;
	if (err == 0 && node_table(dir))
		err = tfs_schema_get(node_store_table(dir), &l->schema);
	if (err == 0 && from) {
		l->at.phase = from->phase;
		l->at.number = from->number;
		l->phase_begun = true; /* the phase has an entry, also if the key is empty and the timestamp 0 */
		err = buf_append_bytes(&l->at.key, buf_bytes(&from->key));
	}
	if (err) {
		lister_free(l);
		return err == -ENOENT ? -ESTALE : err;
	}
	*out = l;
	return 0;
}

void lister_free(struct lister *l)
{
	if (!l)
		return;
	lister_fini(l);
	free(l);
}

static int next_extra(struct lister *l, bool parts, struct list_entry *e)
{
	struct node *holder = parts ? l->own : l->dir, *n;
	int err = 0;

	for (;;) {
		struct tfs_bytes above = buf_bytes(&l->at.key), component;
		bool last = true;

		if (parts && !l->phase_begun)
			above = l->path;
		mutex_lock(tree_mutex());
		n = holder ? extra_next_locked(holder, 0, l->phase_begun || parts ? &above : NULL) : NULL;
		if (n) {
			err = buf_set(&l->at.key, n->key, n->key_n);
			e->kind = (enum node_kind)n->kind;
			e->ts = n->ts;
		}
		mutex_unlock(tree_mutex());
		if (!n || err)
			return err;
		l->phase_begun = true;
		component = buf_bytes(&l->at.key);
		if (parts) {
			if (!bytes_has_prefix(component, l->path))
				return 0;
			if (!name_component(component, l->path, &component, &last) || !last)
				continue;
		} else if (memchr(component.p, '/', component.n)) {
			continue;
		}
		if (parts && kind_is(e->kind, KIND_SCRATCH))
			continue;
		e->name = component;
		e->key = buf_bytes(&l->at.key);
		e->parent = parts ? l->base : l->dir;
		return 1;
	}
}

int list_extras(struct lister *l, struct list_entry *e)
{
	return next_extra(l, false, e);
}

int list_made_parts(struct lister *l, struct list_entry *e)
{
	return l->path.n || l->own != l->base ? next_extra(l, true, e) : 0;
}

int lister_next(struct lister *l, struct list_entry *e)
{
	const list_phase_fn *phases = node_ops(l->dir)->list;

	while (phases[l->at.phase]) {
		int r;

		*e = (struct list_entry){.info.expires_us = INT64_MAX};
		r = phases[l->at.phase](l, e);
		if (r)
			return r;
		lister_end_scan(l);
		free(l->memory);
		l->memory = NULL;
		l->at.phase++;
		l->at.number = 0;
		l->phase_begun = false;
		buf_reset(&l->at.key);
		buf_reset(&l->last_part);
	}
	return 0;
}
