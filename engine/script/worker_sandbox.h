/* SPDX-License-Identifier: Apache-2.0 */
/* The walls around a worker. */
#ifndef TFS_SCRIPT_WORKER_SANDBOX_H
#define TFS_SCRIPT_WORKER_SANDBOX_H

/*
 * Takes from this process all that a script does not need: privileges, files, new memory that
 * can be executed, and all system calls but a few.  Any other call kills the process.  Ends
 * the process if a wall cannot be raised.  Also starts a timer that ends the process at the limit of time, and
 * when the server is dead.
 */
void sandbox_enter(void);

#endif
