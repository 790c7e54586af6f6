/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A history (t/history) runs in a child with a hook in the file layer that ends it
 * at the n-th operation: by SIGKILL, or by a power cut in which writes and
 * directory entries that no fsync covered are dropped, kept or torn, by seed.  A
 * shared page holds the child's current step, the last acknowledged step and the
 * last durable one.  Another child opens the directory.  It must find the
 * reference model's state after k steps, for one k between the last durable step
 * (SIGKILL: the last acknowledged one) and the current step.
 *
 * Two deaths: after a SIGKILL, bytes that no fsync covered are still in the page
 * cache, and the next process must sync them before it relies on them.  The first
 * death is simulated within the child, because forget mode's records would be
 * lost with it: from an operation on everything fails, and the store is closed
 * and opened again.  All that is read then counts as acknowledged; the power cut
 * comes later.
 *
 * A write during a flush: if the step after a flush or compaction is a mutation,
 * it runs when the first SSTable is created, between the freeze and the edit.
 * Its record is then the first that the new redo point must keep.
 *
 * Half of the histories have tables that keep their changes.  A run that does not die records what the changes are after
 * each step.  After a death they must be the changes after the k steps: each once, in the same order, and none more.
 *
 * Each step that changes a table, a schema or a snapshot is durable by itself,
 * outside the log.  tfs_sync precedes it, so that the steps have one order.
 */
#include "t/crash/store_point.h"

#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "t/history/history.h"
#include "t/lib/file_faults.h"
#include "t/lib/store.h"
#include "t/lib/tree.h"
#include "t/model/model.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS 120
#define STATES (SETUP_PARTS + STEPS + 1) /* state i: after i steps, setup's parts included */
#define HANG_SECONDS 60
enum { DONE = 0, CRASHED = 77, FAILED = 3 };

struct told *told;
struct tally *tally;

static struct expected {
	uint64_t hash[STATES];
	uint64_t changes[STATES]; /* from the run that records; 0 if none are kept */
	int result[STATES];       /* the results of the step that led there */
	int64_t clock[STATES];
} * expected;

static char dir[300], store_dir[340];
static unsigned flags;
static struct tfs_options options;
static bool tell, by_hand, changes, records;
static const struct point_watch *watch;

/* ---- the history on the model: every state there may be ---- */
static bool is_barrier(const struct step *st)
{
	enum step_kind k = step_kind(st);

	return k == STEP_TABLE || k == STEP_EDIT || k == STEP_RULES || k == STEP_SNAPSHOT;
}

static void choose_history(uint64_t seed)
{
	struct rng r = {seed * 77 + 5};

	tfs_options_init(&options);
	options.block_cache_bytes = 256 << 10;
	options.table_cache_bytes = 256 << 10;
	options.memtable_bytes = one_in(&r, 2) ? 32 << 10 : 1 << 20;
	options.log_segment_bytes = one_in(&r, 3) ? 1 << 20 : 16 << 10;
	options.sync_interval_us = one_in(&r, 2) ? 1000 : 1000000;
	options.compaction_threads = 1;
	options.no_background = !one_in(&r, 3);
	options.sync = one_in(&r, 8);
	if (by_hand) {
		options.sync_interval_us = 3600000000u;
		options.log_segment_bytes = 16 << 10;
	}
	options.log_level = MSG_WARNING;
	flags = STEP_TABLES | STEP_SCHEMA | STEP_SYNC | STEP_SINGLE | STEP_TABLETS | (changes ? STEP_CHANGES : 0);
	if (options.no_background)
		flags |= STEP_AUTO;
	if (one_in(&r, 8))
		flags |= STEP_BIG;
	if (one_in(&r, 3))
		flags |= STEP_SALTED;
	if (one_in(&r, 2))
		flags |= STEP_SNAPSHOTS;
	if (one_in(&r, 2) || by_hand)
		flags |= STEP_KEEPS;
}

/* One step or part of the setup on one side. */
static int one_step(struct side *s, uint64_t seed, unsigned i, struct out *o)
{
	struct step st = {seed, i - SETUP_PARTS, flags};

	if (i < SETUP_PARTS)
		return side_setup_part(s, flags, i, o);
	if (step_kind(&st) == STEP_REOPEN || step_is_server(step_kind(&st)))
		return 0; /* on the model; library_step has its own */
	return step_run(s, &st, o);
}

