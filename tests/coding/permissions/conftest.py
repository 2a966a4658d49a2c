"""The ground on which escapes are tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coding.permissions.workspace import Ground


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    """A folder with links and secrets. Nobody changes it: decisions only look."""
    return Ground(tmp_path_factory.mktemp("ground"))


@pytest.fixture
def own_ground(tmp_path: Path) -> Ground:
    """A ground for a test that runs what was allowed."""
    return Ground(tmp_path)
