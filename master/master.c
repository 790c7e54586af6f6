/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master service: finds the function for a request.
 *
 * A client that gets no answer sends its request again.  A late copy may arrive after
 * the client's next change, and could for example make a dropped table again. So the
 * master keeps the answers to the latest requests, by their numbers.  A copy at another
 * master finds the number in the schema, or fails at the master's term.
 */
#include "master/master.h"
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "master/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int ms_call_fn(struct master *m, const struct ms_request *q, struct ms_answer *a);

/* The error of a request to a cluster's master: -EAGAIN if it met something that was not served and it has changed nothing. */
static int request_error(struct master *m, int err)
{
	if (m->o.sole)
		return err == -EAGAIN ? -EIO : err; /* a repetition would not help */
	if (err != -EAGAIN && err != -TABLET_MOVED && err != -UNREACHABLE && err != -ANSWER_LOST && err != -ETIMEDOUT)
		return err;
	return m->in_doubt ? -ETIMEDOUT : -EAGAIN;
}

static int carry_out(struct master *m, ms_call_fn *call, const struct ms_request *q, struct ms_answer *a)
{
	struct answered *x;
	int err;

	for (unsigned i = 0; i < ANSWERED_MOST && q->number; i++) {
		x = &m->answered[i];
		if (x->number == q->number) {
			a->schema = x->schema ? schema_get(x->schema) : NULL;
			return x->err;
		}
	}
	m->in_doubt = false;
	err = request_error(m, call(m, q, a));
	if (!q->number || err == -EAGAIN || err == -ETIMEDOUT)
		return err;
	x = &m->answered[m->answered_count++ % ANSWERED_MOST];
	schema_put(x->schema);
	*x = (struct answered){q->number, err, a->schema ? schema_get(a->schema) : NULL};
	return err;
}

static int master_call_method(struct master_service *service, const struct ms_request *q, struct ms_answer *a)
{
	static ms_call_fn *const calls[MS_METHODS] = {
		[MS_TABLE_CREATE] = master_table_create,
		[MS_TABLE_DROP] = master_table_drop,
		[MS_TABLE_RENAME] = master_table_rename,
		[MS_SCHEMA_SET_TEXT] = master_schema_set_text,
		[MS_SCHEMA_CHANGE] = master_schema_change,
		[MS_SNAPSHOT_CREATE] = master_snapshot_create,
		[MS_SNAPSHOT_DROP] = master_snapshot_drop,
		[MS_TABLE_CLONE] = master_table_clone,
		[MS_TABLE_TRUNCATE] = master_table_truncate,
	};
	struct master *m = (struct master *)service;
	struct ms_request named = *q;
	int err;

	if (q->method < MS_TABLE_CREATE || q->method >= MS_METHODS)
		return -ENOSYS;
	/* A request from outside may leave out any string.  The empty string is not a valid name, so the calls refuse it. */
	if (!named.name)
		named.name = "";
	if (!named.to)
		named.to = "";
	if (q->method == MS_COLLECT) {
		err = master_collect(m, false);
	} else if (q->method == MS_DRAIN) {
		err = master_empty(m, q->incarnation);
	} else {
		master_lock_for_request(m);
		err = carry_out(m, calls[q->method], &named, a);
		mutex_unlock(&m->lock);
		collect_wanted(m);
	}
	ts_refused(m->requests_refused,
		err == -EINVAL                  ? TS_REFUSED_INVALID
			: err == -SESSION_ENDED ? TS_REFUSED_FOREIGN
						: TS_REFUSALS);
	a->err = err;
	return err;
}

static const struct master_service_ops master_ops = {.call = master_call_method};

int master_new(const struct master_options *o, struct master **out)
{
	struct master *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return -ENOMEM;
	m->service = (struct master_service){.ops = &master_ops, .refused = m->requests_refused};
	m->o = *o;
	m->locks = o->locks;
	m->tablets = o->tablets;
	m->clock = o->clock;
	mutex_init(&m->lock, RANK_MASTER);
	cond_init(&m->passed);
	collect_init(m);
	err = reach_begin(m);
	if (err)
		master_free(m);
	else
		*out = m;
	return err;
}

void master_free(struct master *m)
{
	if (!m)
		return;
	reach_end(m);
	master_end_tasks(m);
	collect_fini(m);
	cond_fini(&m->passed);
	mutex_fini(&m->lock);
	for (unsigned i = 0; i < ANSWERED_MOST; i++)
		schema_put(m->answered[i].schema);
	free(m->pending);
	free(m->blocked);
	free(m->passes.seen);
	free(m);
}

struct master_service *master_service(struct master *m)
{
	return &m->service;
}
