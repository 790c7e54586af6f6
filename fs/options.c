/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command lines of tabletfs(1) and tabletfs-server(1), which are one program with two
 * names, and the settings of tabletfs.conf(5).  The command line is parsed twice.  The first time finds config=FILE.  The second
 * time the mount_options of that file are put before the command line's own arguments, so that the command line is stronger, as
 * it is for DATADIR and MOUNTPOINT.
 */
#include "fs/options.h"

#include "engine/base/msg.h"
#include "engine/base/units.h"
#include "fs/session.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SERVER_NAME "tabletfs-server"
#define DEFAULT_CONFIG "/etc/tabletfs.conf"

enum { KEY_RO, KEY_RW, KEY_FSNAME, KEY_MAX_READ, KEY_ALLOW_OTHER, KEY_ALLOW_ROOT, KEY_DEFAULT_PERMISSIONS };

#define OPTION(text, field)                                                                                                        \
	{                                                                                                                          \
		text, offsetof(struct command, field), 1                                                                           \
	}
#define BOTH                                                                                                                       \
	OPTION("-f", foreground), OPTION("-h", help), OPTION("--help", help), OPTION("-V", version), OPTION("--version", version), \
		OPTION("--print-config", print), {"--check-config %s", offsetof(struct command, check), 0}, OPTION("sync", sync),  \
		OPTION("nocreate", no_create), {"config=%s", offsetof(struct command, config), 0},                                 \
		{"name=%s", offsetof(struct command, name), 0},                                                                    \
	{                                                                                                                          \
		"http=%s", offsetof(struct command, http), 0                                                                       \
	}
static const struct fuse_opt server_spec[] = {BOTH, OPTION("while-used", while_used),
	{"listen=%s", offsetof(struct command, listen), 0}, {"keys=%s", offsetof(struct command, keys), 0}, FUSE_OPT_END};
static const struct fuse_opt mount_spec[] = {BOTH, OPTION("-d", debug), OPTION("debug", debug), OPTION("-s", single),
	OPTION("quiet", quiet), OPTION("latest", latest), {"timeout=%s", offsetof(struct command, timeout), 0},
	{"coherence=%s", offsetof(struct command, coherence), 0}, {"keys=%s", offsetof(struct command, keys), 0},
	{"ssh=%s", offsetof(struct command, ssh), 0}, {"slow=%s", offsetof(struct command, slow), 0}, FUSE_OPT_KEY("ro", KEY_RO),
	FUSE_OPT_KEY("rw", KEY_RW), FUSE_OPT_KEY("async", FUSE_OPT_KEY_DISCARD), FUSE_OPT_KEY("_netdev", FUSE_OPT_KEY_DISCARD),
	FUSE_OPT_KEY("nofail", FUSE_OPT_KEY_DISCARD), FUSE_OPT_KEY("auto", FUSE_OPT_KEY_DISCARD),
	FUSE_OPT_KEY("noauto", FUSE_OPT_KEY_DISCARD), FUSE_OPT_KEY("defaults", FUSE_OPT_KEY_DISCARD),
	FUSE_OPT_KEY("user", FUSE_OPT_KEY_DISCARD), FUSE_OPT_KEY("nouser", FUSE_OPT_KEY_DISCARD),
	FUSE_OPT_KEY("users", FUSE_OPT_KEY_DISCARD), FUSE_OPT_KEY("owner", FUSE_OPT_KEY_DISCARD),
	FUSE_OPT_KEY("group", FUSE_OPT_KEY_DISCARD), FUSE_OPT_KEY("relatime", FUSE_OPT_KEY_DISCARD),
	FUSE_OPT_KEY("fsname=", KEY_FSNAME), FUSE_OPT_KEY("allow_other", KEY_ALLOW_OTHER),
	FUSE_OPT_KEY("allow_root", KEY_ALLOW_ROOT), FUSE_OPT_KEY("default_permissions", KEY_DEFAULT_PERMISSIONS),
	FUSE_OPT_KEY("max_read=", KEY_MAX_READ), FUSE_OPT_END};

static const char *called = "tabletfs";
const char *command_name(void)
{
	return called;
}

