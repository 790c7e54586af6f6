/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole row as one JSON object (tabletfs-scan(7)):
 *
 *	{"row":"..","sequence":"..","cells":[
 *	{"family":"..","qualifier":"..","timestamp":N,"value":".."},
 *	...
 *	]}
 *
 * A row, qualifier or value that is not valid UTF-8 is row_base64,
 * qualifier_base64, value_base64.  The sequence is the sum of tfs_fingerprint over
 * the cells, in hexadecimal digits.
 *
 * The short form has the newest version of each column, and neither times nor a sequence:
 *
 *	{"FAMILY":{
 *	"QUALIFIER":"VALUE",
 *	...},
 *	...}
 *
 * There a qualifier or value is "base64:..." if it is not valid UTF-8, has a NUL byte or begins with
 * "base64:".
 *
 * Threads: values, no sharing.
 */
#ifndef TFS_BULK_ROW_JSON_H
#define TFS_BULK_ROW_JSON_H

#include "engine/base/bytes.h"
#include "engine/bulk/mutation_lines.h"
#include "engine/tabletfs.h"

#define ROW_JSON_MAX (UINT64_C(64) << 20) /* bytes of the text */

/*
 * Appends the row as of one instant, with the cells that t's user may read.
 * Sets *commit_us (unless NULL) to the time of the latest commit of these cells, or to 0.
 * -EFBIG: longer than ROW_JSON_MAX; -EAGAIN: it changed at each of several tries.
 */
int row_json_render(struct tfs_table *t, struct tfs_bytes row, bool flat, struct buf *out, int64_t *commit_us) TFS_MUST;

/* Finds the end of an object that comes in pieces; {0} is the start. */
struct json_end {
	unsigned depth;
	bool in_string, escaped, ended;
};
/* Reads a piece, up to the end of the object.  Returns the number of bytes that were read.  Malformed text may have no end, or any. */
size_t json_end_find(struct json_end *e, struct tfs_bytes piece);

struct row_json {
	bool has_sequence;
	uint64_t sequence;
	bool merge;                  /* cells that are not named stay */
	struct mutation_line *cells; /* MUTATION_SET; if merge is set, also MUTATION_DELETE of a version, a column or a family */
	size_t count;
	void *tree; /* a value of the JSON library, which has the strings */
	struct arena arena;
};
/*
 * Reads a whole object.  timestamp, row, sequence and merge may be missing; row is not
 * compared.  With merge, a value may be null: the version or, without a timestamp, the column is deleted.
 * -EINVAL with the reason in why; -ENOMEM.  row_json_fini in any case.
 *
 * flat: the short form.  It merges as RFC 7396 does: null in the place of a value or of a family deletes the column or the family.
 */
int row_json_parse(struct tfs_bytes text, bool flat, struct row_json *out, char why[160]) TFS_MUST;
void row_json_fini(struct row_json *j);

#endif
