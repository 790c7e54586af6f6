#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A service manager is told that a server and a master of a cluster are ready and answer, and no more when the workers of the server are
# stuck.  SIGHUP reads the settings again.  Both serve /metrics and /status over HTTP.  The mount's metrics have the number of the server.
# shellcheck source=t/lib/cluster.sh
. "${SRC:-.}/t/lib/cluster.sh" || exit 1
[ -z "${SANITIZED:-}" ] || skip_all "sanitizers want to be loaded first"
LIMIT=900
read -r -a cc <<<"${CC:-cc}"
"${cc[@]}" -shared -fPIC -O1 -o "$W/hang_sync.so" "$SRC/t/lib/hang_sync.c" || cannot_run "hang_sync.c does not compile"
ok "a cluster starts" start_cluster --servers 1
[ -n "$server" ] && mount_cluster || exit 1
for i in $(seq 48); do t mkdir -p "$M/t/r$i/f" && echo x >"$M/t/r$i/f/c" || fail "rows"; done
zk="zk://$(awk '$1 == "zookeeper1" { print $2 }' "$C/members")/local"
MASTER=${MASTER:-${BUILD:-.}/tabletfs-master}
py "$SERVER" "$MASTER" "$zk" "$C" "$W" "$M" "$TABLETCTL" "$CLUSTER" <<'PY'
from tap import same, ok
import http.client, os, signal, socket, subprocess, sys, time
server, master, zk, C, W, M, tabletctl, cluster = sys.argv[1:]
hang = W + "/hang"

def free_port():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
    s.close()
    return port

class Watched:
    def __init__(self, name, args, **env):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(W + "/" + name)
        self.socket.settimeout(60)
        self.listen, self.port = "127.0.0.1:%d" % free_port(), free_port()
        self.conf = W + "/" + name + ".conf"
        self.settings("warning")
        self.log = open(W + "/" + name + ".log", "w")
        self.process = subprocess.Popen(args + ["-o", "config=%s,listen=%s,http=127.0.0.1:%d,keys=%s/local.cluster.keys" % (self.conf, self.listen, self.port, C), zk, C + "/data"],
            stderr=self.log, env=dict(os.environ, NOTIFY_SOCKET=W + "/" + name, WATCHDOG_USEC="2000000", **env))
        same(self.socket.recv(1000), b"READY=1", "a %s is ready" % name)
    def settings(self, level):
        with open(self.conf, "w") as f:
            f.write('log_level = "%s";\nhttp_token = "0123456789abcdef";\n' % level)
        os.chmod(self.conf, 0o600)
    def heard(self, what):
        while (m := self.socket.recv(1000)) != what:
            if m != b"WATCHDOG=1":
                return m
        return m
    def ask(self, path, named=True):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        c.request("GET", path, headers={"Authorization": "Bearer 0123456789abcdef"} if named else {})
        r = c.getresponse()
        return r.status, r.read().decode()

m = Watched("master", [master])
s = Watched("server", [server, "-f"], LD_PRELOAD=W + "/hang_sync.so", HANG_SYNC=hang)
for x, state in (m, "waits until"), (s, "SERVING"):
    same(x.heard(b"WATCHDOG=1"), b"WATCHDOG=1", "  it answers")
    status, text = x.ask("/status")
    ok(status == 200 and state in text, "  /status: %s" % text.split("\n")[0])
    status, text = x.ask("/metrics")
    ok(status == 200 and text.startswith("# HELP tabletfs_"), "  /metrics")
    x.settings("info")
    x.process.send_signal(signal.SIGHUP)
    same([x.heard(b""), x.heard(b"")], [b"RELOADING=1", b"READY=1"], "  SIGHUP reads the settings again")
ok("tabletfs_master_leads 0\n" in m.ask("/metrics")[1], "the second master does not lead")
ok("tabletfs_master_servers 2\n" in m.ask("/metrics")[1], "  and sees two servers")

# ---- the workers are stuck ----
first = [l.split()[0] for l in open(M + "/.tabletfs/servers").read().splitlines()[1:] if "SERVING" in l and s.listen not in l]
same(subprocess.run([tabletctl, "drain", cluster, first[0]], env=dict(os.environ, TABLETFS_KEYS=C + "/keys")).returncode, 0, "all tablets move to it")
metrics = open(M + "/.tabletfs/metrics").read()
numbers = {l.split('server="')[1].split('"')[0] for l in metrics.splitlines() if 'server="' in l}
same(len(numbers), 2, "the mount's metrics have both servers")
names = [l.split()[2] for l in metrics.splitlines() if l.startswith("# TYPE")]
same(len(names), len(set(names)), "  and each metric once")
# The writers are connected before, so that the workers are stuck long before the server ends by itself, after 20 s.
def connections():
    port = int(s.listen.split(":")[1])
    fields = (l.split() for l in open("/proc/net/tcp").read().splitlines()[1:])
    return sum(f[3] == "01" and int(f[1].split(":")[1], 16) == port for f in fields)
before = connections()
writers = [subprocess.Popen([tabletctl, "import", "tls://%s/t" % s.listen, "-"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
    env=dict(os.environ, TABLETFS_KEYS=C + "/keys")) for i in range(40)]
for i in range(600):
    if connections() >= before + 40:
        break
    time.sleep(0.1)
open(hang, "w").close()
for i, w in enumerate(writers):
    w.stdin.write(b"r%d\tf:c\t\ty\n" % (i + 1))
    w.stdin.close()
silent, since = False, time.monotonic()
try:
    s.socket.settimeout(5)
    for i in range(60):
        s.socket.recv(1000)
except TimeoutError:
    silent = True
print("# silent after %.1f s" % (time.monotonic() - since - 5))
ok(silent, "a server whose workers are stuck does not say that it answers")
same(s.process.poll(), None, "  although it has not ended")
s.process.kill()
s.process.wait()
print("# " + open(W + "/server.log").read().replace("\n", "\n# "))
os.unlink(hang)
ended = [w.wait(120) for w in writers] # the server may have refused some, because it could not write
values = [open(M + "/t/r%d/f/c" % (i + 1)).read() for i in range(48)]
same([i for i in range(40) if ended[i] == 0 and values[i] != "y"], [], "  when it is killed, its tablets are served again: %d writes were acknowledged" % ended.count(0))
m.process.send_signal(signal.SIGTERM)
same(m.heard(b"STOPPING=1"), b"STOPPING=1", "SIGTERM is announced")
same(m.process.wait(60), 0, "  and ends the master with 0")
PY
end_cluster
