/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the changes of a table to its mirror, behind the token of the state.
 *
 * The changes of one commit are one mutation of the target.  A chunk ends between two commits.  The token is saved at
 * most once a second, because it costs a sync; a target that has less than that behind the token is brought to it once more.
 *
 * The name of a family is that of the schema when the change is read.  So if the schema changes while a change is read,
 * it is read again, when the target has the new families.  While there are no changes, the schema is read every few seconds.
 */
#include "engine/tool/mirror/mirror.h"

#include "engine/base/clock.h"
#include "engine/bulk/feed.h"
#include "engine/tool/progress.h"

#include <errno.h>
#include <stdlib.h>

#define SAVE_US INT64_C(1000000)
#define SCHEMA_US INT64_C(5000000)

struct follow {
	struct mirror *m;
	struct tfs_feed *feed;
	struct buf row;               /* of the open mutation */
	int64_t commit_us, schema_us; /* schema_us: when the schema was read, by the monotonic clock */
	bool any;                     /* a mutation is open */
	bool unsaved;                 /* the token has changed since it was saved */
};

static int feed_failed(struct mirror *m, int err)
{
	if (err == -ESTALE) {
		m->ended =
			text("%s: changes since the last run are not kept any more; tabletctl mirror --restart compares the tables "
			     "and goes on from now",
				m->from.path);
		return 0;
	}
	if (err == -EOPNOTSUPP) {
		complain("%s: %s", m->from.path, feed_why(err));
		return err;
	}
	if (err == -EINVAL) {
		m->ended = text("%s: the token of %s is of another table; see --restart", m->from.path, m->to.path);
		return 0;
	}
	if (err == -ENOENT) {
		m->ended = text("%s: the table was dropped; %s stays as it is", m->from.path, m->to.path);
		return 0;
	}
	return mirror_failed(&m->from, err, NULL);
}

static int save(struct follow *f)
{
	f->unsaved = false;
	return state_save(f->m);
}

/* Applies what was read.  The token is saved if it is time, or if `now` is set. */
static int settle(struct follow *f, bool now)
{
	int err = writer_flush(f->m);

	f->any = false;
	if (err || !f->unsaved || (!now && (int64_t)monotonic_us() < f->m->saved_us + SAVE_US))
		return err;
	return save(f);
}

/* The target follows a truncation. */
static int truncate_target(struct mirror *m)
{
	char *why = NULL;
	int err = tfs_table_truncate(m->to.table, &why);

	if (err == -EBUSY) /* it has snapshots, which keep the cells */
		err = writer_clear(m, NULL);
	else if (err)
		complain("%s: the truncation of %s: %s", m->to.path, m->from.path, why ? why : strerror(-err));
	free(why);
	return err;
}

static void add_change(struct follow *f, const struct tfs_feed_change *c, int *err)
{
	struct mirror *m = f->m;

	switch (c->kind) {
	case TFS_FEED_SET:
		writer_put(m, c->family, c->qualifier, c->ts, c->value);
		break;
	case TFS_FEED_DELETE_CELL:
		if (family_counts(m, c->family))
			*err = writer_column(m, c->family, c->qualifier);
		else
			writer_delete(m, c->family, c->qualifier, c->ts);
		break;
	case TFS_FEED_DELETE_COLUMN:
		if (c->ts == INT64_MAX)
			writer_delete_column(m, c->family, c->qualifier);
		else
			*err = writer_column(m, c->family, c->qualifier);
		break;
	case TFS_FEED_DELETE_FAMILY:
		writer_delete_family(m, c->family);
		break;
	case TFS_FEED_DELETE_ROW:
		writer_delete_row(m);
		break;
	case TFS_FEED_TRUNCATE:
	case TFS_FEED_DROP:
		break;
	}
}

