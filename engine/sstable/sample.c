/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of a table for the training of its dictionary: units of about the size of its blocks. */
#include "engine/sstable/sstable.h"

int sst_sample_add(struct sst_sample *sample, struct tfs_bytes unit)
{
	uint32_t n = (uint32_t)unit.n;
	int err = buf_append_bytes(&sample->raw, unit);

	return err ? err : buf_append(&sample->lengths, &n, sizeof(n));
}

void sst_sample_fini(struct sst_sample *sample)
{
	buf_fini(&sample->raw);
	buf_fini(&sample->lengths);
	*sample = (struct sst_sample){0};
}
