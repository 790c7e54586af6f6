/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scan as an archive of tar (tar_stream.h).  In front of each cell are the
 * directories of its path that the previous cell's path lacks.  An entry that
 * was begun is continued by the next call, so a call adds at most one piece of
 * a value more than the caller asked for.
 */
#include "engine/bulk/tar_stream.h"

#include "engine/bulk/tar_format.h"
#include "engine/bulk/tree_path.h"
#include "engine/bulk/value.h"

#include <errno.h>
#include <stdlib.h>

struct tar_stream {
	struct tfs_table *table;
	struct tfs_scan *scan;
	const struct tfs_schema *schema;
	struct tfs_cell cell;
	struct value value; /* the value of `cell` */
	bool begun;         /* the root and the schema are written */
	bool within;        /* a large value is being written, and `at` bytes of it are done */
	uint64_t at;
	struct buf path, last; /* the paths of this cell and of the previous cell, with "./" */
	size_t row_end;        /* the index in path of the '/' after the row */
	uint64_t bytes;
	int result; /* 1 if the stream continues, 0 at the end, -errno */
};

int tar_stream_new(struct tfs_table *t, struct tfs_scan *scan, struct tar_stream **out)
{
	struct tar_stream *s = calloc(1, sizeof(*s));
	int err = s ? tfs_schema_get(t, &s->schema) : -ENOMEM;

	if (err) {
		tfs_scan_free(scan);
		free(s);
		return err;
	}
	s->table = t;
	s->scan = scan;
	s->result = 1;
	*out = s;
	return 0;
}

void tar_stream_free(struct tar_stream *s)
{
	if (!s)
		return;
	tfs_scan_free(s->scan);
	tfs_schema_put(s->schema);
	value_fini(&s->value);
	buf_fini(&s->path);
	buf_fini(&s->last);
	free(s);
}

/* ---- headers ---- */

static int append_root(struct tar_stream *s, struct buf *out)
{
	const struct tfs_schema *schema = s->schema;
	struct tar_entry e = {.path = tfs_str("./"), .is_dir = true, .mode = schema->mode, .uid = schema->uid, .gid = schema->gid};
	int err = tar_append_header(out, &e);

	if (err || !schema->is_set || schema->is_hidden)
		return err;
	e = (struct tar_entry){.path = tfs_str("./.schema"),
		.mode = 0644,
		.uid = schema->uid,
		.gid = schema->gid,
		.size = schema->text_size,
		.mtime_us = schema->mtime_us};
	err = tar_append_header(out, &e);
	if (!err)
		err = buf_append(out, schema->text, schema->text_size);
	return err ? err : tar_append_padding(out, schema->text_size);
}

/* A user who may read a family's files may search its directory, as in the tree. */
static mode_t directory_mode(mode_t mode)
{
	return mode | (mode & 0444) >> 2;
}

/* Appends the directories of path that are not in the last path. */
static int append_directories(struct tar_stream *s, const struct tfs_family *f, struct buf *out)
{
	size_t same = 0;
	int err = 0;

	while (same < s->path.n && same < s->last.n && s->path.p[same] == s->last.p[same])
		same++;
	for (size_t i = same > 2 ? same : 2; i < s->path.n && !err; i++) {
		bool row = i <= s->row_end;

		if (s->path.p[i] != '/')
			continue;
		err = tar_append_header(out,
			&(struct tar_entry){.path = tfs_bytes_of(s->path.p, i + 1),
				.is_dir = true,
				.mode = row ? s->schema->mode : directory_mode(f->mode),
				.uid = row ? s->schema->uid : f->uid,
				.gid = row ? s->schema->gid : f->gid});
	}
	return err;
}

/* A family that was made after the stream began is not in its schema. */
static const struct tfs_family *family_of(struct tar_stream *s)
{
	const struct tfs_family *f = tfs_schema_family(s->schema, s->cell.family);
	const struct tfs_schema *newer;

	if (f || tfs_schema_get(s->table, &newer))
		return f;
	tfs_schema_put(s->schema);
	s->schema = newer;
	return tfs_schema_family(newer, s->cell.family);
}

/* Appends the header of the cell.  size: the size of its value. */
static int append_cell(struct tar_stream *s, uint64_t size, struct buf *out)
{
	const struct tfs_cell *c = &s->cell;
	const struct tfs_family *f = family_of(s);
	struct buf swap = s->last;
	int err;

	if (!f)
		return -ESTALE;
	s->last = s->path;
	s->path = swap;
	buf_reset(&s->path);
	err = buf_append(&s->path, "./", 2);
	if (!err)
		err = tree_path_append(c->row, c->family, c->qualifier, c->ts, &s->path, &s->row_end);
	if (!err)
		err = append_directories(s, f, out);
	return err ? err
		   : tar_append_header(out,
			     &(struct tar_entry){.path = buf_bytes(&s->path),
				     .mode = f->mode & 0777,
				     .uid = f->uid,
				     .gid = f->gid,
				     .size = size,
				     .mtime_us = c->ts});
}

/* ---- the stream ---- */

static int begin_large(struct tar_stream *s, struct buf *out)
{
	int err = value_begin(&s->value, s->table, &s->cell);

	if (err == -ENOENT)
		return 0;
	if (!err)
		err = append_cell(s, s->value.size, out);
	s->within = !err;
	s->at = 0;
	return err;
}

static int end_archive(struct tar_stream *s, int result, struct buf *out)
{
	int err = result ? result : tar_append_end(out, s->bytes);

	s->result = err;
	return err;
}

static int next_cell(struct tar_stream *s, struct buf *out)
{
	const struct tfs_bytes *value = &s->cell.value;
	int err = tfs_scan_next(s->scan, &s->cell);

	if (err == -EINTR) /* the next call continues */
		return err;
	if (err <= 0)
		return end_archive(s, err, out);
	if (!value->p && s->cell.size)
		return begin_large(s, out);
	err = append_cell(s, value->n, out);
	if (!err)
		err = buf_append(out, value->p, value->n);
	return err ? err : tar_append_padding(out, value->n);
}

static int next_piece(struct tar_stream *s, struct buf *out)
{
	struct tfs_bytes piece = {0};
	int err = s->at < s->value.size ? value_read(&s->value, s->at, &piece) : 0;

	if (!err)
		err = buf_append_bytes(out, piece);
	if (err)
		return err;
	s->at += piece.n;
	if (s->at < s->value.size)
		return 0;
	s->within = false;
	return tar_append_padding(out, s->value.size);
}

int tar_stream_read(struct tar_stream *s, size_t enough, struct buf *out)
{
	while (s->result > 0 && out->n < enough) {
		size_t before = out->n;
		int err = s->within ? next_piece(s, out) : s->begun ? next_cell(s, out) : append_root(s, out);

		s->begun = true;
		s->bytes += out->n - before;
		if (err == -EINTR)
			return err;
		if (err)
			s->result = err;
	}
	return s->result;
}
