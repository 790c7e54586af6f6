/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl bench engine: the workload of the paper's section 7, ours and a
 * LevelDB database in turn for each line, driven by the same loop.
 *
 * Each line is run on one side and then at once on the other, so that both
 * meet the same machine; the ratio is the rival's time divided by ours.
 * Write lines begin with an empty database.  Read lines use one filled in
 * random order and then compacted on both sides (unless --no-compact).
 */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/tool/bench.h"
#include "engine/tool/tool.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum work { WORK_WRITE_SEQ, WORK_WRITE_RANDOM, WORK_WRITE_SYNC, WORK_READ_RANDOM, WORK_READ_SEQ, WORK_SCAN };

struct job {
	const struct bench_options *o;
	const struct side_ops *side;
	void *db;
	enum work work;
	uint64_t from, to;      /* of the operations */
	uint64_t shift;         /* random reads: where in the order they begin */
	pthread_barrier_t *start;
	pthread_t thread;
	uint64_t done, sum;
	int err;
};

struct line {
	const char *name, *what;
	enum work work;
	size_t cache_bytes;     /* 0: the option's */
	size_t rival_write_bytes;
	bool auto_timestamps, cold, warm;
	bool others;            /* what is timed are other cells than those that warmed up */
};

/* ---- one job: a share of a line's operations in one thread ---- */

static int do_put(struct job *j, uint64_t number, bool sync)
{
	char key[BENCH_KEY_BYTES + 1];

	feed_key(key, number);
	return j->side->put(j->db, key, number, feed_value(j->o, number), sync);
}

static int do_get(struct job *j, uint64_t number, void *p)
{
	char key[BENCH_KEY_BYTES + 1];
	long got;

	feed_key(key, number);
	got = j->side->get(j->db, key, p, j->o->value_bytes, &j->sum);
	if (got < 0)
		return (int)got;
	return (size_t)got == j->o->value_bytes ? 0 : -EBADMSG;
}

static int do_scan(struct job *j)
{
	char from[BENCH_KEY_BYTES + 1], to[BENCH_KEY_BYTES + 1];
	uint64_t cells;
	int err;

	feed_key(from, j->from);
	feed_key(to, j->to);
	err = j->side->scan(j->db, from, j->to == j->o->cells ? NULL : to, &cells, &j->sum);
	if (!err && cells != j->to - j->from)
		err = -EBADMSG;
	j->done = cells;
	return err;
}

static void *run_job(void *arg)
{
	struct job *j = arg;
	void *p = malloc(j->o->value_bytes);
	int err = p ? 0 : -ENOMEM;

	pthread_barrier_wait(j->start);
	if (!err && j->work == WORK_SCAN)
		err = do_scan(j);
	for (uint64_t i = j->from; i < j->to && !err && j->work != WORK_SCAN; i++, j->done++) {
		switch (j->work) {
		case WORK_WRITE_SEQ:
			err = do_put(j, i, false);
			break;
		case WORK_WRITE_RANDOM:
			err = do_put(j, j->o->order[i], false);
			break;
		case WORK_WRITE_SYNC:
			err = do_put(j, j->o->order[i], true);
			break;
		case WORK_READ_RANDOM:
			err = do_get(j, j->o->order[(i + j->shift) % j->o->cells], p);
			break;
		case WORK_READ_SEQ:
			err = do_get(j, i, p);
			break;
		case WORK_SCAN:
			break;
		}
	}
	j->err = err;
	free(p);
	return NULL;
}

