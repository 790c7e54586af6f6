# SPDX-License-Identifier: Apache-2.0
"""
Pointers of the library, which no thread may use after they are freed.

A Handle has one pointer.  `with handle as pointer` counts the thread as a user; the body makes the calls, during which
cffi releases the GIL.  close() makes later uses raise ClosedError.  The pointer is freed when no thread uses it any
more: by close() or by the last user.  A Group is all handles of one store.  To close it is to close each handle, to
wait for its users, and to close the store last, so objects may be closed in any order, from any thread.

The users are a dict of threads, because only its own thread changes an entry: then entering needs no lock.

A signal handler may run, and raise an exception such as KeyboardInterrupt, before and after any call that Python code
makes.  Therefore
  - a handle exists before the call that sets its pointer;
  - a pointer is taken from its handle and freed within one call of a built-in function (free_last);
  - the entry of the thread that closes, which such an exception may have left, counts only if the thread's stack shows
    that it is in a call, which a signal handler has interrupted.

After fork(2), the child has the memory but none of the library's threads.  All handles are then closed in the child,
and nothing is freed there.
"""
import atexit
import errno
import operator
import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from ._errors import error
from ._ffi import ffi
from ._library import lib


def _is_within_call() -> bool:
    """Returns true if the caller's caller interrupts a function of this package."""
    frame: FrameType | None = sys._getframe(1)
    outside = False
    while frame:
        if frame.f_globals.get("__package__") != __package__:
            outside = True
        elif outside:
            return True
        frame = frame.f_back
    return False


def free_last(free: Callable[[Any], Any], pointers: list[Any]) -> Any:
    """Removes the last pointer from the list, frees it, and returns the result.  IndexError: there is none."""
    return list(map(free, map(pointers.pop, (-1,))))[0]


def _free_first(free: Callable[[Any], Any], outs: list[Any]) -> Any:
    """The same of a list of pointers to pointers."""
    return list(map(free, map(operator.getitem, map(outs.pop, (-1,)), (0,))))[0]


class Handle:
    __slots__ = ("what", "is_open", "group", "result", "keep", "out", "_outs", "_free", "_users", "__weakref__")

    def __init__(self, group: "Group", what: str, kind: str, free: Callable[[Any], Any], keep: object = None) -> None:
        """
        kind: the type of `out`, to which the caller lets a call of the library write the pointer.  The caller is a user
        meanwhile, so that another thread does not free what is not made yet.  free accepts NULL.
        keep: objects that must live as long as the pointer, such as the handle from which it was made.
        """
        self.what = what
        self.is_open = True
        self.group = group
        self.result = 0  # of free
        self.out = ffi.new(kind)
        self._outs = [self.out]  # empty when it is freed
        self._free = free
        self._users: dict[int, int] = {}
        self.keep = keep
        with group.lock:
            group.handles.add(self)
            group.unfreed[id(self._outs)] = free, self._outs

    def _enter(self) -> None:
        thread = threading.get_ident()
        self._users[thread] = self._users.get(thread, 0) + 1

    def _leave(self) -> bool:
        """Returns true if this was the thread's last use."""
        thread = threading.get_ident()
        uses = self._users.get(thread, 1)
        if uses > 1:
            self._users[thread] = uses - 1
            return False
        self._users.pop(thread, None)
        return True

    def __enter__(self) -> Any:
        self._enter()
        if not self.is_open or self.group.is_closing:
            self.__exit__(None, None, None)
            raise error(errno.EBADF, self.what, self.group.why)
        return self.out[0]

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if not self._leave():
            return
        if not self.is_open:
            self._free_unused()
        elif self.group.is_closing:
            self.group.notify()

    def is_used(self) -> bool:
        """Returns true if a thread uses the pointer.  The caller has the group's lock."""
        thread = threading.get_ident()
        return any(user != thread or _is_within_call() for user in list(self._users))

    def is_freed(self) -> bool:
        """The same of the lock."""
        return not self._outs and not self.is_used()

    def _free_unused(self) -> None:
        with self.group.lock:
            if not self._outs or self.is_used():
                return
        self._enter()
        try:
            if self.keep is None:  # the store
                self.group.free_rest(self._outs)
            self.result = _free_first(self._free, self._outs)
            self.group.unfreed.pop(id(self._outs), None)
        except IndexError:
            pass  # another thread frees it
        finally:
            self._leave()
            self.group.notify()

    def close(self) -> None:
        self.is_open = False
        self._free_unused()

    def close_and_wait(self) -> None:
        while True:
            self.close()
            with self.group.lock:
                if self.is_freed():
                    return
                if self.is_used():
                    self.group.changed.wait()

    def __del__(self) -> None:
        if hasattr(self, "keep"):  # __init__ did not fail
            self.close()

    def forget(self) -> None:
        """In a child process."""
        self.is_open = False
        self._outs = []
        self._users = {}


class Group:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.handles: weakref.WeakSet[Handle] = weakref.WeakSet()
        self.root: weakref.ref[Handle] | None = None  # the store
        self.login = -1, -1  # the user and group as whom its server takes this process
        # Of each handle, how to free what it has; and the library's mutations of each thread.
        self.unfreed: dict[int, tuple[Callable[[Any], Any], list[Any]]] = {}
        self.mutations: dict[int, list[Any]] = {}
        self.is_closing = False
        self.why = "it is closed"
        _groups.add(self)

    def notify(self) -> None:
        with self.lock:
            self.changed.notify_all()

    def close(self) -> None:
        root = self.root() if self.root else None
        if root is None:
            return
        if _is_within_call():
            raise error(errno.EBUSY, root.what, "a signal handler cannot close it during a call")
        self.is_closing = True
        # A call that uses the root may make a handle until it ends; so may those of the others, which the loop finds.
        with self.lock:
            while root.is_used():
                self.changed.wait()
        while True:
            with self.lock:
                others = [handle for handle in self.handles if handle is not root and not handle.is_freed()]
            if not others:
                break
            for handle in others:
                handle.close_and_wait()
        root.close_and_wait()

    def free_rest(self, store: list[Any]) -> None:
        """
        Frees what exceptions have left, in mutations and in __del__.  Nothing uses it, because the caller frees the
        store, to which every handle refers.
        """
        for mutations in list(self.mutations.values()):
            while mutations:
                free_last(lib.tfs_mutation_free, mutations)
        for free, outs in list(self.unfreed.values()):
            if outs and outs is not store:
                _free_first(free, outs)

    def forget(self) -> None:
        """In a child process, whose only thread is the caller."""
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.why = "it was opened by the parent process"
        for handle in list(self.handles):
            handle.forget()
        self.handles = weakref.WeakSet()
        self.unfreed = {}
        self.mutations = {}


_groups: weakref.WeakSet[Group] = weakref.WeakSet()


def _forget_all() -> None:
    for group in list(_groups):
        group.forget()


def _close_all() -> None:
    """So that batches are flushed, and no thread of the library calls an interpreter that has ended."""
    for group in list(_groups):
        try:
            group.close()
        except OSError as e:
            print(f"tabletfs: {e.strerror}", file=sys.stderr)


os.register_at_fork(after_in_child=_forget_all)
atexit.register(_close_all)
