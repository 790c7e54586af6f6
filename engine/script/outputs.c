/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The merged outputs of a script.  The first delta declares them; each later one must declare the
 * same.  The whole delta is checked before its first line is returned.
 */
#include "engine/base/outcome.h"
#include "engine/script/delta.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct script_outputs {
	struct budget budget;
	struct output outputs[OUTPUTS_MAX];
	unsigned count;
	struct buf declared; /* the encoded declarations */
	bool has_declared;
	struct reader streamed; /* the records that were not returned yet */
	/* The result that comes next: */
	unsigned output;
	size_t item;
	struct map_entry **sorted; /* the sorted entries of this output, or NULL */
	char key[NUMBER_TEXT], value[NUMBER_TEXT];
};

int script_outputs_new(uint64_t memory, struct script_outputs **out)
{
	struct script_outputs *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	o->budget.limit = memory;
	*out = o;
	return 0;
}

static void free_sorted(struct script_outputs *o)
{
	if (o->sorted)
		budget_free(&o->budget, o->sorted, (o->outputs[o->output].map.count + 1) * sizeof(struct map_entry *));
	o->sorted = NULL;
}

void script_outputs_free(struct script_outputs *o)
{
	if (!o)
		return;
	free_sorted(o);
	for (unsigned i = 0; i < o->count; i++)
		output_free(&o->outputs[i], &o->budget);
	buf_fini(&o->declared);
	free(o);
}

static int declare(struct script_outputs *o, struct reader *r, struct tfs_bytes delta)
{
	int err;

	if (o->has_declared) {
		if (!bytes_has_prefix(delta, buf_bytes(&o->declared)))
			return -EBADMSG;
		r->p += o->declared.n;
		return 0;
	}
	err = delta_declarations(r, &o->budget, o->outputs, &o->count);
	if (!err)
		err = buf_append(&o->declared, delta.p, (size_t)(r->p - delta.p));
	o->has_declared = !err;
	return err;
}

static int merge(struct script_outputs *o, struct tfs_bytes delta)
{
	struct reader r = reader_of(delta), check;
	struct script_record record;
	int err = declare(o, &r, delta);

	if (!err)
		err = delta_merge(&r, &o->budget, o->outputs, o->count);
	if (err)
		return err;
	check = r;
	while ((err = delta_streamed(&check, o->outputs, o->count, &record)) > 0)
		;
	if (!err)
		o->streamed = r;
	return err;
}

int script_outputs_add(struct script_outputs *o, struct tfs_bytes delta, struct buf *why)
{
	int err = merge(o, delta);

	if (err)
		o->streamed = (struct reader){0};
	if (err == -EBADMSG) {
		buf_reset(why);
		return buf_printf(why, "a partial output of the script is malformed, or of another script") ? -ENOMEM : err;
	}
	if (err == -SCRIPT_LIMIT) {
		buf_reset(why);
		return buf_printf(why, "the merged outputs of the script have more than %llu bytes",
			       (unsigned long long)o->budget.limit)
			? -ENOMEM
			: err;
	}
	return err;
}

int script_outputs_streamed(struct script_outputs *o, struct script_record *r)
{
	return delta_streamed(&o->streamed, o->outputs, o->count, r);
}

/* ---- results ---- */

static void set_value(struct script_outputs *o, struct script_record *r, struct script_number n)
{
	r->value = tfs_bytes_of(o->value, script_number_text(n, o->value));
}

static void set_key(struct script_outputs *o, struct script_record *r, struct script_number n)
{
	r->key = tfs_bytes_of(o->key, script_number_text(n, o->key));
}

static int set_total(struct script_outputs *o, struct script_record *r, const struct total *t, struct buf *why)
{
	struct script_number n;

	if (total_value(t, &n)) {
		set_value(o, r, n);
		return 1;
	}
	buf_reset(why);
	return buf_printf(why, "the sum %s does not fit into 64 bits", o->outputs[o->output].name) ? -ENOMEM : -EINVAL;
}

static struct script_number of_float(double d)
{
	return (struct script_number){.is_float = true, .d = d};
}

static struct script_number of_count(uint64_t n)
{
	return (struct script_number){.i = n > INT64_MAX ? INT64_MAX : (int64_t)n};
}

/* The nearest count.  A worker that was taken over may send anything. */
static uint64_t nearest(double d)
{
	return !(d > 0) ? 0 : d < 0x1p63 ? (uint64_t)llround(d) : INT64_MAX;
}

/*
 * The estimator of Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017): it needs no
 * correction by tables.
 */
static double sigma(double x)
{
	double y = 1, z = x, before;

	if (x == 1)
		return INFINITY;
	do {
		x *= x;
		before = z;
		z += x * y;
		y += y;
	} while (z != before);
	return z;
}

static double tau(double x)
{
	double y = 1, z = 1 - x, before;

	if (x == 0 || x == 1)
		return 0;
	do {
		x = sqrt(x);
		before = z;
		y *= 0.5;
		z -= (1 - x) * (1 - x) * y;
	} while (z != before);
	return z / 3;
}

