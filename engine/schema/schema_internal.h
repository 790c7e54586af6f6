/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of engine/schema.  A draft is a struct schema with one
 * reference.  schema_draft or schema_clone makes the draft, and setters change
 * it.  schema_finish checks it; after that it must not change.  On error the
 * caller frees it with schema_put.
 */
#ifndef TFS_SCHEMA_INTERNAL_H
#define TFS_SCHEMA_INTERNAL_H

#include "engine/schema/schema.h"

#define SCHEMA_ENCODED_MAX (500 * 1024) /* below the limit of a file of the lock service */
#define SCHEMA_FAMILIES_MAX 1000u
#define SCHEMA_GROUPS_MAX 100u
#define SCHEMA_SPLITS_MAX 1000u
#define SCHEMA_SCRIPTS_MAX 64u
#define SCHEMA_SCRIPTS_BYTES (256u * 1024) /* the most bytes of all scripts of a table */
#define SCHEMA_GC_MAX 1024                 /* bytes of a GC rule */
#define SCHEMA_ACL_MAX 4096                /* bytes */
#define SCHEMA_SALT_MAX 255                /* a salt of N makes N ranges; the last one ends at the byte N */
#define SCHEMA_BLOCK_LEAST (1u << 10)      /* bytes */
#define SCHEMA_BLOCK_MOST (4u << 20)
#define SCHEMA_LEVEL 3                 /* the default level, also for codecs without levels */
#define SCHEMA_DEFAULT_GROUP "default" /* its id is 0 */

struct schema {
	struct tfs_schema pub;            /* must be first, because schema_of casts its address */
	uint32_t refs;                    /* atomic */
	uint32_t next_family, next_group; /* the next ids; 65536 if none is left */
	uint64_t made, changed;           /* schema_made, schema_changed */
	struct tfs_family *families;      /* malloc'd; schema_finish sets pub.families to it */
	struct tfs_group *groups;         /* the same */
	struct tfs_bytes *splits;         /* the same */
	struct tfs_script *scripts;       /* the same */
	char *text;                       /* malloc'd; a NUL follows it */
	struct arena arena;               /* memory of the strings */
};

/* These return NULL if out of memory. */
/*
 * Makes a draft without families, groups and scripts, with old's other settings and
 * the next generation.  old NULL: defaults.
 */
struct schema *schema_draft(const struct schema *old);
struct schema *schema_clone(const struct schema *old);    /* makes a complete copy with the next generation */
const char *draft_str(struct schema *s, const char *str); /* copies str to the draft's arena */
/*
 * Appends a family or group with default settings.  id < 0: takes the next id.
 * -EINVAL with a static *reason; -ENOMEM.
 */
int draft_family(struct schema *s, const char *name, int id, struct tfs_family **f, const char **reason) TFS_MUST;
int draft_group(struct schema *s, const char *name, int id, struct tfs_group **g, const char **reason) TFS_MUST;
struct tfs_family *draft_find_family(const struct schema *s, const char *name); /* NULL if there is none */
struct tfs_group *draft_find_group(const struct schema *s, const char *name);
struct tfs_group *draft_group_by_id(const struct schema *s, uint16_t id);
int draft_text(struct schema *s, const char *text, size_t n) TFS_MUST; /* copies the text */
/* Sorts by id; checks the families' groups and GC rules, and the sizes.  render: renders the text anew. */
int schema_finish(struct schema *s, bool render, const char **reason) TFS_MUST;

/* ---- splits.c ---- */
/* Appends a key, or the key of a text.  -EINVAL with a static *reason; -ENOMEM. */
int draft_split(struct schema *s, struct tfs_bytes key, const char **reason) TFS_MUST;
int draft_split_text(struct schema *s, const char *text, const char **reason) TFS_MUST;
/* Part of schema_finish: sorts the keys, checks that they differ and agree with the salt. */
int splits_finish(struct schema *s, const char **reason) TFS_MUST;
/* Appends the text of a key, for a string of libconfig. */
int split_render(const struct tfs_bytes *key, struct buf *out) TFS_MUST;

/* ---- scripts.c ---- */
/* Adds or replaces a script; copies name and text.  -EINVAL with a static *reason; -ENOMEM. */
int draft_script(struct schema *s, const char *name, struct tfs_bytes text, int64_t mtime_us, const char **reason) TFS_MUST;
int scripts_copy(struct schema *to, const struct schema *from) TFS_MUST; /* -ENOMEM */
/* Applies an edit of a script to the draft. */
int script_edit(struct schema *s, const struct tfs_schema_edit *e, int64_t now, const char **reason) TFS_MUST;

