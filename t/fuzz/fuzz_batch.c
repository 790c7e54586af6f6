/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches and property blobs from any bytes.  The first byte selects the target: 0 a
 * batch, 1 a property blob.  The decoded parts lie inside the input, and encoded
 * again they give the same bytes except for the length of varints.
 */
#include "engine/cell/batch_format.h"
#include "engine/tablet/props_format.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

static void must(bool x)
{
	if (!x)
		abort();
}

static void inside(struct tfs_bytes outer, struct tfs_bytes inner)
{
	must(inner.n == 0 || (inner.p >= outer.p && inner.p + inner.n <= outer.p + outer.n));
}

static void try_batch(struct tfs_bytes s)
{
	struct batch_reader r, again;
	struct batch_cell c, d;
	struct buf out = {0};
	int more;

	if (batch_open(&r, s))
		return;
	inside(s, r.row);
	must(batch_begin(&out, r.row) == 0);
	batch_set_commit(&out, r.commit);
	while ((more = batch_next(&r, &c)) > 0) {
		inside(s, c.qualifier);
		inside(s, c.value);
		must(batch_add(&out, &c) == 0);
	}
	if (more < 0) {
		must(batch_next(&r, &c) < 0);
		buf_fini(&out);
		return;
	}
	must(out.n <= s.n);
	must(batch_open(&r, s) == 0 && batch_open(&again, buf_bytes(&out)) == 0);
	must(bytes_eq(r.row, again.row) && r.commit == again.commit);
	while ((more = batch_next(&r, &c)) > 0) {
		must(batch_next(&again, &d) == 1);
		must(c.kind == d.kind && c.family == d.family && c.ts == d.ts && bytes_eq(c.qualifier, d.qualifier) &&
			bytes_eq(c.value, d.value));
	}
	must(batch_next(&again, &d) == 0);
	buf_fini(&out);
}

static void try_props(struct tfs_bytes s)
{
	struct buf out = {0}, twice = {0};
	struct props p, q;

	if (props_decode(s, &p))
		return;
	must(props_encode(&out, &p) == 0 && out.n <= s.n);
	must(props_decode(buf_bytes(&out), &q) == 0);
	must(props_encode(&twice, &q) == 0 && bytes_eq(buf_bytes(&out), buf_bytes(&twice)));
	buf_fini(&out);
	buf_fini(&twice);
	props_fini(&p);
	props_fini(&q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] % 2)
		try_props(tfs_bytes_of(data + 1, size - 1));
	else
		try_batch(tfs_bytes_of(data + 1, size - 1));
	return 0;
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static struct buf seed;
	struct props p = {.table = 3, .group = 1, .cells = 300, .seq_max = 7};
	struct batch_cell cells[] = {
		{CELL_DELETE_ROW, 0, {NULL, 0}, {NULL, 0}, INT64_MAX},
		{CELL_DELETE_FAMILY, 2, {NULL, 0}, {NULL, 0}, INT64_MAX},
		{CELL_DELETE_COLUMN, 2, tfs_str("q"), {NULL, 0}, 5},
		{CELL_VALUE, 2, tfs_str("qualifier"), tfs_str("value"), -5},
	};

	buf_reset(&seed);
	must(buf_u8(&seed, (uint8_t)i) == 0);
	switch (i) {
	case 0:
		must(batch_begin(&seed, tfs_str("row")) == 0);
		for (size_t k = 0; k < sizeof cells / sizeof cells[0]; k++)
			must(batch_add(&seed, &cells[k]) == 0);
		break;
	case 1:
		must(props_family(&p, 2) && props_family(&p, 1));
		must(buf_append(&p.first, "a", 1) == 0 && buf_append(&p.last, "z", 1) == 0);
		must(props_encode(&seed, &p) == 0);
		props_fini(&p);
		break;
	default:
		buf_fini(&seed);
		*data = NULL;
		return 0;
	}
	*data = seed.p;
	return seed.n;
}
