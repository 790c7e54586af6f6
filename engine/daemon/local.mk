# SPDX-License-Identifier: Apache-2.0
# What daemons share: the HTTP server, and messages to a service manager.
noinst_LIBRARIES += libdaemon.a
libdaemon_a_SOURCES = %D%/http.c %D%/http.h %D%/notify.c %D%/notify.h
