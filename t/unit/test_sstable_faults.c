/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A damaged byte, a truncation, a failed I/O call or a failed allocation in an SSTable
 * gives the right data or an error, never other data.  Damage affects its own
 * block only.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/sstable/binding.h"
#include "engine/sstable/cache.h"
#include "t/lib/file_faults.h"
#include "t/unit/dir.h"
#include "t/unit/sstable_lib.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const void *const unused[] __attribute__((unused)) = {(const void *)contents};

static int setup(void **state)
{
	msg_to_nowhere();
	return test_dir_setup(state);
}

/* ---- allocations that fail, from our own code (LevelDB's are operator new's) ---- */
static uint64_t allocations, fail_at;

static bool fails(void)
{
	return ++allocations == fail_at;
}

#include "t/unit/wrap_alloc.h"

/* ---- files ---- */
static void write_file(const char *path, const uint8_t *p, size_t n)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(p, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

/* Reads all keys by seek; returns how many were right, -1 when one was wrong, and how many gave EBADMSG. */
static int read_all(const struct shape *s, const char *path, unsigned *bad)
{
	struct sst_cache *c;
	struct sst *t;
	struct tfs_bytes value;
	struct iter *it;
	int good = 0, err;

	*bad = 0;
	assert_int_equal(sst_cache_new(1 << 20, 1 << 20, &c), 0);
	assert_int_equal(sst_new(c, path, false, &t), 0);
	err = sst_iter_new(t, &it);
	if (err) {
		assert_int_equal(err, -EBADMSG);
		assert_int_equal(sst_iter_new(t, &it), -EBADMSG); /* and again */
		assert_true(sst_may_contain(t, tfs_bytes_of("", 0), tfs_str("z"), tfs_str("x")));
		*bad = s->n;
		goto out;
	}
	for (uint32_t i = 0; i < s->n && good >= 0; i++) {
		iter_seek(it, shape_key(s, 2 * i));
		err = it->valid ? iter_value(it, &value) : it->err;
		if (!err) {
			good = shape_at(s, it, i) ? -1 : good + 1;
		} else {
			good = err == -EBADMSG ? good : -1;
			++*bad;
		}
		/* a filter may be lost, but may not deny */
		if (!sst_may_contain(t, shape_key(s, 2 * i), shape_key(s, 2 * i), shape_key(s, 2 * i)))
			good = -1;
	}
	iter_free(it);
out:
	sst_put(t);
	sst_cache_free(c);
	return good;
}

static void each_byte_damaged(void **state)
{
	static const enum sst_codec codecs[] = {SST_NONE, SST_SNAPPY, SST_LZ4, SST_ZSTD};

	for (unsigned k = 0; k < sizeof(codecs) / sizeof(codecs[0]); k++) {
		struct shape s = {{codecs[k], 3, 256, 10, false}, 64, 256, 120, 0};
		const char *path = in_dir("g.sst");
		struct buf b = {0};
		uint64_t bytes, keys;
		unsigned bad, costly = 0;
		char *why;

		(void)!file_unlink(path);
		assert_int_equal(shape_write(&s, path, &bytes), 0);
		assert_int_equal(file_read_all(path, 1 << 20, &b), 0);
		assert_int_equal(read_all(&s, path, &bad), 64);
		for (size_t i = 0; i < b.n; i++) {
			int good;

			b.p[i] ^= (uint8_t)(1u << (i % 8));
			write_file(path, b.p, b.n);
			good = read_all(&s, path, &bad);
			assert_int_not_equal(good, -1);
			assert_int_equal((unsigned)good + bad, 64);
			assert_true(bad <= 16 || bad == 64); /* none, its block or unit, or the file cannot be opened */
			costly += bad == 64;
			assert_int_equal(sst_verify(path, 0, &keys, &why), -EBADMSG); /* no byte is unchecked */
			assert_non_null(why);
			assert_non_null(strstr(why, "offset"));
			free(why);
			b.p[i] ^= (uint8_t)(1u << (i % 8));
		}
		assert_true(costly < b.n * 2 / 3);
		buf_fini(&b);
	}
}

static void each_truncation(void **state)
{
	struct shape s = {{SST_ZSTD, 3, 256, 10, false}, 64, 16, 40, 0};
	struct buf b = {0};
	uint64_t bytes, keys;
	unsigned bad;
	char *why;

	assert_int_equal(shape_write(&s, in_dir("g.sst"), &bytes), 0);
	assert_int_equal(file_read_all(in_dir("g.sst"), 1 << 20, &b), 0);
	for (size_t n = 0; n < b.n; n++) {
		write_file(in_dir("g.sst"), b.p, n);
		assert_int_equal(read_all(&s, in_dir("g.sst"), &bad), 0);
		assert_int_equal(bad, 64);
		assert_int_equal(sst_verify(in_dir("g.sst"), 0, &keys, &why), -EBADMSG);
		free(why);
	}
	buf_fini(&b);
}

/* A scan stops at the damaged block; a seek past it succeeds; the damage is logged once. */
static void damage_in_the_way_of_a_scan(void **state)
{
	struct shape s = {{SST_NONE, 0, 256, 0, false}, 64, 256, 0, 0}; /* 4 blocks of 16 keys */
	struct sst_cache *c;
	struct sst *t;
	struct iter *it;
	struct buf b = {0}, log = {0};
	uint64_t bytes, off;
	uint32_t i = 0;
	unsigned lines = 0;
	char *at;

	assert_int_equal(shape_write(&s, in_dir("g.sst"), &bytes), 0);
	assert_int_equal(file_read_all(in_dir("g.sst"), 1 << 20, &b), 0);
	assert_int_equal(sst_cache_new(1 << 20, 1 << 20, &c), 0);
	assert_int_equal(sst_new(c, in_dir("g.sst"), false, &t), 0);
	assert_int_equal(sst_offset_of(t, shape_key(&s, 2 * 20), &off), 0);
	b.p[off + 30] ^= 1;
	write_file(in_dir("g.sst"), b.p, b.n);
	assert_int_equal(sst_iter_new(t, &it), 0);
	for (unsigned round = 0; round < 3; round++) {
		for (i = 0, iter_seek(it, tfs_bytes_of("", 0)); it->valid; iter_next(it), i++)
			assert_int_equal(shape_at(&s, it, i), 0);
		assert_int_equal(it->err, -EBADMSG);
		assert_int_equal(i, 16);
		iter_seek(it, shape_key(&s, 2 * 32));
		assert_int_equal(shape_at(&s, it, 32), 0);
		for (i = 32; it->valid; iter_next(it), i++)
			assert_int_equal(shape_at(&s, it, i), 0);
		assert_int_equal(it->err, 0);
		assert_int_equal(i, 64);
		iter_seek(it, shape_key(&s, 2 * 20));
		assert_false(it->valid);
		assert_int_equal(it->err, -EBADMSG);
		iter_free(it); /* after an error, to the pool or not: the next one is clean */
		assert_int_equal(sst_iter_new(t, &it), 0);
		assert_int_equal(it->err, 0);
	}
	iter_free(it);
	assert_int_equal(msg_ring(&log), 0);
	assert_int_equal(buf_u8(&log, 0), 0);
	for (at = (char *)log.p; (at = strstr(at, in_dir("g.sst"))); at++)
		lines++;
	assert_int_equal(lines, 1);
	buf_fini(&log);
	buf_fini(&b);
	sst_put(t);
	sst_cache_free(c);
}

/* ---- a damaged unit ---- */
enum { UNIT_PAIRS = 300 };
static const struct shape unit_shape = {{SST_ZSTD, 3, 2048, 10, false}, UNIT_PAIRS, 16, 1500, 0};

struct salvaged {
	uint32_t next; /* the pair expected */
	const bool *lost;
	unsigned gaps;
};

static int salvaged_pair(void *arg, struct tfs_bytes key, struct tfs_bytes value)
{
	struct salvaged *s = arg;

	if (!key.p) {
		s->gaps++;
		return 0;
	}
	assert_true(s->next < UNIT_PAIRS && bytes_eq(key, shape_key(&unit_shape, 2 * s->next)));
	assert_int_equal(value.p == NULL, s->lost[s->next]);
	if (value.p)
		assert_true(bytes_eq(value, shape_value(&unit_shape, s->next)));
	s->next++;
	return 0;
}

/* A damaged unit costs its values and no key, also if neither trailer nor map can be read. */
static void damaged_unit(void **state)
{
	bool lost[UNIT_PAIRS] = {false};
	struct salvaged got = {.lost = lost};
	uint64_t bytes, keys, unit = 0;
	struct buf b = {0};
	struct sst_cache *c;
	struct iter *it;
	struct sst *t;
	unsigned n = 0;
	char *why;

	assert_int_equal(shape_write(&unit_shape, in_dir("u.sst"), &bytes), 0);
	assert_int_equal(file_read_all(in_dir("u.sst"), 1 << 20, &b), 0);
	assert_int_equal(sst_cache_new(1 << 20, 1 << 20, &c), 0);
	assert_int_equal(sst_new(c, in_dir("u.sst"), false, &t), 0);
	assert_int_equal(sst_scan_new(t, &it), 0);
	for (uint32_t pass = 0, i = 0; pass < 2; pass++) {
		for (i = 0, iter_seek(it, tfs_bytes_of("", 0)); it->valid; iter_next(it), i++) {
			const struct value_ref *v = &((struct sst_iter *)it)->c.value;

			if (!pass && i >= UNIT_PAIRS / 2 && !unit && v->place == VALUE_IN_UNIT)
				unit = v->unit;
			else if (pass && v->place == VALUE_IN_UNIT && v->unit == unit)
				n += lost[i] = true;
		}
		assert_int_equal(i, UNIT_PAIRS);
	}
	assert_true(n > 0 && n < 20);
	b.p[unit + BFF_BLOCK_HEADER_BYTES + 5] ^= 1;
	write_file(in_dir("u.sst"), b.p, b.n);
	iter_seek(it, tfs_bytes_of("", 0));
	for (uint32_t i = 0; i < UNIT_PAIRS; i++, iter_next(it)) {
		struct tfs_bytes value;

		assert_true(it->valid && bytes_eq(it->key, shape_key(&unit_shape, 2 * i)));
		assert_int_equal(it->size, shape_value(&unit_shape, i).n);
		assert_int_equal(iter_value(it, &value), lost[i] ? -EBADMSG : 0);
		assert_true(lost[i] || shape_at(&unit_shape, it, i) == 0);
	}
	assert_false(it->valid);
	assert_int_equal(it->err, 0);
	iter_free(it);
	sst_put(t);
	sst_cache_free(c);
	assert_int_equal(sst_verify(in_dir("u.sst"), 0, &keys, &why), -EBADMSG);
	assert_non_null(strstr(why, "value unit"));
	free(why);
	assert_int_equal(sst_salvage(in_dir("u.sst"), in_dir("u.sst"), 0, salvaged_pair, &got), 0);
	assert_int_equal(got.next, UNIT_PAIRS);
	assert_int_equal(got.gaps, 0);

	b.p[b.n - 20] ^= 1;
	write_file(in_dir("u.sst"), b.p, b.n);
	got.next = 0;
	assert_int_equal(sst_salvage(in_dir("u.sst"), in_dir("u.sst"), 0, salvaged_pair, &got), 0);
	assert_int_equal(got.next, UNIT_PAIRS);
	assert_int_equal(got.gaps, 0);
	buf_fini(&b);
}

/* Salvages u.sst, whose bytes are b, with a damaged bit and without a trailer too.  Nothing is lost. */
static void salvage_all(struct buf *b, uint64_t at)
{
	const bool lost[UNIT_PAIRS] = {false};

	for (unsigned trailer = 0; trailer < 2; trailer++) {
		struct salvaged got = {.lost = lost};

		b->p[at] ^= 1;
		b->p[b->n - 20] ^= trailer;
		write_file(in_dir("u.sst"), b->p, b->n);
		b->p[at] ^= 1;
		b->p[b->n - 20] ^= trailer;
		assert_int_equal(sst_salvage(in_dir("u.sst"), in_dir("u.sst"), 0, salvaged_pair, &got), 0);
		assert_int_equal(got.next, UNIT_PAIRS);
		assert_int_equal(got.gaps, 0);
	}
}

/* Blocks of keys have two copies: a damaged one costs nothing, and a check finds it. */
static void damaged_block(void **state)
{
	struct blockfile *file;
	const struct bff_map *m;
	uint64_t bytes, keys;
	struct buf b = {0};
	unsigned bad;
	char *why;

	assert_int_equal(shape_write(&unit_shape, in_dir("u.sst"), &bytes), 0);
	assert_int_equal(file_read_all(in_dir("u.sst"), 1 << 20, &b), 0);
	assert_int_equal(blockfile_open(in_dir("u.sst"), 0, NULL, &file), 0);
	m = blockfile_map(file);
	assert_true(m->n > 4);
	for (size_t i = 0; i < m->n; i++) {
		const struct bff_place *p = &m->at[i];
		const uint64_t places[] = {p->physical + 5, p->physical + p->stored - 1, p->physical + p->copy + p->stored - 1};

		assert_true(p->copy >= p->stored);
		for (size_t k = 0; k < sizeof(places) / sizeof(*places); k++) {
			b.p[places[k]] ^= 1;
			write_file(in_dir("u.sst"), b.p, b.n);
			assert_int_equal(read_all(&unit_shape, in_dir("u.sst"), &bad), UNIT_PAIRS);
			assert_int_equal(bad, 0);
			assert_int_equal(sst_verify(in_dir("u.sst"), 0, &keys, &why), -EBADMSG);
			assert_non_null(strstr(why, "two copies"));
			free(why);
			b.p[places[k]] ^= 1;
			salvage_all(&b, places[k]);
		}
	}
	b.p[m->at[1].physical + 20] ^= 1;
	b.p[m->at[1].physical + m->at[1].copy + 20] ^= 1;
	write_file(in_dir("u.sst"), b.p, b.n);
	assert_int_not_equal(read_all(&unit_shape, in_dir("u.sst"), &bad), -1);
	assert_true(bad > 0 && bad < UNIT_PAIRS);
	blockfile_close(file);
	buf_fini(&b);
}

/* ---- a fixed workload, failing at the n-th step ---- */
static uint64_t io_number, io_fail_at;
static bool io_fail_on; /* from there on */

static int failing_io(void *arg, enum file_op op, const char *path, uint64_t offset, size_t n, uint64_t number)
{
	if (op == FILE_OP_UNLINK)
		return 0;
	io_number++;
	return io_number == io_fail_at || (io_fail_on && io_number > io_fail_at) ? *(int *)arg : 0;
}

static struct shape work = {{SST_ZSTD_DICT, 1, 4096, 10, false}, 4000, 16, 300, 1500};

/* The iterator is at pair i, or cannot read its value. */
static int work_at(struct iter *it, uint32_t i)
{
	struct tfs_bytes value;
	int err = iter_value(it, &value);

	if (!err)
		assert_true(bytes_eq(it->key, shape_key(&work, 2 * i)) && bytes_eq(value, shape_value(&work, i)));
	return err;
}

/* Writes, reads, checks; the first error, which must be clean.  Right data is asserted. */
static int workload(void)
{
	struct sst_cache *c = NULL;
	struct sst *t = NULL;
	struct iter *it = NULL;
	struct buf p = {0};
	struct sst_layout l;
	uint64_t bytes, keys;
	char *why = NULL;
	int err = shape_write(&work, in_dir("w.sst"), &bytes);

	if (err) {
		assert_false(exists("w.sst"));
		return err;
	}
	err = sst_cache_new(64 << 10, 1 << 20, &c);
	if (!err)
		err = sst_new(c, in_dir("w.sst"), false, &t);
	for (unsigned round = 0; round < 4 && !err; round++) { /* each found twice, remembered or not */
		uint32_t i = (round / 2 * 977 + 5) % work.n;
		uint8_t to[KEY_BUF];
		struct tfs_bytes key = shape_key_in(&work, 2 * i, to);

		memset(to + key.n, 0xff, 8);
		err = sst_find(t, key, tfs_bytes_of(to, key.n + 8), key, &it);
		if (err)
			break;
		err = work_at(it, i);
		if (!err)
			iter_next(it);
		if (!err)
			err = it->valid ? work_at(it, i + 1) : it->err;
		iter_free(it);
	}
	for (unsigned round = 0; round < 2 && !err; round++) {
		err = sst_iter_new(t, &it);
		if (err)
			break;
		for (uint32_t i = round; i < work.n && !err; i += 97) {
			iter_seek(it, shape_key(&work, 2 * i));
			assert_true(it->valid || it->err); /* a key that is there is never just absent */
			err = it->valid ? work_at(it, i) : it->err;
			assert_true(sst_may_contain(t, shape_key(&work, 2 * i), tfs_str("z"), shape_key(&work, 2 * i)));
		}
		iter_free(it);
	}
	if (!err)
		err = sst_scan_new(t, &it);
	if (!err) {
		uint32_t i = 0;

		for (iter_seek(it, tfs_bytes_of("", 0)); it->valid && !err; i += !err) {
			err = work_at(it, i);
			if (!err)
				iter_next(it);
		}
		err = err ? err : it->err;
		assert_true(err || i == work.n);
		iter_free(it);
	}
	if (!err)
		err = sst_properties(t, &p);
	if (!err)
		err = sst_layout(t, &l);
	if (!err) {
		err = sst_verify(in_dir("w.sst"), 0, &keys, &why);
		err = err == -EBADMSG && why ? -EIO : err; /* a part that cannot be read is damage */
		free(why);
	}
	buf_fini(&p);
	if (t) {
		sst_put(t);
	}
	(void)!file_unlink(in_dir("w.sst"));
	if (c)
		sst_cache_free(c);
	assert_false(exists("w.sst"));
	return err;
}

static void each_io_fails(void **state)
{
	static int errors[] = {-EIO, -ENOSPC};
	uint64_t steps;

	for (unsigned e = 0; e < 2; e++) {
		file_set_hook(failing_io, &errors[e]);
		io_fail_at = 0;
		io_fail_on = false;
		io_number = 0;
		assert_int_equal(workload(), 0);
		steps = io_number;
		assert_true(steps > 50);
		io_fail_on = e == 1;
		for (io_fail_at = 1; io_fail_at <= steps; io_fail_at += io_fail_at < 40 ? 1 : 7) {
			int err;

			io_number = 0;
			err = workload();
			/* reading returns no other than EIO; a read ahead that fails is repeated for what is needed */
			assert_true(err == errors[e] || err == -EIO || (!err && !io_fail_on));
		}
		file_set_hook(NULL, NULL);
		assert_int_equal(workload(), 0);
	}
}

static void each_allocation_fails(void **state)
{
	uint64_t steps;

	allocations = 0;
	fail_at = 0;
	assert_int_equal(workload(), 0);
	steps = allocations;
	assert_true(steps > 50);
	for (uint64_t n = 1; n <= steps; n += n < 150 ? 1 : 1 + steps / 100) {
		int err;

		allocations = 0;
		fail_at = n;
		err = workload();
		fail_at = 0;
		assert_true(err == -ENOMEM || err == 0);
	}
	assert_int_equal(workload(), 0);
}

/* ---- files made to harm: every checksum right ---- */
static void le32(struct buf *b, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(buf_u8(b, (uint8_t)(v >> (8 * i))), 0);
}

/* Makes a block of one entry with these lengths.  Its restart is at *restart, or at 0 if that is NULL. */
static struct tfs_bytes block_of(
	struct buf *b, uint32_t shared, uint32_t unshared, uint32_t value_bytes, struct tfs_bytes rest, const uint32_t *restart)
{
	buf_reset(b);
	assert_int_equal(
		buf_varint(b, shared) || buf_varint(b, unshared) || buf_varint(b, value_bytes) || buf_append_bytes(b, rest), 0);
	le32(b, restart ? *restart : 0);
	le32(b, 1);
	assert_int_equal(buf_append(b, "\0\0\0\0", 5), 0); /* type, checksum */
	return buf_bytes(b);
}

struct harm {
	uint32_t shared, unshared,
		value_bytes; /* of the data block's one entry, whose bytes are "key", 0 (an inline value), "value" */
	uint32_t restart;
	uint64_t size_off;   /* added to the size in the index */
	uint64_t footer_off; /* to the size of the index in the footer */
	unsigned cut;        /* wrong bytes of the data block */
};

static void write_harm(const char *path, const struct harm *h)
{
	struct blockfile_writer *w;
	struct buf b = {0}, rest = {0}, footer = {0};
	struct tfs_bytes unit;
	uint64_t bytes, at[4] = {0};

	assert_int_equal(blockfile_writer_new(path, &(struct sst_options){.codec = SST_NONE}, &w), 0);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t data = at[1] - 5 + h->size_off;

		buf_reset(&rest);
		if (i == 0) {
			unit = block_of(&b, h->shared, h->unshared, h->value_bytes, tfs_bytes_of("key\0value", 9), &h->restart);
			unit.n = h->cut ? h->cut : unit.n;
		} else if (i == 1) { /* the meta index: nothing */
			buf_reset(&b);
			le32(&b, 0);
			le32(&b, 1);
			assert_int_equal(buf_append(&b, "\0\0\0\0", 5), 0);
			unit = buf_bytes(&b);
		} else {
			assert_int_equal(buf_append(&rest, "l", 1) || buf_varint(&rest, 0) || buf_varint(&rest, data), 0);
			unit = block_of(&b, 0, 1, (uint32_t)rest.n - 1, buf_bytes(&rest), NULL);
		}
		at[i + 1] = at[i] + unit.n;
		assert_int_equal(blockfile_writer_append(w, unit.p, unit.n), 0);
		assert_int_equal(blockfile_writer_end_block(w), 0);
	}
	assert_int_equal(buf_varint(&footer, at[1]) || buf_varint(&footer, at[2] - at[1] - 5) || buf_varint(&footer, at[2]) ||
			buf_varint(&footer, at[3] - at[2] - 5 + h->footer_off),
		0);
	while (footer.n < 40)
		assert_int_equal(buf_u8(&footer, 0), 0);
	assert_int_equal(buf_append(&footer, "\x57\xfb\x80\x8b\x24\x75\x47\xdb", 8), 0);
	assert_int_equal(blockfile_writer_append(w, footer.p, footer.n), 0);
	assert_int_equal(blockfile_writer_finish(w, 1, 0, tfs_bytes_of("", 0), tfs_str("p"), &bytes), 0);
	blockfile_writer_free(w);
	buf_fini(&b);
	buf_fini(&rest);
	buf_fini(&footer);
}

