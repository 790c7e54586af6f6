/* SPDX-License-Identifier: Apache-2.0 */
/* The master's periodic tasks, and the turns of its lock. */
#include "master/internal.h"

void master_lock_for_request(struct master *m)
{
	mutex_lock(&m->lock);
	while (m->passes_due)
		cond_wait(&m->passed, &m->lock);
}

void master_lock_for_pass(struct master *m)
{
	m->passes_due++;
	mutex_lock(&m->lock);
}

void master_unlock_after_pass(struct master *m)
{
	if (--m->passes_due == 0)
		cond_broadcast(&m->passed);
	mutex_unlock(&m->lock);
}

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
