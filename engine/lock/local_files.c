/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the local lock service: "root" is DIR/root, "tables/webtable"
 * is DIR/tables/webtable.  DIR also has DIR/held and, during changes,
 * DIR/journal and *.tmp.  A name that ends in .tmp is stored with "=" after it,
 * so that it does not look like a temporary file.  The names "held" and
 * "journal" are refused.
 *
 * Durable steps of an operation:
 *	1 each put: create the directory of the file if needed, and fsync DIR;
 *	  write the contents to NAME.tmp, and sync it
 *	2 if several files change: write all changes to DIR/journal
 *	  (file_replace).  The rename of the journal commits the operation
 *	3 each put: rename NAME.tmp over NAME, fsync the directory; each remove:
 *	  unlink, fsync the directory
 *	4 if there is a journal: unlink it
 *	5 then fsync DIR.  Without this a crash could restore the journal after
 *	  later operations, and recovery would undo them
 * A crash before the operation is committed leaves the files as they were.  The
 * next opening removes NAME.tmp.  After a commit by a journal, the next opening
 * completes the operation.  An operation on one file is committed by its rename
 * or unlink.
 *
 * Only steps 1 and 2 need disk space.  After an error of step 1 nothing was
 * changed.  A committed operation needs no space for its steps 3 to 5.
 *
 * Every file has two copies of its contents (base/copies.h).  If one copy is
 * damaged, the reader replaces the file (file_replace) with the same contents
 * and version.
 *
 * Recovery, at opening and after an error with an unknown outcome:
 *	1 fsync DIR and its directories.  Changes that the last process made but
 *	  did not sync must be durable before a caller sees them.  A journal must
 *	  be durable before its first change is carried out
 *	2 remove temporary files
 *	3 carry out the journal if there is one: steps 1, 3, 4 and 5.  The journal
 *	  has contents and versions, so it can be carried out twice.  A full disk
 *	  is an error here, because step 1 needs space.  The store does not open
 *	  until there is enough
 */
#include "engine/lock/local_files.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define TMP ".tmp"

/* ---- names and paths ---- */

bool lock_ends_in_tmp(const char *s)
{
	size_t n = strlen(s);

	return n >= sizeof TMP - 1 && strcmp(s + n - (sizeof TMP - 1), TMP) == 0;
}

bool lock_name_allowed(const char *name)
{
	return lock_name_valid(name) && strcmp(name, LOCK_HELD) != 0 && strcmp(name, LOCK_JOURNAL) != 0;
}

void lock_name_split(const char *name, char dir[LOCK_COMPONENT_MAX + 1], const char **last)
{
	const char *slash = strchr(name, '/');
	size_t n = slash ? (size_t)(slash - name) : 0;

	memcpy(dir, name, n);
	dir[n] = 0;
	*last = slash ? slash + 1 : name;
}

char *lock_dir_path(const char *top, const char *component)
{
	char *p = NULL;

	if (!*component)
		return strdup(top);
	return asprintf(&p, lock_ends_in_tmp(component) ? "%s/%s=" : "%s/%s", top, component) < 0 ? NULL : p;
}

char *lock_name_path(const char *top, const char *name)
{
	char dir[LOCK_COMPONENT_MAX + 1], *d, *p = NULL;
	const char *last;

	lock_name_split(name, dir, &last);
	d = lock_dir_path(top, dir);
	if (!d)
		return NULL;
	if (asprintf(&p, lock_ends_in_tmp(last) ? "%s/%s=" : "%s/%s", d, last) < 0)
		p = NULL;
	free(d);
	return p;
}

/* ---- reading ---- */

/* Writes the file again, because one of its copies is damaged. */
static void rewrite_copies(const char *path, struct tfs_bytes contents, uint64_t version)
{
	struct buf fresh = {0};

	if (lock_file_encode(contents, version, &fresh) == 0)
		copies_rewrite(path, buf_bytes(&fresh));
	buf_fini(&fresh);
}

