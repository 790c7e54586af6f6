/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deaths of a process at each of its file operations: kills, or power cuts, which
 * take back or tear unsynced writes.
 */
#ifndef T_ENGINE_DEATHS_H
#define T_ENGINE_DEATHS_H

#include "t/engine/lib.h"
#include "t/lib/share.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct death_test {
	unsigned changes;                           /* kinds of changes, from 0 on */
	void (*set_up)(unsigned change);            /* leaves a closed store */
	void (*prepare)(unsigned change);           /* in the child, before its first counted operation */
	int (*change)(unsigned change);             /* in the child */
	void (*check)(unsigned change, bool ended); /* opens the store.  ended is set if the child did not die */
};

static uint64_t die_at;
static _Atomic uint64_t ops_done;
static bool power;
static _Atomic unsigned *answered; /* 0 before each child, which may set it */

static inline unsigned death_survives(void *arg, unsigned index, unsigned ways)
{
	uint32_t *x = arg;

	*x = *x * 1664525 + 1013904223;
	return (*x >> 8) % ways;
}

static inline int death_hook(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	uint32_t x = 11 + (uint32_t)die_at;

	if (op == FILE_OP_READ || op == FILE_OP_OPEN || op == FILE_OP_LIST || atomic_fetch_add(&ops_done, 1) + 1 != die_at)
		return 0;
	if (power)
		(void)!file_forget_crash(death_survives, &x);
	_exit(1);
}

static inline void death_child(const struct death_test *t, unsigned change)
{
	options.no_background = true;
	options.sync = true;
	if (file_forget_start(in_dir("store")))
		_exit(4);
	if (store_open(in_dir("store"), &options, &hooks, &store) || tfs_table_open(store, "t", &table))
		_exit(5);
	t->prepare(change);
	file_set_hook(death_hook, NULL);
	_exit(t->change(change) ? 3 : 0);
}

static inline void deaths(const struct death_test *t, bool with_power)
{
	unsigned points = 0;

	answered = mmap(NULL, sizeof(*answered), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(answered != MAP_FAILED);
	power = with_power;
	for (unsigned change = 0; change < t->changes; change++) {
		bool ended = false;

		assert_true(tree_remove(in_dir("store")) && tree_remove(in_dir("store.forget")) && tree_remove(in_dir("begin")));
		options.no_background = true;
		t->set_up(change);
		assert_int_equal(rename(in_dir("store"), in_dir("begin")), 0);
		for (die_at = share_first(); !ended; die_at += share_step(), points++) {
			int status;
			pid_t pid;

			assert_true(tree_remove(in_dir("store.forget")) && put_back("begin", "store"));
			ops_done = 0;
			*answered = 0;
			pid = fork();
			assert_true(pid >= 0);
			if (!pid)
				death_child(t, change);
			assert_int_equal(waitpid(pid, &status, 0), pid);
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
			ended = WEXITSTATUS(status) == 0;
			options.no_background = false;
			t->check(change, ended);
			check_is_clean();
		}
	}
	print_message("# %u points\n", points);
	munmap((void *)answered, sizeof(*answered));
}

#endif
