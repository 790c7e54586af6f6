/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing SSTables without references.
 *
 * At the start every SSTable of an earlier incarnation that no tablet lists is
 * removed.  It is left from a crash: an output that was not installed, or an
 * input that was not removed.  Files of this incarnation stay, because
 * background work may be writing them.
 *
 * While the server runs, the last reader of a compaction's input removes it,
 * and the last tablet of a dropped table removes the table's directory, except
 * files that tablets of another table list.  Some files are missed: an output
 * whose edit had an unknown outcome, or a file that could not be unlinked.
 * Mark and sweep finds them, in rounds:
 *	1 Sync the log.  If the log refuses writes the round ends, because
 *	  after a crash METADATA may contain more than it shows now.
 *	2 List sst/.
 *	3 Scan METADATA, from the root file down, and mark all files that a row
 *	  names, also in its merge column.  The scan does not use the server's
 *	  memory: an error there must not remove a file that METADATA names.
 *	  Differences between METADATA and memory are logged.
 *	4 A file is unreferenced if neither METADATA nor memory names it and
 *	  it has no object in the table cache.  Outputs have an object from
 *	  before their creation until they are installed or removed.  Files on
 *	  a tablet's list and files with readers have one, too.
 *	5 Unlink the files that were unreferenced in the previous round, too.
 * Because sst/ is listed before the marks are made, a file that gets its first
 * reference meanwhile is marked.  A split moves files from a row that the scan
 * has not reached to a row that it has passed.  One round may miss such files,
 * but two in a row do not, and the new tablets have them in the table cache.
 * After a crash at any point there are only more files than needed, until the
 * next start.
 *
 * If a file of an earlier incarnation is missing although a tablet lists it,
 * METADATA may be old: the end of its log was lost.  Then unlisted files may
 * contain the data, and neither the start nor a round removes any.
 * `tabletctl repair` adds them to METADATA again.
 *
 * Files whose names are not those of SSTables, or that have the number of a
 * later incarnation, are never removed.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/client/metadata.h"
#include "engine/server/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#define HASH_NONFATAL_OOM 1 /* uthash's default is to end the process */
#include <uthash.h>

#define SWEEP_EVERY_US UINT64_C(3600000000)
#define SWEEP_SOON_US UINT64_C(60000000) /* after a round that found one, or an event that may leave such a file */

enum { LISTED = 1, IN_METADATA = 2, IN_MEMORY = 4, IN_MERGE = 8, REPORTED = 16 };
struct file_marks {
	UT_hash_handle hh;
	unsigned where; /* marks of one round */
	char name[];    /* TABLE/INCARNATION-NUMBER.sst */
};
enum { FILE_NAME_MAX = 96 };

struct sweep {
	struct server *s;
	struct file_marks *named;
	char *dir; /* sst/TABLE */
	const char *table;
	int (*each)(void *arg, const char *name, bool is_dir);
	uint64_t except; /* an incarnation whose files stay; 0: none */
};

bool server_is_sstable(const char *name, uint64_t *incarnation)
{
	uint64_t number;

	return number_parse(name, '-', incarnation, &name) && number_parse(name, '.', &number, &name) && strcmp(name, "sst") == 0;
}

static size_t file_name(char *name, const struct tablet_file *f)
{
	return (size_t)snprintf(name, FILE_NAME_MAX, "%u/%llu-%llu.sst", f->table, (unsigned long long)f->incarnation,
		(unsigned long long)f->number);
}

static int name_add(struct file_marks **set, const char *name, unsigned where)
{
	size_t len = strlen(name);
	struct file_marks *n;

	HASH_FIND(hh, *set, name, len, n);
	if (n) {
		n->where |= where;
		return 0;
	}
	n = malloc(sizeof(*n) + len + 1);
	if (!n)
		return -ENOMEM;
	n->where = where;
	memcpy(n->name, name, len + 1);
	HASH_ADD_KEYPTR(hh, *set, n->name, len, n);
	if (!n->hh.tbl) {
		free(n);
		return -ENOMEM;
	}
	return 0;
}

static int file_add(struct file_marks **set, const struct tablet_file *f, unsigned where)
{
	char name[FILE_NAME_MAX];

	file_name(name, f);
	return name_add(set, name, where);
}

static void names_free(struct file_marks **set)
{
	struct file_marks *n, *tmp;

	HASH_ITER(hh, *set, n, tmp)
	{
		HASH_DEL(*set, n);
		free(n);
	}
}

static int mark_memory(void *arg, const struct tablet_file *f)
{
	return file_add(&((struct sweep *)arg)->named, f, IN_MEMORY);
}

