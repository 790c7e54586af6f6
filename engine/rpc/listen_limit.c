/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys that name the tables that their peers may use.  Workers check the requests, because the
 * ids of a key's tables are read from files.  Ids that a key has are kept until a schema
 * changes.
 */
#include "engine/rpc/listen_impl.h"

#include <errno.h>

static int check_id(struct peer *p, uint32_t id)
{
	struct listener *l = p->listener;
	const uint64_t now = atomic_load(&l->schema_changes);
	bool has = false;

	mutex_lock(&l->lock);
	if (p->allowed_at != now)
		p->allowed_count = 0;
	p->allowed_at = now;
	for (unsigned i = 0; i < p->allowed_count && !has; i++)
		has = p->allowed[i] == id;
	mutex_unlock(&l->lock);
	if (has)
		return 0;
	if (!l->o.key_has || !l->o.key_has(l->o.arg, p->rights.key, id))
		return -EACCES;
	mutex_lock(&l->lock);
	if (p->allowed_at == now)
		p->allowed[p->allowed_count < ALLOWED ? p->allowed_count++ : id % ALLOWED] = id;
	mutex_unlock(&l->lock);
	return 0;
}

int limit_tablets(struct peer *p, const struct ts_request *q)
{
	/* These two concern the client and the log, and no table. */
	return q->method == TS_HELLO || q->method == TS_SYNC ? 0 : check_id(p, q->table);
}

int limit_master(struct peer *p, const struct ms_request *q)
{
	const struct key *k = p->rights.key;
	const bool names_table = q->method == MS_TABLE_RENAME || q->method == MS_TABLE_CLONE;
	const bool by_name = q->method == MS_TABLE_CREATE || q->method == MS_TABLE_DROP || q->method == MS_TABLE_RENAME;

	if (!k || !k->table_count)
		return 0;
	if (q->of_all || !ms_changes_schemas(q->method) || (q->name && !key_has_table(k, q->name)) ||
		(names_table && q->to && !key_has_table(k, q->to)))
		return -EACCES;
	/* In the other methods the name is a hint, and the id decides. */
	return by_name ? 0 : check_id(p, q->table);
}
