/* SPDX-License-Identifier: Apache-2.0 */
/* Planted bugs (plant.h).  The linker puts some between two files of the product (--wrap in local.mk). */
#include "t/sim/plant.h"
#include "engine/client/metadata.h"
#include "engine/meta/meta.h"
#include "engine/server/requests/requests.h"
#include "engine/tablet/tablet_impl.h"
#include "engine/tablet/tokens.h"
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
