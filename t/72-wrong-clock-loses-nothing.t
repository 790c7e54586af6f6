#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# If the system clock is wrong while a store is mounted, reads follow the clock
# and no data is lost.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model keeps nothing"
[ -z "${SANITIZED:-}" ] || skip_all "sanitizers want to be loaded first"
read -ra cc <<<"${CC:-cc}" # "ccache gcc" is two words
has "${cc[0]}" || cannot_run "no C compiler"
ok "the library that moves the clock" "${cc[@]}" -shared -fPIC -O2 -o "$W/fake_clock.so" "$SRC/t/lib/fake_clock.c"
export FAKE_CLOCK=$W/clock
DAY=86400
# fake DAYS [DAYS]: the clock is so far off; both clocks are.  The file is never empty: the daemon reads it all the time.
fake() { printf '%-20d %-20d\n' $(($1 * DAY)) $((${2:-0} * DAY)) 1<>"$FAKE_CLOCK"; }
faked_mount() { LD_PRELOAD=$W/fake_clock.so mount_store "$@"; }
cells() { find "$M/t" -name '*@*' | wc -l; }
# The first version of a column, days from now.
age() { local f; f=$(echo "$M/t/$1"@*); f=${f##*@}; echo $(((f / 1000000 - $(date +%s) + 1000 * DAY + DAY / 2) / DAY - 1000)); } # in whole days, rounded
compacted() { printf 'flush\ncompact\n' >"$M/t/.ctl"; }
doubted() { grep '^attention ' "$M/.tabletfs/status" | grep -v '^attention *none' | grep -c 'the clock is .*confirm-clock'; }

fake 0
faked_mount
is "$(doubted)" 0 "a new store does not doubt the clock"
mkdir -p "$M/t/.families/f" "$M/t/r/f"
echo "maxage=30d" >"$M/t/.families/f/gc"
for i in $(seq 10); do echo "$i" >"$M/t/r/f/q$i"; done
ok "compacted" compacted
unmount_store

fake 60
faked_mount
is "$(cells)" 0 "60 days ahead: all has expired"
is "$(doubted)" 1 "  status doubts the clock and says what to do"
ok "  a line in the log does" grep -q 'clock is 60 d 0 h ahead.*confirm-clock' "$M/.tabletfs/log"
ok "  compacted" compacted
mkdir -p "$M/t/r/f" "$M/t/r2/f"
echo new >"$M/t/r/f/late"
is "$(age r/f/late)" 60 "  a new cell has the clock's time"
echo x >"$M/t/r2/f/w@-1" # expired at any time
rm "$M/t/r/f/late"@*
ok "  compacted again" compacted
is "$(cells)" 0 "  nothing to be seen"
unmount_store

fake 0
faked_mount
is "$(cells)" 10 "with the right clock all cells are there"
is "$(doubted)" 0 "  the clock is not doubted"
is "$(cat "$M/t/r/f/q7")" 7 "  and what they held"
echo new >"$M/t/r/f/new"
is "$(age r/f/new)" 0 "  a new cell has the present time"
ok "  compacted" compacted
unmount_store

fake -60
faked_mount
is "$(doubted)" 1 "60 days behind: the clock is doubted"
ok "  a line in the log says it" grep -q 'clock is 59 d 23 h behind.*confirm-clock' "$M/.tabletfs/log"
is "$(cells)" 11 "  nothing is lost"
echo new >"$M/t/r/f/early"
is "$(age r/f/early)" -60 "  a new cell has the clock's time"
echo again >"$M/t/r/f/new"
is "$(ls "$M/t/r/f/" | grep -c '^new@'):$(cat "$M/t/r/f/new")" 2:again "  or one behind the newest version"
ok "  compacted" compacted
unmount_store

fake 0
faked_mount
is "$(cells)" 12 "with the right clock nothing is lost, and what has expired is gone" # 10, new twice; early expired
unlike "$(ls "$M/t/r/f")" early "  early has expired"
is "$(doubted)" 0 "  the clock is not doubted"

# The clock jumps in one mount.  Plain names: the kernel remembers others, and asks for these each time.
sees() { cat "$M/t/r/f/q7" 2>/dev/null || echo nothing; }
fake 60
is "$(sees)" nothing "the clock jumps while mounted: reads follow"
ok "  compacted" compacted
fake 0
is "$(sees)" 7 "  and back"
fake 60
is "$(sees)" nothing "ahead once more"
fake 60 2 # two days later; of which it has noticed the first
is "$(sees)" nothing "a clock that has been steady for a day"
is "$(doubted)" 0 "  is believed"
ok "  compacted" compacted
fake 0 2
is "$(sees)" nothing "  and then what expired is removed for good"
is "$(doubted)" 1 "a mark in the future: the clock is doubted"
mkdir -p "$M/t/r/f"
echo x >"$M/t/r/f/q"
ok "  compacted" compacted
is "$(cat "$M/t/r/f/q"):$(age r/f/q)" x:2 "  new cells are there"
echo confirm-clock >"$M/.tabletfs/ctl"
is "$(doubted)" 0 "  confirm-clock takes the mark back"
like "$(cat "$M/.tabletfs/status")" '^attention +none; the last, until [0-9-]+ [0-9:]+ [+0-9]+: .*the clock is' "  and the status keeps the cause that has ended, with its time"
unmount_store
fake 0
faked_mount
is "$(doubted)" 1 "the mark is kept: two days behind it"
echo confirm-clock >"$M/.tabletfs/ctl"
unmount_store
fake 60
echo 'clock_gap = "100d";' >"$W/conf"
faked_mount -o "config=$W/conf"
is "$(doubted)" 0 "clock_gap in the configuration: a gap that is expected"
is "$(cells)" 0 "  what expired in it"
ok "  compacted" compacted
unmount_store
fake 0
faked_mount
is "$(cells)" 0 "  is removed"
unmount_store
# Times of commit of a table with changes stay ahead when the clock was; the log and the status say so.
is_ahead() { grep '^attention ' "$M/.tabletfs/status" | grep -v '^attention *none' | grep -c "table $1: its newest time of commit, .* is 59 d 2[0-9] h ahead of the clock, and later ones follow it"; }
fake 60
faked_mount
echo confirm-clock >"$M/.tabletfs/ctl"
mkdir "$M/followed" "$M/plain"
echo 'changes = "900d"; families = ({name = "f";});' >"$M/followed/.schema"
echo 'families = ({name = "f";});' >"$M/plain/.schema"
for t in followed plain; do printf 'r\tf:q\t5\tx\n' >"$M/$t/.import"; done
is "$(is_ahead followed)" 0 "times of commit follow a clock that is ahead"
echo flush >"$M/followed/.ctl"
unmount_store
fake 0
faked_mount
echo confirm-clock >"$M/.tabletfs/ctl"
is "$(is_ahead followed)" 1 "  and stay: the status names the table and the time"
ok "  a line in the log does" grep -q 'table followed: its newest time of commit, .* is 59 d 23 h ahead of the clock; until' "$M/.tabletfs/log"
is "$(is_ahead plain)" 0 "  but not a table that keeps no changes"
printf 'r\tf:q\t6\ty\n' >"$M/followed/.import"
is "$(cut -f 7 "$M/followed/.changes/from=start/.tsv" | tr '\n' ' ')" "x y " "  and the order of changes holds"
echo truncate >"$M/followed/.ctl"
rmdir "$M/followed"
is "$(is_ahead followed)" 0 "  until the table is dropped"
unmount_store

# A table or family that only looks empty is not removed, and no salt takes effect in it.
kept() { cat "$M/$1" 2>/dev/null || echo nothing; }
salted() { grep -q "table salted: it is empty: salt = 4 takes effect" "$M/.tabletfs/log"; }
fake 0
faked_mount
echo confirm-clock >"$M/.tabletfs/ctl"
for t in salted dropped renamed family; do
	mkdir -p "$M/$t/.families/f" "$M/$t/r/f"
	echo "maxage=30d" >"$M/$t/.families/f/gc"
	echo "$t" >"$M/$t/r/f/q"
done
mkdir "$M/other" "$M/bare"
sed 's/^salt = 0/salt = 4/' "$M/salted/.schema" >"$W/schema"
ok "a salt waits until its table is empty" cp "$W/schema" "$M/salted/.schema"
unmount_store
fake 60
faked_mount
is "$(cat "$M"/*/r/f/q 2>/dev/null | wc -l)" 0 "60 days ahead: the tables look empty"
fails "  rmdir of one fails" "not empty" rmdir "$M/dropped"
fails "  so does a rename onto one" "not empty" mv -T "$M/other" "$M/renamed"
fails "  and rmdir of a family" "busy" rmdir "$M/family/.families/f"
ok "  a table without cells is removed" rmdir "$M/bare"
# The master checks all tables with a waiting salt once a second.  Two salts of another table take effect in two
# checks, so by then the first check has ended.
for salt in 4 8; do
	mkdir -p "$M/control/.families/f" "$M/control/r/f"
	echo x >"$M/control/r/f/q"
	sed "s/^salt = [0-9]*/salt = $salt/" "$M/control/.schema" >"$W/schema"
	cp "$W/schema" "$M/control/.schema"
	rm -r "$M/control/r"
	ok "  a salt of a table without cells takes effect" wait_for "salt $salt" \
		grep -q "table control: it is empty: salt = $salt takes effect" "$M/.tabletfs/log"
done
ok "  the salt of a table that only looks empty waits" eval "! salted"
unmount_store
fake 0
faked_mount
for t in salted dropped renamed family; do is "$(kept $t/r/f/q)" $t "with the right clock table $t has its cell"; done
rm -r "$M/salted/r"
ok "  the salt takes effect when the table is empty" wait_for "the salt" salted
unmount_store

printf rubbish >"$D/lock/clock"
faked_mount
is "$(doubted)" 1 "a damaged mark: the clock is doubted"
unmount_store
ok "  the start has replaced it: check finds nothing" "$TABLETCTL" check "$D"
faked_mount
is "$(doubted)" 1 "  the clock is still doubted"
echo confirm-clock >"$M/.tabletfs/ctl"
unmount_store
faked_mount
is "$(doubted)" 0 "  until it is confirmed, which replaces the mark"
unmount_store
printf rubbish >"$D/lock/clock"
fails "  repair tells of it" . "$TABLETCTL" repair "$D"
like "$(t "$TABLETCTL" repair --write "$D")" 'repair: .*lock/clock: removed' "  and removes it"
faked_mount
is "$(doubted)" 1 "  with a missing mark the clock is doubted, too"
echo confirm-clock >"$M/.tabletfs/ctl"
is "$(doubted)" 0 "  until it is confirmed"
unmount_store
ok "  check finds nothing" "$TABLETCTL" check "$D"

# Operations that replace a column by what they read keep what only the wrong clock hides.
fake 0
faked_mount
mkdir -p "$M/k/.families/f" "$M/k/.families/one" "$M/k/.families/n"
echo "maxage=30d" >"$M/k/.families/f/gc"
echo "maxversions=1 or maxage=30d" | tee "$M/k/.families/one/gc" >"$M/k/.families/n/gc"
echo counter >"$M/k/.families/n/type"
for r in mv json whole time; do
	mkdir -p "$M/k/$r/f"
	for v in 1 2 3; do echo "$r$v" >"$M/k/$r/f/q"; done
	echo "$r" >"$M/k/$r/f/other"
done
mkdir -p "$M/k/base/one" "$M/k/base/n" "$M/k/base/f"
echo first >"$M/k/base/one/log"
echo first >"$M/k/base/f/log"
echo target >"$M/k/base/one/target"
echo 100 >"$M/k/base/n/hits"
unmount_store
fake 60
faked_mount
mkdir -p "$M"/k/{mv,json,whole,time}/f "$M"/k/base/{one,n,f}
for r in mv json whole time; do echo new >"$M/k/$r/f/q"; done
ok "60 days ahead: a column is renamed" mv "$M/k/mv/f/q" "$M/k/mv/f/moved"
is "$(ls "$M/k/mv/f/" | wc -l)" 1 "  with what is to be seen"
cat "$M/k/json/.row.json" >"$W/json"
ok "  a row is written back as it was read" cp "$W/json" "$M/k/json/.row.json"
ok "  a row is replaced without a sequence" eval 'echo "{\"cells\":[{\"family\":\"f\",\"qualifier\":\"q\",\"value\":\"whole\"}]}" >"$M/k/whole/.row.json"'
ok "  a time is set" touch -d "40 days" "$M/k/time/f/q"
fails "  a counter is not begun again" "busy" eval 'echo +=1 | dd of="$M/k/base/n/hits" status=none'
fails "  no text is appended to nothing" "busy" dd if="$W/json" of="$M/k/base/one/log" oflag=append conv=notrunc status=none
echo x >"$M/k/base/one/source"
fails "  nor is a column renamed onto one" "busy" mv "$M/k/base/one/source" "$M/k/base/one/target"
ok "  where the rule counts no versions, a text is appended" dd if="$W/json" of="$M/k/base/f/log" oflag=append conv=notrunc status=none
fails "  no snapshot is made" "busy" mkdir "$M/k/.snap/s"
ok "  a line in the log says why" grep -q 'k/.snap/s: .*clock.*confirm-clock' "$M/.tabletfs/log"
fails "  nor of all tables" "busy" mkdir "$M/.snap/s"
ok "  compacted" eval 'printf "flush\ncompact\n" >"$M/k/.ctl"'
unmount_store
fake 0
faked_mount
values() { cat "$M/k/$1"@* | sort | tr '\n' ' '; }
is "$(values mv/f/moved)" "mv1 mv2 mv3 new " "with the right clock a renamed column has all versions"
is "$(values json/f/q)$(values json/f/other)" "json1 json2 json3 new json " "  so has a row that was written back"
is "$(values whole/f/q)$(values whole/f/other)" "whole whole1 whole2 whole3 whole " "  and one that was replaced"
is "$(values time/f/q)$(values time/f/other)" "new time1 time2 time3 time " "  and one whose time was set"
is "$(cat "$M/k/base/n/hits" "$M/k/base/one/log" "$M/k/base/one/target")" "100
first
target" "  counters and texts are as they were"
is "$(ls "$M/k/base/f/" | grep -c '^log@')" 2 "  or have one more version"
is "$(ls "$M/k/.snap" "$M/.snap" | grep -c s$)" 0 "  no snapshot was left"
ok "  and one is made" mkdir "$M/k/.snap/s"
unmount_store
done_testing
