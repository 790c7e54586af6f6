# SPDX-License-Identifier: Apache-2.0
"""
Exceptions.  Each is an OSError: errno is the library's error, strerror its text with the reason, which names the
table, row, family or clause.  Those that have a built-in relative are also of that class, so `except FileNotFoundError` works.
"""
import errno
import os
from typing import Final


class Error(OSError):
    """An error of the library."""


class NotFoundError(Error, FileNotFoundError):
    """ENOENT: there is no such table, snapshot, family or cell, or the table was dropped."""


class ExistsError(Error, FileExistsError):
    """EEXIST: the name is in use."""


class AccessError(Error, PermissionError):
    """EACCES, EPERM: the user has no permission, or the table is protected."""


class InvalidError(Error, ValueError):
    """EINVAL: a family does not exist, or an argument is wrong."""


class BusyError(Error):
    """EBUSY: another process has the store open, or the table has snapshots, or the family has cells."""


class CheckFailedError(Error):
    """ECANCELED: a check of a mutation failed, and nothing was applied.  `operation` is its index in the mutation."""

    operation: int | None = None


class DamagedError(Error):
    """EBADMSG: damage on disk."""


class ClosedError(Error, ValueError):
    """EBADF: the object or its store is closed, or the process is a child of the one that opened it."""


_CLASSES: Final[dict[int, type[Error]]] = {
    errno.ENOENT: NotFoundError,
    errno.EEXIST: ExistsError,
    errno.EACCES: AccessError,
    errno.EPERM: AccessError,
    errno.EINVAL: InvalidError,
    errno.EBUSY: BusyError,
    errno.ECANCELED: CheckFailedError,
    errno.EBADMSG: DamagedError,
    errno.EBADF: ClosedError,
}


def error(code: int, what: str, why: str | None = None) -> Error:
    """Makes the exception for a positive errno."""
    return _CLASSES.get(code, Error)(code, f"{what}: {os.strerror(code)}" + (f": {why}" if why else ""))


class BatchError(Error):
    """
    Row mutations of a batch failed; errno is that of the first.  `failures` has the row and the exception of each, of
    the first thousand; `count` is the number of all.
    """

    def __init__(self, code: int, reason: str, failures: list[tuple[bytes, Error]], count: int) -> None:
        super().__init__(code, reason)
        self.failures = failures
        self.count = count
