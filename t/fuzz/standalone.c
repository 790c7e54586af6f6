/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A main for the fuzz targets where there is no libFuzzer:
 *   fuzz_NAME [-n|--runs INPUTS] [--seconds S] [-s|--seed SEED] [FILE...]
 * feeds each file, the target's own examples, and then inputs mutated at
 * random from those: INPUTS of them, or as many as S seconds allow; 10,000
 * where neither is given, none where only files are.  The inputs depend on
 * SEED alone.
 *   fuzz_NAME --write DIR
 * writes the examples to files in DIR, for another fuzzer.
 *
 * A target may offer examples: fuzz_example(i) returns the length of the
 * i-th and sets *data to it, valid until the next call; NULL ends them.
 */
#include "t/lib/xorshift.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data) __attribute__((weak));

enum { SEEDS_MAX = 2048, INPUT_MAX = 1 << 20 };
static struct {
	uint8_t *p;
	size_t n;
} seeds[SEEDS_MAX];
static unsigned seeds_n;
static uint64_t state = 1;

static uint32_t pick(uint32_t below)
{
	return (uint32_t)((xorshift(&state) >> 16) % (below ? below : 1));
}

static void add_seed(const uint8_t *p, size_t n)
{
	uint8_t *copy = malloc(n + 1);

	if (!copy || seeds_n == SEEDS_MAX) {
		free(copy);
		return;
	}
	if (n)
		memcpy(copy, p, n);
	seeds[seeds_n].p = copy;
	seeds[seeds_n++].n = n;
}

static int feed_file(const char *path)
{
	static uint8_t b[INPUT_MAX];
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f) {
		perror(path);
		return -1;
	}
	n = fread(b, 1, sizeof(b), f);
	fclose(f);
	add_seed(b, n);
	LLVMFuzzerTestOneInput(b, n);
	return 0;
}

/* A few edits: flips, interesting bytes, cuts, copies, growth. */
static size_t mutate(uint8_t *b, size_t n)
{
	static const uint8_t marks[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '/', '%', '@', '"', ';', '\n'};
	unsigned edits = 1 + pick(8);

	while (edits--) {
		size_t at = pick((uint32_t)n), len = 1 + pick(16);

		switch (pick(7)) {
		case 0:
			if (n)
				b[at] ^= (uint8_t)(1u << pick(8));
			break;
		case 1:
			if (n)
				b[at] = (uint8_t)pick(256);
			break;
		case 2:
			if (n)
				b[at] = marks[pick(sizeof(marks))];
			break;
		case 3:
			n = pick(4) ? n : at;
			break;
		case 4:
			if (n >= len) { /* cut out */
				at = pick((uint32_t)(n - len + 1));
				memmove(b + at, b + at + len, n - at - len);
				n -= len;
			}
			break;
		case 5:
			if (n + len <= INPUT_MAX) { /* put in */
				memmove(b + at + len, b + at, n - at);
				for (size_t i = 0; i < len; i++)
					b[at + i] = (uint8_t)pick(256);
				n += len;
			}
			break;
		default:
			if (n >= len) { /* copy over */
				size_t from = pick((uint32_t)(n - len + 1));

				at = pick((uint32_t)(n - len + 1));
				memmove(b + at, b + from, len);
			}
			break;
		}
	}
	return n;
}

static void feed_examples(void)
{
	const uint8_t *p;
	size_t n;

	for (unsigned i = 0; fuzz_example; i++) {
		p = NULL;
		n = fuzz_example(i, &p);
		if (!p)
			return;
		add_seed(p, n);
		LLVMFuzzerTestOneInput(p, n);
	}
}

static int write_examples(const char *dir)
{
	const uint8_t *p;
	char path[4096];
	size_t n;

	(void)!mkdir(dir, 0777); /* or it is there */
	for (unsigned i = 0; fuzz_example; i++) {
		FILE *f;

		p = NULL;
		n = fuzz_example(i, &p);
		if (!p)
			break;
		snprintf(path, sizeof(path), "%s/%04u", dir, i);
		f = fopen(path, "wb");
		if (!f || fwrite(p, 1, n, f) != n || fclose(f)) {
			perror(path);
			return 1;
		}
	}
	return 0;
}

static void feed_mutated(void)
{
	static uint8_t b[INPUT_MAX];
	size_t n = 0;

	if (seeds_n) {
		unsigned s = pick(seeds_n);

		n = seeds[s].n;
		memcpy(b, seeds[s].p, n);
	}
	n = mutate(b, n);
	LLVMFuzzerTestOneInput(b, n);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"runs", required_argument, NULL, 'n'},
		{"seed", required_argument, NULL, 's'},
		{"seconds", required_argument, NULL, 't'},
		{"write", required_argument, NULL, 'w'},
		{NULL, 0, NULL, 0},
	};
	unsigned long runs = 0, seconds = 0, seed = 1, done = 0;
	bool files_only = true;
	time_t end;
	int opt, bad = 0;

	while ((opt = getopt_long(argc, argv, "n:s:", options, NULL)) != -1) {
		unsigned long v = optarg ? strtoul(optarg, NULL, 10) : 0;

		switch (opt) {
		case 'n':
			runs = v;
			files_only = false;
			break;
		case 's':
			seed = v;
			break;
		case 't':
			seconds = v;
			files_only = false;
			break;
		case 'w':
			return write_examples(optarg);
		default:
			fprintf(stderr, "usage: %s [--runs N] [--seconds S] [--seed N] [--write DIR] [FILE...]\n", argv[0]);
			return 2;
		}
	}
	files_only = files_only && optind < argc;
	for (int i = optind; i < argc; i++)
		bad |= feed_file(argv[i]);
	if (!files_only) {
		runs = runs || seconds ? runs : 10000;
		feed_examples();
		printf("%u inputs, then mutated ones from seed %lu\n", seeds_n, seed);
		fflush(stdout);
		state = seed * 0x9e3779b97f4a7c15u | 1;
		end = time(NULL) + (time_t)seconds;
		while (done < runs || (seconds && time(NULL) < end)) {
			feed_mutated();
			done++;
		}
		printf("ok 1 - %s: %lu inputs of seed %lu\n1..1\n", argv[0], done, seed);
	}
	for (unsigned i = 0; i < seeds_n; i++)
		free(seeds[i].p);
	return bad ? 1 : 0;
}
