/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one C++ file: leveldb::TableBuilder, Table, Iterator and the Bloom
 * filter policy behind binding.h, and lru.h behind leveldb::Cache.
 *
 * Building: LevelDB compresses nothing, makes no filter and has a block size
 * that is never reached, so sst_writer ends the blocks.  LevelDB writes a block
 * as two Appends (contents, 5-byte trailer) and at the end the footer as one.
 * So each second Append ends a block of the block file.
 *
 * Reading: LevelDB's two-level iterator skips an unreadable block and reports
 * that in status() only.  So status() is read after each move.  It returns the
 * first error for ever, so the iterator is freed after an error.  After a
 * failed Read all reads of the same move fail (io_error); otherwise LevelDB
 * would read a bad disk to its end in search of a good block.
 *
 * io_error also carries the errno, which leveldb::Status cannot.  It belongs
 * to the thread and is valid during one move.
 *
 * LevelDB does not check its input, so table_format.h checks the structure
 * of each block first, even if its checksum is right.
 *
 * Every entry point catches all exceptions.  An interrupted object is not used
 * again: the builder returns its error from then on, the cursor frees its
 * iterator.
 */
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <leveldb/cache.h>
#include <leveldb/comparator.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/table.h>
#include <leveldb/table_builder.h>

/* tfs_usage and sst_layout are structs and functions, which C++ takes for constructors. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include "engine/base/bytes.h"
#include "engine/base/msg.h"
}
#include "engine/sstable/binding.h"
#include "engine/sstable/table_format.h"
#pragma GCC diagnostic pop

namespace {

/*
 * LevelDB makes these objects at their first use.  If memory ran out then,
 * their guards would stay locked and the next thread would wait for ever.  So
 * they are made at the start of the program.
 */
[[maybe_unused]] const struct {
	leveldb::Env *env = leveldb::Env::Default();
	const leveldb::Comparator *order = leveldb::BytewiseComparator();
} made_early;

__thread int io_error; /* of the current move: 0 or -errno */
__thread bool read_one; /* the current move has read a block */
__thread struct walk *walking; /* of the current move, or NULL */

leveldb::Slice to_ldb(struct tfs_bytes s)
{
	return leveldb::Slice(s.n ? reinterpret_cast<const char *>(s.p) : "", s.n);
}

struct tfs_bytes from_ldb(const leveldb::Slice &s)
{
	return tfs_bytes_of(s.data(), s.size());
}

leveldb::Status to_status(int err)
{
	return err == -EBADMSG ? leveldb::Status::Corruption("block file") : leveldb::Status::IOError("block file");
}

/* An error without io_error is LevelDB's: the structure of the table is damaged. */
int from_status(const leveldb::Status &s, const char *path)
{
	if (s.ok())
		return 0;
	if (io_error)
		return io_error;
	msg_damage("%s: damaged: %s", path, s.ToString().c_str());
	return s.IsIOError() ? -EIO : -EBADMSG;
}

class UnitWriter : public leveldb::WritableFile {
public:
	explicit UnitWriter(struct blockfile_writer *w) : w_(w) {}
	leveldb::Status Append(const leveldb::Slice &data) override
	{
		err = blockfile_writer_append(w_, data.data(), data.size());
		if (!err && half_)
			err = blockfile_writer_end_block(w_);
		half_ = !half_;
		return err ? to_status(err) : leveldb::Status::OK();
	}
	leveldb::Status Close() override { return leveldb::Status::OK(); }
	leveldb::Status Flush() override { return leveldb::Status::OK(); }
	leveldb::Status Sync() override { return leveldb::Status::OK(); }

	int err = 0; /* the writer's first error, which it returns from then on */

private:
	struct blockfile_writer *w_;
	bool half_ = false; /* the next Append is a block's trailer */
};

