/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl keys and serve, by which other hosts can use a store.
 *
 * keys adds a new key for a host to the file of keys of a server (engine/rpc/keys.h).  The line
 * is appended by one write, so a server that reads the file meanwhile reads the whole line or
 * nothing of it.
 *
 * serve is the far end of a source HOST:DATADIR.  It connects its standard input and output
 * with the socket of the data directory, and ends when either end closes.  The server sees the
 * user of this process, so serve needs no other check.  If no process serves the directory, and
 * it belongs to this user, a server is started that ends with its last user.  If two servers
 * are started at once, only the first gets the store's lock.  The second fails, and its starter
 * finds the socket of the first.
 */
#include "engine/base/clock.h"
#include "engine/join.h"
#include "engine/rpc/dial.h"
#include "engine/rpc/keys.h"
#include "engine/tool/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVER "tabletfs-server"
#define BLOCK (64u << 10)
#define RACE_US 3000000u
#define PAUSE_US 20000u

/* ---- keys ---- */

static int append(int fd, struct tfs_bytes line)
{
	ssize_t n = write(fd, line.p, line.n);

	if (n < 0 || fsync(fd))
		return -errno;
	return (size_t)n == line.n ? 0 : -ENOSPC;
}

/* Opens the file, which is made if it does not exist, and excludes other processes that add to it. */
static int open_file(const char *path, int *out)
{
	int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600), err = fd < 0 ? -errno : 0;

	if (!err && flock(fd, LOCK_EX))
		err = -errno;
	if (err && fd >= 0)
		close(fd);
	if (!err)
		*out = fd;
	return err;
}

/* Returns an error of the new line, or of the file, with *why. */
static int check(const char *path, const char *name, struct tfs_bytes line, bool *ends, char **why)
{
	struct keys *old = NULL, *one = NULL;
	const char *reason = NULL;
	unsigned number;
	int err = keys_parse(line, &one, &number, &reason);

	if (err == -EINVAL)
		*why = text("%s", reason);
	if (!err && keys_count(one) != 1) { /* an argument has the end of a line */
		*why = text("not one line");
		err = -EINVAL;
	}
	if (!err)
		err = keys_load(path, &old, ends, why);
	if (!err && keys_find(old, tfs_str(name))) {
		*why = text("%s: there is a key %s already", path, name);
		err = -EEXIST;
	}
	keys_put(old);
	keys_put(one);
	return err;
}

static int add(const char *path, const char *name, const char *role, const char *options)
{
	struct buf line = {0}, mine = {0};
	bool ends = true;
	char *why = NULL;
	int fd = -1, err = keys_new_line(name, role, options, &line);

	if (!err)
		err = open_file(path, &fd);
	if (!err)
		err = check(path, name, buf_bytes(&line), &ends, &why);
	/* The last line of an editor may have no end. */
	if (!err)
		err = buf_append(&mine, "\n", ends ? 0 : 1) || buf_append_bytes(&mine, buf_bytes(&line))
			? -ENOMEM
			: append(fd, buf_bytes(&mine));
	if (err)
		complain("keys: %s", why ? why : text("%s: %s", path, strerror(-err)));
	else
		fwrite(line.p, 1, line.n, stdout);
	if (fd >= 0)
		close(fd);
	buf_fini(&line);
	buf_fini(&mine);
	return err ? EXIT_CANNOT : 0;
}

static int keys_run(const struct arguments *a)
{
	const char *options = "";

	if (strcmp(a->operand[0], "add") != 0)
		return bad_usage(&keys_command, "%s: not add", a->operand[0]);
	for (int i = 4; i < a->operands; i++)
		options = text("%s%s%s", options, *options ? " " : "", a->operand[i]);
	return add(a->operand[1], a->operand[2], a->operand[3], options);
}

const struct command keys_command = {
	.name = "keys",
	.kinds = "-f",
	.brief = "make a key with which another host may use a store",
	.usage = "usage: tabletctl keys add FILE NAME mount|cluster [OPTION...]\n"
		 "\n"
		 "Adds a key to the server's FILE, which is made if it does not exist, and prints\n"
		 "its line.  The other host needs this line in a file of its own, with mode 0600.\n"
		 "The server reads FILE again after SIGHUP.  To change a key, add another one, use\n"
		 "it, and remove the line of the old one.  An OPTION limits the key: squash=root,\n"
		 "squash=all, anon_uid=N, anon_gid=N, tables=A,B; see tabletctl(1).\n",
	.least = 4,
	.most = 9,
	.run = keys_run,
};

/* ---- serve: relaying ---- */

