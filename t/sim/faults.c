/* SPDX-License-Identifier: Apache-2.0 */
/* The faults of a simulation (faults.h). */
#include "t/sim/faults.h"
#include "t/sim/disk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	KILL,
	STEP,
	MASTER_KILL,
	PAUSE,
	CUT_PAIR,
	CUT_ALL,
	CUT_LOCKS,
	NET,
	SLOW_DISK,
	FULL_DISK,
	FAIL_DISK,
	CLOCK,
	LOST_WRITES,
	STARTS = FAULT_LATE_EDIT - 1,
	SILENCE = FAULT_HOLD + 1,
	ZOMBIE,
	SERVICE_CLOCK
};
const char *const fault_names[FAULTS] = {"kills", "kills at a step", "kills of masters", "pauses", "cuts of pairs", "cuts",
	"cuts of locks", "times of bad channels", "slow disks", "full disks", "failing disks", "clocks set",
	"writes lost with the power", "starts", "late edits", "held changes", "silences of the lock service", "zombies",
	"clocks of the lock service set"};
unsigned fault_counts[FAULTS];
static bool calm; /* no more faults */

/* Tablets move from server to server and back, between messages that are late and repeated.  No node dies. */
static void plan_shuttle(struct plan *p)
{
	p->kill = p->step = p->pause = p->cut = p->edits = p->zombies = p->silence = p->locks = p->clocks = p->disk = false;
	p->net = p->repeat = p->busy = p->shuttle = true;
	p->moves = 16;
	p->servers = 2 + (unsigned)sim_random(2);
	p->masters = 1;
	p->slow = false;
	p->run_us = 30000000;
}

void plan_draw(struct plan *p)
{
	*p = (struct plan){
		.sole = sim_chance(6),
		.servers = 1,
		.masters = 0,
		.clients = 2 + (unsigned)sim_random(3),
		.rows = 2 + (unsigned)sim_random(8),
		.run_us = 20000000 + sim_random(40000000),
		.pause_us = 300000u << sim_random(5),
		.preempt = sim_chance(3) ? 0 : 20u << sim_random(6),
		.kill = !sim_chance(3),
		.step = !sim_chance(3),
		.net = !sim_chance(3),
		.locks = !sim_chance(2),
		.clocks = !sim_chance(2),
		.moves = sim_chance(3)  ? 0
			: sim_chance(3) ? 8
					: 1,
		.patience_us = 30000000,
		.busy = sim_chance(3),
		.slow = sim_chance(8),
		.groups = sim_chance(3),
		.salted = sim_chance(5),
		.disk = sim_chance(3),
		.tables = sim_chance(2),
	};
	if (p->busy) {
		p->clients = 4;
		p->rows = 2 + (unsigned)sim_random(3);
	}
	if (p->slow) {
		p->run_us = 150000000 + sim_random(150000000);
		p->pause_us *= 4;
		p->busy = false;
	}
	if (!p->sole) {
		p->pause = sim_chance(2);
		p->cut = sim_chance(2);
		p->repeat = sim_chance(2);
		p->edits = sim_chance(2);
		p->silence = sim_chance(2);
		p->zombies = sim_chance(2);
		p->views = sim_chance(2);
		p->blind = sim_chance(3);
		if (sim_chance(3))
			p->patience_us = 300000u << sim_random(4);
		p->servers = 1 + (unsigned)sim_random(4);
		p->masters = 1 + (unsigned)sim_random(2);
		if (sim_chance(5))
			plan_shuttle(p);
	}
}

