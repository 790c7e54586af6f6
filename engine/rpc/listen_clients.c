/* SPDX-License-Identifier: Apache-2.0 */
/* The list of a listener's clients, and those that are refused. */
#include "engine/rpc/listen_impl.h"

#include "engine/base/clock.h"

#include <errno.h>

#define REFUSE_US 60000000u

static int list_peer(struct listener *l, const struct peer *p, struct buf *out)
{
	const struct peer *other;
	uint64_t requests = 0;

	TAILQ_FOREACH (other, &l->peers, link)
		if (other->greeted && other->rights.client == p->rights.client)
			requests += atomic_load(&other->requests);
	return buf_printf(out, "%llu\t%u\t%d\t%s\t%llu\t%llu\tunix\n", (unsigned long long)p->number, (unsigned)p->cred.uid,
		(int)p->cred.pid, p->program, (unsigned long long)requests,
		(unsigned long long)((monotonic_us() - p->since_us) / 1000000));
}

int listen_list(struct listener *l, const uid_t *of, struct buf *out)
{
	const struct peer *p;
	int err = 0;

	mutex_lock(&l->lock);
	TAILQ_FOREACH (p, &l->peers, link)
		if (!err && p->greeted && !p->large && (!of || p->cred.uid == *of))
			err = list_peer(l, p, out);
	mutex_unlock(&l->lock);
	return err;
}

int listen_disconnect(struct listener *l, uint64_t number)
{
	struct peer *p, *found = NULL;
	unsigned i;

	mutex_lock(&l->lock);
	TAILQ_FOREACH (p, &l->peers, link)
		if (p->greeted && !p->large && p->number == number)
			found = p;
	if (found) {
		i = l->refused_next++ % REFUSED_MAX;
		l->refused[i].number = number;
		l->refused[i].until_us = monotonic_us() + REFUSE_US;
		l->refused[i].uid = found->cred.uid;
		l->refused[i].pid = found->cred.pid;
		TAILQ_FOREACH (p, &l->peers, link)
			if (p->greeted && p->rights.client == found->rights.client)
				conn_close(p->conn, -EPERM);
	}
	mutex_unlock(&l->lock);
	return found ? 0 : -ENOENT;
}

int listen_allow(struct listener *l, uint64_t number)
{
	bool found = false;

	mutex_lock(&l->lock);
	for (unsigned i = 0; i < REFUSED_MAX; i++)
		if (l->refused[i].number == number && l->refused[i].until_us) {
			l->refused[i].until_us = 0;
			found = true;
		}
	mutex_unlock(&l->lock);
	return found ? 0 : -ENOENT;
}

bool listen_refuses(struct listener *l, const struct socket_peer *c)
{
	bool refused = false;

	mutex_lock(&l->lock);
	for (unsigned i = 0; i < REFUSED_MAX && !refused; i++)
		refused = l->refused[i].until_us > monotonic_us() && l->refused[i].uid == c->uid && l->refused[i].pid == c->pid;
	mutex_unlock(&l->lock);
	return refused;
}
