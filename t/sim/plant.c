/* SPDX-License-Identifier: Apache-2.0 */
/* Planted bugs (plant.h).  The linker puts some between two files of the product (--wrap in local.mk). */
#include "t/sim/plant.h"
#include "engine/client/metadata.h"
#include "engine/meta/meta.h"
#include "engine/server/requests/requests.h"
#include "engine/server/storage/storage.h"
#include "engine/server/tablets/tablets.h"
#include "engine/tablet/tablet_impl.h"
#include "engine/tablet/tokens.h"
#include "master/internal.h"
#include "t/sim/cluster.h"
#include "t/sim/sched.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PLANT_NAME(id, name) name,
static const char *const names[] = {PLANTS(PLANT_NAME)};
static enum plant the_bug;

bool plant(const char *name)
{
	for (unsigned i = 0; i < PLANT_COUNT; i++)
		if (strcmp(names[i], name) == 0) {
			the_bug = (enum plant)i;
			return true;
		}
	return false;
}

bool planted(enum plant p)
{
	return the_bug == p;
}

static bool loses(const struct ts_request *q)
{
	if (q->method != TS_MUTATE || q->table == META_TABLE || !sim_chance(100))
		return false;
	for (uint32_t i = 0; i < q->rows[0].op_count; i++)
		if (q->rows[0].ops[i].kind == OP_INCREMENT) /* its answer would be wrong at once */
			return false;
	return q->row_count == 1;
}

bool plant_answers(bool of_client, const struct ts_request *q, struct ts_answer *a)
{
	if (planted(PLANT_LOST_WRITE) && of_client && loses(q)) {
		sim_trace("planted: a mutation is acknowledged and not sent");
		if (a->row_errs)
			a->row_errs[0] = 0;
		return true;
	}
	if (planted(PLANT_COLLECTED_FILE) && q->method == TS_FILES && q->file_count && a->row_errs) {
		sim_trace("planted: a server is not asked which files it uses");
		memset(a->row_errs, 0, q->file_count * sizeof(*a->row_errs));
		return true;
	}
	return false;
}

int plant_changes(const struct ts_request *q, int err, struct ts_answer *a)
{
	if (planted(PLANT_UNBURIED) && q->method == TS_BURY && err) {
		sim_trace("planted: a server that has not answered BURY is used");
		return a->err = 0;
	}
	if (planted(PLANT_MAKING_IGNORED) && q->method == TS_BURY)
		a->exists = 0;
	if (planted(PLANT_OTHERS_UNASKED) && q->method == TS_REACH && q->incarnation)
		a->exists = 0;
	return err;
}

int __real_tokens_begin(struct tokens *t, const struct op_token *token, uint64_t peer, int64_t now_us, struct token **out);
int __wrap_tokens_begin(struct tokens *t, const struct op_token *token, uint64_t peer, int64_t now_us, struct token **out);
int __wrap_tokens_begin(struct tokens *t, const struct op_token *token, uint64_t peer, int64_t now_us, struct token **out)
{
	struct op_token other = *token;
	int err = __real_tokens_begin(t, token, peer, now_us, out);

	if (!planted(PLANT_DOUBLE_APPEND) || (err != TOKENS_KNOWN && err != -MUTATION_ANSWERED))
		return err;
	sim_trace("planted: a mutation is forgotten, and applied again");
	other.client = 1 + sim_random(UINT32_MAX);
	return __real_tokens_begin(t, &other, peer, now_us, out);
}

void __real_snap_take(struct tablet *t, struct snap *s);
void __wrap_snap_take(struct tablet *t, struct snap *s);
void __wrap_snap_take(struct tablet *t, struct snap *s)
{
	__real_snap_take(t, s);
	if (planted(PLANT_STALE_READ) && t->table != META_TABLE && sim_chance(50) && s->seq > 1)
		s->seq--;
}