static int take_operand(struct command *c, const char *arg)
{
	if (!c->source)
		c->source = strdup(arg);
	else if (!c->mountpoint && !c->server)
		c->mountpoint = strdup(arg);
	else if (c->server && store_source_is_cluster(c->source) && !c->has_directory) {
		char *dir = realpath(arg, NULL), *text = NULL;

		if (!dir || asprintf(&text, "%s%s", c->source, dir) < 0) {
			fprintf(stderr, "%s: %s: %s\n", command_name(), arg, strerror(errno));
			free(dir);
			return -1;
		}
		free(dir);
		free(c->source);
		c->source = text;
		c->has_directory = true;
	} else {
		fprintf(stderr, "%s: %s: one argument too many\n", command_name(), arg);
		return -1;
	}
	return 0;
}

static int take_argument(void *data, const char *arg, int key, struct fuse_args *out)
{
	struct command *c = data;

	if (key == FUSE_OPT_KEY_NONOPT)
		return take_operand(c, arg);
	if (c->server) {
		fprintf(stderr, "%s: %s: no such option; see '%s -h'\n", command_name(), arg, command_name());
		return -1;
	}
	if (key == KEY_RO || key == KEY_RW) {
		c->read_only = key == KEY_RO;
		return 1; /* the kernel needs it too */
	}
	if (key == KEY_FSNAME)
		c->own_source = true;
	if (key == KEY_ALLOW_OTHER)
		fs.many_users = true;
	if (key == KEY_ALLOW_ROOT || key == KEY_DEFAULT_PERMISSIONS)
		c->kernel_checks = true; /* allow_root lets two users enter */
	if (key == KEY_MAX_READ)
		fs.max_read = (unsigned)strtoul(arg + strlen("max_read="), NULL, 10);
	/* Options in fstab that are meant for other programs. */
	if (key == FUSE_OPT_KEY_OPT &&
		(strncmp(arg, "x-", 2) == 0 || strncmp(arg, "X-", 2) == 0 || strncmp(arg, "comment=", 8) == 0))
		return 0;
	return 1;
}

#define HELP_FOR_BOTH                                                                                                              \
	"    -V   --version         print the version\n"                                                                           \
	"    -h   --help            print this\n"                                                                                  \
	"    --check-config FILE    check the settings in FILE, and start nothing\n"                                               \
	"    --print-config         print all settings and their defaults as comments\n"                                           \
	"    -o sync                every commit is on disk before it is acknowledged\n"                                           \
	"    -o nocreate            make no store in a directory that is absent or empty\n"                                        \
	"    -o config=FILE         settings (default " DEFAULT_CONFIG ", if there is one)\n"                                      \
	"    -o http=ADDR:PORT      metrics and a status page over HTTP\n"                                                         \
	"    -o name=NAME           the name of the store on the status page\n"

static int server_help(void)
{
	fputs("usage: tabletfs-server DATADIR [options]\n"
	      "       tabletfs-server " SOURCE_CLUSTER_FORM " DIR -o listen=ADDR:PORT,keys=FILE\n"
	      "       tabletfs-server -o config=FILE [options]   (FILE names DATADIR)\n"
	      "\n"
	      "Serves the store of a data directory (made if absent or empty) at DATADIR/socket,\n"
	      "to mounts of unix:DATADIR, tabletctl and programs of the library.  The second form\n"
	      "is a server of a cluster (tabletfs-cluster(7)).\n"
	      "\n"
	      "    -f                     stay in the foreground\n" HELP_FOR_BOTH
	      "    -o listen=ADDR:PORT    serve hosts with a key there\n"
	      "    -o keys=FILE           the keys of these hosts\n",
		stdout);
	return 0;
}

