# SPDX-License-Identifier: Apache-2.0
"""TABLETFS_LIBRARY names the library of the tree, and PYTHONPATH the built package: t/291-python-package.t sets both."""
from collections.abc import Iterator
from pathlib import Path

import pytest

import tabletfs


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def store(directory: Path) -> Iterator[tabletfs.Store]:
    with tabletfs.open(directory, log_level=0) as opened:
        yield opened


@pytest.fixture
def table(store: tabletfs.Store) -> Iterator[tabletfs.Table]:
    with store.create_table("t", ["f", "g"]) as created:
        yield created
