/* SPDX-License-Identifier: Apache-2.0 */
/*
 * If any single allocation of a workload over lock, schema, meta and rpc fails (linked
 * with --wrap), the call returns -ENOMEM and changes nothing, and nothing leaks
 * (AddressSanitizer builds detect leaks).
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/lock/lock.h"
#include "engine/meta/meta.h"
#include "engine/rpc/master_service.h"
#include "engine/rpc/tablet_service.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static unsigned countdown; /* 0 if none fails, 1 if the next fails */
static bool failed;

static bool fails(void)
{
	if (countdown == 0 || --countdown > 0)
		return false;
	failed = true;
	return true;
}

#include "t/unit/wrap_alloc.h"

/* Runs work until no allocation is left to fail; it gives 0 or -ENOMEM and then must have cleaned up. */
static unsigned exhaust(int (*work)(void *arg), void *arg)
{
	for (unsigned n = 1;; n++) {
		int rc;

		failed = false;
		countdown = n;
		rc = work(arg);
		countdown = 0;
		if (!failed) {
			assert_int_equal(rc, 0);
			return n - 1;
		}
		if (rc != 0)
			assert_int_equal(rc, -ENOMEM);
	}
}

/* ---- schema ---- */

static const char text[] =
	"owner = \"root\"; families = ( { name = \"contents\"; gc = \"maxversions=3 or maxage=1d\"; group = \"pages\"; acl = \"\"; },\n"
	"  { name = \"anchor\"; } ); groups = ( { name = \"pages\"; compression = \"lz4\"; } );";

static int work_schema(void *arg)
{
	const struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_GC, .name = "anchor", .value = " maxage=1d "};
	struct schema *s = NULL, *t = NULL, *u = NULL, *v = NULL, *w = NULL;
	struct store_schema *st = NULL;
	struct buf b = {0};
	char *why = NULL;
	bool allow;
	int rc = schema_new("webtable", 16, 0, 0, 0755, 1, &s);

	if (!rc)
		rc = schema_set_text(s, tfs_str(text), 2, &t, &allow, &why);
	if (!rc)
		rc = schema_edit(t, &e, 3, &u, &why);
	if (!rc)
		rc = schema_set_text(u, tfs_str("families = ( { name = \"anchor\" } );"), 2, &v, &allow, &why);
	if (!rc)
		rc = schema_rename(v, "other", &w);
	schema_put(v);
	v = NULL;
	if (!rc)
		rc = schema_encode(u, &b);
	if (!rc)
		rc = schema_decode(buf_bytes(&b), &v);
	if (!rc)
		rc = schema_store(u, &st);
	if (!rc)
		assert_string_equal(schema_public(v)->text, schema_public(u)->text);
	assert_null(why);
	store_schema_put(st);
	schema_put(s);
	schema_put(t);
	schema_put(u);
	schema_put(v);
	schema_put(w);
	buf_fini(&b);
	return rc;
}

/* ---- meta ---- */

static int work_meta(void *arg)
{
	const struct tfs_cell begin = {.family_id = META_TABLET, .qualifier = tfs_str("begin"), .value = tfs_bytes_of("\1b", 2)};
	struct tablet_file f[2] = {{.incarnation = 1, .number = 1, .table = 16}, {.incarnation = 1, .number = 2, .table = 16}};
	struct redo_point redo = {2, 5};
	struct tablet_edit e = {.added = f, .added_count = 2, .set_redo = true, .redo = &redo, .redo_count = 1, .event = "x"},
			   e2 = {.removed = f, .removed_count = 1, .added = f + 1, .added_count = 1, .set_redo = true};
	struct meta_tablet m = {0}, back = {0};
	struct store_schema *st = NULL;
	struct arena arena = {0};
	struct buf key = {0}, root = {0};
	struct op *ops;
	unsigned count = 0;
	int rc = meta_row_key(&key, 16, false, tfs_str("end"));

	if (!rc)
		rc = meta_tablet_row(&m, buf_bytes(&key));
	if (!rc)
		rc = meta_tablet_cell(&m, &begin);
	if (!rc) {
		rc = meta_tablet_apply(&m, &e);
		assert_int_equal(m.file_count, rc ? 0 : 2);
		assert_int_equal(m.redo_count, rc ? 0 : 1);
	}
	if (!rc)
		rc = meta_ops_new(&m, &arena, &ops, &count);
	for (unsigned i = 0; i < count && !rc; i++) {
		struct tfs_cell c = {.family_id = ops[i].family, .qualifier = ops[i].w.qualifier, .value = ops[i].value};

		rc = meta_tablet_cell(&back, &c);
	}
	if (!rc)
		rc = meta_ops_edit(&m, &e2, &arena, &ops, &count);
	if (!rc) {
		rc = meta_tablet_apply(&m, &e2);
		assert_int_equal(m.file_count, rc ? 2 : 1);
		assert_int_equal(m.redo_count, rc ? 1 : 0);
	}
	if (!rc)
		rc = meta_root_encode(&m, &root);
	meta_tablet_fini(&back);
	if (!rc)
		rc = meta_root_decode(buf_bytes(&root), &back);
	if (!rc)
		rc = meta_store_schema(&st);
	store_schema_put(st);
	meta_tablet_fini(&m);
	meta_tablet_fini(&back);
	arena_fini(&arena);
	buf_fini(&key);
	buf_fini(&root);
	return rc;
}

