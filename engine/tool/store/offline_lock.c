/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads FORMAT and the files of the lock service, and takes the flock.
 *
 * Opening the lock service would carry out a journal that a crash left, and
 * so write.  Instead the journal's steps are applied to the files in memory.
 */
#include "engine/base/envelope.h"
#include "engine/lock/identity.h"
#include "engine/lock/local_files.h"
#include "engine/lock/lock.h"
#include "engine/host.h"
#include "engine/lock/marker.h"
#include "engine/tool/store/offline.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- FORMAT and the flock ---- */

bool offline_is_store(const char *dir)
{
	static const char *const parts[] = {"FORMAT", "lock", "sst", "log"};
	unsigned n = 0;
	uint64_t bytes;

	for (unsigned i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		n += file_stat_size(text("%s/%s", dir, parts[i]), &bytes) == 0;
	return n >= 2;
}

#define ONE_COPY "%s: one of its two copies is damaged; the next mount writes it again from the other"

static int offline_format(struct report *r, struct offline *store)
{
	const char *path = text("%s/FORMAT", store->dir);
	bool whole = true;
	char *why = NULL;
	int err = store_format_check(path, &whole, &why);

	store->format_damaged = (!err && !whole) || err == -EBADMSG || err == -ENOENT;
	if (!err && !whole) {
		report_problem(r, ONE_COPY, path);
	} else if (err == -EBADMSG) {
		report_problem(r, "%s: not a tabletfs format line", path);
		err = 0;
	} else if (err == -ENOENT && (store->replay || offline_is_store(store->dir))) {
		report_problem(r, "%s: missing", path);
		err = 0;
	} else if (err == -ENOENT || err == -ENOTDIR) {
		complain("%s: not a tabletfs data directory", store->dir);
		err = -ENOENT;
	} else if (err) {
		complain("%s", why ? why : strerror(-err));
	}
	free(why);
	return err;
}

static int look_below(void *arg, const char *name, bool is_dir)
{
	return is_dir ? offline_look(text("%s/%s", (const char *)arg, name)) : 0;
}

int offline_look(const char *dir)
{
	int err = file_list(dir, look_below, (void *)(uintptr_t)dir);

	return err == -ELOOP || err == -ENXIO ? err : 0;
}

bool offline_is_cluster(const char *dir)
{
	uint64_t id;
	const bool is = file_look_up(text("%s/" MARKER_FILE, dir), &id) == 0;

	if (is)
		complain("%s: the directory of a cluster, whose servers serve it", dir);
	return is;
}

static int take_offline_flock(struct offline *store)
{
	const char *path = text("%s/lock/held", store->dir);
	char holder[LOCK_HOLDER_MAX];
	int err = file_open(path, FILE_READ, &store->lock_file);

	if (err == -ENOENT)
		return 0; /* no mount has created it */
	if (!err)
		err = lock_local_flock(store->lock_file, store->dir);
	if (err == -EBUSY) {
		lock_local_holder(store->dir, holder);
		complain("%s: in use %s", store->dir, holder);
	} else if (err)
		complain("%s: %s", path, strerror(-err));
	return err;
}

/* ---- files ---- */

static struct offline_file *find_file(const struct offline *store, const char *name)
{
	for (unsigned i = 0; i < store->file_count; i++)
		if (strcmp(store->files[i].name, name) == 0)
			return &store->files[i];
	return NULL;
}

struct offline_file *offline_file(const struct offline *store, const char *name)
{
	struct offline_file *f = find_file(store, name);

	return f && !f->damaged ? f : NULL;
}

bool offline_is_dropped(const struct offline *store, uint32_t table)
{
	return offline_file(store, text("dropped/%u", table));
}

static struct offline_file *add_file(struct offline *store, const char *name, const char *path)
{
	struct offline_file *f;

	tool_grow(store->files, store->file_count);
	f = &store->files[store->file_count++];
	*f = (struct offline_file){.name = text("%s", name), .path = path};
	return f;
}

struct walk {
	struct report *r;
	struct offline *store;
	const char *path, *prefix; /* the prefix of names: "" or "tables/" */
};

static int read_entry(void *arg, const char *name, bool is_dir)
{
	struct walk *w = arg;
	const char *path = text("%s/%s", w->path, name);
	char *full = text("%s%s", w->prefix, name);
	size_t n = strlen(full);
	struct offline_file *f;
	struct buf bytes = {0};
	struct tfs_bytes contents;
	uint64_t version;
	bool whole, holes;
	int err;

	if (n > 5 && strcmp(full + n - 5, ".tmp=") == 0) /* the lock service appends "=" to a name that ends in .tmp */
		full[n - 1] = 0;
	if (is_dir && !*w->prefix) {
		struct walk below = {w->r, w->store, path, text("%s/", full)};

		return file_list(path, read_entry, &below);
	}
	if (!*w->prefix && (strcmp(name, LOCK_HELD) == 0 || strcmp(name, LOCK_JOURNAL) == 0))
		return 0;
	if (is_dir || lock_ends_in_tmp(name) || !lock_name_valid(full)) {
		report_note(w->r, "%s: not a file of the lock service; nothing refers to it", path);
		return 0;
	}
	err = copies_read(path, LOCK_FILE_BYTES_MAX, &bytes, &holes);
	if (err) {
		complain("%s: %s", path, strerror(-err));
		buf_fini(&bytes);
		return err;
	}
	err = lock_file_decode(buf_bytes(&bytes), &contents, &version, &whole);
	if (err == -EPROTO) {
		complain("%s: written in a later format", path);
		goto out;
	}
	f = add_file(w->store, full, path);
	if (err) {
		report_problem(w->r, "%s: offset 0: this file of the lock service has a wrong checksum or form", path);
		w->store->incomplete = f->damaged = true;
		if (strcmp(full, "incarnation") == 0)
			w->store->incarnation = UINT64_MAX;
		err = 0;
		goto out;
	}
	if (!whole)
		report_problem(w->r, ONE_COPY, path);
	f->one_copy = !whole;
	f->version = version;
	err = buf_set(&f->contents, contents.p, contents.n);
out:
	buf_fini(&bytes);
	return err;
}

static int overlay_step(struct offline *store, const struct lock_step *s, const char *journal)
{
	struct offline_file *f = find_file(store, s->name);

	if (s->remove) {
		if (f) {
			buf_fini(&f->contents);
			*f = store->files[--store->file_count];
		}
		return 0;
	}
	if (!f)
		f = add_file(store, s->name, journal);
	f->damaged = f->one_copy = false;
	f->version = s->version;
	return buf_set(&f->contents, s->contents.p, s->contents.n);
}

static int overlay_journal(struct report *r, struct offline *store)
{
	const char *path = text("%s/lock/" LOCK_JOURNAL, store->dir);
	struct lock_step *steps = NULL;
	struct buf bytes = {0};
	unsigned count = 0;
	bool holes;
	int err = copies_read(path, LOCK_JOURNAL_BYTES_MAX, &bytes, &holes);

	if (err == -ENOENT)
		return 0;
	if (!err)
		err = lock_journal_decode(buf_bytes(&bytes), &steps, &count);
	if (err == -EBADMSG) {
		report_problem(r, "%s: offset 0: the lock service's journal has a wrong checksum or form", path);
		store->incomplete = store->journal_damaged = true;
		err = 0;
	} else if (err) {
		complain("%s: %s", path, err == -EPROTO ? "written in a later format" : strerror(-err));
	} else {
		report_note(r, "%s: a change of lock/ that the next mount completes", path);
	}
	for (unsigned i = 0; i < count && !err; i++)
		err = overlay_step(store, &steps[i], path);
	free(steps);
	buf_fini(&bytes);
	return err;
}

/* ---- contents ---- */

static int compare_ids(const void *a, const void *b)
{
	const struct offline_table *x = a, *y = b;

	return (x->p->tablets_id > y->p->tablets_id) - (x->p->tablets_id < y->p->tablets_id);
}

static int decode_schema_file(struct report *r, struct offline *store, struct offline_file *f)
{
	struct offline_table t = {0};
	const struct offline_table *other;
	struct schema *s = NULL;
	char file[SCHEMA_FILE_MAX];
	int err = schema_decode(buf_bytes(&f->contents), &s);

	if (err == -ENOMEM)
		return err;
	if (err) {
		report_problem(r, "%s: the schema in it cannot be decoded (%s)", f->path, strerror(-err));
		store->incomplete = f->damaged = true;
		return 0;
	}
	t.schema = s;
	t.p = schema_public(s);
	schema_file_name(t.p, file);
	if (strcmp(file, f->name) != 0) {
		report_problem(r, "%s: holds the schema of lock/%s", f->path, file);
		f->damaged = true;
		schema_put(s);
		return 0;
	}
	if (t.p->tablets_id < META_FIRST_USER_TABLE)
		report_problem(r, "%s: table id %u is reserved", f->path, t.p->tablets_id);
	other = offline_table(store, t.p->tablets_id);
	for (unsigned i = 0; i < store->table_count && !other; i++)
		if (store->tables[i].p->table_id == t.p->table_id)
			other = &store->tables[i];
	if (other)
		report_problem(r, "%s: table id %u is also that of %s", f->path, t.p->table_id, other->p->name);
	err = schema_store(s, &t.store);
	if (err) {
		schema_put(s);
		return err;
	}
	tool_grow(store->tables, store->table_count);
	store->tables[store->table_count++] = t;
	qsort(store->tables, store->table_count, sizeof(t), compare_ids);
	return 0;
}

struct offline_table *offline_table(const struct offline *store, uint32_t id)
{
	for (unsigned i = 0; i < store->table_count; i++)
		if (store->tables[i].p->tablets_id == id)
			return &store->tables[i];
	return NULL;
}

static int decode_root(struct offline *store, struct tfs_bytes contents)
{
	int err;

	store->root.v = calloc(1, sizeof(*store->root.v));
	err = store->root.v ? meta_root_decode(contents, &store->root.v->m) : -ENOMEM;
	store->root.count = !err;
	return err;
}

static void decode_identity(struct report *r, struct offline_file *f)
{
	struct lock_identity identity;

	f->damaged = lock_identity_decode(buf_bytes(&f->contents), &identity) != 0;
	if (f->damaged)
		report_problem(r, "%s: not the id and secret of a store", f->path);
}

static int compare_made(const void *a, const void *b)
{
	const struct meta_tablet *x = &((const struct offline_row *)a)->m, *y = &((const struct offline_row *)b)->m;

	if (x->table != y->table)
		return x->table > y->table ? 1 : -1;
	return x->last != y->last ? x->last - y->last : bytes_cmp(buf_bytes(&x->end), buf_bytes(&y->end));
}

/* Decodes a file rows/ID.N, a sequence of rows. */
static int decode_made(struct report *r, struct offline *store, struct offline_file *f)
{
	struct tfs_bytes s = buf_bytes(&f->contents);
	unsigned before = store->made.count;
	int err = 0;

	while (s.n && !err) {
		struct offline_row row = {0};
		size_t n = envelope_length(s);

		err = meta_root_decode(tfs_bytes_of(s.p, n), &row.m);
		if (!err && row.m.table != strtoul(f->name + 5, NULL, 10))
			err = -EBADMSG;
		if (!err)
			err = buf_set(&row.begin, row.m.begin.p, row.m.begin.n);
		s = tfs_bytes_of(s.p + n, s.n - n);
		tool_grow(store->made.v, store->made.count);
		store->made.v[store->made.count++] = row;
	}
	if (err && err != -ENOMEM) {
		report_problem(r, "%s: not rows of METADATA", f->path);
		f->damaged = true;
		while (store->made.count > before) {
			struct offline_row *row = &store->made.v[--store->made.count];

			meta_tablet_fini(&row->m);
			buf_fini(&row->begin);
		}
		err = 0;
	}
	return err;
}

static int decode_files(struct report *r, struct offline *store)
{
	int err = 0;

	for (unsigned i = 0; i < store->file_count && !err; i++) {
		struct offline_file *f = &store->files[i];

		if (f->damaged)
			continue;
		if (strncmp(f->name, "tables/", 7) == 0 || strncmp(f->name, "snapshots/", 10) == 0) {
			err = decode_schema_file(r, store, f);
		} else if (strcmp(f->name, "root") == 0) {
			err = decode_root(store, buf_bytes(&f->contents));
			if (err && err != -ENOMEM) {
				report_problem(r, "%s: the root tablet's row cannot be decoded (%s)", f->path, strerror(-err));
				store->incomplete = true;
				err = 0;
			}
		} else if (strcmp(f->name, "ids") == 0) {
			if (f->contents.n == 4)
				store->next_table = load_be32(f->contents.p);
			else
				report_problem(r, "%s: not a table id counter", f->path);
		} else if (strcmp(f->name, "incarnation") == 0) {
			store->incarnation = f->contents.n == 8 ? load_be64(f->contents.p) : UINT64_MAX;
			if (f->contents.n != 8)
				report_problem(r, "%s: not an incarnation counter", f->path);
		} else if (strcmp(f->name, IDENTITY_FILE) == 0) {
			decode_identity(r, f);
		} else if (strcmp(f->name, "clock") == 0) {
			if (f->contents.n != 8)
				report_problem(r, "%s: not a clock mark", f->path);
			f->damaged |= f->contents.n != 8;
		} else if (strcmp(f->name, "commits") == 0) {
			if (f->contents.n != 8)
				report_problem(r, "%s: not a time of commit", f->path);
			f->damaged |= f->contents.n != 8;
		} else if (strncmp(f->name, "dropped/", 8) == 0) {
			report_note(r, "%s: a table was dropped; the next mount removes the rest of it", f->path);
		} else if (strncmp(f->name, "rows/", 5) == 0) {
			err = decode_made(r, store, f);
		} else if (strncmp(f->name, "seals/", 6) != 0) {
			report_note(r, "%s: not a file that this version knows", f->path);
		}
	}
	if (store->made.count)
		qsort(store->made.v, store->made.count, sizeof(*store->made.v), compare_made);
	if (!err && store->table_count && !offline_file(store, "ids"))
		report_problem(r, "%s/lock/ids: missing, though there are tables", store->dir);
	if (!err && store->incarnation && !find_file(store, IDENTITY_FILE))
		report_problem(r, "%s/lock/" IDENTITY_FILE ": missing", store->dir);
	for (unsigned i = 0; i < store->table_count && !err; i++)
		if (store->next_table && store->tables[i].p->tablets_id >= store->next_table)
			report_problem(r, "%s/lock/ids: the next table id is %u, but table %s has id %u", store->dir,
				store->next_table, store->tables[i].p->name, store->tables[i].p->tablets_id);
	return err;
}

int offline_locks(struct report *r, struct offline *store)
{
	struct walk w = {.r = r, .store = store, .path = text("%s/lock", store->dir), .prefix = ""};
	int err = offline_is_cluster(store->dir) ? -EXDEV : offline_format(r, store);

	if (!err)
		err = offline_look(store->dir);
	if (!err)
		err = take_offline_flock(store);
	if (err)
		return err;
	err = file_list(w.path, read_entry, &w);
	if (err == -ENOENT || err == -ENOTDIR) {
		report_problem(r, "%s: the lock service's directory is missing", w.path);
		store->incomplete = true;
		err = 0;
	}
	if (!err)
		err = overlay_journal(r, store);
	return err ? err : decode_files(r, store);
}

void offline_locks_close(struct offline *store)
{
	for (unsigned i = 0; i < store->table_count; i++) {
		store_schema_put(store->tables[i].store);
		schema_put(store->tables[i].schema);
	}
	free(store->tables);
	for (unsigned i = 0; i < store->file_count; i++)
		buf_fini(&store->files[i].contents);
	free(store->files);
	file_close(store->lock_file);
}
