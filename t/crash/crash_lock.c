/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power loss and SIGKILL under the local lock service.
 *
 * A child runs a scripted history of puts, removes and multi-operations in
 * forget mode and dies at its n-th file operation.  The last acknowledged step
 * is in shared memory.  The parent opens the files: names, versions and contents
 * must be those after the last acknowledged step or after the next one, and the
 * same at the next opening.
 *
 * every    death at every operation in turn: no unsynced change survives, all
 *          survive (SIGKILL), or random parts, complete or torn
 * twice    everything fails from the n-th operation on, and the service is
 *          opened again in the same forget mode, as after a SIGKILL; all that
 *          is read then counts as acknowledged; then death at a later operation
 * error    one operation fails and the service continues; then death
 * skipped each sync in turn is left out, and some death must show it.  This
 * history is separate: in it no later sync of the same
 *          directory hides the missing one
 * opening  each kind of sync of an opening is left out after a SIGKILL; some
 *          death must show it
 *
 * usage: crash_lock [RUNS [SEED]]    the first three
 *        crash_lock --syncs          the others
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/lock/lock.h"
#include "t/crash/places.h"
#include "t/lib/file_faults.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS 16u
#define NAMES 5u
#define SYNCS 200u
static const char *const names[NAMES] = {"root", "tables/a", "tables/b.tmp", "tables/c", "other/d"};

/* ---- the history ---- */

/* Each step has a letter for each name: . leave, p put, r remove. */
typedef char history[STEPS][NAMES + 1];
static const history mixed = {
	"p....",
	".p...",
	".ppp.",
	".rp..",
	"pp...",
	"...r.",
	"p...p",
	".p...",
	"p.r.p",
	"..p..",
	"r....",
	"p..p.",
	".p.pr",
	".p...",
	"rrrr.",
	".pp.p",
};
/*
 * After each multi-operation one of its names below a directory changes
 * again, alone: a journal that came back would undo that.  And it changes one
 * name in a directory, or else the next one's sync would do for both.
 */
static const history lean = {
	"p....",
	".p...",
	"pp...",
	".p...",
	"....p",
	".p..p",
	".r...",
	"p..p.",
	"...p.",
	"r...r",
	"....p",
	"r..r.",
	"...p.",
	".p..p",
	"....r",
	"p....",
};
static const history *script = &mixed;
struct state {
	unsigned content[NAMES]; /* the step that wrote it, from 1; 0: absent */
	uint64_t version[NAMES];
};
static struct state states[STEPS + 1];

static size_t contents_of(unsigned step, unsigned name, uint8_t bytes[2000])
{
	size_t n = (step * 577 + name * 91) % 1500;

	memset(bytes, (int)(step * 8 + name), n);
	return n;
}

static void make_states(void)
{
	memset(states, 0, sizeof states);
	for (unsigned i = 0; i < STEPS; i++) {
		states[i + 1] = states[i];
		for (unsigned k = 0; k < NAMES; k++) {
			if ((*script)[i][k] == 'p') {
				states[i + 1].content[k] = i + 1;
				states[i + 1].version[k]++;
			} else if ((*script)[i][k] == 'r') {
				states[i + 1].content[k] = 0;
				states[i + 1].version[k] = 0;
			}
		}
	}
}

static int run_step(struct lock_service *s, unsigned step)
{
	static uint8_t bytes[NAMES][2000];
	struct lock_op ops[NAMES];
	unsigned n = 0;

	for (unsigned k = 0; k < NAMES; k++) {
		if ((*script)[step][k] == '.')
			continue;
		ops[n] = (struct lock_op){.name = names[k],
			.what = (*script)[step][k] == 'r' ? LOCK_REMOVE : LOCK_PUT,
			.expect = states[step].version[k]};
		ops[n++].contents = tfs_bytes_of(bytes[k], contents_of(step + 1, k, bytes[k]));
	}
	return lock_multi(s, ops, n, NULL);
}

/* Which states (of from, from + 1) the service shows; -1: neither, -2: an error. */
static int shown_state(struct lock_service *s, unsigned from)
{
	struct state now = {0};
	struct buf b = {0};
	uint8_t want[2000];
	int which = -1;

	for (unsigned k = 0; k < NAMES; k++) {
		int rc = lock_get(s, names[k], &b, &now.version[k]);
		unsigned step = 0;

		if (rc && rc != -ENOENT)
			which = -2;
		for (step = 1; !rc && step <= STEPS; step++) {
			size_t n = contents_of(step, k, want);

			if ((*script)[step - 1][k] == 'p' && bytes_eq(buf_bytes(&b), tfs_bytes_of(want, n)))
				break;
		}
		now.content[k] = rc ? 0 : step;
	}
	buf_fini(&b);
	for (unsigned i = from; which == -1 && i <= from + 1 && i <= STEPS; i++)
		if (memcmp(&now, &states[i], sizeof now) == 0)
			which = (int)i;
	return which;
}

