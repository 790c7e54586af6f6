# SPDX-License-Identifier: Apache-2.0
# The reference model, twice from the same sources: libmodel.a has the names
# of libtabletfs, libmodel_ref.a has model_* and can stand beside it.
model_sources = %D%/model_store.c %D%/model_table.c %D%/model_snapshots.c %D%/model_tablets.c %D%/model_data.c %D%/model_options.c \
	%D%/model_mutation.c %D%/model_row.c %D%/model_value.c %D%/model_gc.c \
	%D%/model_schema.c %D%/model_schema_edit.c %D%/model_schema_text.c %D%/model_schema_last.c %D%/model_schema_render.c %D%/model_splits.c %D%/model_scripts.c %D%/model_feed.c \
	%D%/model_access.c %D%/model_scan.c %D%/model_where.c %D%/model_read.c \
	%D%/model.h %D%/model_types.h %D%/rename.h
check_LIBRARIES += %D%/libmodel.a %D%/libmodel_ref.a
%C%_libmodel_a_SOURCES = $(model_sources) %D%/model_batch.c
%C%_libmodel_ref_a_SOURCES = $(model_sources)
%C%_libmodel_ref_a_CPPFLAGS = $(AM_CPPFLAGS) -include t/model/rename.h
