/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts a stretch of log records by table, row and LSN (log_sort.h).  A stretch
 * is one block of memory, filled from the front: each record's struct, then its
 * bytes.  The sorted entries are small: a record's table, eight bytes of its
 * row after the common prefix of all rows of the stretch (reversed hosts have
 * long common prefixes), and the record's place.  The rest of the row is
 * compared only if those bytes are equal.
 *
 * Records are added in the order of their LSNs, so a stable sort (a merge sort)
 * need not compare LSNs.  A log written in row order costs one pass.
 *
 * An embedded store does not sort its segments on disk, as a cluster does
 * (log_sorted.h): one server has all tablets, so that would only write all data again.
 */
#include "engine/log/log_sort.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST_ROOM = 1024, FIRST_WIDTH = 16 };

struct entry {
	uint64_t head; /* bytes of the row, after the common prefix */
	uint32_t table;
	const struct log_record *r;
};

struct log_stretch {
	uint8_t *block;
	size_t cap, used, bytes;
	const struct log_record **v; /* the records; in order after the sort */
	struct entry *e, *spare;     /* arrays for the sort, as long as the array v */
	size_t count, room;
};

int log_stretch_new(size_t bytes, struct log_stretch **out)
{
	struct log_stretch *s = calloc(1, sizeof *s);

	if (!s)
		return -ENOMEM;
	s->bytes = bytes;
	*out = s;
	return 0;
}

void log_stretch_free(struct log_stretch *s)
{
	if (!s)
		return;
	free(s->block);
	free(s->v);
	free(s->e);
	free(s);
}

void log_stretch_clear(struct log_stretch *s)
{
	s->used = 0;
	s->count = 0;
}

static int grow_block(struct log_stretch *s, size_t need)
{
	uint8_t *p;

	if (need > s->bytes && s->count)
		return -ENOSPC;
	if (need <= s->cap)
		return 0;
	if (need < s->bytes)
		need = s->bytes;
	/* The stretch is empty here.  The block exceeds s->bytes only if one record needs it. */
	p = malloc(need);
	if (!p)
		return -ENOMEM;
	free(s->block);
	s->block = p;
	s->cap = need;
	return 0;
}

/* Makes room for one more record, and for the sort's arrays. */
static int grow_lists(struct log_stretch *s)
{
	size_t room = s->room ? s->room * 2 : FIRST_ROOM;
	const struct log_record **v;
	struct entry *e;

	if (s->count < s->room)
		return 0;
	v = reallocarray(s->v, room, sizeof(*v));
	if (!v)
		return -ENOMEM;
	s->v = v;
	e = reallocarray(s->e, room, 2 * sizeof(*e));
	if (!e)
		return -ENOMEM;
	s->e = e;
	s->spare = e + room;
	s->room = room;
	return 0;
}

static struct tfs_bytes stretch_put(uint8_t **p, struct tfs_bytes from)
{
	struct tfs_bytes s = tfs_bytes_of(*p, from.n);

	if (from.n)
		memcpy(*p, from.p, from.n);
	*p += from.n;
	return s;
}

int log_stretch_add(struct log_stretch *s, const struct log_record *r)
{
	bool one = bytes_eq(r->row_from, r->row_to);
	size_t n = sizeof *r + r->row_from.n + (one ? 0 : r->row_to.n) + r->result.n + r->batch.n;
	struct log_record *copy;
	uint8_t *p;
	int err;

	n = (n + 15) & ~(size_t)15;
	err = grow_block(s, s->used + n);
	if (!err)
		err = grow_lists(s);
	if (err)
		return err;
	copy = (struct log_record *)(void *)(s->block + s->used);
	p = (uint8_t *)(copy + 1);
	*copy = *r;
	copy->row_from = stretch_put(&p, r->row_from);
	copy->row_to = one ? copy->row_from : stretch_put(&p, r->row_to);
	copy->result = stretch_put(&p, r->result);
	copy->batch = stretch_put(&p, r->batch);
	s->used += n;
	s->v[s->count++] = copy;
	return 0;
}

/* ---- sorting ---- */
static size_t common_bytes(struct tfs_bytes a, struct tfs_bytes b, size_t most)
{
	size_t n = 0;

	if (most > a.n)
		most = a.n;
	if (most > b.n)
		most = b.n;
	while (n < most && a.p[n] == b.p[n])
		n++;
	return n;
}

static uint64_t head_of(struct tfs_bytes row, size_t skip)
{
	uint8_t head[8] = {0};
	size_t n = row.n - skip < 8 ? row.n - skip : 8;

	if (n)
		memcpy(head, row.p + skip, n);
	return load_be64(head);
}

static inline bool is_after(const struct entry *a, const struct entry *b)
{
	if (a->table != b->table)
		return a->table > b->table;
	if (a->head != b->head)
		return a->head > b->head;
	return bytes_cmp(a->r->row_from, b->r->row_from) > 0;
}

static bool is_sorted(const struct entry *e, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (is_after(&e[i - 1], &e[i]))
			return false;
	return true;
}

static void insertion_sort(struct entry *e, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct entry x = e[i];
		size_t at = i;

		for (; at > 0 && is_after(&e[at - 1], &x); at--)
			e[at] = e[at - 1];
		e[at] = x;
	}
}

/* Merges two adjacent sorted lists, of `left` and `count - left` entries, into out. */
static void merge_lists(const struct entry *e, size_t left, size_t count, struct entry *out)
{
	const struct entry *a = e, *a_end = e + left, *b = a_end, *b_end = e + count;

	if (left == count || !is_after(a_end - 1, b)) {
		memcpy(out, e, count * sizeof *e);
		return;
	}
	while (a < a_end && b < b_end)
		*out++ = is_after(a, b) ? *b++ : *a++;
	memcpy(out, a, (size_t)(a_end - a) * sizeof *a);
	memcpy(out + (a_end - a), b, (size_t)(b_end - b) * sizeof *b);
}

void log_stretch_sort(struct log_stretch *s)
{
	struct entry *from = s->e, *to = s->spare, *other;
	size_t common = s->count ? s->v[0]->row_from.n : 0;

	for (size_t i = 1; i < s->count; i++)
		common = common_bytes(s->v[0]->row_from, s->v[i]->row_from, common);
	for (size_t i = 0; i < s->count; i++)
		from[i] = (struct entry){head_of(s->v[i]->row_from, common), s->v[i]->table, s->v[i]};
	if (is_sorted(from, s->count))
		return;
	for (size_t at = 0; at < s->count; at += FIRST_WIDTH)
		insertion_sort(from + at, s->count - at < FIRST_WIDTH ? s->count - at : FIRST_WIDTH);
	for (size_t width = FIRST_WIDTH; width < s->count; width *= 2) {
		for (size_t at = 0; at < s->count; at += 2 * width) {
			size_t n = s->count - at < 2 * width ? s->count - at : 2 * width;

			merge_lists(from + at, n < width ? n : width, n, to + at);
		}
		other = from;
		from = to;
		to = other;
	}
	for (size_t i = 0; i < s->count; i++)
		s->v[i] = from[i].r;
}

const struct log_record *const *log_stretch_records(const struct log_stretch *s, size_t *count)
{
	*count = s->count;
	return s->v;
}
