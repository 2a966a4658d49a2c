"""The clients, and a stage for each test. The first test that needs a client installs it, which takes a while."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.interop import installing, scenes
from tests.interop.scenes import Stage


@pytest.fixture(scope="session")
def npm_clients() -> Path:
    return installing.npm_clients()


@pytest.fixture(scope="session")
def python_sdk() -> Path:
    return installing.pypi_client("agent-client-protocol==0.12.1")


@pytest.fixture(scope="session")
def acp_client() -> Path:
    return installing.pypi_client("acp-client==0.1.0")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with scenes.stage(tmp_path) as ready:
        yield ready
