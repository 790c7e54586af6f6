/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library and the reference model: seeded random histories, each step run on
 * both, everything seen compared after each.
 *
 *	test_history                 seeds from 1 until HISTORY_SECONDS (25) are over
 *	HISTORY_SEEDS=N              N seeds instead
 *	test_history --seed S [--steps N] [--keep]   one seed, told step by step
 *
 * A history runs in a child of its own, on a clock of its own; if it disagrees (or dies,
 * or hangs), steps are left out as long as it still does, and the remaining steps are
 * printed.
 *
 * Where the two may differ by contract, the history keeps away from it: what
 * a GC rule has hidden may come back when the rule is loosened, until it is
 * collected, and keeps a family's type and a table's salt from changing.  So
 * before a rule, a type or a salt changes the clock is moved on until nothing
 * lies within one clock skew of its expiry, and both sides are compacted.
 * One history in three has tables that keep their changes (feed.h).
 *
 * With background work of the library's own, timestamps are never the
 * clock's, as METADATA draws unique times from it too.
 */
#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/server/internal.h"
#include "t/history/feed.h"
#include "t/lib/file_faults.h"
#include "t/model/model.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEPS_MAX 2000
#define HANG_SECONDS 120
#define SKEW_US INT64_C(10000000)

/* Between the history's process and its parent. */
static struct shared {
	bool skip[STEPS_MAX];
	unsigned failed_at;
	unsigned long long cells;
} * shared;

static unsigned steps = 160;
static const char *parent_dir;

struct pair {
	struct side lib, ref;
	struct open_hooks hooks;
	struct tfs_options options;
	char dir[300];
	struct out lib_saw, ref_saw;
	uint64_t seed;
	unsigned flags;
	bool tell;
};

static int remove_tree(const char *dir)
{
	char cmd[700];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	return system(cmd);
}

/* HISTORY_TRACE=1: what is made and removed. */
static int trace(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t operation)
{
	if (op == FILE_OP_CREATE || op == FILE_OP_UNLINK || op == FILE_OP_RENAME || op == FILE_OP_RMDIR)
		printf("# %llu %s %s\n", (unsigned long long)operation, file_op_names[op], path);
	return 0;
}

static void open_library(struct pair *p)
{
	char *why = NULL;
	int err = tfs_open_hooked(p->dir, &p->options, &p->hooks, &p->lib.store, &why);

	if (err) {
		printf("# open: %s: %s\n", strerror(-err), why ? why : "");
		print_messages();
		_exit(3);
	}
	side_open_tables(&p->lib);
}

/* Half of the closes leave all to the log. */
static bool reopen(struct pair *p, uint64_t number)
{
	int err;

	side_close_tables(&p->lib);
	p->hooks.no_flush = number & 1;
	err = tfs_close(p->lib.store);
	if (err) {
		printf("# close: %s\n", strerror(-err));
		print_messages();
		return false;
	}
	open_library(p);
	return true;
}

static bool agree(struct pair *p, unsigned number)
{
	if (p->tell)
		printf("# %.*s", (int)p->ref_saw.n, p->ref_saw.p);
	if (p->lib_saw.n == p->ref_saw.n && memcmp(p->lib_saw.p, p->ref_saw.p, p->ref_saw.n) == 0)
		return true;
	if (!p->tell)
		printf("# %.*s", (int)p->ref_saw.n, p->ref_saw.p);
	printf("# step %u differs:\n", number);
	out_differ(&p->ref_saw, "model", &p->lib_saw, "library");
	print_messages();
	return false;
}

/* See the top.  False: now is no good time. */
static bool prepare_rules(struct pair *p)
{
	int64_t now = history_clock + INT64_C(7200000000);

	if (side_expires_within(&p->ref, now - SKEW_US, now + SKEW_US))
		return false;
	history_clock = now;
	for (unsigned k = 0; k < TABLES; k++) {
		if (!p->lib.table[k])
			continue;
		if (p->lib.api->compact(p->lib.table[k]) || p->ref.api->compact(p->ref.table[k])) {
			printf("# compact failed\n");
			return false;
		}
	}
	history_clock += 1000; /* METADATA has drawn times */
	return true;
}

/*
 * The clock is wrong for one opening, in which everything is compacted; afterwards nothing is missing.
 * While it is behind, what has been collected differs from what the model has only hidden.
 */
