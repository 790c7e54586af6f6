/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and durations as people write them in schemas and configuration. */
#ifndef TFS_BASE_UNITS_H
#define TFS_BASE_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* "4096", "4096B", "64K", "64k", "64KiB", "2G", "1T": powers of 1024.  "64KB" is refused: it means 64,000 to some.  False: not a size, or too large for 63 bits. */
bool units_size(const char *text, uint64_t *bytes);
/* The other way round, with at most one decimal: "512 B", "1.5 MiB".  Writes UNITS_SIZE_TEXT bytes at most; returns text. */
#define UNITS_SIZE_TEXT 16
char *units_size_text(uint64_t bytes, char *text);
/* "10us" "500ms" "2s" "5m" "3h" "7d" "2w": a unit is needed.  False: not a duration, or too long for 63 bits. */
bool units_duration(const char *text, uint64_t *us);

#endif
