/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recovered SOURCE LOG PID SERVERS MIB COMMAND: the last MIB of 64 tablets are in the log of a cluster's only server, whose
 * process is PID.  COMMAND adds SERVERS servers and prints a line "NAME ADDRESS
 * PROCESS" for each.  Then the process PID is stopped, and this program measures the time from the end of its session until a row of each tablet has been read, beside the time of reading the files of the log's directory LOG from cold.
 *
 * After it come the benchmarks of the paper's section 7 with as many clients as servers: values of 1000 bytes, operations a second
 * of all servers, and the processor time of an operation in this process and in the servers.  Writes are sent in batches, as the
 * paper's are.
 */
#include "engine/base/clock.h"
#include "engine/tabletfs.h"
#include "t/bench/spent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TABLETS 64u
#define BYTES 1000u
#define PART_US 5000000u /* the time of each benchmark */
#define KEY_MAX 32
#define CLIENTS_MAX 16u
#define PID_MAX 16

static struct tfs_store *store;
static struct tfs_table *table;
static unsigned rows;                   /* the rows of each tablet */
static char pids[CLIENTS_MAX][PID_MAX]; /* the process numbers of the servers that were added */

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "recovered: %s: %s\n", what, strerror(err < 0 ? -err : err));
	exit(1);
}

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 16;
}

static struct tfs_bytes key(char text[KEY_MAX], uint64_t i)
{
	return tfs_bytes_of(text, (size_t)snprintf(text, KEY_MAX, "%02u/%08u", (unsigned)(i / rows), (unsigned)(i % rows)));
}

static void add(struct tfs_batch *b, uint64_t i, uint64_t *seed)
{
	char text[KEY_MAX], value[BYTES];
	struct tfs_mutation *m = tfs_mutation_new(table, key(text, i));

	for (unsigned k = 0; k < BYTES; k += 8) {
		const uint64_t x = next(seed);

		memcpy(value + k, &x, 8);
	}
	must(m ? 0 : ENOMEM, "mutation");
	must(tfs_mutation_put(m, "f", TFS_S("q"), TFS_AUTO, tfs_bytes_of(value, BYTES)), "put");
	must(tfs_batch_add(b, m), "batch");
	tfs_mutation_free(m);
}

static void open_at(const char *source)
{
	char *why = NULL;

	must(tfs_open(source, NULL, &store, &why), source);
}

static void fill(void)
{
	struct tfs_batch *b;
	uint64_t seed = 1;
	char *why = NULL;

	must(tfs_table_create(store, "bench", geteuid(), getegid(), 0755), "create");
	must(tfs_table_open(store, "bench", &table), "open");
	must(tfs_schema_set_text(table, TFS_S("families = ( { name = \"f\"; } );"), 0, &why), "schema");
	for (unsigned i = 1; i < TABLETS; i++) {
		char row[8];

		must(tfs_split(table, tfs_bytes_of(row, (size_t)snprintf(row, sizeof(row), "%02u", i))), "split");
	}
	/* The log may be as large as the SSTables, so these come first. */
	for (unsigned round = 0; round < 3; round++) {
		must(tfs_batch_new(table, NULL, &b), "batch");
		for (unsigned r = 0; r < rows; r++)
			for (unsigned i = 0; i < TABLETS; i++)
				add(b, (uint64_t)i * rows + r, &seed);
		must(tfs_batch_close(b), "batch");
		if (round < 2)
			must(tfs_flush(table), "flush");
	}
}

/* ---- the rival ---- */

static void forget_pages(void)
{
	int fd;

	sync();
	fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
	must(fd < 0 || write(fd, "3", 1) != 1 ? errno : 0, "/proc/sys/vm/drop_caches");
	close(fd);
}

static double read_log(const char *log, uint64_t *bytes)
{
	static char piece[1 << 20];
	const uint64_t begun = monotonic_us();
	DIR *d = opendir(log);
	struct dirent *e;
	ssize_t n;

	must(d ? 0 : errno, log);
	*bytes = 0;
	while ((e = readdir(d))) {
		const int fd = *e->d_name == '.' ? -1 : openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC);

		while (fd >= 0 && (n = read(fd, piece, sizeof(piece))) > 0)
			*bytes += (uint64_t)n;
		if (fd >= 0)
			close(fd);
	}
	closedir(d);
	return (double)(monotonic_us() - begun) / 1e6;
}

/* ---- recovery ---- */

static uint64_t first; /* incarnation */

static int note(void *arg, const struct tfs_server *s)
{
	if (arg)
		*(bool *)arg |= s->incarnation == first;
	else if (s->incarnation && (!first || s->incarnation < first))
		first = s->incarnation;
	return 0;
}

static double recover(pid_t pid)
{
	struct tfs_info info;
	char text[KEY_MAX];
	uint64_t begun;
	bool there;

	must(kill(pid, SIGSTOP) ? errno : 0, "stop");
	do {
		int err;

		there = false;
		usleep(10000);
		err = tfs_servers(store, note, &there);
		there = there || err;
	} while (there);
	begun = monotonic_us();
	for (unsigned i = 0; i < TABLETS; i++)
		must(tfs_stat(table, key(text, (uint64_t)(i + 1) * rows - 1), "f", TFS_S("q"), TFS_AUTO, &info), "read");
	return (double)(monotonic_us() - begun) / 1e6;
}

static int count_serving(void *arg, const struct tfs_server *s)
{
	*(unsigned *)arg += strcmp(s->state, "SERVING") == 0;
	return 0;
}

