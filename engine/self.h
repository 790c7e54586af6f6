/* SPDX-License-Identifier: Apache-2.0 */
/* A process that asks its own listener whether it answers, for the watchdog of a service manager. */
#ifndef TFS_SELF_H
#define TFS_SELF_H

#include "engine/rpc/channel.h"

/* source: a text of engine/base/source.h that names this process.  Connects nothing yet.  The caller frees the channel. */
int self_channel(const char *source, const char *keys, struct channel **out) TFS_MUST;

#endif
