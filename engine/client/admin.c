/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator asks of a table: its tablets, usage, flush, compaction. */
#include "engine/client/salt.h"

#include <errno.h>
#include <stdlib.h>

/* Calls fn with the answer of method for every tablet of the table, in order. */
static int each_tablet(struct tfs_table *t, enum ts_method method, uint16_t family,
		       int (*fn)(void *arg, const struct ts_tablet *tablet), void *arg)
{
	struct buf row = {0};
	int err = 0;

	for (;;) {
		struct ts_request q = {.method = method, .table = t->id, .row = buf_slice(&row), .family = family};
		struct ts_answer a = {0};
		struct slice end;
		bool more = false;

		err = service_call(t->store->o.tablets, &q, &a);
		/* Of the tablet that was called, whatever has been split or merged since. */
		end = method == TS_TABLET_INFO ? a.tablet.end : a.tablet_end;
		if (!err && fn)
			err = fn(arg, &a.tablet);
		if (!err && end.p) {
			more = true;
			err = buf_set(&row, end.p, end.n);
		}
		ts_answer_fini(&a);
		if (err || !more)
			break;
	}
	buf_fini(&row);
	return err;
}

static int add_usage(void *arg, const struct ts_tablet *t)
{
	struct tfs_usage *u = arg;

	u->disk_bytes += t->disk_bytes;
	u->raw_bytes += t->raw_bytes;
	u->memory_bytes += t->memory_bytes;
	u->cells += t->cells;
	u->tombstones += t->tombstones;
	return 0;
}

int tfs_usage(struct tfs_table *t, const char *family, struct tfs_usage *u)
{
	const struct schema *s = table_schema(t);
	const struct tfs_family *f = family ? tfs_schema_family(schema_public(s), family) : NULL;
	struct tfs_usage sum = {0};
	int err = family && !f ? table_no_family(t) : each_tablet(t, TS_TABLET_INFO, f ? f->id : 0, add_usage, &sum);

	schema_put(s);
	if (!err)
		*u = sum;
	return err;
}

struct tablets_arg {
	int (*fn)(void *arg, const struct tfs_tablet *tablet);
	void *arg;
};

static char *text(struct slice s)
{
	char *p = malloc(s.n + 1);

	if (p) {
		if (s.n)
			memcpy(p, s.p, s.n);
		p[s.n] = 0;
	}
	return p;
}

static int give_tablet(void *arg, const struct ts_tablet *t)
{
	struct tablets_arg *a = arg;
	char *server = text(t->server), *state = text(t->state);
	struct tfs_tablet out = {
		.begin = bytes_of_slice(t->begin),
		.end = bytes_of_slice(t->end),
		.server = server,
		.state = state,
		.bytes = t->disk_bytes + t->memory_bytes,
		.sstables = t->files,
		.usage = {t->disk_bytes, t->raw_bytes, t->memory_bytes, t->cells, t->tombstones},
	};
	int err = server && state ? a->fn(a->arg, &out) : -ENOMEM;

	free(server);
	free(state);
	return err;
}

int tfs_tablets(struct tfs_table *t, int (*fn)(void *arg, const struct tfs_tablet *tablet), void *arg)
{
	struct tablets_arg a = {fn, arg};

	return each_tablet(t, TS_TABLET_INFO, 0, give_tablet, &a);
}

int tfs_flush(struct tfs_table *t)
{
	return each_tablet(t, TS_FLUSH, 0, NULL, NULL);
}

int tfs_compact(struct tfs_table *t)
{
	return each_tablet(t, TS_COMPACT, 0, NULL, NULL);
}

/* The row is a key as it is stored. */
static int at_row(struct tfs_table *t, enum ts_method method, struct tfs_bytes row)
{
	const size_t most = TFS_ROW_MAX + (salt_known(t) ? 1 : 0);
	struct ts_request q = {.method = method, .table = t->id, .row = slice_of_bytes(row)};
	struct ts_answer a = {0};
	int err = row.size <= most ? service_call(t->store->o.tablets, &q, &a) : -EINVAL;

	ts_answer_fini(&a);
	return err;
}

int tfs_split(struct tfs_table *t, struct tfs_bytes row)
{
	return row.size ? at_row(t, TS_SPLIT, row) : -EINVAL;
}

int tfs_merge(struct tfs_table *t, struct tfs_bytes row)
{
	return at_row(t, TS_MERGE, row);
}
