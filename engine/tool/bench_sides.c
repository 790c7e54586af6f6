/* SPDX-License-Identifier: Apache-2.0 */
/* The databases that tabletctl knows; t/bench/rivals has a list of its own. */
#include "engine/tool/bench.h"

const struct side_ops *const bench_sides[] = {&side_ours, &side_leveldb, NULL};
