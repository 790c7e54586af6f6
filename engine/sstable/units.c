/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A unit is values in key order.  It ends before the value that would make it larger
 * than the target, so a read of one value decompresses little more than that value,
 * and a damaged unit loses few values.  Values above VALUE_UNIT_BYTES have units of
 * their own, so that a read of a part decompresses that part.
 *
 * The entry of a key has the place and the stored bytes of its unit, which are known
 * when the unit has been compressed.  So keys are held until then.  Without a sample,
 * the units and keys of the first 4 MiB are held until the dictionary has been trained
 * on them.
 *
 * Versions (zstd-dict only).  The versions of a column, newest first, resemble
 * each other, and in one unit the older ones take almost no space or time.
 * So they count for an eighth of their bytes; otherwise a unit would contain
 * fewer different pages than without them.  A unit may grow to four times the
 * target so that it does not end between versions.  Beyond that, the first
 * unit of the column and each unit of its first large version are bases.  A
 * unit that begins with an older version ends with the column and is
 * compressed against them.
 */
#include "engine/sstable/units.h"

#include <errno.h>

#include "engine/sstable/value.h"

enum {
	TRAIN_BYTES = 4 << 20,
	HELD_BYTES = 64 << 10,
	UNTRAINED_SHARE = 8,  /* a table larger than the held units is estimated as this multiple of their size */
	VERSIONS_STRETCH = 4, /* within a column a unit may grow to this multiple of the target */
	VERSIONS_SHARE = 8,
};

struct ended {
	uint32_t length, keep, against;
};

struct held {
	size_t key_bytes;
	uint64_t size;
	size_t unit; /* the number of the value's unit, or of its first unit if it is large; in `written` */
	uint32_t at;
	bool apart; /* if not, the value follows the key in `keys` */
};

void units_init(struct units *u, struct blockfile_writer *file, const struct sst_options *o, units_entry_fn *fn, void *arg)
{
	*u = (struct units){
		.file = file,
		.fn = fn,
		.arg = arg,
		.target = o->block_bytes,
		.apart = !o->twice,
		.versions = o->codec == SST_ZSTD_DICT,
		.training = o->codec == SST_ZSTD_DICT && !o->no_dictionary && !o->sample,
	};
}

void units_fini(struct units *u)
{
	struct buf *const all[] = {&u->raw, &u->ended, &u->keys, &u->held, &u->written, &u->entry, &u->stored_each};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		buf_fini(all[i]);
}

static int units_train(struct units *u, uint64_t expect)
{
	const struct ended *e = (const struct ended *)(const void *)u->ended.p;
	struct buf lengths = {0};
	int err = 0;

	u->training = false;
	for (size_t i = 0; i < u->ended.n / sizeof(*e) && !err; i++)
		err = buf_append(&lengths, &e[i].length, sizeof(e[i].length));
	if (!err)
		err = blockfile_writer_train(u->file, buf_bytes(&u->raw), (const uint32_t *)(const void *)lengths.p,
			lengths.n / sizeof(uint32_t), expect);
	buf_fini(&lengths);
	return err;
}

/* Writes the ended units.  None is open. */
static int units_write(struct units *u)
{
	const struct ended *e = (const struct ended *)(const void *)u->ended.p;
	struct blockfile_unit unit;
	size_t at = 0;
	int err = 0;

	for (size_t i = 0; i < u->ended.n / sizeof(*e) && !err; at += e[i].length, i++) {
		err = blockfile_writer_unit(u->file, tfs_bytes_of(u->raw.p + at, e[i].length), e[i].keep, e[i].against, &unit);
		if (!err)
			err = buf_append(&u->written, &unit, sizeof(unit));
	}
	buf_reset(&u->raw);
	buf_reset(&u->ended);
	u->open_at = 0;
	return err;
}

/* Makes u->entry the entry of a key with a value in written units. */
static int make_entry(struct units *u, const struct held *h)
{
	const struct blockfile_unit *unit = (const struct blockfile_unit *)(const void *)u->written.p + h->unit;
	struct value_ref v = {.place = VALUE_IN_UNIT, .size = h->size, .unit = unit->offset, .stored = unit->stored, .at = h->at};

	buf_reset(&u->stored_each);
	if (h->size > VALUE_UNIT_BYTES) {
		v.place = VALUE_LARGE;
		for (uint64_t at = 0; at < h->size; at += VALUE_UNIT_BYTES, unit++)
			if (buf_varint(&u->stored_each, unit->stored))
				return -ENOMEM;
		v.stored_each = buf_bytes(&u->stored_each);
	}
	buf_reset(&u->entry);
	return value_encode(&u->entry, &v);
}

static int add_inline(struct units *u, struct tfs_bytes key, struct tfs_bytes value)
{
	const struct value_ref v = {.place = VALUE_INLINE, .size = value.n, .bytes = value.p};
	int err;

	buf_reset(&u->entry);
	err = value_encode(&u->entry, &v);
	return err ? err : u->fn(u->arg, key, buf_bytes(&u->entry));
}

