# SPDX-License-Identifier: Apache-2.0
# The SQLite extension.  It is in the directory of libraries, where `.load tabletfs' finds it.
sqldir = $(libdir)
# It is built in a directory of its own, because beside the programs Python would import it as its package tabletfs.
sql_PROGRAMS = %D%/tabletfs.so
sql_tabletfs_so_SOURCES = %D%/internal.h %D%/api.c %D%/value.c %D%/cell_id.c %D%/columns.c %D%/table.c %D%/range.c %D%/plan.c %D%/cursor.c %D%/transaction.c \
	%D%/change.c %D%/extension.c
sql_tabletfs_so_LDADD = libtabletfs.so.0.0.0
sql_tabletfs_so_LDFLAGS = -shared -Wl,-z,relro,-z,now -Wl,-z,defs

# Here, too, programs find libtabletfs by the name of its ABI: with LD_LIBRARY_PATH.
all-local: $(tabletfs_so)
$(tabletfs_so): libtabletfs.so.0.0.0
	$(AM_V_GEN)ln -sf libtabletfs.so.0.0.0 $@
CLEANFILES += $(tabletfs_so)

dist_man_MANS += man/tabletfs-sql.7
