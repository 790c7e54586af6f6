/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A full disk must not keep anybody from removing cells: a file of a few
 * MiB, made while there is room, is given up when deletes, METADATA changes
 * or compactions find none, and made again once there is room (DESIGN 3.2).
 */
#include "engine/base/file.h"
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdlib.h>

#define BALLAST_BYTES (16u << 20)  /* or, on a small disk, an eighth of what is free */
#define BALLAST_LEAST (1u << 20)
#define RETRY_US 5000000u
#define ROOM_US 10000000u /* the commit log tries a fresh file each second; a machine under load takes its time */
#define LOOK_US 100000u

static void refill_run(struct task *t)
{
	struct server *s = (struct server *)((char *)t - offsetof(struct server, refill));
	struct file *f = NULL;
	uint64_t room = 0;
	char *path;

	if (atomic_load(&s->ballast))
		return;
	path = path_join(s->data_dir, "ballast");
	if (path && file_free_bytes(s->data_dir, &room) == 0 && room / 8 >= BALLAST_LEAST) {
		(void)!file_unlink(path);
		if (file_open(path, FILE_CREATE, &f) == 0) {
			if (file_preallocate(f, 0, room / 8 < BALLAST_BYTES ? room / 8 : BALLAST_BYTES, false) == 0)
				atomic_store(&s->ballast, true);
			file_close(f);
			if (!atomic_load(&s->ballast))
				(void)!file_unlink(path); /* a part of it helps nobody */
		}
	}
	free(path);
	if (!atomic_load(&s->ballast) && !s->closing)
		task_queue_after(&s->refill, RETRY_US);
}

void ballast_start(struct server *s)
{
	char *path = path_join(s->data_dir, "ballast");
	uint64_t bytes;

	atomic_store(&s->ballast, path && file_stat_size(path, &bytes) == 0 && bytes >= BALLAST_LEAST);
	free(path);
	task_init(&s->refill, s->misc, refill_run);
	/* At once: the disk may fill before a task would run. */
	if (!atomic_load(&s->ballast) && !s->no_background)
		refill_run(&s->refill);
}

/* Until the commit log takes records again, which it finds out by itself once there is room. */
static bool wait_for_log(struct server *s)
{
	uint64_t until = atomic_load(&s->room_until_us);

	while (monotonic_us() < until) {
		if (log_sync(s->log) == 0)
			return true;
		mutex_lock(&s->lock);
		(void)cond_wait_us(&s->changed, &s->lock, LOOK_US);
		mutex_unlock(&s->lock);
	}
	return false;
}

bool ballast_give_up(struct server *s)
{
	bool had = true;
	char *path;
	int err;

	log_give_up_room(s->log);
	/* Before it goes: whoever comes while it is going shall wait too. */
	if (atomic_load(&s->ballast))
		atomic_store(&s->room_until_us, monotonic_us() + ROOM_US);
	if (atomic_compare_exchange_strong(&s->ballast, &had, false)) {
		path = path_join(s->data_dir, "ballast");
		err = path ? file_unlink(path) : -ENOMEM;
		if (err) {
			msg_error("%s: the disk is full, and the ballast file cannot be given up: %s", s->data_dir, strerror(-err));
			atomic_store(&s->ballast, err != -ENOENT);
			free(path);
			return false;
		}
		free(path);
		msg_warning("%s: the disk is full; the ballast file is given up so that cells can be removed", s->data_dir);
		atomic_store(&s->room_until_us, monotonic_us() + ROOM_US);
		if (!s->no_background && !s->closing)
			task_queue_after(&s->refill, RETRY_US);
	}
	return wait_for_log(s);
}

bool ballast_make_room(struct server *s, uint64_t bytes)
{
	char *path = path_join(s->data_dir, "ballast");
	uint64_t room = 0, kept = 0;
	bool enough = false;
	int err = path ? file_free_bytes(s->data_dir, &room) : -ENOMEM;

	if (!err && room < bytes) {
		log_give_up_room(s->log);
		err = file_free_bytes(s->data_dir, &room);
	}
	if (!err) {
		if (atomic_load(&s->ballast) && file_stat_size(path, &kept))
			kept = 0;
		enough = bytes <= room + kept;
	}
	free(path);
	return enough && (bytes <= room || ballast_give_up(s));
}
