/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes SSTables without references.
 *
 * The start removes every SSTable of an earlier incarnation that no tablet
 * lists.  A crash left it: it is an output that was not installed, or an input
 * that was not removed.  Files of this incarnation stay, because background work
 * may be writing them.
 *
 * While the server runs, the last reader of a compaction's input removes it.
 * The thread that drops the last reference to a dropped table removes the table's
 * directory, except files that tablets of another table list.  Both miss some
 * files: an output whose edit had an unknown outcome, or a file that could not be
 * unlinked.  Mark and sweep finds these, in rounds:
 *	1 Sync the log.  If the log refuses writes, the round ends.  A change of
 *	  METADATA that failed may then be in the log, and a start would replay
 *	  it; so files that METADATA does not name now may be named then.
 *	2 List sst/.
 *	3 Scan METADATA, from the root file down, and mark all files that a row
 *	  names, also in its merge column.  The scan reads METADATA itself, not
 *	  the rows in the server's memory.  So an error in memory cannot remove a
 *	  file that METADATA names.  Differences between the two are logged.
 *	4 A file is unreferenced if neither METADATA nor memory names it and
 *	  it has no object in the table cache.  Outputs have an object from
 *	  before their creation until they are installed or removed.  Files on
 *	  a tablet's list and files with readers have one, too.
 *	5 Unlink the files that were unreferenced in the previous round, too.
 * Because step 2 comes before step 3, a file that gets its first reference
 * between them is marked.  A split during step 3 may move files from a row that
 * the scan has not reached to a row that it has passed.  The scan then misses
 * these files, but only in one round, and they have objects in the table cache.
 * A crash at any point leaves files that the next start removes.
 *
 * If a file of an earlier incarnation is missing although a tablet lists it,
 * METADATA may be old, because the end of its log was lost.  The newer data may
 * then be in files that METADATA does not list.  So neither the start nor a
 * round removes files, and `tabletctl repair` can add them to METADATA again.
 *
 * No file is removed whose name is not that of an SSTable, or that has the
 * number of a later incarnation.
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
#define SWEEP_SOON_US UINT64_C(60000000) /* after a round with candidates, or an event that may leave an unreferenced file */

/* Marks of a file.  IN_MERGE: in a merge column of METADATA.  REPORTED: a difference was logged. */
enum { ON_DISK = 1, IN_METADATA = 2, IN_MEMORY = 4, IN_MERGE = 8, REPORTED = 16 };
struct file_marks {
	UT_hash_handle hh;
	unsigned where; /* the marks */
	char name[];    /* TABLE/INCARNATION-NUMBER.sst */
};
enum { FILE_NAME_MAX = 96 };

