# SPDX-License-Identifier: Apache-2.0
# The tablet server: four rooms, each of which calls only those before it, then its start and its end.
# In a room each file calls only those before it.
noinst_LIBRARIES += libserver.a
libserver_a_SOURCES = %D%/server.h %D%/internal.h \
	%D%/tables/set.h %D%/tables/tables.h \
	%D%/tables/tables.c %D%/tables/set.c %D%/tables/schemas.c %D%/tables/access.c %D%/tables/quota.c %D%/tables/find.c \
	%D%/storage/storage.h \
	%D%/storage/environment.c %D%/storage/fence.c %D%/storage/clock.c %D%/storage/ahead.c %D%/storage/files.c %D%/storage/logs.c %D%/storage/space.c \
	%D%/tablets/tablets.h \
	%D%/tablets/metadata_edits.c %D%/tablets/served.c %D%/tablets/seal.c %D%/tablets/sorter.c %D%/tablets/replay.c %D%/tablets/load.c %D%/tablets/split.c %D%/tablets/merge.c \
	%D%/tablets/unload.c %D%/tablets/retire.c %D%/tablets/list.c %D%/tablets/copy.c \
	%D%/requests/requests.h \
	%D%/requests/clients.c %D%/requests/traffic.c %D%/requests/scans.c %D%/requests/scripts.c %D%/requests/actions.c %D%/requests/changes.c %D%/requests/service.c %D%/requests/status.c \
	%D%/recover.c %D%/server.c
