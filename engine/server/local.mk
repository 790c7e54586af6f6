# SPDX-License-Identifier: Apache-2.0
# The tablet server, in the order in which its files call each other: each calls those before it.
noinst_LTLIBRARIES += libserver.la
libserver_la_SOURCES = %D%/server.h %D%/internal.h %D%/clients.c %D%/fence.c %D%/tables.c %D%/set.c %D%/files.c %D%/schemas.c %D%/access.c %D%/logs.c \
	%D%/space.c %D%/metadata_edits.c %D%/seal.c %D%/replay.c %D%/load.c %D%/split.c %D%/merge.c %D%/unload.c %D%/moves.c %D%/list.c %D%/copy.c %D%/clock.c %D%/recover.c \
	%D%/scans.c %D%/traffic.c %D%/service.c %D%/status.c %D%/server.c
libserver_la_LIBADD =
