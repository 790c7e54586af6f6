/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for one row of a table, salted or not. */
#include "engine/client/salt.h"

#include <errno.h>
#include <stdlib.h>

#define ROW_INLINE 512

uint32_t salt_known(struct tfs_table *t)
{
	const struct schema *s = table_schema(t);
	uint32_t salt = (uint32_t)schema_public(s)->salt_in_use;

	schema_put(s);
	return salt;
}

int salt_learn(struct tfs_table *t)
{
	const struct schema *s = table_schema(t);
	struct ms_request q = {.method = MS_SCHEMA_BY_ID, .name = schema_public(s)->name, .table = t->id};
	struct ms_answer a = {0};
	int err = master_call(t->store, &q, &a, NULL);

	ms_answer_fini(&a);
	schema_put(s);
	return err;
}

int salt_call(struct tfs_table *t, struct ts_request *q, struct ts_answer *a)
{
	uint8_t few[ROW_INLINE], *key = NULL;
	struct slice row = q->row;
	int err = 0;

	for (unsigned tries = 0; tries < SALT_TRIES; tries++) {
		const struct schema *s;

		if (q->salt && !key) {
			key = row.n < sizeof(few) ? few : malloc(row.n + 1);
			if (!key) {
				err = -ENOMEM;
				break;
			}
			memcpy(key + 1, row.p, row.n);
		}
		q->row = row;
		if (q->salt) {
			key[0] = salt_byte(row, q->salt);
			q->row = slice_of(key, row.n + 1);
		}
		err = service_call(t->store->o.tablets, q, a);
		if (err != -EKEYREJECTED)
			break;
		err = salt_learn(t);
		if (err)
			break;
		s = table_schema(t);
		q->salt = (uint32_t)schema_public(s)->salt_in_use;
		q->schema_generation = schema_public(s)->generation;
		schema_put(s);
		err = -EIO; /* client and servers cannot agree */
	}
	q->row = row;
	if (key != few)
		free(key);
	return err;
}
