/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of large versions (blocks.h).  The kernel asks for PIECE_BYTES or more only when it reads
 * ahead of a sequential reader.  Smaller pieces are read alone.
 *
 * One thread reads a block, and others that need it wait.  A block is dropped
 * when all its bytes were asked for, and is not used if something was committed since (fs_changes).  There are
 * at most BLOCKS of them.  If all are being read, a piece is read alone.
 */
#include "fs/file/blocks.h"

#include "engine/base/stop.h"
#include "fs/file/cell.h"

#include <errno.h>
#include <stdlib.h>

#define BLOCK_BYTES CELL_READ_AT_ONCE
#define PIECE_BYTES (128u << 10)
#define BLOCKS 16u

struct block {
	uint8_t *p;          /* NULL: free */
	uint32_t generation; /* the node's */
	uint64_t begin;      /* its offset in the value */
	uint64_t stamp;      /* fs_changes() before it was read */
	uint64_t used;
	size_t n, taken; /* n: bytes of the block; taken: bytes that were asked for */
	bool loading;
};
static struct {
	struct mutex lock;
	struct cond loaded;
	struct block v[BLOCKS];
	uint64_t uses;
} blocks;

void blocks_init(void)
{
	mutex_init(&blocks.lock, RANK_FS_NOTIFY);
	cond_init(&blocks.loaded);
}

void blocks_fini(void)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		free(blocks.v[i].p);
	cond_fini(&blocks.loaded);
	mutex_fini(&blocks.lock);
}

static void drop_locked(struct block *b)
{
	free(b->p);
	*b = (struct block){0};
}

/* Waits while another thread reads the block. */
static struct block *find_locked(const struct node *n, uint64_t begin)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		struct block *b = &blocks.v[i];

		if (!b->p || b->generation != n->generation || b->begin != begin)
			continue;
		if (b->loading) {
			cond_wait(&blocks.loaded, &blocks.lock);
			i = UINT32_MAX; /* the places may have changed */
		} else if (b->stamp == fs_changes()) {
			return b;
		} else {
			drop_locked(b);
		}
	}
	return NULL;
}

/* Returns a free place, or frees the block that was not used for the longest time.  NULL: all are being read. */
static struct block *place_locked(void)
{
	struct block *oldest = NULL;

	for (unsigned i = 0; i < BLOCKS; i++) {
		struct block *b = &blocks.v[i];

		if (!b->loading && (!oldest || !b->p || (oldest->p && b->used < oldest->used)))
			oldest = b;
	}
	if (oldest)
		drop_locked(oldest);
	return oldest;
}

/* Reads the block, without the lock.  Returns the block, or NULL and *err, which is 0 if there is no place. */
static struct block *load_locked(struct node *n, uint64_t begin, int *err)
{
	struct block *b = place_locked();
	uint8_t *p = b ? malloc(BLOCK_BYTES) : NULL;

	*err = 0;
	if (!p)
		return NULL;
	*b = (struct block){.p = p, .generation = n->generation, .begin = begin, .stamp = fs_changes(), .loading = true};
	mutex_unlock(&blocks.lock);
	*err = cell_node_read(n, begin, p, BLOCK_BYTES, &b->n);
	mutex_lock(&blocks.lock);
	b->loading = false;
	cond_broadcast(&blocks.loaded);
	if (*err)
		drop_locked(b);
	return *err ? NULL : b;
}

/* Copies the part of the piece that the block contains. */
static size_t take_locked(struct block *b, uint64_t offset, void *buf, size_t n)
{
	const size_t from = (size_t)(offset - b->begin), has = from < b->n ? b->n - from : 0;
	const size_t got = n < has ? n : has;

	if (got)
		memcpy(buf, b->p + from, got);
	b->used = ++blocks.uses;
	b->taken += got;
	if (b->taken >= b->n)
		drop_locked(b);
	return got;
}

int blocks_read(struct node *version, uint64_t offset, void *buf, size_t n, size_t *got)
{
	size_t done = 0;
	int err = 0;

	/* A key with squash=root: the server answers each user differently, so nothing is shared. */
	if (!fs.shared || !fs.may_keep || n < PIECE_BYTES || asker_is_wanted())
		return cell_node_read(version, offset, buf, n, got);
	fs_before_waiting();
	mutex_lock(&blocks.lock);
	while (done < n && !err) {
		const uint64_t at = offset + done, begin = at - at % BLOCK_BYTES, end = begin + BLOCK_BYTES;
		const size_t piece = n - done < end - at ? n - done : (size_t)(end - at);
		struct block *b = find_locked(version, begin);
		size_t more = 0;

		if (!b)
			b = load_locked(version, begin, &err);
		if (b) {
			more = take_locked(b, at, (uint8_t *)buf + done, piece);
		} else if (!err) {
			mutex_unlock(&blocks.lock);
			err = cell_node_read(version, at, (uint8_t *)buf + done, piece, &more);
			mutex_lock(&blocks.lock);
		}
		done += more;
		if (more < piece)
			break;
	}
	mutex_unlock(&blocks.lock);
	if (!err)
		*got = done;
	return err;
}
