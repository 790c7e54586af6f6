# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += libclient.a
libclient_a_SOURCES = %D%/client.h %D%/store.c %D%/table.c %D%/mutation.c %D%/salt.c %D%/salt.h %D%/ranges.c %D%/run.c %D%/read.c %D%/admin.c %D%/numbers.c %D%/numbers.h %D%/options.c \
	%D%/call.c %D%/call.h %D%/metadata.c %D%/metadata.h %D%/cursor.c %D%/cursor.h %D%/locations.c %D%/locations.h %D%/route.c %D%/route.h %D%/batch.c %D%/snapshot.c \
	%D%/feed.c %D%/scan.c %D%/cells.h %D%/absent.c %D%/schemas.c %D%/schemas.h %D%/changed_rows.c %D%/changed_rows.h %D%/key_tables.c %D%/key_tables.h %D%/watch.c \
	%D%/server_list.c %D%/server_list.h %D%/window.c %D%/window.h
