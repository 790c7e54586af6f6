/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power loss while the log of a dead server is sealed.
 *
 * A child writes a log: some records are synced, the last ones are not, and some of
 * those are in new segments.  Then it seals the log and dies at the n-th file
 * operation of that.  Any subset of the unsynced changes survives.  If the seal was
 * stored, a replay by it finds what it lists.  If not, the parent seals the log
 * again, and finds every synced record.
 *
 * usage: crash_seal            each operation, several subsets
 *        crash_seal --syncs    each sync left out in turn must be noticed
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/base/task.h"
#include "engine/log/log_seal.h"
#include "t/crash/places.h"
#include "t/lib/file_faults.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SYNCED 12u
#define RECORDS 30u
#define SYNCS_MOST 64u
#define SUBSETS 12u

static struct shared {
	unsigned ops, syncs;
	char place_of_sync[SYNCS_MOST][PLACE_BYTES];
	bool stored;
	size_t seal_bytes;
	uint8_t seal[4096];
} * sh;

static struct plan {
	uint64_t seed; /* 0: nothing survives */
	unsigned crash_at, skip;
} plan;
static char top[64], logs[80], dir[96];

static unsigned choose(void *arg, unsigned index, unsigned ways)
{
	uint64_t *s = arg;

	(void)index;
	if (!plan.seed)
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
	(void)arg, (void)path, (void)offset, (void)n;
	sh->ops = (unsigned)number;
	if ((op == FILE_OP_SYNC || op == FILE_OP_SYNCDIR) && sh->syncs + 1 < SYNCS_MOST)
		place_name(sh->place_of_sync[++sh->syncs], op);
	if (number == plan.crash_at)
		crash();
	return 0;
}

static void write_log(struct task_pool *pool)
{
	struct log_options o = {.dir = dir,
		.incarnation = 1,
		.segment_bytes = 1500,
		.sync_interval_us = 3600000000u,
		.mark_us = 3600000000u,
		.pool = pool};
	struct log *l;

	if (log_new(&o, &l))
		_exit(5);
	for (unsigned i = 1; i <= RECORDS; i++) {
		struct log_record r = {.table = 1, .row_from = tfs_str("row"), .row_to = tfs_str("row")};
		struct log_ticket t;
		uint8_t batch[100] = {(uint8_t)i};

		r.batch = tfs_bytes_of(batch, sizeof(batch));
		if (log_submit(l, &r, i == SYNCED, &t) || log_wait(l, &t) || t.lsn != i)
			_exit(6);
	}
	/* The log stays open: its server is a zombie. */
}

static void child(void)
{
	struct task_pool *pool;
	struct log_seal seal;
	struct buf b = {0};
	char *why;

	msg_to_nowhere();
	if (file_forget_start(top) || task_pool_new("log", 1, &pool))
		_exit(4);
	write_log(pool);
	if (plan.skip)
		file_forget_skip(file_forget_sync_count() + plan.skip);
	file_set_hook(hook, NULL);
	if (log_seal_make(logs, 1, &seal, &why) || log_seal_encode(&seal, &b) || b.n > sizeof(sh->seal))
		_exit(7);
	memcpy(sh->seal, b.p, b.n);
	sh->seal_bytes = b.n;
	sh->stored = true;
	crash();
}

static int see(void *arg, const struct log_record *r)
{
	uint64_t *next = arg;

	if (r->lsn != *next || r->batch.n != 100 || r->batch.p[0] != (uint8_t)r->lsn)
		return 1;
	++*next;
	return 0;
}

/* NULL: all is right. */
static const char *check(void)
{
	static char said[300];
	char *dead = log_sealed_dir(logs, 1), *why = NULL;
	struct log_seal seal;
	struct log_end end = {0};
	uint64_t next = 1;
	int err = sh->stored ? log_seal_decode(tfs_bytes_of(sh->seal, sh->seal_bytes), &seal) : log_seal_make(logs, 1, &seal, &why);

	if (!err) {
		err = log_replay_sealed(dead, &seal, 1, see, &next, &end, &why);
		log_seal_fini(&seal);
	}
	if (!err && next <= SYNCED)
		err = -ENODATA;
	snprintf(said, sizeof(said), "%s seal: %s: %s", sh->stored ? "stored" : "second", strerror(err < 0 ? -err : 0),
		why ? why : "");
	free(why);
	free(dead);
	return err ? said : NULL;
}

static const char *run(const struct plan *p)
{
	static char said[64];
	const char *bad;
	char cmd[160];
	int status;
	pid_t pid;

	plan = *p;
	memset(sh, 0, sizeof(*sh));
	strcpy(top, "/dev/shm/tfs-crash-seal-XXXXXX");
	if (!mkdtemp(top))
		return "mkdtemp";
	snprintf(logs, sizeof(logs), "%s/log", top);
	snprintf(dir, sizeof(dir), "%s/1", logs);
	if (file_mkdir(logs) || file_mkdir(dir))
		return "mkdir";
	pid = fork();
	if (pid == 0)
		child();
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return "fork";
	bad = check();
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		snprintf(said, sizeof(said), "child ended with status %#x", (unsigned)status);
		bad = said;
	}
	snprintf(cmd, sizeof(cmd), "rm -rf '%s' '%s.forget'", top, top);
	return system(cmd) ? "rm" : bad;
}

static bool each_operation(void)
{
	struct plan p = {0};
	unsigned ops;
	const char *bad = run(&p);

	ops = sh->ops;
	for (p.crash_at = 1; !bad && p.crash_at <= ops + 1; p.crash_at++)
		for (p.seed = 0; !bad && p.seed < SUBSETS; p.seed++)
			bad = run(&p);
	if (bad)
		printf("# operation %u of %u, subset %llu: %s\n", p.crash_at, ops, (unsigned long long)p.seed, bad);
	return !bad && ops > 10;
}

static bool each_sync(void)
{
	struct plan p = {0};
	unsigned syncs, missed = 0;

	if (run(&p))
		return false;
	syncs = sh->syncs;
	for (p.skip = 1; p.skip <= syncs; p.skip++) {
		const char *bad = run(&p);
		struct place *at = place_of(sh->place_of_sync[p.skip]);

		at->tried++;
		if (bad && !at->seen++)
			snprintf(at->by, sizeof(at->by), "crash_seal --syncs");
		missed += !bad;
	}
	/* A segment that the log has synced itself is synced once more. */
	printf("# %u syncs left out, %u not noticed\n", syncs, missed);
	return syncs > 3 && missed < syncs;
}

int main(int argc, char **argv)
{
	const bool syncs = argc > 1 && strcmp(argv[1], "--syncs") == 0;
	bool good;

	msg_to_nowhere();
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED)
		return 1;
	good = syncs ? each_sync() : each_operation();
	printf("%sok 1 - %s\n", good ? "" : "not ",
		syncs ? "every place that syncs is noticed when it is left out" : "a crash at each operation of sealing");
	if (syncs)
		places_print();
	printf("1..1\n");
	return !good;
}
