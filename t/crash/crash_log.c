/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power loss under the commit log.
 *
 * A child runs a workload in forget mode and dies at its n-th file operation.
 * The answers that it received are in shared memory.  The parent replays the
 * files:
 *   - every record whose synced wait succeeded is there, under its LSN,
 *   - the LSNs have no gap except those answered with an error,
 *   - a record answered with an error is not there; if its outcome was reported
 *     as unknown, it is not there once a later synced record was acknowledged.
 *
 * threads   4 threads, random mixtures; in half of the runs one injected error,
 *           so that the second writer takes over; any subset of the unsynced
 *           changes survives, complete or torn; in a quarter of the runs one
 *           segment for all, whose writes continue with zeros once syncs are
 *           frequent
 * skipped   one thread; each sync in turn is left out, and some crash must show it
 *
 * usage: crash_log [RUNS [SEED]]    the first
 *        crash_log --syncs [SEED]   the others
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/base/task.h"
#include "engine/log/log.h"
#include "t/crash/places.h"
#include "t/lib/file_faults.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4u
#define PER_THREAD 40u
#define RECORDS (THREADS * PER_THREAD)

enum answer { NONE, OK, OK_SYNCED, ERROR, IN_DOUBT };
struct shared {
	atomic_ullong ops, dropped;
	atomic_ullong durable_seen; /* the promise of log_sync or log_free */
	atomic_ullong syncs;
	unsigned long long op_of_sync[512]; /* the operation number of each sync (skipped: dry run) */
	char place_of_sync[512][PLACE_BYTES];
	atomic_bool zeroed; /* a write was continued with zeros */
	struct {
		atomic_ullong lsn;
		atomic_uint answer;
	} rec[RECORDS];
};

static struct shared *sh;

struct plan {
	uint64_t seed, crash_at, fail_at, skip; /* 0: never */
	unsigned threads;
	bool nothing_survives;
	bool ahead; /* a segment with room for zeros */
};
static struct plan plan;
static char dir[64];
static struct log *the_log;

static unsigned choose(void *arg, unsigned index, unsigned ways)
{
	uint64_t *s = arg;

	if (plan.nothing_survives)
		return 0;
	*s = mix(*s);
	return (unsigned)(*s % (ways ? ways : 1));
}

static void crash(void)
{
	uint64_t s = plan.seed;

	_exit(file_forget_crash(choose, &s) ? 3 : 0);
}

static int hook(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	uint64_t i = atomic_fetch_add(&sh->ops, 1) + 1;

	if (op == FILE_OP_WRITE && n > RECORDS * 700) /* more than all records */
		sh->zeroed = true;
	if (op == FILE_OP_SYNC || op == FILE_OP_SYNCDIR) {
		uint64_t k = atomic_fetch_add(&sh->syncs, 1) + 1;

		if (k < 512) {
			sh->op_of_sync[k] = i;
			place_name(sh->place_of_sync[k], op);
		}
	}
	if (i == plan.crash_at)
		crash();
	return i == plan.fail_at ? -EIO : 0;
}

static void one_record(unsigned index, uint64_t random)
{
	uint8_t batch[700];
	size_t n = 8 + random % 600;
	bool sync = random >> 20 & 1;
	struct log_record r = {.table = 1, .row_from = tfs_str("row"), .row_to = tfs_str("row")};
	struct log_ticket t;
	int err;

	memset(batch, (int)index, sizeof batch);
	put_be64(batch, index);
	r.batch = tfs_bytes_of(batch, n);
	if (log_submit(the_log, &r, sync, &t))
		return;
	atomic_store(&sh->rec[index].lsn, t.lsn);
	err = log_wait(the_log, &t);
	atomic_store(&sh->rec[index].answer, !err ? sync ? OK_SYNCED : OK : t.in_doubt ? IN_DOUBT : ERROR);
}

static void promised(uint64_t lsn)
{
	unsigned long long was = atomic_load(&sh->durable_seen);

	while (was < lsn && !atomic_compare_exchange_weak(&sh->durable_seen, &was, lsn))
		;
}

static void *work(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg;
	uint64_t s = plan.seed * 8 + id;

	for (unsigned i = 0; i < PER_THREAD; i++) {
		s = mix(s);
		one_record(id * PER_THREAD + i, s);
		if ((s >> 40) % 16 == 0) {
			uint64_t lsn = log_next_lsn(the_log) - 1;

			if (log_sync(the_log) == 0)
				promised(lsn);
		}
		if (id == 0 && i % 13 == 12) {
			uint64_t lsn = log_durable_lsn(the_log) / 2;

			promised(log_durable_lsn(the_log));
			atomic_store(&sh->dropped, lsn);
			(void)!log_drop_below(the_log, lsn);
		}
	}
	return NULL;
}

