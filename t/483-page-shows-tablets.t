#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The status page in Chromium: it shows sums, then with the token names as text and the map of the tablets, and asks no
# other server.  KEEP=1 keeps the screenshots.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no settings"
has chromium-headless-shell || has chromium || cannot_run "there is no Chromium"
export TOKEN=kZ8-token.of_the~test+1/2= W M
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export PORT
printf 'http = "127.0.0.1:%s"; http_token = "%s";\n' "$PORT" "$TOKEN" >"$W/conf"
ok "mount" mount_store -o config="$W/conf"

# Row keys that are markup, script, other bytes than UTF-8, and text from right to left.
mkdir -p "$M/web" "$M/quiet/r/f"
evil='<img src=x onerror=document.body.dataset.evil=1>'
script='"><script>document.body.dataset.evil=2<%2Fscript>'
bytes=$'\xff\xfe\xe2\x80\xae&lt;'
for r in "$evil" "$script" "$bytes" com.example.a com.example.b; do
	mkdir -p "$M/web/$r/f"
	head -c 20000 /dev/urandom >"$M/web/$r/f/q"
	printf 'split %s\n' "$r" >"$M/web/.ctl"
done
echo x >"$M/quiet/r/f/q"
echo flush >"$M/web/.ctl"
echo "<b>no such verb</b>" 2>/dev/null >"$M/web/.ctl"
py <<'E'
import json, os, threading
from chromium import Chromium
from tap import *
at = 'http://127.0.0.1:%s/' % os.environ['PORT']
text = lambda c, e: c.value('document.querySelector(%s).textContent' % json.dumps(e))
width_ok = 'document.documentElement.scrollWidth <= document.documentElement.clientWidth'
with Chromium() as c:
    c.open(at)
    c.wait('document.body.dataset.readings >= 1')
    sums = text(c, '#sums')
    ok('2tables' in sums and 'available' in sums, 'the page shows sums without a token')
    ok(c.value('getComputedStyle(document.querySelector("#named")).display') == 'none', 'and no names')
    ok(not c.value('document.documentElement.textContent.includes("com.example")'), '  at all')
    c.value('document.querySelector("#token").value = "a-wrong-token-0123"; document.querySelector("#login button").click()')
    c.wait('document.querySelector("#note").className == "bad"')
    ok(True, 'a wrong token is refused')
    c.value('location.hash = %s' % json.dumps('#token=' + os.environ['TOKEN']))
    c.wait('!document.querySelector("#named").hidden && document.querySelectorAll(".strip button").length == 7')
    ok(True, 'with the token, here in the address of the open page, it has a field for each tablet')
    same(c.value('[...document.querySelectorAll("#tables tr")].map(r => r.children[8].textContent).join("").replace(/0/g, "")'), '', 'what was written before is no rate')
    same(c.value('location.href'), at, 'the address has no token')
    same(c.value('document.cookie'), '', 'and there is no cookie')
    strips = c.value('[...document.querySelectorAll(".map")].map(m => [m.querySelector(".name").textContent, m.querySelectorAll("button").length])')
    same(sorted(strips), [['quiet', 1], ['web', 6]], 'each table has its map')
    heat = c.value('[...document.querySelectorAll(".strip button")].map(b => Number(b.style.getPropertyValue("--heat")))')
    ok(max(heat) == 1 and min(heat) < 0.5, 'the fields have the colour of their bytes')

    # Point at the tablet that begins at the row whose name is markup.
    field = c.value('''(() => { const b = [...document.querySelectorAll(".strip button")].find(b => b.dataset.key.includes("<img"));
        b.scrollIntoView(); const r = b.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()''')
    c.call('Input.dispatchMouseEvent', type='mouseMoved', x=field[0], y=field[1])
    c.wait('document.querySelector("#tablet dl")')
    shown = text(c, '#tablet')
    ok('<img src=x onerror=' in shown, 'to point at a tablet shows its borders, as text')
    ok('split at' in shown and 'minor compaction' in shown, 'and its events')
    ok(c.value('document.querySelector("#tablet").textContent.includes("SSTables")'), 'and its numbers')
    every = c.value('''[...document.querySelectorAll(".strip button")].map(b => { b.click(); return document.querySelector("#tablet").textContent; }).join(" ")''')
    ok('\\xff\\xfe' in every, 'bytes that are no text are shown as numbers')
    ok('<script>' in every, 'script in a name is text')
    same(c.value('document.querySelectorAll("#named img, #named script, #named b").length'), 0, 'no name became an element')
    same(c.value('document.body.dataset.evil'), None, 'no name was executed')
    ok('<b>no such verb</b>' in text(c, '#messages li'), 'the newest message is shown, as text')
    ok('web' in text(c, '#tables') and 'f:' in text(c, '#tables'), 'tables and families are listed')

    # Rates: writes while the page reads.
    stop = threading.Event()
    def write():
        n = 0
        while not stop.is_set():
            with open(M + '/web/com.example.b/f/n%d' % (n % 100), 'w') as f:
                f.write('x')
            n += 1
    writer = threading.Thread(target=write)
    writer.start()
    try:
        c.wait('Number([...document.querySelectorAll("#requests tr")][1].children[1].textContent.replace(/,/g, "")) > 10')
        ok(True, 'the rate of writes is shown')
        c.value('document.querySelector("#by").value = "writes"; document.querySelector("#by").dispatchEvent(new Event("change"))')
        c.wait('[...document.querySelectorAll(".strip button")].filter(b => Number(b.style.getPropertyValue("--heat")) == 1).every(b => b.dataset.key == "web\\0com.example.b")')
        ok(True, 'the tablet with the writes has the strongest colour')
    finally:
        stop.set()
        writer.join()

    light = c.screenshot(W + '/light.png', 1100, 900)
    back = c.value('getComputedStyle(document.body).backgroundColor')
    dark = c.screenshot(W + '/dark.png', 390, 844, dark=True, phone=True)
    ok(len(light) > 10000 and len(dark) > 10000, 'screenshots')
    ok(c.value('getComputedStyle(document.body).backgroundColor') != back, 'the page has colours for the dark')
    ok(c.value(width_ok), 'a phone does not scroll sideways')
    same(sorted(set(r.split('/', 3)[3] for r in c.requests())), ['', 'metrics', 'status.json'], 'the page reads three documents')
    ok(all(r.startswith(at) for r in c.requests()), 'of its own server')
    bad = [m for m in c.complaints() if '401' not in m]
    ok(not bad, 'no exception, and no violation of the policy')
    note(*bad)

    # A page of another origin cannot read it.
    c.open('data:text/html,<title>other</title>')
    same(c.value('fetch(%s).then(r => "read", e => "refused")' % json.dumps(at + 'metrics')), 'refused', 'another site cannot read the metrics')
