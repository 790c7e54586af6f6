/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table that is a mirror of another one (mirror.c).  All functions print a message
 * before they return an error, which is -errno.  Threads: one.
 */
#ifndef TFS_TOOL_MIRROR_MIRROR_H
#define TFS_TOOL_MIRROR_MIRROR_H

#include "engine/tool/transfer.h"

/* A family of the source, and its name and access when the target was last given the source's families. */
struct mirrored_family {
	uint16_t id;
	uint64_t access; /* a hash of owner, group, mode and ACL; 0: unknown */
	char name[TFS_NAME_MAX + 1];
};
/* What the target keeps of its mirror (state.c). */
struct mirror_state {
	char owner[17];              /* a random number of the process that writes the target */
	char source[64], target[32]; /* ids of the stores and tables, as texts */
	char token[TFS_TOKEN_MAX + 1];
	bool copying;                         /* the table is being copied; the changes behind the token follow */
	char copied_family[TFS_NAME_MAX + 1]; /* the copy continues behind this row; "" and n 0: at the start (diff_options) */
	struct buf copied_row;
	int64_t until_us; /* the time of commit of the last change that the target has, or of the copy's start */
	struct mirrored_family *families;
	unsigned family_count;
};

/* Mutations of the target that wait for writer_flush. */
struct writer {
	struct arena arena;
	struct tfs_mutation **v, *open; /* open: the last one; NULL: the next operation begins one */
	unsigned count, ops;            /* ops and open_bytes: of `open` */
	size_t bytes, open_bytes;
	struct tfs_bytes row;
	struct tfs_batch *batch;
	struct buf failed_row; /* the first row that the target refused */
	int failed;
};

struct mirror {
	struct place from, to;
	bool follow, restart;
	struct tfs_table *notes; /* TARGET.mirror */
	struct mirror_state s;
	struct writer w;
	uint64_t generation;         /* of the source's schema that the target's families have */
	int64_t saved_us;            /* when the state was saved, by the monotonic clock; 0: it has changed, and must be saved */
	uint64_t cells, rows, bytes; /* written */
	uint64_t compared;           /* cells of a copy */
	const char *ended;           /* the mirror has ended for good: a line that says why */
};

enum { MIRROR_CHUNK_BYTES = 4 << 20, MIRROR_MOST_BYTES = 128 << 20 /* that wait */ };

/* ---- state.c ---- */
/* Opens or makes the table of the state.  Loads the state; *known is set if there is one. */
int state_open(struct mirror *m, bool *known) TFS_MUST;
/* The state is this process's from now on. */
int state_take(struct mirror *m) TFS_MUST;
/* -ECANCELED: another process writes the target. */
int state_check(struct mirror *m) TFS_MUST;
int state_save(struct mirror *m) TFS_MUST;
/* Goes back to the state that was saved last. */
int state_again(struct mirror *m) TFS_MUST;
void state_close(struct mirror *m);

/* ---- write.c ---- */
int writer_init(struct mirror *m) TFS_MUST;
/* Forgets what waits. */
void writer_drop(struct mirror *m);
void writer_fini(struct mirror *m);
/* The next operations are of this row, in a mutation of their own. */
void writer_row(struct mirror *m, struct tfs_bytes row);
/*
 * Ends the mutation if it is large, and applies what waits if that is much.  The next operation begins another mutation of the row.
 * Returns 1 if it did, 0, or an error.
 */
int writer_split(struct mirror *m) TFS_MUST;
void writer_put(struct mirror *m, const char *family, struct tfs_bytes qualifier, int64_t ts, struct tfs_bytes value);
void writer_delete(struct mirror *m, const char *family, struct tfs_bytes qualifier, int64_t ts);
void writer_delete_column(struct mirror *m, const char *family, struct tfs_bytes qualifier);
void writer_delete_family(struct mirror *m, const char *family);
void writer_delete_row(struct mirror *m);
/* Puts a cell of a scan of the source, whose value may be too large for scans.  A cell that is gone is left out. */
int writer_put_cell(struct mirror *m, const struct tfs_cell *cell) TFS_MUST;
/* Makes the column of the row the same as in the source, where it is read now. */
int writer_column(struct mirror *m, const char *family, struct tfs_bytes qualifier) TFS_MUST;
/* Applies what waits.  On 0 it is on disk in the target. */
int writer_flush(struct mirror *m) TFS_MUST;
/* Removes all cells of the target, or those of the family. */
int writer_clear(struct mirror *m, const char *family) TFS_MUST;

/* ---- families.c ---- */
/* Returns -EACCES and names the family if the user may not read one of the source. */
int families_readable(struct mirror *m) TFS_MUST;
/* Gives the target the families of the source, their rules, and changes of their access.  Sets m->s.copying if a rule has changed. */
int families_follow(struct mirror *m) TFS_MUST;
uint64_t families_generation(struct mirror *m); /* of the source's schema; 0: it was dropped */
/* Returns true if a delete of a version may remove others, too, because the family's rule counts versions. */
bool family_counts(struct mirror *m, const char *name);

/* ---- copy.c, follow.c: 0 at the end, or when m->ended is set; -EINTR after a signal ---- */
int mirror_copy(struct mirror *m) TFS_MUST;
int mirror_follow(struct mirror *m) TFS_MUST;

/* Complains about a table, and returns err. */
int mirror_failed(const struct place *p, int err, const char *what);

#endif
