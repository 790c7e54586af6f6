/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spill files are O_TMPFILE (or created and unlinked at once where the file
 * system has no O_TMPFILE), sparse, and never synced: they end with the
 * process, as the contract says, and nothing of them is ever read back after
 * a crash.  So they are not files of the store and do not pass the engine's
 * file layer.
 *
 * Bytes beyond an image's size are kept zero, in memory and in the file, so
 * that extending needs no writing.
 */
#include "fs/stage.h"

#include "engine/tabletfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t memory_used;
static char directory[4096];

void stage_set_directory(const char *path)
{
	snprintf(directory, sizeof(directory), "%s", path);
}

uint64_t stage_memory_used(void)
{
	return atomic_load(&memory_used);
}

void stage_init(struct stage *s)
{
	*s = (struct stage){.fd = -1};
}

static void unmap(struct stage *s)
{
	if (s->map)
		munmap(s->map, s->map_bytes);
	s->map = NULL;
}

void stage_reset(struct stage *s)
{
	unmap(s);
	atomic_fetch_sub(&memory_used, s->memory_bytes);
	free(s->memory);
	if (s->fd >= 0)
		close(s->fd);
	s->memory = NULL;
	s->memory_bytes = 0;
	s->fd = -1;
	s->size = 0;
	s->span_count = 0;
}

void stage_fini(struct stage *s)
{
	stage_reset(s);
	free(s->spans);
	s->spans = NULL;
	s->span_cap = 0;
}

