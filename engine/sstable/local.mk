# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += libsstable.a
libsstable_a_SOURCES = %D%/sstable.h %D%/blockfile_format.c %D%/blockfile_format.h %D%/codec.c %D%/codec.h \
	%D%/blockfile.h %D%/blockfile_write.c %D%/blockfile_read.c %D%/binding.cc %D%/binding.h \
	%D%/ahead.c %D%/ahead.h %D%/block_keys.c %D%/value.c %D%/value.h %D%/load.c %D%/load.h %D%/units.c %D%/units.h %D%/writer.c %D%/cache.c %D%/cache.h %D%/lru.c %D%/lru.h %D%/find.c %D%/sst.c %D%/open_table.c \
	%D%/table_format.c %D%/table_format.h %D%/verify.c %D%/salvage.c %D%/mend.c %D%/pieces.c %D%/pieces.h %D%/sample.c
