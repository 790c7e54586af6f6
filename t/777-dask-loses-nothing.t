#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tabletfs.dask with two worker processes of dask.distributed, one of which is killed while
# it writes: the result has each cell, and none twice.
# shellcheck source=t/lib/mount.sh disable=SC2119
PY_LIMIT=500
export DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT=120s DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP=120s
. "${SRC:-.}/t/lib/mount.sh" || exit 1
[ -z "$MODEL" ] || skip_all "the model has one tablet"
# shellcheck source=t/lib/python.sh
. "$SRC/t/lib/python.sh"
ok "the Python package is built" python_package
ok "mount" mount_store
cat >"$W/jobs.py" <<'PY'
from tap import *
import signal
import dask
import tabletfs.dask
from distributed import Client, LocalCluster

MARK = W + "/killed"


def upper(cell):
    """One process dies in the middle of its part."""
    if cell.row == b"r0777":
        try:
            os.close(os.open(MARK, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return (cell.row, "out", cell.qualifier + b"/q", cell.timestamp, cell.value.upper())


def cells(table, **clauses):
    with tabletfs.open(M) as store, store.table(table) as t:
        return sorted(c[:5] for c in t.scan(**clauses))


def raises(kind, fn, *args, **kw):
    try:
        fn(*args, **kw)
    except kind:
        return True
    return False


def main():
    with tabletfs.open(M) as store:
        for name, salt in ("in", ""), ("salted", "salt = 5; "), ("out", "salt = 3; "):
            borders = '"%01", "%02r0500", "%03"' if name == "salted" else '"r0200", "r0700", "r0900"' if name == "in" else '"%01"'
            with store.create_table(name, schema=salt + "splits = ( %s ); families = ({name = \"f\";}, {name = \"g\";}, {name = \"out\";});" % borders) as t:
                if name == "out":
                    continue
                with t.batch() as b:
                    for i in range(1000):
                        for ts in (1, 2):
                            b.put("r%04d" % i, "f", b"\xff", b"v%d" % i, ts)
                        b.put("r%04d" % i, "g", b"", b"\0", 7)
    for name in "in", "salted":
        bag = tabletfs.dask.read(M, name)
        same(bag.npartitions, 4, name + ": a partition for each tablet")
        with dask.config.set(scheduler="threads"):
            same(sorted(c[:5] for c in bag.compute()), cells(name), "  which have each cell")
            same(sorted(c[:5] for c in tabletfs.dask.read(M, name, family="f", versions=1, prefix="r05").compute()),
                 cells(name, family="f", versions=1, prefix="r05"), "  of those that clauses select")
        with tabletfs.open(M) as store, store.table(name) as t:
            t.flush()
        bag = tabletfs.dask.read(M, name, partitions=2)
        same(bag.npartitions, 2, "  and of two partitions")
        with dask.config.set(scheduler="threads"):
            same(sorted(c[:5] for c in bag.compute()), cells(name), "    too")
    with dask.config.set(scheduler="threads"):
        before, bag = cells("in"), tabletfs.dask.read(M, "in")
        with tabletfs.open(M) as store, store.table("in") as t:
            t.split("r0400"), t.merge("r0700")
        same(sorted(c[:5] for c in bag.compute()), before, "a split and a merge later, the same")
        ok(raises(TypeError, tabletfs.dask.write, tabletfs.dask.read(M, "in").map(lambda c: c._replace(timestamp=None)), M, "out"),
           "a cell without a timestamp is refused")
        ok(raises(tabletfs.Error, tabletfs.dask.write, tabletfs.dask.read(M, "in").map(lambda c: c._replace(family="x")), M, "out"),
           "and one of an unknown family")
        ok(raises(tabletfs.NotFoundError, tabletfs.dask.read, M, "none"), "a table that does not exist is an error")
        ok(raises(ValueError, tabletfs.dask.read, M, "in", stored_from=b""), "and bounds of partitions as clauses are")
    same(cells("out"), [], "nothing was written")

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, Client(cluster) as client:
        same(len(set(client.run(os.getpid).values())), 2, "two workers")
        for name in "in", "salted":
            if os.path.exists(MARK):
                os.unlink(MARK)
            same(tabletfs.dask.write(tabletfs.dask.read(M, name).map(upper), M, "out"), 3000, name + ": 3000 cells are written")
            ok(os.path.exists(MARK), "  although a worker was killed")
            same(cells("out"), sorted((r, "out", q + b"/q", ts, v.upper()) for r, _, q, ts, v in cells(name)), "  and each is there once")
            with tabletfs.open(M) as store, store.table("out") as t:
                t.truncate()

    # A data directory that no process serves.
    with tabletfs.open(W + "/own") as store, store.create_table("t", ["out"]):
        pass
    with dask.config.set(scheduler="threads"):
        tabletfs.dask.write(tabletfs.dask.read(M, "in").map(upper), W + "/own", "t")
        same(len(tabletfs.dask.read(W + "/own", "t").compute()), 3000, "threads of one process use a data directory")
PY
mv "$W/jobs.py" "$W/lib/jobs.py" # the workers import it
py <<<'import sys; del sys.modules["__main__"].__file__; import jobs; jobs.main()' # workers would open the file <stdin>
done_testing
