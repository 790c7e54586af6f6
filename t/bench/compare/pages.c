/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages as a site's programs make them (pages.h).
 *
 * Words are made of syllables and drawn by Zipf's law from a language of
 * 12,000.  Sometimes the previous word determines the next one, as in speech.
 * The fixed parts of a site (names of sections, link targets, styles, scripts,
 * footer) are drawn with the site's number as seed, so they are the same on
 * all its pages.  The rest is drawn with the page's number.
 */
#include "t/bench/compare/pages.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	WORDS = 12000,
	SECTIONS = 14,
	LINK_LISTS = 4,        /* the second one's place is the text's */
	EDIT_BYTES = 16 << 10, /* the text that each further edit adds to a page */
	EDITS = 2,             /* at least */
	EDIT_MAX = 120,        /* bytes that an edit removes */
};

static uint64_t draw(uint64_t *seed)
{
	uint64_t x = *seed += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static unsigned below(uint64_t *seed, unsigned n)
{
	return (unsigned)(draw(seed) % n);
}

static int put(struct buf *b, const char *format, ...)
{
	char line[512];
	va_list list;
	int n;

	va_start(list, format);
	n = vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	return n < 0 || (size_t)n >= sizeof(line) ? -EINVAL : buf_append(b, line, (size_t)n);
}

/* Word number n of the language: the frequent ones are short. */
static int put_word(struct buf *b, unsigned n, bool capital)
{
	static const char *const heads[] = {
		"b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr", "th", "pr", "ch"};
	static const char *const tails[] = {
		"a", "e", "i", "o", "u", "an", "en", "er", "ing", "on", "ar", "al", "it", "ess", "ou", "ea"};
	uint64_t seed = n * UINT64_C(7919) + 17;
	unsigned syllables = n < 60 ? 1 : n < 1500 ? 2 : 2 + below(&seed, 3);
	char word[32];
	size_t at = 0;

	for (unsigned i = 0; i < syllables; i++)
		at += (size_t)snprintf(word + at, sizeof(word) - at, "%s%s", heads[below(&seed, 20)], tails[below(&seed, 16)]);
	if (capital)
		word[0] = (char)(word[0] - 'a' + 'A');
	return buf_append(b, word, at);
}

static unsigned next_word(uint64_t *seed, unsigned last)
{
	uint64_t pair;

	if (below(seed, 10) < 3) {
		pair = last * UINT64_C(31) + below(seed, 4);
		return (unsigned)exp((double)(draw(&pair) % 10000) / 10000 * log(WORDS)) - 1;
	}
	return (unsigned)exp((double)(draw(seed) % 1000000) / 1000000 * log(WORDS)) - 1;
}

static int put_words(struct buf *b, uint64_t *seed, unsigned n)
{
	unsigned word = 0;
	int err = 0;

	for (unsigned i = 0; i < n && !err; i++) {
		word = next_word(seed, word);
		err = i ? buf_append(b, " ", 1) : 0;
		if (!err)
			err = put_word(b, word, i == 0);
	}
	return err;
}

static int put_text(struct buf *b, uint64_t *seed, unsigned sentences)
{
	int err = 0;

	for (unsigned i = 0; i < sentences && !err; i++) {
		err = put_words(b, seed, 6 + below(seed, 14));
		if (!err)
			err = buf_append(b, ". ", 2);
	}
	return err;
}

/* A short name of the site's, the same whenever it is asked for. */
static int put_name(struct buf *b, unsigned site, unsigned what, unsigned number, unsigned words)
{
	uint64_t seed = ((uint64_t)site << 40) + ((uint64_t)what << 20) + number;

	return put_words(b, &seed, words);
}

static int put_path(struct buf *b, unsigned site, unsigned page)
{
	uint64_t seed = ((uint64_t)site << 32) + page;
	unsigned a = below(&seed, 4000), c = below(&seed, WORDS);
	int err = put(b, "section-%u/", below(&seed, SECTIONS));

	if (!err)
		err = put_word(b, a, false);
	if (!err)
		err = buf_append(b, "-", 1);
	if (!err)
		err = put_word(b, c, false);
	return err ? err : put(b, "-%u.html", page);
}

/* The part that is the same in the head of all pages of a site. */
static int put_head(struct buf *b, unsigned site)
{
	uint64_t seed = site * UINT64_C(1000003);
	int err = 0;

	for (unsigned i = 0; i < 5 && !err; i++)
		err = put(b, "<link rel=\"stylesheet\" href=\"/assets/%016llx/style-%u.css\" media=\"all\"/>\n",
			(unsigned long long)draw(&seed), i);
	if (!err)
		err = put(b, "<style type=\"text/css\">\n");
	for (unsigned i = 0; i < 12 && !err; i++)
		err = put(b, ".box-%u { margin: %upx %upx; padding: %upx; color: #%06x; font-size: %u%%; }\n", i, below(&seed, 40),
			below(&seed, 40), below(&seed, 20), below(&seed, 1 << 24), 80 + below(&seed, 60));
	if (!err)
		err = put(b, "</style>\n<script type=\"text/javascript\">\n");
	for (unsigned i = 0; i < 10 && !err; i++)
		err = put(b, "window.site%u = window.site%u || {}; window.site%u.option%u = \"%08x\";\n", site, site, site, i,
			(unsigned)draw(&seed));
	return err ? err : put(b, "</script>\n");
}

static int put_links(struct buf *b, unsigned site, unsigned list, unsigned active)
{
	int err = put(b, "<ul class=\"list list-%u\">\n", list);

	for (unsigned i = 0; i < SECTIONS && !err; i++) {
		err = put(b, "<li class=\"list-item%s\"><a class=\"list-link\" href=\"/section-%u/index-%u.html\" title=\"",
			i == active ? " active" : "", i, list);
		if (!err)
			err = put_name(b, site, 10 + list, i, 3);
		if (!err)
			err = put(b, "\">");
		if (!err)
			err = put_name(b, site, 20 + list, i, 2);
		if (!err)
			err = put(b, "</a></li>\n");
	}
	return err ? err : put(b, "</ul>\n");
}

static int put_related(struct buf *b, unsigned site, uint64_t *seed)
{
	int err = put(b, "<h3>Related</h3>\n<ul class=\"related\">\n");

	for (unsigned i = 0; i < 5 && !err; i++) {
		unsigned page = below(seed, 4096);

		err = put(b, "<li class=\"list-item\"><a class=\"list-link\" href=\"/");
		if (!err)
			err = put_path(b, site, page);
		if (!err)
			err = put(b, "\">");
		if (!err)
			err = put_name(b, site, 1, page, 5);
		if (!err)
			err = put(b, "</a></li>\n");
	}
	return err ? err : put(b, "</ul>\n");
}

static int put_body(struct buf *b, unsigned site, unsigned page, uint64_t *seed)
{
	unsigned paragraphs = 3 + below(seed, 5);
	int err = put(b, "<h1>");

	if (!err)
		err = put_name(b, site, 1, page, 5);
	if (!err)
		err = put(b, "</h1>\n<p class=\"date\">%u-%02u-%02u %02u:%02u</p>\n", 1998 + below(seed, 8), 1 + below(seed, 12),
			1 + below(seed, 28), below(seed, 24), below(seed, 60));
	for (unsigned i = 0; i < paragraphs && !err; i++) {
		err = put(b, "<p class=\"text\">");
		if (!err)
			err = put_text(b, seed, 2 + below(seed, 4));
		if (!err)
			err = put(b, "</p>\n");
	}
	return err;
}

int pages_make(unsigned site, unsigned page, struct buf *row, struct buf *html)
{
	uint64_t seed = ((uint64_t)(site + 1) << 48) + page;
	int err;

	buf_reset(row);
	buf_reset(html);
	err = put(row, "com.site%u.www/", site);
	if (!err)
		err = put_path(row, site, page);
	if (!err)
		err = put(html, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>");
	if (!err)
		err = put_name(html, site, 1, page, 5);
	if (!err)
		err = put(html, "</title>\n<link rel=\"canonical\" href=\"http://www.site%u.com/", site);
	if (!err)
		err = put_path(html, site, page);
	if (!err)
		err = put(html, "\"/>\n");
	if (!err)
		err = put_head(html, site);
	if (!err)
		err = put(html, "</head>\n<body class=\"page\">\n<div id=\"top\">\n");
	for (unsigned i = 0; i < LINK_LISTS && !err; i++)
		err = i == 1 ? put_body(html, site, page, &seed) : put_links(html, site, i, below(&seed, SECTIONS));
	if (!err)
		err = put_related(html, site, &seed);
	if (!err)
		err = put(html, "</div>\n<div id=\"footer\">\n<p>");
	if (!err)
		err = put_name(html, site, 2, 0, 60);
	return err ? err : put(html, "</p>\n</div>\n</body>\n</html>\n");
}

int pages_edit(struct tfs_bytes html, uint64_t seed, struct buf *out)
{
	unsigned edits = EDITS + (unsigned)(html.n / EDIT_BYTES);
	size_t at = 0;
	int err = 0;

	buf_reset(out);
	for (unsigned i = 0; i < edits && !err; i++) {
		size_t part = html.n / edits, to = i * part + (part ? below(&seed, (unsigned)part) : 0);
		unsigned kind = below(&seed, 4);

		if (to < at)
			continue;
		err = buf_append(out, html.p + at, to - at);
		at = to;
		if (kind != 0) { /* words or a sentence of its own */
			if (!err)
				err = put_words(out, &seed, kind == 1 ? 12 : 1 + below(&seed, 3));
		}
		if (kind != 1) { /* in the place of as much, or of nothing */
			size_t gone = kind == 0 ? below(&seed, EDIT_MAX) : below(&seed, 20);

			at += gone < html.n - at ? gone : html.n - at;
		}
	}
	return err ? err : buf_append(out, html.p + at, html.n - at);
}
