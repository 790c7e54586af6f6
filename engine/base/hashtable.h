/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthash with a hash that users cannot predict.  Include this in place of <uthash.h>.
 * Without HASH_NONFATAL_OOM uthash ends the process when it is out of memory.  With it,
 * hh.tbl of an element that was not added is NULL.
 */
#ifndef TFS_BASE_HASHTABLE_H
#define TFS_BASE_HASHTABLE_H

#include "engine/base/hash.h"

#define HASH_NONFATAL_OOM 1
#define HASH_FUNCTION(key, bytes, hash) ((hash) = (unsigned)hash_private(0, tfs_bytes_of(key, bytes)))
#include <uthash.h>

#endif
