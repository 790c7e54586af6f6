/* SPDX-License-Identifier: Apache-2.0 */
/* A handle for a user reads, scans and writes only the families that owner, group, mode and the table's mode allow. */
#include "t/engine/lib.h"

#include "engine/schema/schema.h"

enum { OWNER = 1001, OTHER = 1002, STAFF = 100 };

static void change(struct tfs_schema_edit e)
{
	assert_int_equal(tfs_schema_change(table, &e, NULL), 0);
}

static void chmod_family(const char *family, mode_t mode)
{
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_MODE, .name = family, .mode = mode});
}

static struct tfs_table *as(uid_t uid, gid_t gid, gid_t extra)
{
	struct tfs_table *t;

	assert_int_equal(
		tfs_table_as(table, &(struct tfs_user){.uid = uid, .gid = gid, .groups = &extra, .group_count = 1}, &t), 0);
	return t;
}

/* The cells that a scan of all families returns, as "ROW/FAMILY ". */
static const char *seen(struct tfs_table *t, enum tfs_scan_what what)
{
	static char text[200];
	struct tfs_scan_spec spec = {.what = what};
	struct tfs_scan *s;
	struct tfs_cell c;
	int n;

	text[0] = 0;
	assert_int_equal(tfs_scan_new(t, &spec, &s), 0);
	while ((n = tfs_scan_next(s, &c)) > 0)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.*s/%s ", (int)c.row.n, (const char *)c.row.p,
			what == TFS_SCAN_ROWS ? "" : c.family);
	tfs_scan_free(s);
	if (n)
		snprintf(text, sizeof(text), "error %d", n);
	return text;
}

static int read_cell(struct tfs_table *t, const char *family)
{
	struct tfs_info info;

	return tfs_stat(t, TFS_S("r"), family, TFS_S("q"), TFS_AUTO, &info);
}

static int write_cell(struct tfs_table *t, const char *family)
{
	return store_put(t, TFS_S("r"), family, TFS_S("q"), tfs_at(1), TFS_S("1"), 0);
}

/* Opens the store with cells r/f, r/g and s/g.  f: 0640, of OWNER and STAFF; g: 0600, of root. */
static void open_all(void)
{
	open_store();
	assert_int_equal(write_cell(table, "f"), 0);
	assert_int_equal(write_cell(table, "g"), 0);
	assert_int_equal(store_put(table, TFS_S("s"), "g", TFS_S("q"), tfs_at(1), TFS_S("1"), 0), 0);
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_OWNER, .name = "f", .uid = OWNER, .gid = STAFF});
	chmod_family("f", 0640);
	chmod_family("g", 0600);
}

static void families(void **state)
{
	struct tfs_table *owner, *group, *other, *root;
	bool exists;

	open_all();
	owner = as(OWNER, OWNER, OWNER);
	group = as(OTHER, OTHER, STAFF);
	other = as(OTHER, OTHER, OTHER);
	root = as(0, 0, 0);
	assert_string_equal(seen(table, TFS_SCAN_CELLS), "r/f r/g s/g ");
	assert_string_equal(seen(root, TFS_SCAN_CELLS), "r/f r/g s/g ");
	assert_string_equal(seen(owner, TFS_SCAN_CELLS), "r/f ");
	assert_string_equal(seen(owner, TFS_SCAN_ROWS), "r/ ");
	assert_string_equal(seen(group, TFS_SCAN_FAMILIES), "r/f ");
	assert_string_equal(seen(other, TFS_SCAN_KEYS), "");
	assert_int_equal(read_cell(owner, "f"), 0);
	assert_int_equal(read_cell(owner, "g"), -EACCES);
	assert_int_equal(read_cell(group, "f"), 0);
	assert_int_equal(read_cell(other, "f"), -EACCES);
	assert_int_equal(read_cell(other, "none"), -EINVAL);
	assert_int_equal(write_cell(owner, "f"), 0);
	assert_int_equal(write_cell(owner, "g"), -EACCES);
	assert_int_equal(write_cell(group, "f"), -EACCES);
	assert_int_equal(write_cell(root, "g"), 0);
	assert_int_equal(tfs_row_exists(owner, TFS_S("r"), NULL, &exists), 0);
	assert_true(exists);
	assert_int_equal(tfs_row_exists(owner, TFS_S("s"), NULL, &exists), 0);
	assert_false(exists);
	assert_int_equal(tfs_row_exists(owner, TFS_S("s"), "g", &exists), -EACCES);
	/* At once. */
	chmod_family("f", 0600);
	assert_int_equal(read_cell(group, "f"), -EACCES);
	chmod_family("f", 0606);
	assert_int_equal(write_cell(group, "f"), -EACCES);
	assert_int_equal(write_cell(other, "f"), 0);
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_MODE, .mode = 0700});
	assert_int_equal(read_cell(other, "f"), -EACCES);
	tfs_table_close(root);
	tfs_table_close(other);
	tfs_table_close(group);
	tfs_table_close(owner);
	close_store();
}

