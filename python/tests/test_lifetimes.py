# SPDX-License-Identifier: Apache-2.0
"""Objects closed in any order, used after they are closed, shared by threads, inherited by fork, left by exceptions."""
import contextlib
import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import tabletfs
from tabletfs import Store, Table


def write(table: Table, count: int) -> None:
    with table.batch() as batch:
        for i in range(count):
            batch.put(b"%08d" % i, "f", "q", b"value")


def objects(directory: Path) -> list[Any]:
    """Everything that can be closed, the store first; each is in use."""
    store = tabletfs.open(directory, log_level=0)
    table = store.table("t") if "t" in store else store.create_table("t", ["f"])
    if not table.snapshots():
        write(table, 5000)
        table.create_snapshot("a").close()
        table.put("x", "f", "q", b"", 1)
        table.put("y", "f", "q", b"", 1)
        table.create_snapshot("b").close()
    a, b = table.snapshot("a"), table.snapshot("b")
    scan, diff = iter(table.scan()), iter(b.scan(absent_from=a))
    next(scan), next(diff)
    batch = table.batch()
    batch.put("z", "f", "q", b"")
    return [store, table, scan, a, b, diff, batch]


def test_any_order_of_closing(directory: Path) -> None:
    orders = list(itertools.permutations(range(7)))
    for order in orders[:: len(orders) // 12]:
        made = objects(directory)
        for i in order:
            made[i].close()
        for used in (made[0].tables, lambda: made[1].get("z", "f", "q"), made[6].flush, lambda: list(made[1])):
            with pytest.raises(tabletfs.ClosedError):
                used()
        for generator in (made[2], made[5]):
            assert next(generator, None) is None
        with tabletfs.open(directory, log_level=0) as again:
            assert "z" in again.table("t")


def test_any_order_of_dropping(directory: Path) -> None:
    orders = list(itertools.permutations(range(7)))
    for order in orders[13 :: len(orders) // 12]:
        made = objects(directory)
        for i in order:
            made[i] = None
        del made
        with tabletfs.open(directory, log_level=0):
            pass  # the store was closed, or it would be busy


def test_a_cycle_is_collected(directory: Path) -> None:
    made = objects(directory)
    made.append(made)
    made[0].made = made[1].made = made
    del made
    gc.collect()
    tabletfs.open(directory).close()


def test_use_after_close(store: Store, table: Table) -> None:
    write(table, 5000)
    mutation = table.mutation("r").put("f", "q", b"")
    scan = table.scan()
    running, unused = iter(scan), scan.rows()
    next(running)
    batch = table.batch()
    table.close()
    table.close()
    calls: list[Callable[[], object]] = [
        mutation.apply,
        lambda: iter(scan),
        lambda: table.schema,
        table.tablets,
        table.batch,
        lambda: table.snapshot("s"),
        lambda: batch.put("r", "f", "q", b""),
        lambda: "r" in table,
    ]
    for call in calls:
        with pytest.raises(tabletfs.ClosedError, match="table t.*: it is closed"):
            call()
    assert len(list(running)) == 4999 and len(list(unused)) == 5000, "what was begun has its own reference"
    batch.close()
    with store.table("t") as again:
        begun = again.scan().rows()
        next(begun)
        store.close()
        with pytest.raises(tabletfs.ClosedError):
            list(begun)
    store.close()
    with pytest.raises(ValueError):
        store.tables()


def test_an_exception_within_an_iteration(store: Store, table: Table) -> None:
    write(table, 3000)
    for _ in range(50):
        with pytest.raises(ZeroDivisionError):
            for i, cell in enumerate(table.scan()):
                if i == 1500:
                    raise ZeroDivisionError
    generator = iter(table.scan())
    next(generator)
    with pytest.raises(KeyError):
        generator.throw(KeyError())  # type: ignore[attr-defined]
    assert list(generator) == []


def test_threads_use_and_close(directory: Path) -> None:
    """Threads use everything while another one closes the store: each call succeeds or raises ClosedError."""
    for round in range(5):
        made = objects(directory)
        store, table = made[0], made[1]
        wrong: list[BaseException] = []
        started = threading.Barrier(7)

        def use(call: Callable[[], object]) -> None:
            started.wait()
            try:
                while True:
                    call()
            except tabletfs.ClosedError:
                pass
            except BaseException as e:
                wrong.append(e)

        shared = made[6]
        calls: list[Callable[[], object]] = [
            lambda: list(table.scan()),
            lambda: table.put("r", "f", "q", b""),
            lambda: shared.put("r", "f", "q", b""),
            lambda: store.table("t").cells("r"),
            lambda: list(made[4].scan(absent_from=made[3])),
            lambda: table.batch().close(),
        ]
        threads = [threading.Thread(target=use, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        started.wait()
        for i in range(300):
            table.get("r", "f", "q")
        store.close()
        for thread in threads:
            thread.join()
        assert wrong == []
        tabletfs.open(directory, log_level=0).close()


def test_threads_share_a_generator(table: Table) -> None:
    """A generator that another thread is using raises ValueError; no cell is returned twice."""
    write(table, 20000)
    generator = iter(table.scan())
    found: list[list[bytes]] = [[], [], []]

    def read(into: list[bytes]) -> None:
        while True:
            try:
                into.append(next(generator).row)
            except StopIteration:
                return
            except ValueError:
                pass

    threads = [threading.Thread(target=read, args=(into,)) for into in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(itertools.chain(*found)) == [b"%08d" % i for i in range(20000)]


def test_calls_release_the_gil(table: Table) -> None:
    """Waits in a call of the library until another thread has run."""
    write(table, 1000)
    count = 0
    for row in table.scan().rows():
        count += 1
    interval = sys.getswitchinterval()
    ran = threading.Event()
    sys.setswitchinterval(1000)
    try:
        thread = threading.Thread(target=ran.set)
        thread.start()
        for i in range(10000):
            table.get("00000001", "f", "q")
            if ran.is_set():
                break
    finally:
        sys.setswitchinterval(interval)
    assert ran.is_set()
    thread.join()


def test_fork(directory: Path) -> None:
    made = objects(directory)
    store, table, scan = made[:3]
    stop = threading.Event()
    busy = threading.Thread(target=lambda: [table.put("r", "f", "q", b"") for _ in iter(stop.is_set, True)])
    busy.start()
    for _ in range(10):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for used in (store.tables, lambda: table.get("z", "f", "q"), lambda: list(scan), made[6].flush):
                    try:
                        used()
                        os._exit(2)
                    except tabletfs.ClosedError as e:
                        assert "opened by the parent" in str(e)
                for closed in made:
                    closed.close()
                del made, store, table, scan, closed, used
                gc.collect()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    busy.join()
    assert len(list(scan)) >= 4999
    # A child that remains does not keep the store.
    ready, parent = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(parent)
        os.read(ready, 1)
        os._exit(0)
    store.close()
    tabletfs.open(directory).close()
    os.close(parent)
    os.waitpid(child, 0)
    os.close(ready)


def run(script: str, directory: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", script, str(directory), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def test_the_end_of_the_interpreter(directory: Path) -> None:
    """What is open is closed, in whatever state threads are; the batch is flushed."""
    script = """if True:
        import sys, tabletfs, threading
        store = tabletfs.open(sys.argv[1], log_level=0)
        table = store.create_table("t", ["f"])
        batch = table.batch()
        for i in range(1000):
            batch.add(table.mutation(f"{i}").check_absent("f", str(i % 2)).put("f", "1", b"").put("f", "2", b""))
        begun = iter(table.scan())
        def forever():
            while True: table.put("r", "f", "q", b"")
        for i in range(3):
            threading.Thread(target=forever, daemon=True).start()
        """
    process = run(script, directory)
    out = process.communicate(timeout=60)[0]
    assert process.returncode == 0, out
    with tabletfs.open(directory) as store:
        assert "999" in store.table("t")


INTERRUPTED = """if True:
    import signal, sys, tabletfs
    with tabletfs.open(sys.argv[1], log_level=0) as store:
        table = store.table("t")
        try:
            print("ready", flush=True)
            while True:
                for cell in table.scan(value="(x+x+)+y|never"):
                    pass
        except KeyboardInterrupt:
            print("interrupted")
    print("closed")
    """


def test_a_signal_interrupts_a_scan(directory: Path) -> None:
    with tabletfs.open(directory, log_level=0) as store:
        write(store.create_table("t", ["f"]), 30_000)
    for i in range(3):
        process = run(INTERRUPTED, directory)
        assert process.stdout and process.stdout.readline() == b"ready\n"
        time.sleep(0.02 * i)  # another place of the scan each time
        out = b""
        for _ in range(4):  # Python ignores an exception in a finalizer, so a signal may have no effect
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                out = process.communicate(timeout=15)[0]
                break
        assert out == b"interrupted\nclosed\n" and process.returncode == 0


def test_a_signal_handler_closes(store: Store, table: Table) -> None:
    """Within a call it is refused, and elsewhere it closes."""
    write(table, 10000)
    outcomes = set()

    def handler(number: int, frame: object) -> None:
        try:
            table.close()
            store.close()
            outcomes.add("closed")
        except tabletfs.BusyError:
            outcomes.add("busy")

    previous = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.01)
    try:
        with pytest.raises(tabletfs.ClosedError):
            while True:
                table.get("00000001", "f", "q")
        time.sleep(0.05)
        store.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert "closed" in outcomes or "busy" in outcomes


class Interruption(BaseException):
    pass


def test_exceptions_of_signal_handlers(directory: Path) -> None:
    """A handler raises an exception, at any place; the store can be closed, and opened again."""
    random = Random(11)

    armed = False

    def handler(number: int, frame: object) -> None:
        if armed:
            raise Interruption

    def work() -> None:
        with table.batch() as batch:
            while True:
                table.put("r", "f", "q", b"x")
                batch.put("s", "f", "q", b"x")
                store.table("t").cells("r")
                with table.mutation("r") as m:
                    m.append("f", "log", b".")
                for cell in table.scan(limit=40, value="[^x]*"):
                    table.get(cell.row, "f", "q")

    previous = signal.signal(signal.SIGALRM, handler)
    try:
        for round in range(8):
            with tabletfs.open(directory, log_level=0) as store:
                table = store.table("t") if "t" in store else store.create_table("t", ["f"])
                write(table, 200)
                for _ in range(25):
                    try:
                        armed = True
                        # Again, because Python drops an exception in a callback or __del__.
                        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0002, 0.004), 0.05)
                        work()
                    except Interruption:
                        armed = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
