# SPDX-License-Identifier: Apache-2.0
# Texts of cells, rows and mutations, for the programs above tabletfs.h.
noinst_LTLIBRARIES += libbulk.la
libbulk_la_SOURCES = %D%/escape.c %D%/escape.h %D%/json.c %D%/json.h %D%/line.c %D%/line.h %D%/line_stream.c %D%/mutation_lines.c %D%/mutation_lines.h %D%/value.c %D%/value.h
