/* SPDX-License-Identifier: Apache-2.0 */
/* The tablet servers that a router has found (server_list.h). */
#include "engine/client/server_list.h"

#include <errno.h>
#include <stdlib.h>

void server_list_init(struct server_list *l)
{
	mutex_init(&l->lock, RANK_LOCATIONS);
}

void server_list_fini(struct server_list *l)
{
	free(l->v);
	mutex_fini(&l->lock);
}

static size_t find_locked(const struct server_list *l, const struct tablet_service *s)
{
	size_t i = 0;

	while (i < l->count && l->v[i] != s)
		i++;
	return i;
}

int server_list_add(struct server_list *l, struct tablet_service *s)
{
	int err = 0;
	size_t i;

	mutex_lock(&l->lock);
	i = find_locked(l, s);
	if (i == l->count) {
		err = i < SERVERS_MOST ? array_grow(&l->v, i, sizeof(struct tablet_service *)) : -ENOMEM;
		if (!err) {
			if (s->ops->send)
				atomic_store(&l->sends, true);
			l->v[l->count++] = s;
		}
	}
	mutex_unlock(&l->lock);
	return err;
}

uint64_t server_list_number(struct server_list *l, const struct tablet_service *s)
{
	uint64_t i;

	mutex_lock(&l->lock);
	i = find_locked(l, s);
	mutex_unlock(&l->lock);
	return i;
}

struct tablet_service *server_list_at(struct server_list *l, uint64_t number)
{
	struct tablet_service *s;

	mutex_lock(&l->lock);
	s = number < l->count ? l->v[number] : NULL;
	mutex_unlock(&l->lock);
	return s;
}
