/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spoil SOURCE KEYS KIND NAME: damages the metadata of a cluster as no program of it does.  SOURCE is zk://..., KEYS the file
 * of the cluster's key.
 *
 *	schema TABLE   cuts a byte off the table's schema in the lock service
 *	row TABLE      writes nonsense as the server of the table's last tablet in METADATA
 *	seal N         seals the log of server N, which is dead, and cuts a byte off the seal in the lock service.  No master runs
 */
#include "engine/base/bytes.h"
#include "engine/base/file.h"
#include "engine/base/source.h"
#include "engine/cell/op.h"
#include "engine/client/metadata.h"
#include "engine/client/route.h"
#include "engine/lock/lock.h"
#include "engine/log/log_seal.h"
#include "engine/schema/schema.h"
#include "engine/site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct site site;

static void must(int err, const char *what, const char *why)
{
	if (!err)
		return;
	fprintf(stderr, "spoil: %s: %s\n", what, why ? why : error_text(err));
	exit(1);
}

static uint32_t tablets_of(const char *table)
{
	struct buf b = {0};
	char name[300];
	struct schema *s;
	uint32_t id;

	snprintf(name, sizeof(name), "tables/%s", table);
	must(lock_get(site.locks, name, &b, NULL), name, NULL);
	must(schema_decode(buf_bytes(&b), &s), name, NULL);
	id = ((const struct tfs_schema *)s)->tablets_id;
	schema_put(s);
	buf_fini(&b);
	return id;
}

static void spoil_schema(const char *table)
{
	struct buf b = {0};
	char name[300];

	snprintf(name, sizeof(name), "tables/%s", table);
	must(lock_get(site.locks, name, &b, NULL), name, NULL);
	must(lock_put(site.locks, name, tfs_bytes_of(b.p, b.n - 1), LOCK_ANY, NULL), name, NULL);
	buf_fini(&b);
}

static void spoil_row(const char *table)
{
	const struct op op = {.kind = OP_WRITE,
		.family = META_TABLET,
		.w.qualifier = tfs_str("server"),
		.w.place = {.when = TFS_NEWEST, .us = TFS_NO_TIME},
		.w.truncate_to = UINT64_MAX,
		.value = tfs_str("nonsense")};
	struct route_options ro = {.client = TS_CLIENT_RANDOM | 4711, .locks = site.locks};
	struct router *router;
	struct buf key = {0};

	must(site_connect(&site, 0, ro.client, NULL), "the servers", NULL);
	ro.servers = site_servers(&site);
	must(route_new(&ro, &router), "the router", NULL);
	must(meta_row_key(&key, tablets_of(table), true, (struct tfs_bytes){0}), "memory", NULL);
	must(metadata_mutate(route_service(router), buf_bytes(&key), &op, 1), "METADATA", NULL);
	buf_fini(&key);
	route_free(router);
}

static void spoil_seal(const char *number)
{
	struct buf b = {0};
	char name[300];
	char *why = NULL, *logs = path_join(site.dir, "log");
	struct log_seal seal;

	must(logs ? 0 : -ENOMEM, "memory", NULL);
	must(log_seal_make(logs, strtoull(number, NULL, 10), &seal, &why), logs, why);
	must(log_seal_encode(&seal, &b), "memory", NULL);
	snprintf(name, sizeof(name), "seals/%s", number);
	must(lock_put(site.locks, name, tfs_bytes_of(b.p, b.n - 1), LOCK_ABSENT, NULL), name, NULL);
	log_seal_fini(&seal);
	buf_fini(&b);
	free(logs);
}

int main(int argc, char **argv)
{
	struct store_source at;
	struct tfs_options o;
	char *why = NULL;

	if (argc != 5)
		must(-EINVAL, "usage: spoil SOURCE KEYS schema|row|seal NAME", NULL);
	tfs_options_init(&o);
	snprintf(o.keys, sizeof(o.keys), "%s", argv[2]);
	snprintf(o.listen, sizeof(o.listen), "127.0.0.1:1");
	must(store_source_parse(argv[1], &at, &why), argv[1], why);
	must(site_open(&at, &o, &site, &why), argv[1], why);
	must(site_check(&site, &why), argv[1], why);
	if (strcmp(argv[3], "schema") == 0)
		spoil_schema(argv[4]);
	else if (strcmp(argv[3], "row") == 0)
		spoil_row(argv[4]);
	else
		spoil_seal(argv[4]);
	site_close(&site);
	store_source_fini(&at);
	return 0;
}