struct took {
	double wall, cpu; /* seconds; cpu: of all threads, background work too */
};

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* `ops` operations over the threads; *took from the common start to the last one's end. */
static int run_jobs(const struct bench_options *o, const struct side_ops *side, void *db, enum work work, uint64_t ops,
		    uint64_t shift, unsigned threads, struct took *took)
{
	struct job jobs[64] = {0};
	pthread_barrier_t start;
	unsigned made = 0;
	uint64_t from;
	double cpu;
	int err = 0;

	pthread_barrier_init(&start, NULL, threads + 1);
	for (; made < threads; made++) {
		struct job *j = &jobs[made];

		*j = (struct job){.o = o, .side = side, .db = db, .work = work, .shift = shift, .start = &start};
		j->from = ops * made / threads;
		j->to = ops * (made + 1) / threads;
		err = pthread_create(&j->thread, NULL, run_job, j);
		if (err) { /* the others wait at the barrier for ever */
			complain("threads: %s", strerror(err));
			exit(EXIT_CANNOT);
		}
	}
	cpu = cpu_seconds();
	pthread_barrier_wait(&start);
	from = monotonic_us();
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(jobs[i].thread, NULL);
		err = err ? err : jobs[i].err;
	}
	took->wall = (double)(monotonic_us() - from) / 1e6;
	took->cpu = cpu_seconds() - cpu;
	pthread_barrier_destroy(&start);
	if (err)
		complain("%s: %s", side->name, strerror(-err));
	return err;
}

/* ---- one line on one side ---- */

static bool writes(enum work w)
{
	return w == WORK_WRITE_SEQ || w == WORK_WRITE_RANDOM || w == WORK_WRITE_SYNC;
}

static uint64_t ops_of(const struct bench_options *o, const struct line *l)
{
	switch (l->work) {
	case WORK_WRITE_SYNC:
		return o->synced;
	case WORK_READ_RANDOM:
		return l->cold ? o->cold_reads : o->reads;
	case WORK_WRITE_SEQ:
	case WORK_WRITE_RANDOM:
	case WORK_READ_SEQ:
	case WORK_SCAN:
		break;
	}
	return o->cells;
}

static int run_side(const struct bench_options *o, const struct line *l, const struct side_ops *side, const char *dir,
		    unsigned threads, struct took *took)
{
	bool ours = side == &side_ours;
	struct side_options so = {
		.dir = dir,
		.cache_bytes = l->cache_bytes ? l->cache_bytes : o->cache_bytes,
		.memtable_bytes = ours ? o->memtable_bytes : l->rival_write_bytes,
		.fresh = writes(l->work),
		.auto_timestamps = l->auto_timestamps,
	};
	uint64_t ops = ops_of(o, l);
	struct took best = {0};
	int err = 0;

	for (unsigned i = 0; i < o->repeat && !err; i++) {
		struct took s;
		void *db;

		if (l->cold && drop_caches() && i == 0)
			complain("the kernel's caches cannot be dropped (root is needed): cold is not cold");
		db = side->open(&so);
		if (!db)
			return -EIO;
		if (l->warm)
			err = run_jobs(o, side, db, l->work, ops, 0, threads, &s);
		if (!err)
			err = run_jobs(o, side, db, l->work, ops, l->others ? ops : 0, threads, &s);
		side->close(db);
		if (!err && (i == 0 || s.wall < best.wall))
			best = s;
	}
	*took = best;
	return err;
}

/* ---- the table ---- */

static void print_heading(void)
{
	printf("%-14s %-46s %7s %10s %10s %9s %9s %7s %9s %9s\n", "line", "", "threads", "ours op/s", "rival op/s", "ours s",
	       "rival s", "ratio", "ours CPU", "rival CPU");
}

static void print_line(const char *name, const char *what, unsigned threads, uint64_t ops, const struct took *ours,
		       const struct took *rival)
{
	printf("%-14s %-46s %7u %10.0f %10.0f %9.3f %9.3f %7.2f %9.3f %9.3f\n", name, what, threads, (double)ops / ours->wall,
	       (double)ops / rival->wall, ours->wall, rival->wall, rival->wall / ours->wall, ours->cpu, rival->cpu);
	fflush(stdout);
}

static bool wanted(const struct bench_options *o, const char *name)
{
	size_t n = strlen(name);

	if (!*o->only)
		return true;
	for (const char *p = o->only; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == 0))
			return true;
	return false;
}

