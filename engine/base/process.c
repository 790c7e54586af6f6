/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A count that the child increments is cheaper than getpid(2) at each call, and a later
 * process with the same number is not mistaken for a parent.
 */
#include "engine/base/process.h"

#include <pthread.h>

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