static void child(void)
{
	struct task_pool *pool;
	struct log_options o = {.dir = dir, .incarnation = 1, .segment_bytes = 2048, .sync_interval_us = 2000, .mark_us = 1000};
	pthread_t thread[THREADS];
	uint64_t last;

	msg_to_nowhere();
	if (plan.threads == 1)
		o.sync_interval_us = o.mark_us = 3600000000u;
	if (plan.ahead)
		o.segment_bytes = 1 << 20;
	if (file_forget_start(dir) || task_pool_new("log", 1, &pool))
		_exit(4);
	o.pool = pool;
	if (plan.skip)
		file_forget_skip(plan.skip);
	file_set_hook(hook, NULL);
	if (log_new(&o, &the_log)) {
		if (plan.fail_at)
			crash();
		_exit(5);
	}
	for (unsigned i = 0; i < plan.threads; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i))
			_exit(6);
	for (unsigned i = 0; i < plan.threads; i++)
		pthread_join(thread[i], NULL);
	last = log_next_lsn(the_log) - 1;
	if (log_free(the_log) == 0)
		promised(last);
	crash();
}

/* ---- the parent ---- */
struct seen {
	uint64_t last;
	bool at[RECORDS + 2];
	unsigned index[RECORDS + 2];
	bool whole;
};

static int see(void *arg, const struct log_record *r)
{
	struct seen *s = arg;
	uint64_t index = r->batch.n >= 8 ? load_be64(r->batch.p) : RECORDS;

	if (r->lsn > RECORDS || index >= RECORDS || s->at[r->lsn]) {
		s->whole = false;
		return 0;
	}
	for (size_t i = 8; i < r->batch.n; i++)
		s->whole &= r->batch.p[i] == (uint8_t)index;
	s->at[r->lsn] = true;
	s->index[r->lsn] = (unsigned)index;
	return 0;
}

static const char *check(void)
{
	static char said[512];
	static struct seen s;
	char *why = NULL;
	uint64_t from = sh->dropped ? sh->dropped : 1, synced = 0;
	struct log_end end = {0};
	int err;

	memset(&s, 0, sizeof s);
	s.whole = true;
	err = log_replay(dir, from, see, &s, &end, &why);
	if (err) {
		snprintf(said, sizeof said, "replay: %s: %s", strerror(-err), why ? why : "?");
		free(why);
		return said;
	}
	free(why);
	s.last = end.last_lsn;
	if (!s.whole)
		return "a record is not what was written";
	for (unsigned i = 0; i < RECORDS; i++)
		if (sh->rec[i].answer == OK_SYNCED && sh->rec[i].lsn > synced)
			synced = sh->rec[i].lsn;
	if (s.last < synced || s.last < sh->durable_seen) {
		snprintf(said, sizeof said, "replay ends at %llu, synced up to %llu, promised %llu", (unsigned long long)s.last,
			(unsigned long long)synced, (unsigned long long)sh->durable_seen);
		return said;
	}
	for (unsigned i = 0; i < RECORDS; i++) {
		uint64_t lsn = sh->rec[i].lsn;
		bool there = lsn && lsn <= s.last && s.at[lsn];
		unsigned a = sh->rec[i].answer;

		if (lsn == 0 || lsn < from)
			continue;
		if (there && s.index[lsn] != i)
			return "another record under the LSN";
		if (!there && lsn <= s.last && (a == NONE || a == OK || a == OK_SYNCED) &&
			!(a == NONE && plan.fail_at)) { /* void already, but its thread had not noted that yet */
			snprintf(said, sizeof said, "record at LSN %llu (answer %u) missing below %llu", (unsigned long long)lsn, a,
				(unsigned long long)s.last);
			return said;
		}
		if (there && (a == ERROR || (a == IN_DOUBT && lsn < synced)))
			return "a record answered with an error came back";
	}
	return NULL;
}

static int unlink_one(void *arg, const char *name, bool is_dir)
{
	char *p = path_join(arg, name);
	int err = is_dir ? 0 : file_unlink(p);

	free(p);
	return err;
}

