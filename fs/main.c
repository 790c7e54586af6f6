/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletfs DATADIR MOUNTPOINT [-o options]
 *
 * By default the daemon runs in the background: the parent waits until the
 * child has opened the store and mounted, so an error is one line on the
 * terminal and a non-zero exit before anything is mounted.  The child opens the
 * store, because its threads would not survive the fork.
 *
 * End: by fusermount3 -u, SIGTERM, SIGINT or SIGHUP.  Steps: stop serving,
 * unmount, commit the staged bytes of open descriptors, drop scratch (each file
 * is logged), close the tables, close the store (everything is durable).  A
 * second signal changes nothing.  SIGUSR1, SIGUSR2 and SIGPIPE do not end the
 * daemon.
 */
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "fs/base/extra.h"
#include "fs/base/fs.h"
#include "fs/file/file.h"
#include "fs/file/stage.h"
#include "fs/loop.h"
#include "fs/mountpoint.h"
#include "fs/request/stream.h"
#include "fs/session.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_CONFIG "/etc/tabletfs.conf"

struct command {
	char *source, *mountpoint, *config;
	int foreground, debug, single, help, version;
	int read_only, sync, quiet, latest;
	bool own_source; /* fsname= was given */
};

enum { KEY_RO, KEY_RW, KEY_FSNAME, KEY_MAX_READ, KEY_ALLOW_OTHER };

#define OPTION(text, field)                                                                                                        \
	{                                                                                                                          \
		text, offsetof(struct command, field), 1                                                                           \
	}
static const struct fuse_opt option_spec[] = {OPTION("-f", foreground), OPTION("-d", debug), OPTION("debug", debug),
	OPTION("-s", single), OPTION("-h", help), OPTION("--help", help), OPTION("-V", version), OPTION("--version", version),
	OPTION("sync", sync), OPTION("quiet", quiet), OPTION("latest", latest), {"config=%s", offsetof(struct command, config), 0},
	FUSE_OPT_KEY("ro", KEY_RO), FUSE_OPT_KEY("rw", KEY_RW), FUSE_OPT_KEY("async", FUSE_OPT_KEY_DISCARD),
	FUSE_OPT_KEY("_netdev", FUSE_OPT_KEY_DISCARD), FUSE_OPT_KEY("nofail", FUSE_OPT_KEY_DISCARD),
	FUSE_OPT_KEY("auto", FUSE_OPT_KEY_DISCARD), FUSE_OPT_KEY("noauto", FUSE_OPT_KEY_DISCARD),
	FUSE_OPT_KEY("defaults", FUSE_OPT_KEY_DISCARD), FUSE_OPT_KEY("user", FUSE_OPT_KEY_DISCARD),
	FUSE_OPT_KEY("nouser", FUSE_OPT_KEY_DISCARD), FUSE_OPT_KEY("users", FUSE_OPT_KEY_DISCARD),
	FUSE_OPT_KEY("owner", FUSE_OPT_KEY_DISCARD), FUSE_OPT_KEY("group", FUSE_OPT_KEY_DISCARD),
	FUSE_OPT_KEY("relatime", FUSE_OPT_KEY_DISCARD), FUSE_OPT_KEY("fsname=", KEY_FSNAME),
	FUSE_OPT_KEY("allow_other", KEY_ALLOW_OTHER), FUSE_OPT_KEY("max_read=", KEY_MAX_READ), FUSE_OPT_END};

static int take_argument(void *data, const char *arg, int key, struct fuse_args *out)
{
	struct command *c = data;

	if (key == KEY_RO || key == KEY_RW) {
		c->read_only = key == KEY_RO;
		return 1; /* the kernel needs it too */
	}
	if (key == KEY_FSNAME)
		c->own_source = true;
	if (key == KEY_ALLOW_OTHER)
		fs.many_users = true;
	if (key == KEY_MAX_READ)
		fs.max_read = (unsigned)strtoul(arg + strlen("max_read="), NULL, 10);
	/* Options in fstab that are meant for other programs. */
	if (key == FUSE_OPT_KEY_OPT &&
		(strncmp(arg, "x-", 2) == 0 || strncmp(arg, "X-", 2) == 0 || strncmp(arg, "comment=", 8) == 0))
		return 0;
	if (key != FUSE_OPT_KEY_NONOPT)
		return 1;
	if (!c->source)
		c->source = strdup(arg);
	else if (!c->mountpoint)
		c->mountpoint = strdup(arg);
	else {
		fprintf(stderr, "tabletfs: %s: one argument too many\n", arg);
		return -1;
	}
	return 0;
}

