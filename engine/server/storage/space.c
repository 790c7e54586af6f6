/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Disk space.  On a full disk puts are refused.  Everything that frees space
 * continues: removals, flushes, compactions, changes of METADATA, and the next
 * start.
 *
 * The reserve is a file: "ballast", or "ballast.N" of a server of a cluster with incarnation N.
 * The server counts the free space of the disk and the bytes of that file together.  Each use of the disk must leave
 * a share of that sum, in sixteenths of the reserve.  The uses that must leave
 * more stop first: merging compactions, puts, removals, flushes and compactions
 * that free space, METADATA.  METADATA leaves one sixteenth for the next start
 * (engine/open.c).  Puts also leave the space that a flush of all memtables
 * takes.
 *
 * The reserve is half the size of the store, at least 1 MiB and at most 16 MiB,
 * so an empty store is small.  It is never more than an eighth of the store and
 * the free space together.
 *
 * As long as only this server fills the disk, the file keeps its size, because
 * the uses above stop in time.  When other programs have filled the disk, the
 * server truncates the file by one piece at a time.  If it released the whole
 * file, those programs could take the space.
 *
 * `full` is set when a put does not fit or when the reserve is needed.  While
 * it is set, puts are refused, merging compactions end early, tablets from
 * which much was removed are compacted at once, and a task tries to restore
 * the reserve.  `full` is cleared when the file has its size again and puts
 * have some space.  Under a disk quota the free space that statvfs reports
 * is wrong.  Then only a successful restoration of the file shows that there is
 * space.
 *
 * A put or removal that does not fit waits once while the memtables are flushed
 * and the commit log is dropped.  On a small disk these two use most of the
 * space.
 *
 * Calling statvfs for each mutation would cost as much as its log record.  So
 * each call gives a credit: half of the space that it found, up to CREDIT_BYTES.
 * Mutations may log this many bytes before the next call.  If another program
 * fills the disk before that, the log's write fails, and space_retry releases a
 * piece of the reserve.
 *
 * No change of the file is synced.  A start uses the size that it finds.
 *
 * Each server of a cluster has a reserve of its own, so that no server counts or truncates
 * another's.  A server that starts on a full disk needs one at once.  So it renames the
 * reserve of a dead server, if there is one.  The master's collector removes further reserves of dead servers.
 */
#include "engine/server/storage/storage.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define RESERVE_MOST (UINT64_C(16) << 20)
#define RESERVE_FIRST (UINT64_C(1) << 20)
#define RESERVE_LEAST (UINT64_C(256) << 10) /* below this there is no reserve, because it would be useless */
#define PIECE_LEAST (UINT64_C(64) << 10)
#define CREDIT_BYTES (INT64_C(64) << 20)
#define REPEAT_US 1000000u /* the pause between two runs of the task while the disk is full */
#define SOON_US 20000u     /* the pause before the task's first run, and between two attempts of the log */
#define LOG_US 10000000u   /* on a loaded machine a log opens its next file within this time */

/* The space that a use leaves, in sixteenths of the reserve. */
static const unsigned sixteenths_left_by[] = {
	[DISK_METADATA] = 1, [DISK_FREES] = 2, [DISK_REMOVE] = 12, [DISK_PUT] = 18, [DISK_MERGE] = 32};

/* The server neither restores nor reclaims less space than this, and does not clear `full` for less. */
static uint64_t reserve_step(const struct space *d)
{
	return d->reserve / 8;
}

/* The unit in which the file is truncated. */
static uint64_t reserve_piece(const struct space *d)
{
	return d->reserve / 64 > PIECE_LEAST ? d->reserve / 64 : PIECE_LEAST;
}

static uint64_t reserve_left_by(const struct space *d, enum disk_use use)
{
	return d->reserve / 16 * sixteenths_left_by[use];
}

/* Returns how many bytes the use may write; negative if less is left than it must leave. */
static int64_t space_available(const struct server *s, enum disk_use use, uint64_t free_bytes)
{
	const struct space *d = s->space;
	int64_t bytes = (int64_t)(free_bytes + d->bytes) - (int64_t)reserve_left_by(d, use);

	return use >= DISK_PUT ? bytes - (int64_t)memtables_bytes(s) : bytes;
}

static void space_set_full_locked(struct server *s, bool full)
{
	struct space *d = s->space;

	if (full)
		d->credit = 0;
	if (full == d->full)
		return;
	d->full = full;
	if (full)
		msg_warning("%s: the disk is full: puts are refused until there is space", s->o.data_dir);
	else
		msg_notice("%s: the disk has space again", s->o.data_dir);
}

/* ---- the file ---- */

