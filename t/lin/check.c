/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for an order of a row's operations.
 *
 * The calls and answers of a history, by time, are its events.  The search reads
 * them in order and keeps the state of the row and, of the operations pending
 * (called and not yet answered), which have been applied.  At an answer the
 * operation must be applied: now, if it was not before.  Other pending operations
 * may be applied just before it.  So an operation is applied only when an answer
 * needs it (Lowe: just-in-time linearization).  The search returns to the last
 * choice if an answer cannot be explained, and remembers each (event, state,
 * applied) from which it failed or is under way.  The last event that any choice
 * reached ends a prefix that has no order.
 *
 * Choices that the search need not try:
 *  - A pending read that matches the state counts as applied at once, because it changes
 *    nothing.  An operation whose check failed does so, too.
 *  - When an operation overwrites columns without reading them, each pending
 *    change of only these columns that could have been applied just before it
 *    becomes `spare`: at its answer it may be left out, or applied as usual.
 *    An operation in doubt is spare from the start.
 *  - A pending change is applied before its answer only if a pending operation
 *    could observe that.  Else it can be moved after the answer, or it is spare.
 *  - A choice fails if a pending answer states a value that no longer can be made:
 *    it does not begin with the value of the column, or no pending append continues
 *    that value; and the changes that write a beginning of it have been applied.
 *  - Of equal operations in doubt, the first one called is applied first.
 *  - An operation in doubt is not applied if no answer states, and no check
 *    expects, a text that begins with the value which it makes, and no answer
 *    depends on it otherwise.
 */
#include "t/lin/check.h"
#include "t/lin/values.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdlib.h>
#include <string.h>

#define WORDS (LIN_PENDING / 64)
#define STEPS 20000000u
#define LEAVE_OUT UINT32_MAX

struct row {
	uint32_t value[LIN_COLUMNS];
};
struct pending { /* a set of pending operations, by slot */
	uint64_t bit[WORDS];
};
struct node {
	struct row row;
	struct pending applied, spare;
	uint32_t event;
	int64_t hint; /* the largest of the operations applied */
};
struct action { /* an operation as the search uses it */
	const struct lin_op *op;
	bool doubt, failed, only_reads;
	unsigned reads, writes; /* columns */
	uint32_t value, expect, found[LIN_COLUMNS];
	unsigned slot;
	uint32_t called, answered; /* events; UINT32_MAX: never */
	/* In `makers`, per column whose value the answer states: changes at the same time that write a part of it. */
	uint32_t makers[LIN_COLUMNS], maker_count[LIN_COLUMNS];
};
struct event {
	int64_t time;
	uint32_t action;
	bool answer;
	uint32_t first, reads, changes; /* an answer's part of `pool`: its pending reads, then its pending changes */
};
struct choice {
	uint32_t action; /* or LEAVE_OUT */
	unsigned rank;
	int64_t key;
};
struct frame {
	struct node node;
	size_t first, next, end; /* of `choices` */
};
struct sight {
	uint32_t value, event;
};
struct search {
	struct values *values;
	struct action *actions;
	size_t action_count;
	struct event *events;
	size_t event_count;
	uint32_t *pool;
	size_t pool_count, pool_room;
	uint32_t *makers;
	size_t maker_count, maker_room;
	struct frame *stack;
	size_t depth, stack_room;
	struct choice *choices;
	size_t choice_count, choice_room;
	/* Per column: answers that state its text, and the last event with an answer that depends on it otherwise. */
	struct sight *sights[LIN_COLUMNS];
	size_t sight_count[LIN_COLUMNS];
	uint32_t other_sight[LIN_COLUMNS];
	bool counted[LIN_COLUMNS];      /* has increments: its values do not begin with earlier values */
	uint32_t *visible[LIN_COLUMNS]; /* by value: 1 + the last event that states a text beginning with it; 0: not known yet */
	uint32_t visible_room[LIN_COLUMNS];
	XXH128_hash_t *seen; /* open addressing; zero: free */
	size_t seen_count, seen_room;
	uint64_t steps, max_steps;
	uint32_t deepest;
	struct row last[LIN_STATES + 1]; /* states at `deepest` */
	unsigned last_count;
};

