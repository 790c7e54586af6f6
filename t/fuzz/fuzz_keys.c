/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of keys from any bytes.  A text with an error has its line and a reason.  The keys
 * that are read have different names of legal characters, and each key is found by its name.
 */
#include "engine/rpc/keys.h"
#include "engine/schema/schema.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)

static unsigned lines_of(const uint8_t *p, size_t n)
{
	unsigned lines = 1;

	for (size_t i = 0; i < n; i++)
		lines += p[i] == '\n';
	return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct keys *k = NULL;
	const char *reason;
	unsigned line;
	int err = keys_parse(tfs_bytes_of(data, size), &k, &line, &reason);

	if (err) {
		CHECK(err == -EINVAL && *reason && line && line <= lines_of(data, size));
		return 0;
	}
	for (unsigned i = 0; i < keys_count(k); i++) {
		const struct key *key = keys_at(k, i);

		CHECK(*key->name && strlen(key->name) <= KEY_NAME_MAX && keys_find(k, tfs_str(key->name)) == key);
		CHECK(key_same(key, key) && (i == 0 || !key_same(key, keys_at(k, i - 1))));
		CHECK(key->role == KEY_MOUNT || (!key->squash && !key->table_count));
		for (unsigned t = 0; t < key->table_count; t++)
			CHECK(schema_name_valid(tfs_str(key->tables[t])) && key_has_table(key, key->tables[t]));
	}
	keys_put(k);
	return 0;
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
#define SECRET "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	static const char *const texts[] = {
		"laptop mount " SECRET "\n",
		"# keys\n\n a mount " SECRET " squash=root anon_uid=7 anon_gid=8\nb\tcluster " SECRET,
		"a mount " SECRET " squash=all tables=A,b.c\n",
		"a mount " SECRET " tables=A,,B\n",
		"a mount 00\n",
	};

	if (i >= sizeof(texts) / sizeof(texts[0]))
		return 0;
	*data = (const uint8_t *)texts[i];
	return strlen(texts[i]);
}
