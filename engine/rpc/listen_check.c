/* SPDX-License-Identifier: Apache-2.0 */
/* Decides what a peer may ask, and on behalf of which users. */
#include "engine/rpc/listen_check.h"

#include "engine/base/scan.h"
#include "engine/meta/meta.h"

#include <errno.h>

#define SCAN_BATCH_MAX ((size_t)512 << 10)
#define GROUPS_MAX 1024u /* the most groups of a user for whom a host vouches */

enum rule { REFUSED, ANY_TABLE, USER_TABLE, NO_TABLE };
/* A new method is refused until it is listed here.  ANY_TABLE: only the store's owner may name METADATA. */
static const enum rule tablet_rules[TS_METHODS] = {
	[TS_MUTATE] = USER_TABLE,
	[TS_READ] = ANY_TABLE,
	[TS_EXISTS] = ANY_TABLE,
	[TS_SCAN_OPEN] = ANY_TABLE,
	[TS_SCAN_NEXT] = ANY_TABLE,
	[TS_SCAN_CLOSE] = ANY_TABLE,
	[TS_SYNC] = NO_TABLE,
	[TS_FLUSH] = USER_TABLE,
	[TS_COMPACT] = USER_TABLE,
	[TS_PURGE] = USER_TABLE,
	[TS_SPLIT] = USER_TABLE,
	[TS_MERGE] = USER_TABLE,
	[TS_POLL] = USER_TABLE,
	[TS_TABLET_INFO] = ANY_TABLE,
	[TS_CHANGES] = USER_TABLE,
	[TS_HELLO] = ANY_TABLE,
};

bool request_changes(const struct ts_request *q)
{
	return q->method == TS_MUTATE && q->table >= META_FIRST_USER_TABLE;
}

bool request_asks_names(const struct ts_request *q)
{
	switch ((int)q->method) {
	case TS_EXISTS:
	case TS_TABLET_INFO:
	case TS_SCAN_NEXT: /* the scan has the user of its opening */
	case TS_SCAN_CLOSE:
		return true;
	case TS_READ:
		return !q->length;
	case TS_SCAN_OPEN:
		return q->spec && q->spec->pub.what != TFS_SCAN_CELLS && !q->spec->script.p && !q->spec->pub.row_script.p &&
			!scan_has(&q->spec->pub, SCAN_VALUE);
	}
	return false;
}

bool may_be_applied(int err)
{
	return err != -EACCES && err != -EPERM && err != -EINVAL && err != -ENOENT && err != -EEXIST && err != -ECANCELED;
}

/* A request of root, or with its group, is the anonymous user's.  The user was decoded for this request. */
static const struct tfs_user *squash_root(const struct peer_rights *p, const struct tfs_user *u)
{
	struct tfs_user *own = (struct tfs_user *)(uintptr_t)u;
	gid_t *groups = (gid_t *)(uintptr_t)u->groups;

	if (u->uid == 0)
		return &p->user;
	if (own->gid == 0)
		own->gid = p->user.gid;
	for (uint32_t i = 0; i < u->group_count; i++)
		if (groups[i] == 0)
			groups[i] = p->user.gid;
	return own;
}

/* The user of a request that the peer may send; NULL: the owner of the store. */
static int check_user(const struct peer_rights *p, const struct tfs_user **user)
{
	if (p->owner)
		return 0;
	if (p->key && *user && (*user)->group_count > GROUPS_MAX)
		return -EPERM;
	if (p->key && *user && p->key->squash != SQUASH_ALL) {
		if (p->key->squash == SQUASH_ROOT)
			*user = squash_root(p, *user);
		return 0;
	}
	if (!p->key && *user && (*user)->uid != p->user.uid)
		return -EPERM;
	*user = &p->user;
	return 0;
}

int peer_may_ask_tablets(const struct peer_rights *p, struct ts_request *q)
{
	const enum rule rule = q->method < TS_METHODS ? tablet_rules[q->method] : REFUSED;
	const bool cluster = p->key && p->key->role == KEY_CLUSTER;
	struct scan_spec *spec = (struct scan_spec *)(uintptr_t)q->spec; /* decoded for this request */

	/* Requests of masters, between servers, and of callers in this process have no client; only masters' have a term. */
	if ((q->token.client != p->client && (q->token.client || !cluster)) || (q->term && !cluster))
		return -EBADMSG;
	if (!cluster && (rule == REFUSED || (rule == USER_TABLE && q->table < META_FIRST_USER_TABLE)))
		return -EPERM;
	if (rule == ANY_TABLE && q->table < META_FIRST_USER_TABLE && !p->owner)
		return -EPERM;
	if (spec && spec->pub.batch_bytes > SCAN_BATCH_MAX)
		spec->pub.batch_bytes = SCAN_BATCH_MAX; /* so that the answer is a small frame */
	q->peer = p->peer;
	q->for_itself = !cluster && !peer_acts_for_others(p);
	/* The mount of a host asks for names itself, and for cells on behalf of the users there. */
	if (p->key && p->key->squash == SQUASH_ROOT && !q->user && request_asks_names(q))
		return 0;
	return check_user(p, &q->user);
}

/* The master checks the user of these itself. */
static bool master_checks(enum ms_method m)
{
	return m == MS_SCHEMA_SET_TEXT || m == MS_SCHEMA_CHANGE;
}

int peer_may_ask_master(const struct peer_rights *p, struct ms_request *q)
{
	int err = check_user(p, &q->user);
	const struct tfs_user *u = q->user;
	/* A host with a key vouches for its users: its root, and its user with the id of the store's owner, have the owner's rights. */
	const bool owner = p->owner || (p->key && (u->uid == 0 || u->uid == p->store_owner));

	return err ? err : owner || master_checks(q->method) ? 0 : -EPERM;
}
