/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of compactions, in addition to tablet_lib.h: short functions to open, read and count. */
#ifndef TFS_T_COMPACT_LIB_H
#define TFS_T_COMPACT_LIB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "t/unit/tablet_lib.h"

static const char *const plain[2] = {"", "maxversions=2"};

static inline void start(struct lib *l, unsigned groups)
{
	lib_init(l, "/dev/shm");
	l->schema = lib_schema(plain, 2, groups);
	lib_start(l);
}

static inline void end(struct lib *l)
{
	lib_stop(l);
	lib_fini(l);
}

static inline int read_ts(struct lib *l, const char *row, uint16_t family, const char *q, int64_t ts, char *out, size_t n)
{
	struct tfs_ts at = {ts == INT64_MIN, ts};
	size_t got = 0;
	int err = tablet_read(l->t, tfs_str(row), family, tfs_str(q), at, 0, out, n - 1, &got, NULL);

	out[got] = '\0';
	return err;
}

static inline void expect(struct lib *l, const char *row, uint16_t family, const char *q, int64_t ts, const char *value)
{
	char got[64];
	int err = read_ts(l, row, family, q, ts, got, sizeof got);

	if (!value) {
		assert_int_equal(err, -ENOENT);
		return;
	}
	assert_int_equal(err, 0);
	assert_string_equal(got, value);
}

static inline unsigned count_cells(struct lib *l)
{
	struct scan_spec spec = {.pub.what = TFS_SCAN_KEYS};
	struct scan_batch b = {0};
	struct tablet_scan *s;
	unsigned n = 0;

	LIB(tablet_scan_new(l->t, &spec, &s));
	do {
		LIB(tablet_scan_fill(s, &b));
		n += b.count;
	} while (!b.done);
	scan_batch_fini(&b);
	tablet_scan_free(s);
	return n;
}

#endif
