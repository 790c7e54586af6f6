/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed workload in which the n-th I/O call, or the n-th allocation, fails, for
 * every n.  Each call returns 0 or a documented -errno in bounded time, and the
 * store continues to work or is closed.  Reopened without faults, the store has
 * every acknowledged mutation.  A mutation that failed is there completely or not
 * at all; not at all if the error was not the disk's.
 *
 *	faults --io [--errno ENOSPC] [--stride N]     each I/O call in turn
 *	faults --memory [--stride N]                  each allocation in turn
 *	faults ... --at N                             only the N-th, verbose
 *	faults ... --compression lz4                  without the default's dictionary, whose training takes most of the time
 *
 * Each n runs in its own child, which ends with exit(), so that a leak checker
 * reports leaks.
 */
#include "engine/base/msg.h"
#include "t/lib/open_hooks.h"
#include "t/lib/file_faults.h"
#include "t/lib/tree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROWS 40
#define HANG_SECONDS 60

static struct shared {
	_Atomic uint64_t count; /* of calls or allocations in a whole run */
	int answer[2][ROWS];    /* the answer to each mutation, or 1 before it is tried */
	_Atomic int opened;
} * shared;

static char dir[300], store_dir[340];
static const char *compression; /* codec of the table; NULL for the default, which trains a dictionary */
static bool memory, tell;
static int with = -EIO;
static _Atomic bool armed;
static _Atomic uint64_t calls;
static uint64_t fail_at;

/* ---- allocations ---- */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);

bool fault_fails(void); /* of operator new too: faults_new.cc */
bool fault_fails(void)
{
	if (!memory || !armed)
		return false;
	return ++calls == fail_at;
}

void *__wrap_malloc(size_t n)
{
	return fault_fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t m)
{
	return fault_fails() ? NULL : __real_calloc(n, m);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fault_fails() ? NULL : __real_realloc(p, n);
}

char *__wrap_strdup(const char *s)
{
	return fault_fails() ? NULL : __real_strdup(s);
}

