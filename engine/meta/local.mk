# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += libmeta.a
libmeta_a_SOURCES = %D%/meta.h %D%/meta.c %D%/meta_list.c %D%/meta_change.c %D%/meta_ops.c %D%/meta_format.h %D%/meta_format.c
