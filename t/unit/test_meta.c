/* SPDX-License-Identifier: Apache-2.0 */
/*
 * METADATA: row keys have the order and meaning of their tablets, rows read back as
 * written, edits have the effect of their parts, entries of the largest size work,
 * and damage to columns and to the root file is detected.
 */
#include "engine/meta/meta.h"
#include "engine/meta/meta_format.h"
#include "t/lib/xorshift.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static uint64_t seed = 0x2545f4914f6cdd1dull;

static uint64_t rnd64(void)
{
	return xorshift(&seed);
}

static unsigned rnd(unsigned n)
{
	return (unsigned)(rnd64() % n);
}

/* ---- row keys ---- */

static struct buf key_of(uint32_t table, bool last, const char *end, size_t n)
{
	struct buf b = {0};

	assert_int_equal(meta_row_key(&b, table, last, tfs_bytes_of(end, n)), 0);
	return b;
}

static void test_row_keys(void **state)
{
	/* tablets of tables in the order in which their rows must sort */
	struct buf keys[] = {key_of(1, false, "\0\0\0\2", 4), key_of(1, true, "", 0), key_of(16, false, "\0", 1),
		key_of(16, false, "a", 1), key_of(16, false, "a\0", 2), key_of(16, false, "b", 1), key_of(16, false, "\xff\xff", 2),
		key_of(16, true, "", 0), key_of(17, false, "a", 1), key_of(17, true, "", 0), key_of(256, true, "", 0)};
	static const struct {
		const char *row;
		size_t n;
		int want; /* the tablet of table 16 that holds the row */
	} seeks[] = {{"", 0, 2}, {"\0", 1, 3}, {"A", 1, 3}, {"a", 1, 4}, {"a\0", 2, 5}, {"aa", 2, 5}, {"b", 1, 6},
		{"\xff\xff", 2, 7}, {"\xff\xff\xff", 3, 7}};
	struct buf b = {0};
	unsigned count = sizeof keys / sizeof *keys;

	for (unsigned i = 0; i + 1 < count; i++)
		assert_true(bytes_cmp(buf_bytes(&keys[i]), buf_bytes(&keys[i + 1])) < 0);
	for (unsigned i = 0; i < sizeof seeks / sizeof *seeks; i++) {
		int found = 0;

		buf_reset(&b);
		assert_int_equal(meta_seek_key(&b, 16, tfs_bytes_of(seeks[i].row, seeks[i].n)), 0);
		while (bytes_cmp(buf_bytes(&keys[found]), buf_bytes(&b)) < 0)
			found++;
		assert_int_equal(found, seeks[i].want);
	}
	buf_reset(&b);
	assert_int_equal(meta_table_begin(&b, 16), 0);
	assert_true(bytes_cmp(buf_bytes(&keys[1]), buf_bytes(&b)) < 0 && bytes_cmp(buf_bytes(&b), buf_bytes(&keys[2])) < 0);
	buf_reset(&b);
	/* the root tablet holds METADATA's rows and no other */
	assert_int_equal(buf_append_bytes(&b, META_ROOT_END), 0);
	assert_true(bytes_cmp(buf_bytes(&keys[1]), buf_bytes(&b)) < 0 && bytes_cmp(buf_bytes(&b), buf_bytes(&keys[2])) < 0);
	for (unsigned i = 0; i < count; i++) {
		struct tfs_bytes end;
		uint32_t table;
		bool last;

		buf_reset(&b);
		assert_true(meta_parse_row_key(buf_bytes(&keys[i]), &table, &last, &end));
		assert_int_equal(meta_row_key(&b, table, last, end), 0);
		assert_true(bytes_eq(buf_bytes(&b), buf_bytes(&keys[i])));
		assert_int_equal(end.p == NULL, last);
		buf_fini(&keys[i]);
	}
	static const struct tfs_bytes bad[] = {{(const uint8_t *)"", 0}, {(const uint8_t *)"\0\0\0", 3},
		{(const uint8_t *)"\0\0\0\1", 4}, {(const uint8_t *)"\0\0\0\1\0", 5}, {(const uint8_t *)"\0\0\0\1\1", 5},
		{(const uint8_t *)"\0\0\0\1\2x", 6}, {(const uint8_t *)"\0\0\0\1\3x", 6}};

	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct tfs_bytes end;
		uint32_t table;
		bool last;

		assert_false(meta_parse_row_key(bad[i], &table, &last, &end));
	}
	buf_fini(&b);
}

