/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of a cell, and timestamps that are probably wrong. */
#include "engine/bulk/reader.h"

#include "engine/tabletfs.h"

const char *record_fault(const struct record *r)
{
	char family[TFS_NAME_MAX + 1];

	if (r->row.n == 0)
		return "the row key is empty";
	if (r->row.n > TFS_ROW_MAX)
		return "the row key is longer than 64 KiB";
	if (r->family.n > TFS_NAME_MAX)
		return "the name of the family is longer than 64 bytes";
	memcpy(family, r->family.p, r->family.n);
	family[r->family.n] = 0;
	if (strlen(family) != r->family.n || !tfs_name_valid(family))
		return "not the name of a family: it matches [A-Za-z0-9_][A-Za-z0-9_.-]{0,63}";
	if (r->qualifier.n > TFS_QUALIFIER_MAX)
		return "the qualifier is longer than 16 KiB";
	if (r->value.n > TFS_VALUE_MAX)
		return "the value is longer than 64 MiB";
	return NULL;
}

bool record_is_in_wrong_unit(const struct record *r, int64_t max_age_us, int64_t now_us)
{
	static const int64_t units[] = {1000, 1000000};
	const int64_t century_us = INT64_C(3155760000) * 1000000;

	if (!r->has_ts || !max_age_us || r->ts <= 0 || r->ts >= now_us - max_age_us)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (r->ts < INT64_MAX / units[i] && r->ts * units[i] >= now_us - max_age_us &&
			r->ts * units[i] < now_us + century_us)
			return true;
	return false;
}
