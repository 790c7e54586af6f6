/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New schemas for tables whose schema is lost.
 *
 * No mount opens a store that has data of a table without schema.  The new
 * schema has the families that occur in the table's SSTables and log records,
 * keeps every version, and gives access to its owner only.  If the structure
 * of the damaged file can still be read, the names of the table and of its
 * families are taken from it.  Nothing else is taken from it, because a rule
 * with a flipped bit could delete data.  The salt is found from the rows.
 */
#include "engine/cell/batch_format.h"
#include "engine/cell/cellkey.h"
#include "engine/client/salt.h"
#include "engine/lock/lock_format.h"
#include "engine/schema/restore.h"
#include "engine/tool/store/repair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SALT_ROWS = 8 }; /* if this many rows have the right salt byte, it is no coincidence */

struct damaged { /* a file lock/tables/NAME */
	const struct offline_file *file;
	struct schema *schema; /* the readable part of it, or NULL */
	uint32_t table;        /* 0: not known */
	bool used;
};
struct schemas {
	struct repair *p;
	struct damaged *v;
	unsigned count;
};

/* ---- damaged files ---- */

/* Decodes a schema without regard to its checksum. */
static struct schema *decode_unchecked(struct tfs_bytes s)
{
	struct schema *out = NULL;
	struct buf b = {0};

	if (s.n < 16 || buf_set(&b, s.p, s.n))
		return NULL;
	put_be32(b.p + b.n - 4, crc32c(0, b.p, b.n - 4));
	if (schema_decode(buf_bytes(&b), &out))
		out = NULL;
	buf_fini(&b);
	return out;
}

/* Looks for the schema in either copy: after its length, or up to the file's checksum. */
static struct schema *find_schema(struct tfs_bytes file)
{
	struct schema *out = NULL;

	for (size_t at = 4; at + 16 < file.n && !out; at++) {
		size_t n = file.n - at;
		uint32_t length = load_be32(file.p + at - 4);

		if (memcmp(file.p + at, "TFSC", 4) != 0)
			continue;
		if (length <= n)
			out = decode_unchecked(tfs_bytes_of(file.p + at, length));
		if (!out)
			out = decode_unchecked(tfs_bytes_of(file.p + at, n - 4));
	}
	return out;
}

static int add_damaged(struct schemas *a, const struct offline_file *f)
{
	struct damaged *x;
	struct buf b = {0};
	int err;

	tool_grow(a->v, a->count);
	x = &a->v[a->count++];
	*x = (struct damaged){.file = f};
	err = file_read_all(f->path, LOCK_FILE_BYTES_MAX * 2, &b);
	if (!err)
		x->schema = find_schema(buf_bytes(&b));
	if (x->schema)
		x->table = schema_public(x->schema)->tablets_id;
	buf_fini(&b);
	return err == -EFBIG ? 0 : err;
}

/* ---- the table's data ---- */

struct content {
	uint32_t table;
	struct restore_family *v;
	unsigned count;
	uint16_t group; /* the group of the file being read */
	bool not_salt[256];
	uint64_t rows;
	struct buf row, scratch; /* `row` is the last row */
};

static void note_family(struct content *c, uint16_t id, uint16_t group)
{
	for (unsigned i = 0; i < c->count; i++)
		if (c->v[i].id == id) {
			c->v[i].group = group ? group : c->v[i].group;
			return;
		}
	if (!id)
		return;
	tool_grow(c->v, c->count);
	c->v[c->count++] = (struct restore_family){.id = id, .group = group};
}

/* Rules out each salt that would give the row another first byte. */
static int note_row(struct content *c, struct tfs_bytes row)
{
	if (bytes_eq(row, buf_bytes(&c->row)))
		return 0;
	c->rows++;
	for (unsigned n = 2; n < 256; n++)
		if (!c->not_salt[n])
			c->not_salt[n] = !row.n || row.p[0] != salt_byte(tfs_bytes_of(row.p + 1, row.n - 1), n);
	return buf_set(&c->row, row.p, row.n);
}

static int note_entry(void *arg, struct tfs_bytes key, struct tfs_bytes value)
{
	struct content *c = arg;
	struct cellkey k;
	int err = key.p ? cellkey_decode(key, &k, &c->scratch) : -EBADMSG;

	if (err)
		return err == -EBADMSG ? 0 : err;
	note_family(c, k.family, c->group);
	return note_row(c, k.row);
}

static int note_record(void *arg, const struct log_record *r)
{
	struct content *c = arg;
	struct batch_reader b;
	struct batch_cell cell;

	if (r->table != c->table || batch_open(&b, r->batch))
		return 0;
	while (batch_next(&b, &cell) > 0)
		note_family(c, cell.family, 0);
	return note_row(c, b.row);
}

/* A clone or snapshot uses files in the directory of another table. */
static bool is_file_of(const struct repair *p, uint32_t table, const struct repair_file *f)
{
	if (f->table == table)
		return true;
	for (unsigned i = 0; i < p->tablet_count; i++)
		for (unsigned k = 0; p->tablets[i].table == table && k < p->tablets[i].file_count; k++) {
			const struct tablet_file *listed = &p->tablets[i].files[k];

			if (listed->table == f->table && listed->incarnation == f->incarnation && listed->number == f->number)
				return true;
		}
	return false;
}

