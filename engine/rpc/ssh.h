/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection through a program, ssh by default, whose standard input and output are one end of
 * a pair of sockets.  It runs "tabletctl serve --stdio DATADIR" at the host.  There is one program
 * at a time.  It ends with the connection, and is reaped by the next call here.
 *
 * Its standard error passes to this program's until ssh_greeted, and to the log later.  The first
 * run may ask the user for a password; later runs must not, because no user may be there.
 *
 * Threads: one at a time.  The thread of the connections (events.h) must run from ssh_connect to ssh_free.
 */
#ifndef TFS_RPC_SSH_H
#define TFS_RPC_SSH_H

#include "engine/base/bytes.h"

struct ssh;
/*
 * command: the words of the program and its options, with ' or " around words that have blanks.
 * host: [USER@]HOST.  Copies all.  -EINVAL: command; *why says so.
 */
int ssh_new(const char *command, const char *host, const char *dir, struct ssh **out, char **why) TFS_MUST;
/* Ends the program. */
void ssh_free(struct ssh *s);
/*
 * Starts the program.  *fd: the other end of its sockets, which the caller closes.  After failures it
 * starts none for up to 8 s, but returns -UNREACHABLE.
 */
int ssh_connect(struct ssh *s, int *fd, char **why) TFS_MUST;
/* How long an answer may take: at the first connection a user may type a password. */
uint64_t ssh_patience_us(const struct ssh *s, uint64_t timeout_us);
/* The server has answered. */
void ssh_greeted(struct ssh *s);
/* The caller has closed the connection before an answer.  Ends the program, and if *why is NULL, sets it to the program's last line. */
void ssh_failed(struct ssh *s, char **why);

#endif
