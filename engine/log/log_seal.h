/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seal of a dead server's log: the only description of the log that its
 * readers use.  The server may still run, as a zombie: a process that does not
 * know yet that its session has ended.  It may write to open files, above and
 * below their length, may make files in the renamed directory, and may state that
 * records are durable.  Replay by a seal reads none of that.
 *
 * log_seal.c has the steps.  log_seal_format.c has the bytes (doc/formats).
 * Threads: any.
 */
#ifndef TFS_LOG_SEAL_H
#define TFS_LOG_SEAL_H

#include "engine/log/log.h"

/* The most segments of a seal, so that it fits in a file of the lock service. */
#define LOG_SEAL_SEGMENTS_MOST 12000u

/* The records of one segment that count, and the file offset at which they end. */
struct log_seal_segment {
	uint64_t number, first_lsn, last_lsn, end;
};
struct log_seal {
	uint64_t incarnation, salt;
	/*
	 * The highest LSN that the log stated to be durable.  If a record up to
	 * it is missing from the segments, the log is damaged, or the record was
	 * dropped because it is below all redo points.
	 */
	uint64_t stated;
	uint64_t lost;                     /* whole records after the end, which do not count because one before them is missing */
	struct log_seal_segment *segments; /* in rising order of numbers and LSNs */
	size_t count;
};
void log_seal_fini(struct log_seal *s);
int log_seal_encode(const struct log_seal *s, struct buf *out) TFS_MUST;
/* -EBADMSG: damaged; -EPROTO: undamaged, of a later format.  The caller frees *s by log_seal_fini. */
int log_seal_decode(struct tfs_bytes in, struct log_seal *s) TFS_MUST;

/*
 * Seals the log of a dead incarnation below the directory `logs`: steps 1 to 4.
 * -ENOENT: it has no log.  -EFBIG: too many segments.  The caller frees *s by
 * log_seal_fini.  why as in log_replay.
 */
int log_seal_make(const char *logs, uint64_t incarnation, struct log_seal *s, char **why) TFS_MUST;
/* Returns the directory of a sealed log in a new string; NULL if out of memory. */
char *log_sealed_dir(const char *logs, uint64_t incarnation);

/*
 * The segments that a replay from from_lsn reads: *count from index *first on.
 * -EBADMSG: a record from from_lsn on is missing that was stated durable; *why is set then.
 */
int log_seal_range(
	const struct log_seal *seal, uint64_t from_lsn, const char *dir, size_t *first, size_t *count, char **why) TFS_MUST;
/*
 * Replays a sealed log in dir, as log_replay.  Reads only the segments of the
 * seal, each up to its end, and believes only the seal's statement.  -EBADMSG: a
 * record from from_lsn on is missing that was stated durable, or a segment is not
 * as its seal says.  end->lost is 0: log_seal_make has reported it.
 */
int log_replay_sealed(const char *dir, const struct log_seal *seal, uint64_t from_lsn, log_replay_fn *fn, void *arg,
	struct log_end *end, char **why) TFS_MUST;
/*
 * Step 3 of sealing: reads all segments of dir.  Counts the whole records after the
 * end, too.  The caller frees *s by log_seal_fini.
 */
int log_scan(const char *dir, struct log_seal *s, char **why) TFS_MUST;

#endif
