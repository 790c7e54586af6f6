/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock service over a local directory: "root" is DIR/root and
 * "tables/webtable" DIR/tables/webtable.  Beside them lie DIR/held, flocked
 * while the service is open, and for moments DIR/journal and *.tmp.  A name
 * that ends in .tmp is kept with a "=" after it, so that a temporary file is
 * never taken for a file nor the other way round; the names "held" and
 * "journal" are refused.
 *
 * Durable steps of an operation that changes one file:
 *	1 a directory that the file needs is made, and DIR fsynced
 *	2 put: file_replace (write NAME.tmp, fdatasync, rename, fsync the directory)
 *	  remove: unlink, fsync the directory
 * A crash before the rename or unlink leaves the state before; after it, the
 * state before or after; NAME.tmp is removed at the next open.
 *
 * Durable steps of one that changes several:
 *	1 DIR/journal holds all of it (file_replace): from its rename on it is done
 *	2 each change as above, in order
 *	3 the journal is unlinked
 *	4 DIR is fsynced: or else a crash could bring the journal back after
 *	  later changes, and undo them
 * Opening:
 *	1 flock DIR/held; a byte in it says that the holder is closing (writing
 *	  out its memory may take it a while), and then it is worth waiting
 *	2 fsync DIR and its directories: what the last process had done but not
 *	  synced when it was killed is about to be seen, so it must last; and a
 *	  journal must be durable before its first change is carried out
 *	3 temporary files are removed
 *	4 the journal, if there is one, is carried out from its step 2 on.  It
 *	  states contents and versions, so doing it twice is doing it once.
 *
 * After an I/O error the change is in doubt.  Then nothing is answered until
 * it is settled: every later call first carries out steps 2 to 4 of opening
 * anew, and fails as they fail.  So no caller sees half of a journal, or a
 * rename that a crash may take back.
 *
 * Decided against: keeping all contents in memory (a store of 10,000 tables
 * would read 10,000 files to open), one file for everything (each change
 * would write all of it).  A name that is removed and made again begins at
 * version 1, as with ZooKeeper.
 */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/base/mutex.h"
#include "engine/lock/lock.h"
#include "engine/lock/lock_format.h"
#include "engine/lock/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>

#define HELD "held"
#define JOURNAL "journal"
#define TMP ".tmp"
#define ESCAPE '='
#define WAIT_US UINT64_C(60000000)     /* for a holder that is closing */
#define WAIT_OPEN_US UINT64_C(500000)  /* for one that is not: it may be about to say so */
#define LOOK_NS 20000000

struct local {
	struct lock_service base;
	struct mutex mutex; /* RANK_LOCKSVC: one call at a time on the files */
	struct watch_set watches;
	struct file *held;
	bool in_doubt;      /* an I/O error left something unsettled */
	char dir[];
};

static struct local *local_of(struct lock_service *s)
{
	return (struct local *)s;
}

/* ---- names and paths ---- */

static bool ends_in_tmp(const char *s)
{
	size_t n = strlen(s);

	return n >= sizeof TMP - 1 && strcmp(s + n - (sizeof TMP - 1), TMP) == 0;
}

static bool name_allowed(const char *name)
{
	return lock_name_valid(name) && strcmp(name, HELD) != 0 && strcmp(name, JOURNAL) != 0;
}

/* A name cut in its directory ("" for none) and its last component. */
static void name_split(const char *name, char dir[LOCK_COMPONENT_MAX + 1], const char **last)
{
	const char *slash = strchr(name, '/');
	size_t n = slash ? (size_t)(slash - name) : 0;

	memcpy(dir, name, n);
	dir[n] = 0;
	*last = slash ? slash + 1 : name;
}

/*
 * DIR, or DIR/component.  A directory's entry is written like a file's, so
 * that "a.tmp/b" has no directory which looks like a temporary file.
 */
static char *dir_path(const struct local *l, const char *component)
{
	char *p = NULL;

	if (!*component)
		return strdup(l->dir);
	return asprintf(&p, ends_in_tmp(component) ? "%s/%s=" : "%s/%s", l->dir, component) < 0 ? NULL : p;
}

