/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a table that a client has under way (window.h). */
#include "engine/client/window.h"

#include "engine/rpc/tablet_service.h"

void window_init(struct window *w)
{
	mutex_init(&w->lock, RANK_CLIENT);
	cond_init(&w->left);
	TAILQ_INIT(&w->under_way);
}

void window_fini(struct window *w)
{
	cond_fini(&w->left);
	mutex_fini(&w->lock);
}

void window_enter(struct window *w, struct window_part *p, uint32_t rows)
{
	const struct window_part *oldest;

	mutex_lock(&w->lock);
	while ((oldest = TAILQ_FIRST(&w->under_way)) && w->next + rows - oldest->from > TS_ROWS_UNDER_WAY)
		cond_wait(&w->left, &w->lock);
	p->from = w->next;
	w->next += rows;
	TAILQ_INSERT_TAIL(&w->under_way, p, link);
	mutex_unlock(&w->lock);
}

void window_leave(struct window *w, struct window_part *p)
{
	mutex_lock(&w->lock);
	TAILQ_REMOVE(&w->under_way, p, link);
	cond_broadcast(&w->left);
	mutex_unlock(&w->lock);
}
