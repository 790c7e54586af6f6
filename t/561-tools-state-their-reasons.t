#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletctl states why a mount refuses a call, for each of its subcommands, for a
# bad clause, a table or a family that is missing, a snapshot, and a user without
# permission.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "a mount for all users" mount_store -o allow_other
chmod 755 "$W"
mkdir -p "$M/t/r/f" "$M/t/.families/n" "$M/t/.families/secret" "$M/private"
echo counter >"$M/t/.families/n/type"
chmod 600 "$M/t/.families/secret"
chmod 700 "$M/private"
echo x >"$M/t/r/f/q"
mkdir -p "$M/t/r/secret"
echo y >"$M/t/r/secret/z"
mkdir "$M/t/.snap/monday"
printf 'r\tf:a\t1\tv\n' >"$W/good"
printf 'r\tn:a\t\tv\n' >"$W/number"
printf 'r\tnosuch:a\t\tv\n' >"$W/nosuch"
printf 'error(' >"$W/bad.lua"
printf 'function row(r) end' >"$W/good.lua"
chmod 644 "$W"/good "$W"/number "$W"/nosuch "$W"/*.lua
user() {
	setpriv --reuid=1234 --regid=1234 --clear-groups "$@"
}
each_refuses() { # PATH REASON COMMAND-PREFIX...: each subcommand refuses the table with this reason
	local path=$1 reason=$2 c
	shift 2
	for c in compact "splits -n 2" scan count export "get PATH r" "get PATH r f:q" "put PATH r f:q v" "delete PATH r" \
		"increment PATH r n:x" "import PATH $W/good"; do
		[[ $c == *PATH* ]] || c="$c PATH"
		# shellcheck disable=SC2086 # no word has white space
		fails "  $c" "^tabletctl: .*$reason" "$@" "$TABLETCTL" ${c/PATH/$path}
	done
}
# ---- a table that does not exist ----
each_refuses "$M/none" "/none: there is no such table$"
# ---- a user without permission for the table ----
each_refuses "$M/private" "/private.*Permission denied: its owner, mode and ACL do not let user 1234 in$" user

# ---- clauses and families ----
for c in scan count export; do
	fails "$c: a family that does not exist" "family=nosuch: .*it has no family .nosuch." "$TABLETCTL" "$c" --family nosuch "$M/t"
	fails "  in a snapshot" "monday/\.scan/family=nosuch: .*it has no family .nosuch." "$TABLETCTL" "$c" --family nosuch "$M/t/.snap/monday"
	fails "  a wrong expression" "/t/\.scan/qualifier=\(: .*the pattern of qualifiers, ..., is not valid: missing closing parenthesis" "$TABLETCTL" "$c" --qualifier '(' "$M/t"
	fails "  a wrong number" "limit=x: it needs a number" "$TABLETCTL" "$c" --limit x "$M/t"
done
fails "get: a family of the row" "family=nosuch: .*it has no family .nosuch." "$TABLETCTL" get --family nosuch "$M/t" r
fails "put: a family that does not exist" "line 1: the table has no such family" "$TABLETCTL" put "$M/t" r nosuch:q v
fails "  a counter" "line 1: a counter is set to one decimal number" "$TABLETCTL" put "$M/t" r n:q v
fails "splits: a wrong number" "from 1 to 4096" "$TABLETCTL" splits -n 0 "$M/t"
fails "run: a script that is none" "bad.lua:.*<eof>" "$TABLETCTL" run --script "$W/bad.lua" "$M/t"
fails "import: a counter that is no number" "tabletctl: /t/\.import: line 1: the value of a counter is one decimal number" \
	"$TABLETCTL" import "$M/t" "$W/number"
echo 'protect = true; families = ( { name = "f"; }, { name = "n"; type = "counter"; }, { name = "secret"; mode = "0600"; } );' >"$M/t/.schema"
fails "  a family that does not exist" "line 1: the table has no family nosuch; -p makes it" "$TABLETCTL" import "$M/t" "$W/nosuch"
fails "  and that the user may not make" "line 1: .*nosuch.*: Permission denied|line 1: Permission denied" user "$TABLETCTL" import -p "$M/t" "$W/nosuch"
fails "  a table that cannot have this name" "/a b: names of tables, families and groups match" "$TABLETCTL" import -p "$M/a b" "$W/good"

# ---- a snapshot cannot be changed ----
fails "compact" "monday: a snapshot stays as it was made: compact its table" "$TABLETCTL" compact "$M/t/.snap/monday"
fails "import" "monday: a snapshot cannot be changed" "$TABLETCTL" import "$M/t/.snap/monday" "$W/good"
for c in "put PATH r f:q v" "delete PATH r" "increment PATH r n:x"; do
	# shellcheck disable=SC2086 # no word has white space
	fails "${c%% *}" "monday/r/\.mutate: a snapshot cannot be changed" "$TABLETCTL" ${c/PATH/$M/t/.snap/monday}
done

# ---- a user without permission ----
fails "compact" "/t/\.ctl: Permission denied: its owner, mode and ACL do not let user 1234 in" user "$TABLETCTL" compact "$M/t"
fails "splits" "/t/\.splits\.2: Permission denied" user "$TABLETCTL" splits -n 2 "$M/t"
fails "get: a cell" "/t/r/secret/z: Permission denied" user "$TABLETCTL" get "$M/t" r secret:z
fails "scan: a family" "/t/\.scan/family=secret/\.tsv: .*Permission denied" user "$TABLETCTL" scan --family secret "$M/t"
fails "put" "set f:q: no permission for the family" user "$TABLETCTL" put "$M/t" r f:q v
fails "import" "line 1: the user may not write to this family" user "$TABLETCTL" import "$M/t" "$W/good"

unmount_store
done_testing