/* ---- rows ---- */

static void rnd_row(struct buf *b, bool sometimes_large)
{
	size_t n = sometimes_large && rnd(10) == 0 ? 65536 : rnd(20);

	*b = (struct buf){0};
	assert_int_equal(buf_reserve(b, n + 1), 0);
	for (b->n = 0; b->n < n; b->n++)
		b->p[b->n] = (uint8_t)rnd64();
}

static struct tablet_file rnd_file(bool large)
{
	struct tablet_file f = {.incarnation = 1 + rnd(3),
		.number = rnd(20),
		.group = (uint16_t)rnd(2),
		.bytes = rnd64(),
		.raw_bytes = rnd64(),
		.cells = rnd64(),
		.tombstones = rnd(9),
		.row_deletes = rnd(9),
		.family_deletes = rnd(9),
		.seq_min = rnd64() / 2,
		.oldest_us = (int64_t)(rnd64() / 4),
		.newest_us = INT64_MAX / 2 + (int64_t)(rnd64() / 4)};
	struct buf swap;

	f.seq_max = f.seq_min + rnd64() / 2;
	if (rnd(3))
		f.commit_us = (int64_t)rnd64();
	if (rnd(5) == 0) { /* nothing but deletes */
		f.oldest_us = INT64_MAX;
		f.newest_us = INT64_MIN;
	}
	f.table = 16 + f.number % 2; /* a number is used once in an incarnation, for all tables */
	rnd_row(&f.begin, large);
	if (rnd(3)) {
		rnd_row(&f.end, large);
		if (bytes_cmp(buf_bytes(&f.begin), buf_bytes(&f.end)) >= 0)
			assert_int_equal(buf_set(&f.end, f.begin.p, f.begin.n) || buf_u8(&f.end, 'x'), 0);
	}
	rnd_row(&f.last, large);
	if (rnd(4) == 0)
		assert_int_equal(buf_set(&f.first, f.begin.p, f.begin.n), 0);
	else
		rnd_row(&f.first, large);
	if (bytes_cmp(buf_bytes(&f.first), buf_bytes(&f.last)) > 0) {
		swap = f.first;
		f.first = f.last;
		f.last = swap;
	}
	return f;
}

static void same_file(const struct tablet_file *a, const struct tablet_file *b)
{
	assert_int_equal(meta_file_order(a, b), 0);
	assert_int_equal(a->bytes, b->bytes);
	assert_int_equal(a->raw_bytes, b->raw_bytes);
	assert_int_equal(a->cells, b->cells);
	assert_int_equal(a->tombstones, b->tombstones);
	assert_int_equal(a->row_deletes, b->row_deletes);
	assert_int_equal(a->family_deletes, b->family_deletes);
	assert_int_equal(a->seq_min, b->seq_min);
	assert_int_equal(a->seq_max, b->seq_max);
	assert_int_equal(a->oldest_us, b->oldest_us);
	assert_int_equal(a->newest_us, b->newest_us);
	assert_int_equal(a->commit_us, b->commit_us);
	assert_true(bytes_eq(buf_bytes(&a->begin), buf_bytes(&b->begin)));
	assert_int_equal(a->end.p == NULL, b->end.p == NULL);
	assert_true(bytes_eq(buf_bytes(&a->end), buf_bytes(&b->end)));
	assert_true(bytes_eq(buf_bytes(&a->first), buf_bytes(&b->first)));
	assert_true(bytes_eq(buf_bytes(&a->last), buf_bytes(&b->last)));
}