/* Adds the held keys to the blocks.  All their units are written. */
static int add_held(struct units *u)
{
	const struct held *h = (const struct held *)(const void *)u->held.p, *end = h + u->held.n / sizeof(*h);
	const uint8_t *p = u->keys.p;
	int err = 0;

	for (; h < end && !err; h++) {
		struct tfs_bytes key = tfs_bytes_of(p, h->key_bytes);

		p += h->key_bytes;
		if (h->apart) {
			err = make_entry(u, h);
			if (!err)
				err = u->fn(u->arg, key, buf_bytes(&u->entry));
		} else {
			err = add_inline(u, key, tfs_bytes_of(p, (size_t)h->size));
			p += h->size;
		}
	}
	buf_reset(&u->keys);
	buf_reset(&u->held);
	buf_reset(&u->written);
	return err;
}

static int hold(struct units *u, struct tfs_bytes key, uint64_t size, size_t unit, size_t at)
{
	const struct held h = {.key_bytes = key.n, .size = size, .unit = unit, .at = (uint32_t)at, .apart = true};

	return buf_append_bytes(&u->keys, key) || buf_append(&u->held, &h, sizeof(h)) ? -ENOMEM : 0;
}

/* Returns the number of the open unit in `written`. */
static size_t open_number(const struct units *u)
{
	return u->written.n / sizeof(struct blockfile_unit) + u->ended.n / sizeof(struct ended);
}

/* Ends the open unit, if there is one. */
static int end_unit(struct units *u, uint32_t keep, uint32_t against)
{
	const struct ended e = {(uint32_t)(u->raw.n - u->open_at), keep, against};
	int err;

	if (!e.length)
		return 0;
	err = buf_append(&u->ended, &e, sizeof(e));
	u->open_at = u->raw.n;
	u->open_counted = 0;
	if (!err && u->training && u->raw.n >= TRAIN_BYTES)
		err = units_train(u, UNTRAINED_SHARE * (uint64_t)u->raw.n);
	return err || u->training ? err : units_write(u);
}

/* Ends the open unit of small values, and adds its keys unless the dictionary is not trained. */
static int end_small(struct units *u)
{
	int err = end_unit(u, u->open_again ? BLOCKFILE_NO_BASE : 0, u->open_again ? 0 : BLOCKFILE_NO_BASE);

	return err || u->training ? err : add_held(u);
}

/* Returns true if the open unit must end before this value. */
static bool ends_before(const struct units *u, size_t n, bool again)
{
	const size_t open = u->raw.n - u->open_at, most = (size_t)VERSIONS_STRETCH * u->target;

	if (!open)
		return false;
	if (u->versions && again)
		return open + n > most;
	return (u->versions && u->open_again) || u->open_counted + n > u->target || open + n > most;
}

/* Takes the value in pieces, so that a compaction has no large value in memory. */
static int add_large(struct units *u, struct iter *it, bool again)
{
	struct tfs_bytes part;
	uint32_t piece = 0;
	size_t first, n;
	int err = end_small(u);

	first = open_number(u);
	for (uint64_t at = 0; at < it->size && !err; at += n, piece++) {
		n = it->size - at < VALUE_UNIT_BYTES ? (size_t)(it->size - at) : VALUE_UNIT_BYTES;
		err = iter_load(it, at, n, &part);
		if (!err)
			err = buf_append_bytes(&u->raw, part);
		if (!err)
			err = end_unit(u, again ? BLOCKFILE_NO_BASE : piece, again ? piece : BLOCKFILE_NO_BASE);
	}
	if (!err)
		err = hold(u, it->key, it->size, first, 0);
	return err || u->training ? err : add_held(u);
}

static int add_apart(struct units *u, struct tfs_bytes key, struct tfs_bytes value, bool again)
{
	int err = 0;

	if (ends_before(u, value.n, again))
		err = end_small(u);
	if (u->raw.n == u->open_at)
		u->open_again = again;
	if (!err)
		err = hold(u, key, value.n, open_number(u), u->raw.n - u->open_at);
	if (!err)
		err = buf_append_bytes(&u->raw, value);
	u->open_counted += again ? value.n / VERSIONS_SHARE : value.n;
	return err;
}

static int hold_inline(struct units *u, struct tfs_bytes key, struct tfs_bytes value)
{
	const struct held h = {.key_bytes = key.n, .size = value.n};

	return buf_append_bytes(&u->keys, key) || buf_append_bytes(&u->keys, value) || buf_append(&u->held, &h, sizeof(h)) ? -ENOMEM
															   : 0;
}

int units_add(struct units *u, struct iter *it, bool again)
{
	struct tfs_bytes value;
	int err;

	again = again && u->versions;
	if (u->apart && it->size > VALUE_UNIT_BYTES) {
		err = add_large(u, it, again);
	} else {
		err = iter_value(it, &value);
		if (!err && u->apart && value.n >= VALUE_APART_BYTES)
			err = add_apart(u, it->key, value, again);
		else if (!err && !u->held.n)
			return add_inline(u, it->key, value);
		else if (!err)
			err = hold_inline(u, it->key, value);
	}
	return !err && !u->training && u->keys.n > HELD_BYTES ? end_small(u) : err;
}

int units_finish(struct units *u)
{
	int err = end_small(u);

	if (!err && u->training) {
		err = units_train(u, u->raw.n);
		if (!err)
			err = units_write(u);
		if (!err)
			err = add_held(u);
	}
	return err;
}

uint64_t units_waiting(const struct units *u)
{
	return u->raw.n + u->keys.n;
}
