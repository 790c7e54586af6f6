/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulates a cluster in one process.  A seed determines everything: the plan, the
 * faults, the clients' operations and the order in which threads run.
 *
 *	sim SEED [-v|-vv|-vvv]   runs one seed; -v prints events, -vv also requests, -vvv also switches of threads
 *				and the product's messages, whose lock may change the order
 *	sim -n COUNT [FIRST]     runs COUNT seeds from FIRST (1) on, on all cores
 *	sim -f COUNT [FIRST]     the same, one seed at a time, until one fails
 *	sim -p BUG ...           plants a bug before
 *
 * A simulation has three parts:
 *	1 Servers, masters and clients start, and the clients work while faults
 *	  occur (faults.c, work.c).
 *	2 The faults end, and all nodes run.  The clients stop, and one client reads
 *	  every row.
 *	3 The history is checked (t/lin), and the state of the cluster (check.c).
 * Each runs in a child process, because the memory of killed nodes is not freed.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/meta/meta.h"
#include "t/sim/check.h"
#include "t/sim/disk.h"
#include "t/sim/faults.h"
#include "t/sim/plant.h"
#include "t/sim/work.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIN_STEPS 1000000u    /* the checker's steps for a row */
#define READY_US 20000000u    /* all rows can be read so long after the last fault */
#define HANG_US 60000000u     /* storage that does not answer */
#define GIVEN_UP_US 35000000u /* a server whose storage alone does not answer ends so long after the beginning */
#define REMOVED_US 55000000u  /* a server that cannot be reached has been removed so long after the beginning */
#define CUT_US 80000000u
#define LOST_RELEASE_US 10000000u /* the answer of a release is late, by as much as four passes of the master need */
#define ASSIGNED_US 4500000u      /* the tablet is served elsewhere so long after its release */
#define SOUND_US 120000000u       /* the state of the cluster is sound so long after the last row was read */

/* What a child leaves to its parent, in shared memory. */
struct totals {
	uint64_t seeds, ops, errors, requests, metadata, metadata_reads, client_requests, client_metadata_reads, switches;
	uint64_t lost, repeated, late, timeouts, ahead, virtual_us, doubts, undecided;
	uint64_t faults[FAULTS];
	uint64_t hash; /* the hash of the last seed */
};
static struct totals *totals;
static uint64_t seed;
static char out_buffer[4096];
static unsigned verbose;

static void add_totals(const struct lin_totals *lin)
{
	struct net_counts c;

	net_get_counts(&c);
#define ADD(member, n) __atomic_fetch_add(&totals->member, (n), __ATOMIC_RELAXED)
	ADD(seeds, 1);
	ADD(ops, work.ops);
	ADD(errors, work.errors);
	ADD(requests, c.requests);
	ADD(metadata, c.metadata);
	ADD(metadata_reads, c.metadata_reads);
	ADD(client_requests, c.by_clients);
	ADD(client_metadata_reads, c.metadata_reads_by_clients);
	ADD(lost, c.lost);
	ADD(repeated, c.repeated);
	ADD(late, c.late);
	ADD(timeouts, c.timeouts);
	ADD(ahead, c.ahead);
	ADD(switches, sim_switches());
	ADD(virtual_us, sim_now());
	ADD(doubts, lin->doubts);
	ADD(undecided, lin->undecided);
	for (unsigned i = 0; i < FAULTS; i++)
		ADD(faults[i], fault_counts[i]);
#undef ADD
	totals->hash = sim_hash();
}

static void read_rows(struct node *n, const char *after)
{
	const uint64_t until = sim_now() + READY_US;
	unsigned failed = work_read_all(n, until);

	if (failed)
		check_state(n, 0);
	if (failed)
		sim_fail("%u of %u rows cannot be read %u s after %s", failed, work.rows, READY_US / 1000000, after);
	failed = work_change_all(n, until);
	if (failed)
		sim_fail("%u of %u rows cannot be changed %u s after %s", failed, work.rows, READY_US / 1000000, after);
}

