/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps within a call are identified by the mutation of METADATA (the linker
 * redirects these calls to __wrap_*) and by the path of the file.
 */
#include "t/crash/durable.h"
#include "t/lib/file_faults.h"

#include "engine/client/metadata.h"
#include "engine/meta/meta_format.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static _Atomic(const char *) call, over, step;

void durable_call(const char *name)
{
	if (!name)
		over = call;
	call = name;
}

const char *durable_over(void)
{
	return atomic_exchange(&over, NULL);
}

/* ---- METADATA's part ---- */
int __real_metadata_mutate(struct tablet_service *svc, struct tfs_bytes row_key, const struct op *ops, unsigned count);
int __wrap_metadata_mutate(struct tablet_service *svc, struct tfs_bytes row_key, const struct op *ops, unsigned count);
int __real_metadata_make(
	struct tablet_service *svc, uint32_t table, bool split, struct tfs_bytes row_key, const struct op *ops, unsigned count);
int __wrap_metadata_make(
	struct tablet_service *svc, uint32_t table, bool split, struct tfs_bytes row_key, const struct op *ops, unsigned count);
int __real_metadata_delete(struct tablet_service *svc, struct tfs_bytes row_key);
int __wrap_metadata_delete(struct tablet_service *svc, struct tfs_bytes row_key);

static bool is_column(const struct op *op, enum op_kind kind, enum meta_column c)
{
	return op->kind == kind && op->family == META_TABLET && bytes_eq(op->w.qualifier, tfs_str(meta_column_names[c]));
}

/* The value of event: a text follows its format byte. */
static bool event_begins(const struct op *op, const char *word)
{
	size_t n = strlen(word);

	return op->kind == OP_WRITE && op->family == META_EVENT && op->value.n > n && memcmp(op->value.p + 1, word, n) == 0;
}

static const char *mutation_name(const struct op *ops, unsigned count)
{
	static const char *const events[] = {"split at", "minor compaction", "merging compaction", "major compaction",
		"first write", "changes are kept", "changes merged", "changes removed"};

	for (unsigned i = 0; i < count; i++) {
		if (ops[i].kind == OP_CHECK && ops[i].check == TFS_CHECK_ABSENT)
			return "split 1";
		if (is_column(&ops[i], OP_WRITE, C_MERGE))
			return "merge 2";
		if (ops[i].kind == OP_DELETE_ROW)
			return "merge 3";
		if (ops[i].kind == OP_DELETE_FAMILY)
			return "merge 4";
	}
	for (unsigned i = 0; i < count; i++)
		for (unsigned k = 0; k < sizeof(events) / sizeof(*events); k++)
			if (event_begins(&ops[i], events[k]))
				return k == 0 ? "split 2" : events[k];
	return count && ops[0].kind != OP_CHECK ? "first row" : DURABLE_UNKNOWN;
}

int __wrap_metadata_mutate(struct tablet_service *svc, struct tfs_bytes row_key, const struct op *ops, unsigned count)
{
	const char *before = atomic_exchange(&step, mutation_name(ops, count));
	int err = __real_metadata_mutate(svc, row_key, ops, count);

	step = before;
	return err;
}

int __wrap_metadata_make(
	struct tablet_service *svc, uint32_t table, bool split, struct tfs_bytes row_key, const struct op *ops, unsigned count)
{
	const char *before = atomic_exchange(&step, mutation_name(ops, count));
	int err = __real_metadata_make(svc, table, split, row_key, ops, count);

	step = before;
	return err;
}

int __wrap_metadata_delete(struct tablet_service *svc, struct tfs_bytes row_key)
{
	const char *before = atomic_exchange(&step, "row deleted");
	int err = __real_metadata_delete(svc, row_key);

	step = before;
	return err;
}

/* ---- names ---- */
static const char *place_of_path(const char *path)
{
	static const char *const places[] = {
		"/lock/journal", "/lock/tables", "/lock/snapshots", "/lock/dropped", "/lock/ids", "/lock/root", "/lock/", "/lock",
		"/log", "/sst", "/store", "/tfs-crash", /* where the store is */
	};

	for (unsigned i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (strstr(path, places[i]))
			return places[i] + 1;
	return DURABLE_UNKNOWN;
}

bool durable_name(char name[DURABLE_BYTES], enum file_op op, const char *path)
{
	const char *in = call, *what = step;
	size_t n = strlen(path);

	if (op == FILE_OP_READ || op == FILE_OP_OPEN || op == FILE_OP_LIST)
		return false;
	if (!in) {
		*name = '\0';
		return true;
	}
	snprintf(name, DURABLE_BYTES, "%s: %s%s%s %s%s", in, what ? what : "", what ? ", " : "", file_op_names[op],
		place_of_path(path), n > 4 && strcmp(path + n - 4, ".tmp") == 0 ? " .tmp" : "");
	return true;
}

/* ---- the library's calls ---- */
#define TOLD(what, ...)                                                                                                            \
	do {                                                                                                                       \
		int err_;                                                                                                          \
                                                                                                                                   \
		durable_call(what);                                                                                                \
		err_ = __VA_ARGS__;                                                                                                \
		durable_call(NULL);                                                                                                \
		return err_;                                                                                                       \
	} while (0)

static int told_table_create(struct tfs_store *s, const char *name, uid_t uid, gid_t gid, mode_t mode)
{
	TOLD("table made", tfs_table_create(s, name, uid, gid, mode));
}

static int told_table_drop(struct tfs_store *s, const char *name)
{
	TOLD("table dropped", tfs_table_drop(s, name));
}

static int told_table_rename(struct tfs_store *s, const char *from, const char *to, bool noreplace)
{
	TOLD("table renamed", tfs_table_rename(s, from, to, noreplace));
}

static int told_schema_set_text(struct tfs_table *t, struct tfs_bytes text, int64_t mtime_us, char **why)
{
	TOLD("schema text", tfs_schema_set_text(t, text, mtime_us, why));
}

static int told_schema_change(struct tfs_table *t, const struct tfs_schema_edit *e, char **why)
{
	TOLD(schema_op_names[e->op], tfs_schema_change(t, e, why));
}

static int told_split(struct tfs_table *t, struct tfs_bytes row)
{
	TOLD("split", tfs_split(t, row));
}

static int told_merge(struct tfs_table *t, struct tfs_bytes row)
{
	TOLD("merge", tfs_merge(t, row));
}

static int told_table_truncate(struct tfs_table *t, char **why)
{
	TOLD("table truncated", tfs_table_truncate(t, why));
}

static int told_table_clone(struct tfs_table *t, const char *name)
{
	TOLD("table cloned", tfs_table_clone(t, name));
}

static int told_snapshot_create(struct tfs_table *t, const char *name)
{
	TOLD("snapshot made", tfs_snapshot_create(t, name));
}

static int told_snapshot_drop(struct tfs_table *t, const char *name)
{
	TOLD("snapshot dropped", tfs_snapshot_drop(t, name));
}

struct api durable_api(void)
{
	struct api a = api_library;

	a.table_create = told_table_create;
	a.table_drop = told_table_drop;
	a.table_rename = told_table_rename;
	a.schema_set_text = told_schema_set_text;
	a.schema_change = told_schema_change;
	a.split = told_split;
	a.merge = told_merge;
	a.table_truncate = told_table_truncate;
	a.table_clone = told_table_clone;
	a.snapshot_create = told_snapshot_create;
	a.snapshot_drop = told_snapshot_drop;
	return a;
}
