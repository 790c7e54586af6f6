/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The setting `splits`: keys as stored at which new tablets of a table begin.
 * In the text, %XX is any byte.  New tablets come with a new salt, with a
 * truncation, and with a text that is written while the table is empty and has
 * one tablet.
 */
#include <ctype.h>
#include <errno.h>
#include <libconfig.h>
#include <stdio.h>
#include <stdlib.h>

#include "t/model/model_types.h"

static const char *add(struct mdl_schema *s, const char *text)
{
	struct tfs_bytes *grown = reallocarray(s->split, s->pub.split_count + 1, sizeof(*grown));
	unsigned char *key = calloc(1, strlen(text) + 1);
	size_t n = 0;

	if (grown)
		s->split = grown;
	if (!grown || !key)
		abort();
	for (; *text; text++) {
		char hex[3] = {text[0] == '%' ? text[1] : 'x', 0, 0};

		if (hex[0] != 'x')
			hex[1] = hex[0] ? text[2] : 0;
		if (*text != '%') {
			key[n++] = (unsigned char)*text;
		} else if (strspn(hex, "0123456789ABCDEF") == 2) {
			key[n++] = (unsigned char)strtoul(hex, NULL, 16);
			text += 2;
		} else {
			free(key);
			return "a % without two digits";
		}
	}
	s->split[s->pub.split_count++] = tfs_bytes_of(key, n);
	return n == 0 ? "an empty key" : n > TFS_ROW_MAX ? "too long" : s->pub.split_count > 1000 ? "too many" : NULL;
}

static int order(const void *a, const void *b)
{
	const struct tfs_bytes *x = a, *y = b;

	return mdl_compare(*x, *y);
}

int mdl_splits_parse(struct mdl_schema *s, const struct config_setting_t *list, char **why)
{
	const char *wrong = config_setting_type(list) == CONFIG_TYPE_LIST ? NULL : "not a list";

	for (int i = 0; !wrong && i < config_setting_length(list); i++) {
		const char *text = config_setting_get_string_elem(list, i);

		wrong = text ? add(s, text) : "not a string";
	}
	if (s->pub.split_count)
		qsort(s->split, s->pub.split_count, sizeof(*s->split), order);
	s->pub.splits = s->split;
	if (wrong)
		mdl_why(why, "line %u: splits: %s", config_setting_source_line(list), wrong);
	return wrong ? -EINVAL : 0;
}

int mdl_splits_check(const struct mdl_schema *s, char **why)
{
	for (unsigned i = 0; i < s->pub.split_count; i++) {
		bool twice = i && order(&s->split[i - 1], &s->split[i]) == 0;
		bool no_range = s->pub.salt && *(const unsigned char *)s->split[i].p >= s->pub.salt;

		if (twice || no_range) {
			mdl_why(why, twice ? "a key is there twice" : "no row of a salted table has this key");
			return -EINVAL;
		}
	}
	return 0;
}

int mdl_splits_copy(struct mdl_schema *to, const struct mdl_schema *from)
{
	to->split = calloc(from->pub.split_count + 1, sizeof(*to->split));
	to->pub.splits = to->split;
	to->pub.split_count = 0;
	for (unsigned i = 0; to->split && i < from->pub.split_count; i++) {
		void *key = malloc(from->split[i].n);

		if (!key)
			return -ENOMEM;
		memcpy(key, from->split[i].p, from->split[i].n);
		to->split[to->pub.split_count++] = tfs_bytes_of(key, from->split[i].n);
	}
	return to->split ? 0 : -ENOMEM;
}

void mdl_splits_free(struct mdl_schema *s)
{
	for (unsigned i = 0; i < s->pub.split_count; i++)
		free((void *)(uintptr_t)s->split[i].p);
	free(s->split);
}

/* The length of the UTF-8 character at p, of at most n bytes, if it can be shown as it is; 0: not one. */
static size_t shown(const unsigned char *p, size_t n)
{
	size_t length = *p < 0x80 ? 1 : *p < 0xc2 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : *p < 0xf5 ? 4 : 0;

	if (length > n)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) ||
		(*p == 0xf4 && p[1] > 0x8f))
		return 0;
	return length;
}

static void render_key(FILE *f, struct tfs_bytes key)
{
	const unsigned char *p = key.p;
	bool whole = true;

	for (size_t i = 0, n; whole && i < key.n; i += n)
		whole = (n = shown(p + i, key.n - i)) != 0;
	for (size_t i = 0; i < key.n; i++) {
		bool hidden = p[i] < 0x20 || p[i] == 0x7f || p[i] == '%' || p[i] == '/' || (p[i] == '.' && i == 0);

		if (hidden || (p[i] >= 0x80 && !whole))
			fprintf(f, "%%%02X", p[i]);
		else
			fprintf(f, p[i] == '"' || p[i] == '\\' ? "\\%c" : "%c", p[i]);
	}
}

void mdl_splits_render(const struct mdl_schema *s, FILE *f)
{
	if (!s->pub.split_count)
		return;
	fputs("splits = (", f);
	for (unsigned i = 0; i < s->pub.split_count; i++) {
		fputs(i ? ", \"" : " \"", f);
		render_key(f, s->split[i]);
		fputc('"', f);
	}
	fputs(" );\n", f);
}

void mdl_tablets_renew(struct tfs_table *t)
{
	struct mdl_schema copy = {0};

	mdl_tablets_free(t);
	if (mdl_splits_copy(&copy, t->schema))
		abort();
	t->cut = copy.split;
	t->cuts = copy.pub.split_count;
}
