/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the tablet of a request. */
#include "engine/server/tables/set.h"

#include <errno.h>

int served_find(struct server *s, uint32_t table, struct tfs_bytes row, struct served_tablet **out)
{
	struct user_table *u;
	int err = served_find_loaded(s, table, row, out);

	if (err != -TABLET_MOVED || table == META_TABLE)
		return err;
	err = user_table_find(s, table, &u);
	if (err)
		return err;
	err = user_table_dropped(u) ? -TABLE_DROPPED : -TABLET_MOVED;
	user_table_put(s, u);
	return err;
}

int served_find_for(struct server *s, const struct ts_request *q, struct tfs_bytes row, struct served_tablet **out)
{
	int err = served_find(s, q->table, row, out);

	if (err || !q->assignment || q->assignment == (*out)->assignment - atomic_load(&(*out)->unclaimed))
		return err;
	served_put(*out);
	return -TABLET_MOVED;
}
