/* SPDX-License-Identifier: Apache-2.0 */
/* Counters as numbers and as text. */
#include "engine/base/counter.h"

#include <errno.h>
#include <stdio.h>

size_t counter_text(int64_t value, char *dst)
{
	return (size_t)snprintf(dst, COUNTER_TEXT_MAX, "%lld\n", (long long)value);
}

static bool is_space(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

int counter_parse(struct slice text, int64_t *value)
{
	bool negative;
	uint64_t v = 0, limit;
	size_t i = 0, n = text.n;

	if (n > COUNTER_INPUT_MAX)
		return -EINVAL;
	while (n > 0 && is_space(text.p[n - 1]))
		n--;
	while (i < n && is_space(text.p[i]))
		i++;
	negative = i < n && text.p[i] == '-';
	i += negative;
	limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
	if (i == n)
		return -EINVAL;
	for (; i < n; i++) {
		uint64_t d;

		if (text.p[i] < '0' || text.p[i] > '9')
			return -EINVAL;
		d = (uint64_t)(text.p[i] - '0');
		if (v > (limit - d) / 10)
			return -EINVAL;
		v = v * 10 + d;
	}
	*value = negative ? (int64_t)(0 - v) : (int64_t)v;
	return 0;
}

bool counter_prefix(struct slice text)
{
	int state = 0; /* before the number, after its sign, in it, after it */

	if (text.n > COUNTER_INPUT_MAX)
		return false;
	for (size_t i = 0; i < text.n; i++) {
		uint8_t c = text.p[i];

		if (is_space(c)) {
			if (state == 1)
				return false;
			if (state == 2)
				state = 3;
		} else if (c >= '0' && c <= '9') {
			if (state == 3)
				return false;
			state = 2;
		} else if (c == '-' && state == 0) {
			state = 1;
		} else {
			return false;
		}
	}
	return true;
}