static void *need(void *p)
{
	if (!p)
		abort();
	return p;
}

static bool has(const struct pending *p, unsigned slot)
{
	return p->bit[slot / 64] >> slot % 64 & 1;
}

static void add(struct pending *p, unsigned slot)
{
	p->bit[slot / 64] |= (uint64_t)1 << slot % 64;
}

static void drop(struct pending *p, unsigned slot)
{
	p->bit[slot / 64] &= ~((uint64_t)1 << slot % 64);
}

/* ---- operations ---- */

static bool effect(struct values *v, const struct action *a, struct row *row)
{
	for (unsigned c = 0; c < LIN_COLUMNS; c++) {
		if (!(a->writes >> c & 1))
			continue;
		if (a->op->kind == LIN_PUT)
			row->value[c] = a->value;
		else if (a->op->kind == LIN_DELETE)
			row->value[c] = VALUE_ABSENT;
		else if (a->op->kind == LIN_APPEND)
			row->value[c] = values_append(v, row->value[c], a->value);
		else
			row->value[c] = values_increment(v, row->value[c], a->op->by);
		if (row->value[c] == VALUE_NONE)
			return false;
	}
	return true;
}

/* Is the answer right?  row: after the operation. */
static bool right(const struct action *a, const struct row *row)
{
	for (unsigned c = 0; c < LIN_COLUMNS; c++)
		if (a->op->seen >> c & 1 && row->value[c] != a->found[c])
			return false;
	return true;
}

/* Returns true if the operation may take effect in this state, with the state after it in *out. */
static bool apply(struct search *s, const struct row *row, const struct action *a, struct row *out)
{
	struct row after = *row;

	*out = *row;
	if (a->op->check) {
		bool holds = row->value[a->op->check - 1] == a->expect;

		if (a->failed)
			return !holds;
		if (!holds)
			return a->doubt;
	}
	if (!effect(s->values, a, &after))
		return a->doubt;
	if (!a->doubt && !right(a, &after))
		return false;
	*out = after;
	return true;
}

static void action_init(struct search *s, struct action *a, const struct lin_op *op)
{
	const unsigned all = (1u << LIN_COLUMNS) - 1;

	*a = (struct action){.op = op, .doubt = op->outcome == LIN_DOUBT || !op->answered};
	a->failed = !a->doubt && op->outcome == LIN_FAILED;
	a->value = values_of(s->values, op->kind == LIN_PUT || op->kind == LIN_APPEND ? op->value : "");
	a->expect = values_of(s->values, op->expect);
	for (unsigned c = 0; c < LIN_COLUMNS; c++)
		if (op->seen >> c & 1)
			a->found[c] = values_of(s->values, op->found[c]);
	if (!a->failed && op->kind != LIN_READ)
		a->writes = op->columns & all;
	if (op->kind == LIN_APPEND || op->kind == LIN_INCREMENT)
		a->reads = a->writes;
	if (!a->doubt)
		a->reads |= op->seen & all & ~a->writes;
	if (op->check)
		a->reads |= 1u << (op->check - 1);
	a->only_reads = !a->writes;
}

/* ---- events ---- */

static int event_order(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	if (x->answer != y->answer)
		return x->answer ? 1 : -1;
	return x->action < y->action ? -1 : x->action > y->action;
}

static void events_make(struct search *s, const struct lin_op *ops, size_t n)
{
	s->actions = need(calloc(n + 1, sizeof(*s->actions)));
	s->events = need(calloc(2 * n + 1, sizeof(*s->events)));
	for (size_t i = 0; i < n; i++) {
		const struct lin_op *op = &ops[i];
		uint32_t a = (uint32_t)s->action_count;

		if (op->outcome == LIN_NONE || (op->kind == LIN_READ && (op->outcome == LIN_DOUBT || !op->answered)))
			continue;
		action_init(s, &s->actions[s->action_count++], op);
		s->events[s->event_count++] = (struct event){.time = op->called, .action = a};
		if (op->answered)
			s->events[s->event_count++] = (struct event){.time = op->answered, .action = a, .answer = true};
	}
	qsort(s->events, s->event_count, sizeof(*s->events), event_order);
}

