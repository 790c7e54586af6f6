# SPDX-License-Identifier: Apache-2.0
# Everything behind tabletfs.h, as one library: for the programs here and, installed, for others.
noinst_LTLIBRARIES += libengine.la
# It lists the objects of the libraries instead of the libraries, because libtool unpacks
# each library inside a library with a process for each object.
libengine_la_SOURCES = %D%/open.c %D%/open.h %D%/tabletfs.h $(libmaster_la_SOURCES) $(libserver_la_SOURCES) $(libclient_la_SOURCES) \
	$(librpc_la_SOURCES) $(libmeta_la_SOURCES) $(libschema_la_SOURCES) $(liblock_la_SOURCES) $(libcompact_la_SOURCES) $(libtablet_la_SOURCES) \
	$(liblog_la_SOURCES) $(libcell_la_SOURCES) $(libsstable_la_SOURCES) $(libbase_la_SOURCES)
libengine_la_LINK = $(LINK)
libengine_la_LIBADD = $(libsstable_la_LIBADD) $(libcell_la_LIBADD) $(libschema_la_LIBADD) $(libbase_la_LIBADD)

lib_LTLIBRARIES += libtabletfs.la
libtabletfs_la_SOURCES = $(libengine_la_SOURCES)
libtabletfs_la_LIBADD = $(libengine_la_LIBADD)
libtabletfs_la_LDFLAGS = -Wl,-z,relro,-z,now -version-info 0:0:0 -export-symbols-regex '^tfs_'
# Made with the C++ compiler: LevelDB is below.
nodist_EXTRA_libtabletfs_la_SOURCES = %D%/dummy.cc
include_HEADERS = %D%/tabletfs.h
pkgconfig_DATA = %D%/tabletfs.pc

# Programs find the library in a directory such as /usr/local/lib in the dynamic linker's cache only.
install-exec-hook:
	@test -n '$(DESTDIR)' || { PATH="$$PATH:/usr/sbin:/sbin"; ldconfig 2>/dev/null; ldconfig -p | grep -qF ' $(libdir)/libtabletfs.so.0'; } || \
	echo 'make install: programs do not find $(libdir)/libtabletfs.so.0 yet.  Run ldconfig as root, or set LD_LIBRARY_PATH=$(libdir)'