static void set_clock(uint64_t seed)
{
	history_clock = CLOCK_START;
	for (unsigned i = 0; i < SETUP_PARTS + STEPS; i++) {
		struct step st = {seed, i - SETUP_PARTS, flags};

		expected->clock[i] = history_clock += i < SETUP_PARTS ? 10000 : step_clock(&st);
	}
}

static void dump(struct side *s, struct out *o)
{
	out_reset(o);
	side_dump(s, o);
}

static bool run_model(uint64_t seed, unsigned tell_state, struct out *told_state)
{
	struct side ref = {.api = &api_model};
	struct out o = {0}, d = {0};
	bool fine = model_open(dir, NULL, &ref.store, NULL) == 0;

	set_clock(seed);
	model_set_clock(history_now, NULL);
	for (unsigned i = 0; i <= SETUP_PARTS + STEPS && fine; i++) {
		dump(&ref, &d);
		expected->hash[i] = out_hash(&d);
		if (told_state && i == tell_state) {
			out_reset(told_state);
			side_dump(&ref, told_state);
		}
		if (i == SETUP_PARTS + STEPS)
			break;
		history_clock = expected->clock[i];
		out_reset(&o);
		expected->result[i] = one_step(&ref, seed, i, &o);
		if (tell && told_state && i + 3 > tell_state && i < tell_state + 2)
			printf("# %.*s", (int)o.n, o.p);
	}
	side_close_tables(&ref);
	(void)!model_close(ref.store);
	out_free(&o);
	out_free(&d);
	return fine;
}

/* ---- changes ---- */
static uint64_t changes_hash(struct side *s)
{
	struct out o = {0};
	uint64_t h;

	if (!(flags & STEP_KEEPS))
		return 0;
	side_changes(s, &o);
	h = out_hash(&o);
	out_free(&o);
	return h;
}

/* Returns the largest number of a state with these hashes, *changes_are NULL: whatever the changes are; most + 1: there is none. */
static unsigned state_found(unsigned least, unsigned most, uint64_t hash, const uint64_t *changes_are)
{
	for (unsigned k = most + 1; k-- > least;)
		if (expected->hash[k] == hash && (!changes_are || expected->changes[k] == *changes_are))
			return k;
	return most + 1;
}

/* ---- the child that dies ---- */
static struct point now;
static struct rng choices;

static unsigned choose(void *arg, unsigned index, unsigned ways)
{
	switch (now.way % 4) {
	case 0:
		return 0;
	case 1: /* either, whole */
		return ways == 3 ? (unsigned)below(&choices, 2) : (unsigned)below(&choices, ways);
	case 2: /* any part, also torn */
		return (unsigned)below(&choices, ways);
	default: /* nearly all survives */
		return one_in(&choices, 8) ? 0 : 1;
	}
}

void told_sync(enum file_op op, const char *path, uint64_t number)
{
	uint64_t k = told->syncs++;
	const char *from = strncmp(path, store_dir, strlen(store_dir)) == 0 ? path + strlen(store_dir) : path;
	struct told_sync *s;

	if (k >= SYNCS_MAX)
		return;
	s = &told->sync[k];
	s->at = number;
	snprintf(s->of, sizeof(s->of), "%s", *from ? from : "/");
	snprintf(s->place, sizeof(s->place), "%s %s", file_sync_place(), file_op_names[op]);
}

static _Atomic bool dead; /* as if killed */
static bool rose;
static struct side *_Atomic between_side; /* if not NULL, the step `between` is done when an SSTable is created */
static unsigned between;

static void step_done(unsigned i, int err, const struct out *o);

/* Called by the thread that flushes; the thread that requested the flush waits. */
static void do_between(void)
{
	struct side *s = between_side;
	struct out o = {0};
	int err;

	between_side = NULL;
	history_clock = expected->clock[between];
	told->begun = between + 1;
	err = one_step(s, now.seed, between, &o);
	if (!dead)
		step_done(between, err, &o);
	out_free(&o);
}

