/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorted copies of segments: written by one server, read by the owners of tablets.
 *
 * Steps of a copy:
 *	1 write NUMBER.sorted.WRITER: the runs, the index, the trailer
 *	2 rename it to NUMBER.sorted
 * Nothing is synced.  A crash before 2 leaves a file that is removed with the log.  After
 * a power cut the copy may be damaged: each record, and the index, has a checksum, and a
 * damaged copy is removed.  Two servers may make the same copy at the same time; its
 * records are the same.
 *
 * A record is encoded as in a segment, with the log's salt.  The index has the first
 * row of each block of about BLOCK_BYTES.  A reader skips the blocks without rows of its
 * tablets.  It reads at most one run at a time, so its memory is that of a run.
 */
#include "engine/log/log_sorted.h"

#include "engine/base/file.h"
#include "engine/log/log_format.h"
#include "engine/log/log_sort.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK_BYTES (128u << 10)
#define WRITE_BYTES (1u << 20)
#define INDEX_MOST (64u << 20)

static char *copy_path(const char *dir, uint64_t number, uint64_t writer)
{
	char *path;
	int n = writer ? asprintf(&path, "%s/%010llu.sorted.%llu", dir, (unsigned long long)number, (unsigned long long)writer)
		       : asprintf(&path, "%s/%010llu.sorted", dir, (unsigned long long)number);

	return n < 0 ? NULL : path;
}

/* ---- writing ---- */
struct copy {
	const struct log_seal *seal;
	struct file *file;
	struct log_stretch *run;
	struct buf out;   /* encoded, not yet written */
	uint64_t written; /* bytes in the file */
	struct log_sorted_index index;
	struct arena rows; /* of the index */
	uint64_t block_at; /* offset of the last block */
};

static int copy_write(struct copy *c, size_t more_than)
{
	int err = 0;

	if (c->out.n > more_than)
		err = file_pwrite(c->file, c->out.p, c->out.n, c->written);
	if (!err && c->out.n > more_than) {
		c->written += c->out.n;
		buf_reset(&c->out);
	}
	return err;
}

static int copy_block(struct copy *c, const struct log_record *r, bool begins_run)
{
	struct log_sorted_block *b;

	if (array_grow(&c->index.blocks, c->index.count, sizeof(*c->index.blocks)))
		return -ENOMEM;
	b = &c->index.blocks[c->index.count];
	*b = (struct log_sorted_block){.offset = c->written + c->out.n, .table = r->table, .begins_run = begins_run};
	if (!arena_dup(&c->rows, r->row_from, &b->row))
		return -ENOMEM;
	c->block_at = b->offset;
	c->index.count++;
	return 0;
}

static int copy_record(struct copy *c, const struct log_record *r)
{
	struct log_frame f = {.lsn = r->lsn, .durable = r->lsn - 1, .table = r->table, .kind = LOG_DATA};
	uint8_t *p;

	if (!log_body_bytes(r, &f.body_bytes))
		return -EINVAL;
	if (buf_reserve(&c->out, log_frame_total(&f)))
		return -ENOMEM;
	p = c->out.p + c->out.n;
	f.body_crc = log_body_encode(p + LOG_FRAME_BYTES, f.body_bytes, r);
	log_frame_encode(p, &f, c->seal->salt);
	c->out.n += log_frame_total(&f);
	return copy_write(c, WRITE_BYTES);
}

/* Sorts and writes a run. */
static int copy_run(struct copy *c)
{
	const struct log_record *const *v;
	size_t count;
	int err = 0;

	log_stretch_sort(c->run);
	v = log_stretch_records(c->run, &count);
	for (size_t i = 0; i < count && !err; i++) {
		if (!i || c->written + c->out.n - c->block_at >= BLOCK_BYTES)
			err = copy_block(c, v[i], !i);
		if (!err)
			err = copy_record(c, v[i]);
	}
	log_stretch_clear(c->run);
	return err;
}

