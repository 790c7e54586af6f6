/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that a repair keeps in DATADIR/repair-NNNN; FORMAT and the files of the
 * lock service, except schemas and the root tablet's row.
 */
#include "engine/lock/identity.h"
#include "engine/lock/local_files.h"
#include "engine/lock/lock.h"
#include "engine/host.h"
#include "engine/tool/store/repair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

/* ---- DATADIR/repair-NNNN ---- */

static bool repair_exists(const char *path)
{
	uint64_t bytes;

	return file_stat_size(path, &bytes) == 0;
}

static int make_aside(struct repair *p)
{
	int err = -EEXIST;

	for (unsigned n = 1; err == -EEXIST && n < 10000; n++) {
		p->aside = text("%s/repair-%04u", p->dir, n);
		err = file_mkdir(p->aside);
	}
	return err ? err : file_sync_dir(p->dir);
}

/* Makes the directories of DATADIR/repair-NNNN/BELOW, each durably. */
static int make_dirs_of(const struct repair *p, char *to)
{
	int err = 0;

	for (char *slash = to + strlen(p->aside) + 1; (slash = strchr(slash, '/')) && !err; *slash++ = '/') {
		*slash = 0;
		err = file_mkdir(to);
		if (!err || err == -EEXIST)
			err = file_sync_parent(to);
	}
	return err;
}

int repair_keep(struct repair *p, const char *path)
{
	const char *below = path + strlen(p->dir);
	char *to;
	int err = 0;

	if (!p->write || !repair_exists(path))
		return 0;
	while (*below == '/')
		below++;
	if (!p->aside)
		err = make_aside(p);
	to = text("%s/%s", p->aside, below);
	if (!err)
		err = make_dirs_of(p, to);
	if (!err)
		err = file_link(path, to);
	if (!err || err == -EEXIST)
		err = file_sync_parent(to);
	if (err)
		complain("%s: cannot be kept as %s: %s", path, to, strerror(-err));
	return err;
}

struct tree {
	struct repair *p;
	const char *dir;
};

static int keep_entry(void *arg, const char *name, bool is_dir)
{
	const struct tree *t = arg;
	struct tree below = {t->p, text("%s/%s", t->dir, name)};

	return is_dir ? file_list(below.dir, keep_entry, &below) : repair_keep(t->p, below.dir);
}

int repair_keep_tree(struct repair *p, const char *name)
{
	struct tree t = {p, p->dir};
	int err = keep_entry(&t, name, true);

	return err == -ENOENT ? 0 : err;
}

/* ---- the lock service ---- */

int repair_lock_file(struct repair *p, const char *name, struct tfs_bytes contents)
{
	const struct offline_file *f = offline_file(&p->store, name);
	struct lock_step step = {.remove = !contents.p, .version = (f ? f->version : 0) + 1, .contents = contents};
	const char *top = text("%s/lock", p->dir);
	char *path;
	bool in_doubt = false;
	int err;

	if (!p->write)
		return 0;
	path = lock_name_path(top, name);
	err = path ? repair_keep(p, path) : -ENOMEM;
	snprintf(step.name, sizeof(step.name), "%s", name);
	if (!err)
		err = lock_files_change(top, &step, 1, &in_doubt);
	if (err)
		complain("%s/%s: %s", top, name, strerror(-err));
	free(path);
	return err;
}

/* Returns true if another function replaces the file. */
static bool is_made_anew(const char *name)
{
	return strncmp(name, "tables/", 7) == 0 || strcmp(name, "root") == 0 || strcmp(name, "ids") == 0 ||
		strcmp(name, "incarnation") == 0 || strcmp(name, IDENTITY_FILE) == 0 || strncmp(name, "rows/", 5) == 0;
}