static void made_to_harm(void **state)
{
	static const struct {
		struct harm h;
		bool good;
	} cases[] = {
		{{0, 3, 6, 0, 0, 0, 0}, true},
		{{0, 0xfffffff0, 0x19, 0, 0, 0, 0}, false}, /* their sum is 9 in 32 bits */
		{{0, 3, 7, 0, 0, 0, 0}, false},
		{{0, 4, 5, 0, 0, 0, 0}, false}, /* the value begins with v: not an entry */
		{{1, 3, 6, 0, 0, 0, 0}, false},
		{{0, 3, 6, 4, 0, 0, 0}, false},
		{{0, 3, 6, 0x7fffffff, 0, 0, 0}, false},
		{{0, 3, 6, 0, 1, 0, 0}, false},
		{{0, 3, 6, 0, UINT64_C(1) << 62, 0, 0}, false},
		{{0, 3, 6, 0, 0, UINT64_C(1) << 62, 0}, false},
		{{0, 3, 6, 0, 0, 0, 1}, false}, /* a block of 1 byte, and the size that with 5 more is 1 in 64 bits */
		{{0, 3, 6, 0, 0, 0, 4}, false},
		{{0, 3, 6, 0, 0, 0, 8}, false},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct sst_cache *c;
		struct sst *t;
		struct iter *it;
		uint64_t keys;
		char *why;
		int err;

		write_harm(in_dir("h.sst"), &cases[i].h);
		assert_int_equal(sst_cache_new(1 << 20, 1 << 20, &c), 0);
		assert_int_equal(sst_new(c, in_dir("h.sst"), false, &t), 0);
		err = sst_iter_new(t, &it);
		if (!err) {
			iter_seek(it, tfs_str("k"));
			err = it->err;
			if (it->valid) {
				assert_true(bytes_eq(it->key, tfs_str("key")));
				assert_true(value_is(it, tfs_str("value")));
			}
			assert_int_equal(it->valid, cases[i].good);
			iter_free(it);
		}
		assert_int_equal(err, cases[i].good ? 0 : -EBADMSG);
		assert_int_equal(sst_verify(in_dir("h.sst"), 0, &keys, &why), cases[i].good ? 0 : -EBADMSG);
		free(why);
		sst_put(t);
		sst_cache_free(c);
		assert_int_equal(file_unlink(in_dir("h.sst")), 0);
	}
}

