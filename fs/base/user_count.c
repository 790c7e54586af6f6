/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts, for each user, things that cost the daemon memory or threads
 * (user_count.h).  The counts of a user exist until all of them are 0.  They
 * are in a tree, because users may choose their numbers (subuid(5)), and a tree
 * has no chains.
 */
#include "fs/base/user_count.h"

#include "engine/base/mutex.h"
#include "engine/base/tree.h"

#include <errno.h>
#include <stdlib.h>

struct user_counts {
	RB_ENTRY(user_counts) by_uid;
	uid_t uid;
	uint64_t count[USER_THING_COUNT];
};

static int user_cmp(struct user_counts *a, struct user_counts *b)
{
	return (a->uid > b->uid) - (a->uid < b->uid);
}

static struct mutex lock = MUTEX_INITIALIZER(RANK_FS_NOTIFY); /* nothing is called under it */
static RB_HEAD(users, user_counts) users = RB_INITIALIZER(&users);
RB_PROTOTYPE_STATIC(users, user_counts, by_uid, user_cmp);
RB_GENERATE_STATIC(users, user_counts, by_uid, user_cmp);

static const uint64_t most[USER_THING_COUNT] = {
#define USER_THING(name, n) [USER_##name] = (n),
	USER_THINGS(USER_THING)
#undef USER_THING
};

int64_t user_take(enum user_thing thing, uid_t uid, uint64_t n)
{
	struct user_counts *u, key = {.uid = uid};
	int64_t r;

	mutex_lock(&lock);
	u = RB_FIND(users, &users, &key);
	if (!u) {
		u = n <= most[thing] ? calloc(1, sizeof(*u)) : NULL;
		if (u) {
			u->uid = uid;
			RB_INSERT(users, &users, u);
		}
	}
	if (!u)
		r = n <= most[thing] ? -ENOMEM : 0;
	else if (n > most[thing] - u->count[thing])
		r = 0;
	else
		r = (int64_t)(u->count[thing] += n);
	mutex_unlock(&lock);
	return r;
}

void user_give(enum user_thing thing, uid_t uid, uint64_t n)
{
	struct user_counts *u, key = {.uid = uid};
	bool any = false;

	mutex_lock(&lock);
	u = RB_FIND(users, &users, &key);
	if (u) {
		u->count[thing] -= n;
		for (unsigned i = 0; i < USER_THING_COUNT; i++)
			any = any || u->count[i];
		if (!any) {
			RB_REMOVE(users, &users, u);
			free(u);
		}
	}
	mutex_unlock(&lock);
}
