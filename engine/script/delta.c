/* SPDX-License-Identifier: Apache-2.0 */
/* The encoding of partial outputs.  Readers check all that they read: it comes from another process. */
#include "engine/script/delta.h"
#include "engine/base/outcome.h"

#include <math.h>

/* ---- writing ---- */

int delta_flush(struct delta_sink *s)
{
	int err = s->write && s->buf.n ? s->write(s->arg, buf_bytes(&s->buf)) : 0;

	if (s->write)
		buf_reset(&s->buf);
	return err;
}

static int piece(struct delta_sink *s, int err)
{
	return err || s->buf.n < DELTA_PIECE ? err : delta_flush(s);
}

int delta_begin(struct delta_sink *s, const struct output *outputs, unsigned count)
{
	int err = buf_u8(&s->buf, DELTA_VERSION);

	if (!err)
		err = buf_varint(&s->buf, count);
	for (unsigned i = 0; i < count && !err; i++) {
		err = buf_u8(&s->buf, (uint8_t)outputs[i].kind);
		if (!err)
			err = buf_lstr(&s->buf, tfs_str(outputs[i].name));
		if (!err)
			err = buf_varint(&s->buf, outputs[i].param_count);
		for (unsigned k = 0; k < outputs[i].param_count && !err; k++)
			err = script_number_encode(outputs[i].params[k], &s->buf);
		err = piece(s, err);
	}
	return err;
}

static int put_double(struct buf *out, double d)
{
	uint64_t bits;

	memcpy(&bits, &d, 8);
	return buf_be64(out, bits);
}

static int put_entry(struct delta_sink *s, const struct output *o, const struct map_entry *e)
{
	int err = buf_u8(&s->buf, 1);

	if (!err)
		err = buf_lstr(&s->buf, map_key(e));
	if (!err)
		err = o->kind == OUTPUT_COUNT_BY || o->kind == OUTPUT_SUM_BY ? total_encode(&e->total, &s->buf)
									     : buf_varint(&s->buf, e->count);
	if (!err && o->kind == OUTPUT_QUANTILES)
		err = put_double(&s->buf, e->least);
	return piece(s, err);
}

static int put_map(struct delta_sink *s, const struct output *o)
{
	int err = 0;

	for (size_t i = 0; i < o->map.capacity && !err; i++) {
		if (o->map.slots[i])
			err = put_entry(s, o, o->map.slots[i]);
	}
	return err ? err : buf_u8(&s->buf, 0);
}

static int put_samples(struct delta_sink *s, const struct output *o)
{
	int err = 0;

	for (size_t i = 0; i < o->heap_count && !err; i++) {
		err = buf_u8(&s->buf, 1);
		if (!err)
			err = buf_be64(&s->buf, o->heap[i].hash);
		if (!err)
			err = buf_lstr(&s->buf, tfs_bytes_of(o->heap[i].p, o->heap[i].n));
		err = piece(s, err);
	}
	return err ? err : buf_u8(&s->buf, 0);
}

/* The registers that are set: all, or each with its index. */
static int put_registers(struct delta_sink *s, const struct output *o)
{
	unsigned set = 0;
	int err;

	for (unsigned i = 0; i < OUTPUT_REGISTERS; i++)
		set += o->registers[i] > 0;
	err = buf_varint(&s->buf, set);
	if (!err && set > OUTPUT_REGISTERS / 3)
		return buf_append(&s->buf, o->registers, OUTPUT_REGISTERS);
	for (unsigned i = 0; i < OUTPUT_REGISTERS && !err; i++) {
		if (o->registers[i]) {
			err = buf_be16(&s->buf, (uint16_t)i);
			if (!err)
				err = buf_u8(&s->buf, o->registers[i]);
		}
	}
	return err;
}

int delta_output(struct delta_sink *s, const struct output *o, unsigned i)
{
	int err;

	if (!o->any)
		return 0;
	err = buf_varint(&s->buf, (uint64_t)i + 1);
	if (err)
		return err;
	switch (o->kind) {
	case OUTPUT_COUNT:
	case OUTPUT_SUM:
		err = total_encode(&o->total, &s->buf);
		break;
	case OUTPUT_MEAN:
		err = total_encode(&o->total, &s->buf);
		if (!err)
			err = buf_varint(&s->buf, o->added);
		break;
	case OUTPUT_MIN:
	case OUTPUT_MAX:
		err = script_number_encode(o->edge, &s->buf);
		break;
	case OUTPUT_QUANTILES:
		err = script_number_encode(o->edge, &s->buf);
		if (!err)
			err = put_map(s, o);
		break;
	case OUTPUT_COUNT_BY:
	case OUTPUT_SUM_BY:
	case OUTPUT_TOP:
		err = put_map(s, o);
		break;
	case OUTPUT_UNIQUE:
		err = put_registers(s, o);
		break;
	case OUTPUT_SAMPLE:
		err = put_samples(s, o);
		break;
	case OUTPUT_HISTOGRAM:
		for (unsigned k = 0; k <= o->param_count && !err; k++)
			err = buf_varint(&s->buf, o->buckets[k]);
		break;
	case OUTPUT_LINES:
	case OUTPUT_KINDS_END:
	default:
		break;
	}
	return piece(s, err);
}