int __real_lock_clocks_read(
	struct lock_service *locks, const char *self, int64_t own_us, int64_t now_us, uint64_t late_us, struct lock_clocks *out);
int __wrap_lock_clocks_read(
	struct lock_service *locks, const char *self, int64_t own_us, int64_t now_us, uint64_t late_us, struct lock_clocks *out);
int __wrap_lock_clocks_read(
	struct lock_service *locks, const char *self, int64_t own_us, int64_t now_us, uint64_t late_us, struct lock_clocks *out)
{
	if (!planted(PLANT_SERVICE_CLOCK))
		return __real_lock_clocks_read(locks, self, own_us, now_us, late_us, out);
	*out = (struct lock_clocks){.count = 1, .others = true};
	return 0;
}

bool __real_fence_storage_answers(const struct fence *f, uint64_t now_us);
bool __wrap_fence_storage_answers(const struct fence *f, uint64_t now_us);
bool __wrap_fence_storage_answers(const struct fence *f, uint64_t now_us)
{
	return planted(PLANT_STORAGE_HANGS)      ? false
		: planted(PLANT_STORAGE_ANSWERS) ? true
						 : __real_fence_storage_answers(f, now_us);
}

int __real_clients_bury(struct server *s, const struct ts_request *q, struct ts_answer *a);
int __wrap_clients_bury(struct server *s, const struct ts_request *q, struct ts_answer *a);
int __wrap_clients_bury(struct server *s, const struct ts_request *q, struct ts_answer *a)
{
	struct ts_request nobody = *q;

	if (planted(PLANT_LATE_EDIT) || planted(PLANT_DEAD_CLIENT)) {
		nobody.incarnation = 0; /* it says that no server is dead */
		nobody.live_count = 0;
	}
	return __real_clients_bury(s, &nobody, a);
}

static bool is_owner_check(const struct op *op)
{
	return op->kind == OP_CHECK && op->family == META_TABLET && bytes_eq(op->w.qualifier, tfs_str("server"));
}

int __real_metadata_mutate(struct tablet_service *svc, struct tfs_bytes row_key, const struct op *ops, unsigned count);
int __wrap_metadata_mutate(struct tablet_service *svc, struct tfs_bytes row_key, const struct op *ops, unsigned count);
int __wrap_metadata_mutate(struct tablet_service *svc, struct tfs_bytes row_key, const struct op *ops, unsigned count)
{
	const struct node *n = proc_self()->data;
	struct op *unchecked;
	unsigned left = 0;
	int err;

	if ((!planted(PLANT_LATE_EDIT) && !planted(PLANT_NO_OWNER_CHECK)) || !n || n->role != SERVER)
		return __real_metadata_mutate(svc, row_key, ops, count);
	unchecked = calloc(count, sizeof(*ops));
	if (!unchecked)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++)
		if (!is_owner_check(&ops[i]))
			unchecked[left++] = ops[i];
	err = __real_metadata_mutate(svc, row_key, unchecked, left);
	free(unchecked);
	return err;
}

int __real_meta_ops_owner(
	const struct meta_tablet *old, uint64_t server, uint64_t assignment, struct arena *a, struct op **ops, unsigned *count);
int __wrap_meta_ops_owner(
	const struct meta_tablet *old, uint64_t server, uint64_t assignment, struct arena *a, struct op **ops, unsigned *count);
int __wrap_meta_ops_owner(
	const struct meta_tablet *old, uint64_t server, uint64_t assignment, struct arena *a, struct op **ops, unsigned *count)
{
	const struct node *n = proc_self()->data;
	int err = __real_meta_ops_owner(old, server, assignment, a, ops, count);
	unsigned left = 0; /* operations */

	if (err || !planted(PLANT_OWNER_UNCHECKED) || n->role != MASTER)
		return err;
	for (unsigned i = 0; i < *count; i++)
		if (!is_owner_check(&(*ops)[i]))
			(*ops)[left++] = (*ops)[i];
	*count = left;
	return 0;
}