static char *name_path(const struct local *l, const char *name)
{
	char dir[LOCK_COMPONENT_MAX + 1], *d, *p = NULL;
	const char *last;

	name_split(name, dir, &last);
	d = dir_path(l, dir);
	if (!d)
		return NULL;
	if (asprintf(&p, ends_in_tmp(last) ? "%s/%s=" : "%s/%s", d, last) < 0)
		p = NULL;
	free(d);
	return p;
}

/* ---- reading ---- */

/* contents may be NULL.  -ENOENT. */
static int read_file(const struct local *l, const char *name, struct buf *contents, uint64_t *version)
{
	char *path = name_path(l, name);
	struct buf bytes = {0};
	struct slice c;
	uint64_t v;
	int rc;

	if (!path)
		return -ENOMEM;
	rc = file_read_all(path, LOCK_FILE_BYTES_MAX, &bytes);
	if (rc == -ENOTDIR || rc == -EISDIR)
		rc = -ENOENT;
	if (rc == -ENOENT)
		goto out;
	if (rc == -EFBIG)
		rc = -EBADMSG;
	if (!rc)
		rc = lock_file_decode(buf_slice(&bytes), &c, &v);
	if (rc == -EBADMSG)
		msg_error("%s: damaged", path);
	else if (rc == -EPROTO)
		msg_error("%s: written in a later format", path);
	else if (rc)
		msg_error("%s: %s", path, strerror(-rc));
	if (!rc && contents)
		rc = buf_set(contents, c.p, c.n);
	if (!rc)
		*version = v;
out:
	buf_fini(&bytes);
	free(path);
	return rc;
}

/* ---- changing ---- */

static int ensure_dir(const struct local *l, const char *path)
{
	int rc = file_mkdir(path);

	if (rc == -EEXIST)
		return 0;
	return rc ? rc : file_sync_dir(l->dir);
}

static int put_file(const struct lock_step *s, const char *path)
{
	struct buf bytes = {0};
	int rc = lock_file_encode(s->contents, s->version, &bytes);

	if (!rc)
		rc = file_replace(path, buf_slice(&bytes));
	buf_fini(&bytes);
	return rc;
}

/* The durable steps of one change; doing it again does no harm. */
static int apply_step(const struct local *l, const struct lock_step *s)
{
	char dir[LOCK_COMPONENT_MAX + 1], *dpath = NULL, *path = NULL;
	const char *last;
	int rc = -ENOMEM;

	name_split(s->name, dir, &last);
	dpath = dir_path(l, dir);
	path = name_path(l, s->name);
	if (!dpath || !path)
		goto out;
	if (!s->remove) {
		rc = *dir ? ensure_dir(l, dpath) : 0;
		if (!rc)
			rc = put_file(s, path);
	} else {
		rc = file_unlink(path);
		if (rc == -ENOENT || rc == -ENOTDIR)
			rc = 0;
		else if (!rc)
			rc = file_sync_dir(dpath);
	}
	if (rc && rc != -ENOMEM)
		msg_error("%s: %s", path, strerror(-rc));
out:
	free(path);
	free(dpath);
	return rc;
}

/* Steps 2 to 4 of a journal. */
static int carry_out(const struct local *l, const struct lock_step *steps, unsigned count, const char *journal)
{
	int rc = 0;

	for (unsigned i = 0; i < count && !rc; i++)
		rc = apply_step(l, &steps[i]);
	if (!rc)
		rc = file_unlink(journal);
	if (!rc)
		rc = file_sync_dir(l->dir);
	return rc;
}

static int apply_journal(const struct local *l, const struct lock_step *steps, unsigned count)
{
	char *journal = path_join(l->dir, JOURNAL);
	struct buf bytes = {0};
	int rc = journal ? lock_journal_encode(steps, count, &bytes) : -ENOMEM;

	if (!rc)
		rc = file_replace(journal, buf_slice(&bytes));
	if (!rc)
		rc = carry_out(l, steps, count, journal);
	if (rc && rc != -ENOMEM)
		msg_error("%s: %s", l->dir, strerror(-rc));
	buf_fini(&bytes);
	free(journal);
	return rc;
}

/* ---- settling: at open and after an error ---- */