/* A table of one key, whose value is at `v`, beside a unit of 100 bytes. */
static void write_reference(const char *path, struct value_ref v, bool in_the_unit)
{
	static const uint8_t values[100];
	struct blockfile_writer *w;
	struct blockfile_unit unit;
	struct ldb_builder *table;
	struct buf entry = {0};
	uint64_t bytes;

	assert_int_equal(blockfile_writer_new(path, &(struct sst_options){.codec = SST_NONE}, &w), 0);
	assert_int_equal(
		blockfile_writer_unit(w, tfs_bytes_of(values, sizeof(values)), BLOCKFILE_NO_BASE, BLOCKFILE_NO_BASE, &unit), 0);
	if (in_the_unit) {
		v.unit += unit.offset;
		v.stored += unit.stored;
	}
	assert_int_equal(ldb_builder_new(w, &table), 0);
	assert_int_equal(value_encode(&entry, &v), 0);
	assert_int_equal(ldb_builder_add(table, tfs_str("key"), buf_bytes(&entry)), 0);
	assert_int_equal(ldb_builder_finish(table), 0);
	assert_int_equal(blockfile_writer_finish(w, 1, 0, tfs_bytes_of("", 0), tfs_str("p"), &bytes), 0);
	ldb_builder_free(table);
	blockfile_writer_free(w);
	buf_fini(&entry);
}