/* ---- UNLOAD ---- */

static _Thread_local struct served_tablet *stays; /* an UNLOAD has not removed it from the set */
static _Thread_local bool releasing;

bool is_releasing(void)
{
	return releasing;
}

void __real_set_replace(
	struct server *s, struct served_tablet *const *old, unsigned old_count, struct served_tablet *const *with, unsigned count);
int __real_row_release(struct served_tablet *served);
int __wrap_row_release(struct served_tablet *served);
int __wrap_row_release(struct served_tablet *served)
{
	int err;

	releasing = true;
	err = __real_row_release(served);
	releasing = false;
	if (planted(PLANT_STAYS_SERVED) && err)
		sim_trace("planted: a tablet stays served after %s", strerror(-err));
	else if (stays)
		__real_set_replace(served->server, &stays, 1, NULL, 0);
	if (!planted(PLANT_STAYS_SERVED) || !err)
		stays = NULL;
	return err;
}

void __wrap_set_replace(
	struct server *s, struct served_tablet *const *old, unsigned old_count, struct served_tablet *const *with, unsigned count);
void __wrap_set_replace(
	struct server *s, struct served_tablet *const *old, unsigned old_count, struct served_tablet *const *with, unsigned count)
{
	if ((planted(PLANT_STAYS_SERVED) || planted(PLANT_SERVED_RELEASE)) && !count && !atomic_load(&old[0]->loading))
		stays = old[0]; /* by an UNLOAD */
	else
		__real_set_replace(s, old, old_count, with, count);
}

void __real_tablet_merge_end(struct tablet *t, bool done);
void __wrap_tablet_merge_end(struct tablet *t, bool done);
void __wrap_tablet_merge_end(struct tablet *t, bool done)
{
	__real_tablet_merge_end(t, done && !stays);
	stays = NULL;
}

int __real_set_insert(struct server *s, struct served_tablet *served);
int __wrap_set_insert(struct server *s, struct served_tablet *served);
int __wrap_set_insert(struct server *s, struct served_tablet *served)
{
	int err = __real_set_insert(s, served);

	if (err != -EAGAIN || !planted(PLANT_LATE_LOAD))
		return err;
	sim_trace("planted: a LOAD takes place beside an UNLOAD");
	set_unloading(s, NULL);
	return __real_set_insert(s, served);
}

/* ---- splits and schemas ---- */

static _Thread_local bool draining;

void __real_tablet_split_drain(struct tablet *t);
void __wrap_tablet_split_drain(struct tablet *t);
void __wrap_tablet_split_drain(struct tablet *t)
{
	draining = planted(PLANT_SPLIT_WRITERS);
	__real_tablet_split_drain(t);
	draining = false;
}

void __real_writers_wait(struct tablet *t, uint64_t seq);
void __wrap_writers_wait(struct tablet *t, uint64_t seq);
void __wrap_writers_wait(struct tablet *t, uint64_t seq)
{
	if (!draining)
		__real_writers_wait(t, seq);
	else if (t->writers)
		sim_trace("planted: a split does not wait for a writer");
}

int __real_user_table_write_try(struct server *s, struct user_table *u, uint64_t generation, enum on_block on_block, unsigned reads,
	struct store_schema **schema);
int __wrap_user_table_write_try(struct server *s, struct user_table *u, uint64_t generation, enum on_block on_block, unsigned reads,
	struct store_schema **schema);
int __wrap_user_table_write_try(struct server *s, struct user_table *u, uint64_t generation, enum on_block on_block, unsigned reads,
	struct store_schema **schema)
{
	return __real_user_table_write_try(s, u, planted(PLANT_OLD_SCHEMA) ? 0 : generation, on_block, reads, schema);
}