static int replay_journal(const struct local *l)
{
	char *journal = path_join(l->dir, JOURNAL);
	struct lock_step *steps = NULL;
	struct buf bytes = {0};
	unsigned count = 0;
	int rc = journal ? file_read_all(journal, LOCK_JOURNAL_BYTES_MAX, &bytes) : -ENOMEM;

	if (rc == -ENOENT) {
		rc = 0;
		goto out;
	}
	if (!rc)
		rc = lock_journal_decode(buf_slice(&bytes), &steps, &count);
	else if (rc == -EFBIG)
		rc = -EBADMSG;
	if (rc == -EBADMSG)
		msg_error("%s: damaged", journal);
	if (!rc)
		rc = carry_out(l, steps, count, journal);
out:
	free(steps);
	buf_fini(&bytes);
	free(journal);
	return rc;
}

struct sweep {
	const char *dir;
	bool top;
};

static int sweep_entry(void *arg, const char *name, bool is_dir)
{
	const struct sweep *w = arg;
	char *path = path_join(w->dir, name);
	int rc = 0;

	if (!path)
		return -ENOMEM;
	if (is_dir && w->top) {
		struct sweep below = {path, false};

		rc = file_sync_dir(path);
		if (!rc)
			rc = file_list(path, sweep_entry, &below);
	} else if (!is_dir && ends_in_tmp(name)) {
		rc = file_unlink(path);
		if (rc == -ENOENT)
			rc = 0;
	}
	free(path);
	return rc;
}

/* Steps 2 to 4 of opening. */
static int settle(const struct local *l)
{
	struct sweep top = {l->dir, true};
	int rc = file_sync_dir(l->dir);

	if (!rc)
		rc = file_list(l->dir, sweep_entry, &top);
	if (!rc)
		rc = replay_journal(l);
	if (rc && rc != -EBADMSG && rc != -ENOMEM)
		msg_error("%s: %s", l->dir, strerror(-rc));
	return rc;
}

/* The caller holds the mutex. */
static int settled_locked(struct local *l)
{
	int rc = l->in_doubt ? settle(l) : 0;

	if (!rc)
		l->in_doubt = false;
	return rc;
}

/* ---- the interface ---- */

static int local_get(struct lock_service *s, const char *name, struct buf *contents, uint64_t *version)
{
	struct local *l = local_of(s);
	uint64_t v;
	int rc;

	if (!name_allowed(name))
		return -EINVAL;
	mutex_lock(&l->mutex);
	rc = settled_locked(l);
	if (!rc)
		rc = read_file(l, name, contents, &v);
	mutex_unlock(&l->mutex);
	if (!rc && version)
		*version = v;
	return rc;
}

static int no_entry(void *arg, const char *name, bool is_dir)
{
	(void)arg, (void)name, (void)is_dir;
	return 0;
}

/*
 * -EINVAL where a put would need a file and a directory of one name: found
 * out now, because a journal that cannot be carried out would stop the service.
 */
static int fits(const struct local *l, const char *name)
{
	char dir[LOCK_COMPONENT_MAX + 1], *path;
	const char *last;
	uint64_t version;
	int rc;

	name_split(name, dir, &last);
	if (*dir) {
		rc = read_file(l, dir, NULL, &version);
		return rc == -ENOENT ? 0 : rc ? rc : -EINVAL;
	}
	path = name_path(l, name);
	if (!path)
		return -ENOMEM;
	rc = file_list(path, no_entry, NULL);
	free(path);
	return rc == -ENOENT || rc == -ENOTDIR ? 0 : rc ? rc : -EINVAL;
}

/* Judges one operation on what is there; *changes tells whether there is anything to do. */
static int judge(const struct local *l, const struct lock_op *op, struct lock_step *step, bool *changes)
{
	uint64_t now = 0;
	int rc = read_file(l, op->name, NULL, &now);

	if (rc == -ENOENT)
		rc = now = 0;
	if (rc)
		return rc;
	if (op->expect == LOCK_ABSENT && now)
		return -EEXIST;
	if (op->expect != LOCK_ABSENT && op->expect != LOCK_ANY && now != op->expect)
		return now ? -ESTALE : -ENOENT;
	rc = op->remove || now ? 0 : fits(l, op->name);
	if (rc)
		return rc;
	step->remove = op->remove;
	step->contents = op->contents;
	step->version = op->remove ? 0 : now + 1;
	strcpy(step->name, op->name); /* name_allowed has bounded it */
	*changes = !op->remove || now;
	return 0;
}

