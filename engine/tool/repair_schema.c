/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables whose schema is lost, and damaged schema files.
 *
 * A table with data needs a schema, or no mount opens the store.  The new one
 * has the families whose ids its SSTables and log records name, keeps every
 * version of them, and lets nobody in but its owner.  A damaged schema file
 * whose structure can still be read gives their names and those of the table;
 * nothing else of it is believed, because a rule with a flipped bit would
 * delete data.  Which salt the rows have, they tell themselves.
 */
#include "engine/lock/lock_format.h"
#include "engine/schema/restore.h"
#include "engine/cell/cellkey.h"
#include "engine/tablet/props_format.h"
#include "engine/tool/repair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SALT_ROWS = 8 }; /* so many rows under the right byte are no accident */

struct lost { /* a damaged file lock/tables/NAME */
	char *name, *path;
	struct schema *s; /* NULL: nothing of it can be read */
	uint32_t id;      /* as it says; perhaps wrong */
	bool used;
};
struct all {
	struct repair *p;
	const char *dir;
	struct lost *v;
	unsigned count;
};

/* A schema's bytes with the checksum that they ought to have. */
static struct schema *decode_unchecked(struct slice s)
{
	struct schema *out = NULL;
	struct buf b = {0};

	if (s.n < 16 || buf_set(&b, s.p, s.n))
		return NULL;
	put_be32(b.p + b.n - 4, crc32c(0, b.p, b.n - 4));
	if (schema_decode(buf_slice(&b), &out))
		out = NULL;
	buf_fini(&b);
	return out;
}

static void read_what_can_be(struct lost *x, struct slice file)
{
	for (size_t at = 4; at + 16 < file.n && !x->s; at++) {
		size_t n = file.n - at;
		uint32_t said = load_be32(file.p + at - 4);

		if (memcmp(file.p + at, "TFSC", 4) != 0)
			continue;
		if (!x->id)
			x->id = load_be32(file.p + at + 10); /* of its tablets */
		if (said <= n)
			x->s = decode_unchecked(slice_of(file.p + at, said));
		if (!x->s)
			x->s = decode_unchecked(slice_of(file.p + at, n - 4));
	}
	if (x->s)
		x->id = schema_public(x->s)->tablets_id;
}

static bool is_known(const struct repair *p, const char *name)
{
	for (unsigned i = 0; i < p->store.table_count; i++)
		if (strcmp(p->store.tables[i].p->name, name) == 0)
			return true;
	return false;
}

