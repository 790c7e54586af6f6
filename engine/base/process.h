/* SPDX-License-Identifier: Apache-2.0 */
/* This process and its parents. */
#ifndef TFS_BASE_PROCESS_H
#define TFS_BASE_PROCESS_H

#include "engine/base/bytes.h"

/*
 * Counts the calls of fork(2) between the process that called this first and this one.  What has
 * noted an earlier number belongs to a parent: its threads do not exist here, and its locks may
 * be held for ever.  Any thread.
 */
uint32_t process_forks(void);

#endif
