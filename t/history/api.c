/* SPDX-License-Identifier: Apache-2.0 */
/* The two sides' functions, and the text in which they are compared. */
#include "engine/base/msg.h"
#include "t/history/history.h"
#include "t/model/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const struct api api_library = {
#define API_LIBRARY(f) .f = tfs_##f,
	API_FUNCTIONS(API_LIBRARY)};
const struct api api_model = {
#define API_MODEL(f) .f = model_##f,
	API_FUNCTIONS(API_MODEL)};

_Atomic int64_t history_clock = CLOCK_BASE;
bool history_set_back;

int64_t history_now(void *arg)
{
	return history_clock;
}

uint64_t rnd(struct rng *r)
{
	uint64_t z = (r->s += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t below(struct rng *r, uint64_t n)
{
	return rnd(r) % n;
}

bool one_in(struct rng *r, unsigned n)
{
	return rnd(r) % n == 0;
}

static void need(struct out *o, size_t more)
{
	if (o->n + more <= o->room)
		return;
	o->room = (o->n + more) * 2 + 256;
	o->p = realloc(o->p, o->room);
	if (!o->p) {
		fprintf(stderr, "out of memory\n");
		abort();
	}
}

void say(struct out *o, const char *fmt, ...)
{
	va_list ap;
	int n;

	for (;;) {
		size_t room = o->room - o->n;

		va_start(ap, fmt);
		n = vsnprintf(o->p ? o->p + o->n : NULL, room, fmt, ap);
		va_end(ap);
		if (n < 0)
			abort();
		if ((size_t)n < room)
			break;
		need(o, (size_t)n + 1);
	}
	o->n += (size_t)n;
}

static uint64_t hash(const void *p, size_t n)
{
	const unsigned char *b = p;
	uint64_t h = 14695981039346656037u;

	for (; n >= 8; n -= 8, b += 8) {
		uint64_t v;

		memcpy(&v, b, 8);
		h = (h ^ v) * 0x9e3779b97f4a7c15u;
		h ^= h >> 29;
	}
	for (; n; n--)
		h = (h ^ *b++) * 1099511628211u;
	return h ^ (h >> 31);
}

void say_bytes(struct out *o, struct tfs_bytes b)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *p = b.p;

	if (!p) {
		say(o, "none");
		return;
	}
	if (b.n > 40) {
		say(o, "<%zu %016llx>", b.n, (unsigned long long)hash(b.p, b.n));
		return;
	}
	need(o, b.n * 4 + 3);
	o->p[o->n++] = '"';
	for (size_t i = 0; i < b.n; i++) {
		if (p[i] >= 0x20 && p[i] < 0x7f && p[i] != '\\' && p[i] != '"') {
			o->p[o->n++] = (char)p[i];
		} else {
			o->p[o->n++] = '\\';
			o->p[o->n++] = digits[p[i] >> 4];
			o->p[o->n++] = digits[p[i] & 15];
		}
	}
	o->p[o->n++] = '"';
}

void out_reset(struct out *o)
{
	o->n = 0;
}

void out_free(struct out *o)
{
	free(o->p);
	*o = (struct out){0};
}

uint64_t out_hash(const struct out *o)
{
	return hash(o->p, o->n);
}

static size_t line_end(const struct out *o, size_t at)
{
	while (at < o->n && o->p[at] != '\n')
		at++;
	return at;
}

void out_differ(const struct out *a, const char *a_name, const struct out *b, const char *b_name)
{
	size_t at = 0, before[3] = {0}, end;

	for (;;) {
		size_t ea = line_end(a, at), eb = line_end(b, at);

		if (ea != eb || ea >= a->n || memcmp(a->p + at, b->p + at, ea - at) != 0)
			break;
		before[0] = before[1];
		before[1] = before[2];
		before[2] = at;
		at = ea + 1;
	}
	for (size_t p = before[0]; p < at; p = end + 1) {
		end = line_end(a, p);
		printf("#          %.*s\n", (int)(end - p), a->p + p);
	}
	for (unsigned i = 0; i < 3; i++) {
		const struct out *o = i ? b : a;
		size_t p = at;

		if (i == 2)
			break;
		for (unsigned line = 0; line < 3; line++) {
			if (p >= o->n) {
				printf("# %8s (nothing more)\n", i ? b_name : a_name);
				break;
			}
			end = line_end(o, p);
			printf("# %8s %.*s\n", i ? b_name : a_name, (int)(end - p), o->p + p);
			p = end + 1;
		}
	}
}

void print_messages(void)
{
	struct buf b = {0};

	if (!msg_ring(&b))
		printf("%.*s", (int)b.n, (const char *)b.p);
	buf_fini(&b);
	fflush(stdout);
}
