#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The sessions in tabletfs-cookbook(7) and tabletfs-keys(7) print what the pages
# print (t/lib/page.py), in a new store each, and the cookbook has every job.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2034
. "${SRC:-.}/t/lib/mount.sh" || exit 1
for tool in setfacl rsync flock; do has $tool || cannot_run "there is no $tool"; done
getent passwd nobody >/dev/null || cannot_run "there is no user nobody"
PATH=$(dirname "$TABLETCTL"):$PATH
export PATH

# A store in a directory of its own, because the sessions write beside the mount.
new_store()
{
	W_page=$W/$1
	mkdir -p "$W_page/mnt"
	D=$W_page/data M=$W_page/mnt
	ok "$1: a new store mounts" mount_store
}

new_store cookbook
py <<'PY'
from page import *
headings, sessions = read_page("tabletfs-cookbook.7")
run_page(sessions)

page = open(os.environ["SRC"] + "/man/tabletfs-cookbook.7", encoding="utf-8").read()
named = [name for line in re.findall(r"^\.(?:It )?(?:.* Ta )?Sx (.*)", page, re.M) for name in line.split(" , ")]
same([name for name in named if name not in headings], [], "the sections that the page names exist")
ran = {heading for heading, _ in sessions}
CHAPTERS = {h for h in headings if h.isupper()} | {"The paper's API"}
same([h for h in headings if h not in ran and h not in CHAPTERS], [], "each section has commands")
same([h for h in headings if h not in named and h not in {"NAME", "DESCRIPTION", "SEE ALSO", "The paper's API"}], [], "  and is in the table of contents")
JOBS = ("Create,Alter,Drop,Truncate,Put,Get,Delete,Whole row,Prefix,Range,Limit,Reverse,Column,Value,Time,Count,Increment,"
        "Check-and-put,Append,Import,Export,Snapshot,Diff,Clone,Restore,Pre-split,Protect,Access,Everything else,Nightly mirror")
same([job for job in JOBS.split(",") if job not in ran], [], "no job is missing")
PAPER = ("OpenOrDie RowMutation Set Delete Apply Scanner Lookup FetchColumnFamily SetReturnAllVersions RowName ColumnName "
         "MicroTimestamp Value").split()
table = page[page.index(".Ss The paper's API"):page.index(".Sh TABLES")]
same([call for call in PAPER if not re.search(r"\b%s\b" % call, table)], [], "no call of the paper's figures is missing")
PY
unmount_store

new_store keys
py <<'PY'
from page import *
headings, sessions = read_page("tabletfs-keys.7")
ok(len(sessions) >= 5, "tabletfs-keys(7) has sessions")
run_page(sessions)
PY
done_testing
