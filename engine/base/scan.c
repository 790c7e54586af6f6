/* SPDX-License-Identifier: Apache-2.0 */
/* Functions on all members of a tfs_scan_spec. */
#include "engine/base/scan.h"

bool scan_has(const struct tfs_scan_spec *s, unsigned stages)
{
	static const struct tfs_scan_spec none;

#define SCAN_HAS(kind, number, type, member, stage)                                                                                \
	(stages & SCAN_##stage && memcmp(&s->member, &none.member, sizeof(s->member)) != 0) ||
	return SCAN_MEMBERS(SCAN_HAS) false;
#undef SCAN_HAS
}

int scan_own_bytes(struct tfs_scan_spec *s, struct arena *arena)
{
	struct tfs_bytes *bytes;
	int err = 0;

#define SCAN_OWN(kind, number, type, member, stage)                                                                                \
	bytes = _Generic(&s->member, struct tfs_bytes * : &s->member, default : NULL);                                             \
	if (bytes && !err && bytes->p)                                                                                             \
		err = bytes_own(bytes, arena);
	SCAN_MEMBERS(SCAN_OWN)
#undef SCAN_OWN
	return err;
}
