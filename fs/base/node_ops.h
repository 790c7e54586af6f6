/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of a kind of node.  Each kind has one table, in a file of
 * fs/node; NODE_KINDS (node.h) names it.  Requests come to fs/request, which
 * does the part that all kinds have in common, and calls these operations.
 *
 * An operation that a kind does not have is NULL; the comment states the result
 * of that.  Errors are -errno.  No caller holds the tree lock, unless an
 * operation says so.
 */
#ifndef TFS_FS_BASE_NODE_OPS_H
#define TFS_FS_BASE_NODE_OPS_H

#include "fs/base/fs.h"

struct caller;
struct changes;
struct descriptor;
struct lister;
struct list_entry;
struct listing;
struct setting;
struct content;
struct sequential_ops;

/* The meaning of a name in a directory, whether or not the node exists. */
struct resolved {
	enum node_kind kind;
	struct node *parent; /* the parent of the node; borrowed */
	struct node *held;   /* the parent if it is no directory of the path, counted; or NULL */
	struct buf
		key; /* the node's key; a table's name and, before fs_schema_bind, a family's or group's name stand in its place */
	int64_t ts;
	bool forbidden; /* with -ENOENT: creating such a name is EPERM, not EINVAL */
};

/* A name with a meaning of its own in a directory. */
struct fixed_child {
	const char *name;
	enum node_kind kind;
};

/* mkdir, or the creation of a file. */
struct making {
	struct node *dir;
	const char *name;
	bool is_dir;
	mode_t mode;
	const struct fuse_ctx *ctx;
	struct changes *c;
};

struct renaming {
	fuse_req_t req;
	struct node *dir, *newdir;
	const char *name, *newname;
	bool noreplace;
	struct resolved from, to;
	struct node *source;
	struct caller *
		caller; /* the user who renames scratch, who must be permitted to read it, because more users may read the target */
	struct changes *c;
};

typedef int (*list_phase_fn)(struct lister *l, struct list_entry *e);

struct node_ops {
	unsigned traits; /* enum node_trait */

	/* ---- any node ---- */
	const char *fixed_name;
	/*
	 * Appends n's name in its parent, or the path of a long name.  -ENOENT: n has
	 * no name any more, and out has a text for messages.  NULL: fixed_name, or the
	 * key.
	 */
	int (*name)(struct node *n, struct buf *out);
	/* At the call *timeout is node_entry_timeout(n). */
	int (*attr)(struct node *n, struct stat *st, double *timeout);
	/* chmod and chown.  NULL: the attributes are the schema's, and stay as they are. */
	int (*set_owner)(struct node *n, const struct stat *attr, int to_set, struct changes *c);
	/* Sets the time of a file; us is never 0.  NULL: nothing is set. */
	int (*set_time)(struct node *n, int64_t us, struct changes *c);
	/* Called for a LOOKUP before attr.  An error is the answer.  NULL: nothing is called. */
	int (*looked_up)(struct node *n);

	/* ---- a directory ---- */
	const char *const *reserved;        /* names that a later version will use: refused.  NULL-terminated */
	const struct fixed_child *children; /* ends with a NULL name */
	const struct setting *settings;     /* control files (fs/node/schema/setting.h); ends with a NULL name */
	const char *names;   /* for a refusal, a text that states which names can be made here; NULL: canonical names of keys */
	const char *no_dirs; /* for a refusal, a text that states why no directory can be made here; NULL: a general text */
	/* Resolves a name that is in none of these lists.  -ENOENT: nothing can have this name here.  NULL: the same. */
	int (*resolve)(struct node *dir, const char *name, struct resolved *out);
	/* The phases of the listing, in order; ends with NULL (fs/node/list.h). */
	const list_phase_fn *list;
	/* rmdir.  The caller has checked that n has no extra entries.  NULL: EPERM, or ENOTDIR for a file. */
	int (*rmdir)(struct node *n, const char *name, struct changes *c);
	/* Sets *has if a cell is stored below the row, family or part. */
	int (*has_cells)(struct node *n, bool *has);

	/* ---- the kind that a name was resolved to ---- */
	/* Sets *out to the node, counted; -ENOENT if it does not exist.  NULL: a node is made, and `exists` is asked. */
	int (*find)(struct node *dir, struct resolved *r, struct node **out);
	/* Returns 0, or -ENOENT if the node does not exist.  NULL: it always exists. */
	int (*exists)(struct node *n);
	/* Makes the node, which does not exist; *out is counted.  -ESTALE: the name means something else by now.  NULL: refused. */
	int (*make)(const struct making *m, struct resolved *r, struct node **out);
	/* unlink.  NULL: EPERM, or EISDIR for a directory. */
	int (*unlink)(struct node *dir, struct resolved *r, struct changes *c);
	/* Renames a node of this kind.  NULL: EXDEV. */
	int (*rename)(struct renaming *m);
	/* Renames a scratch file to a node of this kind.  NULL: EPERM. */
	int (*take_scratch)(struct renaming *m);
	/* Sets *p for a listing without a read from the store.  Returns false if it cannot.  NULL: false; the node is found by name. */
	bool (*list_attr)(const struct listing *a, struct node *n, const struct list_entry *e, struct fuse_entry_param *p);

	/* A sequential file (fs/file/sequential.h).  NULL: it is none. */
	const struct sequential_ops *sequential;

	/* ---- control files, called by fs/file ---- */
	int (*open)(struct node *n, struct content *w, bool writable, bool truncate);
	/* Appends the text.  *when, unless NULL: the time at which it was made. */
	int (*text)(struct node *n, struct buf *out, int64_t *when);
	/* Reads through a descriptor, under the file's lock. */
	int (*read)(struct descriptor *h, uint64_t offset, void *buf, size_t n, size_t *got);
	/* Called after a write that ended at `end`, under the file's lock. */
	int (*written)(struct node *n, struct content *w, uint64_t end, struct changes *c);
	/* Called at flush, and at release with last set, under the file's lock. */
	int (*commit)(struct node *n, struct content *w, bool last, struct changes *c);
	/* Sets n to the content of w, the writer of a scratch file that was renamed to n; under that file's lock. */
	int (*apply)(struct node *n, struct content *w, struct changes *c);
};

static inline const struct node_ops *node_ops(const struct node *n)
{
	return kind_ops((enum node_kind)n->kind);
}

/* ---- common to all kinds ---- */
/* How long the kernel may use n's name without asking. */
double node_entry_timeout(const struct node *n);
/* -ESTALE: n does not exist any more. */
int node_attr(struct node *n, struct stat *st, double *timeout) TFS_MUST;
/* Attributes and timeouts for an answer after which the kernel holds n. */
int node_entry(struct node *n, struct fuse_entry_param *e) TFS_MUST;
/* The node that a name was resolved to, made if there is none; counted. */
int resolved_get(const struct resolved *r, struct node **out) TFS_MUST;
/* node_ops.make of a file that needs no more than a node. */
int resolved_make(const struct making *m, struct resolved *r, struct node **out);
/* Reads a control file without a descriptor, on a read-only mount. */
int node_read_text(struct node *n, uint64_t offset, void *buf, size_t size, size_t *got) TFS_MUST;
/* Appends n's name, as ops->name does. */
int node_append_name(struct node *n, struct buf *out) TFS_MUST;

#endif
