/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts a segment, and returns the records of some rows.
 *
 * A record is encoded as in a segment, with the log's salt, so its reader at another
 * server checks it as if it had read the segment.  The index has the first row of each
 * block of about BLOCK_BYTES.  A reader skips the blocks without rows of its tablets.
 *
 * Rejected: sorted copies in the shared storage.  They write and read all data of the
 * log once more over the network, and a segment is sorted again in less time than that.
 */
#include "engine/log/log_sorted.h"

#include "engine/base/file.h"
#include "engine/log/log_format.h"
#include "engine/log/log_sort.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCK_BYTES (16u << 10)
#define WRITE_BYTES (1u << 20)

struct block {
	uint64_t offset; /* the place of the first record */
	struct tfs_bytes row;
	uint32_t table;
	bool begins_run;
};

struct log_sorted {
	struct file *file; /* without a name; NULL: all is in `bytes` */
	struct buf bytes;  /* the encoded records; with a file, only the records that are not yet written */
	uint64_t written;
	struct block *blocks; /* of rising offsets, the first at 0 */
	size_t count;
	struct arena rows; /* memory of the rows of the blocks */
	uint64_t salt;
	struct log_stretch *run; /* the run that is being filled */
};

/* ---- writing ---- */
static int open_unnamed(const char *dir, struct file **out)
{
	char *path;
	int err;

	if (asprintf(&path, "%s/tabletfs-sort.%ld.%p", dir, (long)getpid(), (void *)out) < 0)
		return -ENOMEM;
	err = file_open(path, FILE_CREATE, out);
	if (!err)
		err = file_unlink(path);
	free(path);
	return err;
}

static void write_out(struct log_sorted *s)
{
	if (!s->file || file_pwrite(s->file, s->bytes.p, s->bytes.n, s->written))
		return; /* the rest stays in memory */
	s->written += s->bytes.n;
	buf_reset(&s->bytes);
}

static int add_block(struct log_sorted *s, const struct log_record *r, bool begins_run)
{
	struct block *b;

	if (array_grow(&s->blocks, s->count, sizeof(*s->blocks)))
		return -ENOMEM;
	b = &s->blocks[s->count];
	*b = (struct block){.offset = s->written + s->bytes.n, .table = r->table, .begins_run = begins_run};
	if (!arena_dup(&s->rows, r->row_from, &b->row))
		return -ENOMEM;
	s->count++;
	return 0;
}

static int add_record(struct log_sorted *s, const struct log_record *r)
{
	struct log_frame f = {.lsn = r->lsn, .durable = r->lsn - 1, .table = r->table, .kind = LOG_DATA};
	uint8_t *p;

	if (!log_body_bytes(r, &f.body_bytes))
		return -EINVAL;
	if (buf_reserve(&s->bytes, log_frame_total(&f)))
		return -ENOMEM;
	p = s->bytes.p + s->bytes.n;
	f.body_crc = log_body_encode(p + LOG_FRAME_BYTES, f.body_bytes, r);
	log_frame_encode(p, &f, s->salt);
	s->bytes.n += log_frame_total(&f);
	if (s->bytes.n >= WRITE_BYTES)
		write_out(s);
	return 0;
}

static int end_run(struct log_sorted *s)
{
	const struct log_record *const *v;
	size_t count;
	int err = 0;

	log_stretch_sort(s->run);
	v = log_stretch_records(s->run, &count);
	for (size_t i = 0; i < count && !err; i++) {
		if (!i || s->written + s->bytes.n - s->blocks[s->count - 1].offset >= BLOCK_BYTES)
			err = add_block(s, v[i], !i);
		if (!err)
			err = add_record(s, v[i]);
	}
	log_stretch_clear(s->run);
	return err;
}

static int add(void *arg, const struct log_record *r)
{
	struct log_sorted *s = arg;
	int err = log_stretch_add(s->run, r);

	if (err == -ENOSPC) {
		err = end_run(s);
		if (!err)
			err = log_stretch_add(s->run, r);
	}
	return err;
}

int log_sort_segment(const char *dir, const struct log_seal *seal, size_t i, size_t run_bytes, const char *tmp_dir,
	struct log_sorted **out, char **why)
{
	const struct log_seal_segment *g = &seal->segments[i];
	const struct log_seal one = {
		.incarnation = seal->incarnation, .salt = seal->salt, .segments = &seal->segments[i], .count = 1};
	struct log_sorted *s = calloc(1, sizeof(*s));
	struct log_end end;
	int err = s ? log_stretch_new(run_bytes, &s->run) : -ENOMEM;

