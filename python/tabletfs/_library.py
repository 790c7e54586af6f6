# SPDX-License-Identifier: Apache-2.0
"""The library, and conversions of what its functions take and return."""
import errno
import os
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias

from ._errors import ClosedError, Error, error
from ._ffi import ffi

# The declarations are those of this ABI.
SONAME = "libtabletfs.so.0"
# A test may name another file, that of the tree.
try:
    lib: Any = ffi.dlopen(os.environ.get("TABLETFS_LIBRARY", SONAME))
except OSError as e:
    raise ImportError(str(e)) from None

Key: TypeAlias = bytes | str
"""Keys of rows and qualifiers are bytes.  A str stands for its UTF-8 bytes."""
Time: TypeAlias = int | datetime | timedelta
"""Microseconds since 1970; a datetime with a time zone; or an age, which counts back from now."""
Buffer: TypeAlias = bytes | bytearray | memoryview

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
NO_TIME = -(2**63)
AUTO = (lib.TFS_NEWEST, NO_TIME)
ANY = (ffi.NULL, 0)


def key_bytes(key: Key) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    raise TypeError(f"a key is bytes or str, not {type(key).__name__}")


def value_bytes(value: Buffer) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"a value is bytes, not {type(value).__name__}")


def text_bytes(text: str) -> bytes:
    """An argument `const char *`, of which the library would not see what follows a NUL."""
    if not isinstance(text, str):
        raise TypeError(f"a name is str, not {type(text).__name__}")
    if "\0" in text:
        raise error(errno.EINVAL, repr(text))
    return text.encode()


def pass_bytes(data: bytes) -> Any:
    """Returns an argument of type struct tfs_bytes, which must live as long as the library uses it."""
    return (ffi.from_buffer(data), len(data))


def fetch_bytes(data: Any) -> bytes:
    """Copies a struct tfs_bytes of the library."""
    return bytes(ffi.buffer(data.p, data.n)) if data.n else b""


def fetch_text(pointer: Any) -> str:
    return str(ffi.string(pointer).decode(errors="replace")) if pointer else ""


def take_text(pointer: Any) -> str:
    """Copies and frees the string that a `char **` has received."""
    text = fetch_text(pointer[0])
    lib.free(pointer[0])
    pointer[0] = ffi.NULL
    return text


# Weak references to the handles of open stores.
stores: list[Any] = []


def reason() -> str:
    """Why the thread's newest call failed, which one of the stores has; "" if none has a reason."""
    for ref in list(stores):
        handle = ref()
        if handle is None:
            continue
        try:
            with handle as store:
                text = fetch_text(lib.tfs_error(store))
        except ClosedError:
            continue
        if text:
            return text
    return ""


def failed(code: int, what: str, why: str = "") -> Error:
    """Makes the exception for a positive errno that a call has just returned.  `what` names the table already."""
    return error(code, what, (why or reason()).removeprefix(what.split(",")[0].split(":")[0] + ": "))


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_TIMES = {"ms": 1000, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}


def number_of(number: int | str, is_time: bool = False) -> int:
    """A number, a size as "64M", or (microseconds) a time as "7d", as tabletfs.conf(5) has them."""
    if isinstance(number, int):
        return number
    unit = number.lstrip("0123456789")
    digits = number.removesuffix(unit) if unit else number
    units = _TIMES if is_time else _UNITS
    if not digits or unit not in units:
        raise error(errno.EINVAL, repr(number), "it needs a number" + (" and a unit of time, as 7d" if is_time else ", as 64M"))
    return int(digits) * units[unit]


def check(result: int, what: str, why: Any = None) -> int:
    """Raises the exception if a call returned -errno.  why: the `char **` that may have received a reason."""
    text = take_text(why) if why is not None else ""
    if result < 0:
        raise failed(-result, what, text)
    return result


def microseconds(time: Time) -> int:
    if isinstance(time, timedelta):
        time = datetime.now(timezone.utc) - time
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ValueError("a datetime needs a time zone")
        return (time - _EPOCH) // _MICROSECOND
    return time


def timestamp_of(time: Time | None) -> Any:
    """A struct tfs_ts: this version, or without a time the newest one."""
    return AUTO if time is None else (lib.TFS_AT, microseconds(time))
