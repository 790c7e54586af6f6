/* SPDX-License-Identifier: Apache-2.0 */
/* The sides of tabletbench, ours first. */
#include "t/bench/compare/bench.h"

const struct side_ops *const bench_sides[] = {
	&side_ours,
	&side_leveldb,
#ifdef HAVE_ROCKSDB
	&side_rocksdb,
	&side_rocksdb_zstd,
#endif
	NULL,
};