static bool wrong_clock(struct pair *p, unsigned i)
{
	int64_t off = (i & 2 ? 1 : -1) * (int64_t)(2 + i % 90) * 86400000000;
	bool ok;

	if (p->tell)
		printf("# step %u the clock is %lld us off\n", i, (long long)off);
	out_reset(&p->lib_saw);
	out_reset(&p->ref_saw);
	history_clock += off;
	ok = reopen(p, i);
	for (unsigned k = 0; k < TABLES && ok; k++)
		ok = !p->lib.table[k] || (!p->lib.api->flush(p->lib.table[k]) && !p->lib.api->compact(p->lib.table[k]));
	if (off > 0 && ok) {
		side_dump(&p->ref, &p->ref_saw);
		side_dump(&p->lib, &p->lib_saw);
	}
	history_clock -= off;
	if (off > 0)
		history_set_back = true; /* the clock survives its openings */
	ok = ok && ((i & 4) || reopen(p, i >> 1));
	side_dump(&p->ref, &p->ref_saw);
	side_dump(&p->lib, &p->lib_saw);
	return ok && agree(p, i);
}

static bool run_step(struct pair *p, unsigned i)
{
	struct step st = {p->seed, i, p->flags};

	history_clock += step_clock(&st);
	out_reset(&p->lib_saw);
	out_reset(&p->ref_saw);
	switch (step_kind(&st)) {
	case STEP_REOPEN:
		if (i % 3 == 0)
			return wrong_clock(p, i);
		if (p->tell)
			printf("# step %u reopen%s\n", i, i & 1 ? " from the log" : "");
		return reopen(p, i);
	case STEP_MERGE:
	case STEP_COLLECT:
	case STEP_METADATA:
		if (p->tell)
			printf("# step %u %s\n", i, step_kind_names[step_kind(&st)]);
		if (server_step(p->hooks.server, p->hooks.master, p->dir, &st, &p->lib_saw)) {
			printf("# %.*s", (int)p->lib_saw.n, p->lib_saw.p);
			print_messages();
			return false;
		}
		return true;
	case STEP_RULES:
		if (!prepare_rules(p))
			return true;
		break;
	case STEP_MUTATE:
	case STEP_SCAN:
	case STEP_POINT:
	case STEP_TABLE:
	case STEP_EDIT:
	case STEP_FLUSH:
	case STEP_COMPACT:
	case STEP_SYNCS:
	case STEP_ALL:
	case STEP_SPLIT:
	case STEP_JOIN:
	case STEP_SNAPSHOT:
		break;
	}
	(void)step_run(&p->ref, &st, &p->ref_saw);
	(void)step_run(&p->lib, &st, &p->lib_saw);
	return agree(p, i);
}

/* The changes of the step; now and then also all before it. */
static bool follow_changes(struct pair *p, unsigned i)
{
	const struct step st = {p->seed, i, p->flags};
	bool fine = feed_follow(&p->lib, step_kind(&st) == STEP_EDIT || step_kind(&st) == STEP_RULES);

	if (fine && (i % 16 == 0 || step_kind(&st) == STEP_REOPEN))
		fine = feed_check(&p->lib, p->flags & STEP_AGES ? NULL : parent_dir);
	if (!fine)
		print_messages();
	return fine;
}

static void choose_options(struct pair *p)
{
	struct rng r = {p->seed};

	tfs_options_init(&p->options);
	rnd(&r);
	p->options.block_cache_bytes = one_in(&r, 2) ? 64 << 10 : 8 << 20;
	p->options.table_cache_bytes = one_in(&r, 2) ? 32 << 10 : 4 << 20;
	p->options.memtable_bytes = one_in(&r, 3) ? 64 << 10 : 8 << 20;
	p->options.log_segment_bytes = one_in(&r, 2) ? 64 << 10 : 4 << 20;
	p->options.compaction_threads = 1 + (unsigned)below(&r, 2);
	p->options.no_background = !one_in(&r, 4);
	p->options.log_level = MSG_WARNING;
	p->flags = STEP_TABLES | STEP_SCHEMA | STEP_SYNC | STEP_AGES;
	if (!one_in(&r, 3))
		p->flags |= STEP_TABLETS;
	if (one_in(&r, 3))
		p->flags |= STEP_SALTED;
	if (p->options.no_background)
		p->flags |= STEP_AUTO;
	if (one_in(&r, 4))
		p->flags |= STEP_BIG;
	if (one_in(&r, 4))
		p->flags |= STEP_LONG;
	if (one_in(&r, 2))
		p->flags |= STEP_SNAPSHOTS;
	if (!one_in(&r, 3))
		return;
	p->flags |= STEP_KEEPS;
	if (!one_in(&r, 3))
		p->flags &= ~(unsigned)STEP_AGES;
	history_set_back = true; /* times of commit are promised to readers of changes, so after an opening they may be ahead */
}

