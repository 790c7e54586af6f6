/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a start.
 *
 *	bench_recover replay [DIR [MB [TABLETS [VALUE_BYTES]]]]
 *		a process writes MB of log (256) in TABLETS tablets (64), rows at
 *		random, and is killed; then the store is opened.  Beside it: the
 *		same log read and checked by one thread that does nothing else.
 *	bench_recover open [DIR [TABLETS]]
 *		a table of TABLETS tablets (1000), each with an SSTable of its own:
 *		opened and closed with nothing unflushed, with a cell in each
 *		memtable, and with the cells in the log.
 *
 * Tablets are made by rows put into METADATA.  DIR (/tmp/bench_recover) is
 * removed before, and after unless KEEP is set.
 */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/client/metadata.h"
#include "engine/meta/meta.h"
#include "t/lib/open_hooks.h"
#include "engine/server/server.h"
#include "engine/log/log.h"
#include "t/bench/bench.h"
#include "t/lib/file_faults.h"
#include "t/lib/xorshift.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *dir = "/tmp/bench_recover";
static struct tfs_options options;
static struct open_hooks hooks;
static struct tfs_store *store;
static struct tfs_table *table;

static uint64_t state = 88172645463325252u;
static uint64_t rnd(void)
{
	return xorshift(&state);
}

struct took {
	double wall_s, cpu_s;
};

static struct took now(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (struct took){(double)monotonic_us() / 1e6,
		(double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6};
}

static struct took since(struct took t)
{
	struct took n = now();

	return (struct took){n.wall_s - t.wall_s, n.cpu_s - t.cpu_s};
}

/* Returns the line `what` of /proc/self/status in MiB. */
static double memory_mib(const char *what)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[200];
	double kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, what, strlen(what)) == 0)
			kib = strtod(line + strlen(what) + 1, NULL);
	if (f)
		fclose(f);
	return kib / 1024;
}

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static struct took open_it(void)
{
	struct took from = now();
	char *why = NULL;
	int err = tfs_open_hooked(dir, &options, &hooks, &store, &why);

	if (err) {
		fprintf(stderr, "%s\n", why);
		exit(1);
	}
	return since(from);
}

static struct took close_it(void)
{
	struct took from = now();

	OK(tfs_close(store));
	return since(from);
}

/* The first `tablets` - 1 end at the row keys 1, 2, ...; all are without files.  The store is reopened. */
static void make_tablets(unsigned tablets)
{
	struct tfs_schema_edit add = {.op = TFS_SCHEMA_FAMILY_ADD, .name = "f", .mode = 0644};
	struct tablet_service *svc;
	uint64_t incarnation;
	struct server_load load;

	(void)!open_it().wall_s;
	OK(tfs_table_create(store, "t", 0, 0, 0755));
	OK(tfs_table_open(store, "t", &table));
	OK(tfs_schema_change(table, &add, NULL));
	svc = server_service(hooks.server);
	OK(server_get_load(hooks.server, &load));
	incarnation = load.incarnation;
	for (unsigned i = 1; i < tablets; i++) {
		struct meta_tablet m = {.table = tfs_table_id(table), .server = incarnation};
		struct arena arena = {0};
		struct buf key = {0};
		struct op *ops;
		unsigned count;
		char end[16];

		snprintf(end, sizeof(end), "%05u", i);
		OK(buf_set(&m.end, end, strlen(end)));
		OK(meta_row_key(&key, m.table, false, tfs_str(end)));
		OK(meta_ops_new(&m, &arena, &ops, &count));
		OK(metadata_mutate(svc, buf_bytes(&key), ops, count));
		meta_tablet_fini(&m);
		arena_fini(&arena);
		buf_fini(&key);
	}
	tfs_table_close(table);
	(void)!close_it().wall_s;
}

static void put(const char *row, const void *value, size_t n)
{
	struct tfs_mutation *m = tfs_mutation_new(table, tfs_str(row));

	OK(m ? tfs_mutation_put(m, "f", TFS_S("q"), tfs_at(1), tfs_bytes_of(value, n)) : -ENOMEM);
	OK(tfs_apply(m, 0, NULL));
	tfs_mutation_free(m);
}

/* Each step runs in a process of its own, or memory would include what the step before left. */
static void in_process(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		fn();
		fflush(stdout);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		exit(1);
}

static void in_child(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		prctl(PR_SET_NAME, "killed"); /* apart in profiles */
		fn();
		_exit(1); /* it kills itself */
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
		exit(1);
}

/* ---- replay ---- */
static uint64_t want_bytes = 256u << 20;
static unsigned tablets = 64;
static size_t value_bytes = 1000;
static uint64_t written;

