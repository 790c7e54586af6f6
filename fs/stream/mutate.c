/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ROW/.mutate: a mutation of the row as lines (engine/bulk/mutation_lines.h).
 *
 * The WRITE that contains `commit` applies it, because shells ignore the errors
 * of close.  After a refusal sequential.c returns the same error to every later
 * write through the descriptor: the kernel splits long writes, and a program
 * sends the rest again.
 *
 * The lines of all descriptors together use at most MUTATE_MEMORY_ALL, and the
 * lines of one user at most half of it.
 */
#include "fs/base/access.h"
#include "fs/base/reply.h"
#include "fs/base/user_count.h"
#include "fs/file/cell.h"
#include "fs/file/sequential.h"
#include "fs/node/help.h"
#include "fs/node/kinds.h"
#include "fs/stream/stream.h"

#include "engine/base/msg.h"
#include "engine/bulk/mutation_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#define MUTATE_MEMORY_ALL (2 * MUTATION_LINES_MAX)

static _Atomic uint64_t memory_all;

/* The state of a descriptor. */
struct mutate {
	struct tfs_table *table; /* on behalf of the user who opened it */
	struct mutation_lines lines;
	uid_t uid;        /* the id of that user */
	uint64_t counted; /* bytes counted in memory_all and for the user */
	bool applied;
	size_t read; /* how much of the answer was read */
};

static int mutate_open(struct sequential *s, int flags)
{
	struct mutate *w = calloc(1, sizeof(*w));
	int err = w ? fs_table_as_asker(s->node, &w->table) : -ENOMEM;

	if (err) {
		free(w);
		return err;
	}
	w->uid = fs_asker_uid();
	s->state = w;
	/* A descriptor for reading only has no other answer. */
	return (flags & O_ACCMODE) == O_RDONLY ? help_append_mutate(&w->lines.answer) : 0;
}

static void mutate_close(struct sequential *s, struct changes *c)
{
	struct mutate *w = s->state;
	char path[512];

	if (w->lines.bytes && !w->applied && !s->write_error)
		msg_warning("%s: it was closed without a line commit: nothing is applied",
			node_describe(s->node, NULL, path, sizeof(path)));
	atomic_fetch_sub(&memory_all, w->counted);
	user_give(USER_MUTATIONS, w->uid, w->counted);
	mutation_lines_fini(&w->lines);
	tfs_table_close(w->table);
	free(w);
}

static int mutate_read(struct sequential *s, void *buf, size_t n, size_t *got)
{
	struct mutate *w = s->state;
	const size_t left = w->lines.answer.n - w->read;

	*got = n < left ? n : left;
	if (*got)
		memcpy(buf, w->lines.answer.p + w->read, *got);
	w->read += *got;
	return 0;
}

static int mutate_seek(struct sequential *s, uint64_t at)
{
	struct mutate *w = s->state;

	if (at > w->lines.answer.n)
		return -ESPIPE;
	w->read = (size_t)at;
	return 0;
}

/* Counts the memory of the lines.  They use more than their text for a moment only. */
static int mutate_count(struct mutate *w)
{
	const uint64_t more = w->lines.bytes - w->counted;

	if (!more)
		return 0;
	if (user_take(USER_MUTATIONS, w->uid, more) <= 0)
		return -ENOMEM;
	w->counted += more;
	return atomic_fetch_add(&memory_all, more) + more > MUTATE_MEMORY_ALL ? -ENOMEM : 0;
}

static int mutate_write(struct sequential *s, const void *p, size_t n, struct changes *c)
{
	struct mutate *w = s->state;
	struct tfs_bytes reason;
	int err = mutation_lines_add(&w->lines, w->table, tfs_bytes_of(p, n));

	if (!err)
		err = mutate_count(w);
	if (!err && w->lines.complete && !w->applied) {
		w->applied = true;
		err = mutation_lines_answer(&w->lines, row_change(s->node->parent, w->table, &w->lines, 0, c));
	}
	w->read = 0;
	reason = mutation_lines_reason(&w->lines);
	return err && reason.n ? refuse(err, s->node, NULL, "%.*s", (int)reason.n, (const char *)reason.p) : err;
}

static const struct sequential_ops mutate_sequential = {
	.open = mutate_open,
	.read = mutate_read,
	.seek = mutate_seek,
	.write = mutate_write,
	.close = mutate_close,
};

int row_control_stat(struct node *n, uint64_t size, int64_t us, struct stat *st)
{
	struct family_info owner = {.mode = 0666, .uid = fs.uid, .gid = fs.gid};
	const struct tfs_schema *schema;
	int err = tfs_schema_get(node_store_table(n), &schema);

	if (err)
		return err;
	owner.uid = schema->uid;
	owner.gid = schema->gid;
	tfs_schema_put(schema);
	cell_attr(n, &owner, us, us, size, st);
	return 0;
}

static int mutate_attr(struct node *n, struct stat *st, double *timeout)
{
	return row_control_stat(n, 0, 0, st);
}

static int mutate_exists(struct node *n)
{
	return fs.no_open ? refuse(-EROFS, n, NULL, "the mount is read-only") : 0;
}

int row_control_unlink(struct node *dir, struct resolved *r, struct changes *c)
{
	return refuse(-EPERM, dir, kind_ops(r->kind)->fixed_name, "control files cannot be removed");
}

int row_control_rename(struct renaming *m)
{
	return refuse(-EPERM, m->dir, m->name, "control names cannot be renamed");
}

const struct node_ops mutate_ops = {
	.traits = KIND_UNCACHED,
	.fixed_name = ".mutate",
	.attr = mutate_attr,
	.exists = mutate_exists,
	.unlink = row_control_unlink,
	.rename = row_control_rename,
	.sequential = &mutate_sequential,
};