/* ---- the child ---- */

enum survival { NOTHING, EVERYTHING, RANDOM, LATE }; /* LATE: later changes survive, from the seed-th change on */
struct plan {
	uint64_t seed;
	uint64_t crash_at, fail_at, kill_at, skip; /* 0: never */
	uint64_t skip_after_open;                  /* the number of the sync of the second opening that is left out */
	enum survival survival;
};
struct shared {
	uint64_t ops, acked, syncs, ops_at_open;
	uint64_t op_of_sync[SYNCS + 1]; /* the operation number of each */
	char place_of_sync[SYNCS + 1][PLACE_BYTES];
	uint64_t syncs_at_open;
	bool reached; /* the kill or failure took place */
	int wrong;    /* shown_state in the child was neither */
};
static struct shared *sh;
static struct plan plan;
static char dir[64];
static bool dead; /* as if killed: nothing works until the next opening */

static unsigned choose(void *arg, unsigned index, unsigned ways)
{
	uint64_t *s = arg;

	if (plan.survival == NOTHING)
		return 0;
	if (plan.survival == EVERYTHING)
		return 1 % ways;
	if (plan.survival == LATE)
		return index >= plan.seed ? 1 % ways : 0;
	*s = mix(*s);
	return (unsigned)(*s % ways);
}

static void crash(void)
{
	uint64_t s = plan.seed;

	_exit(file_forget_crash(choose, &s) ? 3 : 0);
}

static int hook(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	uint64_t i = ++sh->ops;

	if ((op == FILE_OP_SYNC || op == FILE_OP_SYNCDIR) && sh->syncs < SYNCS) {
		sh->op_of_sync[++sh->syncs] = i;
		place_name(sh->place_of_sync[sh->syncs], op);
	}
	if (i == plan.crash_at)
		crash();
	if (i == plan.kill_at)
		dead = sh->reached = true;
	if (i == plan.fail_at) {
		sh->reached = true;
		return -EIO;
	}
	return dead ? -EIO : 0;
}

/* Values read after an error or a new opening count as answered from then on. */
static unsigned look_again(struct lock_service *s, unsigned acked)
{
	int which = shown_state(s, acked);

	if (which < 0) {
		sh->wrong = which;
		crash();
	}
	sh->acked = (uint64_t)which;
	return (unsigned)which;
}

static struct lock_service *open_again(struct lock_service *s)
{
	lock_service_free(s);
	dead = false;
	sh->ops_at_open = sh->ops;
	sh->syncs_at_open = sh->syncs;
	if (plan.skip_after_open)
		file_forget_skip(file_forget_sync_count() + plan.skip_after_open);
	s = NULL;
	if (lock_local_open(dir, &s) < 0) {
		sh->wrong = -3;
		crash();
	}
	return s;
}

static void child(void)
{
	struct lock_service *s = NULL;

	msg_to_nowhere();
	if (file_forget_start(dir))
		_exit(4);
	if (plan.skip)
		file_forget_skip(plan.skip);
	file_set_hook(hook, NULL);
	if (lock_local_open(dir, &s)) {
		if (!sh->reached)
			_exit(5);
		if (dead)
			s = open_again(NULL);
		else
			crash();
	}
	for (unsigned step = 0; step < STEPS;) {
		if (run_step(s, step) == 0) {
			sh->acked = ++step;
			continue;
		}
		if (!sh->reached)
			_exit(6);
		if (dead)
			s = open_again(s);
		step = look_again(s, step);
	}
	crash();
}

/* ---- the parent ---- */

static const char *check(void)
{
	for (int again = 0; again < 2; again++) {
		static char said[128];
		struct lock_service *s = NULL;
		int rc = lock_local_open(dir, &s), which;

		if (rc) {
			snprintf(said, sizeof said, "open: %s", strerror(-rc));
			return said;
		}
		which = shown_state(s, (unsigned)sh->acked);
		lock_service_free(s);
		if (which < 0) {
			snprintf(said, sizeof said, "answered up to step %llu, found %s", (unsigned long long)sh->acked,
				which == -1 ? "another state" : "an error");
			return said;
		}
		sh->acked = (uint64_t)which; /* and so it stays */
	}
	return NULL;
}