/* Returns the path of the file, which the caller frees; NULL if out of memory. */
static char *reserve_path(const struct server *s)
{
	char *path = NULL;

	if (!s->o.held)
		return path_join(s->o.data_dir, RESERVE_FILE);
	return asprintf(&path, "%s/" RESERVE_FILE ".%llu", s->o.data_dir, (unsigned long long)s->o.incarnation) < 0 ? NULL : path;
}

static int reserve_open(struct server *s, const char *path, struct file **f)
{
	int err = s->space->bytes ? file_open(path, FILE_READWRITE, f) : -ENOENT;

	if (err) {
		(void)!file_unlink(path);
		err = file_open(path, FILE_CREATE, f);
	}
	return err;
}

/* Enlarges the file to its size, if the disk has the space.  Returns true if it has that size. */
static bool reserve_restore_locked(struct server *s)
{
	struct space *d = s->space;
	uint64_t free_bytes, missing = d->bytes < d->reserve ? d->reserve - d->bytes : 0;
	struct file *f = NULL;
	char *path;

	if (!missing)
		return true;
	if (file_free_bytes(s->o.data_dir, &free_bytes) || free_bytes < missing + reserve_step(d))
		return false;
	path = reserve_path(s);
	if (path && reserve_open(s, path, &f) == 0) {
		if (file_preallocate(f, d->bytes, missing) == 0)
			d->bytes = d->reserve;
		else
			(void)!file_truncate(f, d->bytes);
		file_close(f);
	}
	free(path);
	return d->bytes == d->reserve;
}

static void reserve_truncate_locked(struct server *s, uint64_t to)
{
	struct space *d = s->space;
	char *path = reserve_path(s);
	struct file *f = NULL;
	int err = path ? to ? file_open(path, FILE_READWRITE, &f) : file_unlink(path) : -ENOMEM;

	if (!err && f)
		err = file_truncate(f, to);
	file_close(f);
	if (err == -ENOENT)
		to = err = 0;
	if (err)
		msg_error("%s: the disk is full, and the reserve file cannot be truncated: %s", s->o.data_dir, error_text(err));
	else
		d->bytes = to;
	free(path);
}

/* Releases more than `bytes` bytes, or as many as the use may take.  Returns false if it released none. */
static bool reserve_release_locked(struct server *s, enum disk_use use, uint64_t bytes)
{
	struct space *d = s->space;
	uint64_t before = d->bytes, stays = reserve_left_by(d, use);

	if (before <= stays)
		return false;
	bytes += reserve_piece(d) - bytes % reserve_piece(d);
	reserve_truncate_locked(s, before - stays > bytes ? before - bytes : stays);
	return d->bytes < before;
}

/* ---- requests for space ---- */

/* Restores the reserve and decides whether the disk is full. */
static void space_check_locked(struct server *s)
{
	struct space *d = s->space;
	uint64_t free_bytes;

	if (!reserve_restore_locked(s)) {
		space_set_full_locked(s, true);
	} else if (!file_free_bytes(s->o.data_dir, &free_bytes)) {
		int64_t puts = space_available(s, DISK_PUT, free_bytes);

		if (d->full && puts >= (int64_t)reserve_step(d))
			space_set_full_locked(s, false);
		else if (puts < 0)
			space_set_full_locked(s, true);
	}
}

static bool space_get_locked(struct server *s, enum disk_use use, uint64_t bytes)
{
	struct space *d = s->space;
	uint64_t free_bytes;
	int64_t puts;
	bool ok;

	if (use == DISK_PUT && d->full)
		space_check_locked(s);
	if (file_free_bytes(s->o.data_dir, &free_bytes))
		return true; /* the write reports the error */
	if (free_bytes < bytes + reserve_piece(d)) {
		log_discard_recycled(s->log);
		(void)!file_free_bytes(s->o.data_dir, &free_bytes);
	}
	puts = space_available(s, DISK_PUT, free_bytes);
	ok = space_available(s, use, free_bytes) >= (int64_t)bytes;
	if (use >= DISK_PUT) {
		ok &= !d->full;
		if (!ok && use == DISK_PUT &&
			puts < (int64_t)reserve_step(d)) /* if more is available, only this put is too large */
			space_set_full_locked(s, true);
	} else if (!ok || free_bytes < bytes + reserve_piece(d)) {
		space_set_full_locked(s, true);
		ok = ok && (reserve_release_locked(s, use, bytes + reserve_piece(d) - free_bytes) || free_bytes >= bytes);
	}
	d->credit = puts <= 0 || d->full ? 0 : puts / 2 < CREDIT_BYTES ? puts / 2 : CREDIT_BYTES;
	return ok;
}

