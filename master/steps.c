/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of which changes of tables consist (tables.c, change.c, snapshots.c):
 * reading and writing a schema, blocking a table's writes, creating its tablets in
 * METADATA.
 */
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "master/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RETRY_US 10000

void table_file_name(char *file, const char *name)
{
	snprintf(file, TABLE_FILE_MAX, "tables/%s", name);
}

void drain_file_name(uint64_t incarnation, char *name)
{
	snprintf(name, DRAIN_FILE_MAX, "draining/%llu", (unsigned long long)incarnation);
}

bool server_is_draining(struct master *m, uint64_t incarnation)
{
	char name[DRAIN_FILE_MAX];

	drain_file_name(incarnation, name);
	return lock_get(m->locks, name, NULL, NULL) == 0;
}

static int found_snapshot(void *arg, uint32_t table, const char *name)
{
	(void)arg, (void)table, (void)name;
	return 1;
}

int master_has_snapshots(struct master *m, const struct tfs_schema *p, char **why)
{
	int found = schemas_each_snapshot(m->locks, p->table_id, found_snapshot, NULL);

	if (found <= 0)
		return found;
	why_set(why, "table \"%s\" has snapshots: drop them first", p->name);
	return -EBUSY;
}

int master_block_writes(struct master *m, uint32_t table)
{
	struct ts_request q = {.method = TS_BLOCK_WRITES, .table = table, .term = master_term(m)};
	struct ts_answer a = {0};
	int err = ts_call(m->tablets, &q, &a);

	ts_answer_fini(&a);
	return err == -ENOENT ? -EIO : err; /* the table has a schema, so the server must have its tablets */
}

static int unblock(struct master *m, uint32_t table)
{
	struct ts_request q = {.method = TS_UNBLOCK_WRITES, .table = table, .term = master_term(m)};
	struct ts_answer a = {0};
	int err;

	/* In an embedded store only a lack of memory keeps the request from the server. */
	while ((err = ts_call(m->tablets, &q, &a)) == -ENOMEM)
		(void)usleep(RETRY_US);
	ts_answer_fini(&a);
	return err;
}

void master_unblock_writes(struct master *m, uint32_t table)
{
	/* A drop whose outcome is unknown may take place later.  No write may be acknowledged between the drop's check and that moment. */
	int err = m->in_doubt ? lock_sync(m->locks) : 0;

	if (!err)
		err = unblock(m, table);
	if (!err)
		return;
	msg_warning("table %u: its writes remain blocked until the next pass: %s", table, error_text(err));
	if (array_grow(&m->blocked, m->blocked_count, sizeof(*m->blocked)))
		return; /* the block lasts until the next term */
	m->blocked[m->blocked_count++] = table;
	m->passes.unassigned = true;
}

void master_unblock_again(struct master *m)
{
	unsigned left = 0;

	if (!m->blocked_count || lock_sync(m->locks))
		return;
	for (unsigned i = 0; i < m->blocked_count; i++)
		if (unblock(m, m->blocked[i]))
			m->blocked[left++] = m->blocked[i];
	m->blocked_count = left;
}

int master_is_repetition(struct master *m, const char *file, const struct ms_request *q, struct ms_answer *a)
{
	struct schema *s = NULL;
	struct buf b = {0};
	int err = lock_get(m->locks, file, &b, NULL), found = err == -ENOENT ? 0 : err ? err : -EEXIST;

	if (!err && q->number && schema_decode_file(buf_bytes(&b), file, &s) == 0 && schema_made(s) == q->number) {
		a->schema = schema_get(s);
		found = 1;
	}
	schema_put(s);
	buf_fini(&b);
	return found;
}

int master_schema_write(struct master *m, const struct tfs_schema *old, const struct schema *s, uint64_t version)
{
	const bool moves = old->tablets_id != schema_public(s)->tablets_id;
	char file[TABLE_FILE_MAX], note[DROP_NOTE_MAX], made[DROP_NOTE_MAX];
	struct lock_op ops[3] = {
		{.name = file, .expect = version}, drop_note(old->tablets_id, note), drop_note(schema_public(s)->tablets_id, made)};
	struct buf b = {0};
	int err = schema_encode(s, &b);

	table_file_name(file, schema_public(s)->name);
	ops[0].contents = buf_bytes(&b);
	ops[2].what = LOCK_REMOVE;
	if (!err)
		err = master_multi(m, ops, !moves ? 1 : m->o.sole ? 2 : 3);
	if (err && moves)
		m->passes.unassigned = true; /* a pass removes the rows of the new tablets, unless the schema was written */
	buf_fini(&b);
	return err;
}