class UnitReader : public leveldb::RandomAccessFile {
public:
	explicit UnitReader(struct blockfile *b) : b_(b) {}
	leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice *result, char *scratch) const override
	{
		const void *at = scratch;

		*result = leveldb::Slice();
		read_one = true;
		if (!io_error)
			io_error = walking ? walk_read(walking, offset, n, scratch, &at) : blockfile_read(b_, offset, n, scratch);
		if (!io_error && !good(offset, tfs_bytes_of(at, n)))
			io_error = blockfile_unsound(b_, offset);
		if (io_error)
			return to_status(io_error);
		/* LevelDB neither frees nor caches a result outside scratch. */
		*result = leveldb::Slice(static_cast<const char *>(at), n);
		return leveldb::Status::OK();
	}

private:
	bool good(uint64_t offset, struct tfs_bytes unit) const
	{
		const struct bff_map *m = blockfile_map(b_);

		if (offset == m->at[m->n - 1].logical)
			return table_footer_good(unit, m);
		return offset == m->at[m->n - 2].logical ? table_index_good(unit, m) : table_block_good(unit);
	}

	struct blockfile *b_;
};

typedef void (*Deleter)(const leveldb::Slice &key, void *value);

/* The shared cache as LevelDB's, with the file's own number, so that a table that is opened again finds its blocks. */
class NumberedCache : public leveldb::Cache {
public:
	NumberedCache(struct lru *shared, uint64_t number) : shared_(shared), number_(number) {}
	/* Returns NULL if out of memory; LevelDB then owns the block. */
	Handle *Insert(const leveldb::Slice &key, void *value, size_t charge, Deleter deleter) override
	{
		return handle_of(lru_block_add(shared_, from_ldb(key), value, charge, reinterpret_cast<void (*)(void)>(deleter)));
	}
	Handle *Lookup(const leveldb::Slice &key) override { return handle_of(lru_block_find(shared_, from_ldb(key))); }
	void Release(Handle *handle) override { lru_release(shared_, entry_of(handle)); }
	void *Value(Handle *handle) override { return lru_block(entry_of(handle)); }
	void Erase(const leveldb::Slice &) override {} /* tables do not call it */
	uint64_t NewId() override { return number_; }
	void Prune() override {}
	size_t TotalCharge() const override { return 0; }

private:
	static Handle *handle_of(struct lru_entry *e) { return reinterpret_cast<Handle *>(e); }
	static struct lru_entry *entry_of(Handle *h) { return reinterpret_cast<struct lru_entry *>(h); }

	struct lru *shared_;
	uint64_t number_;
};

const leveldb::FilterPolicy *match_policy()
{
	/* The filter contains the number of bits. */
	static const leveldb::FilterPolicy *const policy = leveldb::NewBloomFilterPolicy(10);

	return policy;
}

} // namespace

/* ---- building ---- */
struct ldb_builder {
	explicit ldb_builder(struct blockfile_writer *w) : file(w)
	{
		options.compression = leveldb::kNoCompression;
		options.filter_policy = nullptr;
		options.block_size = SIZE_MAX / 2;
	}
	UnitWriter file;
	leveldb::Options options;
	std::unique_ptr<leveldb::TableBuilder> table;
	bool closed = false;
	int err = 0;
};

/* Calls f unless the builder has failed.  Returns the builder's error. */
template <typename F> static int builder_do(struct ldb_builder *b, F f)
{
	if (b->err)
		return b->err;
	try {
		f();
		b->err = b->file.err;
		if (!b->err && !b->table->status().ok())
			b->err = -EIO;
	} catch (...) {
		b->err = -ENOMEM;
	}
	return b->err;
}

int ldb_builder_new(struct blockfile_writer *w, struct ldb_builder **out)
{
	try {
		std::unique_ptr<ldb_builder> b(new ldb_builder(w));

		b->table.reset(new leveldb::TableBuilder(b->options, &b->file));
		*out = b.release();
		return 0;
	} catch (...) {
		return -ENOMEM;
	}
}

int ldb_builder_add(struct ldb_builder *b, struct tfs_bytes key, struct tfs_bytes value)
{
	return builder_do(b, [&] { b->table->Add(to_ldb(key), to_ldb(value)); });
}

int ldb_builder_end_block(struct ldb_builder *b)
{
	return builder_do(b, [&] { b->table->Flush(); });
}