static int salvaged_nothing(void *arg, struct tfs_bytes key, struct tfs_bytes value)
{
	assert_true(bytes_eq(key, tfs_str("key")));
	assert_int_equal(value.p != NULL, *(bool *)arg);
	return 0;
}

/* Wherever an entry says that its value is, only a value is read. */
static void hostile_references(void **state)
{
	static const struct {
		struct value_ref v;
		bool in_the_unit, good;
	} cases[] = {
		{{.place = VALUE_IN_UNIT, .at = 10, .size = 90}, true, true},
		{{.place = VALUE_IN_UNIT, .at = 10, .size = 91}, true, false},
		{{.place = VALUE_IN_UNIT, .at = 101, .size = 1}, true, false},
		{{.place = VALUE_IN_UNIT, .at = UINT32_MAX, .size = UINT64_MAX}, true, false},
		{{.place = VALUE_IN_UNIT, .size = UINT64_C(1) << 40}, true, false},
		{{.place = VALUE_IN_UNIT, .unit = 1, .size = 90}, true, false},
		{{.place = VALUE_IN_UNIT, .stored = 1, .size = 90}, true, false},
		{{.place = VALUE_IN_UNIT, .stored = 0, .size = 1}, false, false},
		{{.place = VALUE_IN_UNIT, .stored = 20, .size = 1}, false, false},
		{{.place = VALUE_IN_UNIT, .stored = UINT32_MAX, .size = 1}, false, false},
		{{.place = VALUE_IN_UNIT, .unit = UINT64_MAX, .stored = 112, .size = 1}, false, false},
		{{.place = VALUE_IN_UNIT, .unit = 112, .stored = 40, .size = 1}, false, false}, /* a block of keys */
		{{.place = VALUE_LARGE, .size = 70000}, false, false},                          /* names no unit */
		{{.place = VALUE_LARGE, .size = UINT64_MAX}, false, false},
		{{.place = VALUE_LARGE, .size = 70000, .stored_each = {(const uint8_t *)"\x70\x70", 2}}, false,
			false}, /* a short one */
		{{.place = VALUE_LARGE, .unit = UINT64_MAX, .size = 70000, .stored_each = {(const uint8_t *)"\x70\x70", 2}}, false,
			false},
		{{.place = VALUE_LARGE, .size = 70000, .stored_each = {(const uint8_t *)"\xff\xff\xff\xff\x7f\x70", 6}}, false,
			false},
		{{.place = VALUE_LARGE, .size = UINT64_MAX, .stored_each = {(const uint8_t *)"\x70", 1}}, false, false},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bool good = cases[i].good;
		struct tfs_bytes value;
		struct sst_cache *c;
		struct iter *it;
		struct sst *t;
		uint64_t keys;
		char *why;

		write_reference(in_dir("r.sst"), cases[i].v, cases[i].in_the_unit);
		assert_int_equal(sst_cache_new(1 << 20, 1 << 20, &c), 0);
		assert_int_equal(sst_new(c, in_dir("r.sst"), false, &t), 0);
		assert_int_equal(sst_iter_new(t, &it), 0);
		iter_seek(it, tfs_str("k"));
		assert_true(it->valid && it->size == cases[i].v.size);
		assert_int_equal(iter_value(it, &value), good ? 0 : -EBADMSG);
		assert_true(it->valid);
		iter_free(it);
		assert_int_equal(sst_verify(in_dir("r.sst"), 0, &keys, &why), good ? 0 : -EBADMSG);
		free(why);
		assert_int_equal(sst_salvage(in_dir("r.sst"), in_dir("r.sst"), 0, salvaged_nothing, &good), 0);
		sst_put(t);
		sst_cache_free(c);
		assert_int_equal(file_unlink(in_dir("r.sst")), 0);
	}
}

