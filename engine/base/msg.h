/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages.  Each message is one line "LEVEL: text".  It is written to
 * standard error (by a daemon in the background to syslog) and to a bounded
 * ring, the contents of /.tabletfs/log.  A cause is logged once, by the code
 * that finds it, with the name of the object.
 *
 * The ring has all lines.  Of errors and warnings with one text, one in MSG_REPEAT_US is
 * written elsewhere, and the next one of this text says how many were left out.  Otherwise a user who
 * reads a damaged block again and again would fill the disk with the log.
 *
 * Threads: any.  A call waits for one mutex only (RANK_MSG, the highest rank,
 * so a thread may log under any lock).
 */
#ifndef TFS_BASE_MSG_H
#define TFS_BASE_MSG_H

#include "engine/base/bytes.h"

#define MSG_REPEAT_US UINT64_C(600000000)
enum { MSG_TEXTS = 1024 }; /* the most texts that are written in this time; lines of further texts are left out */

enum msg_level { MSG_ERROR, MSG_WARNING, MSG_NOTICE, MSG_INFO, MSG_DEBUG };

void msg_set_level(enum msg_level least);                    /* messages below it are dropped; default MSG_NOTICE */
bool msg_level_parse(const char *name, enum msg_level *out); /* error warning notice info debug */
void msg_to_syslog(const char *ident);                       /* from now on messages are sent to syslog instead of standard error */
void msg_with_levels(void); /* from now on lines on standard error begin with <LEVEL>, as in sd-daemon(3) */
void msg_to_nowhere(void);  /* from now on only the ring gets messages */
void msg_log(enum msg_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define msg_error(...) msg_log(MSG_ERROR, __VA_ARGS__)
#define msg_warning(...) msg_log(MSG_WARNING, __VA_ARGS__)
#define msg_notice(...) msg_log(MSG_NOTICE, __VA_ARGS__)
#define msg_info(...) msg_log(MSG_INFO, __VA_ARGS__)

/* Frees *why and sets it to one line for the caller's user, or to NULL if there is no memory. */
void why_set(char **why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The number of errors logged so far. */
unsigned msg_error_count(void);
/* Damage of a file that a read found, also where a second copy replaced it: counted, for the metric damage_total. */
void msg_count_damage(void);
unsigned msg_damage_count(void);
#define msg_damage(...) (msg_count_damage(), msg_error(__VA_ARGS__))
/* The ring's lines, oldest first, each "TIME LEVEL: text\n"; appended to out. */
int msg_ring(struct buf *out) TFS_MUST;
/* Appends the lines after the first *seen of the process that the ring still contains, or all; sets *seen to the number of lines so far. */
int msg_ring_after(uint32_t *seen, bool all, struct buf *out) TFS_MUST;

/* Bytes as a printable, bounded, quoted string for messages; returns dst. */
const char *msg_quote(char *dst, size_t dst_bytes, struct tfs_bytes s);
#define Q(s) msg_quote((char[128]){0}, 128, (s))

#endif
