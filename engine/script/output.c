/* SPDX-License-Identifier: Apache-2.0 */
/* The additions to one output. */
#include "engine/script/output.h"
#include "engine/base/outcome.h"

#include <math.h>
#include <stdlib.h>

const char *const output_kind_names[OUTPUT_KINDS_END] = {
#define X(name, text) text,
	OUTPUT_KINDS(X)
#undef X
};

/* ---- declarations ---- */

static bool is_count(struct script_number n)
{
	return !n.is_float && n.i >= 1 && n.i <= OUTPUT_TOP_MAX;
}

const char *output_check(enum output_kind kind, const struct script_number *params, unsigned count)
{
	const bool lists = kind == OUTPUT_QUANTILES || kind == OUTPUT_HISTOGRAM;

	if (kind == OUTPUT_TOP || kind == OUTPUT_SAMPLE)
		return count == 1 && is_count(params[0]) ? NULL : "one number from 1 to 100000 is needed";
	if (lists && (count < 1 || count > OUTPUT_PARAMS_MAX))
		return "from 1 to 1000 numbers are needed";
	if (!lists && count)
		return "it takes no number";
	for (unsigned i = 0; i < count; i++) {
		const double d = number_float(params[i]);

		if (isnan(d))
			return "a number is not a number (NaN)";
		if (kind == OUTPUT_QUANTILES && (d < 0 || d > 1))
			return "a quantile is from 0 to 1";
		if (kind == OUTPUT_HISTOGRAM && i && script_number_order(params[i - 1], params[i]) >= 0)
			return "the bounds must rise";
	}
	return NULL;
}

void output_clear(struct output *o, struct budget *b)
{
	map_free(&o->map, b);
	budget_free(b, o->registers, OUTPUT_REGISTERS);
	for (size_t i = 0; i < o->heap_count; i++)
		budget_free(b, o->heap[i].p, o->heap[i].n + 1);
	budget_free(b, o->heap, o->heap_cap * sizeof(*o->heap));
	budget_free(b, o->buckets, (o->param_count + 1) * sizeof(*o->buckets));
	o->any = false;
	o->total = (struct total){0};
	o->added = 0;
	o->registers = NULL;
	o->heap = NULL;
	o->heap_count = o->heap_cap = 0;
	o->buckets = NULL;
}

void output_free(struct output *o, struct budget *b)
{
	output_clear(o, b);
	budget_free(b, o->params, o->param_count * sizeof(*o->params));
	o->params = NULL;
}

size_t output_bytes(const struct output *o)
{
	size_t each = 20;

	if (!o->any)
		return 0;
	if (o->registers)
		return OUTPUT_REGISTERS;
	if (o->buckets)
		return (o->param_count + 1) * sizeof(*o->buckets);
	return each + o->map.count * each + o->heap_count * each;
}

/* ---- top ---- */

static size_t top_capacity(const struct output *o)
{
	return o->params[0].i * 10 > 1000 ? (size_t)o->params[0].i * 10 : 1000;
}

static bool lower_by(struct map_entry *e, void *cut)
{
	const uint64_t n = *(const uint64_t *)cut;

	e->count = e->count > n ? e->count - n : 0;
	return e->count == 0;
}

int output_top_prune(struct output *o, struct budget *b)
{
	const size_t most = top_capacity(o);
	struct map_entry **all;
	uint64_t cut;
	size_t count = o->map.count;
	int err;

	if (count <= 2 * most)
		return 0;
	all = map_sorted(&o->map, b, true, &err);
	if (!all)
		return err;
	cut = all[most]->count;
	budget_free(b, all, (count + 1) * sizeof(struct map_entry *));
	return map_filter(&o->map, b, lower_by, &cut);
}

/* ---- quantiles ---- */

/* The sign, the exponent and 8 bits of the mantissa, such that numbers rise with it. */
uint32_t output_bucket_of(double d)
{
	uint64_t bits;

	d += 0.0; /* -0 is 0 */
	memcpy(&bits, &d, 8);
	bits = bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
	return (uint32_t)(bits >> 44);
}

int output_bucket_add(struct output *o, struct budget *b, uint32_t bucket, uint64_t count, double least)
{
	uint8_t key[4];
	struct map_entry *e;
	int err;

	put_be32(key, bucket);
	err = map_get(&o->map, b, tfs_bytes_of(key, sizeof(key)), &e);
	if (err)
		return err;
	if (!e->count || least < e->least)
		e->least = least;
	if (__builtin_add_overflow(e->count, count, &e->count) || __builtin_add_overflow(o->added, count, &o->added))
		return -ERANGE;
	o->any = true;
	return 0;
}

/* ---- unique ---- */

int output_register_raise(struct output *o, struct budget *b, uint32_t index, uint8_t rank)
{
	int err;

	if (!o->registers) {
		o->registers = budget_alloc(b, OUTPUT_REGISTERS, &err);
		if (!o->registers)
			return err;
	}
	if (o->registers[index] < rank)
		o->registers[index] = rank;
	o->any = true;
	return 0;
}