int delta_end(struct delta_sink *s)
{
	return piece(s, buf_u8(&s->buf, 0));
}

int delta_line(struct buf *out, unsigned index, struct tfs_bytes line)
{
	int err = buf_u8(out, 'L');

	if (!err)
		err = buf_varint(out, index);
	return err ? err : buf_lstr(out, line);
}

int delta_cell(struct buf *out, const struct script_cell *c)
{
	int err = buf_u8(out, 'C');

	if (!err)
		err = buf_lstr(out, c->row);
	if (!err)
		err = buf_lstr(out, c->family);
	if (!err)
		err = buf_lstr(out, c->qualifier);
	if (!err)
		err = buf_be64(out, (uint64_t)c->ts);
	return err ? err : buf_lstr(out, c->value);
}

/* ---- reading ---- */

static int read_declaration(struct reader *r, struct budget *b, struct output *o)
{
	struct tfs_bytes name;
	uint64_t params;
	uint8_t kind;
	void *p = NULL;
	int err;

	if (!get_u8(r, &kind) || !get_lstr(r, &name) || !get_varint(r, &params) || kind >= OUTPUT_KINDS_END ||
		name.n > OUTPUT_NAME_MAX || params > OUTPUT_PARAMS_MAX || (name.n && memchr(name.p, 0, name.n)))
		return -EBADMSG;
	o->kind = kind;
	if (name.n)
		memcpy(o->name, name.p, name.n);
	if (params) {
		err = budget_resize(b, &p, 0, params * sizeof(*o->params));
		if (err)
			return err;
		o->params = p;
		o->param_count = (unsigned)params;
		for (unsigned i = 0; i < params; i++) {
			if (!script_number_decode(r, &o->params[i]))
				return -EBADMSG;
		}
	}
	return output_check(o->kind, o->params, o->param_count) ? -EBADMSG : 0;
}

int delta_declarations(struct reader *r, struct budget *b, struct output *outputs, unsigned *count)
{
	uint64_t n = 0;
	uint8_t version = 0;
	int err = 0;

	*count = 0;
	if (!get_u8(r, &version) || version != DELTA_VERSION || !get_varint(r, &n) || n > OUTPUTS_MAX)
		return -EBADMSG;
	while (*count < n && !err) {
		outputs[*count] = (struct output){0};
		err = read_declaration(r, b, &outputs[*count]);
		++*count;
	}
	return err;
}

static bool get_double(struct reader *r, double *d)
{
	uint64_t bits = 0;

	if (!get_be64(r, &bits))
		return false;
	memcpy(d, &bits, 8);
	return !isnan(*d);
}

static int read_total(struct reader *r, struct total *into)
{
	struct total t;

	return total_decode(r, &t) && total_merge(into, &t) ? 0 : -EBADMSG;
}

static int read_edge(struct reader *r, struct output *o)
{
	struct script_number n;
	int order;

	if (!script_number_decode(r, &n))
		return -EBADMSG;
	order = o->any ? script_number_order(n, o->edge) : 0;
	if (!o->any || (o->kind == OUTPUT_MIN ? order < 0 : order > 0))
		o->edge = n;
	return 0;
}

static int read_bucket(struct reader *r, struct budget *b, struct output *o, struct tfs_bytes key)
{
	uint64_t count = 0;
	double least = 0;
	int err;

	if (!get_varint(r, &count) || !get_double(r, &least) || key.n != 4 || count == 0 ||
		output_bucket_of(least) != load_be32(key.p))
		return -EBADMSG;
	err = output_bucket_add(o, b, load_be32(key.p), count, least);
	return err == -ERANGE ? -EBADMSG : err;
}

static int read_entry(struct reader *r, struct budget *b, struct output *o, struct tfs_bytes key)
{
	struct map_entry *e;
	uint64_t count = 0;
	int err;

	if (o->kind == OUTPUT_QUANTILES)
		return read_bucket(r, b, o, key);
	err = map_get(&o->map, b, key, &e);
	if (err || o->kind != OUTPUT_TOP)
		return err ? err : read_total(r, &e->total);
	if (!get_varint(r, &count) || __builtin_add_overflow(e->count, count, &e->count) || e->count > INT64_MAX)
		return -EBADMSG;
	return output_top_prune(o, b);
}

static int read_map(struct reader *r, struct budget *b, struct output *o)
{
	struct tfs_bytes key;
	uint8_t more = 0;
	int err = 0;

	while (!err && get_u8(r, &more) && more == 1)
		err = get_lstr(r, &key) ? read_entry(r, b, o, key) : -EBADMSG;
	return err ? err : r->bad || more ? -EBADMSG : 0;
}

