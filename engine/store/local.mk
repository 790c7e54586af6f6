# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libstore.la
libstore_la_SOURCES =
libstore_la_LIBADD =
# cells: keys, rules, memtable, the reading side
libstore_la_SOURCES += %D%/cellkey.c %D%/cellkey.h %D%/gc.c %D%/gc.h %D%/memtable.c %D%/memtable.h %D%/merge.c %D%/merge.h \
	%D%/clip.c %D%/live.c %D%/live_internal.h %D%/live_seek.c %D%/live_setup.c %D%/batch_scan.c %D%/op.c %D%/op.h
libstore_la_SOURCES += %D%/tablet_replay.c
libstore_la_SOURCES += %D%/log.c %D%/log.h %D%/log_file.c %D%/log_format.c %D%/log_format.h %D%/log_internal.h \
	%D%/log_mark.c %D%/log_mem.c %D%/log_replay.c %D%/log_sort.c %D%/log_sort.h %D%/log_switch.c
# tablet
libstore_la_SOURCES += %D%/batch_format.c %D%/batch_format.h %D%/compact.c %D%/compact.h %D%/compact_filter.c \
	%D%/compact_flush.c %D%/compact_pick.c %D%/compact_room.c %D%/compact_run.c %D%/compact_sample.c %D%/compact_task.c %D%/memory.c %D%/mutate.c %D%/mutate.h %D%/mutate_column.c \
	%D%/mutate_value.c %D%/past.c %D%/tablet_plan.c %D%/tablet_plan.h \
	%D%/mutate_impl.h %D%/props_format.c %D%/props_format.h %D%/tablet.c %D%/tablet.h %D%/tablet_column.c \
	%D%/tablet_column.h %D%/tablet_impl.h %D%/tablet_read.c %D%/tablet_scan.c %D%/tablet_schema.c %D%/tablet_split.c %D%/tablet_usage.c %D%/tablet_usage.h %D%/tablet_write.c \
	%D%/view.c %D%/view.h
