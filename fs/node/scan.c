/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TABLE/.scan and the directories of clauses below it; and .run in each of them, with
 * directories of arguments, which runs the table's scripts.  A directory of clauses exists if its
 * clauses are valid.  Its key is one component of the path.  The keys of its
 * parents are the components before it.  So each order of the same clauses is a
 * directory of its own, and a long path is stored once.
 *
 * The user who looked a directory up is charged for it as long as the kernel holds
 * it (fs/base/user_count.h).
 */
#include "fs/node/kinds.h"

#include "fs/base/access.h"
#include "fs/base/notify.h"
#include "fs/base/reply.h"
#include "fs/base/user_count.h"
#include "fs/node/list.h"
#include "fs/node/schema/setting.h"
#include "fs/node/tree.h"
#include "fs/node/source.h"

#include <errno.h>

#define DROP_EVERY 2000

static int scan_name(struct node *n, struct buf *out)
{
	return n->key_n ? buf_append_bytes(out, node_key(n)) : buf_append(out, ".scan", 5);
}

static int scan_resolve(struct node *dir, const char *name, struct resolved *out)
{
	struct clauses c;
	int err;

	if (name[0] == '.')
		return -ENOENT;
	err = scan_clauses(dir, name, 0, &c);
	clauses_fini(&c);
	out->kind = NODE_SCAN;
	out->parent = dir;
	return err ? err : buf_set(&out->key, name, strlen(name));
}

/* The kernel keeps directories that no process uses any more, until it needs memory.  When it drops the name .scan, it also drops the directories below. */
static void drop_unused(struct node *table)
{
	struct changes c = {0};

	changes_entry(&c, table, tfs_str(".scan"));
	changes_send(&c);
}

/* Charges the asking user for n, unless a user is charged for it. */
static int scan_charge(struct node *dir, struct node *n)
{
	const uid_t uid = fs_asker_uid();
	int64_t count = user_take(USER_SCANS, uid, 1);
	bool charged;

	if (count < 0)
		return (int)count;
	if (count % DROP_EVERY == 0)
		drop_unused(node_table(dir));
	if (count == 0) /* the next call may find room */
		return refuse(-ENOSPC, dir, node_name(n), "a user has at most 10,000 directories of clauses in use");
	mutex_lock(tree_mutex());
	charged = n->size == 0;
	if (charged)
		n->size = (uint64_t)uid + 1;
	mutex_unlock(tree_mutex());
	if (!charged)
		user_give(USER_SCANS, uid, 1);
	return 0;
}

static int scan_find(struct node *dir, struct resolved *r, struct node **out)
{
	struct node *n;
	int err = resolved_get(r, &n);

	if (err)
		return err;
	if (n->key_n && n->size == 0)
		err = scan_charge(dir, n);
	if (err)
		node_put(n);
	else
		*out = n;
	return err;
}

static int render_help(struct node *n, struct buf *out)
{
	return clauses_help(out);
}

/* ---- the clauses as files ---- */

/*
 * A listing shows the clauses that can come next, as files NAME= that read as their help.  Some are
 * directories, because they are used without a value: an empty from= or to= is the table's end, as loops over
 * .tablets and .splits write it, and values and qualifiers may be empty.  No clauses are listed below them, so find ends.
 */
#define IS_DIRECTORY(clause)                                                                                                       \
	((clause) == CLAUSE_FROM || (clause) == CLAUSE_TO || (clause) == CLAUSE_STORED_FROM || (clause) == CLAUSE_STORED_TO ||     \
		(clause) == CLAUSE_VALUE_IS || (clause) == CLAUSE_QPREFIX || (clause) == CLAUSE_QFROM || (clause) == CLAUSE_QTO || \
		(clause) == CLAUSE_QAFTER || (clause) == CLAUSE_QUALIFIER || (clause) == CLAUSE_VALUE)
static int render_clause(struct node *n, struct buf *out);