static int copy_add(void *arg, const struct log_record *r)
{
	struct copy *c = arg;
	int err = log_stretch_add(c->run, r);

	if (err == -ENOSPC) {
		err = copy_run(c);
		if (!err)
			err = log_stretch_add(c->run, r);
	}
	return err;
}

static int copy_end(struct copy *c)
{
	uint8_t trailer[LOG_SORTED_TRAILER];
	struct buf b = {0};
	int err = copy_run(c);

	if (!err)
		err = copy_write(c, 0);
	c->index.bytes = c->written;
	if (!err)
		err = log_sorted_index_encode(&c->index, &b);
	if (!err && b.n > INDEX_MOST)
		err = -EFBIG;
	if (!err) {
		log_sorted_trailer_encode(trailer, c->written, (uint32_t)b.n);
		err = buf_append(&b, trailer, sizeof(trailer));
	}
	if (!err)
		err = file_pwrite(c->file, b.p, b.n, c->written);
	buf_fini(&b);
	return err;
}

int log_sort_segment(
	const char *dir, const struct log_seal *seal, size_t i, size_t run_bytes, uint64_t writer, bool *read, char **why)
{
	const struct log_seal_segment *g = &seal->segments[i];
	const struct log_seal one = {
		.incarnation = seal->incarnation, .salt = seal->salt, .segments = &seal->segments[i], .count = 1};
	struct copy c = {.seal = seal,
		.index = {
			.incarnation = seal->incarnation, .number = g->number, .first_lsn = g->first_lsn, .last_lsn = g->last_lsn}};
	char *path = copy_path(dir, g->number, 0), *tmp = copy_path(dir, g->number, writer);
	struct log_end end;
	uint64_t id;
	int err = path && tmp ? 0 : -ENOMEM;

	*why = NULL;
	*read = false;
	if (err || !file_look_up(path, &id))
		goto out;
	(void)!file_unlink(tmp);
	err = file_open(tmp, FILE_CREATE, &c.file);
	if (!err)
		err = log_stretch_new(run_bytes, &c.run);
	if (!err) {
		*read = true;
		err = log_replay_sealed(dir, &one, g->first_lsn, copy_add, &c, &end, why);
	}
	if (!err)
		err = copy_end(&c);
	if (!err)
		err = file_rename(tmp, path);
	if (err && c.file)
		(void)!file_unlink(tmp);
out:
	file_close(c.file);
	log_stretch_free(c.run);
	buf_fini(&c.out);
	arena_fini(&c.rows);
	free(c.index.blocks);
	free(path);
	free(tmp);
	return err;
}

/* ---- reading ---- */
struct log_sorted {
	struct file *file;
	uint64_t salt;
	struct buf index_bytes;
	struct log_sorted_index index;
	struct buf bytes; /* of the wanted blocks of a run */
	struct log_record *records;
	const struct log_record **v;
	size_t count;
};

int log_sorted_open(const char *dir, const struct log_seal *seal, size_t i, struct log_sorted **out)
{
	const struct log_seal_segment *g = &seal->segments[i];
	struct log_sorted *s = calloc(1, sizeof(*s));
	char *path = copy_path(dir, g->number, 0);
	uint8_t trailer[LOG_SORTED_TRAILER];
	uint64_t size = 0, offset = 0;
	uint32_t bytes = 0;
	size_t got = 0;
	int err = s && path ? file_open(path, FILE_READ, &s->file) : -ENOMEM;

	if (!err)
		err = file_size(s->file, &size);
	if (!err)
		err = size < sizeof(trailer) ? -EBADMSG
					     : file_pread(s->file, trailer, sizeof(trailer), size - sizeof(trailer), &got);
	if (!err &&
		(got < sizeof(trailer) || !log_sorted_trailer_decode(trailer, &offset, &bytes) || bytes > INDEX_MOST ||
			offset > size || size - offset != bytes + sizeof(trailer)))
		err = -EBADMSG;
	if (!err)
		err = buf_reserve(&s->index_bytes, bytes);
	if (!err)
		err = file_pread(s->file, s->index_bytes.p, bytes, offset, &got);
	if (!err)
		err = got < bytes ? -EBADMSG : log_sorted_index_decode(slice_of(s->index_bytes.p, bytes), &s->index);
	if (!err &&
		(s->index.incarnation != seal->incarnation || s->index.number != g->number || s->index.bytes != offset ||
			s->index.first_lsn != g->first_lsn || s->index.last_lsn != g->last_lsn))
		err = -EBADMSG;
	free(path);
	if (err) {
		log_sorted_close(s);
		return err;
	}
	s->salt = seal->salt;
	*out = s;
	return 0;
}

