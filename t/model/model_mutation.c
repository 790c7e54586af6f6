/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a mutation: a list of operations that point into the caller's
 * memory.  Nothing is judged before tfs_apply.  A mutation holds its table,
 * and can be applied again.
 */
#include <errno.h>
#include <stdlib.h>

#include "t/model/model_types.h"

struct tfs_mutation *tfs_mutation_new(struct tfs_table *t, struct tfs_bytes row)
{
	struct tfs_mutation *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->table = t;
	m->row = row;
	mdl_lock();
	mdl_table_get(t);
	mdl_unlock();
	return m;
}

void tfs_mutation_free(struct tfs_mutation *m)
{
	if (!m)
		return;
	tfs_table_close(m->table);
	free(m->op);
	free(m);
}

static int add(struct tfs_mutation *m, const struct mdl_op *op)
{
	int r = mdl_reserve(&m->op, &m->capacity, m->n + 1, sizeof(*m->op));

	if (r == 0)
		m->op[m->n++] = *op;
	return r;
}

int tfs_mutation_put(
	struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts, struct tfs_bytes value)
{
	return add(m, &(struct mdl_op){MDL_PUT, .family = family, .qualifier = qualifier, .ts = ts, .value = value});
}

int tfs_mutation_write(struct tfs_mutation *m, const struct tfs_write *w)
{
	return add(m, &(struct mdl_op){MDL_WRITE, .family = w->family, .qualifier = w->qualifier, .ts = w->place, .write = *w});
}

int tfs_mutation_delete_version(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, int64_t ts)
{
	return add(m, &(struct mdl_op){MDL_DELETE_VERSION, .family = family, .qualifier = qualifier, .number = ts});
}

int tfs_mutation_delete_column(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier)
{
	return add(m, &(struct mdl_op){MDL_DELETE_COLUMN, .family = family, .qualifier = qualifier});
}

int tfs_mutation_delete_family(struct tfs_mutation *m, const char *family)
{
	return add(m, &(struct mdl_op){MDL_DELETE_FAMILY, .family = family});
}

int tfs_mutation_delete_row(struct tfs_mutation *m)
{
	return add(m, &(struct mdl_op){MDL_DELETE_ROW});
}

int tfs_mutation_set_time(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, int64_t to)
{
	return add(m, &(struct mdl_op){MDL_SET_TIME, .family = family, .qualifier = qualifier, .number = to});
}

int tfs_mutation_move(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, struct tfs_ts from,
	const char *to_family, struct tfs_bytes to_qualifier, struct tfs_ts to, bool noreplace)
{
	return add(m,
		&(struct mdl_op){MDL_MOVE, .family = family, .qualifier = qualifier, .ts = from, .to_family = to_family,
			.to_qualifier = to_qualifier, .to = to, .noreplace = noreplace});
}

int tfs_mutation_increment(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, int64_t by)
{
	return add(m, &(struct mdl_op){MDL_INCREMENT, .family = family, .qualifier = qualifier, .ts = TFS_AUTO, .number = by});
}

int tfs_mutation_check(struct tfs_mutation *m, enum tfs_check check, const char *family, struct tfs_bytes qualifier,
	struct tfs_ts ts, struct tfs_bytes value)
{
	return add(m,
		&(struct mdl_op){MDL_CHECK, .family = family, .qualifier = qualifier, .ts = ts, .value = value,
			.check = check < TFS_CHECK_FAMILY ? check : TFS_CHECK_FAMILY + 1});
}

int tfs_mutation_check_family(struct tfs_mutation *m, const char *family, uint64_t fingerprint)
{
	return add(m,
		&(struct mdl_op){
			MDL_CHECK, .family = family, .ts = TFS_AUTO, .number = (int64_t)fingerprint, .check = TFS_CHECK_FAMILY});
}

int tfs_apply(struct tfs_mutation *m, unsigned flags, struct tfs_result *results)
{
	int r;

	if (flags & ~(TFS_APPLY_SYNC | TFS_APPLY_KEEP))
		return -EINVAL;
	mdl_lock();
	r = m->table->schema->pub.snapshot_of ? -EROFS : mdl_apply_locked(m, results);
	mdl_unlock();
	return r;
}