/* NULL: all is right. */
static const char *run(const struct plan *p)
{
	static char said[64];
	const char *bad;
	int status;
	pid_t pid;

	plan = *p;
	memset(sh, 0, sizeof *sh);
	strcpy(dir, "/dev/shm/tfs-crash-log-XXXXXX");
	if (!mkdtemp(dir))
		return "mkdtemp";
	pid = fork();
	if (pid == 0)
		child();
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return "fork";
	bad = check();
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		snprintf(said, sizeof said, "child ended with status %#x", (unsigned)status);
		bad = said;
	}
	char forget[80];

	snprintf(forget, sizeof forget, "%s.forget", dir);
	(void)!file_list(dir, unlink_one, dir);
	(void)!file_rmdir(dir);
	(void)!file_list(forget, unlink_one, forget);
	(void)!file_rmdir(forget);
	return bad;
}

static bool threads_test(unsigned runs, uint64_t seed)
{
	bool zeroed = false;

	for (unsigned i = 0; i < runs; i++) {
		struct plan p = {.seed = mix(seed + i), .threads = THREADS};
		const char *bad;

		p.crash_at = 1 + p.seed % 330;
		if (i % 2)
			p.fail_at = 1 + mix(p.seed) % 250;
		p.nothing_survives = i % 8 == 0;
		p.ahead = i % 4 >= 2 && i % 16 < 8;
		bad = run(&p);
		zeroed |= sh->zeroed;
		if (bad) {
			printf("# seed %llu run %u: crash at %llu, failing %llu: %s\n", (unsigned long long)seed, i,
				(unsigned long long)p.crash_at, (unsigned long long)p.fail_at, bad);
			return false;
		}
	}
	if (!zeroed)
		printf("# no write went on with zeros\n");
	return zeroed;
}

static void note_place(const char *name, bool seen, const char *test)
{
	struct place *p = place_of(name);

	p->tried++;
	if (seen && !p->seen++)
		snprintf(p->by, sizeof p->by, "crash_log --syncs, %s", test);
}

/* The file's, not the directory's: if the directory's sync fails, the records are safe in the first writer's file. */
static unsigned sync_to_fail(void)
{
	unsigned k = 5;

	while (k + 1 < sh->syncs && strstr(sh->place_of_sync[k], " syncdir"))
		k++;
	return k;
}

/* Each sync left out in turn must be seen missing, with and without a switch to the second writer. */
static bool skipped_test(uint64_t seed)
{
	unsigned caught = 0, missed = 0, failed = 1;

	for (unsigned failing = 0; failing < 2; failing++) {
		struct plan p = {.seed = seed, .threads = 1, .nothing_survives = true};
		static char place[512][PLACE_BYTES];
		unsigned long long op_of_sync[512], syncs, ops;

		if (run(&p))
			return false;
		if (failing) {
			failed = sync_to_fail();
			p.fail_at = sh->op_of_sync[failed];
			if (run(&p))
				return false;
		}
		syncs = sh->syncs;
		ops = sh->ops;
		memcpy(op_of_sync, sh->op_of_sync, sizeof op_of_sync);
		memcpy(place, sh->place_of_sync, sizeof place);
		/*
		 * A sync that the hook fails is none to forget mode, so the
		 * syncs after it have smaller numbers there.  The ones before
		 * it are the first round's.
		 */
		for (p.skip = failed; p.skip + failing <= syncs; p.skip++) {
			const char *bad = NULL;

			for (p.crash_at = op_of_sync[p.skip + failing]; !bad && p.crash_at <= ops + 1; p.crash_at++)
				bad = run(&p);
			note_place(
				place[p.skip + failing], bad != NULL, failing ? "skipped, through the second writer" : "skipped");
			caught += bad != NULL;
			missed += bad == NULL;
			if (!bad)
				printf("# sync %llu of %llu left out: not seen (failing %u)\n", (unsigned long long)p.skip, syncs,
					failing);
		}
	}
	printf("# %u syncs left out and caught, %u missed\n", caught, missed);
	return caught > 20 && missed == 0;
}

int main(int argc, char **argv)
{
	bool syncs = argc > 1 && strcmp(argv[1], "--syncs") == 0;
	unsigned runs = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 600;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	bool a;

	sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED)
		return 1;
	if (!syncs) {
		a = threads_test(runs, seed);
		printf("%sok 1 - %u crashes under four threads\n1..1\n", a ? "" : "not ", runs);
		return !a;
	}
	a = skipped_test(seed);
	printf("%sok 1 - every sync left out is seen\n", a ? "" : "not ");
	places_print();
	printf("1..1\n");
	return !a;
}
