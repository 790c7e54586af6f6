/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names: keys to file names and back; pure functions (tabletfs-keys(7)).
 *
 * A name longer than NAME_LONGEST bytes is a path of several components: each
 * but the last is a "part", ends with a single '%' and is a directory.  Paths
 * here are components joined by '/', without a leading one.  A name never
 * contains '/' or NUL.
 *
 * One key has exactly one name.  Decoding accepts no other: it encodes its
 * result again and compares.
 *
 * Threads: any.  Errors: -ENOENT if a name is not canonical, -ENOMEM.
 */
#ifndef TFS_BASE_NAME_H
#define TFS_BASE_NAME_H

#include "engine/base/bytes.h"

#define NAME_LONGEST 255

enum name_kind {
	NAME_ROW,     /* key: a row key */
	NAME_NEWEST,  /* key: a qualifier, its plain name */
	NAME_VERSION, /* key: a qualifier, with a timestamp */
};

/* Appends the canonical path of a key; ts is used for NAME_VERSION only.  The empty row key has no name: -EINVAL. */
int name_encode(enum name_kind kind, struct tfs_bytes key, int64_t ts, struct buf *path) TFS_MUST;

/* Appends s with its escapes "%XX" replaced by their bytes.  -ENOENT: a '%' that begins none. */
int name_unescape(struct tfs_bytes s, struct buf *out) TFS_MUST;
/* The keys of canonical paths.  *key is replaced; unspecified on error. */
int name_decode_row(struct tfs_bytes path, struct buf *key) TFS_MUST;
int name_decode_cell(struct tfs_bytes path, struct buf *qualifier, enum name_kind *kind, int64_t *ts) TFS_MUST;
/* The text of a path that need not be canonical: any byte may be escaped, and the parts may have any length.  *text is replaced. */
int name_decode_text(struct tfs_bytes path, struct buf *text) TFS_MUST;

/* Returns true if the component is a part of a split name (a single '%' at its end). */
bool name_is_part(struct tfs_bytes component);
/* Returns true if a key's canonical name can begin with path, which has parts only.  *raw_n: the bytes of key and version in it. */
bool name_parts_valid(struct tfs_bytes path, size_t *raw_n);

/*
 * The keys below a directory of parts begin with raw, the decoded prefix. For
 * cells, text after the last '@' may also begin a timestamp; then split_version
 * is true, and qualifier is the qualifier of those versions.
 */
struct name_prefix {
	struct buf raw;
	struct buf qualifier;
	bool split_version;
};
int name_prefix_init(struct tfs_bytes path, bool cell, struct name_prefix *out) TFS_MUST;
void name_prefix_fini(struct name_prefix *p);

/*
 * The component of `path` directly below the directory `dir` (empty: the top).
 * Returns false if path is not below dir.  *last is set if it is the rest of path.
 */
bool name_component(struct tfs_bytes path, struct tfs_bytes dir, struct tfs_bytes *component, bool *last);

/* Reads a canonical decimal int64.  Returns false if text is not one. */
bool name_parse_ts(struct tfs_bytes text, int64_t *ts);

/* Sets *out to the first byte string after all that begin with s, or to an empty one. */
int key_after_prefix(struct tfs_bytes s, struct buf *out) TFS_MUST;

#endif
