/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-2-4, from its specification.  It is in a file of its own, so that the linker
 * can give a test program a weak hash in its place (t/lib/weak_hash.c).
 */
#include "engine/base/siphash.h"

static uint64_t rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static uint64_t load_le(const uint8_t *p, size_t n)
{
	uint64_t x = 0;

	for (size_t i = 0; i < n; i++)
		x |= (uint64_t)p[i] << 8 * i;
	return x;
}

struct siphash_key siphash_key_of(const uint8_t *bytes)
{
	return (struct siphash_key){{load_le(bytes, 8), load_le(bytes + 8, 8)}};
}

static inline void rounds(uint64_t v[4], unsigned n)
{
	while (n-- > 0) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] = rotate(v[2], 32);
	}
}

static inline void add_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	rounds(v, 2);
	v[0] ^= word;
}

uint64_t siphash(const struct siphash_key *key, const uint64_t *words, unsigned count, struct slice s)
{
	uint64_t v[4] = {key->k[0] ^ 0x736f6d6570736575, key->k[1] ^ 0x646f72616e646f6d, key->k[0] ^ 0x6c7967656e657261,
		key->k[1] ^ 0x7465646279746573};
	uint64_t last = (uint64_t)(8 * (size_t)count + s.n) << 56;

	for (unsigned i = 0; i < count; i++)
		add_word(v, words[i]);
	for (; s.n >= 8; s.p += 8, s.n -= 8)
		add_word(v, load_le(s.p, 8));
	add_word(v, last | load_le(s.p, s.n));
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
