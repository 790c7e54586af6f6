#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first session and the jobs in README work as printed, and so does the output
# of quickstart.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2012,SC2001
. "${SRC:-.}/t/lib/mount.sh" || exit 1

# The indented lines between "A first session" and "To end".
session=$(sed -n '/^Both work.*A first session/,/^To end/{s/^    //p}' "$SRC/README")
like "$session" 'mkdir -p webtable' "README has a session"
is "$(head -n 1 <<<"$session")" "cd mnt" "which begins with cd mnt"

ok "the store mounts" mount_store
[ "$OVER" = cluster ] && made=$C/data || made=$D
ok "with a data directory made" test -d "$made"
is "$(ls -A "$M")" "" "a new store is empty"

cd "$W" || exit 1
cat >"$W/session.sh" <<TXT
set -e
$session
TXT
t bash "$W/session.sh" >"$W/out" 2>"$W/err"
is $? 0 "the session runs"
is "$(cat "$W/err")" "" "without a word on stderr"
is "$(sed -n 1p "$W/out")" "<html>v2" "cat shows the newest version"
is "$(sed -n 2,3p "$W/out" | sed 's/@[0-9]\{16\}$/@TIME/' | tr '\n' ' ')" "html@TIME html@TIME " "ls shows both"
like "$(sed 1,3d "$W/out")" "^TABLE/ROW/FAMILY/QUALIFIER is a cell" "help names the commands by job"
is "$(find webtable backup -name 'html@*' 2>/dev/null | wc -l)" 2 "there is a backup"
cd "$M" || exit 1
is "$(t rsync -ai webtable/ ../backup/)" "" "again: transfers nothing"
is "$(cells webtable | sed 's/@[0-9]*$/@T/' | uniq -c | tr -s ' ' | tr '\n' ';')" \
	" 1 ./.schema; 1 ./com.cnn.www; 1 ./com.cnn.www/anchor; 1 ./com.cnn.www/anchor/cnnsi.com@T; 1 ./com.cnn.www/anchor/my.look.ca@T; 1 ./com.cnn.www/contents; 2 ./com.cnn.www/contents/html@T; 1 ./com.cnn.www/title; 1 ./com.cnn.www/title/en@T;" \
	"find shows the table and nothing else"
is "$(cat webtable/.families/contents/gc)" "maxversions=3" "the rule is set"
jobs=$(sed -n '/^Jobs\./,/^Control files/{s/^    //p}' "$SRC/README")
is "$(grep -vc '^ *#' <<<"$jobs")" 6 "README has six jobs"
t bash -ec "$jobs" >"$W/jobs" 2>&1
is $? 0 "which run"
like "$(cat "$W/jobs")" 'anchor:cnnsi.com' "  the first prints cells"
is "$(cat webtable/com.cnn.www/title/fr)" CNN "  the second changes a row"
rmdir webtable/.snap/monday
rm webtable/com.cnn.www/title/fr
ok "a family more can be made in a restored copy too" bash -c 'mkdir copy && rsync -a ../backup/ copy/ && mkdir copy/com.cnn.www/more'
rm -r copy
mkdir webtable/.families/declared
fails "once a family has been declared, a typing error makes none" 'Operation not permitted' mkdir webtable/com.cnn.www/tilte
like "$(tail -n 1 .tabletfs/log)" 'webtable/com.cnn.www/tilte: the table has no such family: mkdir TABLE/.families/tilte makes it' "  and the log says what to do"
rmdir webtable/.families/declared
for i in 3 4 5; do echo "<html>v$i" >webtable/com.cnn.www/contents/html; done
is "$(cat webtable/com.cnn.www/contents/html@* | sort | tr '\n' ' ')" "<html>v3 <html>v4 <html>v5 " "and holds at once"
is "$(grep -rl 'CNN.com' webtable | sed 's/@.*//')" "webtable/com.cnn.www/anchor/my.look.ca" "grep -r finds a cell"
cd / || exit 1
remount
is "$(cat "$M/webtable/com.cnn.www/contents/html")" "<html>v5" "all is there after a remount"
is "$(cat "$M/webtable/com.cnn.www/anchor/cnnsi.com")" "CNN" "and the other family"
is "$(ls "$M/webtable/com.cnn.www/contents" | wc -l)" 3 "with three versions"

# quickstart's own session is the same one, shorter.
quick=$(sed -n '/A first session/,/^TXT/{s/^  \([a-z]\)/\1/p}' "$SRC/quickstart" | grep -v '^cd ')
t bash -e -c "cd '$M' && rm -r webtable && $(sed 's/$/ \&\&/' <<<"$quick") true" >"$W/out" 2>&1
is $? 0 "quickstart's session runs"
like "$(cat "$W/out")" '^<html>v2' "and shows the same"
done_testing