int command_help(bool server)
{
	if (server)
		return server_help();
	fputs("usage: tabletfs SOURCE MOUNTPOINT [options]\n"
	      "       tabletfs -o config=FILE [options]   (FILE names SOURCE and MOUNTPOINT)\n"
	      "\n"
	      "Mounts the tables of a store as a file tree.  SOURCE is a data directory (made if\n"
	      "absent or empty), unix:DATADIR or [USER@]HOST:DATADIR (one that is served here, or\n"
	      "at HOST over ssh).\n"
	      "\n"
	      "    -f                     stay in the foreground\n"
	      "    -d   -o debug          the same, and show every request\n"
	      "    -s                     serve with a single thread\n" HELP_FOR_BOTH
	      "    -o ro                  read-only, everything cached\n"
	      "    -o remount,OPTIONS     change ro, rw, noatime and other options of the kernel\n"
	      "    -o slow=TIME           the status page lists requests that take longer (default 1s)\n"
	      "    -o quiet               chmod and chown of cells succeed without effect\n"
	      "    -o latest              tables show plain names, newest versions only\n"
	      "    -o timeout=TIME        how long calls wait for the server of unix:DATADIR or HOST:DATADIR\n"
	      "    -o coherence=TIME      nothing is kept of that store if nothing is heard of the daemon for TIME\n"
	      "    -o keys=FILE           the file of the key for tls://HOST:PORT\n"
	      "    -o ssh=COMMAND         the program that reaches HOST (default ssh)\n"
	      "\n"
	      "FUSE options:\n",
		stdout);
	fuse_lowlevel_help();
	return 0;
}

int command_version(bool server)
{
	printf("%s %s\n", command_name(), PACKAGE_VERSION);
	if (!server)
		fuse_lowlevel_version();
	return 0;
}

int command_print_config(void)
{
	char *text;
	int err = tfs_options_example(&text);

	if (err) {
		fprintf(stderr, "%s: %s\n", command_name(), strerror(-err));
		return 1;
	}
	fputs(text, stdout);
	free(text);
	if (fflush(stdout) == 0)
		return 0;
	fprintf(stderr, "%s: standard output: %s\n", command_name(), strerror(errno));
	return 1;
}

/* The command line is stronger than the file. */
static void apply_command(const struct command *c, struct tfs_options *o)
{
	o->sync = o->sync || c->sync;
	o->existing = o->existing || c->no_create || c->read_only;
	if (c->http)
		snprintf(o->http, sizeof(o->http), "%s", c->http);
	if (c->keys)
		snprintf(o->keys, sizeof(o->keys), "%s", c->keys);
	if (c->listen)
		snprintf(o->listen, sizeof(o->listen), "%s", c->listen);
	if (c->timeout)
		(void)!units_duration(c->timeout, &o->timeout_us);
	if (c->coherence)
		(void)!units_duration(c->coherence, &o->coherence_us);
	if (c->ssh)
		snprintf(o->ssh, sizeof(o->ssh), "%s", c->ssh);
	if (c->name)
		snprintf(o->name, sizeof(o->name), "%s", c->name);
	if (c->slow)
		(void)!units_duration(c->slow, &o->slow_us);
	if (c->source)
		snprintf(o->data, sizeof(o->data), "%s", c->source);
	if (c->mountpoint)
		snprintf(o->mountpoint, sizeof(o->mountpoint), "%s", c->mountpoint);
}

int command_load(const struct command *c, struct tfs_options *o, char **why)
{
	int err = 0;

	*why = NULL;
	tfs_options_init(o);
	if (c->config)
		err = tfs_options_load(o, c->config, why);
	if (!err)
		apply_command(c, o);
	return err;
}

/* Appends the arguments, with "-o OPTIONS" after the first. */
static int join_arguments(int argc, char **argv, const char *options, struct fuse_args *out)
{
	int err = fuse_opt_add_arg(out, argv[0]);

	if (!err && *options)
		err = fuse_opt_add_arg(out, "-o") || fuse_opt_add_arg(out, options);
	for (int i = 1; i < argc && !err; i++)
		err = fuse_opt_add_arg(out, argv[i]);
	return err ? -ENOMEM : 0;
}

/* Adds the arguments of libfuse that each mount has. */
static int add_options(const struct command *c, struct fuse_args *args)
{
	char name[2 * SOURCE_MAX + 1];
	size_t n = 0;
	int err;

	/* In the mount table, a comma or a backslash would end the name. */
	for (const char *s = c->source; *s && n < sizeof(name) - 2; s++) {
		if (*s == ',' || *s == '\\')
			name[n++] = '\\';
		name[n++] = *s;
	}
	name[n] = 0;
	fs.own_checks = !fs.many_users && !c->kernel_checks && !c->read_only;
	err = fuse_opt_add_arg(args, "-o");
	if (err == 0) {
		char *option;

		if (asprintf(&option, "%ssubtype=tabletfs%s%s", fs.own_checks ? "" : "default_permissions,",
			    c->own_source ? "" : ",fsname=", c->own_source ? "" : name) < 0)
			return -ENOMEM;
		err = fuse_opt_add_arg(args, option);
		free(option);
	}
	if (!err && c->debug)
		err = fuse_opt_add_arg(args, "-odebug");
	return err ? -ENOMEM : 0;
}