/* Several readers of a table whose index is larger than its blocks keep their iterators: none is made anew. */
static void idle_iterators_stay(void **state)
{
	struct shape s = {{SST_ZSTD, 1, 4096, 0, false}, 500, 20000, 0, 0}; /* blocks of 16 keys, 320 KB; an index of 620 KB */
	struct sst_cache *c;
	struct sst_layout l;
	struct sst *t;
	struct iter *it[3];
	uint64_t bytes;

	assert_int_equal(shape_write(&s, in_dir("i.sst"), &bytes), 0);
	assert_int_equal(sst_cache_new(64 << 20, 8 << 20, &c), 0);
	assert_int_equal(sst_new(c, in_dir("i.sst"), false, &t), 0);
	assert_int_equal(sst_layout(t, &l), 0);
	assert_true(l.blocks > 30);
	for (unsigned round = 0; round < 2; round++) {
		allocations = 0;
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(sst_iter_new(t, &it[i]), 0);
		assert_int_equal(allocations, round ? 0 : 3);
		for (unsigned i = 0; i < 3; i++) {
			iter_seek(it[i], shape_key(&s, 2 * 100 * i));
			assert_int_equal(shape_at(&s, it[i], 100 * i), 0);
			iter_free(it[i]);
		}
	}
	sst_put(t);
	sst_cache_free(c);
}

