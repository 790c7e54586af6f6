# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libstore.la
libstore_la_SOURCES =
libstore_la_LIBADD = libsstable.la libbase.la
# cells: keys, rules, memtable, the reading side
libstore_la_SOURCES += %D%/cellkey.c %D%/cellkey.h %D%/gc.c %D%/gc.h %D%/memtable.c %D%/memtable.h %D%/merge.c %D%/merge.h \
	%D%/clip.c %D%/live.c %D%/batch_scan.c %D%/op.c %D%/op.h
libstore_la_SOURCES += %D%/log.c %D%/log.h %D%/log_file.c %D%/log_format.c %D%/log_format.h %D%/log_internal.h \
	%D%/log_mem.c %D%/log_replay.c %D%/log_switch.c