/* One more fault, without any other beside it. */
static void kill_root_server(struct node *n)
{
	struct meta_tablet root = {0};
	struct buf b = {0};
	int err = lock_sync(n->locks);

	if (!err)
		err = lock_get(n->locks, "root", &b, NULL);
	if (!err)
		err = meta_root_decode(buf_bytes(&b), &root);
	for (unsigned i = 0; i < cluster.count && !err; i++)
		if (cluster.nodes[i]->role == SERVER && cluster.nodes[i]->incarnation == root.server &&
			node_alive(cluster.nodes[i]))
			proc_kill(cluster.nodes[i]->proc);
	meta_tablet_fini(&root);
	buf_fini(&b);
}

/* Sets the servers that serve; returns how many. */
static unsigned find_serving(struct node *serve[NODES_MOST])
{
	unsigned count = 0;

	sim_sleep(3000000); /* the dead servers are started */
	for (unsigned i = 0; i < cluster.count; i++)
		if (cluster.nodes[i]->role == SERVER && cluster.nodes[i]->serving &&
			cluster.nodes[i]->proc->paused_until <= sim_now() && !lock_sim_expired(cluster.nodes[i]->locks))
			serve[count++] = cluster.nodes[i];
	return count;
}

/* The storage hangs for one server, which ends then, or for all, of which none ends. */
static void hang_storage(struct node *n)
{
	struct node *serve[NODES_MOST];
	const unsigned count = find_serving(serve);

	if (count > 1 && sim_chance(2)) {
		disk_hang(serve[0]->proc, HANG_US);
		sim_sleep(GIVEN_UP_US);
		if (node_alive(serve[0]))
			sim_fail("%s holds its tablets although its storage hangs", serve[0]->proc->name);
		read_rows(n, "the end of a server whose storage hangs");
		return;
	}
	disk_hang(NULL, HANG_US);
	sim_sleep(HANG_US);
	for (unsigned i = 0; i < count; i++)
		if (!node_alive(serve[i]))
			sim_fail("%s ends although the storage hangs for all", serve[i]->proc->name);
	read_rows(n, "the storage hung for all");
}

/* ---- a server that cannot be reached ---- */

static void change_rows(struct node *n)
{
	while (!n->arg)
		(void)work_change_all(n, sim_now() + 1000000);
}

/* When the server is removed, it does not learn this before its lease is over. */
static void hide_removal(void *arg)
{
	struct node *s = arg, *n = proc_self()->data;
	char file[40];

	snprintf(file, sizeof(file), "servers/%llu", (unsigned long long)s->incarnation);
	while (node_alive(s) && (lock_sync(n->locks) || lock_get(n->locks, file, NULL, NULL) != -ENOENT))
		sim_sleep(10000);
	lock_sim_cut(s->locks, 4000000);
}

/*
 * A server is cut off from the masters: it stays.  Or it is cut off from all processes but a client: it is removed.
 * Meanwhile this client reads all rows, and a second client changes them.
 */
static void cut_server(struct node *n)
{
	struct node *serve[NODES_MOST], *s, *writer;
	const unsigned count = find_serving(serve);
	uint64_t until;

	if (count < 2)
		return;
	s = serve[sim_random(count)];
	if (sim_chance(2)) {
		for (unsigned i = 0; i < cluster.count; i++)
			if (cluster.nodes[i]->role == MASTER && node_alive(cluster.nodes[i]))
				net_cut(s->proc, cluster.nodes[i]->proc, CUT_US);
		sim_sleep(REMOVED_US);
		if (!node_alive(s))
			sim_fail("%s is removed although other servers reach it", s->proc->name);
		read_rows(n, "a server was cut off from the masters");
		return;
	}
	net_cut_but(s->proc, n->proc, CUT_US);
	s->unreachable = true;
	writer = client_node(n->number + 4, change_rows, NULL);
	if (!sim_chance(4))
		sim_spawn(n->proc, 0, hide_removal, s);
	until = sim_now() + REMOVED_US;
	while (sim_now() < until) {
		if (work_read_all(n, sim_now() + READY_US))
			sim_fail("a row cannot be read although %s reaches its server", n->proc->name);
		sim_sleep(50000);
	}
	writer->arg = n;
	while (!writer->done)
		sim_sleep(100000);
	if (node_alive(s))
		sim_fail("%s is not removed although only a client reaches it", s->proc->name);
	read_rows(n, "the removal of a server");
}

