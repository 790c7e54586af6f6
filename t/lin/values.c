/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts as numbers.  The table finds a text by its hash.  A second table has the
 * results of appends and increments, because a search does the same ones often.
 */
#include "t/lin/values.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
	char *data;
	size_t size;
	uint64_t hash;
};
struct change { /* of `value` by an append of a piece, or by an increment */
	uint32_t value, result;
	int64_t by;
	bool append, used;
};
struct values {
	struct text *texts; /* [0] is the absent value */
	uint32_t count, room;
	uint32_t *slots; /* open addressing; 0: free */
	uint32_t slot_count;
	struct change *changes; /* open addressing */
	uint32_t change_count, change_slots;
};

static void *need(void *p)
{
	if (!p)
		abort();
	return p;
}

static uint64_t hash_of(const char *p, size_t n)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)p[i]) * 0x100000001b3u;
	return h ^ h >> 29;
}

struct values *values_new(void)
{
	struct values *v = need(calloc(1, sizeof(*v)));

	v->room = 64;
	v->texts = need(calloc(v->room, sizeof(*v->texts)));
	v->count = 1;
	v->slot_count = 256;
	v->slots = need(calloc(v->slot_count, sizeof(*v->slots)));
	v->change_slots = 256;
	v->changes = need(calloc(v->change_slots, sizeof(*v->changes)));
	return v;
}

void values_free(struct values *v)
{
	for (uint32_t i = 1; i < v->count; i++)
		free(v->texts[i].data);
	free(v->texts);
	free(v->slots);
	free(v->changes);
	free(v);
}

static void slots_grow(struct values *v)
{
	free(v->slots);
	v->slot_count *= 2;
	v->slots = need(calloc(v->slot_count, sizeof(*v->slots)));
	for (uint32_t i = 1; i < v->count; i++) {
		uint32_t at = (uint32_t)v->texts[i].hash & (v->slot_count - 1);

		while (v->slots[at])
			at = (at + 1) & (v->slot_count - 1);
		v->slots[at] = i;
	}
}

static uint32_t intern(struct values *v, const char *p, size_t n)
{
	uint64_t h = hash_of(p, n);
	uint32_t at = (uint32_t)h & (v->slot_count - 1);

	for (; v->slots[at]; at = (at + 1) & (v->slot_count - 1)) {
		const struct text *t = &v->texts[v->slots[at]];

		if (t->hash == h && t->size == n && !memcmp(t->data, p, n))
			return v->slots[at];
	}
	if (v->count == v->room)
		v->texts = need(reallocarray(v->texts, v->room *= 2, sizeof(*v->texts)));
	v->texts[v->count] = (struct text){need(malloc(n + 1)), n, h};
	memcpy(v->texts[v->count].data, p, n);
	v->texts[v->count].data[n] = '\0';
	v->slots[at] = v->count++;
	if (v->count * 2 > v->slot_count)
		slots_grow(v);
	return v->count - 1;
}

uint32_t values_of(struct values *v, const char *text)
{
	return text ? intern(v, text, strlen(text)) : VALUE_ABSENT;
}

const char *values_text(const struct values *v, uint32_t value)
{
	return v->texts[value].data;
}

bool values_begins(const struct values *v, uint32_t value, uint32_t with)
{
	const struct text *t = &v->texts[value], *w = &v->texts[with];

	return t->size >= w->size && (!w->size || !memcmp(t->data, w->data, w->size));
}

bool values_continues(const struct values *v, uint32_t value, uint32_t from, uint32_t piece)
{
	const struct text *t = &v->texts[value], *f = &v->texts[from], *p = &v->texts[piece];

	return values_begins(v, value, from) && t->size - f->size >= p->size &&
		(!p->size || !memcmp(t->data + f->size, p->data, p->size));
}

bool values_contains(const struct values *v, uint32_t value, uint32_t piece)
{
	const struct text *t = &v->texts[value], *p = &v->texts[piece];

	return !p->size || (t->size && memmem(t->data, t->size, p->data, p->size));
}

static struct change *change_slot(struct values *v, const struct change *c)
{
	uint64_t h = (((uint64_t)c->value << 1 | c->append) * 0x9e3779b97f4a7c15u ^ (uint64_t)c->by) * 0xff51afd7ed558ccdu;
	uint32_t at = (uint32_t)(h >> 32) & (v->change_slots - 1);

	for (;; at = (at + 1) & (v->change_slots - 1)) {
		struct change *slot = &v->changes[at];

		if (!slot->used || (slot->value == c->value && slot->by == c->by && slot->append == c->append))
			return slot;
	}
}

static void changes_grow(struct values *v)
{
	struct change *old = v->changes;
	uint32_t n = v->change_slots;

	v->change_slots *= 2;
	v->changes = need(calloc(v->change_slots, sizeof(*v->changes)));
	for (uint32_t i = 0; i < n; i++)
		if (old[i].used)
			*change_slot(v, &old[i]) = old[i];
	free(old);
}

static uint32_t appended(struct values *v, uint32_t value, uint32_t piece)
{
	size_t n = v->texts[value].size, more = v->texts[piece].size;
	char *p = need(malloc(n + more + 1));
	uint32_t result;

	if (n)
		memcpy(p, v->texts[value].data, n);
	memcpy(p + n, v->texts[piece].data, more);
	result = intern(v, p, n + more);
	free(p);
	return result;
}

static uint32_t incremented(struct values *v, uint32_t value, int64_t by)
{
	const char *text = value == VALUE_ABSENT ? "0" : v->texts[value].data;
	char *end, digits[32];
	int64_t n;

	errno = 0;
	n = strtoll(text, &end, 10);
	if (errno || end == text || *end || __builtin_add_overflow(n, by, &n))
		return VALUE_NONE;
	snprintf(digits, sizeof(digits), "%" PRId64, n);
	return intern(v, digits, strlen(digits));
}

static uint32_t changed(struct values *v, uint32_t value, bool append, int64_t by)
{
	struct change c = {.value = value, .by = by, .append = append, .used = true}, *slot = change_slot(v, &c);

	if (slot->used)
		return slot->result;
	c.result = append ? appended(v, value, (uint32_t)by) : incremented(v, value, by);
	*slot = c;
	if (++v->change_count * 2 > v->change_slots)
		changes_grow(v);
	return c.result;
}

uint32_t values_append(struct values *v, uint32_t value, uint32_t piece)
{
	return changed(v, value, true, piece);
}

uint32_t values_increment(struct values *v, uint32_t value, int64_t by)
{
	return changed(v, value, false, by);
}
