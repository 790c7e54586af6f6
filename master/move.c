/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves of tablets between servers (paper, section 6, "Speeding up tablet
 * recovery"):
 *
 *	1 UNLOAD: the old server flushes the tablet, stops its writers, flushes the
 *	  rest, and makes 0 the server of the METADATA row
 *	2 write the new server to the row, with the next assignment number
 *	3 LOAD at the new server, which finds no log to replay
 * A crash after step 1 leaves a tablet that no server serves; the next pass
 * (assign.c) assigns it.
 */
#include "master/pass.h"

#include <errno.h>
#include <stdlib.h>

/* Finds the tablet that contains the row, on the server that serves it. */
static int move_find(struct pass *p, uint32_t table, struct slice row, struct live_server **from, struct ts_assigned *t)
{
	pass_list(p);
	for (unsigned i = 0; i < p->server_count; i++) {
		for (uint32_t k = 0; k < p->servers[i].list.tablet_count; k++) {
			const struct ts_assigned *x = &p->servers[i].list.tablets[k];

			if (x->table != table || slice_cmp(row, x->begin) < 0 || (x->end.p && slice_cmp(row, x->end) >= 0))
				continue;
			*from = &p->servers[i];
			*t = *x;
			return 0;
		}
	}
	return -ENOENT;
}

static int unload(struct master *m, struct live_server *s, const struct ts_assigned *t)
{
	struct ts_request q = {.method = TS_UNLOAD, .tablets = t, .tablet_count = 1, .term = master_term(m)};
	int one = 0, err;
	struct ts_answer a = {.row_errs = &one};

	err = ts_call(s->service, &q, &a);
	a.row_errs = NULL;
	ts_answer_fini(&a);
	return err ? err : one;
}

int assign_move(struct master *m, uint32_t table, struct slice row, uint64_t to)
{
	struct pass p = {.m = m, .level = table == META_TABLE ? LEVEL_META : LEVEL_USER};
	struct live_server *from = NULL;
	struct ts_assigned t = {0};
	struct place *l;
	struct buf root_end = {0};
	int err = pass_servers(&p);

	if (!err)
		err = meta_root_end(&root_end);
	if (!err)
		err = pass_server(&p, to) ? move_find(&p, table, row, &from, &t) : -ENOENT;
	if (err || from->incarnation == to)
		goto out;
	if (table == META_TABLE && slice_eq(t.end, buf_slice(&root_end)))
		p.level = LEVEL_ROOT;
	err = unload(m, from, &t); /* step 1 */
	if (err)
		goto out;
	err = array_grow(&p.v, 0, sizeof(*p.v)) ? -ENOMEM : 0;
	if (err)
		goto out;
	l = p.v;
	*l = (struct place){.at = t, .to = to, .assign = true};
	l->at.server = 0;
	p.count = 1;
	err = buf_set(&l->begin, t.begin.p, t.begin.n);
	if (!err && t.end.p)
		err = buf_set(&l->end, t.end.p, t.end.n);
	pass_point(&p);
	if (!err)
		err = pass_assign(&p); /* step 2 */
	if (!err)
		err = pass_load(&p, pass_server(&p, to)); /* step 3 */
	if (!err && (p.failed || !l->to))
		err = -EAGAIN;
out:
	if (err && from) {
		m->unassigned = true;
		assign_soon(m);
	}
	buf_fini(&root_end);
	pass_fini(&p);
	return err;
}
