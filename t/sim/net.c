/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels (net.h).  A message carries a request and its answer.  It belongs to
 * the caller and to each copy under way, which are counted.  Only one thread runs
 * at a time, and none waits between two steps here, so there is no lock.
 */
#include "t/sim/net.h"
#include "engine/base/msg.h"
#include "engine/meta/meta.h"
#include "t/sim/cluster.h"
#include "t/sim/faults.h"
#include "t/sim/plant.h"

#include <errno.h>
#include <stdlib.h>

struct channel {
	struct tablet_service tablets; /* first */
	struct master_service master;
	struct proc *from;
	struct endpoint *to;
	struct channel *next;
};

struct message {
	struct channel *c;
	bool to_master;
	unsigned left_in; /* its sender leaves it behind in one in `left_in` cases (leave_edit); 0 for never */
	bool blocks;      /* BLOCK_WRITES */
	bool scans;       /* METADATA */
	bool holds;       /* hold() */
	uint64_t held_us; /* its answer is lost, and then nothing passes between the two for so long; 0: not */
	unsigned refs;
	struct buf request;
	struct buf answer;
	bool answered, abandoned;
	bool arrived;               /* a copy, at a service */
	int err;                    /* the error of the channel */
	struct message *next, **at; /* in the list of messages whose caller waits */
};

struct cut {
	struct proc *a, *b, *but;
	uint64_t until_us;
};

static struct net_faults faults = {.delay_us = 300, .timeout_us = 3000000};
static struct net_counts counts;
static struct channel *channels;
static struct message *waiting;
static struct cut cuts[16];
static struct proc *clients[16];
static unsigned client_count;

void net_set_faults(const struct net_faults *f)
{
	faults = *f;
}

void net_get_counts(struct net_counts *c)
{
	*c = counts;
}

void net_is_client(struct proc *p)
{
	clients[client_count++ % 16] = p;
}

static bool is_client(const struct proc *p)
{
	for (unsigned i = 0; i < 16; i++)
		if (clients[i] == p)
			return true;
	return false;
}

static void cut(struct proc *a, struct proc *b, struct proc *but, uint64_t us)
{
	static unsigned next;

	sim_trace("%s is cut off from %s for %llu us", a->name, b ? b->name : "all", (unsigned long long)us);
	cuts[next++ % 16] = (struct cut){a, b, but, sim_now() + us};
}

void net_cut(struct proc *a, struct proc *b, uint64_t us)
{
	cut(a, b, NULL, us);
}

void net_cut_but(struct proc *a, struct proc *but, uint64_t us)
{
	cut(a, NULL, but, us);
}

static bool is_cut(const struct proc *a, const struct proc *b)
{
	for (unsigned i = 0; i < 16; i++) {
		const struct cut *c = &cuts[i];

		const struct proc *other = c->a == a ? b : c->a == b ? a : NULL;

		if (c->until_us > sim_now() && other && other != c->but && (!c->b || c->b == other))
			return true;
	}
	return false;
}

static void message_put(struct message *m)
{
	if (--m->refs)
		return;
	buf_fini(&m->request);
	buf_fini(&m->answer);
	free(m);
}

static void wake(struct message *m)
{
	m->answered = true;
	sim_wake(m, 1);
}

/* ---- one copy under way ---- */

static void answer_main(void *arg)
{
	struct message *m = arg;

	if (is_cut(m->c->from, m->c->to->proc)) {
		counts.cut++;
	} else if (!m->answered && !m->abandoned) {
		wake(m);
	}
	message_put(m);
}

/* Sends the answer of a process that has served the request. */
static void served(void *arg, int err, struct buf *answer)
{
	struct message *m = arg;
	uint64_t delay = 50 + sim_random(faults.delay_us);

	proc_step();
	if (m->held_us)
		net_cut(m->c->from, m->c->to->proc, m->held_us);
	m->held_us = 0;
	if (sim_chance(faults.lose)) {
		counts.lost++;
		message_put(m);
		return;
	}
	/* The first copy that was served is answered. */
	if (!m->answer.n && !m->err) {
		m->answer = *answer;
		*answer = (struct buf){0};
		m->err = err;
	}
	if (sim_chance(faults.late)) {
		counts.late++;
		delay += sim_random(faults.late_us);
	} else if (m->scans && ((struct node *)m->c->from->data)->ep.slow_until_us > sim_now()) {
		counts.late++;
		delay += sim_random(200000);
	}
	sim_spawn(proc_world(), delay, answer_main, m);
}

