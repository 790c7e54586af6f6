/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forget mode: the operations that are not yet durable.
 *
 * Each operation changes the real files at once and adds a record of how to
 * undo it.  One list contains the records in the order of the operations.  A
 * record leaves the list when its operation becomes durable.  The crash
 * (forget_crash.c) undoes all records, newest first, and repeats the surviving
 * operations, oldest first.
 *
 * Data: the record of a write has the old size and the old bytes.  fdatasync
 * of a file drops its data records and no others, because the file's entry
 * needs an fsync of its directory.
 *
 * Entries: forget_entry.c.
 *
 * Rejected: a shadow copy of the tree, because a crash test would copy 64 MiB
 * of log at each of thousands of crash points; a list per file, because the
 * order between files numbers the choices.
 */
#include "t/lib/forget.h"

#include "t/lib/file_faults.h"
#include "t/lib/tree.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_bool forget_is_on;

struct forget forget = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.revived = PTHREAD_COND_INITIALIZER,
	.side_fd = -1,
};

/* ---- the bracket ---- */

static bool is_under(const char *path, const char *root)
{
	size_t n;

	if (!path || !root)
		return false;
	n = strlen(root);
	return strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static bool is_tracked_locked(const char *path)
{
	return is_under(path, forget.root) || is_under(path, forget.real_root);
}

bool forget_on(void)
{
	return atomic_load(&forget_is_on);
}

int forget_enter(const char *path, const char *also)
{
	int err = 1;

	if (!forget_on())
		return 0;
	pthread_mutex_lock(&forget.lock);
	if (!is_tracked_locked(path) && !is_tracked_locked(also))
		err = 0;
	while (err == 1 && forget.state == FORGET_DEAD) {
		if (pthread_equal(forget.crasher, pthread_self()))
			err = -EIO;
		else
			pthread_cond_wait(&forget.revived, &forget.lock);
	}
	if (forget.state == FORGET_OFF)
		err = 0;
	if (err != 1)
		pthread_mutex_unlock(&forget.lock);
	return err;
}

void forget_leave(void)
{
	pthread_mutex_unlock(&forget.lock);
}

/* ---- nodes and records ---- */

struct forget_node *forget_node_find(dev_t dev, ino_t ino)
{
	for (struct forget_node *n = forget.nodes; n; n = n->next)
		if (n->dev == dev && n->ino == ino)
			return n;
	return NULL;
}

static void node_put(struct forget_node *n)
{
	struct forget_node **at = &forget.nodes;

	if (!n || --n->refs > 0)
		return;
	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	close(n->fd);
	free(n);
}

int forget_node_get(const char *path, int flags, struct forget_node **out)
{
	struct forget_node *n;
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	n = forget_node_find(st.st_dev, st.st_ino);
	if (n) {
		n->refs++;
		*out = n;
		return 0;
	}
	n = calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->fd = open(path, flags | O_CLOEXEC);
	if (n->fd < 0) {
		int err = -errno;

		free(n);
		return err;
	}
	n->dev = st.st_dev;
	n->ino = st.st_ino;
	n->refs = 1;
	n->next = forget.nodes;
	forget.nodes = n;
	*out = n;
	return 0;
}

static int node_of_fd(int fd, struct forget_node **out)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return forget_node_get(path, O_RDWR, out);
}

void forget_rec_free(struct forget_rec *r)
{
	if (!r)
		return;
	node_put(r->a);
	node_put(r->b);
	free(r->a_name);
	free(r->b_name);
	free(r->old);
	free(r->now);
	free(r);
}

struct forget_rec *forget_rec_new(enum forget_kind kind)
{
	struct forget_rec *r;

