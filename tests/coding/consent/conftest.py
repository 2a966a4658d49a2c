from __future__ import annotations

from pathlib import Path

import pytest

from tests.coding.config import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A user without settings yet, and a project without any."""
    return Home(tmp_path)
