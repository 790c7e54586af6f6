/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tablet service: what a client asks of the tablet server that serves a
 * row (DESIGN 6).  Requests and answers are plain values; a service is
 * anything that answers them: the server in this process, or a channel to
 * one elsewhere.
 *
 * Ownership: a request borrows everything from the caller for the length of
 * the call.  An answer is {0}-initialised by the caller, filled in by the
 * service and given back by ts_answer_fini, except `into`, the caller's own
 * buffer.
 * Errors: the return value (also in answer->err once decoded) is -errno as
 * in engine/tabletfs.h, and besides: -EREMCHG the row is not served here
 * (look the location up again), -EIDRM no table has tablets of this id (any
 * more: look its schema up again), -ENOENT for TS_READ no such cell.
 * Threads: any.
 */
#ifndef TFS_RPC_TABLET_SERVICE_H
#define TFS_RPC_TABLET_SERVICE_H

#include "engine/cell/op.h"

enum ts_method {
	TS_MUTATE = 1, /* row, ops, token, sync -> results */
	TS_READ,       /* row, family, qualifier, ts, offset, length -> info, bytes in `into` */
	TS_EXISTS,     /* row, family (0: any) -> exists */
	TS_SCAN_OPEN,  /* spec -> batch, and scan (an id) unless batch.done; tablet_end */
	TS_SCAN_NEXT,  /* scan -> batch */
	TS_SCAN_CLOSE, /* scan */
	TS_SYNC,       /* all commits of this server so far are durable */
	TS_FLUSH,
	TS_COMPACT,     /* the tablet that holds row -> tablet_end */
	TS_TABLET_INFO, /* the tablet that holds row -> tablet; family: its share */
	/*
	 * rows, sync -> row_errs; row: one of them.  Each row by itself, in their
	 * order: from the first on that is not served here all are refused, as a
	 * row may come twice.  With sync all are on disk at the end.
	 */
	TS_MUTATE_ROWS,
	/*
	 * The master's, while it judges whether a table (or a family) is empty:
	 * from the answer of HOLD to LET_GO no mutation of the table is under
	 * way; new ones wait, and are judged by what the table then is.
	 */
	TS_HOLD,
	TS_LET_GO, /* table */
	TS_SPLIT,  /* the tablet that holds row, at row; -EEXIST: one begins there already */
	TS_MERGE,  /* the tablet that holds row with the one after it; -ENOENT: there is none */
	TS_METHODS
};
struct ts_row {
	struct slice row;
	const struct op *ops;
	uint32_t op_count;
};
#define TS_ROWS_MAX 65536u
struct ts_request {
	enum ts_method method;
	uint32_t table;
	uint64_t schema_generation; /* that the client's family ids come from: a server behind it refreshes first */
	struct slice row;
	/* MUTATE */
	const struct op *ops;
	uint32_t op_count;
	struct op_token token;
	bool sync;
	/* MUTATE_ROWS */
	const struct ts_row *rows;
	uint32_t row_count;
	/* READ, EXISTS, TABLET_INFO */
	uint16_t family;
	struct slice qualifier;
	struct op_time ts;
	uint64_t offset;
	void *into; /* where the bytes go; length of them */
	size_t length;
	/* SCAN_* */
	const struct scan_spec *spec;
	uint64_t scan;
};
struct ts_tablet {
	struct slice begin, end; /* in the answer's arena; end.p NULL: to the end */
	uint64_t disk_bytes, raw_bytes, memory_bytes, cells, tombstones;
	uint32_t files, memtables;
	struct slice server, state;
};
struct ts_answer {
	int err;
	struct op_result *results; /* MUTATE: the caller's array of op_count, or NULL: not wanted */
	int *row_errs;             /* MUTATE_ROWS: the caller's array of row_count: 0 or -errno, -EREMCHG: not served here */
	bool exists;
	size_t got;
	int64_t ts, expires_us, commit_us;
	uint64_t size;
	struct scan_batch batch;
	uint64_t scan; /* 0: the scan is over */
	struct slice
		tablet_end; /* SCAN_OPEN: where this tablet's rows end, p NULL: the table's end; SCAN_NEXT, the last: if not NULL, where to
				     * go on, rather than there.  In arena */
	struct ts_tablet tablet;
	struct arena arena;
};
void ts_answer_fini(struct ts_answer *a);

struct tablet_service;
struct tablet_service_ops {
	int (*call)(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a);
};
struct tablet_service {
	const struct tablet_service_ops *ops;
};
static inline int TFS_MUST ts_call(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	return s->ops->call(s, q, a);
}

/* Encodings (protobuf-c): pack appends; unpack borrows from in and arena.  -EBADMSG for anything malformed. */
int ts_request_pack(const struct ts_request *q, struct buf *out) TFS_MUST;
int ts_request_unpack(
	struct slice in, struct arena *arena, struct ts_request *q) TFS_MUST; /* q->into of TS_READ: from the arena, zeroed */
int ts_answer_pack(const struct ts_request *q, const struct ts_answer *a, struct buf *out) TFS_MUST;
int ts_answer_unpack(
	struct slice in, const struct ts_request *q, struct ts_answer *a) TFS_MUST; /* copies bytes to q->into and results */

/*
 * A service that packs, unpacks and hands every call to inner and its answer
 * back the same way: debug builds put it between client and server, so that
 * nothing but plain values can pass.  Takes nothing; free() it.
 */
struct tablet_service *ts_round_trip_new(struct tablet_service *inner);

#endif
