"""One bundle for all tests of a process: to make it takes longer than most of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.environment import data_folder


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that keeps the bundle."""
    return tmp_path_factory.mktemp("bundles")


@pytest.fixture
def one_bundle(bundles: Path) -> None:
    """Keep the bundle of the test there."""
    data_folder().mkdir(parents=True, exist_ok=True)
    (data_folder() / "hands").symlink_to(bundles)
