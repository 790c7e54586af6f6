/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of sizes and durations in schemas, GC rules and configuration. */
#ifndef TFS_BASE_UNITS_H
#define TFS_BASE_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * "4096", "4096B", "64K", "64k", "64KiB", "2G", "1T": powers of 1024.  "64KB"
 * is refused because some read it as 64,000.  Returns false if text is not a
 * size or the size does not fit into 63 bits.
 */
bool units_size(const char *text, uint64_t *bytes);
/* Writes a size with at most one decimal: "512 B", "1.5 MiB".  text has UNITS_SIZE_TEXT bytes.  Returns text. */
#define UNITS_SIZE_TEXT 16
char *units_size_text(uint64_t bytes, char *text);
/* "10us" "500ms" "2s" "5m" "3h" "7d" "2w".  Returns false if text is not a duration or the duration does not fit into 63 bits. */
bool units_duration(const char *text, uint64_t *us);

/*
 * Parses a decimal number without leading zeros that ends at the character
 * `end`.  *rest (may be NULL): the text after it.  Returns false for other text.
 */
bool number_parse(const char *text, char end, uint64_t *n, const char **rest);

/* The parts, for grammars that contain them.  Both advance *text past the part that they read. */
/* Returns false if *text does not begin with a digit or the number does not fit into 64 bits. */
bool units_number(const char **text, uint64_t *v);
/* Returns the microseconds of the unit that *text begins with; 0 if there is none. */
uint64_t units_duration_unit(const char **text);

#endif