static void print_usage(FILE *to)
{
	fputs("usage: tabletfs DATADIR MOUNTPOINT [options]\n"
	      "\n"
	      "Mounts the tables of a data directory (made if absent or empty) as a file tree.\n"
	      "\n"
	      "    -f                     stay in the foreground\n"
	      "    -d   -o debug          the same, and show every request\n"
	      "    -s                     serve with a single thread\n"
	      "    -V   --version         print the version\n"
	      "    -h   --help            print this\n"
	      "    -o ro                  read-only, everything cached\n"
	      "    -o sync                every commit is on disk before close returns\n"
	      "    -o quiet               chmod and chown of cells succeed without effect\n"
	      "    -o latest              tables show plain names, newest versions only\n"
	      "    -o config=FILE         settings (default " DEFAULT_CONFIG ", if there is one)\n"
	      "\n"
	      "FUSE options:\n",
		to);
	fuse_lowlevel_help();
}

/* ---- the background ---- */

static int ready_pipe = -1;

/* Forks.  Returns in the child only; the parent exits with the child's result. */
static int go_background(void)
{
	int fds[2];
	pid_t pid;
	char verdict;
	ssize_t n;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		ready_pipe = fds[1] == 3 ? 3 : dup3(fds[1], 3, O_CLOEXEC);
		/* A process may wait for a lock or pipe that the caller's shell has open: not until the mount ends. */
		closefrom(4);
		setsid();
		return 0;
	}
	close(fds[1]);
	do {
		n = read(fds[0], &verdict, 1);
	} while (n < 0 && errno == EINTR);
	if (n == 1 && verdict == 0)
		_exit(0);
	/* The child has printed the reason; pass its exit status on. */
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	_exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1);
}

static void report_mounted(void)
{
	char verdict = 0;
	int null;

	if (ready_pipe < 0)
		return;
	msg_to_syslog("tabletfs");
	if (chdir("/") != 0)
		msg_warning("cannot change to /: %s", strerror(errno));
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		if (null > 2)
			close(null);
	}
	if (write(ready_pipe, &verdict, 1) != 1)
		msg_warning("the mounting process has ended");
	close(ready_pipe);
	ready_pipe = -1;
}

/* ---- the store ---- */

static int open_store(const struct command *c)
{
	struct tfs_options o;
	char *why = NULL;
	unsigned errors;
	int err = 0;

	tfs_options_init(&o);
	if (c->config)
		err = tfs_options_load(&o, c->config, &why);
	else if (access(DEFAULT_CONFIG, F_OK) == 0)
		err = tfs_options_load(&o, DEFAULT_CONFIG, &why);
	if (err) {
		fprintf(stderr, "tabletfs: %s\n", why ? why : strerror(-err));
		free(why);
		return err;
	}
	o.sync = o.sync || c->sync;
	if (o.log_level >= 0)
		msg_set_level((enum msg_level)o.log_level);
	errors = msg_error_count();
	err = tfs_open(c->source, &o, &fs.store, &why);
	/* An error that the engine has logged is on standard error already. */
	if (err && msg_error_count() == errors)
		fprintf(stderr, "tabletfs: %s%s%s\n", why ? why : c->source, why ? "" : ": ", why ? "" : strerror(-err));
	free(why);
	return err;
}

/* The table of operations of each kind of node, in the order of enum node_kind. */
#define DECLARE(upper, lower) extern const struct node_ops lower##_ops;
NODE_KINDS(DECLARE)
#define TABLE_OF(upper, lower) [NODE_##upper] = &lower##_ops,
static const struct node_ops *const node_kinds[NODE_KIND_COUNT] = {NODE_KINDS(TABLE_OF)};

static int init_parts(void)
{
	fs_init();
	streams_init();
	return node_table_init(node_kinds, open_file_drop_locked);
}

static void free_parts(void)
{
	streams_fini();
	extra_fini();
	node_table_fini();
	fs_fini();
}

static int close_store(void)
{
	int err;

	extra_report_scratch();
	ofile_close_all();
	free_parts();
	err = tfs_close(fs.store);
	if (err)
		msg_error("closing the store: %s", strerror(-err));
	return err;
}

