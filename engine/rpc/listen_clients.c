/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the clients of a listener, disconnects them, and refuses them for a minute: all
 * processes of a user, or a key at its address.  Of root and of the owner only the process is
 * refused, because they must be able to disconnect others.
 */
#include "engine/rpc/listen_impl.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <stdio.h>

#define REFUSE_US 60000000u
#define ANY_PLACE 0u

static int list_peer(struct listener *l, const struct peer *p, struct buf *out)
{
	const struct peer *other;
	uint64_t requests = 0;
	char process[16];

	TAILQ_FOREACH (other, &l->peers, link)
		if (other->greeted && other->rights.client == p->rights.client)
			requests += atomic_load(&other->requests);
	if (p->network)
		snprintf(process, sizeof(process), "-");
	else
		snprintf(process, sizeof(process), "%d", (int)p->cred.pid);
	/* The column's name is "user". */
	return buf_printf(out, "%llu\t%s\t%s\t%s\t%llu\t%llu\t%s\n", (unsigned long long)p->number,
		p->network ? p->name : p->name + strlen("user "), process, p->program, (unsigned long long)requests,
		(unsigned long long)((monotonic_us() - p->since_us) / 1000000), p->address);
}

int listen_list(struct listener *l, const char *of, struct buf *out)
{
	const struct peer *p;
	int err = 0;

	mutex_lock(&l->lock);
	TAILQ_FOREACH (p, &l->peers, link)
		if (!err && p->greeted && !p->large && (!of || strcmp(p->name, of) == 0))
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
		l->refused[i].peer = found->rights.peer;
		l->refused[i].place = found->network || found->rights.owner ? found->place : ANY_PLACE;
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

bool listen_refuses(struct listener *l, const struct peer *p)
{
	bool refused = false;

	mutex_lock(&l->lock);
	for (unsigned i = 0; i < REFUSED_MAX && !refused; i++)
		refused = l->refused[i].until_us > monotonic_us() && l->refused[i].peer == p->rights.peer &&
			(l->refused[i].place == ANY_PLACE || l->refused[i].place == p->place);
	mutex_unlock(&l->lock);
	return refused;
}
