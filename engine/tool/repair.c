/* SPDX-License-Identifier: Apache-2.0 */
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
#include "engine/lock/local_files.h"
#include "engine/lock/lock.h"
#include "engine/open.h"
#include "engine/tool/repair.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

static void say(const char *head, const char *fmt, va_list ap)
{
	char *line;

	if (vasprintf(&line, fmt, ap) < 0)
		line = NULL;
	if (line)
		make_one_line(line);
	printf("%s: %s\n", head, line ? line : strerror(ENOMEM));
	free(line);
}

void repair_does(struct repair *p, const char *fmt, ...)
{
	va_list ap;

	if (p->write)
		return;
	va_start(ap, fmt);
	say("repair", fmt, ap);
	va_end(ap);
	p->actions++;
}

void repair_loses(struct repair *p, const char *fmt, ...)
{
	va_list ap;

	if (p->write)
		return;
	va_start(ap, fmt);
	say("lost", fmt, ap);
	va_end(ap);
	p->losses++;
}

const char *repair_table_name(struct buf *b, const struct repair *p, uint32_t table)
{
	const struct offline_table *t = offline_table(&p->store, table);
	int err;

	buf_reset(b);
	if (table == META_TABLE)
		err = buf_printf(b, "METADATA");
	else
		err = t ? buf_printf(b, "table %s", t->p->name) : buf_printf(b, "table id %u", table);
	return err || buf_u8(b, 0) ? "a table" : (const char *)b->p;
}

bool repair_exists(const char *path)
{
	uint64_t bytes;

	return file_stat_size(path, &bytes) == 0;
}

/* ---- what is kept ---- */

static int make_aside(struct repair *p)
{
	int err = -EEXIST;

	for (unsigned n = 1; err == -EEXIST && n < 10000; n++) {
		free(p->aside);
		if (asprintf(&p->aside, "%s/repair-%04u", p->dir, n) < 0) {
			p->aside = NULL;
			return -ENOMEM;
		}
		err = file_mkdir(p->aside);
	}
	return err ? err : file_sync_dir(p->dir);
}

int repair_keep(struct repair *p, const char *path)
{
	const char *below = path + strlen(p->dir);
	char *to = NULL, *slash;
	int err = 0;

	if (!p->write || !repair_exists(path))
		return 0;
	while (*below == '/')
		below++;
	if (!p->aside)
		err = make_aside(p);
	if (!err && asprintf(&to, "%s/%s", p->aside, below) < 0)
		return -ENOMEM;
	for (slash = err ? NULL : to + strlen(p->aside) + 1; slash && (slash = strchr(slash, '/')) && !err; *slash++ = '/') {
		*slash = 0;
		err = file_mkdir(to);
		err = err == -EEXIST ? 0 : err;
		if (!err) {
			char *up = strrchr(to, '/');

			*up = 0;
			err = file_sync_dir(to);
			*up = '/';
		}
	}
	if (!err)
		err = file_link(path, to);
	if (err == -EEXIST)
		err = 0;
	slash = err ? NULL : strrchr(to, '/');
	if (slash) {
		*slash = 0;
		err = file_sync_dir(to);
		*slash = '/';
	}
	if (err)
		complain("%s: cannot be kept as %s: %s", path, to ? to : p->dir, strerror(-err));
	free(to);
	return err;
}

/* ---- the lock service's files ---- */

int repair_lock_file(struct repair *p, const char *name, struct slice contents)
{
	const struct offline_file *f = offline_file(&p->store, name);
	struct lock_step step = {.remove = !contents.p, .version = (f ? f->version : 0) + 1, .contents = contents};
	char *top = path_join(p->dir, "lock"), *path = top ? lock_name_path(top, name) : NULL;
	bool in_doubt = false;
	int err = path ? repair_keep(p, path) : -ENOMEM;

	snprintf(step.name, sizeof(step.name), "%s", name);
	if (!err)
		err = lock_files_change(top, &step, 1, &in_doubt);
	if (err)
		complain("%s: %s", path ? path : p->dir, strerror(-err));
	free(top);
	free(path);
	return err;
}