static void fill_log(void)
{
	uint8_t *value = malloc(value_bytes + 4096);
	char row[40];

	for (size_t i = 0; i < value_bytes + 4096; i++)
		value[i] = (uint8_t)rnd();
	options.no_background = true;
	options.memtable_bytes = 8ull << 30;
	(void)!open_it().wall_s;
	OK(tfs_table_open(store, "t", &table));
	for (uint64_t n = 0; n < want_bytes; n += value_bytes + 90) {
		snprintf(row, sizeof(row), "%05u/%012llu", (unsigned)(rnd() % tablets), (unsigned long long)(rnd() % 1000000000));
		put(row, value + rnd() % 4096, value_bytes);
	}
	kill(getpid(), SIGKILL);
}

static int add_size(void *arg, const char *name, bool is_dir)
{
	char *path = path_join(arg, name);
	uint64_t n;

	if (!is_dir && path && !file_stat_size(path, &n))
		written += n;
	free(path);
	return 0;
}

struct seen {
	uint64_t records, bytes;
};

static int see(void *arg, const struct log_record *r)
{
	struct seen *s = arg;

	s->records++;
	s->bytes += r->batch.n;
	return 0;
}

static void bench_replay(void)
{
	char *log = NULL;
	struct took t, alone;
	struct seen seen = {0};
	struct log_end end;

	make_tablets(tablets);
	in_child(fill_log);
	if (asprintf(&log, "%s/log/2", dir) < 0)
		exit(1);
	OK(file_list(log, add_size, log));
	t = now();
	OK(log_replay(log, 1, see, &seen, &end, NULL));
	alone = since(t);
	options.no_background = true;
	t = open_it();
	printf("%llu MB of log, %llu records in %u tablets, values of %zu bytes\n", (unsigned long long)(written >> 20),
		(unsigned long long)seen.records, tablets, value_bytes);
	printf("  read and checked only   %8.3f s %8.0f MB/s  CPU %6.3f s\n", alone.wall_s, (double)written / 1e6 / alone.wall_s,
		alone.cpu_s);
	printf("  opened                  %8.3f s %8.0f MB/s  CPU %6.3f s  memory at most %.0f MiB\n", t.wall_s,
		(double)written / 1e6 / t.wall_s, t.cpu_s, memory_mib("VmHWM"));
	hooks.no_flush = true;
	(void)!close_it().wall_s;
	free(log);
}

/* ---- open ---- */
static _Atomic uint64_t sst_opens;

static int count_opens(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	sst_opens += op == FILE_OP_OPEN && strstr(path, "/sst/");
	return 0;
}

static void put_in_each(void)
{
	char row[40];

	OK(tfs_table_open(store, "t", &table));
	for (unsigned i = 0; i < tablets; i++) {
		snprintf(row, sizeof(row), "%05u/", i);
		put(row, "a value", 7);
	}
	tfs_table_close(table);
}

static void touch_all(void)
{
	(void)!open_it().wall_s;
	put_in_each();
	kill(getpid(), SIGKILL);
}

static void say(const char *what, struct took t)
{
	printf("  %-36s %8.3f s  CPU %6.3f s  %6.1f MiB  %u descriptors\n", what, t.wall_s, t.cpu_s, memory_mib("VmRSS"),
		descriptors());
	fflush(stdout);
}

static void make_files(void)
{
	make_tablets(tablets);
	(void)!open_it().wall_s;
	put_in_each();
	(void)!close_it().wall_s;
}

static void open_clean(void)
{
	file_set_hook(count_opens, NULL);
	say("before", (struct took){0, 0});
	say("opened", open_it());
	printf("  SSTables opened: %llu\n", (unsigned long long)sst_opens);
	say("closed", close_it());
}

static void close_written(void)
{
	(void)!open_it().wall_s;
	put_in_each();
	say("closed with a cell in each", close_it());
}

static void open_killed(void)
{
	say("opened with a cell of each in the log", open_it());
	say("closed", close_it());
}

static void bench_open(void)
{
	printf("%u tablets, an SSTable in each\n", tablets);
	fflush(stdout);
	in_process(make_files);
	in_process(open_clean);
	in_process(close_written);
	in_child(touch_all);
	in_process(open_killed);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	tfs_options_init(&options);
	options.log_level = 0;
	if (argc > 2)
		dir = argv[2];
	if (strcmp(what, "replay") == 0) {
		if (argc > 3)
			want_bytes = strtoull(argv[3], NULL, 10) << 20;
		if (argc > 4)
			tablets = (unsigned)strtoul(argv[4], NULL, 10);
		if (argc > 5)
			value_bytes = strtoull(argv[5], NULL, 10);
		bench_remove(dir);
		bench_replay();
	} else if (strcmp(what, "open") == 0) {
		tablets = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1000;
		bench_remove(dir);
		bench_open();
	} else {
		fprintf(stderr, "usage: bench_recover replay [DIR [MB [TABLETS [VALUE_BYTES]]]] | open [DIR [TABLETS]]\n");
		return 2;
	}
	if (!getenv("KEEP"))
		bench_remove(dir);
	return 0;
}
