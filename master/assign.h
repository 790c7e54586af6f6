/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns tablets to servers: passes over all tablets, and moves.  The caller has the master's lock. */
#ifndef TFS_MASTER_ASSIGN_H
#define TFS_MASTER_ASSIGN_H

#include "engine/base/task.h"
#include "engine/tabletfs.h"

struct master;

struct passes {
	struct task task;                   /* makes a pass if a tablet is not served */
	bool unassigned;                    /* a tablet is not served */
	bool partial;                       /* the last pass has not read all rows of METADATA */
	uint64_t passed_us, passed_servers; /* the last pass: monotonic time, a hash of the live servers */
	uint64_t again_us;                  /* the pause before the next pass if a tablet is not served */
	uint64_t latest;                    /* the latest incarnation that had a session; BURY names all incarnations up to it */
	uint64_t assigned;                  /* the highest assignment number that this master has read or written */
	uint64_t failure_us;                /* monotonic: when a server was found dead; 0: never */
	struct seen_server {
		uint64_t incarnation, since_us;
	} * seen; /* live servers, and since when this master knows them */
	unsigned seen_count;
	unsigned turn; /* the index, among the live servers, of the server that gets the next new tablet (steps.c) */
};

/* ---- assign.c ---- */
struct known_table {
	uint32_t id; /* the table id of its tablets */
	char name[TFS_NAME_MAX + 1];
};
/* The contents of the lock service that the start has read. */
struct start {
	struct master *m;
	char **why;
	uint32_t next_id;            /* the id of the next new table */
	uint64_t latest_incarnation; /* the latest incarnation that METADATA may name */
	struct known_table *tables;  /* tables and snapshots, by id */
	unsigned table_count;
	unsigned refused; /* files of schemas that are damaged */
};
/* The first pass over all tablets. *why as in master_start. */
int assign_first(struct master *m, const struct start *start, char **why) TFS_MUST;
/* Has the tablets of a new table served.  After an error a later pass does it. */
int assign_table(struct master *m, uint32_t table) TFS_MUST;
/* A tablet is not served: the next tick, or a task in a second, makes a pass. */
void assign_soon(struct master *m);

#define DRAIN_FILE_MAX 40
/* draining/N */
void drain_file_name(uint64_t incarnation, char *name);
bool server_is_draining(struct master *m, uint64_t incarnation);

#endif
