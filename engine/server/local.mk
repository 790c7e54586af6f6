# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libserver.la
libserver_la_SOURCES = %D%/server.c %D%/server.h %D%/internal.h %D%/tablets.c %D%/schemas.c %D%/edit.c %D%/service.c \
	%D%/scans.c %D%/recover.c %D%/retire.c %D%/sweep.c %D%/listed.c %D%/split.c %D%/merge.c %D%/space.c %D%/clock.c %D%/status.c %D%/traffic.c
libserver_la_LIBADD =
libserver_la_SOURCES += %D%/replay.c
