/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that change a row, from any bytes.  The first byte chooses: 0 lines of
 * .mutate, 1 the object of .row.json, 2 a text of a counter, 3 the object of .row.flat.json; the second one, at
 * which byte the text is cut in two.  The pieces mean the same as the whole.
 * What is accepted is applied to the reference model; what is refused has a
 * reason, of one line.
 */
#include "engine/base/counter.h"
#include "engine/bulk/mutation_lines.h"
#include "engine/bulk/row_json.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t fuzz_example(unsigned i, const uint8_t **data);

#define CHECK(x)                                                                                                                   \
	do {                                                                                                                       \
		if (!(x))                                                                                                          \
			abort();                                                                                                   \
	} while (0)

#define ROW TFS_S("row")
static struct tfs_table *table;

static void open_table(void)
{
	struct tfs_options o;
	struct tfs_store *store;
	char *why = NULL;

	tfs_options_init(&o);
	CHECK(tfs_open("model", &o, &store, &why) == 0 && tfs_table_create(store, "t", 0, 0, 0755) == 0 &&
		tfs_table_open(store, "t", &table) == 0);
	for (const char *f = "fgc"; *f; f++) {
		char name[] = {*f, 0};

		CHECK(tfs_schema_change(table, &(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ADD, .name = name, .mode = 0644},
			      NULL) == 0);
	}
	CHECK(tfs_schema_change(
		      table, &(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_TYPE, .name = "c", .value = "counter"}, NULL) == 0);
}

static void clear_row(void)
{
	struct tfs_mutation *m = tfs_mutation_new(table, ROW);

	CHECK(m && tfs_mutation_delete_row(m) == 0 && tfs_apply(m, 0, NULL) == 0);
	tfs_mutation_free(m);
}

static unsigned lines_in(struct tfs_bytes s)
{
	unsigned n = 0;

	for (size_t i = 0; i < s.n; i++)
		n += s.p[i] == '\n';
	return n;
}

/* Adds the pieces, and applies the mutation if it is complete. */
static int mutate(struct mutation_lines *l, const struct tfs_bytes pieces[2])
{
	struct tfs_mutation *m;
	int err = mutation_lines_add(l, table, pieces[0]);

	if (!err)
		err = mutation_lines_add(l, table, pieces[1]);
	CHECK(!err || err == -EINVAL);
	if (err || !l->complete)
		return err;
	clear_row();
	l->results = calloc(l->count + 1u, sizeof(*l->results));
	CHECK(l->results && mutation_lines_make(l, table, ROW, &m) == 0);
	err = mutation_lines_answer(l, tfs_apply(m, 0, l->results));
	tfs_mutation_free(m);
	CHECK(err || lines_in(buf_bytes(&l->answer)) == l->count + 1);
	return err;
}

static void try_lines(struct tfs_bytes text, size_t cut)
{
	const struct tfs_bytes whole[] = {text, {NULL, 0}},
			       pieces[] = {tfs_bytes_of(text.p, cut), tfs_bytes_of(text.p + cut, text.n - cut)};
	struct mutation_lines a = {0}, b = {0};
	int err = mutate(&a, whole);

	if (cut >= 6 && memcmp(text.p + cut - 6, "commit", 6) == 0)
		goto out; /* a piece that ends here is complete */
	CHECK(mutate(&b, pieces) == err);
	CHECK(a.complete == b.complete && (err || a.count == b.count));
	if (err)
		CHECK(mutation_lines_reason(&a).n && lines_in(buf_bytes(&a.answer)) == 1 &&
			bytes_eq(buf_bytes(&a.answer), buf_bytes(&b.answer)));
out:
	mutation_lines_fini(&a);
	mutation_lines_fini(&b);
}

/* Stores the cells at their timestamps, and reads the row as an object again. */
static void store_cells(const struct row_json *j)
{
	struct tfs_mutation *m;
	struct row_json again;
	struct buf text = {0};
	char why[160];

	clear_row();
	m = tfs_mutation_new(table, ROW);
	CHECK(m);
	for (size_t i = 0; i < j->count; i++)
		CHECK(tfs_mutation_put(m, j->cells[i].family[0] == 'f' ? "f" : "g", j->cells[i].qualifier, tfs_at(j->cells[i].ts),
			      j->cells[i].value) == 0);
	CHECK(tfs_apply(m, 0, NULL) == 0);
	tfs_mutation_free(m);
	CHECK(row_json_render(table, ROW, false, &text, NULL) == 0);
	CHECK(row_json_parse(buf_bytes(&text), false, &again, why) == 0);
	CHECK(again.has_sequence && again.count <= j->count && (again.count > 0) == (j->count > 0));
	for (size_t i = 0; i < again.count; i++) {
		bool found = false;

		for (size_t k = 0; k < j->count && !found; k++)
			found = again.cells[i].ts == j->cells[k].ts && bytes_eq(again.cells[i].value, j->cells[k].value) &&
				bytes_eq(again.cells[i].qualifier, j->cells[k].qualifier);
		CHECK(found);
	}
	row_json_fini(&again);
	buf_fini(&text);
}

