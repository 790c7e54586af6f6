# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += libprobe.a
libprobe_a_SOURCES = %D%/probe.h %D%/internal.h %D%/probe.c %D%/tries.c %D%/side.c %D%/start.c
