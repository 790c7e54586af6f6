/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches: a list that is searched linearly, because a process has few.
 *
 * A callback only queues work.  So it is called with the mutex held, and
 * watch_remove, which acquires the mutex, waits for it.
 */
#include "engine/lock/watch.h"

#include <errno.h>
#include <stdlib.h>

struct watch {
	struct watch *next;
	lock_watch_fn *fn;
	void *arg;
	char name[];
};

void watch_set_init(struct watch_set *s)
{
	*s = (struct watch_set){0};
	mutex_init(&s->mutex, RANK_LOCKSVC);
}

void watch_set_fini(struct watch_set *s)
{
	struct watch *w;

	while ((w = s->head)) {
		s->head = w->next;
		free(w);
	}
	mutex_fini(&s->mutex);
}

int watch_add(struct watch_set *s, const char *name, lock_watch_fn *fn, void *arg)
{
	size_t n = strlen(name) + 1;
	struct watch *w = calloc(1, sizeof *w + n);

	if (!w)
		return -ENOMEM;
	memcpy(w->name, name, n);
	w->fn = fn;
	w->arg = arg;
	mutex_lock(&s->mutex);
	w->next = s->head;
	s->head = w;
	mutex_unlock(&s->mutex);
	return 0;
}

void watch_remove(struct watch_set *s, lock_watch_fn *fn, void *arg)
{
	struct watch **at = &s->head, *w;

	mutex_lock(&s->mutex);
	while ((w = *at)) {
		if (w->fn == fn && w->arg == arg) {
			*at = w->next;
			free(w);
		} else {
			at = &w->next;
		}
	}
	mutex_unlock(&s->mutex);
}

static bool watch_matches(const struct watch *w, const char *name)
{
	size_t n = strlen(w->name);

	return n && w->name[n - 1] == '/' ? strncmp(w->name, name, n) == 0 : strcmp(w->name, name) == 0;
}

void watch_fire(struct watch_set *s, const char *name)
{
	mutex_lock(&s->mutex);
	for (struct watch *w = s->head; w; w = w->next)
		if (watch_matches(w, name))
			w->fn(w->arg, name);
	mutex_unlock(&s->mutex);
}