static int add_unique(struct output *o, struct budget *b, struct tfs_bytes key)
{
	const uint64_t hash = hash64(key, 0x7461626c65746673);
	const uint64_t rest = hash << 14 | UINT64_C(1) << 13;

	return output_register_raise(o, b, (uint32_t)(hash >> 50), (uint8_t)(__builtin_clzll(rest) + 1));
}

/* ---- sample ---- */

static int sample_order(const struct output_sample *a, const struct output_sample *b)
{
	return a->hash != b->hash ? (a->hash > b->hash) - (a->hash < b->hash)
				  : bytes_cmp(tfs_bytes_of(a->p, a->n), tfs_bytes_of(b->p, b->n));
}

static void sift_down(struct output *o, size_t i)
{
	for (;;) {
		size_t child = 2 * i + 1;
		struct output_sample s = o->heap[i];

		if (child >= o->heap_count)
			return;
		if (child + 1 < o->heap_count && sample_order(&o->heap[child + 1], &o->heap[child]) > 0)
			child++;
		if (sample_order(&o->heap[child], &s) <= 0)
			return;
		o->heap[i] = o->heap[child];
		o->heap[child] = s;
		i = child;
	}
}

static void sift_up(struct output *o, size_t i)
{
	while (i && sample_order(&o->heap[i], &o->heap[(i - 1) / 2]) > 0) {
		struct output_sample s = o->heap[i];

		o->heap[i] = o->heap[(i - 1) / 2];
		o->heap[(i - 1) / 2] = s;
		i = (i - 1) / 2;
	}
}

int output_add_sample(struct output *o, struct budget *b, uint64_t hash, struct tfs_bytes value)
{
	const size_t most = (size_t)o->params[0].i;
	struct output_sample s = {.hash = hash, .n = value.n, .p = (uint8_t *)(uintptr_t)value.p};
	int err;

	if (o->heap_count == most && sample_order(&s, &o->heap[0]) >= 0)
		return 0;
	if (o->heap_count < most && o->heap_count == o->heap_cap) {
		const size_t cap = o->heap_cap ? o->heap_cap * 2 : 16;
		void *p = o->heap;

		err = budget_resize(b, &p, o->heap_cap * sizeof(s), cap * sizeof(s));
		if (err)
			return err;
		o->heap = p;
		o->heap_cap = cap;
	}
	s.p = budget_alloc(b, value.n + 1, &err);
	if (!s.p)
		return err;
	if (value.n)
		memcpy(s.p, value.p, value.n);
	o->any = true;
	if (o->heap_count < most) {
		o->heap[o->heap_count++] = s;
		sift_up(o, o->heap_count - 1);
	} else {
		budget_free(b, o->heap[0].p, o->heap[0].n + 1);
		o->heap[0] = s;
		sift_down(o, 0);
	}
	return 0;
}

/* ---- outputs that are not sums ---- */

static int add_bucket(struct output *o, struct budget *b, struct script_number n)
{
	unsigned i = 0;
	int err;

	if (!o->buckets) {
		o->buckets = budget_alloc(b, (o->param_count + 1) * sizeof(*o->buckets), &err);
		if (!o->buckets)
			return err;
	}
	while (i < o->param_count && script_number_order(n, o->params[i]) > 0)
		i++;
	o->buckets[i]++;
	o->any = true;
	return 0;
}

static void move_edge(struct output *o, struct script_number n)
{
	const int order = o->any ? script_number_order(n, o->edge) : 0;

	if (!o->any || (o->kind == OUTPUT_MIN ? order < 0 : order > 0))
		o->edge = n;
	o->any = true;
}

int output_add_number(struct output *o, struct budget *b, struct script_number n)
{
	if (o->kind == OUTPUT_HISTOGRAM)
		return add_bucket(o, b, n);
	if (o->kind == OUTPUT_MIN || o->kind == OUTPUT_MAX || o->kind == OUTPUT_QUANTILES) {
		move_edge(o, n);
		return o->kind == OUTPUT_QUANTILES ? output_bucket_add(o, b, output_bucket_of(number_float(n)), 1, number_float(n))
						   : 0;
	}
	o->any = true;
	o->added++;
	return total_add(&o->total, n) ? 0 : -ERANGE;
}

int output_add_key(struct output *o, struct budget *b, struct tfs_bytes key, struct script_number n)
{
	struct map_entry *e;
	int err;

	if (o->kind == OUTPUT_UNIQUE)
		return add_unique(o, b, key);
	err = map_get(&o->map, b, key, &e);
	if (err)
		return err;
	o->any = true;
	if (o->kind != OUTPUT_TOP)
		return total_add(&e->total, n) ? 0 : -ERANGE;
	if (__builtin_add_overflow(e->count, (uint64_t)n.i, &e->count) || e->count > INT64_MAX)
		return -ERANGE;
	return output_top_prune(o, b);
}
