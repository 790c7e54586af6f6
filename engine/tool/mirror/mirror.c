/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl mirror: copies a table to another store, and then its changes.
 *
 * The steps of a new mirror:
 *	1 the place after the last change of now is noted as the token of the state (state.c)
 *	2 the table is copied (copy.c)
 *	3 the changes behind the token are applied (follow.c), and the token moves
 * Each may be interrupted and is continued by the next run.  After a truncation of the target, or a change of a
 * rule of the source, step 2 is made once more with the same token.
 *
 * Rejected: a server that pushes its changes.  It would need the rights of the other store, and would keep
 * changes for a target that is gone.
 */
#include "engine/tool/mirror/mirror.h"

#include "engine/bulk/feed.h"
#include "engine/tool/progress.h"

#include <errno.h>
#include <unistd.h>

enum { EXIT_ENDED = 1, TRIES = 10, PAUSE_US = 500000 };

/* Sets the token to the place after all changes of now. */
static int token_now(struct mirror *m)
{
	struct tfs_feed *feed;
	int err = tfs_feed_open(m->from.table, NULL, TFS_FEED_NOW, &feed);

	if (err == -EOPNOTSUPP)
		complain("%s: %s", m->from.path, feed_why(err));
	else if (err)
		return mirror_failed(&m->from, err, NULL);
	if (err)
		return err;
	snprintf(m->s.token, sizeof(m->s.token), "%s", tfs_feed_token(feed));
	m->s.until_us = tfs_feed_opened_us(feed);
	tfs_feed_free(feed);
	return 0;
}

/* Makes a new state, from which the copy begins. */
static int begin(struct mirror *m)
{
	bool empty = false;
	int err = m->restart ? 0 : tfs_table_empty(m->to.table, &empty);

	if (err)
		return mirror_failed(&m->to, err, NULL);
	if (!empty && !m->restart) {
		complain("%s: it has cells and is no mirror yet; --restart replaces them by those of %s", m->to.path, m->from.path);
		return -EEXIST;
	}
	err = token_now(m);
	m->s.copying = true;
	m->s.family_count = 0;
	*m->s.copied_family = 0;
	buf_reset(&m->s.copied_row);
	return err ? err : state_take(m);
}

/* Returns true if the store may answer later, or another server of it. */
static bool may_pass(int err)
{
	return err == -ETIMEDOUT || err == -EIO;
}

/* Follows until the end.  A mirror that follows goes back to its state when a server has ended, at most TRIES times in vain. */
static int follow(struct mirror *m)
{
	char token[sizeof(m->s.token)];
	int err = 0;

	for (unsigned tries = 0; tries < TRIES; tries++) {
		snprintf(token, sizeof(token), "%s", m->s.token);
		if (tries)
			err = state_again(m);
		if (!err)
			err = mirror_follow(m);
		if (!m->follow || !may_pass(err) || progress_signal())
			break;
		if (strcmp(token, m->s.token) != 0)
			tries = 0;
		complain("mirror: goes back to the last token");
		writer_drop(m);
		(void)usleep(PAUSE_US);
	}
	return err;
}

static int run(struct mirror *m)
{
	bool known = false;
	int err = families_readable(m);

	if (!err)
		err = state_open(m, &known);
	if (!err)
		err = writer_init(m);
	if (!err)
		err = known && !m->restart ? state_take(m) : begin(m);
	return err ? err : follow(m);
}

static int mirror_run(const struct arguments *a)
{
	struct mirror m = {.follow = a->option['f'] != NULL, .restart = a->option['r'] != NULL};
	int err, status;

	progress_begin(&(struct progress_options){.command = "mirror",
		.done = "mirrored",
		.polls = true,
		.quiet = m.follow && !isatty(STDERR_FILENO),
		.summary = true});
	status = place_open_stored(&m.from, a->operand[0], false);
	if (status)
		return status;
	status = place_open_stored(&m.to, a->operand[1], true);
	if (status)
		return place_close(&m.from, status);
	err = run(&m);
	writer_fini(&m);
	state_close(&m);
	if (err == -EINTR)
		complain("mirror: interrupted: the next run continues");
	else if (!err && m.ended)
		complain("%s", m.ended);
	progress_end();
	status = err == -EINTR ? 128 + progress_signal() : err ? EXIT_CANNOT : m.ended ? EXIT_ENDED : 0;
	status = place_close(&m.to, status);
	return place_close(&m.from, status);
}

const struct command mirror_command = {
	.name = "mirror",
	.kinds = "pp",
	.brief = "copy a table, and then its changes, to another store",
	.usage = "usage: tabletctl mirror [--follow] [--restart] SOURCE_TABLE TARGET_TABLE\n"
		 "\n"
		 "Copies a table, and then the changes since the copy began, deletions included.\n"
		 "The table must keep its changes: changes = \"7d\" in its schema.  Each run goes on\n"
		 "where the last one ended, also after a kill.  Both tables are a table's directory\n"
		 "in a mount, or SOURCE/TABLE.  The table TARGET_TABLE.mirror has the place.\n"
		 "\n"
		 "  --follow   do not end, but wait for more changes\n"
		 "  --restart  compare both tables, and write and remove what differs in the target\n"
		 "\n"
		 "Exit status: 0 done; 1 the mirror has ended: the source was dropped, or changes are\n"
		 "not kept any more (--restart); 2 any other error; 128 and a signal's number.\n",
	.letters = ":h",
	.options = (const struct option[]){{"follow", no_argument, NULL, 'f'}, {"restart", no_argument, NULL, 'r'},
		{"help", no_argument, NULL, 'h'}, {0}},
	.least = 2,
	.most = 2,
	.run = mirror_run,
};
