# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += liblock.a
liblock_a_SOURCES = %D%/lock.h %D%/lock_format.c %D%/lock_format.h %D%/ops.c %D%/ops.h %D%/watch.c %D%/watch.h %D%/local.c %D%/local_files.c %D%/local_files.h \
	%D%/identity.c %D%/identity.h %D%/marker.c %D%/marker.h %D%/session.c %D%/session.h %D%/term.c %D%/term.h