static int open_in(const char *dir)
{
	char path[4096 + 32];
	int fd;

	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
		return -errno;
	snprintf(path, sizeof(path), "%s/.spill-XXXXXX", dir);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

static int full_pwrite(int fd, const uint8_t *p, size_t n, uint64_t offset)
{
	while (n) {
		ssize_t w = pwrite(fd, p, n, (off_t)offset);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return w < 0 ? -errno : -EIO;
		p += w;
		n -= (size_t)w;
		offset += (uint64_t)w;
	}
	return 0;
}

static int spill(struct stage *s)
{
	const char *tmp = getenv("TMPDIR");
	int fd = -ENOENT, r;

	if (directory[0])
		fd = open_in(directory);
	if (fd < 0 && tmp)
		fd = open_in(tmp);
	if (fd < 0)
		fd = open_in("/tmp");
	if (fd < 0)
		return fd;
	r = s->memory ? full_pwrite(fd, s->memory, s->size, 0) : 0;
	if (r == 0 && ftruncate(fd, (off_t)s->size) != 0)
		r = -errno;
	if (r) {
		close(fd);
		return r;
	}
	atomic_fetch_sub(&memory_used, s->memory_bytes);
	free(s->memory);
	s->memory = NULL;
	s->memory_bytes = 0;
	s->fd = fd;
	return 0;
}

/* Makes room in memory for n bytes, or moves to a file. */
static int reserve(struct stage *s, uint64_t n)
{
	size_t want = s->memory_bytes ? s->memory_bytes : 64;
	uint8_t *p;

	if (s->fd >= 0 || n <= s->memory_bytes)
		return 0;
	while (want < n && want < STAGE_MEMORY)
		want *= 2;
	if (s->memory_bytes == 0 && n < want && n > 512)
		want = (size_t)n;
	if (n > STAGE_MEMORY || atomic_load(&memory_used) + want > STAGE_MEMORY_ALL)
		return spill(s);
	p = realloc(s->memory, want);
	if (!p)
		return -ENOMEM;
	memset(p + s->memory_bytes, 0, want - s->memory_bytes);
	atomic_fetch_add(&memory_used, want - s->memory_bytes);
	s->memory = p;
	s->memory_bytes = want;
	return 0;
}

int stage_load(struct stage *s, uint64_t offset, const void *p, size_t n)
{
	int r;

	if (offset > TFS_VALUE_MAX || n > TFS_VALUE_MAX - offset)
		return -EFBIG;
	if (n == 0)
		return 0;
	unmap(s);
	r = reserve(s, offset + n);
	if (r)
		return r;
	if (s->fd >= 0) {
		r = full_pwrite(s->fd, p, n, offset);
		if (r)
			return r;
	} else {
		memcpy(s->memory + offset, p, n);
	}
	if (offset + n > s->size)
		s->size = offset + n;
	return 0;
}

static int add_span(struct stage *s, uint64_t begin, uint64_t end)
{
	unsigned lo = 0, hi = s->span_count, drop;

	/* Growing the last one is what nearly every write does. */
	if (s->span_count && s->spans[s->span_count - 1].begin <= begin && s->spans[s->span_count - 1].end >= begin) {
		if (end > s->spans[s->span_count - 1].end)
			s->spans[s->span_count - 1].end = end;
		return 0;
	}
	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (s->spans[mid].end < begin)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (drop = lo; drop < s->span_count && s->spans[drop].begin <= end; drop++) {
		if (s->spans[drop].begin < begin)
			begin = s->spans[drop].begin;
		if (s->spans[drop].end > end)
			end = s->spans[drop].end;
	}
	if (drop == lo) {
		if (s->span_count == s->span_cap) {
			unsigned cap = s->span_cap ? s->span_cap * 2 : 4;
			struct stage_span *more = realloc(s->spans, cap * sizeof(*more));

			if (!more)
				return -ENOMEM;
			s->spans = more;
			s->span_cap = cap;
		}
		memmove(s->spans + lo + 1, s->spans + lo, (s->span_count - lo) * sizeof(*s->spans));
		s->span_count++;
	} else {
		memmove(s->spans + lo + 1, s->spans + drop, (s->span_count - drop) * sizeof(*s->spans));
		s->span_count -= drop - lo - 1;
	}
	s->spans[lo] = (struct stage_span){begin, end};
	return 0;
}

int stage_write(struct stage *s, uint64_t offset, const void *p, size_t n)
{
	int r = stage_load(s, offset, p, n);

	return r || n == 0 ? r : add_span(s, offset, offset + n);
}

int stage_truncate(struct stage *s, uint64_t size)
{
	int r;

	if (size > TFS_VALUE_MAX)
		return -EFBIG;
	unmap(s);
	if (size > s->size) {
		r = reserve(s, size);
		if (r)
			return r;
	}
	if (s->fd >= 0) {
		if (ftruncate(s->fd, (off_t)size) != 0)
			return -errno;
	} else if (size < s->size) {
		memset(s->memory + size, 0, (size_t)(s->size - size));
	}
	s->size = size;
	while (s->span_count && s->spans[s->span_count - 1].begin >= size)
		s->span_count--;
	if (s->span_count && s->spans[s->span_count - 1].end > size)
		s->spans[s->span_count - 1].end = size;
	return 0;
}

int stage_read(struct stage *s, uint64_t offset, void *p, size_t n, size_t *got)
{
	size_t done = 0;

	if (offset >= s->size) {
		*got = 0;
		return 0;
	}
	if (n > s->size - offset)
		n = (size_t)(s->size - offset);
	if (s->fd < 0) {
		memcpy(p, s->memory + offset, n);
		*got = n;
		return 0;
	}
	while (done < n) {
		ssize_t r = pread(s->fd, (uint8_t *)p + done, n - done, (off_t)(offset + done));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0) {
			memset((uint8_t *)p + done, 0, n - done);
			break;
		}
		done += (size_t)r;
	}
	*got = n;
	return 0;
}

int stage_bytes(struct stage *s, struct slice *out)
{
	if (s->size == 0) {
		*out = slice_of("", 0);
		return 0;
	}
	if (s->fd < 0) {
		*out = slice_of(s->memory, (size_t)s->size);
		return 0;
	}
	if (!s->map) {
		void *p;

		/* A write past the last one may have left the file short of its size. */
		if (ftruncate(s->fd, (off_t)s->size) != 0)
			return -errno;
		p = mmap(NULL, (size_t)s->size, PROT_READ, MAP_SHARED, s->fd, 0);
		if (p == MAP_FAILED)
			return -errno;
		s->map = p;
		s->map_bytes = (size_t)s->size;
	}
	*out = slice_of(s->map, (size_t)s->size);
	return 0;
}

void stage_forget_spans(struct stage *s)
{
	s->span_count = 0;
}
