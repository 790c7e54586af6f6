/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs/base/node: the walk below a directory finds exactly the nodes whose path leads through
 * it, also removed ones that are in use, and none that were freed.
 */
#include "fs/base/node_ops.h"

#include "engine/tabletfs.h"
#include "fs/base/user_count.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* Functions of other parts that node.c calls.  This test makes no nodes that need them. */
void user_give(enum user_thing thing, uid_t uid, uint64_t n)
{
	fail();
}

void tfs_table_close(struct tfs_table *t)
{
	fail();
}

static void close_file(struct node *n)
{
}

static const struct node_ops directory = {.traits = KIND_DIR}, file;
static const struct node_ops *kinds[NODE_KIND_COUNT];

static void add(void *arg, struct node *n)
{
	n->opens++;
	++*(unsigned *)arg;
}

static void take(void *arg, struct node *n)
{
	n->opens = 0;
}

static bool is_below(const struct node *n, const struct node *top)
{
	while (n && n != top)
		n = n->parent;
	return n != NULL;
}

struct expected {
	const struct node *top;
	unsigned count;
};

static void check(void *arg, struct node *n)
{
	struct expected *e = arg;
	const bool below = is_below(n, e->top);

	assert_int_equal(n->opens, below);
	e->count += below;
}

static void check_walk(struct node *top)
{
	struct expected e = {top, 0};
	unsigned visited = 0;

	node_each(take, NULL);
	mutex_lock(tree_mutex());
	node_each_below_locked(top, add, &visited);
	mutex_unlock(tree_mutex());
	node_each(check, &e);
	assert_int_equal(visited, e.count);
}

enum { ROWS = 30, FAMILIES = 4, CELLS = 20 };
static struct node *rows[ROWS], *families[ROWS][FAMILIES], *cells[ROWS][FAMILIES][CELLS];

static struct node *get(struct node *parent, enum node_kind kind, unsigned number)
{
	char key[16];
	struct node *n;

	snprintf(key, sizeof(key), "%u", number);
	n = node_get(parent, kind, tfs_str(key), 0);
	assert_non_null(n);
	return n;
}

static void check_all(void)
{
	check_walk(node_root());
	for (unsigned r = 0; r < ROWS; r++) {
		if (rows[r])
			check_walk(rows[r]);
		for (unsigned f = 0; f < FAMILIES; f++)
			if (families[r][f])
				check_walk(families[r][f]);
	}
}

static void test_walks_find_what_is_below(void **state)
{
	const struct siphash_key key = {{1, 2}};
	struct node *deep[100];
	unsigned turn = 0;

	for (unsigned i = 0; i < NODE_KIND_COUNT; i++)
		kinds[i] = i == NODE_PLAIN ? &file : &directory;
	assert_int_equal(node_table_init(kinds, close_file, &key), 0);
	check_all();
	for (unsigned r = 0; r < ROWS; r++) {
		rows[r] = get(node_root(), NODE_ROW, r);
		for (unsigned f = 0; f < FAMILIES; f++) {
			families[r][f] = get(rows[r], NODE_FAMILY, f);
			for (unsigned c = 0; c < CELLS; c++)
				cells[r][f][c] = get(families[r][f], NODE_PLAIN, c);
		}
	}
	for (unsigned i = 0; i < 100; i++)
		deep[i] = get(i ? deep[i - 1] : rows[7], NODE_SCRATCH_DIR, i);
	check_all();
	node_end(cells[7][1][3]);
	node_end(families[8][2]);
	check_all();
	/* Frees cells, then families whose cells stay or not, then rows. */
	for (unsigned r = 0; r < ROWS; r++)
		for (unsigned f = 0; f < FAMILIES; f++) {
			for (unsigned c = 0; c < CELLS; c++)
				if (turn++ % 3) {
					node_put(cells[r][f][c]);
					cells[r][f][c] = NULL;
				}
			if (f % 2) {
				for (unsigned c = 0; c < CELLS; c++)
					node_put(cells[r][f][c]);
				node_put(families[r][f]);
				families[r][f] = NULL;
			}
		}
	check_all();
	for (unsigned i = 0; i < 100; i++)
		node_put(deep[i]);
	check_all();
	node_table_fini();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_walks_find_what_is_below),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
