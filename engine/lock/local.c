/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock service over a local directory.  local_files.c reads and changes its
 * files.
 *
 * Opening:
 *	1 flock DIR/held.  If another process holds the flock, the call waits.
 *	  The first byte of the file states if the holder is closing.  The wait is
 *	  then longer, because a closing process writes its memtables.  The rest
 *	  names the holder, for messages at other hosts.  It is not synced, and an opening continues without it
 *	2 complete or undo the last process's change (lock_files_recover)
 *
 * After an error with an unknown outcome, every later call recovers first, and
 * fails if the recovery fails.  So no caller sees a change that is half carried
 * out, or a rename that a crash may undo.
 *
 * A file that is removed and created again starts at version 1, as in ZooKeeper.
 *
 * Ephemeral files end with the process, so they are in its memory only.  A
 * multi-operation changes them after the files on disk.  If the outcome of that
 * change is unknown, it does not change them.  So an error may leave, for example,
 * a new term without a master; the next election raises the term again.
 *
 * Rejected: all contents in memory, because a store of 10,000 tables would read
 * 10,000 files to open.  One file for everything, because each change would
 * write all of it.
 */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/base/mutex.h"
#include "engine/lock/lock.h"
#include "engine/lock/local_files.h"
#include "engine/lock/ops.h"
#include "engine/lock/watch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define ESCAPE '='                         /* the last character of a stored name that would end in .tmp */
#define WAIT_CLOSING_US UINT64_C(60000000) /* the longest wait for the flock of a process that is closing the service */
#define WAIT_OPEN_US                                                                                                               \
	UINT64_C(2000000) /* the longest wait for the flock of any other process, which may just have been asked to close */
#define LOCKS_BYTES_MAX ((size_t)1 << 20)
#define TRY_AGAIN_NS 20000000 /* between two attempts */
#define CLOSING 'c'
#define HELD_BYTES 256 /* the size of the file, which is padded, so that a single write replaces it */

struct ephemeral {
	struct ephemeral *next;
	struct lock_stat stat;
	struct buf contents;
	char name[LOCK_NAME_MAX + 1];
};

struct local {
	struct lock_service base;
	struct mutex mutex; /* RANK_LOCKSVC; guards the files */
	struct watch_set watches;
	struct ephemeral *ephemerals; /* guarded by mutex */
	struct file *held;            /* dir/held, with the flock */
	bool unknown;                 /* the outcome of the last change is unknown, after an I/O error */
	bool (*make_room)(void *arg); /* lock_local_make_room */
	void *room_arg;
	char dir[];
};

static struct local *local_of(struct lock_service *s)
{
	return (struct local *)s;
}

/* Recovers if the outcome of the last change is unknown. */
static int recover_locked(struct local *l)
{
	int err = l->unknown ? lock_files_recover(l->dir) : 0;

	if (!err)
		l->unknown = false;
	return err;
}

/* ---- ephemeral files ---- */

static void ephemeral_free(struct ephemeral *e)
{
	if (e)
		buf_fini(&e->contents);
	free(e);
}

/* Returns the place that points to the file, or to the end of the list. */
static struct ephemeral **ephemeral_find(struct local *l, const char *name)
{
	struct ephemeral **at = &l->ephemerals;

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

/* Returns the file as the operation makes it; NULL: out of memory. */
static struct ephemeral *ephemeral_new(const struct lock_op *op, uint64_t version)
{
	struct ephemeral *e = calloc(1, sizeof *e);

