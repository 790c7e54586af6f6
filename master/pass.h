/* SPDX-License-Identifier: Apache-2.0 */
/* A pass over the tablets, as master/assign.c describes it: for assign.c and move.c. */
#ifndef TFS_MASTER_PASS_H
#define TFS_MASTER_PASS_H

#include "engine/client/metadata.h"
#include "master/internal.h"

enum level { LEVEL_ROOT, LEVEL_META, LEVEL_USER };

/* A tablet, as its row describes it. */
struct place {
	struct ts_assigned at; /* its begin and end borrow from the members below */
	struct buf begin, end;
	uint64_t bytes;
	uint64_t to; /* the server that gets LOAD, or 0 */
	bool served; /* the server `to` serves it, as its answer to LIST or LOAD shows */
	bool assign; /* step 3 */
};

struct live_server {
	uint64_t incarnation;
	struct tablet_service *service;
	struct ts_answer list; /* the answer to LIST */
	bool draining;
};

struct dead_server {
	uint64_t incarnation;
	bool buried;
};

struct pass {
	struct master *m;
	enum level level;
	const struct start *start; /* the start, if this is its first pass; else NULL */
	char **why;
	struct live_server *servers;
	unsigned server_count;
	uint64_t *live; /* incarnations with a file in the lock service, or that can be reached */
	uint32_t live_count;
	uint64_t buried;   /* BURY was about all servers up to this incarnation */
	unsigned left_out; /* servers that did not answer BURY */
	uint32_t next_id;  /* the next table id, read before BURY */
	bool quiet;        /* no late request can make rows of tables below next_id */
	uint64_t sum;      /* a hash of the servers that were found */
	bool one_table;
	struct dead_server *dead; /* the dead servers that rows of this pass named */
	unsigned dead_count;
	struct place *v;
	unsigned count;
	struct place *metadata; /* METADATA's tablets, after their level */
	unsigned metadata_count;
	bool partial;    /* rows of users' tablets were not read */
	bool unsure;     /* rows before the next row were not read, so the begin of its tablet is unknown */
	int unread;      /* the first error of a tablet of METADATA, other than damage */
	uint32_t *notes; /* tables with a note dropped/ID */
	unsigned note_count;
	struct buf *orphans; /* rows to be deleted */
	unsigned orphan_count;
	uint32_t table; /* the table of the last row; the end of its tablet follows */
	struct buf begin;
	bool last_seen;
	unsigned known;  /* index in start->tables: tables below it have their last tablet */
	unsigned failed; /* tablets that are not served at the end */
};

/* ---- drop.c ---- */
/* Reads the notes dropped/ID. */
int pass_notes(struct pass *p) TFS_MUST;
bool pass_noted(const struct pass *p, uint32_t table);
/* Deletes the rows of the tables with a note, and the notes.  A table for which that fails counts as failed. */
void pass_drop(struct pass *p);

/* ---- pass_rows.c ---- */
/* An embedded store with damage in METADATA is not opened.  In a cluster damage stops its tablet or table only. */
bool pass_is_strict(const struct pass *p);
/* Adds a tablet that begins at p->begin. */
int pass_add(struct pass *p, const struct meta_tablet *row) TFS_MUST;
/* Checks that a row names only incarnations that were given out; in an embedded store, only earlier incarnations. */
int pass_check_past(struct pass *p, const struct meta_tablet *row) TFS_MUST;
/* Called with the error err if a tablet of METADATA cannot be read, or has no server.  Returns 0 if the pass continues without its rows, else err. */
int pass_unread(struct pass *p, int err) TFS_MUST;
/* Adds METADATA's tablets. */
int pass_read_metadata(struct pass *p) TFS_MUST;
/* Adds users' tablets.  Sets p->partial if a tablet of METADATA is not served, or cannot be read to its end. */
int pass_read_users(struct pass *p) TFS_MUST;
int pass_read_table(struct pass *p, uint32_t table) TFS_MUST;

/* ---- pass_servers.c ---- */
/* Finds the live servers only. */
int pass_find(struct pass *p) TFS_MUST;
/* A hash of the live servers. */
uint64_t servers_sum(const struct pass *p);
bool pass_serves(const struct live_server *s, const struct ts_assigned *t);
/* Returns true if the tablets of this server may be given to others: it is dead, and its log is sealed (steps a and b). */
bool pass_is_dead(struct pass *p, uint64_t incarnation);
/* Finds the live servers, and does step 0.  -EAGAIN: there is none. */
int pass_servers(struct pass *p) TFS_MUST;
struct live_server *pass_server(struct pass *p, uint64_t incarnation);
/* Step 2.  The answers are in the order of METADATA, because that is the order of a server's set. */
void pass_list(struct pass *p);
/* Sets the bytes of all places after the last one was added. */
void pass_point(struct pass *p);
/* Steps 3 and 4; step 4 for one server.  Returns the first error of a tablet. */
int pass_assign(struct pass *p) TFS_MUST;
int pass_load(struct pass *p, struct live_server *s) TFS_MUST;
/* Compares two tablets in the order of METADATA, for qsort. */
int pass_compare(const void *a, const void *b);
/* Frees the places. */
void pass_clear(struct pass *p);
void pass_fini(struct pass *p);

#endif
