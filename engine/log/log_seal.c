/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealing the log of a dead server.  The master starts this when the server's file
 * in the lock service no longer exists.  The server may be a zombie, which still
 * writes.  Steps:
 *	1 rename LOGS/N to LOGS/N.dead
 *	2 fsync LOGS
 *	3 read each segment to its last whole record (log_replay.c)
 *	4 fdatasync each segment of the seal, fsync the directory
 *	5 the master stores the seal as seals/N in the lock service, unless there is one
 * A live server performs steps 1 to 4, at the request TS_SEAL.  The master reads no
 * logs, and several servers can seal several logs at the same time.  Only the master
 * may decide on step 5, under its term.
 *
 * A zombie acknowledges a record only if it finds its directory by its path after
 * the record's fdatasync.  So the record was in the file before step 1, and step 3
 * reads it.  A record that arrives later is not acknowledged.  It counts if step
 * 3 reads it, else it does not.  All readers must agree on that, because each may
 * answer a client with it.  Therefore they use the stored seal alone.
 *
 * A crash between two steps, or a second master that seals at the same time:
 *	before 1, after 1   the steps are repeated; a directory that is renamed stays so
 *	before 5            the steps are repeated and may read more records than the
 *	                    first time.  No reader has used the first result
 *	after 5             the first stored seal stays.  A later result is discarded
 * Step 2 comes before step 3.  Otherwise a power cut of the storage could undo
 * the rename when readers rely on it, and the zombie would find its directory
 * again.  Step 4 comes after 3, because step 3 may read bytes that only a page
 * cache has.
 *
 * A seal does not describe what a zombie may change.  It lists no empty segment, and
 * only those bytes of a segment that hold whole records that count.  The log never
 * changes such bytes again (log_file.c).
 *
 * Rejected: the length of each file as its seal (zeros lie ahead of the records, and a
 * zombie writes there), a copy of the log by the master (its size, twice over the
 * network), and a second rename of each segment (the zombie's open files remain).
 */
#include "engine/log/log_seal.h"

#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/log/log_format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

char *log_sealed_dir(const char *logs, uint64_t incarnation)
{
	char *dir;

	return asprintf(&dir, "%s/%llu.dead", logs, (unsigned long long)incarnation) < 0 ? NULL : dir;
}

/* Step 1. */
static int seal_rename(const char *logs, uint64_t incarnation, const char *dead)
{
	uint64_t id;
	char *dir;
	int err;

	if (asprintf(&dir, "%s/%llu", logs, (unsigned long long)incarnation) < 0)
		return -ENOMEM;
	err = file_rename(dir, dead);
	if (err == -ENOENT)
		err = file_look_up(dead, &id);
	free(dir);
	return err;
}

/* Step 4. */
static int seal_sync(const char *dead, const struct log_seal *s)
{
	int err = 0;

	for (size_t i = 0; i < s->count && !err; i++) {
		struct file *f = NULL;
		char name[32], *path;

		log_segment_name(name, s->segments[i].number);
		path = path_join(dead, name);
		err = path ? file_open(path, FILE_READ, &f) : -ENOMEM;
		if (!err)
			err = file_sync(f);
		if (err == -ENOENT) /* the zombie has just dropped it */
			err = 0;
		file_close(f);
		free(path);
	}
	return err ? err : file_sync_dir(dead);
}

int log_seal_make(const char *logs, uint64_t incarnation, struct log_seal *out, char **why)
{
	char *dead = log_sealed_dir(logs, incarnation);
	struct log_seal s = {0};
	int err = dead ? seal_rename(logs, incarnation, dead) : -ENOMEM;

	*why = NULL;
	if (!err)
		err = file_sync_dir(logs);
	if (!err)
		err = log_scan(dead, &s, why);
	if (!err && s.count > LOG_SEAL_SEGMENTS_MOST)
		err = -EFBIG;
	if (!err)
		err = seal_sync(dead, &s);
	s.incarnation = incarnation;
	if (!err && s.lost)
		msg_warning("%s: %llu whole records behind the end of the log are lost", dead, (unsigned long long)s.lost);
	if (!err)
		*out = s;
	else
		log_seal_fini(&s);
	free(dead);
	return err;
}
