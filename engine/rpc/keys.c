/* SPDX-License-Identifier: Apache-2.0 */
/* Files of keys: the parser has no I/O and accepts any bytes. */
#include "engine/rpc/keys.h"

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/msg.h"
#include "engine/base/units.h"
#include "engine/schema/schema.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct keys {
	_Atomic unsigned refs;
	struct key *v;
	unsigned count;
};

/* ---- one line ---- */

/* The next word of the line; n 0 at its end. */
static struct tfs_bytes next_word(struct tfs_bytes *rest)
{
	struct tfs_bytes w;

	while (rest->n && (*rest->p == ' ' || *rest->p == '\t'))
		*rest = tfs_bytes_of(rest->p + 1, rest->n - 1);
	w = tfs_bytes_of(rest->p, 0);
	while (w.n < rest->n && rest->p[w.n] != ' ' && rest->p[w.n] != '\t')
		w.n++;
	*rest = tfs_bytes_of(rest->p + w.n, rest->n - w.n);
	return w;
}

static bool is(struct tfs_bytes w, const char *text)
{
	return bytes_eq(w, tfs_str(text));
}

static bool parse_name(struct tfs_bytes w, char name[KEY_NAME_MAX + 1])
{
	static const char others[] = "-_.@";

	if (!w.n || w.n > KEY_NAME_MAX || *w.p == '-' || *w.p == '.')
		return false;
	for (size_t i = 0; i < w.n; i++) {
		const uint8_t c = w.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr(others, c))))
			return false;
	}
	memcpy(name, w.p, w.n);
	name[w.n] = 0;
	return true;
}

