/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start loads three levels of tablets: the root tablet, METADATA's tablets,
 * and users' tablets.  Each level then replays the records of its tablets from
 * the logs of dead incarnations that its redo sets name (paper, sections 5.1 and
 * 5.3).  Each embedded mount is a new incarnation, and the one before it is a
 * dead server to recover from.
 *
 * A new store is made in two steps:
 *	1 Create the lock service's file "root" with the root tablet's row.  The
 *	  root tablet covers METADATA's own rows and has no files.
 *	2 Write the row of METADATA's one other tablet to the root tablet, synced.
 * A crash between them leaves a root tablet without that row, and the next start
 * does step 2.
 *
 * The start is refused, and the missing thing is named, in these cases:
 *	- there are tables or SSTables, but no root file
 *	- a tablet has data, but its table has no schema and was not dropped
 *	- a table has no last tablet, or there is a gap between two tablets
 *	- METADATA names a log or file of this or a later incarnation, so
 *	  lock/incarnation is an old copy
 *	- tables are refused, and lock/ids is not above the id of one of them
 * If the start continued, it would remove files that METADATA does not name, or
 * use names or ids twice.
 *
 * METADATA is not written before its own replay has ended.  The old logs are
 * synced, so replayed data is on disk before a client can read it.  The data
 * stays in memtables and in the old logs until a minor compaction, which is
 * queued at once.  After all of these compactions no redo set names the old
 * logs.  They are then removed, at the latest by the next start.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int make_root(struct server *s, struct meta_tablet *root, uint64_t *version)
{
	struct buf b = {0};
	int err;

	*root = (struct meta_tablet){.table = META_TABLE, .server = s->incarnation};
	err = meta_root_end(&root->end);
	if (!err)
		err = meta_root_encode(root, &b);
	if (!err)
		err = lock_put(s->locks, "root", buf_slice(&b), LOCK_ABSENT, version);
	buf_fini(&b);
	return err;
}

/* found_one and found_file end a listing at the first entry. */
static int found_one(void *arg, const char *name)
{
	(void)arg, (void)name;
	return 1;
}

static int found_file(void *arg, const char *name, bool is_dir)
{
	return found_one(arg, name);
}

/* Returns 1 if the store has or had tables or SSTables, so it must have had a root tablet; 0 if not; -errno. */
static int is_used(struct server *s)
{
	char *sst = path_join(s->data_dir, "sst");
	struct buf ids = {0};
	int err = sst ? file_list(sst, found_file, NULL) : -ENOMEM;

	if (!err)
		err = s->locks->ops->list(s->locks, "tables", found_one, NULL);
	if (!err) {
		err = lock_get(s->locks, "ids", &ids, NULL);
		err = err == -ENOENT ? 0 : err ? err : 1;
	}
	buf_fini(&ids);
	free(sst);
	return err;
}

/* Checks that the root tablet covers exactly METADATA's own rows, and names earlier incarnations only. */
static int check_root(const struct server *s, const struct meta_tablet *m, char **why)
{
	struct buf end = {0};
	int err = meta_root_end(&end);

	if (!err && (m->table != META_TABLE || m->last || m->begin.n || !slice_eq(buf_slice(&m->end), buf_slice(&end))))
		err = -EBADMSG;
	buf_fini(&end);
	return err ? err : load_check_past(s, m, why);
}

static int load_root(struct server *s, struct needed_logs *needed, char **why)
{
	struct meta_tablet root = {0};
	struct buf b = {0};
	uint64_t version = 0;
	int err = lock_get(s->locks, "root", &b, &version), used;

	if (!err) {
		err = meta_root_decode(buf_slice(&b), &root);
		if (!err)
			err = check_root(s, &root, why);
	} else if (err == -ENOENT) {
		used = is_used(s);
		err = used > 0 ? -EBADMSG : used ? used : make_root(s, &root, &version);
		if (used > 0)
			why_set(why, "%s/lock/root: missing, though the store has been used", s->data_dir);
	}
	if (err && !*why)
		why_set(why, "%s/lock/root: the root tablet's row: %s", s->data_dir, strerror(-err));
	if (!err)
		err = replay_need(needed, &root);
	if (!err)
		err = served_load(s, &root, KIND_ROOT, version);
	meta_tablet_fini(&root);
	buf_fini(&b);
	return err;
}

static int make_metadata_tablet(struct server *s)
{
	struct meta_tablet m = {.table = META_TABLE, .last = true, .server = s->incarnation};
	struct arena arena = {0};
	struct buf key = {0};
	struct op *ops;
	unsigned count;
	int err = meta_root_end(&m.begin);

	if (!err)
		err = meta_row_key(&key, META_TABLE, true, (struct slice){NULL, 0});
	if (!err)
		err = meta_ops_new(&m, &arena, &ops, &count);
	if (!err)
		err = metadata_mutate(s->metadata, buf_slice(&key), ops, count);
	if (!err)
		err = served_load(s, &m, KIND_META, 0);
	meta_tablet_fini(&m);
	arena_fini(&arena);
	buf_fini(&key);
	return err;
}

static int load_metadata(struct server *s, struct needed_logs *needed, char **why)
{
	struct load_level l = {.s = s, .kind = KIND_META, .needed = needed, .why = why};
	struct buf end = {0};
	int err = meta_root_end(&end);

	if (!err)
		err = load_rows(&l, (struct slice){(const uint8_t *)"", 0}, buf_slice(&end));
	if (!err && l.loaded == 0)
		err = make_metadata_tablet(s);
	buf_fini(&end);
	return err;
}

