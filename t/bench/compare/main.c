/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletbench: the command line, and the process that cleans up.
 *
 * The measurement runs in a child process.  This process waits for it or for a
 * signal, and then removes the databases.  So ^C, a full disk or a side that
 * crashes leaves nothing.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "t/bench/compare/bench.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct bench_kind *const kinds[] = {
	&bench_paper, &bench_writers, &bench_ycsb, &bench_amplify, &bench_recovery, &bench_compression};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

/* ---- the child ---- */

static void print_conditions(const struct bench_options *o, const struct bench_kind *k)
{
	cpu_set_t cpus;

	printf("%s: %" PRIu64
	       " cells, %d-byte keys, %zu-byte values cut from %zu MB of documentation; cache %zu MB, memtables %zu MB; "
	       "%s%s\n",
		k->name, o->cells, BENCH_KEY_BYTES, o->value_bytes, o->text.n >> 20, o->cache_bytes >> 20, o->memtable_bytes >> 20,
		sched_getaffinity(0, sizeof(cpus), &cpus) ? "pinning unknown"
			: CPU_COUNT(&cpus) == 1           ? "pinned to one CPU"
							  : "not pinned",
		o->plain ? "; nothing is compressed" : "");
	printf("ratio: rival's time / ours, higher is better; CPU: the same of processor time, of all threads; best of %u; reads after %s\n",
		o->repeat, o->no_compact ? "random writes" : "random writes and compaction");
}

static int measure(struct bench_options *o, const struct bench_kind *k)
{
	size_t want = (size_t)(o->cells * o->value_bytes * 2);
	int err;

	if (k->feeds_itself)
		return k->run(o) ? EXIT_CANNOT : 0;
	err = feed_text(&o->text, want < (size_t)96 << 20 ? want : (size_t)96 << 20);

	if (err == -ENODATA)
		complain("there is not enough text under /usr/share/doc and its like to cut values from");
	else if (!err && o->text.n <= o->value_bytes) {
		complain("--value is larger than the text found");
		err = -EINVAL;
	}
	if (!err)
		err = feed_order(o->cells, o->seed, &o->order);
	if (!err) {
		print_conditions(o, k);
		err = k->run(o);
	}
	buf_fini(&o->text);
	free(o->order);
	return err ? EXIT_CANNOT : 0;
}

/* ---- the process that waits ---- */

static const int deadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
#define DEADLY (sizeof(deadly) / sizeof(*deadly))

