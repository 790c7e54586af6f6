/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FORMAT, the flock, and the lock service's files, without the lock service:
 * opening that would settle what a crash left, which is writing.  A journal
 * that lies there is a change that has happened, so it is laid over the
 * files in memory, as the next opening will do on disk.
 */
#include "engine/lock/lock.h"
#include "engine/lock/lock_format.h"
#include "engine/open.h"
#include "engine/tool/look.h"
#include "engine/tool/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

/* NULL: told before. */
static char *line_new(struct report *r, const char *fmt, va_list ap)
{
	char *line;
	uint64_t hash, *told;

	if (vasprintf(&line, fmt, ap) < 0) {
		complain("%s", strerror(ENOMEM));
		exit(EXIT_CANNOT);
	}
	make_one_line(line);
	hash = hash64(slice_str(line), 0);
	for (unsigned i = 0; i < r->told_count; i++)
		if (r->told[i] == hash) {
			free(line);
			return NULL;
		}
	told = realloc(r->told, (r->told_count + 1) * sizeof(*told));
	if (told) {
		r->told = told;
		told[r->told_count++] = hash;
	}
	return line;
}

void report_problem(struct report *r, const char *fmt, ...)
{
	va_list ap;
	char *line;

	va_start(ap, fmt);
	line = line_new(r, fmt, ap);
	va_end(ap);
	if (!line)
		return;
	r->problems++;
	fprintf(r->to, "damaged: %s\n", line);
	free(line);
}

void report_note(struct report *r, const char *fmt, ...)
{
	va_list ap;
	char *line;

	va_start(ap, fmt);
	line = line_new(r, fmt, ap);
	va_end(ap);
	if (!line)
		return;
	r->notes++;
	if (!r->quiet)
		fprintf(r->to, "note: %s\n", line);
	free(line);
}

void report_fini(struct report *r)
{
	free(r->told);
	r->told = NULL;
	r->told_count = 0;
}

/* ---- FORMAT and the flock ---- */

/* What to report of a file of two copies (base/copies.h) of which one is good. */
#define ONE_COPY "%s: one of its two copies is damaged; the next mount writes it again from the other"

static int look_format(struct report *r, const struct look *l)
{
	bool whole = true;
	char *why = NULL, *path = path_join(l->dir, "FORMAT");
	int err = path ? store_format_check(path, &whole, &why) : -ENOMEM;

	if (!err && !whole) {
		report_problem(r, ONE_COPY, path);
	} else if (err == -EBADMSG) {
		report_problem(r, "%s: not a tabletfs format line", path);
		err = 0;
	} else if (err == -ENOENT && l->past_format) {
		report_problem(r, "%s: missing", path);
		err = 0;
	} else if (err == -ENOENT || err == -ENOTDIR) {
		complain("%s: not a tabletfs data directory", l->dir);
		err = -ENOENT;
	} else if (err) {
		complain("%s", why ? why : strerror(-err));
	}
	free(why);
	free(path);
	return err;
}

static int take_flock(struct look *l)
{
	char *path = NULL;
	int err = 0;

	if (asprintf(&path, "%s/lock/held", l->dir) < 0)
		return -ENOMEM;
	err = file_open(path, FILE_READ, &l->held);
	if (err == -ENOENT) {
		err = 0; /* no mount has ever got that far */
	} else if (err) {
		complain("%s: %s", path, strerror(-err));
	} else {
		err = lock_local_flock(l->held, l->dir);
		if (err == -EBUSY)
			complain("%s: in use by another process", l->dir);
		else if (err)
			complain("%s: %s", path, strerror(-err));
	}
	free(path);
	return err;
}

/* ---- files ---- */

struct look_file *look_file(const struct look *l, const char *name)
{
	for (unsigned i = 0; i < l->file_count; i++)
		if (strcmp(l->files[i].name, name) == 0)
			return &l->files[i];
	return NULL;
}

static int file_add(struct look *l, const char *name, const char *path, struct look_file **out)
{
	struct look_file f = {.name = strdup(name), .path = strdup(path)};

	if (l->file_count == l->file_cap) {
		unsigned cap = l->file_cap ? l->file_cap * 2 : 16;
		struct look_file *v = realloc(l->files, cap * sizeof(*v));

		if (v) {
			l->files = v;
			l->file_cap = cap;
		}
	}
	if (!f.name || !f.path || l->file_count == l->file_cap) {
		free(f.name);
		free(f.path);
		return -ENOMEM;
	}
	l->files[l->file_count] = f;
	*out = &l->files[l->file_count++];
	return 0;
}

