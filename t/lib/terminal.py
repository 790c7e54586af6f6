# SPDX-License-Identifier: Apache-2.0
"""Commands on a terminal of their own, so that keys are what a person types."""
import os, pty, re, select, time

class Terminal:
    def __init__(self, *args, **redirected):
        self.text = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            for name, fd in redirected.items():
                os.dup2(fd, {"stdin": 0, "stdout": 1}[name])
            os.execv(args[0], args)

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            piece = os.read(self.fd, 65536)
        except OSError:
            piece = b""
        self.text += piece
        return bool(piece)

    def until(self, pattern):
        end = time.monotonic() + 30
        while not re.search(pattern, self.text) and time.monotonic() < end:
            if not self.read(1) and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                break
        return re.search(pattern, self.text) is not None

    def type(self, keys):
        os.write(self.fd, keys)

    def interrupt(self):
        self.type(b"\x03")
        return self.end()

    def end(self):
        while self.read(30):
            pass
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return status