void plan_print(const struct plan *p, char out[PLAN_TEXT])
{
	snprintf(out, PLAN_TEXT,
		"%u servers, %u masters, %u clients, %u rows, %.0f s, %u moves a second, patience of %.1f s; faults:%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s",
		p->servers, p->masters, p->clients, p->rows, (double)p->run_us / 1e6, p->moves, (double)p->patience_us / 1e6,
		p->kill ? " kill" : "", p->step ? " step" : "", p->pause ? " pause" : "", p->cut ? " cut" : "",
		p->net ? " net" : "", p->repeat ? " repeat" : "", p->edits ? " edits" : "", p->locks ? " locks" : "",
		p->clocks ? " clocks" : "", p->disk ? " disk" : "", p->tables ? " tables" : "", p->silence ? " silence" : "",
		p->zombies ? " zombies" : "", p->blind ? " blind" : "", p->busy ? " busy" : "", p->views ? " views" : "",
		p->slow ? " slow" : "", p->groups ? " groups" : "", p->salted ? " salted" : "", p->shuttle ? " shuttle" : "");
}

/* Mostly within what the cluster permits (LOCK_CLOCK_OFF_US). */
static int64_t some_offset(void)
{
	int64_t most = sim_chance(4) ? 20000000 : 1000000;

	return (int64_t)sim_random(2 * (uint64_t)most) - most;
}

/* Starts each server and master that is dead. */
static void start_dead(const struct plan *p, unsigned chance)
{
	for (unsigned i = 1; i <= p->servers; i++)
		if (!node_find(SERVER, i) && (chance < 2 || sim_chance(chance))) {
			struct node *n = server_node(i);

			if (p->clocks && !calm) {
				n->proc->clock_offset_us = some_offset();
				n->proc->clock_ppm = (int64_t)sim_random(400) - 200;
			}
			fault_counts[STARTS]++;
		}
	for (unsigned i = 1; i <= p->masters; i++)
		if (!node_find(MASTER, i) && (chance < 2 || sim_chance(chance))) {
			master_node(i);
			fault_counts[STARTS]++;
		}
}

static struct node *any_node(const struct plan *p)
{
	unsigned i = (unsigned)sim_random(p->servers + (p->masters + 1) / 2);

	return i < p->servers ? node_find(SERVER, i + 1) : node_find(MASTER, 1 + (unsigned)sim_random(p->masters));
}

/*
 * A node is paused until its session has ended, and does not learn this for a time when it continues.
 * Some clients are idle meanwhile and then ask a server that they know.
 */
static void make_zombie(struct node *n)
{
	const uint64_t us = 5000000 + sim_random(10000000);

	fault_counts[ZOMBIE]++;
	proc_pause(n->proc, us);
	lock_sim_cut(n->locks, us + sim_random(8000000));
	for (unsigned i = 0; i < cluster.count; i++)
		if (cluster.nodes[i]->role == CLIENT && sim_chance(2))
			cluster.nodes[i]->idle_until_us = sim_now() + us + sim_random(1000000);
}

