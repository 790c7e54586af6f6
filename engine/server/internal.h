/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tablet server and its parts.  Only the files below this directory and tests include
 * this.  Each part has a struct and a lock; no file but the part's and the header of the
 * struct reads its members.  Each room has one header (tables/ has two), which states
 * the contracts of its parts.  server.c makes and frees the parts.
 *
 * The rooms, each of which calls only those before it: tables (tables, schemas, access,
 * the set of tablets), storage (files, log, disk space, fence, clock), tablets (how they
 * are loaded, moved and recovered), requests.
 *
 * Locks: the lock of a part has the rank SERVER, unless the header states another rank.
 * So a thread holds only one such lock at a time.  It holds it for look-ups only, never
 * during I/O or a call into a tablet that can block.
 */
#ifndef TFS_SERVER_INTERNAL_H
#define TFS_SERVER_INTERNAL_H

#include "engine/server/server.h"
#include "engine/tablet/tablet.h"

#include <stdatomic.h>

enum kind { KIND_ROOT, KIND_META, KIND_USER, KINDS };

struct server {
	struct tablet_service service;   /* first */
	struct server_options o;         /* with its defaults and clock; constant */
	struct tablet_service *metadata; /* server_set_metadata */
	struct lock_service *locks;
	struct sst_cache *cache;
	struct log *log;
	_Atomic bool sync;       /* every commit is synced before it is answered */
	_Atomic bool recovering; /* until server_ready */
	_Atomic bool closing;    /* no background work begins */
	/* requests/ */
	struct clients *clients;
	struct traffic *traffic;
	struct scans *scans;
	struct actions *actions;
	/* tables/ */
	struct tables *tables;
	struct set *set;
	struct schemas *schemas;
	/* storage/ */
	struct environment *env;
	struct files *files;
	struct space *space;
	struct logs *logs;
	struct fence *fence; /* NULL: an embedded store */
	struct clock_mark *mark;
	/* tablets/ */
	struct sorter *sorter;
	struct replays *replays;
	struct retire *retire;
};

/*
 * How server.c makes and frees a part.  It allocates the struct, and calls begin, which must
 * leave nothing to free after an error.  stop ends tasks, and frees what requests have
 * left; it may be called again.  end frees the rest.  Each may be NULL.
 */
struct server_part {
	size_t at, size; /* where struct server has the pointer, and the size of the struct */
	int (*begin)(
		struct server *s, struct task_pool *misc); /* misc: workers of the server's tasks, which may wait for a flush */
	void (*stop)(struct server *s);
	void (*end)(struct server *s);
};

/* Queues the task, unless no background work may begin now. */
static inline void server_queue(struct server *s, struct task *t)
{
	if (!s->o.no_background && !s->recovering && !s->closing)
		task_queue(t);
}

#endif