static void scan_named(void **state)
{
	struct tfs_table *owner;
	const char *names[] = {"f", "g"};
	struct tfs_scan_spec spec = {.families = names, .family_count = 1, .reverse = true};
	struct tfs_scan *s;
	struct tfs_cell c;

	open_all();
	owner = as(OWNER, OWNER, OWNER);
	assert_int_equal(tfs_scan_new(owner, &spec, &s), 0);
	assert_int_equal(tfs_scan_next(s, &c), 1);
	assert_int_equal(tfs_scan_next(s, &c), 0);
	tfs_scan_free(s);
	spec.family_count = 2;
	assert_int_equal(tfs_scan_new(owner, &spec, &s), 0);
	assert_int_equal(tfs_scan_next(s, &c), -EACCES);
	tfs_scan_free(s);
	tfs_table_close(owner);
	close_store();
}

/* Returns the error of a mutation of row r with one operation. */
#define APPLY(t, add, ...)                                                                                                         \
	({                                                                                                                         \
		struct tfs_mutation *m_ = tfs_mutation_new(t, TFS_S("r"));                                                         \
		store_apply(m_, add(m_, ##__VA_ARGS__), 0);                                                                        \
	})

static void mutations(void **state)
{
	struct tfs_table *other;
	struct tfs_bytes q = TFS_S("q"), none = {0};
	struct tfs_batch *b;
	struct tfs_mutation *m;

	open_all();
	other = as(OTHER, OTHER, OTHER);
	chmod_family("f", 0642);
	assert_int_equal(APPLY(other, tfs_mutation_put, "f", q, TFS_AUTO, TFS_S("1")), 0);
	assert_int_equal(APPLY(other, tfs_mutation_set_time, "f", q, INT64_MAX - 1), 0);
	assert_int_equal(APPLY(other, tfs_mutation_check, TFS_CHECK_EXISTS, "f", q, TFS_AUTO, none), -EACCES);
	assert_int_equal(APPLY(other, tfs_mutation_increment, "f", q, 1), -EACCES);
	assert_int_equal(APPLY(other, tfs_mutation_move, "f", q, TFS_AUTO, "f", TFS_S("p"), TFS_AUTO, false), -EACCES);
	assert_int_equal(APPLY(other, tfs_mutation_delete_row), -EACCES);
	chmod_family("f", 0646);
	assert_int_equal(APPLY(other, tfs_mutation_increment, "f", q, 1), 0);
	assert_int_equal(APPLY(other, tfs_mutation_move, "f", q, TFS_AUTO, "g", q, TFS_AUTO, false), -EACCES);
	assert_int_equal(APPLY(other, tfs_mutation_move, "g", q, TFS_AUTO, "f", q, TFS_AUTO, false), -EACCES);
	assert_int_equal(APPLY(other, tfs_mutation_delete_family, "g"), -EACCES);
	assert_int_equal(APPLY(other, tfs_mutation_delete_column, "f", q), 0);
	assert_string_equal(seen(table, TFS_SCAN_CELLS), "r/g s/g ");
	/* A mutation of the table's own handle is not this user's. */
	m = tfs_mutation_new(table, TFS_S("r"));
	assert_int_equal(tfs_mutation_put(m, "g", q, TFS_AUTO, q), 0);
	assert_int_equal(tfs_batch_new(other, NULL, &b), 0);
	assert_int_equal(tfs_batch_add(b, m), -EINVAL);
	tfs_mutation_free(m);
	for (int i = 0; i < 10; i++) {
		m = tfs_mutation_new(other, i % 2 ? TFS_S("x") : TFS_S("y"));
		assert_int_equal(tfs_mutation_put(m, i == 5 ? "g" : "f", q, TFS_AUTO, q), 0);
		assert_int_equal(tfs_batch_add(b, m), 0);
		tfs_mutation_free(m);
	}
	assert_int_equal(tfs_batch_close(b), -EACCES);
	assert_string_equal(seen(other, TFS_SCAN_FAMILIES), "x/f y/f ");
	tfs_table_close(other);
	close_store();
}

/* Groups that are not known: the stricter of group and others holds.  Owner, a named user and root are not concerned. */
static void unknown_groups(void **state)
{
	static const struct {
		uid_t uid;
		gid_t gid;
		mode_t mode;
		const char *acl;
		unsigned may, known, unknown; /* of TFS_MAY_READ and TFS_MAY_WRITE */
	} cases[] = {
		{0, 0, 0600, "", 6, 6, 6}, {OWNER, 9, 0600, "", 6, 6, 6}, {OWNER, 9, 0066, "", 6, 0, 0},
		{OTHER, 9, 0644, "", 6, 4, 4}, {OTHER, 9, 0604, "", 6, 4, 0}, {OTHER, 9, 0640, "", 6, 0, 0},
		{OTHER, STAFF, 0640, "", 6, 4, 4}, /* the group of the process itself is known */
		{OTHER, STAFF, 0604, "", 6, 0, 0}, {OTHER, 9, 0666, "u:1002:r--,g::rw-", 6, 4, 4},
		{OTHER, 9, 0666, "u:1002:---,g::rw-", 6, 0, 0}, {OTHER, 9, 0666, "g::rw-,g:7:---", 6, 6, 0},
		{OTHER, 9, 0666, "g::rw-,g:7:r--", 6, 6, 4}, {OTHER, 9, 0646, "g::rw-,g:7:rw-", 6, 6, 4}, /* the mask */
		{OTHER, 7, 0660, "g::---,g:7:rw-", 6, 6, 6},
		{OTHER, 7, 0666, "g::rw-,g:7:---", 6, 0, 0}, /* whether in another group, too, is not known */
		{OTHER, 9, 0606, "g::rw-,g:7:rw-", 6, 6, 0}, /* without a mask the ACL is not used */
	};
	const struct tfs_schema s = {.mode = 0711};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct tfs_family f = {.uid = OWNER, .gid = STAFF, .mode = cases[i].mode, .acl = cases[i].acl};
		struct tfs_user u = {.uid = cases[i].uid, .gid = cases[i].gid};

		for (unsigned bit = 2; bit <= 4; bit += 2) {
			u.groups_unknown = false;
			if (tfs_may(&s, &f, &u, bit) != !!(cases[i].known & bit))
				fail_msg("case %zu, known, bit %u", i, bit);
			u.groups_unknown = true;
			if (tfs_may(&s, &f, &u, bit) != !!(cases[i].unknown & bit))
				fail_msg("case %zu, unknown, bit %u", i, bit);
		}
	}
}

/* Changes of the schema through a handle for a user are checked by the master. */
static void schema_changes(void **state)
{
	struct tfs_table *owner, *other, *snap;
	struct tfs_schema_edit add = {.op = TFS_SCHEMA_FAMILY_ADD, .name = "new", .uid = OTHER, .gid = OTHER, .mode = 0600};
	struct tfs_schema_edit e = {.op = TFS_SCHEMA_FAMILY_GC, .name = "g", .value = "maxversions=1"};
	struct tfs_snapshot u;

	open_all();
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_OWNER, .uid = OWNER, .gid = OWNER});
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_MODE, .mode = 0777});
	owner = as(OWNER, OWNER, OWNER);
	other = as(OTHER, OTHER, OTHER);
	/*
	 * While mkdir in a row makes families, each user who may write to the table may
	 * make families and owns them.
	 */
	assert_int_equal(tfs_schema_change(other, &add, NULL), 0);
	add.name = "new2";
	add.uid = OWNER;
	assert_int_equal(tfs_schema_change(other, &add, NULL), -EPERM);
	add.uid = OTHER;
	add.gid = STAFF;
	assert_int_equal(tfs_schema_change(other, &add, NULL), -EPERM);
	add.gid = OTHER;
	add.explicit_act = true;
	assert_int_equal(tfs_schema_change(other, &add, NULL), -EACCES);
	add.explicit_act = false;
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_MODE, .mode = 0755});
	assert_int_equal(tfs_schema_change(other, &add, NULL), -EACCES);
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_MODE, .mode = 0777, .while_open = true});
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ADD, .name = "closes", .mode = 0600, .explicit_act = true});
	add = (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_MODE, .name = "new", .mode = 0666, .while_open = true};
	assert_int_equal(tfs_schema_change(table, &add, NULL), -ECANCELED);
	/* All else is the owner's. */
	assert_int_equal(tfs_schema_change(other, &e, NULL), -EACCES);
	e.op = TFS_SCHEMA_FAMILY_DROP;
	assert_int_equal(tfs_schema_change(other, &e, NULL), -EACCES);
	e.op = TFS_SCHEMA_HIDE;
	assert_int_equal(tfs_schema_change(other, &e, NULL), -EACCES);
	e.op = TFS_SCHEMA_TABLE_MODE;
	assert_int_equal(tfs_schema_change(other, &e, NULL), -EPERM);
	assert_int_equal(tfs_schema_set_text(other, TFS_S("families = ();\n"), TFS_NO_TIME, NULL), -EACCES);
	assert_int_equal(tfs_snapshot_create(other, "s"), -EACCES);
	assert_int_equal(tfs_table_clone(other, "copy"), -EACCES);
	assert_int_equal(tfs_snapshot_create(owner, "s"), 0);
	assert_int_equal(tfs_snapshot_drop(other, "s"), -EACCES);
	assert_int_equal(tfs_snapshot_open(other, "s", &snap), 0);
	assert_int_equal(tfs_table_clone(snap, "copy"), -EACCES);
	assert_int_equal(tfs_snapshot_usage(snap, &u), 0);
	tfs_table_close(snap);
	assert_int_equal(tfs_snapshot_drop(owner, "s"), 0);
	/* A family's mode is its owner's, not the table's. */
	e = (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_MODE, .name = "g", .mode = 0666};
	assert_int_equal(tfs_schema_change(owner, &e, NULL), -EPERM);
	assert_int_equal(tfs_schema_change(other, &e, NULL), -EPERM);
	e.name = "f";
	assert_int_equal(tfs_schema_change(owner, &e, NULL), 0);
	e = (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_OWNER, .name = "f", .uid = (uid_t)-1, .gid = OWNER};
	assert_int_equal(tfs_schema_change(other, &e, NULL), -EPERM);
	assert_int_equal(tfs_schema_change(owner, &e, NULL), 0);
	e.gid = 4711;
	assert_int_equal(tfs_schema_change(owner, &e, NULL), -EPERM);
	e = (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_OWNER, .name = "f", .uid = OTHER, .gid = (gid_t)-1};
	assert_int_equal(tfs_schema_change(owner, &e, NULL), -EPERM);
	e = (struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_GC, .name = "g", .value = "maxversions=1"};
	assert_int_equal(tfs_schema_change(owner, &e, NULL), 0);
	tfs_table_close(owner);
	tfs_table_close(other);
	close_store();
}

