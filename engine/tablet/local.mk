# SPDX-License-Identifier: Apache-2.0
# One tablet: views, reads, scans, row mutations, split.
noinst_LIBRARIES += libtablet.a
libtablet_a_SOURCES = %D%/mutate.c %D%/mutate.h %D%/mutate_column.c %D%/mutate_impl.h %D%/mutate_value.c \
	%D%/props_format.c %D%/props_format.h %D%/skip_damage.c %D%/tablet.c %D%/tablet.h %D%/tablet_change.c %D%/tablet_changes.c %D%/tablet_column.c %D%/tablet_column.h \
	%D%/tablet_freeze.c %D%/tablet_impl.h %D%/tablet_plan.c %D%/tablet_plan.h %D%/tablet_read.c %D%/tablet_replay.c %D%/tablet_scan.c \
	%D%/tablet_schema.c %D%/tablet_split.c %D%/tablet_state.h %D%/tablet_stats.c %D%/tablet_write.c %D%/throttle.c %D%/tokens.c %D%/tokens.h %D%/tokens_format.c %D%/tokens_format.h %D%/usage.c %D%/usage.h %D%/view.c %D%/view.h
