/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simple model with which the tests of live cells compare: an array of entries,
 * visibility by a search of all entries, and the same entries in memtables.
 */
#ifndef TFS_T_UNIT_CELLS_MODEL_H
#define TFS_T_UNIT_CELLS_MODEL_H

#include "engine/cell/memtable.h"
#include "engine/cell/merge.h"

enum { ROWS = 7, FAMILIES = 4, QUALIFIERS = 7, MAX_ENTRIES = 260, MAX_CHILDREN = 6, MAX_CELLS = MAX_ENTRIES };
#define LIT(s)                                                                                                                     \
	{                                                                                                                          \
		(const uint8_t *)(s), sizeof(s) - 1                                                                                \
	}
extern const struct tfs_bytes rows[ROWS], qualifiers[QUALIFIERS]; /* both in order */
extern const uint16_t family_ids[FAMILIES];

#define COMMIT_OF(seq) ((int64_t)((seq) * (seq)*1000003)) /* some time of commit, of a cell of the models */
struct entry {
	int row, family, qualifier; /* indices */
	enum cell_kind kind;
	int64_t ts;
	uint64_t seq, size;
};
struct model_rule {
	bool known, both;  /* both: `and` of versions and age */
	uint64_t versions; /* 0 if there is none */
	int64_t age;
	struct gc_rule *rule;
};
struct model {
	struct entry e[MAX_ENTRIES];
	int count;
	struct model_rule rules[FAMILIES];
	struct memtable *m[MAX_CHILDREN];
	int children;
	bool clipped[MAX_CHILDREN];
	int clip_from[MAX_CHILDREN], clip_to[MAX_CHILDREN];
};
struct expect {
	int row, family, qualifier;
	int64_t ts, expires;
	uint64_t size, seq;
};

extern uint64_t rng; /* the seed */
uint32_t rnd(uint32_t n);
/* The value's bytes follow from its entry's sequence number. */
uint8_t byte_at(uint64_t seq, uint64_t i);
void put(struct memtable *m, const struct cellkey *k, struct tfs_bytes value);
/* Puts an entry into a child. */
void store(struct model *md, int child, const struct entry *e);
void model_make(struct model *md, bool with_large);
void model_free(struct model *md);
const struct gc_rule *model_rule(const void *arg, uint16_t family, bool *known);
/* The result that a scan must have, without its limit; returns the count. */
int expected(const struct model *md, const struct live_options *o, struct expect *out);
int open_merge(const struct model *md, struct iter **out);
/* families: room for four, used by s. */
void random_spec(struct scan_spec *s, struct live_options *o, const struct model *md, uint16_t *families);

#endif
