/* SPDX-License-Identifier: Apache-2.0 */
/* The texts that name a store, and the mount table, where a mount has the text of its store. */
#include "engine/base/source.h"

#include "engine/base/msg.h"
#include "engine/base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNIX_SCHEME "unix:"
#define TLS_SCHEME "tls://"
#define TCP_SCHEME "tcp://"
#define ZK_SCHEME "zk://"
#define CLUSTER_NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

/* ---- the text ---- */

static int wrong(char **why, const char *text, const char *reason)
{
	why_set(why, "%s: %s", text, reason);
	return -EINVAL;
}

/* Returns true for a part of [USER@]HOST that ssh and the commands of its settings may get. */
static bool name_fits(struct tfs_bytes s)
{
	static const char shell[] = "'`\"$\\;&<>|(){}*?!#~ /,";

	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < 0x20 || s.p[i] == 0x7f || strchr(shell, s.p[i]))
			return false;
	return s.n && s.p[0] != '-';
}

/* Returns the length of the name at s, or of the address at s, which is in brackets; 0 if there is neither. */
static size_t host_length(const char *s)
{
	const char *end = *s == '[' ? strchr(s, ']') : NULL;

	return end ? (size_t)(end + 1 - s) : *s == '[' ? 0 : strcspn(s, ":");
}

static struct tfs_bytes without_brackets(const char *s, size_t n)
{
	return *s == '[' ? tfs_bytes_of(s + 1, n - 2) : tfs_bytes_of(s, n);
}

static char *copy_of(struct tfs_bytes s)
{
	return strndup((const char *)s.p, s.n);
}

/* [USER@]HOST:DATADIR.  USER may contain @, as in ann@domain@host. */
static int parse_ssh(const char *text, struct store_source *out, char **why)
{
	const size_t before = strcspn(text, ":");
	const char *at = memrchr(text, '@', before), *from = at ? at + 1 : text;
	const size_t n = host_length(from);
	const struct tfs_bytes user = tfs_bytes_of(text, at ? (size_t)(at - text) : 0), host = without_brackets(from, n);
	const char *dir = from + n + 1;

	if (n == 0 || from[n] != ':' || host.n == 0)
		return wrong(why, text, "there is no host before the colon; write ./ before the name of a directory with a colon");
	if (!name_fits(host) || (at && !name_fits(user)))
		return wrong(why, text, "this is no name of a user and a host for ssh");
	if (strncmp(dir, "~/", 2) == 0) /* the login begins there */
		dir += 2;
	if (!*dir)
		return wrong(why, text, "the data directory is missing behind the colon");
	out->dir = strdup(dir);
	if (!out->dir || asprintf(&out->host, "%.*s%s%.*s", (int)user.n, text, at ? "@" : "", (int)host.n, host.p) < 0) {
		out->host = NULL;
		return -ENOMEM;
	}
	return 0;
}

static bool port_fits(const char *text)
{
	uint64_t v;

	return units_number(&text, &v) && !*text && v >= 1 && v <= 65535;
}

/* One HOST:PORT, which ends at a comma or at the end. */
static int parse_address(const char *s, size_t length, struct source_address *out)
{
	const size_t n = host_length(s);
	const struct tfs_bytes host = n ? without_brackets(s, n) : tfs_bytes_of(s, 0);

	if (n >= length || s[n] != ':' || !name_fits(host))
		return -EINVAL;
	out->host = copy_of(host);
	out->port = strndup(s + n + 1, length - n - 1);
	return !out->host || !out->port ? -ENOMEM : port_fits(out->port) ? 0 : -EINVAL;
}

