/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control files: gc, compression, .tablets, .ctl, metrics, log and others.  A
 * directory's kind lists its control files (node_ops.settings); a new one is a
 * line in that list.  Reading a control file reads the text rendered at open.
 *
 * Threads: any; engine calls are made.
 */
#ifndef TFS_FS_NODE_SETTING_H
#define TFS_FS_NODE_SETTING_H

#include "fs/base/node_ops.h"
#include "fs/file/file.h"

struct setting {
	const char *name;
	mode_t mode;
	/* Appends the text.  NULL: it is empty. */
	int (*render)(struct node *n, struct buf *out);
	/* Applies the text written since the last call, on behalf of the user who opened the file.  It ends in a newline, except at flush.  NULL: the file can only be read. */
	int (*apply)(struct node *n, struct tfs_bytes text, const struct caller *caller, struct changes *c);
	enum tfs_schema_op op; /* the edit that apply makes, for a setting that is in the schema */
	/* The log: descriptors read lines as they are logged; the size depends on the descriptors. */
	int (*read)(struct descriptor *h, uint64_t offset, void *buf, size_t n, size_t *got);
	uint64_t (*size)(struct node *n, uint64_t size);
	unsigned most; /* if not 0, the name is followed by a dot and a number from 1 to `most` */
};

/* Returns the number at the end of a name such as .splits.8; 0: there is none, or the name is not in this form. */
static inline unsigned setting_number(const char *name)
{
	const char *dot = strrchr(name, '.');
	unsigned n = 0;

	if (!dot || dot[1] < '1')
		return 0;
	for (const char *p = dot + 1; *p; p++) {
		if (*p < '0' || *p > '9' || p - dot > 9)
			return 0;
		n = 10 * n + (unsigned)(*p - '0');
	}
	return n;
}

/* Returns true if the entry has this name. */
static inline bool setting_is(const struct setting *s, const char *name)
{
	const size_t n = strlen(s->name);
	const unsigned number = s->most ? setting_number(name) : 0;

	if (!s->most)
		return strcmp(s->name, name) == 0;
	return number > 0 && number <= s->most && strncmp(s->name, name, n) == 0 && name + n == strrchr(name, '.');
}

/* The entry of n, a NODE_SETTING. */
const struct setting *setting_of(const struct node *n);
/* The phase of node_ops.list that lists the control files.  Without it they are hidden, as a table's are. */
int setting_list(struct lister *l, struct list_entry *e);
/* node_ops.resolve of a directory that has control files only. */
int setting_resolve(struct node *dir, const char *name, struct resolved *out);
/* node_ops.rename: EPERM. */
int setting_rename(struct renaming *m);
/* Loads the text of n, a control file, for a descriptor.  -ESTALE: n does not exist any more. */
int setting_load(struct node *n, struct content *w) TFS_MUST;
/* Returns true if the text is too large.  Sets w->error then, so that nothing of it is applied. */
bool setting_too_large(struct content *w);
/* node_ops.read of the bytes that were loaded at open, or written. */
int setting_read_staged(struct descriptor *h, uint64_t offset, void *buf, size_t n, size_t *got);

#endif