int lock_files_read(const char *top, const char *name, struct buf *contents, uint64_t *version)
{
	char *path = lock_name_path(top, name);
	struct buf bytes = {0};
	struct tfs_bytes c;
	bool whole, holes;
	uint64_t v;
	int err;

	if (!path)
		return -ENOMEM;
	err = copies_read(path, LOCK_FILE_BYTES_MAX, &bytes, &holes);
	if (err == -ENOTDIR || err == -EISDIR)
		err = -ENOENT;
	if (err == -ENOENT)
		goto out;
	if (!err)
		err = lock_file_decode(buf_bytes(&bytes), &c, &v, &whole);
	if (err == -EBADMSG && holes)
		err = -EIO;
	if (!err && !whole)
		rewrite_copies(path, c, v);
	if (err == -EPROTO)
		msg_error("%s: written in a later format", path);
	else if (err && err != -EBADMSG)
		msg_error("%s: %s", path, strerror(-err));
	if (!err && contents)
		err = buf_set(contents, c.p, c.n);
	if (!err)
		*version = v;
out:
	buf_fini(&bytes);
	free(path);
	return err;
}

/* ---- changing ---- */

/* Creates the directory in top, durably, unless it exists. */
static int ensure_dir(const char *top, const char *path)
{
	int err = file_mkdir(path);

	if (err)
		return err == -EEXIST ? 0 : err;
	err = file_sync_dir(top);
	if (err) /* otherwise a later call would find the directory and not sync it */
		(void)!file_rmdir(path);
	return err;
}

static char *tmp_of(const char *path)
{
	char *p = NULL;

	return asprintf(&p, "%s" TMP, path) < 0 ? NULL : p;
}

/* The paths of a step. */
struct place {
	char *dir, *path, *tmp;
	bool below; /* dir is in DIR; else it is DIR */
};

static int place_init(const char *top, const char *name, struct place *p)
{
	char dir[LOCK_COMPONENT_MAX + 1];
	const char *last;

	lock_name_split(name, dir, &last);
	p->below = *dir;
	p->dir = lock_dir_path(top, dir);
	p->path = lock_name_path(top, name);
	p->tmp = p->path ? tmp_of(p->path) : NULL;
	return p->dir && p->tmp ? 0 : -ENOMEM;
}

static void place_fini(struct place *p)
{
	free(p->dir);
	free(p->path);
	free(p->tmp);
}

/* Step 1 of an operation, for one put. */
static int step_prepare(const char *top, const struct lock_step *s, const struct place *p)
{
	struct buf bytes = {0};
	int err = p->below ? ensure_dir(top, p->dir) : 0;

	if (!err)
		err = lock_file_encode(s->contents, s->version, &bytes);
	if (!err)
		err = file_write_new(p->tmp, buf_bytes(&bytes));
	buf_fini(&bytes);
	return err;
}

/* Step 3, for one file.  Sets *changed if the file has changed, also if that may not be durable. */
static int step_finish(const struct lock_step *s, const struct place *p, bool *changed)
{
	int err = s->remove ? file_unlink(p->path) : file_rename(p->tmp, p->path);

	if (s->remove && (err == -ENOENT || err == -ENOTDIR))
		return 0;
	*changed |= !err;
	return err ? err : file_sync_dir(p->dir);
}

/* Steps 4 and 5. */
static int remove_journal(const char *top, const char *journal)
{
	int err = file_unlink(journal);

	return err ? err : file_sync_dir(top);
}

/* Sets *changed if the journal may exist. */
static int write_journal(const char *journal, const struct lock_step *steps, unsigned count, bool *changed)
{
	struct buf bytes = {0};
	uint64_t size;
	int err = lock_journal_encode(steps, count, &bytes);

	if (!err)
		err = file_replace(journal, buf_bytes(&bytes));
	*changed = !err || file_stat_size(journal, &size) != -ENOENT;
	buf_fini(&bytes);
	return err;
}

/* Removes the temporary files of step 1.  Returns false if one remains. */
static bool remove_temporaries(const struct lock_step *steps, const struct place *p, unsigned count)
{
	bool all = true;

	for (unsigned i = 0; i < count; i++) {
		int err = steps[i].remove ? 0 : file_unlink(p[i].tmp);

		all &= err == 0 || err == -ENOENT;
	}
	return all;
}

