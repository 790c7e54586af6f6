# SPDX-License-Identifier: Apache-2.0
# The commit log: its queue, segments, second writer, marks, replay and sort.
noinst_LIBRARIES += liblog.a
liblog_a_SOURCES = %D%/log.c %D%/log.h %D%/log_file.c %D%/log_format.c %D%/log_format.h %D%/log_internal.h \
	%D%/log_mark.c %D%/log_mem.c %D%/log_queue.c %D%/log_replay.c %D%/log_seal.c %D%/log_seal.h %D%/log_seal_format.c %D%/log_sort.c %D%/log_sorted.c %D%/log_sorted.h %D%/log_sort.h %D%/log_switch.c
