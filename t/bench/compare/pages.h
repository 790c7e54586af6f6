/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Web pages for `tabletbench compression`: made ones, and later versions
 * of any page.  Pure functions of their numbers: the same on every machine.
 */
#ifndef T_BENCH_COMPARE_PAGES_H
#define T_BENCH_COMPARE_PAGES_H

#include "engine/base/bytes.h"

enum { PAGES_SITES = 6 };
/*
 * Page number `page` of a site, and its row key, a reversed host and a path.
 * A site's pages share a template (head, navigation, scripts, footer, 5 to
 * 8 KiB) and have a title, links and one to three KiB of text of their own:
 * gzip makes 3.5 of each alone.  Keys of a site are not in order of numbers.
 */
int pages_make(unsigned site, unsigned page, struct buf *row, struct buf *html) TFS_MUST;
/* The next version of the page: some words replaced, sentences added and removed, more of them in a longer page. */
int pages_edit(struct tfs_bytes html, uint64_t seed, struct buf *out) TFS_MUST;

#endif