static void same_tablet(const struct meta_tablet *a, const struct meta_tablet *b)
{
	assert_int_equal(a->table, b->table);
	assert_int_equal(a->last, b->last);
	assert_true(bytes_eq(buf_bytes(&a->begin), buf_bytes(&b->begin)));
	assert_true(bytes_eq(buf_bytes(&a->end), buf_bytes(&b->end)));
	assert_int_equal(a->server, b->server);
	assert_int_equal(a->assignment, b->assignment);
	assert_int_equal(a->token_count, b->token_count);
	for (unsigned i = 0; i < a->token_count; i++) {
		assert_int_equal(a->tokens[i].client, b->tokens[i].client);
		assert_int_equal(a->tokens[i].number, b->tokens[i].number);
		assert_true(bytes_eq(buf_bytes(&a->tokens[i].result), buf_bytes(&b->tokens[i].result)));
	}
	assert_int_equal(a->seq_mark, b->seq_mark);
	assert_int_equal(a->clock_mark, b->clock_mark);
	assert_int_equal(a->major_us, b->major_us);
	assert_int_equal(a->file_count, b->file_count);
	for (unsigned i = 0; i < a->file_count; i++)
		same_file(&a->files[i], &b->files[i]);
	assert_int_equal(a->redo_count, b->redo_count);
	for (unsigned i = 0; i < a->redo_count; i++) {
		assert_int_equal(a->redo[i].incarnation, b->redo[i].incarnation);
		assert_int_equal(a->redo[i].lsn, b->redo[i].lsn);
	}
}

/* A METADATA row as a store would keep it: the last write of each column wins. */
#define STORED 400
struct stored {
	struct tfs_cell cells[STORED];
	unsigned count;
	struct arena arena;
};

static void store_ops(struct stored *s, const struct op *ops, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const struct op *op = &ops[i];
		unsigned k = 0;

		assert_true(op->family >= META_TABLET && op->family <= META_EVENT);
		while (k < s->count && (s->cells[k].family_id != op->family || !bytes_eq(s->cells[k].qualifier, op->w.qualifier)))
			k++;
		if (op->kind == OP_DELETE_COLUMN) {
			if (k < s->count)
				s->cells[k] = s->cells[--s->count];
			continue;
		}
		assert_int_equal(op->kind, OP_WRITE);
		assert_int_equal(op->w.base, TFS_BASE_EMPTY);
		assert_true(op->w.place.when == TFS_NEWEST && op->w.place.us == INT64_MIN);
		assert_int_equal(op->w.truncate_to, UINT64_MAX);
		assert_true(op->value.n <= 256 * 1024); /* a cell that scans hand out whole */
		assert_true(k < STORED);
		if (k == s->count)
			s->count++;
		s->cells[k] = (struct tfs_cell){.family_id = op->family, .size = op->value.n};
		assert_true(arena_dup(&s->arena, op->w.qualifier, &s->cells[k].qualifier));
		assert_true(arena_dup(&s->arena, op->value, &s->cells[k].value));
	}
}

static void load(const struct stored *s, const struct meta_tablet *like, struct meta_tablet *m)
{
	struct buf key = {0};
	unsigned from = s->count ? rnd(s->count) : 0;

	*m = (struct meta_tablet){0};
	assert_int_equal(meta_row_key(&key, like->table, like->last, buf_bytes(&like->end)), 0);
	assert_int_equal(meta_tablet_row(m, buf_bytes(&key)), 0);
	for (unsigned i = 0; i < s->count; i++) /* in any order */
		assert_int_equal(meta_tablet_cell(m, &s->cells[(from + i) % s->count]), 0);
	buf_fini(&key);
}

static void rnd_tablet(struct meta_tablet *m, bool large)
{
	*m = (struct meta_tablet){.table = 16,
		.last = rnd(2),
		.server = rnd64(),
		.assignment = rnd64(),
		.seq_mark = rnd64(),
		.clock_mark = (int64_t)rnd64(),
		.major_us = (int64_t)rnd64()};
	rnd_row(&m->begin, large);
	if (!m->last)
		assert_int_equal(buf_append(&m->end, "end", 3), 0);
	for (unsigned n = rnd(5); n; n--) {
		struct tablet_file f = rnd_file(large);

		meta_file_normalise(&f);
		assert_int_equal(meta_files_add(m, &f, true), 0);
	}
	for (unsigned n = rnd(3); n; n--)
		assert_int_equal(meta_redo_add(m, (struct redo_point){1 + rnd(4), rnd64()}, true), 0);
	for (unsigned n = rnd(4); n; n--) /* some are equal, of which the first is kept */
		assert_int_equal(meta_token_add(m, rnd(2), rnd(3), tfs_bytes_of("result", rnd(7))), 0);
}