static int read_samples(struct reader *r, struct budget *b, struct output *o)
{
	struct tfs_bytes value;
	uint64_t hash = 0;
	uint8_t more = 0;
	int err = 0;

	while (!err && get_u8(r, &more) && more == 1)
		err = get_be64(r, &hash) && get_lstr(r, &value) ? output_add_sample(o, b, hash, value) : -EBADMSG;
	return err ? err : r->bad || more ? -EBADMSG : 0;
}

static int read_registers(struct reader *r, struct budget *b, struct output *o)
{
	struct tfs_bytes all = {0};
	uint64_t set = 0;
	int err = 0;

	if (!get_varint(r, &set) || set > OUTPUT_REGISTERS)
		return -EBADMSG;
	if (set > OUTPUT_REGISTERS / 3) {
		if (!get_bytes(r, OUTPUT_REGISTERS, &all))
			return -EBADMSG;
		for (uint32_t i = 0; i < OUTPUT_REGISTERS && !err; i++)
			err = all.p[i] > 51 ? -EBADMSG : output_register_raise(o, b, i, all.p[i]);
		return err;
	}
	for (uint64_t i = 0; i < set && !err; i++) {
		uint16_t index = 0;
		uint8_t rank = 0;

		if (!get_be16(r, &index) || !get_u8(r, &rank) || index >= OUTPUT_REGISTERS || rank > 51)
			return -EBADMSG;
		err = output_register_raise(o, b, index, rank);
	}
	return err;
}

static int read_histogram(struct reader *r, struct budget *b, struct output *o)
{
	uint64_t n = 0;
	int err;

	if (!o->buckets) {
		o->buckets = budget_alloc(b, (o->param_count + 1) * sizeof(*o->buckets), &err);
		if (!o->buckets)
			return err;
	}
	for (unsigned i = 0; i <= o->param_count; i++) {
		if (!get_varint(r, &n) || __builtin_add_overflow(o->buckets[i], n, &o->buckets[i]) || o->buckets[i] > INT64_MAX)
			return -EBADMSG;
	}
	return 0;
}

static int read_output(struct reader *r, struct budget *b, struct output *o)
{
	uint64_t added = 0;
	int err;

	switch (o->kind) {
	case OUTPUT_COUNT:
	case OUTPUT_SUM:
		return read_total(r, &o->total);
	case OUTPUT_MEAN:
		err = read_total(r, &o->total);
		return err ? err : get_varint(r, &added) && !__builtin_add_overflow(o->added, added, &o->added) ? 0 : -EBADMSG;
	case OUTPUT_MIN:
	case OUTPUT_MAX:
		return read_edge(r, o);
	case OUTPUT_QUANTILES:
		err = read_edge(r, o);
		return err ? err : read_map(r, b, o);
	case OUTPUT_COUNT_BY:
	case OUTPUT_SUM_BY:
	case OUTPUT_TOP:
		return read_map(r, b, o);
	case OUTPUT_UNIQUE:
		return read_registers(r, b, o);
	case OUTPUT_SAMPLE:
		return read_samples(r, b, o);
	case OUTPUT_HISTOGRAM:
		return read_histogram(r, b, o);
	case OUTPUT_LINES:
	case OUTPUT_KINDS_END:
	default:
		return -EBADMSG;
	}
}

int delta_merge(struct reader *r, struct budget *b, struct output *outputs, unsigned count)
{
	uint64_t i = 0;
	int err = 0;

	while (!err && get_varint(r, &i) && i) {
		if (i > count)
			return -EBADMSG;
		err = read_output(r, b, &outputs[i - 1]);
		if (!err)
			outputs[i - 1].any = true;
	}
	return err ? err : r->bad ? -EBADMSG : 0;
}

int delta_streamed(struct reader *r, const struct output *outputs, unsigned count, struct script_record *out)
{
	uint64_t i = 0, ts = 0;
	uint8_t kind = 0;

	*out = (struct script_record){0};
	if (!r->bad && reader_left(r) == 0)
		return 0;
	if (!get_u8(r, &kind))
		return -EBADMSG;
	if (kind == 'L') {
		if (!get_varint(r, &i) || i >= count || outputs[i].kind != OUTPUT_LINES || !get_lstr(r, &out->value))
			return -EBADMSG;
		out->kind = SCRIPT_LINE;
		out->output = tfs_str(outputs[i].name);
		return 1;
	}
	if (kind != 'C' || !get_lstr(r, &out->cell.row) || !get_lstr(r, &out->cell.family) || !get_lstr(r, &out->cell.qualifier) ||
		!get_be64(r, &ts) || !get_lstr(r, &out->cell.value))
		return -EBADMSG;
	out->kind = SCRIPT_CELL;
	out->cell.ts = (int64_t)ts;
	return 1;
}
