/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files below .run of a scan: NAME and NAME.jsonl run the table's script NAME over the
 * cells of the scan.  The first read begins the run, with the script as it was when the file
 * was opened.  A read returns the outputs as they come (engine/bulk/outputs.h).
 */
#include "fs/stream/stream.h"

#include "engine/base/name.h"
#include "engine/bulk/outputs.h"
#include "fs/base/access.h"
#include "fs/base/reply.h"
#include "fs/base/user_count.h"
#include "fs/file/cell.h"
#include "fs/file/sequential.h"
#include "fs/node/kinds.h"
#include "fs/node/source.h"

#include <errno.h>
#include <stdlib.h>

struct run_state {
	struct tfs_table *table;         /* on behalf of the user */
	const struct tfs_schema *schema; /* has the script */
	struct clauses clauses;
	const char **args;
	unsigned arg_count;
	uid_t uid; /* the user who is charged */
	bool is_counted;
	struct tfs_run *run; /* NULL: not begun, or ended */
	struct unread out;
	enum line_format format;
	bool ended;
};

/* Adds the arguments of the directories from dir up.  *scan becomes the first directory that is none of them. */
static int add_arguments(struct run_state *st, struct node *dir, struct node **scan)
{
	for (; dir->kind == NODE_RUN; dir = dir->parent) {
		struct buf text = {0};
		char *arg;

		if (!dir->key_n)
			continue;
		/* A zero byte would end the argument. */
		if (name_decode_text(node_key(dir), &text) || (text.n && memchr(text.p, 0, text.n)) ||
			array_grow(&st->args, st->arg_count, sizeof(*st->args))) {
			buf_fini(&text);
			return -EINVAL;
		}
		arg = text.n > 4 ? strndup((const char *)text.p + 4, text.n - 4) : NULL;
		buf_fini(&text);
		if (!arg)
			return -ENOMEM;
		st->args[st->arg_count++] = arg;
	}
	*scan = dir;
	return 0;
}

static const struct tfs_script *find_script(const struct sequential *s)
{
	const struct run_state *st = s->state;
	const struct tfs_bytes name = run_script_name(node_key(s->node));
	char text[TFS_SCRIPT_NAME_MAX + 1] = "";

	memcpy(text, name.p, name.n < sizeof(text) ? name.n : sizeof(text) - 1);
	return tfs_schema_script(st->schema, text);
}

static int begin(struct sequential *s)
{
	struct run_state *st = s->state;
	const struct tfs_arguments args = {st->args, st->arg_count};
	struct tfs_scan_spec spec = st->clauses.spec;

	spec.stop = fs_is_interrupted;
	return tfs_run_new(st->table, find_script(s), &args, &spec, &st->run);
}

static void end(struct run_state *st)
{
	tfs_run_free(st->run);
	st->run = NULL;
	unread_reset(&st->out);
	st->ended = false;
}

static void run_close(struct sequential *s, struct changes *c)
{
	struct run_state *st = s->state;

	end(st);
	if (st->is_counted)
		user_give(USER_RUNS, st->uid, 1);
	if (st->table)
		tfs_table_close(st->table);
	if (st->schema)
		tfs_schema_put(st->schema);
	for (unsigned i = 0; i < st->arg_count; i++)
		free((char *)(uintptr_t)st->args[i]);
	free(st->args);
	clauses_fini(&st->clauses);
	buf_fini(&st->out.text);
	free(st);
}

static int run_count(struct sequential *s)
{
	struct run_state *st = s->state;
	int64_t r;

	st->uid = fs_asker_uid();
	r = user_take(USER_RUNS, st->uid, 1);
	st->is_counted = r > 0;
	if (r == 0)
		return refuse(-EAGAIN, s->node, NULL, "a user has at most 4 open runs of scripts: close one of them first");
	return r < 0 ? (int)r : 0;
}

static int run_open(struct sequential *s, int flags)
{
	struct run_state *st = calloc(1, sizeof(*st));
	struct node *scan;
	int err;

	if (!st)
		return -ENOMEM;
	s->state = st;
	err = run_count(s);
	if (err == 0)
		err = add_arguments(st, s->node->parent, &scan);
	if (err == 0)
		err = scan_clauses(scan, NULL, fs_now_us(), &st->clauses);
	if (err == 0)
		err = fs_table_as_asker(s->node, &st->table);
	if (err == 0)
		err = tfs_schema_get(st->table, &st->schema);
	if (err == 0 && st->clauses.partial)
		err = -ENOENT;
	if (err == 0 && !find_script(s))
		err = -ENOENT;
	if (err == 0 && st->clauses.spec.reverse)
		err = refuse(-EINVAL, s->node, NULL, "a run has no order of rows, so no reverse=");
	if (err)
		run_close(s, NULL);
	else
		st->format = run_script_name(node_key(s->node)).n == s->node->key_n ? LINE_TSV : LINE_JSON;
	return err;
}

static int run_seek(struct sequential *s, uint64_t at)
{
	struct run_state *st = s->state;

	if (at)
		return unread_seek(&st->out, at) ? 0 : -ESPIPE;
	end(st);
	return 0;
}

static int run_read(struct sequential *s, void *buf, size_t n, size_t *got)
{
	struct run_state *st = s->state;
	int r = 0;

	unread_trim(&st->out, n);
	if (!st->run && !st->ended && (r = begin(s)))
		return r;
	if (!st->ended)
		r = outputs_read(st->run, st->format, st->out.at + n, &st->out.text);
	if (!st->ended && r == 0) {
		st->ended = true;
		tfs_run_free(st->run);
		st->run = NULL;
	}
	*got = unread_take(&st->out, buf, n);
	if (r >= 0 || *got || r == -EINTR)
		return r < 0 && *got == 0 ? r : 0;
	return *tfs_run_error(st->run) ? refuse(r, s->node, NULL, "%s", tfs_run_error(st->run)) : r;
}

static const struct sequential_ops run_ops_of_file = {
	.open = run_open,
	.read = run_read,
	.seek = run_seek,
	.close = run_close,
};

static int run_stream_attr(struct node *n, struct stat *st, double *timeout)
{
	return stream_attr(n, 0444, fs_now_us(), st);
}

const struct node_ops run_stream_ops = {
	.traits = KIND_UNCACHED | KIND_SCAN,
	.attr = run_stream_attr,
	.exists = stream_exists,
	.sequential = &run_ops_of_file,
};
