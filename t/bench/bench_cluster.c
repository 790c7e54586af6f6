/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several servers in one process, over one directory:
 *
 *	bench_cluster DIR [MIB]
 *
 * Prints the time from the loss of a server to the service of its 64 tablets, whose
 * last MIB (384) are in its log only, by 1, 2 and 4 other servers; and the
 * longest wait of a writer whose tablet moves.  All servers share the processors
 * and the disk of this machine.  So it prints the processor time of the recovery, too.
 */
#include "t/lib/cluster.h"
#include "t/lib/store.h"

#include "engine/base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>

#define TABLETS 64u
#define VALUE_BYTES 1024u

static struct cluster c;
static struct tfs_table *table;

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "bench_cluster: %s: %s\n", what, strerror(-err));
	exit(1);
}

static struct tfs_bytes row_name(unsigned tablet, unsigned row)
{
	static char name[32];
	const int n = snprintf(name, sizeof(name), "%02u/%08u", tablet, row);

	return tfs_bytes_of(name, (size_t)n);
}

static void start(const char *dir, unsigned servers, bool sync)
{
	const struct server_options o = {.data_dir = dir,
		.block_cache_bytes = 64u << 20,
		.memtable_bytes = (size_t)4 << 30,
		.table_cache_bytes = 64u << 20,
		.log_segment_bytes = 64u << 20,
		.sync_interval_us = 1000000,
		.compaction_threads = 1,
		.major_within_us = UINT64_C(86400000000),
		.sync = sync,
		.no_background = true};
	char cmd[4200];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	must(system(cmd), "rm");
	must(cluster_open(&c, &o, servers), "cluster");
	must(store_table_make(c.store, "t", "f", &table), "table");
}

static void end(void)
{
	tfs_table_close(table);
	cluster_free(&c);
}

static double processor_s(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void failover(const char *dir, unsigned servers, unsigned mib)
{
	char value[VALUE_BYTES];
	const unsigned rows = (unsigned)(((uint64_t)mib << 20) / VALUE_BYTES / TABLETS);
	struct tfs_info info;
	uint64_t from, took, seed = 1;
	double cpu;

	start(dir, 1, false);
	for (unsigned i = 1; i < TABLETS; i++)
		must(tfs_split(table, row_name(i, 0)), "split");
	for (unsigned r = 0; r < rows; r++) {
		for (unsigned i = 0; i < TABLETS; i++) {
			for (unsigned k = 0; k < VALUE_BYTES; k += 8) {
				seed = seed * 6364136223846793005u + 1442695040888963407u;
				memcpy(value + k, &seed, 8);
			}
			must(store_put(table, row_name(i, r), "f", TFS_S("q"), TFS_AUTO, tfs_bytes_of(value, sizeof(value)), 0),
				"put");
		}
	}
	must(tfs_sync(c.store), "sync");
	for (unsigned i = 0; i < servers; i++)
		must(cluster_add(&c), "server");
	cluster_kill(&c, 0);
	from = monotonic_us();
	cpu = processor_s();
	must(master_tick(c.master), "recovery");
	took = monotonic_us() - from;
	cpu = processor_s() - cpu;
	for (unsigned i = 0; i < TABLETS; i++)
		must(tfs_stat(table, row_name(i, rows - 1), "f", TFS_S("q"), TFS_AUTO, &info), "read");
	printf("%u MiB of log, %u tablets, %u servers: %.2f s, processors %.2f s\n", mib, TABLETS, servers, (double)took / 1e6,
		cpu);
	fflush(stdout);
	end();
}

static _Atomic bool stop;
static _Atomic uint64_t longest, writes;

static void *write_on(void *arg)
{
	(void)arg;
	while (!stop) {
		const uint64_t from = monotonic_us();
		uint64_t took;

		must(store_put(table, row_name(0, 0), "f", TFS_S("q"), TFS_AUTO, TFS_S("value"), 0), "put");
		took = monotonic_us() - from;
		if (took > longest)
			longest = took;
		writes++;
	}
	return NULL;
}

static void moves(const char *dir)
{
	enum { MOVES = 100 };
	pthread_t thread;

	start(dir, 2, true);
	for (unsigned r = 0; r < 10000; r++)
		must(store_put(table, row_name(1, r), "f", TFS_S("q"), TFS_AUTO, TFS_S("value"), 0), "put");
	must(-pthread_create(&thread, NULL, write_on, NULL), "thread");
	for (unsigned i = 0; i < MOVES; i++) {
		const uint64_t before = writes;

		must(master_move(c.master, tfs_table_id(table), tfs_str("00"), c.servers[i % 2].incarnation), "move");
		while (writes < before + 20)
			;
	}
	stop = true;
	pthread_join(thread, NULL);
	printf("%u moves, %llu writes meanwhile: the longest took %.1f ms\n", MOVES, (unsigned long long)writes,
		(double)longest / 1e3);
	end();
}

int main(int argc, char **argv)
{
	const unsigned mib = argc > 2 ? (unsigned)atoi(argv[2]) : 384;
	static const unsigned servers[] = {1, 2, 4};
	char dir[4096];

	if (argc < 2 || !mib) {
		fprintf(stderr, "usage: bench_cluster DIR [MIB]\n");
		return 2;
	}
	snprintf(dir, sizeof(dir), "%s/bench_cluster", argv[1]);
	for (unsigned i = 0; i < 3; i++)
		failover(dir, servers[i], mib);
	moves(dir);
	snprintf(dir, sizeof(dir), "rm -rf '%s/bench_cluster'", argv[1]);
	return system(dir) != 0;
}