/* In a child; 0 when both sides agree to the end. */
static int history(uint64_t seed, bool tell, const struct api *library)
{
	struct pair p = {.seed = seed, .tell = tell, .lib = {.api = library}, .ref = {.api = &api_model}};
	bool real = library == &api_library;
	int bad = 0;

	choose_options(&p);
	if (real && p.flags & STEP_KEEPS)
		p.lib.api = feed_api();
	history_clock = CLOCK_START;
	snprintf(p.dir, sizeof(p.dir), "%s/lib", parent_dir);
	model_set_clock(history_now, NULL);
	p.hooks.clock = clock_new(history_now, NULL);
	if (!p.hooks.clock || model_open(parent_dir, NULL, &p.ref.store, NULL))
		return 3;
	if (getenv("HISTORY_TRACE")) {
		p.options.log_level = MSG_INFO;
		file_set_hook(trace, NULL);
	}
	if (real)
		open_library(&p);
	else if (model_open(parent_dir, NULL, &p.lib.store, NULL))
		return 3;
	for (unsigned part = 0; part < SETUP_PARTS; part++) {
		history_clock += 10000;
		(void)!side_setup_part(&p.ref, p.flags, part, &p.ref_saw);
		(void)!side_setup_part(&p.lib, p.flags, part, &p.lib_saw);
	}
	shared->failed_at = 0;
	if (!agree(&p, 0))
		bad = 1;
	for (unsigned i = 0; i < steps && !bad; i++) {
		struct step st = {seed, i, p.flags};

		shared->failed_at = i;
		if (shared->skip[i])
			continue;
		if (!real && (step_kind(&st) == STEP_REOPEN || step_is_server(step_kind(&st))))
			continue;
		bad = !run_step(&p, i);
		if (!bad && real && p.flags & STEP_KEEPS)
			bad = !follow_changes(&p, i);
	}
	/* Compares everything once more, as the reopened store has it on the disk. */
	if (!bad && real) {
		out_reset(&p.lib_saw);
		out_reset(&p.ref_saw);
		bad = !reopen(&p, seed);
		side_dump(&p.ref, &p.ref_saw);
		side_dump(&p.lib, &p.lib_saw);
		bad |= !agree(&p, steps);
		if (!bad && p.flags & STEP_KEEPS)
			bad = !feed_check(&p.lib, p.flags & STEP_AGES ? NULL : parent_dir);
	}
	feed_end();
	side_close_tables(&p.lib);
	side_close_tables(&p.ref);
	if (real && tfs_close(p.lib.store))
		bad = 1;
	if (!real)
		(void)!model_close(p.lib.store);
	(void)!model_close(p.ref.store);
	clock_free(p.hooks.clock);
	out_free(&p.lib_saw);
	out_free(&p.ref_saw);
	return bad;
}

/* What a child told, its last lines as comments. */
static char story[100];

static void print_story(unsigned lines)
{
	char cmd[300];

	snprintf(cmd, sizeof(cmd), "tail -n %u '%s' | sed 's/^\\(# \\)*/# /' | cut -c1-400; rm -f '%s'", lines, story, story);
	fflush(stdout);
	(void)!system(cmd);
}

static int run(uint64_t seed, bool tell, const struct api *library)
{
	char dir[64];
	int status;
	pid_t pid;

	snprintf(dir, sizeof(dir), "%s/tfs-history-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(dir))
		exit(2);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(HANG_SECONDS);
		parent_dir = dir;
		if (!tell)
			msg_to_nowhere();
		if (!freopen(story, "w", stdout) || dup2(fileno(stdout), 2) < 0)
			_exit(2);
		status = history(seed, tell, library);
		fflush(stdout);
		exit(status); /* not _exit: leaks are looked for */
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		exit(2);
	(void)!remove_tree(dir);
	return status;
}

static unsigned left(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < steps; i++)
		n += !shared->skip[i];
	return n;
}

