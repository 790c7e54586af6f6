/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths of cells below the directory of their table (tree_path.h).  The
 * row's last component is the first that is no part of a split name.
 */
#include "engine/bulk/tree_path.h"

#include "engine/base/name.h"

#include <errno.h>

/* Returns true if the path goes on behind the name of a cell. */
static bool is_too_long(struct tfs_bytes name)
{
	const uint8_t *slash;

	while ((slash = name.n ? memchr(name.p, '/', name.n) : NULL) != NULL) {
		if (!name_is_part(tfs_bytes_of(name.p, (size_t)(slash - name.p))))
			return true;
		name.n -= (size_t)(slash + 1 - name.p);
		name.p = slash + 1;
	}
	return false;
}

static struct tfs_bytes behind(struct tfs_bytes path, size_t n)
{
	return tfs_bytes_of(path.p + n, path.n - n);
}

const char *tree_path_parse(struct tfs_bytes path, struct tree_path *out)
{
	struct tfs_bytes rest = path, name;
	const uint8_t *slash;
	enum name_kind kind;
	bool part = true;
	int err;

	while (part) {
		slash = rest.n ? memchr(rest.p, '/', rest.n) : NULL;
		if (!slash)
			return "not the path of a cell: ROW/FAMILY/QUALIFIER@TIMESTAMP";
		part = name_is_part(tfs_bytes_of(rest.p, (size_t)(slash - rest.p)));
		rest = behind(rest, (size_t)(slash - rest.p) + 1);
	}
	slash = rest.n ? memchr(rest.p, '/', rest.n) : NULL;
	if (!slash)
		return "not the path of a cell: ROW/FAMILY/QUALIFIER@TIMESTAMP";
	out->family = tfs_bytes_of(rest.p, (size_t)(slash - rest.p));
	name = behind(rest, out->family.n + 1);
	if (is_too_long(name))
		return "it has a leading directory, or too many components: tar -C TABLE -c . has none";
	err = name_decode_row(tfs_bytes_of(path.p, (size_t)(rest.p - path.p) - 1), &out->row);
	if (err)
		return err == -ENOMEM ? "" : "its first component is not the canonical name of a row key";
	err = name_decode_cell(name, &out->qualifier, &kind, &out->ts);
	if (err)
		return err == -ENOMEM ? "" : "its last component is not the canonical name of a cell";
	out->plain = kind == NAME_NEWEST;
	return NULL;
}

void tree_path_fini(struct tree_path *p)
{
	buf_fini(&p->row);
	buf_fini(&p->qualifier);
}

int tree_path_append(
	struct tfs_bytes row, const char *family, struct tfs_bytes qualifier, int64_t ts, struct buf *out, size_t *row_end)
{
	int err = name_encode(NAME_ROW, row, 0, out);

	*row_end = out->n;
	if (!err)
		err = buf_printf(out, "/%s/", family);
	return err ? err : name_encode(NAME_VERSION, qualifier, ts, out);
}