static struct tfs_table *snapshot_as(uid_t uid, gid_t extra)
{
	struct tfs_table *user = as(uid, uid, extra), *snap;

	assert_int_equal(tfs_snapshot_open(user, "s", &snap), 0);
	tfs_table_close(user);
	return snap;
}

/* In a snapshot the stricter of the rules of its instant and of the present ones holds. */
static void snapshot(void **state)
{
	struct tfs_table *owner, *group, *clone;
	const struct tfs_schema *s;
	bool exists;

	open_all();
	assert_int_equal(tfs_snapshot_create(table, "s"), 0);
	owner = snapshot_as(OWNER, OWNER);
	group = snapshot_as(OTHER, STAFF);
	assert_string_equal(seen(owner, TFS_SCAN_CELLS), "r/f ");
	assert_string_equal(seen(group, TFS_SCAN_CELLS), "r/f ");
	assert_int_equal(read_cell(owner, "g"), -EACCES);
	chmod_family("f", 0600);
	assert_string_equal(seen(owner, TFS_SCAN_CELLS), "r/f ");
	assert_string_equal(seen(group, TFS_SCAN_CELLS), "");
	assert_int_equal(read_cell(group, "f"), -EACCES);
	assert_int_equal(tfs_row_exists(group, TFS_S("r"), NULL, &exists), 0);
	assert_false(exists);
	/* The attributes are what the kernel checks. */
	assert_int_equal(tfs_schema_get(group, &s), 0);
	assert_int_equal(tfs_schema_family(s, "f")->mode, 0600);
	tfs_schema_put(s);
	/* A mode that is now more open than then. */
	chmod_family("g", 0644);
	assert_int_equal(read_cell(group, "g"), -EACCES);
	chmod_family("f", 0666);
	assert_int_equal(read_cell(group, "f"), 0);
	/* The table. */
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_MODE, .mode = 0700});
	assert_int_equal(read_cell(group, "f"), -EACCES);
	assert_int_equal(read_cell(owner, "f"), -EACCES);
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_MODE, .mode = 0755});
	/* Another owner: each of the two rules must allow it. */
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_OWNER, .name = "f", .uid = OTHER, .gid = (gid_t)-1});
	chmod_family("f", 0600);
	assert_int_equal(read_cell(owner, "f"), -EACCES);
	chmod_family("f", 0644);
	assert_int_equal(read_cell(owner, "f"), 0);       /* then the owner, who is now another user */
	assert_int_equal(read_cell(group, "f"), -EACCES); /* now the owner, then by a group, which may not be theirs any more */
	/* An ACL. */
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_OWNER, .name = "f", .uid = OWNER, .gid = (gid_t)-1});
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ACL, .name = "f", .value = "u:1002:---,g::r--", .mode = 0640});
	assert_int_equal(read_cell(group, "f"), -EACCES);
	assert_int_equal(read_cell(owner, "f"), 0);
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ACL, .name = "f", .value = "u:1003:r--,g::r--", .mode = 0640});
	assert_int_equal(read_cell(group, "f"), 0);
	tfs_table_close(group);
	group = snapshot_as(1003, 1003); /* named now, not then */
	assert_int_equal(read_cell(group, "f"), -EACCES);
	/* A clone of the snapshot is no way round. */
	chmod_family("f", 0600);
	tfs_table_close(group);
	assert_int_equal(tfs_snapshot_open(table, "s", &clone), 0);
	assert_int_equal(tfs_table_clone(clone, "copy"), 0);
	tfs_table_close(clone);
	assert_int_equal(tfs_table_open(store, "copy", &clone), 0);
	assert_int_equal(tfs_schema_get(clone, &s), 0);
	assert_int_equal(tfs_schema_family(s, "f")->mode & 0077, 0);
	assert_non_null(strstr(s->text, "0600"));
	tfs_schema_put(s);
	tfs_table_close(clone);
	/* A family that was deleted, or made again under its name, has the rules of the instant. */
	assert_int_equal(store_delete_row(table, TFS_S("r")), 0);
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_DROP, .name = "f"});
	group = snapshot_as(OTHER, STAFF);
	assert_int_equal(read_cell(group, "f"), 0);
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ADD, .name = "f", .mode = 0600});
	assert_int_equal(read_cell(group, "f"), 0);
	/* The table keeps its rules under another name. */
	assert_int_equal(tfs_table_rename(store, "t", "renamed", true), 0);
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_MODE, .mode = 0700});
	assert_int_equal(read_cell(group, "f"), -EACCES);
	tfs_table_close(group);
	tfs_table_close(owner);
	close_store();
}

