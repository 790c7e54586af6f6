#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Scripts run on the server: lua= selects rows, tabletctl run and .run return the outputs of a
# script, each row is in them once, and a script that fails or exceeds a limit harms its run only.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no scripts"
ok "mount" mount_store -o allow_other
B=$M/t
mkdir "$B"
printf 'families = ( { name = "contents"; }, { name = "language"; }, { name = "stat"; }, { name = "anchor"; } );\n' >"$B/.schema"
# 2,000 rows: page N has N % 7 words, a language, and hits N.
awk 'BEGIN { split("en de fr", l, " "); for (i = 0; i < 2000; i++) {
	r = sprintf("page%04d", i); text = ""; for (k = 0; k < i % 7; k++) text = text " word" k;
	print r "\tcontents:html\t1\t<" text ">"; print r "\tlanguage:\t1\t" l[i % 3 + 1]; print r "\tstat:hits\t1\t" i;
	print r "\tanchor:page" (i * 7 % 2000) "\t5\tlink " i } }' >"$W/cells"
ok "2,000 rows" sh -c "cat '$W/cells' >'$B/.import'"

# ---- lua= ----
is "$(cat "$B/.scan/lua=tonumber(r:get(\"stat:hits\") or 0) >= 1990/.keys" | tr '\n' ' ')" \
	"page1990 page1991 page1992 page1993 page1994 page1995 page1996 page1997 page1998 page1999 " "lua= selects rows"
is "$(cat "$B/.scan/lua=r:get(\"language:\") == \"de\"/.count")" "$(printf 'rows\t667\ncells\t2668')" "  in .count"
is "$(cat "$B/.scan/family=language/lua=r.key < \"page0002\"/.tsv")" "$(printf 'page0000\tlanguage:\t1\ten\npage0001\tlanguage:\t1\tde')" \
	"  sees the whole row, whatever other clauses select"
