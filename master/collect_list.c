/* SPDX-License-Identifier: Apache-2.0 */
/* The list of candidates that the master's requests pass to the collector (collect.c) for its next round. */
#include "master/internal.h"

#include <errno.h>
#include <stdlib.h>

int collect_add(struct master *m, struct file_name f, bool left)
{
	struct collector *c = &m->collector;
	int err = 0;

	mutex_lock(&c->lock);
	if (array_grow(&c->list, c->count, sizeof(*c->list)))
		err = -ENOMEM;
	else
		c->list[c->count++] = (struct collect_name){f, left};
	mutex_unlock(&c->lock);
	return err;
}

void collect_moving(struct master *m, uint32_t table)
{
	struct collector *c = &m->collector;

	mutex_lock(&c->lock);
	for (unsigned i = 0; i < c->moved_count; i++)
		c->moved_twice |= c->moved[i] == table;
	if (c->moved_twice || array_grow(&c->moved, c->moved_count, sizeof(*c->moved)))
		c->moved_twice = true;
	else
		c->moved[c->moved_count++] = table;
	mutex_unlock(&c->lock);
}

void collect_forget_moves(struct collector *c)
{
	mutex_lock(&c->lock);
	free(c->moved);
	c->moved = NULL;
	c->moved_count = 0;
	c->moved_twice = false;
	mutex_unlock(&c->lock);
}
