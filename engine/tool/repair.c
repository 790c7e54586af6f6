/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl repair: makes a damaged data directory one that a mount opens and
 * check finds clean, with all data that can still be read.
 *
 * It reads the store as check does (offline_*.c), except that it reads on
 * behind damage in a log (repair_log.c).  A dry run examines everything and
 * prints each damage, each step and each loss.  With --write, repair does the
 * same a second time, prints nothing, and carries the steps out.
 *
 * Durable steps:
 *	1 the lock service's journal is carried out, or kept aside if it is
 *	  damaged; damaged files of lock/ are written from their whole copy, or
 *	  removed
 *	2 lock/incarnation is raised above every incarnation in use, so that the
 *	  names of new files were never used
 *	3 damaged SSTables are written anew (repair_sst.c, while examining them)
 *	4 lock/ids, lock/clock, and schemas (repair_schema.c)
 *	5 METADATA and the contents of damaged logs are written as a new log
 *	  (repair_write.c)
 *	6 lock/root is replaced: from here on METADATA is the new one
 *	7 FORMAT
 * A file that is replaced, or that the next mount would remove, is linked in
 * DATADIR/repair-NNNN before.  After a crash between two steps the store is
 * damaged still or whole, and has files that nothing refers to.  Another
 * repair does the remaining steps.
 */
/*
 * tabletctl repair: makes a data directory that no mount opens, or that has
 * tables with damaged files, into one that opens and is clean, with all that
 * can still be read.
 *
 * It reads through the same pieces as check (offline_*.c), with one difference:
 * a log is read past its damage (repair_log.c).  First it looks at everything
 * and prints each damage, each step and each loss; that is all of a dry run.
 * With --write it does the same again in silence, and carries the steps out.
 *
 * Durable steps:
 *	1 the lock service is settled; a damaged journal is kept aside, other
 *	  damaged files of lock/ are written from their good copy or removed
 *	2 lock/incarnation is raised above every number in use, so that the
 *	  names of the files to be written have never been used
 *	3 damaged SSTables are written anew (repair_sst.c; while looking)
 *	4 lock/ids, lock/clock; schemas (repair_schema.c)
 *	5 METADATA is written as a log (repair_meta.c)
 *	6 lock/root is replaced: from here on METADATA is the new one
 *	7 each damaged log gets one more segment (repair_log.c)
 *	8 FORMAT
 * Whatever is replaced or will be removed by the next mount has a second
 * name in DATADIR/repair-NNNN before.  A crash between two steps leaves a
 * store that is still damaged or is whole, and files that nothing refers to;
 * another repair does what is left.  7 comes after 6, because a log without
 * damage would hide that METADATA may lack changes.
 */
#include "engine/tool/repair.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>

static bool is_store(const char *dir)
{
	static const char *const parts[] = {"FORMAT", "lock", "sst", "log"};
	unsigned n = 0;

	for (unsigned i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		char *path = path_join(dir, parts[i]);

		n += path && repair_exists(path);
		free(path);
	}
	return n >= 2;
}

static int repair_read(struct repair *p)
{
	struct offline *store = &p->store;
	int err;

	*store = (struct offline){.dir = p->dir, .past_format = true, .replay = repair_log_replay, .replay_arg = p};
	err = offline_locks(&p->r, store);
	if (!err) {
		/* Each file of the lock service is repaired by itself.  From here on this is about METADATA. */
		store->incomplete = false;
		err = offline_metadata(&p->r, store);
	}
	p->incarnation = (store->incarnation == UINT64_MAX ? 0 : store->incarnation) + 1;
	p->next_file = ((uint64_t)2 << 48) + 1; /* a user tablet's */
	for (unsigned i = 0; i < store->table_count; i++)
		if (store->tables[i].p->tablets_id > p->table_max)
			p->table_max = store->tables[i].p->tablets_id;
	return err;
}

