/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletfs DATADIR MOUNTPOINT [-o options]
 * tabletfs-server DATADIR [-o options]
 * tabletfs-server zk://HOST:PORT/CLUSTER DIR [-o options]
 *
 * One daemon: it opens the store and serves it at its socket (engine/serve.h).  tabletfs
 * also mounts it.
 *
 * By default the daemon runs in the background: the parent waits until the
 * child has opened the store and mounted, so an error is one line on the
 * terminal and a non-zero exit before anything is mounted.  The child opens the
 * store, because its threads would not survive the fork.
 *
 * End: by fusermount3 -u, SIGTERM or SIGINT.  Steps: stop serving the mount, unmount,
 * commit the staged bytes of open descriptors, drop scratch (each file is
 * logged), close the tables, close the store (everything is durable).  A second
 * signal changes nothing.  SIGUSR1, SIGUSR2 and SIGPIPE do not end the daemon.
 *
 * SIGHUP reads the settings again.  In the foreground, where a terminal sends it
 * when it closes, it ends the daemon, unless a service manager waits for the
 * daemon's messages.
 */
#include "engine/base/units.h"
#include "engine/base/file.h"
#include "engine/base/msg.h"
#include "engine/daemon/http.h"
#include "engine/daemon/notify.h"
#include "fs/base/access.h"
#include "fs/base/ahead.h"
#include "fs/base/extra.h"
#include "fs/base/fs.h"
#include "fs/base/sender.h"
#include "fs/file/blocks.h"
#include "fs/file/file.h"
#include "fs/file/sequential.h"
#include "fs/file/stage.h"
#include "fs/http/http.h"
#include "fs/daemon.h"
#include "fs/options.h"
#include "fs/request/foreign.h"
#include "fs/request/stream.h"
#include "fs/session.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the background ---- */

static int ready_pipe = -1;

/* Forks.  Returns in the child only; the parent exits with the child's result.  Of a mount it names the help, on a terminal. */
static int go_background(const struct command *c)
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
		return 0;
	}
	close(fds[1]);
	do {
		n = read(fds[0], &verdict, 1);
	} while (n < 0 && errno == EINTR);
	if (n == 1 && verdict == 0) {
		if (!c->server && isatty(STDERR_FILENO))
			fprintf(stderr, "tabletfs: mounted on %s; %s/.tabletfs/help names what can be done there\n", c->mountpoint,
				c->mountpoint);
		_exit(0);
	}
	/* The child has printed the reason; pass its exit status on. */
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	_exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1);
}

static void report_ready(void)
{
	char verdict = 0;
	int null;

	if (ready_pipe < 0)
		return;
	msg_to_syslog(command_name());
	/* Only now: below an autofs mount point, only the automounter's process group can mount. */
	setsid();
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
		msg_warning("the process that started this one has ended");
	close(ready_pipe);
	ready_pipe = -1;
}

/* ---- the store ---- */

static void warn_of_readable_token(const struct command *c)
{
	struct stat st;

	if (c->settings.http_token[0] && c->config && stat(c->config, &st) == 0 && (st.st_mode & (S_IRGRP | S_IROTH)))
		msg_warning("%s: other users can read http_token", c->config);
}

static int open_store(const struct command *c)
{
	struct tfs_options with = c->settings, *o = &with;
	char *why = NULL;
	unsigned errors;
	int err;

	/* Before the store is opened, which may take long: the port may be in use. */
	warn_of_readable_token(c);
	err = *o->http ? http_listen(o->http, o->http_token, &why) : 0;
	if (err) {
		fprintf(stderr, "%s: %s\n", command_name(), why ? why : strerror(-err));
		free(why);
		return err;
	}
	if (o->log_level >= 0)
		msg_set_level((enum msg_level)o->log_level);
	memory_warn(o);
	errors = msg_error_count();
	/* A read-only mount keeps everything that it has read for ever, so no other process may change the store. */
	with.serve = c->server || (!fs.shared && !fs.read_only);
	err = tfs_open(c->source, o, &fs.store, &why);
	/* An error that the engine has logged is on standard error already. */
	if (err && msg_error_count() == errors)
		fprintf(stderr, "%s: %s%s%s\n", command_name(), why ? why : c->source, why ? "" : ": ", why ? "" : strerror(-err));
	free(why);
	return err;
}