static int clear_entry(void *arg, const char *name, bool is_dir)
{
	char *p = path_join(arg, name);
	int rc = 0;

	if (!p)
		return -ENOMEM;
	if (is_dir) {
		rc = file_list(p, clear_entry, p);
		if (!rc)
			rc = file_rmdir(p);
	} else {
		rc = file_unlink(p);
	}
	free(p);
	return rc;
}

static void clear(char *path)
{
	if (file_list(path, clear_entry, path) == 0 && file_rmdir(path) < 0)
		printf("# %s is left over\n", path);
}

/* NULL: all is right. */
static const char *run(const struct plan *p)
{
	static char said[64];
	char side[80];
	const char *bad;
	int status;
	pid_t pid;

	plan = *p;
	memset(sh, 0, sizeof *sh);
	strcpy(dir, "/dev/shm/tfs-crash-lock-XXXXXX");
	if (!mkdtemp(dir))
		return "mkdtemp";
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		child();
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return "fork";
	bad = sh->wrong ? "after an error or opening again: neither state" : check();
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		snprintf(said, sizeof said, "child ended with status %#x", (unsigned)status);
		bad = said;
	}
	clear(dir);
	snprintf(side, sizeof side, "%s.forget", dir);
	clear(side);
	return bad;
}

static bool report(const struct plan *p, const char *bad)
{
	if (bad)
		printf("# seed %llu: crash %llu fail %llu kill %llu survival %d: %s\n", (unsigned long long)p->seed,
			(unsigned long long)p->crash_at, (unsigned long long)p->fail_at, (unsigned long long)p->kill_at,
			p->survival, bad);
	return !bad;
}

static uint64_t total_ops;

static bool every_test(unsigned runs, uint64_t seed, unsigned *count)
{
	unsigned rounds = 2 + runs / (unsigned)total_ops;

	for (unsigned r = 0; r < rounds; r++) {
		for (uint64_t at = 1; at <= total_ops; at++, ++*count) {
			struct plan p = {
				.seed = mix(seed + r * 1000 + at), .crash_at = at, .survival = r < 2 ? (enum survival)r : RANDOM};

			if (!report(&p, run(&p)))
				return false;
		}
	}
	return true;
}

static bool twice_test(unsigned runs, uint64_t seed, bool kill)
{
	for (unsigned i = 0; i < runs; i++) {
		struct plan p = {.seed = mix(seed * 3 + i), .survival = (enum survival)(i % 3)};
		uint64_t at = 1 + mix(p.seed) % total_ops;

		/* most deaths soon after, where the settling is */
		p.crash_at = at + 1 + mix(p.seed + 1) % (i % 4 ? 30 : 200);
		if (kill)
			p.kill_at = at;
		else
			p.fail_at = at;
		if (!report(&p, run(&p)))
			return false;
	}
	return true;
}

static bool caught_at(struct plan p, uint64_t from, uint64_t to)
{
	for (p.crash_at = from; p.crash_at <= to; p.crash_at++) {
		for (unsigned i = 0; i < 12; i++) {
			p.survival = i == 0 ? NOTHING : i < 9 ? LATE : RANDOM;
			p.seed = i < 9 ? i : mix(p.crash_at * 16 + i);
			if (run(&p))
				return true;
		}
	}
	return false;
}

/*
 * Some death at or after the operation `from` shows it.  Nearly all are shown soon after
 * it, when nothing survives or all but the first change; the full search, in which each
 * combination has its chance, is for the rest.
 */
static bool caught(struct plan p, uint64_t from, uint64_t to)
{
	uint64_t near = from + 3 < to ? from + 3 : to;

	for (p.crash_at = from; p.crash_at <= to && p.crash_at < from + 16; p.crash_at++) {
		for (p.seed = 0; p.seed < 2; p.seed++) {
			p.survival = p.seed ? LATE : NOTHING;
			if (run(&p))
				return true;
		}
	}
	if (caught_at(p, from, near))
		return true;
	p.survival = RANDOM;
	for (p.crash_at = from; p.crash_at <= near; p.crash_at++)
		for (p.seed = 1000; p.seed < 1060; p.seed++)
			if (run(&p))
				return true;
	return caught_at(p, near + 1, to);
}

static void note_place(const char *name, bool seen, const char *test)
{
	struct place *p = place_of(name);

	p->tried++;
	if (seen && !p->seen++)
		snprintf(p->by, sizeof p->by, "crash_lock --syncs, %s", test);
}