/* Logs an error of a step, if there is one.  Returns it. */
static int step_log_error(const struct place *p, int err)
{
	if (err && err != -ENOMEM)
		msg_error("%s: %s", p->path, strerror(-err));
	return err;
}

/* All steps of an operation.  journalled: the journal exists already, so step 2 is not needed. */
static int steps_run(const char *top, const struct lock_step *steps, unsigned count, bool journalled, bool *unknown)
{
	char *journal = path_join(top, LOCK_JOURNAL);
	struct place *p = calloc(count, sizeof *p);
	unsigned i, ready = 0;
	bool changed = journalled;
	int err = journal && p ? 0 : -ENOMEM;

	for (i = 0; i < count && !err; i++)
		err = place_init(top, steps[i].name, &p[i]);
	for (; ready < count && !err; ready++)
		if (!steps[ready].remove)
			err = step_log_error(&p[ready], step_prepare(top, &steps[ready], &p[ready]));
	if (err) {
		*unknown |= !remove_temporaries(steps, p, ready);
		goto out;
	}
	if (count > 1 && !journalled)
		err = write_journal(journal, steps, count, &changed);
	for (i = 0; i < count && !err; i++)
		err = step_log_error(&p[i], step_finish(&steps[i], &p[i], &changed));
	if (!err && (count > 1 || journalled))
		err = remove_journal(top, journal);
	*unknown |= err != 0;
	if (err && i == count && err != -ENOMEM)
		msg_error("%s: %s", top, strerror(-err));
	if (changed && is_no_space(err))
		err = -EIO;
out:
	for (i = 0; p && i < count; i++)
		place_fini(&p[i]);
	free(p);
	free(journal);
	return err;
}

int lock_files_change(const char *top, const struct lock_step *steps, unsigned count, bool *unknown)
{
	return steps_run(top, steps, count, false, unknown);
}

/* ---- recovery when the service opens, and after an error ---- */

/* Step 3 of recovery. */
static int replay_journal(const char *top)
{
	char *journal = path_join(top, LOCK_JOURNAL);
	struct lock_step *steps = NULL;
	struct buf bytes = {0};
	bool unknown = false; /* not used: after an error the caller repeats the recovery until it succeeds */
	bool holes = false;
	unsigned count = 0;
	int err = journal ? copies_read(journal, LOCK_JOURNAL_BYTES_MAX, &bytes, &holes) : -ENOMEM;

	if (err == -ENOENT) {
		err = 0;
		goto out;
	}
	if (!err)
		err = lock_journal_decode(buf_bytes(&bytes), &steps, &count);
	if (err == -EBADMSG && holes)
		err = -EIO;
	else if (err == -EBADMSG)
		msg_damage("%s: damaged", journal);
	if (!err)
		err = steps_run(top, steps, count, true, &unknown);
out:
	free(steps);
	buf_fini(&bytes);
	free(journal);
	return err;
}

struct sweep {
	const char *dir;
	bool top; /* dir is DIR */
};

/* Steps 1 and 2 of recovery, for one entry of a directory. */
static int sweep_entry(void *arg, const char *name, bool is_dir)
{
	const struct sweep *w = arg;
	char *path = path_join(w->dir, name);
	int err = 0;

	if (!path)
		return -ENOMEM;
	if (is_dir && w->top) {
		struct sweep below = {path, false};

		err = file_sync_dir(path);
		if (!err)
			err = file_list(path, sweep_entry, &below);
	} else if (!is_dir && lock_ends_in_tmp(name)) {
		err = file_unlink(path);
		if (err == -ENOENT)
			err = 0;
	}
	free(path);
	return err;
}

int lock_files_recover(const char *top)
{
	struct sweep w = {top, true};
	int err = file_sync_dir(top);

	if (!err)
		err = file_list(top, sweep_entry, &w);
	if (!err)
		err = replay_journal(top);
	if (err && err != -EBADMSG && err != -ENOMEM)
		msg_error("%s: %s", top, strerror(-err));
	return err;
}
