#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The sessions in tabletfs-cookbook(7) and tabletfs-keys(7) print what the pages
# print, in a new store each, and the cookbook has every job.
#
# A session is a .Bd -literal block with lines "$ COMMAND".  The other lines are
# output.  Each session begins in the root of the mount.  Times of writing, which
# are numbers of 16 digits, the sequence of a row, and the sizes and rates of an
# import or export may differ.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2034
. "${SRC:-.}/t/lib/mount.sh" || exit 1
for tool in setfacl rsync flock; do has $tool || cannot_run "there is no $tool"; done
getent passwd nobody >/dev/null || cannot_run "there is no user nobody"
PATH=$(dirname "$TABLETCTL"):$PATH
export PATH

cat >"$W/page.py" <<'PY'
from tap import *
import re
import subprocess


def read_page(name):
    """Returns the page's headings, and its sessions: (heading, [[command, output], ...])."""
    headings, sessions, heading, block = [], [], "", None
    for line in open(os.environ["SRC"] + "/man/" + name, encoding="utf-8").read().split("\n"):
        if line.startswith((".Sh ", ".Ss ")):
            heading = line[4:]
            headings.append(heading)
        elif line.startswith(".Bd -literal"):
            block = []
        elif line.startswith(".Ed"):
            if any(text.startswith("$ ") for text in block):
                sessions.append((heading, commands(block)))
            block = None
        elif block is not None:
            block.append(line.replace(r"\&", "").replace(r"\-", "-").replace(r"\(dq", '"').replace(r"\(aq", "'").replace(r"\e", "\\"))
    return headings, sessions


def commands(block):
    found = []
    for line in block:
        if line.startswith("$ "):
            found.append([line[2:], ""])
        elif found:
            found[-1][1] += line + "\n"
        else:
            found.append(["false # output without a command", ""])
    return found


def run(session):
    """Runs the commands in one shell.  Returns the output and the exit status of each."""
    script = 'cd "$M"\n'
    for i, (command, _) in enumerate(session):
        script += '{ %s\n} >"$W/out.%d" 2>&1 </dev/null\necho $? >"$W/status.%d"\n' % (command, i, i)
    subprocess.run(["timeout", "-k", "5", "60", "bash", "-c", script], check=False)
    return [(slurp("%s/out.%d" % (W, i)).decode(), slurp("%s/status.%d" % (W, i)).decode().strip()) for i in range(len(session))]


def masked(text):
    text = re.sub(r"^(exported|imported) .* s$", r"\1", text, flags=re.M)
    text = re.sub(r"\b1[78]\d{14}\b", "TIME", text)
    return re.sub(r'"sequence":"[0-9a-f]{16}"', '"sequence":"N"', text)


def layout(command, text):
    """ls prints columns to a terminal, as the pages show, and lines to a pipe."""
    return text.split() if command.startswith("ls ") else text


def run_page(sessions):
    for heading, session in sessions:
        bad = []
        for (command, want), (got, status) in zip(session, run(session)):
            got = re.sub(r"^bash: line \d+: ", "bash: ", got, flags=re.M)
            # A command whose last line lacks a newline is followed by the next prompt.
            got = got if got == "" or got.endswith("\n") else got + "\n"
            if layout(command, masked(got)) != layout(command, masked(want)) or not want and status != "0":
                bad.append("$ %s\n%s(status %s)\nthe page has:\n%s" % (command, got, status, want))
        ok(not bad, "%s: %d commands" % (heading, len(session)))
        note("\n".join(bad))
PY
mkdir -p "$W/py" && mv "$W/page.py" "$W/py/"
PYTHONPATH=$W/py:$PYTHONPATH

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