/* Copies until the end of `from`, or an error. */
static void copy(int from, int to)
{
	char *block = malloc(BLOCK);
	ssize_t n = 1;

	while (block && n > 0) {
		n = read(from, block, BLOCK);
		if (n > 0 && transfer_write(to, tfs_bytes_of(block, (size_t)n)))
			break;
		if (n < 0 && errno == EINTR)
			n = 1;
	}
	free(block);
}

static void *to_server(void *arg)
{
	copy(STDIN_FILENO, *(const int *)arg);
	_exit(0); /* the client has closed its end */
}

static int relay(int fd)
{
	pthread_t thread;

	if (fcntl(fd, F_SETFL, 0) || pthread_create(&thread, NULL, to_server, &fd))
		return -errno;
	copy(fd, STDOUT_FILENO);
	_exit(0); /* the server has closed the connection */
}

/* ---- serve: a server of this user's session ---- */

/* Starts a server, which becomes a background process when it serves.  Its messages before that are appended to *said. */
static int start_server(const char *dir, struct buf *said)
{
	char *argv[] = {text("%s", program_beside(SERVER)), text("-o"), text("while-used"), text("--"), text("%s", dir), NULL};
	posix_spawn_file_actions_t files;
	int pipe[2], status, err;
	pid_t pid;

	if (pipe2(pipe, O_CLOEXEC))
		return -errno;
	err = posix_spawn_file_actions_init(&files);
	if (!err) {
		err = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0) ||
				posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) ||
				posix_spawn_file_actions_adddup2(&files, pipe[1], STDERR_FILENO)
			? ENOMEM
			: posix_spawnp(&pid, argv[0], &files, NULL, argv, environ);
		posix_spawn_file_actions_destroy(&files);
	}
	close(pipe[1]);
	if (!err) {
		(void)!transfer_read(pipe[0], said);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		err = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EIO;
	} else if (buf_printf(said, "tabletctl: %s: %s\n", argv[0], strerror(err))) {
		no_memory();
	}
	close(pipe[0]);
	return -err;
}

static bool is_mine(const char *dir)
{
	struct stat st;

	return stat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

static int connect_or_start(struct dial *d, const char *dir, struct dialled *to, char **why)
{
	uint64_t until;
	struct buf said = {0};
	int err = dial_connect(d, to, why);

	if (!join_finds_nobody(err) || !is_mine(dir))
		return err;
	err = start_server(dir, &said);
	/* If it has failed, another server may be about to serve. */
	until = monotonic_us() + (err ? RACE_US : 0);
	while (join_finds_nobody(err = dial_connect(d, to, why)) && monotonic_us() < until)
		(void)usleep(PAUSE_US);
	if (err)
		(void)!transfer_write(STDERR_FILENO, buf_bytes(&said));
	buf_fini(&said);
	return err;
}

static int serve_run(const struct arguments *a)
{
	const char *dir = given(a->operand[0]);
	const struct store_source at = {.kind = SOURCE_UNIX, .dir = text("%s", dir)};
	struct dialled to = {.fd = -1};
	struct dial *d = NULL;
	char *why = NULL;
	int err;

	if (!a->option['s'])
		return bad_usage(&serve_command, "%s", "--stdio is missing");
	err = dial_new(&at, &(struct dial_options){.keys = "", .ssh = ""}, &d, &why);
	if (!err)
		err = connect_or_start(d, dir, &to, &why);
	if (!err)
		err = relay(to.fd);
	if (!why && join_finds_nobody(err)) {
		join_explain_nobody(dir, &why);
		complain("%s", why ? why : dir);
	} else {
		complain("%s: %s", why ? why : dir, join_finds_nobody(err) ? "no process serves this directory" : strerror(-err));
	}
	dial_free(d);
	free(why);
	return EXIT_CANNOT;
}

static const struct option serve_options[] = {{"stdio", no_argument, NULL, 's'}, {"help", no_argument, NULL, 'h'}, {0}};
const struct command serve_command = {
	.name = "serve",
	.brief = "connect standard input and output with a served store",
	.usage = "usage: tabletctl serve --stdio DATADIR\n"
		 "\n"
		 "The far end of HOST:DATADIR, which ssh runs at HOST: passes bytes between\n"
		 "standard input and output and the process that serves DATADIR.  If none does, and\n"
		 "DATADIR is yours, it starts tabletfs-server, which ends with its last user.\n"
		 "\n"
		 "Exit status: 0, or 2 when no process can serve it.\n",
	.letters = ":h",
	.options = serve_options,
	.kinds = "f",
	.least = 1,
	.most = 1,
	.run = serve_run,
};