static int read_content(struct repair *p, struct content *c)
{
	int err = 0;

	for (const struct repair_file *f = p->files; f && !err; f = f->hh.next) {
		const struct tablet_file at = {.table = f->table, .incarnation = f->incarnation, .number = f->number};

		if (!f->examined || f->gone || f->now.group == TABLET_GROUP_CHANGES || !is_file_of(p, c->table, f))
			continue;
		c->group = f->now.group;
		err = sst_salvage(offline_sst_find(&p->store, &at), offline_sst_path(&p->store, &at), 0, note_entry, c);
	}
	for (const struct repair_log *g = p->logs; g && !err; g = g->next)
		for (unsigned i = 0; i < g->table_count && !err; i++) {
			struct log_end end;
			char *why = NULL;

			if (g->tables[i].table == c->table)
				err = repair_log_replay(p, g->incarnation, g->tables[i].first_lsn, note_record, c, &end, &why);
			free(why);
		}
	return err;
}

static unsigned find_salt(const struct content *c, const struct tfs_schema *said)
{
	unsigned salt = said ? said->salt_in_use : 0;

	if (c->rows < SALT_ROWS)
		return salt && !c->not_salt[salt] ? salt : 0;
	for (unsigned n = 2; n < 256; n++)
		if (!c->not_salt[n])
			return n;
	return 0;
}

/* ---- one table ---- */

static int restore_schema(struct schemas *a, uint32_t table, struct damaged *x, struct content *c)
{
	const struct tfs_schema *said = x && x->schema ? schema_public(x->schema) : NULL;
	struct restore_table r = {.table = table, .uid = geteuid(), .gid = getegid(), .salt = (uint8_t)find_salt(c, said)};
	struct schema *s = NULL;
	struct buf b = {0};
	int err;

	r.mtime_us = (int64_t)time(NULL) * 1000000;
	for (unsigned i = 0; said && i < said->family_count; i++) {
		note_family(c, said->families[i].id, 0);
		for (unsigned k = 0; k < c->count; k++)
			if (c->v[k].id == said->families[i].id)
				c->v[k].name = said->families[i].name;
	}
	r.name = x ? x->file->name + strlen("tables/") : text("table-%u", table);
	r.families = c->v;
	r.family_count = c->count;
	err = schema_restore(&r, &s);
	if (!err)
		err = schema_encode(s, &b);
	if (!err) {
		repair_step(a->p,
			"lock/tables/%s: a new schema for table id %u: %u families%s, salt %u, for its owner only; give it names, rules, "
			"owners and modes",
			r.name, table, c->count, said ? " under the names that can be read" : ", named family-ID", r.salt);
		repair_loss(a->p, "table %s: its schema (rules, owners, modes%s)", r.name, said ? "" : ", names of families");
		err = repair_lock_file(a->p, text("tables/%s", r.name), buf_bytes(&b));
	}
	schema_put(s);
	buf_fini(&b);
	return err;
}

/* Returns the damaged file of the table.  any: if there is none, returns the only damaged file that is left and whose table is not known. */
static struct damaged *damaged_of(const struct schemas *a, uint32_t table, bool any)
{
	struct damaged *one = NULL;

	for (unsigned i = 0; i < a->count; i++)
		if (a->v[i].table == table)
			return &a->v[i];
	for (unsigned i = 0; i < a->count && any; i++)
		if (!a->v[i].used) {
			if (one || a->v[i].table)
				return NULL;
			one = &a->v[i];
		}
	return one;
}

/* by_id: repairs the schema only if a damaged file has the id of this table. */
static int repair_schema(struct schemas *a, uint32_t table, bool has_data, bool by_id)
{
	struct damaged *x = damaged_of(a, table, !by_id);
	struct content c = {.table = table};
	int err;

	if (by_id ? !x : (!has_data && !x) || (x && x->used))
		return 0;
	if (x) {
		x->used = true;
		x->table = table;
	}
	err = read_content(a->p, &c);
	if (!err)
		err = restore_schema(a, table, x, &c);
	free(c.v);
	buf_fini(&c.row);
	buf_fini(&c.scratch);
	return err;
}

/* Repairs the schema of each table of METADATA that has none. */
static int repair_tables(struct schemas *a, bool by_id)
{
	const struct repair *p = a->p;
	int err = 0;

	for (unsigned i = 0; i < p->tablet_count && !err;) {
		uint32_t table = p->tablets[i].table;
		bool has_data = false;

		for (; i < p->tablet_count && p->tablets[i].table == table; i++)
			has_data |= p->tablets[i].file_count || p->tablets[i].redo_count;
		if (!offline_table(&p->store, table) && !offline_is_dropped(&p->store, table))
			err = repair_schema(a, table, has_data, by_id);
	}
	return err;
}

int repair_schemas(struct repair *p)
{
	struct schemas a = {.p = p};
	int err = 0;

	for (unsigned i = 0; i < p->store.file_count && !err; i++)
		if (p->store.files[i].damaged && strncmp(p->store.files[i].name, "tables/", 7) == 0)
			err = add_damaged(&a, &p->store.files[i]);
	if (!err)
		err = repair_tables(&a, true);
	if (!err)
		err = repair_tables(&a, false);
	for (unsigned i = 0; i < a.count; i++) {
		const struct offline_file *f = a.v[i].file;

		if (!a.v[i].used && !err) {
			repair_step(p, "%s: removed: no data is of this table", f->path);
			repair_loss(p, "table %s, which has no cells", f->name + strlen("tables/"));
			err = repair_lock_file(p, f->name, (struct tfs_bytes){NULL, 0});
		}
		schema_put(a.v[i].schema);
	}
	free(a.v);
	return err;
}
