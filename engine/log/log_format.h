/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commit log's bytes.  All integers big-endian unless varint.
 *
 * A segment is DIR/NUMBER.log (ten decimal digits or more):
 *
 *	0     segment header, first copy
 *	512   segment header, second copy (one damaged sector loses no segment)
 *	1024  records, each starting at a multiple of 8.  Behind the last record are
 *	      zeros (written ahead), or bytes of the segment that the file was before
 *	      (records of LSNs below this segment's first, cut anywhere), or the end
 *	      of the file
 *
 * Segment header, 64 bytes of each 512 (the rest zeros):
 *	0  "TFSLOG\r\n"        8  u32 format version 1    12 u32 zero
 *	16 u64 incarnation    24 u64 segment number      32 u64 first LSN
 *	40 u64 durable LSN of the log when the segment was begun
 *	48 u64 salt, random per log                      56 u32 zero
 *	60 u32 crc32c of bytes 0..60
 *
 * A file without a valid header, or with the header of another number than its
 * name, is no segment: it was never finished, or was dropped and waits to be
 * used again.
 *
 * A segment cuts every earlier segment just below its first LSN. A segment begun by rolling
 * over starts at the next LSN, so it cuts nothing.  A segment begun after an abandoned file
 * starts at the durable LSN + 1.
 *
 * Record: frame of 40 bytes, body, zeros up to a multiple of 8.
 *	0  u32 crc32c of bytes 4..40, started from the salt
 *	4  u32 0x544c5231     8  u64 LSN
 *	16 u64 durable: every record up to this LSN was on disk before the
 *	   group that holds this record was written
 *	24 u32 body length    28 u32 crc32c of the body and its padding
 *	32 u32 kind           36 u32 table id
 *	40 body of LOG_DATA: varints client, number, lowest unanswered, sequence,
 *	   length of row_from; row_from; u8 1 (row_to is row_from) or 0 followed
 *	   by varint length and row_to; the batch up to the end
 *
 * Because of the salt, bytes in a batch (a user may store a log in a table)
 * are not mistaken for a record when the bytes after damage are searched.
 *
 * LOG_VOID has no body.  It replaces a record whose writer received an error,
 * so that LSNs have no gap.  LOG_MARK has no body and no LSN of its own.  It
 * follows the record that was synced last; its durable is its LSN.  The next
 * record overwrites it.
 *
 * Pure functions; every input may be hostile.
 */
#ifndef TFS_LOG_FORMAT_H
#define TFS_LOG_FORMAT_H

#include "engine/log/log.h"

#define LOG_VERSION 1u
#define LOG_HEADER_BYTES 1024u
#define LOG_FRAME_BYTES 40u
#define LOG_MAGIC 0x544c5231u
/* A batch has at most 256 MiB, plus its rows and token. */
#define LOG_MAX_BODY_BYTES (257u << 20)

struct log_header {
	uint64_t incarnation, number, first_lsn, durable_lsn, salt;
};
void log_header_encode(uint8_t out[LOG_HEADER_BYTES], const struct log_header *h);
/* Decodes either copy.  -EBADMSG: neither is valid; -ENOTSUP: another format version. */
int log_header_decode(struct tfs_bytes s, struct log_header *h) TFS_MUST;

enum log_kind { LOG_DATA = 1, LOG_VOID = 2, LOG_MARK = 3 };
struct log_frame {
	uint64_t lsn, durable;
	uint32_t body_bytes, body_crc, table;
	enum log_kind kind;
};
/* Frame, body and padding. */
static inline size_t log_frame_total(const struct log_frame *f)
{
	return (LOG_FRAME_BYTES + (size_t)f->body_bytes + 7) & ~(size_t)7;
}
/* Exact length of the body.  Returns false if it is above LOG_MAX_BODY_BYTES. */
bool log_body_bytes(const struct log_record *r, uint32_t *bytes) TFS_MUST;
/* Writes the body of that length and its padding at p.  Returns their crc. */
uint32_t log_body_encode(uint8_t *p, uint32_t bytes, const struct log_record *r);
void log_frame_encode(uint8_t p[LOG_FRAME_BYTES], const struct log_frame *f, uint64_t salt);
/* Returns false if it is not a valid frame (too short, crc, or values that the encoder does not write). */
bool log_frame_decode(struct tfs_bytes s, uint64_t salt, struct log_frame *f) TFS_MUST;
/*
 * Decodes a frame if no header is left to read the salt from.  Because some
 * salt makes any frame's checksum correct, the frame is valid only if
 * log_body_decode accepts the body, whose checksum has no salt.
 */
bool log_frame_decode_unsalted(struct tfs_bytes s, struct log_frame *f) TFS_MUST;
/* LSN and total length of a frame in memory.  Not checked. */
void log_frame_peek(const uint8_t *p, uint64_t *lsn, size_t *total_bytes);
/* body: body_bytes and padding.  r borrows from it; r->lsn is set too. */
bool log_body_decode(const struct log_frame *f, struct tfs_bytes body, struct log_record *r) TFS_MUST;

/* "NUMBER.log"; dst holds at least 32 bytes. */
void log_segment_name(char dst[32], uint64_t number);
bool log_segment_parse(const char *name, uint64_t *number) TFS_MUST;

#endif
