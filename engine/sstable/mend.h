/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TFS_SSTABLE_MEND_H
#define TFS_SSTABLE_MEND_H

#include "engine/sstable/blockfile.h"
#include "engine/sstable/sstable.h"

/* *agree is set if the two copies are equal or the file has one copy. */
int mend_agree(struct blockfile *b, bool *agree) TFS_MUST;

#endif