static int add_lost(void *arg, const char *name, bool is_dir)
{
	struct all *a = arg;
	struct lost x = {0}, *v;
	struct buf b = {0};
	int err = 0;

	if (is_dir || !schema_name_valid(slice_str(name)) || is_known(a->p, name) || strstr(name, ".tmp"))
		return 0;
	v = realloc(a->v, (a->count + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	a->v = v;
	x.name = strdup(name);
	x.path = path_join(a->dir, name);
	v[a->count++] = x;
	if (!x.name || !x.path)
		return -ENOMEM;
	err = file_read_all(x.path, LOCK_FILE_BYTES_MAX * 2, &b);
	if (!err)
		read_what_can_be(&v[a->count - 1], buf_slice(&b));
	buf_fini(&b);
	return err == -EFBIG ? 0 : err;
}

/* ---- what the data says of a table ---- */

struct told {
	struct restore_family *v;
	unsigned count, cap;
	uint8_t no_salt[256];
	uint64_t rows;
	bool failed;
};

static void tell_family(struct told *t, uint16_t id, uint16_t group, bool has_group)
{
	struct restore_family *v;

	if (!id)
		return;
	for (unsigned i = 0; i < t->count; i++)
		if (t->v[i].id == id) {
			if (has_group)
				t->v[i].group = group;
			return;
		}
	v = realloc(t->v, (t->count + 1) * sizeof(*v));
	if (!v) {
		t->failed = true;
		return;
	}
	t->v = v;
	v[t->count++] = (struct restore_family){.id = id, .group = has_group ? group : 0};
}

static void tell_row(struct told *t, struct slice row)
{
	t->rows++;
	repair_salt_note(t->no_salt, row);
}

static int tell_file(struct repair *p, struct told *t, const struct tablet_file *f)
{
	const struct props *props = repair_sst_props(p, f);
	char *path = NULL;
	struct sst *s = NULL;
	struct iter *it = NULL;
	struct buf scratch = {0};
	uint64_t keys = 0;
	int err = 0;

	for (uint32_t i = 0; props && i < props->family_count; i++)
		tell_family(t, props->families[i].id, props->group, true);
	if (!props)
		return 0;
	tell_row(t, buf_slice(&props->first));
	tell_row(t, buf_slice(&props->last));
	/* Rewritten files are not there in a dry run; their first and last rows are. */
	path = tablet_file_path(p->dir, f->table, f->incarnation, f->number);
	if (!path || !repair_exists(path))
		goto out;
	err = sst_new(p->store.cache, path, false, &s);
	if (!err)
		err = sst_scan_new(s, &it);
	if (!err)
		for (iter_seek(it, slice_of(NULL, 0)); it->valid && keys < 10000 && !err; iter_next(it), keys++) {
			struct cellkey k;

			err = cellkey_decode(it->key, &k, &scratch);
			if (!err)
				tell_row(t, k.row);
		}
	if (it)
		iter_free(it);
out:
	if (s)
		sst_put(s);
	buf_fini(&scratch);
	free(path);
	return err == -EBADMSG ? 0 : err;
}

static void tell_log(void *arg, const struct repair_log_table *r)
{
	struct told *t = arg;

	for (unsigned i = 0; i < r->family_count; i++)
		tell_family(t, r->families[i], 0, false);
	for (unsigned n = 2; n < 256; n++)
		t->no_salt[n] |= r->no_salt[n];
	t->rows += r->records;
}

static unsigned salt_of(const struct told *t, const struct lost *x)
{
	unsigned said = x && x->s ? schema_public(x->s)->salt_in_use : 0;

	if (t->rows < SALT_ROWS)
		return said && !t->no_salt[said] ? said : 0;
	for (unsigned n = 2; n < 256; n++)
		if (!t->no_salt[n])
			return n;
	return 0;
}

/* ---- one table ---- */

static struct lost *lost_for(const struct all *a, uint32_t table, bool only)
{
	struct lost *one = NULL;

	for (unsigned i = 0; i < a->count; i++)
		if (!a->v[i].used && a->v[i].id == table)
			return &a->v[i];
	for (unsigned i = 0; i < a->count && only; i++)
		if (!a->v[i].used) {
			if (one)
				return NULL;
			one = &a->v[i];
		}
	return one;
}

static int restore(struct all *a, uint32_t table, struct lost *x, struct told *t)
{
	const struct tfs_schema *said = x && x->s ? schema_public(x->s) : NULL;
	struct restore_table r = {
		.table = table, .uid = geteuid(), .gid = getegid(), .salt = (uint8_t)salt_of(t, x), .mtime_us = 0};
	char name[64], file[96];
	struct schema *s = NULL;
	struct buf b = {0};
	struct timespec now;
	int err;

	clock_gettime(CLOCK_REALTIME, &now);
	r.mtime_us = (int64_t)now.tv_sec * 1000000;
	for (unsigned i = 0; said && i < said->family_count; i++) {
		tell_family(t, said->families[i].id, 0, false);
		for (unsigned k = 0; k < t->count; k++)
			if (t->v[k].id == said->families[i].id)
				t->v[k].name = said->families[i].name;
	}
	if (t->failed)
		return -ENOMEM;
	snprintf(name, sizeof(name), "table-%u", table);
	r.name = x ? x->name : name;
	r.families = t->v;
	r.family_count = t->count;
	err = schema_restore(&r, &s);
	if (!err)
		err = schema_encode(s, &b);
	if (!err) {
		repair_does(a->p,
			"lock/tables/%s: a new schema for table id %u: %u families%s, salt %u, for its owner only; give it names, rules, "
			"owners and modes",
			r.name, table, t->count, said ? " under the names that can be read" : ", named family-ID", r.salt);
		repair_loses(a->p, "table %s: its schema (rules, owners, modes%s)", r.name, said ? "" : ", names of families");
		snprintf(file, sizeof(file), "tables/%s", r.name);
		if (x)
			x->used = true;
		if (a->p->write)
			err = repair_lock_file(a->p, file, buf_slice(&b));
	}
	schema_put(s);
	buf_fini(&b);
	return err;
}

/* The tablets of m from *i on that are of one table. */
static int one_table(struct all *a, const struct repair_meta *m, unsigned *i, bool by_id)
{
	struct repair *p = a->p;
	uint32_t table = m->v[*i].table;
	struct told t = {0};
	struct lost *x;
	bool data = false;
	char note[32];
	int err = 0;

	snprintf(note, sizeof(note), "dropped/%u", table);
	for (; *i < m->count && m->v[*i].table == table; ++*i) {
		data |= m->v[*i].file_count || m->v[*i].redo_count;
		if (offline_table(&p->store, table) || offline_file(&p->store, note))
			continue;
		for (unsigned f = 0; f < m->v[*i].file_count && !err; f++)
			err = tell_file(p, &t, &m->v[*i].files[f]);
	}
	if (!err && !offline_table(&p->store, table) && !offline_file(&p->store, note)) {
		repair_log_tables(p, table, tell_log, &t);
		x = lost_for(a, table, !by_id);
		if (by_id ? x && x->id == table : (data || x) && !(x && x->used))
			err = restore(a, table, x, &t);
	}
	free(t.v);
	return err;
}

static bool was_restored(const struct all *a, uint32_t table)
{
	for (unsigned i = 0; i < a->count; i++)
		if (a->v[i].used && a->v[i].id == table)
			return true;
	return false;
}

int repair_schemas(struct repair *p, const struct repair_meta *m)
{
	char *top = path_join(p->dir, "lock"), *dir = top ? path_join(top, "tables") : NULL;
	struct all a = {.p = p, .dir = dir};
	int err = dir ? file_list(dir, add_lost, &a) : -ENOMEM;

	if (err == -ENOENT)
		err = 0;
	/* First the files that say which table theirs is, then the rest. */
	for (unsigned i = 0; i < m->count && !err;)
		err = one_table(&a, m, &i, true);
	for (unsigned i = 0; i < m->count && !err;) {
		if (was_restored(&a, m->v[i].table))
			i++;
		else
			err = one_table(&a, m, &i, false);
	}
	for (unsigned i = 0; i < a.count && !err; i++) {
		char file[96];

		if (a.v[i].used)
			continue;
		snprintf(file, sizeof(file), "tables/%s", a.v[i].name);
		repair_does(p, "%s: kept aside and removed: no data is of this table", a.v[i].path);
		repair_loses(p, "table %s, which has no cells", a.v[i].name);
		if (p->write)
			err = repair_lock_file(p, file, (struct slice){NULL, 0});
	}
	for (unsigned i = 0; i < a.count; i++) {
		free(a.v[i].name);
		free(a.v[i].path);
		schema_put(a.v[i].s);
	}
	free(a.v);
	free(top);
	free(dir);
	return err;
}
