# SPDX-License-Identifier: Apache-2.0
import errno
import os
from pathlib import Path

import pytest

import tabletfs
from tabletfs import Cell, Output, Store, Table


def test_tables_are_created_listed_renamed_and_dropped(store: Store) -> None:
    assert store.tables() == []
    store.create_table("b", ["x"]).close()
    store.create_table("a").close()
    assert store.tables() == ["a", "b"] == list(store)
    assert "a" in store and "c" not in store
    with pytest.raises(tabletfs.ExistsError):
        store.create_table("a")
    store.rename_table("a", "c")
    assert store.tables() == ["b", "c"]
    with pytest.raises(FileExistsError):
        store.rename_table("b", "c")
    store.rename_table("b", "c", replace=True)
    assert store.tables() == ["c"]
    store.drop_table("c")
    assert store.tables() == []


def test_more_tables_than_one_call_lists(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tabletfs._store._NAMES", 2)
    names = [f"t{i}" for i in range(5)]
    for name in names:
        store.create_table(name).close()
    assert store.tables() == names


def test_errors_have_errno_and_reason(store: Store, table: Table, directory: Path) -> None:
    with pytest.raises(tabletfs.NotFoundError) as absent:
        store.table("none")
    assert absent.value.errno == errno.ENOENT and "table none: " in str(absent.value)
    assert isinstance(absent.value, FileNotFoundError) and isinstance(absent.value, tabletfs.Error)
    with pytest.raises(tabletfs.InvalidError) as invalid:
        table.set_schema("families = { f = { gc = 3; }; };")
    assert invalid.value.errno == errno.EINVAL and "table t: schema: Invalid argument: line 1: " in str(invalid.value)
    with pytest.raises(ValueError):
        store.create_table("a/b")
    with pytest.raises(tabletfs.InvalidError):
        store.create_table("a\0b")
    with pytest.raises(TypeError):
        store.table(b"t")  # type: ignore[arg-type]
    with pytest.raises(tabletfs.InvalidError, match="no setting memtabel"):
        tabletfs.open(directory, memtabel=3)
    table.put("r", "f", "", b"x")
    with pytest.raises(tabletfs.Error) as full:
        store.drop_table("t")
    assert full.value.errno == errno.ENOTEMPTY


def test_a_failed_creation_leaves_no_table(store: Store) -> None:
    with pytest.raises(tabletfs.InvalidError):
        store.create_table("t", schema="what")
    with pytest.raises(tabletfs.InvalidError):
        store.create_table("t", ["f", "g/h"])
    assert store.tables() == []


def test_schema(store: Store) -> None:
    text = """
        salt = 4;
        groups = ( { name = "g"; compression = "zstd"; } );
        families = ( { name = "f"; gc = "maxversions=2"; group = "g"; } );
    """
    table = store.create_table("t", schema=text)
    schema = table.schema
    assert schema.name == table.name == "t" and schema.salt == schema.salt_in_use == 4
    assert schema.families["f"].gc == "maxversions=2" and schema.families["f"].group == "g"
    assert schema.groups["g"].compression == "zstd" and "default" in schema.groups
    assert "maxversions=2" in schema.text and schema.uid == os.getuid() and schema.mode == 0o755
    table.add_family("n", type="counter", gc="maxage=1d", mode=0o600)
    assert table.schema.families["n"].type == "counter" and table.schema.families["n"].max_age == 86400 * 10**6
    assert table.schema.families["n"].mode == 0o600 and table.schema.generation > schema.generation
    table.change_family("n", gc="", mode=0o640)
    table.rename_family("n", "m")
    assert table.schema.families["m"].gc == "" and table.schema.families["m"].mode == 0o640
    table.put("r", "m", "", b"1\n")
    with pytest.raises(tabletfs.BusyError):
        table.drop_family("m")
    table.drop_family("f")
    assert list(table.schema.families) == ["m"]


def test_scripts(store: Store, table: Table) -> None:
    table.set_script("one", "return 1")
    table.set_script("two", b"--\0\xff")
    table.set_script("empty", "")
    assert table.schema.scripts == {"empty": b"", "one": b"return 1", "two": b"--\0\xff"}
    with pytest.raises(tabletfs.InvalidError, match="64 KiB"):
        table.set_script("one", b"-" * 65537)
    with pytest.raises(tabletfs.InvalidError, match="name"):
        table.set_script("no.lua", "")
    with pytest.raises(tabletfs.InvalidError, match="one:1: "):
        table.set_script("one", "functio row(r) end")
    table.drop_script("two")
    with pytest.raises(tabletfs.NotFoundError):
        table.drop_script("two")
    assert list(table.schema.scripts) == ["empty", "one"]


def test_runs(table: Table) -> None:
    for i in range(100):
        table.put(f"row{i:02}", "f", "n", str(i).encode())
    text = """
        local rows, sum, lines = output.count(), output.sum("total"), output.lines()
        function row(r)
            rows:add() ; sum:add(tonumber(r:get("f:n")) * arg.by)
            if r.key < "row02" then lines:add(r.key) ; emit(r.key, "g:x", 7, "v") end
        end"""
    got = list(table.run(text, {"by": "2"}, name="sums"))
    assert sorted(o for o in got if isinstance(o, Output)) == sorted(
        [Output("rows", b"", b"100"), Output("total", b"", b"9900"), Output("lines", b"", b"row00"), Output("lines", b"", b"row01")]
    )
    cells = sorted((c.row, c.family, c.qualifier, c.timestamp, c.value) for c in got if isinstance(c, Cell))
    assert cells == [(b"row00", "g", b"x", 7, b"v"), (b"row01", "g", b"x", 7, b"v")]
    assert list(table.run("local n = output.count() function row(r) n:add() end", prefix="row1")) == [Output("n", b"", b"10")]
    assert list(table.scan(where="f:n > 97").rows()) == [b"row98", b"row99"]
    assert list(table.scan(where=["f:n > 97", b"not f:n = 99"]).rows()) == [b"row98"]
    assert list(table.scan(prefix=["row2", "row1", b"row11"], to="row21").rows()) == [b"row1%d" % i for i in range(10)] + [b"row20"]
    counting = "local n = output.count() function row(r) n:add() end"
    assert list(table.run(counting, prefix=["row1", "row11", "row2"])) == [Output("n", b"", b"20")]
    assert list(table.run(counting, rows=["row1", "row11"])) == [Output("n", b"", b"1")]
    assert list(table.run(counting, rows=[])) == [Output("n", b"", b"0")]
    assert list(table.scan(rows=["row07", b"row03", "none", "row07"]).rows()) == [b"row03", b"row07"]
    assert list(table.scan(rows=["row07", "row13"], prefix=["row1", "x"], reverse=True).rows()) == [b"row13"]
    assert list(table.scan(rows=[]).rows()) == [] == list(table.scan(prefix=[]).rows())
    some = list(table.scan(sample=0.3).rows())
    assert 0 < len(some) < 100 and some == list(table.scan(sample=0.3).rows()) and set(some) > set(table.scan(sample=0.1).rows())
    with pytest.raises(tabletfs.InvalidError):
        table.scan(sample=1.5)
    for wrong in ("f:n =", "none:q", "f:n and", []):
        with pytest.raises(tabletfs.InvalidError):
            list(table.scan(where=wrong))
    assert [c.row for c in table.scan(lua='tonumber(r:get("f:n")) > 97')] == [b"row98", b"row99"]
    with pytest.raises(tabletfs.InvalidError, match="no luck"):
        list(table.run('function row(r) error("no luck") end'))
    with pytest.raises(tabletfs.InvalidError, match="sums:1: "):
        list(table.run("functio", name="sums"))


def test_table_is_truncated_and_dropped(store: Store, table: Table) -> None:
    table.put("r", "f", "", b"x")
    assert not table.is_empty and table.id > 0
    store.rename_table("t", "u")
    assert table.get("r", "f", "") == b"x" and table.name == "u"
    table.truncate()
    assert table.is_empty
    store.drop_table("u")
    for call in (lambda: table.get("r", "f", ""), lambda: table.put("r", "f", "", b"x"), lambda: list(table)):
        with pytest.raises(tabletfs.NotFoundError):
            call()


def test_tablets(table: Table) -> None:
    for i in range(100):
        table.put(f"row{i:02}", "f", "", b"x" * 100)
    table.flush()
    table.split("row50")
    tablets = table.tablets()
    assert [t.begin for t in tablets] == [b"", b"row50"] and [t.end for t in tablets] == [b"row50", None]
    assert table.usage().cells == table.usage("f").cells == 100 and tablets[0].sstables >= 1
    assert len(list(table)) == 100
    table.merge("a")
    table.compact()
    table.purge()
    assert len(table.tablets()) == 1


def test_state_of_the_store(store: Store) -> None:
    assert "tabletfs_" in store.metrics() and store.status()
    assert store.space().total_bytes >= store.space().available_bytes > 0
    assert [s.tablets > 0 for s in store.servers()] == [True]
    store.sync()
    store.confirm_clock()
    store.change_config('compaction_rate = "5M";')
    assert "compaction_rate" in store.config
    with pytest.raises(tabletfs.InvalidError, match="nothing"):
        store.change_config("nothing = 1;")


def test_opening(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("sync = true;\nnothing = 3;\n")
    with pytest.raises(tabletfs.InvalidError, match="conf:2: "):
        tabletfs.open(directory, config=tmp_path / "conf")
    (tmp_path / "conf").write_text("memtable = \"4M\";\n")
    with tabletfs.open(directory, config=tmp_path / "conf", sync=True, log_level=-1) as store:
        assert "4" in store.config
    with pytest.raises(tabletfs.Error) as no_store:
        tabletfs.open(tmp_path, log_level=-1)
    assert no_store.value.errno == errno.ENOTEMPTY and str(tmp_path) in str(no_store.value)


def test_users(table: Table) -> None:
    table.put("r", "f", "q", b"x")
    table.put("r", "g", "q", b"x")
    table.change_family("f", mode=0o600)
    other = table.as_user(65534, 65534, [65533])
    with pytest.raises(PermissionError):
        other.get("r", "f", "q")
    assert other.get("r", "g", "q") == b"x"
    with pytest.raises(tabletfs.AccessError):
        other.put("r", "g", "q", b"y")
    assert [c.family for c in other] == ["g"]
