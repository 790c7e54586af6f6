/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of sizes and durations. */
#include "engine/base/units.h"

#include <stdio.h>
#include <string.h>

bool units_number(const char **text, uint64_t *v)
{
	const char *p = *text;
	uint64_t n = 0;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
			return false;
	*text = p;
	*v = n;
	return true;
}

static bool multiply_checked(uint64_t n, uint64_t by, uint64_t *out)
{
	uint64_t v;

	if (__builtin_mul_overflow(n, by, &v) || v > INT64_MAX)
		return false;
	*out = v;
	return true;
}

bool units_size(const char *text, uint64_t *bytes)
{
	static const char letters[] = "KMGTkmgt";
	const char *at;
	uint64_t n, by = 1;

	if (!units_number(&text, &n))
		return false;
	at = *text ? strchr(letters, *text) : NULL;
	if (at) {
		by = 1ull << (10 * ((at - letters) % 4 + 1));
		text++;
	}
	if (*text && strcmp(text, at ? "iB" : "B") != 0)
		return false;
	return multiply_checked(n, by, bytes);
}

uint64_t units_duration_unit(const char **text)
{
	static const struct {
		const char *unit;
		uint64_t us;
	} units[] = {
		{"us", 1},
		{"ms", 1000},
		{"s", 1000000},
		{"m", 60000000ull},
		{"h", 3600000000ull},
		{"d", 86400000000ull},
		{"w", 604800000000ull},
	};

	for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t n = strlen(units[i].unit);

		if (strncmp(*text, units[i].unit, n) == 0) {
			*text += n;
			return units[i].us;
		}
	}
	return 0;
}

bool units_duration(const char *text, uint64_t *us)
{
	uint64_t n, unit_us;

	if (!units_number(&text, &n))
		return false;
	unit_us = units_duration_unit(&text);
	return unit_us && !*text && multiply_checked(n, unit_us, us);
}

char *units_size_text(uint64_t bytes, char *text)
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
	double v = (double)bytes;
	unsigned i = 0;

	for (; v >= 1024 && i < 5; i++)
		v /= 1024;
	snprintf(text, UNITS_SIZE_TEXT, i && v < 99.95 ? "%.1f %s" : "%.0f %s", v, names[i]);
	return text;
}

bool number_parse(const char *text, char end, uint64_t *n, const char **rest)
{
	const char *p = text;
	uint64_t v;

	if (!units_number(&p, &v) || *p != end || (*text == '0' && p > text + 1))
		return false;
	*n = v;
	if (rest)
		*rest = *p ? p + 1 : p;
	return true;
}