static void list_add(uint32_t **list, size_t *count, size_t *room, uint32_t action)
{
	if (*count == *room) {
		*room = *room ? 2 * *room : 4096;
		*list = need(reallocarray(*list, *room, sizeof(**list)));
	}
	(*list)[(*count)++] = action;
}

static void pool_add(struct search *s, uint32_t action)
{
	list_add(&s->pool, &s->pool_count, &s->pool_room, action);
}

/* Gives each operation a slot while it is pending, and each answer the list of those pending.  Returns false: too many. */
static bool pending_make(struct search *s)
{
	uint32_t open[LIN_PENDING];
	struct pending used = {0};
	unsigned count = 0;

	for (size_t i = 0; i < s->event_count; i++) {
		struct event *e = &s->events[i];
		struct action *a = &s->actions[e->action];
		unsigned slot = 0, at = 0;

		if (!e->answer) {
			while (slot < LIN_PENDING && has(&used, slot))
				slot++;
			if (slot == LIN_PENDING)
				return false;
			a->slot = slot;
			a->called = (uint32_t)i;
			a->answered = UINT32_MAX;
			add(&used, slot);
			open[count++] = e->action;
			continue;
		}
		a->answered = (uint32_t)i;
		e->first = (uint32_t)s->pool_count;
		for (unsigned k = 0; k < count; k++)
			if (s->actions[open[k]].only_reads)
				pool_add(s, open[k]);
		e->reads = (uint32_t)s->pool_count - e->first;
		for (unsigned k = 0; k < count; k++)
			if (!s->actions[open[k]].only_reads)
				pool_add(s, open[k]);
		e->changes = (uint32_t)s->pool_count - e->first - e->reads;
		while (open[at] != e->action)
			at++;
		memmove(open + at, open + at + 1, (--count - at) * sizeof(*open));
		drop(&used, a->slot);
	}
	return true;
}

/* ---- values that answers state ---- */

static void sight_add(struct search *s, unsigned column, uint32_t value, uint32_t event)
{
	for (size_t i = 0; i < s->sight_count[column]; i++)
		if (s->sights[column][i].value == value) {
			if (event > s->sights[column][i].event)
				s->sights[column][i].event = event;
			return;
		}
	s->sights[column][s->sight_count[column]++] = (struct sight){value, event};
}

static void sights_make(struct search *s)
{
	for (unsigned c = 0; c < LIN_COLUMNS; c++)
		s->sights[c] = need(calloc(2 * s->event_count + 1, sizeof(*s->sights[c])));
	for (uint32_t i = 0; i < s->event_count; i++) {
		const struct action *a = &s->actions[s->events[i].action];

		for (unsigned c = 0; c < LIN_COLUMNS; c++)
			s->counted[c] |= a->op->kind == LIN_INCREMENT && a->writes >> c & 1;
		if (a->doubt && !s->events[i].answer) { /* its check decides if it is applied, at any time */
			if (a->op->check)
				sight_add(s, a->op->check - 1, a->expect, (uint32_t)s->event_count);
			continue;
		}
		if (!s->events[i].answer || a->doubt)
			continue;
		for (unsigned c = 0; c < LIN_COLUMNS; c++) {
			if (a->op->seen >> c & 1 && !a->failed)
				sight_add(s, c, a->found[c], i);
			if (a->op->check == c + 1 && !a->failed)
				sight_add(s, c, a->expect, i);
			if (a->op->check == c + 1 && a->failed)
				s->other_sight[c] = i + 1;
		}
	}
}

/* Does an answer from this event on state a text of the column that begins with the value? */
static bool is_visible(struct search *s, unsigned c, uint32_t value, uint32_t event)
{
	uint32_t last = 1;

	if (s->counted[c])
		return true;
	if (value >= s->visible_room[c]) {
		uint32_t room = 2 * value + 64;

		s->visible[c] = need(reallocarray(s->visible[c], room, sizeof(uint32_t)));
		memset(s->visible[c] + s->visible_room[c], 0, (room - s->visible_room[c]) * sizeof(uint32_t));
		s->visible_room[c] = room;
	}
	if (!s->visible[c][value]) {
		for (size_t i = 0; i < s->sight_count[c]; i++)
			if (s->sights[c][i].event + 2 > last && values_begins(s->values, s->sights[c][i].value, value))
				last = s->sights[c][i].event + 2;
		s->visible[c][value] = last;
	}
	return s->visible[c][value] >= event + 2;
}