is "$(cat "$B/.scan/limit=3/lua=tonumber(r:get(\"stat:hits\")) %25 500 == 7/.keys" | tr '\n' ' ')" "page0007 page0507 page1007 " "  with limit="
is "$(cat "$B/.scan/reverse=yes/limit=2/lua=tonumber(r:get(\"stat:hits\")) %25 500 == 7/.keys" | tr '\n' ' ')" "page1507 page1007 " "  in reverse"
L="$B/.scan/lua=tonumber(r:get(\"stat:hits\")) %25 1000 == 3/.latest"
is "$(cd "$L" && echo *)" "page0003 page1003" "  in a tree"
is "$(cat "$L/page1003/stat/hits")" 1003 "  of which files can be read"
fails "  a row that does not match is not there" "No such file" cat "$L/page1004/stat/hits"
fails "an expression that does not compile" "Invalid argument" ls "$B/.scan/lua=r:get(/.rows"
matches "lua=" <"$M/.tabletfs/log"
ok "  is in the log" grep -q "lua=r:get(: .*expected (to close" "$M/.tabletfs/log"
fails "an expression that fails" "Invalid argument" cat "$B/.scan/lua=r.key + {}/.keys"
like "$(tail -n 1 "$M/.tabletfs/refused")" "cannot be read: table t: lua=:1: attempt to add a .*, row \"page[0-9]*\"" "  is refused with line, cause and row"
fails "  in a listing, too" "Invalid argument" ls "$B/.scan/lua=r.key + {}/.rows"
like "$(tail -n 1 "$M/.tabletfs/refused")" "cannot be listed: table t: lua=:1: attempt to add a .*, row \"page[0-9]*\"" "  is refused with line, cause and row"
ODD='r.key ~= "page1990" or error("odd")'
fails "tabletctl prints them" "lua=:1: odd, row \"page1990\"" "$TABLETCTL" count --lua "$ODD" "$B"
fails "  and a limit that it exceeds" "lua=: the limit of a row's instructions .* was exceeded, row \"page1990\"" \
	"$TABLETCTL" count --lua '(function() while r.key == "page1990" do end return true end)()' "$B"
fails "  and so does the library" "lua=:1: odd, row \"page1990\"" "$TABLETCTL" count --prefix page19 --family stat --lua "$ODD" "unix:$D/t"
is "$(cat "$B/.scan/prefix=page199/lua=#r:cells(\"anchor:\") == 1/.count" | head -1)" "rows	10" "and the next one works"

# ---- tabletctl run ----
cat >"$W/pages.lua" <<'EOF'
local pages = output.count()
local bytes = output.sum()
local by_lang = output.top(10)
local words = output.count_by()
function row(r)
  pages:add()
  local html = r:get("contents:html") or ""
  bytes:add(#html)
  by_lang:add(r:get("language:") or "?")
  for w in re.gmatch(html, "word[0-9]+") do words:add(w) end
end
EOF
wanted=$(awk -F '\t' '$2 == "contents:html" { n++; b += length($4); m = split($4, w, /[ >]/); for (i = 1; i <= m; i++) if (w[i] ~ /^word/) c[w[i]]++ }
	$2 == "language:" { l[$4]++ } END { print "pages\t\t" n; print "bytes\t\t" b; for (x in l) print "by_lang\t" x "\t" l[x]; for (x in c) print "words\t" x "\t" c[x] }' "$W/cells" | sort)
is "$(t "$TABLETCTL" run --script "$W/pages.lua" "$B" | sort)" "$wanted" "tabletctl run prints the outputs"
is "$(t "$TABLETCTL" run --script "$W/pages.lua" --format jsonl --prefix page000 "$B" | grep pages)" \
	'{"output":"pages","key":"","value":"10"}' "  as JSON, of a part of the rows"
is "$(t "$TABLETCTL" run --script "$W/pages.lua" --limit 11 "$B" | head -1)" "pages		11" "  of the first rows"
is "$(t "$TABLETCTL" run --script "$W/pages.lua" --lua 'r:get("language:") == "fr"' "$B" | head -1)" "pages		666" "  of the rows that lua= selects"
for at in page0500 page1000 page1500; do echo "split $at" >"$B/.ctl"; done
is "$(t "$TABLETCTL" run --script "$W/pages.lua" "$B" | sort)" "$wanted" "  over several tablets"
is "$(t "$TABLETCTL" run --script "$W/pages.lua" --lua 'r:get("language:") == "fr"' "$B" | head -1)" "pages		666" \
	"  with lua=, which needs a second worker"
printf 'local n = output.sum()\nfunction row(r) n:add(tonumber(arg.by)) end\n' >"$W/by.lua"
is "$(t "$TABLETCTL" run --script "$W/by.lua" "$B" by=3)" "n		6000" "  with an argument"
printf 'local l = output.lines()\nfunction row(r) l:add(r.key .. "!") end\n' >"$W/lines.lua"
is "$(t "$TABLETCTL" run --script "$W/lines.lua" "$B" | sort | md5sum)" \
	"$(seq -f 'page%04g' 0 1999 | sed 's/.*/l\t\t&!/' | md5sum)" "  lines: each row once"

# ---- stored scripts and .run ----
echo 'function row(' >"$W/unfinished.lua"
ok "a script is stored" cp "$W/pages.lua" "$B/.scripts/pages.lua"
cp "$W/by.lua" "$B/.scripts/"
is "$(sort "$B/.scan/.run/pages")" "$wanted" ".run returns its outputs"
is "$(head -1 "$B/.scan/prefix=page00/.run/pages")" "pages		100" "  of the cells that match"
is "$(cat "$B/.scan/prefix=page00/.run/arg=by=2/by")" "n		200" "  with an argument"
is "$(cat "$B/.scan/prefix=page00/.run/arg=by=2/by.jsonl")" '{"output":"n","key":"","value":"200"}' "  as JSON"
is "$(cd "$B/.scan/.run" && echo *)" "by pages" "a listing has the scripts"
is "$(head -1 "$B/.scan/prefix=none/.run/pages")" "pages		0" "  over no rows"
mkdir "$M/empty"
fails "a script that is not finished, in a table without families" "Invalid argument" cp "$W/unfinished.lua" "$M/empty/.scripts/"
cp "$W/pages.lua" "$M/empty/.scripts/"
is "$(cat "$M/empty/.scan/.run/pages")" "$(printf 'pages\t\t0\nbytes\t\t0')" "  of a table without rows"
fails "an argument with a zero byte" "Invalid argument" cat "$B/.scan/.run/arg=by=2%00/by"
fails "a script that does not exist" "No such file" cat "$B/.scan/.run/none"
fails "nor is one with an error in a line, which a shell sees" "error" sh -c "echo 'functio row(r) end' >'$B/.scripts/bad.lua'"
fails "  a script that is not finished is not stored" "Invalid argument" cp "$W/unfinished.lua" "$B/.scripts/"
ok "  with the reason in the log" grep -q "bad:1: " "$M/.tabletfs/log"
printf 'function row(r)\n  for _, c in ipairs(r:cells("anchor:")) do emit(c.qualifier, "from:" .. r.key, c.timestamp, c.value) end\nend\n' >"$B/.scripts/invert.lua"
mkdir "$M/inverted"
printf 'families = ( { name = "from"; } );\n' >"$M/inverted/.schema"
ok "a transformation makes another table" sh -c "cat '$B/.scan/.run/invert' >'$M/inverted/.import'"
is "$(cat "$M/inverted/.scan/.tsv" | sort | md5sum)" \
	"$(awk -F '\t' '$2 ~ /^anchor:/ { print substr($2, 8) "\tfrom:" $1 "\t" $3 "\t" $4 }' "$W/cells" | sort | md5sum)" "  cell for cell"
mkdir "$B/.snap/before"
rm -r "$B/page0000"
printf 5000 >"$B/page0001/stat/hits"
is "$(cat "$B/.snap/before/.scan/lua=tonumber(r:get(\"stat:hits\")) %25 2000 < 2/.keys" | tr '\n' ' ')" "page0000 page0001 " \
	"lua= sees the cells of a snapshot"
is "$(head -1 "$B/.snap/before/.scan/.run/pages") $(head -1 "$B/.scan/.run/pages")" "pages		2000 pages		1999" "a snapshot's rows are run by its scripts"

printf 'local n = output.count()\nfunction row(r)\n  n:add()\nend\n' >"$W/rows.lua"
is "$(t "$TABLETCTL" run --script "$W/rows.lua" "$B/.snap/before") $(t "$TABLETCTL" run --script "$W/rows.lua" "unix:$D/t/.snap/before")" \
	"n		2000 n		2000" "tabletctl run takes a snapshot"
is "$(t "$TABLETCTL" scan --prefix page0000 --family stat "unix:$D/t/.snap/before" | cut -f 1,2)" "page0000	stat:hits" "  and so does scan"
fails "  which must exist" "there is no such snapshot" "$TABLETCTL" run --script "$W/rows.lua" "$B/.snap/none"
fails "a snapshot is not compacted" "a snapshot stays as it was made" "$TABLETCTL" compact "$B/.snap/before"
fails "  nor of a store" "a snapshot stays as it was made" "$TABLETCTL" compact "unix:$D/t/.snap/before"
printf 'function row(r)\n  error("broken")\nend\n' >"$W/broken.lua"
fails "a script that fails at run time: its line, message and row" "broken.lua:2: broken, row \"page[0-9]*\"" \
	"$TABLETCTL" run --script "$W/broken.lua" "$B"

# ---- limits ----
printf 'function row(r) while true do end end\n' >"$B/.scripts/endless.lua"
fails "a script that does not end" "Argument list too long" cat "$B/.scan/.run/endless"
ok "  the log names the limit and the row" grep -q "instruction.*page\|page.*instruction" "$M/.tabletfs/log"
printf 'function row(r) pcall(function() local t = {} ; while true do t[#t + 1] = r.key .. #t end end) end\n' >"$B/.scripts/greedy.lua"
fails "one that needs too much memory" "Argument list too long" cat "$B/.scan/.run/greedy"
printf 'function row(r) error("no " .. r.key) end\n' >"$B/.scripts/wrong.lua"
fails "one that fails" "Invalid argument" cat "$B/.scan/.run/wrong"
ok "  the log has its error" grep -q "no page" "$M/.tabletfs/log"
fails "tabletctl prints the reason" "no page" t "$TABLETCTL" run --script "$B/.scripts/wrong.lua" "$B"
is "$(head -1 "$B/.scan/.run/pages")" "pages		1999" "the server runs the next one"
for p in $(pgrep -P "$daemon" tabletfs-script); do kill -9 "$p"; done
is "$(head -1 "$B/.scan/.run/pages")" "pages		1999" "  also if its processes were killed between two runs"

py <<'EOF'
from tap import *
run = M + "/t/.scan/.run/pages"
fds = []
until = time.monotonic() + 60
while len(fds) < 4 and time.monotonic() < until: # those before may count: the kernel tells the daemon of a close later
    try:
        fds.append(os.open(run, os.O_RDONLY))
    except BlockingIOError:
        time.sleep(0.01)
same(errno_of(os.open, run, os.O_RDONLY), "EAGAIN", "a user has at most four runs open")
os.close(fds.pop())
fd = -1
while fd < 0: # the kernel tells the daemon of a close later
    try:
        fd = os.open(run, os.O_RDONLY)
    except BlockingIOError:
        pass
same(os.read(fd, 100)[:6], b"pages\t", "  and one more when one is closed")
for f in fds + [fd]:
    os.close(f)
# A rewind begins another run.  One that cannot begin is an error, and so is each read after it.
def write(path, text):
    with open(path, "w") as f:
        f.write(text)
os.mkdir(M + "/old")
write(M + "/old/.schema", 'families = ( { name = "f"; }, { name = "x"; } );')
write(M + "/old/.import", "".join("r%d\tx:q\t1\tv\n" % i for i in range(3000)))
write(M + "/old/.scripts/lines.lua", "local l = output.lines() function row(r) l:add(r.key) end")
fd = os.open(M + "/old/.scan/family=x/.run/lines", os.O_RDONLY)
first = os.pread(fd, 100, 0)
same(os.pread(fd, 100, 0), first, "a rewind returns the same lines")
write(M + "/old/.schema", 'allow_delete = true; families = ( { name = "f"; } );')
same([errno_of(os.pread, fd, 100, at) for at in (0, 100, 0)], ["EINVAL", "ESPIPE", "EINVAL"], "  and an error without the family")
os.close(fd)
EOF

# ---- access ----
if [ "$(id -u)" = 0 ]; then
	chmod 700 "$B/.families/stat"
	is "$(cd / && setpriv --reuid 1234 --regid 1234 --clear-groups cat "$B/.scan/lua=r:get(\"stat:hits\")/.count" | head -1)" "rows	0" \
		"an expression does not see a family that the user may not read"
	printf 'local n = output.count()\nfunction row(r) if r:get("stat:hits") then n:add() end end\n' >"$B/.scripts/hits.lua"
	is "$(cd / && setpriv --reuid 1234 --regid 1234 --clear-groups cat "$B/.scan/.run/hits")" "n		0" "  nor does a script"
	is "$(cat "$B/.scan/.run/hits")" "n		1999" "  root's does"
	chmod 700 "$B"
	fails "a table that the user may not read" "Permission denied" \
		setpriv --reuid 1234 --regid 1234 --clear-groups cat "$B/.scan/.run/hits"
	fails "tabletctl run by a user whom the store does not let in" "user 1234 may not use this store|Permission denied" \
		setpriv --reuid 1234 --regid 1234 --clear-groups "$TABLETCTL" run --script /etc/passwd "unix:$D/t"
fi
ok "unmount" unmount_store
is "$(t "$TABLETCTL" run --script "$W/by.lua" "$D/t" by=1)" "n		1999" "a script runs over a store that is not mounted"
done_testing
