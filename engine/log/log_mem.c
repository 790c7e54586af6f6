/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records in memory.  Records are encoded once, one after another, into chunks.
 * So a group of small records is one or a few pieces for the pwritev that
 * writes it, and the second writer uses the same bytes when the first one's
 * file is abandoned.  A large record has a chunk of its own, encoded before
 * the log's lock is taken.
 *
 * Writers append to the last chunk while another thread, without the lock,
 * writes the records that were there when it took its group.  Encoded bytes
 * are never changed.  So a record that was answered with an error is not
 * changed here; the second writer (log_switch.c) replaces it.
 *
 * A chunk is freed when its last record is durable and no write uses it.
 */
#include "engine/log/log_internal.h"

#include <errno.h>
#include <stdlib.h>

struct log_chunk *log_chunk_new(size_t cap)
{
	struct log_chunk *c = malloc(sizeof *c + cap);

	if (c)
		*c = (struct log_chunk){.cap = cap, .refs = 1};
	return c;
}

void log_chunk_put_locked(struct log *l, struct log_chunk *c)
{
	if (--c->refs)
		return;
	if (c->cap == LOG_CHUNK_BYTES && l->spares < LOG_SPARES) {
		c->next = l->spare;
		l->spare = c;
		l->spares++;
		return;
	}
	free(c);
}

static struct log_chunk *chunk_get_locked(struct log *l)
{
	struct log_chunk *c = l->spare;

	if (!c)
		return log_chunk_new(LOG_CHUNK_BYTES);
	l->spare = c->next;
	l->spares--;
	*c = (struct log_chunk){.cap = LOG_CHUNK_BYTES, .refs = 1};
	return c;
}

static void link_chunk_locked(struct log *l, struct log_chunk *c)
{
	if (l->tail)
		l->tail->next = c;
	else
		l->head = c;
	if (!l->wchunk) {
		l->wchunk = c;
		l->woff = 0;
	}
	l->tail = c;
}

int log_mem_add_locked(struct log *l, const struct log_record *r, uint32_t body_bytes, struct log_chunk *large, uint32_t large_crc)
{
	struct log_frame f = {
		.durable = l->durable_lsn,
		.body_bytes = body_bytes,
		.body_crc = large_crc,
		.table = r->table,
		.kind = LOG_DATA,
	};
	size_t total = log_frame_total(&f);
	struct log_chunk *c = large ? large : l->tail;
	uint8_t *p;

	if (!large && (!c || c->cap - c->used < total))
		c = chunk_get_locked(l);
	if (!c)
		return -ENOMEM;
	if (c != l->tail)
		link_chunk_locked(l, c);
	p = c->data + c->used;
	if (!large)
		f.body_crc = log_body_encode(p + LOG_FRAME_BYTES, body_bytes, r);
	f.lsn = ++l->last_lsn;
	log_frame_encode(p, &f, l->salt);
	c->used += total;
	c->last_lsn = f.lsn;
	l->retained_bytes += total;
	l->stats.records++;
	l->stats.bytes += total;
	return 0;
}

void log_mem_trim_locked(struct log *l)
{
	struct log_chunk *c;

	while ((c = l->head) && c->last_lsn <= l->durable_lsn) {
		l->retained_bytes -= c->used;
		if (c == l->tail && c->refs == 1 && c->cap == LOG_CHUNK_BYTES) {
			c->used = l->woff = 0; /* used again: it is in the processor's cache */
			return;
		}
		if (l->wchunk == c) {
			l->wchunk = c->next;
			l->woff = 0;
		}
		l->head = c->next;
		if (!l->head)
			l->tail = NULL;
		log_chunk_put_locked(l, c);
	}
}

static void chunks_free(struct log_chunk *c)
{
	for (struct log_chunk *next; c; c = next) {
		next = c->next;
		free(c);
	}
}

void log_mem_fini(struct log *l)
{
	chunks_free(l->head);
	chunks_free(l->spare);
}

/* Returns the bytes of c from off on, up to the end of the record that reaches room. */
static size_t cut_at(const struct log_chunk *c, size_t off, uint64_t room, uint64_t *lsn)
{
	size_t n = 0, total;

	while (off + n < c->used && n < room) {
		log_frame_peek(c->data + off + n, lsn, &total);
		n += total;
	}
	return n;
}

void log_group_take_locked(struct log *l, uint64_t bytes, struct log_group *g)
{
	uint64_t room = l->segment_bytes > bytes ? l->segment_bytes - bytes : 1;
	struct log_chunk *c = l->wchunk;
	size_t off = l->woff;

	g->count = 0;
	g->bytes = g->end = 0;
	g->last_lsn = l->written_lsn;
	for (; c && g->count < LOG_GROUP_PIECES && g->bytes < LOG_GROUP_BYTES && g->bytes < room; c = c->next, off = 0) {
		size_t n = c->used - off;

		if (n == 0)
			continue;
		g->last_lsn = c->last_lsn;
		if (g->bytes + n > room)
			n = cut_at(c, off, room - g->bytes, &g->last_lsn);
		g->v[g->count] = tfs_bytes_of(c->data + off, n);
		g->chunk[g->count++] = c;
		c->refs++;
		g->bytes += n;
		g->end = off + n;
	}
}

void log_group_put_locked(struct log *l, struct log_group *g)
{
	for (unsigned i = 0; i < g->count; i++)
		log_chunk_put_locked(l, g->chunk[i]);
}
