/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of sockets as text. */
#include "engine/base/address.h"

#include "engine/base/units.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static bool parse_port(const char *text, in_port_t *port)
{
	uint64_t v;

	if (!units_number(&text, &v) || *text || v < 1 || v > 65535)
		return false;
	*port = htons((uint16_t)v);
	return true;
}

bool address_parse(const char *text, struct sockaddr_storage *out, socklen_t *bytes)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN];
	bool six = text[0] == '[';
	size_t n;

	if (!colon || (six && (colon - text < 2 || colon[-1] != ']')))
		return false;
	n = (size_t)(colon - text) - (six ? 2 : 0);
	if (n >= sizeof(host))
		return false;
	memcpy(host, text + six, n);
	host[n] = 0;
	memset(out, 0, sizeof(*out));
	*bytes = six ? sizeof(*v6) : sizeof(*v4);
	out->ss_family = six ? AF_INET6 : AF_INET;
	return six ? inet_pton(AF_INET6, host, &v6->sin6_addr) == 1 && parse_port(colon + 1, &v6->sin6_port)
		   : inet_pton(AF_INET, host, &v4->sin_addr) == 1 && parse_port(colon + 1, &v4->sin_port);
}

bool address_is_host(const char *text)
{
	struct in6_addr any;

	return inet_pton(AF_INET, text, &any) == 1 || inet_pton(AF_INET6, text, &any) == 1;
}
