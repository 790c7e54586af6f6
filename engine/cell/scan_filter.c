/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of a scan.  A filter that the spec does not have is NULL. */
#include "engine/cell/scan_filter.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/cell/pattern.h"

struct scan_filter {
	struct pattern *row, *qualifier, *value;
	bool has_value_is;
	struct buf value_is;
};

static int filter_pattern(struct tfs_bytes text, struct pattern **out)
{
	return text.p ? pattern_new(text, out) : 0;
}

int scan_filter_new(const struct scan_spec *spec, struct scan_filter **out)
{
	struct scan_filter *f;
	int err;

	*out = NULL;
	if (!spec->pub.row_regex.p && !spec->pub.qualifier_regex.p && !spec->pub.value_regex.p && !spec->pub.value_is.p)
		return 0;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	err = filter_pattern(spec->pub.row_regex, &f->row);
	if (!err)
		err = filter_pattern(spec->pub.qualifier_regex, &f->qualifier);
	if (!err)
		err = filter_pattern(spec->pub.value_regex, &f->value);
	f->has_value_is = spec->pub.value_is.p != NULL;
	if (!err && f->has_value_is)
		err = buf_set(&f->value_is, spec->pub.value_is.p, spec->pub.value_is.n);
	if (err)
		scan_filter_free(f);
	else
		*out = f;
	return err;
}

void scan_filter_free(struct scan_filter *f)
{
	if (!f)
		return;
	pattern_free(f->row);
	pattern_free(f->qualifier);
	pattern_free(f->value);
	buf_fini(&f->value_is);
	free(f);
}

int scan_filter_row(struct scan_filter *f, struct tfs_bytes row)
{
	return f && f->row ? pattern_match(f->row, row, "row keys") : 1;
}

int scan_filter_qualifier(struct scan_filter *f, struct tfs_bytes qualifier)
{
	return f && f->qualifier ? pattern_match(f->qualifier, qualifier, "qualifiers") : 1;
}

int scan_filter_value(struct scan_filter *f, struct tfs_bytes value)
{
	if (!f)
		return 1;
	if (f->has_value_is && !bytes_eq(value, buf_bytes(&f->value_is)))
		return 0;
	return f->value ? pattern_match(f->value, value, "values") : 1;
}

bool scan_filter_excludes_size(const struct scan_filter *f, uint64_t size)
{
	return f && f->has_value_is && size != f->value_is.n;
}

bool scan_filter_needs_value(const struct scan_filter *f, uint64_t size)
{
	return f && (f->value || f->has_value_is) && !scan_filter_excludes_size(f, size);
}