int repair_ids(struct repair *p)
{
	uint32_t least = p->table_max < META_FIRST_USER_TABLE ? META_FIRST_USER_TABLE : p->table_max + 1;
	uint8_t bytes[4];

	if (p->store.next_table >= least || (!offline_file(&p->store, "ids") && !p->table_max && p->r.count[REPORT_PROBLEM] == 0))
		return 0;
	repair_step(p, "%s/lock/ids: the next table id is %u", p->dir, least);
	put_be32(bytes, least);
	return repair_lock_file(p, "ids", tfs_bytes_of(bytes, sizeof(bytes)));
}

int repair_incarnation(struct repair *p)
{
	uint64_t has = p->store.incarnation == UINT64_MAX ? 0 : p->store.incarnation,
		 n = p->rewrites_meta ? p->incarnation : p->incarnation - 1;
	uint8_t bytes[8];

	if (p->store.incarnation != UINT64_MAX && has >= n)
		return 0;
	repair_step(p, "%s/lock/incarnation: %" PRIu64 ", %s", p->dir, n,
		p->rewrites_meta ? "for the files of this repair" : "the greatest in use");
	put_be64(bytes, n);
	return repair_lock_file(p, "incarnation", tfs_bytes_of(bytes, sizeof(bytes)));
}

int repair_identity(struct repair *p)
{
	struct lock_identity identity;
	struct buf b = {0};
	int err;

	if (offline_file(&p->store, IDENTITY_FILE) || p->r.count[REPORT_PROBLEM] == 0)
		return 0;
	repair_step(p, "%s/lock/" IDENTITY_FILE ": a new id and secret; all inode numbers change", p->dir);
	err = identity_draw(&identity);
	if (!err)
		err = lock_identity_encode(&identity, &b);
	if (!err)
		err = repair_lock_file(p, IDENTITY_FILE, buf_bytes(&b));
	buf_fini(&b);
	return err;
}

/* ---- lock/rows ---- */

/* Sets *table.  Returns false for other files. */
static bool is_rows_file(const char *name, uint32_t *table)
{
	char *end;
	bool is = strncmp(name, "rows/", 5) == 0;

	*table = is ? (uint32_t)strtoul(name + 5, &end, 10) : 0;
	return is && *end == '.';
}

bool repair_lock_had_rows(const struct repair *p, uint32_t table)
{
	uint32_t id;

	for (unsigned i = 0; i < p->store.file_count; i++)
		if (p->store.files[i].damaged && is_rows_file(p->store.files[i].name, &id) && id == table)
			return true;
	return false;
}

static int write_rows_file(void *arg, const char *name, struct tfs_bytes rows)
{
	return repair_lock_file(arg, name, rows);
}

/* Writes the rows of a table, and removes its other files. */
static int write_rows(struct repair *p, uint32_t table)
{
	struct meta_rows w = {.table = table, .write = write_rows_file, .arg = p};
	uint32_t id;
	int err = 0;

	for (unsigned i = 0; i < p->tablet_count && !err; i++) {
		if (p->tablets[i].table == table)
			err = meta_rows_add(&w, &p->tablets[i]);
		err = err == -EFBIG ? 0 : err;
	}
	if (!err)
		err = meta_rows_end(&w);
	buf_fini(&w.rows);
	for (unsigned i = 0; i < p->store.file_count && !err; i++) {
		const char *name = p->store.files[i].name;

		if (is_rows_file(name, &id) && id == table && strtoul(strchr(name, '.') + 1, NULL, 10) >= w.written)
			err = repair_lock_file(p, name, (struct tfs_bytes){NULL, 0});
	}
	return err;
}

/* Returns true if lock/rows has the files that the table's tablets have. */
static bool has_made_rows(const struct repair *p, uint32_t table)
{
	struct offline_made made = offline_made(&p->store, table);

	for (unsigned i = 0; i < p->tablet_count; i++)
		if (p->tablets[i].table == table && !offline_is_made(&made, &p->tablets[i]))
			return false;
	return !made.count;
}

