/* SPDX-License-Identifier: Apache-2.0 */
/* A batch of the model applies each mutation when it is added. */
#include <errno.h>
#include <stdlib.h>

#include "t/model/model_types.h"

struct tfs_batch {
	struct tfs_table *table;
	struct tfs_batch_options o;
	int err;
};

int tfs_batch_new(struct tfs_table *t, const struct tfs_batch_options *o, struct tfs_batch **out)
{
	struct tfs_batch *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->table = t;
	if (o)
		b->o = *o;
	mdl_lock();
	mdl_table_get(t);
	mdl_unlock();
	*out = b;
	return 0;
}

int tfs_batch_add(struct tfs_batch *b, const struct tfs_mutation *m)
{
	struct tfs_mutation copy = *m;
	int err = m->table == b->table ? tfs_apply(&copy, 0, NULL) : -EINVAL;

	if (!err || err == -EINVAL || err == -ENOENT || err == -ENOMEM)
		return err;
	b->err = b->err ? b->err : err;
	if (b->o.failed)
		b->o.failed(b->o.arg, m->row, err);
	return 0;
}

int tfs_batch_flush(struct tfs_batch *b)
{
	int err = b->err;

	b->err = 0;
	return err;
}

int tfs_batch_close(struct tfs_batch *b)
{
	int err = b->err;

	tfs_table_close(b->table);
	free(b);
	return err;
}