void log_sorted_close(struct log_sorted *s)
{
	if (!s)
		return;
	file_close(s->file);
	buf_fini(&s->index_bytes);
	buf_fini(&s->bytes);
	free(s->index.blocks);
	free(s->records);
	free(s->v);
	free(s);
}

/* Appends the bytes of block i. */
static int read_block(struct log_sorted *s, size_t i)
{
	const struct log_sorted_index *x = &s->index;
	const uint64_t offset = x->blocks[i].offset, end = i + 1 < x->count ? x->blocks[i + 1].offset : x->bytes;
	size_t got;
	int err = buf_reserve(&s->bytes, (size_t)(end - offset));

	if (!err)
		err = file_pread(s->file, s->bytes.p + s->bytes.n, (size_t)(end - offset), offset, &got);
	if (!err && got < end - offset)
		err = -EBADMSG;
	if (!err)
		s->bytes.n += got;
	return err;
}

/* Decodes the records of s->bytes. */
static int decode_run(struct log_sorted *s)
{
	struct slice left = buf_slice(&s->bytes);

	s->count = 0;
	while (left.n) {
		struct log_frame f;
		size_t total;

		if (array_grow(&s->records, s->count, sizeof(*s->records)))
			return -ENOMEM;
		if (!log_frame_decode(left, s->salt, &f))
			return -EBADMSG;
		total = log_frame_total(&f);
		if (total > left.n ||
			!log_body_decode(&f, slice_of(left.p + LOG_FRAME_BYTES, total - LOG_FRAME_BYTES), &s->records[s->count]))
			return -EBADMSG;
		if (f.lsn < s->index.first_lsn || f.lsn > s->index.last_lsn)
			return -EBADMSG;
		s->count++;
		left = slice_of(left.p + total, left.n - total);
	}
	free(s->v);
	s->v = calloc(s->count + 1, sizeof(*s->v));
	if (!s->v)
		return -ENOMEM;
	for (size_t i = 0; i < s->count; i++)
		s->v[i] = &s->records[i];
	return 0;
}

int log_sorted_read(struct log_sorted *s, log_sorted_wants_fn *wants, log_sorted_run_fn *fn, void *arg)
{
	const struct log_sorted_index *x = &s->index;
	int err = 0;

	for (size_t i = 0, end; i < x->count && !err; i = end) {
		buf_reset(&s->bytes);
		for (end = i; !err && (end == i || (end < x->count && !x->blocks[end].begins_run)); end++) {
			const struct log_sorted_block *b = &x->blocks[end], *next = end + 1 < x->count ? b + 1 : NULL;
			const bool last = !next || next->begins_run;

			if (wants(arg, b->table, b->row, last ? UINT32_MAX : next->table,
				    last ? (struct slice){NULL, 0} : next->row))
				err = read_block(s, end);
		}
		if (!err && s->bytes.n)
			err = decode_run(s);
		if (!err && s->bytes.n)
			err = fn(arg, s->v, s->count);
	}
	if (err == -EBADMSG)
		(void)!file_unlink(file_path(s->file));
	return err;
}
