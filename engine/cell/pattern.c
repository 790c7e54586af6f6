/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions over keys and values (pattern.h). Backtracking is bounded in
 * steps, in proportion to the text.  One step may read the whole text, so the
 * steps of a long text could take hours.  A long text is therefore matched by code
 * that calls watch() in front of each item of the pattern, and watch() ends it at
 * a deadline.  For short texts these calls would cost more than the match.
 *
 * The compiled code runs on a stack of its own, which does not grow.  PCRE2 bounds
 * the size of a compiled pattern itself.
 */
#include "engine/cell/pattern.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/base/clock.h"
#include "engine/base/msg.h"
#include "engine/base/stop.h"

enum {
	PATTERN_MAX_BYTES = 16 * 1024,
	MATCH_STEPS = 100 * 1000,  /* for a text, ... */
	MATCH_STEPS_PER_BYTE = 10, /* ... and for each byte of it */
	MATCH_HEAP_KIB = 1024,
	JIT_STACK_BYTES = 256 * 1024,
	LONG_TEXT_BYTES = 16 * 1024, /* texts from here on have a deadline: */
	MATCH_US = 1000 * 1000,      /* processor time for a text, ... */
	MATCH_BYTES_PER_US = 5,      /* ... and its bytes */
	CALLS_PER_LOOK = 64,         /* calls of watch() for each look at the clock */
};

struct pattern {
	pcre2_code *code;
	pcre2_code *watched; /* code for long texts, which calls watch() */
	pcre2_match_data *data;
	pcre2_match_context *limits;
	pcre2_jit_stack *stack;
	uint64_t deadline_us, calls;
};

/*
 * Returns true if the text has a verb of PCRE2: "(*" and no lower-case letter.  (*ACCEPT) ends
 * a match before the end of the text, (*COMMIT) and (*SKIP) end the search for another, and
 * (*LIMIT_MATCH=N), (*NO_JIT) and (*CRLF) change how the text is compiled.  In a class, "(*A" is
 * taken for a verb, too; it can be written "*(A".
 */
static bool has_verb(struct tfs_bytes text)
{
	for (size_t i = 0; i + 2 < text.n; i++) {
		if (text.p[i] == '\\')
			i += text.p[i + 1] == 'c' ? 2 : 1; /* \cX: X may be a backslash */
		else if (text.p[i] == '(' && text.p[i + 1] == '*' && (text.p[i + 2] < 'a' || text.p[i + 2] > 'z'))
			return true;
	}
	return false;
}

/* *reason is set after an error: the number of PCRE2's message. */
static int compile(struct tfs_bytes text, uint32_t options, pcre2_code **out, int *reason)
{
	PCRE2_SIZE at;

	*out = pcre2_compile(text.n ? text.p : (const uint8_t *)"", text.n,
		PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOTALL | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | options, reason, &at, NULL);
	return *out ? 0 : *reason == PCRE2_ERROR_HEAP_FAILED ? -ENOMEM : -EINVAL;
}

bool pattern_refused(struct tfs_bytes text, char *why, size_t n)
{
	pcre2_code *code = NULL;
	int err = 0, reason = 0;

	if (text.n > PATTERN_MAX_BYTES)
		snprintf(why, n, "it is longer than %d bytes", PATTERN_MAX_BYTES);
	else if (has_verb(text))
		snprintf(why, n, "it has a verb (*...)");
	else if ((err = compile(text, 0, &code, &reason)) == -EINVAL)
		(void)pcre2_get_error_message(reason, (PCRE2_UCHAR *)why, n);
	pcre2_code_free(code);
	return text.n > PATTERN_MAX_BYTES || has_verb(text) || err == -EINVAL;
}

static int watch(pcre2_callout_block *b, void *arg)
{
	struct pattern *p = arg;

	return ++p->calls % CALLS_PER_LOOK || (worked_us() < p->deadline_us && !stop_asked()) ? 0 : PCRE2_ERROR_CALLOUT;
}

int pattern_new(struct tfs_bytes text, struct pattern **out)
{
	struct pattern *p;
	int err, reason;

	if (text.n > PATTERN_MAX_BYTES || has_verb(text))
		return -EINVAL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	err = compile(text, 0, &p->code, &reason);
	if (err == 0)
		err = compile(text, PCRE2_AUTO_CALLOUT, &p->watched, &reason);
	if (err)
		goto out;
	p->data = pcre2_match_data_create(1, NULL);
	p->limits = pcre2_match_context_create(NULL);
	p->stack = pcre2_jit_stack_create(JIT_STACK_BYTES, JIT_STACK_BYTES, NULL);
	if (!p->data || !p->limits || !p->stack) {
		err = -ENOMEM;
		goto out;
	}
	pcre2_set_heap_limit(p->limits, MATCH_HEAP_KIB);
	pcre2_jit_stack_assign(p->limits, NULL, p->stack);
	pcre2_set_callout(p->limits, watch, p);
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
	pcre2_code_free(p->watched);
	free(p);
}

int pattern_match(struct pattern *p, struct tfs_bytes text, const char *what)
{
	const uint32_t steps = (uint32_t)(MATCH_STEPS + MATCH_STEPS_PER_BYTE * text.n);
	const bool is_long = text.n >= LONG_TEXT_BYTES;
	pcre2_code *code = is_long ? p->watched : p->code;
	int n;

	(void)!pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* compiles at the first call; without it the pattern is interpreted */
	p->deadline_us = is_long ? worked_us() + MATCH_US + text.n / MATCH_BYTES_PER_US : UINT64_MAX;
	pcre2_set_match_limit(p->limits, steps);
	pcre2_set_depth_limit(p->limits, steps);
	n = pcre2_match(code, text.n ? text.p : (const uint8_t *)"", text.n, 0, 0, p->data, p->limits);
	if (n >= 0)
		return 1;
	switch (n) {
	case PCRE2_ERROR_NOMATCH:
		return 0;
	case PCRE2_ERROR_NOMEMORY:
		return -ENOMEM;
	case PCRE2_ERROR_CALLOUT:
		if (stop_asked())
			return -EINTR;
		/* fallthrough */
	default:
		msg_warning("a pattern for %s takes too many steps, too long or too much memory on %zu bytes", what, text.n);
		return -ETIME;
	}
}
