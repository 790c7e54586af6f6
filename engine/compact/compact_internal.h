/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compactions of a tablet (paper, section 5.4): what compact.c (merging and
 * major), compact_flush.c (minor), compact_task.c (the background),
 * compact_full.c (full disks), compact_run.c (entries in, files out), compact_sample.c (what dictionaries
 * are trained on), compact_filter.c (which entries stay) and compact_pick.c (policy) share.
 */
#ifndef TFS_STORE_COMPACT_INTERNAL_H
#define TFS_STORE_COMPACT_INTERNAL_H

#include "engine/compact/compact.h"
#include "engine/tablet/props_format.h"
#include "engine/tablet/tablet_state.h"

/* ---- which entries stay ---- */
struct filter_rules {
	const struct store_schema *schema;
	bool major;  /* all data of the tablet is in the input: no tombstone stays */
	bool counts; /* apply whole rules, as of count_asof; else age alone */
	int64_t count_asof, age_asof;
};
/* What is known of the entry that filter_key was given. */
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
	bool known, any_ts, hidden, keep_chunks;
	const struct gc_rule *rule;
	int64_t age, version_del_ts, last_ts;
	uint64_t index;
};
void filter_init(struct filter *f, const struct filter_rules *r);
void filter_fini(struct filter *f);
/* Entries in key order.  1 stays, 0 goes, -EBADMSG not a cell key, -ENOMEM. */
int filter_key(struct filter *f, struct slice key, struct filter_entry *e) TFS_MUST;

/* ---- entries in, files out ---- */
struct run_params {
	struct tablet *t;
	struct store_schema *schema;
	struct filter_rules rules;
	bool one_group; /* all output to `group`; else by family */
	uint16_t group;
	const struct file_set *in;          /* what merged reads; NULL: memtables */
	const struct view *present;         /* groups that have files: a row delete goes to each; may be NULL */
	struct store_schema *freeze_schema; /* for the outputs; NULL: not known */
	int64_t freeze_us;
	bool gives_way; /* -ECANCELED when a split waits */
	bool paced;     /* to env->compaction_rate */
	bool can_wait;  /* -ECANCELED when the disk is full */
	const struct iter
		*only; /* a child of merged: what is in none but its siblings is read for what it masks; NULL: all is written */
};
/* Does p->only have the key? */
static inline bool run_writes(const struct run_params *p, struct slice key)
{
	return !p->only || (p->only->valid && slice_eq(p->only->key, key));
}
/* Takes merged.  On 0 the files are written and synced, the directory too; on error they are removed. */
int compact_run(const struct run_params *p, struct iter *merged, struct file_set *out) TFS_MUST;

/* Must the compaction end before it is complete? */
static inline bool run_must_stop(const struct run_params *p)
{
	const struct tablet *t = p->t;

	return t->state == TABLET_CLOSING || (p->gives_way && t->split_wanted) || (p->can_wait && tablet_disk_full(t));
}
/*
 * Reads `it` (taken), a merge over p->in, without writing.  *kept: the bytes
 * that compact_run would write, before compression.  *all is set to true if it
 * would drop nothing.  any: only *all is wanted, so reading ends at the first
 * entry to be dropped.
 */
int compact_count(const struct run_params *p, struct iter *it, bool any, uint64_t *kept, bool *all) TFS_MUST;

/* ---- what dictionaries are trained on ---- */
struct group_sample {
	uint16_t group;
	struct sst_sample sample;
	struct buf unit; /* the next one */
};
struct samples {
	struct group_sample *v;
	unsigned n;
};
/* For the groups that want one; `merged` is left anywhere.  Also on error samples_fini. */
int samples_take(const struct run_params *p, struct iter *merged, struct samples *s) TFS_MUST;
const struct sst_sample *samples_of(const struct samples *s, uint16_t group); /* NULL: none */
void samples_fini(struct samples *s);