static const struct setting scan_settings[] = {
/* The name "/" is never looked up. */
#define CLAUSE_SETTING(upper, clause, ...)                                                                                         \
	{.name = IS_DIRECTORY(CLAUSE_##upper) ? "/" : clause "=", .mode = 0444, .render = render_clause},
	CLAUSES(CLAUSE_SETTING){.name = ".help", .mode = 0444, .render = render_help}, {0}};

static int render_clause(struct node *n, struct buf *out)
{
	return clause_help((enum clause)(setting_of(n) - scan_settings), out);
}

static int list_clauses(struct lister *l, struct list_entry *e)
{
	static const char *const names[] = {
#define CLAUSE_NAME(upper, clause, ...) clause "=",
		CLAUSES(CLAUSE_NAME)};
	const struct tfs_bytes key = node_key(l->dir);
	struct clauses c;
	bool directory;
	int err = scan_clauses(l->dir, NULL, fs_now_us(), &c);
	const uint32_t given = c.partial || (key.n && key.p[key.n - 1] == '=') ? UINT32_MAX : c.given;

	clauses_fini(&c);
	if (err)
		return err;
	while (l->at.number < CLAUSE_COUNT && given >> l->at.number & 1)
		l->at.number++;
	if (l->at.number == CLAUSE_COUNT)
		return 0;
	directory = IS_DIRECTORY(l->at.number);
	*e = (struct list_entry){.name = tfs_str(names[l->at.number]),
		.kind = directory ? NODE_SCAN : NODE_SETTING,
		.parent = l->dir,
		.key = tfs_str(names[l->at.number]),
		.unsure = directory};
	l->at.number++;
	return 1;
}

#define STREAM_CHILD(upper, name, ...) {name, NODE_SCAN_STREAM},
static const struct fixed_child scan_children[] = {
	{".rows", NODE_VIEW}, {".latest", NODE_VIEW}, {".run", NODE_RUN}, SCAN_STREAMS(STREAM_CHILD){0}};

const struct node_ops scan_ops = {
	.traits = KIND_DIR | KIND_UNCACHED | KIND_SCAN,
	.name = scan_name,
	.attr = tree_attr,
	.children = scan_children,
	.settings = scan_settings,
	.resolve = scan_resolve,
	.find = scan_find,
	.list = (const list_phase_fn[]){list_clauses, NULL},
};

/* ---- .run ---- */

static int run_name(struct node *n, struct buf *out)
{
	return n->key_n ? buf_append_bytes(out, node_key(n)) : buf_append(out, ".run", 4);
}

/* Returns 0 if the table has the script, -ENOENT. */
static int script_exists(struct node *dir, struct tfs_bytes name)
{
	char text[TFS_SCRIPT_NAME_MAX + 1] = "";
	const struct tfs_schema *s;
	int err;

	if (name.n >= sizeof(text))
		return -ENOENT;
	memcpy(text, name.p, name.n);
	err = tfs_schema_get(node_store_table(dir), &s);
	if (err)
		return err;
	err = tfs_schema_script(s, text) ? 0 : -ENOENT;
	tfs_schema_put(s);
	return err;
}

struct tfs_bytes run_script_name(struct tfs_bytes name)
{
	static const char suffix[] = ".jsonl";

	if (name.n >= sizeof(suffix) && memcmp(name.p + name.n - (sizeof(suffix) - 1), suffix, sizeof(suffix) - 1) == 0)
		name.n -= sizeof(suffix) - 1;
	return name;
}

static int run_resolve(struct node *dir, const char *name, struct resolved *out)
{
	int err = 0;

	if (strncmp(name, "arg=", 4) != 0) {
		err = script_exists(dir, run_script_name(tfs_str(name)));
		out->kind = NODE_RUN_STREAM;
	} else {
		if (!strchr(name + 4, '='))
			err = refuse(-EINVAL, dir, name, "an argument is arg=KEY=VALUE");
		out->kind = NODE_RUN;
	}
	out->parent = dir;
	return err ? err : buf_set(&out->key, name, strlen(name));
}

static int list_runs(struct lister *l, struct list_entry *e)
{
	for (unsigned i = 0; i < l->schema->script_count; i++) {
		const struct tfs_bytes name = tfs_str(l->schema->scripts[i].name);

		if (bytes_cmp(name, buf_bytes(&l->at.key)) <= 0)
			continue;
		*e = (struct list_entry){.name = name, .kind = NODE_RUN_STREAM, .parent = l->dir, .key = name};
		return buf_set(&l->at.key, name.p, name.n) ? -ENOMEM : 1;
	}
	return 0;
}

const struct node_ops run_ops = {
	.traits = KIND_DIR | KIND_UNCACHED | KIND_SCAN,
	.name = run_name,
	.attr = tree_attr,
	.names = "a script of the table, or arg=KEY=VALUE",
	.resolve = run_resolve,
	.find = scan_find,
	.list = (const list_phase_fn[]){list_runs, NULL},
};