char *__real_strndup(const char *s, size_t n);
void *__real_reallocarray(void *p, size_t n, size_t m);
int __real_vasprintf(char **p, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
char *__wrap_strndup(const char *s, size_t n);
void *__wrap_reallocarray(void *p, size_t n, size_t m);
int __wrap_vasprintf(char **p, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
int __wrap_asprintf(char **p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int __wrap___vasprintf_chk(char **p, int flag, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));
int __wrap___asprintf_chk(char **p, int flag, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

char *__wrap_strndup(const char *s, size_t n)
{
	return fault_fails() ? NULL : __real_strndup(s, n);
}

void *__wrap_reallocarray(void *p, size_t n, size_t m)
{
	return fault_fails() ? NULL : __real_reallocarray(p, n, m);
}

int __wrap_vasprintf(char **p, const char *fmt, va_list ap)
{
	return fault_fails() ? -1 : __real_vasprintf(p, fmt, ap);
}

int __wrap___vasprintf_chk(char **p, int flag, const char *fmt, va_list ap)
{
	return __wrap_vasprintf(p, fmt, ap);
}

int __wrap_asprintf(char **p, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = __wrap_vasprintf(p, fmt, ap);
	va_end(ap);
	return n;
}

int __wrap___asprintf_chk(char **p, int flag, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = __wrap_vasprintf(p, fmt, ap);
	va_end(ap);
	return n;
}

static int fail_io(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	calls = number;
	if (number != fail_at)
		return 0;
	if (tell)
		printf("# fails: %s %s\n", file_op_names[op], path);
	return with;
}

/* ---- the workload ---- */
static bool clear(int err)
{
	static const int known[] = {0, -EIO, -ENOSPC, -ENOMEM, -EROFS, -ENOENT, -EBADMSG, -EBUSY, -EEXIST, -ESTALE};

	for (unsigned i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (err == known[i])
			return true;
	printf("# an error that says nothing: %d\n", err);
	return false;
}

static char big[600000];

static struct tfs_bytes value_of(int i)
{
	/* One row in each tablet has a value of more than one chunk. */
	return tfs_bytes_of(big + i, i % 16 == 7 ? 264000 : (size_t)(i * 17));
}

static int mutate(struct tfs_table *t, int i, bool again)
{
	char row[16];
	struct tfs_mutation *m;
	int err = -ENOMEM;

	snprintf(row, sizeof(row), "row%02d", i);
	m = tfs_mutation_new(t, tfs_str(row));
	if (m)
		err = tfs_mutation_put(m, "f", TFS_S("a"), tfs_at(1 + again), value_of(i));
	if (!err)
		err = tfs_mutation_put(m, "g", TFS_S("b"), tfs_at(1 + again), TFS_S("the other half"));
	if (!err)
		err = tfs_apply(m, i % 5 == 0 ? TFS_APPLY_SYNC : 0, NULL);
	tfs_mutation_free(m);
	return err;
}

static bool read_all(struct tfs_table *t)
{
	struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS};
	struct tfs_scan *sc;
	struct tfs_cell c;
	int err = tfs_scan_new(t, &spec, &sc);

	if (err)
		return clear(err);
	while ((err = tfs_scan_next(sc, &c)) > 0)
		;
	tfs_scan_free(sc);
	return clear(err);
}

static int make_table(struct tfs_store *s, struct tfs_table **t)
{
	struct tfs_schema_edit add = {.op = TFS_SCHEMA_FAMILY_ADD, .name = "f", .mode = 0644};
	struct tfs_schema_edit pack = {.op = TFS_SCHEMA_GROUP_COMPRESSION, .name = "default", .value = compression};
	int err = tfs_table_create(s, "t", 0, 0, 0755);

	if (!err || err == -EEXIST)
		err = tfs_table_open(s, "t", t);
	if (err)
		return err;
	err = compression ? tfs_schema_change(*t, &pack, NULL) : 0;
	if (!err)
		err = tfs_schema_change(*t, &add, NULL);
	add.name = "g";
	if (!err)
		err = tfs_schema_change(*t, &add, NULL);
	if (err)
		tfs_table_close(*t);
	return err;
}

static struct tfs_options options;
static struct open_hooks hooks;

static int count_tablet(void *arg, const struct tfs_tablet *tablet)
{
	++*(unsigned *)arg;
	return 0;
}

/* A mutation of table "u"; op chooses. */
static int change_u(struct tfs_table *t, int op)
{
	static const struct tfs_range range = {2, {(const uint8_t *)"67", 2}};
	struct tfs_write w = {.family = "c",
		.qualifier = TFS_S("w"),
		.base = TFS_BASE_NEWEST,
		.truncate_to = 1,
		.ranges = &range,
		.range_count = 1,
		.append = TFS_S("8"),
		.place = TFS_AUTO};
	struct tfs_mutation *m = tfs_mutation_new(t, TFS_S("row"));
	struct tfs_result results[8];
	int err = -ENOMEM;

	if (!m)
		return err;
	switch (op) {
	case 0:
		err = tfs_mutation_put(m, "c", TFS_S("q"), tfs_at(5), TFS_S("12"));
		if (!err)
			err = tfs_mutation_put(m, "c", TFS_S("w"), tfs_at(6), TFS_S("99"));
		break;
	case 1:
		err = tfs_mutation_increment(m, "c", TFS_S("q"), 3);
		if (!err)
			err = tfs_mutation_check(m, TFS_CHECK_EXISTS, "c", TFS_S("q"), TFS_AUTO, TFS_S(""));
		if (!err)
			err = tfs_mutation_move(m, "c", TFS_S("w"), TFS_AUTO, "c", TFS_S("v"), TFS_AUTO, false);
		break;
	case 2:
		err = tfs_mutation_write(m, &w);
		break;
	case 3:
		err = tfs_mutation_delete_version(m, "c", TFS_S("q"), 5);
		if (!err)
			err = tfs_mutation_delete_column(m, "c", TFS_S("w"));
		if (!err)
			err = tfs_mutation_set_time(m, "c", TFS_S("q"), INT64_C(1) << 60);
		break;
	default:
		err = tfs_mutation_delete_row(m);
	}
	if (!err)
		err = tfs_apply(m, 0, results);
	tfs_mutation_free(m);
	return err;
}

/* Calls that the first table's workload does not make: a table is made, becomes one of counters, changes its name, is dropped. */
static int life_of_u(struct tfs_store *s)
{
	static const char text[] = "families = ( { name = \"c\"; type = \"counter\"; gc = \"maxversions=3\"; } );";
	struct tfs_schema_edit add = {.op = TFS_SCHEMA_FAMILY_ADD, .name = "c", .mode = 0644};
	struct tfs_table *t = NULL;
	struct tfs_usage usage;
	unsigned tablets = 0;
	char *why = NULL;
	bool empty;
	int err = tfs_table_create(s, "u", 1, 2, 0700);

	if (!err)
		err = tfs_table_open(s, "u", &t);
	if (!err)
		err = tfs_schema_change(t, &add, &why);
	if (!err)
		err = change_u(t, 2);
	if (!err)
		err = change_u(t, 4);
	if (!err)
		err = change_u(t, 0);
	if (!err)
		err = tfs_schema_set_text(t, tfs_str(text), 77, &why);
	if (!err)
		err = change_u(t, 1);
	if (!err)
		err = tfs_usage(t, "c", &usage);
	if (!err)
		err = tfs_tablets(t, count_tablet, &tablets);
	if (!err)
		err = tfs_table_rename(s, "u", "w", false);
	if (!err)
		err = change_u(t, 3);
	if (!err)
		err = change_u(t, 4);
	if (!err)
		err = tfs_table_empty(t, &empty);
	if (!err)
		err = tfs_table_drop(s, "w");
	if (t)
		tfs_table_close(t);
	if (tell && err)
		printf("# life of u: %s (%s)\n", strerror(-err), why ? why : "");
	free(why);
	return err;
}

static int ask(struct tfs_store *s)
{
	char(*names)[TFS_NAME_MAX + 1] = calloc(8, sizeof(*names)), *text;
	uint64_t total, available;
	int err = names ? tfs_table_list(s, "", names, 8) : -ENOMEM;

	free(names);
	if (err >= 0)
		err = tfs_status(s, &text);
	if (!err) {
		free(text);
		err = tfs_metrics(s, &text);
	}
	if (!err) {
		free(text);
		err = tfs_space(s, &total, &available);
	}
	return err;
}

static bool workload(void)
{
	struct tfs_store *s;
	struct tfs_table *t;
	char *why = NULL;
	bool fine = true;
	int err = tfs_open_hooked(store_dir, &options, &hooks, &s, &why);

	if (tell && err)
		printf("# open: %s (%s)\n", strerror(-err), why ? why : "");
	free(why);
	if (err)
		return clear(err);
	shared->opened = 1;
	err = make_table(s, &t);
	if (err) {
		fine = clear(err);
		err = tfs_close(s);
		return clear(err) && fine;
	}
	err = life_of_u(s);
	fine &= clear(err);
	err = ask(s);
	fine &= clear(err);
	for (int again = 0; again < 2; again++) {
		for (int i = 0; i < ROWS; i++) {
			err = mutate(t, i, again);
			fine &= clear(err);
			shared->answer[again][i] = err;
			if (i == 20) {
				err = tfs_flush(t);
				fine &= clear(err);
				err = tfs_split(t, TFS_S("row10"));
				fine &= again && err == -EEXIST ? true : clear(err);
			}
			if (i == 30) {
				err = again ? tfs_merge(t, TFS_S("row00")) : tfs_split(t, TFS_S("row25"));
				fine &= again && err == -ENOENT ? true : clear(err); /* the split before it may have failed */
			}
		}
		fine &= read_all(t);
		err = tfs_sync(s);
		fine &= clear(err);
		err = tfs_compact(t);
		fine &= clear(err);
		fine &= read_all(t);
	}
	tfs_table_close(t);
	hooks.no_flush = fail_at & 1;
	err = tfs_close(s);
	if (tell && err)
		printf("# close: %s\n", strerror(-err));
	return clear(err) && fine;
}

/* Checks the row: both cells of the row's mutation, or neither. */
static bool look_at_row(struct tfs_table *t, int i, int again)
{
	int answer = shared->answer[again][i], a, b;
	bool disk = answer == -EIO || answer == -ENOSPC || answer == -EROFS;
	struct tfs_info info = {0}, other;
	char row[16];

	snprintf(row, sizeof(row), "row%02d", i);
	a = tfs_stat(t, tfs_str(row), "f", TFS_S("a"), tfs_at(1 + again), &info);
	b = tfs_stat(t, tfs_str(row), "g", TFS_S("b"), tfs_at(1 + again), &other);
	if (answer == 1 && (a == -EINVAL || b == -EINVAL))
		return a == -ENOENT || a == -EINVAL; /* the families were not made */
	if (a != b || (a && a != -ENOENT) || (!a && info.size != value_of(i).n)) {
		printf("# %s, %d: %s and %s, %llu bytes\n", row, again, strerror(-a), strerror(-b), (unsigned long long)info.size);
		return false;
	}
	if (answer == 0 && a) {
		printf("# %s, %d: was answered with success and is not there\n", row, again);
		return false;
	}
	if (answer != 0 && !disk && !a) {
		printf("# %s, %d: was answered with %s and is there\n", row, again, answer == 1 ? "nothing" : strerror(-answer));
		return false;
	}
	return true;
}

/* Checks the rest of the second table: all of one kind, and it can be dropped. */
static bool look_at_u(struct tfs_store *s, const char *name)
{
	const struct tfs_schema *schema;
	struct tfs_table *t;
	char p[32];
	size_t got = 0;
	unsigned families = 0;
	bool counters = false;
	int err = tfs_table_open(s, name, &t), found = -ENOENT;

	if (err == -ENOENT)
		return true;
	if (!err)
		err = tfs_schema_get(t, &schema);
	if (!err) {
		families = schema->family_count;
		if (families) {
			counters = schema->families[0].type == TFS_TYPE_COUNTER;
			found = tfs_read(t, TFS_S("row"), "c", TFS_S("q"), tfs_at(5), 0, p, sizeof(p), &got, NULL);
		}
		tfs_schema_put(schema);
	}
	if (!err && families)
		err = change_u(t, 4);
	tfs_table_close(t);
	if (!err)
		err = tfs_table_drop(s, name);
	if (err || (found && found != -ENOENT) || (!found && got != 2)) {
		printf("# table %s: %s; %s %s, %zu bytes\n", name, strerror(-err), counters ? "counter" : "text", strerror(-found),
			got);
		return false;
	}
	return true;
}

static bool look(void)
{
	struct tfs_store *s;
	struct tfs_table *t;
	char *why = NULL;
	bool fine = true;
	int err = tfs_open(store_dir, &options, &s, &why);

	if (err)
		printf("# opened again: %s (%s)\n", strerror(-err), why ? why : "");
	free(why);
	if (err)
		return false;
	err = tfs_table_open(s, "t", &t);
	if (!err) {
		for (int again = 0; again < 2; again++)
			for (int i = 0; i < ROWS; i++)
				fine &= look_at_row(t, i, again);
		fine &= read_all(t);
		tfs_table_close(t);
	} else if (err != -ENOENT || shared->answer[0][0] != 1) {
		printf("# the table: %s\n", strerror(-err));
		fine = false;
	}
	fine &= look_at_u(s, "u") && look_at_u(s, "w");
	err = tfs_table_create(s, "after", 0, 0, 0755);
	if (!err)
		err = tfs_close(s);
	if (err)
		printf("# afterwards: %s\n", strerror(-err));
	return fine && !err;
}

static int in_child(bool (*fn)(void), bool with_faults)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(HANG_SECONDS);
		if (!tell)
			msg_to_nowhere();
		if (with_faults) {
			if (!memory)
				file_set_hook(fail_io, NULL);
			armed = true;
		}
		status = fn() ? 0 : 1;
		armed = false;
		if (with_faults)
			shared->count = calls;
		fflush(stdout);
		exit(status);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		exit(2);
	return status;
}

static bool one(uint64_t at)
{
	int ran, found;

	tree_remove(store_dir);
	fail_at = at;
	shared->opened = 0;
	for (int i = 0; i < 2 * ROWS; i++)
		shared->answer[i / ROWS][i % ROWS] = 1;
	ran = in_child(workload, true);
	found = in_child(look, false);
	if (ran || found)
		printf("# %s %llu: the workload ended by status %x, looking by %x\n", memory ? "allocation" : "I/O call",
			(unsigned long long)at, (unsigned)ran, (unsigned)found);
	return !ran && !found;
}

int main(int argc, char **argv)
{
	uint64_t total, stride = 1, only = 0, done = 0, failed = 0, first = 1;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--memory") == 0)
			memory = true;
		else if (strcmp(argv[i], "--errno") == 0 && i + 1 < argc)
			with = strcmp(argv[++i], "ENOSPC") == 0 ? -ENOSPC : -EIO;
		else if (strcmp(argv[i], "--compression") == 0 && i + 1 < argc)
			compression = argv[++i];
		else if (strcmp(argv[i], "--stride") == 0 && i + 1 < argc)
			stride = strtoull(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "--first") == 0 && i + 1 < argc)
			first = strtoull(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "--at") == 0 && i + 1 < argc)
			only = strtoull(argv[++i], NULL, 0);
	}
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 2654435761u >> 11);
	tfs_options_init(&options);
	options.memtable_bytes = 512 << 10;
	options.block_cache_bytes = options.table_cache_bytes = 1 << 20;
	options.log_segment_bytes = 64 << 10;
	options.no_background = true;
	options.log_level = MSG_WARNING;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(dir, sizeof(dir), "%s/tfs-faults-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (shared == MAP_FAILED || !mkdtemp(dir))
		return 2;
	snprintf(store_dir, sizeof(store_dir), "%s/store", dir);
	if (only) {
		tell = true;
		failed = !one(only);
		printf("# the store is left in %s\n", store_dir);
		return failed != 0;
	}
	if (!one(UINT64_MAX)) {
		printf("not ok 1 - the workload alone\n1..1\n");
		return 1;
	}
	total = shared->count;
	for (uint64_t at = first; at <= total && failed < 8; at += stride, done++)
		failed += !one(at);
	tree_remove(dir);
	printf("%s 1 - %llu of %llu %s failing in turn%s%s%s\n1..1\n", failed ? "not ok" : "ok", (unsigned long long)done,
		(unsigned long long)total, memory ? "allocations" : "I/O calls",
		memory                 ? ""
			: with == -EIO ? ", EIO"
				       : ", ENOSPC",
		compression ? ", " : "", compression ? compression : "");
	return failed != 0;
}
