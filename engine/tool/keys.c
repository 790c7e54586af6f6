/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tabletctl keys: a new key for a host, in the file of keys of a server (engine/rpc/keys.h).
 * The line is appended by one write, so a server that reads the file meanwhile has it or has
 * it not.
 */
#include "engine/rpc/keys.h"

#include "engine/tool/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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
