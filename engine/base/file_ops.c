/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table that the file layer uses.  It has a file to itself because a
 * test program may define it instead (file_ops.h).
 */
#include "engine/base/file_ops.h"

const struct file_ops *const file_ops = &file_system;