int ldb_builder_restart_every(struct ldb_builder *b, int n)
{
	if (b->options.block_restart_interval == n)
		return b->err;
	b->options.block_restart_interval = n;
	return builder_do(b, [&] { (void)b->table->ChangeOptions(b->options); }); /* fails only for another comparator */
}

int ldb_builder_finish(struct ldb_builder *b)
{
	return builder_do(b, [&] {
		/* After an exception Finish may or may not have closed the builder.  If it had no block left to write, it has closed it. */
		b->table->Flush();
		b->closed = true;
		b->table->Finish();
	});
}

void ldb_builder_free(struct ldb_builder *b)
{
	if (!b)
		return;
	if (!b->closed)
		b->table->Abandon();
	delete b;
}

/* ---- tables ---- */
void ldb_block_drop(struct tfs_bytes key, void *block, void (*how)(void))
{
	if (how)
		reinterpret_cast<Deleter>(how)(to_ldb(key), block);
	else
		free(block);
}

struct ldb_table {
	ldb_table(struct blockfile *b, struct lru *c, uint64_t number) : file(b), reader(b), cache(c, number) {}
	struct blockfile *file;
	UnitReader reader;
	NumberedCache cache;
	std::unique_ptr<leveldb::Table> table;
};

int ldb_table_open(struct blockfile *b, struct lru *cache, uint64_t file, struct ldb_table **out)
{
	int err;

	if (blockfile_map(b)->n < TABLE_UNITS) {
		err = blockfile_unsound(b, 0);
		blockfile_close(b);
		return err;
	}
	try {
		std::unique_ptr<ldb_table> t(new ldb_table(b, cache, file));
		leveldb::Options o;
		leveldb::Table *table = nullptr;
		leveldb::Status s;

		o.filter_policy = nullptr;
		o.block_cache = cache ? &t->cache : nullptr;
		io_error = 0;
		s = leveldb::Table::Open(o, &t->reader, blockfile_trailer(b)->raw_bytes, &table);
		t->table.reset(table);
		err = from_status(s, blockfile_path(b));
		if (!err) {
			*out = t.release();
			return 0;
		}
	} catch (...) {
		err = -ENOMEM;
	}
	blockfile_close(b);
	return err;
}

void ldb_table_close(struct ldb_table *t)
{
	if (!t)
		return;
	t->table.reset();
	blockfile_close(t->file);
	delete t;
}

struct blockfile *ldb_table_file(struct ldb_table *t)
{
	return t->file;
}

uint64_t ldb_table_offset_of(struct ldb_table *t, struct tfs_bytes key)
{
	try {
		return t->table->ApproximateOffsetOf(to_ldb(key));
	} catch (...) {
		return 0;
	}
}

/* ---- cursors ---- */
static inline leveldb::Iterator *ldb_of(struct ldb_cursor *c)
{
	return static_cast<leveldb::Iterator *>(c->ldb);
}

static void cursor_fail(struct ldb_cursor *c, int err)
{
	ldb_cursor_fini(c);
	c->it.valid = false;
	c->it.err = err;
}

/* Copies the position of LevelDB's iterator. */
static inline void cursor_settle(struct ldb_cursor *c, leveldb::Iterator *i)
{
	bool valid = i->Valid();
	leveldb::Status s;

	if (!io_error)
		s = i->status();
	if (__builtin_expect(io_error || !s.ok(), 0)) {
		cursor_fail(c, io_error ? io_error : from_status(s, blockfile_path(c->table->file)));
		return;
	}
	if (valid) {
		c->it.key = from_ldb(i->key());
		if (!value_decode(from_ldb(i->value()), &c->value)) {
			msg_damage("%s: damaged: a key's entry", blockfile_path(c->table->file));
			cursor_fail(c, -EBADMSG);
			return;
		}
		c->it.size = c->value.size;
		c->it.value = c->value.bytes;
	}
	c->it.valid = valid;
	c->it.err = 0;
}