/* Replaces the text by an absolute one, because the working directory of the background process is /. */
static int find_source(struct command *c)
{
	char *why = NULL;
	int err = store_source_find(c->source, &c->at, &why);

	if (!err) {
		free(c->source);
		c->source = store_source_text(&c->at);
		err = c->source ? 0 : -ENOMEM;
	}
	if (err)
		fprintf(stderr, "%s: %s\n", command_name(), why ? why : strerror(-err));
	free(why);
	return err;
}

/* Resolves the path of -o keys. */
static int find_keys(struct command *c)
{
	char *path = c->keys ? realpath(c->keys, NULL) : NULL;

	if (!c->keys)
		return 0;
	if (!path || strlen(path) >= sizeof(c->settings.keys)) {
		fprintf(stderr, "%s: -o keys=%s: %s\n", command_name(), c->keys, strerror(path ? ENAMETOOLONG : errno));
		free(path);
		return -EINVAL;
	}
	free(c->keys);
	c->keys = path;
	return 0;
}

/* `given` is the path in the command line.  Sets *config to the absolute path of the file of settings, NULL if there is none. */
static int find_config(const char *given, char **config)
{
	*config = NULL;
	if (given) {
		*config = realpath(given, NULL);
		if (!*config) {
			fprintf(stderr, "%s: -o config=%s: %s\n", command_name(), given,
				*given ? strerror(errno) : "the name of a file is missing");
			return -EINVAL;
		}
	} else if (access(DEFAULT_CONFIG, F_OK) == 0) {
		*config = strdup(DEFAULT_CONFIG);
	}
	return 0;
}

static int load_settings(const char *path, struct tfs_options *o)
{
	char *why = NULL;
	int err = 0;

	tfs_options_init(o);
	if (path)
		err = tfs_options_load(o, path, &why);
	if (err)
		fprintf(stderr, "%s: %s\n", command_name(), why ? why : strerror(-err));
	free(why);
	return err;
}

static int parse(struct command *c, struct fuse_args *args)
{
	return fuse_opt_parse(args, c, c->server ? server_spec : mount_spec, take_argument) ? -EINVAL : 0;
}

/* The second time: everything but config=. */
static int parse_again(struct command *c, struct fuse_args *args, const char *config)
{
	int err = parse(c, args);

	if (!err && c->config && (!config || strcmp(c->config, config) != 0)) {
		fprintf(stderr, "%s: mount_options: config=%s must be in the command line\n", command_name(), c->config);
		err = -EINVAL;
	}
	free(c->config);
	c->config = NULL;
	return err;
}

/* Returns true if -o timeout and -o coherence are times, and a server's source is a data directory. */
static bool is_right(const struct command *c)
{
	uint64_t timeout_us, coherence_us, slow_us;

	if (c->coherence && (!units_duration(c->coherence, &coherence_us) || coherence_us < 500000 || coherence_us > 60000000)) {
		fprintf(stderr, "%s: coherence=%s: must be from 500ms to 60s\n", command_name(), c->coherence);
		return false;
	}
	if (c->timeout && (!units_duration(c->timeout, &timeout_us) || timeout_us < 1000000 || timeout_us > 60000000)) {
		fprintf(stderr, "%s: timeout=%s: must be from 1s to 60s\n", command_name(), c->timeout);
		return false;
	}
	if (c->slow && (!units_duration(c->slow, &slow_us) || slow_us < 1000 || slow_us > 86400000000ull)) {
		fprintf(stderr, "%s: slow=%s: must be from 1ms to 1d\n", command_name(), c->slow);
		return false;
	}
	if (c->name && (strlen(c->name) >= sizeof(c->settings.name) || text_has_control(c->name))) {
		fprintf(stderr, "%s: name=%s: must have at most 128 bytes, and no control characters\n", command_name(), c->name);
		return false;
	}
	if (c->ssh && strlen(c->ssh) >= sizeof(c->settings.ssh)) {
		fprintf(stderr, "%s: ssh=%s: is too long\n", command_name(), c->ssh);
		return false;
	}
	if (c->listen && strlen(c->listen) >= sizeof(c->settings.listen)) {
		fprintf(stderr, "%s: listen=%s: is too long\n", command_name(), c->listen);
		return false;
	}
	if (c->server && c->at.kind != SOURCE_DIR && c->at.kind != SOURCE_CLUSTER) {
		fprintf(stderr, "%s: %s: not a data directory\n", command_name(), c->source);
		return false;
	}
	if (!c->server && c->at.kind == SOURCE_CLUSTER) {
		fprintf(stderr, "%s: %s: a mount names the servers: tls://HOST:PORT[,HOST:PORT]\n", command_name(), c->source);
		return false;
	}
	return true;
}