E
ok "unmount" unmount_store

# ---- the name, the hour, snapshots, slow requests: the first reading of the minute is at the start ----
ok "mount, with a name, a token and a limit of slow requests" mount_store -o "config=$W/conf,name=the <b>web</b> store,slow=1ms"
mkdir "$M/web/.snap/monday"
rm -r "$M/web/com.example.a"
echo compact >"$M/web/.ctl"
ok "unmount" unmount_store
ok "mount" mount_store -o "config=$W/conf,name=the <b>web</b> store,slow=1ms"
head -c 3000000 /dev/urandom >"$M/web/com.example.b/f/large"
echo compact >"$M/web/.ctl"
py <<'E'
import json, os, urllib.request
from chromium import Chromium
from tap import *
at = 'http://127.0.0.1:%s/' % os.environ['PORT']
text = lambda c, e: c.value('document.querySelector(%s).textContent' % json.dumps(e))
r = urllib.request.urlopen(at + 'healthz', timeout=20)
same((r.status, r.read()), (200, b'ok\n'), '/healthz is 200')
with Chromium() as c:
    c.open(at)
    c.wait('document.body.dataset.readings >= 1')
    same(c.value('document.title'), 'the <b>web</b> store - tabletfs', 'the title has the name of the store')
    same(text(c, 'h1'), 'the <b>web</b> store', '  and so has the heading, as text')
    ok(text(c, '#uptime').startswith('up '), 'the time since the start is shown')
    c.value('location.hash = %s' % json.dumps('#token=' + os.environ['TOKEN']))
    c.wait('!document.querySelector("#named").hidden && document.querySelectorAll("#charts polyline").length == 4')
    ok(c.value('document.querySelector("#charts polyline").getAttribute("points").length') > 0, 'the last hour has its first minute')
    ok('used on disk' in text(c, '#charts'), '  with the disk')
    sums = text(c, '#sums')
    ok('hits of the block cache' in sums and 'memtables of 128 MiB' in sums and 'pinned by snapshots' in sums, 'sums stand beside their limits and hit ratios')
    ok('web/.snap/monday' in text(c, '#snapshots'), 'snapshots are listed')
    ok(c.value('document.querySelector("#snapshots tr").children[3].textContent') != '0 B', '  with the bytes that they pin')
    ok('WRITE' in text(c, '#slow') and 'bash' in text(c, '#slow'), 'slow requests are listed with their program')
    same(c.value('[...document.querySelectorAll("nav a")].map(a => a.getAttribute("href"))'), ['/metrics', '/status', '/healthz'], 'there are links')
    shot = c.screenshot(W + '/page.png', 390, 2600, phone=True)
    ok(c.value('document.documentElement.scrollWidth <= document.documentElement.clientWidth'), 'a phone does not scroll sideways')
    bad = [m for m in c.complaints()]
    ok(not bad, 'no exception, and no violation of the policy')
    note(*bad)
E

ok "unmount" unmount_store
done_testing