static int run_line(const struct bench_options *o, const struct line *l, const char *ours_dir, const char *rival_dir,
		    unsigned threads)
{
	struct took ours, rival;
	int err = run_side(o, l, &side_ours, ours_dir, threads, &ours);

	if (!err)
		err = run_side(o, l, &side_leveldb, rival_dir, threads, &rival);
	if (!err)
		print_line(l->name, l->what, threads, ops_of(o, l), &ours, &rival);
	return err;
}

/* Fills a database in random order for the read lines, and compacts it. */
static int prepare(const struct bench_options *o, const struct side_ops *side, const char *dir)
{
	struct side_options so = {.dir = dir, .cache_bytes = o->cache_bytes, .fresh = true};
	struct took s;
	void *db;
	int err;

	if (side == &side_ours)
		so.memtable_bytes = o->memtable_bytes;
	db = side->open(&so);
	if (!db)
		return -EIO;
	err = run_jobs(o, side, db, WORK_WRITE_RANDOM, o->cells, 0, 1, &s);
	if (!err && !o->no_compact)
		err = side->settle(db);
	side->close(db);
	if (err)
		complain("%s: %s", side->name, strerror(-err));
	return err;
}

static bool there(const char *dir)
{
	uint64_t bytes;

	return file_stat_size(dir, &bytes) == 0;
}

static int print_sizes(const struct bench_options *o, const char *ours_dir, const char *rival_dir)
{
	uint64_t ours, rival, raw = o->cells * (o->value_bytes + BENCH_KEY_BYTES);
	int err = side_ours.size(ours_dir, &ours);

	if (!err)
		err = side_leveldb.size(rival_dir, &rival);
	if (err)
		return err;
	printf("%-14s bytes of SSTables%s: ours %" PRIu64 ", rival %" PRIu64 ", of keys and values %" PRIu64
	       ": ratio %.2f; ours is %.1f bytes a cell\n",
	       "size", o->no_compact ? "" : " after compaction", ours, rival, raw, ours ? (double)rival / (double)ours : 0,
	       (double)ours / (double)(o->cells ? o->cells : 1));
	return 0;
}

static const struct line write_lines[] = {
	{.name = "seqwrite", .what = "sequential write", .work = WORK_WRITE_SEQ},
	{.name = "randwrite", .what = "random write, rival's write buffer its default", .work = WORK_WRITE_RANDOM},
	{.name = "randwrite-mem", .what = "random write, rival's write buffer as ours", .work = WORK_WRITE_RANDOM,
	 .rival_write_bytes = 1},
	{.name = "randwrite-auto", .what = "random write, ours with TFS_AUTO timestamps", .work = WORK_WRITE_RANDOM,
	 .auto_timestamps = true},
	{.name = "syncwrite", .what = "synced random write", .work = WORK_WRITE_SYNC},
};
static const struct line read_lines[] = {
	{.name = "randread-cold", .what = "random read, caches dropped, reopened", .work = WORK_READ_RANDOM, .cold = true},
	{.name = "randread-warm", .what = "random read, warm, the cache holds all", .work = WORK_READ_RANDOM, .warm = true,
	 .cache_bytes = 1},
	{.name = "randread-small", .what = "random read, warm, cache of --cache", .work = WORK_READ_RANDOM, .warm = true},
	{.name = "randread-new", .what = "random read, cache of --cache, other cells", .work = WORK_READ_RANDOM, .warm = true,
	 .others = true},
	{.name = "seqread", .what = "sequential read (point reads in order)", .work = WORK_READ_SEQ},
	{.name = "scan-cold", .what = "scan of the table, caches dropped", .work = WORK_SCAN, .cold = true},
	{.name = "scan", .what = "scan of the table, rival: its iterator", .work = WORK_SCAN, .warm = true},
};
#define WRITE_LINES (sizeof(write_lines) / sizeof(*write_lines))
#define READ_LINES (sizeof(read_lines) / sizeof(*read_lines))

