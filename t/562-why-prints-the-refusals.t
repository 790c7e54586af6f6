#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletctl why prints the newest refusals of a mount with time, user, path and
# reason, and bash and zsh do so after a command that has failed, by the lines in
# tabletfs-cookbook(7).
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
PATH=$(dirname "$TABLETCTL"):$PATH
export PATH
ok "a mount for all users" mount_store -o allow_other
chmod 755 "$W"
is "$(tabletctl why "$M"; echo $?)" 1 "nothing is refused: the status is 1, and nothing is printed"
mkdir -p "$M/t/r/f"
mkdir "$M/a b" 2>/dev/null
setpriv --reuid=1234 --regid=1234 --clear-groups ls "$M/t/.scan/family=none" >/dev/null 2>&1
mkdir "$M/t/r/f/$(printf 'x\033[1m')" 2>/dev/null
is "$(tabletctl why "$M" | wc -l)" 3 "root sees the refusals of all"
like "$(tabletctl why "$M" | head -n 1)" "^20..-..-..T..:..:..\.[0-9]{6}Z  root  /a b: names of tables.*: Invalid argument$" "  with time, user, path and reason"
like "$(tabletctl why -n 1 "$M")" "  root  /t/r/f/x.*: not the canonical name" "  the newest last"
is "$(tabletctl why "$M" | tr -d '\n' | tr -d '[:print:]' | wc -c)" 0 "  without control characters"
is "$(setpriv --reuid=1234 --regid=1234 --clear-groups "$TABLETCTL" why "$M" | cut -d ' ' -f 3)" 1234 "a user sees his own"
is "$(cd "$M/t/r/f" && tabletctl why -n 2 | wc -l)" 2 "without a path it is that of the working directory"
like "$(tabletctl why -n 1 "$M/t/no/such/file")" "/t/r/f/x" "a path may be absent"
is "$(tabletctl why --since $(($(date +%s) + 100)) "$M"; echo $?)" 1 "nothing since then"
is "$(tabletctl why --since "$(date +%s),000001" "$M" >"$W/.o"; [ $? -le 1 ] && echo read)" read "the time may have decimals"
is "$(tabletctl why --since 1 "$M" | wc -l)" 3 "all since then"
fails "a path that is in no mount" "not in a mount" tabletctl why "$W"
fails "a wrong number" "not a number above 0: 0" tabletctl why -n 0 "$M"
fails "a wrong time" "not a number of seconds" tabletctl why --since yesterday "$M"
for i in $(seq 300); do mkdir "$M/b $i"; done 2>/dev/null
is "$(tabletctl why -n 1000 "$M" | wc -l)" 256 "256 are kept"

# ---- the lines of the cookbook, in real shells ----
py <<'PY'
from page import *
for page, text in examples():
    for shell in "bash", "zsh":
        if page == "tabletfs-cookbook.7" and text.startswith("# in ~/.%src\n" % shell):
            spill(W + "/." + shell + "rc", text.encode())
PY
cat >"$W/commands" <<SH
cd $M
echo begin
mkdir 'c d' 2>/dev/null
echo middle
false
echo end
exit 0
SH
wanted="begin /c d: names middle end"
for shell in bash zsh; do
	command -v $shell >/dev/null || cannot_run "there is no $shell"
	printed=$(cd "$W" && HOME=$W ZDOTDIR=$W $shell -i <"$W/commands" 2>/dev/null | grep -aoE '^(begin|middle|end)|/[a-z ]+: names')
	is "$(echo "$printed" | tr '\n' ' ')" "$wanted " "$shell prints the reason after the command that failed, and only then"
done
unmount_store
done_testing
