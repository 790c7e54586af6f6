/* SPDX-License-Identifier: Apache-2.0 */
/* Counts forks.  A count that the child increments is cheaper than getpid(2) at each call, and a later
 * process with the same number is not mistaken for a parent.
 */
#include "engine/base/process.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t forks; /* a child has one thread when it changes this */

static void in_child(void)
{
	forks++;
}

static void begin(void)
{
	(void)pthread_atfork(NULL, NULL, in_child);
}

uint32_t process_forks(void)
{
	(void)pthread_once(&once, begin);
	return forks;
}

#ifdef TFS_DEBUG
void die_step(enum die_step step)
{
	static _Atomic long passed;
	const char *wanted = getenv("TFS_DIE_AT");
	char *end;

	if (wanted && strtol(wanted, &end, 10) == (long)step && *end == ':' &&
		atomic_fetch_add(&passed, 1) + 1 == strtol(end + 1, NULL, 10))
		(void)kill(getpid(), SIGKILL);
}
#endif
