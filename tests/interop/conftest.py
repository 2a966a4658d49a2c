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
def acpx_program(npm_clients: Path) -> tuple[str, str]:
    """Node, and the program that it runs."""
    return str(installing.node(oldest=24)), str(npm_clients / "node_modules" / "acpx" / "dist" / "cli.js")


@pytest.fixture(scope="session")
def python_sdk() -> Path:
    return installing.python_sdk()


@pytest.fixture(scope="session")
def acp_client() -> Path:
    return installing.pypi_client(f"acp-client=={installing.RELEASES['acp-client']}")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with scenes.stage(tmp_path) as ready:
        yield ready
