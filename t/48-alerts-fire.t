#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The alert rules for Prometheus name metrics that exist, and three of them are tried by causing what they warn of:
# a disk that is nearly full, damage, a clock that is held.  The metrics of a mount are read over HTTP before and after.
# A rule without a range of time is evaluated here; promtool, if there is one, checks the file and evaluates all rules
# over the same metrics.  PROMTOOL=FILE names another promtool.
# shellcheck source=t/lib/mount.sh disable=SC2119
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has no settings"
PROMTOOL=${PROMTOOL:-$(command -v promtool)}
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export PORT PROMTOOL RULES="$SRC/etc/tabletfs.rules.yml" W M
read -ra cc <<<"${CC:-cc}"
ok "the library that moves the clock" "${cc[@]}" -shared -fPIC -O2 -o "$W/fake_clock.so" "$SRC/t/lib/fake_clock.c"
export FAKE_CLOCK=$W/clock
: >"$FAKE_CLOCK"
if [ -n "$PROMTOOL" ]; then
	ok "promtool accepts the rules" "$PROMTOOL" check rules "$RULES"
else
	skip "promtool accepts the rules" "there is no promtool"
fi
D=$W/disk/data
mkdir "$W/disk"
mount -t tmpfs -o size=96m none "$W/disk" || cannot_run "needs mount"

# alerts WANTED DESC: the alerts that the metrics of the mount cause.
cat >"$W/alerts.py" <<'E'
import json, os, re, subprocess, sys, urllib.request
W = os.environ['W']
rules = re.findall(r'- alert: (\w+)\n +expr: (.*)\n', open(os.environ['RULES']).read())
text = urllib.request.urlopen('http://127.0.0.1:%s/metrics' % os.environ['PORT'], timeout=20).read().decode()
value = {n: float(v) for n, v in re.findall(r'^(\w+) (\S+)$', text, re.M)}
seen, ranges = [], 0
for name, expr in rules:
    for metric in re.findall(r'tabletfs_\w+', expr):
        if not re.search(r'^%s[{ ]' % metric, text, re.M):
            print(name, 'has', metric + ', which is no metric')
    for term in expr.split(' or '):
        # METRIC OPERATOR [NUMBER *] METRIC-OR-NUMBER
        m = re.fullmatch(r'(tabletfs_\w+) (<|>|==) (?:([\d.]+) \* )?(\S+)', term)
        if not m:
            ranges += 1
            continue
        left, right = value.get(m[1]), value[m[4]] if m[4] in value else float(m[4])
        right *= float(m[3] or 1)
        if {'<': left < right, '>': left > right, '==': left == right}[m[2]] and name not in seen:
            seen.append(name)
if ranges != 4:
    print('rules with a range of time:', ranges)
if os.environ['PROMTOOL']:
    # The same values at each minute, so a rule with a range of time sees no increase.
    metrics = {m for _, e in rules for m in re.findall(r'tabletfs_\w+', e)} & set(value)
    test = {'rule_files': [os.environ['RULES']], 'tests': [{
        'interval': '1m',
        'input_series': [{'series': m, 'values': '%d+0x30' % value[m]} for m in sorted(metrics)],
        'promql_expr_test': [{'expr': 'count(%s)' % e, 'eval_time': '30m', 'exp_samples': [{'labels': '{}', 'value': 1}] if n in seen else []}
                             for n, e in rules],
        }]}
    with open(W + '/test.yml', 'w') as f:
        json.dump(test, f) # which is YAML, too
    r = subprocess.run([os.environ['PROMTOOL'], 'test', 'rules', W + '/test.yml'], capture_output=True, text=True)
    if r.returncode:
        print(r.stdout, r.stderr)
print(' '.join(seen) or 'none')
E
alerts() { is "$(python3 "$W/alerts.py" 2>&1)" "$1" "$2"; }

ok "mount" mount_store -o "http=127.0.0.1:$PORT"
alerts none "a sound store causes no alert"
mkdir -p "$M/t/r/f"
head -c 3000000 /dev/urandom >"$M/t/r/f/q"
echo compact >"$M/t/.ctl"
dd if=/dev/zero of="$W/disk/other" bs=1M count=85 status=none 2>/dev/null
alerts TabletfsDiskNearlyFull "another program's file fills the disk"
rm "$W/disk/other"
alerts none "  and is removed"
ok "unmount" unmount_store

sst=$(find "$D/sst" -name '*.sst' -size +1000k | head -n 1)
cp "$sst" "$W/good.sst"
py "$sst" <<'E'
import sys
with open(sys.argv[1], 'r+b') as f:
    f.seek(1000000)
    b = f.read(1)[0] ^ 1
    f.seek(1000000)
    f.write(bytes([b]))
E
ok "mount" mount_store -o "http=127.0.0.1:$PORT"
alerts none "damage that nobody has read"
fails "the damaged cell is read" "Input/output error" cat "$M/t/r/f/q"
alerts "TabletfsDamageSeen TabletfsAttention" "it causes the alert"
fusermount3 -u "$M"
wait_daemon
cp "$W/good.sst" "$sst"

printf '%-20d %-20d\n' $((90 * 86400)) 0 1<>"$FAKE_CLOCK"
export LD_PRELOAD=$W/fake_clock.so
mount_store -o "http=127.0.0.1:$PORT"
unset LD_PRELOAD
alerts "TabletfsClockHeld TabletfsAttention" "a clock that is three months ahead"
echo confirm-clock >"$M/.tabletfs/ctl"
alerts none "  and is confirmed"
ok "unmount" unmount_store
umount "$W/disk"
done_testing
