# SPDX-License-Identifier: Apache-2.0
# Everything behind tabletfs.h, as one library: for the programs here and, installed, for others.
noinst_LTLIBRARIES += libengine.la
libengine_la_SOURCES = %D%/open.c %D%/open.h %D%/tabletfs.h
libengine_la_LIBADD = libmaster.la libserver.la libclient.la librpc.la libmeta.la libschema.la liblock.la libcompact.la libtablet.la liblog.la libcell.la \
	libsstable.la libbase.la

lib_LTLIBRARIES += libtabletfs.la
libtabletfs_la_SOURCES =
libtabletfs_la_LIBADD = libengine.la
libtabletfs_la_LDFLAGS = -version-info 0:0:0 -export-symbols-regex '^tfs_'
# Made with the C++ compiler: LevelDB is below.
nodist_EXTRA_libtabletfs_la_SOURCES = %D%/dummy.cc
include_HEADERS = %D%/tabletfs.h
pkgconfig_DATA = %D%/tabletfs.pc

# Programs find the library in a directory such as /usr/local/lib in the dynamic linker's cache only.
install-exec-hook:
	@test -n '$(DESTDIR)' || { PATH="$$PATH:/usr/sbin:/sbin"; ldconfig 2>/dev/null; ldconfig -p | grep -qF ' $(libdir)/libtabletfs.so.0'; } || \
	echo 'make install: programs do not find $(libdir)/libtabletfs.so.0 yet.  Run ldconfig as root, or set LD_LIBRARY_PATH=$(libdir)'