/* Marks the files that the rows of loaded tablets list. */
static int mark_loaded(struct sweep *w)
{
	return w->s->file_refs_lost ? -ENOMEM : file_refs_each(w->s, mark_memory, w);
}

static int remove_file(const char *path)
{
	int err = file_unlink(path);

	if (err && err != -ENOENT)
		msg_warning("%s: cannot be removed: %s", path, strerror(-err));
	else
		msg_info("%s: removed, no tablet refers to it", path);
	return err == -ENOENT ? 0 : err;
}

static int sweep_file(void *arg, const char *name, bool is_dir)
{
	struct sweep *w = arg;
	char key[300];
	struct file_marks *n;
	size_t len = (size_t)snprintf(key, sizeof(key), "%s/%s", w->table, name);
	uint64_t incarnation;
	char *path;

	HASH_FIND(hh, w->named, key, len, n);
	if ((n && n->where & ~LISTED) || is_dir || !server_is_sstable(name, &incarnation) || incarnation == w->except)
		return 0;
	path = path_join(w->dir, name);
	if (!path)
		return -ENOMEM;
	(void)!remove_file(path);
	free(path);
	return 0;
}

/* Calls w->each for the files of a table's directory.  The directory does not exist any more if the table was dropped after sst/ was listed. */
static int sweep_dir(void *arg, const char *name, bool is_dir)
{
	struct sweep *w = arg;
	uint64_t table;
	int err;

	if (!is_dir || !number_parse(name, 0, &table, NULL))
		return 0;
	if (asprintf(&w->dir, "%s/sst/%s", w->s->data_dir, name) < 0)
		return -ENOMEM;
	w->table = name;
	err = file_list(w->dir, w->each, w);
	free(w->dir);
	w->dir = NULL;
	return err == -ENOENT ? 0 : err;
}

static int list_file(void *arg, const char *name, bool is_dir)
{
	struct sweep *w = arg;
	char key[300];
	uint64_t incarnation;

	if (is_dir || !server_is_sstable(name, &incarnation) || incarnation > w->s->incarnation)
		return 0;
	snprintf(key, sizeof(key), "%s/%s", w->table, name);
	return name_add(&w->named, key, LISTED);
}

/*
 * Sets s->files_missing if a file with all these marks does not exist, and
 * logs the first one.  sst/ was listed before the marks were made.
 */
static void find_missing(struct server *s, const struct file_marks *named, unsigned marks)
{
	bool missing = false;
	uint64_t incarnation;

	for (const struct file_marks *n = named; n && !missing; n = n->hh.next) {
		missing = (n->where & (marks | LISTED)) == marks && server_is_sstable(strchr(n->name, '/') + 1, &incarnation) &&
			incarnation < s->incarnation; /* this incarnation may have made its files after sst/ was listed */
		if (missing && !s->files_missing)
			msg_error(
				"%s/sst/%s: missing, though a tablet lists it; files that no tablet lists are not removed: tabletctl repair may need them",
				s->data_dir, n->name);
	}
	s->files_missing = missing;
}

int files_sweep_at_start(struct server *s, char **why)
{
	struct sweep w = {.s = s, .except = s->incarnation, .each = list_file};
	char *sst = path_join(s->data_dir, "sst");
	int err = sst ? file_list(sst, sweep_dir, &w) : -ENOMEM;

	if (!err)
		err = mark_loaded(&w);
	if (!err)
		find_missing(s, w.named, IN_MEMORY);
	w.each = sweep_file;
	/* Without the refused tables, memory does not list all that METADATA lists.  files_sweep() reads METADATA. */
	if (!err && !s->refused_count && !s->files_missing)
		err = file_list(sst, sweep_dir, &w);
	if (err && sst && asprintf(why, "%s: %s", sst, strerror(-err)) < 0)
		*why = NULL;
	names_free(&w.named);
	free(sst);
	if (!err)
		err = logs_remove_dead(s);
	return err;
}

void files_remove_table(struct server *s, uint32_t table)
{
	struct sweep w = {.s = s};

	if (asprintf(&w.dir, "%s/sst/%u", s->data_dir, table) < 0)
		return;
	w.table = strrchr(w.dir, '/') + 1;
	/* Files that cannot be removed now are removed at the next start. */
	if (mark_loaded(&w) == 0 && file_list(w.dir, sweep_file, &w) == 0)
		(void)!file_rmdir(w.dir);
	names_free(&w.named);
	free(w.dir);
}

/* ---- rounds ---- */

