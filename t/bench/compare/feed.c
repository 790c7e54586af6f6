/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input of all sides: 16-byte keys, an order to write and read them in, values
 * of real text, and cold caches.
 *
 * The text comes from the documentation directories of this machine, file after file.
 * Value i is its i-th piece; after the last piece it starts again.
 * So neighbouring cells are neighbouring text, as in a table of pages.
 * Compressed files, files with NUL bytes and symbolic links are left out.
 */
#include "engine/base/file.h"
#include "t/bench/compare/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_FILE_MAX (8u << 20)
#define TEXT_MIN (1u << 20)

struct gather {
	struct buf *out;
	size_t want;
	const char *dir;
};

static bool is_text(const uint8_t *p, size_t n)
{
	return n >= 256 && !memchr(p, 0, n);
}

static int gather_entry(void *arg, const char *name, bool is_dir)
{
	struct gather *g = arg;
	struct stat st;
	struct buf file = {0};
	char *path = path_join(g->dir, name);
	size_t n = strlen(name);
	int err = 0;

	if (!path)
		return -ENOMEM;
	if (is_dir) {
		struct gather below = {g->out, g->want, path};

		err = file_list(path, gather_entry, &below);
		if (err != 1 && err != -ENOMEM)
			err = 0; /* a directory that cannot be read is passed over */
	} else if (!lstat(path, &st) && S_ISREG(st.st_mode) && !(n > 3 && strcmp(name + n - 3, ".gz") == 0) &&
		file_read_all(path, TEXT_FILE_MAX, &file) == 0 && is_text(file.p, file.n)) {
		err = buf_append(g->out, file.p, file.n);
	}
	buf_fini(&file);
	free(path);
	return err ? err : g->out->n >= g->want;
}

int feed_text(struct buf *out, size_t want_bytes)
{
	static const char *const dirs[] = {"/usr/share/doc", "/usr/share/perl", "/usr/share/perl5", "/usr/share/info",
		"/usr/share/common-licenses", "/usr/lib/python3"};
	int err = 0;

	for (unsigned i = 0; i < sizeof(dirs) / sizeof(*dirs) && err != 1; i++) {
		struct gather g = {out, want_bytes, dirs[i]};

		err = file_list(dirs[i], gather_entry, &g);
		if (err == -ENOMEM)
			return err;
	}
	return out->n >= TEXT_MIN ? 0 : -ENODATA;
}

uint64_t feed_hash(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* splitmix64: good bits at each step from any seed. */
uint64_t feed_random(uint64_t *state)
{
	return feed_hash(*state += UINT64_C(0x9e3779b97f4a7c15));
}

int feed_order(uint64_t n, uint64_t seed, uint32_t **out)
{
	uint32_t *v = malloc((n ? n : 1) * sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++)
		v[i] = (uint32_t)i;
	for (uint64_t i = n; i > 1; i--) {
		uint64_t k = feed_random(&seed) % i;
		uint32_t t = v[i - 1];

		v[i - 1] = v[k];
		v[k] = t;
	}
	*out = v;
	return 0;
}

void feed_key(char key[BENCH_KEY_BYTES + 1], uint64_t number)
{
	for (int i = BENCH_KEY_BYTES; i-- > 0; number /= 10)
		key[i] = (char)('0' + number % 10);
	key[BENCH_KEY_BYTES] = 0;
}

void feed_hashed_key(char key[BENCH_KEY_BYTES + 1], uint64_t number)
{
	uint64_t hash = feed_hash(number + 1);

	for (int i = BENCH_KEY_BYTES; i-- > 0; hash >>= 4)
		key[i] = "0123456789abcdef"[hash & 15];
	key[BENCH_KEY_BYTES] = 0;
}

struct tfs_bytes feed_value(const struct bench_options *o, uint64_t number)
{
	return tfs_bytes_of(o->text.p + number * o->value_bytes % (o->text.n - o->value_bytes), o->value_bytes);
}

uint64_t feed_touch(const void *p, size_t n)
{
	const uint8_t *at = p;
	uint64_t sum = 0, word;

	for (; n >= sizeof(word); n -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		sum += word;
	}
	while (n-- > 0)
		sum += *at++;
	return sum;
}

/* ---- files ---- */

static int remove_entry(void *arg, const char *name, bool is_dir)
{
	char *path = path_join(arg, name);
	int err = path ? 0 : -ENOMEM;

	if (!err)
		err = is_dir ? remove_tree(path) : file_unlink(path);
	free(path);
	return err;
}

int remove_tree(const char *path)
{
	char *copy = strdup(path);
	int err = copy ? file_list(copy, remove_entry, copy) : -ENOMEM;

	if (!err)
		err = file_rmdir(copy);
	free(copy);
	return err == -ENOENT ? 0 : err;
}

struct sum {
	const char *dir;
	const char *const *ends;
	uint64_t bytes;
};

static int sum_entry(void *arg, const char *name, bool is_dir)
{
	struct sum *s = arg;
	size_t n = strlen(name);
	uint64_t bytes;
	char *path;
	int err = 0;

	if (is_dir)
		return 0;
	for (const char *const *e = s->ends; *e; e++) {
		if (n < strlen(*e) || strcmp(name + n - strlen(*e), *e) != 0)
			continue;
		path = path_join(s->dir, name);
		err = path ? file_stat_size(path, &bytes) : -ENOMEM;
		if (!err)
			s->bytes += bytes;
		free(path);
		break;
	}
	return err;
}

int sum_files(const char *dir, const char *const *ends, uint64_t *bytes)
{
	struct sum s = {dir, ends, 0};
	int err = file_list(dir, sum_entry, &s);

	if (!err)
		*bytes = s.bytes;
	return err;
}

static int usage_entry(void *arg, const char *name, bool is_dir)
{
	struct sum *s = arg;
	char *path = path_join(s->dir, name);
	struct stat st;
	int err = path ? 0 : -ENOMEM;

	if (!err && is_dir) {
		struct sum below = {path, NULL, 0};

		err = file_list(path, usage_entry, &below);
		s->bytes += below.bytes;
	}
	/* A file may have been removed. */
	if (!err && lstat(path, &st) == 0)
		s->bytes += (uint64_t)st.st_blocks * 512;
	free(path);
	return err;
}

int disk_usage(const char *dir, uint64_t *bytes)
{
	struct sum s = {dir, NULL, 0};
	int err = file_list(dir, usage_entry, &s);

	if (!err)
		*bytes = s.bytes;
	return err;
}

int drop_caches(void)
{
	int fd, err = 0;

	sync();
	fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, "3\n", 2) != 2)
		err = -errno;
	close(fd);
	return err;
}
