/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding and bounded decoding of batches (batch_format.h).
 *
 * The decoder's input may be hostile, so it refuses everything that the
 * encoder does not write: unknown kinds, family 0 in a cell that is not a row
 * delete, a qualifier in a delete of a row or family.
 *
 * Rejected: protobuf here (a copy more per write), and one qualifier
 * dictionary per batch (mutations are small; SSTables compress).
 */
#include "engine/cell/batch_format.h"

#include <errno.h>

enum { BATCH_VERSION = 2, COMMIT_AT = 1, PRE = 0x80 };

int batch_begin(struct buf *out, struct tfs_bytes row)
{
	int err = buf_u8(out, BATCH_VERSION);

	if (!err)
		err = buf_be64(out, 0);
	return err ? err : buf_lstr(out, row);
}

void batch_set_commit(struct buf *batch, int64_t commit)
{
	put_be64(batch->p + COMMIT_AT, (uint64_t)commit);
}

size_t batch_cell_bytes(const struct batch_cell *c)
{
	return 1 + 2 + 10 + c->qualifier.n + 8 + 10 + c->value.n;
}

int batch_add(struct buf *out, const struct batch_cell *c)
{
	int err;

	if ((err = buf_u8(out, (uint8_t)c->kind | (c->pre ? PRE : 0))) || (err = buf_be16(out, c->family)) ||
		(err = buf_lstr(out, c->qualifier)) || (err = buf_be64(out, (uint64_t)c->ts)))
		return err;
	return c->kind == CELL_VALUE ? buf_lstr(out, c->value) : 0;
}

int batch_open(struct batch_reader *b, struct tfs_bytes batch)
{
	uint8_t version;
	uint64_t commit;
	struct reader r = reader_of(batch);
	struct tfs_bytes row;

	get_u8(&r, &version);
	get_be64(&r, &commit);
	get_lstr(&r, &row);
	if (r.bad || version != BATCH_VERSION)
		return -EBADMSG;
	b->r = r;
	b->row = row;
	b->commit = (int64_t)commit;
	return 0;
}

int batch_next(struct batch_reader *b, struct batch_cell *c)
{
	struct reader *r = &b->r;
	struct batch_cell cell = {0};
	uint8_t kind;
	uint64_t ts;

	if (!r->bad && reader_left(r) == 0)
		return 0;
	get_u8(r, &kind);
	get_be16(r, &cell.family);
	get_lstr(r, &cell.qualifier);
	get_be64(r, &ts);
	cell.pre = kind & PRE;
	kind &= (uint8_t)~PRE;
	if (r->bad || (cell.pre && kind == CELL_VALUE) || kind < CELL_DELETE_ROW || kind > CELL_VALUE)
		goto bad;
	cell.kind = (enum cell_kind)kind;
	cell.ts = (int64_t)ts;
	if (cell.kind == CELL_VALUE && !get_lstr(r, &cell.value))
		goto bad;
	if ((cell.family == 0) != (cell.kind == CELL_DELETE_ROW))
		goto bad;
	if ((kind == CELL_DELETE_ROW || kind == CELL_DELETE_FAMILY) && (cell.qualifier.n || cell.ts != INT64_MAX))
		goto bad;
	*c = cell;
	return 1;
bad:
	r->bad = true;
	return -EBADMSG;
}