/* Is a value that a makes visible?  *useless: no answer depends on what it makes. */
static bool makes_visible(struct search *s, const struct action *a, const struct row *after, uint32_t event, bool *useless)
{
	bool visible = false;

	*useless = true;
	for (unsigned c = 0; c < LIN_COLUMNS; c++)
		if (a->writes >> c & 1) {
			if (is_visible(s, c, after->value[c], event))
				visible = true;
			if (s->other_sight[c] > event)
				*useless = false;
		}
	*useless &= !visible;
	return visible;
}

/* The value that a column must have for the operation to take effect; VALUE_NONE: any. */
static uint32_t needed(const struct search *s, const struct action *a, unsigned c)
{
	if (a->doubt || a->failed || s->counted[c])
		return VALUE_NONE;
	if (a->op->check == c + 1)
		return a->expect;
	return a->op->seen & ~a->writes & 1u << c ? a->found[c] : VALUE_NONE;
}

/* Can z, applied to a column that is `from`, lead to a column that begins as the value does? */
static bool leads(const struct search *s, const struct action *z, unsigned c, uint32_t from, uint32_t value)
{
	if (!(z->writes >> c & 1) || z->failed)
		return false;
	if (z->op->kind == LIN_PUT)
		return values_begins(s->values, value, z->value);
	return z->op->kind == LIN_DELETE || values_continues(s->values, value, from, z->value);
}

/* Can z lead to the value from some other value? */
static bool makes(const struct search *s, const struct action *z, unsigned c, uint32_t value)
{
	if (z->writes >> c & 1 && z->op->kind == LIN_APPEND)
		return values_contains(s->values, value, z->value);
	return leads(s, z, c, VALUE_ABSENT, value);
}

static void makers_make(struct search *s)
{
	for (size_t i = 0; i < s->action_count; i++) {
		struct action *a = &s->actions[i];

		for (unsigned c = 0; c < LIN_COLUMNS; c++) {
			uint32_t value = needed(s, a, c);

			a->makers[c] = (uint32_t)s->maker_count;
			if (value == VALUE_NONE)
				continue;
			/* Operations that are pending at a's call are pending at the next answer, too. */
			for (uint32_t k = a->called; k <= a->answered; k++) {
				const struct event *e = &s->events[k];
				bool first = false;

				if (!e->answer) {
					if (makes(s, &s->actions[e->action], c, value))
						list_add(&s->makers, &s->maker_count, &s->maker_room, e->action);
					continue;
				}
				for (uint32_t m = a->called; m < k && !first; m++)
					first = s->events[m].answer;
				if (first)
					continue;
				for (uint32_t m = 0; m < e->changes; m++) {
					uint32_t z = s->pool[e->first + e->reads + m];

					if (s->actions[z].called < a->called && makes(s, &s->actions[z], c, value))
						list_add(&s->makers, &s->maker_count, &s->maker_room, z);
				}
			}
			a->maker_count[c] = (uint32_t)s->maker_count - a->makers[c];
		}
	}
}

/* ---- nodes ---- */

/* Returns false if the node was seen before. */
static bool seen_insert(XXH128_hash_t *table, size_t room, XXH128_hash_t h)
{
	size_t at = h.low64 & (room - 1);

	for (; table[at].low64 || table[at].high64; at = (at + 1) & (room - 1))
		if (XXH128_isEqual(table[at], h))
			return false;
	table[at] = h;
	return true;
}

static bool seen_add(struct search *s, const struct node *node)
{
	XXH128_hash_t h = XXH3_128bits(node, offsetof(struct node, event) + sizeof(node->event));

	if ((s->seen_count + 1) * 2 > s->seen_room) {
		size_t room = s->seen_room ? 2 * s->seen_room : 4096;
		XXH128_hash_t *table = need(calloc(room, sizeof(*table)));

		for (size_t i = 0; i < s->seen_room; i++)
			if (s->seen[i].low64 || s->seen[i].high64)
				seen_insert(table, room, s->seen[i]);
		free(s->seen);
		s->seen = table;
		s->seen_room = room;
	}
	if (!seen_insert(s->seen, s->seen_room, h))
		return false;
	s->seen_count++;
	return true;
}