struct sweep {
	struct server *s;
	struct file_marks *named;
	char *dir;                                             /* DATA_DIR/sst/TABLE, being listed */
	const char *table;                                     /* TABLE, as text */
	int (*each)(void *arg, const char *name, bool is_dir); /* called for each entry of dir */
	uint64_t except;                                       /* an incarnation whose files stay; 0: none */
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

static int marks_add(struct file_marks **set, const char *name, unsigned where)
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

static int marks_add_file(struct file_marks **set, const struct tablet_file *f, unsigned where)
{
	char name[FILE_NAME_MAX];

	file_name(name, f);
	return marks_add(set, name, where);
}

static void marks_free(struct file_marks **set)
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
	return marks_add_file(&((struct sweep *)arg)->named, f, IN_MEMORY);
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

/* Removes the SSTable unless METADATA or memory names it. */
static int remove_if_unnamed(void *arg, const char *name, bool is_dir)
{
	struct sweep *w = arg;
	char key[300];
	struct file_marks *n;
	size_t len = (size_t)snprintf(key, sizeof(key), "%s/%s", w->table, name);
	uint64_t incarnation;
	char *path;

	HASH_FIND(hh, w->named, key, len, n);
	if ((n && n->where & ~ON_DISK) || is_dir || !server_is_sstable(name, &incarnation) || incarnation == w->except)
		return 0;
	path = path_join(w->dir, name);
	if (!path)
		return -ENOMEM;
	(void)!remove_file(path);
	free(path);
	return 0;
}

/* Calls w->each for the entries of a table's directory.  A drop may have removed the directory after sst/ was listed. */
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

static int mark_on_disk(void *arg, const char *name, bool is_dir)
{
	struct sweep *w = arg;
	char key[300];
	uint64_t incarnation;

	if (is_dir || !server_is_sstable(name, &incarnation) || incarnation > w->s->incarnation)
		return 0;
	snprintf(key, sizeof(key), "%s/%s", w->table, name);
	return marks_add(&w->named, key, ON_DISK);
}

/*
 * Sets s->files_missing if a file with all of `marks` is not on disk, and logs
 * the first such file.
 */
static void find_missing(struct server *s, const struct file_marks *named, unsigned marks)
{
	bool missing = false;
	uint64_t incarnation;

	for (const struct file_marks *n = named; n && !missing; n = n->hh.next) {
		missing = (n->where & (marks | ON_DISK)) == marks && server_is_sstable(strchr(n->name, '/') + 1, &incarnation) &&
			incarnation < s->incarnation; /* files of this incarnation may have been made after sst/ was listed */
		if (missing && !s->files_missing)
			msg_error(
				"%s/sst/%s: missing, though a tablet lists it; files that no tablet lists are not removed: tabletctl repair may need them",
				s->data_dir, n->name);
	}
	s->files_missing = missing;
}

int files_sweep_at_start(struct server *s, char **why)
{
	struct sweep w = {.s = s, .except = s->incarnation, .each = mark_on_disk};
	char *sst = path_join(s->data_dir, "sst");
	int err = sst ? file_list(sst, sweep_dir, &w) : -ENOMEM;

	if (!err)
		err = mark_loaded(&w);
	if (!err)
		find_missing(s, w.named, IN_MEMORY);
	w.each = remove_if_unnamed;
	/* If tables are refused, memory does not list all files that METADATA lists.  Only files_sweep() reads METADATA. */
	if (!err && !s->refused_count && !s->files_missing)
		err = file_list(sst, sweep_dir, &w);
	if (err && sst && asprintf(why, "%s: %s", sst, strerror(-err)) < 0)
		*why = NULL;
	marks_free(&w.named);
	free(sst);
	return err;
}

void files_remove_table(struct server *s, uint32_t table)
{
	struct sweep w = {.s = s};

	if (asprintf(&w.dir, "%s/sst/%u", s->data_dir, table) < 0)
		return;
	w.table = strrchr(w.dir, '/') + 1;
	/* Files that cannot be removed now are removed at the next start. */
	if (mark_loaded(&w) == 0 && file_list(w.dir, remove_if_unnamed, &w) == 0)
		(void)!file_rmdir(w.dir);
	marks_free(&w.named);
	free(w.dir);
}

/* ---- rounds ---- */

static int mark_row(void *arg, struct slice row_key, struct meta_tablet *m)
{
	struct sweep *w = arg;
	int err = w->s->closing ? -ECANCELED : 0;

	for (unsigned where = IN_METADATA; m && !err; m = m->merge, where = IN_MERGE)
		for (unsigned i = 0; i < m->file_count && !err; i++)
			err = marks_add_file(&w->named, &m->files[i], where);
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
 * Logs, once, that only one of METADATA and memory names the file.  It does so
 * if the previous round (before) found the same, because an edit during one
 * round can look like a difference.  Returns true if this was logged, now or
 * earlier.
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

/* Steps 4 and 5 for one file.  A file that the next round must compare is added to *next, with its marks. */
static int sweep_check_file(struct server *s, const struct file_marks *n, struct file_marks *last, struct file_marks **next)
{
	const unsigned both = IN_METADATA | IN_MEMORY;
	struct file_marks *before;
	char *path;
	bool candidate; /* unreferenced, and not removed in this round */

	HASH_FIND(hh, last, n->name, strlen(n->name), before);
	if ((n->where & both) == both || n->where & IN_MERGE) /* IN_MERGE: of a merge under way, or of one that failed */
		return 0;
	if (n->where & both)
		return marks_add(next, n->name, (n->where & both) | (log_difference(s, n, before) ? REPORTED : 0));
	if (asprintf(&path, "%s/sst/%s", s->data_dir, n->name) < 0)
		return -ENOMEM;
	candidate = !sst_in_use(s->cache, path);
	if (candidate && before && before->where & ON_DISK && !s->files_missing)
		candidate = remove_file(path) != 0;
	free(path);
	return candidate ? marks_add(next, n->name, ON_DISK) : 0;
}

int files_sweep(struct server *s)
{
	struct sweep w = {.s = s, .each = mark_on_disk};
	struct file_marks *next = NULL, *n, *tmp;
	int err = sweep_mark_all(&w);

	if (!err)
		find_missing(s, w.named, IN_METADATA | IN_MEMORY);
	HASH_ITER(hh, w.named, n, tmp)
	if (!err)
		err = sweep_check_file(s, n, s->unreferenced, &next);
	marks_free(&w.named);
	marks_free(&s->unreferenced);
	if (err)
		marks_free(&next);
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
	marks_free(&s->unreferenced);
}
