/* SPDX-License-Identifier: Apache-2.0 */
/* Marsaglia's xorshift generator: a seed, which is not 0, always gives the same numbers. */
#ifndef TFS_T_LIB_XORSHIFT_H
#define TFS_T_LIB_XORSHIFT_H

#include <stdint.h>

static inline uint64_t xorshift(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif
