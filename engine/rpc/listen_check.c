/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer may ask, and on whose behalf. */
#include "engine/rpc/listen_check.h"

#include "engine/meta/meta.h"

#include <errno.h>

#define SCAN_BATCH_MAX ((size_t)512 << 10)

enum rule { REFUSED, ANY_TABLE, USER_TABLE, NO_TABLE };
/* A new method is refused until it is listed here.  ANY_TABLE: of METADATA by the store's owner only. */
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
	[TS_SPLIT] = USER_TABLE,
	[TS_MERGE] = USER_TABLE,
	[TS_POLL] = USER_TABLE,
	[TS_TABLET_INFO] = ANY_TABLE,
	[TS_HELLO] = ANY_TABLE,
};

bool request_changes(const struct ts_request *q)
{
	return q->method == TS_MUTATE && q->table >= META_FIRST_USER_TABLE;
}

/* The user of a request that the peer may send; NULL: the owner of the store. */
static int check_user(const struct peer_rights *p, const struct tfs_user **user)
{
	if (p->owner)
		return 0;
	if (*user && (*user)->uid != p->user.uid)
		return -EPERM;
	*user = &p->user;
	return 0;
}

int peer_may_ask_tablets(const struct peer_rights *p, struct ts_request *q)
{
	const enum rule rule = q->method < TS_METHODS ? tablet_rules[q->method] : REFUSED;
	struct scan_spec *spec = (struct scan_spec *)(uintptr_t)q->spec; /* decoded for this request */

	/* Only a caller in this process has no client; servers and masters do not connect here. */
	if (q->token.client != p->client || q->term)
		return -EBADMSG;
	if (rule == REFUSED || (rule == USER_TABLE && q->table < META_FIRST_USER_TABLE))
		return -EPERM;
	if (rule == ANY_TABLE && q->table < META_FIRST_USER_TABLE && !p->owner)
		return -EPERM;
	if (spec && spec->pub.batch_bytes > SCAN_BATCH_MAX)
		spec->pub.batch_bytes = SCAN_BATCH_MAX; /* so that the answer is a small frame */
	q->peer = p->peer;
	return check_user(p, &q->user);
}

/* The master checks the user of these itself. */
static bool master_checks(enum ms_method m)
{
	return m == MS_SCHEMA_SET_TEXT || m == MS_SCHEMA_CHANGE;
}

int peer_may_ask_master(const struct peer_rights *p, struct ms_request *q)
{
	if (!p->owner && !master_checks(q->method))
		return -EPERM;
	return check_user(p, &q->user);
}
