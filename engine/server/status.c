/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's numbers, gathered once and shown two ways: "name value" lines
 * for /.tabletfs/status and Prometheus text for /.tabletfs/metrics.
 */
#include "engine/server/internal.h"

#include <stdlib.h>

struct number {
	const char *name, *help;
	uint64_t value;
	bool gauge;
};
#define NUMBERS_MAX 40

static unsigned gather(struct server *s, struct number *v)
{
	struct sst_cache_stats c;
	struct log_stats l;
	uint64_t minor = 0, merging = 0, major = 0, flushed = 0, in = 0, out = 0, stalls = 0, stall_us = 0, memory = 0;
	unsigned n = 0;

	sst_cache_get_stats(s->cache, &c);
	log_get_stats(s->log, &l);
	for (unsigned k = 0; k < KINDS; k++) {
		minor += atomic_load(&s->env[k].minor);
		merging += atomic_load(&s->env[k].merging);
		major += atomic_load(&s->env[k].major);
		flushed += atomic_load(&s->env[k].bytes_flushed);
		in += atomic_load(&s->env[k].bytes_compacted_in);
		out += atomic_load(&s->env[k].bytes_compacted_out);
		stalls += atomic_load(&s->env[k].stalls);
		stall_us += atomic_load(&s->env[k].stall_us);
		memory += atomic_load(&s->memory[k]);
	}
#define ADD(n_, h_, v_, g_) v[n++] = (struct number){n_, h_, v_, g_}
	ADD("incarnation", "number of this server process over the store's life", s->incarnation, true);
	mutex_lock(&s->lock);
	ADD("tables", "tables known", s->known_count, true);
	ADD("tablets", "tablets served, METADATA's included", s->set_count, true);
	mutex_unlock(&s->lock);
	ADD("memtable_bytes", "memory of all memtables", memory, true);
	ADD("memtable_limit_bytes", "bound of memtable_bytes", s->memtable_bytes, true);
	ADD("block_cache_bytes", "uncompressed blocks in memory", c.block_bytes, true);
	ADD("cell_cache_bytes", "single cells in memory, under the same bound", c.cell_bytes, true);
	ADD("cells_found", "reads of one column that found it remembered, for each SSTable asked", c.cells_found, false);
	ADD("cells_missed", "those that did not", c.cells_missed, false);
	ADD("table_cache_bytes", "indexes and filters of open SSTables", c.table_bytes, true);
	ADD("tables_open", "SSTables open", c.tables_open, true);
	ADD("blocks_read", "data blocks read from disk", c.blocks_read, false);
	ADD("bytes_read", "bytes of blocks read from disk, compressed", c.bytes_read, false);
	ADD("sstable_opens", "SSTables opened", c.table_opens, false);
	ADD("bloom_probes", "Bloom filter look-ups", c.probes, false);
	ADD("bloom_misses", "Bloom filter look-ups that spared a read", c.probe_misses, false);
	ADD("log_records", "records appended to the commit log", l.records, false);
	ADD("log_bytes_appended", "bytes appended to the commit log", l.bytes, false);
	ADD("log_groups", "group commits", l.groups, false);
	ADD("log_syncs", "syncs of the commit log", l.syncs, false);
	ADD("log_switches", "times the log writer was abandoned for the other", l.switches, false);
	ADD("log_retained_bytes", "records kept until a sync covers them", l.retained_bytes, true);
	ADD("log_size_bytes", "bytes of all segments", log_bytes(s->log), true);
	ADD("log_next_lsn", "log sequence number of the next record", log_next_lsn(s->log), true);
	ADD("log_durable_lsn", "log sequence number up to which all is on disk", log_durable_lsn(s->log), true);
	ADD("compactions_minor", "minor compactions", minor, false);
	ADD("compactions_merging", "merging compactions", merging, false);
	ADD("compactions_major", "major compactions", major, false);
	ADD("flushed_bytes", "bytes written by minor compactions", flushed, false);
	ADD("compacted_bytes_in", "bytes read by merging and major compactions", in, false);
	ADD("compacted_bytes_out", "bytes written by merging and major compactions", out, false);
	ADD("write_stalls", "writes slowed down", stalls, false);
	ADD("write_stall_us", "time by which writes were slowed down", stall_us, false);
	ADD("ballast", "1 while the ballast file is there", atomic_load(&s->ballast), true);
#undef ADD
	return n;
}

int server_status(struct server *s, struct buf *out)
{
	struct number v[NUMBERS_MAX];
	unsigned n = gather(s, v);
	int err = 0;

	for (unsigned i = 0; i < n && !err; i++)
		err = buf_printf(out, "%s %llu\n", v[i].name, (unsigned long long)v[i].value);
	return err;
}

int server_metrics(struct server *s, struct buf *out)
{
	struct number v[NUMBERS_MAX];
	unsigned n = gather(s, v);
	int err = 0;

	for (unsigned i = 0; i < n && !err; i++) {
		const char *suffix = v[i].gauge ? "" : "_total";

		err = buf_printf(out, "# HELP tabletfs_%s%s %s\n# TYPE tabletfs_%s%s %s\ntabletfs_%s%s %llu\n", v[i].name, suffix,
				 v[i].help, v[i].name, suffix, v[i].gauge ? "gauge" : "counter", v[i].name, suffix,
				 (unsigned long long)v[i].value);
	}
	return err;
}

int server_get_load(struct server *s, struct server_load *out)
{
	struct server_load l = {SERVER_NAME, "SERVING", s->incarnation, 0, 0};
	struct tablet_stats st;
	struct held **list;
	int err = held_list(s, 0, &list, &l.tablets);

	if (err)
		return err;
	for (unsigned i = 0; i < l.tablets; i++) {
		tablet_get_stats(list[i]->tablet, &st);
		l.bytes += st.disk_bytes + st.memory_bytes;
		held_put(list[i]);
	}
	free(list);
	if (atomic_load(&s->recovering))
		l.state = "LOADING";
	else if (atomic_load(&s->closing))
		l.state = "CLOSING";
	*out = l;
	return 0;
}