/* Applies the pending reads that match.  e: the next answer, or NULL. */
static void match_reads(struct search *s, struct node *node, const struct event *e)
{
	struct row ignored;

	for (uint32_t i = 0; i < e->reads; i++) {
		const struct action *r = &s->actions[s->pool[e->first + i]];

		if (!has(&node->applied, r->slot) && apply(s, &node->row, r, &ignored))
			add(&node->applied, r->slot);
	}
}

/* Passes the events that leave no choice.  Returns false at the end of the history. */
static bool advance(struct search *s, struct node *node)
{
	struct row ignored;

	for (; node->event < s->event_count; node->event++) {
		const struct event *e = &s->events[node->event];
		const struct action *a = &s->actions[e->action];

		if (e->answer) {
			if (!has(&node->applied, a->slot))
				return true;
			drop(&node->applied, a->slot);
		} else if (a->only_reads && apply(s, &node->row, a, &ignored)) {
			add(&node->applied, a->slot);
		} else if (a->doubt) {
			add(&node->spare, a->slot);
		}
	}
	return false;
}

/* Could a pending operation observe that z was applied now, not later?  row, after: before and after z. */
static bool observed(
	const struct search *s, const struct node *node, const struct event *e, const struct action *z, const struct row *after)
{
	for (uint32_t i = 0; i < e->changes; i++) {
		const struct action *y = &s->actions[s->pool[e->first + e->reads + i]];

		if (y == z || has(&node->applied, y->slot))
			continue;
		if (y->reads & z->writes || z->reads & y->writes)
			return true;
		if (y->writes & z->writes && z->writes & ~y->writes)
			return true;
	}
	for (uint32_t i = 0; i < e->reads; i++) {
		const struct action *r = &s->actions[s->pool[e->first + i]];

		if (!has(&node->applied, r->slot) && r->reads & z->writes) {
			/* Changes between z and r overwrite z's columns or leave them, so r must match in such a column now. */
			if (r->op->check && z->writes >> (r->op->check - 1) & 1)
				return true;
			for (unsigned c = 0; c < LIN_COLUMNS; c++)
				if (r->op->seen & z->writes & 1u << c && after->value[c] == r->found[c])
					return true;
		}
	}
	return false;
}

/*
 * y overwrites the row of the node: which pending changes could have been applied just
 * before it?  Each change must be possible alone, because a spare operation may still be
 * applied at another place.  So the operations that read come first, and none of them
 * reads a column that an earlier operation writes.
 */
static void mark_spare(struct search *s, struct node *node, const struct event *e, const struct action *y)
{
	unsigned written = 0;
	struct row ignored;

	if (y->op->kind != LIN_PUT && y->op->kind != LIN_DELETE)
		return;
	for (uint32_t i = 0; i < e->changes; i++) {
		const struct action *z = &s->actions[s->pool[e->first + e->reads + i]];

		if (z == y || has(&node->applied, z->slot) || has(&node->spare, z->slot))
			continue;
		if (z->writes & ~y->writes || z->writes & y->reads || z->reads & written || !apply(s, &node->row, z, &ignored))
			continue;
		add(&node->spare, z->slot);
		if (z->reads)
			written |= z->writes;
	}
}

/* Is an operation pending that was called before a, does the same, and may always take its place? */
static bool has_twin(const struct search *s, const struct node *node, const struct event *e, const struct action *a)
{
	for (uint32_t i = 0; i < e->changes; i++) {
		const struct action *z = &s->actions[s->pool[e->first + e->reads + i]];

		if (z == a)
			return false;
		if (z->doubt && z->answered == UINT32_MAX && z->op->kind == a->op->kind && z->writes == a->writes &&
			z->value == a->value && z->op->by == a->op->by && z->op->check == a->op->check && z->expect == a->expect &&
			!has(&node->applied, z->slot))
			return true;
	}
	return false;
}

