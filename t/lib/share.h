/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make check tries each point of the tests that die, fail or compare at many.
 * With TEST_SHARE=N, which quickcheck sets, they try one point in N; TEST_SEED
 * decides which.  t/lib/mount.sh, command.pl and tap.py do this, too.
 */
#ifndef T_LIB_SHARE_H
#define T_LIB_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline uint64_t share_number(const char *name, uint64_t absent)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 10) : absent;
}

/* Points that are counted from 1 on are tried from the first one in these steps. */
static inline uint64_t share_step(void)
{
	uint64_t n = share_number("TEST_SHARE", 1);

	return n ? n : 1;
}

static inline uint64_t share_first(void)
{
	return 1 + share_number("TEST_SEED", 0) % share_step();
}

static inline bool in_share(uint64_t point)
{
	return point % share_step() == share_first() - 1;
}

#endif
