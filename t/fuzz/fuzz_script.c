/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partial outputs of scripts (deltas) from any bytes: they are merged or refused, and never read beyond their end.
 * The first byte says where the input is cut into two deltas.
 */
#include "engine/script/delta.h"
#include "engine/script/script.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)

static int add(struct script_outputs *o, struct tfs_bytes delta)
{
	struct buf why = {0};
	struct script_record r;
	int err = script_outputs_add(o, delta, &why);

	CHECK(err <= 0 && (err == 0 || why.n > 0));
	while (!err && (err = script_outputs_streamed(o, &r)) == 1)
		err = 0;
	CHECK(err <= 0);
	buf_fini(&why);
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script_outputs *o;
	struct script_record r;
	struct buf why = {0};
	size_t cut;

	if (size < 2)
		return 0;
	cut = data[0] % (size - 1) + 1;
	CHECK(script_outputs_new(1 << 20, &o) == 0);
	if (!add(o, tfs_bytes_of(data + 1, cut)) && !add(o, tfs_bytes_of(data + 1, cut))) {
		(void)!add(o, tfs_bytes_of(data + 1 + cut, size - 1 - cut));
		for (unsigned i = 0; i < 10000 && script_outputs_result(o, &r, &why) > 0; i++)
			;
	}
	script_outputs_free(o);
	buf_fini(&why);
	return 0;
}

/* A delta of an output of that kind, to which something was added. */
static int encode(enum output_kind kind, struct buf *out)
{
	const bool lists = kind == OUTPUT_QUANTILES || kind == OUTPUT_HISTOGRAM,
		   keyed = kind >= OUTPUT_COUNT_BY && kind <= OUTPUT_UNIQUE;
	struct script_number params[] = {{.i = lists ? 0 : 3}, {.i = 1}}, n = {.i = 5};
	struct output o = {.kind = kind, .name = "name"};
	struct delta_sink s = {0};
	struct budget b = {.limit = 1 << 20};
	int err = 0;

	if (lists || kind == OUTPUT_TOP || kind == OUTPUT_SAMPLE) {
		o.params = params;
		o.param_count = lists ? 2 : 1;
	}
	for (unsigned i = 0; i < 3 && !err && kind != OUTPUT_LINES; i++) {
		n.i = (int64_t)i * 1000 + 1;
		err = keyed                     ? output_add_key(&o, &b, tfs_bytes_of(&n.i, 2), n)
			: kind == OUTPUT_SAMPLE ? output_add_sample(&o, &b, i, TFS_S("value"))
						: output_add_number(&o, &b, n);
	}
	if (!err)
		err = delta_begin(&s, &o, 1);
	if (!err)
		err = delta_output(&s, &o, 0);
	if (!err)
		err = delta_end(&s);
	if (!err && kind == OUTPUT_LINES)
		err = delta_line(&s.buf, 0, TFS_S("line"));
	if (!err && kind == OUTPUT_LINES)
		err = delta_cell(&s.buf, &(struct script_cell){.row = TFS_S("r"), .family = TFS_S("f"), .ts = 7});
	if (!err)
		err = buf_set(out, s.buf.p, s.buf.n);
	output_clear(&o, &b);
	buf_fini(&s.buf);
	return err;
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static struct buf b;
	struct buf delta = {0};

	if (i >= OUTPUT_KINDS_END)
		return 0;
	CHECK(encode((enum output_kind)i, &delta) == 0);
	buf_reset(&b);
	CHECK(buf_u8(&b, (uint8_t)(delta.n - 1)) == 0 && buf_append_bytes(&b, buf_bytes(&delta)) == 0 &&
		buf_append_bytes(&b, buf_bytes(&delta)) == 0);
	buf_fini(&delta);
	*data = b.p;
	return b.n;
}
