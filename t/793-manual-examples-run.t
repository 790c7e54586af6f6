#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The indented examples of the manual pages run as printed and do what the pages say.
# Each is run here or by a test of its page, or is listed here with the reason why not.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
for tool in jq setfacl rsync flock; do has $tool || cannot_run "there is no $tool"; done
getent passwd nobody >/dev/null || cannot_run "there is no user nobody"
PATH=$(dirname "$TABLETCTL"):$PATH
export PATH BUILD
py <<'PY'
from page import *
for page, text in examples():
    if (page, text.split("\n")[0]) == ("tabletfs.conf.5", "# a small machine"):
        spill(W + "/small.conf", text.encode())
PY
ok "mount, with the configuration in tabletfs.conf(5)" mount_store -o config="$W/small.conf"
py <<'PY'
from page import *

# Pages whose commands other tests run.
ELSEWHERE = {"tabletfs-backup.7", "tabletfs-boot.7", "tabletfs-cookbook.7", "tabletfs-jobs.7", "tabletfs-keys.7", "tabletfs-python.3"}
# Pages whose examples need other hosts, root's files or a server of the machine.
OTHER_HOSTS = {"tabletfs-cluster.7", "tabletfs-master.1", "tabletfs-metrics.7", "tabletfs-remote.7"}
# Examples that are no commands.
FORMS = {
    ("tabletfs.7", "MOUNTPOINT/TABLE/ROWKEY/FAMILY/QUALIFIER@TIMESTAMP"): "the form of a path",
    ("tabletfs.1", "/srv/data /mnt fuse.tabletfs allow_other,config=/etc/my.conf 0 0"): "a line of fstab",
    ("tabletctl.1", "NAME ROLE SECRET [OPTION ...]"): "the form of a line",
    ("tabletctl.1", "watch tabletctl status MOUNTPOINT"): "does not end",
    ("tabletctl.1", "mkdir 'a b' || tabletctl why -n 1"): "a call that fails (t/562)",
    ("tabletfs-sql.7", " .load tabletfs"): "the form of statements",
    ("tabletfs-sql.7", "$ tabletctl sql /mnt/web"): "a session of sqlite3 (t/292)",
    ("tabletfs-sql.7", "SCAN cells VIRTUAL TABLE INDEX 0:row>='?' row<'?' family='?' limit=?"): "a plan (t/292)",
    ("tabletfs.conf.5", "# a small machine"): "the configuration of this mount",
}
WEBTABLE = "mkdir -p webtable/com.cnn.www/anchor; printf CNN >webtable/com.cnn.www/anchor/cnnsi.com@1763715292001044; "
PAGES = "mkdir -p pages/com.cnn.www/{anchor,contents,links}; printf CNN >pages/com.cnn.www/anchor/cnnsi.com@9; printf 'b\\na\\nb\\n' >pages/com.cnn.www/links/all; "
TABLE = "mkdir -p t/r/f; echo 1 >t/r/f/q; "
# A server that an example has started.
END_SERVER = "for p in $(pgrep -x tabletfs-server); do ! ls -l /proc/$p/fd | grep -q $W/served/data || kill $p; done"
# Each example by its page and first line: commands that precede it, and commands that show what it has done.
RUN = {
    ("tabletfs-scan.7", "$ cd webtable"): (WEBTABLE, ""),
    ("tabletfs-scan.7", "$ cat 'webtable/.scan/where=anchor:cnnsi.com=CNN/.keys'"):
        ("rm -rf webtable; " + WEBTABLE + "mkdir webtable/com.cnn.www/contents; echo 900 >webtable/com.cnn.www/contents/size", ""),
    ("tabletctl.1", "tabletctl scan --where jobs:status=failed --where 'jobs:errors > 3' mnt/jobs"):
        ("mkdir -p jobs/j{1,2}/jobs; echo failed | tee jobs/j{1,2}/jobs/status; echo 4 >jobs/j2/jobs/errors; cd ..", ""),
    ("tabletfs.7", "$ mkdir -p webtable/com.cnn.www/contents"): ("rm -rf webtable", ""),
    ("tabletfs-scan.7", "cat mnt/t/.export.tar | ssh host 'cat > t.tar'"):
        (TABLE + 'cd "$W"; ssh() { shift; sh -c "$*"; }', "tar -tf t.tar | grep -q r/f/q"),
    ("tabletfs-scan.7", "mkdir -p users/alice"): ("mkdir -p users/.families/login", "[ $(cat users/alice/login/name) = alice ]"),
    ("tabletfs-scan.7", '{"row":"com.cnn.www","sequence":"870e9826f34d122a","cells":['):
        ("mkdir -p pages/com.cnn.www/{anchor,contents}; sed 's/\"sequence\":\"[0-9a-f]*\",//' \"$EXAMPLE\" >pages/com.cnn.www/.row.json",
         "diff <(jq 'del(.sequence)' \"$EXAMPLE\") <(jq 'del(.sequence)' pages/com.cnn.www/.row.json)"),
    ("tabletfs-scan.7", "cd pages/com.cnn.www"): (PAGES, "! [ -e anchor/cnnsi.com ] && [ -e links/all ]"),
    ("tabletfs-scan.7", '{"anchor":{'):
        ("rm -rf pages/com.cnn.www; mkdir -p pages/com.cnn.www/{anchor,contents}; cat \"$EXAMPLE\" >pages/com.cnn.www/.row.flat.json",
         "diff <(jq -S . \"$EXAMPLE\") <(jq -S . pages/com.cnn.www/.row.flat.json)"),
    ("tabletfs-scan.7", """echo '{"title":{"fr":"CNN"}}' > pages/com.cnn.www/.row.flat.json"""):
        (PAGES + "mkdir -p pages/.families/title", "[ $(cat pages/com.cnn.www/title/fr) = CNN ]"),
    ("tabletfs-scan.7", "mkdir -p pages/com.cnn.www/hits"): ("rm -rf pages", "[ $(cat pages/com.cnn.www/hits/2026-11-23) = 1 ]"),
    ("tabletfs-scan.7", "mkdir TABLE/.snap/monday"): (TABLE, "[ -z \"$(ls t/.snap)\" ]"),
    ("tabletfs-scan.7", "rsync -aI TABLE/.snap/B/.since/A/.rows/ mirror/"):
        ("mkdir -p t/{r,gone}/f; echo 1 >t/gone/f/q; mkdir t/.snap/A; cp -a t/.snap/A $W/mirror; "
         "echo 2 >t/r/f/q; rm -r t/gone; mkdir t/.snap/B; ln -s $M/t $W/t; cd $W", "[ $(cat mirror/r/f/*) = 2 ] && [ -z \"$(ls mirror/gone/f)\" ]"),
    ("tabletfs-scan.7", "echo 'clone NEW' > TABLE/.ctl"): (TABLE + "mkdir t/.snap/NAME", "[ $(cat new1/r/f/q) = 1 ] && [ $(cat new2/r/f/q) = 1 ]"),
    ("tabletfs-scan.7", "flock pages/com.cnn.www sh -c '"): (PAGES, "[ $(grep -c . pages/com.cnn.www/links/all) = 2 ]"),
    # The second call of process() ends it.
    ("tabletfs.7", "while IFS= read -r line; do"):
        ("mkdir t; printf 'changes = \"1d\"; families = ( { name = \"f\"; } );\\n' >t/.schema; mkdir -p t/r/f; echo 1 >t/r/f/q; echo 2 >t/r/f/q; "
         "ln -s $M/t $W/t; cd $W; echo start >token; process() { [ $(cat token) = start ] || exit 0; }", "false"),
    ("tabletfs.7", "sed 1d TABLE/.tablets | while IFS=$'\\t' read -r from to rest; do"):
        ("mkdir -p t/{a,b}/f; echo 1 >t/a/f/q; echo 2 >t/b/f/q; echo 'split b' >t/.ctl; ln -s $M/t $W/TABLE; cd $W", ""),
    ("tabletfs.7", "setfacl -m u:alice:r TABLE/.families/F"): ("mkdir -p t/.families/F", "getfacl -p t/.families/F | grep -q user:nobody:r"),
    ("tabletfs-formats.5", "cat table.tsv > TABLE/.import"):
        ("mkdir -p t/r/f; cd $W; ln -s $M/t TABLE; printf 'a\\tf:q\\t1\\tx\\n' >table.tsv; "
         "echo '{\"row\":\"b\",\"family\":\"f\",\"qualifier\":\"q\",\"value\":\"y\"}' >table.jsonl; mkdir -p tar/c/f; printf z >tar/c/f/q; printf 'key,f:q\\nd,w\\n' >table.csv; tar -C tar -cf table.tar c",
         "[ $(cat TABLE/a/f/q TABLE/b/f/q TABLE/c/f/q TABLE/d/f/q) = xyzw ] && tar -tf table.tar | grep -q b/f/q"),
    ("tabletfs-formats.5", '{"row":"com.cnn.www","family":"anchor","qualifier":"my.look.ca","timestamp":1300000000000000,"value":"CNN"}'):
        ("mkdir -p t/.families/anchor; cat \"$EXAMPLE\" >t/.import.jsonl", "[ $(cat t/com.cnn.www/anchor/my.look.ca@1300000000000000) = CNN ]"),
    ("tabletfs-formats.5", "key,anchor:cnnsi.com,title:"):
        ("mkdir -p t/.families/{anchor,title}; cat \"$EXAMPLE\" >t/.import.csv", "diff \"$EXAMPLE\" t/.scan/.csv"),
    ("tabletfs-schema.5", 'owner = "root"; owner_group = "root"; mode = "0755";'):
        ("mkdir t; sed 's/u:alice/u:nobody/; s/g:audit:/g:'$(id -gn nobody)':/; s/\"www\"/\"'$(id -gn nobody)'\"/' \"$EXAMPLE\" >t/.schema",
         "[ $(cat t/.families/contents/gc) = maxversions=3 ] && [ $(cat t/.families/hits/type) = counter ]"),
    ("tabletfs-schema.5", "echo 'protect = true;' >> TABLE/.schema"): (TABLE, "grep -q '^protect = true;' t/.schema && [ -d t/.families/f ] && echo 'protect = false;' >>t/.schema"),
    ("tabletctl.1", "tabletctl create mnt/users login mail:maxversions=3"):
        ("rm -rf users; cd $W", "[ $(cat mnt/users/.families/mail/gc) = maxage=30d ] && echo 'protect = false;' >>mnt/users/.schema && rmdir mnt/users"),
    ("tabletfs-schema.5", "maxversions=3"):
        ("mkdir -p t/.families/f; while read -r rule; do echo \"$rule\" >t/.families/f/gc; cat t/.families/f/gc; done <\"$EXAMPLE\" >$W/rules", "diff \"$EXAMPLE\" $W/rules"),
    ("tabletfs.1", "mkdir -p mnt"): ("mkdir $W/own; cd $W/own; mkdir data", "tabletctl check data"),
    ("tabletfs-server.1", "tabletfs-server data"):
        ("mkdir $W/served; cd $W/served; mkdir data mnt",
         "[ $(cat mnt/webtable/com.cnn.www/contents/html) = hello ]; fusermount3 -u mnt"),
    ("tabletfs-script.7", "local pages = output.count()"):
        ("mkdir -p t/{a,b}/{contents,language}; echo 12345 >t/a/contents/html; tabletctl put t a language: en",
         "tabletctl run --script \"$EXAMPLE\" t | grep -q bytes"),
    ("tabletfs-script.7", 'tonumber(r:get("stat:hits") or 0) > 100'):
        ("mkdir -p t/{a,b}/stat; tabletctl put t a stat:hits 101; tabletctl put t b stat:hits 100", "[ \"$(tabletctl scan --lua \"$(cat \"$EXAMPLE\")\" --format keys t)\" = a ]"),
    ("libtabletfs.3", "struct tfs_store *s;"):
        ("type cc || exit 77; { printf '#include <stdio.h>\\n#include <stdlib.h>\\n#include <tabletfs.h>\\nvoid print(struct tfs_cell);\\nint main(void)\\n{\\n'; "
         "cat \"$EXAMPLE\"; echo '}'; } >$W/example.c; cc -Wall -Werror -fsyntax-only -I$SRC/engine $W/example.c", ""),
    ("tabletfs.conf.5", "echo 'compaction_rate = \"20M\";' > /mnt/.tabletfs/config"): ("cd $W", "tabletctl config mnt | grep -q '^compaction_rate.*20M'"),
    ("tabletctl.1", "tabletctl config mnt block_cache=1G compaction_rate=20M"): ("cd $W", "tabletctl config mnt | grep -q '^block_cache.*1G'"),
    ("tabletctl.1", "tabletctl sql mnt -- -json \"SELECT row, value FROM webtable WHERE row GLOB 'com.*'\""):
        (WEBTABLE + "cd $W; type sqlite3 && [ -e $BUILD/sql/tabletfs.so ] || exit 77; export LD_LIBRARY_PATH=$BUILD", ""),
    ("tabletctl.1", "tabletctl delete --scan --prefix com.cnn. --dry-run mnt/webtable"):
        (WEBTABLE + "cd $W", "[ -e mnt/webtable/com.cnn.www ]"),
    ("tabletctl.1", "fusermount3 -u mnt"):
        ("mkdir $W/many; cd $W/many; mkdir data mnt; tabletfs data mnt; mkdir -p mnt/webtable/com.cnn.www/{contents,hits}; "
         "echo counter >mnt/webtable/.families/hits/type; echo page >page.html",
         "[ $(cat mnt/webtable/com.cnn.www/hits/today) = 1 ]; fusermount3 -u mnt"),
}
DATA = {key for key, (before, after) in RUN.items() if "$EXAMPLE" in before + after}
found = set()
for page, text in examples():
    key = (page, text.split("\n")[0])
    if page in ELSEWHERE | OTHER_HOSTS or key in FORMS:
        found.add(key)
        continue
    if not ok(key in RUN, "%s(%s) \"%s\" has a test" % (*page.rsplit(".", 1), key[1])):
        continue
    found.add(key)
    before, after = RUN[key]
    name = "%s(%s): %s" % (*page.rsplit(".", 1), key[1])
    spill(W + "/example", (text + "\n").encode())
    if text.startswith("$ "):
        session = commands(text.split("\n"))
        for command in session:  # the time of the newest version
            command[0] = command[0].replace("rm contents/html@1763715300123456", "rm $(ls -d contents/html@* | tail -n 1)")
        subprocess.run(["bash", "-c", 'cd "$M"; ' + before], check=False)
        run_page([(name, session)])
    else:
        body = "" if key in DATA else text
        for word in ("new1", "new2"):
            body = body.replace("NEW", word, 1)
        body = body.replace("TABLE", "t" if "ln -s $M/t TABLE" not in before else "TABLE").replace("/ROW", "/r").replace("u:alice", "u:nobody").replace("/mnt/", "mnt/")
        script = 'export EXAMPLE="$W/example"; cd "$M"\n%s\n%s\n%s' % (before, body, after)
        done = subprocess.run(["timeout", "-k", "5", "60", "bash", "-ec", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode == 77:
            note(name, "is not run: there is no cc or sqlite3")
        elif not ok(done.returncode == 0, name):
            note("status %d\n" % done.returncode + done.stdout.decode())
    subprocess.run('cd "$M" && rm -rf "$W/t" "$W/TABLE"; for t in *; do rmdir "$t"/.snap/* 2>/dev/null; rm -rf "$t"; done', shell=True, check=False)
subprocess.run(["bash", "-c", END_SERVER + "; for d in own served many; do fusermount3 -uzq $W/$d/mnt; done"], stderr=subprocess.DEVNULL, check=False)
same(sorted((set(RUN) | set(FORMS)) - found), [], "each entry of this test is an example of a page")
PY
done_testing
