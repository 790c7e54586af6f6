#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# /.tabletfs/config shows the settings and changes those that can change while mounted.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no settings"
printf 'block_cache = "64M"; sync_interval = "20m"; compaction_threads = 3;\n' >"$W/conf"
ok "mount" mount_store -o config="$W/conf"
C=$M/.tabletfs/config
setting() { grep -E "^#? ?$1 = " "$C"; }
metric() { sed -n "s/^tabletfs_$1 //p" "$M/.tabletfs/metrics"; }
last_log() { tail -n 1 "$M/.tabletfs/log"; }
is "$(setting block_cache)" 'block_cache = "64M";' "a setting of the file is shown"
is "$(setting memtable)" 'memtable = "128M";' "a default is shown"
like "$(setting compaction_threads)" '^# compaction_threads = 3;' "a setting that cannot change is a comment"
is "$(setting sync)" "sync = false;" "the mount is not -o sync"
is "$(setting log_level)" 'log_level = "notice";' "the level of messages"
is "$(stat -c %a "$C")" 600 "only the mounting user reads and writes it"
ok "its own text is accepted" sh -c "cat '$C' >'$W/text' && cat '$W/text' >'$C'"
cat "$C" >"$W/again"
same "$W/text" "$W/again" "and changes nothing"

mkdir -p "$M/t/r/f"
write() { for i in 1 2 3 4 5; do echo "$i" >"$M/t/r/f/q$i" || return 1; done; }
write # the first write of the tablet changes METADATA, with a sync
ok "a long interval" sh -c "echo 'sync_interval = \"60s\";' >'$C'"
before=$(metric log_syncs_total)
write
ok "without sync, a close waits for no sync" test "$(metric log_syncs_total)" -lt $((before + 5))
ok "sync" sh -c "echo 'sync = true;' >'$C'"
is "$(setting sync)" "sync = true;" "is shown"
before=$(metric log_syncs_total)
write
ok "each close is synced now" test "$(metric log_syncs_total)" -ge $((before + 5))
ok "and without again" sh -c "echo 'sync = false;' >'$C'"
before=$(metric log_syncs_total)
write
ok "a shorter interval counts for commits that wait already" sh -c "echo 'sync_interval = \"1ms\";' >'$C'"
soon "[ \$(metric log_syncs_total) -gt $before ] && echo yes" yes "they are synced"

is "$(t "$TABLETCTL" config "$M")" "$(cat "$C")" "tabletctl config prints the file"
ok "  and changes settings, of each type" t "$TABLETCTL" config "$M" sync=true compaction_rate=20M memtable=67108864 log_level=info
is "$(grep -cE '^(sync = true|compaction_rate = "20M"|memtable = "64M"|log_level = "info");' "$C")" 4 "  all of them"
fails "  all or none: a wrong one" "config:1: compaction_rate: must be a size" t "$TABLETCTL" config "$M" sync=false compaction_rate=red
is "$(setting sync)" "sync = true;" "  has changed nothing"
fails "  what is no setting" "config: sync: not NAME=VALUE; see" t "$TABLETCTL" config "$M" sync
fails "  what is no mount" "not a mount" t "$TABLETCTL" config "$W" sync=true
ok "  back" t "$TABLETCTL" config "$M" sync=false compaction_rate=0 memtable=128M log_level=notice

ok "the bounds of memory" sh -c "echo 'block_cache = \"16M\"; memtable = \"2M\"; table_cache = \"8M\";' >'$C'"
is "$(metric cache_limit_bytes) $(metric memtable_limit_bytes) $(metric table_cache_limit_bytes)" "16777216 2097152 8388608" "  change"
is "$(setting block_cache)" 'block_cache = "16M";' "  and are shown"
head -c 6000000 /dev/urandom >"$W/large"
for i in 1 2 3; do cp "$W/large" "$M/t/r/f/large$i"; done
soon "[ \$(metric memtable_bytes) -lt 4194304 ] && echo yes" yes "memtables are flushed at the new bound"
same "$W/large" "$M/t/r/f/large2" "a value is read through the smaller cache"
ok "a rate for compactions" sh -c "echo 'compaction_rate = \"50M\";' >'$C'"
is "$(setting compaction_rate)" 'compaction_rate = "50M";' "  is shown"
ok "  and no limit" sh -c "echo 'compaction_rate = 0;' >'$C'"
is "$(setting compaction_rate)" 'compaction_rate = "0";' "  is shown"
ok "the level of messages" sh -c "echo 'log_level = \"debug\";' >'$C'"
is "$(setting log_level)" 'log_level = "debug";' "  is shown"
ok "  and back" sh -c "echo 'log_level = \"notice\";' >'$C'"

cat "$C" >"$W/text"
refused() {
	fails "$1 is refused" "Invalid argument|I/O error" sh -c "echo '$2' >'$C'"
	like "$(last_log)" "/\.tabletfs/config: config:[12]: $3" "  and the log says why"
}
refused "an unknown setting" 'colour = 1;' "colour: unknown setting"
refused "a value out of range" 'memtable = "1K";' "memtable: must be from 1M to 1T"
refused "a value of another type" 'sync = 1;' "sync: must be true or false"
refused "a syntax error" 'sync = ' "syntax error"
refused "a setting of the mount" 'compaction_threads = 1;' "compaction_threads: cannot change while the store is open"
refused "a text of which one setting is wrong" 'sync = true; memtable = "1K";' "memtable: must be"
cat "$C" >"$W/again"
same "$W/text" "$W/again" "nothing has changed"
fails "it cannot be removed" "Operation not permitted" rm "$C"

ok "unmount" unmount_store
ok "mount" mount_store -o config="$W/conf",sync
is "$(setting block_cache)" 'block_cache = "64M";' "the next mount has the settings of the file"
is "$(setting sync)" "sync = true;" "-o sync is shown"
ok "a plain commit is there" test "$(cat "$M/t/r/f/q5")" = 5
ok "unmount" unmount_store
printf 'sync = true;\n' >"$W/conf"
ok "mount" mount_store -o config="$W/conf"
is "$(setting sync)" "sync = true;" "the file may have sync, too"
done_testing