static int run_writes(const struct bench_options *o, const char *ours_dir, const char *rival_dir)
{
	int err = 0;

	for (unsigned i = 0; i < WRITE_LINES; i++)
		for (unsigned t = 0; t < o->thread_counts && !err; t++) {
			struct line l = write_lines[i];

			if (l.rival_write_bytes)
				l.rival_write_bytes = o->memtable_bytes;
			if (wanted(o, l.name))
				err = run_line(o, &l, ours_dir, rival_dir, o->threads[t]);
		}
	return err;
}

static int run_reads(const struct bench_options *o, const char *ours_dir, const char *rival_dir)
{
	bool any = wanted(o, "size");
	int err;

	for (unsigned i = 0; i < READ_LINES; i++)
		any = any || wanted(o, read_lines[i].name);
	if (!any)
		return 0;
	err = o->reuse && there(ours_dir) ? 0 : prepare(o, &side_ours, ours_dir);
	if (!err && !(o->reuse && there(rival_dir)))
		err = prepare(o, &side_leveldb, rival_dir);
	for (unsigned i = 0; i < READ_LINES; i++)
		for (unsigned t = 0; t < o->thread_counts && !err; t++) {
			struct line l = read_lines[i];

			if (l.cache_bytes) /* headroom: the cache has shards with hard limits */
				l.cache_bytes = (size_t)(o->cells * (o->value_bytes + 64) * 3 / 2) + (64u << 20);
			if (wanted(o, l.name))
				err = run_line(o, &l, ours_dir, rival_dir, o->threads[t]);
		}
	if (!err && wanted(o, "size"))
		err = print_sizes(o, ours_dir, rival_dir);
	return err;
}

static int run_log(const struct bench_options *o)
{
	struct took ours = {0}, bare = {0};
	uint64_t records;
	int err;

	if (!wanted(o, "log"))
		return 0;
	err = bench_log(o, &ours.wall, &bare.wall, &records);
	if (!err)
		print_line("log", "log at work, groups of 100; rival: bare loop", 1, records, &ours, &bare);
	else
		complain("commit log: %s", strerror(-err));
	return err;
}

static int run_all(struct bench_options *o)
{
	char *ours_dir = path_join(o->dir, "ours"), *rival_dir = path_join(o->dir, "leveldb");
	cpu_set_t cpus;
	int err = ours_dir && rival_dir ? file_mkdir(o->dir) : -ENOMEM;

	if (err == -EEXIST)
		err = 0;
	if (err)
		complain("%s: %s", o->dir, strerror(-err));
	if (!err) {
		err = feed_text(&o->text, (size_t)96 << 20);
		if (err == -ENODATA)
			complain("there is not enough text under /usr/share/doc and its like to cut values from");
	}
	if (!err && o->text.n <= o->value_bytes) {
		complain("--value is larger than the text found");
		err = -EINVAL;
	}
	if (!err)
		err = feed_order(o->cells, o->seed, &o->order);
	if (!err) {
		printf("engine: %" PRIu64 " cells, 16-byte keys, %zu-byte values cut from %zu MB of documentation; cache %zu MB, "
		       "memtables %zu MB\n",
		       o->cells, o->value_bytes, o->text.n >> 20, o->cache_bytes >> 20, o->memtable_bytes >> 20);
		printf("rival: LevelDB, its defaults (Snappy, 4 KiB blocks, write buffer 4 MB) with the same cache and 10 bloom "
		       "bits; ours: explicit timestamps, one version; every byte of a value read is touched\n");
		printf("ratio: rival's time / ours; CPU: seconds of all threads; best of %u; %s; reads after %s\n", o->repeat,
		       sched_getaffinity(0, sizeof(cpus), &cpus) ? "pinning unknown"
								: CPU_COUNT(&cpus) == 1 ? "pinned to one CPU" : "not pinned",
		       o->no_compact ? "random writes" : "random writes and compaction");
		print_heading();
		err = run_writes(o, ours_dir, rival_dir);
	}
	if (!err)
		err = run_reads(o, ours_dir, rival_dir);
	if (!err)
		err = run_log(o);
	if (ours_dir && rival_dir && !o->reuse && (remove_tree(ours_dir) || remove_tree(rival_dir)))
		complain("%s: cannot be emptied", o->dir);
	if (!o->reuse)
		(void)!file_rmdir(o->dir);
	buf_fini(&o->text);
	free(o->order);
	free(ours_dir);
	free(rival_dir);
	return err ? EXIT_CANNOT : 0;
}

