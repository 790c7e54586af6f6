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
#define SCAN_BYTES(kind, number, type, member, stage) _Generic(&s->member, struct tfs_bytes * : &s->member, default : NULL),
	struct tfs_bytes *const bytes[] = {SCAN_MEMBERS(SCAN_BYTES)};
#undef SCAN_BYTES
	int err = 0;

	for (size_t i = 0; i < sizeof(bytes) / sizeof(*bytes) && !err; i++)
		if (bytes[i])
			err = bytes_own(bytes[i], arena);
	return err;
}
