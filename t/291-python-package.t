#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python package, built from this tree as a packager builds it, passes its
# tests with this tree's library: each function, objects that are closed in any
# order, and the examples of tabletfs-python(3).  mypy --strict accepts it, its
# tests, and a program that uses it, but not one that uses it wrongly.
SRC=$(cd "${SRC:-.}" && pwd) || exit 1
BUILD=$(cd "${BUILD:-.}" && pwd) || exit 1
W=$(mktemp -d) || exit 1
trap 'rm -rf "$W"' EXIT
export SRC PYTHONDONTWRITEBYTECODE=1 TABLETFS_LIBRARY="$BUILD/libtabletfs.so.0.0.0" PYTHONPATH="$W/lib" MYPYPATH="$W/lib"
unset PYTHONHOME
python=/usr/bin/python3 # Debian's, which has Debian's packages
for module in cffi pytest setuptools mypy; do
	"$python" -c "import $module" 2>/dev/null && continue
	[ "${CI:-}" ] && { echo "not ok 1 - there is no python3-$module"; echo 1..1; exit 1; }
	echo "1..0 # SKIP there is no python3-$module"
	exit 0
done
n=0
# What its command prints is shown if it fails.
check() {
	local what=$1
	shift
	n=$((n + 1))
	if "$@" >"$W/out" 2>&1; then
		echo "ok $n - $what"
	else
		echo "not ok $n - $what"
		tail -n 60 "$W/out" | sed 's/^/# /'
	fi
}
build() (
	mkdir "$W/tree" "$W/tree/engine" && cp -R "$SRC/python" "$SRC/configure.ac" "$W/tree/" && cp "$SRC/engine/tabletfs.h" "$W/tree/engine/" &&
		cd "$W/tree/python" && "$python" setup.py -q build --build-base "$W/base" --build-lib "$W/lib"
)
types() {
	"$python" -m mypy --strict --cache-dir "$W/cache" "$@"
}
wrong_types() {
	! types "$W/wrong.py" && [ "$(grep -c ': error: ' "$W/out")" = 3 ]
}
cat >"$W/right.py" <<'PY'
import tabletfs
with tabletfs.open("/data", sync=True) as store, store.table("t") as table:
    names: list[str] = store.tables()
    value: bytes | None = table.get("row", "f", b"q")
    sizes: dict[bytes, int] = {cell.row: cell.size for cell in table.scan(family=["f"])}
PY
cat >"$W/wrong.py" <<'PY'
import tabletfs
table = tabletfs.open("/data").table(b"t")
table.put("row", "f", "q", "text")
n: int = table.get("row", "f", "q")
PY
check 'the package is built' build
check 'mypy --strict accepts the package, its tests and a program' types "$W/lib/tabletfs" "$SRC/python/tests" "$W/right.py"
check 'and finds each error of another program' wrong_types
# The lines for pip in README, in a copy of the tree.
readme_lines() (
	cd "$W/tree" && grep -oE '(python3 -m venv|env/bin/pip install) .*' "$SRC/README" >lines && [ "$(wc -l <lines)" = 2 ] &&
		PATH=/usr/bin:$PATH sh -e lines && env -u PYTHONPATH env/bin/python -c 'import tabletfs; tabletfs.open'
)
if "$python" -c 'import ensurepip, venv, wheel' 2>/dev/null; then
	check 'the lines in README install it in an environment' readme_lines
fi
check 'pytest' "$python" -m pytest -q -p no:cacheprovider --basetemp="$W/pytest" --tb=short "$SRC/python/tests"
sed -n '$s/^/# /p' "$W/out"
echo "1..$n"