/* ---- the command line ---- */

static bool number(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || n < least || n > most)
		return false;
	*out = n;
	return true;
}

static bool thread_list(struct bench_options *o, char *text)
{
	char *save, *p;
	uint64_t n;

	o->thread_counts = 0;
	for (p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		if (o->thread_counts == 8 || !number(p, 1, 64, &n))
			return false;
		o->threads[o->thread_counts++] = (unsigned)n;
	}
	return o->thread_counts > 0;
}

static bool only_known(const char *only)
{
	char *copy = strdup(only), *save, *p;
	bool ok = copy != NULL;

	for (p = ok ? strtok_r(copy, ",", &save) : NULL; p && ok; p = strtok_r(NULL, ",", &save)) {
		ok = strcmp(p, "size") == 0 || strcmp(p, "log") == 0;
		for (unsigned i = 0; i < WRITE_LINES && !ok; i++)
			ok = strcmp(p, write_lines[i].name) == 0;
		for (unsigned i = 0; i < READ_LINES && !ok; i++)
			ok = strcmp(p, read_lines[i].name) == 0;
	}
	free(copy);
	return ok;
}

enum { OPT_CELLS = 256, OPT_VALUE, OPT_THREADS, OPT_CACHE, OPT_MEMTABLE, OPT_DIR, OPT_ONLY, OPT_READS, OPT_SYNCED, OPT_SEED,
       OPT_REPEAT, OPT_NO_COMPACT, OPT_REUSE };

static const struct option options[] = {
	{"cells", required_argument, NULL, OPT_CELLS},       {"value", required_argument, NULL, OPT_VALUE},
	{"threads", required_argument, NULL, OPT_THREADS},   {"cache", required_argument, NULL, OPT_CACHE},
	{"memtable", required_argument, NULL, OPT_MEMTABLE}, {"dir", required_argument, NULL, OPT_DIR},
	{"only", required_argument, NULL, OPT_ONLY},         {"reads", required_argument, NULL, OPT_READS},
	{"synced", required_argument, NULL, OPT_SYNCED},     {"seed", required_argument, NULL, OPT_SEED},
	{"repeat", required_argument, NULL, OPT_REPEAT},     {"no-compact", no_argument, NULL, OPT_NO_COMPACT},
	{"reuse", no_argument, NULL, OPT_REUSE},             {"help", no_argument, NULL, 'h'},
	{0}};

static bool take_option(struct bench_options *o, int letter, char *arg)
{
	uint64_t n = 0;
	bool ok = true;

	switch (letter) {
	case OPT_CELLS:
		ok = number(arg, 1, UINT32_MAX, &o->cells);
		break;
	case OPT_READS:
		ok = number(arg, 1, UINT32_MAX, &o->reads);
		break;
	case OPT_SYNCED:
		ok = number(arg, 1, UINT32_MAX, &o->synced);
		break;
	case OPT_SEED:
		ok = number(arg, 0, UINT64_MAX, &o->seed);
		break;
	case OPT_REPEAT:
		ok = number(arg, 1, 100, &n);
		o->repeat = (unsigned)n;
		break;
	case OPT_VALUE:
		ok = number(arg, 1, 256 * 1024, &n);
		o->value_bytes = (size_t)n;
		break;
	case OPT_CACHE:
		ok = number(arg, 1 << 20, UINT64_C(1) << 40, &n);
		o->cache_bytes = (size_t)n;
		break;
	case OPT_MEMTABLE:
		ok = number(arg, 1 << 20, UINT64_C(1) << 40, &n);
		o->memtable_bytes = (size_t)n;
		break;
	case OPT_THREADS:
		ok = thread_list(o, arg);
		break;
	case OPT_DIR:
		o->dir = arg;
		break;
	case OPT_ONLY:
		o->only = arg;
		ok = only_known(arg);
		break;
	case OPT_NO_COMPACT:
		o->no_compact = true;
		break;
	case OPT_REUSE:
		o->reuse = true;
		break;
	default:
		ok = false;
	}
	return ok;
}

