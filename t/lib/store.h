/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a store, makes a table with families, writes and deletes rows: the
 * set-up of the tests of whole stores.  Each function returns 0 or -errno.
 */
#ifndef TFS_T_LIB_STORE_H
#define TFS_T_LIB_STORE_H

#include "t/lib/open_hooks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Prints the reason of an error as a TAP comment. */
static inline int store_open(const char *dir, const struct tfs_options *options, struct open_hooks *hooks, struct tfs_store **store)
{
	char *why = NULL;
	int err = tfs_open_hooked(dir, options, hooks, store, &why);

	if (err)
		printf("# %s: %s\n", dir, why ? why : "");
	free(why);
	return err;
}

static inline int store_family_add(struct tfs_table *t, const char *family)
{
	return tfs_schema_change(t, &(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_ADD, .name = family, .mode = 0644}, NULL);
}

static inline int store_family_drop(struct tfs_table *t, const char *family)
{
	return tfs_schema_change(t, &(struct tfs_schema_edit){.op = TFS_SCHEMA_FAMILY_DROP, .name = family}, NULL);
}

/* Makes a table with one family for each letter of `families`.  *t is NULL after an error. */
static inline int store_table_make(struct tfs_store *store, const char *name, const char *families, struct tfs_table **t)
{
	int err = tfs_table_create(store, name, 0, 0, 0755);

	*t = NULL;
	if (!err)
		err = tfs_table_open(store, name, t);
	if (err)
		return err;
	for (; *families && !err; families++)
		err = store_family_add(*t, (char[2]){*families, '\0'});
	if (err) {
		tfs_table_close(*t);
		*t = NULL;
	}
	return err;
}

/* For requests to a server: the numbers of the table's tablets and of a family.  0: its schema cannot be read. */
static inline uint32_t store_tablets_id(struct tfs_table *t)
{
	const struct tfs_schema *s;
	uint32_t id;

	if (tfs_schema_get(t, &s))
		return 0;
	id = s->tablets_id;
	tfs_schema_put(s);
	return id;
}

static inline uint16_t store_family_id(struct tfs_table *t, const char *family)
{
	const struct tfs_schema *s;
	const struct tfs_family *f;
	uint16_t id;

	if (tfs_schema_get(t, &s))
		return 0;
	f = tfs_schema_family(s, family);
	id = f ? f->id : 0;
	tfs_schema_put(s);
	return id;
}

/* Major compactions of the default compression train a dictionary for 0.1 s.  After this call they do not. */
static inline int store_no_dictionary(struct tfs_table *t)
{
	return tfs_schema_change(
		t, &(struct tfs_schema_edit){.op = TFS_SCHEMA_GROUP_COMPRESSION, .name = "default", .value = "zstd"}, NULL);
}

/* Applies the mutation, unless err is not 0 or m is NULL, and frees it. */
static inline int store_apply(struct tfs_mutation *m, int err, unsigned flags)
{
	if (!m)
		return -ENOMEM;
	if (!err)
		err = tfs_apply(m, flags, NULL);
	tfs_mutation_free(m);
	return err;
}

static inline int store_put(struct tfs_table *t, struct tfs_bytes row, const char *family, struct tfs_bytes qualifier,
	struct tfs_ts ts, struct tfs_bytes value, unsigned flags)
{
	struct tfs_mutation *m = tfs_mutation_new(t, row);

	return store_apply(m, m ? tfs_mutation_put(m, family, qualifier, ts, value) : 0, flags);
}

static inline int store_delete_row(struct tfs_table *t, struct tfs_bytes row)
{
	struct tfs_mutation *m = tfs_mutation_new(t, row);

	return store_apply(m, m ? tfs_mutation_delete_row(m) : 0, 0);
}

#endif