static int mark_row(void *arg, struct slice row_key, struct meta_tablet *m)
{
	struct sweep *w = arg;
	int err = w->s->closing ? -ECANCELED : 0;

	for (unsigned where = IN_METADATA; m && !err; m = m->merge, where = IN_MERGE)
		for (unsigned i = 0; i < m->file_count && !err; i++)
			err = file_add(&w->named, &m->files[i], where);
	return err;
}

static int mark_root(struct sweep *w)
{
	struct meta_tablet m = {0};
	struct buf b = {0};
	uint64_t version;
	int err = lock_get(w->s->locks, "root", &b, &version);

	if (!err)
		err = meta_root_decode(buf_slice(&b), &m);
	if (!err)
		err = mark_row(w, (struct slice){NULL, 0}, &m);
	meta_tablet_fini(&m);
	buf_fini(&b);
	return err;
}

/* Steps 1 to 3. */
static int sweep_mark_all(struct sweep *w)
{
	char *sst;
	int err = log_sync(w->s->log);

	if (err)
		return err;
	sst = path_join(w->s->data_dir, "sst");
	err = sst ? file_list(sst, sweep_dir, w) : -ENOMEM;
	free(sst);
	if (!err)
		err = mark_root(w);
	if (!err)
		err = metadata_scan(w->s->metadata, (struct slice){(const uint8_t *)"", 0}, (struct slice){NULL, 0}, mark_row, w);
	if (!err)
		err = file_refs_each(w->s, mark_memory, w);
	return err;
}

/*
 * Logs a file that only one of METADATA and memory names, once.  Returns true
 * if it was logged.  Only after two equal rounds: a file may be made during
 * one round and removed during the next.
 */
static bool log_difference(const struct server *s, const struct file_marks *n, const struct file_marks *before)
{
	if (s->file_refs_lost || !before || !(before->where & n->where & (IN_METADATA | IN_MEMORY)))
		return false;
	if (!(before->where & REPORTED))
		msg_error("%s/sst/%s: %s", s->data_dir, n->name,
			n->where & IN_METADATA ? "METADATA names it, and no tablet here does"
					       : "a tablet uses it, and METADATA does not name it");
	return true;
}

/* Steps 4 and 5 for one file.  An unreferenced file is added to *next. */
static int sweep_check_file(struct server *s, const struct file_marks *n, struct file_marks *last, struct file_marks **next)
{
	const unsigned both = IN_METADATA | IN_MEMORY;
	struct file_marks *before;
	char *path;
	bool done;

	HASH_FIND(hh, last, n->name, strlen(n->name), before);
	if ((n->where & both) == both || n->where & IN_MERGE) /* IN_MERGE: a merge under way, or one that failed, names it */
		return 0;
	if (n->where & both)
		return name_add(next, n->name, (n->where & both) | (log_difference(s, n, before) ? REPORTED : 0));
	if (asprintf(&path, "%s/sst/%s", s->data_dir, n->name) < 0)
		return -ENOMEM;
	done = sst_in_use(s->cache, path);
	if (!done && before && before->where & LISTED && !s->files_missing)
		done = !remove_file(path);
	free(path);
	return done ? 0 : name_add(next, n->name, LISTED);
}

int files_sweep(struct server *s)
{
	struct sweep w = {.s = s, .each = list_file};
	struct file_marks *next = NULL, *n, *tmp;
	int err = sweep_mark_all(&w);

	if (!err)
		find_missing(s, w.named, IN_METADATA | IN_MEMORY);
	HASH_ITER(hh, w.named, n, tmp)
	if (!err)
		err = sweep_check_file(s, n, s->unreferenced, &next);
	names_free(&w.named);
	names_free(&s->unreferenced);
	if (err)
		names_free(&next);
	s->unreferenced = next;
	return err;
}

void files_task(struct task *t)
{
	struct server *s = (struct server *)((char *)t - offsetof(struct server, files_task));
	int err;

	if (s->closing)
		return;
	err = files_sweep(s);
	if (err && !s->closing)
		msg_warning("%s/sst: the check for files that no tablet uses failed: %s", s->data_dir, strerror(-err));
	task_queue_after(t, !err && s->unreferenced && !s->files_missing ? SWEEP_SOON_US : SWEEP_EVERY_US);
}

void files_sweep_soon(struct server *s)
{
	if (!s->no_background && !s->recovering && !s->closing)
		task_queue_after(&s->files_task, SWEEP_SOON_US);
}

void files_free(struct server *s)
{
	names_free(&s->unreferenced);
}