	if (forget.recs == forget.cap) {
		size_t cap = forget.cap ? forget.cap * 2 : 64;
		struct forget_rec **v = realloc(forget.rec, cap * sizeof(struct forget_rec *));

		if (!v)
			return NULL;
		forget.rec = v;
		forget.cap = cap;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->kind = kind;
	r->id = ++forget.last_id;
	return r;
}

void forget_rec_add(struct forget_rec *r)
{
	assert(forget.recs < forget.cap);
	forget.rec[forget.recs++] = r;
}

bool forget_rec_is_data(const struct forget_rec *r)
{
	return r->kind == FORGET_WRITE || r->kind == FORGET_TRUNCATE || r->kind == FORGET_ALLOCATE;
}

void forget_side_name(char dst[32], char kind, const struct forget_rec *r)
{
	snprintf(dst, 32, "%c%llu", kind, (unsigned long long)r->id);
}

void forget_drop_durable(void)
{
	size_t left = 0;

	for (size_t i = 0; i < forget.recs; i++) {
		struct forget_rec *r = forget.rec[i];
		struct forget_node *gone;
		struct stat st;
		char name[32];

		if (!r->durable || !r->kept)
			continue;
		forget_side_name(name, 'k', r);
		if (fstatat(forget.side_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		unlinkat(forget.side_fd, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
		gone = S_ISREG(st.st_mode) && st.st_nlink == 1 ? forget_node_find(st.st_dev, st.st_ino) : NULL;
		for (size_t j = 0; gone && j < forget.recs; j++)
			if (forget_rec_is_data(forget.rec[j]) && forget.rec[j]->a == gone)
				forget.rec[j]->durable = true;
	}
	for (size_t i = 0; i < forget.recs; i++) {
		if (forget.rec[i]->durable)
			forget_rec_free(forget.rec[i]);
		else
			forget.rec[left++] = forget.rec[i];
	}
	forget.recs = left;
}

/* ---- data ---- */

static int note_data(enum forget_kind kind, int fd, uint64_t offset, uint64_t n)
{
	struct forget_rec *r;
	struct stat st;
	int err;

	if (fstat(fd, &st) < 0)
		return -errno;
	r = forget_rec_new(kind);
	if (!r)
		return -ENOMEM;
	err = node_of_fd(fd, &r->a);
	if (err < 0)
		goto out;
	r->offset = offset;
	r->n = n;
	r->old_size = (uint64_t)st.st_size;
	if (offset < r->old_size && n > 0) {
		uint64_t most = r->old_size - offset;

		if (n < most)
			most = n;
		err = -ENOMEM;
		r->old = malloc(most);
		if (!r->old)
			goto out;
		while (r->old_n < most) {
			ssize_t got = pread(r->a->fd, r->old + r->old_n, most - r->old_n, (off_t)(offset + r->old_n));

			if (got < 0 && errno == EINTR)
				continue;
			err = got < 0 ? -errno : -EIO;
			if (got <= 0)
				goto out;
			r->old_n += (size_t)got;
		}
	}
	forget_rec_add(r);
	return 0;
out:
	forget_rec_free(r);
	return err;
}

int forget_note_write(int fd, uint64_t offset, uint64_t n)
{
	return n ? note_data(FORGET_WRITE, fd, offset, n) : 0;
}

int forget_note_truncate(int fd, uint64_t new_size)
{
	return note_data(FORGET_TRUNCATE, fd, new_size, UINT64_MAX - new_size);
}

int forget_note_allocate(int fd)
{
	return note_data(FORGET_ALLOCATE, fd, 0, 0);
}

bool forget_sync_counts(void)
{
	return ++forget.syncs != forget.skip;
}

int forget_sync(int fd)
{
	struct forget_node *n;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!forget_sync_counts())
		return 0;
	n = forget_node_find(st.st_dev, st.st_ino);
	if (!n)
		return 0;
	for (size_t i = 0; i < forget.recs; i++)
		forget.rec[i]->durable = forget_rec_is_data(forget.rec[i]) && forget.rec[i]->a == n;
	forget_drop_durable();
	return 0;
}

/* ---- on and off ---- */

void forget_clear_locked(void)
{
	for (size_t i = 0; i < forget.recs; i++)
		forget_rec_free(forget.rec[i]);
	free(forget.rec);
	forget.rec = NULL;
	forget.recs = forget.cap = 0;
	if (forget.side_fd >= 0) {
		close(forget.side_fd);
		forget.side_fd = -1;
		tree_remove(forget.side);
	}
}

static void forget_off_locked(void)
{
	forget_clear_locked();
	free(forget.root);
	free(forget.real_root);
	free(forget.side);
	forget.root = forget.real_root = forget.side = NULL;
	forget.state = FORGET_OFF;
	atomic_store(&forget_is_on, false);
	pthread_cond_broadcast(&forget.revived);
}

int file_forget_start(const char *root_dir)
{
	size_t n = strlen(root_dir);
	int err;

	assert(file_ops == &file_faulty); /* the reference also links it */
	while (n > 1 && root_dir[n - 1] == '/')
		n--;
	pthread_mutex_lock(&forget.lock);
	err = forget.state == FORGET_ON ? -EBUSY : 0;
	if (err < 0)
		goto out;
	forget_off_locked();
	err = -ENOMEM;
	forget.root = strndup(root_dir, n);
	if (!forget.root || asprintf(&forget.side, "%s.forget", forget.root) < 0) {
		forget.side = NULL;
		goto out;
	}
	forget.real_root = realpath(forget.root, NULL);
	if (forget.real_root && strcmp(forget.real_root, forget.root) == 0) {
		free(forget.real_root);
		forget.real_root = NULL;
	}
	tree_remove(forget.side);
	if (mkdir(forget.side, 0700) < 0 || (forget.side_fd = open(forget.side, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
		err = -errno;
		goto out;
	}
	forget.syncs = 0;
	forget.state = FORGET_ON;
	atomic_store(&forget_is_on, true);
	err = 0;
out:
	if (err < 0 && err != -EBUSY)
		forget_off_locked();
	pthread_mutex_unlock(&forget.lock);
	return err;
}

void file_forget_stop(void)
{
	pthread_mutex_lock(&forget.lock);
	forget_off_locked();
	forget.skip = 0;
	pthread_mutex_unlock(&forget.lock);
}

void file_forget_skip(uint64_t nth_sync)
{
	pthread_mutex_lock(&forget.lock);
	forget.skip = nth_sync;
	pthread_mutex_unlock(&forget.lock);
}

uint64_t file_forget_sync_count(void)
{
	uint64_t n;

	pthread_mutex_lock(&forget.lock);
	n = forget.syncs;
	pthread_mutex_unlock(&forget.lock);
	return n;
}