static void serve_main(void *arg)
{
	struct message *m = arg;
	struct endpoint *to = m->c->to;
	struct buf request = {0}, answer = {0};
	int err;

	if (m->err == -UNREACHABLE) { /* the request was not sent, so no copy is under way */
		message_put(m);
		return;
	}
	if (m->to_master ? !to->master : !to->tablets) {
		served(m, m->arrived ? -ANSWER_LOST : -UNREACHABLE, &answer);
		return;
	}
	m->arrived = true;
	if (m->to_master) {
		err = ms_serve(to->master, buf_bytes(&m->request), &answer);
		served(m, err, &answer);
	} else if (buf_append_bytes(&request, buf_bytes(&m->request))) {
		sim_fail("out of memory");
	} else {
		dispatch_request(to->tablets, &request, served, m);
	}
	buf_fini(&answer);
}

static void arrive_main(void *arg)
{
	struct message *m = arg;
	struct endpoint *to = m->c->to;

	if (is_cut(m->c->from, to->proc)) {
		counts.cut++;
		message_put(m);
	} else if (to->proc->dead) {
		counts.refused++;
		if (!m->answered && !m->answer.n)
			m->err = m->arrived ? -ANSWER_LOST : -UNREACHABLE; /* another copy may have been carried out */
		sim_spawn(proc_self(), 50 + sim_random(faults.delay_us), answer_main, m);
	} else {
		sim_spawn(to->proc, 0, serve_main, m);
	}
}

static void post(struct message *m, uint64_t late_us)
{
	uint64_t delay = late_us + 50 + sim_random(faults.delay_us);

	if (sim_chance(faults.lose)) {
		counts.lost++;
		return;
	}
	if (sim_chance(faults.late)) {
		counts.late++;
		delay += sim_random(faults.late_us);
	}
	m->refs++;
	sim_spawn(proc_world(), delay, arrive_main, m);
	if (sim_chance(faults.repeat)) {
		counts.repeated++;
		m->refs++;
		sim_spawn(proc_world(), delay + sim_random(faults.late_us), arrive_main, m);
	}
}

/* ---- calls ---- */

static struct message *message_new(struct channel *c, bool to_master)
{
	struct message *m = calloc(1, sizeof(*m));

	if (!m)
		sim_fail("out of memory");
	m->c = c;
	m->to_master = to_master;
	m->refs = 1;
	return m;
}

/*
 * A server or a master dies or is paused right after it has sent a change, which is
 * so late that the tablet is assigned to another server before, or another master leads.
 */
static unsigned is_edit(const struct node *from, const struct ts_request *q)
{
	if (!cluster.late_edits)
		return 0;
	if (q->method == TS_MUTATE && q->table == META_TABLE)
		return from->role == MASTER ? 6 : q->split || q->to_table ? 1 + cluster.late_edits / 2 : cluster.late_edits;
	return q->method == TS_BLOCK_WRITES ? 2 : 0;
}

static uint64_t edit_is_left(const struct message *m)
{
	if (m->blocks && cluster.last_block) {
		cluster.last_block = false;
		cluster.last_block_us = sim_now() + 10000000;
		return 10000000;
	}
	return sim_chance(m->left_in) ? 3000000 + sim_random(17000000) : 0;
}

static void leave_edit(const struct message *m, uint64_t late_us)
{
	struct proc *p = m->c->from;

	sim_trace("%s leaves an edit behind, which arrives after %llu us", p->name, (unsigned long long)late_us);
	fault_counts[FAULT_LATE_EDIT]++;
	if (!cluster.last_block_us && sim_chance(2))
		m->c->to->deaf_until_us = sim_now() + late_us + sim_random(late_us);
	if (cluster.last_block_us || sim_chance(2))
		proc_kill(p);
	else
		proc_pause(p, late_us + sim_random(late_us));
}

/*
 * A change whose sender stops to wait for it: its answer is lost, or the request
 * arrives late.  Until then nothing else passes, so the outcome is in doubt.
 */