/* Implements tablet_env.space: returns true if the use may write a file of `bytes` bytes. */
static bool space_get(void *arg, enum disk_use use, uint64_t bytes)
{
	struct server *s = arg;
	bool ok;

	if (!s->space->reserve)
		return true;
	mutex_lock(&s->space->lock);
	ok = space_get_locked(s, use, bytes);
	mutex_unlock(&s->space->lock);
	/* METADATA's threads run no round, because it reads METADATA, and its writers hold locks. */
	if (!ok && use != DISK_METADATA && files_collect(s)) {
		mutex_lock(&s->space->lock);
		ok = space_get_locked(s, use, bytes);
		mutex_unlock(&s->space->lock);
	}
	space_check_soon(s);
	return ok;
}

/*
 * Flushes all memtables and drops the log, if they have grown since the last
 * time.  One thread at a time; others wait for it.  Returns true if the caller
 * should look at the free space again.
 */
static bool space_reclaim(struct server *s)
{
	struct space *d = s->space;
	bool waited = false, try;

	mutex_lock(&d->lock);
	while (d->reclaiming && !s->closing) {
		waited = true;
		cond_wait(&d->reclaimed, &d->lock);
	}
	try = !s->closing && memtables_bytes(s) + log_bytes(s->log) >= d->unfreed + reserve_step(d);
	d->reclaiming |= try;
	mutex_unlock(&d->lock);
	if (!try)
		return waited;
	(void)space_get(s, DISK_METADATA, 0); /* releases space for the log's next segment */
	logs_drop_all(s);
	mutex_lock(&d->lock);
	d->unfreed = memtables_bytes(s) + log_bytes(s->log);
	d->reclaiming = false;
	cond_broadcast(&d->reclaimed);
	mutex_unlock(&d->lock);
	return true;
}

int space_admit(struct server *s, enum disk_use use, uint64_t bytes)
{
	struct space *d = s->space;
	const int64_t cost = 2 * (int64_t)bytes; /* once in the log, once in an SSTable */
	bool ok;

	if (!d->reserve || (!d->full && atomic_fetch_sub(&d->credit, cost) >= cost))
		return 0;
	ok = space_get(s, use, (uint64_t)cost);
	if (!ok && use != DISK_METADATA && space_reclaim(s)) /* not for METADATA, which space_reclaim itself changes */
		ok = space_get(s, use, (uint64_t)cost);
	return ok || use < DISK_PUT ? 0 : -ENOSPC;
}

/* Releases more than `bytes` bytes of the reserve, as far as the use may take them.  Returns false if it released none. */
static bool space_release(struct server *s, enum disk_use use, uint64_t bytes)
{
	bool released;

	log_discard_recycled(s->log);
	mutex_lock(&s->space->lock);
	space_set_full_locked(s, s->space->reserve != 0);
	released = reserve_release_locked(s, use, bytes);
	mutex_unlock(&s->space->lock);
	space_check_soon(s);
	return released;
}

bool space_retry(struct server *s, enum disk_use use, unsigned tries)
{
	struct space *d = s->space;
	uint64_t until = monotonic_us() + LOG_US;
	bool released = space_release(s, use, tries * reserve_piece(d));
	int err;

	if (use >= DISK_PUT)
		return false;
	while ((err = log_try_again(s->log)) == -EAGAIN && monotonic_us() < until) {
		mutex_lock(&d->lock);
		(void)cond_wait_us(&d->reclaimed, &d->lock, SOON_US);
		mutex_unlock(&d->lock);
	}
	return released || (err == 0 && tries == 0); /* the first time, another thread may have released a piece */
}

bool server_release_space(struct server *s)
{
	return space_release(s, DISK_METADATA, 0);
}

/* ---- the task ---- */

void space_check(struct server *s)
{
	mutex_lock(&s->space->lock);
	space_check_locked(s);
	mutex_unlock(&s->space->lock);
}

/* Lets each tablet check whether a compaction would free space. */
static void space_compact_soon(struct server *s)
{
	struct served_tablet **list;
	unsigned count;

	if (served_list(s, 0, &list, &count))
		return;
	for (unsigned i = 0; i < count; i++)
		tablet_want_merge(list[i]->tablet);
	served_list_put(list, count);
}

static void space_task(struct task *t)
{
	struct server *s = ((struct space *)(void *)((char *)t - offsetof(struct space, task)))->s;

	if (s->closing || !s->space->full)
		return;
	space_check(s);
	if (!s->space->full)
		return;
	(void)space_reclaim(s);
	space_compact_soon(s);
	task_queue_after(t, REPEAT_US);
}

void space_check_soon(struct server *s)
{
	if (!s->o.no_background && !s->recovering && !s->closing && s->space->full)
		task_queue_after(&s->space->task, SOON_US);
}

