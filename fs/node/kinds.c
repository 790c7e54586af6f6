/* SPDX-License-Identifier: Apache-2.0 */
#include "fs/node/kinds.h"

#define DECLARE(upper, lower) extern const struct node_ops lower##_ops;
NODE_KINDS(DECLARE)

#define TABLE_OF(upper, lower) [NODE_##upper] = &lower##_ops,
const struct node_ops *const node_kinds[NODE_KIND_COUNT] = {NODE_KINDS(TABLE_OF)};
