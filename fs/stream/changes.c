/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TABLE/.changes/from=PLACE: the changes of a table behind a place (engine/bulk/feed.h).  .tsv and .jsonl list the changes that
 * were committed before the file was opened.  .follow and .follow.jsonl do not end: a read waits for the next
 * change.  Meanwhile it has no thread (fs/file/sequential.h).
 *
 * A directory exists whatever its place is, because only the server can check a token.  The open of a stream does that.
 */
#include "fs/stream/stream.h"

#include "engine/base/name.h"
#include "engine/bulk/feed.h"
#include "fs/base/access.h"
#include "fs/base/reply.h"
#include "fs/base/user_count.h"
#include "fs/file/cell.h"
#include "fs/file/sequential.h"
#include "fs/node/kinds.h"
#include "fs/node/list.h"
#include "fs/node/schema/setting.h"
#include "fs/node/tree.h"

#include <errno.h>
#include <stdlib.h>

#define FROM "from="
enum { LINES_FREE = 1 << 20 }; /* lines of an open file that are not counted */

/* ---- the directories ---- */

static int changes_name(struct node *n, struct buf *out)
{
	return n->key_n ? buf_append_bytes(out, node_key(n)) : buf_append(out, ".changes", 8);
}

static int changes_resolve(struct node *dir, const char *name, struct resolved *out)
{
	if (dir->key_n)
		return -ENOENT;
	if (strncmp(name, FROM, strlen(FROM)) != 0)
		return name[0] == '.' ? -ENOENT
				      : refuse(-EINVAL, dir, name, "a place is from=start, from=now, from=TIME or from=TOKEN");
	out->kind = NODE_CHANGES;
	out->parent = dir;
	return buf_set(&out->key, name, strlen(name));
}

/* The streams are those of the directories of places. */
static int changes_stream_exists(struct node *n)
{
	return n->parent->key_n ? stream_exists(n) : -ENOENT;
}

static const struct fixed_child changes_children[] = {{".tsv", NODE_CHANGES_STREAM}, {".jsonl", NODE_CHANGES_STREAM},
	{".follow", NODE_CHANGES_STREAM}, {".follow.jsonl", NODE_CHANGES_STREAM}, {0}};

const struct node_ops changes_ops = {
	.traits = KIND_DIR | KIND_UNCACHED,
	.name = changes_name,
	.attr = tree_attr,
	.children = changes_children,
	.names = "from=start, from=now, from=TIME or from=TOKEN",
	.resolve = changes_resolve,
	.list = (const list_phase_fn[]){NULL},
	.rename = setting_rename,
};

/* ---- the streams ---- */

struct changes_state {
	struct tfs_table *table; /* on behalf of the user */
	struct tfs_feed *feed;
	struct unread out;
	enum line_format format;
	uid_t uid;        /* the user who is charged */
	uint64_t counted; /* for so many bytes of lines */
	int failed;       /* a change could not be made a line, so no later one must be */
	bool follows, is_counted, ended;
};

static void changes_drop_lines(struct changes_state *st)
{
	user_give(USER_FEED_BYTES, st->uid, st->counted);
	st->counted = 0;
	buf_fini(&st->out.text);
	st->out = (struct unread){.begin = st->out.begin + st->out.at};
}

static void changes_close(struct sequential *s, struct changes *c)
{
	struct changes_state *st = s->state;

	tfs_feed_free(st->feed);
	if (st->table)
		tfs_table_close(st->table);
	if (st->is_counted)
		user_give(USER_FEEDS, st->uid, 1);
	changes_drop_lines(st);
	free(st);
}

static int changes_count(struct sequential *s)
{
	struct changes_state *st = s->state;
	int64_t r;

	st->uid = fs_asker_uid();
	r = user_take(USER_FEEDS, st->uid, 1);
	st->is_counted = r > 0;
	return r == 0   ? refuse(-EAGAIN, s->node, NULL, "a user has at most 512 open lists of changes: close one of them first")
		: r < 0 ? (int)r
			: 0;
}

