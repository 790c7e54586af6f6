/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walls around a worker: limits of the kernel, a user without rights, and a filter of system
 * calls.  A death signal of the parent (PR_SET_PDEATHSIG) is not used, because the kernel sends it when
 * the thread that started this process ends.  In its place a timer of processor time looks whether the
 * server's end of the socket is closed.
 */
#include "engine/script/worker_sandbox.h"
#include "engine/script/worker.h"

#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum { TICK_US = 50000, NOBODY = 65534 };

static void tick(int sig)
{
	const struct worker *w = worker_get();
	char byte;

	(void)sig;
	if (recv(CHANNEL_FD, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		_exit(0);
	if (w->time_end_us && worker_time_us() > w->time_end_us)
		worker_limit("a run's processor time", w->limits.time_us / 1000, " ms");
}

static bool start_timer(void)
{
	const struct itimerval every = {.it_interval = {.tv_usec = TICK_US}, .it_value = {.tv_usec = TICK_US}};
	struct sigaction a = {.sa_handler = tick, .sa_flags = SA_RESTART};

	return sigaction(SIGPROF, &a, NULL) == 0 && setitimer(ITIMER_PROF, &every, NULL) == 0;
}

static bool limit(int what, uint64_t n)
{
	const struct rlimit r = {n, n};

	return setrlimit((__rlimit_resource_t)what, &r) == 0;
}

static bool lower_limits(void)
{
	const uint64_t memory = worker_get()->shared->memory_limit;
	const uint64_t all = memory > RLIM_INFINITY / 4 ? RLIM_INFINITY : 2 * memory + (UINT64_C(256) << 20);

	return (SANITIZED || limit(RLIMIT_AS, all)) && limit(RLIMIT_CORE, 0) && limit(RLIMIT_FSIZE, 0) && limit(RLIMIT_NOFILE, 0);
}

/* root becomes nobody.  In a user namespace without that user the process keeps its user, but cannot use it: see the filter. */
static void drop_user(void)
{
	if (geteuid() == 0 && setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0)
		(void)!setresuid(NOBODY, NOBODY, NOBODY);
}

#ifdef MACHINE
#define FIELD(name) ((uint32_t)offsetof(struct seccomp_data, name))
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define CALL(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1), ALLOW

static bool filter_calls(void)
{
	/* The low half of an argument comes first on both machines. */
	struct sock_filter filter[] = {
		LOAD(FIELD(arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0),
		KILL,
		LOAD(FIELD(nr)),
		CALL(recvfrom),
		CALL(sendto),
		CALL(read),
		CALL(write),
		CALL(futex),
		CALL(brk),
		CALL(munmap),
		CALL(mremap),
		CALL(madvise),
		CALL(clock_gettime),
		CALL(gettimeofday),
		CALL(rt_sigreturn),
		CALL(exit_group),
		/* New memory only, which cannot be executed. */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mmap, 1, 0),
		KILL,
		LOAD(FIELD(args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
		KILL,
		LOAD(FIELD(args[3])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 1, 0),
		KILL,
		ALLOW,
	};
	const struct sock_fprog program = {.len = sizeof(filter) / sizeof(*filter), .filter = filter};

	return SANITIZED || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
#else
static bool filter_calls(void)
{
	return false;
}
#endif

void sandbox_enter(void)
{
	drop_user();
	if (prctl(PR_SET_DUMPABLE, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || !start_timer() || !lower_limits() ||
		!filter_calls())
		worker_fail(CHANNEL_BROKEN, "scripts do not run here: the kernel refuses the walls around them");
}
