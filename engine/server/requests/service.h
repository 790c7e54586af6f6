/* SPDX-License-Identifier: Apache-2.0 */
/* The service of server_service(). */
#ifndef TFS_SERVER_SERVICE_H
#define TFS_SERVER_SERVICE_H

#include "engine/server/internal.h"

/* The server of a tablet, as its status names it. */
#define SERVER_NAME "local"

void server_service_init(struct server *s);

#endif
