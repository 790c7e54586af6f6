/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds tables with changes whose newest time of commit is far ahead of the clock.
 *
 * A clock that was ahead leaves such times.  They stay, because changes of a row must have rising times: a server that loads
 * such a tablet draws only later times of commit, for all tables.  Nothing is lost, but the times of commit that readers of changes,
 * from=TIME and the clause changed see are wrong until the clock has passed them, and changes expire later by as much.  So the
 * log has a line when the tablet is loaded, or when the status is read, and the line "attention" of the status names the table.
 *
 * A table without changes is not looked at: its cells keep their times, and later ones follow the clock.
 *
 * Rejected: to draw times of the clock again after a truncation of the table.  Other tables have followed it by then.
 */
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/server/storage/storage.h"

#include <stdio.h>
#include <time.h>

#define FAR_US INT64_C(3600000000)
enum { AHEAD_TEXT = 200 + TFS_NAME_MAX };

/* Returns by how much the tablet's newest time of commit is ahead; 0: not far. */
static int64_t commits_ahead(struct server *s, const struct served_tablet *served)
{
	int64_t ahead;

	if (!served->user_table || served->user_table->frozen)
		return 0;
	ahead = tablet_newest_commit(served->tablet) - clock_now(s->o.clock);
	return ahead > FAR_US ? ahead : 0;
}

/* Writes a text such as "table web: its newest time of commit, 2027-01-31 10:00:00 UTC, is 62 d 3 h ahead of the clock". */
static void describe(struct server *s, struct served_tablet *served, int64_t ahead_us, char text[AHEAD_TEXT])
{
	const int64_t hours = ahead_us / 3600000000;
	const time_t at = (time_t)((clock_now(s->o.clock) + ahead_us) / 1000000);
	char name[TFS_NAME_MAX + 1], when[40] = "?";
	struct tm tm;

	user_table_name(s, served->user_table, name);
	if (gmtime_r(&at, &tm))
		(void)strftime(when, sizeof(when), "%F %T UTC", &tm);
	snprintf(text, AHEAD_TEXT, "table %s: its newest time of commit, %s, is %lld d %lld h ahead of the clock", name, when,
		(long long)hours / 24, (long long)hours % 24);
}

void commits_check(struct server *s, struct served_tablet *served)
{
	const int64_t ahead = commits_ahead(s, served);
	char text[AHEAD_TEXT];

	if (!ahead || atomic_exchange(&served->user_table->is_ahead, true))
		return;
	describe(s, served, ahead, text);
	msg_warning("%s; until the clock has passed it, all tables get later times of commit", text);
}

int server_commits_attention(struct server *s, struct buf *out)
{
	struct served_tablet **list, *most = NULL;
	int64_t most_us = 0, ahead;
	char text[AHEAD_TEXT];
	unsigned count;
	int err = served_list(s, 0, &list, &count);

	if (err)
		return err;
	for (unsigned i = 0; i < count; i++) {
		commits_check(s, list[i]);
		ahead = commits_ahead(s, list[i]);
		if (ahead > most_us) {
			most_us = ahead;
			most = list[i];
		}
	}
	if (most) {
		describe(s, most, most_us, text);
		err = buf_printf(out, "%s, and later ones follow it; ", text);
	}
	served_list_put(list, count);
	return err;
}
