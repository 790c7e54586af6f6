/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports into a table (import.h).  A record is checked when it is read, so
 * that its number is known: the limits of keys and values, the family, and the
 * number that sets a counter (a version of a counter may have any bytes).  A
 * counter is stored without the newline that its file has.  An
 * error of the store comes later, from a thread of the batch.  It is an error
 * of the disk or the space and not of a record, and ends the import.
 */
#include "engine/bulk/import.h"

#include "engine/base/clock.h"
#include "engine/base/counter.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

struct import {
	struct import_options o;
	struct record_reader *reader;
	struct tfs_batch *batch;
	struct import_counts counts;
	struct buf row;                /* the row of the last cell */
	char family[TFS_NAME_MAX + 1]; /* the family of the last record that was allowed, or "" */
	bool counter;                  /* set if `family` is a family of counters */
	int64_t max_age_us;            /* of `family` */
	int64_t begun_us;
	_Atomic int failed;                     /* the first error of the batch */
	_Atomic uint64_t lost_cells, lost_rows; /* cells of `counts` that the store has refused, and their rows */
	struct buf lost_row;                    /* the row of the last one; the batch's, which reports one at a time */
};

static void note_failure(void *arg, struct tfs_bytes row, int err)
{
	struct import *im = arg;
	int none = 0;

	(void)atomic_compare_exchange_strong(&im->failed, &none, err);
	if (!im->lost_cells || !bytes_eq(row, buf_bytes(&im->lost_row)))
		im->lost_rows++;
	im->lost_cells++;
	(void)!buf_set(&im->lost_row, row.p, row.n);
}

static int refuse_record(struct import *im, uint64_t number, int err, const char *reason)
{
	im->counts.refused++;
	return im->o.refused(im->o.arg, number, err, reason);
}

/* Finds the type and the age of im->family.  -ENOENT: the table has no such family. */
static int find_family(struct import *im)
{
	const struct tfs_schema *s;
	const struct tfs_family *f;
	int err = tfs_schema_get(im->o.table, &s);

	if (err)
		return err;
	f = tfs_schema_family(s, im->family);
	if (f) {
		im->counter = f->type == TFS_TYPE_COUNTER;
		im->max_age_us = f->max_age_us;
	}
	tfs_schema_put(s);
	return f ? 0 : -ENOENT;
}

/* Returns 0 if cells may be stored in the record's family. */
static int enter_family(struct import *im, const struct record *r, const char **why)
{
	int err = 0;

	if (bytes_eq(r->family, tfs_str(im->family)))
		return 0;
	memcpy(im->family, r->family.p, r->family.n);
	im->family[r->family.n] = 0;
	if (im->o.family)
		err = im->o.family(im->o.arg, im->family, why);
	if (!err)
		err = find_family(im);
	if (err == -ENOENT && !*why)
		*why = "the table has no such family";
	if (err)
		im->family[0] = 0;
	return err;
}

static int store(struct import *im, const struct record *r, struct tfs_bytes value)
{
	struct tfs_mutation *m = tfs_mutation_new(im->o.table, r->row);
	int err = m ? 0 : -ENOMEM;

	if (!err)
		err = tfs_mutation_put(m, im->family, r->qualifier, r->has_ts ? tfs_at(r->ts) : TFS_AUTO, value);
	if (!err)
		err = tfs_batch_add(im->batch, m);
	tfs_mutation_free(m);
	return err;
}

static int take_cell(void *arg, const struct record *r)
{
	struct import *im = arg;
	struct tfs_bytes value = r->value;
	char text[COUNTER_TEXT_MAX];
	const char *why = NULL;
	int64_t number;
	int err = atomic_load(&im->failed);

	if (err)
		return err;
	err = enter_family(im, r, &why);
	if (err)
		return refuse_record(im, r->number, err, why ? why : "its family");
	if (im->counter && (r->is_file || !r->has_ts)) {
		if (counter_parse(value, &number) == 0)
			value = tfs_bytes_of(text, counter_text(number, text));
		else if (r->has_ts)
			value = counter_file_value(value);
		else
			return refuse_record(im, r->number, 0, "the value of a counter is one decimal number");
	}
	err = store(im, r, value);
	if (err == -EINVAL) { /* the family has just been dropped */
		im->family[0] = 0;
		return refuse_record(im, r->number, -ENOENT, "the table has no such family");
	}
	if (err)
		return err;
	im->counts.cells++;
	im->counts.wrong_units += record_is_in_wrong_unit(r, im->max_age_us, im->begun_us);
	if (im->counts.rows && bytes_eq(r->row, buf_bytes(&im->row)))
		return 0;
	im->counts.rows++;
	return buf_set(&im->row, r->row.p, r->row.n);
}

static int take_schema(void *arg, uint64_t number, struct tfs_bytes text, int64_t mtime_us)
{
	struct import *im = arg;
	const char *why = "the archive contains a schema";
	int err = -EPERM;

	if (im->o.schema) {
		/* The schema may drop the families of cells that wait. */
		err = tfs_batch_flush(im->batch);
		if (err)
			return err;
		err = im->o.schema(im->o.arg, text, mtime_us, &why);
		im->family[0] = 0;
	}
	return err ? refuse_record(im, number, err, why) : 0;
}

static int take_refused(void *arg, uint64_t number, const char *reason)
{
	return refuse_record(arg, number, 0, reason);
}

int import_new(enum bulk_format format, const struct import_options *o, struct import **out)
{
	struct import *im = calloc(1, sizeof(*im));
	int err;

	if (!im)
		return -ENOMEM;
	im->o = *o;
	im->begun_us = clock_system(NULL);
	err = tfs_batch_new(o->table, &(struct tfs_batch_options){.sync = o->sync, .failed = note_failure, .arg = im}, &im->batch);
	if (!err)
		err = record_reader_new(format, &(struct record_sink){im, take_cell, take_schema, take_refused}, &im->reader);
	if (err) {
		import_free(im);
		return err;
	}
	*out = im;
	return 0;
}

int import_feed(struct import *im, const void *p, size_t n)
{
	int err = record_reader_feed(im->reader, p, n);

	im->counts.bytes += n;
	return err ? err : atomic_load(&im->failed);
}

int import_pause(struct import *im)
{
	int err = record_reader_pause(im->reader), flushed = import_stop(im);

	return err ? err : flushed;
}

int import_end(struct import *im)
{
	int err = record_reader_end(im->reader), flushed = import_stop(im);

	return err ? err : flushed;
}

int import_stop(struct import *im)
{
	int flushed = tfs_batch_flush(im->batch);

	return flushed ? flushed : atomic_load(&im->failed);
}

struct import_counts import_counts(const struct import *im)
{
	struct import_counts c = im->counts;

	c.cells -= im->lost_cells < c.cells ? im->lost_cells : c.cells;
	c.rows -= im->lost_rows < c.rows ? im->lost_rows : c.rows;
	return c;
}

void import_free(struct import *im)
{
	if (!im)
		return;
	record_reader_free(im->reader);
	if (im->batch)
		(void)!tfs_batch_close(im->batch);
	buf_fini(&im->row);
	buf_fini(&im->lost_row);
	free(im);
}