/* The first sync, of the first opening, has nothing to make durable. */
static bool skipped_test(void)
{
	static char place[SYNCS + 1][PLACE_BYTES];
	struct plan dry = {.survival = EVERYTHING};
	uint64_t op_of_sync[SYNCS + 1], syncs, ops;
	unsigned seen = 0, missed = 0;

	if (run(&dry))
		return false;
	syncs = sh->syncs;
	ops = sh->ops;
	memcpy(op_of_sync, sh->op_of_sync, sizeof op_of_sync);
	memcpy(place, sh->place_of_sync, sizeof place);
	for (uint64_t k = 2; k <= syncs; k++) {
		struct plan p = {.skip = k};
		bool noticed = caught(p, op_of_sync[k] + 1, ops + 1);

		note_place(place[k], noticed, "every");
		if (noticed) {
			seen++;
		} else {
			missed++;
			printf("# sync %llu of %llu, operation %llu, left out: not seen\n", (unsigned long long)k,
				(unsigned long long)syncs, (unsigned long long)op_of_sync[k]);
		}
	}
	printf("# %u syncs left out and seen, %u missed\n", seen, missed);
	return seen > 20 && missed == 0;
}

/* The syncs of an opening: DIR, then each directory in it ("other", "tables"). */
static bool opening_test(void)
{
	static const char *const what[] = {"DIR", "the first directory", "the second directory"};
	bool all = true;

	for (uint64_t which = 1; which <= 3; which++) {
		char place[PLACE_BYTES] = "";
		bool seen = false;

		/* First one way of a power cut after each kill, then all. */
		for (uint64_t i = 0; i < 2 * (total_ops - total_ops / 3) && !seen; i++) {
			const uint64_t kill = total_ops / 3 + i % (total_ops - total_ops / 3);
			const bool all_ways = i != kill - total_ops / 3;
			struct plan p = {.kill_at = kill, .survival = EVERYTHING};
			uint64_t open_ops;

			if (run(&p))
				return false;
			open_ops = sh->ops_at_open;
			if (!open_ops)
				continue;
			memcpy(place, sh->place_of_sync[sh->syncs_at_open + which], sizeof place);
			p.skip_after_open = which;
			if (all_ways)
				seen = caught_at(p, open_ops + 1, open_ops + 20);
			p.survival = NOTHING;
			for (p.crash_at = open_ops + 1; !all_ways && !seen && p.crash_at <= open_ops + 20; p.crash_at++)
				seen = run(&p) != NULL;
		}
		note_place(place, seen, "opening");
		if (!seen)
			printf("# sync of %s at opening left out: not seen\n", what[which - 1]);
		all &= seen;
	}
	return all;
}

static void result(bool good, unsigned n, const char *what, unsigned *failed)
{
	printf("%sok %u - %s\n", good ? "" : "not ", n, what);
	*failed += !good;
}

static unsigned syncs_tests(void)
{
	unsigned failed = 0;

	script = &lean;
	make_states();
	result(skipped_test(), 1, "every sync left out is seen", &failed);
	result(opening_test(), 2, "every sync of an opening left out is seen", &failed);
	places_print();
	printf("1..2\n");
	return failed;
}

static unsigned death_tests(unsigned runs, uint64_t seed)
{
	unsigned failed = 0, count = 0;
	char what[80];
	bool good = every_test(runs, seed, &count);

	snprintf(what, sizeof what, "%u deaths, at every operation", count);
	result(good, 1, what, &failed);
	for (int kill = 1; kill >= 0; kill--) {
		good = twice_test(runs, seed + (uint64_t)kill, kill);
		snprintf(what, sizeof what, "%u deaths after %s", runs, kill ? "a SIGKILL and an opening" : "an I/O error");
		result(good, kill ? 2 : 3, what, &failed);
	}
	printf("1..3\n");
	return failed;
}

int main(int argc, char **argv)
{
	bool syncs = argc > 1 && strcmp(argv[1], "--syncs") == 0;
	unsigned runs = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 600;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	struct plan dry = {.survival = EVERYTHING};
	const char *bad;

	sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED)
		return 1;
	msg_to_nowhere();
	make_states();
	bad = run(&dry);
	if (bad) {
		printf("Bail out! without a crash: %s\n", bad);
		return 1;
	}
	total_ops = sh->ops;
	printf("# %llu operations, %llu syncs\n", (unsigned long long)total_ops, (unsigned long long)sh->syncs);
	return (syncs ? syncs_tests() : death_tests(runs, seed)) ? 1 : 0;
}