/* Removes the file dropped/ID, after the table's METADATA rows were deleted. */
static int remove_drop_note(void *arg, const char *name)
{
	struct server *s = arg;
	char note[64];

	if (strlen(name) >= sizeof(note) - sizeof("dropped/"))
		return 0; /* not a table id: it is too long */
	snprintf(note, sizeof(note), "dropped/%s", name);
	return lock_remove(s->locks, note, LOCK_ANY);
}

static int load_users(struct server *s, struct needed_logs *needed, char **why)
{
	struct load_level l = {.s = s, .kind = KIND_USER, .needed = needed, .why = why};
	struct buf from = {0};
	int err = meta_root_end(&from);

	if (!err)
		err = load_rows(&l, buf_slice(&from), (struct slice){NULL, 0});
	/* Rows of tables that were being made or dropped when the last process ended. */
	for (unsigned i = 0; i < l.orphan_count; i++) {
		if (!err)
			err = metadata_delete(s->metadata, buf_slice(&l.orphans[i]));
		buf_fini(&l.orphans[i]);
	}
	if (!err)
		err = s->locks->ops->list(s->locks, "dropped", remove_drop_note, s);
	free(l.orphans);
	buf_fini(&from);
	return err;
}

/* If the file is damaged or has another size than METADATA states, names it in *why. */
static void name_if_damaged(const struct server *s, const struct tablet_file *f, char **why)
{
	char *path = tablet_file_path(s->data_dir, f->table, f->incarnation, f->number), *reason = NULL;
	uint64_t keys, bytes;
	int err = path ? sst_verify(path, &keys, &reason) : 0;

	if (path && !err && (file_stat_size(path, &bytes) || bytes != f->bytes))
		why_set(why, "%s: this file of METADATA is another: it should have %llu bytes", path, (unsigned long long)f->bytes);
	if (err)
		why_set(why, "%s: this file of METADATA is damaged: %s", path, reason ? reason : strerror(-err));
	free(reason);
	free(path);
}

/* If a damaged SSTable of METADATA ended the start, names it in *why. */
static void name_damaged(struct server *s, char **why)
{
	struct served_tablet **list;
	unsigned count;

	if (served_list(s, META_TABLE, &list, &count))
		return;
	for (unsigned i = 0; i < count; i++) {
		struct tablet_file *files = NULL;
		unsigned n = 0;

		if (tablet_files(list[i]->tablet, &files, &n))
			n = 0;
		for (unsigned k = 0; k < n; k++) {
			if (!*why)
				name_if_damaged(s, &files[k], why);
			tablet_file_fini(&files[k]);
		}
		free(files);
	}
	served_list_put(list, count);
}

/* Checks that each table has a last tablet.  list: all tablets in the set's order. */
static int each_has_tablets(struct server *s, struct served_tablet *const *list, unsigned count, char **why)
{
	unsigned k = 0;
	int err = 0;

	mutex_lock(&s->lock);
	for (unsigned i = 0; i < s->table_count && !err; i++) {
		const struct user_table *t = s->tables[i];

		while (k < count && (list[k]->table < t->table || (list[k]->table == t->table && !list[k]->last)))
			k++;
		if (k < count && list[k]->table == t->table)
			continue;
		err = -EBADMSG;
		why_set(why, "%s: METADATA: no tablet of table %s (id %u) holds its last rows", s->data_dir, t->name, t->table);
	}
	mutex_unlock(&s->lock);
	return err;
}

/* Ends the recovery of all tablets: compactions may drop tombstones from now on. */
static int end_replay(struct server *s, char **why)
{
	struct served_tablet **list;
	unsigned count;
	int err = served_list(s, 0, &list, &count);

	if (err)
		return err;
	err = each_has_tablets(s, list, count, why);
	for (unsigned i = 0; i < count && !err; i++)
		tablet_replay_done(list[i]->tablet);
	served_list_put(list, count);
	return err;
}

int server_recover(struct server *s, char **why)
{
	struct needed_logs needed = {0};
	int err;

	*why = NULL;
	err = load_root(s, &needed, why);
	if (!err)
		err = replay_level(s, KIND_ROOT, &needed, why);
	if (!err)
		err = load_metadata(s, &needed, why);
	if (!err)
		err = replay_level(s, KIND_META, &needed, why);
	if (!err)
		err = schemas_load(s, why);
	if (!err)
		err = load_users(s, &needed, why);
	if (!err)
		err = replay_level(s, KIND_USER, &needed, why);
	if (!err)
		err = end_replay(s, why);
	if (!err)
		err = files_sweep_at_start(s, why);
	if (!err)
		err = logs_remove_dead(s);
	replay_needed_fini(&needed);
	if (err) {
		if (!*why && (err == -EBADMSG || err == -EIO || err == -ENOENT))
			name_damaged(s, why);
		if (!*why)
			why_set(why, "%s: cannot be recovered: %s", s->data_dir, strerror(-err));
		return err == -ENOENT ? -EBADMSG : err;
	}
	s->recovering = false;
	space_start(s);
	server_queue(s, &s->logs_task);
	server_queue(s, &s->moves_task);
	files_sweep_soon(s);
	return 0;
}
