/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TS_CHANGES: the changes of a tablet (engine/tablet/tablet_changes.c).
 *
 * The answer has all changes of the tablet up to a time of commit, which no later commit of the tablet has, also if another
 * server serves the tablet by then:
 *	1 draw the time.  Each later commit of this server draws a later one.
 *	2 promise it (clock.c).  Each server that loads a tablet from then on draws later ones.
 *	3 read.  The tablet refuses if it is not served any more.  So it is loaded elsewhere after step 2, or not at all.
 * A server that is dead for the others does not answer (fence_answer).
 *
 * The answer has the places of changes that the user may not read, so that all readers count alike.  A place has the row's key.  So a
 * sender that may not act for others must be allowed to read all families.
 */
#include "engine/base/file.h"
#include "engine/server/requests/requests.h"
#include "engine/server/storage/storage.h"

#include <errno.h>
#include <stdlib.h>

#define LEAD_US INT64_C(2000000) /* servers' clocks differ by less, or the server is refused */
#define BYTES_MOST ((size_t)512 << 10)

static int may_know_places(struct server *s, struct served_tablet *served, const struct ts_request *q, uint32_t readable)
{
	const struct schema *schema;
	int err;

	if (!q->for_itself)
		return 0;
	schema = served->user_table ? user_table_access(s, served->user_table) : NULL;
	err = schema && readable == schema_public(schema)->family_count ? 0 : -EACCES;
	schema_put(schema);
	return err;
}

int changes_serve(struct server *s, struct served_tablet *served, const struct ts_request *q, struct ts_answer *a)
{
	struct tablet_changes c = {.row = q->row,
		.from = q->qualifier,
		.offset = q->offset,
		.bytes = q->length && q->length < BYTES_MOST ? q->length : BYTES_MOST};
	const struct tfs_bytes end = tablet_end(served->tablet);
	uint16_t *readable = NULL;
	struct buf out = {0};
	int err = q->user ? access_readable(served, q, NULL, 0, &readable, &c.family_count) : 0;

	if (!err)
		err = may_know_places(s, served, q, c.family_count);
	if (err) {
		free(readable);
		return err;
	}
	c.families = readable;
	if (q->until_us > 0 && q->until_us <= clock_now(s->o.clock) + LEAD_US)
		clock_raise_commit(s->o.clock, q->until_us);
	c.until_us = clock_commit(s->o.clock);
	err = clock_promise(s, c.until_us);
	/* On a full disk the changes up to the last promise can be read. */
	if (is_no_space(err) && clock_promised(s)) {
		c.until_us = clock_promised(s) < c.until_us ? clock_promised(s) : c.until_us;
		err = 0;
	}
	if (!err)
		err = tablet_changes(served->tablet, &c, &out);
	free(readable);
	if (!err) {
		a->ts = c.low_us;
		a->commit_us = c.until_us;
		a->exists = c.more;
		a->tablet_end = (struct tfs_bytes){NULL, 0};
		if (!arena_dup(&a->arena, buf_bytes(&out), &a->log) || (end.p && !arena_dup(&a->arena, end, &a->tablet_end)))
			err = -ENOMEM;
	}
	buf_fini(&out);
	return err;
}
