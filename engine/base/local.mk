# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += libbase.a
libbase_a_SOURCES = %D%/bytes.c %D%/bytes.h %D%/arena.c %D%/copies.c %D%/copies.h %D%/envelope.c %D%/envelope.h %D%/file.c %D%/file.h %D%/file_pool.c %D%/file_pool.h  %D%/file_ops.c %D%/file_ops.h %D%/file_system.c \
	%D%/hash.c %D%/hash.h %D%/hashtable.h %D%/tree.h %D%/siphash.c %D%/siphash.h %D%/mutex.c %D%/mutex.h %D%/msg.c %D%/msg.h %D%/stop.c %D%/stop.h %D%/task.c %D%/task.h %D%/clock.c %D%/clock.h %D%/units.c %D%/units.h %D%/counter.c %D%/counter.h %D%/numbers.c %D%/numbers.h %D%/outcome.c %D%/outcome.h %D%/scan.c %D%/scan.h %D%/address.c %D%/address.h %D%/iter.h %D%/name.c %D%/name.h %D%/process.c %D%/process.h %D%/reason.h %D%/socket.c %D%/socket.h %D%/source.c %D%/source.h %D%/where.c %D%/where.h
