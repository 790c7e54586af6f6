/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of engine/compact: compact_pace.c (rate limit),
 * compact_pick.c (policy), compact_filter.c (which entries stay),
 * compact_sample.c (samples for dictionaries), compact_run.c (entries in, files
 * out), compact_changes.c (files of changes), compact_job.c (from input files to METADATA), compact_full.c (full
 * disks), compact_flush.c (minor), compact.c (merging and major),
 * compact_task.c (the background).  Each calls only those named before it.
 */
#ifndef TFS_COMPACT_INTERNAL_H
#define TFS_COMPACT_INTERNAL_H

#include "engine/base/file.h"
#include "engine/compact/compact.h"
#include "engine/tablet/props_format.h"
#include "engine/tablet/tablet_state.h"

/* ---- which entries stay ---- */
struct filter_rules {
	const struct store_schema *schema;
	bool major;  /* the input is all data of the tablet, so no tombstone stays */
	bool counts; /* apply the rules completely, as of count_asof; else age alone */
	int64_t count_asof, age_asof;
};
/* The parts of a key, set by filter_key. */
struct filter_entry {
	enum cell_kind kind;
	uint16_t family; /* 0: row delete */
	int64_t ts;
	uint64_t seq;
	size_t row_len, column_len;
};
struct filter {
	struct filter_rules rules;
	struct buf last; /* the previous key up to its column's end */
	size_t row_len;
	uint64_t row_del, family_del, column_del, version_del;
	uint16_t family;
	bool family_exists, any_ts, hidden;
	const struct gc_rule *rule;
	int64_t age, version_del_ts, last_ts;
	uint64_t index;
};
void filter_init(struct filter *f, const struct filter_rules *r);
void filter_fini(struct filter *f);
/* Must be called in key order.  Returns 1 if the entry stays, 0 if not, -EBADMSG (not a cell key), -ENOMEM. */
int filter_key(struct filter *f, struct tfs_bytes key, struct filter_entry *e) TFS_MUST;

/* ---- entries in, files out ---- */
struct run_params {
	struct tablet *t;
	struct filter_rules rules;
	bool one_group; /* all output belongs to `group`; if not set, the family of an entry decides */
	uint16_t group;
	const struct file_set *in;          /* the files of the merge; NULL: memtables */
	const struct view *present;         /* a row delete is written to each group that has files here; may be NULL */
	struct store_schema *freeze_schema; /* vfile.schema and vfile.freeze_us of the outputs */
	int64_t freeze_us;
	bool gives_way; /* -ECANCELED when a split waits */
	bool paced;     /* the compaction has the rate limit env->compaction_rate */
	bool can_wait;  /* -ECANCELED when the disk is full */
	bool for_user;  /* -ECANCELED when the store will be closed */
	/* A child of the merge: only its entries are written, and the other children are read for their tombstones.  NULL: all entries are written. */
	const struct iter *only;
};
/* Returns the locality group whose options apply to entries of a family.  Under one_group its id may be another (p->group was dropped). */
static inline const struct store_group *run_group(const struct run_params *p, uint16_t family)
{
	const struct store_family *f = store_schema_family(p->rules.schema, family);

	return store_schema_group(p->rules.schema, p->one_group ? p->group : f ? f->group : 0);
}
/* Returns true for the codecs that flushes replace by lz4. */
static inline bool codec_is_slow(enum sst_codec codec)
{
	return codec == SST_ZSTD || codec == SST_ZSTD_DICT;
}
/* Returns true if the entry is written. */
static inline bool run_writes(const struct run_params *p, struct tfs_bytes key)
{
	return !p->only || (p->only->valid && bytes_eq(p->only->key, key));
}
/* Sets *dir to the path of the directory of the tablet's files, which exists durably on 0.  The caller frees it. */
int compact_make_dir(struct tablet *t, char **dir) TFS_MUST;
/* The names of new files in the directory are durable on 0.  Before METADATA names them. */
int compact_sync_dir(const char *dir) TFS_MUST;
/* Takes merged.  On 0 the files and their directory are synced; on error the files are removed. */
int compact_run(const struct run_params *p, struct iter *merged, struct file_set *out) TFS_MUST;

/* Returns true if the compaction must end before it is complete. */
static inline bool run_must_stop(const struct run_params *p)
{
	const struct tablet *t = p->t;

	return t->state == TABLET_CLOSING || (p->in && t->leaves) || (p->gives_way && t->split_wanted) ||
		(p->can_wait && tablet_disk_full(t)) || (p->for_user && t->env->will_close && *t->env->will_close);
}
/*
 * Reads `it` (taken), a merge over p->in, without writing.  *kept is set to the
 * bytes that compact_run would write, before compression; *all to true if it
 * would drop nothing.  any: the caller needs *all only, so reading ends at the
 * first entry that would be dropped.
 */
int compact_count(const struct run_params *p, struct iter *it, bool any, uint64_t *kept, bool *all) TFS_MUST;

/* ---- changes ---- */
/* Adds a file with the changes of the frozen memtables to `out`, if they have any. */
int compact_changes_flush(struct tablet *t, const struct tablet_freeze *f, struct file_set *out) TFS_MUST;
/*
 * Removes files of changes that have expired, and merges files.  *did is set if it has changed something.
 * Between tablet_job_begin and tablet_job_end of merging.
 */
