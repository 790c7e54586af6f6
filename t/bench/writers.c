/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writers SOURCE DIR PID...: synced mutations of 1 KiB to a cluster, by one writer and by 32, in turns with a loop of append,
 * fdatasync and stat of the directory in DIR, which is on the cluster's file system.  Prints the medians of five
 * rounds, their ratios, the processor time of an operation in this process and the servers PID, and the look-ups in METADATA.
 */
#include "engine/base/clock.h"
#include "engine/tabletfs.h"
#include "t/bench/spent.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROUNDS 5
#define ONE 400u  /* mutations of one writer in a round */
#define MANY 32u  /* writers */
#define EACH 200u /* mutations of each of them */
#define TABLETS 64u
#define BYTES 1024

static struct tfs_table *table;
static char value[BYTES];
static char **pids;
static int pid_count;

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "writers: %s: %s\n", what, strerror(err < 0 ? -err : err));
	exit(1);
}

static double cpu_s(void)
{
	double s = spent_here();

	for (int i = 0; i < pid_count; i++)
		s += spent_by(pids[i]);
	return s;
}

static void put(unsigned writer, unsigned i)
{
	char row[32];
	struct tfs_mutation *m;
	const int n = snprintf(row, sizeof(row), "%02u/%u.%u", (writer * 7 + i) % TABLETS, writer, i);

	m = tfs_mutation_new(table, tfs_bytes_of(row, (size_t)n));
	must(m ? 0 : ENOMEM, "mutation");
	must(tfs_mutation_put(m, "f", TFS_S("q"), TFS_AUTO, tfs_bytes_of(value, BYTES)), "put");
	must(tfs_apply(m, 0, NULL), "apply");
	tfs_mutation_free(m);
}

static void *writer(void *arg)
{
	for (unsigned i = 0; i < EACH; i++)
		put((unsigned)(uintptr_t)arg, i);
	return NULL;
}

/* Operations a second. */
static double one(void)
{
	const uint64_t begun = monotonic_us();

	for (unsigned i = 0; i < ONE; i++)
		put(99, i);
	return ONE * 1e6 / (double)(monotonic_us() - begun);
}

static double many(void)
{
	const uint64_t begun = monotonic_us();
	pthread_t t[MANY];

	for (unsigned i = 0; i < MANY; i++)
		must(pthread_create(&t[i], NULL, writer, (void *)(uintptr_t)i), "thread");
	for (unsigned i = 0; i < MANY; i++)
		pthread_join(t[i], NULL);
	return MANY * EACH * 1e6 / (double)(monotonic_us() - begun);
}

static double rival(const char *dir)
{
	const uint64_t begun = monotonic_us();
	char path[4096];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/rival", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_TRUNC | O_CLOEXEC, 0600);
	must(fd < 0 ? errno : 0, path);
	for (unsigned i = 0; i < ONE; i++)
		must(write(fd, value, BYTES) != BYTES || fdatasync(fd) || stat(dir, &st) ? EIO : 0, path);
	close(fd);
	(void)unlink(path);
	return ONE * 1e6 / (double)(monotonic_us() - begun);
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), compare);
	return v[ROUNDS / 2];
}

static double location_reads(struct tfs_store *s)
{
	char *text = NULL, *at;
	double n = 0;

	if (tfs_metrics(s, &text) == 0) {
		at = strstr(text, "\ntabletfs_location_reads_total ");
		n = at ? strtod(strrchr(strtok(at + 1, "\n"), ' '), NULL) : 0;
	}
	free(text);
	return n;
}

int main(int argc, char **argv)
{
	double r[ROUNDS], o[ROUNDS], m[ROUNDS], cpu = 0, reads, rival_s, one_s, many_s;
	struct tfs_store *s;
	char *why = NULL;
	int err;

	if (argc < 3)
		must(EINVAL, "usage: writers SOURCE DIR PID...");
	pids = argv + 3;
	pid_count = argc - 3;
	err = tfs_open(argv[1], NULL, &s, &why);
	must(err, why ? why : argv[1]);
	err = tfs_table_create(s, "bench", geteuid(), getegid(), 0755);
	must(err == -EEXIST ? 0 : err, "create");
	must(tfs_table_open(s, "bench", &table), "open");
	err = tfs_schema_set_text(table, TFS_S("families = ( { name = \"f\"; } );"), 0, &why);
	if (err)
		fprintf(stderr, "%s\n", why ? why : "");
	must(err, "schema");
	for (unsigned i = 1; i < TABLETS; i++) {
		char row[8];
		const int n = snprintf(row, sizeof(row), "%02u", i);

		err = tfs_split(table, tfs_bytes_of(row, (size_t)n));
		must(err == -EEXIST ? 0 : err, "split");
	}
	if (getenv("BALANCE"))
		sleep((unsigned)atoi(getenv("BALANCE")));
	(void)one();
	(void)many();
	reads = location_reads(s);
	for (unsigned i = 0; i < ROUNDS; i++) {
		double before;

		r[i] = rival(argv[2]);
		o[i] = one();
		before = cpu_s();
		m[i] = many();
		cpu += cpu_s() - before;
	}
	reads = location_reads(s) - reads;
	rival_s = median(r);
	one_s = median(o);
	many_s = median(m);
	printf("append, fdatasync, stat  %8.0f/s\n", rival_s);
	printf("one writer               %8.0f/s  %.2f of the loop\n", one_s, one_s / rival_s);
	printf("%u writers               %8.0f/s  %.1f of one writer; %.1f us of processor an operation\n", MANY, many_s,
		many_s / one_s, cpu * 1e6 / (ROUNDS * MANY * EACH));
	printf("look-ups in METADATA     %.0f in %u operations\n", reads, ROUNDS * (ONE + MANY * EACH));
	tfs_table_close(table);
	return tfs_close(s) ? 1 : 0;
}
