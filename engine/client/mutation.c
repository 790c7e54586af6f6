/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Row mutations.  A mutation is a list of operations with family ids instead
 * of names.  tfs_apply sends it as one request.  Keys and values are borrowed
 * until tfs_apply returns.
 */
#include "engine/client/salt.h"

#include "engine/base/msg.h"

#include <errno.h>
#include <stdlib.h>

#define OPS_INLINE 4

struct tfs_mutation {
	struct tfs_table *table;
	const struct schema *schema;
	struct tfs_bytes row;
	struct op first[OPS_INLINE];
	struct op *ops;
	unsigned count, cap;
	int err;       /* -EINVAL: an operation has an unknown family, kind or tfs_when; tfs_apply returns the error */
	char *unknown; /* the name of an unknown family */
};

struct tfs_mutation *tfs_mutation_new(struct tfs_table *t, struct tfs_bytes row)
{
	struct tfs_mutation *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->table = t;
	table_get(t);
	m->schema = table_schema(t);
	m->row = row;
	m->ops = m->first;
	m->cap = OPS_INLINE;
	return m;
}

void tfs_mutation_free(struct tfs_mutation *m)
{
	if (!m)
		return;
	if (m->ops != m->first)
		free(m->ops);
	free(m->unknown);
	schema_put(m->schema);
	tfs_table_close(m->table);
	free(m);
}

/* Returns the family's id.  Returns 0 and sets m->err if the schema does not have the family. */
static uint16_t mutation_family(struct tfs_mutation *m, const char *name)
{
	const struct tfs_family *f = name ? tfs_schema_family(schema_public(m->schema), name) : NULL;

	if (!f) {
		m->err = -EINVAL;
		if (!m->unknown)
			m->unknown = strndup(name ? name : "", 2 * TFS_NAME_MAX);
		return 0;
	}
	return f->id;
}

static int mutation_add(struct tfs_mutation *m, const struct op *op)
{
	if (op->w.place.when > TFS_NEWEST || op->to.when > TFS_NEWEST)
		m->err = -EINVAL;
	if (m->count == m->cap) {
		unsigned cap = m->cap * 2;
		struct op *ops = m->ops == m->first ? malloc(cap * sizeof(*ops)) : realloc(m->ops, cap * sizeof(*ops));

		if (!ops)
			return -ENOMEM;
		if (m->ops == m->first)
			memcpy(ops, m->first, sizeof(m->first));
		m->ops = ops;
		m->cap = cap;
	}
	m->ops[m->count++] = *op;
	return 0;
}

static struct op mutation_op(struct tfs_mutation *m, enum op_kind kind, const char *family, struct tfs_bytes qualifier)
{
	return (struct op){.kind = kind, .family = mutation_family(m, family), .w.qualifier = qualifier};
}

int tfs_mutation_put(
	struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, struct tfs_ts ts, struct tfs_bytes value)
{
	struct op op = mutation_op(m, OP_WRITE, family, qualifier);

	op.w.place = ts;
	op.w.truncate_to = UINT64_MAX;
	op.value = value;
	return mutation_add(m, &op);
}

int tfs_mutation_write(struct tfs_mutation *m, const struct tfs_write *w)
{
	struct op op = {.kind = OP_WRITE, .family = mutation_family(m, w->family), .w = *w};

	op.w.family = NULL;
	if (w->base > TFS_BASE_VERSION)
		m->err = -EINVAL;
	return mutation_add(m, &op);
}

int tfs_mutation_delete_version(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, int64_t ts)
{
	struct op op = mutation_op(m, OP_DELETE_VERSION, family, qualifier);

	op.w.place.us = ts;
	return mutation_add(m, &op);
}

int tfs_mutation_delete_column(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier)
{
	struct op op = mutation_op(m, OP_DELETE_COLUMN, family, qualifier);

	return mutation_add(m, &op);
}

int tfs_mutation_delete_family(struct tfs_mutation *m, const char *family)
{
	struct op op = mutation_op(m, OP_DELETE_FAMILY, family, tfs_bytes_of(NULL, 0));

	return mutation_add(m, &op);
}

int tfs_mutation_delete_row(struct tfs_mutation *m)
{
	struct op op = {.kind = OP_DELETE_ROW};

	return mutation_add(m, &op);
}

int tfs_mutation_set_time(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, int64_t to)
{
	struct op op = mutation_op(m, OP_SET_TIME, family, qualifier);

	op.w.place.us = to;
	return mutation_add(m, &op);
}

int tfs_mutation_move(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, struct tfs_ts from,
	const char *to_family, struct tfs_bytes to_qualifier, struct tfs_ts to, bool noreplace)
{
	struct op op = mutation_op(m, OP_MOVE, family, qualifier);

	op.to_family = mutation_family(m, to_family);
	op.to_qualifier = to_qualifier;
	op.w.place = from;
	op.to = to;
	op.noreplace = noreplace;
	return mutation_add(m, &op);
}

int tfs_mutation_increment(struct tfs_mutation *m, const char *family, struct tfs_bytes qualifier, int64_t by)
{
	struct op op = mutation_op(m, OP_INCREMENT, family, qualifier);

	op.by = by;
	return mutation_add(m, &op);
}