/* Sets *node to the result of one choice.  Returns false if it is not possible, or need not be tried. */
static bool follow(struct search *s, struct node *node, uint32_t choice)
{
	const struct event *e = &s->events[node->event];
	const struct action *x = &s->actions[e->action], *a = choice == LEAVE_OUT ? NULL : &s->actions[choice];
	struct row after;
	bool useless;

	if (a) {
		if (!apply(s, &node->row, a, &after))
			return false;
		if (a->doubt && !memcmp(&after, &node->row, sizeof(after)))
			return false;
		makes_visible(s, a, &after, node->event, &useless);
		if (a->doubt && useless)
			return false;
		if (a->doubt && has_twin(s, node, e, a))
			return false;
		if (a != x && !observed(s, node, e, a, &after))
			return false;
		mark_spare(s, node, e, a);
		node->row = after;
		add(&node->applied, a->slot);
		drop(&node->spare, a->slot);
		match_reads(s, node, e);
		if (a->op->hint > node->hint)
			node->hint = a->op->hint;
	}
	if (!a || a == x) {
		drop(&node->applied, x->slot);
		drop(&node->spare, x->slot);
		node->event++;
	}
	return true;
}

/* Can the column still become the value that the pending operation a needs? */
static bool reachable(const struct search *s, const struct node *node, const struct action *a, unsigned c, uint32_t value)
{
	uint32_t from = node->row.value[c];

	if (from == value)
		return true;
	for (uint32_t k = 0; k < a->maker_count[c]; k++) {
		const struct action *z = &s->actions[s->makers[a->makers[c] + k]];

		if (z->called <= node->event && (z->answered < node->event || has(&node->applied, z->slot)))
			continue;
		if (leads(s, z, c, from, value))
			return true;
	}
	return false;
}

/*
 * Can the values that the pending answers need still be made?  If not, *event is at
 * least the event at which that shows.
 */
static bool hopeful(const struct search *s, const struct node *node, uint32_t *event)
{
	const struct event *e = &s->events[node->event];

	for (uint32_t i = 0; i < e->reads + e->changes; i++) {
		const struct action *a = &s->actions[s->pool[e->first + i]];

		if (has(&node->applied, a->slot) || has(&node->spare, a->slot))
			continue;
		for (unsigned c = 0; c < LIN_COLUMNS; c++) {
			uint32_t value = needed(s, a, c);

			if (value != VALUE_NONE && !reachable(s, node, a, c, value)) {
				*event = a->answered;
				return false;
			}
		}
	}
	return true;
}

/* ---- the search ---- */

static void choice_add(struct search *s, uint32_t action, unsigned rank, int64_t key)
{
	if (s->choice_count == s->choice_room) {
		s->choice_room = s->choice_room ? 2 * s->choice_room : 4096;
		s->choices = need(reallocarray(s->choices, s->choice_room, sizeof(*s->choices)));
	}
	s->choices[s->choice_count++] = (struct choice){action, rank, key};
}

