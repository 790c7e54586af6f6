/* SPDX-License-Identifier: Apache-2.0 */
/* The merged outputs of a script. */
#include "engine/script/script.h"

#include <errno.h>

int script_outputs_new(uint64_t memory, struct script_outputs **out)
{
	return -ENOSYS;
}

int script_outputs_add(struct script_outputs *o, struct tfs_bytes delta, struct buf *why)
{
	return -ENOSYS;
}

int script_outputs_streamed(struct script_outputs *o, struct script_record *r)
{
	return 0;
}

int script_outputs_result(struct script_outputs *o, struct script_record *r, struct buf *why)
{
	return 0;
}

void script_outputs_free(struct script_outputs *o)
{
}
