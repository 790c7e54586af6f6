/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of forget mode: a directory whose unsynced changes are recorded, and crashes with chosen fates. */
#ifndef T_UNIT_FORGET_LIB_H
#define T_UNIT_FORGET_LIB_H

#include "engine/base/file.h"
#include "t/lib/file_faults.h"
#include "t/unit/dir.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#define ok(call) assert_int_equal((call), 0)

/* Answers by record: a digit each, the last one repeated; torn writes take two more digits. */
struct script {
	const char *answers;
	unsigned asked, records, ways[32];
};

static inline unsigned by_script(void *arg, unsigned index, unsigned ways)
{
	struct script *s = arg;
	char c = *s->answers;

	if (s->answers[1])
		s->answers++;
	if (s->asked < 32)
		s->ways[s->asked] = ways;
	s->asked++;
	s->records = index + 1;
	return (unsigned)(c - '0');
}

static inline struct script crash(const char *answers)
{
	struct script s = {.answers = answers};

	assert_int_equal(file_forget_crash(by_script, &s), 0);
	file_forget_stop();
	return s;
}

static inline void put(const char *name, const char *text, uint64_t offset, enum file_mode mode, bool sync)
{
	struct file *f;

	ok(file_open(in_dir(name), mode, &f));
	ok(file_pwrite(f, text, strlen(text), offset));
	if (sync)
		ok(file_sync(f));
	file_close(f);
}

static inline void put_durable(const char *name, const char *text)
{
	put(name, text, 0, FILE_CREATE, true);
	ok(file_sync_dir(in_dir("")));
}

static inline int start(void **state)
{
	if (test_dir_setup(state) != 0)
		return -1;
	return file_forget_start(test_dir);
}

static inline int stop(void **state)
{
	char side[300];

	file_forget_stop();
	snprintf(side, sizeof(side), "%s.forget", test_dir);
	if (access(side, F_OK) == 0)
		return -1;
	return test_dir_teardown(state);
}

#define T(f) cmocka_unit_test_setup_teardown(f, start, stop)

static const void *const forget_lib_unused[] __attribute__((unused)) = {(const void *)contents, (const void *)exists};

#endif