static int repair_all(struct repair *p)
{
	struct repair_meta m = {0};
	int err = repair_locks(p);

	/* When writing, the plan writes SSTables: their incarnation must be taken before. */
	if (!err && p->write)
		err = repair_incarnation(p);
	if (!err)
		err = repair_meta_plan(p, &m);
	p->news = m.changed;
	if (!err && !p->write)
		err = repair_incarnation(p);
	if (!err)
		err = repair_ids(p);
	if (!err)
		err = repair_clock(p);
	if (!err)
		err = repair_schemas(p, &m);
	if (!err && p->write && m.changed)
		err = repair_meta_write(p, &m);
	if (!err)
		err = repair_format(p);
	repair_meta_fini(&m);
	return err;
}

static int repair_run(int argc, char **argv)
{
	static const struct option options[] = {{"write", no_argument, NULL, 'w'}, {"help", no_argument, NULL, 'h'}, {0}};
	struct repair p = {.r = {.to = stdout, .quiet = true}};
	bool write = false;
	int letter, err;

	while ((letter = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (letter) {
		case 'w':
			write = true;
			break;
		case 'h':
			return print_help(&repair_command);
		default:
			return bad_option(&repair_command, argv);
		}
	}
	if (argc - optind != 1)
		return bad_usage(&repair_command, argc == optind ? "DATADIR is needed" : "one DATADIR at a time");
	p.dir = argv[optind];
	if (!is_store(p.dir)) {
		complain("%s: not a tabletfs data directory", p.dir);
		return EXIT_CANNOT;
	}
	err = write ? repair_make_held(&p) : 0;
	if (!err)
		err = repair_read(&p);
	if (!err)
		err = repair_all(&p);
	if (!err && write && p.actions) {
		repair_ssts_fini(&p);
		repair_logs_fini(&p);
		p.write = true;
		err = repair_all(&p);
	}
	if (err == -ENOMEM)
		complain("%s: %s", p.dir, strerror(ENOMEM));
	repair_ssts_fini(&p);
	offline_close(&p.store);
	repair_logs_fini(&p);
	report_fini(&p.r);
	if (!err && write)
		printf("%s: %s%s%s; %u steps, %u losses named above\n", p.dir, p.actions ? "repaired" : "nothing to repair",
			p.aside ? "; what was replaced is in " : "", p.aside ? p.aside : "", p.actions, p.losses);
	else if (!err)
		printf("%s: %u steps, %u losses named above; %s\n", p.dir, p.actions, p.losses,
			p.actions ? "nothing was changed: 'tabletctl repair --write' carries them out" : "nothing to repair");
	free(p.aside);
	if (err)
		return EXIT_CANNOT;
	return (write ? p.losses : p.actions) ? EXIT_DAMAGED : EXIT_CLEAN;
}

const struct command repair_command = {
	.name = "repair",
	.brief = "make a damaged data directory whole again",
	.usage = "usage: tabletctl repair [--write] DATADIR\n"
		 "\n"
		 "Looks at a data directory that is not mounted and prints what is damaged\n"
		 "(\"damaged: ...\"), what it would do (\"repair: ...\") and what cannot be restored\n"
		 "(\"lost: ...\").  Without --write nothing is changed.\n"
		 "\n"
		 "  --write   carry it out; everything that is replaced stays in\n"
		 "            DATADIR/repair-NNNN, which may be removed by hand\n"
		 "\n"
		 "FORMAT and the files of lock/ are made again from the names of other files,\n"
		 "METADATA from the SSTables.  A damaged SSTable is written anew without its\n"
		 "damaged blocks; a damaged log keeps each whole record.  Where METADATA is made\n"
		 "from SSTables, data that was deleted may show again.\n"
		 "\n"
		 "Exit status: 0 nothing to repair, or repaired without loss; 1 there is something\n"
		 "to repair (with --write: repaired, but the losses named remain); 2 it could not\n"
		 "be repaired, or is in use.\n",
	.run = repair_run,
};
