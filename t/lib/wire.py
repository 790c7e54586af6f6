# SPDX-License-Identifier: Apache-2.0
"""Frames of the wire (engine/rpc/frame.h), for peers that do not keep to it."""
import struct, subprocess
HELLO, PING, PONG = 1, 4, 5
TABLETS, TABLETS_ANSWER, STORE, STORE_ANSWER = 0x12, 0x13, 0x32, 0x33
CLIENT = 1 << 63 | 12345
def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes((n & 127 | 128,)), n >> 7
    return out + bytes((n,))
def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value
def message(*fields, version=b""):
    """version: b"\\x01" before a request."""
    body = b"".join(fields)
    return version + varint(len(body)) + body
def frame(kind, number, body):
    return struct.pack(">IBQ", len(body), kind, number) + body
def hello(*fields, client=CLIENT, version=1):
    return frame(HELLO, 0, message(field(1, version), field(4, client), *fields))
def request(kind, number, *fields):
    return frame(kind, number, message(*fields, version=b"\x01"))
def frames(data):
    """Kinds and bodies."""
    out = []
    while len(data) >= 13:
        n, kind, _ = struct.unpack(">IBQ", data[:13])
        if len(data) < 13 + n:
            break
        out.append((kind, data[13:13 + n]))
        data = data[13 + n:]
    return out
def tls_session(address, keys, *sent):
    """The frames that come until HOST:PORT closes the connection, or has answered all requests and a PING.  keys: a file whose first key is used."""
    identity, _, secret = open(keys).read().split()[:3]
    p = subprocess.Popen(["openssl", "s_client", "-connect", address, "-psk_identity", identity, "-psk", secret, "-tls1_3", "-quiet", "-no_ign_eof",
        "-ciphersuites", "TLS_AES_128_GCM_SHA256"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    p.stdin.write(b"".join(sent) + frame(PING, 99, b""))
    p.stdin.flush()
    data, got = b"", []
    wanted = [PONG] + [kind + 1 for kind, _ in frames(b"".join(sent)) if kind in (TABLETS, STORE)]
    while any(sum(k == kind for k, _ in got) < wanted.count(kind) for kind in wanted):
        b = p.stdout.read1(65536)
        if not b:
            break
        data += b
        got = frames(data)
    p.kill()
    p.wait()
    return got
