/* SPDX-License-Identifier: Apache-2.0 */
/* Counters as numbers and as text. */
#include "engine/base/counter.h"

#include <errno.h>
#include <stdio.h>

size_t counter_text(int64_t value, char *dst)
{
	return (size_t)snprintf(dst, COUNTER_TEXT_MAX, "%lld", (long long)value);
}

uint64_t counter_file_size(uint64_t stored)
{
	return stored && stored <= COUNTER_DIGITS_MAX ? stored + 1 : stored;
}

struct tfs_bytes counter_file_value(struct tfs_bytes file)
{
	if (file.n && counter_file_size(file.n - 1) == file.n && file.p[file.n - 1] == '\n')
		file.n--;
	return file;
}

static bool is_space(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

int counter_parse(struct tfs_bytes text, int64_t *value)
{
	size_t i = 0, n = text.n;

	if (n > COUNTER_INPUT_MAX)
		return -EINVAL;
	while (n > 0 && is_space(text.p[n - 1]))
		n--;
	while (i < n && is_space(text.p[i]))
		i++;
	return bytes_int64(tfs_bytes_of(text.p + i, n - i), value) ? 0 : -EINVAL;
}

bool counter_prefix(struct tfs_bytes text)
{
	int state = 0; /* 0 before the number, 1 after its sign, 2 in its digits, 3 after it */

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

/* Returns true if text is blanks and a sign, which may be the beginning of a number. */
static bool number_follows(struct tfs_bytes text)
{
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] >= '0' && text.p[i] <= '9')
			return false;
	return counter_prefix(text);
}

/* Adds a line +=N or -=N.  Returns 0, 1 if it is the beginning of one, -EINVAL, -EOVERFLOW. */
static int change_add(struct tfs_bytes line, bool last, int64_t *sum)
{
	bool minus = line.n && line.p[0] == '-';
	struct tfs_bytes number = line.n > 2 ? tfs_bytes_of(line.p + 2, line.n - 2) : tfs_bytes_of(NULL, 0);
	int64_t by;

	if (!minus && line.p[0] != '+')
		return -EINVAL;
	if (line.n > 1 && line.p[1] != '=')
		return -EINVAL;
	if (last && number_follows(number))
		return 1;
	if (line.n < 3 || counter_parse(number, &by))
		return -EINVAL;
	if (minus ? __builtin_sub_overflow(*sum, by, sum) : __builtin_add_overflow(*sum, by, sum))
		return -EOVERFLOW;
	return 0;
}

int counter_change_parse(struct tfs_bytes text, struct counter_change *out)
{
	struct counter_change change = {.sets = true};
	bool first = true;
	size_t at = 0;

	if (counter_parse(text, &change.value) == 0) {
		*out = change;
		return 0;
	}
	if (counter_prefix(text))
		return number_follows(text) ? 1 : -EINVAL; /* more than 64 bits */
	change = (struct counter_change){0};
	while (at < text.n) {
		const uint8_t *end = memchr(text.p + at, '\n', text.n - at);
		const struct tfs_bytes line = tfs_bytes_of(text.p + at, end ? (size_t)(end - text.p) - at : text.n - at);
		int err = 0;

		at += line.n + 1;
		if (line.n == 0)
			continue;
		if (first && counter_parse(line, &change.value) == 0)
			change.sets = true;
		else
			err = change_add(line, !end, &change.value);
		if (err)
			return err;
		first = false;
	}
	*out = change;
	return 0;
}
