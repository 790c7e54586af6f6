/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A full disk must not keep anybody from removing cells: a file of a few
 * MiB, made while there is room, is given up when deletes, METADATA changes
 * or compactions find none, and made again once there is room (DESIGN 3.2).
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdlib.h>

#define BALLAST_BYTES (16u << 20)
#define RETRY_US 5000000u

static void refill_run(struct task *t)
{
	struct server *s = (struct server *)((char *)t - offsetof(struct server, refill));
	struct file *f = NULL;
	uint64_t room = 0;
	char *path;

	if (atomic_load(&s->ballast))
		return;
	path = path_join(s->data_dir, "ballast");
	if (path && file_free_bytes(s->data_dir, &room) == 0 && room > 8ull * BALLAST_BYTES) {
		(void)!file_unlink(path);
		if (file_open(path, FILE_CREATE, &f) == 0) {
			if (file_preallocate(f, 0, BALLAST_BYTES, false) == 0)
				atomic_store(&s->ballast, true);
			file_close(f);
		}
	}
	free(path);
	if (!atomic_load(&s->ballast))
		task_queue_after(&s->refill, RETRY_US);
}

void ballast_start(struct server *s)
{
	char *path = path_join(s->data_dir, "ballast");
	uint64_t bytes;

	atomic_store(&s->ballast, path && file_stat_size(path, &bytes) == 0 && bytes >= BALLAST_BYTES);
	free(path);
	task_init(&s->refill, s->misc, refill_run);
	if (!atomic_load(&s->ballast) && !s->no_background)
		task_queue(&s->refill);
}

bool ballast_give_up(struct server *s)
{
	bool had = true;
	char *path;
	int err;

	if (!atomic_compare_exchange_strong(&s->ballast, &had, false))
		return false;
	path = path_join(s->data_dir, "ballast");
	err = path ? file_unlink(path) : -ENOMEM;
	free(path);
	msg_warning("%s: the disk is full; the ballast file is given up so that cells can be removed", s->data_dir);
	if (!s->no_background)
		task_queue_after(&s->refill, RETRY_US);
	return err == 0;
}
