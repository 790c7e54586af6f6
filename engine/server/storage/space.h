/* SPDX-License-Identifier: Apache-2.0 */
/* Disk space.  Any thread may call these. */
#ifndef TFS_SERVER_SPACE_H
#define TFS_SERVER_SPACE_H

#include "engine/server/internal.h"

extern const struct server_part space_part;
struct space {
	struct mutex lock;        /* RANK_SPACE; held while the reserve file and the fields below change */
	struct cond reclaimed;    /* space_reclaim has ended */
	struct task task;         /* restores the reserve and frees space while the disk is full */
	struct server *s;         /* constant */
	_Atomic uint64_t reserve; /* size that the reserve file should have; 0: there is no reserve */
	_Atomic uint64_t bytes;   /* size that it has */
	_Atomic bool full;        /* puts are refused */
	_Atomic int64_t credit;   /* bytes that mutations may log before the next call of statvfs */
	uint64_t unfreed;         /* bytes of log and memtables that the last space_reclaim left */
	bool reclaiming;          /* a thread is in space_reclaim */
};

/* Returns true while puts are refused. */
static inline bool space_is_full(const struct server *s)
{
	return atomic_load(&s->space->full);
}
/* Returns true if there is a reserve, and it has its size. */
static inline bool space_is_whole(const struct server *s)
{
	return s->space->reserve && s->space->bytes >= s->space->reserve;
}
/* Makes the reserve.  Call it after the tablets are loaded.  Until then nothing is refused. */
void space_start(struct server *s);
/* Enlarges the reserve if the store has grown to `store` bytes and the disk has space. */
void space_grow(struct server *s, uint64_t store);
/*
 * Call it before a mutation of about `bytes` bytes is logged.  Returns -ENOSPC
 * for a put for which there is no space.  Other uses are never refused; a part
 * of the reserve may be released for them.
 */
int space_admit(struct server *s, enum disk_use use, uint64_t bytes) TFS_MUST;
/*
 * Call it after a mutation failed with -ENOSPC, with the number of earlier such
 * failures as `tries`.  Releases a part of the reserve and waits until the commit
 * log accepts records.  Returns true if the caller should try again.
 */
bool space_retry(struct server *s, enum disk_use use, unsigned tries);
/* Restores the reserve if there is space, and decides again whether the disk is full. */
void space_check(struct server *s);
/* If the disk is full, queues the task that does so. */
void space_check_soon(struct server *s);

#endif