/* ---- a release whose answer is late ---- */

/* In the process of a master: moves tablets until a release has been sent to another server. */
static void move_until_released(void *arg)
{
	struct node *m = proc_self()->data;

	(void)arg;
	for (unsigned i = 0; i < 50 && cluster.lost_release_us; i++) {
		const struct node *to = node_find(SERVER, 1 + (unsigned)sim_random(4));
		char row[16];

		sim_sleep(300000); /* clients read where the tablets are */
		snprintf(row, sizeof(row), "row%02u", (unsigned)sim_random(10));
		if (to && to->serving)
			(void)!master_move(m->master, META_FIRST_USER_TABLE, tfs_str(row), to->incarnation);
	}
	cluster.lost_release_us = 0;
}

/*
 * A server waits for the answer of a release, which has taken place, and the master gives the tablet to another
 * server.  Meanwhile this client reads all rows, and a new client, which finds the new server, changes them.
 */
static void lose_release(struct node *n)
{
	struct node *serve[NODES_MOST], *m = NULL, *writer = NULL;
	uint64_t until, released_us = 0;

	if (find_serving(serve) < 2)
		return;
	for (unsigned i = 0; i < cluster.count; i++)
		if (cluster.nodes[i]->role == MASTER && cluster.nodes[i]->serving)
			m = cluster.nodes[i];
	if (!m)
		return;
	if (work_read_all(n, sim_now() + READY_US))
		sim_fail("a row cannot be read");
	cluster.lost_release_us = LOST_RELEASE_US;
	sim_spawn(m->proc, 0, move_until_released, NULL);
	until = sim_now() + 2 * LOST_RELEASE_US;
	while (sim_now() < until) {
		if (!released_us && !cluster.lost_release_us) {
			released_us = sim_now();
			until = released_us + LOST_RELEASE_US;
		}
		if (!writer && released_us && sim_now() > released_us + ASSIGNED_US)
			writer = client_node(n->number + 4, change_rows, NULL);
		if (work_read_all(n, sim_now() + READY_US))
			sim_fail("a row cannot be read although another server has its tablet");
		sim_sleep(50000);
	}
	if (writer) {
		writer->arg = n;
		while (!writer->done)
			sim_sleep(100000);
	}
	read_rows(n, "a late answer of a release");
}

static void final_reader(struct node *n)
{
	read_rows(n, "the last fault");
	if (!cluster.sole) {
		kill_root_server(n);
		read_rows(n, "the death of the root tablet's server");
	}
	work.last_row_read = true;
	while (work.running)
		sim_sleep(100000);
	if (!cluster.sole && sim_chance(3))
		hang_storage(n);
	else if (!cluster.sole && sim_chance(3))
		cut_server(n);
	else if (!cluster.sole)
		lose_release(n);
	check_state(n, sim_now() + SOUND_US);
}

/* So few that queues become full. */
static const struct dispatch_limits few_workers[DISPATCH_CLASSES] = {[DISPATCH_CONTROL] = {1, 8},
	[DISPATCH_SORT] = {1, 4},
	[DISPATCH_ROOT] = {2, 4},
	[DISPATCH_METADATA] = {2, 4},
	[DISPATCH_TABLETS] = {1, 4},
	[DISPATCH_USER] = {2, 4}};