/* ---- rpc ---- */

static int answer_tablet(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	if (!arena_dup(&a->arena, tfs_str("end"), &a->tablet_end) || !arena_dup(&a->batch.arena, q->row, &a->tablet.begin))
		return -ENOMEM;
	a->batch.cells = calloc(2, sizeof *a->batch.cells);
	if (!a->batch.cells)
		return -ENOMEM;
	a->batch.count = a->batch.cap = 2;
	a->batch.cells[0].row = a->batch.cells[1].row = a->tablet.begin;
	return 0;
}

static int work_tablet_service(void *arg)
{
	static const struct tablet_service_ops ops = {.call = answer_tablet};
	static const uint16_t families[] = {1, 2};
	static const struct tfs_range range = {.offset = 3, .data = {(const uint8_t *)"abc", 3}};
	static const struct op op[2] = {{.kind = OP_WRITE, .w.ranges = &range, .w.range_count = 1}, {.kind = OP_INCREMENT}};
	const struct scan_spec spec = {.family_ids = families, .pub.family_count = 2};
	const struct row_mutation rows[2] = {{tfs_str("r1"), op, 2}, {tfs_str("r2"), op, 1}};
	const struct ts_request q = {
		.method = TS_MUTATE, .row = tfs_str("row"), .spec = &spec, .length = 10, .rows = rows, .row_count = 2};
	struct tfs_result results[2];
	struct ts_answer a = {.results = results};
	struct tablet_service inner = {&ops}, *s = ts_round_trip_new(&inner);
	int rc;

	if (!s)
		return -ENOMEM;
	rc = ts_call(s, &q, &a);
	if (!rc)
		assert_int_equal(a.batch.count, 2);
	ts_answer_fini(&a);
	free(s);
	return rc;
}

static const struct schema *answered;

static int answer_master(struct master_service *s, const struct ms_request *q, struct ms_answer *a)
{
	a->schema = schema_get(answered);
	a->why = strdup("because");
	return 0;
}

static int work_master_service(void *arg)
{
	static const struct master_service_ops ops = {.call = answer_master};
	const struct tfs_schema_edit e = {.name = "f", .value = "v"};
	const struct ms_request q = {.method = MS_TABLE_RENAME, .name = "a", .to = "b", .text = tfs_str("t"), .edit = &e};
	struct master_service inner = {&ops}, *s = ms_round_trip_new(&inner);
	struct ms_answer a = {0};
	int rc;

	if (!s)
		return -ENOMEM;
	rc = ms_call(s, &q, &a);
	ms_answer_fini(&a);
	free(s);
	return rc;
}

/* ---- lock ---- */

static char dir[64];

static void on_change(void *arg, const char *name)
{
}

static int count_names(void *arg, const char *name)
{
	++*(unsigned *)arg;
	return 0;
}

static int work_lock(void *arg)
{
	const struct lock_op ops[2] = {{.name = "tables/a", .contents = tfs_str("1"), .expect = LOCK_ANY},
		{.name = "b.tmp", .contents = tfs_str("1"), .expect = LOCK_ANY}};
	const struct lock_op lock = {.name = "master", .ephemeral = true, .contents = tfs_str("m")};
	struct lock_service *s = NULL;
	struct buf b = {0};
	unsigned names = 0;
	int rc = lock_local_open(dir, &s);

	if (!rc)
		rc = s->ops->watch(s, "tables/", on_change, NULL);
	if (!rc)
		rc = lock_multi(s, &lock, 1, NULL);
	if (!rc)
		rc = lock_multi(s, ops, 2, NULL);
	if (!rc)
		rc = lock_put(s, "tables/a", tfs_str("2"), LOCK_ANY, NULL);
	if (!rc)
		rc = lock_get(s, "tables/a", &b, NULL);
	if (!rc)
		rc = s->ops->list(s, "", count_names, &names);
	if (!rc)
		assert_int_equal(names, 3);
	buf_fini(&b);
	lock_service_free(s);
	return rc;
}

static void test_schema(void **state)
{
	assert_true(exhaust(work_schema, NULL) > 40);
}

static void test_meta(void **state)
{
	assert_true(exhaust(work_meta, NULL) > 20);
}

static void test_rpc(void **state)
{
	struct schema *s = NULL;

	assert_true(exhaust(work_tablet_service, NULL) > 8);
	assert_int_equal(schema_new("t", 16, 0, 0, 0755, 1, &s), 0);
	answered = s;
	assert_true(exhaust(work_master_service, NULL) > 8);
	schema_put(s);
}

static void test_lock(void **state)
{
	char cmd[100];

	strcpy(dir, "/tmp/test_rooms_memory.XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_true(exhaust(work_lock, NULL) > 20);
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
	assert_int_equal(system(cmd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_schema),
		cmocka_unit_test(test_meta),
		cmocka_unit_test(test_rpc),
		cmocka_unit_test(test_lock),
	};

	msg_to_nowhere();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