	*why = NULL;
	if (!err) {
		s->salt = seal->salt;
		if (!tmp_dir || open_unnamed(tmp_dir, &s->file))
			err = buf_reserve(&s->bytes, g->end);
	}
	if (!err)
		err = log_replay_sealed(dir, &one, g->first_lsn, add, s, &end, why);
	if (!err)
		err = end_run(s);
	if (err) {
		log_sorted_free(s);
		return err;
	}
	write_out(s);
	log_stretch_free(s->run);
	s->run = NULL;
	*out = s;
	return 0;
}

void log_sorted_free(struct log_sorted *s)
{
	if (!s)
		return;
	file_close(s->file);
	log_stretch_free(s->run);
	buf_fini(&s->bytes);
	arena_fini(&s->rows);
	free(s->blocks);
	free(s);
}

size_t log_sorted_memory(const struct log_sorted *s)
{
	return s->bytes.cap;
}

/* ---- reading ---- */
static uint64_t block_end(const struct log_sorted *s, size_t i)
{
	return i + 1 < s->count ? s->blocks[i + 1].offset : s->written + s->bytes.n;
}

static int append_block(const struct log_sorted *s, size_t i, struct buf *out)
{
	const uint64_t offset = s->blocks[i].offset;
	size_t n = (size_t)(block_end(s, i) - offset), in_file, got = 0;
	int err = buf_reserve(out, n);

	in_file = offset >= s->written ? 0 : s->written - offset < n ? (size_t)(s->written - offset) : n;
	if (!err && in_file)
		err = file_pread(s->file, out->p + out->n, in_file, offset, &got);
	if (!err && got < in_file)
		err = -EIO;
	if (err)
		return err;
	if (n > in_file)
		memcpy(out->p + out->n + in_file, s->bytes.p + (offset + in_file - s->written), n - in_file);
	out->n += n;
	return 0;
}

/* Returns the block at this offset; s->count: there is none. */
static size_t find_block(const struct log_sorted *s, uint64_t offset)
{
	size_t lo = 0, hi = s->count;

	while (lo < hi) {
		const size_t mid = lo + (hi - lo) / 2;

		if (s->blocks[mid].offset < offset)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < s->count && s->blocks[lo].offset == offset ? lo : s->count;
}

int log_sorted_read(const struct log_sorted *s, size_t bytes, log_sorted_wants_fn *wants, void *arg, uint64_t *place,
	bool *run_ended, struct buf *out)
{
	const size_t first = find_block(s, *place), from = out->n;
	int err = first == s->count && *place ? -EINVAL : 0;
	size_t i;

	*run_ended = false;
	for (i = first; i < s->count && !err; i++) {
		const struct block *b = &s->blocks[i], *next = i + 1 < s->count && !b[1].begins_run ? b + 1 : NULL;

		*run_ended = b->begins_run && out->n > from;
		if (*run_ended)
			break;
		if (!wants(arg, b->table, b->row, next ? next->table : UINT32_MAX, next ? next->row : (struct tfs_bytes){NULL, 0}))
			continue;
		if (out->n - from >= bytes)
			break;
		err = append_block(s, i, out);
	}
	if (!err) {
		*place = i < s->count ? s->blocks[i].offset : 0;
		*run_ended |= i == s->count;
	}
	return err;
}

int log_sorted_decode(const struct log_seal *seal, size_t i, struct tfs_bytes in, log_replay_fn *fn, void *arg)
{
	const struct log_seal_segment *g = &seal->segments[i];
	int err = 0;

	while (in.n && !err) {
		struct log_record r;
		struct log_frame f;
		size_t total;

		if (!log_frame_decode(in, seal->salt, &f))
			return -EBADMSG;
		total = log_frame_total(&f);
		if (total > in.n || f.lsn < g->first_lsn || f.lsn > g->last_lsn ||
			!log_body_decode(&f, tfs_bytes_of(in.p + LOG_FRAME_BYTES, total - LOG_FRAME_BYTES), &r))
			return -EBADMSG;
		err = fn(arg, &r);
		in = tfs_bytes_of(in.p + total, in.n - total);
	}
	return err;
}
