#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A server or the master dies between two steps of a split, merge, move, seal, assignment, drop or snapshot: the next one finishes or
# undoes it.  TFS_DIE_AT of a debug build chooses the step, TEST_SEED the steps of a run.  ROUNDS deaths.
# shellcheck source=t/lib/hosts.sh
. "${SRC:-.}/t/lib/hosts.sh" || exit 1
LIMIT=900
grep -q "define TFS_DEBUG 1" "$BUILD/config.h" || skip_all "only a debug build dies at a step"
RANDOM=${TEST_SEED:-1}
rows="00 01 02 03 04 05 06 07 08 09"
hosts_cluster
for row in $rows; do mkdir -p "$M/s/r$row/f"; done
n=0
write_rows() { # NUMBER
	local row
	for row in $rows; do echo "$row of $1" >"$M/s/r$row/f/c" || { echo "row $row of $1"; return 1; }; done
}
rows_are_right() { # TABLE NUMBER
	local row
	for row in $rows; do
		[ "$(cat "$1/r$row/f/c")" = "$row of $2" ] || { echo "$1: row $row: $(cat "$1/r$row/f/c"), not of $2"; return 1; }
	done
}
# Splits and merges may be refused when their server dies: then they have taken place or not.
change_all() { # NUMBER
	echo "split r0$(($1 * 7 % 10))" >"$M/s/.ctl" 2>/dev/null
	write_rows "$1" || return 1
	mkdir "$M/made$1" || { echo "mkdir"; return 1; }
	mkdir "$M/s/.snap/s$1" || { echo "snapshot"; return 1; }
	echo "merge r0$(($1 * 3 % 10))" >"$M/s/.ctl" 2>/dev/null
	write_rows "$1 again" || return 1
	rows_are_right "$M/s/.snap/s$1" "$1" || return 1
	echo "clone copy$1" >"$M/s/.ctl" || { echo "clone"; return 1; }
	rows_are_right "$M/copy$1" "$1 again" || return 1
	rmdir "$M/made$1" || { echo "rmdir"; return 1; }
	rmdir "$M/s/.snap/s$1" || { echo "drop of a snapshot"; return 1; }
	echo truncate >"$M/copy$1/.ctl" && rmdir "$M/copy$1" || { echo "drop of a clone"; return 1; }
	rows_are_right "$M/s" "$1 again"
}
# Meanwhile a process that has died is started again, without a step at which it dies.
change() {
	local changing
	n=$((n + 1))
	change_all $n &
	changing=$!
	while runs $changing; do
		if has_ended "$victim"; then
			wait "${pid_of[$victim]}" 2>/dev/null
			start_on "$victim"
			died=$((died + 1))
		fi
		read -r -t 0.1 <>"$W/.never"
	done
	wait $changing
}
died=0
serves() { listed | grep -q "$(address_of "$1"):.*SERVING"; }
for round in $(seq "${ROUNDS:-4}"); do
	victim=server$((RANDOM % 3 + 1)) step=$((RANDOM % 7 + 1)) pass=$((RANDOM % 12 + 1))
	[ $((RANDOM % 2)) = 0 ] || victim=master1
	other=server$((RANDOM % 3 + 1))
	while [ $other = $victim ]; do other=server$((RANDOM % 3 + 1)); done
	kill -KILL "${pid_of[$victim]}"
	wait "${pid_of[$victim]}" 2>/dev/null
	TFS_DIE_AT=$step:$pass start_on $victim
	[ $victim = master1 ] || wait_for "$victim" eval "serves $victim || has_ended $victim" || fail "$victim serves"
	# Its log is sealed, and its tablets are assigned; later those of a server that drains are moved.
	kill -KILL "${pid_of[$other]}"
	wait "${pid_of[$other]}" 2>/dev/null
	start_on $other
	ok "$victim is to die at pass $pass of step $step: changes take place" change
	on mount timeout 20 "$TABLETCTL" drain "$CLUSTER" "$(address_of $other):7000" >/dev/null 2>&1
	ok "  again, while $other drains" change
	kill "${pid_of[$other]}"
	wait "${pid_of[$other]}"
	start_on $other
	ok "  all servers serve" all_serve
	ok "  its rows are right" rows_are_right "$M/s" "$n again"
	ok "  each tablet is served once" wait_for "the tablets" tablets_are_exact
done
echo "# $died deaths"
is "$(ls "$M" "$M/s/.snap" | grep -c '^made\|^copy\|^s[0-9]')" 0 "no table or snapshot is left"
hosts_end
