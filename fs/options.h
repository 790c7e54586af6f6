/* SPDX-License-Identifier: Apache-2.0 */
/* The command lines of tabletfs(1) and tabletfs-server(1), and the settings of tabletfs.conf(5). */
#ifndef TFS_FS_OPTIONS_H
#define TFS_FS_OPTIONS_H

#include "engine/base/source.h"
#include "fs/base/fs.h"

/* The program: "tabletfs" or, if command_read() has found this name, "tabletfs-server", which serves its store without a mount. */
const char *command_name(void);

struct command {
	bool server;               /* the program is tabletfs-server, which has no mountpoint */
	char *source, *mountpoint; /* from the command line, or else from the settings; source is absolute */
	struct store_source at;    /* the source */
	char *config;              /* the absolute path of the file of settings; NULL: there is none */
	char *http;                /* the value of -o http=ADDRESS; NULL: not given */
	char *timeout, *coherence; /* the values of -o timeout=TIME and -o coherence=TIME; NULL: not given */
	char *keys;                /* the value of -o keys=FILE, absolute; NULL: not given */
	char *listen;              /* the value of a server's -o listen=ADDR:PORT; NULL: not given */
	char *ssh;                 /* the value of -o ssh=COMMAND; NULL: not given */
	char *name, *slow;         /* the values of -o name=NAME and -o slow=TIME; NULL: not given */
	char *check;               /* the file of --check-config */
	int foreground, debug, single, help, version, print;
	int read_only, sync, no_create, quiet, latest, while_used;
	bool own_source;    /* fsname= was given */
	bool kernel_checks; /* the kernel checks modes and owners, also if other options would leave that to the daemon */
	bool has_directory; /* the source of a server of a cluster ends with its directory */
	struct tfs_options settings;
};

/*
 * Reads the command line, which begins with the name of the program, and the settings.  args, empty
 * before, gets the arguments of libfuse, which a server does not use: first the mount_options of
 * the settings, then the options of the command line.  Returns 0, or 1 after a line on standard
 * error.  The caller frees *c in both cases.
 */
int command_read(int argc, char **argv, struct command *c, struct fuse_args *args) TFS_MUST;
void command_free(struct command *c);
/*
 * Loads the file of settings as at the start.  Returns 0, or -errno and sets
 * *why to one line, which the caller frees.
 */
int command_load(const struct command *c, struct tfs_options *o, char **why) TFS_MUST;

/* These print to standard output.  Return the exit status. */
int command_help(bool server);
int command_version(bool server);
int command_print_config(void);
/* Checks a file of settings and its mount_options; a line on standard error names file, line and cause. */
int command_check(const char *path);

#endif