static int die_at(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	if (!dead && op == FILE_OP_CREATE && between_side && strcmp(path + strlen(path) - 4, ".sst") == 0)
		do_between();
	if (number > told->operations)
		told->operations = number;
	if (watch)
		watch->operation(op, path, number);
	if (number == now.killed)
		dead = true;
	if (dead)
		return -EIO;
	if (op == FILE_OP_SYNC || op == FILE_OP_SYNCDIR)
		told_sync(op, path, number);
	if (now.killed ? !rose || number != told->rose_at + now.at : number != now.at)
		return 0;
	snprintf(told->last_op, sizeof(told->last_op), "%s %s", file_op_names[op], path);
	if (now.kill)
		kill(getpid(), SIGKILL);
	if (file_forget_crash(choose, NULL))
		_exit(FAILED);
	_exit(CRASHED);
}

static struct open_hooks hooks;

static int open_store(struct side *s)
{
	char *why = NULL;
	int err = tfs_open_hooked(store_dir, &options, &hooks, &s->store, &why);

	if (err) {
		printf("# open: %s: %s\n", strerror(-err), why ? why : "");
		fflush(stdout);
	} else {
		side_open_tables(s);
	}
	free(why);
	return err;
}

static int close_store(struct side *s)
{
	int err;

	side_close_tables(s);
	err = tfs_close(s->store);
	s->store = NULL;
	return err;
}

static void begins(const char *call)
{
	if (watch)
		watch->call(call);
}

static int told_server_step(const struct step *st, struct out *o)
{
	int err;

	begins(step_kind_names[step_kind(st)]);
	err = server_step(hooks.server, hooks.master, store_dir, st, o);
	begins(NULL);
	return err;
}

static int library_step(struct side *s, unsigned i, struct out *o)
{
	struct step st = {now.seed, i - SETUP_PARTS, flags};
	int err;

	if (i >= SETUP_PARTS && step_kind(&st) == STEP_REOPEN) {
		hooks.no_flush = i & 1;
		err = close_store(s);
		if (!err)
			told->durable = i; /* closed: all of it is on disk */
		if (!err && !dead) {
			err = server_leave(store_dir);
			begins(step_kind_names[STEP_REOPEN]);
			if (!err)
				err = open_store(s);
			begins(NULL);
		}
		if (err && !dead)
			_exit(FAILED);
		return 0;
	}
	if (i >= SETUP_PARTS && step_is_server(step_kind(&st)))
		return told_server_step(&st, o);
	if (i >= SETUP_PARTS && is_barrier(&st)) {
		err = tfs_sync(s->store);
		if (dead)
			return err;
		if (err)
			_exit(FAILED);
		told->durable = i;
	}
	between = i + 1;
	if (options.no_background && (step_kind(&st) == STEP_FLUSH || step_kind(&st) == STEP_COMPACT) && i >= SETUP_PARTS &&
		between < SETUP_PARTS + STEPS && step_kind(&(struct step){now.seed, between - SETUP_PARTS, flags}) == STEP_MUTATE)
		between_side = s;
	err = one_step(s, now.seed, i, o);
	between_side = NULL;
	return err;
}

static void new_clock(void)
{
	hooks.clock = clock_new(history_now, NULL);
	if (!hooks.clock)
		_exit(FAILED);
}

/* After the first death in step i: the step to continue with. */
static unsigned rise_again(struct side *s, unsigned i)
{
	struct out d = {0};
	unsigned k;
	uint64_t h;

	if (s->store)
		(void)!close_store(s);
	clock_free(hooks.clock);
	new_clock();
	dead = false;
	rose = true;
	told->rose_at = told->operations;
	if (open_store(s))
		_exit(FAILED);
	side_dump(s, &d);
	h = out_hash(&d);
	out_free(&d);
	/* Reading the changes here would raise later times of commit, which the model does not know. */
	k = state_found(told->answered, told->begun, h, NULL);
	for (unsigned n = told->answered; n < k && k <= told->begun; n++)
		told->doubt = told->doubt || (expected->hash[n] == h && expected->changes[n] != expected->changes[k]);
	if (k <= told->begun) {
		told->begun = told->answered = k;
		return k;
	}
	printf("# after the first death, in step %u, neither state is found\n", i);
	print_messages();
	_exit(FAILED);
}

