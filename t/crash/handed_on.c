/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change that a process has shown must not disappear.  Three processes:
 *   1 makes a store with a table and, without a sync, values over several log
 *     segments.  It is killed: its unsynced writes are in the page cache only.
 *   2 opens the store, reads everything, and tfs_sync reports that all of it is
 *     on disk.  Then the power fails, and only synced bytes survive.
 *   3 opens the store and must find the state that process 2 saw.
 * If process 2 only reads, the bytes are in files of process 1, and only its
 * opening can have synced them.  In a second form it makes a table of its own,
 * with a synced value.
 *
 * The first death is simulated, as in store_point.c: every operation fails.
 */
#include "t/crash/handed_on.h"

#include "engine/base/msg.h"
#include "t/crash/store_point.h"
#include "t/lib/file_faults.h"
#include "t/lib/store.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VALUES = 10, VALUE_BYTES = 4000, SEGMENT_BYTES = 16 << 10, HANG_SECONDS = 60 };

/* The state: each table has 0 nothing, 1 itself, 2 also its family; and how many values there are. */
static const char *const names[] = {"first", "second"};
struct seen {
	int table[2], values[2];
};

static const struct handed_plan *plan;
static struct tfs_store *store;
static struct open_hooks hooks = {.no_flush = true};
static bool dead, rose;
static struct seen *promised; /* the state that process 2 saw, in shared memory */

static int on_operation(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	told->operations = number;
	if (!rose && number >= plan->killed)
		dead = true;
	if (dead)
		return -EIO;
	if (op == FILE_OP_SYNC || op == FILE_OP_SYNCDIR)
		told_sync(op, path, number);
	return 0;
}

static int open_store(void)
{
	struct tfs_options o;
	char *why = NULL;
	int err;

	tfs_options_init(&o);
	o.log_segment_bytes = SEGMENT_BYTES;
	o.sync_interval_us = 3600000000u;
	o.compaction_threads = 1;
	o.no_background = true;
	err = tfs_open_hooked(point_store_dir(), &o, &hooks, &store, &why);
	free(why);
	return err;
}

static struct tfs_bytes qualifier(unsigned i)
{
	return tfs_bytes_of(&"abcdefghij"[i], 1);
}

static struct tfs_bytes value_of(unsigned i, char value[VALUE_BYTES])
{
	memset(value, 'a' + (int)i, VALUE_BYTES);
	return tfs_bytes_of(value, VALUE_BYTES);
}

static int put(struct tfs_table *t, unsigned i, unsigned flags)
{
	char value[VALUE_BYTES];

	return store_put(t, TFS_S("row"), "f", qualifier(i), TFS_AUTO, value_of(i, value), flags);
}

static int make(const char *name, unsigned values, unsigned flags)
{
	struct tfs_table *t;
	int err = store_table_make(store, name, "f", &t);

	for (unsigned i = 0; i < values && !err; i++)
		err = put(t, i, flags);
	tfs_table_close(t);
	return err;
}

static int look(struct seen *seen)
{
	*seen = (struct seen){0};
	for (unsigned k = 0; k < 2; k++) {
		struct tfs_table *t;
		int err = tfs_table_open(store, names[k], &t);

		if (err == -ENOENT)
			continue;
		if (err)
			return err;
		seen->table[k] = 1;
		for (unsigned i = 0; i < VALUES && !err; i++) {
			char want[VALUE_BYTES], have[VALUE_BYTES];
			struct tfs_info info;
			size_t got;

			(void)value_of(i, want);
			err = tfs_read(t, TFS_S("row"), "f", qualifier(i), TFS_AUTO, 0, have, sizeof(have), &got, &info);
			if (!err && (got != sizeof(have) || memcmp(want, have, sizeof(have)) != 0))
				err = -EBADMSG;
			if (!err)
				seen->values[k]++;
			if (err != -EINVAL) /* the error for an unknown family */
				seen->table[k] = 2;
			if (err == -ENOENT || err == -EINVAL)
				err = 0;
		}
		tfs_table_close(t);
		if (err)
			return err;
	}
	return 0;
}

static unsigned nothing_survives(void *arg, unsigned index, unsigned ways)
{
	return 0;
}

static enum handed first_two(void)
{
	int err;

	if (file_forget_start(point_store_dir()))
		return HANDED_FAILED;
	file_forget_skip(plan->skip);
	file_set_hook(on_operation, NULL);
	err = open_store();
	if (!err) {
		err = make(names[0], VALUES, 0);
		if (err && !dead)
			return HANDED_FAILED;
		dead = true;
		(void)!tfs_close(store);
	}
	if (err && !dead)
		return HANDED_FAILED;
	dead = false;
	rose = true;
	told->rose_at = told->operations;
	err = open_store();
	if (!err && plan->writes)
		err = make(names[1], 1, TFS_APPLY_SYNC);
	if (!err)
		err = look(promised);
	if (!err)
		err = tfs_sync(store);
	if (!err)
		err = file_forget_crash(nothing_survives, NULL);
	return err ? HANDED_FAILED : HANDED_KEPT;
}

static enum handed third(void)
{
	struct seen seen;

	return open_store() == 0 && look(&seen) == 0 && memcmp(&seen, promised, sizeof(seen)) == 0 ? HANDED_KEPT : HANDED_LOST;
}

static enum handed in_child(enum handed (*fn)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(HANG_SECONDS);
		msg_to_nowhere();
		_exit((int)fn());
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		exit(2);
	return WIFEXITED(status) ? (enum handed)WEXITSTATUS(status) : HANDED_FAILED;
}

enum handed handed_on(const struct handed_plan *p)
{
	enum handed h;

	if (!promised)
		promised = share(sizeof(*promised));
	plan = p;
	point_clear();
	h = in_child(first_two);
	return h == HANDED_KEPT ? in_child(third) : h;
}
