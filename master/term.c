/* SPDX-License-Identifier: Apache-2.0 */
/* The master's changes in the lock service, each under a check of its term. */
#include "engine/base/process.h"
#include "master/internal.h"

/* Returns true if a change with this error has certainly not taken place (lock.h). */
static bool is_refusal(int err)
{
	return err == -ENOENT || err == -EEXIST || err == -VERSION_CHANGED || err == -EINVAL || err == -EFBIG || err == -EBADMSG ||
		err == -ENOSPC || err == -SESSION_ENDED;
}

int master_multi(struct master *m, const struct lock_op *ops, unsigned count)
{
	int err;

	die_step(DIE_BEFORE_LOCK);
	err = m->o.term ? lock_term_multi(m->o.term, ops, count) : lock_multi(m->locks, ops, count, NULL);
	die_step(DIE_AFTER_LOCK);
	if (err && !is_refusal(err))
		m->in_doubt = true;
	return err;
}

int master_put(struct master *m, const char *name, struct tfs_bytes contents, uint64_t expect)
{
	const struct lock_op op = {.name = name, .contents = contents, .expect = expect};

	return master_multi(m, &op, 1);
}

int master_remove(struct master *m, const char *name)
{
	const struct lock_op op = {.name = name, .what = LOCK_REMOVE, .expect = LOCK_ANY};

	return master_multi(m, &op, 1);
}

uint64_t master_term(const struct master *m)
{
	return m->o.term ? m->o.term->number : 0;
}
