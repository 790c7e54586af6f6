/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the tablets of a LOAD, a split or a merge from their METADATA rows. */
#include "engine/base/clock.h"
#include "engine/server/storage/storage.h"
#include "engine/server/tablets/tablets.h"

#include <errno.h>
#include <stdlib.h>

int served_new(struct server *s, struct meta_tablet *row, enum kind kind, uint64_t root_version, struct served_tablet **out)
{
	static const enum rank ranks[KINDS] = {RANK_TABLET_EDIT_ROOT, RANK_TABLET_EDIT_META, RANK_TABLET_EDIT_USER};
	struct tablet_params p = {0};
	struct store_schema *schema = NULL;
	struct served_tablet *served = calloc(1, sizeof(*served));
	int err;

	if (!served)
		return -ENOMEM;
	served->server = s;
	served->table = row->table;
	served->kind = kind;
	served->last = row->last;
	served->root_version = root_version;
	served->assignment = row->server == s->o.incarnation ? row->assignment : row->assignment + 1;
	atomic_init(&served->unclaimed, row->server != s->o.incarnation);
	served->made_us = monotonic_us();
	atomic_init(&served->refs, 1);
	if (!row->last) {
		err = buf_set(&served->end, row->end.p, row->end.n);
		if (err)
			goto fail;
	}
	if (kind == KIND_USER) {
		err = user_table_get(s, row->table, &served->user_table);
		if (!err)
			err = user_table_error(s, served->user_table);
		if (err)
			goto fail;
		schema = user_table_schema(s, served->user_table);
		p.frozen = served->user_table->frozen;
		p.frozen_us = served->user_table->frozen_us;
	} else {
		schema = tables_metadata(s);
	}
	/* This comes before tablet_new, because the tablet's background work may change the row at once. */
	served->row = *row;
	p = (struct tablet_params){
		.env = environment_of(s, kind),
		.table = row->table,
		.begin = buf_bytes(&row->begin),
		.end = row->last ? (struct tfs_bytes){NULL, 0} : buf_bytes(&row->end),
		.schema = schema,
		.files = row->files,
		.file_count = row->file_count,
		.redo = row->redo,
		.redo_count = row->redo_count,
		.tokens = row->tokens,
		.token_count = row->token_count,
		.seq_mark = row->seq_mark,
		.major_us = row->major_us,
		.changes_low_us = row->changes_low_us,
		.rank_edit = (int)ranks[kind],
		.commit = row_commit,
		.commit_arg = served,
		.frozen = p.frozen,
		.frozen_us = p.frozen_us,
	};
	err = tablet_new(&p, &served->tablet);
	store_schema_put(schema);
	if (err)
		goto fail;
	*row = (struct meta_tablet){0};
	*out = served;
	return 0;
fail:
	user_table_put(s, served->user_table);
	buf_fini(&served->end);
	free(served);
	return err;
}

void served_replace(
	struct server *s, struct served_tablet *const *old, unsigned old_count, struct served_tablet *const *with, unsigned count)
{
	for (unsigned i = 0; i < count && with[i]->user_table; i++) {
		struct store_schema *schema = user_table_schema(s, with[i]->user_table);

		tablet_set_schema(with[i]->tablet, schema);
		store_schema_put(schema);
	}
	set_replace(s, old, old_count, with, count);
}
