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
	P(LOST_WRITE, "lost-write")         /* a channel acknowledges one of 100 mutations of clients, and does not send it */     \
	P(DOUBLE_APPEND, "double-append")   /* a tablet forgets which mutations it has applied */                                  \
	P(STALE_READ, "stale-read")         /* one of 50 reads and scans of a user's tablet does not see the latest mutation */    \
	P(TWO_OWNERS, "two-owners")         /* a server believes that it never loses its lease */                                  \
	P(LATE_EDIT, "late-edit")           /* the next two together: the two fences of a late edit */                             \
	P(NO_OWNER_CHECK, "no-owner-check") /* servers change METADATA without a check of owner and number */                      \
	P(DEAD_CLIENT, "dead-client")       /* BURY names no dead server: their requests are carried out */                        \
	P(LAPSE_ENDS, "lapse-ends")         /* a lease that has ended ends its server, although the session lives */               \
	P(PATIENT_MASTER, "patient-master") /* a request to the master waits for METADATA as long as a client does */              \
	P(COLLECTED_FILE, "collected-file") /* the collector does not ask the servers which files they use */
#define PLANT_ENUM(id, name) PLANT_##id,
enum plant { PLANTS(PLANT_ENUM) PLANT_COUNT };

/* Returns false if there is no bug of this name. */
bool plant(const char *name);
bool planted(enum plant p);
/* For net.c: a request that is answered here and not sent.  Returns true if it is; *a has the answer then. */
bool plant_answers(bool of_client, const struct ts_request *q, struct ts_answer *a);

#endif
