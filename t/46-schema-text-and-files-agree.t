#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A schema read and written as text (.schema) and by single files (.families,
# .groups) is the same schema.  Also counters, GC rules, usage, .tablets, the
# verbs of .ctl, and /.tabletfs.
# shellcheck source=t/lib/mount.sh disable=SC2119,SC2010,SC2012,SC2016
. "${SRC:-.}/t/lib/mount.sh" || exit 1
ok "mount" mount_store
cd "$M" || exit 1
# The last line of the log matches.
log_has() { like "$(tail -n 1 .tabletfs/log)" "$1" "  the log says why"; }

# ---- an unset schema ----
mkdir -p t/r/f
is "$(head -n 1 t/.schema | cut -d " " -f 1):$(ls -A t)" "owner:r" ".schema can be read before it is set, and is not listed"
is "$(ls t/.families):$(ls t/.groups)" "f:default" "the families and groups there are"
is "$(cat t/.families/f/gc)" "" "a family made by mkdir ROW/F has no rule"
is "$(cat t/.families/f/type)" "bytes" "  holds bytes"
is "$(cat t/.families/f/group)" "default" "  is in the default group"
ok "chmod without a schema succeeds" chmod 600 t/r/f
ok "chown without a schema succeeds" chown 5:5 t/r
is "$(stat -c '%a %u' t/r/f t/r | tr '\n' ' ')" "700 $(id -u) 755 $(id -u) " "  the new family has the mode; the owner stays"
chmod 755 t/r/f
is "$(ls -A t)" "r" "control names are not listed"
is "$(find t | sort | tr '\n' ' ')" "t t/r t/r/f " "  find never meets them"

# ---- piecewise ----
mkdir t/.families/c
is "$(ls -A t | tr '\n' ' ')" ".schema r " "mkdir .families/F sets the schema: it is listed"
py <<'EOF2'
from tap import *
import shutil
stale = 0
for i in range(60):
    T = "%s/set%d" % (M, i)
    os.makedirs(T + "/r/f")
    os.listdir(T)
    os.mkdir(T + "/.families/c")
    stale += sorted(os.listdir(T)) != [".schema", "r"]
    shutil.rmtree(T)
same(stale, 0, "  by whoever lists as soon as mkdir has returned, 60 times of 60")
stale = 0
for i in range(60):
    T = "%s/set%d" % (M, i)
    os.makedirs(T + "/r/f")
    os.listdir(T)
    fd = os.open(T + "/.families/f/gc", os.O_WRONLY)
    os.write(fd, b"maxversions=3\n")
    stale += sorted(os.listdir(T)) != [".schema", "r"]
    os.close(fd)
    shutil.rmtree(T)
same(stale, 0, "  and as soon as a setting's line is written")
EOF2
fails "mkdir ROW/unknown" 'Operation not permitted' mkdir t/r/unknown
ok "mkdir ROW/F of the family" mkdir t/r/c
echo 'maxversions=3 or maxage=7d' >t/.families/c/gc
is "$(cat t/.families/c/gc)" "maxversions=3 or maxage=7d" "gc is what was written"
echo '(maxversions=3 or maxage=7d) and maxversions=2' >t/.families/c/gc
like "$(cat t/.families/c/gc)" 'and maxversions=2' "with and, or, parentheses"
like "$(cat t/.schema)" 'name = "c"; gc = "\(maxversions=3 or maxage=7d\) and maxversions=2"' "the schema is rendered anew"
like "$(cat t/.schema)" '^families = ' "  as libconfig text"
mkdir t/{a,b,c,d,e,g,h}
is "$(ls -U -A t | head -n 1):$(cd t && stat -c '%i %n' .schema .families .groups .ctl .tablets .latest -- * | sort -n | head -n 1 | cut -d ' ' -f 2)" ".schema:.schema" \
	"  it is listed first and has the smallest inode number of its directory"
