/* SPDX-License-Identifier: Apache-2.0 */
/* The model keeps no changes. */
#include <errno.h>

#include "t/model/model_types.h"

int tfs_feed_open(struct tfs_table *t, const char *token, int64_t from_us, struct tfs_feed **out)
{
	return -EOPNOTSUPP;
}

int tfs_feed_next(struct tfs_feed *f, struct tfs_feed_change *change)
{
	return 0;
}

bool tfs_feed_at_hand(struct tfs_feed *f)
{
	return false;
}

int64_t tfs_feed_opened_us(const struct tfs_feed *f)
{
	return 0;
}

const char *tfs_feed_token(struct tfs_feed *f)
{
	return "";
}

int tfs_feed_wait(struct tfs_feed *f, bool (*stop)(void *arg), void *arg)
{
	return -EINTR;
}

void tfs_feed_notify(struct tfs_feed *f, void (*fn)(void *arg), void *arg)
{
}

void tfs_feed_free(struct tfs_feed *f)
{
}