/* Applies the object, and reads the row in the short form again. */
static void merge_cells(const struct row_json *j)
{
	struct tfs_mutation *m;
	struct row_json again;
	struct buf text = {0}, second = {0};
	char why[160];

	clear_row();
	m = tfs_mutation_new(table, ROW);
	CHECK(m);
	for (size_t i = 0; i < j->count; i++)
		if (j->cells[i].verb == MUTATION_SET)
			CHECK(tfs_mutation_put(m, j->cells[i].family[0] == 'f' ? "f" : "g", j->cells[i].qualifier, TFS_AUTO,
				      j->cells[i].value) == 0);
	CHECK(tfs_apply(m, 0, NULL) == 0);
	tfs_mutation_free(m);
	CHECK(row_json_render(table, ROW, true, &text, NULL) == 0);
	CHECK(row_json_parse(buf_bytes(&text), true, &again, why) == 0 && again.count <= j->count);
	clear_row();
	m = tfs_mutation_new(table, ROW);
	CHECK(m);
	for (size_t i = 0; i < again.count; i++)
		CHECK(again.cells[i].verb == MUTATION_SET &&
			tfs_mutation_put(m, again.cells[i].family, again.cells[i].qualifier, TFS_AUTO, again.cells[i].value) == 0);
	CHECK(tfs_apply(m, 0, NULL) == 0);
	tfs_mutation_free(m);
	CHECK(row_json_render(table, ROW, true, &second, NULL) == 0 && bytes_eq(buf_bytes(&text), buf_bytes(&second)));
	row_json_fini(&again);
	buf_fini(&text);
	buf_fini(&second);
}

static void try_object(struct tfs_bytes text, bool flat, size_t cut)
{
	struct json_end whole = {0}, pieces = {0};
	const size_t end = json_end_find(&whole, text);
	size_t part = json_end_find(&pieces, tfs_bytes_of(text.p, cut));
	char why[160] = "";
	struct row_json j;
	int err;

	if (!pieces.ended)
		part += json_end_find(&pieces, tfs_bytes_of(text.p + cut, text.n - cut));
	CHECK(part == end && pieces.ended == whole.ended);
	err = row_json_parse(text, flat, &j, why);
	CHECK(err == 0 || (err == -EINVAL && why[0] && !strchr(why, '\n')));
	if (!err) {
		CHECK(whole.ended);
		if (flat)
			merge_cells(&j);
		else if (!j.merge)
			store_cells(&j);
	}
	row_json_fini(&j);
}

static void try_counter(struct tfs_bytes text, size_t cut)
{
	struct counter_change change = {0}, again;
	int r = counter_change_parse(text, &change), first = counter_change_parse(tfs_bytes_of(text.p, cut), &again);
	int64_t number;

	CHECK(r == 0 || r == 1 || r == -EINVAL || r == -EOVERFLOW);
	if (counter_parse(text, &number) == 0)
		CHECK(r == 0 && change.sets && change.value == number);
	/* A text can become a change only if its beginning can. */
	if (r >= 0 && first < 0)
		CHECK(first == -EOVERFLOW);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tfs_bytes text;
	size_t cut;

	if (!table)
		open_table();
	if (size < 2)
		return 0;
	text = tfs_bytes_of(data + 2, size - 2);
	cut = data[1] < text.n ? data[1] : text.n;
	if (data[0] % 4 == 0)
		try_lines(text, cut);
	else if (data[0] % 2 == 1)
		try_object(text, data[0] % 4 == 3, cut);
	else
		try_counter(text, cut);
	return 0;
}

size_t fuzz_example(unsigned i, const uint8_t **data)
{
#define SEED(s)                                                                                                                    \
	{                                                                                                                          \
		s, sizeof(s) - 1                                                                                                   \
	}
	static const struct {
		const char *text;
		size_t n;
	} seeds[] = {
		SEED("\0\7set f:q\tvalue\nset f:q@12\tv\\x00\\n\nappend g:a\\t\tx\ncommit\n"),
		SEED("\0\3increment c:n\t-5\nincrement c:n\t7\nset c:m\t 12 \ndelete f:\ndelete f:@\ndelete f:q@-1\ndelete row\ncommit"),
		SEED("\0\40check f:q\t\ncheck-absent f:q\ncheck-match f:q\ta.*b\ncommit\n"),
		SEED("\0\1check-absent g:x\\x401\nset g:x\\x401\tv\ncommit\n"),
		SEED("\1\20{\"row\":\"r\",\"sequence\":\"0123456789abcdef\",\"cells\":[\n{\"family\":\"f\",\"qualifier\":\"q\",\"timestamp\":1,"
		     "\"value\":\"v\"},\n{\"family\":\"g\",\"qualifier_base64\":\"/w==\",\"timestamp\":-9,\"value_base64\":\"/wA=\"}\n]}\n"),
		SEED("\1\1{\"cells\":[]}"),
		SEED("\1\2{\"cells\":[{\"family\":\"f\",\"qualifier\":\"\\u0000\\\"\\ud83d\\ude00\",\"value\":\"{[\"}],\"sequence\":null}"),
		SEED("\1\7{\"merge\":true,\"cells\":[{\"family\":\"f\",\"qualifier\":\"q\",\"value\":null}]}"),
		SEED("\3\7{\"f\":{\"q\":\"v\",\"base64:/w==\":\"base64:AA==\",\"gone\":null},\"g\":null}\n"),
		SEED("\2\2+=5\n-=7\n"),
		SEED("\2\1 -12 \n"),
		SEED("\2\3"
		     "9223372036854775807\n+=1\n"),
	};

	if (i >= sizeof(seeds) / sizeof(*seeds))
		return 0;
	*data = (const uint8_t *)seeds[i].text;
	return seeds[i].n;
}
