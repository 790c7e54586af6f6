#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletctl create, ls, describe, drop and alter work on a mount, a data directory and a served one, and the lines of shell that they print do the same.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2010,SC2012,SC2016
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ctl() { t "$TABLETCTL" "$@"; }
families() { ctl describe "$1/web" 2>/dev/null | grep -o 'name = "[a-z]*"; gc = "[^"]*"\|protect = [a-z]*\|name = "raw"' | tr '\n' ' '; }

# session PATH: one session on a mount or a source.  Appends the lines of shell to $W/shell.
session() {
	local at=$1
	ok "$at: create" ctl create "$at/web" 'contents:maxversions=3' raw 'anchor:maxversions=1 or maxage=7d'
	ctl create "$at/other" 2>/dev/null
	is "$(ctl ls "$at" 2>/dev/null | tr '\n' ' ')" "other web " "$at: ls"
	is "$(ctl ls "$at/web" 2>/dev/null | sort | tr '\n' ' ')" "anchor contents raw " "  of a table: its families"
	fails "  create of a table that exists" 'tabletctl: .*/web: .*exists' ctl create "$at/web"
	is "$(families "$at")" 'name = "contents"; gc = "maxversions=3" name = "raw" name = "anchor"; gc = "maxversions=1 or maxage=7d" ' "  describe has them"
	ok "  alter: a rule, a family and a key" ctl alter "$at/web" contents:maxversions=1 title 'protect = true'
	like "$(families "$at")" 'protect = true name = "contents"; gc = "maxversions=1"|name = "contents"; gc = "maxversions=1".*protect = true' "  describe has both"
	fails "  drop of a protected table" 'protected|not permitted' ctl drop "$at/web"
	fails "  a key that there is not" 'no such setting|Invalid' ctl alter "$at/web" 'protekt = true'
	fails "  a rule that is none" 'tabletctl: .*contents' ctl alter "$at/web" contents:maxversion
	ok "  alter: not protected" ctl alter "$at/web" 'protect = false;'
	ok "  alter --delete" ctl alter --delete "$at/web" title
	fails "  and again" 'title.*(No such|no such|no family)' ctl alter -d "$at/web" title
	printf 'r\traw:q\t1\tx\n' | ctl import "$at/web" - >/dev/null 2>&1
	fails "  drop of a table with rows" 'has rows: drop it with --rows|rows' ctl drop "$at/web"
	ok "  drop --rows" ctl drop --rows "$at/web"
	fails "  describe of no table" 'no such table|No such file' ctl describe "$at/web"
	is "$(ctl ls "$at" 2>/dev/null)" "other" "  the other stays"
	ok "  drop" ctl drop "$at/other"
}
ok "mount" mount_store
session "$M"
session "unix:$D"

# ---- the lines of shell ----
"$TABLETCTL" create "$M/a b" 2>"$W/err"
like "$(cat "$W/err")" "a b: .*(Invalid|name)" "a name that is none"
for line in 'create web contents:maxversions=3 raw' 'alter web raw:maxage=1h' "alter web protect=true" "alter web protect=false" 'alter -d web raw' 'describe web' 'ls web' 'drop web'; do
	read -ra words <<<"$line"
	for ((i = 1; i < ${#words[@]}; i++)); do [ "${words[i]}" != web ] || words[i]=$M/web; done
	ctl "${words[@]}" 2>&1 >/dev/null | sed -n 's/^# //p'
done >"$W/shell"
is "$(sed "s|$M|MOUNT|" "$W/shell")" "mkdir MOUNT/web
mkdir -p MOUNT/web/.families/contents
echo maxversions=3 > MOUNT/web/.families/contents/gc
mkdir -p MOUNT/web/.families/raw
mkdir -p MOUNT/web/.families/raw
echo maxage=1h > MOUNT/web/.families/raw/gc
echo 'protect=true;' >> MOUNT/web/.schema
echo 'protect=false;' >> MOUNT/web/.schema
rmdir MOUNT/web/.families/raw
cat MOUNT/web/.schema
ls MOUNT/web/.families
rmdir MOUNT/web" "the lines of shell"
ok "  are commands that work" bash -e "$W/shell"
is "$(ls "$M")" "" "  and end as the subcommands do"
unmount_store
session "$D"
fails "a directory that is no store" 'neither a table in a mount' ctl create "$W/web"
fails "ls of one" 'neither a table in a mount' ctl ls "$W/nothing"
ok "check" ctl check "$D"
done_testing
