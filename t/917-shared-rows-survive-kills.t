#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writers through two mounts and the library use the same rows while the server and the second mount are
# killed and stopped at random, for KILL_SECONDS (20): each row's history has an order in
# which every answer is right (t/lin), so nothing acknowledged is lost or applied twice.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2120
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has one user"
seconds=${KILL_SECONDS:-20} RANDOM=${TEST_SEED:-1}
echo "# seed ${TEST_SEED:-1}"
mount_store
mkdir -p "$M/t/.families/f" "$M/t/.families/g"
mount_second
"$BUILD/t/lib/lin_files" "$M" "$M2" "$D" "$seconds" "${TEST_SEED:-1}" >"$W/lin.out" 2>&1 &
writers=$!
kills=0 stops=0
while runs $writers; do
	read -r -t "0.$((RANDOM % 9 + 1))" <>"$W/.never" || :
	case $((RANDOM % 5)) in
	0)
		kill_daemon
		mount_store
		kills=$((kills + 1))
		;;
	1)
		! runs $second || kill -9 $second
		wait $second 2>/dev/null
		mounted "$M2" && { fusermount3 -u "$M2" 2>/dev/null || umount -l "$M2"; }
		mount_second
		kills=$((kills + 1))
		;;
	2 | 3)
		victim=$((RANDOM % 2 ? daemon : second))
		runs $victim || continue
		kill -STOP $victim
		read -r -t "$((RANDOM % 2)).$((RANDOM % 9 + 1))" <>"$W/.never" || :
		kill -CONT $victim
		stops=$((stops + 1))
		;;
	esac
done
histories_end
fusermount3 -u "$M2"
wait $second
done_testing