int compact_changes(struct tablet *t, bool *did) TFS_MUST;
/* Removes all files of changes. */
int compact_changes_purge(struct tablet *t) TFS_MUST;

/* ---- samples for dictionaries ---- */
struct group_sample {
	uint16_t group;
	struct sst_sample sample;
	struct buf unit; /* the entries of the next block */
};
struct samples {
	struct group_sample *v;
	unsigned n;
};
/* Used for the groups that have a dictionary.  Moves `merged`.  samples_fini in any case. */
int samples_take(const struct run_params *p, struct iter *merged, struct samples *s) TFS_MUST;
const struct sst_sample *samples_of(const struct samples *s, uint16_t group); /* NULL: none */
void samples_fini(struct samples *s);

/* ---- policy ---- */
enum { COMPACT_MOST_FILES = 8 }; /* the most files of one group, after all merges */
/* The next merge: files of one group, adjacent in age; n 0: none.  The caller holds the tablet's lock. */
int compact_pick(const struct view *v, struct file_set *run) TFS_MUST;
/* Returns the time from a tablet's last major compaction to the next, so that removed cells are off the disk within_us. */
int64_t compact_major_after(uint32_t table, struct tfs_bytes begin, uint64_t within_us);
/*
 * Returns by how much a major compaction is late, in microseconds; -1: it has
 * nothing to do, or is not due.  collect: as of when expired data may be
 * collected.  If the last major compaction was in the future, the clock was
 * wrong, and a major compaction is due.
 */
int64_t compact_major_late(
	const struct view *v, const struct store_schema *s, int64_t last_major_us, int64_t now, int64_t collect, int64_t after_us);

/* Returns true if the file has families that do not belong to it now, or is as a flush wrote it while its group has a slow codec. */
bool compact_misplaced(struct vfile *f, const struct store_schema *s);
/* Returns true if the rules under which the file was written are unknown and it was not read since.  It may have cells that the current rules hide. */
bool compact_rules_unknown(const struct vfile *f, const struct store_schema *s);

/* ---- jobs ---- */
/* One merging compaction, if the policy has one; *did.  paced: to env->compaction_rate. */
int compact_merge(struct tablet *t, bool paced, bool *did) TFS_MUST;
/* background: paced, ends with -ECANCELED when a split waits, and only repeats a failed edit if the files need no more. */
int compact_major(struct tablet *t, bool background) TFS_MUST;
/* Waits as long as the rate limit requires for these bytes.  The caller holds no lock. */
void compact_pace(struct tablet *t, uint64_t bytes);
/* A merging or major compaction. */
struct compact_job {
	struct file_set in, out;
	bool major;
	int64_t major_us; /* when a major compaction began */
};
/* The caller holds t->lock. */
void compact_set_busy(struct tablet *t, const struct file_set *in, bool busy);
void compact_cancel_job(struct tablet *t, struct compact_job *j); /* takes j; its files are no longer busy */
/* A merge of the tablet's parts of the files.  *first (may be NULL): its first child. */
int compact_inputs(const struct file_set *in, const struct iter **first, struct iter **out) TFS_MUST;
/* Steps 2 to 5 over j->in, whose files are busy.  Takes j, and merged (NULL: a merge of j->in). */
int compact_run_job(struct tablet *t, struct run_params *p, struct compact_job *j, struct iter *merged) TFS_MUST;
/* Returns true if the files call for a major compaction. */
bool compact_wants_major(struct tablet *t) TFS_MUST;
int compact_repeat_edits(struct tablet *t) TFS_MUST; /* tablet_compactor.repeat_edits */
/* Repeats the edit of one job, which may be NULL. */
int compact_repeat_edit(struct tablet *t, struct compact_job *j) TFS_MUST;

/* ---- full disks ---- */
/* Returns true if a compaction may write these bytes (env->space). */
bool compact_space(struct tablet *t, enum disk_use use, uint64_t bytes) TFS_MUST;
/* Returns 0 if a major compaction of these files may be written, else -ENOSPC.  Sets p->can_wait. */
int compact_major_space(struct tablet *t, struct run_params *p, const struct file_set *in) TFS_MUST;
/*
 * Rewrites single files without the removed cells, where that frees space and
 * fits.  *did is set if one was rewritten.  Between tablet_job_begin and tablet_job_end of
 * majoring.
 */
int compact_purge(struct tablet *t, bool background, bool *did) TFS_MUST;

/* On 0 everything written so far is in files.  Between tablet_job_begin of flushing and compact_flush_end. */
int compact_flush_all(struct tablet *t, struct tablet_freeze *out) TFS_MUST;
void compact_flush_end(struct tablet *t, int err);
int compact_flush_now(struct tablet *t) TFS_MUST; /* does all steps of a minor compaction */
/* Drops a written flush that was never installed. */
void compact_flush_free(struct flush_job *j);
void compact_job_free(struct compact_job *j);
/* Tasks of a tablet. */
void compact_merge_task(struct task *task);
void compact_major_task(struct task *task);

#endif
