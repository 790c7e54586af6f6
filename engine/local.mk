# SPDX-License-Identifier: Apache-2.0
# Everything behind tabletfs.h, as one library: for the programs here and, installed, for others.
noinst_LTLIBRARIES += libengine.la
libengine_la_SOURCES = %D%/open.c %D%/tabletfs.h
libengine_la_LIBADD = libmaster.la libserver.la libclient.la librpc.la libmeta.la libschema.la liblock.la libstore.la \
	libsstable.la libbase.la