/* Runs the command, and when all serve, asks from then on the last server that it has added. */
static void add_servers(const char *command, unsigned servers)
{
	unsigned serving = 0, added = 0;
	char line[256], address[128] = "", source[160];
	FILE *f = popen(command, "re"); /* NOLINT(cert-env33-c): the caller's own command */

	must(f ? 0 : errno, command);
	while (added < servers && fgets(line, sizeof(line), f))
		must(sscanf(line, "%*s %127s %15s", address, pids[added++]) == 2 ? 0 : EBADMSG, line);
	must(pclose(f) || added < servers ? ECHILD : 0, command);
	while (serving <= servers) {
		serving = 0;
		usleep(100000);
		must(tfs_servers(store, count_serving, &serving), "servers");
	}
	tfs_table_close(table);
	must(tfs_close(store), "close");
	snprintf(source, sizeof(source), "tls://%s", address);
	open_at(source);
	must(tfs_table_open(store, "bench", &table), "open");
}

/* ---- section 7 ---- */

enum part { RANDOM_READS, RANDOM_WRITES, SEQUENTIAL_READS, SEQUENTIAL_WRITES, SCANS, PARTS };
static const char *const names[PARTS] = {"random reads", "random writes", "sequential reads", "sequential writes", "scans"};
struct one_client {
	pthread_t thread;
	enum part part;
	unsigned number, of;
	uint64_t done;
};

static void *run_client(void *arg)
{
	struct one_client *c = arg;
	const uint64_t all = (uint64_t)TABLETS * rows, until = monotonic_us() + PART_US;
	const bool random = c->part == RANDOM_READS || c->part == RANDOM_WRITES;
	uint64_t at = all / c->of * c->number, seed = c->number + 1;
	char text[KEY_MAX], value[BYTES];
	struct tfs_batch *b = NULL;
	struct tfs_scan *scan = NULL;
	struct tfs_cell cell;
	size_t got;
	int n;

	if (c->part == RANDOM_WRITES || c->part == SEQUENTIAL_WRITES)
		must(tfs_batch_new(table, NULL, &b), "batch");
	while (monotonic_us() < until) {
		const uint64_t i = random ? next(&seed) % all : at;

		if (b) {
			add(b, i, &seed);
		} else if (c->part == SCANS) {
			if (!scan)
				must(tfs_scan_new(table, &(struct tfs_scan_spec){.row_from = key(text, at), .versions = 1}, &scan),
					"scan");
			n = tfs_scan_next(scan, &cell);
			must(n < 0 ? n : 0, "scan");
			if (!n) {
				tfs_scan_free(scan);
				scan = NULL;
				at = 0;
			}
		} else {
			must(tfs_read(table, key(text, i), "f", TFS_S("q"), TFS_AUTO, 0, value, BYTES, &got, NULL), "read");
		}
		c->done++;
		if (c->part != SCANS && ++at == all)
			at = 0;
	}
	tfs_scan_free(scan);
	if (b)
		must(tfs_batch_close(b), "batch");
	return NULL;
}

static double spent_by_servers(unsigned servers)
{
	double s = 0;

	for (unsigned i = 0; i < servers; i++)
		s += spent_by(pids[i]);
	return s;
}

static void section7(unsigned servers)
{
	struct one_client c[CLIENTS_MAX];

	for (enum part part = 0; part < PARTS; part++) {
		const uint64_t begun = monotonic_us();
		double here = spent_here(), there = spent_by_servers(servers);
		uint64_t done = 0;

		for (unsigned i = 0; i < servers; i++) {
			c[i] = (struct one_client){.part = part, .number = i, .of = servers};
			must(pthread_create(&c[i].thread, NULL, run_client, &c[i]), "thread");
		}
		for (unsigned i = 0; i < servers; i++) {
			pthread_join(c[i].thread, NULL);
			done += c[i].done;
		}
		here = spent_here() - here;
		there = spent_by_servers(servers) - there;
		printf("  %-18s %9.0f/s  %6.1f us here, %6.1f us in the servers\n", names[part],
			(double)done * 1e6 / (double)(monotonic_us() - begun), here * 1e6 / (double)done,
			there * 1e6 / (double)done);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	unsigned servers, mib;
	double cold, took;
	uint64_t bytes;

	if (argc != 7)
		must(EINVAL, "usage: recovered SOURCE LOG PID SERVERS MIB COMMAND");
	servers = (unsigned)atoi(argv[4]);
	mib = (unsigned)atoi(argv[5]);
	rows = (unsigned)(((uint64_t)mib << 20) / BYTES / TABLETS);
	must(!servers || servers > CLIENTS_MAX || !rows ? EINVAL : 0, "SERVERS, MIB");
	open_at(argv[1]);
	fill();
	must(tfs_servers(store, note, NULL), "servers");
	forget_pages();
	cold = read_log(argv[2], &bytes);
	add_servers(argv[6], servers);
	forget_pages();
	took = recover((pid_t)atoi(argv[3]));
	printf("%u server%s: %.0f MiB of log served again in %.2f s; read from cold in %.2f s: %.1f times\n", servers,
		servers == 1 ? "" : "s", (double)bytes / 1048576, took, cold, took / cold);
	fflush(stdout);
	/* So that no compaction runs beside the reads. */
	must(tfs_flush(table), "flush");
	must(tfs_compact(table), "compact");
	section7(servers);
	tfs_table_close(table);
	return tfs_close(store) ? 1 : 0;
}