int server_disk_bytes(struct server *s, uint64_t *bytes)
{
	struct served_sums sums;
	int err = served_sum(s, &sums);

	if (!err)
		*bytes = sums.disk_bytes + log_bytes(s->log) + s->space->bytes;
	return err;
}

/* Returns the size of the reserve for a store of `store` bytes on a disk with `free_bytes` free. */
static uint64_t reserve_for(uint64_t store, uint64_t free_bytes)
{
	uint64_t bytes = store / 2 > RESERVE_FIRST ? store / 2 : RESERVE_FIRST;

	if (bytes > (store + free_bytes) / 8)
		bytes = (store + free_bytes) / 8;
	return bytes < RESERVE_MOST ? bytes / 4096 * 4096 : RESERVE_MOST;
}

void space_grow(struct server *s, uint64_t store)
{
	struct space *d = s->space;
	uint64_t free_bytes, before, reserve;

	mutex_lock(&d->lock);
	before = d->reserve;
	if (before && !d->full && d->bytes == before && !file_free_bytes(s->o.data_dir, &free_bytes)) {
		reserve = reserve_for(store, free_bytes + d->bytes);
		if (reserve >= before + before / 4) {
			d->reserve = reserve;
			if (!reserve_restore_locked(s))
				d->reserve = before;
		}
	}
	mutex_unlock(&d->lock);
}

void space_start(struct server *s)
{
	struct space *d = s->space;
	char *path = reserve_path(s);
	uint64_t bytes = 0, free_bytes, store, reserve;

	if (!path || file_stat_size(path, &bytes))
		bytes = 0;
	free(path);
	if (s->o.no_background && !bytes)
		return;
	if (file_free_bytes(s->o.data_dir, &free_bytes) || server_disk_bytes(s, &store))
		return;
	reserve = reserve_for(store, free_bytes + bytes);
	if (reserve < bytes) /* an existing file keeps its size, up to RESERVE_MOST */
		reserve = bytes < RESERVE_MOST ? bytes : RESERVE_MOST;
	if (reserve < RESERVE_LEAST)
		return;
	d->bytes = bytes < reserve ? bytes : reserve;
	d->reserve = reserve;
	if (!s->o.no_background)
		space_check(s); /* now, because the disk may be full before the task runs */
	space_check_soon(s);
}

/* METADATA's compactions may use the whole reserve: they are small, and removals need them. */
static bool space_for_metadata(void *arg, enum disk_use use, uint64_t bytes)
{
	return space_get(arg, DISK_METADATA, bytes);
}

/* Renames the reserve of one dead server. */
static int reserve_inherit(void *arg, const char *name, bool is_dir)
{
	struct server *s = arg;
	char file[32], *from, *to;
	uint64_t n;
	int err;

	if (is_dir || !meta_reserve_parse(name, &n))
		return 0;
	snprintf(file, sizeof(file), "servers/%llu", (unsigned long long)n);
	if (lock_get(s->locks, file, NULL, NULL) != -ENOENT)
		return 0;
	from = path_join(s->o.data_dir, name);
	to = reserve_path(s);
	err = from && to ? file_rename(from, to) : -ENOMEM;
	free(from);
	free(to);
	return err == 0; /* another server may have renamed it */
}

/* On a full disk, also releases a part of it for the log. */
static void reserve_begin(struct server *s)
{
	struct space *d = s->space;
	char *path = reserve_path(s);
	uint64_t bytes, free_bytes;

	if (path && file_list(s->o.data_dir, reserve_inherit, s) == 1 && file_stat_size(path, &bytes) == 0 &&
		file_free_bytes(s->o.data_dir, &free_bytes) == 0 && free_bytes < RESERVE_FIRST) {
		d->bytes = bytes;
		reserve_truncate_locked(s, bytes / 8 * 7);
	}
	free(path);
}

static int begin(struct server *s, struct task_pool *pool)
{
	s->space->s = s;
	mutex_init(&s->space->lock, RANK_SPACE);
	cond_init(&s->space->reclaimed);
	task_init(&s->space->task, pool, space_task);
	for (unsigned k = 0; k < KINDS; k++)
		environment_of(s, k)->space = k == KIND_USER ? space_get : space_for_metadata;
	environment_of(s, KIND_USER)->disk_full = &s->space->full;
	if (s->o.held)
		reserve_begin(s);
	return 0;
}

static void stop(struct server *s)
{
	task_cancel(&s->space->task);
}

static void end(struct server *s)
{
	cond_fini(&s->space->reclaimed);
	mutex_fini(&s->space->lock);
}

const struct server_part space_part = {offsetof(struct server, space), sizeof(struct space), begin, stop, end};
