/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has the segments of a sealed log sorted by all live servers, each one a part
 * (paper, section 6 "Speeding up tablet recovery"), before the tablets of the dead
 * server are loaded.  So no segment is read by two servers.
 *
 * An error is not an error of the recovery: the owners read a log without sorted copies
 * themselves.
 */
#include "engine/base/task.h"
#include "master/internal.h"

#include <errno.h>
#include <stdlib.h>

struct sort_job {
	struct task task;
	struct tablet_service *service;
	struct ts_request q;
};

struct sort_jobs {
	struct sort_job *v;
	uint32_t count;
};

static int job_add(void *arg, uint64_t incarnation, struct tablet_service *service)
{
	struct sort_jobs *j = arg;

	(void)incarnation;
	if (array_grow(&j->v, j->count, sizeof(*j->v)))
		return -ENOMEM;
	j->v[j->count++] = (struct sort_job){.service = service};
	return 0;
}

static void job_run(struct sort_job *j)
{
	struct ts_answer a = {0};

	(void)!ts_call(j->service, &j->q, &a); /* the server has logged an error */
	ts_answer_fini(&a);
}

static void job_task(struct task *t)
{
	job_run((struct sort_job *)(void *)((char *)t - offsetof(struct sort_job, task)));
}

void sort_log(struct master *m, uint64_t incarnation)
{
	struct sort_jobs j = {0};
	struct task_pool *pool = NULL;
	int err = m->o.servers.each(m->o.servers.arg, job_add, &j);

	if (!err && j.count > 1 && !m->o.no_background)
		err = task_pool_new("sort", j.count, &pool);
	for (uint32_t i = 0; i < j.count && !err; i++) {
		j.v[i].q = (struct ts_request){
			.method = TS_SORT, .incarnation = incarnation, .part = i, .parts = j.count, .term = master_term(m)};
		if (pool) {
			task_init(&j.v[i].task, pool, job_task);
			task_queue(&j.v[i].task);
		} else {
			job_run(&j.v[i]);
		}
	}
	task_pool_free(pool);
	free(j.v);
}
