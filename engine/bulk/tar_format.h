/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of an archive of tar in the format pax (POSIX.1-2001), as bytes.
 * Threads: any.  Errors: -ENOMEM.
 */
#ifndef TFS_BULK_TAR_FORMAT_H
#define TFS_BULK_TAR_FORMAT_H

#include "engine/base/bytes.h"

#include <sys/types.h>

struct tar_entry {
	struct tfs_bytes path; /* the path of a directory has a '/' at its end */
	bool is_dir;
	mode_t mode; /* permission bits */
	uid_t uid;
	gid_t gid;
	uint64_t size;
	int64_t mtime_us;
};

/* Appends the header of an entry.  `size` bytes of content and tar_append_padding follow. */
int tar_append_header(struct buf *out, const struct tar_entry *e) TFS_MUST;
int tar_append_padding(struct buf *out, uint64_t size) TFS_MUST;
/* Appends the end mark to an archive that has `bytes` so far, and fills the last record of 10 KiB, as tar does. */
int tar_append_end(struct buf *out, uint64_t bytes) TFS_MUST;

#endif
