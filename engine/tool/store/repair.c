/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl repair: makes a damaged data directory one that a mount opens and
 * check finds clean, with all data that can still be read.
 *
 * It reads the store as check does (offline_*.c), except that it continues
 * after damage in a log (repair_log.c).  A dry run examines everything and
 * prints each damage, each step and each loss.  With --write, repair does the
 * same a second time, prints nothing, and carries the steps out.
 *
 * Durable steps:
 *	1 the lock service's journal is carried out, or removed if it is
 *	  damaged; damaged files of lock/ are written from their whole copy, or
 *	  removed
 *	2 lock/incarnation is raised above every incarnation in use, so that the
 *	  names of new files were never used
 *	3 damaged SSTables are written anew (repair_sst.c, while examining them)
 *	4 lock/ids, lock/store, and schemas (repair_schema.c)
 *	5 METADATA and the contents of damaged logs are written as a new log
 *	  (repair_write.c)
 *	6 lock/root is replaced: from here on METADATA is the new one
 *	7 lock/rows of snapshots and clones
 *	8 FORMAT
 * A file that is replaced, or that the next mount would remove, is first linked
 * in DATADIR/repair-NNNN.  After a crash between two steps the store may be
 * damaged, and may have files that nothing refers to.  Another repair does the
 * remaining steps.
 */
#include "engine/tool/store/repair.h"

#include "engine/tool/progress.h"

#include <errno.h>
#include <stdlib.h>

static int repair_read(struct repair *p)
{
	struct offline *store = &p->store;
	int err;

	*store = (struct offline){.dir = p->dir, .replay = repair_log_replay, .replay_arg = p};
	err = offline_locks(&p->r, store);
	if (!err) {
		/* Each file of the lock service is repaired by itself.  From here on this is about METADATA. */
		store->incomplete = false;
		err = offline_metadata(&p->r, store);
	}
	p->incarnation = (store->incarnation == UINT64_MAX ? 0 : store->incarnation) + 1;
	p->next_file = ((uint64_t)2 << 48) + 1; /* a user tablet's */
	for (unsigned i = 0; i < store->table_count; i++)
		for (unsigned k = 0; k < 3; k++) {
			const struct tfs_schema *s = store->tables[i].p;
			uint32_t id = k == 0 ? s->tablets_id : k == 1 ? s->table_id : s->snapshot_of;

			p->table_max = id > p->table_max ? id : p->table_max;
		}
	return err;
}

static int repair_all(struct repair *p)
{
	int err = repair_locks(p);

	/* When writing, the plan writes SSTables: their incarnation must be taken before. */
	if (!err && p->write)
		err = repair_incarnation(p);
	if (!err)
		err = repair_meta_plan(p);
	if (!err && !p->write)
		err = repair_incarnation(p);
	if (!err)
		err = repair_ids(p);
	if (!err)
		err = repair_identity(p);
	if (!err)
		err = repair_schemas(p);
	if (!err && p->write && p->rewrites_meta)
		err = repair_meta_write(p);
	if (!err)
		err = repair_rows(p);
	if (!err)
		err = repair_format(p);
	repair_meta_fini(p);
	return err;
}

static int repair_run(const struct arguments *a)
{
	struct repair p = {.r = {.to = stdout, .no_notes = true}, .dir = given(a->operand[0])};
	const unsigned *count = p.r.count;
	bool write = a->option['w'];
	uint64_t bytes;
	int err;

	if (!offline_is_store(p.dir)) {
		complain("%s: not a tabletfs data directory", p.dir);
		return EXIT_CANNOT;
	}
	if (offline_is_cluster(p.dir) || offline_look(p.dir))
		return EXIT_CANNOT;
	progress_begin(&(struct progress_options){.command = "repair",
		.done = "examined",
		.interrupted = write ? "run the same command again" : "nothing was changed"});
	bytes = offline_bytes(text("%s/sst", p.dir)) + offline_bytes(text("%s/log", p.dir));
	progress_total(bytes, false);
	err = write ? repair_make_held(&p) : 0;
	if (!err)
		err = repair_read(&p);
	if (!err)
		err = repair_all(&p);
	if (!err && write && count[REPORT_STEP]) {
		repair_ssts_fini(&p);
		repair_logs_fini(&p);
		p.write = p.r.repeated = true;
		progress_total(2 * bytes, false);
		err = repair_all(&p);
	}
	if (err == -ENOMEM)
		complain("%s: %s", p.dir, strerror(ENOMEM));
	progress_end();
	repair_ssts_fini(&p);
	offline_close(&p.store);
	repair_logs_fini(&p);
	report_fini(&p.r);
	if (!err && write)
		printf("%s: %s%s%s; %u steps, %u losses named above\n", p.dir,
			count[REPORT_STEP] ? "repaired" : "nothing to repair", p.aside ? "; replaced files are in " : "",
			p.aside ? p.aside : "", count[REPORT_STEP], count[REPORT_LOSS]);
	else if (!err)
		printf("%s: %u steps, %u losses named above; %s\n", p.dir, count[REPORT_STEP], count[REPORT_LOSS],
			count[REPORT_STEP] ? "nothing was changed: 'tabletctl repair --write' carries them out"
					   : "nothing to repair");
	if (err)
		return EXIT_CANNOT;
	return count[write ? REPORT_LOSS : REPORT_STEP] ? EXIT_DAMAGED : EXIT_CLEAN;
}

const struct command repair_command = {
	.name = "repair",
	.kinds = "f",
	.brief = "make a damaged data directory whole again",
	.usage = "usage: tabletctl repair [--write] DATADIR\n"
		 "\n"
		 "Examines a data directory that is not mounted, and prints each damage\n"
		 "(\"damaged: ...\"), each step of its repair (\"repair: ...\") and each loss\n"
		 "(\"lost: ...\").  Without --write nothing is changed.\n"
		 "\n"
		 "  --write   carries the steps out; replaced files stay in DATADIR/repair-NNNN,\n"
		 "            which may be removed\n"
		 "\n"
		 "Exit status: 0 nothing to repair, or repaired without loss; 1 there is something\n"
		 "to repair (with --write: repaired with the losses printed); 2 it could not be\n"
		 "repaired, or is in use.\n",
	.options = (const struct option[]){{"write", no_argument, NULL, 'w'}, {"help", no_argument, NULL, 'h'}, {0}},
	.least = 1,
	.most = 1,
	.run = repair_run,
};
