/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directory streams: which place in a listing an offset of READDIR means.
 * Threads: any; stream.lock is held by the request that reads the stream.
 */
#ifndef TFS_FS_REQUEST_STREAM_H
#define TFS_FS_REQUEST_STREAM_H

#include "fs/node/list.h"

#include <bsd/sys/queue.h>

struct place {
	uint64_t ordinal; /* entries given before this place; 0: unused */
	struct cursor at;
};
/* A listing between two answers: its next entry did not fit into the first answer. */
struct pause {
	TAILQ_ENTRY(pause) age; /* pool lock */
	struct stream *stream;  /* pool lock */
	struct lister *lister;
	struct list_entry entry; /* that entry; borrowed from the lister */
	uint64_t ordinal;        /* entries before it */
	uint64_t changes;        /* fs.changes before the store was asked */
};
struct stream {
	struct mutex lock;
	struct pause *pause;     /* pool lock; or NULL */
	TAILQ_ENTRY(stream) age; /* pool lock: while idle */
	LIST_ENTRY(stream) same; /* in a bucket, under the pool's lock */
	uint32_t id;
	uint64_t dir_ino;
	const struct node *dir; /* may have been freed, and its memory used for another node */
	struct buf dir_key;     /* its whole key (node_append_key) */
	uint32_t epoch;         /* the directory's epoch when the listing began */
	unsigned batches;       /* answers that had entries */
	uint64_t end;           /* the ordinal at which an answer reached the end, or 0 */
	uint64_t end_changes;   /* fs.changes and the epoch before that answer */
	uint32_t end_epoch;
	int err;              /* of an answer that had entries before it failed; 0: none */
	uint64_t err_at;      /* the last one's ordinal: the next request there gets the error */
	bool damaged;         /* a block could not be read, so the listing ends with EIO */
	bool ended;           /* pool lock: its end was sent */
	unsigned users;       /* counts the open directory and requests, under the pool's lock; 0 if it is idle */
	size_t bytes;         /* the memory of the stream and its places */
	struct place *recent; /* ordinal n is at n % recent_cap */
	unsigned recent_cap;
	struct place *checkpoints;
	unsigned checkpoint_count, checkpoint_cap;
};
/* An open directory: fi->fh. */
struct dir_handle {
	/* The stream that was read last, and the fork in which an answer continued; each counted, or NULL. Under the pool's lock. */
	struct stream *stream, *fork;
};

void streams_init(void);
void streams_fini(void);
/* Finds the stream with this id.  Id 0 makes a new one, for a listing from the start.  Counted.  -ESTALE: it was removed. */
int stream_get(const struct node *dir, uint32_t id, struct dir_handle *h, struct stream **out) TFS_MUST;
/* A stream with a new id, for a listing that has other entries at the same ordinals from here on; counted.  NULL: out of memory. */
struct stream *stream_fork(const struct stream *s, const struct node *dir, struct dir_handle *h);
void stream_put(struct stream *s);
/* The stream owns the pause, until stream_resume(), its directory is closed, or PAUSES_MAX other streams have a newer pause. */
void stream_pause(struct stream *s, struct pause *p);
/* Returns the stream's pause, which the caller owns; NULL: it has none. */
struct pause *stream_resume(struct stream *s);
void pause_free(struct pause *p); /* NULL allowed */
/* The directory was closed: frees h, unless NULL. */
void stream_close(struct dir_handle *h);
/* Returns true if the kernel may keep its copy of this listing. */
bool stream_may_be_kept(struct stream *s, const struct node *dir);
/* The place of an ordinal, or NULL. */
const struct place *stream_place(const struct stream *s, uint64_t ordinal);
/* The nearest checkpoint at or before the ordinal; NULL: the start. */
const struct place *stream_checkpoint(const struct stream *s, uint64_t ordinal);
int stream_remember(struct stream *s, uint64_t ordinal, const struct cursor *at) TFS_MUST;
bool cursor_eq(const struct cursor *a, const struct cursor *b);

#endif