/* The last part of the path by which the program was started. */
static bool is_server(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strcmp(slash ? slash + 1 : path, SERVER_NAME) == 0;
}

int command_read(int argc, char **argv, struct command *c, struct fuse_args *args)
{
	struct fuse_args once = FUSE_ARGS_INIT(argc, argv);
	struct command first = {.server = argc && is_server(argv[0])};
	struct tfs_options settings;
	char *config = NULL;
	int err;

	*c = (struct command){.server = first.server};
	if (c->server)
		called = SERVER_NAME;
	err = parse(&first, &once);
	fuse_opt_free_args(&once);
	if (!err && (first.help || first.version || first.print || first.check)) {
		*c = first;
		return 0;
	}
	if (!err)
		err = find_config(first.config, &config);
	if (!err)
		err = load_settings(config, &settings);
	if (!err)
		err = join_arguments(argc, argv, c->server ? "" : settings.mount_options, args);
	if (!err)
		err = parse_again(c, args, first.config);
	command_free(&first);
	c->config = config;
	if (err)
		return 1;
	if (!c->source && settings.data[0])
		c->source = strdup(settings.data);
	if (!c->mountpoint && !c->server && settings.mountpoint[0])
		c->mountpoint = strdup(settings.mountpoint);
	if (!c->source || (!c->server && !c->mountpoint)) {
		fprintf(stderr, "usage: %s %s [options]; see %s -h\n", command_name(), c->server ? "DATADIR" : "SOURCE MOUNTPOINT",
			command_name());
		return 1;
	}
	if (find_source(c) || find_keys(c) || !is_right(c) || (!c->server && add_options(c, args)))
		return 1;
	apply_command(c, &settings);
	c->settings = settings;
	return 0;
}

void command_free(struct command *c)
{
	store_source_fini(&c->at);
	free(c->source);
	free(c->mountpoint);
	free(c->config);
	free(c->check);
	free(c->http);
	free(c->timeout);
	free(c->coherence);
	free(c->keys);
	free(c->listen);
	free(c->ssh);
	free(c->name);
	free(c->slow);
}

/* The line of the file that sets mount_options, which libfuse checks without its place. */
static int line_of_options(const char *path)
{
	FILE *f = fopen(path, "re");
	char *line = NULL, *name;
	size_t room = 0;
	int n = 0;
	bool found = false;

	while (f && !found && getline(&line, &room, f) > 0) {
		n++;
		name = strstr(line, "mount_options");
		found = name && !memchr(line, '#', (size_t)(name - line));
	}
	free(line);
	if (f)
		fclose(f);
	return n;
}

int command_check(const char *path)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	char name[] = "tabletfs", *program = name;
	struct tfs_options settings;
	struct command c = {0};
	int err = load_settings(path, &settings);

	if (err)
		return 1;
	/* libfuse checks options when it makes a session, and prints the wrong option. */
	err = join_arguments(1, &program, settings.mount_options, &args);
	if (!err)
		err = parse_again(&c, &args, NULL);
	if (!err)
		err = session_new(&args);
	if (!err)
		fuse_session_destroy(fs.session);
	else
		fprintf(stderr, "%s: %s:%d: mount_options: \"%s\" contains a wrong option\n", command_name(), path,
			line_of_options(path), settings.mount_options);
	command_free(&c);
	fuse_opt_free_args(&args);
	return err ? 1 : 0;
}
