# SPDX-License-Identifier: Apache-2.0
# The file layer for tests; it comes before the engine's libraries in LDADD.
check_LTLIBRARIES = %D%/libfaults.la
%C%_libfaults_la_SOURCES = %D%/file_faults.c %D%/file_faults.h %D%/forget.c %D%/forget.h %D%/forget_entry.c %D%/forget_crash.c