	if (!e)
		return NULL;
	if (buf_set(&e->contents, op->contents.p, op->contents.n)) {
		free(e);
		return NULL;
	}
	e->stat = (struct lock_stat){version, clock_system(NULL)};
	strcpy(e->name, op->name); /* lock_name_allowed has checked the length */
	return e;
}

/* Replaces the file of that name, or removes it (with NULL). */
static void ephemeral_set(struct local *l, const char *name, struct ephemeral *with)
{
	struct ephemeral **at = ephemeral_find(l, name), *old = *at;

	if (old)
		*at = old->next;
	ephemeral_free(old);
	if (with) {
		with->next = l->ephemerals;
		l->ephemerals = with;
	}
}

/* ---- the interface ---- */

/* Replaces contents, which may be NULL. */
static int file_get(struct local *l, const char *name, struct buf *contents, struct lock_stat *stat)
{
	const struct ephemeral *e = *ephemeral_find(l, name);
	int err;

	if (!e) {
		stat->mtime_us = 0;
		return lock_files_read(l->dir, name, contents, &stat->version);
	}
	err = contents ? buf_set(contents, e->contents.p, e->contents.n) : 0;
	if (!err)
		*stat = e->stat;
	return err;
}

static int local_get(struct lock_service *s, const char *name, struct buf *contents, struct lock_stat *stat)
{
	struct local *l = local_of(s);
	struct lock_stat found = {0};
	int err;

	if (!lock_name_allowed(name))
		return -EINVAL;
	mutex_lock(&l->mutex);
	err = recover_locked(l);
	if (!err)
		err = file_get(l, name, contents, &found);
	mutex_unlock(&l->mutex);
	if (!err && stat)
		*stat = found;
	return err;
}

static int ignore_entry(void *arg, const char *name, bool is_dir)
{
	(void)arg, (void)name, (void)is_dir;
	return 0;
}

/*
 * Returns -EINVAL if a new file would need a directory of the same name as a
 * file, or would have the name of a directory.  The service checks this before a
 * change, because it cannot continue after a journal that it cannot carry out.
 */
static int check_new_name(const struct local *l, const char *name)
{
	char dir[LOCK_COMPONENT_MAX + 1], *path;
	const char *last;
	uint64_t version;
	int err;

	for (const struct ephemeral *e = l->ephemerals; e; e = e->next)
		if (lock_names_clash(e->name, name))
			return -EINVAL;
	lock_name_split(name, dir, &last);
	if (*dir) {
		err = lock_files_read(l->dir, dir, NULL, &version);
		return err == -ENOENT ? 0 : err ? err : -EINVAL;
	}
	path = lock_name_path(l->dir, name);
	if (!path)
		return -ENOMEM;
	err = file_list(path, ignore_entry, NULL);
	free(path);
	return err == -ENOENT || err == -ENOTDIR ? 0 : err ? err : -EINVAL;
}

/* Sets *now to the version of the operation's file (0: there is none), and compares it with the expected one. */
static int check_version(struct local *l, const struct lock_op *op, uint64_t *now)
{
	struct lock_stat stat = {0};
	int err = file_get(l, op->name, NULL, &stat);

	*now = err ? 0 : stat.version;
	if (err == -ENOENT)
		err = 0;
	if (err == -EBADMSG && op->what == LOCK_REMOVE && op->expect == LOCK_ANY) {
		err = 0;
		*now = 1; /* a damaged file can be removed; its version does not matter */
	}
	if (err || op->expect == LOCK_ANY)
		return err;
	if (op->expect == LOCK_ABSENT)
		return *now ? -EEXIST : 0;
	if (!*now)
		return -ENOENT;
	return op->expect == LOCK_EXISTS || op->expect == *now ? 0 : -VERSION_CHANGED;
}

static int check_ops(const struct lock_op *ops, unsigned count)
{
	int err = lock_ops_check(ops, count);

	for (unsigned i = 0; i < count && !err; i++)
		if (!lock_name_allowed(ops[i].name))
			err = -EINVAL;
	return err;
}

/* A multi-operation under way. */
struct change {
	const struct lock_op *ops;
	unsigned count;
	struct lock_stat stats[LOCK_OPS_MAX];
	bool in_memory[LOCK_OPS_MAX];          /* the operation changes an ephemeral file */
	struct ephemeral *fresh[LOCK_OPS_MAX]; /* the new file if in_memory is set; NULL if it was removed */
	struct lock_step *steps;               /* the changes on disk; count elements */
	unsigned step_count;
};

/* Checks one operation against the present files, and adds its change. */
static int change_add(struct local *l, struct change *c, unsigned i)
{
	const struct lock_op *op = &c->ops[i];
	struct lock_step *step = &c->steps[c->step_count];
	uint64_t now;
	int err = check_version(l, op, &now);

	if (!err && op->what == LOCK_PUT && !now)
		err = check_new_name(l, op->name);
	if (err)
		return err;
	c->stats[i].version = op->what == LOCK_PUT ? now + 1 : op->what == LOCK_CHECK ? now : 0;
	if (op->what == LOCK_CHECK || (op->what == LOCK_REMOVE && !now))
		return 0;
	if (op->ephemeral || *ephemeral_find(l, op->name)) {
		c->in_memory[i] = true;
		c->fresh[i] = op->what == LOCK_PUT ? ephemeral_new(op, now + 1) : NULL;
		if (op->what == LOCK_PUT && !c->fresh[i])
			return -ENOMEM;
		c->stats[i].mtime_us = c->fresh[i] ? c->fresh[i]->stat.mtime_us : 0;
		return 0;
	}
	*step = (struct lock_step){.remove = op->what == LOCK_REMOVE, .contents = op->contents, .version = c->stats[i].version};
	strcpy(step->name, op->name); /* lock_name_allowed has checked the length */
	c->step_count++;
	return 0;
}

static int change_run(struct local *l, struct change *c)
{
	int err = recover_locked(l);

	memset(c->stats, 0, sizeof c->stats);
	memset(c->in_memory, 0, sizeof c->in_memory);
	memset(c->fresh, 0, sizeof c->fresh);
	c->step_count = 0;
	for (unsigned i = 0; i < c->count && !err; i++)
		err = change_add(l, c, i);
	if (!err && c->step_count)
		err = lock_files_change(l->dir, c->steps, c->step_count, &l->unknown);
	for (unsigned i = 0; i < c->count; i++) {
		if (c->in_memory[i] && !err)
			ephemeral_set(l, c->ops[i].name, c->fresh[i]);
		else
			ephemeral_free(c->fresh[i]);
	}
	return err;
}

static int local_multi(struct lock_service *s, const struct lock_op *ops, unsigned count, struct lock_stat *stats)
{
	struct local *l = local_of(s);
	struct change c = {.ops = ops, .count = count};
	bool notify;
	int err = check_ops(ops, count);

	if (err)
		return err;
	c.steps = calloc(count, sizeof *c.steps);
	if (!c.steps)
		return -ENOMEM;
	do {
		mutex_lock(&l->mutex);
		err = change_run(l, &c);
		notify = !err || l->unknown; /* if the outcome is unknown, the watches must read the files */
		mutex_unlock(&l->mutex);
	} while ((err == -ENOSPC || err == -EDQUOT) && l->make_room && l->make_room(l->room_arg));
	free(c.steps);
	if (!err && stats)
		memcpy(stats, c.stats, count * sizeof *stats);
	for (unsigned i = 0; i < count && notify; i++)
		if (ops[i].what != LOCK_CHECK)
			watch_fire(&l->watches, ops[i].name);
	return err;
}

struct listing {
	struct buf names; /* each with a NUL at its end */
	bool top;
};

static int listing_name(struct listing *g, const char *name, size_t n)
{
	return buf_append(&g->names, name, n) || buf_u8(&g->names, 0) ? -ENOMEM : 0;
}

static int listing_entry(void *arg, const char *name, bool is_dir)
{
	struct listing *g = arg;
	size_t n = strlen(name);

	if (lock_ends_in_tmp(name) || (g->top && (strcmp(name, LOCK_HELD) == 0 || strcmp(name, LOCK_JOURNAL) == 0)) ||
		(is_dir && !g->top))
		return 0;
	if (n && name[n - 1] == ESCAPE)
		n--;
	return listing_name(g, name, n);
}

static int listing_ephemerals(struct listing *g, const struct ephemeral *e, const char *dir)
{
	int err = 0;

	for (; e && !err; e = e->next) {
		char in[LOCK_COMPONENT_MAX + 1];
		const char *last;

		lock_name_split(e->name, in, &last);
		if (strcmp(in, dir) == 0)
			err = listing_name(g, last, strlen(last));
	}
	return err;
}

static int local_list(struct lock_service *s, const char *dir, int (*fn)(void *arg, const char *name), void *arg)
{
	struct local *l = local_of(s);
	struct listing g = {.top = !*dir};
	char *path;
	int err;

	if (*dir && (!lock_name_allowed(dir) || strchr(dir, '/')))
		return -EINVAL;
	path = lock_dir_path(l->dir, dir);
	if (!path)
		return -ENOMEM;
	mutex_lock(&l->mutex);
	err = recover_locked(l);
	if (!err)
		err = file_list(path, listing_entry, &g);
	if (err == -ENOENT || err == -ENOTDIR)
		err = 0; /* no file was ever put there */
	if (!err)
		err = listing_ephemerals(&g, l->ephemerals, dir);
	mutex_unlock(&l->mutex);
	if (!err)
		err = lock_names_report(buf_bytes(&g.names), fn, arg); /* the escape changes the order of the files' names */
	buf_fini(&g.names);
	free(path);
	return err;
}

static int local_sync(struct lock_service *s)
{
	(void)s; /* this is the only session */
	return 0;
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

	while (l->ephemerals)
		ephemeral_set(l, l->ephemerals->name, NULL);
	if (l->held)
		flock(file_fd(l->held), LOCK_UN); /* releases the flock even if a child process has inherited the descriptor */
	file_close(l->held);
	watch_set_fini(&l->watches);
	mutex_fini(&l->mutex);
	free(l);
}

static const struct lock_service_ops local_ops = {
	.get = local_get,
	.multi = local_multi,
	.list = local_list,
	.sync = local_sync,
	.watch = local_watch,
	.unwatch = local_unwatch,
	.free = local_free,
};

/* Returns true if the file has the byte of lock_local_closing. */
static bool holder_is_closing(struct file *held)
{
	uint8_t byte;
	size_t got = 0;

	return file_pread(held, &byte, 1, 0, &got) == 0 && got == 1 && byte == CLOSING;
}

int lock_local_flock(struct file *held, const char *dir)
{
	const struct timespec pause = {.tv_nsec = TRY_AGAIN_NS};
	uint64_t since = monotonic_us();
	bool logged = false;

	while (flock(file_fd(held), LOCK_EX | LOCK_NB) < 0) {
		bool closing;

		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		closing = holder_is_closing(held);
		if (monotonic_us() - since > (closing ? WAIT_CLOSING_US : WAIT_OPEN_US))
			return -EBUSY;
		if (closing && !logged)
			msg_notice("%s: waiting for the process that is closing it", dir);
		logged |= closing;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* Finds the holder among the processes that the calling process sees. */
static bool find_holder(uint64_t id, char *out, size_t n)
{
	struct buf locks = {0}, name = {0};
	char path[64], *line = NULL;
	unsigned long inode;
	bool found = false;
	int pid;

	if (file_read_all("/proc/locks", LOCKS_BYTES_MAX, &locks) == 0 && buf_u8(&locks, 0) == 0)
		line = (char *)locks.p;
	for (; line && !found; line = strchr(line, '\n'), line += line != NULL) {
		if (sscanf(line, "%*d: FLOCK %*s %*s %d %*x:%*x:%lu", &pid, &inode) != 2 || inode != id || pid <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		found = file_read_all(path, LOCKS_BYTES_MAX, &name) == 0 && name.n;
		if (found)
			snprintf(out, n, "by process %d (%.*s)", pid, (int)name.n - 1, (const char *)name.p);
	}
	buf_fini(&locks);
	buf_fini(&name);
	return found;
}

static void name_holder(struct file *held)
{
	char host[HOST_NAME_MAX + 1] = "", text[HELD_BYTES + 1];
	int n;

	(void)gethostname(host, sizeof(host) - 1);
	n = snprintf(text, sizeof(text), "o %d %s %s\n", (int)getpid(), *host ? host : "?", program_invocation_short_name);
	if (n > 0)
		memset(text + (n < HELD_BYTES ? n : HELD_BYTES), '\n', (size_t)(n < HELD_BYTES ? HELD_BYTES - n : 0));
	if (file_pwrite(held, text, HELD_BYTES, 0))
		(void)!file_truncate(held, 0);
}

void lock_local_holder(const char *dir, char out[LOCK_HOLDER_MAX])
{
	char path[PATH_MAX], host[HOST_NAME_MAX + 1], program[HELD_BYTES];
	struct buf b = {0};
	uint64_t id;
	int pid;

	snprintf(out, LOCK_HOLDER_MAX, "by a process of another host or container");
	snprintf(path, sizeof(path), "%s/lock/" LOCK_HELD, dir);
	if (file_look_up(path, &id) || find_holder(id, out, LOCK_HOLDER_MAX))
		return;
	if (file_read_all(path, HELD_BYTES, &b) == 0 && buf_u8(&b, 0) == 0 &&
		sscanf((const char *)b.p, "o %d %64s %255[^\n]", &pid, host, program) == 3) {
		snprintf(out, LOCK_HOLDER_MAX, "on %s by process %d (%s)", host, pid, program);
		text_hide_controls(out);
	}
	buf_fini(&b);
}

bool lock_local_is_held(const char *dir)
{
	char path[PATH_MAX];
	struct file *f;
	bool held;

	snprintf(path, sizeof(path), "%s/lock/" LOCK_HELD, dir);
	if (file_open(path, FILE_READ, &f))
		return false;
	held = flock(file_fd(f), LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
	file_close(f);
	return held;
}

/* Step 1 of opening. */
static int take_flock(struct local *l)
{
	char *path = path_join(l->dir, LOCK_HELD);
	int err = path ? file_open(path, FILE_READWRITE, &l->held) : -ENOMEM;

	if (err == -ENOENT)
		err = file_open(path, FILE_CREATE, &l->held);
	if (err == -EEXIST) /* another process has just created the file */
		err = file_open(path, FILE_READWRITE, &l->held);
	if (!err)
		err = lock_local_flock(l->held, l->dir);
	if (!err)
		name_holder(l->held);
	free(path);
	return err;
}

void lock_local_make_room(struct lock_service *s, bool (*fn)(void *arg), void *arg)
{
	struct local *l = local_of(s);

	l->make_room = fn;
	l->room_arg = arg;
}

void lock_local_closing(struct lock_service *s)
{
	struct local *l = local_of(s);
	int err;

	do
		err = file_pwrite(l->held, &(char){CLOSING}, 1, 0);
	while ((err == -ENOSPC || err == -EDQUOT) && l->make_room && l->make_room(l->room_arg));
	if (err)
		msg_warning("%s/%s: cannot be marked as closing: %s", l->dir, LOCK_HELD, error_text(err));
}

int lock_local_open(const char *dir, struct lock_service **out)
{
	size_t n = strlen(dir) + 1;
	struct local *l = calloc(1, sizeof *l + n);
	int err;

	if (!l)
		return -ENOMEM;
	l->base.ops = &local_ops;
	memcpy(l->dir, dir, n);
	mutex_init(&l->mutex, RANK_LOCKSVC);
	watch_set_init(&l->watches);
	err = take_flock(l);
	if (!err)
		err = lock_files_recover(l->dir);
	if (err) {
		local_free(&l->base);
		return err;
	}
	*out = &l->base;
	return 0;
}