static int parse_addresses(const char *text, const char *list, struct store_source *out, char **why)
{
	size_t n;
	int err = 0;

	for (const char *s = list; !err; s += n + 1) {
		if (out->address_count == SOURCE_ADDRESSES_MAX)
			return wrong(why, text, "there are more than 16 addresses");
		if (array_grow(&out->addresses, out->address_count, sizeof(*out->addresses)))
			return -ENOMEM;
		out->addresses[out->address_count] = (struct source_address){0};
		n = strcspn(s, ",");
		err = parse_address(s, n, &out->addresses[out->address_count++]);
		if (!err && !s[n])
			return 0;
	}
	return err == -EINVAL ? wrong(why, text, "must be HOST:PORT, or several of them separated by commas") : err;
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

bool store_source_is_cluster(const char *text)
{
	return begins(text, ZK_SCHEME);
}

/* HOST:PORT[,HOST:PORT]/CLUSTER/DIR */
static int parse_cluster(const char *text, struct store_source *out, char **why)
{
	static const char form[] = "must be " SOURCE_CLUSTER_FORM " and a directory";
	const char *list = text + strlen(ZK_SCHEME), *name = strchr(list, '/'), *dir = name ? strchr(name + 1, '/') : NULL;
	char *hosts = name ? strndup(list, (size_t)(name - list)) : NULL;
	int err;

	if (!dir) {
		free(hosts);
		return wrong(why, text, form);
	}
	if (!hosts)
		return -ENOMEM;
	err = parse_addresses(text, hosts, out, why);
	free(hosts);
	if (err)
		return err;
	out->host = strndup(name + 1, (size_t)(dir - name - 1));
	out->dir = strdup(dir);
	if (!out->host || !out->dir)
		return -ENOMEM;
	return *out->host && strspn(out->host, CLUSTER_NAME_CHARS) == strlen(out->host) && *out->host != '.'
		? 0
		: wrong(why, text, "the name of a cluster has letters, digits, '_', '-' and '.' only");
}

static int parse(const char *text, struct store_source *out, char **why)
{
	const char *dir = text;

	if (!*text)
		return wrong(why, "\"\"", "no data directory is given");
	if (strlen(text) > SOURCE_MAX)
		return wrong(why, "SOURCE", "its text is too long");
	if (begins(text, TLS_SCHEME) || begins(text, TCP_SCHEME)) {
		out->kind = begins(text, TLS_SCHEME) ? SOURCE_TLS : SOURCE_TCP;
		return parse_addresses(text, text + strlen(TLS_SCHEME), out, why);
	}
	if (store_source_is_cluster(text)) {
		out->kind = SOURCE_CLUSTER;
		return parse_cluster(text, out, why);
	}
	if (begins(text, UNIX_SCHEME)) {
		out->kind = SOURCE_UNIX;
		dir += strlen(UNIX_SCHEME);
		if (!*dir)
			return wrong(why, text, "the data directory is missing behind the colon");
	} else if (text[strcspn(text, ":/")] == ':') {
		out->kind = SOURCE_SSH;
		return strstr(text, "://") ? wrong(why, text, "no such kind of source") : parse_ssh(text, out, why);
	}
	out->dir = strdup(dir);
	return out->dir ? 0 : -ENOMEM;
}

int store_source_parse(const char *text, struct store_source *out, char **why)
{
	struct store_source s = {.kind = SOURCE_DIR};
	int err = parse(text, &s, why);

	if (err)
		store_source_fini(&s);
	else
		*out = s;
	return err;
}

void store_source_fini(struct store_source *s)
{
	for (unsigned i = 0; i < s->address_count; i++) {
		free(s->addresses[i].host);
		free(s->addresses[i].port);
	}
	free(s->addresses);
	free(s->host);
	free(s->dir);
	*s = (struct store_source){0};
}

/* ---- the mount table ---- */

struct mount {
	char *source;     /* as the mount table has it: octal escapes for blanks and backslashes */
	unsigned user;    /* the user who mounted it */
	bool whole, ours; /* it shows the root of its file system; it is a tabletfs */
};

/* "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG...] - TYPE SOURCE OPTIONS", proc(5). */
static bool mount_line_parse(char *line, uint64_t id, struct mount *out)
{
	char *rest = line, *root = NULL, *type, *source, *options, *user;

	if (strtoull(line, NULL, 10) != id)
		return false;
	for (unsigned i = 0; i < 4 && rest; i++)
		root = strsep(&rest, " ");
	rest = rest ? strstr(rest, " - ") : NULL;
	if (!rest)
		return false;
	rest += 3;
	type = strsep(&rest, " ");
	source = rest ? strsep(&rest, " ") : NULL;
	options = rest ? rest : NULL;
	user = options ? strstr(options, "user_id=") : NULL;
	*out = (struct mount){.whole = strcmp(root, "/") == 0, .ours = strcmp(type, "fuse.tabletfs") == 0 && user};
	out->user = user ? (unsigned)strtoul(user + strlen("user_id="), NULL, 10) : 0;
	out->source = source;
	return source != NULL;
}

/* Replaces \OOO. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++)
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	*to = 0;
}

/* Returns the text of the source of the mount of this number, NULL if it is no mount of a tabletfs. */
static char *mount_source(uint64_t id, unsigned *user)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, *source = NULL;
	struct mount m = {0};
	size_t room = 0;
	ssize_t n;

	while (f && !source && (n = getline(&line, &room, f)) > 0) {
		if (line[n - 1] == '\n')
			line[n - 1] = 0;
		if (!mount_line_parse(line, id, &m))
			continue;
		if (m.ours && m.whole)
			source = strdup(m.source);
		break;
	}
	if (f)
		fclose(f);
	free(line);
	if (source)
		unescape(source);
	*user = m.user;
	return source;
}

