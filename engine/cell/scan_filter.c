/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of a scan.  A filter that the spec does not have is NULL. */
#include "engine/cell/scan_filter.h"

#include "engine/base/scan.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/cell/pattern.h"

enum { SAMPLE_OF = 1000000 };

struct scan_filter {
	struct pattern *row, *qualifier, *value;
	struct tfs_bytes value_is;
	uint32_t row_sample;
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
	if (!scan_has(&spec->pub, SCAN_KEY | SCAN_VALUE))
		return 0;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	err = filter_pattern(spec->pub.row_regex, &f->row);
	if (!err)
		err = filter_pattern(spec->pub.qualifier_regex, &f->qualifier);
	if (!err)
		err = filter_pattern(spec->pub.value_regex, &f->value);
	f->value_is = spec->pub.value_is;
	f->row_sample = spec->pub.row_sample;
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
	free(f);
}

int scan_filter_row(struct scan_filter *f, struct tfs_bytes row)
{
	if (f && f->row_sample && hash64(row, 0) % SAMPLE_OF >= f->row_sample)
		return 0;
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
	if (f->value_is.p && !bytes_eq(value, f->value_is))
		return 0;
	return f->value ? pattern_match(f->value, value, "values") : 1;
}

bool scan_filter_excludes_size(const struct scan_filter *f, uint64_t size)
{
	return f && f->value_is.p && size != f->value_is.n;
}

bool scan_filter_needs_value(const struct scan_filter *f, uint64_t size)
{
	return f && (f->value || f->value_is.p) && !scan_filter_excludes_size(f, size);
}
