/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables with computed contents for the SSTable tests: pair i is a function of i and
 * the table's shape.
 */
#ifndef TFS_T_UNIT_SSTABLE_LIB_H
#define TFS_T_UNIT_SSTABLE_LIB_H

#include "engine/sstable/sstable.h"
#include "t/lib/value.h"
#include <stdio.h>
#include <stdlib.h>

enum { KEY_BUF = 70000, VALUE_BUF = 300000 };

struct shape {
	struct sst_options o;
	uint32_t n;
	uint32_t key_bytes;   /* padded in the middle to this; at least 16 */
	uint32_t value_bytes; /* 0..this */
	uint32_t large_every; /* each such value has 256 KiB; 0: none */
};

static uint8_t shape_key_bytes[KEY_BUF], shape_value_bytes[VALUE_BUF];

/* Present keys have even numbers: odd ones are absent and lie between. */
static struct tfs_bytes shape_key_in(const struct shape *s, uint32_t number, uint8_t *buf)
{
	uint32_t pad = s->key_bytes > 16 ? s->key_bytes - 16 : 0;

	memcpy(buf, "row.", 4);
	memset(buf + 4, 'p', pad);
	snprintf((char *)buf + 4 + pad, 16, "%012u", number);
	return tfs_bytes_of(buf, 16 + pad);
}

static inline struct tfs_bytes shape_key(const struct shape *s, uint32_t number)
{
	return shape_key_in(s, number, shape_key_bytes);
}

static inline bool shape_is_large(const struct shape *s, uint32_t i)
{
	return s->large_every && i % s->large_every == s->large_every - 1;
}

static inline struct tfs_bytes shape_value(const struct shape *s, uint32_t i)
{
	static const char *const words[] = {"alpha ", "beta ", "gamma ", "delta ", "epsilon ", "zeta ", "eta ", "theta "};
	uint32_t seed = i * 2654435761u + 12345, n = s->value_bytes ? seed % (s->value_bytes + 1) : 0, at = 0;

	if (shape_is_large(s, i))
		n = 256 << 10;
	while (at < n) {
		const char *w;

		seed = seed * 1664525u + 1013904223u;
		w = words[seed >> 29];
		while (*w && at < n)
			shape_value_bytes[at++] = (uint8_t)*w++;
	}
	return tfs_bytes_of(shape_value_bytes, n);
}

/* 0 or the first error; *bytes the file's size. */
static inline int shape_write(const struct shape *s, const char *path, uint64_t *bytes)
{
	struct sst_writer *w = NULL;
	int err = sst_writer_new(path, &s->o, &w);

	for (uint32_t i = 0; i < s->n && !err; i++) {
		struct tfs_bytes k = shape_key(s, 2 * i);

		err = sst_writer_probe(w, tfs_str("every row"));
		if (!err)
			err = sst_writer_probe(w, k);
		if (!err)
			err = sst_writer_add(w, k, shape_value(s, i), false);
	}
	if (!err)
		err = sst_writer_finish(w, tfs_str("the properties"), bytes);
	sst_writer_free(w);
	return err;
}

/* Returns 0 if the iterator is at pair i. */
static inline int shape_at(const struct shape *s, struct iter *it, uint32_t i)
{
	if (!it->valid)
		return -1;
	return bytes_eq(it->key, shape_key(s, 2 * i)) && value_is(it, shape_value(s, i)) ? 0 : -2;
}

#endif
