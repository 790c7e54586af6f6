/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a damaged SSTable without LevelDB: block by block in the order of the
 * file, each entry of a readable block and its value.  So a damaged index, filter or
 * properties section loses nothing, a damaged block loses its own entries, and a
 * damaged unit its values.
 */
#include "engine/base/copies.h"
#include "engine/base/file.h"
#include "engine/sstable/blockfile.h"
#include "engine/sstable/load.h"
#include "engine/sstable/sstable.h"
#include "engine/sstable/table_format.h"

#include <errno.h>

struct salvage {
	sst_salvage_fn *fn;
	void *arg;
	struct buf key, last; /* `last` is the previous key */
	struct blockfile *file;
	struct value_window window;
	bool any;
	int err;
};

static int salvage_gap(struct salvage *s)
{
	return s->fn(s->arg, tfs_bytes_of(NULL, 0), tfs_bytes_of(NULL, 0));
}

/* The value of the current key is lost. */
static bool salvage_lost(struct salvage *s)
{
	s->err = s->fn(s->arg, buf_bytes(&s->key), tfs_bytes_of(NULL, 0));
	if (!s->err)
		s->err = buf_set(&s->last, s->key.p, s->key.n);
	s->any = true;
	return s->err == 0;
}

static int salvage_value(struct salvage *s, const struct value_ref *v, struct tfs_bytes *out)
{
	*out = tfs_bytes_of(v->bytes, (size_t)v->size);
	return v->place == VALUE_INLINE ? 0 : value_load(s->file, &s->window, v, 0, (size_t)v->size, out);
}

static bool salvage_entry(void *arg, uint32_t shared, struct tfs_bytes unshared, struct tfs_bytes value)
{
	struct salvage *s = arg;
	struct value_ref v;
	int err;

	s->key.n = shared;
	s->err = buf_append_bytes(&s->key, unshared);
	if (s->err)
		return false;
	/* If the end of the file is lost, an index block looks like a data block.  Its keys are below the last one. */
	if (s->any && bytes_cmp(buf_bytes(&s->key), buf_bytes(&s->last)) <= 0)
		return true;
	if (!value_decode(value, &v))
		return salvage_lost(s);
	err = salvage_value(s, &v, &value);
	if (err == -EBADMSG || err == -EIO)
		return salvage_lost(s);
	s->err = err ? err : s->fn(s->arg, buf_bytes(&s->key), value);
	if (!s->err)
		s->err = buf_set(&s->last, s->key.p, s->key.n);
	s->any = true;
	return s->err == 0;
}

int sst_salvage(const char *path, const char *as, uint64_t bytes, sst_salvage_fn *fn, void *arg)
{
	struct salvage s = {.fn = fn, .arg = arg};
	struct buf raw = {0};
	struct blockfile *b;
	size_t blocks;
	bool whole;
	int err = blockfile_open_damaged(path, as, bytes, &b, &blocks, &whole);

	if (err)
		return err;
	s.file = b;
	for (size_t i = 0; i < blocks && !err; i++) {
		const struct bff_map *m = blockfile_map(b);
		size_t n = bff_map_raw(m, i);

		buf_reset(&raw);
		s.key.n = 0;
		err = buf_reserve(&raw, n);
		if (!err)
			err = blockfile_read(b, m->at[i].logical, n, raw.p);
		if (!err && !table_block_good(tfs_bytes_of(raw.p, n)))
			err = -EBADMSG;
		if (err == -EBADMSG || err == -EIO)
			err = salvage_gap(&s);
		else if (!err && !table_block_each(tfs_bytes_of(raw.p, n), salvage_entry, &s))
			err = s.err;
	}
	if (!err && !whole)
		err = salvage_gap(&s);
	blockfile_close(b);
	buf_fini(&raw);
	buf_fini(&s.key);
	buf_fini(&s.last);
	value_window_fini(&s.window);
	return err;
}

uint64_t sst_identity(const char *path)
{
	uint8_t bytes[BFF_TRAILER_BYTES];
	struct bff_trailer t = {0};
	struct file *f = NULL;
	uint64_t size = 0;
	bool found = false;
	int err = file_open(path, FILE_READ, &f);

	if (!err)
		err = file_size(f, &size);
	for (unsigned i = 0; i < 2 && !err && !found; i++) {
		uint64_t end = i ? copies_length(size) : size;
		size_t got = 0;

		if (end >= sizeof(bytes) && !file_pread(f, bytes, sizeof(bytes), end - sizeof(bytes), &got))
			found = !bff_trailer_decode(tfs_bytes_of(bytes, got), end, &t);
	}
	file_close(f);
	return found ? t.identity : 0;
}

bool sst_is_another(const char *path)
{
	uint64_t stated = sst_identity(path);

	return stated && stated != bff_identity(path);
}