/* Sets the ids of the mounting user, who may have another number at the server.  A mount for many users needs a server that lets it act for other users. */
static int log_in(void)
{
	struct tfs_login login;

	tfs_login(fs.store, &login);
	if (fs.many_users && !login.for_others) {
		fprintf(stderr,
			"tabletfs: allow_other: for the server of this store you are user %u, who may not speak for others\n",
			(unsigned)login.uid);
		return -EPERM;
	}
	fs.uid = login.uid;
	fs.gid = login.gid;
	return 0;
}

/* The table of operations of each kind of node. */
#define DECLARE(upper, lower, number) extern const struct node_ops lower##_ops;
NODE_KINDS(DECLARE)
#define TABLE_OF(upper, lower, number) [NODE_##upper] = &lower##_ops,
static const struct node_ops *const node_kinds[NODE_KIND_COUNT] = {NODE_KINDS(TABLE_OF)};

static int init_parts(void)
{
	uint8_t bytes[TFS_KEY_BYTES];
	struct siphash_key key;
	int err = tfs_key(fs.store, "inode numbers", bytes);

	if (err)
		return err;
	fs_init();
	ahead_init();
	blocks_init();
	streams_init();
	key = siphash_key_of(bytes);
	return node_table_init(node_kinds, open_file_drop_locked, &key);
}

static void free_parts(void)
{
	streams_fini();
	extra_fini();
	node_table_fini();
	blocks_fini();
	ahead_fini();
	fs_fini();
}

static int close_store(void)
{
	int err;

	if (fs.mountpoint) {
		foreign_stop();
		extra_report_scratch();
		ofile_close_all();
		free_parts();
	}
	err = tfs_close(fs.store);
	if (err)
		msg_error("closing the store: %s", strerror(-err));
	return err;
}

/* ---- signals ---- */

static const struct command *started; /* NULL: SIGHUP ends the daemon */

static void reload(void)
{
	struct tfs_options o;
	char *why, *left = NULL;
	int err;

	notify_say("RELOADING=1");
	err = command_load(started, &o, &why);
	if (!err)
		err = tfs_config_replace(fs.store, &o, &left);
	if (err)
		msg_error("the settings stay as they are: %s", why ? why : strerror(-err));
	else if (*left)
		msg_warning("%s: these settings change at the next mount: %s", started->config, left);
	else
		msg_notice("%s: the settings were read again", started->config ? started->config : "no file of settings");
	free(why);
	free(left);
	notify_say("READY=1");
}

static bool signal_ends(int sig)
{
	if (sig == SIGHUP && started) {
		reload();
		return false;
	}
	/* The loop waits for the requests that have begun, and a disk may be slow: the manager's watchdog must not end this. */
	notify_say("STOPPING=1");
	/* Verbs must not last for hours. */
	fs_interrupt_all();
	sequential_interrupt_all();
	tfs_will_close(fs.store);
	return true;
}

/* Steps 1 and 3 of a mount; 2 opens the store. */
static int mount_check(struct fuse_args *args)
{
	int err = session_new(args);

	/* libfuse has printed the option. */
	if (err)
		fprintf(stderr, "tabletfs: see 'tabletfs -h' for the options\n");
	return err;
}

static int mount_begin(const struct command *c)
{
	int err = log_in();

	if (err)
		return err;
	/* Spill files are made in the data directory, or for a cluster in TMPDIR. */
	stage_set_directory(access(c->source, W_OK | X_OK) == 0 ? c->source : "");
	err = init_parts();
	if (err) {
		fprintf(stderr, "tabletfs: %s\n", strerror(-err));
		return err;
	}
	fs.mountpoint = c->mountpoint;
	err = session_start(fs.mountpoint);
	if (!err && (fs.shared || !fs.read_only))
		err = foreign_start();
	if (err)
		fprintf(stderr, "tabletfs: %s: cannot mount: %s\n", fs.mountpoint,
			err == -ENODEV ? "fusermount3 or the kernel refused it, as the line above says" : strerror(-err));
	return err;
}

