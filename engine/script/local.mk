# SPDX-License-Identifier: Apache-2.0
# Scripts: the pool of their workers, and the merging of their outputs.
noinst_LIBRARIES += libscript.a
libscript_a_SOURCES = %D%/script.h %D%/pool.c %D%/outputs.c
