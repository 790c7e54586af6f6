# SPDX-License-Identifier: Apache-2.0
# Texts of cells, rows and mutations, and archives, for the programs above tabletfs.h.
noinst_LIBRARIES += libbulk.a
libbulk_a_SOURCES = \
	%D%/clauses.c %D%/clauses.h \
	%D%/escape.c %D%/escape.h %D%/json.c %D%/json.h %D%/line.c %D%/line.h %D%/line_stream.c %D%/feed.c %D%/feed.h \
	%D%/mutation_lines.c %D%/mutation_lines.h %D%/row_json.c %D%/row_json.h %D%/value.c %D%/value.h \
	%D%/reader.c %D%/record.c %D%/reader.h %D%/reader_internal.h %D%/read_tsv.c %D%/read_json.c %D%/read_tar.c \
	%D%/tree_path.c %D%/tree_path.h %D%/tar_format.c %D%/tar_format.h %D%/tar_stream.c %D%/tar_stream.h \
	%D%/splits.c %D%/splits.h %D%/import.c %D%/import.h %D%/stream_count.c %D%/stream_count.h %D%/outputs.c %D%/outputs.h \
	%D%/read_csv.c %D%/csv_stream.c %D%/csv_stream.h %D%/stream.c %D%/stream.h
