/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Point reads.  Everything wrong with an argument is -EINVAL, -ENOENT before
 * that if the table is dropped.  An offset past the end reads nothing.
 */
#include <errno.h>

#include "t/model/model_types.h"

static int look_up(struct tfs_table *t, struct tfs_bytes row, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts,
	const struct mdl_version **out, struct tfs_info *info)
{
	const struct tfs_family *f;
	size_t at, i = 0;

	if (t->dropped)
		return -ENOENT;
	if (row.n == 0 || row.n > TFS_ROW_MAX || qualifier.n > TFS_QUALIFIER_MAX || !family ||
		!(f = mdl_schema_family(t->schema, family)) || (ts.when != TFS_AT && ts.when != TFS_NEWEST))
		return -EINVAL;
	if (!mdl_row_find(t, row, &at))
		return -ENOENT;
	const struct mdl_row *r = t->row[at];
	if (!mdl_column_find(r, f->id, qualifier, &at))
		return -ENOENT;
	const struct mdl_column *c = r->col[at];
	const struct mdl_gc *gc = mdl_schema_gc(t->schema, f->id, NULL);
	size_t live = mdl_column_live(c, gc, mdl_table_now(t));
	while (ts.when == TFS_AT && i < live && c->v[i].ts != ts.us)
		i++;
	if (i >= live)
		return -ENOENT;
	*out = &c->v[i];
	if (info) {
		info->ts = c->v[i].ts;
		info->commit_us = c->v[i].commit_us;
		info->size = c->v[i].value->size;
		info->expires_us = t->schema->pub.snapshot_of ? INT64_MAX : mdl_gc_expiry(gc, i, c->v[i].ts);
	}
	return 0;
}

int tfs_stat(struct tfs_table *t, struct tfs_bytes row, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts,
	struct tfs_info *info)
{
	const struct mdl_version *v;

	mdl_lock();
	int r = look_up(t, row, family, qualifier, ts, &v, info);
	mdl_unlock();
	return r;
}

int tfs_read(struct tfs_table *t, struct tfs_bytes row, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts,
	uint64_t offset, void *p, size_t n, size_t *got, struct tfs_info *info)
{
	const struct mdl_version *v;

	mdl_lock();
	int r = look_up(t, row, family, qualifier, ts, &v, info);
	if (r == 0) {
		size_t left = offset < v->value->size ? v->value->size - (size_t)offset : 0;
		if (n > left)
			n = left;
		if (n > 0)
			memcpy(p, v->value->data + offset, n);
		*got = n;
	}
	mdl_unlock();
	return r;
}

int tfs_row_exists(struct tfs_table *t, struct tfs_bytes row, const char *family, bool *exists)
{
	const struct tfs_family *f = NULL;
	bool found = false;
	size_t at;
	int r = 0;

	mdl_lock();
	if (t->dropped)
		r = -ENOENT;
	else if (row.n == 0 || row.n > TFS_ROW_MAX || (family && !(f = mdl_schema_family(t->schema, family))))
		r = -EINVAL;
	else if (mdl_row_find(t, row, &at)) {
		int64_t now = mdl_table_now(t);
		for (size_t i = 0; !found && i < t->row[at]->n; i++) {
			const struct mdl_column *c = t->row[at]->col[i];
			found = (!f || c->family == f->id) &&
				mdl_column_live(c, mdl_schema_gc(t->schema, c->family, NULL), now) > 0;
		}
	}
	mdl_unlock();
	if (r == 0)
		*exists = found;
	return r;
}