rmdir t/{a,b,c,d,e,g,h}
echo '' >t/.families/c/gc
is "$(cat t/.families/c/gc)" "" "an empty line takes it away"
mkdir t/.groups/pages
is "$(cat t/.groups/pages/compression)" "zstd-dict" "a new group has defaults"
echo lz4 >t/.groups/pages/compression
echo 16K >t/.groups/pages/block_size
echo 12 >t/.groups/pages/bloom_bits
echo true >t/.groups/pages/in_memory
is "$(cd t/.groups/pages && cat compression block_size bloom_bits in_memory | tr '\n' ' ')" "lz4 16K 12 true " "a group's settings"
echo pages >t/.families/c/group
is "$(cat t/.families/c/group)" "pages" "a family's group"
before=$(cat t/.schema)
for bad in "t/.families/c/gc:maxversions" "t/.families/c/gc:maxversions=0 or" "t/.families/c/gc:maxage=7parsecs" "t/.families/c/gc:(maxversions=1" "t/.families/c/type:words" "t/.families/c/group:nowhere" \
	"t/.groups/pages/compression:rar" "t/.groups/pages/block_size:-1" "t/.groups/pages/bloom_bits:many" "t/.groups/pages/in_memory:perhaps"; do
	path=${bad%%:*}
	value=${bad#*:}
	fails "$path < '$value'" 'Invalid argument' bash -c "echo '$value' >$path"
	log_has "${path##*/}"
done
is "$(cat t/.schema)" "$before" "nothing has changed"
rmdir t/r/c
ok "rmdir of an empty family" rmdir t/.families/c
fails "  it is gone" 'No such file' stat t/.families/c
ok "and its group" rmdir t/.groups/pages
unlike "$(cat t/.schema)" 'pages' "  from the schema too"

# ---- as text ----
cat >"$W/schema" <<'TXT'
# a comment that stays
owner = "root"; owner_group = "root"; mode = "0755";
tablet_size = "128M";
salt = 0;
families = (
  { name = "f"; },
  { name = "contents"; gc = "maxversions=3"; group = "pages"; type = "bytes";
    owner = "root"; owner_group = "daemon"; mode = "0640"; },
  { name = "anchor"; gc = "maxversions=3 or maxage=30d"; } );
groups = (
  { name = "default"; compression = "zstd-dict"; level = 3; block_size = "16K"; bloom_bits = 10; in_memory = false; },
  { name = "pages"; compression = "snappy"; block_size = "32K"; } );
TXT
touch -d '2015-05-05 05:05:05.123456' "$W/schema"
ok "cp -p onto .schema" cp -p "$W/schema" t/.schema
same "$W/schema" t/.schema "its bytes are those written"
is "$(ts t/.schema)" "$(ts "$W/schema")" "its time is that set"
is "$(cat t/.families/contents/gc):$(cat t/.families/contents/group):$(cat t/.groups/pages/compression)" "maxversions=3:pages:snappy" "the settings are those written"
is "$(t rsync -ai "$W/schema" t/.schema)" "" "rsync sees no difference"
mkdir -p t/r/contents
echo x >t/r/contents/q
is "$(stat -c '%a %G' t/r/contents/q t/r/contents | tr '\n' ' ')" "640 daemon 750 daemon " "a family's mode is that of its cells"
before=$(cat t/.schema; ts t/.schema)
try() { # DESC PATTERN TEXT
	printf '%s\n' "$3" >"$W/bad"
	fails "$1" "$2" t cp "$W/bad" t/.schema
	is "$(cat t/.schema; ts t/.schema)" "$before" "  nothing is changed"
}
try "a schema with an unknown key" 'Invalid argument' 'families = ( { name = "f"; colour = "red"; } );'
log_has 'colour'
try "with a syntax error" 'Invalid argument' 'families = ( { name = "f" '
log_has 'line|:[0-9]'
try "with an ill-typed key" 'Invalid argument' 'salt = "many"; families = ( { name = "f"; }, { name = "contents"; }, { name = "anchor"; } );'
try "with a family twice" 'Invalid argument' 'families = ( { name = "f"; }, { name = "f"; }, { name = "contents"; } );'
try "with a bad family name" 'Invalid argument' 'families = ( { name = "a/b"; }, { name = "contents"; } );'
try "with a group that is not there" 'Invalid argument' 'families = ( { name = "f"; group = "none"; }, { name = "contents"; } );'
try "with a bad rule" 'Invalid argument' 'families = ( { name = "f"; gc = "never"; }, { name = "contents"; } );'
try "binary rubbish" 'Invalid argument' "$(head -c 3000 /bin/ls | tr -d '\0')"
try "that leaves out a family with cells" 'Device or resource busy' 'families = ( { name = "f"; } );'
log_has 'contents'
for bad in '<nonsense' 'what = 1;' 'families = ( { name = "a b"; } );' 'families = ( { name = "f"; acl = "u:x:r"; } );' 'salt = 1' 'mode = "0999";' \
	'families = ( }'; do
	fails "a text that cannot become a schema is refused in the write: $bad" 'Invalid argument' bash -c 'printf "%s\n" "$1" >t/.schema' - "$bad"
done
is "$(cat t/.schema; ts t/.schema)" "$before" "  nothing is changed"
py <<'EOF2'
from tap import *
os.chdir(M)
os.mkdir("w")
text = b"""# one
families = (
  { name = "f"; gc = "maxversions=3"
      " or maxage=9"
      "d"; group = "g"; },
  /* more
     to come */
  { name = "n"; type = "counter"; } );
mode = "07"
"55"; groups = ( { name = "g"; } );
"""
for step in (1, 7, 20, len(text)):
    fd = os.open("w/.schema", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for i in range(0, len(text), step):
        os.write(fd, text[i:i + step])
    err("0", "a good text, written %d bytes at a time" % step, os.close, fd)
    same(slurp("w/.schema"), text, "  is the schema")
fd = os.open("w/.schema", os.O_WRONLY | os.O_TRUNC)
os.write(fd, b"families = (\n")
err("EINVAL", "the first wrong line is refused", os.write, fd, b"  { nam = \"f\"; } );\n")
err("EINVAL", "  and so is what follows", os.write, fd, b"# end\n")
err("EINVAL", "  and the end", os.close, fd)
same(slurp("w/.schema"), text, "  nothing of it is applied")
os.rmdir("w")
EOF2
echo '<nonsense' >t/.schema
is "$(cat t/.schema; ts t/.schema)" "$before" "a shell's redirection changes nothing either"
log_has 'schema'
ok "mv of a scratch file onto .schema" bash -c "cp -p '$W/schema' t/.new && mv t/.new t/.schema"
same "$W/schema" t/.schema "  sets it"
fails "a bad one is refused as a whole" 'not permitted' bash -c "echo 'what = 1;' >t/.new; mv t/.new t/.schema"
same "$W/schema" t/.schema "  the schema stays"
rm -f t/.new
ok "rm .schema" rm t/.schema
fails "  hides the name" 'No such file' stat t/.schema
is "$(cat t/.families/contents/gc)" "maxversions=3" "  the schema stays"
ok "creating it again, exclusively" bash -c "set -C; cat '$W/schema' >t/.schema"
same "$W/schema" t/.schema "  is a schema write"
printf 'families = ( { name = "f"; } );\nallow_delete = true;\n' >"$W/delete"
ok "allow_delete deletes a family with its data" t cp "$W/delete" t/.schema
fails "  it is gone" 'No such file' stat t/r/contents
unlike "$(cat t/.schema)" 'allow_delete' "  and allow_delete is not kept"
printf 'families = ( { name = "f"; }, { name = "contents"; } );\n' >t/.schema
mkdir -p t/r/contents
is "$(ls t/r/contents)" "" "a family of the same name made again is empty"
cp -p "$W/schema" t/.schema

# ---- rules ----
mkdir -p g/.families/one g/.families/age g/r/one g/r/age g/r2/one
for i in 1 2 3 4 5; do echo "$i" >g/r/one/q; done
echo 'maxversions=2' >g/.families/one/gc
is "$(ls g/r/one | wc -l):$(cat g/r/one/q)" "2:5" "maxversions=2 holds at once"
oldest=$(ls g/r/one | head -n 1)
rm "g/r/one/$oldest"
is "$(ls g/r/one | wc -l)" 1 "nothing hidden comes back when a version is removed"
echo old >g/r/age/q@1000000
echo fresh >g/r/age/p
is "$(ls g/r/age | wc -l)" 2 "without a rule old versions stay"
echo 'maxage=1d' >g/.families/age/gc
is "$(ls g/r/age | wc -l):$(cat g/r/age/p)" "1:fresh" "maxage=1d hides the old one"
fails "  by name too" 'No such file' stat g/r/age/q@1000000
echo compact >g/.ctl
is "$(ls g/r/one g/r/age | grep -c @)" 2 "the same after a compaction"
echo 'maxversions=1 and maxage=1h' >g/.families/one/gc
for i in 1 2 3; do echo "$i" >g/r2/one/q; done
is "$(ls g/r2/one | wc -l)" 3 "and: both must say so"

# ---- counters ----
mkdir -p g/.families/n
echo counter >g/.families/n/type
is "$(cat g/.families/n/type)" counter "type counter"
mkdir g/r/n
echo 42 >g/r/n/hits
is "$(cat g/r/n/hits):$(stat -c %s g/r/n/hits)" "42:3" "a counter is read and written as decimal text"
printf ' -7 ' >g/r/n/hits
is "$(cat g/r/n/hits)" "-7" "with blanks and a sign"
fails "text is refused in the write, where a shell sees it" 'Invalid argument' bash -c 'echo seven >g/r/n/hits'
is "$(cat g/r/n/hits)" "-7" "  nothing is changed"
is "$(ls g/r/n | wc -l)" 2 "versions of a counter"
fails "a sign + is not part of a number" 'Invalid argument' bash -c 'echo +3 >g/r/n/hits'
printf 'any bytes' >g/r/n/hits@9
is "$(cat g/r/n/hits@9):$(stat -c %s g/r/n/hits@9)" "any bytes:9" "a version accepts any bytes"
printf 5 >g/r/n/other@9
is "$(cat g/r/n/other@9):$(stat -c %s g/r/n/other@9):$(stat -c %s g/r/n/other)" "5:1:2" "  and shows them as they were written"
mkdir -p g/.families/late g/r/late
echo 12 >g/r/late/number
echo twelve >g/r/late/text
echo counter >g/.families/late/type
is "$(cat g/r/late/number g/r/late/text | tr '\n' ' ')" "12  twelve  " "a family that becomes a counter family keeps its texts, and shows newlines behind them"
fails "  from then on it accepts numbers only" 'Invalid argument' bash -c 'echo thirteen >g/r/late/text'
echo bytes >g/.families/late/type
is "$(cat g/r/late/number g/r/late/text | tr '\n' ' ')" "12 twelve " "  which it does not when it is one of bytes again"
ok "    and it accepts any bytes" bash -c 'echo thirteen >g/r/late/text'

# ---- usage, tablets, verbs ----
head -c 200000 /dev/urandom >g/r/age/big
if [ -z "$MODEL" ]; then
	mkdir -p rates/r/f
	for i in 1 2 3; do echo x >rates/r/f/q; done
	rm -r rates
	t "$TABLETCTL" status "$M" >"$W/status"
	is "$(grep -vc "^client" "$W/status")" 10 "tabletctl status: ten lines"
	like "$(head -n 1 "$W/status")" "^mount +${OVER:+$OVER:}$D on $M, read-write, tabletfs [0-9.]+; 0 bytes" "  what is mounted where"
	like "$(cat "$W/status")" '^requests .* (0\.[0-9]|[1-9][0-9.]*) writes/s, .* in the last [0-9.]+ s$' "  the rates have the writes before"
	soon "t '$TABLETCTL' status '$M' | grep -c '^requests .* 0 writes/s, .* 0 failures/s'" 1 "  and are those since the call before"
	seconds() { sed -n 's/^requests .* in the last \([0-9]*\)\..* s$/\1/p'; }
	for _ in 1 2 3; do # on a busy machine seconds may lie between two of its reads
		# shellcheck disable=SC2016
		setsid -w bash -c 'for ((SECONDS = 0; SECONDS < 4;)); do cat .tabletfs/status; done' | seconds | sort -nu >"$W/seconds"
		! tail -n 1 "$W/seconds" | grep -q '^[0-2]$' || break
	done
	is "$(tail -n 1 "$W/seconds" | grep -c '^[0-2]$')" 1 "  another session, which reads all the time, sees the last seconds"
	ok "  and the first one the time since its own call before" test "$(t "$TABLETCTL" status "$M" | seconds)" -ge 3
	{ echo nonsense >.tabletfs/ctl; } 2>/dev/null
	like "$(t "$TABLETCTL" status "$M")" '^warning .*/\.tabletfs/ctl: no such verb: "nonsense"' "  the last warning"
fi
like "$(cat g/.families/age/usage)" 'memory_bytes [1-9][0-9]{5}' "usage: in memory first"
ok "echo flush > .ctl" bash -c 'echo flush >g/.ctl'
like "$(cat g/.families/age/usage)" 'disk_bytes [1-9][0-9]{5}' "  on disk after a flush"
ok "echo compact > .ctl" bash -c 'echo compact >g/.ctl'
is "$(head -n 1 g/.tablets)" $'begin\tend\tserver\tstate\tbytes\tSSTables\traw_bytes\tmemory_bytes\tcells\ttombstones' ".tablets: a header"
is "$(wc -l <g/.tablets)" 2 "  and one line"
like "$(sed 1d g/.tablets)" '^-	-	.*	[0-9]+	[0-9]+$' "  range, server, state, bytes, SSTables"
rm g/r/age/big
echo compact >g/.ctl
unlike "$(cat g/.families/age/usage)" 'disk_bytes [1-9][0-9]{5}' "what was removed is gone after a compaction"
like "$(cat g/.families/age/usage)" 'tombstones 0' "  and no tombstone is left"
fails "an unknown verb" 'Invalid argument' bash -c 'echo fold >g/.ctl'
log_has 'fold'
mkdir -p d/r1/f d/r2/f d/s1/f
for r in r1 r2 s1; do echo x >d/$r/f/q; done
if echo 'drop-rows r' >d/.ctl; then pass "drop-rows"; else fail "drop-rows"; fi
is "$(find d -type f | sed 's/@.*//')" "d/s1/f/q" "  drops the rows with the prefix"

fails "a family's name" 'Invalid argument' mkdir 'd/.families/a b'
log_has 'd/.families/a b: names of tables, families and groups match'
fails "a table's" "cannot move.*'a b'.*not permitted" mv -T d "a b"
log_has 'a b: names of tables, families and groups match'

# ---- /.tabletfs ----
is "$(ls -A "$M" | tr '\n' ' ')" "d g t " "/.tabletfs is not listed"
is "$(cat .tabletfs/version)" "$("$TABLETFS" -V 2>&1 | grep -m 1 -o 'tabletfs [0-9][^ ]*')" "/.tabletfs/version"
is "$(head -n 1 .tabletfs/servers)" $'server\tincarnation\ttablets\tbytes\tstate' "/.tabletfs/servers: a header"
like "$(sed 1d .tabletfs/servers)" '^(local|model)	[0-9]+	[0-9]+	[0-9]+	SERVING$' "  name, incarnation, tablets, bytes, state"
is "$(wc -l <.tabletfs/servers)" 2 "  one line: an embedded store has one server"
[ -n "$MODEL" ] || is "$(sed 1d .tabletfs/servers | cut -f 2,3 | tr '\t' ' ')" \
	"$(awk '$1 == "tabletfs_incarnation" { i = $2 } $1 == "tabletfs_tablets" { t = $2 } END { print i, t }' .tabletfs/metrics)" "  as .tabletfs/metrics has it"
before=$(sed 1d .tabletfs/servers | cut -f 4)
mkdir -p load/r/f
head -c 300000 /dev/urandom >load/r/f/q
ok "  bytes grow with what is stored" test "$(sed 1d .tabletfs/servers | cut -f 4)" -ge $((before + 300000))
rm -r load
fails "  it is read-only" 'Permission denied|not permitted' bash -c 'echo x >.tabletfs/servers'
[ -n "$MODEL" ] || is "$(cut -d ' ' -f 1 .tabletfs/status | tr '\n' ' ')" "mount state attention tables disk memory requests latency compactions ${OVER:+client }" "/.tabletfs/status: nine lines"
[ -n "$MODEL" ] || like "$(cat .tabletfs/status)" '^latency +reads [0-9]+, 50 % within [0-9]+ [um]?s, 99 % within [0-9]+ [um]?s;' "  with units"
like "$(cat g/.families/age/usage)" '^name value$' "usage: a header"
like "$(cat .tabletfs/metrics)" '^[a-z_]+(\{.*\})? [0-9]' "/.tabletfs/metrics"
ok "/.tabletfs/log" test -n "$(cat .tabletfs/log)"

# ---- an empty text file for a restored one; all of it after a remount ----
before=$(cat t/.schema g/.schema; tree . | grep -av ' d ')
cd / || exit 1
remount
cd "$M" || exit 1
is "$(diff <(echo "$before") <(cat t/.schema g/.schema; tree . | grep -av ' d '))" "" "schemas are the same after a remount"
is "$(cat g/.families/one/gc)" "maxversions=1 and maxage=1h" "settings too"
rm t/.schema
cd / || exit 1
remount
is "$(ls -A "$M/t" | head -n 1)" ".schema" "a hidden .schema comes back with the next daemon"
done_testing
