/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches: a list that is searched linearly (a process has a handful).
 *
 * A callback may itself change files, and so fire watches, also its own, and
 * may remove any watch.  So a watch counts its running calls.  watch_remove
 * waits for them, except for those on its own stack, which a per-thread chain
 * of frames shows.  Pins delay freeing the memory.
 */
#include "engine/lock/watch.h"

#include <errno.h>
#include <stdlib.h>

struct watch {
	struct watch *next;
	lock_watch_fn *fn;
	void *arg;
	uint64_t number;  /* in order of adding, from 1 */
	unsigned pins;    /* threads with a pointer: in a call, or waiting in watch_remove */
	unsigned running; /* running calls */
	bool gone;        /* removed; not in the list */
	char name[];
};

struct frame {
	struct frame *up;
	const struct watch *w;
};
static _Thread_local struct frame *frames;

void watch_set_init(struct watch_set *s)
{
	mutex_init(&s->mutex, RANK_LOCKSVC);
	cond_init(&s->idle);
	s->head = NULL;
	s->last_number = 0;
	s->held = NULL;
	s->held_count = 0;
}

void watch_set_fini(struct watch_set *s)
{
	struct watch *w;

	while ((w = s->head)) {
		s->head = w->next;
		free(w);
	}
	for (unsigned i = 0; i < s->held_count; i++)
		free(s->held[i]);
	free(s->held);
	cond_fini(&s->idle);
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
	w->number = ++s->last_number;
	w->next = s->head;
	s->head = w;
	mutex_unlock(&s->mutex);
	return 0;
}

static unsigned calls_on_this_stack(const struct watch *w)
{
	unsigned n = 0;

	for (const struct frame *f = frames; f; f = f->up)
		n += f->w == w;
	return n;
}

static void unpin(struct watch *w)
{
	if (--w->pins == 0 && w->gone)
		free(w);
}

void watch_remove(struct watch_set *s, lock_watch_fn *fn, void *arg)
{
	struct watch **at = &s->head, *w;

	mutex_lock(&s->mutex);
	while ((w = *at)) {
		if (w->fn != fn || w->arg != arg) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->gone = true;
		w->pins++;
		while (w->running > calls_on_this_stack(w))
			cond_wait(&s->idle, &s->mutex);
		unpin(w);
		at = &s->head; /* the list may have changed while waiting */
	}
	mutex_unlock(&s->mutex);
}

static bool matches(const struct watch *w, const char *name)
{
	size_t n = strlen(w->name);

	return n && w->name[n - 1] == '/' ? strncmp(w->name, name, n) == 0 : strcmp(w->name, name) == 0;
}

static void call_locked(struct watch_set *s, struct watch *w, const char *name)
{
	struct frame f = {frames, w};

	w->pins++;
	w->running++;
	mutex_unlock(&s->mutex);
	frames = &f;
	w->fn(w->arg, name);
	frames = f.up;
	mutex_lock(&s->mutex);
	w->running--;
	cond_broadcast(&s->idle);
	unpin(w);
}

/*
 * In the order in which they were added.  The list may change during a call, so
 * each step searches for the next number.  Watches added meanwhile are not called.
 */
void watch_fire(struct watch_set *s, const char *name)
{
	uint64_t done = 0, end;

	mutex_lock(&s->mutex);
	end = s->last_number;
	while (done < end) {
		struct watch *next = NULL;

		for (struct watch *w = s->head; w; w = w->next)
			if (w->number > done && w->number <= end && (!next || w->number < next->number) && matches(w, name))
				next = w;
		if (!next)
			break;
		done = next->number;
		call_locked(s, next, name);
	}
	mutex_unlock(&s->mutex);
}

static unsigned held_find(const struct watch_set *s, const char *name)
{
	unsigned i;

	for (i = 0; i < s->held_count; i++)
		if (strcmp(s->held[i], name) == 0)
			break;
	return i;
}

int held_add(struct watch_set *s, const char *name)
{
	char **more, *copy = strdup(name);
	int err = 0;

	if (!copy)
		return -ENOMEM;
	mutex_lock(&s->mutex);
	if (held_find(s, name) < s->held_count) {
		err = -EBUSY;
	} else if (!(more = realloc(s->held, (s->held_count + 1) * sizeof *more))) {
		err = -ENOMEM;
	} else {
		s->held = more;
		s->held[s->held_count++] = copy;
		copy = NULL;
	}
	mutex_unlock(&s->mutex);
	free(copy);
	return err;
}

int held_remove(struct watch_set *s, const char *name)
{
	unsigned i;
	int err = 0;

	mutex_lock(&s->mutex);
	i = held_find(s, name);
	if (i == s->held_count) {
		err = -ENOENT;
	} else {
		free(s->held[i]);
		s->held[i] = s->held[--s->held_count];
	}
	mutex_unlock(&s->mutex);
	return err;
}