/* An I/O error is of the moment: the next try reads. */
static void errors_of_the_moment_pass(void **state)
{
	static int eio = -EIO;
	struct shape s = {{SST_ZSTD, 3, 256, 10, false}, 64, 256, 40, 0};
	struct sst_cache *c;
	struct sst *t;
	struct iter *it;
	uint64_t bytes;

	assert_int_equal(shape_write(&s, in_dir("g.sst"), &bytes), 0);
	assert_int_equal(sst_cache_new(1 << 20, 1 << 20, &c), 0);
	assert_int_equal(sst_new(c, in_dir("g.sst"), false, &t), 0);
	file_set_hook(failing_io, &eio);
	io_number = 0;
	io_fail_at = 1;
	io_fail_on = false;
	assert_int_equal(sst_iter_new(t, &it), -EIO);
	assert_int_equal(sst_iter_new(t, &it), 0);
	iter_seek(it, shape_key(&s, 0));
	assert_int_equal(shape_at(&s, it, 0), 0);
	io_fail_at = io_number + 1;
	iter_seek(it, shape_key(&s, 2 * 40));
	assert_int_equal(it->err, -EIO);
	/* one read was tried, not one for each block after it */
	assert_int_equal(io_number, io_fail_at);
	iter_seek(it, shape_key(&s, 2 * 40));
	assert_int_equal(shape_at(&s, it, 40), 0);
	iter_free(it);
	file_set_hook(NULL, NULL);
	sst_put(t);
	sst_cache_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_byte_damaged, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(each_truncation, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(damage_in_the_way_of_a_scan, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(damaged_unit, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(damaged_block, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(each_io_fails, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(each_allocation_fails, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(errors_of_the_moment_pass, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(made_to_harm, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(hostile_references, setup, test_dir_teardown),
		cmocka_unit_test_setup_teardown(idle_iterators_stay, setup, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
