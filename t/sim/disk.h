/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage of the simulated cluster: the engine's file operations
 * (engine/base/file_ops.h) on a directory of the memory file system, with
 * durations and faults.
 *
 * A power cut of a machine loses data that no sync covers: of each file a suffix of
 * the writes since the last sync, which any process may have made.  Changes of
 * directories are not lost, because a network file system carries them out on its
 * servers.
 */
#ifndef T_SIM_DISK_H
#define T_SIM_DISK_H

#include "t/sim/sched.h"

/* For so long, operations of p (NULL: of all) fail with err sometimes, or (0) are slow.  -ENOSPC: the disk is full. */
void disk_fault(struct proc *p, int err, uint64_t us);
void disk_mend(void);
/* A sync takes up to so long. */
void disk_set_sync(uint64_t us);
/* Operations of the process (NULL: of all) that begin in this time return after it. */
void disk_hang(struct proc *p, uint64_t us);
/* Takes back unsynced writes of p.  Then the caller kills p.  Returns the number of writes lost. */
unsigned disk_power_cut(struct proc *p);

#endif
