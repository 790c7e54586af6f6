/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TABLE/.import, .import.tsv, .import.jsonl, .import.csv and .import.tar, which take cells
 * (engine/bulk).
 *
 * An import begins, and starts its threads, with the first byte.  A descriptor
 * alone costs little, but the number of a user's descriptors is limited
 * (fs/base/user_count.h).
 *
 * An import stores cells while they are written.  FLUSH waits until all are
 * stored, so each error is reported by write(2) or close(2).  A table that is over
 * its quota refuses the first byte, because a shell ignores the errors of close.  A refused line ends
 * the import: its WRITE and all later WRITEs fail, and the lines before it are
 * stored.
 *
 * The caller's rights are those at open.  The server checks them at each cell, too.
 */
#include "fs/stream/stream.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/bulk/import.h"
#include "fs/base/access.h"
#include "fs/base/dir_time.h"
#include "fs/base/reply.h"
#include "fs/base/user_count.h"
#include "fs/file/cell.h"
#include "fs/file/sequential.h"
#include "fs/node/kinds.h"
#include "fs/node/schema/schema_edit.h"
#include "fs/node/schema/setting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { REASON_BYTES = 340, NOTE_US = 1000000 };

struct importing {
	struct node *node;
	enum bulk_format format;
	struct caller *caller;   /* counted as one with an open import */
	struct tfs_table *table; /* on behalf of the caller */
	struct import *import;   /* NULL: nothing was written yet */
	struct changes *changes; /* the changes of the request that is served */
	uint64_t noted;          /* cells of which the kernel knows */
	uint64_t noted_at_us;
	int err;                   /* the error of a WRITE; sequential.c returns it to later WRITEs */
	char reason[REASON_BYTES]; /* of a line that is refused, or of the store; "": none */
	bool refused;              /* the reason is that of a line */
};

/* Adds the family to a table whose schema is not set yet, as mkdir ROW/FAMILY does. */
static int add_family(struct importing *g, const char *name, const char **why)
{
	const struct tfs_user *user = &g->caller->user;
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_ADD, .name = name, .uid = user->uid, .gid = user->gid, .mode = 0644};
	int err;

	if (!fs_schema_is_open(g->node)) {
		*why = "the table has no such family: mkdir TABLE/.families/FAMILY makes it";
		return -ENOENT;
	}
	if (!fs_owns_table(g->caller, g->node)) {
		*why = "the table has no such family, and only the owner of the table may make it";
		return -EACCES;
	}
	*why = "the family cannot be made";
	err = fs_schema_edit_as(g->node, &e, g->caller, g->changes);
	return err == -EEXIST ? 0 : err;
}

static int check_family(void *arg, const char *name, const char **why)
{
	struct importing *g = arg;
	int err = fs_may_write(g->caller, g->node, name);

	if (err == -ENOENT)
		return add_family(g, name, why);
	if (err == -EACCES)
		*why = "the caller may not write to this family";
	return err;
}

static int set_schema(void *arg, struct tfs_bytes text, int64_t mtime_us, const char **why)
{
	struct importing *g = arg;

	*why = "only the owner of the table may set its schema";
	if (!fs_owns_table(g->caller, g->node))
		return -EACCES;
	*why = "the schema cannot be set";
	return fs_schema_replace_text(g->node, text, mtime_us, g->caller, g->changes);
}

static int note_refused(void *arg, uint64_t number, int err, const char *reason)
{
	struct importing *g = arg;

	snprintf(g->reason, sizeof(g->reason), "%s %llu: %s", g->format == BULK_TAR ? "entry" : "line", (unsigned long long)number,
		reason);
	g->refused = true;
	return err == -EACCES ? err : -EINVAL;
}

/* Frees the members of g. */
static void importing_free(struct importing *g)
{
	import_free(g->import);
	if (g->table)
		tfs_table_close(g->table);
	free(g->caller);
	free(g);
}

static int import_count(struct importing *g)
{
	int64_t r = user_take(USER_IMPORTS, g->caller->user.uid, 1);

	if (r == 0)
		return refuse(-EAGAIN, g->node, NULL, "a user has at most 64 open imports: close one of them first");
	return r < 0 ? (int)r : 0;
}

static enum bulk_format format_of(const char *name)
{
	enum bulk_format f = BULK_TSV;