static int choice_order(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

/*
 * Makes the choices at an answer, likely choices first: operations with a smaller hint
 * (0); the answered operation, or operations that a read needs (1, 2); further operations
 * that are not in doubt (3); operations in doubt (4); operations that make a value which
 * no answer states (5, 6).
 */
static void choices_make(struct search *s, const struct node *node)
{
	const struct event *e = &s->events[node->event];
	const struct action *x = &s->actions[e->action];
	size_t first = s->choice_count;
	struct row after, ignored;

	if (has(&node->spare, x->slot)) {
		bool late = x->op->hint > node->hint && !x->doubt;

		choice_add(s, LEAVE_OUT, late ? 2 : 1, 0);
		choice_add(s, e->action, late ? 1 : 2, 0);
	} else if (!x->only_reads) {
		choice_add(s, e->action, 1, 0);
	}
	for (uint32_t i = 0; i < e->changes; i++) {
		uint32_t z = s->pool[e->first + e->reads + i];
		const struct action *a = &s->actions[z];
		unsigned rank = a->doubt ? 4 : 3;
		bool useless;

		if (a == x || has(&node->applied, a->slot) || !apply(s, &node->row, a, &after))
			continue;
		if (!makes_visible(s, a, &after, node->event, &useless))
			rank = a->doubt ? 6 : 5;
		if (a->op->hint && a->op->hint < x->op->hint && a->op->hint > node->hint)
			rank = 0;
		else if (x->only_reads && apply(s, &after, x, &ignored))
			rank = 1;
		choice_add(s, z, rank, a->op->hint ? a->op->hint : a->op->called);
	}
	if (s->choice_count > first)
		qsort(s->choices + first, s->choice_count - first, sizeof(*s->choices), choice_order);
}

static void note_state(struct search *s, const struct node *node, uint32_t event)
{
	if (event < s->deepest)
		return;
	if (event > s->deepest)
		s->last_count = 0;
	s->deepest = event;
	for (unsigned i = 0; i < s->last_count; i++)
		if (!memcmp(&s->last[i], &node->row, sizeof(node->row)))
			return;
	if (s->last_count <= LIN_STATES)
		s->last[s->last_count++] = node->row;
}

static void push(struct search *s, const struct node *node)
{
	struct frame *f;

	if (s->depth == s->stack_room) {
		s->stack_room = s->stack_room ? 2 * s->stack_room : 256;
		s->stack = need(reallocarray(s->stack, s->stack_room, sizeof(*s->stack)));
	}
	f = &s->stack[s->depth++];
	f->node = *node;
	f->first = f->next = s->choice_count;
	choices_make(s, node);
	f->end = s->choice_count;
	note_state(s, node, node->event);
}

static enum lin_result run(struct search *s)
{
	struct node node;
	uint32_t event;

	memset(&node, 0, sizeof(node));
	if (!advance(s, &node))
		return LIN_GOOD;
	push(s, &node);
	while (s->depth) {
		struct frame *f = &s->stack[s->depth - 1];

		if (f->next == f->end) {
			s->choice_count = f->first;
			s->depth--;
			continue;
		}
		node = f->node;
		if (!follow(s, &node, s->choices[f->next++].action))
			continue;
		if (++s->steps > s->max_steps)
			return LIN_UNDECIDED;
		if (!advance(s, &node))
			return LIN_GOOD;
		if (!hopeful(s, &node, &event))
			note_state(s, &node, event);
		else if (seen_add(s, &node))
			push(s, &node);
	}
	return LIN_BAD;
}

static void states_make(const struct search *s, struct lin_states *states)
{
	*states = (struct lin_states){
		.count = s->last_count < LIN_STATES ? s->last_count : LIN_STATES, .more = s->last_count > LIN_STATES};
	for (unsigned i = 0; i < states->count; i++)
		for (unsigned c = 0; c < LIN_COLUMNS; c++)
			if (s->last[i].value[c] != VALUE_ABSENT)
				states->text[i][c] = need(strdup(values_text(s->values, s->last[i].value[c])));
}

void lin_states_free(struct lin_states *states)
{
	for (unsigned i = 0; i < states->count; i++)
		for (unsigned c = 0; c < LIN_COLUMNS; c++)
			free(states->text[i][c]);
}

struct lin_verdict lin_check_states(const struct lin_op *ops, size_t n, uint64_t max_steps, struct lin_states *states)
{
	struct search s = {.values = values_new(), .max_steps = max_steps ? max_steps : STEPS};
	struct lin_verdict v = {.result = LIN_UNDECIDED};

	events_make(&s, ops, n);
	sights_make(&s);
	if (pending_make(&s)) {
		makers_make(&s);
		v.result = run(&s);
	}
	v.steps = s.steps;
	if (v.result == LIN_BAD) {
		v.until = s.events[s.deepest].time;
		v.op = (size_t)(s.actions[s.events[s.deepest].action].op - ops);
		if (states)
			states_make(&s, states);
	}
	for (unsigned c = 0; c < LIN_COLUMNS; c++) {
		free(s.sights[c]);
		free(s.visible[c]);
	}
	values_free(s.values);
	free(s.actions);
	free(s.events);
	free(s.pool);
	free(s.makers);
	free(s.stack);
	free(s.choices);
	free(s.seen);
	return v;
}

struct lin_verdict lin_check(const struct lin_op *ops, size_t n, uint64_t max_steps)
{
	return lin_check_states(ops, n, max_steps, NULL);
}
