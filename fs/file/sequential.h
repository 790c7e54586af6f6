/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequential files: streams that are made while they are read, or applied while
 * they are written.  Each descriptor has a state of its own; the file has none,
 * and its size is mostly 0.  A kind of node that is such a file has a struct
 * sequential_ops (node_ops.sequential).
 *
 * The kernel caches nothing of these files (direct I/O).  Read-only mounts, where
 * the kernel opens files by itself, cannot serve them.
 *
 * A read may have to wait for bytes, for any time.  Then it holds no thread: the request is kept, and is served by a thread
 * of this file when there are bytes, or when it is interrupted.
 *
 * Threads: the operations of one descriptor are called one at a time.
 */
#ifndef TFS_FS_FILE_SEQUENTIAL_H
#define TFS_FS_FILE_SEQUENTIAL_H

#include "fs/base/fs.h"

#include "engine/base/task.h"

struct changes;

/* A descriptor of a sequential file. */
struct sequential {
	struct node *node; /* counted */
	void *state;       /* the state of the operations */
	fuse_req_t req;    /* the request that is served.  NULL in close */
	/* ---- for sequential.c ---- */
	LIST_ENTRY(sequential) all;
	struct mutex lock;                  /* RANK_FS_SEQUENTIAL */
	bool reading;                       /* a READ has been served, and no WRITE after it */
	bool written;                       /* a WRITE has been served */
	uint64_t base, at;                  /* the offset of the start, and the offset of the next READ */
	TAILQ_HEAD(, waiting_read) waiting; /* reads that wait, in the order in which they came */
	struct task ready;                  /* serves them */
	bool ends;                          /* `ready` must not be queued again */
	int write_error;                    /* the error of the first refused write, which later writes return */
};

enum { SEQUENTIAL_WAITS = 1 };
/* Each returns 0 or -errno, and logs the reason of a refusal (reply.h). */
struct sequential_ops {
	/* Sets s->state.  flags: as for open(2). */
	int (*open)(struct sequential *s, int flags);
	/*
	 * Reads the next bytes; *got is 0 at the end only.  -EINTR if the request
	 * was interrupted; the next call continues.  NULL: -EACCES.  SEQUENTIAL_WAITS: there are no bytes yet.
	 */
	int (*read)(struct sequential *s, void *buf, size_t n, size_t *got);
	/* After SEQUENTIAL_WAITS: fn is called once when there may be bytes, maybe during this call.  fn NULL: on return no such call runs. */
	void (*notify)(struct sequential *s, void (*fn)(void *arg), void *arg);
	/* The next READ begins at this place; 0 is the start.  -ESPIPE, refused by the caller: it cannot.  NULL: the same. */
	int (*seek)(struct sequential *s, uint64_t at);
	/* Takes the next bytes.  The next READ begins at the start.  NULL: -EACCES. */
	int (*write)(struct sequential *s, const void *p, size_t n, struct changes *c);
	/* FLUSH and FSYNC: afterwards the written bytes have been applied or refused.  May be NULL. */
	int (*flush)(struct sequential *s, struct changes *c);
	/* Frees s->state.  May be NULL. */
	void (*close)(struct sequential *s, struct changes *c);
};

static inline struct sequential *sequential_of(const struct fuse_file_info *fi)
{
	return (struct sequential *)(uintptr_t)fi->fh;
}
/* The calls on such files, called by the functions of the same names in io.c and open.c. */
int sequential_open(fuse_req_t req, struct node *n, struct fuse_file_info *fi) TFS_MUST;
void sequential_read(fuse_req_t req, size_t size, off_t offset, struct fuse_file_info *fi);
void sequential_write(fuse_req_t req, const char *p, size_t size, struct fuse_file_info *fi);
/* FLUSH; sync: FSYNC. */
void sequential_flush(fuse_req_t req, bool sync, struct fuse_file_info *fi);
/* Replies, unless req is NULL: the daemon ends, or the kernel did not receive the descriptor. */
void sequential_release(fuse_req_t req, struct sequential *s);
/* Answers all reads that wait with EINTR, after fs_interrupt_all. */
void sequential_interrupt_all(void);
/* At the end of the daemon: closes all. */
void sequential_close_all(void);

#endif