static int mount_serve(const struct command *c, struct fuse_args *args, const char *mountpoint)
{
	sigset_t ends;
	int err;

	fs.read_only = c->read_only;
	fs.quiet = c->quiet;
	fs.latest = c->latest;
	fs.uid = getuid();
	fs.gid = getgid();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	/* All threads block the signals that end the mount; loop_run() waits for them. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	err = session_new(args);
	if (err) {
		/* libfuse has printed the option. */
		fprintf(stderr, "tabletfs: see 'tabletfs -h' for the options\n");
		return err;
	}
	err = open_store(c);
	if (err) {
		session_end();
		return err;
	}
	/* Spill files are made in the data directory, or for a cluster in TMPDIR. */
	stage_set_directory(access(c->source, W_OK | X_OK) == 0 ? c->source : "");
	err = init_parts();
	if (err) {
		fprintf(stderr, "tabletfs: %s\n", strerror(-err));
		(void)!tfs_close(fs.store);
		session_end();
		return err;
	}
	err = session_start(mountpoint);
	if (err) {
		fprintf(stderr, "tabletfs: %s: cannot mount: %s\n", mountpoint,
			err == -ENODEV ? "fusermount3 or the kernel refused it, as the line above says" : strerror(-err));
		session_end();
		(void)!close_store();
		return err;
	}
	report_mounted();
	msg_notice("%s mounted on %s%s", c->source, mountpoint, fs.read_only ? ", read-only" : "");
	err = loop_run(c->single, &ends);
	if (err)
		msg_error("the mount ended: %s", strerror(-err));
	session_end();
	return close_store() || err ? -EIO : 0;
}

static int add_options(const struct command *c, struct fuse_args *args)
{
	char name[512];
	size_t n = 0;
	int err;

	/* In the mount table, a comma or a backslash would end the name. */
	for (const char *s = c->source; *s && n < sizeof(name) - 3; s++) {
		if (*s == ',' || *s == '\\')
			name[n++] = '\\';
		name[n++] = *s;
	}
	name[n] = 0;
	err = fuse_opt_add_arg(args, "-o");
	if (err == 0) {
		char *option;

		if (asprintf(&option, "default_permissions,subtype=tabletfs%s%s",
			    c->own_source ? "" : ",fsname=", c->own_source ? "" : name) < 0)
			return -ENOMEM;
		err = fuse_opt_add_arg(args, option);
		free(option);
	}
	return err ? -ENOMEM : 0;
}

int main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	struct command c = {0};
	char *mountpoint = NULL, *source = NULL, *why;
	int r = 1;

	file_raise_limit();
	/*
	 * Memtables are allocated and freed in blocks of a MiB, and their memory must
	 * return to the system.  Otherwise malloc keeps such blocks, in a heap for each
	 * thread (4 times the configured memory was seen).
	 */
	mallopt(M_MMAP_THRESHOLD, 256 << 10);
	/*
	 * Blocks in the cache are smaller and outlive other allocations, so a heap
	 * never shrinks: 2.4 GB was seen with a heap for each thread, 0.6 with two.
	 */
	mallopt(M_ARENA_MAX, 2);
	if (fuse_opt_parse(&args, &c, option_spec, take_argument) != 0)
		goto out;
	if (c.help) {
		print_usage(stdout);
		r = 0;
		goto out;
	}
	if (c.version) {
		printf("tabletfs %s\n", PACKAGE_VERSION);
		fuse_lowlevel_version();
		r = 0;
		goto out;
	}
	if (!c.source || !c.mountpoint) {
		fprintf(stderr, "usage: tabletfs DATADIR MOUNTPOINT [options]; see tabletfs -h\n");
		goto out;
	}
	/* The working directory of the background process is /. */
	if (!strstr(c.source, "://") && c.source[0] != '/') {
		char *cwd = getcwd(NULL, 0);

		if (!cwd || asprintf(&source, "%s/%s", cwd, c.source) < 0)
			source = NULL;
		free(cwd);
		if (!source)
			goto out;
		free(c.source);
		c.source = source;
	}
	if (mountpoint_check(c.mountpoint, c.source, &mountpoint, &why)) {
		fprintf(stderr, "tabletfs: %s\n", why ? why : strerror(ENOMEM));
		free(why);
		goto out;
	}
	if (c.config) {
		char *config = realpath(c.config, NULL);

		if (!config) {
			fprintf(stderr, "tabletfs: -o config=%s: %s\n", c.config,
				c.config[0] ? strerror(errno) : "the name of a file is missing");
			goto out;
		}
		free(c.config);
		c.config = config;
	}
	if (add_options(&c, &args) || (c.debug && fuse_opt_add_arg(&args, "-odebug")))
		goto out;
	if (!c.foreground && !c.debug && go_background()) {
		fprintf(stderr, "tabletfs: %s\n", strerror(errno));
		goto out;
	}
	r = mount_serve(&c, &args, mountpoint) ? 1 : 0;
out:
	fuse_opt_free_args(&args);
	free(mountpoint);
	free(c.source);
	free(c.mountpoint);
	free(c.config);
	return r;
}