/*
 * Readers in key order seek the entry after the last one, and a step to it
 * takes a third of the time of a seek.  A step is tried if the last one
 * succeeded, else at every sixteenth seek.  An error of a step is ignored: it
 * may belong to another block than the target's.
 */
static bool cursor_step_to(struct ldb_cursor *c, const leveldb::Slice &target)
{
	leveldb::Iterator *i = ldb_of(c);

	if (!c->rising && ++c->seeks % 16)
		return false;
	c->rising = false;
	if (!i->Valid() || i->key().compare(target) >= 0)
		return false;
	i->Next();
	if (io_error || !i->status().ok()) {
		ldb_cursor_fini(c);
		io_error = 0;
		return false;
	}
	c->rising = i->Valid() && i->key().compare(target) >= 0;
	return c->rising;
}

static void cursor_open(struct ldb_cursor *c)
{
	leveldb::ReadOptions o;

	o.fill_cache = c->fill_cache;
	if (!c->ldb)
		c->ldb = c->table->table->NewIterator(o);
}

void ldb_cursor_seek_before(struct iter *it, struct tfs_bytes target)
{
	struct ldb_cursor *c = reinterpret_cast<struct ldb_cursor *>(it);

	io_error = 0;
	c->rising = false;
	try {
		cursor_open(c);
		if (target.p)
			ldb_of(c)->Seek(to_ldb(target));
		if (target.p && ldb_of(c)->Valid())
			ldb_of(c)->Prev();
		else if (!io_error && ldb_of(c)->status().ok())
			ldb_of(c)->SeekToLast();
		cursor_settle(c, ldb_of(c));
	} catch (...) {
		cursor_fail(c, -ENOMEM);
	}
}

void ldb_cursor_seek(struct iter *it, struct tfs_bytes target)
{
	struct ldb_cursor *c = reinterpret_cast<struct ldb_cursor *>(it);

	io_error = 0;
	read_one = false;
	try {
		walking = c->walk;
		if (!c->ldb || !cursor_step_to(c, to_ldb(target))) {
			cursor_open(c);
			ldb_of(c)->Seek(to_ldb(target));
		}
		cursor_settle(c, ldb_of(c));
	} catch (...) {
		cursor_fail(c, -ENOMEM);
	}
	walking = nullptr;
	c->read = read_one;
}

void ldb_cursor_next(struct iter *it)
{
	struct ldb_cursor *c = reinterpret_cast<struct ldb_cursor *>(it);

	io_error = 0;
	walking = c->walk;
	try {
		ldb_of(c)->Next();
		cursor_settle(c, ldb_of(c));
	} catch (...) {
		cursor_fail(c, -ENOMEM);
	}
	walking = nullptr;
}

void ldb_cursor_fini(struct ldb_cursor *c)
{
	delete ldb_of(c);
	c->ldb = nullptr;
}

/* ---- filters ---- */
int ldb_filter_create(const uint64_t *hashes, size_t n, int bits, struct buf *out)
{
	try {
		std::unique_ptr<const leveldb::FilterPolicy> policy(leveldb::NewBloomFilterPolicy(bits));
		std::vector<uint64_t> stored(n);
		std::vector<leveldb::Slice> keys(n);
		std::string filter;

		for (size_t i = 0; i < n; i++) {
			put_be64(reinterpret_cast<uint8_t *>(&stored[i]), hashes[i]);
			keys[i] = leveldb::Slice(reinterpret_cast<const char *>(&stored[i]), sizeof(stored[i]));
		}
		if (n)
			policy->CreateFilter(keys.data(), static_cast<int>(n), &filter);
		return filter.empty() ? 0 : buf_append(out, filter.data(), filter.size());
	} catch (...) {
		return -ENOMEM;
	}
}

bool ldb_filter_match(uint64_t hash, struct tfs_bytes filter)
{
	uint8_t stored[8];

	put_be64(stored, hash);
	try {
		return match_policy()->KeyMayMatch(leveldb::Slice(reinterpret_cast<const char *>(stored), sizeof(stored)),
						   to_ldb(filter));
	} catch (...) {
		return true;
	}
}
