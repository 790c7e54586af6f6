# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += librpc.a
librpc_a_SOURCES = %D%/tablet_service.h %D%/master_service.h %D%/wire.h %D%/wire.c %D%/user_wire.h %D%/tablet_wire.c %D%/master_wire.c %D%/dispatch.h %D%/dispatch.c \
	%D%/frame.h %D%/frame.c %D%/events.h %D%/events.c %D%/keys.h %D%/keys.c %D%/stream.h %D%/stream.c %D%/conn.h %D%/conn.c %D%/hello.h %D%/hello.c %D%/store_service.h %D%/store_wire.c \
	%D%/channel.h %D%/channel_impl.h %D%/channel.c %D%/channel_call.c %D%/dial.h %D%/dial.c %D%/ssh.h %D%/ssh.c %D%/listen.h %D%/listen.c %D%/listen_impl.h %D%/listen_clients.c %D%/listen_notice.c %D%/notices.h %D%/notices.c %D%/listen_who.c %D%/listen_limit.c %D%/listen_check.h %D%/listen_check.c %D%/remote_lock.h %D%/remote_lock.c
