#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each command of ours in tabletfs-from(7) works as printed, after a session with the same table.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2010,SC2012,SC2016
. "${SRC:-.}/t/lib/mount.sh" || exit 1
mkdir "$W/bin" && ln -s "$TABLETCTL" "$W/bin/tabletctl"
export PATH="$W/bin:$PATH"
ok "mount" mount_store
cd "$M" || exit 1
printf 'key,f:title\nr1,x\n' >"$W/file.csv"

# fill: the table t as the commands expect it.
fill() {
	mkdir -p t/.families/f t/r t/id t/k t/a1
	for cell in r/f/q r/f/hits id/f/column k/f/v k/f/q k/f/n a1/f/q; do mkdir -p "t/${cell%/*}"; printf 7 >"t/$cell"; done
	rmdir t/.snap/* 2>/dev/null
}
sed -n '/^\.Sh HAPPYBASE/,/^\.El/d; s/^\.Li "\(.*\)"$/\1/p' "$SRC/man/tabletfs-from.7" | sed 's/\\(dq/"/g; s/\\e/\\/g' >"$W/commands"
ok "there are commands" [ "$(wc -l <"$W/commands")" -gt 60 ]
while IFS= read -r command <&4; do
	rm -rf t 2>/dev/null
	case $command in
	*create*) ;;
	*) fill ;;
	esac
	case $command in
	*/.follow) # ends at a signal
		command="timeout 1 $command; [ \$? = 124 ]" ;;
	*FILE) command=${command/FILE/$W/file.tar} ;;
	*'import t file.csv') command=${command/file.csv/$W/file.csv} ;;
	*TIMESTAMP) command=${command/TIMESTAMP/\$(ls t/k/f | sed -n 's/^v@//p' | head -n 1)} ;;
	esac
	case $command in
	*.changes*) echo 'changes = "1d";' >>t/.schema; printf 8 >t/k/f/v ;;
	*check-absent*) rm t/k/f/v ;;
	esac
	ok "  $command" t bash -c "$command"
	rmdir t/.snap/* 2>/dev/null
done 4<"$W/commands"
cd "$W" || exit 1
done_testing
