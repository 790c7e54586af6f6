/* SPDX-License-Identifier: Apache-2.0 */
/* The master's periodic tasks. */
#include "master/internal.h"

void master_end_tasks(struct master *m)
{
	struct task *tasks[] = {&m->salt_check, &m->age_check, &m->passes.task};

	mutex_lock(&m->lock);
	m->ending = true;
	mutex_unlock(&m->lock);
	for (unsigned i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++)
		if (tasks[i]->run) {
			task_cancel(tasks[i]);
			tasks[i]->run = NULL;
		}
	task_pool_free(m->pool);
	m->pool = NULL;
}

void master_later(struct master *m, struct task *t, task_fn *fn, uint64_t us)
{
	if (m->o.no_background || m->ending || (!m->pool && task_pool_new("master", 1, &m->pool)))
		return;
	if (!t->run)
		task_init(t, m->pool, fn);
	task_queue_after(t, us);
}
