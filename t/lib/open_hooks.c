/* SPDX-License-Identifier: Apache-2.0 */
/* The linker directs calls of these functions of server and master to this file (--wrap, t/lib/local.mk). */
#include "t/lib/open_hooks.h"
#include "engine/server/server.h"
#include "master/master.h"

#include <pthread.h>
#include <stdlib.h>

int __real_server_new(const struct server_options *o, struct lock_service *locks, struct server **out);
int __wrap_server_new(const struct server_options *o, struct lock_service *locks, struct server **out);
int __real_server_free(struct server *s, bool flush);
int __wrap_server_free(struct server *s, bool flush);
void __real_server_stop(struct server *s);
void __wrap_server_stop(struct server *s);
int __real_master_new(const struct master_options *o, struct master **out);
int __wrap_master_new(const struct master_options *o, struct master **out);
void __real_master_finish(struct master *m);
void __wrap_master_finish(struct master *m);

static _Thread_local struct open_hooks *opening;
static _Thread_local bool no_finish;                     /* from server_stop to master_finish of one tfs_close */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the array */
static struct {
	struct server *server;
	struct open_hooks *hooks;
} open_stores[8];

/* Gives the entry of one server (NULL: a free one) another server. */
static struct open_hooks *replace(const struct server *from, struct server *to, struct open_hooks *hooks)
{
	unsigned i = 0;
	struct open_hooks *had;

	pthread_mutex_lock(&lock);
	while (i < 8 && open_stores[i].server != from)
		i++;
	if (i == 8)
		abort();
	had = open_stores[i].hooks;
	open_stores[i].server = to;
	open_stores[i].hooks = hooks;
	pthread_mutex_unlock(&lock);
	return had;
}

int __wrap_server_new(const struct server_options *o, struct lock_service *locks, struct server **out)
{
	const struct open_hooks *h = opening;
	struct server_options with = *o;
	int err;

	if (h) {
		with.clock = h->clock;
		with.log_stall_us = h->log_stall_us;
		with.metadata_tablet_bytes = h->metadata_tablet_bytes;
		with.merge_after_us = h->merge_after_us;
		with.logs_flush_age_us = h->logs_flush_age_us;
		with.look_us = h->look_us;
		with.scan_view_us = h->scan_view_us;
		with.replay_part_bytes = h->replay_part_bytes;
		with.merge_read_tries = h->merge_read_tries;
		with.held = h->held;
		with.clock_offset = h->clock_offset;
		with.lost = h->lost;
		with.fence_arg = h->fence_arg;
	}
	err = __real_server_new(&with, locks, out);
	if (!err)
		replace(NULL, *out, opening);
	return err;
}

int __wrap_server_free(struct server *s, bool flush)
{
	const struct open_hooks *h = replace(s, NULL, NULL);

	return __real_server_free(s, flush && !(h && h->no_flush));
}

void __wrap_server_stop(struct server *s)
{
	pthread_mutex_lock(&lock);
	no_finish = false;
	for (unsigned i = 0; i < 8; i++)
		if (open_stores[i].server == s && open_stores[i].hooks)
			no_finish = open_stores[i].hooks->no_flush;
	pthread_mutex_unlock(&lock);
	if (!no_finish)
		__real_server_stop(s);
}

int __wrap_master_new(const struct master_options *o, struct master **out)
{
	struct master_options with = *o;
	int err = 0;

	if (opening && opening->held) { /* its server has a fence, and serves a master with a term only */
		err = lock_term_begin(o->locks, TFS_S("master"), &opening->term);
		with.term = &opening->term;
	}
	if (!err)
		err = __real_master_new(&with, out);
	if (!err && opening)
		opening->master = *out;
	return err;
}

void __wrap_master_finish(struct master *m)
{
	if (!no_finish)
		__real_master_finish(m);
}

int tfs_open_hooked(const char *source, const struct tfs_options *o, struct open_hooks *hooks, struct tfs_store **out, char **why)
{
	int err;

	opening = hooks;
	err = tfs_open(source, o, out, why);
	opening = NULL;
	for (unsigned i = 0; i < 8 && !err; i++)
		if (open_stores[i].server && open_stores[i].hooks == hooks)
			hooks->server = open_stores[i].server;
	return err;
}