/* ---- policy ---- */
enum { COMPACT_MOST_FILES = 8 }; /* of one group, once merges are through */
/* A run of files adjacent in age within one group that should become one; n 0: none. The caller holds the tablet's lock. */
int compact_pick(const struct view *v, struct file_set *run) TFS_MUST;
/* How long after the last one, at the least, that a tablet has a major compaction, so that within_us is kept. */
int64_t compact_major_after(uint32_t table, struct slice begin, uint64_t within_us);
/*
 * By how much one is late, in microseconds; -1: there is nothing for it to do, or it is not time.
 * collect: as of when expired data may be collected.  A last one in the future was at a wrong clock: one is due.
 */
int64_t compact_major_late(
	const struct view *v, const struct store_schema *s, int64_t last_major_us, int64_t now, int64_t collect, int64_t after_us);

/* Would a major compaction free space?  Much has been removed, or whole rows and families, whose cells the files do not count. */
bool compact_frees_space(const struct view *v);
/* The rules that the file was written under are not known (they were stricter since, maybe), and no one has looked through it. */
bool compact_rules_unknown(const struct vfile *f, const struct store_schema *s);

/* ---- jobs ---- */
/* One merging compaction, if one is wanted; *did.  paced: to env->compaction_rate. */
int compact_merge(struct tablet *t, bool paced, bool *did) TFS_MUST;
int compact_major(struct tablet *t, bool background) TFS_MUST; /* background: gives way to a split, with -ECANCELED, and is paced */
/* Waits, holding nothing, until so many bytes more may have been written in the background. */
void compact_pace(struct tablet *t, uint64_t bytes);
/* A merging or major compaction. */
struct compact_job {
	struct file_set in, out;
	bool major;
	int64_t major_us; /* of a major one: when it began */
};
/* The caller holds t->lock. */
void compact_set_busy(struct tablet *t, const struct file_set *in, bool busy);
void compact_cancel_job(struct tablet *t, struct compact_job *j); /* takes j, whose files are busy no more */
/* All of them in one order, what the tablet may see of each. */
int compact_inputs(const struct file_set *in, const struct iter **first, struct iter **out) TFS_MUST;
/* Steps 2 to 5 over j->in, whose files are busy; takes j, and merged (NULL: of j->in). */
int compact_run_job(struct tablet *t, struct run_params *p, struct compact_job *j, struct iter *merged) TFS_MUST;
/* Installs what a merging or major compaction wrote and could not enter in METADATA.  Between job_begin and job_end of both. */
int compact_repeat_edits(struct tablet *t) TFS_MUST;
/* The same for one job; NULL: none. */
int compact_repeat_edit(struct tablet *t, struct compact_job *j) TFS_MUST;

/* ---- full disks ---- */
static inline bool no_space(int err)
{
	return err == -ENOSPC || err == -EDQUOT;
}
/* May a compaction write so many bytes?  env->space. */
bool compact_space(struct tablet *t, enum disk_use use, uint64_t bytes) TFS_MUST;
/* Is there space for a major compaction of these files?  Sets p->can_wait.  0 or -ENOSPC. */
int compact_major_space(struct tablet *t, struct run_params *p, const struct file_set *in) TFS_MUST;
/*
 * Rewrites single files without the removed cells, where that frees space and
 * fits.  *did is set if one was rewritten.  Between job_begin and job_end of
 * majoring.
 */
int compact_purge(struct tablet *t, bool background, bool *did) TFS_MUST;

/* What a freeze fixed. */
struct freeze {
	struct store_schema *schema; /* a reference */
	int64_t us;                  /* what expired by then may be collected */
	int64_t at_us;               /* the clock at that instant */
	bool counts; /* nothing judged before it is left out (to be replayed, or not frozen): whole rules may be applied */
};
/* Everything written so far is in files on 0.  Between job_begin of flushing and flush_end. */
int compact_flush_all(struct tablet *t, struct freeze *out) TFS_MUST;
void compact_flush_end(struct tablet *t, int err);
int compact_flush_now(struct tablet *t) TFS_MUST; /* all of these */
/* Drops a written flush that was never installed. */
void compact_flush_free(struct flush_job *j);
void compact_job_free(struct compact_job *j);
/* The tasks of a tablet. */
void compact_flush_task(struct task *task);
void compact_merge_task(struct task *task);
void compact_major_task(struct task *task);

#endif
