/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tablet service: the requests of a client to the tablet server of a row
 * (paper, section 5.1).  Requests and answers are plain values.  A service is
 * any object that answers them: the server in this process, or a channel to
 * a server elsewhere.
 *
 * Ownership: a request borrows all its memory from the caller during the
 * call.  The caller initialises an answer to {0}, the service fills it in, and
 * ts_answer_fini frees it, except the caller's own arrays and `into`.
 * Errors: the return value (also in answer->err once decoded) is -errno as
 * in engine/tabletfs.h, and also: -TABLET_MOVED the row is not served here (look up
 * its location again), -TABLE_DROPPED no table has tablets of this id (look up the
 * table's schema again), -ENOENT for TS_READ there is no such cell.
 * Errors of requests with a client (token.client): -MUTATION_ANSWERED the mutation's
 * number was answered or forgotten before; nothing was applied by this request.
 * -EAGAIN the server cannot carry it out now, or too many requests wait; send it again.  -EPOCH_ENDED the
 * client has sent HELLO with a later epoch.  In all three cases this request has
 * had no effect.
 * Errors of a channel to a server elsewhere: -UNREACHABLE the request was not sent.
 * -ANSWER_LOST the channel or the server's session was lost, -ETIMEDOUT no answer in time_left_us: the
 * server may have carried out the request, and may still do so.
 * Threads: any.
 */
#ifndef TFS_RPC_TABLET_SERVICE_H
#define TFS_RPC_TABLET_SERVICE_H

#include "engine/base/outcome.h"
#include "engine/cell/op.h"
#include "engine/rpc/wire.h"

#include <errno.h>
#include <stdatomic.h>

enum ts_method {
	/*
	 * rows, sync -> row_errs.  Each row is a mutation of its own.  The server applies
	 * them in order.  If it refuses a row (ts_is_refusal), it refuses all rows behind
	 * it, too, because the same row may stand there again.  If it refuses the first
	 * row, the request has that error.
	 * One row: its error is the request's -> results, or failed_op.
	 */
	TS_MUTATE = 1,
	TS_READ,      /* row, family, qualifier, ts, offset, length -> info, and as many bytes as there are, or the first ones */
	TS_EXISTS,    /* row, family (0: any) -> exists */
	TS_SCAN_OPEN, /* spec -> batch, and scan (an id) unless batch.done; tablet_end */
	TS_SCAN_NEXT, /* scan, offset (batches received so far; 0: not said), length (of this batch and the next ones; 0: as before) -> batch */
	TS_SCAN_CLOSE, /* scan */
	TS_SYNC,       /* makes all commits of this server durable */
	TS_FLUSH,      /* row: writes the memtables of its tablet -> tablet_end, or scan */
	TS_COMPACT,    /* row: compacts its tablet -> tablet_end, or scan */
	/* row -> tablet, its tablet; family (0: all): its share; offset (0: no samples): the bytes of SSTables for each of its samples */
	TS_TABLET_INFO,
	/*
	 * table, term.  The master's requests while it checks if a table or a family
	 * is empty.  From the answer 0 of BLOCK to the call of UNBLOCK, or to a
	 * request of a later term, no mutation of the table is carried out: they get
	 * -EAGAIN. BLOCK itself gets -EAGAIN if mutations are under way: send it
	 * again, or send UNBLOCK.
	 */
	TS_BLOCK_WRITES,
	TS_UNBLOCK_WRITES,
	TS_SPLIT, /* row: splits its tablet at row -> scan; -EEXIST: a tablet begins there */
	TS_MERGE, /* row: merges its tablet with the next -> scan; -ENOENT: there is none */
	/*
	 * table, to_table -> ts.  For snapshots and clones: METADATA rows of the new
	 * table to_table, for all tablets of table on this server, as of the
	 * instant ts.  -ENOSPC: the disk is full.
	 */
	TS_COPY_TABLE,
	/*
	 * Control requests of the master (paper, section 5.2).  A server serves
	 * the tablets that were assigned to it, and no others.  On shared storage it
	 * refuses requests that only a master sends if they have no term (-EPERM).
	 * LOAD: tablets, live -> row_errs, why.  Serves the tablets from now on.  They
	 * are in METADATA's order, and all of one kind.  The METADATA row of each
	 * tablet names this owner and this assignment number (else -TABLET_TAKEN).  If
	 * the owner is another server, which is dead, this one becomes the owner, with
	 * the next number, when it first changes the row (embedded stores only). A
	 * tablet that is served already stays as it is.  live: the servers that sort
	 * the logs of dead ones: segment i is sorted by number i modulo their count.
	 * UNLOAD: tablets -> row_errs.  Ends the service of the tablets, flushed, and
	 * sets the server in their METADATA rows to 0.  -TABLET_TAKEN: the tablet has
	 * another begin or assignment number now. LIST: -> tablets, all that the
	 * server serves; exists: set if an UNLOAD is under way, after which it serves
	 * fewer.
	 */
	TS_LOAD,
	TS_UNLOAD,
	TS_LIST,
	/*
	 * row (of any tablet of the server), token.client, epoch.  The server ends all
	 * requests of this client with earlier epochs before it answers, and refuses
	 * those that arrive later.  A client whose request has an unknown outcome must
	 * send this before a read can decide the outcome.
	 * With TS_EPOCH_LAST the client ends, and has no request under way.  The server
	 * forgets its mutations in all tablets: no copy of one is carried out any more.
	 */
	TS_HELLO,
	/*
	 * The requests of the collector (master/collect.c).  With files -> row_errs:
	 * -EBUSY for each file that this server uses or writes, else 0.  Without files ->
	 * files, logs.  files: SSTables that lost their last user on this server after an
	 * edit removed them from a tablet.  Each is reported once; the caller repeats the
	 * request until there is none.  logs: the incarnations, except its own, whose
	 * logs the server's tablets need.
	 */
	TS_FILES,
	/*
	 * incarnation -> seal (engine/log/log_seal.h).  Seals the log of a
	 * server whose file in the lock service no longer exists: steps 1 to 4 of
	 * engine/log/log_seal.c.  The master stores the seal.  -ENOENT: there is
	 * no such log.
	 */
	TS_SEAL,
	/*
	 * incarnation, live.  Every server with an incarnation up to this one that
	 * is not in `live` is dead: its requests under way end before the answer
	 * (-EAGAIN: not yet), and later ones get -SESSION_ENDED.  A server's client id is
	 * its incarnation.
	 * to_table -> exists: set if a request is under way that makes rows of a
	 * table.  Later ones for tables below to_table are refused (-ECANCELED), except
	 * by splits of tables that the lock service has.
	 */
	TS_BURY,
	/*
	 * incarnation, part, parts, tablets, scan, term -> log, scan, batch.done.  A server
	 * that loads tablets asks another server for their records in segment `part` of a
	 * sealed log (engine/log/log_sorted.h).  The server that is asked sorts the segment,
	 * unless it has done so, and then every parts-th segment from there on, before they
	 * are asked for.  log: records for log_sorted_decode, perhaps with records that were
	 * not asked for; scan: where to continue in the segment, 0 at the end; done: the end
	 * of a run.  Without tablets the answer comes at once.  This request is sent during
	 * a LOAD, so it must not wait for a worker that a LOAD occupies.
	 */
	TS_SORT,
	/*
	 * scan: the number that the answer of FLUSH, COMPACT, SPLIT or MERGE had.  If the
	 * action has ended, the answer is its result.  Otherwise the answer has the
	 * number again.  -SCAN_UNKNOWN: the server has no such action, which may have
	 * been carried out.
	 */
	TS_POLL,
	/*
	 * incarnation (the client that has changed them; 0 if it is no server).  The master tells each server of a
	 * cluster that tables, snapshots or schemas have changed.  The server reads all schemas,
	 * and answers when every client to which it reports changes has dropped what it keeps
	 * (listen_note_schemas).
	 */
	TS_NOTE_SCHEMAS,
	TS_STORAGE, /* 0: this server's lease is held, its clock is right, and its storage answers; else an error */
	/*
	 * incarnation -> exists, which is set if this server reaches the server with this incarnation, or if
	 * incarnation is 0.  -EAGAIN: this server has no connection to it.  A dispatcher answers that at once,
	 * without a worker, so a server whose storage hangs is reached.
	 */
	TS_REACH,
	/*
	 * row, qualifier (the least position of a change, cell/change_format.h; n 0: none is wanted), length, offset, until_us
	 * -> log, commit_us, ts, exists, tablet_end.  log: the changes of the tablet from this row on (sent_change_next) up to the time commit_us,
	 * which no later commit of a row of the tablet has, or, if `exists` is set, the first ones of them.  Changes up to the time ts
	 * are not kept any more.  commit_us is above until_us, unless that is far ahead of the server's clock.  offset: as of
	 * struct tablet_changes.  -EOPNOTSUPP: the table keeps no changes.  -CHANGES_REMOVED: changes at or behind the position are not kept any more.
	 */
	TS_CHANGES,
	/*
	 * row, offset -> tablet_end, or scan.  Removes the changes of its tablet that are kept, what was deleted from its cells, and
	 * the commit log so far.  offset: the number of this purge, which has one request for each tablet.
	 */
	TS_PURGE,
	TS_METHODS
};

/* Returns true if the server has not applied the row of the mutation, and the row may be sent again. */
static inline bool ts_is_refusal(int err)
{
	return err == -TABLET_MOVED || err == -TABLE_DROPPED || err == -EAGAIN;
}

/* The name of an SSTable. */
#define TS_FILE(F)                                                                                                                 \
	F(VALUE, 1, uint32_t, table)                                                                                               \
	F(VALUE, 2, uint64_t, incarnation)                                                                                         \
	F(VALUE, 3, uint64_t, number)
struct ts_file {
	TS_FILE(WIRE_MEMBER)
};
#define TS_FILES_MAX 4096u /* the most files of one request or answer */

/* A tablet and its assignment number. */
#define TS_ASSIGNED(F)                                                                                                             \
	F(VALUE, 1, uint32_t, table)                                                                                               \
	F(VALUE, 2, struct tfs_bytes, begin)                                                                                       \
	F(VALUE, 3, struct tfs_bytes, end) /* p NULL: the table's end */                                                           \
	F(VALUE, 4, uint64_t, assignment)                                                                                          \
	F(VALUE, 5, uint64_t, server) /* the owner that its METADATA row names */                                                  \
	/* LIST: reads and writes a second, averaged over some minutes; age: since it was loaded or made */                        \
	F(VALUE, 6, uint64_t, bytes)                                                                                               \
	F(VALUE, 7, uint64_t, reads)                                                                                               \
	F(VALUE, 8, uint64_t, writes)                                                                                              \
	F(VALUE, 9, uint64_t, age_us)                                                                                              \
	/* LIST: it is merged with a neighbour on the same server if both together are smaller; 0: it is not merged now */         \
	F(VALUE, 10, uint64_t, merge_bytes)                                                                                        \
	F(VALUE, 11, bool, border)            /* LIST: it is not merged with the tablet below it */                                \
	F(VALUE, 12, uint64_t, changes_bytes) /* LIST: beside `bytes` */
struct ts_assigned {
	TS_ASSIGNED(WIRE_MEMBER)
};

#define TS_ROWS_MAX 65536u
/*
 * The results of this number of mutations of a client are kept by a tablet, in memory (TOKENS_BYTES)
 * and in METADATA (TOKENS_STORED).  A client that has more mutations under way risks that the tablet
 * forgets a result whose request may be repeated, so it waits (engine/client/window.h).
 */
#define TS_ROWS_UNDER_WAY 2048u
#define TS_SCAN_BATCH_MAX ((size_t)1 << 20) /* the largest length of SCAN_NEXT */
#define TS_READ_BYTES_MAX ((size_t)1 << 20) /* the most bytes of a value that a server elsewhere returns at once */

#define TS_REQUEST(F)                                                                                                              \
	/* The envelope of each request: these, token, user, and the version of the protocol (wire.h). */                          \
	F(VALUE, 60, uint64_t, epoch) /* the client's; rises with each HELLO */                                                    \
	/* The tablet's assignment number that the client has read, or 0.  If it has changed, the answer is -TABLET_MOVED. */      \
	F(VALUE, 61, uint64_t, assignment)                                                                                         \
	F(VALUE, 62, uint64_t, time_left_us) /* the time that the client still waits; 0: without end */                            \
	F(VALUE, 63, uint64_t, term)         /* the master's term in its requests, else 0 */                                       \
	F(VALUE, 1, enum ts_method, method)                                                                                        \
	F(VALUE, 2, uint32_t, table)                                                                                               \
	/* The generation of the schema that has the family ids.  A server whose schema is older first reads this schema. */       \
	F(VALUE, 3, uint64_t, schema_generation)                                                                                   \
	F(VALUE, 4, struct tfs_bytes, row)                                                                                         \
	/* token.client is 0 in the server's process, where no request is lost.  Only mutations use the other members. */          \
	F(STRUCT, 6, op_token, token)                                                                                              \
	F(VALUE, 7, bool, sync)                                                                                                    \
	F(ARRAY, 8, row_mutation, rows, row_count) /* MUTATE */                                                                    \
	/* READ, EXISTS, TABLET_INFO */                                                                                            \
	F(VALUE, 9, uint16_t, family)                                                                                              \
	F(VALUE, 10, struct tfs_bytes, qualifier)                                                                                  \
	F(STRUCT, 11, tfs_ts, ts)                                                                                                  \
	F(VALUE, 12, uint64_t, offset)                                                                                             \
	F(VALUE, 13, size_t, length)                                                                                               \
	/* SCAN_* */                                                                                                               \
	F(POINTER, 14, scan_spec, spec)                                                                                            \
	F(VALUE, 15, uint64_t, scan)                                                                                               \
	/* The user on whose behalf the client asks.  NULL: the owner of the store, who may do everything. */                      \
	F(POINTER, 16, tfs_user, user)                                                                                             \
	F(VALUE, 17, uint32_t, to_table)                 /* COPY_TABLE; MUTATE of METADATA (the table of the new row); BURY */     \
	F(VALUE, 32, bool, split)                        /* MUTATE: by a split of to_table; else to_table is being made */         \
	F(ARRAY, 18, ts_assigned, tablets, tablet_count) /* LOAD, UNLOAD */                                                        \
	F(ARRAY, 19, ts_file, files, file_count)         /* FILES */                                                               \
	F(NUMBERS, 31, uint64_t, live, live_count)       /* BURY (in rising order); LOAD */                                        \
	F(VALUE, 28, uint64_t, incarnation)              /* SEAL, BURY, SORT, NOTE_SCHEMAS */                                      \
	F(VALUE, 33, int64_t, until_us)                  /* CHANGES */                                                             \
	F(VALUE, 29, uint32_t, part)                     /* SORT */                                                                \
	F(VALUE, 30, uint32_t, parts)
struct ts_request {
	TS_REQUEST(WIRE_MEMBER)
	void *into; /* READ: the caller's memory for `length` bytes; NULL in a server */
	uint64_t
		peer; /* the sender of a request over a connection: only this peer may use its client's id and scans; 0: a caller in this process */
	bool for_itself; /* the sender may not act for other users, so that an answer has only what `user` may know; set by the receiver */
	void *limited; /* a peer whose key names its tables (engine/rpc/listen_limit.c); NULL: any other caller */
};
/* Ids of clients that are not servers have this bit. */
#define TS_CLIENT_RANDOM (UINT64_C(1) << 63)
#define TS_EPOCH_LAST UINT64_MAX

/* A row, as stored, or its first bytes. */
#define TS_SAMPLE(F) F(VALUE, 1, struct tfs_bytes, row)
struct ts_sample {
	TS_SAMPLE(WIRE_MEMBER)
};

#define TS_TABLET(F)                                                                                                               \
	F(VALUE, 1, struct tfs_bytes, begin)                                                                                       \
	F(VALUE, 2, struct tfs_bytes, end) /* p NULL: the table's end */                                                           \
	F(VALUE, 3, uint64_t, disk_bytes)                                                                                          \
	F(VALUE, 4, uint64_t, raw_bytes)                                                                                           \
	F(VALUE, 5, uint64_t, memory_bytes)                                                                                        \
	F(VALUE, 6, uint64_t, cells)                                                                                               \
	F(VALUE, 7, uint64_t, tombstones)                                                                                          \
	F(VALUE, 8, uint32_t, files)                                                                                               \
	F(VALUE, 9, uint32_t, memtables)                                                                                           \
	F(VALUE, 10, struct tfs_bytes, server)                                                                                     \
	F(VALUE, 11, struct tfs_bytes, state)                                                                                      \
	/* Since the tablet was loaded or made: cells and rows read, row mutations. */                                             \
	F(VALUE, 12, uint64_t, reads)                                                                                              \
	F(VALUE, 13, uint64_t, writes)                                                                                             \
	F(VALUE, 14, uint32_t, compactions)            /* the compactions under way: TFS_COMPACTION_* of tabletfs.h */             \
	F(VALUE, 15, struct tfs_bytes, events)         /* lines "SECONDS TEXT" */                                                  \
	F(ARRAY, 16, ts_sample, samples, sample_count) /* in order; a row may be there several times */                            \
	F(VALUE, 17, uint64_t, changes_bytes)          /* the changes that are kept */
struct ts_tablet {
	TS_TABLET(WIRE_MEMBER)
};

#define TS_ANSWER(F)                                                                                                               \
	F(VALUE, 1, int, err)                                                                                                      \
	F(VALUE, 2, bool, exists)                                                                                                  \
	/* READ, COPY_TABLE */                                                                                                     \
	F(VALUE, 3, int64_t, ts)                                                                                                   \
	F(VALUE, 4, int64_t, expires_us)                                                                                           \
	F(VALUE, 5, int64_t, commit_us)                                                                                            \
	F(VALUE, 6, uint64_t, size)                                                                                                \
	/* SCAN_*, FLUSH, COMPACT, SPLIT, MERGE, POLL, SORT; 0 if the scan or the action has ended */                              \
	F(VALUE, 7, uint64_t, scan)                                                                                                \
	/* SCAN_OPEN: where this tablet's rows end, p NULL: the table's end. */                                                    \
	/* The last SCAN_NEXT: where the scan continues instead, p NULL: as SCAN_OPEN returned. */                                 \
	F(VALUE, 8, struct tfs_bytes, tablet_end)                                                                                  \
	F(STRUCT, 9, ts_tablet, tablet)                                                                                            \
	/* After a failed MUTATE of one row: the operation that is the cause, from 1, or 0. */                                     \
	F(VALUE, 10, uint32_t, failed_op)                                                                                          \
	/* The generation of the server's schema, or 0.  A client whose schema is older reads the new schema first. */             \
	F(VALUE, 11, uint64_t, schema_generation)
/* The members after the list belong partly to the caller; tablet_wire.c (struct payload) carries them. */
struct ts_answer {
	TS_ANSWER(WIRE_MEMBER)
	struct tfs_result *results; /* MUTATE of one row: the caller's array of its op_count, or NULL */
	/* MUTATE, LOAD, UNLOAD, FILES: the caller's array of row_count, tablet_count or file_count: 0 or -errno, -TABLET_MOVED: not served here.  MUTATE of one row: may be NULL */
	int *row_errs;
	size_t got;             /* READ: bytes in q->into */
	struct tfs_bytes bytes; /* READ without q->into: at most TS_READ_BYTES_MAX */
	struct scan_batch batch;
	struct ts_assigned *tablets; /* LIST */
	uint32_t tablet_count;
	struct tfs_bytes why;  /* LOAD: a line that names the damage that kept a tablet from being loaded */
	struct ts_file *files; /* FILES */
	uint32_t file_count;
	uint64_t *logs; /* FILES: incarnations */
	uint32_t log_count;
	struct tfs_bytes log; /* SEAL: the seal; SORT: records; CHANGES: changes */
	struct arena arena;   /* the memory of bytes, tablet_end, tablet, tablets, why, files, logs, log */
};
void ts_answer_fini(struct ts_answer *a);
/* Returns the row whose tablet gets the request; the first row if there are several. */
static inline struct tfs_bytes ts_request_row(const struct ts_request *q)
{
	return q->row_count ? q->rows[0].row : q->row;
}

struct tablet_service;
/* A request that was sent, and whose answer the caller has not received.  The service that sent it makes and frees it. */
struct ts_sent {
	struct tablet_service *service;
};
struct tablet_service_ops {
	int (*call)(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a);
	/* These are NULL in a service that sends nothing.  See ts_send. */
	struct ts_sent *(*send)(struct tablet_service *s, const struct ts_request *q);
	int (*receive)(struct ts_sent *sent, const struct ts_request *q, struct ts_answer *a);
	void (*forget)(struct ts_sent *sent);
};
/* Why a server or master refuses a request. */
enum ts_refusal {
	TS_REFUSED_MALFORMED, /* it cannot be decoded */
	TS_REFUSED_VERSION,   /* another version of the protocol */
	TS_REFUSED_INVALID,   /* a field has a value that is not allowed */
	TS_REFUSED_REPEATED,  /* the mutation has been answered before: it gets that answer, or -MUTATION_ANSWERED */
	TS_REFUSED_LATE,      /* a request of an earlier epoch, term or assignment, or its time has passed */
	TS_REFUSED_FOREIGN,   /* for a tablet of another server, or by a dead server; or to a master that was replaced */
	TS_REFUSED_BUSY,      /* the request should be sent again */
	TS_REFUSALS
};
struct tablet_service {
	const struct tablet_service_ops *ops;
	_Atomic uint64_t *refused; /* counts of TS_REFUSALS; NULL: they are not counted */
	/*
	 * A server in this process: a request is never lost, late or repeated.  A
	 * router sends no tokens there.
	 */
	bool local;
	/* A router that waits for a short time only.  Its caller repeats what failed, and wants the outcome, not the errno of a user. */
	bool brief;
};
static inline int TFS_MUST ts_call(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	return s->ops->call(s, q, a);
}

/*
 * Sends a request whose answer is wanted later, and does not wait.  The caller then calls
 * ts_receive or ts_forget.  Returns NULL if nothing was sent, for example because the server is in this
 * process or is not connected: the caller uses ts_call when it wants the answer.
 */
static inline struct ts_sent *ts_send(struct tablet_service *s, const struct ts_request *q)
{
	return s->ops->send ? s->ops->send(s, q) : NULL;
}
/* Waits for the answer.  q: the request that was sent.  Returns the same as ts_call, and frees sent. */
static inline int TFS_MUST ts_receive(struct ts_sent *sent, const struct ts_request *q, struct ts_answer *a)
{
	return sent->service->ops->receive(sent, q, a);
}
/* The answer is not wanted any more.  Frees sent; NULL allowed. */
static inline void ts_forget(struct ts_sent *sent)
{
	if (sent)
		sent->service->ops->forget(sent);
}

/* Counts a refusal.  Does nothing if counts is NULL or why is TS_REFUSALS. */
static inline void ts_refused(_Atomic uint64_t *counts, enum ts_refusal why)
{
	if (counts && why < TS_REFUSALS)
		atomic_fetch_add_explicit(&counts[why], 1, memory_order_relaxed);
}

/* Counts a refused request that cannot be decoded; err is the error of unpack. */
static inline void ts_refused_bytes(_Atomic uint64_t *counts, int err)
{
	ts_refused(counts, err == -EPROTO ? TS_REFUSED_VERSION : err == -EBADMSG ? TS_REFUSED_MALFORMED : TS_REFUSALS);
}

typedef int tablet_server_fn(void *arg, uint64_t incarnation, struct tablet_service *service);
/* The tablet servers, as a client or the master finds them.  The services must outlive its users. */
struct tablet_servers {
	/* Returns the service of the server with this incarnation; NULL: no such server at present. */
	struct tablet_service *(*connect)(void *arg, uint64_t incarnation);
	/*
	 * Calls fn for each server that the lock service has, also if it cannot be reached:
	 * a request to all servers must fail if any server does not get it.  A non-zero
	 * value of fn ends the calls and is returned.
	 */
	int (*each)(void *arg, tablet_server_fn *fn, void *fn_arg);
	void *arg;
};
/*
 * Returns true if at least one server has a lease, the right time, and storage that answers
 * (TS_STORAGE).  May take seconds for each server.
 */
bool ts_one_is_well(const struct tablet_servers *servers);

/* Encodings.  pack appends; unpack borrows from in and arena.  -EBADMSG for malformed input. */
int ts_request_pack(const struct ts_request *q, struct buf *out) TFS_MUST;
int ts_request_unpack(struct tfs_bytes in, struct arena *arena, struct ts_request *q) TFS_MUST;
int ts_answer_pack(const struct ts_request *q, const struct ts_answer *a, struct buf *out) TFS_MUST;
int ts_answer_unpack(
	struct tfs_bytes in, const struct ts_request *q, struct ts_answer *a) TFS_MUST; /* copies bytes to q->into and results */

/* row_mutation_copy makes a deep copy of m in memory of row_mutation_bytes(m) bytes, with the alignment of malloc. */
size_t row_mutation_bytes(const struct row_mutation *m);
struct row_mutation row_mutation_copy(const struct row_mutation *m, void *memory);

/*
 * The server's side of a channel: decodes a request, calls inner, and appends the
 * encoded answer.  -EBADMSG: malformed; there is no answer.
 */
int ts_serve(struct tablet_service *inner, struct tfs_bytes request, struct buf *answer) TFS_MUST;
/* Serves a decoded request, as ts_serve does.  Allocates in arena. */
int ts_serve_decoded(struct tablet_service *inner, const struct ts_request *q, struct arena *arena, struct buf *answer) TFS_MUST;

/*
 * A service that passes requests to inner and answers back, both encoded and
 * decoded on the way.  Debug builds put it between client and server, so that
 * only the listed fields pass.  Borrows inner; the caller frees the result by free().
 */
struct tablet_service *ts_round_trip_new(struct tablet_service *inner);

#endif