/* Applies or collects one change. */
static int take(struct follow *f, const struct tfs_feed_change *c)
{
	struct mirror *m = f->m;
	int err = 0;

	if (c->kind == TFS_FEED_TRUNCATE || c->kind == TFS_FEED_DROP) {
		err = settle(f, true);
		if (!err)
			err = c->kind == TFS_FEED_DROP ? feed_failed(m, -ENOENT) : truncate_target(m);
		f->unsaved = true;
	} else {
		if (!f->any || c->commit_us != f->commit_us || !bytes_eq(c->row, buf_bytes(&f->row))) {
			if (m->w.bytes >= MIRROR_CHUNK_BYTES)
				err = settle(f, false);
			if (err)
				return err;
			writer_row(m, c->row);
			if (buf_set(&f->row, c->row.p, c->row.n))
				no_memory();
			f->commit_us = c->commit_us;
			f->any = true;
		}
		add_change(f, c, &err);
		f->unsaved = true;
	}
	if (!err) {
		snprintf(m->s.token, sizeof(m->s.token), "%s", c->token);
		m->s.until_us = c->commit_us;
	}
	return !err && c->kind == TFS_FEED_TRUNCATE ? save(f) : err;
}

/* Learns of the newest schema, also if no notice of it has come. */
static void read_schema(struct follow *f)
{
	const struct place *from = &f->m->from;
	const char *slash = strrchr(from->path, '/');
	struct tfs_table *again;

	if (tfs_table_open(from->store, slash ? slash + 1 : from->path, &again) == 0)
		tfs_table_close(again);
	f->schema_us = (int64_t)monotonic_us();
}

static bool wakes(void *arg)
{
	const struct follow *f = arg;
	const int64_t now = (int64_t)monotonic_us();

	return progress_signal() || (f->unsaved && now >= f->m->saved_us + SAVE_US) || now >= f->schema_us + SCHEMA_US;
}

/* There are no changes for now.  Returns 0 to go on, or 1 at the end. */
static int pause_reading(struct follow *f)
{
	int err = settle(f, !f->m->follow), r;

	if (err || !f->m->follow)
		return err ? err : 1;
	r = tfs_feed_wait(f->feed, wakes, f);
	if (r == -EINTR && !progress_signal()) {
		read_schema(f);
		return settle(f, true);
	}
	if (r == -EINTR)
		return 0;
	return r ? feed_failed(f->m, r) : 0;
}

/* Reads changes until the end (0), the source's schema changes (-EAGAIN), or an error. */
static int read_changes(struct follow *f)
{
	struct mirror *m = f->m;
	struct tfs_feed_change c;
	int r, err = 0;

	for (;;) {
		if (progress_signal()) {
			err = settle(f, true);
			return err ? err : -EINTR;
		}
		r = tfs_feed_next(f->feed, &c);
		if (r < 0 || (r > 0 && !m->follow && c.commit_us > tfs_feed_opened_us(f->feed) && c.kind != TFS_FEED_DROP)) {
			err = settle(f, true);
			return err || r > 0 ? err : feed_failed(m, r);
		}
		if (c.kind != TFS_FEED_DROP && families_generation(m) != m->generation) {
			err = settle(f, true);
			return err ? err : -EAGAIN;
		}
		err = r ? take(f, &c) : pause_reading(f);
		if (err || m->ended)
			return err > 0 ? 0 : err;
	}
}

int mirror_follow(struct mirror *m)
{
	struct follow f = {.m = m};
	int err = -EAGAIN;

	while (err == -EAGAIN) {
		err = tfs_feed_open(m->from.table, m->s.token, 0, &f.feed);
		if (err)
			return feed_failed(m, err);
		read_schema(&f);
		err = families_generation(m) == m->generation ? 0 : families_follow(m);
		if (!err && !m->s.copying)
			err = read_changes(&f);
		tfs_feed_free(f.feed);
		/* Then a new feed, because all changes up to the end of the copy are needed. */
		if (!err && m->s.copying && !m->ended && !(err = mirror_copy(m)))
			err = -EAGAIN;
	}
	buf_fini(&f.row);
	return err;
}
