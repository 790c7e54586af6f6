/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the local lock service: "root" is DIR/root and
 * "tables/webtable" DIR/tables/webtable.  Beside them lie DIR/held, and for
 * moments DIR/journal and *.tmp.  A name that ends in .tmp is kept with a "="
 * after it, so that a temporary file is never taken for a file nor the other
 * way round; the names "held" and "journal" are refused.
 *
 * Durable steps of an operation:
 *	1 each put: a directory that the file needs is made, and DIR fsynced; its
 *	  contents are written to NAME.tmp and synced
 *	2 if it changes several files: DIR/journal holds all of it (file_replace);
 *	  from its rename on it is done
 *	3 each put: rename NAME.tmp over NAME, fsync the directory; each remove:
 *	  unlink, fsync the directory
 *	4 the journal is unlinked
 *	5 DIR is fsynced: or else a crash could bring the journal back after
 *	  later changes, and undo them
 * Every file holds its contents twice (base/copies.h); one of which a copy is
 * damaged is replaced when it is read (file_replace), by the same contents and
 * version.
 * A crash before the first rename or unlink leaves the state before, after
 * the last the state after; NAME.tmp is removed at the next open.  Whatever
 * needs room on the disk comes first: an error in step 1 has changed nothing,
 * and what the journal promises can be kept on a full disk.
 * Settling, at opening and after an error:
 *	1 fsync DIR and its directories: what the last process had done but not
 *	  synced when it was killed is about to be seen, so it must last; and a
 *	  journal must be durable before its first change is carried out
 *	2 temporary files are removed
 *	3 the journal, if there is one, is carried out: steps 1, 3, 4 and 5.  It
 *	  states contents and versions, so doing it twice is doing it once.
 *	  (Here a full disk is an error: the store does not open until there is
 *	  room for the files that the journal names.)
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

/* A damaged copy is replaced by what the other one says: the same file, so no change. */
static void heal(const char *path, struct slice contents, uint64_t version)
{
	struct buf fresh = {0};

	if (lock_file_encode(contents, version, &fresh) == 0)
		copies_rewrite(path, buf_slice(&fresh));
	buf_fini(&fresh);
}

