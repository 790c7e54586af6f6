/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TABLE/.scan and the directories of clauses below it.  A directory exists if
 * its clauses are valid.  Its key is the path of clauses, so each order of the
 * same clauses is a directory of its own.
 */
#include "fs/node/kinds.h"

#include "engine/base/name.h"
#include "fs/base/reply.h"
#include "fs/node/list.h"
#include "fs/node/setting.h"
#include "fs/node/tree.h"
#include "fs/node/view.h"

#include <errno.h>

static const char *const scan_streams[] = {".tsv", ".jsonl", ".tar", ".keys", ".count"};

static int scan_name(struct node *n, struct buf *out)
{
	return buf_printf(out, ".scan%s%s", n->key_n ? "/" : "", node_name(n));
}

static int add_component(struct node *dir, const char *name, struct buf *path)
{
	int err = buf_append_slice(path, node_key(dir));

	if (err == 0 && path->n)
		err = buf_u8(path, '/');
	return err ? err : buf_append(path, name, strlen(name));
}

static int resolve_clause(struct node *dir, const char *name, struct resolved *out)
{
	struct clauses c;
	int err;

	out->kind = NODE_SCAN;
	out->parent = node_table(dir);
	err = add_component(dir, name, &out->key);
	if (err)
		return err;
	if (out->key.n > 4 * TFS_ROW_MAX)
		return -ENAMETOOLONG;
	err = scan_clauses(dir, name, buf_slice(&out->key), 0, &c);
	clauses_fini(&c);
	return err;
}

static int scan_resolve(struct node *dir, const char *name, struct resolved *out)
{
	if (name[0] != '.')
		return resolve_clause(dir, name, out);
	for (size_t i = 0; i < sizeof(scan_streams) / sizeof(*scan_streams); i++) {
		if (strcmp(name, scan_streams[i]) != 0)
			continue;
		if (fs.no_open)
			return refuse(-EOPNOTSUPP, dir, name,
				"a read-only mount has no streams: read .scan/.rows, or unmount and use tabletctl export");
		out->kind = NODE_SCAN_STREAM;
		out->parent = dir;
		return buf_set(&out->key, name, strlen(name));
	}
	if (strcmp(name, ".rows") != 0 && strcmp(name, ".latest") != 0)
		return -ENOENT;
	out->kind = NODE_VIEW;
	out->parent = node_table(dir);
	return add_component(dir, name, &out->key);
}

static int render_help(struct node *n, struct buf *out)
{
	return clauses_help(out);
}

static const struct setting scan_settings[] = {{.name = ".help", .mode = 0444, .render = render_help}, {0}};

const struct node_ops scan_ops = {
	.traits = KIND_DIR | KIND_UNCACHED | KIND_SCAN,
	.name = scan_name,
	.attr = tree_attr,
	.settings = scan_settings,
	.resolve = scan_resolve,
	.list = (const list_phase_fn[]){NULL},
};
