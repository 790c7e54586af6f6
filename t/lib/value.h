/* SPDX-License-Identifier: Apache-2.0 */
/* The value at which an iterator stands, for tests. */
#ifndef TFS_T_LIB_VALUE_H
#define TFS_T_LIB_VALUE_H

#include "engine/base/iter.h"

/* A value that cannot be loaded has no bytes and the length SIZE_MAX, so it equals no other. */
static inline struct tfs_bytes value_of(struct iter *it)
{
	struct tfs_bytes v;

	return iter_value(it, &v) ? tfs_bytes_of(NULL, SIZE_MAX) : v;
}

static inline bool value_is(struct iter *it, struct tfs_bytes v)
{
	struct tfs_bytes is = value_of(it);

	return is.n == v.n && bytes_eq(is, v);
}

#endif