/* For random rules then and now, a user may do in the snapshot at most what both allow, and exactly that if nothing but modes has changed. */
static void random_rules(void **state)
{
	static const char *const acls[] = {"", "u:1001:rw-,g::r--", "u:1002:---,g::rw-", "g::---,g:100:rw-", "g::rw-,g:7:---",
		"u:1001:r--,u:1003:rw-,g::r--,g:7:rw-"};
	const struct tfs_schema open = {.mode = 0711};
	unsigned r = 4711, allowed = 0, equal = 0;

	for (int i = 0; i < 3000; i++) {
		struct tfs_family f[2];
		const struct tfs_family *shown;
		struct schema *s[2], *both;
		bool modes_only;

		for (int k = 0; k < 2; k++) {
			struct schema *with;

			assert_int_equal(schema_new("t", 20, 1001, 1, 0755, 1, &s[k]), 0);
			r = r * 1103515245u + 12345u;
			f[k] = (struct tfs_family){.uid = 1001 + (r >> 16) % 2,
				.gid = (r >> 18) % 2 ? 100 : 7,
				.mode = (r >> 20) & 0666,
				.acl = acls[(r >> 10) % 6]};
			assert_int_equal(schema_edit(s[k],
						 &(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ADD,
							 .name = "f",
							 .uid = f[k].uid,
							 .gid = f[k].gid,
							 .mode = 0},
						 1, &with, NULL),
				0);
			schema_put(s[k]);
			s[k] = with;
			assert_int_equal(
				schema_edit(s[k],
					&(struct tfs_schema_edit){
						.op = TFS_SCHEMA_FAMILY_ACL, .name = "f", .value = f[k].acl, .mode = f[k].mode},
					1, &with, NULL),
				0);
			schema_put(s[k]);
			s[k] = with;
			f[k] = *tfs_schema_family(schema_public(s[k]), "f");
		}
		modes_only = f[0].uid == f[1].uid && f[0].gid == f[1].gid && !*f[0].acl && !*f[1].acl;
		assert_int_equal(schema_restrict(s[0], s[1], false, &both), 0);
		shown = tfs_schema_family(schema_public(both), "f");
		for (unsigned n = 0; n < 3 * 8 * 3; n++) {
			static const gid_t gids[] = {100, 7, 1};
			const gid_t groups[] = {n / 3 & 1 ? 100 : 50, n / 3 & 2 ? 7 : 50};
			const struct tfs_user u = {
				.uid = 1001 + n % 3, .gid = n / 3 & 4 ? gids[n / 24] : 50, .groups = groups, .group_count = 2};

			for (unsigned may = 2; may <= 6; may += 2) {
				const bool is = tfs_may(&open, shown, &u, may);
				const bool wanted = tfs_may(&open, &f[0], &u, may) && tfs_may(&open, &f[1], &u, may);

				if (is > wanted || (modes_only && is != wanted))
					fail_msg("%o %u:%u %s and %o %u:%u %s give %o %u:%u %s", f[0].mode, f[0].uid, f[0].gid,
						f[0].acl, f[1].mode, f[1].uid, f[1].gid, f[1].acl, shown->mode, shown->uid,
						shown->gid, shown->acl);
				allowed += wanted;
				equal += is && wanted;
			}
		}
		schema_put(both);
		schema_put(s[0]);
		schema_put(s[1]);
	}
	print_message("# %u of %u rights that both rules allow\n", equal, allowed);
	assert_true(equal > allowed / 2);
}

