/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4 by the vectors of its authors, and tables whose hash users cannot choose. */
#include "engine/base/hashtable.h"
#include "engine/base/siphash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/*
 * The hashes of the bytes 0, 1, 2 ... by the key 0, 1 ... 15 (vectors_sip64 of the reference
 * code).  The last vector is the paper's, with 15 bytes.
 */
static void test_vectors(void **state)
{
	static const struct {
		size_t n;
		uint64_t hash;
	} vectors[] = {{0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd}, {2, 0x0d6c8009d9a94f5a}, {3, 0x85676696d7fb7e2d},
		{4, 0xcf2794e0277187b7}, {5, 0x18765564cd99a68d}, {6, 0xcbc9466e58fee3ce}, {7, 0xab0200f58b01d137},
		{8, 0x93f5f5799a932462}, {15, 0xa129ca6149be45e5}};
	uint8_t bytes[64];
	struct siphash_key key;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	key = siphash_key_of(bytes);
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
		assert_true(siphash(&key, NULL, 0, tfs_bytes_of(bytes, vectors[i].n)) == vectors[i].hash);
	for (size_t n = 0; n < 40; n++) {
		const uint64_t words[] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

		assert_true(siphash(&key, NULL, 0, tfs_bytes_of(bytes, 16 + n)) ==
			siphash(&key, words, 2, tfs_bytes_of(bytes + 16, n)));
	}
}

static void test_private(void **state)
{
	uint64_t a = hash_private(0, tfs_str("name")), all = 0;
	uint8_t bytes[64] = {0};

	assert_true(a == hash_private(0, tfs_str("name")));
	assert_true(a != hash_private(1, tfs_str("name")) && a != hash_private(0, tfs_str("nama")));
	assert_int_equal(random_bytes(bytes, sizeof(bytes)), 0);
	for (size_t i = 0; i < sizeof(bytes); i++)
		all |= bytes[i];
	assert_true(all != 0);
	assert_int_equal(random_bytes(bytes, 0), 0);
}

struct element {
	UT_hash_handle hh;
	char key[];
};

static void test_table(void **state)
{
	struct element *table = NULL, *e, *tmp;
	char key[16];

	for (unsigned i = 0; i < 1000; i++) {
		int n = snprintf(key, sizeof(key), "%u", i);

		e = calloc(1, sizeof(*e) + sizeof(key));
		assert_non_null(e);
		strcpy(e->key, key);
		HASH_ADD_KEYPTR(hh, table, e->key, (size_t)n, e);
		assert_true(e->hh.hashv == (unsigned)hash_private(0, tfs_str(key)));
	}
	for (unsigned i = 0; i < 2000; i++) {
		int n = snprintf(key, sizeof(key), "%u", i);

		HASH_FIND(hh, table, key, (size_t)n, e);
		assert_true((e != NULL) == (i < 1000));
	}
	HASH_ITER(hh, table, e, tmp)
	{
		HASH_DEL(table, e);
		free(e);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_private),
		cmocka_unit_test(test_table),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