/* Returns the child's exit code, or the number of the signal received, negative. */
static int wait_for(pid_t child, const sigset_t *set)
{
	int signal_number, status;

	for (;;) {
		if (sigwait(set, &signal_number))
			continue;
		if (signal_number != SIGCHLD) {
			kill(child, SIGKILL);
			while (waitpid(child, &status, 0) < 0 && errno == EINTR)
				;
			return -signal_number;
		}
		if (waitpid(child, &status, WNOHANG) != child)
			continue;
		if (WIFEXITED(status))
			return WEXITSTATUS(status);
		if (WIFSIGNALED(status)) {
			for (unsigned i = 0; i < DEADLY; i++)
				if (WTERMSIG(status) == deadly[i])
					return -deadly[i];
			complain("ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
			return EXIT_CANNOT;
		}
	}
}

static void remove_all(const struct bench_options *o, bool made)
{
	static const char *const others[] = {"log", "bare"};
	int err = 0;

	for (unsigned i = 0; i < o->side_count; i++)
		err = remove_tree(o->dirs[i]) ? 1 : err;
	for (unsigned i = 0; i < sizeof(others) / sizeof(*others); i++) {
		char *path = path_join(o->dir, others[i]);

		if (path && file_unlink(path))
			err = remove_tree(path) ? 1 : err;
		free(path);
	}
	if (err || (made && file_rmdir(o->dir)))
		complain("%s: cannot be emptied", o->dir);
}

/* made: the directory is ours to remove. */
static int measure_in_child(struct bench_options *o, const struct bench_kind *k, bool made)
{
	sigset_t set, before;
	pid_t parent = getpid(), child;
	int code;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (unsigned i = 0; i < DEADLY; i++)
		sigaddset(&set, deadly[i]);
	sigprocmask(SIG_BLOCK, &set, &before);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(EXIT_CANNOT);
		code = measure(o, k);
		if (fflush(stdout) || ferror(stdout)) {
			complain("standard output: cannot be written");
			code = EXIT_CANNOT;
		}
		_exit(code);
	}
	if (child < 0) {
		complain("fork: %s", strerror(errno));
		code = EXIT_CANNOT;
	} else {
		code = wait_for(child, &set);
	}
	if (!o->reuse)
		remove_all(o, made);
	if (code >= 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		return code;
	}
	signal(-code, SIG_DFL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	raise(-code);
	return EXIT_CANNOT; /* it was ignored by whoever started us */
}

/* A directory made here is removed again; one found is not. */
static int run_in_dir(struct bench_options *o, const struct bench_kind *k)
{
	char temporary[] = "/var/tmp/tabletbench-XXXXXX";
	int code = EXIT_CANNOT, err = 0;
	bool made = true;

	if (!o->dir) {
		o->dir = mkdtemp(temporary);
		err = o->dir ? 0 : -errno;
	} else {
		err = file_mkdir(o->dir);
		if (err == -EEXIST) {
			made = false;
			err = 0;
		}
	}
	if (err) {
		complain("%s: %s", o->dir ? o->dir : temporary, strerror(-err));
		return EXIT_CANNOT;
	}
	for (unsigned i = 0; i < o->side_count && !err; i++) {
		o->dirs[i] = path_join(o->dir, o->sides[i]->name);
		if (!o->dirs[i])
			err = -ENOMEM;
	}
	if (!err)
		code = measure_in_child(o, k, made);
	for (unsigned i = 0; i < o->side_count; i++)
		free(o->dirs[i]);
	return code;
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

/* The words of a list joined by commas; false when `take` refuses one, or there is none. */
static bool each_word(const char *list, bool (*take)(void *arg, const char *word), void *arg)
{
	char *copy = strdup(list), *save, *p;
	bool ok = copy != NULL, any = false;

	for (p = ok ? strtok_r(copy, ",", &save) : NULL; p && ok; p = strtok_r(NULL, ",", &save)) {
		ok = take(arg, p);
		any = true;
	}
	free(copy);
	return ok && any;
}

static bool take_threads(void *arg, const char *word)
{
	struct bench_options *o = arg;
	uint64_t n;

	if (o->thread_counts == sizeof(o->threads) / sizeof(*o->threads) || !number(word, 1, BENCH_THREADS, &n))
		return false;
	o->threads[o->thread_counts++] = (unsigned)n;
	return true;
}

static bool take_rival(void *arg, const char *word)
{
	struct bench_options *o = arg;

	if (strcmp(word, "none") == 0) {
		o->alone = true;
		return o->side_count == 1;
	}
	for (unsigned i = 1; bench_sides[i] && !o->alone; i++)
		if (strcmp(bench_sides[i]->name, word) == 0 && o->side_count < BENCH_SIDES) {
			o->sides[o->side_count++] = bench_sides[i];
			return true;
		}
	return false;
}

static bool take_line(void *arg, const char *word)
{
	const struct bench_kind *k = arg;
	char name[32];

	snprintf(name, sizeof(name), " %s ", word);
	return strstr(k->lines, name) != NULL;
}

enum {
	OPT_CELLS = 256,
	OPT_VALUE,
	OPT_THREADS,
	OPT_CACHE,
	OPT_MEMTABLE,
	OPT_DIR,
	OPT_ONLY,
	OPT_READS,
	OPT_SYNCED,
	OPT_SEED,
	OPT_REPEAT,
	OPT_OPS,
	OPT_TABLET,
	OPT_GROUP,
	OPT_RIVALS,
	OPT_SCALE,
	OPT_PLAIN,
	OPT_NO_COMPACT,
	OPT_REUSE
};

static const struct option options[] = {{"cells", required_argument, NULL, OPT_CELLS},
	{"value", required_argument, NULL, OPT_VALUE}, {"threads", required_argument, NULL, OPT_THREADS},
	{"cache", required_argument, NULL, OPT_CACHE}, {"memtable", required_argument, NULL, OPT_MEMTABLE},
	{"dir", required_argument, NULL, OPT_DIR}, {"only", required_argument, NULL, OPT_ONLY},
	{"reads", required_argument, NULL, OPT_READS}, {"synced", required_argument, NULL, OPT_SYNCED},
	{"seed", required_argument, NULL, OPT_SEED}, {"repeat", required_argument, NULL, OPT_REPEAT},
	{"ops", required_argument, NULL, OPT_OPS}, {"tablet", required_argument, NULL, OPT_TABLET},
	{"group", required_argument, NULL, OPT_GROUP}, {"rivals", required_argument, NULL, OPT_RIVALS},
	{"scale", required_argument, NULL, OPT_SCALE}, {"plain", no_argument, NULL, OPT_PLAIN},
	{"no-compact", no_argument, NULL, OPT_NO_COMPACT}, {"reuse", no_argument, NULL, OPT_REUSE},
	{"help", no_argument, NULL, 'h'}, {0}};

static bool take_size(const char *arg, uint64_t least, size_t *out)
{
	uint64_t n = 0;
	bool ok = number(arg, least, UINT64_C(1) << 40, &n);

	*out = (size_t)n;
	return ok;
}

static bool take_option(struct bench_options *o, int letter, char *arg)
{
	uint64_t n = 0;
	bool ok = true;

	switch (letter) {
	case OPT_CELLS:
		return number(arg, 1, UINT32_MAX, &o->cells);
	case OPT_READS:
		return number(arg, 1, UINT32_MAX, &o->reads);
	case OPT_SYNCED:
		return number(arg, 1, UINT32_MAX, &o->synced);
	case OPT_OPS:
		return number(arg, 1, UINT32_MAX, &o->ops);
	case OPT_SEED:
		return number(arg, 0, UINT64_MAX, &o->seed);
	case OPT_TABLET:
		return number(arg, 1 << 20, UINT64_C(1) << 40, &o->tablet_bytes);
	case OPT_SCALE: /* in thousandths of 5 GiB */
		ok = number(arg, 1, 1000, &n);
		o->cells = n * (UINT64_C(5) << 30) / 1000 / (1000 + BENCH_KEY_BYTES);
		return ok;
	case OPT_REPEAT:
		ok = number(arg, 1, 100, &n);
		o->repeat = (unsigned)n;
		return ok;
	case OPT_VALUE:
		ok = number(arg, 1, 256 * 1024, &n);
		o->value_bytes = (size_t)n;
		return ok;
	case OPT_CACHE:
		return take_size(arg, 1 << 20, &o->cache_bytes);
	case OPT_MEMTABLE:
		return take_size(arg, 1 << 20, &o->memtable_bytes);
	case OPT_THREADS:
		o->thread_counts = 0;
		return each_word(arg, take_threads, o);
	case OPT_RIVALS:
		o->side_count = 1;
		o->alone = false;
		return each_word(arg, take_rival, o);
	case OPT_DIR:
		o->dir = arg;
		return *arg != 0;
	case OPT_ONLY:
		o->only = arg;
		return true;
	case OPT_GROUP:
		o->group = arg;
		return true;
	case OPT_PLAIN:
		o->plain = true;
		return true;
	case OPT_NO_COMPACT:
		o->no_compact = true;
		return true;
	case OPT_REUSE:
		o->reuse = true;
		return true;
	default:
		return false;
	}
}

/* Sets defaults that depend on other options. */
static void fill_in(struct bench_options *o, const struct bench_kind *k)
{
	static const unsigned few[] = {1, 2}, many[] = {1, 4, 16};

	if (!o->cells)
		o->cells = 1000000;
	if (!o->thread_counts) {
		o->thread_counts = k == &bench_writers ? 3 : 2;
		memcpy(o->threads, k == &bench_writers ? many : few, o->thread_counts * sizeof(*few));
	}
	if (!o->reads)
		o->reads = 200000;
	o->reads = o->reads < o->cells ? o->reads : o->cells;
	o->cold_reads = o->reads < 50000 ? o->reads : 50000;
	if (!o->synced)
		o->synced = 20000;
	o->synced = o->synced < o->cells ? o->synced : o->cells;
	if (!o->ops)
		o->ops = 200000;
	if (o->side_count == 1 && !o->alone)
		for (unsigned i = 1; bench_sides[i]; i++)
			o->sides[o->side_count++] = bench_sides[i];
}

static const char usage[] = "usage: tabletbench engine|writers|ycsb|amplify|recovery|compression [OPTIONS]\n"
			    "\n"
			    "Runs work on a fresh store and on a LevelDB database, line by line, side by side\n"
			    "with the same loop, and prints for each the rival's time divided by ours: higher\n"
			    "is better.  Where librocksdb-dev was installed when this was built, RocksDB is a\n"
			    "rival too.  t/bench/mount.sh measures a mount.\n"
			    "\n"
			    "  engine     the Bigtable paper's section 7: 16-byte keys, values of real text\n"
			    "  writers    many threads write at once: unsynced, synced, while tablets split\n"
			    "  ycsb       YCSB's mixes A to F, Zipfian keys\n"
			    "  amplify    a random overwrite: bytes written and kept for each byte put\n"
			    "  recovery   opening after kill -9\n"
			    "  compression  what settings of a locality group make of web pages; of the\n"
			    "             options only --dir and --only (t/bench/compression.sh)\n"
			    "\n"
			    "  --cells N        cells written and read (1000000)\n"
			    "  --scale N        as many cells as make N thousandths of 5 GiB\n"
			    "  --value BYTES    size of a value (1000)\n"
			    "  --threads LIST   numbers of threads, each line with each (1,2; writers 1,4,16)\n"
			    "  --cache BYTES    block cache of all sides (268435456)\n"
			    "  --memtable BYTES our memtables, and the rivals' write buffers in randwrite-mem\n"
			    "                   and writers (134217728)\n"
			    "  --tablet BYTES   our tablets' size (as a new table's; in the line split a 32nd\n"
			    "                   of the cells)\n"
			    "  --group TEXT     settings of our locality group, as in a schema, such as\n"
			    "                   'compression = \"lz4\"; block_size = \"4K\";'\n"
			    "  --plain          no side compresses\n"
			    "  --rivals LIST    some of leveldb, rocksdb, rocksdb-zstd; or none (all)\n"
			    "  --reads N        random reads (200000; of those at most 50000 cold)\n"
			    "  --synced N       synced writes of one thread (20000)\n"
			    "  --ops N          operations of a mix of ycsb (200000; E a tenth)\n"
			    "  --repeat N       runs of each line and side, of which the best counts (1)\n"
			    "  --seed N         of all that is random (1)\n"
			    "  --no-compact     read what random writes left, without compacting it first\n"
			    "  --reuse          engine: leave the databases in --dir, and read those found\n"
			    "                   there (they must hold as many cells)\n"
			    "  --dir DIR        where (a new directory in /var/tmp); the sides' names, log\n"
			    "                   and bare in it are removed, also before\n"
			    "  --only LINES     some lines, joined by commas.  engine: seqwrite randwrite\n"
			    "                   randwrite-mem randwrite-auto syncwrite randread-cold\n"
			    "                   randread-warm randread-small randread-new seqread scan-cold\n"
			    "                   scan size log; writers: write sync split whole; ycsb: A B C D E F\n"
			    "\n"
			    "Cold lines drop the kernel's caches, which only root can.\n";

#define bad_usage(...) (complain(__VA_ARGS__), EXIT_CANNOT)

int main(int argc, char **argv)
{
	struct bench_options o = {.value_bytes = 1000,
		.cache_bytes = (size_t)256 << 20,
		.memtable_bytes = (size_t)128 << 20,
		.repeat = 1,
		.only = "",
		.group = "",
		.seed = 1,
		.sides = {&side_ours},
		.side_count = 1};
	const struct bench_kind *k = NULL;
	int letter;

	file_raise_limit();
	msg_to_nowhere();
	while ((letter = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (letter == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		if (letter == ':' || letter == '?')
			return bad_usage("%s: %s", argv[optind - 1], letter == ':' ? "its argument is missing" : "no such option");
		if (!take_option(&o, letter, optarg))
			return bad_usage("--%s: not a value for it: %s", options[letter - OPT_CELLS].name, optarg);
	}
	for (unsigned i = 0; i < KINDS && argc - optind == 1; i++)
		if (strcmp(argv[optind], kinds[i]->name) == 0)
			k = kinds[i];
	if (!k)
		return bad_usage("engine, writers, ycsb, amplify, recovery or compression is what can be measured here");
	if (*o.only && !each_word(o.only, take_line, (void *)k))
		return bad_usage("--only: not lines of %s: %s", k->name, o.only);
	if (o.reuse && k != &bench_paper)
		return bad_usage("--reuse: for engine only");
	fill_in(&o, k);
	return run_in_dir(&o, k);
}
