# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += librpc.a
librpc_a_SOURCES = %D%/tablet_service.h %D%/master_service.h %D%/wire.h %D%/wire.c %D%/user_wire.h %D%/tablet_wire.c %D%/master_wire.c %D%/dispatch.h %D%/dispatch.c
