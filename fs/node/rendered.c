/* SPDX-License-Identifier: Apache-2.0 */
/* A few slots; the one not used for longest is taken for the next file. */
#include "fs/node/rendered.h"

#include "engine/base/mutex.h"

#include <string.h>

#define SLOTS 16

static struct {
	struct mutex lock; /* RANK_FS_NOTIFY: nothing is called under it */
	uint64_t uses;
	struct slot {
		uint64_t ino; /* 0: free */
		uint64_t used;
		int64_t time_us;
		struct buf text;
	} slot[SLOTS];
} rendered;

void rendered_init(void)
{
	mutex_init(&rendered.lock, RANK_FS_NOTIFY);
}

void rendered_fini(void)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		buf_fini(&rendered.slot[i].text);
		rendered.slot[i] = (struct slot){0};
	}
	mutex_fini(&rendered.lock);
}

static struct slot *find_locked(uint64_t ino)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		if (rendered.slot[i].ino != ino)
			continue;
		rendered.slot[i].used = ++rendered.uses;
		return &rendered.slot[i];
	}
	return NULL;
}

void rendered_drop(uint64_t ino)
{
	struct slot *s;

	mutex_lock(&rendered.lock);
	s = find_locked(ino);
	if (s) {
		buf_fini(&s->text);
		*s = (struct slot){0};
	}
	mutex_unlock(&rendered.lock);
}

void rendered_keep(uint64_t ino, struct buf *text, int64_t time_us)
{
	struct slot *s;

	mutex_lock(&rendered.lock);
	s = find_locked(ino);
	if (!s) {
		s = &rendered.slot[0];
		for (unsigned i = 1; i < SLOTS; i++)
			if (rendered.slot[i].used < s->used)
				s = &rendered.slot[i];
	}
	buf_fini(&s->text);
	*s = (struct slot){.ino = ino, .used = ++rendered.uses, .time_us = time_us, .text = *text};
	*text = (struct buf){0};
	mutex_unlock(&rendered.lock);
}

bool rendered_stat(uint64_t ino, uint64_t *size, int64_t *time_us)
{
	const struct slot *s;

	mutex_lock(&rendered.lock);
	s = find_locked(ino);
	if (s) {
		*size = s->text.n;
		*time_us = s->time_us;
	}
	mutex_unlock(&rendered.lock);
	return s != NULL;
}

bool rendered_read(uint64_t ino, uint64_t offset, void *buf, size_t size, size_t *got)
{
	const struct slot *s;

	mutex_lock(&rendered.lock);
	s = find_locked(ino);
	if (s) {
		*got = offset >= s->text.n ? 0 : s->text.n - offset < size ? (size_t)(s->text.n - offset) : size;
		if (*got)
			memcpy(buf, s->text.p + offset, *got);
	}
	mutex_unlock(&rendered.lock);
	return s != NULL;
}
