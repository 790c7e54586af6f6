/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a client's mutations, and its epoch (numbers.h). */
#include "engine/client/numbers.h"

#include "engine/base/hash.h"
#include "engine/rpc/tablet_service.h"

int numbers_init(struct numbers *n, uint64_t client)
{
	n->client = client;
	if (!client) {
		int err = random_bytes(&client, sizeof client);

		if (err)
			return err;
		n->client = client | TS_CLIENT_RANDOM;
	}
	n->epoch = 1;
	n->next = 1;
	TAILQ_INIT(&n->unanswered);
	mutex_init(&n->lock, RANK_LOCATIONS);
	return 0;
}

void numbers_fini(struct numbers *n)
{
	mutex_fini(&n->lock);
}

void numbers_begin(struct numbers *n, struct numbered *m, uint32_t count)
{
	mutex_lock(&n->lock);
	m->first = n->next;
	n->next += count;
	TAILQ_INSERT_TAIL(&n->unanswered, m, link);
	mutex_unlock(&n->lock);
}

void numbers_end(struct numbers *n, struct numbered *m)
{
	mutex_lock(&n->lock);
	TAILQ_REMOVE(&n->unanswered, m, link);
	mutex_unlock(&n->lock);
}

uint64_t numbers_lowest(struct numbers *n)
{
	const struct numbered *m;
	uint64_t lowest;

	mutex_lock(&n->lock);
	m = TAILQ_FIRST(&n->unanswered);
	lowest = m ? m->first : n->next;
	mutex_unlock(&n->lock);
	return lowest;
}

void numbers_next_epoch(struct numbers *n, uint64_t epoch)
{
	(void)atomic_compare_exchange_strong(&n->epoch, &epoch, epoch + 1);
}