bool __real_user_table_is_behind(struct server *s, struct user_table *u, uint64_t generation);
bool __wrap_user_table_is_behind(struct server *s, struct user_table *u, uint64_t generation);
bool __wrap_user_table_is_behind(struct server *s, struct user_table *u, uint64_t generation)
{
	return __real_user_table_is_behind(s, u, planted(PLANT_OLD_SCHEMA) ? 0 : generation);
}

/* ---- requests that are late ---- */

int __real_served_find_for(struct server *s, const struct ts_request *q, struct tfs_bytes row, struct served_tablet **out);
int __wrap_served_find_for(struct server *s, const struct ts_request *q, struct tfs_bytes row, struct served_tablet **out);
int __wrap_served_find_for(struct server *s, const struct ts_request *q, struct tfs_bytes row, struct served_tablet **out)
{
	struct ts_request any = *q;
	int err = __real_served_find_for(s, q, row, out);

	if (err != -TABLET_MOVED || !planted(PLANT_OLD_ASSIGNMENT))
		return err;
	any.assignment = 0;
	err = __real_served_find_for(s, &any, row, out);
	if (!err)
		sim_trace("planted: method %d of an older assignment of table %u", (int)q->method, q->table);
	return err;
}

int __real_client_begin(struct server *s, const struct ts_request *q);
int __wrap_client_begin(struct server *s, const struct ts_request *q);
int __wrap_client_begin(struct server *s, const struct ts_request *q)
{
	int err = __real_client_begin(s, q);

	/* client_end counts it in the client's epoch */
	while (err == -EPOCH_ENDED && planted(PLANT_OLD_EPOCH) && q->epoch < TS_EPOCH_LAST) {
		sim_trace("planted: method %d of epoch %llu", (int)q->method, (unsigned long long)q->epoch);
		((struct ts_request *)(uintptr_t)q)->epoch = q->epoch < 100 ? q->epoch + 1 : TS_EPOCH_LAST;
		err = __real_client_begin(s, q);
	}
	return err;
}

int __real_tables_see_term(struct server *s, uint64_t term, bool *deferred);
int __wrap_tables_see_term(struct server *s, uint64_t term, bool *deferred);
int __wrap_tables_see_term(struct server *s, uint64_t term, bool *deferred)
{
	int err = __real_tables_see_term(s, term, deferred);

	if (err != -SESSION_ENDED || !planted(PLANT_OLD_TERM))
		return err;
	sim_trace("planted: a request of an earlier term");
	return 0;
}

/* ---- the fence ---- */

bool plant_fence(const struct ts_request *q)
{
	return planted(PLANT_READ_NO_LEASE) &&
		(q->method == TS_READ || q->method == TS_EXISTS || q->method == TS_SCAN_OPEN || q->method == TS_SCAN_NEXT);
}

int __real_file_look_up(const char *path, uint64_t *id);
int __wrap_file_look_up(const char *path, uint64_t *id);
int __wrap_file_look_up(const char *path, uint64_t *id)
{
	static uint64_t ids[2 * NODES_MOST]; /* the id of the log of each process */
	const unsigned number = proc_self()->number % (2 * NODES_MOST);
	int err = __real_file_look_up(path, id);

	if (fence_of_mutation() && planted(PLANT_NO_LOOK_UP)) {
		if (err || *id != ids[number])
			sim_trace("planted: the directory of the log is another one");
		*id = ids[number];
		return 0;
	}
	if (!err && !ids[number] && strstr(path, "/log/"))
		ids[number] = *id;
	return err;
}

/* ---- removed servers ---- */

bool __real_reach_may_have_lease(struct master *m, uint64_t incarnation);
bool __wrap_reach_may_have_lease(struct master *m, uint64_t incarnation);
bool __wrap_reach_may_have_lease(struct master *m, uint64_t incarnation)
{
	return !planted(PLANT_LEASE_FORGOTTEN) && __real_reach_may_have_lease(m, incarnation);
}
