/* SPDX-License-Identifier: Apache-2.0 */
/* The master's request LIST: which tablets the server serves, and their load. */
#include "engine/server/tablets/tablets.h"

#include <errno.h>

int list_tablets(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct served_tablet **list;
	unsigned count;
	int err;

	(void)q;
	a->exists = retire_unloads(s); /* read before the list is made */
	err = served_list(s, 0, &list, &count);
	if (err)
		return err;
	a->tablets = arena_alloc(&a->arena, (count + 1u) * sizeof(*a->tablets));
	err = a->tablets ? 0 : -ENOMEM;
	for (unsigned i = 0; i < count && !err; i++) {
		struct ts_assigned *t = &a->tablets[i];
		const struct tablet_rate rate = served_rate(list[i]);
		struct tablet_stats st;

		bool border;

		tablet_get_stats(list[i]->tablet, &st);
		*t = (struct ts_assigned){.table = list[i]->table,
			.assignment = list[i]->assignment,
			.server = s->o.incarnation,
			.bytes = st.disk_bytes + st.memory_bytes,
			.changes_bytes = st.changes_disk_bytes + st.changes_memory_bytes,
			.reads = rate.reads_second,
			.writes = rate.writes_second,
			.age_us = monotonic_us() - list[i]->made_us,
			.merge_bytes = merge_bytes_of(s, list[i], &border)};
		t->border = border;
		if (!arena_dup(&a->arena, tablet_begin(list[i]->tablet), &t->begin) ||
			(!list[i]->last && !arena_dup(&a->arena, buf_bytes(&list[i]->end), &t->end)))
			err = -ENOMEM;
	}
	a->tablet_count = err ? 0 : count;
	served_list_put(list, count);
	return err;
}
