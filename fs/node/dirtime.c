/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By inode number, which is a hash of the directory's key: nodes come and go
 * with the kernel's memory, numbers stay.  Open addressing, never more than
 * half full; a forgotten time is 0 and keeps its place.
 */
#include "fs/node/dirtime.h"

#include <stdlib.h>

struct place {
	uint64_t ino; /* 0: free; no directory but the root has a number below 2 */
	int64_t us;
};

static struct {
	struct mutex lock;
	struct place *place;
	size_t places, used;
	_Atomic bool any; /* stat of most mounts' directories need not look */
} times;

void dirtime_init(void)
{
	mutex_init(&times.lock, RANK_FS_NOTIFY);
}

void dirtime_fini(void)
{
	free(times.place);
	times.place = NULL;
	times.places = times.used = 0;
	times.any = false;
	mutex_fini(&times.lock);
}

/* Where ino is, or a free place; there is always one. */
static struct place *place_of(struct place *v, size_t n, uint64_t ino)
{
	size_t i = (ino ^ ino >> 32) & (n - 1);

	while (v[i].ino && v[i].ino != ino)
		i = (i + 1) & (n - 1);
	return &v[i];
}

static bool grow(void)
{
	size_t n = times.places ? times.places * 2 : 1024;
	struct place *v;

	if (times.used >= DIRTIME_MAX)
		return false;
	v = calloc(n, sizeof(*v));
	if (!v)
		return false;
	for (size_t i = 0; i < times.places; i++)
		if (times.place[i].ino)
			*place_of(v, n, times.place[i].ino) = times.place[i];
	free(times.place);
	times.place = v;
	times.places = n;
	return true;
}

static bool keeps_time(const struct node *dir)
{
	const unsigned of_data = 1u << NODE_ROOT | 1u << NODE_TABLE | 1u << NODE_LATEST | 1u << NODE_ROW | 1u << NODE_ROW_PART |
		1u << NODE_FAMILY | 1u << NODE_CELL_PART;

	return (of_data >> dir->kind & 1) && node_is_latest(dir);
}

void dirtime_set(const struct node *dir, int64_t us)
{
	struct place *p;

	if (!keeps_time(dir) || (us == 0 && !times.any))
		return;
	mutex_lock(&times.lock);
	p = times.places ? place_of(times.place, times.places, dir->ino) : NULL;
	if ((!p || !p->ino) && times.used * 2 >= times.places)
		p = grow() ? place_of(times.place, times.places, dir->ino) : NULL;
	if (p) {
		times.used += !p->ino;
		*p = (struct place){dir->ino, us};
		times.any = true;
	}
	mutex_unlock(&times.lock);
}

int64_t dirtime_get(const struct node *dir)
{
	struct place *p;
	int64_t us;

	if (!times.any)
		return 0;
	mutex_lock(&times.lock);
	p = place_of(times.place, times.places, dir->ino);
	us = p->ino ? p->us : 0;
	mutex_unlock(&times.lock);
	return us;
}

void dirtime_forget(const struct node *dir)
{
	struct place *p;

	if (!times.any)
		return;
	mutex_lock(&times.lock);
	p = place_of(times.place, times.places, dir->ino);
	if (p->ino)
		p->us = 0;
	mutex_unlock(&times.lock);
}