int master_ids_read(struct master *m, uint32_t *next, uint64_t *version)
{
	struct buf b = {0};
	int err = lock_get(m->locks, "ids", &b, version);

	if (!err && b.n != 4) {
		err = -EBADMSG;
	} else if (!err) {
		*next = load_be32(b.p);
		err = *next < META_FIRST_USER_TABLE ? -EBADMSG : 0;
	} else if (err == -ENOENT) {
		*next = META_FIRST_USER_TABLE;
		*version = LOCK_ABSENT;
		err = 0;
	}
	buf_fini(&b);
	return err;
}

int master_incarnation(struct master *m, uint64_t *latest)
{
	uint64_t version;
	int err = lock_get_number(m->locks, "incarnation", latest, &version);

	return err ? err : version == LOCK_ABSENT ? -ENOENT : 0;
}

int master_ids_take(struct master *m, uint32_t *id)
{
	uint8_t bytes[4];
	uint64_t version;
	uint32_t next;
	int err = master_ids_read(m, &next, &version);

	if (err)
		return err;
	if (next == UINT32_MAX)
		return -ENOSPC;
	put_be32(bytes, next + 1);
	err = master_put(m, "ids", tfs_bytes_of(bytes, sizeof(bytes)), version);
	if (!err)
		*id = next;
	return err;
}

struct turn {
	struct master *m;
	unsigned left;
	uint64_t first, chosen;
};

static int take_turn(void *arg, uint64_t incarnation, struct tablet_service *service)
{
	struct turn *t = arg;

	(void)service;
	if (!t->m->o.sole && server_is_draining(t->m, incarnation))
		return 0;
	t->first = t->first ? t->first : incarnation;
	t->chosen = incarnation;
	return t->left-- == 0;
}

/* Returns the server of a new tablet: the servers take turns.  0: there is none; a pass assigns the tablet later. */
static uint64_t next_server(struct master *m)
{
	struct turn t = {.m = m, .left = m->passes.turn++};

	if (m->o.servers.each(m->o.servers.arg, take_turn, &t) == 1)
		return t.chosen;
	m->passes.turn = 1;
	return t.first;
}

/* Writes the METADATA row of a tablet; end NULL: of the table's last one. */
static int add_tablet(struct master *m, uint32_t table, uint64_t server, const struct tfs_bytes *begin, const struct tfs_bytes *end)
{
	struct meta_tablet t = {.table = table, .last = !end, .server = server, .assignment = 1};
	struct arena arena = {0};
	struct buf key = {0};
	struct op *ops;
	unsigned count;
	int err = meta_row_key(&key, table, !end, end ? *end : (struct tfs_bytes){NULL, 0});

	if (!err && begin)
		err = buf_set(&t.begin, begin->p, begin->n);
	if (!err && end)
		err = buf_set(&t.end, end->p, end->n);
	if (!err)
		err = meta_ops_new(&t, &arena, &ops, &count);
	if (!err)
		err = metadata_make(m->tablets, table, false, buf_bytes(&key), ops, count);
	arena_fini(&arena);
	buf_fini(&key);
	meta_tablet_fini(&t);
	return err;
}

int master_tablets_create(struct master *m, const struct tfs_schema *p, uint32_t *id)
{
	const unsigned splits = p ? p->split_count : 0;
	char name[DROP_NOTE_MAX];
	struct lock_op note;
	int err = master_ids_take(m, id);

	if (!err && !m->o.sole) {
		note = drop_note(*id, name);
		err = master_multi(m, &note, 1);
		m->passes.unassigned = m->passes.unassigned || err; /* a pass is due */
	}
	for (unsigned i = 0; i <= splits && !err; i++)
		err = add_tablet(m, *id, next_server(m), i ? &p->splits[i - 1] : NULL, i < splits ? &p->splits[i] : NULL);
	if (err)
		m->passes.unassigned = true;
	return err;
}

static int count_to_two(void *arg, struct tfs_bytes row_key, struct meta_tablet *t)
{
	return ++*(unsigned *)arg == 2;
}

int master_has_one_tablet(struct master *m, uint32_t table, bool *one)
{
	unsigned count = 0;
	int err = metadata_scan_table(m->tablets, table, count_to_two, &count);

	*one = count == 1;
	return err < 0 ? err : 0;
}

struct lock_op drop_note(uint32_t table, char *name)
{
	snprintf(name, DROP_NOTE_MAX, "dropped/%u", table);
	return (struct lock_op){.name = name, .expect = LOCK_ANY};
}

int master_has_cells(struct master *m, const struct tfs_schema *p, uint16_t family, bool *has)
{
	*has = false;
	return p->family_count ? table_has_cells(m->tablets, p->tablets_id, p->generation, family, has) : 0;
}
