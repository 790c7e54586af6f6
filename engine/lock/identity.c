/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The id and the secret of a store (identity.h).  The file `store` is made by
 * one put that expects no file.  If another program has made the file first,
 * the put fails, and that file is read.
 *
 * A derived key is two hashes, of the second half of the secret, the number of the hash
 * and the purpose, by the first half.
 */
#include "engine/lock/identity.h"

#include "engine/base/hash.h"

#include <errno.h>

int identity_draw(struct lock_identity *out)
{
	struct lock_identity drawn;
	int err = random_bytes(&drawn, sizeof(drawn));

	if (!err)
		*out = drawn;
	return err;
}

int identity_read(struct lock_service *locks, struct lock_identity *out)
{
	struct buf b = {0};
	int err = lock_get(locks, IDENTITY_FILE, &b, NULL);

	if (!err)
		err = lock_identity_decode(buf_bytes(&b), out);
	buf_fini(&b);
	return err;
}

int identity_make(struct lock_service *locks, struct lock_identity *out)
{
	struct lock_identity made;
	struct buf b = {0};
	int err = identity_read(locks, out);

	if (err != -ENOENT)
		return err;
	err = identity_draw(&made);
	if (!err)
		err = lock_identity_encode(&made, &b);
	if (!err)
		err = lock_put(locks, IDENTITY_FILE, buf_bytes(&b), LOCK_ABSENT, NULL);
	buf_fini(&b);
	return !err || err == -EEXIST ? identity_read(locks, out) : err;
}

void identity_key(const struct lock_identity *identity, const char *purpose, uint8_t *key)
{
	const struct siphash_key by = siphash_key_of(identity->secret), rest = siphash_key_of(identity->secret + SIPHASH_KEY_BYTES);

	for (uint64_t i = 0; i < 2; i++)
		put_be64(key + 8 * i, siphash(&by, (uint64_t[]){rest.k[0], rest.k[1], i}, 3, tfs_str(purpose)));
}
