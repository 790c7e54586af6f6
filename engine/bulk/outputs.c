/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs of a run, as lines of TSV or JSON. */
#include "engine/bulk/outputs.h"

#include "engine/bulk/escape.h"
#include "engine/bulk/json.h"

#include <errno.h>

static int append_tsv(const struct tfs_output *o, struct buf *out)
{
	return text_escape(o->output, out) || buf_u8(out, '\t') || text_escape(o->key, out) || buf_u8(out, '\t') ||
			text_escape(o->value, out) || buf_u8(out, '\n')
		? -ENOMEM
		: 0;
}

static int append_json(const struct tfs_output *o, struct buf *out)
{
	int err = buf_u8(out, '{') || json_member(out, "output", o->output) || buf_u8(out, ',');

	if (!err && o->kind == TFS_OUTPUT_VALUE)
		err = json_member(out, "key", o->key) || buf_u8(out, ',');
	return err || json_member(out, "value", o->value) || buf_append(out, "}\n", 2) ? -ENOMEM : 0;
}

int outputs_read(struct tfs_run *r, enum line_format format, size_t enough, struct buf *out)
{
	while (out->n < enough) {
		struct tfs_output o;
		int n = tfs_run_next(r, &o);

		if (n <= 0)
			return n;
		n = o.kind == TFS_OUTPUT_CELL ? line_append(format, &o.cell, out)
			: format == LINE_TSV  ? append_tsv(&o, out)
					      : append_json(&o, out);
		if (n)
			return n;
	}
	return 1;
}
