/* SPDX-License-Identifier: Apache-2.0 */
/* The walls around a worker: each system call that a script does not need kills the process; and a server survives a worker that is hostile. */
#include "engine/script/worker.h"
#include "engine/script/worker_sandbox.h"
#include "t/unit/script_lib.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- system calls ---- */

static void call_open(void)
{
	(void)!open("/etc/passwd", O_RDONLY);
}
static void call_socket(void)
{
	(void)!socket(AF_INET, SOCK_STREAM, 0);
}
static void call_fork(void)
{
	(void)!fork();
}
static void call_exec(void)
{
	(void)!execl("/bin/true", "true", (char *)NULL);
}
static void call_kill(void)
{
	(void)!kill(getppid(), 0);
}
static void call_ptrace(void)
{
	(void)!ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}
static void call_prctl(void)
{
	(void)!prctl(PR_SET_DUMPABLE, 1);
}
static void call_code(void)
{
	(void)!mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void call_map_file(void)
{
	(void)!mmap(NULL, 4096, PROT_READ, MAP_SHARED, CHANNEL_FD, 0);
}
static void call_truncate(void)
{
	(void)!ftruncate(CHANNEL_FD, 0);
}
static void call_allowed(void)
{
	void *p = malloc(10 << 20);

	if (!p)
		_exit(1);
	memset(p, 1, 10 << 20);
	free(p);
	if (worker_time_us() == 0)
		_exit(1);
	_exit(7);
}

/* Runs fn behind the walls.  Returns the status of waitpid. */
static int behind_walls(void (*fn)(void))
{
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = 0;
	pid_t pid;

	assert_true(s != MAP_FAILED);
	s->memory_limit = 64 << 20;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		worker_get()->shared = s;
		sandbox_enter();
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	munmap(s, sizeof(*s));
	return status;
}

static void test_calls(void **state)
{
	static void (*const calls[])(void) = {call_open, call_socket, call_fork, call_exec, call_kill, call_ptrace, call_prctl,
		call_code, call_map_file, call_truncate};
	int status;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip();
#endif
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		status = behind_walls(calls[i]);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
			fail_msg("call %zu: status %x", i, (unsigned)status);
	}
	status = behind_walls(call_allowed);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* ---- hostile workers: this program by the name tabletfs-script ---- */

enum hostile { BAD_WRITTEN, BAD_READ, BAD_LENGTH, ENDLESS, WAKES, BAD_FAILURE, SILENT_EXIT, HOSTILE_END };

static int wait_server(void *arg)
{
	char byte[64];

	if (recv(CHANNEL_FD, byte, sizeof(byte), 0) <= 0)
		_exit(0);
	return 0;
}

/* The first letter of the script's name says how to misbehave; it follows the limits, a byte and a length. */
static enum hostile get_order(struct ring_end *in)
{
	uint8_t begin[1 + sizeof(struct script_limits) + 1 + sizeof(uint64_t) + 1];

	if (ring_read(in, begin, sizeof(begin)))
		_exit(1);
	return (enum hostile)(begin[sizeof(begin) - 1] - 'a');
}

static void flood(struct ring_end *out)
{
	static uint8_t piece[60000];
	const uint64_t n = sizeof(piece);

	for (;;) {
		if (ring_write(out, &n, sizeof(n)) || ring_write(out, piece, sizeof(piece)))
			_exit(1);
	}
}

static _Noreturn void be_hostile(void)
{
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, CHANNEL_MEMORY_FD, 0);
	struct ring_end in = {.ring = &s->in, .fd = CHANNEL_FD, .wait = wait_server},
			out = {.ring = &s->out, .fd = CHANNEL_FD, .wait = wait_server};
	const uint64_t huge = UINT64_MAX - 5;
	enum hostile how = get_order(&in);

	s->row_bytes = UINT32_MAX;
	memset(s->row, 0xff, sizeof(s->row));
	(void)!ring_write(&out, "", 1);
	ring_flush(&out);
	switch (how) {
	case BAD_WRITTEN:
		atomic_store(&s->out.written, huge);
		break;
	case BAD_READ:
		atomic_store(&s->in.read, huge);
		atomic_store(&s->out.written, huge);
		break;
	case BAD_LENGTH:
		(void)!ring_write(&out, &huge, sizeof(huge));
		ring_flush(&out);
		break;
	case ENDLESS:
		flood(&out);
		break;
	case WAKES:
		for (;;)
			(void)!send(CHANNEL_FD, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	case BAD_FAILURE:
		memset(s->failure.why, 'w', sizeof(s->failure.why));
		s->failure.why_bytes = UINT32_MAX;
		s->failure.outcome = 77;
		_exit(1);
	case SILENT_EXIT:
	case HOSTILE_END:
	default:
		_exit(0);
	}
	for (;;)
		wait_server(NULL);
}

static void test_hostile(void **state)
{
	char dir[] = "/tmp/test-script-XXXXXX", path[64], self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	assert_true(n > 0);
	self[n] = '\0';
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/tabletfs-script", dir);
	assert_int_equal(symlink(self, path), 0);
	setenv("TABLETFS_LIBEXEC", dir, 1);
	for (int how = 0; how < HOSTILE_END; how++) {
		struct script_pool *p = script_pool_of(0, 1 << 20, 300000, 1);
		char name[2] = {(char)('a' + how), 0};
		const struct script_text t = {.name = tfs_str(name), .text = TFS_S("function row(r) end")};
		struct buf why = {0}, delta = {0};
		struct script_run *r;
		int err = script_run_new(p, 0, &t, &r, &why);

		if (!err) {
			err = script_put(r, "row", "f", "q", 1, "value", &why);
			if (!err)
				err = script_run_take(r, &delta, &why);
			(void)script_run_waiting(r);
			script_run_free(r);
		}
		assert_true(err == -SCRIPT_DIED || (how == WAKES && err == -SCRIPT_LIMIT));
		assert_true(why.n > 0 && why.n < 2000);
		script_pool_free(p);
		buf_fini(&why);
		buf_fini(&delta);
	}
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_hostile),
	};

	if (strcmp(argv[0], "tabletfs-script") == 0)
		be_hostile();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("script_walls", tests, NULL, NULL);
}
