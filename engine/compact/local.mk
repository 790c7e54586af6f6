# SPDX-License-Identifier: Apache-2.0
# Minor, merging and major compactions: picking, filtering, writing.
noinst_LIBRARIES += libcompact.a
libcompact_a_SOURCES = %D%/compact.c %D%/compact.h %D%/compact_internal.h %D%/compact_changes.c %D%/compact_filter.c %D%/compact_flush.c %D%/compact_job.c %D%/compact_pace.c %D%/compact_pick.c \
	%D%/compact_full.c %D%/compact_run.c %D%/compact_sample.c %D%/compact_task.c