/* Begins the feed, again if there is one.  After an error the old one is kept, because a read that waits is ended by it. */
static int changes_begin(struct sequential *s)
{
	struct changes_state *st = s->state;
	const char *from = (const char *)s->node->parent->key + strlen(FROM), *why = NULL;
	struct tfs_feed *feed;
	int err = feed_open(st->table, from, fs_now_us(), &feed, &why);

	if (err)
		return why ? refuse(err, s->node, NULL, "%s", why) : err;
	tfs_feed_free(st->feed);
	st->feed = feed;
	changes_drop_lines(st);
	st->out.begin = 0;
	st->failed = 0;
	st->ended = false;
	return 0;
}

static int changes_seek(struct sequential *s, uint64_t at)
{
	struct changes_state *st = s->state;

	return !at ? changes_begin(s) : unread_seek(&st->out, at) ? 0 : -ESPIPE;
}

static int changes_open(struct sequential *s, int flags)
{
	struct changes_state *st = calloc(1, sizeof(*st));
	const char *name = node_name(s->node);
	int err;

	if (!st)
		return -ENOMEM;
	s->state = st;
	st->follows = strncmp(name, ".follow", 7) == 0;
	st->format = strcmp(name + strlen(name) - 6, ".jsonl") == 0 ? LINE_JSON : LINE_TSV;
	err = changes_count(s);
	if (err == 0)
		err = fs_table_as_asker(s->node, &st->table);
	if (err == 0)
		err = changes_begin(s);
	if (err)
		changes_close(s, NULL);
	return err;
}

/* Adds the line of a change, and counts long lines. */
static int changes_add(struct changes_state *st, const struct tfs_feed_change *change)
{
	struct buf *text = &st->out.text;
	const size_t before = text->n;
	int err = feed_line(st->format, change, text);

	if (!err && text->n > LINES_FREE && text->n > st->counted) {
		err = user_take(USER_FEED_BYTES, st->uid, text->n - st->counted) > 0 ? 0 : -ENOMEM;
		st->counted = err ? st->counted : text->n;
	}
	if (err)
		text->n = before;
	return err;
}

/* A reader that follows gets the lines that are there before the servers are asked for more. */
static bool changes_wait(struct changes_state *st)
{
	return st->follows && st->out.text.n > st->out.at && !tfs_feed_at_hand(st->feed);
}

/* Adds lines until there are enough bytes, or no change is there. */
static int changes_fill(struct changes_state *st, size_t enough)
{
	struct tfs_feed_change change;
	int r = st->failed;

	while (!r && !st->ended && st->out.text.n < enough && !changes_wait(st) && (r = tfs_feed_next(st->feed, &change)) > 0) {
		st->ended = !st->follows && change.commit_us > tfs_feed_opened_us(st->feed);
		if (!st->ended)
			r = st->failed = changes_add(st, &change);
		if (r < 0)
			return r;
	}
	if (r == -ENOENT) /* the table was dropped */
		st->ended = true;
	return r == -ENOENT ? 0 : r;
}

static int changes_read(struct sequential *s, void *buf, size_t n, size_t *got)
{
	struct changes_state *st = s->state;
	int r;

	if (st->out.at == st->out.text.n && st->out.text.cap > LINES_FREE)
		changes_drop_lines(st);
	unread_trim(&st->out, n);
	r = changes_fill(st, st->out.at + n);
	*got = unread_take(&st->out, buf, n);
	if (*got)
		return 0;
	if (st->failed)
		return refuse(st->failed, s->node, NULL, "all unread lines of a user have at most 512 MiB");
	if (r < 0)
		return feed_why(r) ? refuse(r, s->node, NULL, "%s", feed_why(r)) : r;
	if (!st->follows || st->ended)
		return 0;
	changes_drop_lines(st); /* a user may have 512 readers that wait for days */
	return SEQUENTIAL_WAITS;
}

static void changes_notify(struct sequential *s, void (*fn)(void *arg), void *arg)
{
	tfs_feed_notify(((struct changes_state *)s->state)->feed, fn, arg);
}

static const struct sequential_ops changes_sequential = {
	.open = changes_open,
	.read = changes_read,
	.notify = changes_notify,
	.seek = changes_seek,
	.close = changes_close,
};

static int changes_stream_attr(struct node *n, struct stat *st, double *timeout)
{
	return stream_attr(n, 0444, fs_now_us(), st);
}

const struct node_ops changes_stream_ops = {
	.traits = KIND_UNCACHED | KIND_NAMED,
	.attr = changes_stream_attr,
	.exists = changes_stream_exists,
	.sequential = &changes_sequential,
};