int lock_files_read(const char *top, const char *name, struct buf *contents, uint64_t *version)
{
	char *path = lock_name_path(top, name);
	struct buf bytes = {0};
	struct slice c;
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
	if (err == -EFBIG)
		err = -EBADMSG;
	if (!err)
		err = lock_file_decode(buf_slice(&bytes), &c, &v, &whole);
	if (err == -EBADMSG && holes)
		err = -EIO;
	if (!err && !whole)
		heal(path, c, v);
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

static int ensure_dir(const char *top, const char *path)
{
	int err = file_mkdir(path);

	if (err)
		return err == -EEXIST ? 0 : err;
	err = file_sync_dir(top);
	if (err) /* a directory that is found is one that was synced */
		(void)!file_rmdir(path);
	return err;
}

static char *tmp_of(const char *path)
{
	char *p = NULL;

	return asprintf(&p, "%s" TMP, path) < 0 ? NULL : p;
}

static int write_tmp(const char *tmp, struct slice bytes)
{
	struct file *f = NULL;
	int err = file_open(tmp, FILE_CREATE, &f);

	if (err == -EEXIST) {
		err = file_unlink(tmp);
		if (!err)
			err = file_open(tmp, FILE_CREATE, &f);
	}
	if (!err)
		err = file_pwrite(f, bytes.p, bytes.n, 0);
	if (!err)
		err = file_sync(f);
	file_close(f);
	return err;
}

/* Where a step works. */
struct place {
	char *dir, *path, *tmp;
	bool below; /* dir is not DIR itself */
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

/* Step 1 of a change. */
static int prepare(const char *top, const struct lock_step *s, const struct place *p)
{
	struct buf bytes = {0};
	int err = p->below ? ensure_dir(top, p->dir) : 0;

	if (!err)
		err = lock_file_encode(s->contents, s->version, &bytes);
	if (!err)
		err = write_tmp(p->tmp, buf_slice(&bytes));
	buf_fini(&bytes);
	return err;
}

/* Step 3. */
static int finish(const struct lock_step *s, const struct place *p)
{
	int err = s->remove ? file_unlink(p->path) : file_rename(p->tmp, p->path);

	if (s->remove && (err == -ENOENT || err == -ENOTDIR))
		return 0;
	return err ? err : file_sync_dir(p->dir);
}

/* Steps 4 and 5. */
static int forget_journal(const char *top, const char *journal)
{
	int err = file_unlink(journal);

	return err ? err : file_sync_dir(top);
}

static int write_journal(const char *journal, const struct lock_step *steps, unsigned count)
{
	struct buf bytes = {0};
	int err = lock_journal_encode(steps, count, &bytes);

	if (!err)
		err = file_replace(journal, buf_slice(&bytes));
	buf_fini(&bytes);
	return err;
}

/* Takes back what step 1 made; false: something is left lying. */
static bool take_back(const struct lock_step *steps, const struct place *p, unsigned count)
{
	bool all = true;

	for (unsigned i = 0; i < count; i++) {
		int err = steps[i].remove ? 0 : file_unlink(p[i].tmp);

		all &= err == 0 || err == -ENOENT;
	}
	return all;
}

static int told(const struct place *p, int err)
{
	if (err && err != -ENOMEM)
		msg_error("%s: %s", p->path, strerror(-err));
	return err;
}

/* journalled: the journal lies there already. */
static int carry_out(const char *top, const struct lock_step *steps, unsigned count, bool journalled, bool *in_doubt)
{
	char *journal = path_join(top, LOCK_JOURNAL);
	struct place *p = calloc(count, sizeof *p);
	unsigned i, ready = 0;
	int err = journal && p ? 0 : -ENOMEM;

	for (i = 0; i < count && !err; i++)
		err = place_init(top, steps[i].name, &p[i]);
	for (; ready < count && !err; ready++)
		if (!steps[ready].remove)
			err = told(&p[ready], prepare(top, &steps[ready], &p[ready]));
	if (err) {
		*in_doubt |= !take_back(steps, p, ready);
		goto out;
	}
	if (count > 1 && !journalled)
		err = write_journal(journal, steps, count);
	for (i = 0; i < count && !err; i++)
		err = told(&p[i], finish(&steps[i], &p[i]));
	if (!err && (count > 1 || journalled))
		err = forget_journal(top, journal);
	*in_doubt |= err != 0;
	if (err && i == count && err != -ENOMEM)
		msg_error("%s: %s", top, strerror(-err));
out:
	for (i = 0; p && i < count; i++)
		place_fini(&p[i]);
	free(p);
	free(journal);
	return err;
}

int lock_files_change(const char *top, const struct lock_step *steps, unsigned count, bool *in_doubt)
{
	return carry_out(top, steps, count, false, in_doubt);
}

/* ---- settling: at open and after an error ---- */

static int replay_journal(const char *top)
{
	char *journal = path_join(top, LOCK_JOURNAL);
	struct lock_step *steps = NULL;
	struct buf bytes = {0};
	bool in_doubt = false; /* the caller knows: it asks again until this works */
	bool holes = false;
	unsigned count = 0;
	int err = journal ? copies_read(journal, LOCK_JOURNAL_BYTES_MAX, &bytes, &holes) : -ENOMEM;

	if (err == -ENOENT) {
		err = 0;
		goto out;
	}
	if (!err)
		err = lock_journal_decode(buf_slice(&bytes), &steps, &count);
	else if (err == -EFBIG)
		err = -EBADMSG;
	if (err == -EBADMSG && holes)
		err = -EIO;
	else if (err == -EBADMSG)
		msg_error("%s: damaged", journal);
	if (!err)
		err = carry_out(top, steps, count, true, &in_doubt);
out:
	free(steps);
	buf_fini(&bytes);
	free(journal);
	return err;
}

struct sweep {
	const char *dir;
	bool top;
};

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

int lock_files_settle(const char *top)
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
