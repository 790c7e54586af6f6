/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches: a list that is searched linearly, because a process has few.
 *
 * A callback may change files, and so call watches, also its own.  It may also
 * remove any watch.  So each watch counts its running calls, and watch_remove
 * waits for them.  It does not wait for calls of its own thread, which cannot
 * end before it returns; a chain of frames per thread lists these.  A watch that
 * was removed is freed when no thread has a pointer to it (pins).
 */
#include "engine/lock/watch.h"

#include <errno.h>
#include <stdlib.h>

struct watch {
	struct watch *next;
	lock_watch_fn *fn;
	void *arg;
	uint64_t number;  /* watches are numbered from 1 in the order of adding */
	unsigned pins;    /* threads with a pointer: in a call, or waiting in watch_remove */
	unsigned running; /* running calls */
	bool removed;     /* not in the list */
	char name[];
};

/* A call of a watch by this thread.  frames: the innermost one. */
struct frame {
	struct frame *up; /* the call from which this one was made, or NULL */
	const struct watch *w;
};
static _Thread_local struct frame *frames;

void watch_set_init(struct watch_set *s)
{
	*s = (struct watch_set){0};
	mutex_init(&s->mutex, RANK_LOCKSVC);
	cond_init(&s->idle);
}

void watch_set_fini(struct watch_set *s)
{
	struct watch *w;

	while ((w = s->head)) {
		s->head = w->next;
		free(w);
	}
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

static void watch_unpin(struct watch *w)
{
	if (--w->pins == 0 && w->removed)
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
		w->removed = true;
		w->pins++;
		while (w->running > calls_on_this_stack(w))
			cond_wait(&s->idle, &s->mutex);
		watch_unpin(w);
		at = &s->head; /* the list may have changed during the wait */
	}
	mutex_unlock(&s->mutex);
}

static bool watch_matches(const struct watch *w, const char *name)
{
	size_t n = strlen(w->name);

	return n && w->name[n - 1] == '/' ? strncmp(w->name, name, n) == 0 : strcmp(w->name, name) == 0;
}

/* Calls the watch, without the mutex. */
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
	watch_unpin(w);
}

/*
 * Calls the watches in the order in which they were added.  The list may change
 * during a call, so each step searches for the next number.  A watch that is
 * added meanwhile is not called.
 */
void watch_fire(struct watch_set *s, const char *name)
{
	uint64_t done = 0, end;

	mutex_lock(&s->mutex);
	end = s->last_number;
	while (done < end) {
		struct watch *next = NULL;

		for (struct watch *w = s->head; w; w = w->next)
			if (w->number > done && w->number <= end && (!next || w->number < next->number) && watch_matches(w, name))
				next = w;
		if (!next)
			break;
		done = next->number;
		call_locked(s, next, name);
	}
	mutex_unlock(&s->mutex);
}
