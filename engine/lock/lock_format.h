/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of the local lock service: its files and its journal; and a
 * cluster's marker.  All integers are big-endian.  No I/O takes place here.
 *
 * A file and the journal are each two copies (base/copies.h) of an envelope
 * (base/envelope.h).
 * A file, magic "TFLF":
 *	u64 version   the file's contents
 * The journal of one multi-operation, magic "TFLJ":
 *	u32 count
 *	count times: u8 kind (1 put, 2 remove)  lstr name
 *	             put only: u64 version  lstr contents
 * lstr is a LEB128 length and that many bytes.
 * An envelope is also in the contents of the file `cluster`, and twice in
 * DIR/cluster (marker.h), magic "TFCL":
 *	u64 id, not 0   u8 1 if complete, else 0
 * An envelope is the contents of the file `store` (identity.h), magic "TFID":
 *	16 bytes id   32 bytes secret
 *
 * Errors of decoders: -EBADMSG: malformed input; -EPROTO: a format of a later
 * version of this program.
 */
#ifndef TFS_LOCK_FORMAT_H
#define TFS_LOCK_FORMAT_H

#include "engine/base/copies.h"

#define LOCK_CONTENTS_MAX (1024 * 1024) /* lock.h limits new contents to less */
#define LOCK_STEPS_MAX 64u
#define LOCK_COMPONENT_MAX 128
#define LOCK_NAME_MAX (2 * LOCK_COMPONENT_MAX + 1)
/* Above the size of the largest file or journal. */
#define LOCK_FILE_BYTES_MAX (2 * (LOCK_CONTENTS_MAX + COPIES_APART))
#define LOCK_JOURNAL_BYTES_MAX (2 * ((size_t)LOCK_STEPS_MAX * (LOCK_CONTENTS_MAX + LOCK_NAME_MAX + 32) + COPIES_APART))

/* One change of a file.  version and contents are the file's after a put. */
struct lock_step {
	bool remove;
	char name[LOCK_NAME_MAX + 1];
	uint64_t version;
	struct tfs_bytes contents; /* borrowed */
};

/* Returns true for at most two components [A-Za-z0-9_.-]+ other than "." and ".." (lock.h). */
bool lock_name_valid(const char *name);

int lock_file_encode(struct tfs_bytes contents, uint64_t version, struct buf *out) TFS_MUST; /* appends */
/* *contents borrows from in.  One good copy suffices.  *whole: set to true if both are good, else to false. */
int lock_file_decode(struct tfs_bytes in, struct tfs_bytes *contents, uint64_t *version, bool *whole) TFS_MUST;
int lock_journal_encode(const struct lock_step *steps, unsigned count, struct buf *out) TFS_MUST; /* appends */
/* *steps is malloc'd and borrows contents from in.  One good copy suffices. */
int lock_journal_decode(struct tfs_bytes in, struct lock_step **steps, unsigned *count) TFS_MUST;
#define LOCK_CLUSTER_BYTES 23u
int lock_cluster_encode(uint64_t id, bool complete, struct buf *out) TFS_MUST; /* appends */
int lock_cluster_decode(struct tfs_bytes in, uint64_t *id, bool *complete) TFS_MUST;
#define LOCK_ID_BYTES 16u
#define LOCK_SECRET_BYTES 32u
struct lock_identity {
	uint8_t id[LOCK_ID_BYTES];
	uint8_t secret[LOCK_SECRET_BYTES];
};
int lock_identity_encode(const struct lock_identity *identity, struct buf *out) TFS_MUST; /* appends */
int lock_identity_decode(struct tfs_bytes in, struct lock_identity *identity) TFS_MUST;

#endif
