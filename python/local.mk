# SPDX-License-Identifier: Apache-2.0
# The Python package.  make does not build it: `pip install ./python`, or a packager, runs setup.py there, which reads
# ../configure.ac and ../engine/tabletfs.h.
EXTRA_DIST += %D%/pyproject.toml %D%/setup.py %D%/declarations.py $(wildcard $(srcdir)/%D%/tabletfs/*.py $(srcdir)/%D%/tabletfs/dask/*.py $(srcdir)/%D%/tests/*.py) \
	%D%/tabletfs/_ffi.pyi %D%/tabletfs/py.typed