int tfs_mutation_check(struct tfs_mutation *m, enum tfs_check check, const char *family, struct tfs_bytes qualifier,
	struct tfs_ts ts, struct tfs_bytes value)
{
	struct op op = mutation_op(m, OP_CHECK, family, qualifier);

	op.w.place = ts;
	op.check = check;
	op.value = value;
	if (check > TFS_CHECK_MATCH)
		m->err = -EINVAL;
	return mutation_add(m, &op);
}

int tfs_mutation_check_family(struct tfs_mutation *m, const char *family, uint64_t fingerprint)
{
	struct op op = mutation_op(m, OP_CHECK, family, tfs_bytes_of(NULL, 0));

	op.check = TFS_CHECK_FAMILY;
	op.w.place.us = (int64_t)fingerprint;
	return mutation_add(m, &op);
}

int mutation_row(const struct tfs_mutation *m, const struct tfs_table *t, struct row_mutation *out, uint64_t *generation)
{
	if (m->table != t)
		return table_why(m->table, -EINVAL, "the mutation is of this table, and the batch of another one");
	if (schema_public(m->schema)->snapshot_of)
		return table_why(m->table, -EROFS, SNAPSHOT_STAYS);
	if (m->err && m->unknown)
		return table_no_family(m->table, m->unknown);
	if (m->err)
		return column_why(m->table, m->err, m->row, NULL, NULL, "an operation has a time or a kind that is none");
	if (m->row.n == 0 || m->row.n > TFS_ROW_MAX)
		return table_why(m->table, -EINVAL, ROW_LIMIT);
	*out = (struct row_mutation){.row = m->row, .ops = m->ops, .op_count = m->count};
	*generation = schema_public(m->schema)->generation;
	return 0;
}

static enum reason_op reason_op_of(const struct op *op)
{
	if (op->kind == OP_INCREMENT)
		return REASON_INCREMENT;
	if (op->kind == OP_SET_TIME)
		return REASON_SET_TIME;
	if (op->kind == OP_MOVE)
		return REASON_MOVE;
	if (op->kind != OP_CHECK)
		return REASON_OTHER;
	return op->check == TFS_CHECK_EXISTS       ? REASON_CHECK_EXISTS
		: op->check == TFS_CHECK_ABSENT    ? REASON_CHECK_ABSENT
		: op->check == TFS_CHECK_MATCH     ? REASON_CHECK_MATCH
		: op->check == TFS_CHECK_FAMILY    ? REASON_CHECK_FAMILY
		: op->check == TFS_CHECK_NEWEST_IS ? REASON_CHECK_NEWEST
						   : REASON_CHECK_VALUE;
}

int mutation_failed(struct tfs_table *t, const struct row_mutation *m, uint32_t failed_op, int err)
{
	const struct op *op = failed_op && failed_op <= m->op_count ? &m->ops[failed_op - 1] : m->op_count == 1 ? m->ops : NULL;
	const char *reason = reason_of_op(op ? reason_op_of(op) : REASON_OTHER, err);
	const struct tfs_family *f;
	const struct schema *s;

	if (reason_is_set())
		return err;
	if (op && (op->w.qualifier.n > TFS_QUALIFIER_MAX || op->to_qualifier.n > TFS_QUALIFIER_MAX))
		reason = "a qualifier has at most 16,384 bytes";
	s = table_schema(t);
	if (err == -EROFS && schema_public(s)->readonly)
		reason = "the table is readonly: first write readonly = false into its .schema";
	if (!reason) {
		schema_put(s);
		return err;
	}
	f = op && op->kind != OP_DELETE_ROW ? schema_family_by_id(schema_public(s), op->family) : NULL;
	err = column_why(t, err, m->row, f ? f->name : NULL, f && op->kind != OP_DELETE_FAMILY ? &op->w.qualifier : NULL, reason);
	schema_put(s);
	return err;
}

int tfs_apply(struct tfs_mutation *m, unsigned flags, struct tfs_result *results)
{
	reason_clear();
	struct ts_answer a = {.results = results};
	struct row_mutation row;
	uint64_t generation;
	int err = mutation_row(m, m->table, &row, &generation);

	if (err)
		return err;
	if (flags & ~(TFS_APPLY_SYNC | TFS_APPLY_KEEP))
		return table_why(m->table, -EINVAL, "there are no such flags");
	for (unsigned i = 0; i < m->count; i++)
		if (m->ops[i].kind == OP_DELETE_COLUMN || m->ops[i].kind == OP_DELETE_FAMILY || m->ops[i].kind == OP_DELETE_ROW)
			m->ops[i].w.replace = flags & TFS_APPLY_KEEP;
	if (m->count == 0)
		return 0;
	err = table_mutate(m->table, m->schema, generation, &row, 1, flags & TFS_APPLY_SYNC, &a);
	for (unsigned i = 0; err && results && i < m->count; i++)
		results[i] = (struct tfs_result){.failed = a.failed_op == i + 1};
	if (err)
		(void)mutation_failed(m->table, &row, a.failed_op, err);
	ts_answer_fini(&a);
	return err;
}
