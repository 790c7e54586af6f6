# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += libschema.a
libschema_a_SOURCES = %D%/schema.h %D%/schema_internal.h %D%/draft.c %D%/schema.c %D%/values.c %D%/scan.c %D%/text.c %D%/render.c \
	%D%/access.c %D%/restrict.c %D%/acl.c %D%/attributes.c %D%/splits.c %D%/edit.c %D%/scripts.c %D%/schema_format.c %D%/restore.h %D%/restore.c