/* Answered, and as the model has it. */
static void step_done(unsigned i, int err, const struct out *o)
{
	struct step st = {now.seed, i - SETUP_PARTS, flags};

	if (err != expected->result[i]) {
		printf("# seed %llu step %u: %s, the model says %s\n# %.*s\n", (unsigned long long)now.seed, i, strerror(-err),
			strerror(-expected->result[i]), (int)o->n, o->p);
		print_messages();
		_exit(FAILED);
	}
	if (told->answered < i + 1)
		told->answered = i + 1;
	/* This state is durable now, and all before it.  A mutation that changed nothing has no record to sync. */
	if (!err &&
		(i < SETUP_PARTS || is_barrier(&st) || step_kind(&st) == STEP_SYNCS ||
			((options.sync || step_is_sync(&st)) && step_kind(&st) == STEP_MUTATE &&
				expected->hash[i + 1] != expected->hash[i])))
		told->durable = i + 1;
}

static void run_history(void)
{
	struct side lib = {.api = watch ? watch->library : &api_library};
	struct out o = {0};

	alarm(HANG_SECONDS);
	choices = (struct rng){now.seed * 31 + now.at * 7 + now.way};
	history_clock = CLOCK_START;
	new_clock();
	if (!now.kill && file_forget_start(store_dir))
		_exit(FAILED);
	if (now.skip)
		file_forget_skip(now.skip);
	file_set_hook(die_at, NULL);
	if (open_store(&lib)) {
		if (!dead)
			_exit(FAILED);
		(void)rise_again(&lib, 0);
	}
	if (records)
		expected->changes[0] = changes_hash(&lib);
	for (unsigned i = 0; i < SETUP_PARTS + STEPS;) {
		int err;

		history_clock = expected->clock[i];
		told->begun = i + 1;
		told->starts[i] = told->operations;
		told->steps = i + 1;
		out_reset(&o);
		err = library_step(&lib, i, &o);
		if (dead) {
			i = rise_again(&lib, i);
			continue;
		}
		step_done(i, err, &o);
		if (records && told->answered > i + 1)
			expected->changes[i + 1] = expected->changes[i]; /* a flush, with a mutation in it */
		i = told->answered;
		if (records)
			expected->changes[i] = changes_hash(&lib);
	}
	file_set_hook(NULL, NULL);
	if ((now.at == 0 || now.killed) && now.way != 99) {
		/* The power fails while the store is idle. */
		if (now.kill)
			kill(getpid(), SIGKILL);
		if (file_forget_crash(choose, NULL))
			_exit(FAILED);
		_exit(CRASHED);
	}
	_exit(close_store(&lib) ? FAILED : DONE);
}

/* ---- the child that looks ---- */
static bool write_something(struct side *s)
{
	struct tfs_info info;
	struct tfs_table *t;
	int err = store_table_make(s->store, "after", "f", &t);

	if (err) {
		printf("# making a table after it: %s\n", strerror(-err));
		return false;
	}
	for (unsigned k = 0; k < TABLES; k++) {
		if (!s->table[k] || tfs_table_id(s->table[k]) != tfs_table_id(t))
			continue;
		printf("# two tables have the id %u\n", tfs_table_id(t));
		tfs_table_close(t);
		return false;
	}
	err = store_put(t, TFS_S("row"), "f", TFS_S("q"), TFS_AUTO, TFS_S("value"), TFS_APPLY_SYNC);
	if (!err)
		err = tfs_compact(t);
	if (!err)
		err = tfs_stat(t, TFS_S("row"), "f", TFS_S("q"), TFS_AUTO, &info);
	tfs_table_close(t);
	if (err)
		printf("# writing after it: %s\n", strerror(-err));
	return err == 0 && info.size == 5;
}

/* kept: the store was opened and closed after the death, so no file is without a tablet. */
static bool run_check(bool kept)
{
	const char *build = getenv("BUILD");
	char tool[500], cmd[1200], format[400];
	int status;

	snprintf(format, sizeof(format), "%s/FORMAT", store_dir);
	if (access(format, F_OK))
		return true; /* not made yet */

	snprintf(tool, sizeof(tool), "%s/tabletctl", build ? build : ".");
	if (access(tool, X_OK))
		return true;
	snprintf(cmd, sizeof(cmd), "'%s' check '%s' >'%s/check.out' 2>&1", tool, store_dir, dir);
	status = system(cmd);
	snprintf(cmd, sizeof(cmd), "grep -q 'no tablet refers to it' '%s/check.out'", dir);
	if (status == 0 && (!kept || system(cmd) != 0))
		return true;
	/* After a power cut, unsynced records may follow a missing one.  check reports them. */
	snprintf(cmd, sizeof(cmd), "! grep '^damaged: ' '%s/check.out' | grep -qv 'whole records behind it are lost$'", dir);
	if (!kept && !now.kill && WIFEXITED(status) && WEXITSTATUS(status) == 1 && system(cmd) == 0)
		return true;
	printf("# tabletctl check: status %d\n", status);
	snprintf(cmd, sizeof(cmd), "sed 's/^/# /' '%s/check.out' | head -20", dir);
	fflush(stdout);
	(void)!system(cmd);
	return false;
}

