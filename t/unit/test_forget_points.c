/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forget mode over every crash point of a small workload, in a child:
 * file_replace is atomic, taking out any one of its syncs is found, and
 * writers in threads lose nothing that was acknowledged.
 */
#include "t/unit/forget_lib.h"

/* ---- every crash point of a workload, in a child ---- */

struct plan {
	uint64_t at;   /* the operation to crash at */
	uint64_t seed; /* the seed of the fates */
};

static unsigned by_seed(void *arg, unsigned index, unsigned ways)
{
	struct plan *p = arg;

	p->seed = p->seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(p->seed >> 33) % ways;
}

static int crash_at(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	struct plan *p = arg;

	if (number != p->at)
		return 0;
	/* At once, past a sanitizer's end of the process: other threads may stand anywhere. */
	syscall(SYS_exit_group, file_forget_crash(by_seed, p) == 0 ? 0 : 99);
	return -EIO;
}

/* Replaces "state" by 1, 2, 3 and writes each result to the pipe. */
static void workload(int pipe_fd)
{
	for (char c = '1'; c <= '3'; c++) {
		char text[1400];

		memset(text, c, sizeof(text));
		if (file_replace(in_dir("state"), tfs_bytes_of(text, sizeof(text))) != 0 || write(pipe_fd, &c, 1) != 1)
			_exit(98);
	}
}

/* One run; true when the file found after it is one that may be. */
static bool run_once(uint64_t at, uint64_t seed, uint64_t skip, bool *ended)
{
	char acked = '0', c;
	int fds[2], status;
	const char *p;
	size_t n = 0;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct plan plan = {at, seed};

		if (file_forget_start(test_dir) != 0)
			_exit(97);
		file_forget_skip(skip);
		file_set_hook(crash_at, &plan);
		workload(fds[1]);
		/* Whole: the power fails after the last answer. */
		_exit(file_forget_crash(by_seed, &plan) == 0 ? 1 : 96);
	}
	close(fds[1]);
	while (read(fds[0], &c, 1) == 1)
		acked = c;
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
	*ended = WEXITSTATUS(status) == 1;

	p = contents("state", &n);
	if (!p)
		return acked == '0';
	for (size_t i = 1; i < n; i++)
		if (p[i] != p[0])
			return false;
	return n == 1400 && (p[0] == acked || p[0] == acked + 1);
}

static bool all_crash_points_hold(uint64_t skip)
{
	bool ended = false, good = true;

	for (uint64_t at = 1; good && !ended; at++) {
		for (uint64_t seed = 0; good && seed < 12; seed++) {
			good = run_once(at, seed * 7919 + at, skip, &ended);
			unlink(in_dir("state"));
			unlink(in_dir("state.tmp"));
		}
	}
	return good;
}

static void test_replace_is_atomic(void **state)
{
	file_forget_stop();
	assert_true(all_crash_points_hold(0));
}

static void test_each_sync_is_needed(void **state)
{
	file_forget_stop();
	for (uint64_t skip = 1; skip <= 6; skip++)
		assert_false(all_crash_points_hold(skip));
}

/* Three threads at once; the power fails under any thread. */
struct writer {
	pthread_t thread;
	int pipe_fd;
	char name;
};

static void *writer_main(void *arg)
{
	struct writer *w = arg;
	char name[2] = {w->name, '\0'};

	for (char c = '1'; c <= '9'; c++) {
		const char ack[2] = {w->name, c};
		char text[700];

		memset(text, c, sizeof(text));
		if (file_replace(in_dir(name), tfs_bytes_of(text, sizeof(text))) != 0 || write(w->pipe_fd, ack, 2) != 2)
			_exit(98);
	}
	return NULL;
}

static void writers_child(int pipe_fd, uint64_t at)
{
	struct plan plan = {at, at};
	struct writer w[3];

	if (file_forget_start(test_dir) != 0)
		_exit(97);
	file_set_hook(crash_at, &plan);
	for (unsigned i = 0; i < 3; i++) {
		w[i].pipe_fd = pipe_fd;
		w[i].name = (char)('a' + i);
		if (pthread_create(&w[i].thread, NULL, writer_main, &w[i]) != 0)
			_exit(95);
	}
	for (unsigned i = 0; i < 3; i++)
		pthread_join(w[i].thread, NULL);
	_exit(1); /* not reached: 3 * 9 * 5 operations are more than any at */
}

static void test_threads(void **state)
{
	file_forget_stop();
	for (uint64_t at = 3; at < 130; at += 9) {
		char acked[3] = {'0', '0', '0'}, ack[2];
		int fds[2], status;
		pid_t pid;

		assert_int_equal(pipe(fds), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			writers_child(fds[1], at);
		close(fds[1]);
		while (read(fds[0], ack, 2) == 2)
			acked[ack[0] - 'a'] = ack[1];
		close(fds[0]);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
		for (unsigned i = 0; i < 3; i++) {
			char name[2] = {(char)('a' + i), '\0'};
			const char *p;
			size_t n = 0;

			p = contents(name, &n);
			if (acked[i] != '0')
				assert_non_null(p);
			if (p) {
				assert_int_equal(n, 700);
				assert_true(p[0] == acked[i] || p[0] == acked[i] + 1);
				for (size_t k = 1; k < n; k++)
					assert_int_equal(p[k], p[0]);
			}
			unlink(in_dir(name));
			unlink(in_dir((const char[]){name[0], '.', 't', 'm', 'p', '\0'}));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_replace_is_atomic),
		T(test_each_sync_is_needed),
		T(test_threads),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
