/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-2-4, from its specification.  It is in a file of its own, so that the linker
 * can give a test program a weak hash in its place (t/lib/weak_hash.c).
 */
#include "engine/base/siphash.h"

#include <endian.h>

static inline uint64_t rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static inline uint64_t load_le64(const uint8_t *p)
{
	uint64_t x;

	memcpy(&x, p, sizeof(x));
	return le64toh(x);
}

struct siphash_key siphash_key_of(const uint8_t *bytes)
{
	return (struct siphash_key){{load_le64(bytes), load_le64(bytes + 8)}};
}

struct state {
	uint64_t a, b, c, d;
};

static inline struct state one_round(struct state v)
{
	v.a += v.b;
	v.c += v.d;
	v.b = rotate(v.b, 13) ^ v.a;
	v.d = rotate(v.d, 16) ^ v.c;
	v.a = rotate(v.a, 32);
	v.c += v.b;
	v.a += v.d;
	v.b = rotate(v.b, 17) ^ v.c;
	v.d = rotate(v.d, 21) ^ v.a;
	v.c = rotate(v.c, 32);
	return v;
}

static inline struct state add_word(struct state v, uint64_t word)
{
	v.d ^= word;
	v = one_round(one_round(v));
	v.a ^= word;
	return v;
}

uint64_t siphash(const struct siphash_key *key, const uint64_t *words, unsigned count, struct tfs_bytes s)
{
	struct state v = {key->k[0] ^ 0x736f6d6570736575, key->k[1] ^ 0x646f72616e646f6d, key->k[0] ^ 0x6c7967656e657261,
		key->k[1] ^ 0x7465646279746573};
	uint64_t last = (uint64_t)(8 * (size_t)count + s.n) << 56;

	for (unsigned i = 0; i < count; i++)
		v = add_word(v, words[i]);
	for (; s.n >= 8; s.p += 8, s.n -= 8)
		v = add_word(v, load_le64(s.p));
	for (size_t i = 0; i < s.n; i++)
		last |= (uint64_t)s.p[i] << 8 * i;
	v = add_word(v, last);
	v.c ^= 0xff;
	v = one_round(one_round(one_round(one_round(v))));
	return v.a ^ v.b ^ v.c ^ v.d;
}
