/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of a table for the training of its dictionary: units of about the size of its blocks. */
#include "engine/sstable/sstable.h"
#include <errno.h>
#include <stdlib.h>

int sst_sample_add(struct sst_sample *sample, struct slice unit)
{
	uint32_t *lengths = realloc(sample->lengths, (sample->n + 1) * sizeof(*lengths));
	int err;

	if (!lengths)
		return -ENOMEM;
	sample->lengths = lengths;
	err = buf_append_slice(&sample->raw, unit);
	if (!err)
		lengths[sample->n++] = (uint32_t)unit.n;
	return err;
}

void sst_sample_fini(struct sst_sample *sample)
{
	buf_fini(&sample->raw);
	free(sample->lengths);
	*sample = (struct sst_sample){0};
}
