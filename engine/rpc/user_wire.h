/* SPDX-License-Identifier: Apache-2.0 */
/* The message of a struct tfs_user in requests of the tablet and master services. */
#ifndef TFS_RPC_USER_WIRE_H
#define TFS_RPC_USER_WIRE_H

#include "engine/rpc/wire.h"
#include "engine/tabletfs.h"

#define USER(F)                                                                                                                    \
	F(VALUE, 1, uid_t, uid)                                                                                                    \
	F(VALUE, 2, gid_t, gid)                                                                                                    \
	F(NUMBERS, 3, gid_t, groups, group_count)                                                                                  \
	F(VALUE, 4, bool, groups_unknown)
WIRE_COMPLETE(tfs_user, USER)
WIRE_MESSAGE(tfs_user, USER, NULL)

#endif
