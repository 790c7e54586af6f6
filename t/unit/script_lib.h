/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of scripts, for tests. */
#ifndef T_UNIT_SCRIPT_LIB_H
#define T_UNIT_SCRIPT_LIB_H

#include "engine/base/outcome.h"
#include "engine/script/script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The program tabletfs-script of this build. */
static inline void script_find_program(void)
{
	const char *build = getenv("BUILD");

	setenv("TABLETFS_LIBEXEC", build ? build : ".", 0);
}

static inline struct script_pool *script_pool_of(uint64_t instructions, uint64_t memory, uint64_t time_us, unsigned workers)
{
	const struct script_limits l = {.instructions = instructions, .memory = memory, .time_us = time_us};
	struct script_pool *p;

	assert_int_equal(script_pool_new(&l, workers, &p), 0);
	return p;
}

static inline int script_start(struct script_pool *p, bool filter, const char *text, struct script_run **r, struct buf *why)
{
	const struct tfs_bytes args[] = {TFS_S("key=value"), TFS_S("n=3")};
	const struct script_text t = {.filter = filter, .name = TFS_S("test"), .text = tfs_str(text), .args = args, .arg_count = 2};

	/* Tests open no more runs than there are places. */
	return script_run_new(p, 0, &t, r, why);
}

static inline int script_put(struct script_run *r, const char *row, const char *family, const char *qualifier, int64_t ts,
	const char *value, struct buf *why)
{
	const struct script_cell c = {
		.row = tfs_str(row), .family = tfs_str(family), .qualifier = tfs_str(qualifier), .ts = ts, .value = tfs_str(value)};

	return script_run_cell(r, &c, why);
}

/* Appends what a delta streams, each record as a line. */
static inline void script_streamed_text(struct script_outputs *o, struct buf *text)
{
	struct script_record r;

	while (script_outputs_streamed(o, &r) > 0) {
		if (r.kind == SCRIPT_LINE)
			assert_int_equal(
				buf_printf(text, "%.*s: %.*s\n", (int)r.output.n, r.output.p, (int)r.value.n, r.value.p), 0);
		else
			assert_int_equal(buf_printf(text, "%.*s/%.*s:%.*s@%lld=%.*s\n", (int)r.cell.row.n, r.cell.row.p,
						 (int)r.cell.family.n, r.cell.family.p, (int)r.cell.qualifier.n, r.cell.qualifier.p,
						 (long long)r.cell.ts, (int)r.cell.value.n, r.cell.value.p),
				0);
	}
}

/* Appends the results, each as a line "output key value". */
static inline void script_results_text(struct script_outputs *o, struct buf *text)
{
	struct buf why = {0};
	struct script_record r;
	int got;

	while ((got = script_outputs_result(o, &r, &why)) > 0)
		assert_int_equal(buf_printf(text, "%.*s %.*s %.*s\n", (int)r.output.n, r.output.p, (int)r.key.n, r.key.p,
					 (int)r.value.n, r.value.p),
			0);
	assert_int_equal(got, 0);
	buf_fini(&why);
}

#endif