static void simulate(void *arg)
{
	struct lin_totals lin = {0};
	static struct plan plan;
	struct node *n;
	char text[PLAN_TEXT];
	size_t bad;

	(void)arg;
	plan_draw(&plan);
	plan_print(&plan, text);
	sim_trace("%s", text);
	sim_preempt(plan.preempt);
	work.record = lin_record_new();
	lin_record_limit(work.record, LIN_STEPS);
	work.rows = plan.rows;
	work.moves = plan.moves;
	work.doubts_last = plan.disk || plan.repeat;
	work.groups = plan.groups;
	work.salted = plan.salted;
	work.slow = plan.slow;
	work.pause_us = plan.busy ? 5000 : 20000 << sim_random(6);
	cluster.sole = plan.sole;
	cluster.moves = plan.moves;
	cluster.patience_us = plan.patience_us;
	cluster.blind = plan.blind;
	cluster.busy = plan.busy;
	disk_set_sync(plan.busy && sim_chance(2) ? 20000 : 500);
	cluster.memtable_bytes = sim_chance(2) ? 64 << 10 : 2 << 10;
	cluster.limits = sim_chance(2) ? few_workers : NULL;
	cluster_new("store");
	for (unsigned i = 1; i <= plan.servers; i++)
		server_node(i);
	for (unsigned i = 1; i <= plan.masters; i++)
		master_node(i);
	client_node(0, work_table, NULL);
	for (unsigned i = 1; i <= plan.clients; i++)
		client_node(i, work_run, NULL);
	if (plan.tables)
		client_node(plan.clients + 2, work_tables, NULL);
	while (!work.table_made)
		sim_sleep(100000);
	cluster.late_edits = plan.edits ? 3 : 0;
	cluster.holds = plan.patience_us < 30000000;
	faults_run(&plan);
	work.stop = true;
	cluster.moves = 0;
	while (work.running)
		sim_sleep(100000);
	if (!plan.sole && sim_chance(4)) {
		cluster.last_block = true;
		n = client_node(plan.clients + 4, work_last_block, NULL);
		while (!n->done || sim_now() < cluster.last_block_us + 1000000)
			sim_sleep(100000);
	}
	if (sim_chance(2))
		client_node(plan.clients + 3, work_table_again, NULL);
	n = client_node(plan.clients + 1, final_reader, NULL);
	while (!n->done)
		sim_sleep(10000);
	bad = work_check(&lin);
	add_totals(&lin);
	if (bad)
		sim_fail("%zu rows have no order of their operations", bad);
}

/* ---- one seed, in a child ---- */

static void remove_dir(const char *path)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -rf %s", path);
	if (system(command))
		fprintf(stderr, "%s failed\n", command);
}

static void child(uint64_t number)
{
	char path[64];

	seed = number;
	snprintf(path, sizeof(path), "/dev/shm/tabletfs-sim.%08d", (int)getpid());
	/* A relative path, because messages with it are part of the hash. */
	if (access(path, F_OK) == 0) /* a process that had this number has left it */
		remove_dir(path);
	if (mkdir(path, 0700) || chdir(path))
		sim_fail("%s: %s", path, strerror(errno));
	for (unsigned i = 0; i < verbose; i++)
		sim_trace_to_stderr();
	if (verbose > 2)
		msg_set_level(MSG_INFO);
	else
		msg_to_nowhere();
	sim_run(seed, simulate, NULL);
}

static pid_t start(uint64_t number)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		child(number);
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	return pid;
}

static void print_totals(unsigned failed, double seconds)
{
	const struct totals *t = totals;
	double ops = t->ops ? (double)t->ops : 1;

	printf("%llu seeds, %u failed, %.1f s, %.0f seeds a minute; %.1f virtual s and %.0f switches a seed\n",
		(unsigned long long)t->seeds, failed, seconds, (double)t->seeds * 60 / seconds,
		(double)t->virtual_us / 1e6 / (double)(t->seeds ? t->seeds : 1),
		(double)t->switches / (double)(t->seeds ? t->seeds : 1));
	printf("%llu operations, %.2f %% errors, %llu in doubt, %llu rows undecided\n", (unsigned long long)t->ops,
		100 * (double)t->errors / ops, (unsigned long long)t->doubts, (unsigned long long)t->undecided);
	printf("per operation: %.2f requests of all, %.2f of clients, %.2f for METADATA, %.3f reads of METADATA by clients\n",
		(double)t->requests / ops, (double)t->client_requests / ops, (double)t->metadata / ops,
		(double)t->client_metadata_reads / ops);
	printf("messages: %llu lost, %llu repeated, %llu late; %llu time limits; %llu sent ahead\n", (unsigned long long)t->lost,
		(unsigned long long)t->repeated, (unsigned long long)t->late, (unsigned long long)t->timeouts,
		(unsigned long long)t->ahead);
	printf("faults:");
	for (unsigned i = 0; i < FAULTS && fault_names[i]; i++)
		printf(" %llu %s%s", (unsigned long long)t->faults[i], fault_names[i],
			i + 1 < FAULTS && fault_names[i + 1] ? "," : "\n");
}

