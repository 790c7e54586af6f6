/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the cluster after the faults: METADATA is sound, each tablet is
 * served only by the server that its row names, each file that a row names exists,
 * and at last nothing else does.
 */
#ifndef T_SIM_CHECK_H
#define T_SIM_CHECK_H

#include "t/sim/cluster.h"

/* Runs in the client's process.  Repeats the checks until they hold, and fails at the time `until`. */
void check_state(struct node *client, uint64_t until);

#endif
