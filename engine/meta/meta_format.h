/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of METADATA's columns and of the root file.  Big-endian; varint
 * is LEB128, lstr a varint length and that many bytes.  Every value begins
 * with u8 format (1).
 *
 *	tablet:begin   bytes to the end          tablet:seq  u64
 *	tablet:server  u64 incarnation  u64 assignment number
 *	tablet:clock, tablet:major, tablet:changes  i64
 *	tablet:tokens  to the end: u64 client  u64 number  lstr result; in rising
 *	               order, at least one
 *	sst:<u32 table, u64 incarnation, u64 number, u16 group>
 *		varints: bytes, raw bytes, cells, tombstones, row deletes,
 *		         family deletes, seq min, seq max
 *		i64 oldest  i64 newest
 *		u8 flags: 1 has an end, 2 first is begin (and not stored), 4 has commit
 *		lstr begin  [lstr end]  [lstr first]  lstr last  [i64 commit, not 0]
 *	redo:<u64 incarnation>  u64 LSN
 *	tablet:merge   a row in the root file's form
 *	event:         text to the end
 *
 * The root file:
 *	u32 magic "TFRT"  u16 format (1)  u32 table  u8 last  lstr begin  lstr end
 *	u64 server  u64 assignment  u64 seq  i64 clock  i64 major  i64 changes
 *	u32 count, files: 22 bytes as sst's qualifier, lstr its value
 *	u32 count, redo points: u64 incarnation  u64 LSN
 *	lstr tokens, as in tablet:tokens without the format byte, or empty
 *	u32 CRC-32C of all before
 *
 * The entry of a file must fit a cell whose value a scan returns (256 KiB), and four row keys
 * of 64 KiB do not.  If the entry would not fit, begin is stored in place of `first` or, if
 * `first` is below begin, `first` is cut.  It remains a lower bound, and on the same side of
 * begin (meta_file_normalise).
 */
#ifndef TFS_META_FORMAT_H
#define TFS_META_FORMAT_H

#include "engine/meta/meta.h"

#define META_SST_KEY_BYTES 22u
#define META_REDO_KEY_BYTES 8u

/* The columns of family META_TABLET. */
enum meta_column { C_BEGIN, C_SERVER, C_SEQ, C_CLOCK, C_MAJOR, C_CHANGES, C_TOKENS, C_MERGE, COLUMNS };
extern const char *const meta_column_names[COLUMNS];

void meta_sst_key_put(uint8_t key[META_SST_KEY_BYTES], const struct tablet_file *f);
bool meta_sst_key_get(struct tfs_bytes key, struct tablet_file *f);
void meta_file_normalise(struct tablet_file *f);                                  /* may cut `first` */
int meta_sst_value_encode(const struct tablet_file *f, struct buf *out) TFS_MUST; /* appends; f is normalised */
/* Decodes into f.  The caller has set the key members of f. f must own no memory in begin, end, first and last. */
int meta_sst_value_decode(struct tfs_bytes in, struct tablet_file *f) TFS_MUST;
int meta_u64_encode(uint64_t v, struct buf *out) TFS_MUST;
int meta_u64_decode(struct tfs_bytes in, uint64_t *v) TFS_MUST;
int meta_server_encode(uint64_t server, uint64_t assignment, struct buf *out) TFS_MUST;
int meta_server_decode(struct tfs_bytes in, uint64_t *server, uint64_t *assignment) TFS_MUST;
int meta_tokens_encode(const struct tablet_token *v, unsigned count, struct buf *out) TFS_MUST; /* count is at least 1 */
/* Adds the tokens to m's.  After an error some may have been added. */
int meta_tokens_decode(struct tfs_bytes in, struct meta_tablet *m) TFS_MUST;
int meta_bytes_encode(struct tfs_bytes v, struct buf *out) TFS_MUST;
int meta_bytes_decode(struct tfs_bytes in, struct tfs_bytes *v) TFS_MUST; /* borrows */

/* ---- meta_list.c ---- */

/* The order of files, here and in METADATA. */
int meta_file_order(const struct tablet_file *a, const struct tablet_file *b);
/*
 * Adds f in order.  If the list has an equal file, f replaces it if `replace` is set,
 * else f is dropped.  Takes *f over, also if it fails.
 */
int meta_files_add(struct meta_tablet *m, struct tablet_file *f, bool replace) TFS_MUST;
int meta_redo_add(struct meta_tablet *m, struct redo_point p, bool replace) TFS_MUST;
/* Copies result.  An equal token remains as it is. */
int meta_token_add(struct meta_tablet *m, uint64_t client, uint64_t number, struct tfs_bytes result) TFS_MUST;
/* The file of m's list with f's incarnation, number and group, or NULL. */
struct tablet_file *meta_find_file(const struct meta_tablet *m, const struct tablet_file *f);
/* Removes f, an element of m's list. */
void meta_file_drop(struct meta_tablet *m, struct tablet_file *f);

#endif
