/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inode numbers of names that were removed or replaced (renumber.h). They are
 * in two hash tables with linear probing.  When the younger table is full, the
 * older table is freed, and the younger table becomes the older one.  A name
 * that is found in the older table moves to the younger one.  Users see inode
 * numbers and could fill one part of a table, so a name's place is a private
 * hash of the number.
 */
#include "fs/base/renumber.h"

#include "engine/base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

struct numbers {
	struct place {
		uint64_t ino, number; /* number is 0 if the place is free */
	} * places;
	size_t size, used; /* size is a power of two */
};
static struct numbers young, old;

#define SIZE_MIN 64u
#define USED_MAX(size) ((size) / 4 * 3)
_Static_assert(USED_MAX(1u << 20) == RENUMBER_MIN, "the larger size has room for as many names as promised");

/* The place of the name, or the free place where it belongs. */
static struct place *place_of(const struct numbers *t, uint64_t ino)
{
	size_t i = hash_private(ino, tfs_bytes_of(NULL, 0)) & (t->size - 1);

	while (t->places[i].number && t->places[i].ino != ino)
		i = (i + 1) & (t->size - 1);
	return &t->places[i];
}

static uint64_t number_in(const struct numbers *t, uint64_t ino)
{
	return t->size ? place_of(t, ino)->number : 0;
}

static bool renumber_grow(struct numbers *t)
{
	struct numbers more = {.size = t->size ? t->size * 2 : SIZE_MIN, .used = t->used};

	more.places = calloc(more.size, sizeof(*more.places));
	if (!more.places)
		return false;
	for (size_t i = 0; i < t->size; i++)
		if (t->places[i].number)
			*place_of(&more, t->places[i].ino) = t->places[i];
	free(t->places);
	*t = more;
	return true;
}

void renumber_put(uint64_t ino, uint64_t number)
{
	struct place *p;

	if (young.used == RENUMBER_MIN) {
		free(old.places);
		old = young;
		young = (struct numbers){0};
	}
	if (young.used == USED_MAX(young.size) && !renumber_grow(&young))
		return;
	p = place_of(&young, ino);
	young.used += !p->number;
	*p = (struct place){ino, number};
}

uint64_t renumber_get(uint64_t ino)
{
	uint64_t number = number_in(&young, ino);

	if (number)
		return number;
	number = number_in(&old, ino);
	if (number)
		renumber_put(ino, number);
	return number;
}

void renumber_fini(void)
{
	free(young.places);
	free(old.places);
	young = old = (struct numbers){0};
}
