/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terms of masters.  The check of the term is the first operation of each
 * multi-operation, so its error is reported before the error of another file's
 * version.
 *
 * Rejected: the master checks that "master" still exists.  The next master has
 * created it again, and its version is 1 again.
 */
#include "engine/lock/term.h"
#include "engine/base/msg.h"

#include <errno.h>
#include <string.h>

#define MASTER "master"
#define TERM "term"

/* Returns 0 if the file "master" has these contents, so this session created it; -EBUSY if it has other contents; -ENOENT. */
static int own_master(struct lock_service *locks, struct tfs_bytes contents)
{
	struct buf b = {0};
	int err = lock_get(locks, MASTER, &b, NULL);

	if (!err && !bytes_eq(buf_bytes(&b), contents))
		err = -EBUSY;
	buf_fini(&b);
	return err;
}

int lock_term_begin(struct lock_service *locks, struct tfs_bytes contents, struct lock_term *t)
{
	uint64_t number, version;
	uint8_t bytes[8];
	int err;

	do {
		struct lock_stat stats[2];
		struct lock_op ops[2] = {
			{.name = MASTER, .ephemeral = true, .contents = contents, .expect = LOCK_ABSENT},
			{.name = TERM, .contents = tfs_bytes_of(bytes, sizeof(bytes))},
		};

		err = lock_sync(locks);
		if (!err)
			err = lock_get_number(locks, TERM, &number, &version);
		if (err)
			return err;
		put_be64(bytes, number + 1);
		ops[1].expect = version;
		err = lock_multi(locks, ops, 2, stats);
		if (!err)
			*t = (struct lock_term){locks, number + 1, stats[1].version};
		if (err != -EEXIST)
			continue;
		/* The answer to an earlier attempt may have been lost.  Since "master" was created, the term was not raised again. */
		err = own_master(locks, contents);
		if (!err)
			err = lock_get_number(locks, TERM, &number, &version);
		if (!err)
			*t = (struct lock_term){locks, number, version};
		/* -ENOENT: another session was elected between the two calls, and has ended again. */
	} while (err == -ENOENT || err == -VERSION_CHANGED);
	return err;
}

/* Returns the error of a multi-operation, or -SESSION_ENDED if its cause is that the term has ended. */
static int term_error(const struct lock_term *t, int err)
{
	uint64_t version;
	int read;

	if (err != -VERSION_CHANGED)
		return err;
	read = lock_get(t->locks, TERM, NULL, &version);
	return read ? read : version == t->version ? err : -SESSION_ENDED;
}

int lock_term_multi(const struct lock_term *t, const struct lock_op *ops, unsigned count)
{
	struct lock_op all[LOCK_OPS_MAX] = {{.name = TERM, .what = LOCK_CHECK, .expect = t->version}};

	if (count == 0 || count >= LOCK_OPS_MAX)
		return -EINVAL;
	memcpy(all + 1, ops, count * sizeof(*ops));
	return term_error(t, lock_multi(t->locks, all, count + 1, NULL));
}

void lock_term_end(const struct lock_term *t)
{
	const struct lock_op op = {.name = MASTER, .what = LOCK_REMOVE, .expect = LOCK_EXISTS};
	int err = lock_term_multi(t, &op, 1);

	if (err && err != -ENOENT && err != -SESSION_ENDED)
		msg_warning("%s: not removed; it ends with the session: %s", MASTER, error_text(err));
}