int repair_rows(struct repair *p)
{
	int err = 0;

	for (unsigned i = 0; i < p->tablet_count && !err; i++) {
		uint32_t table = p->tablets[i].table;
		const struct offline_table *t = offline_table(&p->store, table);
		bool snapshot = t && t->p->snapshot_of, had = offline_made(&p->store, table).count,
		     damaged = repair_lock_had_rows(p, table);

		if ((i && p->tablets[i - 1].table == table) || !(snapshot || had || damaged))
			continue;
		if (!damaged && !p->rewrites_meta && (!snapshot || has_made_rows(p, table)))
			continue;
		repair_step(p, "%s/lock/rows: the rows of %s", p->dir, offline_table_name(&p->store, table));
		err = write_rows(p, table);
	}
	for (unsigned i = 0; i < p->store.file_count && !err; i++) {
		const struct offline_file *f = &p->store.files[i];
		unsigned k = 0;
		uint32_t id;

		while (is_rows_file(f->name, &id) && k < p->tablet_count && p->tablets[k].table != id)
			k++;
		if (f->damaged && id && k == p->tablet_count) {
			repair_step(p, "%s: removed", f->path);
			err = repair_lock_file(p, f->name, (struct tfs_bytes){NULL, 0});
		}
	}
	return err;
}

static int repair_journal(struct repair *p)
{
	const char *top = text("%s/lock", p->dir), *path = text("%s/" LOCK_JOURNAL, top);
	int err = 0;

	if (p->store.journal_damaged) {
		repair_step(p, "%s: removed", path);
		repair_loss(p, "%s: the change of tables that it contained", path);
		err = repair_keep(p, path);
		if (!err && p->write)
			err = file_unlink(path);
	}
	if (!err && p->write)
		err = lock_files_recover(top);
	if (err)
		complain("%s: %s", path, strerror(-err));
	return err;
}

/* After the journal: writes files with one damaged copy again, and removes damaged files that are not made anew later. */
int repair_locks(struct repair *p)
{
	int err = repair_journal(p);

	for (unsigned i = 0; i < p->store.file_count && !err; i++) {
		const struct offline_file *f = &p->store.files[i];

		if (f->one_copy) {
			repair_step(p, "%s: written again from its whole copy", f->path);
			err = repair_lock_file(p, f->name, f->contents.n ? buf_bytes(&f->contents) : tfs_bytes_of("", 0));
		} else if (f->damaged && !is_made_anew(f->name)) {
			if (strcmp(f->name, "clock") == 0) {
				repair_step(p, "%s: removed; a mount trusts the clock again after a day", f->path);
			} else if (strcmp(f->name, "commits") == 0) {
				repair_step(p, "%s: removed; the next reader of changes makes it again", f->path);
			} else {
				repair_step(p, "%s: removed", f->path);
				repair_loss(p, "%s", f->path);
			}
			err = repair_lock_file(p, f->name, (struct tfs_bytes){NULL, 0});
		}
	}
	return err;
}

int repair_format(struct repair *p)
{
	const char *path = text("%s/FORMAT", p->dir);
	struct buf b = {0};
	int err;

	if (!p->store.format_damaged)
		return 0;
	repair_step(p, "%s: written again", path);
	err = repair_keep(p, path);
	if (!err)
		err = store_format_encode(STORE_FORMAT_VERSION, &b);
	if (!err && p->write)
		err = file_replace(path, buf_bytes(&b));
	if (err)
		complain("%s: %s", path, strerror(-err));
	buf_fini(&b);
	return err;
}

int repair_make_held(struct repair *p)
{
	const char *top = text("%s/lock", p->dir), *held = text("%s/" LOCK_HELD, top);
	struct file *f = NULL;
	int err = 0;

	if (!repair_exists(held)) {
		err = file_mkdir(top);
		err = err == -EEXIST ? 0 : err ? err : file_sync_dir(p->dir);
		if (!err)
			err = file_open(held, FILE_CREATE, &f);
		file_close(f);
	}
	if (err)
		complain("%s: %s", held, strerror(-err));
	return err;
}