/* Equal, or one the directory of the other. */
static bool names_clash(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), k = n < m ? n : m;

	return memcmp(a, b, k) == 0 && (n == m || (n < m ? b[k] : a[k]) == '/');
}

static int check_ops(const struct lock_op *ops, unsigned count)
{
	if (count == 0 || count > LOCK_OPS_MAX)
		return -EINVAL;
	for (unsigned i = 0; i < count; i++) {
		if (!name_allowed(ops[i].name))
			return -EINVAL;
		if (!ops[i].remove && ops[i].contents.n > LOCK_CONTENTS_MAX)
			return -EFBIG;
		for (unsigned j = 0; j < i; j++)
			if (names_clash(ops[i].name, ops[j].name))
				return -EINVAL;
	}
	return 0;
}

static int multi_locked(struct local *l, const struct lock_op *ops, unsigned count, struct lock_step *steps, uint64_t *versions)
{
	unsigned n = 0;
	int rc = settled_locked(l);

	for (unsigned i = 0; i < count && !rc; i++) {
		bool changes;

		rc = judge(l, &ops[i], &steps[n], &changes);
		if (rc)
			break;
		versions[i] = steps[n].version;
		n += changes;
	}
	if (rc || n == 0)
		return rc;
	rc = n == 1 ? apply_step(l, &steps[0]) : apply_journal(l, steps, n);
	l->in_doubt = rc != 0;
	return rc;
}

static int local_multi(struct lock_service *s, const struct lock_op *ops, unsigned count, uint64_t *versions)
{
	struct local *l = local_of(s);
	uint64_t fresh[LOCK_OPS_MAX];
	struct lock_step *steps;
	bool tell;
	int rc = check_ops(ops, count);

	if (rc)
		return rc;
	steps = calloc(count, sizeof *steps);
	if (!steps)
		return -ENOMEM;
	mutex_lock(&l->mutex);
	rc = multi_locked(l, ops, count, steps, fresh);
	tell = !rc || l->in_doubt; /* in doubt: whoever watches must look */
	mutex_unlock(&l->mutex);
	free(steps);
	if (!rc && versions)
		memcpy(versions, fresh, count * sizeof *versions);
	for (unsigned i = 0; i < count && tell; i++)
		watch_fire(&l->watches, ops[i].name);
	return rc;
}

struct listing {
	struct buf names; /* one after another, each ended by NUL; in byte order as file_list gives them */
	bool top;
};

static int listing_entry(void *arg, const char *name, bool is_dir)
{
	struct listing *g = arg;
	size_t n = strlen(name);

	if (ends_in_tmp(name) || (g->top && (strcmp(name, HELD) == 0 || strcmp(name, JOURNAL) == 0)) || (is_dir && !g->top))
		return 0;
	if (n && name[n - 1] == ESCAPE)
		n--;
	return buf_append(&g->names, name, n) || buf_u8(&g->names, 0) ? -ENOMEM : 0;
}

