/* SPDX-License-Identifier: Apache-2.0 */
/* The balanced trees of libbsd (RB_*), whose macros need __unused. */
#ifndef TFS_BASE_TREE_H
#define TFS_BASE_TREE_H

#include <bsd/sys/tree.h>

#ifndef __unused
#define __unused __attribute__((unused))
#endif

#endif
