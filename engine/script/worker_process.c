/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and ends workers.  A worker gets its end of a socket as descriptor 3, the shared memory as
 * descriptor 4, /dev/null as 0 to 2, and an empty environment.  The memory is sealed, so a worker
 * cannot shorten it under the server.
 *
 * The program is looked for in $TABLETFS_LIBEXEC, beside the running program, beside this library, and where `make install`
 * puts it.
 */
#include "engine/script/worker_process.h"
#include "engine/base/outcome.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "tabletfs-script"
enum { PATH_BYTES = 4096 };

/* ---- the program ---- */

static bool try_directory(char *path, const char *dir, size_t dir_bytes)
{
	const int n = snprintf(path, PATH_BYTES, "%.*s/" PROGRAM, (int)dir_bytes, dir);

	return n > 0 && n < PATH_BYTES && access(path, X_OK) == 0;
}

static bool try_beside(char *path, const char *file)
{
	const char *slash = strrchr(file, '/');

	return file[0] == '/' && slash && try_directory(path, file, (size_t)(slash - file));
}

static bool find_program(char *path)
{
	const char *given = secure_getenv("TABLETFS_LIBEXEC");
	char self[PATH_BYTES];
	ssize_t n;
	Dl_info library;

	if (given && *given)
		return try_directory(path, given, strlen(given));
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n > 0) {
		self[n] = '\0';
		if (try_beside(path, self))
			return true;
	}
	if (dladdr((const void *)&process_start, &library) && library.dli_fname && try_beside(path, library.dli_fname))
		return true;
	return try_directory(path, TFS_LIBEXEC, strlen(TFS_LIBEXEC));
}

/* ---- start ---- */

static int spawn(struct worker_process *p, const char *path, int socket_fd, int memory_fd)
{
	char *argv[] = {(char *)(uintptr_t)PROGRAM, NULL}, *env[] = {NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int err;

	sigemptyset(&none);
	sigfillset(&all);
	if (posix_spawn_file_actions_init(&files))
		return -ENOMEM;
	if (posix_spawnattr_init(&attr)) {
		posix_spawn_file_actions_destroy(&files);
		return -ENOMEM;
	}
	err = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0) ||
			posix_spawn_file_actions_adddup2(&files, 0, 1) || posix_spawn_file_actions_adddup2(&files, 0, 2) ||
			posix_spawn_file_actions_adddup2(&files, socket_fd, CHANNEL_FD) ||
			posix_spawn_file_actions_adddup2(&files, memory_fd, CHANNEL_MEMORY_FD) ||
			posix_spawn_file_actions_addclosefrom_np(&files, CHANNEL_MEMORY_FD + 1) ||
			posix_spawnattr_setsigmask(&attr, &none) || posix_spawnattr_setsigdefault(&attr, &all) ||
			posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)
		? -ENOMEM
		: -posix_spawn(&p->pid, path, &files, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	if (err)
		return err;
	p->process = pidfd_open(p->pid, 0);
	if (p->process >= 0)
		return 0;
	err = -errno;
	(void)kill(p->pid, SIGKILL);
	(void)waitpid(p->pid, NULL, 0);
	return err;
}

/* A descriptor above those that the worker gets; fd is closed. */
static int above(int fd)
{
	const int other = fcntl(fd, F_DUPFD_CLOEXEC, CHANNEL_MEMORY_FD + 1), err = -errno;

	close(fd);
	return other < 0 ? err : other;
}

static int make_memory(struct worker_process *p, int *fd)
{
	void *m = MAP_FAILED;
	int memory = memfd_create(PROGRAM, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (memory < 0)
		return -errno;
	errno = posix_fallocate(memory, 0, sizeof(struct shared));
	if (errno == 0 && fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		m = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (m == MAP_FAILED) {
		int err = -errno;

		close(memory);
		return err;
	}
	p->shared = m;
	*fd = above(memory);
	return *fd < 0 ? *fd : 0;
}

static int start(struct worker_process *p, const char *path)
{
	int pair[2], memory = -1, err = make_memory(p, &memory);

	if (err)
		return err;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		err = -errno;
		close(memory);
		return err;
	}
	p->fd = pair[0];
	pair[1] = above(pair[1]);
	err = pair[1] < 0 ? pair[1] : spawn(p, path, pair[1], memory);
	if (pair[1] >= 0)
		close(pair[1]);
	close(memory);
	return err;
}

int process_start(uint64_t memory, uint32_t uid, struct worker_process **out, struct buf *why)
{
	struct worker_process *p = calloc(1, sizeof(*p));
	char path[PATH_BYTES];
	int err;

	if (!p)
		return -ENOMEM;
	p->fd = p->process = -1;
	err = find_program(path) ? start(p, path) : -ENOENT;
	if (err) {
		(void)process_end(p);
		if (err == -ENOMEM)
			return err;
		buf_reset(why);
		err = err == -ENOENT
			? buf_printf(why, "the program " PROGRAM ", which runs scripts, is not installed in " TFS_LIBEXEC)
			: buf_printf(why, "the program " PROGRAM ", which runs scripts, does not start: %s", error_text(err));
		return err ? err : -SCRIPT_DIED;
	}
	p->shared->memory_limit = memory;
	p->to = (struct ring_end){.ring = &p->shared->in, .fd = p->fd};
	p->from = (struct ring_end){.ring = &p->shared->out, .fd = p->fd};
	p->memory = memory;
	p->uid = uid;
	*out = p;
	return 0;
}

int process_end(struct worker_process *p)
{
	siginfo_t info = {0};
	int sig = 0;

	if (p->process >= 0) {
		(void)pidfd_send_signal(p->process, SIGKILL, NULL, 0);
		while (waitid(P_PIDFD, (id_t)p->process, &info, WEXITED) < 0 && errno == EINTR)
			;
		if (info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED)
			sig = info.si_status;
		close(p->process);
	}
	if (p->fd >= 0)
		close(p->fd);
	if (p->shared)
		munmap(p->shared, sizeof(*p->shared));
	free(p);
	return sig;
}

uint64_t process_worked_us(const struct worker_process *p)
{
	struct timespec t = {0};
	clockid_t clock;

	if (clock_getcpuclockid(p->pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}
