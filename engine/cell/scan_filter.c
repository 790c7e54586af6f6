/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds of a match.  Backtracking is bounded in proportion to the text.  The
 * compiled code runs on a stack of its own, which does not grow.  PCRE2 bounds
 * the size of a compiled pattern itself.
 */
#include "engine/cell/scan_filter.h"

#include <errno.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/base/msg.h"

enum {
	PATTERN_MAX_BYTES = 16 * 1024,
	MATCH_STEPS = 100 * 1000,  /* for a text, ... */
	MATCH_STEPS_PER_BYTE = 10, /* ... and for each byte of it */
	MATCH_HEAP_KIB = 1024,
	JIT_STACK_BYTES = 256 * 1024,
};

struct pattern {
	pcre2_code *code; /* NULL: no filter */
	pcre2_match_data *data;
};

struct scan_filter {
	struct pattern row, qualifier, value;
	pcre2_match_context *limits;
	pcre2_jit_stack *stack;
	bool has_value_is;
	struct buf value_is;
};

static int pattern_new(struct pattern *p, struct slice text)
{
	int reason;
	PCRE2_SIZE at;

	if (!text.p)
		return 0;
	if (text.n > PATTERN_MAX_BYTES)
		return -EINVAL;
	p->code = pcre2_compile(text.n ? text.p : (const uint8_t *)"", text.n,
		PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOTALL | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NO_AUTO_CAPTURE,
		&reason, &at, NULL);
	if (!p->code)
		return reason == PCRE2_ERROR_HEAP_FAILED ? -ENOMEM : -EINVAL;
	(void)!pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* without it the pattern is interpreted */
	p->data = pcre2_match_data_create(1, NULL);
	return p->data ? 0 : -ENOMEM;
}

static void pattern_fini(struct pattern *p)
{
	pcre2_match_data_free(p->data);
	pcre2_code_free(p->code);
}

static int limits_new(struct scan_filter *f)
{
	f->limits = pcre2_match_context_create(NULL);
	f->stack = pcre2_jit_stack_create(JIT_STACK_BYTES, JIT_STACK_BYTES, NULL);
	if (!f->limits || !f->stack)
		return -ENOMEM;
	pcre2_set_heap_limit(f->limits, MATCH_HEAP_KIB);
	pcre2_jit_stack_assign(f->limits, NULL, f->stack);
	return 0;
}

int scan_filter_new(const struct scan_spec *spec, struct scan_filter **out)
{
	struct scan_filter *f;
	int err;

	*out = NULL;
	if (!spec->row_regex.p && !spec->qualifier_regex.p && !spec->value_regex.p && !spec->value_is.p)
		return 0;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	err = limits_new(f);
	if (!err)
		err = pattern_new(&f->row, spec->row_regex);
	if (!err)
		err = pattern_new(&f->qualifier, spec->qualifier_regex);
	if (!err)
		err = pattern_new(&f->value, spec->value_regex);
	f->has_value_is = spec->value_is.p != NULL;
	if (!err && f->has_value_is)
		err = buf_set(&f->value_is, spec->value_is.p, spec->value_is.n);
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
	pattern_fini(&f->row);
	pattern_fini(&f->qualifier);
	pattern_fini(&f->value);
	pcre2_match_context_free(f->limits);
	pcre2_jit_stack_free(f->stack);
	buf_fini(&f->value_is);
	free(f);
}

static int pattern_match(struct scan_filter *f, const struct pattern *p, struct slice text, const char *what)
{
	uint32_t steps;
	int n;

	if (!p->code)
		return 1;
	steps = (uint32_t)(MATCH_STEPS + MATCH_STEPS_PER_BYTE * text.n);
	pcre2_set_match_limit(f->limits, steps);
	pcre2_set_depth_limit(f->limits, steps);
	n = pcre2_match(p->code, text.n ? text.p : (const uint8_t *)"", text.n, 0, 0, p->data, f->limits);
	if (n >= 0)
		return 1;
	switch (n) {
	case PCRE2_ERROR_NOMATCH:
		return 0;
	case PCRE2_ERROR_NOMEMORY:
		return -ENOMEM;
	default:
		msg_warning("a scan's pattern for %s takes too many steps or too much memory on %zu bytes", what, text.n);
		return -ETIME;
	}
}

int scan_filter_row(struct scan_filter *f, struct slice row)
{
	return f ? pattern_match(f, &f->row, row, "row keys") : 1;
}

int scan_filter_qualifier(struct scan_filter *f, struct slice qualifier)
{
	return f ? pattern_match(f, &f->qualifier, qualifier, "qualifiers") : 1;
}

int scan_filter_value(struct scan_filter *f, struct slice value)
{
	if (!f)
		return 1;
	if (f->has_value_is && !slice_eq(value, buf_slice(&f->value_is)))
		return 0;
	return pattern_match(f, &f->value, value, "values");
}

bool scan_filter_excludes_size(const struct scan_filter *f, uint64_t size)
{
	return f && f->has_value_is && size != f->value_is.n;
}

bool scan_filter_needs_value(const struct scan_filter *f, uint64_t size)
{
	return f && (f->value.code || f->has_value_is) && !scan_filter_excludes_size(f, size);
}