/* The number of the mount whose mount point is path.  The daemon of the mount is not asked. */
static bool mount_at(const char *path, uint64_t *id)
{
	struct statx st;

	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_MNT_ID, &st) || !(st.stx_mask & STATX_MNT_ID) ||
		!(st.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return false;
	*id = st.stx_mnt_id;
	return true;
}

/* Replaces a directory that is the mount point of a tabletfs by the source of the mount. */
static int follow_mount(struct store_source *s, char **why)
{
	struct store_source at = {0};
	char *ignored = NULL;
	unsigned user = 0;
	uint64_t id;
	char *text = mount_at(s->dir, &id) ? mount_source(id, &user) : NULL;
	int err = 0;

	if (!text)
		return 0;
	if (user != 0 && user != geteuid()) {
		err = -EPERM;
		why_set(why, "%s: user %u has mounted it; name the source itself", s->dir, user);
	}
	if (!err && (store_source_parse(text, &at, &ignored) || (store_source_directory(&at) && *at.dir != '/'))) {
		err = -EINVAL;
		why_set(why, "%s: the option fsname of this mount hides its source; name the source itself", s->dir);
	}
	if (!err && at.kind == SOURCE_SSH && user != geteuid()) {
		err = -EPERM;
		why_set(why, "%s: user %u has mounted it over ssh; name the source itself", s->dir, user);
	}
	free(ignored);
	free(text);
	if (err) {
		store_source_fini(&at);
		return err;
	}
	if (at.kind == SOURCE_DIR)
		at.kind = SOURCE_UNIX;
	store_source_fini(s);
	*s = at;
	return 0;
}

int store_source_find(const char *text, struct store_source *out, char **why)
{
	struct store_source s;
	int err = store_source_parse(text, &s, why);

	if (!err && s.kind == SOURCE_DIR) {
		err = follow_mount(&s, why);
		if (err)
			store_source_fini(&s);
	}
	if (!err)
		*out = s;
	return err;
}

/* ---- back to text ---- */

static int add_addresses(const struct store_source *s, struct buf *out)
{
	int err = 0;

	for (unsigned i = 0; i < s->address_count && !err; i++) {
		const bool six = strchr(s->addresses[i].host, ':');

		err = buf_printf(out, "%s%s%s%s:%s", i ? "," : "", six ? "[" : "", s->addresses[i].host, six ? "]" : "",
			s->addresses[i].port);
	}
	return err;
}

static int add_network(const struct store_source *s, struct buf *out)
{
	const char *scheme = s->kind == SOURCE_TLS ? TLS_SCHEME : s->kind == SOURCE_TCP ? TCP_SCHEME : ZK_SCHEME;
	int err = buf_printf(out, "%s", scheme);

	if (!err)
		err = add_addresses(s, out);
	if (!err && s->kind == SOURCE_CLUSTER)
		err = buf_printf(out, "/%s%s", s->host, s->dir);
	return err;
}

char *store_source_hosts(const struct store_source *s)
{
	struct buf b = {0};

	if (add_addresses(s, &b) || buf_u8(&b, 0)) {
		buf_fini(&b);
		return NULL;
	}
	return (char *)b.p;
}

static int add_ssh(const struct store_source *s, struct buf *out)
{
	const char *at = strrchr(s->host, '@'), *host = at ? at + 1 : s->host;
	const bool six = strchr(host, ':');

	return buf_printf(out, "%.*s%s%s%s:%s", (int)(host - s->host), s->host, six ? "[" : "", host, six ? "]" : "", s->dir);
}

static int add_directory(const struct store_source *s, struct buf *out)
{
	char *cwd = *s->dir == '/' ? NULL : getcwd(NULL, 0);
	int err = *s->dir == '/' || cwd
		? buf_printf(out, "%s%s%s%s", s->kind == SOURCE_UNIX ? UNIX_SCHEME : "", cwd ? cwd : "", cwd ? "/" : "", s->dir)
		: -ENOMEM;

	free(cwd);
	return err;
}

char *store_source_text(const struct store_source *s)
{
	struct buf b = {0};
	int err = store_source_directory(s) ? add_directory(s, &b) : s->kind == SOURCE_SSH ? add_ssh(s, &b) : add_network(s, &b);

	if (!err)
		err = buf_u8(&b, 0);
	if (err) {
		buf_fini(&b);
		return NULL;
	}
	return (char *)b.p;
}

int store_source_copy(const struct store_source *s, struct store_source *out)
{
	char *text = store_source_text(s), *why = NULL;
	int err = text ? store_source_parse(text, out, &why) : -ENOMEM;

	free(text);
	free(why);
	return err;
}
