/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of workers that run scripts. */
#include "engine/script/script.h"

#include <errno.h>
#include <stdlib.h>

int script_pool_new(const struct script_limits *l, unsigned workers, struct script_pool **out)
{
	return -ENOSYS;
}

void script_pool_free(struct script_pool *p)
{
}

void script_pool_set_limits(struct script_pool *p, const struct script_limits *l)
{
}

int script_run_new(struct script_pool *p, const struct script_text *t, struct script_run **out, struct buf *why)
{
	return -ENOSYS;
}

int script_run_cell(struct script_run *r, const struct script_cell *c, struct buf *why)
{
	return -ENOSYS;
}

int script_run_take(struct script_run *r, struct buf *delta, struct buf *why)
{
	return -ENOSYS;
}

size_t script_run_waiting(const struct script_run *r)
{
	return 0;
}

void script_run_free(struct script_run *r)
{
}