static int hex_digit(uint8_t c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_secret(struct tfs_bytes w, uint8_t secret[KEY_SECRET])
{
	if (w.n != KEY_SECRET * 2)
		return false;
	for (unsigned i = 0; i < KEY_SECRET; i++) {
		const int high = hex_digit(w.p[i * 2]), low = hex_digit(w.p[i * 2 + 1]);

		if (high < 0 || low < 0)
			return false;
		secret[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static bool parse_id(struct tfs_bytes w, uint32_t *id)
{
	char text[16];
	uint64_t n;

	if (!w.n || w.n >= sizeof(text) || memchr(w.p, 0, w.n))
		return false;
	memcpy(text, w.p, w.n);
	text[w.n] = 0;
	if (!number_parse(text, 0, &n, NULL) || n >= UINT32_MAX)
		return false;
	*id = (uint32_t)n;
	return true;
}

static int parse_tables(struct tfs_bytes w, struct key *k, const char **reason)
{
	*reason = "tables: must be names of tables with commas between them";
	for (;;) {
		const uint8_t *comma = w.n ? memchr(w.p, ',', w.n) : NULL;
		const struct tfs_bytes name = {w.p, comma ? (size_t)(comma - w.p) : w.n};

		if (!schema_name_valid(name))
			return -EINVAL;
		if (k->table_count == KEY_TABLES_MAX) {
			*reason = "tables: too many";
			return -EINVAL;
		}
		if (array_grow(&k->tables, k->table_count, sizeof(*k->tables)))
			return -ENOMEM;
		memcpy(k->tables[k->table_count], name.p, name.n);
		k->tables[k->table_count++][name.n] = 0;
		if (!comma)
			return 0;
		w = tfs_bytes_of(comma + 1, w.n - name.n - 1);
	}
}

static int parse_option(struct tfs_bytes w, struct key *k, const char **reason)
{
	const uint8_t *equals = memchr(w.p, '=', w.n);
	const struct tfs_bytes name = {w.p, equals ? (size_t)(equals - w.p) : w.n};
	const struct tfs_bytes value = equals ? tfs_bytes_of(equals + 1, w.n - name.n - 1) : tfs_bytes_of(w.p, 0);

	if (is(name, "squash")) {
		*reason = "squash: must be root or all";
		k->squash = is(value, "root") ? SQUASH_ROOT : is(value, "all") ? SQUASH_ALL : SQUASH_NONE;
		return k->squash ? 0 : -EINVAL;
	}
	if (is(name, "anon_uid") || is(name, "anon_gid")) {
		*reason = "anon_uid and anon_gid: must be numbers";
		return parse_id(value, is(name, "anon_uid") ? &k->anon_uid : &k->anon_gid) ? 0 : -EINVAL;
	}
	if (is(name, "tables") && !k->table_count)
		return parse_tables(value, k, reason);
	*reason = "an option is squash=root|all, anon_uid=N, anon_gid=N or tables=A,B";
	return -EINVAL;
}

static int parse_line(struct tfs_bytes rest, struct key *k, const char **reason)
{
	struct tfs_bytes role, w = next_word(&rest);
	int err = 0;

	*reason = "a name is letters, digits and any of -_.@, at most 64 of them";
	if (!parse_name(w, k->name))
		return -EINVAL;
	role = next_word(&rest);
	*reason = "the role after the name must be mount or cluster";
	if (!is(role, "mount") && !is(role, "cluster"))
		return -EINVAL;
	k->role = is(role, "mount") ? KEY_MOUNT : KEY_CLUSTER;
	*reason = "the secret after the role must be 64 hexadecimal digits";
	if (!parse_secret(next_word(&rest), k->secret))
		return -EINVAL;
	k->anon_uid = k->anon_gid = KEY_NOBODY;
	while (!err && (w = next_word(&rest)).n) {
		*reason = "a key of role cluster has no options";
		err = k->role == KEY_CLUSTER ? -EINVAL : parse_option(w, k, reason);
	}
	return err;
}

/* ---- the file ---- */

static void key_fini(struct key *k)
{
	explicit_bzero(k->secret, sizeof(k->secret));
	free(k->tables);
}

void keys_put(struct keys *k)
{
	if (!k || atomic_fetch_sub(&k->refs, 1) != 1)
		return;
	for (unsigned i = 0; i < k->count; i++)
		key_fini(&k->v[i]);
	free(k->v);
	free(k);
}

struct keys *keys_get(struct keys *k)
{
	atomic_fetch_add(&k->refs, 1);
	return k;
}

static int add_line(struct keys *k, struct tfs_bytes line, const char **reason)
{
	struct key one = {0};
	int err = parse_line(line, &one, reason);

	if (!err && keys_find(k, tfs_str(one.name))) {
		*reason = "there is another key of this name";
		err = -EINVAL;
	}
	if (!err && k->count == KEYS_MAX) {
		*reason = "too many keys";
		err = -EINVAL;
	}
	if (!err)
		err = array_grow(&k->v, k->count, sizeof(*k->v));
	if (err)
		key_fini(&one);
	else
		k->v[k->count++] = one;
	return err;
}

int keys_parse(struct tfs_bytes text, struct keys **out, unsigned *line, const char **reason)
{
	struct keys *k = calloc(1, sizeof(*k));
	int err = k ? 0 : -ENOMEM;

	*line = 0;
	*reason = "";
	if (k)
		k->refs = 1;
	while (text.n && !err) {
		const uint8_t *end = memchr(text.p, '\n', text.n);
		struct tfs_bytes one = {text.p, end ? (size_t)(end - text.p) : text.n}, words = one, first = next_word(&words);

		text = tfs_bytes_of(text.p + one.n + (end != NULL), text.n - one.n - (end != NULL));
		++*line;
		if (first.n && *first.p != '#')
			err = add_line(k, one, reason);
	}
	if (err)
		keys_put(k);
	else
		*out = k;
	return err;
}

int keys_load(const char *path, struct keys **out, bool *ends, char **why)
{
	struct buf text = {0};
	const char *reason;
	struct keys *k = NULL;
	unsigned line;
	int err = file_read_secret(path, KEYS_FILE_MAX, &text);

	if (err == -EACCES)
		why_set(why, "%s: a file of keys must belong to the user who uses it, and nobody else may have access (mode 0600)",
			path);
	else if (err)
		why_set(why, "%s: %s", path, err == -EINVAL ? "not a file of keys" : strerror(-err));
	if (!err) {
		err = keys_parse(buf_bytes(&text), &k, &line, &reason);
		if (err == -EINVAL)
			why_set(why, "%s:%u: %s", path, line, reason);
	}
	if (ends)
		*ends = !text.n || text.p[text.n - 1] == '\n';
	if (text.p)
		explicit_bzero(text.p, text.n);
	buf_fini(&text);
	if (!err)
		*out = k;
	return err;
}

unsigned keys_count(const struct keys *k)
{
	return k->count;
}

const struct key *keys_at(const struct keys *k, unsigned i)
{
	return &k->v[i];
}

const struct key *keys_find(const struct keys *k, struct tfs_bytes name)
{
	for (unsigned i = 0; i < k->count; i++)
		if (is(name, k->v[i].name))
			return &k->v[i];
	return NULL;
}

bool key_same(const struct key *a, const struct key *b)
{
	bool same = strcmp(a->name, b->name) == 0 && a->role == b->role && memcmp(a->secret, b->secret, sizeof(a->secret)) == 0 &&
		a->squash == b->squash && a->anon_uid == b->anon_uid && a->anon_gid == b->anon_gid &&
		a->table_count == b->table_count;

	for (unsigned i = 0; i < a->table_count && same; i++)
		same = strcmp(a->tables[i], b->tables[i]) == 0;
	return same;
}

bool key_has_table(const struct key *k, const char *table)
{
	bool has = !k->table_count;

	for (unsigned i = 0; i < k->table_count && !has; i++)
		has = strcmp(k->tables[i], table) == 0;
	return has;
}

int keys_new_line(const char *name, const char *role, const char *options, struct buf *out)
{
	uint8_t secret[KEY_SECRET];
	int err = random_bytes(secret, sizeof(secret));

	if (!err)
		err = buf_printf(out, "%s %s ", name, role);
	for (unsigned i = 0; i < sizeof(secret) && !err; i++)
		err = buf_printf(out, "%02x", secret[i]);
	if (!err)
		err = buf_printf(out, "%s%s\n", *options ? " " : "", options);
	explicit_bzero(secret, sizeof(secret));
	return err;
}

int keys_write_new(const char *path, struct tfs_bytes text, char **why)
{
	char *new = NULL;
	int err;

	if (access(path, F_OK) == 0)
		return 0;
	if (asprintf(&new, "%s.new", path) < 0)
		return -ENOMEM;
	err = file_write_new(new, text);
	if (!err) {
		err = file_link(new, path);
		err = err == -EEXIST ? 0 : err;
	}
	if (!err)
		err = file_unlink(new);
	if (!err)
		err = file_sync_parent(path);
	if (err)
		why_set(why, "%s: %s", path, error_text(err));
	free(new);
	return err;
}
