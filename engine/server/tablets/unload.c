/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The durable steps of UNLOAD (paper, section 6, "Speeding up tablet recovery"):
 *
 *	1 Flush the tablet, and then again while its writers wait.  Its row then
 *	  names all of its data, and no log.  Resolve an edit whose outcome is
 *	  unknown: the row of a split must not appear after the tablet has moved.
 *	2 Remove the tablet from the set.  While the answer of step 3 is late, another server may
 *	  serve the tablet already, so it is not read here any more.
 *	3 Set the server in the row to 0, and write the clock's mark.  Then the tablet has no owner.
 * Before step 1 merging and major compactions of the tablet end, incomplete (retire.c).
 * If step 3 fails, the tablet has left the set nevertheless, because the outcome may be unknown.  The master
 * repeats UNLOAD or sends LOAD, and both find out.  A LOAD that arrives after step
 * 3 is refused, because the row does not name this server any more.  A LOAD that has read the row before is refused by the set (set_unloading).
 *
 * The request names the tablet's begin, too.  If a split or merge has changed the
 * tablet since the master's LIST, UNLOAD is refused: the next LOAD would have an old
 * begin, and rows would be served twice or not at all.  If the tablet is not served
 * any more, the begin is compared with the begin in its row.
 */
#include "engine/server/tablets/tablets.h"

#include <errno.h>

int unload_tablet(struct server *s, struct served_tablet *const *v, struct tfs_bytes at)
{
	int err = tablet_merge_begin(v[0]->tablet);

	(void)at;
	if (err)
		return err;
	err = tablet_merge_stop(v[0]->tablet);
	if (!err)
		err = row_fold(v[0]);
	if (err) {
		tablet_merge_end(v[0]->tablet, false);
		return err;
	}
	set_replace(s, v, 1, NULL, 0);
	err = row_release(v[0]);
	tablet_merge_end(v[0]->tablet, true);
	return err;
}

int unload_row(struct server *s, enum kind kind, const struct ts_assigned *t)
{
	struct meta_tablet m = {0};
	uint64_t version = 0;
	int err = row_read(s, kind, t->table, !t->end.p, t->end, &m, &version);

	if (!err && (m.assignment != t->assignment || !bytes_eq(buf_bytes(&m.begin), t->begin)))
		err = -TABLET_TAKEN;
	else if (!err && m.server)
		err = m.server == s->o.incarnation ? row_release_read(s, kind, &m, version) : -TABLET_TAKEN;
	meta_tablet_fini(&m);
	return err;
}
