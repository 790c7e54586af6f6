/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether the user of a request may do it.  The checks use a schema of
 * the table that is not older than the client's.  A request without a user is
 * the store owner's, and is not checked.
 *
 * In a snapshot the stricter of two rules holds: the rule of its instant and
 * its table's present rule (schema_restrict).  Without a schema of the table,
 * which may be damaged, only requests without a user are served.
 *
 * tfs_may (tabletfs.h) has the rules.  A mutation also reads if it returns or
 * compares stored values: an increment, a check, a move (its source).
 */
#include "engine/server/tables/set.h"

#include <errno.h>
#include <stdlib.h>

/* Sets *out to a reference to the schema of u, a snapshot, with the stricter access. */
static int restricted_schema(struct server *s, struct user_table *u, const struct schema **out)
{
	const struct schema *then, *now;
	struct schema *made = NULL;
	int err = user_table_restriction(s, u, &then, &now, out);

	if (err || *out)
		return err;
	err = schema_restrict(then, now, false, &made);
	schema_put(then);
	if (err) {
		schema_put(now);
		return err;
	}
	*out = schema_get(made);
	user_table_restrict(s, u, made, now);
	return 0;
}

/* Sets *out to a reference to the table's schema, which is read again first if the client has a newer one. */
static int access_schema(struct served_tablet *served, const struct ts_request *q, const struct schema **out)
{
	struct server *s = served->server;
	struct user_table *u = served->user_table;

	if (!u)
		return -EACCES; /* METADATA belongs to the store's owner */
	(void)user_table_read_again(s, u, q->schema_generation);
	if (u->frozen)
		return restricted_schema(s, u, out);
	*out = user_table_access(s, u);
	return *out ? 0 : -EACCES;
}

static int may(const struct tfs_schema *p, const struct ts_request *q, uint16_t family, unsigned what)
{
	const struct tfs_family *f = schema_family_by_id(p, family);

	return !f ? -EINVAL : tfs_may(p, f, q->user, what) ? 0 : -EACCES;
}

int access_read(struct served_tablet *served, const struct ts_request *q, uint16_t family)
{
	const struct schema *s;
	int err = access_schema(served, q, &s);

	if (err)
		return err;
	err = may(schema_public(s), q, family, TFS_MAY_READ);
	schema_put(s);
	return err;
}

int access_owner(struct served_tablet *served, const struct ts_request *q)
{
	const struct schema *s;
	int err = access_schema(served, q, &s);

	if (err)
		return err;
	err = schema_owned_by(schema_public(s), q->user);
	schema_put(s);
	return err;
}

static int may_op(const struct tfs_schema *p, const struct ts_request *q, const struct op *op)
{
	int err = 0;

	switch (op->kind) {
	case OP_DELETE_ROW:
		for (unsigned i = 0; i < p->family_count && !err; i++)
			err = may(p, q, p->families[i].id, TFS_MAY_WRITE);
		return err;
	case OP_CHECK:
		return may(p, q, op->family, TFS_MAY_READ);
	case OP_INCREMENT:
		return may(p, q, op->family, TFS_MAY_READ | TFS_MAY_WRITE);
	case OP_MOVE:
		err = may(p, q, op->family, TFS_MAY_READ | TFS_MAY_WRITE);
		return err ? err : may(p, q, op->to_family, TFS_MAY_WRITE);
	case OP_WRITE:
	case OP_DELETE_VERSION:
	case OP_DELETE_COLUMN:
	case OP_DELETE_FAMILY:
	case OP_SET_TIME:
		break;
	}
	return may(p, q, op->family, TFS_MAY_WRITE);
}

void access_hide_sizes(
	struct served_tablet *served, const struct ts_request *q, const struct row_mutation *m, struct tfs_result *results)
{
	const struct schema *s = NULL;
	int err = access_schema(served, q, &s);

	for (uint32_t i = 0; i < m->op_count; i++)
		if (m->ops[i].kind == OP_WRITE && (err || may(schema_public(s), q, m->ops[i].family, TFS_MAY_READ)))
			results[i].size = UINT64_MAX;
	if (!err)
		schema_put(s);
}

int access_ops(struct served_tablet *served, const struct ts_request *q, const struct row_mutation *m, unsigned *failed_op)
{
	const struct schema *s;
	int err = access_schema(served, q, &s);

	if (err)
		return err;
	for (uint32_t i = 0; i < m->op_count && !err; i++)
		if ((err = may_op(schema_public(s), q, &m->ops[i])))
			*failed_op = i + 1;
	schema_put(s);
	return err;
}

int access_readable(struct served_tablet *served, const struct ts_request *q, const uint16_t *families, uint32_t count,
	uint16_t **ids, uint32_t *id_count)
{
	const struct tfs_schema *p;
	const struct schema *s;
	uint16_t *readable;
	uint32_t n = 0;
	int err = access_schema(served, q, &s);

	if (err)
		return err;
	p = schema_public(s);
	readable = calloc((count ? count : p->family_count) + 1, sizeof(*readable));
	if (!readable)
		err = -ENOMEM;
	else if (!tfs_may(p, NULL, q->user, 0))
		err = -EACCES;
	for (uint32_t i = 0; i < (count ? count : p->family_count) && !err; i++) {
		const uint16_t id = count ? families[i] : p->families[i].id;
		const int refused = may(p, q, id, TFS_MAY_READ);

		if (!refused)
			readable[n++] = id;
		else if (count)
			err = refused;
	}
	schema_put(s);
	if (err) {
		free(readable);
		return err;
	}
	*ids = readable;
	*id_count = n;
	return 0;
}