/* A pattern that takes too many steps ends a scan, which shows what it was compared with.  Keys and values that the user may not read are not. */
static void patterns(void **state)
{
	const struct tfs_bytes slow = TFS_S("(x+x+)+[yz]"), all_x = TFS_S("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	const struct tfs_bytes gone = TFS_S("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	struct tfs_table *owner;

	open_all();
	owner = as(OWNER, OWNER, OWNER);
	/*
	 * A row, a qualifier and a value of the family g, which the user may not read; a
	 * row in which the cells that the user may read were all removed.
	 */
	assert_int_equal(store_put(table, all_x, "g", all_x, tfs_at(1), all_x, 0), 0);
	assert_int_equal(store_put(table, gone, "f", all_x, tfs_at(1), all_x, 0), 0);
	assert_int_equal(store_delete_row(table, gone), 0);
	for (int i = 0; i < 6; i++) {
		struct tfs_scan_spec spec = {.what = TFS_SCAN_CELLS, .reverse = i > 2};
		struct tfs_scan *s;
		struct tfs_cell c;
		int n;

		*(i % 3 == 0 ? &spec.row_regex : i % 3 == 1 ? &spec.qualifier_regex : &spec.value_regex) = slow;
		for (int k = 0; k < 2; k++) {
			assert_int_equal(tfs_scan_new(k ? table : owner, &spec, &s), 0);
			do
				n = tfs_scan_next(s, &c);
			while (n > 0);
			assert_int_equal(n, k ? -ETIME : 0);
			tfs_scan_free(s);
		}
	}
	tfs_table_close(owner);
	close_store();
}

static int tablet_seen(void *arg, const struct tfs_tablet *t)
{
	return 0;
}

static void tablets(void **state)
{
	struct tfs_table *owner, *other;
	struct tfs_usage u;

	open_all();
	change((struct tfs_schema_edit){.op = TFS_SCHEMA_TABLE_OWNER, .uid = OWNER, .gid = OWNER});
	owner = as(OWNER, OWNER, OWNER);
	other = as(OTHER, OTHER, OTHER);
	assert_int_equal(tfs_usage(owner, NULL, &u), 0);
	assert_int_equal(tfs_usage(owner, "g", &u), 0);
	assert_int_equal(tfs_usage(other, NULL, &u), -EACCES);
	assert_int_equal(tfs_tablets(owner, tablet_seen, NULL), 0);
	assert_int_equal(tfs_tablets(other, tablet_seen, NULL), -EACCES);
	assert_int_equal(tfs_flush(owner), 0);
	assert_int_equal(tfs_flush(other), -EACCES);
	assert_int_equal(tfs_compact(other), -EACCES);
	assert_int_equal(tfs_split(other, TFS_S("s")), -EACCES);
	assert_int_equal(tfs_table_truncate(other, NULL), -EACCES);
	assert_int_equal(tfs_split(owner, TFS_S("s")), 0);
	assert_int_equal(tfs_merge(other, TFS_S("r")), -EACCES);
	/* A scan over several tablets omits the family in each. */
	assert_string_equal(seen(other, TFS_SCAN_CELLS), "");
	chmod_family("g", 0604);
	assert_string_equal(seen(other, TFS_SCAN_CELLS), "r/g s/g ");
	assert_int_equal(tfs_table_truncate(owner, NULL), 0);
	assert_string_equal(seen(owner, TFS_SCAN_CELLS), "");
	tfs_table_close(owner);
	tfs_table_close(other);
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(families, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(scan_named, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(mutations, setup_options, test_dir_teardown),
		cmocka_unit_test(unknown_groups),
		cmocka_unit_test_setup_teardown(schema_changes, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(snapshot, setup_options, test_dir_teardown),
		cmocka_unit_test(random_rules),
		cmocka_unit_test_setup_teardown(patterns, setup_options, test_dir_teardown),
		cmocka_unit_test_setup_teardown(tablets, setup_options, test_dir_teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
