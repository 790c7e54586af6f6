# SPDX-License-Identifier: Apache-2.0
"""
Builds the package from the source tree of tabletfs: the version is that of configure.ac, and tabletfs/_ffi.py is made
from engine/tabletfs.h (declarations.py).  No compiler is needed.
"""
import pathlib
import re

from setuptools import setup

configure = (pathlib.Path(__file__).resolve().parent.parent / "configure.ac").read_text()
version = re.search(r"^AC_INIT\(\[tabletfs\], \[([^\]]+)\]", configure, re.M)
assert version, "configure.ac has no AC_INIT line with a version"
setup(version=version[1], cffi_modules=["declarations.py:ffi"])