#define MANY 6
static void one_edit(struct meta_tablet *m, struct stored *s, bool large)
{
	struct tablet_file added[MANY], removed[MANY];
	struct redo_point redo[2] = {{1 + rnd(4), rnd64()}, {6, rnd64()}};
	uint8_t result[] = "result";
	const struct tablet_token tokens[] = {{1, 2, {.p = result, .n = 6}}, {1, 3, {0}}, {7, 1, {.p = result, .n = 1}}};
	struct tablet_edit e = {.added = added,
		.added_count = rnd(MANY),
		.removed = removed,
		.set_redo = rnd(2),
		.redo = redo,
		.redo_count = rnd(3),
		.set_tokens = rnd(2),
		.tokens = tokens,
		.token_count = rnd(4),
		.seq_mark = rnd(2) ? rnd64() : 0,
		.major_us = rnd(2) ? 9 : 0,
		.event = rnd(2) ? "minor compaction" : NULL};
	struct arena arena = {0};
	struct meta_tablet back;
	struct op *ops;
	unsigned count;

	for (unsigned i = 0; i < e.added_count; i++)
		added[i] = rnd_file(large);
	/* named by incarnation, number and group, as the contract states; a file that is not there is named, too */
	for (unsigned i = 0; i < m->file_count && e.removed_count < MANY; i++)
		if (rnd(2))
			removed[e.removed_count++] = (struct tablet_file){
				.incarnation = m->files[i].incarnation, .number = m->files[i].number, .group = m->files[i].group};
	if (e.removed_count < MANY)
		removed[e.removed_count++] = (struct tablet_file){.incarnation = 99};
	assert_int_equal(meta_ops_edit(m, &e, &arena, &ops, &count), 0);
	assert_int_equal(meta_tablet_apply(m, &e), 0);
	store_ops(s, ops, count);
	load(s, m, &back);
	same_tablet(m, &back);
	meta_tablet_fini(&back);
	for (unsigned i = 0; i < e.added_count; i++)
		tablet_file_fini(&added[i]);
	arena_fini(&arena);
}

static void test_rows(void **state)
{
	for (int i = 0; i < 120; i++) {
		static struct stored s;
		struct meta_tablet m, back;
		struct arena arena = {0};
		struct buf root = {0};
		struct op *ops;
		unsigned count;

		s = (struct stored){0};
		rnd_tablet(&m, i % 8 == 0);
		assert_int_equal(meta_ops_new(&m, &arena, &ops, &count), 0);
		store_ops(&s, ops, count);
		load(&s, &m, &back);
		same_tablet(&m, &back);
		meta_tablet_fini(&back);
		for (int k = 0; k < 6; k++)
			one_edit(&m, &s, i % 8 == 0);
		assert_int_equal(meta_root_encode(&m, &root), 0);
		assert_int_equal(meta_root_decode(buf_bytes(&root), &back), 0);
		same_tablet(&m, &back);
		meta_tablet_fini(&back);
		meta_tablet_fini(&m);
		buf_fini(&root);
		arena_fini(&arena);
		arena_fini(&s.arena);
	}
}

