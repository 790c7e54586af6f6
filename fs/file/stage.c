/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages (stage.h) and their spill files.
 *
 * A spill file is opened with O_TMPFILE.  If the file system does not support
 * this, the file is created and unlinked.  Spill files are sparse and never
 * synced.  They end with the process and are not read after a crash, so they do
 * not use the engine's file layer.
 *
 * Bytes beyond an image's size are zero, in memory and in the file.  So an
 * extension of an image needs no write.
 *
 * All images share one file, because rsync --delay-updates stages every file of
 * a transfer.  The file is divided into slots of TFS_VALUE_MAX bytes.  Freeing a
 * slot punches a hole, so the file occupies only the staged bytes.  If the file
 * system cannot punch holes, or the file cannot become longer, an image gets a
 * file of its own.
 */
#include "fs/file/stage.h"

#include "engine/base/mutex.h"
#include "engine/tabletfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The shared spill file. */
static struct {
	struct mutex lock; /* RANK_FS_NOTIFY; guards the next members */
	_Atomic int fd;    /* -1: not made yet; does not change after that */
	bool cannot_punch; /* the file system does not punch holes, so there is no shared file */
	uint32_t next;     /* the first slot that was never used */
	uint32_t *freed;   /* slots that were used and freed */
	size_t n;          /* the number of slots in freed[] */
} spill = {.fd = -1};

static _Atomic uint64_t memory_used, memory_spared;
static char directory[4096];
static pthread_once_t spill_once = PTHREAD_ONCE_INIT;

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

/* Makes an unlinked file in dir.  Returns its descriptor or -errno. */
static int spill_file_in(const char *dir)
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

static int spill_file_new(void)
{
	const char *tmp = getenv("TMPDIR");
	int fd = -ENOENT;

	if (directory[0])
		fd = spill_file_in(directory);
	if (fd < 0 && tmp)
		fd = spill_file_in(tmp);
	if (fd < 0)
		fd = spill_file_in("/tmp");
	return fd;
}

/* ---- slots ---- */

static void spill_init(void)
{
	mutex_init(&spill.lock, RANK_FS_NOTIFY);
}

static int stage_punch(int fd, uint64_t at, uint64_t n)
{
	int err;

	do {
		err = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)n);
	} while (err != 0 && errno == EINTR);
	return err ? -errno : 0;
}

/* Makes the shared file unless it exists.  -EOPNOTSUPP: the file system cannot punch holes. */
static int spill_open_locked(void)
{
	int fd = spill.fd < 0 && !spill.cannot_punch ? spill_file_new() : spill.fd;

	if (fd < 0)
		return spill.cannot_punch ? -EOPNOTSUPP : fd;
	spill.cannot_punch = spill.fd < 0 && stage_punch(fd, 0, 4096) != 0;
	if (spill.cannot_punch)
		close(fd);
	else
		spill.fd = fd;
	return spill.cannot_punch ? -EOPNOTSUPP : 0;
}

/* -EOPNOTSUPP: the shared file cannot be used, or cannot become longer. */
static int slot_take_locked(uint32_t *slot)
{
	int err = spill_open_locked();

	if (err)
		return err;
	if (spill.n) {
		*slot = spill.freed[--spill.n];
		return 0;
	}
	if (ftruncate(spill.fd, (off_t)((spill.next + UINT64_C(1)) * TFS_VALUE_MAX)) != 0)
		return errno == EFBIG ? -EOPNOTSUPP : -errno;
	*slot = spill.next++;
	return 0;
}

static void slot_free(uint32_t slot)
{
	/* If the hole cannot be punched, or memory is short, the slot is never used again. */
	if (stage_punch(spill.fd, (uint64_t)slot * TFS_VALUE_MAX, TFS_VALUE_MAX))
		return;
	mutex_lock(&spill.lock);
	if (array_grow(&spill.freed, spill.n, sizeof(*spill.freed)) == 0)
		spill.freed[spill.n++] = slot;
	mutex_unlock(&spill.lock);
}

/* Sets out->fd and out->base to a slot of the shared file, or to a file of its own. */
static int stage_place(struct stage *out)
{
	uint32_t slot = 0;
	int err;

	pthread_once(&spill_once, spill_init);
	mutex_lock(&spill.lock);
	err = slot_take_locked(&slot);
	mutex_unlock(&spill.lock);
	if (err && err != -EOPNOTSUPP)
		return err;
	out->fd = err ? spill_file_new() : spill.fd;
	out->base = (uint64_t)slot * TFS_VALUE_MAX;
	return out->fd < 0 ? out->fd : 0;
}

/* Returns true if the image is in the shared file. */
static bool stage_is_shared(const struct stage *s)
{
	return s->fd >= 0 && s->fd == spill.fd;
}

/* Frees the image's slot, or closes its own file. */
static void stage_leave_file(struct stage *s)
{
	if (stage_is_shared(s))
		slot_free((uint32_t)(s->base / TFS_VALUE_MAX));
	else if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	s->base = 0;
	atomic_fetch_sub(&memory_spared, s->spared);
	s->spared = 0;
}

/* Cuts or extends the image in its file.  The caller sets s->size. */
static int stage_resize_file(struct stage *s, uint64_t size)
{
	if (!stage_is_shared(s))
		return ftruncate(s->fd, (off_t)size) != 0 ? -errno : 0;
	if (size < s->size)
		return stage_punch(s->fd, s->base + size, s->size - size);
	return 0; /* an extension is inside the slot */
}

static void stage_unmap(struct stage *s)
{
	if (s->map)
		munmap(s->map, s->map_bytes);
	s->map = NULL;
}