static double now(void)
{
	struct timespec ts;

	timespec_get(&ts, TIME_UTC);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int run_many(uint64_t first, uint64_t count, bool one_by_one)
{
	enum { JOBS_MOST = 64 };
	struct {
		pid_t pid;
		uint64_t seed;
	} jobs[JOBS_MOST] = {0};
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t next = first, running = 0;
	unsigned failed = 0;
	double since = now();

	if (cores < 1 || one_by_one)
		cores = 1;
	else if (cores > JOBS_MOST)
		cores = JOBS_MOST;
	while ((next < first + count && !(one_by_one && failed)) || running) {
		int status;
		pid_t pid;

		for (long i = 0; i < cores; i++)
			if (!jobs[i].pid && next < first + count) {
				jobs[i].seed = next++;
				jobs[i].pid = start(jobs[i].seed);
				running++;
			}
		pid = wait(&status);
		for (long i = 0; i < cores; i++) {
			char path[64];

			if (jobs[i].pid != pid)
				continue;
			jobs[i].pid = 0;
			running--;
			snprintf(path, sizeof(path), "/dev/shm/tabletfs-sim.%08d", (int)pid);
			remove_dir(path);
			if (status) {
				failed++;
				printf("seed %llu failed (%s)\n", (unsigned long long)jobs[i].seed,
					WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit");
			}
		}
	}
	print_totals(failed, now() - since);
	return failed ? 1 : 0;
}

/*
 * Memtables derive random heights from their addresses.  So addresses must be the
 * same in each run: not random, and from one arena.
 */
static void fix_addresses(char **argv)
{
	int now = personality(UINT32_MAX);

	if (now >= 0 && !(now & ADDR_NO_RANDOMIZE) && personality((unsigned)now | ADDR_NO_RANDOMIZE) >= 0)
		execv("/proc/self/exe", argv);
	mallopt(M_ARENA_MAX, 1);
	setvbuf(stdout, out_buffer, _IOLBF, sizeof(out_buffer));
}

int main(int argc, char **argv)
{
	fix_addresses(argv);
	if (argc > 2 && strcmp(argv[1], "-p") == 0) {
		if (!plant(argv[2])) {
			fprintf(stderr, "sim: no such bug: %s\n", argv[2]);
			return 2;
		}
		argc -= 2;
		argv += 2;
	}
	totals = mmap(NULL, sizeof(*totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (argc > 2 && (strcmp(argv[1], "-n") == 0 || strcmp(argv[1], "-f") == 0))
		return run_many(argc > 3 ? strtoull(argv[3], NULL, 0) : 1, strtoull(argv[2], NULL, 0), argv[1][1] == 'f');
	if (argc < 2) {
		fprintf(stderr, "usage: sim [-p BUG] SEED [-v|-vv|-vvv] | sim [-p BUG] -n|-f COUNT [FIRST]\n");
		return 2;
	}
	verbose = argc <= 2                    ? 0
		: strcmp(argv[2], "-v") == 0   ? 1
		: strcmp(argv[2], "-vv") == 0  ? 2
		: strcmp(argv[2], "-vvv") == 0 ? 3
					       : 0;
	{
		char path[64];
		uint64_t number = strtoull(argv[1], NULL, 0);
		pid_t pid = start(number);
		int status;

		if (waitpid(pid, &status, 0) != pid)
			return 1;
		snprintf(path, sizeof(path), "/dev/shm/tabletfs-sim.%08d", (int)pid);
		remove_dir(path);
		printf("seed %llu: %s, hash %016llx\n", (unsigned long long)number, status ? "failed" : "passed",
			(unsigned long long)totals->hash);
		print_totals(status != 0, 1);
		return status ? 1 : 0;
	}
}