/* ---- attributes.c ---- */
enum value_form {
	VALUE_USER,
	VALUE_USER_GROUP,
	VALUE_MODE,
	VALUE_SIZE,
	VALUE_NUMBER,
	VALUE_SALT, /* a number that is not 1 */
	VALUE_DURATION,
	VALUE_BOOLEAN,
	VALUE_PROTECT,
	VALUE_GC,
	VALUE_GROUP,
	VALUE_TYPE,
	VALUE_ACL,
	VALUE_CODEC
};
/* An attribute of the table, or of a family or group. */
struct attribute {
	const char *name; /* its name in .schema */
	enum value_form form;
	size_t at, size; /* where the member of struct schema, tfs_family or tfs_group is */
	uint64_t least, most;
	const char *wanted;    /* the reason, if the value does not have the form or is not within the limits */
	enum tfs_schema_op op; /* the edit of a family or group that sets it, or 0 */
};
/* An attribute without a name ends the list. */
extern const struct attribute table_attributes[], family_attributes[], group_attributes[];
/* Checks the text of a value and stores it; target: s, or the family or group.  -EINVAL with a static *reason; -ENOMEM. */
int attribute_set(struct schema *s, void *target, const struct attribute *a, const char *value, const char **reason) TFS_MUST;
/* Sets *reason.  Returns -EINVAL. */
int schema_refuse(const char **reason, const char *text);
/* Checks, after all values of a group are set, that its level fits its codec.  -EINVAL with a static *reason. */
int group_fits(const struct tfs_group *g, const char **reason) TFS_MUST;

/* These write the text of a value to the caller's memory and return it. */
const char *value_user(uid_t uid, char name[256]); /* a name that maps to this uid; the number if there is none */
const char *value_group(gid_t gid, char name[256]);
int value_user_id(const char *name, uint32_t *id, const char **reason) TFS_MUST; /* a name or a number */
int value_group_id(const char *name, uint32_t *id, const char **reason) TFS_MUST;
/* acl.c */
#define ACL_ENTRIES_MAX 250u /* an xattr of the kernel has up to 511 */
struct acl_entries {
	/* Space for the entries of a snapshot and of its table, both owners and both groups (restrict.c). */
	struct tfs_acl_entry v[2 * ACL_ENTRIES_MAX + 4];
	unsigned count;
};
/* Sorts the entries, and appends them in the form of tfs_family.acl, and a NUL.  -EINVAL with a static *reason; -ENOMEM. */
int acl_print(struct acl_entries *all, struct buf *out, const char **reason) TFS_MUST;
int acl_show(const char *acl, struct buf *out) TFS_MUST; /* appends the form in .schema of tfs_family.acl, and a NUL */
bool acl_valid(const char *text, bool *no_memory);       /* returns true if the text has the form of tfs_family.acl */
int acl_store(struct schema *s, const char **acl, const char *value,
	const char **reason) TFS_MUST; /* sets an attribute of the form VALUE_ACL */
/* Adds the entry of the owning group if f has an ACL without it. */
int acl_finish(struct schema *s, struct tfs_family *f, const char **reason) TFS_MUST;
/* The text has the form that attribute_set reads. */
const char *value_duration(int64_t us, char text[32]);
const char *value_size(uint64_t bytes, char text[32]);
/* Returns true for valid UTF-8 without control bytes. */
bool text_printable(const char *s);
bool user_in_group(const struct tfs_user *user, gid_t gid); /* access.c */
/* Like tfs_may, but without regard to the table, and root is no exception. */
bool family_allows(const struct tfs_family *f, const struct tfs_user *user, unsigned bits);

/* Decodes the file tables/NAME to a draft (schema_format.c).  -EBADMSG, -EPROTO. */
int schema_decode_draft(struct tfs_bytes in, struct schema **out) TFS_MUST;
/* Appends the libconfig text of s (render.c).  Errors: -ENOMEM. */
int schema_render(const struct schema *s, struct buf *out) TFS_MUST;
/*
 * Sets *why to the text, with "line N: " in front unless line is 0.  Does
 * nothing if why is NULL.  Returns -EINVAL.
 */
int why_line(char **why, unsigned line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