static bool ends_in(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

struct walk {
	struct report *r;
	struct look *l;
	const char *path, *prefix; /* of names: "" or "tables/" */
};

static int walk_entry(void *arg, const char *name, bool is_dir)
{
	struct walk *w = arg;
	char full[LOCK_NAME_MAX + 300];
	struct look_file *f;
	struct buf bytes = {0};
	struct slice contents;
	char *path = path_join(w->path, name);
	uint64_t version;
	bool whole;
	int err;

	if (!path)
		return -ENOMEM;
	snprintf(full, sizeof(full), "%s%s", w->prefix, name);
	if (ends_in(full, ".tmp=")) /* how the lock service keeps a name that ends in .tmp */
		full[strlen(full) - 1] = 0;
	if (is_dir && !*w->prefix) {
		struct walk below = {w->r, w->l, path, strcat(full, "/")};

		err = file_list(path, walk_entry, &below);
		goto out;
	}
	err = 0;
	if (!*w->prefix && (strcmp(name, "held") == 0 || strcmp(name, "journal") == 0))
		goto out;
	if (is_dir || ends_in(name, ".tmp") || !lock_name_valid(full)) {
		report_note(w->r, "%s: left over, nothing refers to it", path);
		goto out;
	}
	err = file_read_all(path, LOCK_FILE_BYTES_MAX, &bytes);
	if (err && err != -EFBIG) {
		complain("%s: %s", path, strerror(-err));
		goto out;
	}
	if (!err)
		err = lock_file_decode(buf_slice(&bytes), &contents, &version, &whole);
	if (err == -EPROTO) {
		complain("%s: written in a later format", path);
		goto out;
	}
	if (err) {
		report_problem(w->r, "%s: offset 0: a lock service file with a bad checksum or form", path);
		w->l->incomplete = true;
		if (strcmp(full, "incarnation") == 0)
			w->l->incarnation = UINT64_MAX;
		err = 0;
		goto out;
	}
	if (!whole)
		report_problem(w->r, ONE_COPY, path);
	err = file_add(w->l, full, path, &f);
	if (!err)
		f->one_copy = !whole;
	if (!err)
		err = buf_set(&f->contents, contents.p, contents.n);
	if (!err)
		f->version = version;
out:
	buf_fini(&bytes);
	free(path);
	return err;
}

static int lay_step(struct look *l, const struct lock_step *s, const char *journal)
{
	struct look_file *f = look_file(l, s->name);
	int err = 0;

	if (s->remove) {
		if (f) {
			free(f->name);
			free(f->path);
			buf_fini(&f->contents);
			*f = l->files[--l->file_count];
		}
		return 0;
	}
	if (!f)
		err = file_add(l, s->name, journal, &f);
	if (!err)
		err = buf_set(&f->contents, s->contents.p, s->contents.n);
	if (!err)
		f->version = s->version;
	return err;
}

static int lay_journal(struct report *r, struct look *l, const char *dir)
{
	struct lock_step *steps = NULL;
	struct buf bytes = {0};
	unsigned count = 0;
	char *path = path_join(dir, "journal");
	int err = path ? file_read_all(path, LOCK_JOURNAL_BYTES_MAX, &bytes) : -ENOMEM;

	if (err == -ENOENT) {
		err = 0;
	} else if (err && err != -EFBIG) {
		complain("%s: %s", path ? path : dir, strerror(-err));
	} else {
		if (!err)
			err = lock_journal_decode(buf_slice(&bytes), &steps, &count);
		if (err == -EBADMSG || err == -EFBIG) {
			report_problem(r, "%s: offset 0: the lock service's journal has a bad checksum or form", path);
			l->incomplete = true;
			err = 0;
		} else if (err == -EPROTO) {
			complain("%s: written in a later format", path);
		} else if (!err) {
			report_note(r, "%s: a change that the next mount will finish", path);
		}
		for (unsigned i = 0; i < count && !err; i++)
			err = lay_step(l, &steps[i], path);
	}
	free(steps);
	buf_fini(&bytes);
	free(path);
	return err;
}

/* ---- what the files say ---- */

static int by_id(const void *a, const void *b)
{
	const struct look_table *x = a, *y = b;

	return (x->p->tablets_id > y->p->tablets_id) - (x->p->tablets_id < y->p->tablets_id);
}

static int take_schema(struct report *r, struct look *l, const struct look_file *f)
{
	struct look_table t = {0}, *v;
	const struct look_table *twin;
	struct schema *s = NULL;
	const char *name = f->name + strlen("tables/");
	int err = schema_decode(buf_slice(&f->contents), &s);

	if (err == -ENOMEM)
		return err;
	if (err) {
		report_problem(r, "%s: the schema in it cannot be decoded (%s)", f->path, strerror(-err));
		l->incomplete = true;
		return 0;
	}
	t.schema = s;
	t.p = schema_public(s);
	if (strcmp(t.p->name, name) != 0)
		report_problem(r, "%s: holds the schema of a table named %s", f->path, t.p->name);
	if (t.p->tablets_id < META_FIRST_USER_TABLE)
		report_problem(r, "%s: table id %u is reserved", f->path, t.p->tablets_id);
	twin = look_table(l, t.p->tablets_id);
	if (twin)
		report_problem(r, "%s: table id %u is also that of %s", f->path, t.p->tablets_id, twin->p->name);
	err = schema_store(s, &t.store);
	v = err ? NULL : realloc(l->tables, (l->table_count + 1) * sizeof(*v));
	if (!v) {
		store_schema_put(t.store);
		schema_put(s);
		return err ? err : -ENOMEM;
	}
	l->tables = v;
	v[l->table_count++] = t;
	qsort(v, l->table_count, sizeof(*v), by_id);
	return 0;
}

struct look_table *look_table(const struct look *l, uint32_t id)
{
	for (unsigned i = 0; i < l->table_count; i++)
		if (l->tables[i].p->tablets_id == id)
			return &l->tables[i];
	return NULL;
}

static int take_files(struct report *r, struct look *l)
{
	int err = 0;

	for (unsigned i = 0; i < l->file_count && !err; i++) {
		const struct look_file *f = &l->files[i];

		if (strncmp(f->name, "tables/", 7) == 0) {
			err = take_schema(r, l, f);
		} else if (strcmp(f->name, "root") == 0) {
			err = meta_root_decode(buf_slice(&f->contents), &l->root.m);
			l->has_root = !err;
			if (err && err != -ENOMEM) {
				report_problem(r, "%s: the root tablet's row cannot be decoded (%s)", f->path, strerror(-err));
				l->incomplete = true;
				err = 0;
			}
		} else if (strcmp(f->name, "ids") == 0) {
			if (f->contents.n == 4)
				l->next_table = load_be32(f->contents.p);
			else
				report_problem(r, "%s: not a table id counter", f->path);
		} else if (strcmp(f->name, "incarnation") == 0) {
			l->incarnation = f->contents.n == 8 ? load_be64(f->contents.p) : UINT64_MAX;
			if (f->contents.n != 8)
				report_problem(r, "%s: not an incarnation counter", f->path);
		} else if (strcmp(f->name, "clock") == 0) {
			if (f->contents.n != 8)
				report_problem(r, "%s: not a clock's mark", f->path);
		} else if (strncmp(f->name, "dropped/", 8) == 0) {
			report_note(r, "%s: a table was dropped; the next mount removes the rest of it", f->path);
		} else {
			report_note(r, "%s: not a file that this version knows", f->path);
		}
	}
	if (!err && l->table_count && !look_file(l, "ids"))
		report_problem(r, "%s/lock/ids: missing, though there are tables", l->dir);
	for (unsigned i = 0; i < l->table_count && !err; i++)
		if (l->next_table && l->tables[i].p->tablets_id >= l->next_table)
			report_problem(r, "%s/lock/ids: the next table id is %u, but table %s has id %u", l->dir, l->next_table,
				l->tables[i].p->name, l->tables[i].p->tablets_id);
	return err;
}

int look_locks(struct report *r, struct look *l)
{
	struct walk w = {.r = r, .l = l, .prefix = ""};
	char *dir = path_join(l->dir, "lock");
	int err = dir ? look_format(r, l) : -ENOMEM;

	if (!err)
		err = take_flock(l);
	w.path = dir;
	if (!err) {
		err = file_list(dir, walk_entry, &w);
		if (err == -ENOENT || err == -ENOTDIR) {
			report_problem(r, "%s: the lock service's directory is missing", dir);
			l->incomplete = true;
			err = 0;
		}
	}
	if (!err)
		err = lay_journal(r, l, dir);
	if (!err)
		err = take_files(r, l);
	free(dir);
	return err;
}

void look_locks_close(struct look *l)
{
	for (unsigned i = 0; i < l->table_count; i++) {
		store_schema_put(l->tables[i].store);
		schema_put(l->tables[i].schema);
	}
	free(l->tables);
	for (unsigned i = 0; i < l->file_count; i++) {
		free(l->files[i].name);
		free(l->files[i].path);
		buf_fini(&l->files[i].contents);
	}
	free(l->files);
	file_close(l->held);
}