/* The store is open and, unless the program is a server, mounted. */
static int serve(const struct command *c, const sigset_t *signals)
{
	int err = documents_start(c->settings.name, c->settings.slow_us);

	if (err)
		msg_error("the HTTP server cannot start: %s", strerror(-err));
	report_ready();
	if (c->server)
		msg_notice("%s is served", c->source);
	else
		msg_notice("%s mounted on %s%s; %s/.tabletfs/help names its control files", c->source, c->mountpoint,
			fs.read_only ? ", read-only" : "", c->mountpoint);
	err = service_start(c->mountpoint);
	if (err)
		msg_error("the messages to the service manager: %s", strerror(-err));
	else if (c->server)
		server_run(c->while_used, signals, signal_ends);
	else
		err = loop_run(c->single, c->settings.timeout_us, signals, signal_ends);
	if (err)
		msg_error("the daemon ended: %s", strerror(-err));
	foreign_stop();
	documents_stop();
	return err;
}

static void catch_signals(sigset_t *signals)
{
	signal(SIGPIPE, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	/* All threads block these signals; loop_run() and server_run() wait for them. */
	sigemptyset(signals);
	sigaddset(signals, SIGINT);
	sigaddset(signals, SIGTERM);
	sigaddset(signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, signals, NULL);
}

static int daemon_run(const struct command *c, struct fuse_args *args)
{
	sigset_t signals;
	int err;

	fs.source = c->source;
	fs.read_only = c->read_only;
	fs.shared = store_source_is_served(&c->at);
	fs.may_keep = !fs.shared;
	fs.quiet = c->quiet;
	fs.latest = c->latest;
	fs.uid = fs.here_uid = getuid();
	fs.gid = fs.here_gid = getgid();
	/* A daemon in the background is not the process that a manager started. */
	if (!(c->foreground || c->debug) || notify_init())
		started = c;
	fs.started_us = fs_now_us();
	catch_signals(&signals);
	err = c->server ? 0 : mount_check(args);
	if (!err)
		err = open_store(c);
	if (!err) {
		err = c->server ? 0 : mount_begin(c);
		if (!err)
			err = serve(c, &signals);
		session_end();
		service_stop();
		if (close_store())
			err = -EIO;
	} else {
		session_end();
	}
	return err;
}

/* Makes it an absolute path, too. */
static int check_mountpoint(struct command *c)
{
	char *absolute, *why;
	int err = mountpoint_check(c->mountpoint, store_source_directory(&c->at), &absolute, &why);

	if (err) {
		fprintf(stderr, "tabletfs: %s\n", why ? why : strerror(ENOMEM));
		free(why);
		return err;
	}
	free(c->mountpoint);
	c->mountpoint = absolute;
	snprintf(c->settings.mountpoint, sizeof(c->settings.mountpoint), "%s", absolute);
	return 0;
}

int main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct command c = {0};
	char *why;
	int r = 1;

	if (remount_asked(argc, argv, &r, &why)) {
		if (why)
			fprintf(stderr, "%s\n", why);
		free(why);
		return r;
	}
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
	if (command_read(argc, argv, &c, &args) != 0)
		goto out;
	if (c.help || c.version || c.print || c.check) {
		r = c.help          ? command_help(c.server)
			: c.version ? command_version(c.server)
			: c.print   ? command_print_config()
				    : command_check(c.check);
		goto out;
	}
	if (!c.server && check_mountpoint(&c))
		goto out;
	if (!c.foreground && !c.debug && go_background(&c)) {
		fprintf(stderr, "%s: %s\n", command_name(), strerror(errno));
		goto out;
	}
	r = c.server ? 0 : sender_start(argc, argv);
	if (r)
		fprintf(stderr, "tabletfs: cannot start a process: %s\n", strerror(-r));
	r = r || daemon_run(&c, &args) ? 1 : 0;
out:
	fuse_opt_free_args(&args);
	command_free(&c);
	return r;
}
