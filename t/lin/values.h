/* SPDX-License-Identifier: Apache-2.0 */
/* Texts as numbers: equal texts have equal numbers, so that a state of a row is a few numbers.  For t/lin/check.c. */
#ifndef T_LIN_VALUES_H
#define T_LIN_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VALUE_ABSENT 0u
#define VALUE_NONE UINT32_MAX /* there is no such value */

struct values;
struct values *values_new(void);
void values_free(struct values *v);
uint32_t values_of(struct values *v, const char *text); /* NULL: VALUE_ABSENT */
const char *values_text(const struct values *v, uint32_t value);
bool values_begins(const struct values *v, uint32_t value, uint32_t with); /* every value begins with VALUE_ABSENT */
/* Does the value begin with `from` and then `piece`? */
bool values_continues(const struct values *v, uint32_t value, uint32_t from, uint32_t piece);
bool values_contains(const struct values *v, uint32_t value, uint32_t piece);
uint32_t values_append(struct values *v, uint32_t value, uint32_t piece);
/* VALUE_NONE: it is not a decimal number, or too large. */
uint32_t values_increment(struct values *v, uint32_t value, int64_t by);

#endif