static int name_cmp(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Hands the collected names out sorted (an escape may have changed their order). */
static int hand_out(const struct listing *g, int (*fn)(void *arg, const char *name), void *arg)
{
	const char *end = (const char *)g->names.p + g->names.n, **v;
	size_t count = 0, i = 0;
	int rc = 0;

	for (const char *p = (const char *)g->names.p; p < end; p += strlen(p) + 1)
		count++;
	if (count == 0)
		return 0;
	v = malloc(count * sizeof *v);
	if (!v)
		return -ENOMEM;
	for (const char *p = (const char *)g->names.p; p < end; p += strlen(p) + 1)
		v[i++] = p;
	qsort(v, count, sizeof *v, name_cmp);
	for (i = 0; i < count && !rc; i++)
		rc = fn(arg, v[i]);
	free(v);
	return rc;
}

static int local_list(struct lock_service *s, const char *dir, int (*fn)(void *arg, const char *name), void *arg)
{
	struct local *l = local_of(s);
	struct listing g = {.top = !*dir};
	char *path;
	int rc;

	if (*dir && (!name_allowed(dir) || strchr(dir, '/')))
		return -EINVAL;
	path = dir_path(l, dir);
	if (!path)
		return -ENOMEM;
	mutex_lock(&l->mutex);
	rc = settled_locked(l);
	if (!rc)
		rc = file_list(path, listing_entry, &g);
	mutex_unlock(&l->mutex);
	if (rc == -ENOENT || rc == -ENOTDIR)
		rc = 0; /* no file has needed it yet */
	if (!rc)
		rc = hand_out(&g, fn, arg);
	buf_fini(&g.names);
	free(path);
	return rc;
}

static int local_acquire(struct lock_service *s, const char *name)
{
	return lock_name_valid(name) ? held_add(&local_of(s)->watches, name) : -EINVAL;
}

static int local_release(struct lock_service *s, const char *name)
{
	return held_remove(&local_of(s)->watches, name);
}

static int local_watch(struct lock_service *s, const char *name, lock_watch_fn *fn, void *arg)
{
	char plain[LOCK_NAME_MAX + 2];
	size_t n = strlen(name);

	if (n == 0 || n >= sizeof plain)
		return -EINVAL;
	memcpy(plain, name, n + 1);
	if (plain[n - 1] == '/')
		plain[n - 1] = 0;
	return lock_name_valid(plain) ? watch_add(&local_of(s)->watches, name, fn, arg) : -EINVAL;
}

static void local_unwatch(struct lock_service *s, lock_watch_fn *fn, void *arg)
{
	watch_remove(&local_of(s)->watches, fn, arg);
}

static void local_free(struct lock_service *s)
{
	struct local *l = local_of(s);

	file_close(l->held); /* ends the flock */
	watch_set_fini(&l->watches);
	mutex_fini(&l->mutex);
	free(l);
}

static const struct lock_service_ops local_ops = {
	.get = local_get, .multi = local_multi, .list = local_list, .acquire = local_acquire, .release = local_release,
	.watch = local_watch, .unwatch = local_unwatch, .free = local_free,
};

static bool holder_is_closing(struct local *l)
{
	uint8_t byte;
	size_t got = 0;

	return file_pread(l->held, &byte, 1, 0, &got) == 0 && got == 1;
}

static int flock_held(struct local *l)
{
	const struct timespec pause = {.tv_nsec = LOOK_NS};
	uint64_t since = monotonic_us();
	bool told = false;

	while (flock(file_fd(l->held), LOCK_EX | LOCK_NB) < 0) {
		bool closing;

		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		closing = holder_is_closing(l);
		if (monotonic_us() - since > (closing ? WAIT_US : WAIT_OPEN_US))
			return -EBUSY;
		if (closing && !told)
			msg_notice("%s: waiting for the process that is closing it", l->dir);
		told |= closing;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* Step 1 of opening. */
static int take_hold(struct local *l)
{
	char *path = path_join(l->dir, HELD);
	int rc = path ? file_open(path, FILE_READWRITE, &l->held) : -ENOMEM;

	if (rc == -ENOENT)
		rc = file_open(path, FILE_CREATE, &l->held);
	if (rc == -EEXIST) /* another process has just made it */
		rc = file_open(path, FILE_READWRITE, &l->held);
	if (!rc)
		rc = flock_held(l);
	if (!rc && holder_is_closing(l)) /* the one before us */
		rc = file_truncate(l->held, 0);
	free(path);
	return rc;
}

void lock_local_closing(struct lock_service *s)
{
	struct local *l = local_of(s);
	int rc = file_pwrite(l->held, "c", 1, 0);

	if (rc)
		msg_warning("%s/%s: cannot be marked as closing: %s", l->dir, HELD, strerror(-rc));
}

int lock_local_open(const char *dir, struct lock_service **out)
{
	size_t n = strlen(dir) + 1;
	struct local *l = calloc(1, sizeof *l + n);
	int rc;

	if (!l)
		return -ENOMEM;
	l->base.ops = &local_ops;
	memcpy(l->dir, dir, n);
	mutex_init(&l->mutex, RANK_LOCKSVC);
	watch_set_init(&l->watches);
	rc = take_hold(l);
	if (!rc)
		rc = settle(l);
	if (rc) {
		local_free(&l->base);
		return rc;
	}
	*out = &l->base;
	return 0;
}
