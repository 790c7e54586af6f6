/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The faults of a simulation: a thread of the process "world" that kills, pauses
 * and cuts off nodes, and starts the dead ones again.
 */
#ifndef T_SIM_FAULTS_H
#define T_SIM_FAULTS_H

#include "t/sim/cluster.h"

/* Drawn from the seed.  A kind that is false does not occur. */
struct plan {
	bool sole; /* cluster.sole */
	unsigned servers, masters, clients, rows;
	uint64_t run_us;   /* how long faults occur */
	uint64_t pause_us; /* between two faults, at most */
	unsigned preempt;
	unsigned moves;       /* of tablets in a second, by masters */
	uint64_t patience_us; /* the routers' patience; if it is short, outcomes stay in doubt */
	bool kill, step, pause, cut, net, repeat, edits, locks, clocks, disk, tables, silence, zombies, blind, busy, views, slow,
		groups, salted, shuttle;
};
void plan_draw(struct plan *p);
enum { PLAN_TEXT = 400 };
void plan_print(const struct plan *p, char out[PLAN_TEXT]);

/* Faults occur until plan.run_us has passed.  Then all nodes run, and no more fault occurs. */
void faults_run(const struct plan *p);
enum { FAULT_LATE_EDIT = 14, FAULT_HOLD, /* both are counted by net.c */ FAULTS = 24 };
extern unsigned fault_counts[FAULTS];
extern const char *const fault_names[FAULTS];

#endif