static int look(bool thorough)
{
	struct side lib = {.api = &api_library};
	struct out d = {0};
	unsigned least = now.kill ? told->answered : told->durable, most = told->begun, k;
	uint64_t h, changes_are;
	int err;

	alarm(HANG_SECONDS);
	history_clock = expected->clock[STATES - 2];
	options.no_background = true;
	hooks.clock = clock_new(history_now, NULL);
	hooks.no_flush = !thorough;
	/* A crash before the store was made leaves a place where it can be made. */
	if (thorough && !run_check(false))
		return FAILED;
	if (open_store(&lib))
		return FAILED;
	if (server_leftovers(store_dir, &d)) {
		printf("# the start has not removed them:\n# %.*s", (int)d.n, d.p);
		return FAILED;
	}
	side_dump(&lib, &d);
	h = out_hash(&d);
	changes_are = changes_hash(&lib);
	k = state_found(least, most, h, told->doubt ? NULL : &changes_are);
	if (k <= most) {
		told->found = k;
		err = thorough && !write_something(&lib);
		if (close_store(&lib)) {
			printf("# close failed\n");
			err = 1;
		}
		if (!err && thorough)
			err = !run_check(true);
		if (!err && thorough) {
			err = open_store(&lib) != 0 || close_store(&lib) != 0;
		}
		return err ? FAILED : DONE;
	}
	printf("# the state found is none of %u (durable) to %u (begun); answered %u\n", least, most, told->answered);
	for (k = 0; k < STATES; k++)
		if (expected->hash[k] == h)
			printf("# it is that after %u steps%s\n", k,
				expected->changes[k] == changes_are ? "" : ", with other changes");
	if (tell) {
		struct out want = {0};

		(void)!run_model(now.seed, least, &want);
		out_differ(&want, "durable", &d, "found");
		(void)!run_model(now.seed, most, &want);
		out_differ(&want, "begun", &d, "found");
		out_free(&want);
	}
	return FAILED;
}

static void remove_stores(void)
{
	char forget[400];

	snprintf(forget, sizeof(forget), "%s.forget", store_dir);
	tree_remove(store_dir);
	tree_remove(forget);
}

static int in_child(int (*fn)(bool), bool arg, bool quiet)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		msg_to_nowhere();
		if (quiet && (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)))
			_exit(FAILED);
		status = fn(arg);
		if (status && !quiet)
			print_messages();
		fflush(stdout);
		_exit(status);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		exit(2);
	return status;
}

static int history_child(bool unused)
{
	run_history();
	return FAILED;
}

void point_clear(void)
{
	remove_stores();
	told->begun = told->answered = told->durable = 0;
	told->operations = told->syncs = 0;
	told->rose_at = 0;
	told->doubt = false;
}

static const char *const death_places[PLACES_OF_DEATH] = {
	"/lock/journal",
	"/lock/tables/",
	"/lock/dropped/",
	"/lock/root",
	"/lock/",
	"/log/",
	"/sst/",
	"unlink ",
	"",
};

/* Where the child that died was. */
static void count_death(void)
{
	unsigned i = told->begun ? told->begun - 1 : 0;
	struct step st = {now.seed, i - SETUP_PARTS, flags};

	tally->within[i < SETUP_PARTS ? STEP_KINDS : step_kind(&st)]++;
	if (strncmp(told->last_op, "unlink ", 7) == 0 && strstr(told->last_op, "/sst/")) {
		tally->at[7]++;
		return;
	}
	for (unsigned k = 0; k < PLACES_OF_DEATH; k++) {
		if (!strstr(told->last_op, death_places[k]))
			continue;
		tally->at[k]++;
		return;
	}
}

