# SPDX-License-Identifier: Apache-2.0
# setup.py makes _ffi.py from tabletfs.h.
from typing import Any

ffi: Any
