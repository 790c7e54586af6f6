/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of sockets as text. */
#ifndef TFS_BASE_ADDRESS_H
#define TFS_BASE_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/*
 * "127.0.0.1:9180", "[::1]:9180": a numeric address and a port from 1 to 65535.
 * Returns false if text is anything else.  Names of hosts are not looked up.
 */
bool address_parse(const char *text, struct sockaddr_storage *out, socklen_t *bytes);
/* Returns true for an address without a port: "127.0.0.1", "::1". */
bool address_is_host(const char *text);

#endif