struct odd {
	struct repair *p;
	const char *prefix; /* "" or "dropped/" and the like */
};

/* A damaged file other than those that are made again. */
static int odd_file(void *arg, const char *name, bool is_dir)
{
	static const char *const others[] = {LOCK_HELD, LOCK_JOURNAL, "root", "ids", "incarnation", "clock"};
	struct odd *o = arg;
	struct repair *p = o->p;
	char full[LOCK_NAME_MAX + 300];

	snprintf(full, sizeof(full), "%s%s", o->prefix, name);
	for (unsigned i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (strcmp(full, others[i]) == 0)
			return 0;
	if (is_dir && !*o->prefix && strcmp(name, "tables") != 0) {
		struct odd below = {p, strcat(full, "/")};
		char *top = path_join(p->dir, "lock"), *dir = top ? path_join(top, name) : NULL;
		int err = dir ? file_list(dir, odd_file, &below) : -ENOMEM;

		free(top);
		free(dir);
		return err;
	}
	if (is_dir || !lock_name_allowed(full) || lock_ends_in_tmp(name) || offline_file(&p->store, full))
		return 0;
	if (strncmp(full, "dropped/", 8) == 0) {
		repair_does(p, "%s/lock/%s: made again; its name says all", p->dir, full);
		return p->write ? repair_lock_file(p, full, slice_of("", 0)) : 0;
	}
	repair_does(p, "%s/lock/%s: kept aside and removed", p->dir, full);
	repair_loses(p, "%s/lock/%s", p->dir, full);
	return p->write ? repair_lock_file(p, full, (struct slice){NULL, 0}) : 0;
}

static int odd_files(struct repair *p)
{
	struct odd o = {p, ""};
	char *top = path_join(p->dir, "lock");
	int err = top ? file_list(top, odd_file, &o) : -ENOMEM;

	err = err == -ENOENT ? 0 : err;
	for (unsigned i = 0; i < p->store.file_count && !err; i++) {
		const struct offline_file *f = &p->store.files[i];

		if (!f->one_copy)
			continue;
		repair_does(p, "%s: written again from the copy of it that is whole", f->path);
		if (p->write)
			err = repair_lock_file(p, f->name, f->contents.n ? buf_slice(&f->contents) : slice_of("", 0));
	}
	free(top);
	return err;
}

static int ids(struct repair *p)
{
	uint32_t least = p->table_max < META_FIRST_USER_TABLE ? META_FIRST_USER_TABLE : p->table_max + 1;
	uint8_t bytes[4];

	if (p->store.next_table >= least || (!offline_file(&p->store, "ids") && !p->table_max && p->r.problems == 0))
		return 0;
	repair_does(p, "%s/lock/ids: the next table id is %u", p->dir, least);
	put_be32(bytes, least);
	return p->write ? repair_lock_file(p, "ids", slice_of(bytes, sizeof(bytes))) : 0;
}

/* Step 2. */
static int incarnation(struct repair *p)
{
	uint64_t has = p->store.incarnation == UINT64_MAX ? 0 : p->store.incarnation,
		 n = p->news ? p->incarnation : p->incarnation - 1;
	uint8_t bytes[8];

	if (p->store.incarnation != UINT64_MAX && has >= n)
		return 0;
	repair_does(p, "%s/lock/incarnation: %" PRIu64 ", %s", p->dir, n,
		p->news ? "for the files of this repair" : "the greatest in use");
	put_be64(bytes, n);
	return p->write ? repair_lock_file(p, "incarnation", slice_of(bytes, sizeof(bytes))) : 0;
}

/* A store without one would doubt the clock until it has been mounted for a day on end. */
static int clock_mark(struct repair *p)
{
	struct offline_file *f = offline_file(&p->store, "clock");
	time_t now = time(NULL);
	char day[32] = "?";
	uint8_t bytes[8];
	struct tm tm;

	if ((f && f->contents.n == sizeof(bytes)) || p->r.problems == 0)
		return 0;
	if (gmtime_r(&now, &tm))
		(void)strftime(day, sizeof(day), "%F", &tm);
	repair_does(p, "%s/lock/clock: the clock is believed, with the present time, of %s UTC; make sure that this is right",
		p->dir, day);
	put_be64(bytes, (uint64_t)now * 1000000);
	return p->write ? repair_lock_file(p, "clock", slice_of(bytes, sizeof(bytes))) : 0;
}

static int journal(struct repair *p)
{
	char *top = path_join(p->dir, "lock"), *path = top ? path_join(top, LOCK_JOURNAL) : NULL;
	struct lock_step *steps = NULL;
	struct buf b = {0};
	unsigned count;
	int err = path ? file_read_all(path, LOCK_JOURNAL_BYTES_MAX, &b) : -ENOMEM;

	if (!err)
		err = lock_journal_decode(buf_slice(&b), &steps, &count);
	if (err == -EBADMSG || err == -EFBIG) {
		repair_does(p, "%s: kept aside and removed", path);
		repair_loses(p, "%s: a change of tables that was under way", path);
		err = repair_keep(p, path);
		if (!err && p->write)
			err = file_unlink(path);
	} else if (err == -ENOENT) {
		err = 0;
	}
	if (!err && p->write)
		err = lock_files_settle(top);
	if (err)
		complain("%s: %s", path ? path : p->dir, strerror(-err));
	free(steps);
	free(top);
	free(path);
	buf_fini(&b);
	return err;
}

static int format(struct repair *p)
{
	char *path = path_join(p->dir, "FORMAT"), *why = NULL;
	struct buf b = {0};
	bool whole = false;
	int err = path ? store_format_check(path, &whole, &why) : -ENOMEM;

	if (!err && whole)
		goto out;
	if (err && err != -EBADMSG && err != -ENOENT)
		goto out;
	repair_does(p, "%s: written again", path);
	err = repair_keep(p, path);
	if (!err)
		err = store_format_encode(STORE_FORMAT_VERSION, &b);
	if (!err && p->write)
		err = file_replace(path, buf_slice(&b));
out:
	if (err)
		complain("%s", why ? why : strerror(-err));
	free(why);
	free(path);
	buf_fini(&b);
	return err;
}

/* ---- all of it ---- */

/* Something to hold the flock on: a store whose lock/ is lost has no file for it. */
static int make_held(struct repair *p)
{
	char *top = path_join(p->dir, "lock"), *held = top ? path_join(top, LOCK_HELD) : NULL;
	struct file *f = NULL;
	int err = held ? 0 : -ENOMEM;

	if (!err && !repair_exists(held)) {
		err = file_mkdir(top);
		err = err == -EEXIST ? 0 : err ? err : file_sync_dir(p->dir);
		if (!err)
			err = file_open(held, FILE_CREATE, &f);
		file_close(f);
	}
	if (err)
		complain("%s: %s", held ? held : p->dir, strerror(-err));
	free(top);
	free(held);
	return err;
}

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

static int look(struct repair *p)
{
	struct offline *store = &p->store;
	int err;

	*store = (struct offline){.dir = p->dir, .past_format = true, .replay = repair_log_replay, .replay_arg = p};
	err = offline_locks(&p->r, store);
	if (!err) {
		/* Of the lock service's files each is repaired by itself; what matters from here on is METADATA. */
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
	bool write = p->write;
	int err = journal(p);

	if (!err)
		err = odd_files(p);
	/* The second time, planning writes SSTables under a number that must be taken before. */
	if (!err && write)
		err = incarnation(p);
	if (!err)
		err = repair_meta_plan(p, &m);
	p->news = m.changed;
	if (!err && !write)
		err = incarnation(p);
	if (!err)
		err = ids(p);
	if (!err)
		err = clock_mark(p);
	if (!err)
		err = repair_schemas(p, &m);
	if (!err && write && m.changed)
		err = repair_meta_write(p, &m);
	if (!err && write)
		err = repair_log_write_all(p);
	if (!err)
		err = format(p);
	repair_meta_fini(&m);
	return err;
}

static int run(int argc, char **argv)
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
	err = write ? make_held(&p) : 0;
	if (!err)
		err = look(&p);
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
	.run = run,
};