static struct script_number estimate(const struct output *o)
{
	enum { REST = 50 }; /* bits of the hash from which ranks are computed */
	const double m = OUTPUT_REGISTERS;
	unsigned with[REST + 2] = {0};
	double z;

	if (!o->registers)
		return of_count(0);
	for (unsigned i = 0; i < OUTPUT_REGISTERS; i++)
		with[o->registers[i]]++;
	z = m * tau(1 - with[REST + 1] / m);
	for (unsigned k = REST; k >= 1; k--)
		z = 0.5 * (z + with[k]);
	z += m * sigma(with[0] / m);
	return of_count(nearest(m * m / (2 * log(2)) / z));
}

static int sort(struct script_outputs *o, const struct output *of)
{
	int err = 0;

	if (!o->sorted)
		o->sorted = map_sorted(&of->map, &o->budget, of->kind == OUTPUT_TOP, &err);
	return err;
}

/* Returns the least number of the bucket that contains the number of that rank. */
static double quantile(const struct script_outputs *o, const struct output *of, double q)
{
	const uint64_t rank = nearest(ceil(q * (double)of->added));
	uint64_t before = 0;

	for (size_t i = 0; i < of->map.count; i++) {
		before += o->sorted[i]->count;
		if (before >= (rank ? rank : 1) && (q < 1 || i + 1 < of->map.count))
			return o->sorted[i]->least;
	}
	return number_float(of->edge);
}

static int of_quantiles(struct script_outputs *o, struct script_record *r, const struct output *of)
{
	int err;

	if (!of->any || o->item == of->param_count)
		return 0;
	err = sort(o, of);
	if (err)
		return err;
	set_key(o, r, of->params[o->item]);
	set_value(o, r,
		number_float(of->params[o->item]) >= 1 ? of->edge : of_float(quantile(o, of, number_float(of->params[o->item]))));
	return 1;
}

static int of_map(struct script_outputs *o, struct script_record *r, const struct output *of, struct buf *why)
{
	const struct map_entry *e;
	int err = sort(o, of);

	if (err)
		return err;
	if (o->item == of->map.count || (of->kind == OUTPUT_TOP && o->item == (size_t)of->params[0].i))
		return 0;
	e = o->sorted[o->item];
	r->key = map_key(e);
	if (of->kind != OUTPUT_TOP)
		return set_total(o, r, &e->total, why);
	set_value(o, r, of_count(e->count));
	return 1;
}

static int sample_order(const void *a, const void *b)
{
	const struct output_sample *x = a, *y = b;

	return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash)
				  : bytes_cmp(tfs_bytes_of(x->p, x->n), tfs_bytes_of(y->p, y->n));
}

static int of_samples(struct script_outputs *o, struct script_record *r, struct output *of)
{
	if (o->item == of->heap_count)
		return 0;
	if (o->item == 0)
		qsort(of->heap, of->heap_count, sizeof(*of->heap), sample_order);
	r->value = tfs_bytes_of(of->heap[o->item].p, of->heap[o->item].n);
	return 1;
}

static int of_histogram(struct script_outputs *o, struct script_record *r, const struct output *of)
{
	if (o->item > of->param_count)
		return 0;
	set_key(o, r, o->item < of->param_count ? of->params[o->item] : of_float(INFINITY));
	set_value(o, r, of_count(of->buckets ? of->buckets[o->item] : 0));
	return 1;
}

/* Returns 1 and the item-th result of the output, 0 after its last, or -errno. */
static int next_result(struct script_outputs *o, struct script_record *r, struct buf *why)
{
	struct output *of = &o->outputs[o->output];
	const bool single = o->item == 0;

	switch (of->kind) {
	case OUTPUT_COUNT:
	case OUTPUT_SUM:
		return single ? set_total(o, r, &of->total, why) : 0;
	case OUTPUT_MEAN:
		if (!single || !of->added)
			return 0;
		set_value(o, r, of_float(((double)of->total.whole + of->total.part) / (double)of->added));
		return 1;
	case OUTPUT_MIN:
	case OUTPUT_MAX:
		set_value(o, r, of->edge);
		return single && of->any;
	case OUTPUT_UNIQUE:
		set_value(o, r, estimate(of));
		return single;
	case OUTPUT_QUANTILES:
		return of_quantiles(o, r, of);
	case OUTPUT_COUNT_BY:
	case OUTPUT_SUM_BY:
	case OUTPUT_TOP:
		return of_map(o, r, of, why);
	case OUTPUT_SAMPLE:
		return of_samples(o, r, of);
	case OUTPUT_HISTOGRAM:
		return of_histogram(o, r, of);
	case OUTPUT_LINES:
	case OUTPUT_KINDS_END:
	default:
		return 0;
	}
}

int script_outputs_result(struct script_outputs *o, struct script_record *r, struct buf *why)
{
	int got;

	for (; o->output < o->count; o->output++, o->item = 0) {
		*r = (struct script_record){.kind = SCRIPT_RESULT, .output = tfs_str(o->outputs[o->output].name)};
		got = next_result(o, r, why);
		if (got) {
			o->item++;
			return got;
		}
		free_sorted(o);
	}
	return 0;
}
