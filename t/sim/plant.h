/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bugs that a simulation is given, to see that it finds them: sim -p NAME.
 * t/sim/planted prints within how many seeds each bug is found.
 */
#ifndef T_SIM_PLANT_H
#define T_SIM_PLANT_H

#include "engine/rpc/tablet_service.h"

#define PLANTS(P)                                                                                                                  \
	P(NOTHING, "nothing")                                                                                                      \
	P(LOST_WRITE, "lost-write")           /* a channel acknowledges one of 100 mutations of clients, and does not send it */   \
	P(DOUBLE_APPEND, "double-append")     /* a tablet forgets which mutations it has applied */                                \
	P(STALE_READ, "stale-read")           /* one of 50 reads and scans of a user's tablet does not see the latest mutation */  \
	P(TWO_OWNERS, "two-owners")           /* a server believes that it never loses its lease */                                \
	P(LATE_EDIT, "late-edit")             /* with the next bug: the two fences of a late edit */                               \
	P(NO_OWNER_CHECK, "no-owner-check")   /* servers change METADATA without a check of owner and number */                    \
	P(DEAD_CLIENT, "dead-client")         /* BURY names no dead server: their requests are carried out */                      \
	P(LAPSE_ENDS, "lapse-ends")           /* a lease that has ended ends its server, although the session lives */             \
	P(PATIENT_MASTER, "patient-master")   /* a request to the master waits for METADATA as long as a client does */            \
	P(SERVICE_CLOCK, "service-clock")     /* the clock of the lock service is the cluster's, also if it alone is wrong */      \
	P(STORAGE_HANGS, "storage-hangs")     /* no server says that its storage answers */                                        \
	P(STORAGE_ANSWERS, "storage-answers") /* each server says that its storage answers */                                      \
	P(COLLECTED_FILE, "collected-file")   /* the collector does not ask the servers which files they use */                    \
	P(OWNER_UNCHECKED, "owner-unchecked") /* a master writes an owner without a check of the previous owner */                 \
	P(STAYS_SERVED, "stays-served")       /* a tablet stays served after an UNLOAD of unknown outcome */                       \
	P(SERVED_RELEASE, "served-release")   /* an UNLOAD serves its tablet until the release is answered */                      \
	P(LATE_LOAD, "late-load")             /* a LOAD that has read its row before an UNLOAD is not refused */                   \
	P(UNBURIED, "unburied")               /* a master uses a server that has not answered BURY */                              \
	P(MAKING_IGNORED, "making-ignored")   /* a master ignores the answer of BURY that rows are being made */                   \
	P(SPLIT_WRITERS, "split-writers")     /* a split does not wait for the writers of its parent */                            \
	P(OLD_SCHEMA, "old-schema")           /* a server ignores that a client has a newer schema */                              \
	P(READ_NO_LEASE, "read-no-lease")     /* a server answers reads without a lease */                                         \
	P(NO_LOOK_UP, "no-look-up")           /* a commit does not look up the directory of its log */                             \
	P(OLD_ASSIGNMENT, "old-assignment")   /* a server carries out requests of older assignments of a tablet */                 \
	P(OLD_EPOCH, "old-epoch")             /* a server carries out requests of earlier epochs of a client */                    \
	P(OLD_TERM, "old-term")               /* a server obeys masters that have been replaced */                                 \
	P(LEASE_FORGOTTEN, "lease-forgotten") /* a master takes a server that was removed for dead at once */                      \
	P(OTHERS_UNASKED, "others-unasked")   /* a master removes servers that it alone does not reach */
#define PLANT_ENUM(id, name) PLANT_##id,
enum plant { PLANTS(PLANT_ENUM) PLANT_COUNT };

/* Returns false if there is no bug of this name. */
bool plant(const char *name);
bool planted(enum plant p);
/* For net.c: a request that is answered here and not sent.  Returns true if it is; *a has the answer then. */
bool plant_answers(bool of_client, const struct ts_request *q, struct ts_answer *a);
/* For net.c: changes the answer that a caller gets, err among it.  Returns the caller's err. */
int plant_changes(const struct ts_request *q, int err, struct ts_answer *a);
/* For net.c: the caller makes a tablet have no owner. */
bool is_releasing(void);
/* Returns true if the fence lets the request pass without a lease. */
bool plant_fence(const struct ts_request *q);

#endif
