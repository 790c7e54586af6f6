/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store for the model's tests, with a clock that the test sets, and short functions
 * that read and write one row as text.
 */
#ifndef TEST_MODEL_H
#define TEST_MODEL_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "t/model/model.h"

struct world {
	char dir[64];
	struct tfs_store *store;
	struct tfs_table *table; /* "t" with families a, b (no rule), v2 (maxversions=2), old (maxage=10s), n (counter) */
};
extern int64_t test_clock_us; /* starts at 1000 s */

int world_up(void **state);
int world_down(void **state);

int put(struct world *w, const char *row, const char *family, const char *q, int64_t ts, const char *value);
int put_auto(struct world *w, const char *row, const char *family, const char *q, const char *value, int64_t *ts);
int delete_version(struct world *w, const char *row, const char *family, const char *q, int64_t ts);
/* "family:qualifier@ts=value ..." of the whole scan; the caller's until the next call. */
const char *show(struct world *w, const struct tfs_scan_spec *spec);
const char *show_row(struct world *w, const char *row);
void schema(struct world *w, const char *text);
/* Applies, frees, returns the result of apply. */
int done(struct tfs_mutation *m, struct tfs_result *results);

extern const struct CMUnitTest row_tests[], table_tests[];
extern const size_t row_test_count, table_test_count;

#endif