static void stage_free_memory(struct stage *s)
{
	atomic_fetch_sub(&memory_used, s->memory_bytes);
	free(s->memory);
	s->memory = NULL;
	s->memory_bytes = 0;
}

void stage_reset(struct stage *s)
{
	stage_unmap(s);
	stage_free_memory(s);
	stage_leave_file(s);
	s->size = 0;
	s->span_count = 0;
}

void stage_fini(struct stage *s)
{
	stage_reset(s);
	free(s->spans);
	s->spans = NULL;
}

/* Moves the image to the place of `to` in another file.  On failure frees that place. */
static int stage_move(struct stage *s, struct stage *to)
{
	uint8_t piece[16384];
	size_t got = 0;
	int err = 0;

	for (uint64_t at = 0; err == 0 && at < s->size; at += got) {
		err = stage_read(s, at, piece, sizeof(piece), &got);
		if (err == 0)
			err = full_pwrite(to->fd, piece, got, to->base + at);
	}
	if (err == 0)
		err = stage_resize_file(to, s->size);
	if (err) {
		stage_leave_file(to);
		return err;
	}
	stage_free_memory(s);
	stage_leave_file(s);
	s->fd = to->fd;
	s->base = to->base;
	s->spared = to->spared;
	return 0;
}

static int stage_spill(struct stage *s)
{
	struct stage to = {.fd = -1};
	int err = stage_place(&to);

	return err ? err : stage_move(s, &to);
}

/*
 * Called on a full disk.  Moves the image to a file in memory.  -ENOSPC: it is
 * written, or all of STAGE_MEMORY_FULL is used.
 */
static int stage_move_to_memory(struct stage *s)
{
	struct stage to = {.fd = -1, .spared = s->only_read};
	int err;

	if (!s->only_read || s->spared)
		return -ENOSPC;
	if (atomic_fetch_add(&memory_spared, to.spared) + to.spared <= STAGE_MEMORY_FULL)
		to.fd = memfd_create("tabletfs-stage", MFD_CLOEXEC);
	else
		errno = ENOSPC;
	if (to.fd < 0) {
		err = -errno;
		stage_leave_file(&to);
		return err;
	}
	return stage_move(s, &to);
}

/* Ensures that the image can have n bytes: enlarges its memory, or moves it to a file. */
static int stage_reserve(struct stage *s, uint64_t n)
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
		return stage_spill(s);
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
	int err;

	if (offset > TFS_VALUE_MAX || n > TFS_VALUE_MAX - offset)
		return -EFBIG;
	if (n == 0)
		return 0;
	stage_unmap(s);
	do {
		err = stage_reserve(s, offset + n);
		if (err == 0 && s->fd >= 0)
			err = full_pwrite(s->fd, p, n, s->base + offset);
		else if (err == 0)
			memcpy(s->memory + offset, p, n);
	} while (err == -ENOSPC && (err = stage_move_to_memory(s)) == 0);
	if (err)
		return err;
	if (offset + n > s->size)
		s->size = offset + n;
	return 0;
}

/* Adds [begin, end) to the written spans, and joins it with the spans that it touches. */
static int stage_add_span(struct stage *s, uint64_t begin, uint64_t end)
{
	unsigned lo = 0, hi = s->span_count, drop;

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
		if (s->span_count == STAGE_SPANS_MAX)
			return -EFBIG;
		if (array_grow(&s->spans, s->span_count, sizeof(*s->spans)))
			return -ENOMEM;
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
	int err = stage_load(s, offset, p, n);

	return err || n == 0 ? err : stage_add_span(s, offset, offset + n);
}

int stage_truncate(struct stage *s, uint64_t size)
{
	int err;

	if (size > TFS_VALUE_MAX)
		return -EFBIG;
	stage_unmap(s);
	if (size > s->size) {
		err = stage_reserve(s, size);
		if (err)
			return err;
	}
	if (s->fd >= 0) {
		err = stage_resize_file(s, size);
		if (err)
			return err;
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
		ssize_t part = pread(s->fd, (uint8_t *)p + done, n - done, (off_t)(s->base + offset + done));

		if (part < 0 && errno == EINTR)
			continue;
		if (part < 0)
			return -errno;
		if (part == 0 && stage_is_shared(s))
			return -EIO; /* the slot is always inside the file, so this is no end of file */
		if (part == 0) {
			memset((uint8_t *)p + done, 0, n - done);
			break;
		}
		done += (size_t)part;
	}
	*got = n;
	return 0;
}

int stage_bytes(struct stage *s, struct tfs_bytes *out)
{
	if (s->size == 0) {
		*out = tfs_bytes_of("", 0);
		return 0;
	}
	if (s->fd < 0) {
		*out = tfs_bytes_of(s->memory, (size_t)s->size);
		return 0;
	}
	if (!s->map) {
		void *p;

		/* The file must be as long as the image, because an access after its end would be a SIGBUS. */
		int err = stage_resize_file(s, s->size);

		if (err)
			return err;
		p = mmap(NULL, (size_t)s->size, PROT_READ, MAP_SHARED, s->fd, (off_t)s->base);
		if (p == MAP_FAILED)
			return -errno;
		/*
		 * Reads the pages now, so that a read error is returned here
		 * and is not a SIGBUS in the engine.  EINVAL: kernels before
		 * 5.14.
		 */
		if (madvise(p, (size_t)s->size, MADV_POPULATE_READ) != 0 && errno != EINVAL) {
			err = errno == ENOMEM ? -ENOMEM : -EIO;
			munmap(p, (size_t)s->size);
			return err;
		}
		s->map = p;
		s->map_bytes = (size_t)s->size;
	}
	*out = tfs_bytes_of(s->map, (size_t)s->size);
	return 0;
}
