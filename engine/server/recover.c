/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a server.  It reads the schemas, then loads the tablets that the
 * master assigns to it (load.c).
 *
 * METADATA is not written before its own replay has ended.  The old logs are
 * synced, so replayed data is on disk before a client can read it.  The data
 * stays in memtables and in the old logs until a minor compaction, which is
 * queued at once.  After all of these compactions no redo set names the old
 * logs, and the collector removes them (master/collect.c).
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/server/storage/storage.h"
#include "engine/server/tablets/tablets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* If the file is damaged, or is another file, *why names it. */
static void name_if_damaged(const struct server *s, const struct tablet_file *f, char **why)
{
	char *path = tablet_file_path(s->o.data_dir, f->table, f->incarnation, f->number), *reason = NULL;
	uint64_t keys;
	int err = path ? sst_verify(path, f->bytes, &keys, &reason) : 0;

	if (err)
		why_set(why, "%s: this file of METADATA is damaged: %s", path, reason ? reason : error_text(err));
	free(reason);
	free(path);
}

/* If a damaged SSTable of METADATA ended the start, names it in *why. */
static void name_damaged(struct server *s, char **why)
{
	struct served_tablet **list;
	unsigned count;

	if (served_list(s, META_TABLE, &list, &count))
		return;
	for (unsigned i = 0; i < count; i++) {
		struct tablet_file *files = NULL;
		unsigned n = 0;

		if (tablet_files(list[i]->tablet, &files, &n))
			n = 0;
		for (unsigned k = 0; k < n; k++) {
			if (!*why)
				name_if_damaged(s, &files[k], why);
			tablet_file_fini(&files[k]);
		}
		free(files);
	}
	served_list_put(list, count);
}

void server_name_damage(struct server *s, int err, char **why)
{
	if (!*why && (err == -EBADMSG || err == -EIO || err == -ENOENT))
		name_damaged(s, why);
}

int server_start(struct server *s, char **why)
{
	int err;

	*why = NULL;
	err = schemas_load(s, why);
	if (err && !*why)
		why_set(why, "%s/lock: %s", s->o.data_dir, error_text(err));
	return err == -ENOENT ? -EBADMSG : err;
}

void server_ready(struct server *s)
{
	replays_end_start(s);
	s->recovering = false;
	space_start(s);
	logs_soon(s);
	retire_soon(s);
	schemas_soon(s);
	quotas_begin(s, environment_misc(s));
}