/* The two halves of a split have the parent's assignment and tokens; a merged tablet has the tokens of its two halves. */
static void test_inherited(void **state)
{
	struct meta_tablet m = {.table = 16, .last = true, .assignment = 7}, lower = {0}, both = {0};

	assert_int_equal(meta_token_add(&m, 1, 5, tfs_str("five")), 0);
	assert_int_equal(meta_tablet_lower(&m, tfs_str("m"), &lower), 0);
	assert_int_equal(lower.assignment, 7);
	assert_int_equal(lower.token_count, 1);
	assert_int_equal(meta_token_add(&m, 1, 6, tfs_str("six")), 0);
	assert_int_equal(meta_token_add(&lower, 1, 4, tfs_str("four")), 0);
	lower.assignment = 6;
	assert_int_equal(meta_tablet_fold(&lower, &m, &both), 0);
	assert_int_equal(both.assignment, 7);
	assert_int_equal(both.token_count, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(both.tokens[i].number, 4 + i);
	assert_true(bytes_eq(buf_bytes(&both.tokens[1].result), tfs_str("five")));
	meta_tablet_fini(&m);
	meta_tablet_fini(&lower);
	meta_tablet_fini(&both);
}

/* Four rows of 64 KiB: the entry fits a cell, and first stays a bound on the same side of begin. */
static void test_largest_entry(void **state)
{
	for (int side = 0; side < 2; side++) {
		struct tablet_file f = {.table = 16, .incarnation = 1, .number = 1}, got;
		struct buf value = {0};
		uint8_t *row = malloc(65536);

		assert_non_null(row);
		memset(row, 'm', 65536);
		assert_int_equal(buf_set(&f.begin, row, 65536), 0);
		row[65535] = side ? 'n' : 'a';
		assert_int_equal(buf_set(&f.first, row, 65536), 0);
		memset(row, 'x', 65536);
		assert_int_equal(buf_set(&f.last, row, 65536), 0);
		memset(row, 'y', 65536);
		assert_int_equal(buf_set(&f.end, row, 65536), 0);
		struct tablet_file was = {0};

		assert_int_equal(tablet_file_copy(&was, &f), 0);
		meta_file_normalise(&f);
		assert_true(bytes_cmp(buf_bytes(&f.first), buf_bytes(&was.first)) <= 0);
		assert_int_equal(bytes_cmp(buf_bytes(&f.first), buf_bytes(&f.begin)) < 0,
			bytes_cmp(buf_bytes(&was.first), buf_bytes(&was.begin)) < 0);
		assert_int_equal(meta_sst_value_encode(&f, &value), 0);
		assert_true(value.n <= 256 * 1024);
		got = (struct tablet_file){.table = 16, .incarnation = 1, .number = 1};
		assert_int_equal(meta_sst_value_decode(buf_bytes(&value), &got), 0);
		same_file(&f, &got);
		tablet_file_fini(&got);
		tablet_file_fini(&was);
		tablet_file_fini(&f);
		buf_fini(&value);
		free(row);
	}
}

static void cell(uint16_t family, struct tfs_bytes qualifier, struct tfs_bytes value, int want)
{
	struct meta_tablet m = {0};
	struct tfs_cell c = {.family_id = family, .qualifier = qualifier, .value = value, .size = value.n};

	assert_int_equal(meta_tablet_cell(&m, &c), want);
	meta_tablet_fini(&m);
}

static void test_damage(void **state)
{
	struct meta_tablet m, got = {0};
	struct buf b = {0};

	cell(META_TABLET, tfs_str("server"), tfs_bytes_of("\1\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\1", 17), 0);
	cell(META_TABLET, tfs_str("server"), tfs_bytes_of("\1\0\0\0\0\0\0\0\7", 9), -EBADMSG);
	cell(META_TABLET, tfs_str("seq"), tfs_bytes_of("\1\0\0\0\0\0\0\0\7", 9), 0);
	cell(META_TABLET, tfs_str("seq"), tfs_bytes_of("\1\0\0\0\0\0\0\0", 8), -EBADMSG);
	cell(META_TABLET, tfs_str("seq"), tfs_bytes_of("\1\0\0\0\0\0\0\0\7\0", 10), -EBADMSG);
	cell(META_TABLET, tfs_str("server"), tfs_bytes_of("\2\0\0\0\0\0\0\0\7", 9), -EPROTO);
	cell(META_TABLET, tfs_str("server"), tfs_bytes_of("", 0), -EBADMSG);
	cell(META_TABLET, tfs_str("begin"), (struct tfs_bytes){0}, -EBADMSG);
	cell(META_TABLET, tfs_str("tokens"), tfs_bytes_of("anything", 8), -EPROTO);
	cell(META_TABLET, tfs_str("tokens"), tfs_bytes_of("\1", 1), -EBADMSG);
	cell(META_TABLET, tfs_str("tokens"), tfs_bytes_of("\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\1r", 19), 0);
	cell(META_TABLET, tfs_str("tokens"), tfs_bytes_of("\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\2r", 19), -EBADMSG);
	cell(META_TABLET, tfs_str("merge"), tfs_bytes_of("\1x", 2), -EBADMSG);
	cell(META_TABLET, tfs_str("colour"), tfs_bytes_of("\1x", 2), -EPROTO);
	cell(META_EVENT, tfs_str(""), tfs_bytes_of("\1opened", 7), 0);
	cell(META_EVENT, tfs_str(""), tfs_bytes_of("\2opened", 7), -EPROTO);
	cell(META_REDO, tfs_bytes_of("\0\0\0\0\0\0\0", 7), tfs_bytes_of("\1\0\0\0\0\0\0\0\7", 9), -EBADMSG);
	cell(META_REDO, tfs_bytes_of("\0\0\0\0\0\0\0\1", 8), tfs_bytes_of("\1\0\0\0\0\0\0\0\7", 9), 0);
	cell(META_SST, tfs_str("short"), tfs_bytes_of("\1", 1), -EBADMSG);
	cell(9, tfs_str(""), tfs_bytes_of("\1", 1), -EPROTO);
	assert_int_equal(meta_tablet_row(&got, tfs_str("xx")), -EBADMSG);
	for (int i = 0; i < 10; i++) {
		uint8_t key[META_SST_KEY_BYTES];
		struct tablet_file f = rnd_file(false);

		buf_reset(&b);
		meta_sst_key_put(key, &f);
		assert_int_equal(meta_sst_value_encode(&f, &b), 0);
		for (size_t n = 0; n < b.n; n++)
			cell(META_SST, tfs_bytes_of(key, sizeof key), tfs_bytes_of(b.p, n), -EBADMSG);
		assert_int_equal(buf_u8(&b, 0), 0);
		cell(META_SST, tfs_bytes_of(key, sizeof key), buf_bytes(&b), -EBADMSG);
		tablet_file_fini(&f);
	}
	rnd_tablet(&m, false);
	buf_reset(&b);
	assert_int_equal(meta_root_encode(&m, &b), 0);
	for (size_t i = 0; i < b.n; i++) {
		int rc;

		b.p[i] ^= 0x20;
		rc = meta_root_decode(buf_bytes(&b), &got);
		assert_int_equal(rc, -EBADMSG);
		assert_int_equal(meta_root_decode(tfs_bytes_of(b.p, i), &got), -EBADMSG);
		/* with a correct checksum the decoder may accept the changed bytes, but must not crash or leak */
		put_be32(b.p + b.n - 4, crc32c(0, b.p, b.n - 4));
		if (meta_root_decode(buf_bytes(&b), &got) == 0)
			meta_tablet_fini(&got);
		b.p[i] ^= 0x20;
		put_be32(b.p + b.n - 4, crc32c(0, b.p, b.n - 4));
	}
	assert_int_equal(meta_root_decode(buf_bytes(&b), &got), 0);
	same_tablet(&m, &got);
	meta_tablet_fini(&got);
	meta_tablet_fini(&m);
	buf_fini(&b);
}

/* Values and lists that no encoder writes, under a right checksum. */
static void test_senseless(void **state)
{
	static const struct {
		const char *begin, *end, *first, *last;
		uint64_t seq_min, seq_max;
		int64_t oldest, newest;
		int want;
	} cases[] = {
		{"a", "m", "b", "c", 1, 2, 3, 4, 0},
		{"a", NULL, "a", "a", 2, 2, 4, 4, 0},
		{"", NULL, "", "", 0, 0, INT64_MIN, INT64_MAX, 0},
		{"a", "m", "b", "c", 1, 2, INT64_MAX, INT64_MIN, 0},
		{"m", "m", "b", "c", 1, 2, 3, 4, -EBADMSG},
		{"n", "m", "b", "c", 1, 2, 3, 4, -EBADMSG},
		{"", "", "b", "c", 1, 2, 3, 4, -EBADMSG},
		{"a", "m", "d", "c", 1, 2, 3, 4, -EBADMSG},
		{"a", "m", "b", "c", 3, 2, 3, 4, -EBADMSG},
		{"a", "m", "b", "c", 3, UINT64_MAX, 3, 4, -EBADMSG},
		{"a", "m", "b", "c", 1, 2, 5, 4, -EBADMSG},
	};
	uint8_t key[META_SST_KEY_BYTES];
	struct meta_tablet m = {.table = 16, .last = true}, got;
	struct tablet_file f;
	struct redo_point p;
	struct buf b = {0};

	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		f = (struct tablet_file){.table = 16,
			.incarnation = 1,
			.number = 1,
			.seq_min = cases[i].seq_min,
			.seq_max = cases[i].seq_max,
			.oldest_us = cases[i].oldest,
			.newest_us = cases[i].newest};
		assert_int_equal(buf_append_bytes(&f.begin, tfs_str(cases[i].begin)), 0);
		if (cases[i].end)
			assert_int_equal(buf_reserve(&f.end, 1) || buf_append_bytes(&f.end, tfs_str(cases[i].end)), 0);
		assert_int_equal(
			buf_append_bytes(&f.first, tfs_str(cases[i].first)) || buf_append_bytes(&f.last, tfs_str(cases[i].last)),
			0);
		buf_reset(&b);
		meta_sst_key_put(key, &f);
		assert_int_equal(meta_sst_value_encode(&f, &b), 0);
		cell(META_SST, tfs_bytes_of(key, sizeof key), buf_bytes(&b), cases[i].want);
		tablet_file_fini(&f);
	}
	/* first is begin, and written out: flags, begin, first, last are the last 7 bytes */
	f = (struct tablet_file){0};
	assert_int_equal(buf_append(&f.begin, "a", 1) || buf_append(&f.first, "b", 1) || buf_append(&f.last, "c", 1), 0);
	buf_reset(&b);
	assert_int_equal(meta_sst_value_encode(&f, &b), 0);
	meta_sst_key_put(key, &f);
	assert_memory_equal(b.p + b.n - 7, "\0\1a\1b\1c", 7);
	cell(META_SST, tfs_bytes_of(key, sizeof key), buf_bytes(&b), 0);
	b.p[b.n - 3] = 'a';
	cell(META_SST, tfs_bytes_of(key, sizeof key), buf_bytes(&b), -EBADMSG);
	tablet_file_fini(&f);
	/* lists of the root file out of order, or with one twice */
	for (unsigned i = 0; i < 2; i++) {
		f = (struct tablet_file){.table = 16, .incarnation = 1, .number = i};
		assert_int_equal(meta_files_add(&m, &f, false), 0);
		assert_int_equal(meta_redo_add(&m, (struct redo_point){1 + i, 7}, false), 0);
	}
	for (unsigned i = 0; i < 5; i++) {
		m.files[0].number = i == 1 ? 1 : i == 2 ? 2 : 0;
		p = m.redo[0];
		m.redo[0].incarnation = i == 3 ? 2 : i == 4 ? 3 : 1;
		buf_reset(&b);
		assert_int_equal(meta_root_encode(&m, &b), 0);
		assert_int_equal(meta_root_decode(buf_bytes(&b), &got), i ? -EBADMSG : 0);
		if (i == 0)
			meta_tablet_fini(&got);
		m.redo[0] = p;
	}
	/* a right checksum distinguishes a later format from damage */
	b.p[5] = 2;
	put_be32(b.p + b.n - 4, crc32c(0, b.p, b.n - 4));
	assert_int_equal(meta_root_decode(buf_bytes(&b), &got), -EPROTO);
	meta_tablet_fini(&m);
	buf_fini(&b);
}

static void test_schema(void **state)
{
	struct store_schema *s = NULL;

	assert_int_equal(meta_store_schema(&s), 0);
	assert_int_equal(s->family_count, 4);
	assert_int_equal(s->group_count, 1);
	assert_int_equal(s->groups[0].sst.block_bytes, 16 * 1024);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(s->families[i].id, i + 1);
	assert_int_equal(gc_max_versions(s->families[0].rule), 1);
	assert_int_equal(gc_max_versions(s->families[3].rule), 20);
	store_schema_put(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_row_keys),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_inherited),
		cmocka_unit_test(test_largest_entry),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_senseless),
		cmocka_unit_test(test_schema),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
