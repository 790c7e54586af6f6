/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local lock service's files and journal, and a cluster's marker and identity, from any bytes: unchanged, and with the
 * checksum corrected, so that the parsers after it are reached.  A decoded value encodes to
 * bytes that decode to the same value.
 */
#include "engine/base/envelope.h"
#include "engine/lock/lock_format.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)

static void try_identity(struct tfs_bytes in)
{
	struct lock_identity identity;
	struct buf b = {0};

	if (lock_identity_decode(in, &identity) == 0)
		CHECK(lock_identity_encode(&identity, &b) == 0 && bytes_eq(buf_bytes(&b), in));
	buf_fini(&b);
}

/* Tries a file made of two copies of in. */
static void try_file(struct tfs_bytes in)
{
	struct buf file = {0};
	bool whole;
	struct tfs_bytes contents, back;
	uint64_t version, v;
	struct buf b = {0};

	if (lock_file_decode(in, &contents, &version, &whole) == 0)
		CHECK(lock_file_encode(contents, version, &b) == 0);
	CHECK(buf_append_bytes(&file, in) == 0 && copies_add(&file, 0) == 0);
	if (lock_file_decode(buf_bytes(&file), &contents, &version, &whole) == 0) {
		buf_reset(&b);
		CHECK(lock_file_encode(contents, version, &b) == 0);
		CHECK(whole == bytes_eq(buf_bytes(&b), buf_bytes(&file)));
		CHECK(lock_file_decode(buf_bytes(&b), &back, &v, &whole) == 0 && whole && v == version && bytes_eq(back, contents));
	}
	buf_fini(&file);
	buf_fini(&b);
}

static void try_journal(struct tfs_bytes in)
{
	struct lock_step *steps, *back;
	unsigned count, n;
	struct buf b = {0}, file = {0};

	CHECK(buf_append_bytes(&file, in) == 0 && copies_add(&file, 0) == 0);
	if (lock_journal_decode(buf_bytes(&file), &steps, &count)) {
		buf_fini(&file);
		return;
	}
	CHECK(lock_journal_encode(steps, count, &b) == 0);
	CHECK(lock_journal_decode(buf_bytes(&b), &back, &n) == 0 && n == count);
	for (unsigned i = 0; i < n; i++) {
		CHECK(lock_name_valid(back[i].name) && strcmp(steps[i].name, back[i].name) == 0);
		CHECK(steps[i].remove == back[i].remove && steps[i].version == back[i].version);
		CHECK(bytes_eq(steps[i].contents, back[i].contents));
	}
	free(steps);
	free(back);
	buf_fini(&b);
	buf_fini(&file);
}

static void try_cluster(struct tfs_bytes in)
{
	bool complete;
	uint64_t id;
	struct buf b = {0};

	if (lock_cluster_decode(in, &id, &complete) == 0)
		CHECK(id && lock_cluster_encode(id, complete, &b) == 0 && bytes_eq(buf_bytes(&b), in));
	buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *p = malloc(size + 1);

	CHECK(p);
	try_file(tfs_bytes_of(data, size));
	try_journal(tfs_bytes_of(data, size));
	try_cluster(tfs_bytes_of(data, size));
	try_identity(tfs_bytes_of(data, size));
	if (size >= 4) {
		memcpy(p, data, size);
		put_be32(p + size - 4, crc32c(0, p, size - 4));
		try_file(tfs_bytes_of(p, size));
		try_journal(tfs_bytes_of(p, size));
		try_cluster(tfs_bytes_of(p, size));
		try_identity(tfs_bytes_of(p, size));
	}
	free(p);
	return 0;
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
	static const struct lock_step steps[] = {{.name = "root", .version = 3, .contents = {(const uint8_t *)"abc", 3}},
		{.name = "tables/webtable", .remove = true}, {.name = "tables/a.tmp", .version = 1}};
	static struct buf b;

	buf_reset(&b);
	if (i == 0)
		CHECK(lock_file_encode(tfs_str("contents"), 7, &b) == 0);
	else if (i <= 3)
		CHECK(lock_journal_encode(steps, i, &b) == 0);
	else if (i <= 5) {
		CHECK(lock_cluster_encode(0x1234567890, i == 5, &b) == 0);
		*data = b.p;
		return b.n;
	} else if (i == 6) {
		CHECK(lock_identity_encode(&(struct lock_identity){.id = "an id", .secret = "a secret"}, &b) == 0);
		*data = b.p;
		return b.n;
	} else
		return 0;
	*data = b.p;
	return copies_get(buf_bytes(&b), 0, envelope_length).n;
}
