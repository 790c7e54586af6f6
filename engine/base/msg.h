/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages.  Every message is one line "LEVEL: text"; it goes to standard
 * error (or, once the daemon is in the background, to syslog) and into a
 * bounded ring that /.tabletfs/log shows.  Log once, where the cause is
 * known, with the name of the thing.
 *
 * Threads: any.  Never blocks on anything but one short mutex (RANK_MSG,
 * the highest rank: it may be taken under every other lock).
 */
#ifndef TFS_BASE_MSG_H
#define TFS_BASE_MSG_H

#include "engine/base/bytes.h"

enum msg_level { MSG_ERROR, MSG_WARNING, MSG_NOTICE, MSG_INFO, MSG_DEBUG };

void msg_set_level(enum msg_level least);                    /* what is dropped; default MSG_NOTICE */
bool msg_level_parse(const char *name, enum msg_level *out); /* error warning notice info debug */
void msg_to_syslog(const char *ident);                       /* from now on syslog instead of standard error */
void msg_to_nowhere(void);                                   /* tests: the ring only */
void msg_log(enum msg_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define msg_error(...) msg_log(MSG_ERROR, __VA_ARGS__)
#define msg_warning(...) msg_log(MSG_WARNING, __VA_ARGS__)
#define msg_notice(...) msg_log(MSG_NOTICE, __VA_ARGS__)
#define msg_info(...) msg_log(MSG_INFO, __VA_ARGS__)
#define msg_debug(...) msg_log(MSG_DEBUG, __VA_ARGS__)

/* The number of errors logged so far. */
unsigned msg_error_count(void);
/* The ring's lines, oldest first, each "TIME LEVEL: text\n"; appended to out. */
int msg_ring(struct buf *out) TFS_MUST;
/* The same of those after the first *seen lines of the process, if the ring still has them, or of all; *seen becomes the number of lines so far. */
int msg_ring_after(uint32_t *seen, bool all, struct buf *out) TFS_MUST;

/* Bytes as a printable, bounded, quoted string for messages; returns dst. */
const char *msg_quote(char *dst, size_t dst_bytes, struct slice s);
#define Q(s) msg_quote((char[128]){0}, 128, (s))

#endif