bool tally_print(void)
{
	static const enum step_kind rare[] = {
		STEP_TABLE,
		STEP_EDIT,
		STEP_RULES,
		STEP_SPLIT,
		STEP_JOIN,
		STEP_SNAPSHOT,
	};
	bool all = true;

	printf("# deaths within");
	for (unsigned k = 0; k < STEP_KINDS; k++)
		if (tally->within[k])
			printf(" %s %llu,", step_kind_names[k], (unsigned long long)tally->within[k]);
	printf(" setup %llu; at", (unsigned long long)tally->within[STEP_KINDS]);
	for (unsigned k = 0; k < PLACES_OF_DEATH; k++)
		printf(" %s %llu%s",
			k == 7                     ? "removal from /sst/"
				: *death_places[k] ? death_places[k]
						   : "else",
			(unsigned long long)tally->at[k], k + 1 < PLACES_OF_DEATH ? "," : "\n");
	for (unsigned k = 0; k < sizeof(rare) / sizeof(*rare); k++)
		all &= tally->within[rare[k]] > 0;
	for (unsigned k = 0; k < 4; k++)
		all &= tally->at[k] > 0;
	return all;
}

bool try_point(const struct point *p, bool thorough, bool quiet)
{
	int status;
	bool died;

	now = *p;
	point_clear();
	status = in_child(history_child, false, quiet);
	died = p->kill ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : WIFEXITED(status) && WEXITSTATUS(status) == CRASHED;
	if (!died && !(WIFEXITED(status) && WEXITSTATUS(status) == DONE)) {
		if (!quiet)
			printf("# the history ended by status %x in step %u\n", (unsigned)status, told->begun);
		return false;
	}
	tally->points++;
	tally->crashed += died;
	if (died && p->at)
		count_death();
	status = in_child(look, thorough, quiet);
	if (status && !quiet)
		printf("# looking ended by status %x; the crash was at %s\n", (unsigned)status, told->last_op);
	return status == 0;
}

void *share(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(2);
	return p;
}

bool point_begin(unsigned job)
{
	snprintf(dir, sizeof(dir), "%s/tfs-crash-%u-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", job);
	told = share(sizeof(*told));
	expected = share(sizeof(*expected));
	if (!mkdtemp(dir)) {
		perror(dir);
		return false;
	}
	snprintf(store_dir, sizeof(store_dir), "%s/store", dir);
	return true;
}

void point_end(void)
{
	char said[400];

	remove_stores();
	snprintf(said, sizeof(said), "%s/check.out", dir);
	unlink(said);
	rmdir(dir);
}

const char *point_store_dir(void)
{
	return store_dir;
}

void point_tell(bool on)
{
	tell = on;
}

void point_by_hand(void)
{
	by_hand = true;
}

void point_watch(const struct point_watch *w)
{
	watch = w;
}

void point_changes(void)
{
	changes = true;
}

bool history_is_plain(uint64_t seed)
{
	choose_history(seed);
	return options.no_background && !options.sync;
}

/* Records the changes after each step.  Reading them writes to the lock service, so the run has operations of its own. */
static bool record(uint64_t seed)
{
	int status;

	memset(expected->changes, 0, sizeof(expected->changes));
	if (!(flags & STEP_KEEPS))
		return true;
	now = (struct point){.seed = seed, .way = 99};
	point_clear();
	records = true;
	status = in_child(history_child, false, false);
	records = false;
	return WIFEXITED(status) && WEXITSTATUS(status) == DONE;
}

bool prepare_model(uint64_t seed)
{
	choose_history(seed);
	return run_model(seed, 0, NULL) && record(seed);
}

bool step_is_rare(uint64_t seed, unsigned step)
{
	struct step st = {seed, step - SETUP_PARTS, flags};
	enum step_kind k = step_kind(&st);

	return step >= SETUP_PARTS &&
		(k == STEP_TABLE || k == STEP_EDIT || k == STEP_RULES || k == STEP_SPLIT || k == STEP_JOIN || k == STEP_COLLECT ||
			k == STEP_METADATA || k == STEP_SNAPSHOT);
}

bool prepare(uint64_t seed)
{
	struct point p = {.seed = seed, .way = 99};

	return prepare_model(seed) && try_point(&p, true, false);
}
