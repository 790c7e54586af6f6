/* SPDX-License-Identifier: Apache-2.0 */
/* A client's lock service: reads go through the server, and nothing is written or watched. */
#include "engine/rpc/remote_lock.h"

#include <errno.h>
#include <stdlib.h>

struct remote_lock {
	struct lock_service base; /* first */
	struct channel *channel;
};

static int remote_get(struct lock_service *s, const char *name, struct buf *contents, struct lock_stat *stat)
{
	struct ss_request q = {.method = SS_LOCK_GET, .name = name};
	struct ss_answer a = {0};
	int err = channel_store(((struct remote_lock *)s)->channel, &q, &a);

	if (!err && contents)
		err = buf_set(contents, a.bytes.p, a.bytes.n);
	if (!err && stat)
		*stat = (struct lock_stat){.version = a.version, .mtime_us = a.mtime_us};
	ss_answer_fini(&a);
	return err;
}

static int remote_multi(struct lock_service *s, const struct lock_op *ops, unsigned count, struct lock_stat *stats)
{
	return -EROFS;
}

static int remote_list(struct lock_service *s, const char *dir, int (*fn)(void *arg, const char *name), void *arg)
{
	struct ss_request q = {.method = SS_LOCK_LIST, .name = dir};
	struct ss_answer a = {0};
	int err = channel_store(((struct remote_lock *)s)->channel, &q, &a);

	for (uint32_t i = 0; i < a.name_count && !err; i++)
		err = fn(arg, a.names[i].name);
	ss_answer_fini(&a);
	return err;
}

static int remote_sync(struct lock_service *s)
{
	return 0;
}

static int remote_watch(struct lock_service *s, const char *name, lock_watch_fn *fn, void *arg)
{
	return -EOPNOTSUPP;
}

static void remote_unwatch(struct lock_service *s, lock_watch_fn *fn, void *arg)
{
}

static void remote_free(struct lock_service *s)
{
	free(s);
}

int remote_lock_new(struct channel *c, struct lock_service **out)
{
	static const struct lock_service_ops ops = {
		remote_get, remote_multi, remote_list, remote_sync, remote_watch, remote_unwatch, remote_free};
	struct remote_lock *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	*r = (struct remote_lock){.base.ops = &ops, .channel = c};
	*out = &r->base;
	return 0;
}