static uint64_t hold(struct message *m)
{
	const uint64_t us = cluster.patience_us + sim_random(2000000);

	fault_counts[FAULT_HOLD]++;
	if (sim_chance(3)) {
		m->held_us = us;
		return 0;
	}
	net_cut(m->c->from, m->c->to->proc, us);
	return us + 1 + sim_random(sim_chance(2) ? 20000 : 4000000);
}

static bool is_held(const struct node *from, const struct ts_request *q)
{
	if (!cluster.holds || q->method != TS_MUTATE || from->role == MASTER)
		return false;
	return sim_chance(from->role == CLIENT ? (cluster.busy ? 200 : 50) : is_releasing() ? 2 : 10);
}

/* A copy of the last LOAD arrives beside this UNLOAD, and has read its row before. */
static void repeat_load(struct endpoint *to)
{
	if (!faults.repeat || !to->last_load || !sim_chance(2))
		return;
	counts.repeated++;
	to->last_load->refs++;
	to->slow_until_us = sim_now() + 300000;
	sim_spawn(proc_world(), sim_random(sim_chance(2) ? 3000 : 100000), arrive_main, to->last_load);
}

/* Sends the message.  Returns when its caller stops waiting. */
static uint64_t send_message(struct message *m, uint64_t time_left_us)
{
	uint64_t until = sim_now() + (time_left_us && time_left_us < faults.timeout_us ? time_left_us : faults.timeout_us);
	uint64_t late_us;

	proc_step();
	m->next = waiting;
	m->at = &waiting;
	if (waiting)
		waiting->at = &m->next;
	waiting = m;
	late_us = edit_is_left(m);
	if (late_us) {
		post(m, late_us);
		leave_edit(m, late_us);
	} else {
		post(m, m->holds ? hold(m) : 0);
	}
	return until;
}

static void leave_message(struct message *m)
{
	*m->at = m->next;
	if (m->next)
		m->next->at = m->at;
	m->abandoned = !m->answered;
}

/* Waits for the answer.  Returns 0 or the error of the channel. */
static int receive_message(struct message *m, uint64_t until)
{
	while (!m->answered && sim_now() < until)
		(void)sim_wait(m, until - sim_now());
	leave_message(m);
	if (!m->answered) {
		counts.timeouts++;
		m->err = -ETIMEDOUT;
	}
	proc_step();
	return m->err;
}

static int exchange(struct message *m, uint64_t time_left_us)
{
	return receive_message(m, send_message(m, time_left_us));
}

static void count(const struct channel *c, const struct ts_request *q)
{
	bool client = is_client(c->from), read = q->table == META_TABLE && (q->method == TS_SCAN_OPEN || q->method == TS_READ);

	counts.requests++;
	counts.metadata += q->table == META_TABLE;
	counts.metadata_reads += read;
	counts.by_clients += client;
	counts.metadata_reads_by_clients += read && client;
}

static int call_tablets(struct tablet_service *s, const struct ts_request *q, struct ts_answer *a)
{
	struct channel *c = (struct channel *)s;
	struct message *m = message_new(c, false);
	int err = ts_request_pack(q, &m->request);

	m->left_in = is_edit(c->from->data, q);
	m->holds = is_held(c->from->data, q);
	if (cluster.lost_release_us && is_releasing() && q->method == TS_MUTATE) {
		sim_trace("the answer of a release of %s by %s is lost", Q(ts_request_row(q)), c->to->proc->name);
		m->held_us = cluster.lost_release_us;
		cluster.lost_release_us = 0;
	}
	m->blocks = q->method == TS_BLOCK_WRITES;
	m->scans = q->method == TS_SCAN_OPEN && q->table == META_TABLE;
	if (q->method == TS_UNLOAD)
		repeat_load(c->to);
	if (q->method == TS_LOAD) {
		if (c->to->last_load)
			message_put(c->to->last_load);
		c->to->last_load = m;
		m->refs++;
	}
	count(c, q);
	if (q->method == TS_BURY && c->to->deaf_until_us > sim_now()) {
		sim_sleep(faults.timeout_us);
		err = -ETIMEDOUT;
	}
	if (plant_answers(is_client(c->from), q, a)) {
		message_put(m);
		return 0;
	}
	sim_note("to %s: method %d, table %u, row %s", c->to->proc->name, (int)q->method, q->table, Q(ts_request_row(q)));
	if (!err)
		err = exchange(m, q->time_left_us);
	if (!err)
		err = ts_answer_unpack(buf_bytes(&m->answer), q, a);
	sim_note("from %s: method %d, table %u, row %s: %s", c->to->proc->name, (int)q->method, q->table, Q(ts_request_row(q)),
		strerror(err ? -err : -a->err));
	for (uint32_t i = 0; !err && q->method == TS_FILES && i < q->file_count; i++)
		sim_note("FILES %u/%llu-%llu: %d", q->files[i].table, (unsigned long long)q->files[i].incarnation,
			(unsigned long long)q->files[i].number, a->row_errs[i]);
	message_put(m);
	if (err)
		a->err = err;
	return plant_changes(q, a->err, a);
}

