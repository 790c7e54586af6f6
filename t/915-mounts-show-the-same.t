#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two mounts of one store show the same after each of COUNT (500; with TEST_SHARE a part) random changes by one of them or by
# the library: contents and modes at once, names, sizes, listings, schemas and snapshots soon.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2120
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has one user"
has setfacl || cannot_run "there is no setfacl"
M2=$W/mnt2
mkdir "$M2"
mount_store
mkdir "$M/t"
source=unix:$D data=$D
if [ "$OVER" = cluster ]; then
	source=$CLUSTER data=$CLUSTER
	export TABLETFS_KEYS=$C/keys
fi
"$TABLETFS" -f "$source" "$M2" >"$W/second.out" 2>"$W/second.err" </dev/null &
second=$!
second_answers() { mounted "$M2" && t stat -f "$M2"; }
wait_for "the second mount" second_answers
py "$M" "$M2" "$data" "${TEST_SEED:-1}" "${COUNT:-$((500 / ${TEST_SHARE:-1}))}" <"$SRC/t/lib/two_views.py"
fusermount3 -u "$M2"
wait $second
is $? 0 "the second mount ends well"
done_testing