static int run(int argc, char **argv)
{
	static char all[] = "";
	char dir[] = "/var/tmp/tabletctl-bench-XXXXXX";
	struct bench_options o = {.cells = 1000000, .value_bytes = 1000, .cache_bytes = (size_t)256 << 20,
				  .memtable_bytes = (size_t)128 << 20, .threads = {1, 2}, .thread_counts = 2, .repeat = 1,
				  .only = all, .seed = 1};
	int letter;

	while ((letter = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (letter == 'h')
			return print_help(&bench_command);
		if (letter == ':' || letter == '?')
			return bad_usage(&bench_command, "%s: %s", argv[optind - 1],
					 letter == ':' ? "its argument is missing" : "no such option");
		if (!take_option(&o, letter, optarg))
			return bad_usage(&bench_command, "--%s: not a value for it: %s", options[letter - OPT_CELLS].name, optarg);
	}
	if (argc - optind != 1 || strcmp(argv[optind], "engine") != 0)
		return bad_usage(&bench_command, "engine is what can be measured here");
	if (!o.reads)
		o.reads = o.cells < 200000 ? o.cells : 200000;
	o.reads = o.reads < o.cells ? o.reads : o.cells;
	o.cold_reads = o.reads < 50000 ? o.reads : 50000;
	if (!o.synced)
		o.synced = o.cells < 20000 ? o.cells : 20000;
	o.synced = o.synced < o.cells ? o.synced : o.cells;
	if (!o.dir) {
		o.dir = mkdtemp(dir);
		if (!o.dir) {
			complain("%s: %s", dir, strerror(errno));
			return EXIT_CANNOT;
		}
	}
	return run_all(&o);
}

const struct command bench_command = {
	.name = "bench",
	.brief = "measure the engine beside a LevelDB database",
	.usage = "usage: tabletctl bench engine [OPTIONS]\n"
		 "\n"
		 "Runs the workload of the Bigtable paper (16-byte keys, values of real text) on a\n"
		 "fresh store and on a LevelDB database, line by line with the same loop, and\n"
		 "prints for each the rival's time divided by ours: higher is better.  For a mount\n"
		 "see t/bench/mount.sh in the sources.\n"
		 "\n"
		 "  --cells N        cells written and read (1000000)\n"
		 "  --value BYTES    size of a value (1000)\n"
		 "  --threads LIST   numbers of threads, each line with each (1,2)\n"
		 "  --cache BYTES    block cache of both (268435456)\n"
		 "  --memtable BYTES our memtables, and the rival's write buffer in the line\n"
		 "                   randwrite-mem (134217728)\n"
		 "  --reads N        random reads (200000; of those at most 50000 cold)\n"
		 "  --synced N       synced writes (20000)\n"
		 "  --repeat N       runs of each line and side, of which the best counts (1)\n"
		 "  --seed N         of the random order (1)\n"
		 "  --no-compact     read what random writes left, without compacting it first\n"
		 "  --reuse          leave the databases in --dir, and read those found there (they\n"
		 "                   must hold as many cells)\n"
		 "  --dir DIR        where (a new directory in /var/tmp); ours, leveldb, log and\n"
		 "                   bare in it are removed\n"
		 "  --only LINES     some of: seqwrite randwrite randwrite-mem randwrite-auto\n"
		 "                   syncwrite randread-cold randread-warm randread-small\n"
		 "                   randread-new seqread scan-cold scan size log; joined by\n"
		 "                   commas\n"
		 "\n"
		 "Cold lines drop the kernel's caches, which only root can.\n",
	.run = run,
};