static void one_fault(const struct plan *p)
{
	struct node *n = any_node(p), *other = any_node(p);

	switch (sim_random(13)) {
	case 12:
		if (p->zombies && n && n->locks)
			make_zombie(n);
		break;
	case 11:
		if (p->silence) {
			fault_counts[SILENCE]++;
			lock_sim_silence(cluster.locks, sim_chance(4) ? sim_random(10000000) : 3000000 + sim_random(2000000));
		}
		break;
	case 10:
		if (p->clocks && !p->sole && sim_chance(4)) {
			proc_world()->clock_offset_us = some_offset();
			fault_counts[SERVICE_CLOCK]++;
		} else if (p->clocks && n && n->role == SERVER) {
			n->proc->clock_offset_us = some_offset();
			fault_counts[CLOCK]++;
		}
		break;
	case 0:
		if (p->kill && n) {
			fault_counts[n->role == MASTER ? MASTER_KILL : KILL]++;
			if (sim_chance(2))
				fault_counts[LOST_WRITES] += disk_power_cut(n->proc);
			proc_kill(n->proc);
		}
		break;
	case 1:
	case 2:
		if (p->step && n) {
			fault_counts[STEP]++;
			n->proc->steps_left = 1 + sim_random(1u << (3 + sim_random(8)));
		}
		break;
	case 3:
		if (p->pause && n) {
			fault_counts[PAUSE]++;
			if (sim_chance(2))
				proc_pause(n->proc, sim_random(20000000));
			else
				n->proc->output_pause_us = sim_random(20000000); /* a zombie with an edit under way */
		}
		break;
	case 4:
		if (p->cut && n && other && n != other) {
			fault_counts[CUT_PAIR]++;
			net_cut(n->proc, other->proc, sim_random(10000000));
		}
		break;
	case 5:
		if (p->cut && n) {
			fault_counts[CUT_ALL]++;
			net_cut(n->proc, NULL, sim_random(10000000));
			if (n->locks && sim_chance(2))
				lock_sim_cut(n->locks, sim_random(10000000));
		}
		break;
	case 6:
		if (p->cut && n && n->locks) {
			fault_counts[CUT_LOCKS]++;
			lock_sim_cut(n->locks, sim_random(10000000));
		}
		break;
	case 7:
	case 8:
		if (p->net) {
			const struct net_faults f = {
				.lose = p->shuttle ? 1000 : 5u << sim_random(6), /* a lost message delays a move by seconds */
				.late = p->shuttle ? 300 : 5u << sim_random(6),
				.repeat = p->shuttle ? 3
					: p->repeat  ? 5u << sim_random(6)
						     : 0,
				.delay_us = p->shuttle ? 1000 : 300u << sim_random(8),
				.late_us = p->shuttle ? 3000000 : 1000u << sim_random(14),
				.timeout_us = 3000000,
			};

			fault_counts[NET]++;
			net_set_faults(&f);
		}
		break;
	default:
		if (p->disk && n) {
			static const int errors[] = {0, 0, -ENOSPC, -EIO};
			int err = errors[sim_random(4)];

			disk_fault(sim_chance(3) ? NULL : n->proc, err, sim_random(8000000));
			fault_counts[!err ? SLOW_DISK : err == -EIO ? FAIL_DISK : FULL_DISK]++;
		}
		break;
	}
	if (p->locks || p->views)
		lock_sim_set_faults(cluster.locks,
			&(struct lock_sim_faults){.delay_us = p->locks ? 1000u << sim_random(6) : 1000,
				.lose = p->locks ? 20u << sim_random(8) : 0,
				.lag_us = p->views ? 3000000 : 0});
}

/* Starts the nodes that have ended. */
static void keep_alive(void *arg)
{
	const struct plan *p = arg;

	for (;;) {
		start_dead(p, 1);
		sim_sleep(1000000);
	}
}

void faults_run(const struct plan *p)
{
	static const struct net_faults none = {.delay_us = 300, .timeout_us = 3000000};
	uint64_t end = sim_now() + p->run_us;

	while (sim_now() < end) {
		sim_sleep(1 + sim_random(p->pause_us));
		one_fault(p);
		start_dead(p, 3);
	}
	net_set_faults(&none);
	lock_sim_set_faults(cluster.locks, &(struct lock_sim_faults){.delay_us = 1000});
	disk_mend();
	for (unsigned i = 0; i < cluster.count; i++) {
		cluster.nodes[i]->proc->steps_left = 0;
		cluster.nodes[i]->proc->output_pause_us = 0;
		cluster.nodes[i]->ep.deaf_until_us = 0; /* else a server gets no tablets for up to 40 s more */
		cluster.nodes[i]->proc->clock_offset_us = 0;
	}
	/* The clock of the lock service may stay wrong. */
	proc_world()->clock_offset_us = p->clocks && !p->sole && sim_chance(2) ? sim_chance(2) ? 3600000000 : -3600000000 : 0;
	cluster.late_edits = 0;
	cluster.holds = false;
	cluster.patience_us = 30000000; /* of routers from now on */
	calm = true;
	sim_trace("the faults have ended");
	/* A new master finishes what failed: tables that were made or dropped in part. */
	for (unsigned i = 1; i <= p->masters; i++)
		if (node_find(MASTER, i))
			proc_kill(node_find(MASTER, i)->proc);
	if (p->sole && node_find(SERVER, 1))
		proc_kill(node_find(SERVER, 1)->proc);
	sim_spawn(proc_world(), 0, keep_alive, (void *)(uintptr_t)p);
}
