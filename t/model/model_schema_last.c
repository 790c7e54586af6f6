/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A schema's text without the settings of the table that are set again later.
 */
#include <stdlib.h>

#include "t/model/model_types.h"

/* The end of the token at p: a string, a comment, a word, or one byte. */
static const char *token_end(const char *p)
{
	const char *e;

	if (*p == '"') {
		for (p++; *p && *p != '"'; p++)
			p += *p == '\\' && p[1];
		return *p ? p + 1 : p;
	}
	if (strncmp(p, "/*", 2) == 0)
		return (e = strstr(p + 2, "*/")) ? e + 2 : p + strlen(p);
	if (*p == '#' || strncmp(p, "//", 2) == 0)
		return p + strcspn(p, "\n");
	e = p + strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-*");
	return e > p ? e : p + 1;
}

#define SETTINGS_MAX 128

struct setting {
	const char *name, *name_end, *end;
};

/* The table's settings, in order. */
static unsigned find_settings(const char *text, struct setting v[SETTINGS_MAX])
{
	const char *word = text, *word_end = text, *before = text, *e;
	unsigned n = 0;
	int depth = 0;
	bool open = false;

	for (const char *p = text; *p; p = e) {
		e = token_end(p);
		if (strchr(" \t\r\n\f#", *p) || strncmp(p, "//", 2) == 0 || strncmp(p, "/*", 2) == 0)
			continue;
		depth += strchr("({[", *p) ? 1 : strchr(")}]", *p) && depth ? -1 : 0;
		if (depth == 0 && strchr("=:", *p) && n < SETTINGS_MAX) {
			if (open)
				v[n - 1].end = before;
			v[n++] = (struct setting){word, word_end, NULL};
			open = true;
		} else if (depth == 0 && open && strchr(";,", *p)) {
			v[n - 1].end = e;
			open = false;
		}
		before = word_end;
		word = p;
		word_end = e;
	}
	if (open)
		v[n - 1].end = word_end;
	return n;
}

static bool is_set_later(const struct setting *v, unsigned i, unsigned n)
{
	const size_t length = (size_t)(v[i].name_end - v[i].name);

	for (unsigned k = i + 1; k < n; k++)
		if (v[k].name_end - v[k].name == v[i].name_end - v[i].name && memcmp(v[k].name, v[i].name, length) == 0)
			return true;
	return false;
}

char *mdl_schema_last(const char *text, bool cut)
{
	struct setting v[SETTINGS_MAX];
	const unsigned n = find_settings(text, v);
	char *out = calloc(1, strlen(text) + 1), *to = out;
	const char *from = text;

	for (unsigned i = 0; out && i < n; i++) {
		const char *begin = v[i].name, *end = v[i].end;

		if (!is_set_later(v, i, n))
			continue;
		while (cut && begin > text && strchr(" \t", begin[-1]))
			begin--;
		while (cut && *end && strchr(" \t", *end))
			end++;
		if (cut && *end == '\n' && (begin == text || begin[-1] == '\n'))
			end++;
		else
			begin = v[i].name, end = v[i].end;
		to = mempcpy(to, from, (size_t)(begin - from));
		for (from = begin; from < end; from++)
			if (!cut)
				*to++ = *from == '\n' ? '\n' : ' ';
	}
	if (out)
		strcpy(to, from);
	return out;
}
