/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds of a match.  Backtracking is bounded in proportion to the text.  The
 * compiled code runs on a stack of its own, which does not grow.  PCRE2 bounds
 * the size of a compiled pattern itself.
 */
#include "engine/cell/pattern.h"

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
	pcre2_code *code;
	pcre2_match_data *data;
	pcre2_match_context *limits;
	pcre2_jit_stack *stack;
};

int pattern_new(struct slice text, struct pattern **out)
{
	struct pattern *p;
	int reason, err = 0;
	PCRE2_SIZE at;

	if (text.n > PATTERN_MAX_BYTES)
		return -EINVAL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->code = pcre2_compile(text.n ? text.p : (const uint8_t *)"", text.n,
		PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOTALL | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NO_AUTO_CAPTURE,
		&reason, &at, NULL);
	if (!p->code) {
		err = reason == PCRE2_ERROR_HEAP_FAILED ? -ENOMEM : -EINVAL;
		goto out;
	}
	(void)!pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* without it the pattern is interpreted */
	p->data = pcre2_match_data_create(1, NULL);
	p->limits = pcre2_match_context_create(NULL);
	p->stack = pcre2_jit_stack_create(JIT_STACK_BYTES, JIT_STACK_BYTES, NULL);
	if (!p->data || !p->limits || !p->stack) {
		err = -ENOMEM;
		goto out;
	}
	pcre2_set_heap_limit(p->limits, MATCH_HEAP_KIB);
	pcre2_jit_stack_assign(p->limits, NULL, p->stack);
out:
	if (err)
		pattern_free(p);
	else
		*out = p;
	return err;
}

void pattern_free(struct pattern *p)
{
	if (!p)
		return;
	pcre2_match_data_free(p->data);
	pcre2_match_context_free(p->limits);
	pcre2_jit_stack_free(p->stack);
	pcre2_code_free(p->code);
	free(p);
}

int pattern_match(struct pattern *p, struct slice text, const char *what)
{
	const uint32_t steps = (uint32_t)(MATCH_STEPS + MATCH_STEPS_PER_BYTE * text.n);
	int n;

	pcre2_set_match_limit(p->limits, steps);
	pcre2_set_depth_limit(p->limits, steps);
	n = pcre2_match(p->code, text.n ? text.p : (const uint8_t *)"", text.n, 0, 0, p->data, p->limits);
	if (n >= 0)
		return 1;
	switch (n) {
	case PCRE2_ERROR_NOMATCH:
		return 0;
	case PCRE2_ERROR_NOMEMORY:
		return -ENOMEM;
	default:
		msg_warning("a pattern for %s takes too many steps or too much memory on %zu bytes", what, text.n);
		return -ETIME;
	}
}
