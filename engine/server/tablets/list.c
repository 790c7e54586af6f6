/* SPDX-License-Identifier: Apache-2.0 */
/* The master's request LIST: which tablets the server serves, and their load. */
#include "engine/base/clock.h"
#include "engine/server/internal.h"

#include <errno.h>

#define RATE_US UINT64_C(60000000)

/* Half of an average is of the last minute or longer, a quarter of the time before, and so on. */
static struct tablet_rate tablet_rate_now(struct server *s, struct served_tablet *served)
{
	const uint64_t now = monotonic_us(), reads = served->reads, writes = served->writes;
	struct tablet_rate *r = &served->rate, result;
	uint64_t since;

	mutex_lock(&s->lock);
	since = now - (r->at_us ? r->at_us : served->made_us);
	if (since >= RATE_US) {
		r->reads_second = (r->reads_second + (reads - r->reads) * 1000000 / since) / 2;
		r->writes_second = (r->writes_second + (writes - r->writes) * 1000000 / since) / 2;
		r->reads = reads;
		r->writes = writes;
		r->at_us = now;
	}
	result = *r;
	mutex_unlock(&s->lock);
	return result;
}

int list_tablets(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct served_tablet **list;
	unsigned count;
	int err = served_list(s, 0, &list, &count);

	(void)q;
	if (err)
		return err;
	a->tablets = arena_alloc(&a->arena, (count + 1u) * sizeof(*a->tablets));
	err = a->tablets ? 0 : -ENOMEM;
	for (unsigned i = 0; i < count && !err; i++) {
		struct ts_assigned *t = &a->tablets[i];
		const struct tablet_rate rate = tablet_rate_now(s, list[i]);
		struct tablet_stats st;

		bool border;

		tablet_get_stats(list[i]->tablet, &st);
		*t = (struct ts_assigned){.table = list[i]->table,
			.assignment = list[i]->assignment,
			.server = s->incarnation,
			.bytes = st.disk_bytes + st.memory_bytes,
			.reads = rate.reads_second,
			.writes = rate.writes_second,
			.age_us = monotonic_us() - list[i]->made_us,
			.merge_bytes = moves_merge_bytes(s, list[i], &border)};
		t->border = border;
		if (!arena_dup(&a->arena, tablet_begin(list[i]->tablet), &t->begin) ||
			(!list[i]->last && !arena_dup(&a->arena, buf_bytes(&list[i]->end), &t->end)))
			err = -ENOMEM;
	}
	a->tablet_count = err ? 0 : count;
	served_list_put(list, count);
	return err;
}
