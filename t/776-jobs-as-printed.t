#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The jobs in tabletfs-jobs(7), by GNU parallel and by Dask, print what the page prints
# (t/lib/page.py).
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2034
. "${SRC:-.}/t/lib/mount.sh" || exit 1
# shellcheck source=t/lib/python.sh
. "$SRC/t/lib/python.sh"
has parallel || cannot_run "there is no parallel"
PATH=$(dirname "$TABLETCTL"):$PATH
export PATH
ok "the Python package is built" python_package
D=$W/data M=$W/mnt
mkdir -p "$M"
ok "mount" mount_store
py <<'PY'
from page import *
headings, sessions = read_page("tabletfs-jobs.7")
same([h for h, _ in sessions], ["Word count", "Inverted anchors", "A join by row key", "A nightly aggregate"], "the page has four jobs")
ok(all(sum(tool in command for command, _ in session) >= 1 for _, session in sessions for tool in ("parallel", "python3")), "  each by parallel and by Dask")
run_page(sessions)
PY
# Dask's workers end a moment after the program that started them.
left() { ls -l /proc/[0-9]*/cwd 2>/dev/null | grep -F -- "-> $M"; }
none_left() { ! left; }
cd /
wait_for "no process of a job is left in the mount" none_left
done_testing