/* Leaves steps out, halves first, as long as it still fails. */
static void minimise(uint64_t seed, const struct api *library, unsigned seconds)
{
	time_t end = time(NULL) + seconds;
	unsigned failed_at = shared->failed_at;

	for (unsigned i = failed_at + 1; i < steps; i++)
		shared->skip[i] = true;
	for (unsigned chunk = (failed_at + 2) / 2; chunk; chunk /= 2) {
		for (unsigned at = 0; at <= failed_at && time(NULL) < end; at += chunk) {
			bool before[STEPS_MAX];

			memcpy(before, shared->skip, sizeof(before));
			for (unsigned i = at; i < at + chunk && i < steps; i++)
				shared->skip[i] = true;
			if (memcmp(before, shared->skip, sizeof(before)) != 0 && !run(seed, false, library))
				memcpy(shared->skip, before, sizeof(before));
		}
	}
}

/* Reports on standard error, because prove does not show standard output. */
static void report(uint64_t seed, int status, const struct api *library, unsigned seconds)
{
	unsigned at = shared->failed_at;
	int out = dup(STDOUT_FILENO);

	fflush(stdout);
	if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		exit(2);

	printf("# seed %llu fails at step %u", (unsigned long long)seed, at);
	if (WIFSIGNALED(status))
		printf(" by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	printf("\n");
	print_story(60);
	minimise(seed, library, seconds);
	printf("# these %u steps are enough:\n", left());
	(void)run(seed, true, library);
	print_story(100);
	memset(shared->skip, 0, sizeof(shared->skip));
	fflush(stdout);
	if (dup2(out, STDOUT_FILENO) < 0)
		exit(2);
	close(out);
}

/* A library with a flaw: what qualifier 00 01 holds is not counted in row_exists. */
static int broken_exists(struct tfs_table *t, struct tfs_bytes row, const char *family, bool *exists)
{
	int err = model_row_exists(t, row, family, exists);

	if (!err && family && strcmp(family, "anchor") == 0 && row.n == 2)
		*exists = false;
	return err;
}

static unsigned self_test(void)
{
	struct api broken = api_model;
	uint64_t seed = 1;

	broken.row_exists = broken_exists;
	while (seed < 50 && run(seed, false, &broken) == 0)
		seed++;
	minimise(seed, &broken, 20);
	return seed < 50 ? left() : 0;
}

static unsigned long number(const char *name, unsigned long otherwise)
{
	const char *s = getenv(name);

	return s && *s ? strtoul(s, NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	uint64_t one = 0, seed = number("HISTORY_SEED", 1);
	unsigned long seeds = number("HISTORY_SEEDS", 0), done = 0, failed = 0, steps_left;
	time_t end = time(NULL) + (time_t)number("HISTORY_SECONDS", 25);
	bool whole = false;
	int status;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
			one = strtoull(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "--steps") == 0 && i + 1 < argc)
			steps = (unsigned)strtoul(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "--whole") == 0)
			whole = true;
	}
	if (steps > STEPS_MAX)
		steps = STEPS_MAX;
	snprintf(story, sizeof(story), "/tmp/tfs-history-%ld", (long)getpid());
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 2;
	if (one && whole) {
		status = run(one, true, &api_library);
		print_story(1000000);
		return status != 0;
	}
	if (one) {
		status = run(one, false, &api_library);
		if (status)
			report(one, status, &api_library, 60);
		unlink(story);
		printf("%s 1 - seed %llu\n1..1\n", status ? "not ok" : "ok", (unsigned long long)one);
		return status != 0;
	}
	while ((seeds ? done < seeds : time(NULL) < end) && failed < 3) {
		status = run(seed, false, &api_library);
		if (status) {
			failed++;
			report(seed, status, &api_library, 20);
		}
		seed++;
		done++;
	}
	printf("%s 1 - %lu random histories of %u steps agree with the reference model\n", failed ? "not ok" : "ok", done, steps);
	memset(shared->skip, 0, sizeof(shared->skip));
	steps_left = self_test();
	unlink(story);
	printf("%s 2 - a flaw put into one side is found, and its history shrinks (to %lu steps)\n1..2\n",
		steps_left && steps_left < 12 ? "ok" : "not ok", steps_left);
	return failed || !steps_left;
}