	while (f < BULK_FORMATS && (strncmp(name, ".import.", 8) != 0 || strcmp(name + 8, bulk_format_names[f]) != 0))
		f++;
	return f == BULK_FORMATS ? BULK_TSV : f;
}

static int import_open(struct sequential *s, int flags)
{
	struct importing *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return -ENOMEM;
	g->node = s->node;
	g->format = format_of(node_name(s->node));
	g->caller = caller_new();
	err = g->caller ? fs_table_as_caller(g->caller, s->node, &g->table) : -ENOMEM;
	if (!err)
		err = import_count(g);
	if (err)
		importing_free(g);
	else
		s->state = g;
	return err;
}

static int import_begin(struct importing *g)
{
	const struct import_options o = {
		.table = g->table, .arg = g, .family = check_family, .schema = set_schema, .refused = note_refused};

	int err = g->import ? 0 : cell_check_room(g->node);

	return g->import || err ? err : import_new(g->format, &o, &g->import);
}

/* Makes the kernel drop its copies of what the import may have changed. */
static void note_changes(struct importing *g, struct changes *c)
{
	uint64_t cells = g->import ? import_counts(g->import).cells : 0;

	g->noted_at_us = monotonic_us();
	if (cells == g->noted)
		return;
	g->noted = cells;
	atomic_fetch_add(&fs.changes, 1);
	table_new_epoch(node_table(g->node));
	dir_time_raise_table(node_table(g->node));
	changes_table(c, node_table(g->node));
}

/* Notes why the store refused, before its reason is forgotten.  Returns err. */
static int note_failed(struct importing *g, int err)
{
	if (err && !*g->reason)
		snprintf(g->reason, sizeof(g->reason), "%s", tfs_error(fs.store));
	return err;
}

/* Returns err, the result of a call of the import, as the result for the caller.  A refusal is logged. */
static int import_result(struct importing *g, int err)
{
	if (!err || !*g->reason || !g->import)
		return err;
	if (g->refused)
		err = err == -EACCES ? err : -EINVAL;
	return refuse(err, g->node, NULL, "%s; %llu" IMPORT_STORED, g->reason, (unsigned long long)import_counts(g->import).cells);
}

static int import_write(struct sequential *s, const void *p, size_t n, struct changes *c)
{
	struct importing *g = s->state;

	g->changes = c;
	g->err = import_begin(g);
	if (!g->err)
		g->err = import_feed(g->import, p, n);
	if (g->err && g->import) {
		(void)!import_stop(g->import); /* the lines before it are stored */
		(void)note_failed(g, g->err);
	}
	if (g->err || monotonic_us() - g->noted_at_us >= NOTE_US)
		note_changes(g, c);
	return import_result(g, g->err);
}

static int import_flush(struct sequential *s, struct changes *c)
{
	struct importing *g = s->state;
	int err;

	if (g->err || !g->import) /* a WRITE has returned the error, or there was none */
		return 0;
	g->changes = c;
	err = note_failed(g, import_pause(g->import));
	note_changes(g, c);
	err = import_result(g, err);
	*g->reason = 0; /* a line or archive that is not whole may be continued */
	g->refused = false;
	return err;
}

static void import_close(struct sequential *s, struct changes *c)
{
	struct importing *g = s->state;

	const uint64_t wrong = g->import ? import_counts(g->import).wrong_units : 0;
	char path[REASON_BYTES];

	if (wrong)
		msg_warning(
			"%s: " RECORDS_IN_WRONG_UNIT, node_describe(g->node, NULL, path, sizeof(path)), (unsigned long long)wrong);
	note_changes(g, c);
	user_give(USER_IMPORTS, g->caller->user.uid, 1);
	importing_free(g);
}

static int import_attr(struct node *n, struct stat *st, double *timeout)
{
	return stream_attr(n, 0222, fs_now_us(), st);
}

static const struct sequential_ops import_sequential = {
	.open = import_open, .write = import_write, .flush = import_flush, .close = import_close};

const struct node_ops import_ops = {
	.traits = KIND_UNCACHED | KIND_NAMED,
	.attr = import_attr,
	.exists = stream_exists,
	.unlink = stream_unlink,
	.rename = setting_rename,
	.sequential = &import_sequential,
};
