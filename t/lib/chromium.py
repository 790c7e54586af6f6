# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium for tests of a page, driven by the DevTools protocol over a pipe.

It has a new, empty profile, and loads nothing by itself.  Chromium() is a context manager.
"""
import base64, json, os, select, shutil, signal, subprocess, tempfile, time

PROGRAMS = ('chromium-headless-shell', 'chromium')


def program():
    return next((p for p in map(shutil.which, PROGRAMS) if p), None)


class Chromium:
    def __init__(self, limit=30):
        self.limit, self.number, self.events, self.rest = limit, 0, [], b''

    def __enter__(self):
        self.profile = tempfile.mkdtemp(prefix='chromium', dir=os.environ.get('W'))
        to_child, self.to = os.pipe()
        self.answers, from_child = os.pipe()

        def move():  # Chromium reads descriptor 3 and writes descriptor 4
            a, b = os.dup(to_child), os.dup(from_child)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [program(), '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
             '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage',
             '--user-data-dir=' + self.profile, '--remote-debugging-pipe', 'about:blank'],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(os.path.join(self.profile, 'stderr'), 'w'),
            preexec_fn=move, close_fds=False, start_new_session=True)
        os.close(to_child)
        os.close(from_child)
        self.session = None
        target = next(t for t in self.call('Target.getTargets')['targetInfos'] if t['type'] == 'page')
        self.session = self.call('Target.attachToTarget', targetId=target['targetId'], flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Network', 'Log'):
            self.call(domain + '.enable')
        return self

    def __exit__(self, *unused):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self, until):
        while b'\0' not in self.rest:
            if not select.select([self.answers], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError('Chromium does not answer')
            data = os.read(self.answers, 1 << 20)
            if not data:
                raise EOFError('Chromium has ended: ' + open(os.path.join(self.profile, 'stderr')).read()[-500:])
            self.rest += data
        one, self.rest = self.rest.split(b'\0', 1)
        return json.loads(one)

    def call(self, method, **params):
        self.number += 1
        request = {'id': self.number, 'method': method, 'params': params}
        if self.session:
            request['sessionId'] = self.session
        os.write(self.to, json.dumps(request).encode() + b'\0')
        until = time.monotonic() + self.limit
        while True:
            m = self.message(until)
            if m.get('id') != self.number:
                self.events.append(m)
            elif 'error' in m:
                raise RuntimeError(method + ': ' + m['error']['message'])
            else:
                return m['result']

    def value(self, expression):
        """The value of an expression of the page; a promise is awaited."""
        r = self.call('Runtime.evaluate', expression=expression, awaitPromise=True, returnByValue=True)
        if 'exceptionDetails' in r:
            raise RuntimeError(expression + ': ' + json.dumps(r['exceptionDetails'])[:500])
        return r['result'].get('value')

    def wait(self, expression):
        """Waits until an expression of the page is true.  The page looks at it at each change of its document."""
        return self.value('''new Promise((yes, no) => {
            const look = () => { let ok = false; try { ok = (%s); } catch (e) { return; } if (ok) { watch.disconnect(); yes(true); } };
            const watch = new MutationObserver(look);
            watch.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
            setTimeout(() => no(new Error('not true in time')), 15000);
            look();
        })''' % expression)

    def open(self, url):
        self.call('Page.navigate', url=url)
        self.wait_event('Page.loadEventFired')

    def wait_event(self, name):
        until = time.monotonic() + self.limit
        while not any(e.get('method') == name for e in self.events):
            self.events.append(self.message(until))
        self.events = [e for e in self.events if e.get('method') != name]

    def requests(self):
        """The addresses that the page has asked for."""
        return [e['params']['request']['url'] for e in self.events if e.get('method') == 'Network.requestWillBeSent']

    def complaints(self):
        """Exceptions, and errors of the console, such as violations of the Content-Security-Policy."""
        return [json.dumps(e['params'])[:400] for e in self.events
                if e.get('method') == 'Runtime.exceptionThrown' or
                (e.get('method') == 'Log.entryAdded' and e['params']['entry']['level'] == 'error')]

    def screenshot(self, path, width, height, dark=False, phone=False):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])
        png = base64.b64decode(self.call('Page.captureScreenshot', format='png', captureBeyondViewport=True)['data'])
        with open(path, 'wb') as f:
            f.write(png)
        return png