/* ---- requests whose answer is wanted later ---- */

struct sent {
	struct ts_sent base; /* first */
	struct message *m;
	uint64_t until;
};

static struct ts_sent *send_tablets(struct tablet_service *s, const struct ts_request *q)
{
	struct channel *c = (struct channel *)s;
	struct sent *x = calloc(1, sizeof(*x));

	if (!x)
		sim_fail("out of memory");
	x->base.service = s;
	x->m = message_new(c, false);
	if (ts_request_pack(q, &x->m->request))
		sim_fail("out of memory");
	count(c, q);
	counts.ahead++;
	sim_note("to %s, ahead: method %d, table %u, row %s", c->to->proc->name, (int)q->method, q->table, Q(ts_request_row(q)));
	x->until = send_message(x->m, q->time_left_us);
	return &x->base;
}

static int receive_tablets(struct ts_sent *sent, const struct ts_request *q, struct ts_answer *a)
{
	struct sent *x = (struct sent *)sent;
	int err = receive_message(x->m, x->until);

	if (!err)
		err = ts_answer_unpack(buf_bytes(&x->m->answer), q, a);
	if (err)
		a->err = err;
	message_put(x->m);
	free(x);
	return plant_changes(q, a->err, a);
}

static void forget_tablets(struct ts_sent *sent)
{
	struct sent *x = (struct sent *)sent;

	leave_message(x->m);
	message_put(x->m);
	free(x);
}

static int call_one_master(struct master_service *s, const struct ms_request *q, struct ms_answer *a)
{
	struct channel *c = (struct channel *)((char *)s - offsetof(struct channel, master));
	struct message *m = message_new(c, true);
	int err = ms_request_pack(q, &m->request);

	counts.requests++;
	if (!err)
		err = exchange(m, 0);
	if (!err)
		err = ms_answer_unpack(buf_bytes(&m->answer), q, a);
	message_put(m);
	if (err)
		a->err = err;
	return a->err;
}

static struct channel *channel_find(struct proc *from, struct endpoint *to)
{
	static const struct tablet_service_ops tablets_ops = {
		.call = call_tablets, .send = send_tablets, .receive = receive_tablets, .forget = forget_tablets};
	static const struct master_service_ops master_ops = {.call = call_one_master};
	struct channel *c = channels;

	while (c && (c->from != from || c->to != to))
		c = c->next;
	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		sim_fail("out of memory");
	*c = (struct channel){.tablets = {&tablets_ops}, .master = {&master_ops}, .from = from, .to = to, .next = channels};
	channels = c;
	return c;
}

struct tablet_service *net_tablets(struct proc *from, struct endpoint *to)
{
	return &channel_find(from, to)->tablets;
}

struct master_service *net_master(struct proc *from, struct endpoint *to)
{
	return &channel_find(from, to)->master;
}

static void reset_main(void *arg)
{
	struct message *m = arg;

	if (!m->answered && !m->abandoned) {
		m->err = -ANSWER_LOST;
		wake(m);
	}
	message_put(m);
}

void net_died(struct proc *p)
{
	/* The kernel of a machine that still runs resets the connections. */
	if (sim_chance(2))
		return;
	for (struct message *m = waiting; m; m = m->next)
		if (m->c->to->proc == p && !m->answered && !m->answer.n) {
			m->refs++;
			sim_spawn(proc_world(), 50 + sim_random(faults.delay_us), reset_main, m);
		}
}
