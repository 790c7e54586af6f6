# SPDX-License-Identifier: Apache-2.0
# What a cell is and which one is seen: keys, batches, GC rules, the memtable, merging and live iterators.
noinst_LIBRARIES += libcell.a
libcell_a_SOURCES = %D%/batch_format.c %D%/batch_format.h %D%/batch_scan.c %D%/cellkey.c %D%/cellkey.h %D%/change_format.c %D%/change_format.h \
	%D%/gc.c %D%/gc.h %D%/hash_scan.c %D%/live.c %D%/live_internal.h %D%/live_setup.c %D%/memtable.c %D%/memtable.h \
	%D%/merge.c %D%/merge.h %D%/op.c %D%/op.h %D%/pattern.c %D%/pattern.h %D%/row_where.c %D%/row_where.h %D%/scan_filter.c %D%/scan_filter.h \
	%D%/scan_place.c
