# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Functions for tests that use the Python package; sourced after t/lib/mount.sh.  python3 becomes Debian's, which has
# Debian's packages.
for module in cffi setuptools dask.bag distributed; do
	/usr/bin/python3 -c "import $module" 2>/dev/null || cannot_run "there is no Python module $module"
done
mkdir -p "$W/bin" && ln -s /usr/bin/python3 "$W/bin/python3"
export PATH="$W/bin:$PATH" TABLETFS_LIBRARY="$BUILD/libtabletfs.so.0.0.0" PYTHONPATH="$W/lib:$PYTHONPATH"
unset PYTHONHOME
# Builds the package from this tree into $W/lib.
python_package() (
	mkdir "$W/tree" "$W/tree/engine" && cp -R "$SRC/python" "$SRC/configure.ac" "$W/tree/" && cp "$SRC/engine/tabletfs.h" "$W/tree/engine/" &&
		cd "$W/tree/python" && python3 setup.py -q build --build-base "$W/base" --build-lib "$W/lib"
)
